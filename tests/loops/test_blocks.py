"""Programs in blocks of rows: the same numbers as whole, from whatever threads and processes they are called."""

import contextvars
import gc
import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import assume, example, given, strategies as st

import symgrad as sg
from symgrad.core import tree
from symgrad.core.graph import Op, reached, verify
from symgrad.core.interpret import interpret
from symgrad.core.tree import flatten
from symgrad.loops import machine, rows_of_block, tiling
from symgrad.loops.axes import axes_of
from symgrad.loops.loop import LOOP
from symgrad.loops.plan import plan_for
from symgrad.loops.scratch import scratch_bytes
from symgrad.ops.define import TABLE
from symgrad.targets.numpy import runtime
from symgrad.targets.numpy.expressions import INSTEAD
from tests.whole.test_random_programs import M, N, arguments, run, steps

SPECS = f"float64[n, {M}]", f"float64[{M}]", "float64[]"


def loops(program):
    """The loops of a compiled program."""
    return [dict(x.params)["body"] for x in program.graph.nodes if x.op is LOOP]


# ---- random programs


OVERWRITTEN = [  # the variance waits to be summed up while a sine is written over the block that it reads
    ("new_axis", 24, 25), ("add", 8, 13), ("stop", 8, 0), ("hypot", 28, 25), ("write", 12, 26), ("cumulate", 27, 4),
    ("where", 24, 11), ("variance", 15, 23), ("sin", 27, 12),
]  # fmt: skip


@pytest.mark.slow
@given(steps, st.integers(0, 99), st.sampled_from([N, M, 2, 7]), st.booleans())
@example(OVERWRITTEN, 0, M, False)
def test_random_programs(tiny_blocks, program, seed, n, symbolic):
    def f(x, y, s):
        return run(program, x, y, s)

    args = arguments(seed, n)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        assume(np.isfinite(f(*args)))
    specs = SPECS if symbolic and can_be_symbolic(f) else args
    exact, expected = sg.value_and_grad(f, (0, 1, 2), optimize=0).compile(*specs)(*args)
    value, gradients = sg.value_and_grad(f, (0, 1, 2)).compile(*specs)(*args)
    np.testing.assert_allclose(value, exact, rtol=1e-10, atol=1e-12)
    for g, e in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-8, atol=1e-10)


def can_be_symbolic(f):
    try:
        sg.compile(f, optimize=0).compile(*SPECS)
    except sg.errors.SymgradError:
        return False
    return True


K = 3  # samples are rows of K numbers; tables have K rows of samples' numbers


def one_hot(x):
    y = np.zeros_like(x)
    y[:, 0] = x[:, 1]
    y[:, 1:] += np.tanh(x[:, :-1])
    return y


def scaled_first(x):
    y = x * 1.5
    y[0] = y[-1] * 0.5
    return y


ROWS = {  # of rows of K numbers, and K such numbers: rows again
    "sin": lambda x, w: np.sin(x),
    "softplus": lambda x, w: np.log(1 + np.exp(x)),
    "plus": lambda x, w: x + w,
    "column": lambda x, w: x * np.tanh(x[:, :1]),
    "centre": lambda x, w: x - x.mean(0),
    "centre_row": lambda x, w: x - x.mean(1, keepdims=True),
    "standardise": lambda x, w: (x - x.mean(0)) / np.sqrt(x.var(0) + 1),
    "softmax_down": lambda x, w: np.exp(x - x.max(0)) / np.sum(np.exp(x - x.max(0)), axis=0),
    "softmax_across": lambda x, w: np.exp(x - x.max(1)[:, None]) / np.exp(x - x.max(1)[:, None]).sum(1)[:, None],
    "range": lambda x, w: (x - x.min(0)) / (x.max(0) - x.min(0) + 1),
    "spread": lambda x, w: x * (x.max() - x.min(axis=1, keepdims=True)) / 4,
    "logsumexp": lambda x, w: x - np.logaddexp.reduce(x, axis=0) / 3,
    "logsumexp_row": lambda x, w: x - np.logaddexp.reduce(x, axis=1, keepdims=True) / 3,
    "product": lambda x, w: x + np.prod(1 + np.tanh(x) / 4, axis=1)[:, None],
    "product_down": lambda x, w: x + np.prod(1 + np.tanh(x) / 4, axis=0),
    "extremes": lambda x, w: np.maximum(x, w) - np.minimum(x, 0.3),
    "cumulate": lambda x, w: np.cumsum(x, axis=0) / 4,
    "cumulate_row": lambda x, w: np.cumsum(x, axis=1) / 2,
    "matmul": lambda x, w: np.tanh(x @ np.outer(w, w)),
    "gram": lambda x, w: x @ np.tanh(x.T @ x),
    "batched": lambda x, w: (np.tanh(x[:, :, None] * w) @ x[:, :, None])[:, :, 0] / 3,
    "stacked": lambda x, w: np.tanh(np.stack([x, x * w]) @ np.outer(w, w)).sum(0) / 2,
    "distances": lambda x, w: np.exp(-np.sum((x[:, None, :] - np.outer(w, w)) ** 2, axis=2)),
    "einsum": lambda x, w: np.einsum("ij,jk,k->ik", x, np.outer(w, w), np.sin(w)) / 3,
    "einsum_down": lambda x, w: x + np.einsum("ij,ik->jk", x, np.sin(x)).sum(0) / 5,
    "quadratic": lambda x, w: x + np.einsum("ij,jk,ik->i", x, np.outer(w, w), x)[:, None] / 9,
    "transposed": lambda x, w: (np.sin(x.T) + w[:, None]).T,
    "folded": lambda x, w: np.tanh(x.reshape(x.shape[0], 1, K) * w).reshape(x.shape[0], K),
    "raveled": lambda x, w: np.sin(x.ravel()).reshape(x.shape),
    "columns": lambda x, w: x[:, np.array([2, 0, 0])] * w,
    "mirrored": lambda x, w: x[::-1] + x,
    "shifted": lambda x, w: x + np.concatenate([x[1:], x[:1]]),
    "joined": lambda x, w: np.concatenate([x, x * w], axis=1)[:, 1 : K + 1],
    "one_hot": lambda x, w: one_hot(x),
    "scaled_first": lambda x, w: scaled_first(x),
    "where": lambda x, w: np.where(np.sin(3 * x) > 0.1, x, w),
    "counted": lambda x, w: x * np.mean(x > 5) + (x > 5).sum(0),
    "mask": lambda x, w: np.where((x > -5).all(axis=1)[:, None], x, 0),
    "any": lambda x, w: np.where((x > 7).any(axis=0), x, x * w),
    "whole": lambda x, w: x + (np.sign(x + 9).astype(np.int64) * np.arange(K)).sum(axis=0),
    "constant": lambda x, w: x * np.arange(1.0, K + 1),
    "numbered": lambda x, w: x * np.cumsum(np.ones_like(x), axis=0) / x.shape[0],
    "clipped": lambda x, w: np.clip(x, -0.7, 0.9) + x,
    "norms": lambda x, w: x / (1 + np.linalg.norm(x + 3, axis=1, keepdims=True)),
    "variance": lambda x, w: x * np.var(x, axis=1)[:, None],
    "powers": lambda x, w: np.tanh(x[:, :1]) ** np.arange(K) @ np.outer(w, w),
    "last": lambda x, w: x - x[:, ::-1][:, :1],
    "pairs": lambda x, w: np.exp(-np.sum((x[:, None] - x) ** 2, axis=2)) @ x / 3,
    "forces": lambda x, w: np.sum((x[:, None] - x) / (1 + np.sum((x[:, None] - x) ** 2, axis=2))[..., None], axis=0),
    "attend": lambda x, w: softmax(np.tanh(x * w) @ x.T, 1) @ x,
    "attend_down": lambda x, w: softmax(np.tanh(x * w) @ x.T, 0) @ np.sin(x),
    "causal": lambda x, w: np.where(np.tri(x.shape[0], dtype=bool), x @ x.T, 0) @ np.tril(np.tanh(x @ x.T), -1) @ x / 9,
    "others": lambda x, w: (np.tanh(x @ x.T) * (1 - np.eye(x.shape[0]))) @ x / 3,
    "symmetric": lambda x, w: (np.tanh(np.outer(x @ w, x[:, 0])) + np.tanh(np.outer(x @ w, x[:, 0])).T) @ x / 3,
    "products": lambda x, w: np.triu(np.outer(x @ w, np.sin(x @ w)), k=1) @ x / 3,
}


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


row_steps = st.lists(st.tuples(st.sampled_from(sorted(ROWS)), st.integers(0, 9)), min_size=1, max_size=6)
ends = {
    "mean": np.mean,
    "sum": lambda x: np.sum(x) / 3,
    "squares": lambda x: np.sum(x * x, axis=0).sum(),
    "columns": lambda x: np.max(np.sum(x, axis=0)),
    "rows": lambda x: np.sum(np.logaddexp.reduce(x, axis=1)),
    "norm": lambda x: np.linalg.norm(x + 1),
}


def rows_program(names, end, keep=lambda y: y):
    """Some steps, each on what one of those before gave, joined so that none is lost."""

    def f(x, w):
        values = [x]
        for name, i in names:
            values.append(keep(ROWS[name](values[i % len(values)], w)))
        return ends[end](sum(values))

    return f


def draw(n, seed=0, dtype=float):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, K)).astype(dtype), rng.standard_normal(K).astype(dtype)


@pytest.mark.slow
@given(row_steps, st.sampled_from(sorted(ends)), st.sampled_from([1, 2, 3, 5, 8]), st.booleans())
def test_programs_of_rows(tiny_blocks, names, end, n, symbolic):
    assert_same_whole(rows_program(names, end), draw(n, seed=n), symbolic)


def without_blocks(f, args):
    with np.errstate(all="ignore"):
        return sg.value_and_grad(f, (0, 1), optimize=0)(*args)


def assert_same_whole(f, args, symbolic=False, rtol=1e-9, program=None, whole=None):
    """In blocks, for numbers or for symbols, what it is at level 0; returns the program, compiled if none is given."""
    exact, expected = whole or without_blocks(f, args)
    assert np.isfinite(exact)
    with np.errstate(all="ignore"):
        name = {"f": "float", "d": "float"}[args[0].dtype.char] + str(args[0].dtype.itemsize * 8)
        specs = (f"{name}[n, {K}]", f"{name}[{K}]") if symbolic else args
        program = program or sg.value_and_grad(f, (0, 1)).compile(*specs)
        value, gradients = program(*args)
    size = 1 + max(np.abs(e).max(initial=0) for e in expected)
    message = f"{args[0].shape}, of symbols: {symbolic}"
    np.testing.assert_allclose(value, exact, rtol=rtol, atol=rtol, err_msg=message)
    assert np.asarray(value).dtype == np.asarray(exact).dtype
    for g, e in zip(gradients, expected, strict=True):
        assert g.dtype == e.dtype
        np.testing.assert_allclose(g, e, rtol=rtol, atol=rtol * size, err_msg=message)
    return program


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_step_of_rows_alone(tiny_blocks, name):
    """So that a failure is found without shrinking: of one block, of a whole one and a part, of several.

    The interpreter gives the same for the program with loops, and its graphs are what graphs are.
    """
    f, shared = rows_program([(name, 0), ("sin", 1)], "squares"), None
    plain = sg.value_and_grad(f, (0, 1), optimize=0).compile(f"float64[n, {K}]", f"float64[{K}]")
    of_numbers = ((2, 5), (3, 5))[sorted(ROWS).index(name) % 2]
    for n in (2, 3, 5):
        args = draw(n)
        with np.errstate(all="ignore"):
            whole = plain(*args)
        shared = assert_same_whole(f, args, True, program=shared, whole=whole)
        if n in of_numbers:
            alone = assert_same_whole(f, args, whole=whole)
            assert loops(alone) or n == 3
    for program in (shared, alone):
        assert loops(program)
        check_nodes(program.graph)
        value, gradients = program(*args)
        found = interpret(program.graph.outputs, dict(zip(program.graph.inputs, args, strict=True)))
        for a, b in zip(found, [value, *gradients], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=f"of symbols: {program is shared}")


def check_nodes(graph):
    verify(graph)
    for x in graph.nodes:
        if x.op is LOOP:
            verify(dict(x.params)["body"].graph)


PAIRWISE = "pairs", "forces", "attend", "attend_down", "causal", "others", "symmetric", "products"


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRWISE)
def test_an_axis_that_meets_itself(tiny_blocks, name):
    """With no row, one row, or as many as another axis has, results have the same bits on any number of threads."""
    f = rows_program([(name, 0)], "squares")
    shared = sg.value_and_grad(f, (0, 1)).compile(f"float64[n, {K}]", f"float64[{K}]")
    plain = sg.value_and_grad(f, (0, 1), optimize=0)
    for n in (0, 1, K, 7):
        if n == 0 and "attend" in name:
            continue  # there is no maximum of nothing
        args = draw(n)
        one, three = (sg.value_and_grad(f, (0, 1), threads=threads)(*args) for threads in (1, 3))
        assert_bitwise(one, three)
        exact = plain(*args)
        for found in (one, shared(*args) if n else one):
            np.testing.assert_allclose(found[0], exact[0], rtol=1e-12)
            np.testing.assert_allclose(found[1][0], exact[1][0], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pairs", "forces", "attend", "others", "products"])
def test_a_table_of_pairs_is_never_whole(usual_sizes, name):
    """Neither for the value nor for the gradient, in which each point is both a row and a column."""
    f = rows_program([(name, 0)], "squares")
    assert "np.empty((n, n" not in sg.value_and_grad(f, (0, 1)).source(f"float64[n, {K}]", f"float64[{K}]")
    program = assert_same_whole(f, draw(1000))
    assert len(loops(program)) == 1
    assert program.cost.peak - program.cost.scratch < 1000 * 1000
    if name in ("pairs", "forces"):  # the long axis lies innermost, also of what each block reads whole
        assert ".copy()" in program.source
        assert "(3, 1000)" in program.source


@pytest.mark.slow
@given(row_steps, st.sampled_from(sorted(ends)), st.sampled_from([2, 5]), st.booleans())
def test_rows_of_float32(tiny_blocks, names, end, n, symbolic):
    f = rows_program(names, end, lambda y: np.tanh(y).astype(np.float32))
    assert_same_whole(f, draw(n, seed=n, dtype=np.float32), symbolic, rtol=3e-3)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.int8, bool])
@pytest.mark.parametrize("symbolic", [False, True])
def test_whole_numbers_and_truths(tiny_blocks, dtype, symbolic):
    def f(x, y):
        z = np.where(x > y, x, y)
        return {
            "sum": np.sum(z, axis=0), "max": np.max(z, axis=0), "min": np.min(z, axis=0), "prod": np.prod(z, axis=0),
            "any": np.any(z, axis=0), "all": np.all(z > 0, axis=0), "rows": z.sum(1), "total": np.sum(z), "wide": z * 2,
            "shares": z / (1 + np.sum(z, axis=0)), "largest": np.argmax(z, axis=1), "equal": x == y,
        }  # fmt: skip

    x, y = (np.random.default_rng(i).integers(0, 2 if dtype is bool else 5, (5, 3)).astype(dtype) for i in (1, 2))
    name = np.dtype(dtype).name
    program = sg.compile(f).compile(*([f"{name}[n, 3]"] * 2 if symbolic else [x, y]))
    assert loops(program)
    for n in (5, 4, 1) if symbolic else (5,):
        found, expected = program(x[:n], y[:n]), f(x[:n], y[:n])
        for key in expected:
            np.testing.assert_array_equal(found[key], expected[key], err_msg=key)
            assert found[key].dtype == expected[key].dtype, key


@pytest.mark.parametrize("n", [1, 2])
def test_few_rows(tiny_blocks, n):

    def f(x, w):
        y = np.tanh(x * w)
        return np.sum(y), np.sum(y, axis=0), np.prod(y, axis=0), y - y.sum(0), (y > 0).any(axis=0), (y > 0).all(axis=0)

    program = sg.compile(f).compile("float64[n, 3]", "float64[3]")
    assert loops(program)
    x, w = draw(n)
    for found, expected in zip(program.run(x, w), f(x, w), strict=True):
        np.testing.assert_allclose(found, expected)
        assert np.shape(found) == np.shape(expected)


def test_a_constant_with_rows(tiny_blocks):
    table = np.random.default_rng(5).standard_normal((5, K))
    program = assert_same_whole(lambda x, w: np.sum(np.sin(x * table) @ (w * table[0])), draw(5))
    assert loops(program)


# ---- threads and processes


def mixed(x, w):
    """Row results, sums and maxima, a product of matrices, and a second loop."""
    y = np.sin(x @ np.outer(w, w)) * np.exp(-x)
    z = (y - y.mean(0)) / np.sqrt(y.var(0) + 1)
    return np.sum(np.log(np.sum(np.exp(z), axis=1))) + np.max(np.sum(z * x, axis=0))


def assert_bitwise(found, expected):
    for a, b in zip(tree.flatten(found)[0], tree.flatten(expected)[0], strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("symbolic", [False, True])
def test_the_same_bits_for_any_number_of_threads(tiny_blocks, symbolic):
    args = draw(101)
    specs = (f"float64[n, {K}]", f"float64[{K}]") if symbolic else args
    programs = [sg.value_and_grad(mixed, (0, 1), threads=t).compile(*specs) for t in (1, 2, 3, None)]
    assert all("_in_parts" in program.source for program in programs)
    expected = programs[0](*args)
    for program in programs:
        for _ in range(10):
            assert_bitwise(program(*args), expected)


def test_many_callers_at_once(tiny_blocks):
    """Each gets its own numbers; scratch is never shared by two that run."""
    program = sg.value_and_grad(mixed, (0, 1)).compile(f"float64[n, {K}]", f"float64[{K}]")
    inputs = [draw(20 + i, seed=i) for i in range(8)]
    expected = [program(*args) for args in inputs]
    barrier = threading.Barrier(8)

    def calls(i):
        barrier.wait()
        return [program(*inputs[i]) for _ in range(30)]

    with ThreadPoolExecutor(8) as callers:
        for i, results in enumerate(callers.map(calls, range(8))):
            for result in results:
                assert_bitwise(result, expected[i])


def test_called_from_the_threads_of_the_pool(tiny_blocks):
    """More calls than the pool has threads, each of which wants helpers from that same pool."""
    program = sg.value_and_grad(mixed, (0, 1)).compile(f"float64[n, {K}]", f"float64[{K}]")
    args = draw(50)
    expected = program(*args)
    pool = runtime._pool(os.getpid())
    for future in [pool.submit(program, *args) for _ in range(20)]:
        assert_bitwise(future.result(timeout=60), expected)


def test_a_busy_pool_is_not_waited_for(tiny_blocks):
    program = sg.value_and_grad(mixed, (0, 1)).compile(f"float64[n, {K}]", f"float64[{K}]")
    args = draw(50)
    expected = program(*args)
    release = threading.Event()
    busy = [runtime._pool(os.getpid()).submit(release.wait, 60) for _ in range(runtime._cores())]
    try:
        assert_bitwise(program(*args), expected)
        assert not any(future.done() for future in busy)
    finally:
        release.set()


def test_loops_inside_of_loops():
    """A part of the rows may itself be worked on in parts."""

    def outer(start, stop):
        return sum(runtime._in_parts(lambda a, b: sum(range(a, b)), stop - start, 1)) + (stop - start) * start

    assert sum(runtime._in_parts(outer, 100, 2)) == sum(range(100))


def child(program, args, connection):
    connection.send(program(*args))
    connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork")  # of Python 3.12, and of JAX where it is there
def test_after_a_fork(tiny_blocks):
    """The pool's threads, and whoever holds a lock, are not there in a child."""
    program = sg.value_and_grad(mixed, (0, 1)).compile(f"float64[n, {K}]", f"float64[{K}]")
    args = draw(50)
    expected = program(*args)
    lock = runtime._blas().lock
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    with lock:
        process = context.Process(target=child, args=(program, args, there))
        process.start()
    assert here.poll(60), "the child does not answer"
    assert_bitwise(here.recv(), expected)
    process.join()


@pytest.mark.parametrize("bad", range(0, 60, 7))
def test_an_exception_inside_surfaces(tiny_blocks, bad):
    """The caller's np.errstate holds in every thread; the next call is not disturbed."""

    def f(x, w):
        return np.sum(np.log(x) * w, axis=0), x / w

    program = sg.compile(f).compile(f"float64[n, {K}]", f"float64[{K}]")
    x, w = (np.abs(a) + 1 for a in draw(60))
    expected = program(x, w)
    wrong = x.copy()
    wrong[bad, 1] = -1
    with np.errstate(all="raise"):
        for _ in range(5):
            with pytest.raises(FloatingPointError):
                program(wrong, w)
            assert_bitwise(program(x, w), expected)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        for _ in range(5):
            assert np.isnan(program(wrong, w)[0][1])
    assert_bitwise(program(x, w), expected)


def test_after_an_exception_nobody_goes_on():
    begun, running, seen = threading.Event(), threading.Event(), []

    def share(start, stop):
        seen.append(start)
        if threading.current_thread() is caller:
            begun.set()
            running.wait(60)
            raise ValueError("here")
        begun.wait(60)  # else the others may have done all of it before the caller's turn comes
        running.set()
        return start

    caller = threading.current_thread()
    with pytest.raises(ValueError, match="here"):
        runtime._in_parts(share, 10_000, 1, threads=2)
    count = len(seen)
    assert runtime._pool(os.getpid()).submit(len, seen).result() == count


def test_context_variables_hold_in_all_parts():
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(5)
    assert set(runtime._in_parts(lambda a, b: variable.get(), 100, 1, threads=4)) == {5}


def test_at_the_end_of_python(tmp_path):
    """Python can start no thread at its end: the call does without."""
    code = """
import atexit
from symgrad.targets.numpy import runtime
atexit.register(lambda: print(sum(runtime._in_parts(lambda a, b: b - a, 100, 1, threads=4))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.stdout.strip(), done.stderr) == ("100", "")


def test_blas_gets_its_threads_back(tiny_blocks):
    program = sg.value_and_grad(mixed, (0, 1)).compile(*draw(50))
    assert "_blas_on_one_thread" in program.source
    before = [library.get_num_threads() for library, _ in runtime._blas().libraries]
    with ThreadPoolExecutor(4) as callers:
        for future in [callers.submit(program, *draw(50)) for _ in range(20)]:
            future.result()
    assert [library.get_num_threads() for library, _ in runtime._blas().libraries] == before


# ---- scratch memory


@pytest.fixture
def nothing_kept():
    sg.release_scratch()
    yield
    sg.release_scratch()


def kept_bytes():
    return sum(s.nbytes for free in runtime._kept.values() for buffers in free for s in buffers)


@pytest.mark.of_numpy
def test_scratch_is_kept_and_released(tiny_blocks, nothing_kept):
    program = sg.value_and_grad(mixed, (0, 1)).compile(*draw(50))
    args = draw(50)
    expected = program(*args)
    assert kept_bytes() > 0
    kept = {id(s) for free in runtime._kept.values() for buffers in free for s in buffers}
    program(*args)
    assert {id(s) for free in runtime._kept.values() for buffers in free for s in buffers} >= kept
    sg.release_scratch()
    assert not runtime._kept
    assert_bitwise(program(*args), expected)


def test_released_while_a_call_runs(nothing_kept):
    with runtime._scratch(8, ((2,), 0, float)) as (mine,):
        sg.release_scratch()
        with runtime._scratch(8, ((2,), 0, float)) as (other,):
            assert not np.shares_memory(mine, other)
    assert kept_bytes() == 8 * 2 * 8


def test_who_is_inside_has_scratch_of_his_own(nothing_kept):
    with runtime._scratch(8, ((2,), 0, float)) as (outer,), runtime._scratch(8, ((2,), 0, float)) as (inner,):
        assert not np.shares_memory(outer, inner)


@pytest.mark.parametrize(("kilobytes", "entries"), [(1, 2), (100, 1), (300, 0)])
def test_what_is_kept_has_a_bound(nothing_kept, monkeypatch, kilobytes, entries):
    """However many sizes come, and however large they are."""
    monkeypatch.setattr(runtime, "_MOST", 256 << 10)
    for i in range(50):
        with runtime._scratch(128, ((kilobytes,), 0, float), ((i + 1,), 1, np.float32)):
            pass
        assert kept_bytes() <= 256 << 10
    assert len(runtime._kept) == entries


def test_many_small_ones_are_bounded_too(nothing_kept, monkeypatch):
    monkeypatch.setattr(runtime, "_MOST", 1 << 22)
    for i in range(300):
        with runtime._scratch(1, ((i,), 0, bool)):
            pass
    assert len(runtime._kept) <= runtime._MOST >> 16


def test_the_oldest_goes_first(nothing_kept, monkeypatch):
    monkeypatch.setattr(runtime, "_MOST", 3 << 20)
    for n in (1, 2, 3, 4):
        with runtime._scratch(((1 << 17) - n) // n, ((n,), 0, float)):
            pass
    assert list(runtime._kept) == [(((n,), 0, float),) for n in (2, 3, 4)]


def test_buffers_that_are_too_short_are_replaced(nothing_kept):
    for rows, kept in ((8, 8), (5, 8), (9, 9), (8, 9)):
        with runtime._scratch(rows, ((2,), 1, float)) as (buffer,):
            assert buffer.shape == (kept, 2)
        assert kept_bytes() == kept * 2 * 8


def test_blocks_and_their_buffers(nothing_kept):
    spec = (2,), 0, float
    assert list(runtime._blocks(5, 15, 10, 40, spec, spec)) == [(5, 15, [None, None])]
    assert not runtime._kept
    found = [(i, j, s.shape) for i, j, (s,) in runtime._blocks(5, 30, 10, 40, spec)]
    assert found == [(5, 15, (10, 2)), (15, 25, (10, 2)), (25, 30, (5, 2))]
    nbytes = runtime._LITTLE // 10 + 1
    assert [s.shape for _, _, (s,) in runtime._blocks(0, 10, 10, nbytes, spec)] == [(10, 2)]


def test_whole_buffers_for_rows_of_neighbours(nothing_kept):
    spec = (2,), 0, float
    ((_, _, (none,)),) = runtime._blocks(5, 15, 10, 40, spec, halo=1)
    assert none[:11] is none[:, :3] is None
    assert runtime._array(none[:11], (11, 2), np.float32).dtype == np.float32
    found = [(i, j, s.shape) for i, j, (s,) in runtime._blocks(5, 30, 10, 40, spec, halo=1)]
    assert found == [(5, 15, (11, 2)), (15, 25, (11, 2)), (25, 30, (11, 2))]
    assert runtime._array(part := np.ones((3, 2)), (3, 2)) is part
    turned = (2,), 0, float, (1, 0)
    assert [s.shape for _, _, (s,) in runtime._blocks(0, 7, 4, 40, turned)] == [(2, 4), (2, 3)]
    assert [s.shape for _, _, (s,) in runtime._blocks(0, 7, 4, 40, turned, halo=2)] == [(2, 6), (2, 6)]


def smoothed_twice(x):
    once = (x[1:] + 2.0 * np.exp(x[:-1])) ** 2
    return np.sum(np.sqrt(1.0 + (once[1:] - once[:-1]) ** 2) * x[1:-1])


@pytest.mark.parametrize("rows", [2, 3, 9, 40])
def test_one_short_block_with_neighbours_needs_no_buffers(usual_sizes, nothing_kept, rows):
    program = sg.value_and_grad(smoothed_twice).compile("float64[n, 4]")
    assert "halo=" in program.source
    x = np.random.default_rng(rows).normal(size=(rows, 4))
    value, gradient = program(x)
    assert not runtime._kept
    expected, by_hand = sg.value_and_grad(smoothed_twice, optimize=0)(x)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, by_hand, rtol=1e-9, atol=1e-12)


def crowding(width, points):
    placed = points / np.exp(width)
    squares = np.sum((placed[:, None] - placed) ** 2, axis=2)
    return np.sum(np.log(1.0 + np.sum(np.exp(-squares), axis=1)))


def test_loops_that_save_little_of_a_program_are_none(usual_sizes, monkeypatch):
    """Beside work that grows with the square of the rows, loops of what grows with the rows cost more with few."""
    gradient, specs = sg.value_and_grad(crowding, (0, 1)), ("float64[d]", "float64[n, d]")
    program = gradient.compile(*specs)
    assert program.source.count("in _blocks(") == program.source.count("def share") == 1
    rng = np.random.default_rng(0)
    for args in ((rng.normal(size=3), rng.normal(size=(n, 3))) for n in (1, 7, 300)):
        value, gradients = program(*args)
        expected, others = sg.value_and_grad(crowding, (0, 1), optimize=0)(*args)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        for a, b in zip(gradients, others, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    monkeypatch.setattr(tiling.Division, "_pays", lambda *args: True)
    assert sg.value_and_grad(crowding, (0, 1)).compile(*specs).source.count("def share") > 1


def put_together(x):
    y = np.zeros((x.shape[0], 2))
    y[:, 0] = np.exp(x)
    y[:, 1] = np.sin(x) * x
    return np.sum(np.log(1 + y**2) * x[:, None])


FEW_ROWS = {
    "rows": lambda x: np.sum(np.log(1 + np.exp(np.sin(x) * x)) * np.tanh(x) ** 2 + np.cos(x) * np.exp(np.sin(x))),
    "several lengths": lambda x: np.sum(np.tanh(x[1:] - x[:-1]) ** 2 * np.exp(x[1:])) + np.sum(np.exp(np.sin(x))),
    "pairs": lambda x: np.sum(np.sqrt(np.sum((x[:, None, None] - np.stack([x, x**2], 1)) ** 2, axis=-1) + 1)),
    "put together": put_together,
}


@pytest.mark.of_numpy
@pytest.mark.parametrize("name", FEW_ROWS)
def test_few_rows_are_computed_without_buffers(name, usual_sizes, nothing_kept):
    """A program for any size is right for few rows and for many, and allocates no scratch for few."""
    program = sg.value_and_grad(FEW_ROWS[name]).compile("float64[n]")
    assert "_rows_of_block(" in program.source
    for n in (3, 40, 300, 5000 if name != "pairs" else 500):
        x = np.random.default_rng(n).standard_normal(n)
        value, grad = sg.value_and_grad(FEW_ROWS[name]).compile(x, optimize=0)(x)
        got, d_x = program(x)
        assert got == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(d_x, grad, rtol=1e-9, atol=1e-9)
        assert name != "rows" or bool(runtime._kept) == (n == 5000)


def test_a_size_that_varies(tiny_blocks, nothing_kept, monkeypatch):
    monkeypatch.setattr(runtime, "_MOST", 1 << 20)
    program = sg.grad(lambda x: np.sum(np.exp(np.sin(x)) * x)).compile("float64[n, m]")
    assert "_blocks" in program.source
    for m in range(3, 60):
        x = np.random.default_rng(m).standard_normal((5, m))
        np.testing.assert_allclose(program(x), np.exp(np.sin(x)) * (1 + x * np.cos(x)))
    assert len(runtime._kept) <= 16


def later_peak(program, args):
    """The memory of a call whose buffers are there: a thread that comes later than the first call makes its own."""
    program(*args)
    gc.collect()
    return min(peak_of(program, args) for _ in range(3))


def peak_of(program, args):
    tracemalloc.start()
    try:
        result = program(*args)
        return tracemalloc.get_traced_memory()[1], sum(np.asarray(x).nbytes for x in tree.flatten(result)[0])
    finally:
        tracemalloc.stop()


def mixture(a, mu, X):
    d = X[:, None, :] - mu[None]
    return np.sum(np.log(np.sum(np.exp(-0.5 * np.sum(d * d, axis=2) + a), axis=1)))


def test_the_mixture_takes_no_more_memory_for_more_points(nothing_kept):
    rng = np.random.default_rng(0)
    a, mu = rng.standard_normal(25), rng.standard_normal((25, 10))
    program = sg.value_and_grad(mixture, (0, 1)).compile("float64[25]", "float64[25, 10]", "float64[n, 10]")
    assert loops(program)
    peaks = [later_peak(program, (a, mu, rng.standard_normal((n, 10))))[0] for n in (5_000, 40_000)]
    assert max(peaks) < 2_000_000
    assert peaks[1] - peaks[0] < 500_000


def test_a_second_call_allocates_its_results_only(nothing_kept):
    def f(x, y):
        return np.sum(np.log(1 + np.exp(-x * y)) * np.sin(x) + np.cos(y) * x)

    x, y = np.random.default_rng(0).standard_normal((2, 300_000))
    program = sg.value_and_grad(f, (0, 1)).compile(x, y)
    assert loops(program)
    peak, results = later_peak(program, (x, y))
    assert results == 2 * x.nbytes + 8
    assert peak < results + 500_000


# ---- the pass and its parts


def whole_graph(f, *specs):
    return sg.compile(f).compile(*specs, optimize=1).graph


def places(axis):
    return sorted((node.op.name, i) for node, i in axis.places.items())


def test_axes_that_an_operator_pairs_are_one():
    graph = whole_graph(lambda x, w: np.sin(x @ w.T), "float64[n, 4]", "float64[7, 4]")
    found = {str(axis.size): places(axis) for axis in axes_of(reached(graph.outputs))}
    assert found["n"] == [("input", 0), ("matmul", 0), ("sin", 0)]
    assert found["4"] == [("input", 1), ("input", 1), ("transpose", 0)]
    assert found["7"] == [("input", 0), ("matmul", 1), ("sin", 1), ("transpose", 1)]


def distances(x):
    return np.exp(-np.sum((x[:, None, :] - x[None]) ** 2, axis=2))


def test_an_axis_that_meets_itself_is_cut_one_way_or_the_other():
    """Rows or columns of a table are cut; the other operand of the table is read whole."""
    rows, _ = axes_of(reached(whole_graph(distances, "float64[n, 4]").outputs))
    (columns,) = rows.otherwise
    tables = [("exp", "multiply", "negative", "subtract", "sum")] * 2
    cut = [{name: i for name, i in places(axis) if name != "index"} for axis in (rows, columns)]
    assert [tuple(sorted(each.keys() - {"input"})) for each in cut] == tables
    assert cut == [dict.fromkeys(cut[0], 0), {**dict.fromkeys(cut[0], 1), "input": 0}]


def row_plan(graph, size="n"):
    nodes = reached(graph.outputs)
    (axis,) = [axis for axis in axes_of(nodes) if str(axis.size) == size]
    return plan_for(nodes, graph.outputs, axis)


def loop_of(plan, name):
    return [loop for node, loop in plan.loop.items() if node.op.name == name]


def test_one_loop_where_no_sum_is_needed_before():
    plan = row_plan(whole_graph(lambda x, w: np.sum(np.log(np.exp(x @ w) + 1), axis=0), "float64[n, 4]", "float64[4]"))
    assert plan.loops == 1


def test_two_loops_where_a_sum_must_be_whole_first():
    plan = row_plan(whole_graph(lambda x: np.sum(np.exp(x - x.max(axis=0))), "float64[n, 4]"))
    assert plan.loops == 2
    assert loop_of(plan, "max") == [0]
    assert loop_of(plan, "exp") == [1]


def test_what_has_no_rows_stays_outside():
    plan = row_plan(whole_graph(lambda x, w: np.sum(np.exp(x) * np.sin(w), axis=0), "float64[n, 4]", "float64[4]"))
    assert loop_of(plan, "sin") == []
    assert [k for node, k in plan.after.items() if node.op.name == "sin"] == [0]


def test_notes_say_rows_where_other_axes_are_padded(tiny_blocks):
    source = sg.compile(lambda x: np.sum(np.pad(np.exp(x), ((0, 0), (1, 1))) ** 3)).source("float64[n, 4]")
    assert "# float64[rows, 6]" in source


def test_what_is_dear_is_stored_and_what_is_cheap_computed_again(tiny_blocks):
    def dear(x):
        y = np.exp(np.sin(x))
        return np.sum((y - y.sum(axis=0)) ** 3)

    def cheap(x):
        y = x + 1
        return np.sum((y - np.sum(y * y, axis=0)) ** 3)

    assert [sum(type(j) is int for j in b.joins) for b in loops(sg.compile(dear).compile("float64[n, 4]"))] == [1, 0]
    assert [sum(type(j) is int for j in b.joins) for b in loops(sg.compile(cheap).compile("float64[n, 4]"))] == [0, 0]


def block_of(f, *specs):
    (block,) = loops(sg.compile(f).compile(*specs))
    return block


LONG = "float64[100000, 100]"


def test_a_result_takes_the_place_of_an_operand_that_dies():
    block = block_of(lambda x: np.sum(np.sin(np.exp(np.tanh(x)))), LONG)
    assert len(block.layout.buffers) == 1


@pytest.mark.parametrize("k", [2, 3, 4])
def test_no_more_buffers_than_values_that_live_at_a_time(k):
    def f(x):
        values = [np.exp(x * (i + 0.5)) for i in range(k)]  # all of them are needed below
        total = values[-1]
        for y in values[:-1]:
            total = np.arctan2(total, y)
        return np.sum(total)

    assert len(block_of(f, LONG).layout.buffers) <= k


def test_rows_come_last_where_the_other_axis_is_short():
    def f(x):
        return np.sum(np.exp(x - np.max(x, axis=1, keepdims=True)))

    assert {b.at for b in block_of(f, "float64[200000, 5]").layout.buffers} == {1}
    assert {b.at for b in block_of(f, "float64[20000, 500]").layout.buffers} == {0}


@pytest.mark.usefixtures("usual_sizes")
def test_products_repeated_along_an_axis_come_first():
    """So that each of them is of one matrix that lies in one piece."""

    def quadratic_forms(mu, q, x):
        y = (x - mu[:, None]) @ q
        return np.sum(np.log(np.sum(np.exp(-np.sum(y * y, axis=2)), axis=0)))

    specs = "float64[6, 40]", "float64[6, 40, 40]", "float64[100000, 40]"
    (block,) = loops(sg.value_and_grad(quadratic_forms, (0, 1)).compile(*specs))
    repeated = [b for b in block.layout.buffers if b.shape == (6, 40)]
    assert repeated
    assert {b.at for b in repeated} == {1}


@pytest.mark.usefixtures("usual_sizes")
def test_blocks_are_as_large_as_the_cache(monkeypatch):
    def f(x):
        return np.sum(np.exp(np.sin(x)) * np.tanh(x))

    rows = {}
    for near, share in ((1, 64), (4, 64), (1, 0), (1, 12), (4, 1)):
        monkeypatch.setattr(machine, "cache_bytes", lambda near=near: near << 20)
        monkeypatch.setattr(machine, "share_bytes", lambda share=share: share << 20)
        block = block_of(f, "float64[10000000, 10]")
        rows[near, share] = block.step
        kept = scratch_bytes([block])
        assert kept <= 6 * (near << 20)
    assert rows[4, 64] == pytest.approx(4 * rows[1, 64], rel=0.2)
    assert rows[1, 64] == pytest.approx(2 * rows[1, 0], rel=0.2)
    assert rows[1, 0] < rows[1, 12] < rows[1, 64]
    assert rows[4, 1] == pytest.approx(4 * rows[1, 0], rel=0.2)


@pytest.mark.usefixtures("usual_sizes")
@pytest.mark.parametrize("n", [100_000, 262_144, 1_000_003, 10_000_000])
def test_known_rows_are_shared_evenly(n):
    block = block_of(lambda x: np.sum(np.exp(np.sin(x)) * np.tanh(x)), f"float64[{n}]")
    starts = []
    runtime._in_parts(lambda start, stop: starts.append((start, stop)), n, block.step)
    lengths = [stop - start for start, stop in starts]
    assert len(lengths) % 2 == 0
    assert min(lengths) > 0.9 * max(lengths)


@pytest.mark.usefixtures("usual_sizes")
@given(st.integers(0, 10**7), st.integers(0, 10**4), st.integers(1, 10**7), st.integers(1, 10**7))
def test_rows_of_a_block(n, nbytes, least, most):
    """Blocks fit unless a row does not; there are as many parts as work for threads gives, and all rows lie in them."""
    rows = rows_of_block._rows_of_block(n, nbytes, least, most)
    assert rows == 1 or (rows - 1) * nbytes <= most
    assert rows * nbytes >= min(n * nbytes, least, most // 2)
    parts = []
    if n:
        runtime._in_parts(lambda start, stop: parts.append((start, stop)), n, rows, threads=1)
        assert parts[0][0] == 0
        assert parts[-1][1] == n
        assert all(a[1] == b[0] for a, b in itertools.pairwise(parts))
        assert len(parts) <= 16
    else:
        assert rows == 1


@pytest.mark.usefixtures("usual_sizes")
def test_one_text_has_blocks_for_any_sizes():
    """A program from specs has as many rows in a block as one from arrays of those sizes."""
    program = sg.value_and_grad(mixture, (0, 1)).compile("float64[k]", "float64[k, d]", "float64[n, d]")
    (block,) = loops(program)
    for n, k, d in ((100_000, 20, 5), (20_000, 50, 40), (5, 3, 2)):
        sizes = {"n": n, "k": k, "d": d}
        assert block.step_at(sizes) == block.step.subs({s: sizes[s.name] for s in block.step.free_symbols})
    assert block.step_at({"n": 10**6, "k": 20, "d": 5}) > 4 * block.step_at({"n": 10**6, "k": 100, "d": 10})
    assert program.source.count("_BLOCK = 8 << 20") == 1


@pytest.mark.usefixtures("usual_sizes")
def test_one_block_asks_for_no_threads(monkeypatch):
    program = sg.value_and_grad(mixture, (0, 1)).compile("float64[k]", "float64[k, d]", "float64[n, d]")
    asked = []
    monkeypatch.setattr(runtime, "_pool", lambda process: asked.append(process))
    rng = np.random.default_rng(0)
    program(rng.random(3), rng.random((3, 2)), rng.random((20, 2)))
    assert not asked


COLUMNS = [
    (lambda w, x, y: np.sum((x @ w - y) ** 2), ("float64[d]", "float64[n, d]", "float64[n]"), {"d"}),
    (lambda mu, x: np.sum(np.exp(-((x[:, None] - mu) ** 2))), ("float64[k]", "float64[n]"), {"k"}),  # n is summed away
    (lambda x: np.sum((x[:, 1:] - x[:, :-1]) ** 2), ("float64[n, m]",), set()),  # a grid
    (lambda u, i, y: np.sum((u[i] - y) ** 2), ("float64[n]", "int64[m]", "float64[m]"), set()),  # a table
    (lambda x, y: np.sum(x * y), ("float64[n]", "float64[n]"), set()),
    (lambda x: np.sum(x @ x), ("float64[n, n]",), set()),
    (lambda x: np.sum(np.exp(x)), ("float64[3, n]",), set()),
]


@pytest.mark.parametrize(("f", "specs", "columns"), COLUMNS)
def test_what_symbols_are_columns(f, specs, columns):
    program = sg.value_and_grad(f).compile(*specs)
    assert program.program.sizes.columns == columns


def test_how_many_cores_a_list_has():
    assert [machine._number_of(text) for text in ("0", "0-1\n", "0-3,8", "0,2,4-7")] == [1, 2, 5, 6]


@pytest.mark.parametrize("n", [10, 1000])
@pytest.mark.usefixtures("usual_sizes")
def test_a_small_program_is_not_cut(n):
    source = sg.value_and_grad(mixed, (0, 1)).source(f"float64[{n}, 3]", "float64[3]")
    assert "def share" not in source
    assert "_in_parts" not in source


def logistic_steps(x, steps=40):
    for _ in range(steps):
        x = x + 0.01 * x * (1 - x)
    return np.sum(x)


@pytest.mark.slow
@pytest.mark.usefixtures("usual_sizes")
@pytest.mark.parametrize(("n", "cut"), [(30_000, False), (120_000, True)])
def test_what_holds_more_than_is_kept_between_calls_is_cut(n, cut):
    """Each array fits in the cache; what the derivative holds of the steps is memory that the system gives anew."""
    program = sg.grad(logistic_steps, loops="unroll").compile(f"float64[{n}]")
    assert bool(loops(program)) == cut
    assert program.cost.peak < 1 << 26


def test_many_buffers_go_by_one_name(tiny_blocks):
    program = sg.grad(logistic_steps, loops="unroll").compile("float64[n]")
    assert "for i, j, s in _blocks(" in program.source
    assert "out=s[30]" in program.source
    x = np.random.default_rng(0).random(5)
    np.testing.assert_allclose(program(x), sg.grad(logistic_steps, optimize=0, loops="unroll")(x), rtol=1e-13)


# ---- names

NAMES = "i j rows start stop buffers share s1 s s2 m t1 rows_2 os _x x_ cache deque".split()


@pytest.mark.parametrize("name", NAMES)
def test_arguments_may_have_any_name(tiny_blocks, name):
    space = {"np": np}
    exec(f"def f({name}, w):\n    return np_sum(np_exp(np_sin({name}) * w))", {**space, **NUMPY}, space)
    args = draw(5)
    for specs in (args, (f"float64[n, {K}]", f"float64[{K}]")):
        program = sg.value_and_grad(space["f"], (0, 1)).compile(*specs)
        assert loops(program)
        expected = sg.value_and_grad(space["f"], (0, 1), optimize=0)(*args)
        for a, b in zip(tree.flatten(program(*args))[0], tree.flatten(expected)[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)


NUMPY = {"np_sum": np.sum, "np_exp": np.exp, "np_sin": np.sin}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", [0, 1])
def test_sizes_may_have_any_name(tiny_blocks, name, place):
    shape = ["3", "3"]
    shape[place] = name

    def f(x):
        y = np.exp(np.sin(x)) - x.mean(axis=0)
        return np.sum(y * y) * x.shape[place]

    program = sg.value_and_grad(f).compile(f"float64[{', '.join(shape)}]")
    assert loops(program)
    x = np.random.default_rng(1).standard_normal((5, 3) if place == 0 else (3, 5))
    for a, b in zip(program(x), sg.value_and_grad(f, optimize=0)(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_values_may_have_any_name(tiny_blocks, name):
    def f(x):
        y = sg.name(np.exp(np.sin(x)), name)
        return np.sum((y - y.mean(axis=0)) ** 3), y

    program = sg.compile(f).compile("float64[n, 3]")
    assert loops(program)
    x, _ = draw(5)
    for a, b in zip(program(x), f(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


# ---- modules


@pytest.mark.of_numpy
@pytest.mark.slow
@pytest.mark.parametrize("symbolic", [False, True])
def test_saved_modules_stand_alone(tiny_blocks, symbolic, tmp_path):
    table = np.random.default_rng(3).standard_normal((K, K))

    def f(x, w):
        return mixed(x @ table, w)

    args = draw(5)
    specs = (f"float64[n, {K}]", f"float64[{K}]") if symbolic else args
    program = sg.value_and_grad(f, (0, 1)).compile(*specs)
    assert loops(program)
    program.save(tmp_path / "saved.py")
    inputs = [draw(n, seed=n) for n in ((1, 2, 5, 64, 501) if symbolic else (5,))]
    np.savez(
        tmp_path / "inputs.npz",
        **{f"{k}{i}": a for i, pair in enumerate(inputs) for k, a in zip("xw", pair, strict=True)},
    )
    code = """
import sys, numpy as np
sys.modules["symgrad"] = None
import saved
data = np.load("inputs.npz")
for i in range(len(data.files) // 2):
    value, gradients = saved.f_value_and_grad(data[f"x{i}"], data[f"w{i}"])
    np.savez(f"out{i}.npz", value, *gradients)
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    for i, pair in enumerate(inputs):
        value, gradients = program(*pair)
        with np.load(tmp_path / f"out{i}.npz") as found:
            for a, b in zip(found.values(), [value, *gradients], strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["range", "min", "sum", "map", "zip", "_blocks", "_in_parts"])
def test_arguments_may_be_called_as_what_loops_call(tiny_blocks, name):
    scope = {"np": np}
    exec(f"def f({name}):\n    return np.sum(np.exp(np.sin({name})), axis=0), np.sum({name} * {name})", scope)
    x = np.random.default_rng(0).normal(size=(7, 2))
    for got, expected in zip(sg.compile(scope["f"])(x), scope["f"](x), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


# ---- what NumPy gets wrong where memory does not lie in one piece


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int32, np.int64, np.float32, np.float64])
def test_ufuncs_that_write_into_memory_with_gaps(dtype):
    """Ufuncs that `written_into` calls are right for all strides; the others have another form there."""
    rng, wrong = np.random.default_rng(0), set()
    ufuncs = {op.evaluate for op in TABLE.values() if isinstance(op, Op) and not op.package and op.elementwise}
    for ufunc in sorted((u for u in ufuncs if isinstance(u, np.ufunc)), key=lambda u: u.__name__):
        for gap, out_gap, n in itertools.product((1, 3, 4, 8), (2, 3, 8), (16, 33)):
            xs = [(1 + rng.uniform(0, 3, n * gap)).astype(dtype)[::gap] for _ in range(ufunc.nin)]
            try:
                with np.errstate(all="ignore"):
                    expected = np.array(ufunc(*xs))
                    found = ufunc(*xs, out=np.empty(n * out_gap, expected.dtype)[::out_gap])
            except (TypeError, ValueError):  # not of this dtype
                continue
            if not np.allclose(found, expected, rtol=1e-2 if expected.dtype.itemsize == 2 else 1e-5, equal_nan=True):
                wrong.add((ufunc, np.dtype(dtype).kind == "f"))
    assert wrong <= set(INSTEAD)


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_other_forms_of_such_ufuncs(dtype):
    x = np.array([[[1, -2, 3], [0, 5, -7]]] * 8, dtype)
    special = [np.nan, np.inf, -np.inf, -0.0] if dtype != np.int64 else []
    x[: len(special), 1, 0] = special

    def f(x):
        y = x + x[0, 0, 0]
        truths = [g(y) for g in (np.isnan, np.isinf, np.isfinite, np.signbit)]
        return [np.sum(np.where(t, 2 * t, x.shape[0]), axis=(0, 1)) for t in truths], np.negative(y) * 2

    for found, expected in zip(*[flatten(y)[0] for y in (sg.compile(f)(x), f(x))], strict=True):
        np.testing.assert_array_equal(found, expected)


# ---- places of each row


PICKS = {  # of scores, and a label for each row
    "pairs of indices": lambda s, l: s[np.arange(s.shape[0]), l],
    "columns of indices": lambda s, l: s[np.arange(s.shape[0])[:, None], l[:, None]][:, 0],
    "along an axis": lambda s, l: np.take_along_axis(s, l[:, None], axis=1)[:, 0],
    "several of a row": lambda s, l: s[np.arange(s.shape[0])[:, None], np.stack([l, l, (l + 1) % 3], axis=1)].sum(
        axis=1
    ),
    "the same for all rows": lambda s, l: s[np.arange(s.shape[0])[:, None], np.array([2, 0, 2])].sum(axis=1) * l,
    "identity": lambda s, l: np.sum(s * np.eye(3)[l], axis=1),
    "comparison": lambda s, l: np.sum(s * (l[:, None] == np.arange(3)), axis=1),
    "choice": lambda s, l: np.where(l[:, None] == np.arange(3), s, 0).sum(axis=1),
    "sorted": lambda s, l: np.sort(s, axis=1)[:, 0] * l,
}


def cross_entropy(pick):
    def loss(w, x, labels):
        scores = x @ w
        return np.mean(np.log(np.sum(np.exp(scores), axis=1)) - pick(scores, labels))

    return loss


def labelled(n):
    rng = np.random.default_rng(n)
    return rng.standard_normal((4, 3)), rng.standard_normal((n, 4)), rng.integers(-3, 3, n)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("name", PICKS)
def test_picks_of_each_row(tiny_blocks, name, symbolic):
    f = cross_entropy(PICKS[name])
    plain, derivative = sg.value_and_grad(f, optimize=0), sg.value_and_grad(f)
    shared = derivative.compile("float64[4, 3]", "float64[n, 4]", "int64[n]") if symbolic else None
    for n in (1, 3, 7):
        w, x, labels = labelled(n)
        labels = labels % 3 if name in ("comparison", "choice") else labels
        exact, expected = plain(w, x, labels)
        value, gradient = (shared or derivative.compile(w, x, labels))(w, x, labels)
        np.testing.assert_allclose(value, exact, rtol=1e-12)
        np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PICKS)
def test_picks_need_one_loop_and_no_array_of_all_rows(usual_sizes, name):
    program = sg.value_and_grad(cross_entropy(PICKS[name])).compile("float64[4, 3]", "float64[n, 4]", "int64[n]")
    assert len(loops(program)) == 1
    assert "np.empty((n" not in program.source


# ---- specs: the rows may be few or many


def least_squares(w, x, y):
    return np.mean((x @ w - y) ** 2)


def likelihoods(w, x, y):
    margin = y * (x @ w)
    scores = np.logaddexp(0, -margin) + 0.1 * np.sqrt(1 + margin**2)
    return np.sum(scores**2 / (1 + np.abs(scores)))


@pytest.mark.usefixtures("usual_sizes")
@pytest.mark.parametrize(
    ("f", "specs", "cut"),
    [
        (lambda x: np.sum(np.tanh(x) ** 2), ("float64[n]",), False),
        (least_squares, ("float64[d]", "float64[n, d]", "float64[n]"), False),
        (least_squares, ("float64[50]", "float64[1000000, 50]", "float64[1000000]"), True),
        (likelihoods, ("float64[20]", "float64[n, 20]", "float64[n]"), True),
        (lambda x: np.sum(distances(x)), ("float64[n, 4]",), True),
    ],
)
def test_a_loop_for_any_number_of_rows_gains_more_with_many_than_it_loses_with_few(f, specs, cut):
    program = sg.value_and_grad(f).compile(*specs)
    assert bool(loops(program)) == cut
    assert ("with few rows loops would lose more" in str(program.explain())) == (not cut)
