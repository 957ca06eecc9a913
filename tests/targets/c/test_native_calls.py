"""The short way to call a program under target="c": C answers what fits, and everything else goes the general way."""

import gc
import sys
import weakref
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from types import BuiltinFunctionType

import numpy as np
import optree
import pytest

import symgrad as sg
from symgrad.compiler.function import Function
from symgrad.errors import ArgumentError, NonFiniteError, SymgradError
from symgrad.targets.c.toolchain import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def waves(x, a, b):
    return np.sum(np.sin(x * a) * np.exp(-b * x))


def answering(*programs):
    """Let programs have no other way than the short one."""

    def general(*args, **kwargs):
        raise AssertionError("the general way")

    for program in programs:
        assert program.answer is not None
        program.run = program.accepts = general


def program_of(function):
    return function._cache.recent[0].compiled


def test_a_call_is_answered_in_c():
    x = np.linspace(-1, 1, 10)
    expected = sg.grad(rosenbrock, target="numpy")(x)
    slope = sg.grad(rosenbrock, target="c")
    slope(x)
    of_any_size = sg.grad(rosenbrock, target="c").compile("float64[n]")
    answering(program_of(slope), of_any_size)
    np.testing.assert_allclose(slope(x), expected, rtol=1e-12)
    np.testing.assert_allclose(of_any_size(x), expected, rtol=1e-12)
    np.testing.assert_allclose(of_any_size(x[:3]), sg.grad(rosenbrock, target="numpy")(x[:3]), rtol=1e-12)
    with pytest.raises(AssertionError, match="the general way"):
        of_any_size(x[::2])


@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (2, 0, 1)])
@pytest.mark.parametrize("numbers", [(0.5, 2.0), (np.float64(0.5), np.float64(2.0))])
def test_results_and_their_types(argnums, numbers):
    given = np.linspace(0, 1, 7), *numbers
    by_numpy, by_c = (sg.value_and_grad(waves, argnums, target=target) for target in ("numpy", "c"))
    expected, first = by_numpy(*given), by_c(*given)
    answering(program_of(by_c))
    for got in (first, by_c(*given)):
        flat, flat_expected = (list(np.atleast_1d(*pieces(x))) for x in (got, expected))
        for a, b in zip(flat, flat_expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        assert list(map(type, pieces(got))) == list(map(type, pieces(expected)))
        assert type(got) is tuple and type(got[1]) is type(expected[1])


def pieces(x):
    return [y for part in x for y in pieces(part)] if isinstance(x, tuple) else [x]


OTHERS = {
    "a view": lambda x: np.repeat(x, 2)[::2],
    "single precision": lambda x: x.astype(np.float32),
    "integers": lambda x: (10 * x).astype(int),
    "bytes in another order": lambda x: x.astype(">f8"),
    "another length": lambda x: x[:5],
    "a subclass": lambda x: x.view(Other),
    "a column": lambda x: x[:, None],
    "not aligned": lambda x: np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view(float),
}


class Other(np.ndarray):
    pass


@pytest.mark.parametrize("name", OTHERS)
def test_other_arguments(name):
    f = sg.grad(lambda x: np.sum(np.exp(x[0]) * x**2 + np.cos(x)), target="c")
    x = np.linspace(-1, 1, 10)
    f(x)
    other = OTHERS[name](x)
    expected = found = None
    try:
        expected = sg.grad(lambda x: np.sum(np.exp(x[0]) * x**2 + np.cos(x)), target="numpy")(other)
    except SymgradError as error:
        with pytest.raises(type(error)) as found:
            f(other)
        assert error.fact == found.value.fact
    else:
        np.testing.assert_allclose(f(other), expected, rtol=1e-5)
        assert f(other).dtype == expected.dtype


def test_arguments_that_are_not_read():
    given = np.ones(3), np.array([True, False]), np.ones(2, "int64")
    compiled = sg.grad(lambda x, mask, n: np.sum(x * np.exp(x)), target="c").compile(*given)
    answering(compiled)
    np.testing.assert_allclose(compiled(*given), 2 * np.exp(np.ones(3)))
    assert compiled.answer(given[0], np.ones(2), given[2]) is NotImplemented


def test_other_numbers():
    f = sg.compile(waves, target="c")
    x = np.linspace(0, 1, 7)
    f(x, 0.5, 2.0)
    for a in (1, True, np.float32(0.5), np.array(0.5), np.float64(0.5)):
        np.testing.assert_allclose(f(x, a, 2.0), waves(x, a, 2.0), rtol=1e-5)
    np.testing.assert_allclose(f(x, b=2.0, a=0.5), waves(x, 0.5, 2.0), rtol=1e-12)
    with pytest.raises(ArgumentError, match="missing a required argument: 'b'"):
        f(x, 0.5)
    with pytest.raises(ArgumentError, match="too many positional arguments"):
        f(x, 0.5, 2.0, 1.0)


def test_sizes_are_checked():
    f = sg.compile(lambda x, y: np.sum(np.exp(x[1:]) * y), target="c").compile("float64[n + 1]", "float64[n]")
    x = np.linspace(0, 1, 6)
    np.testing.assert_allclose(f(x, x[1:]), np.sum(np.exp(x[1:]) * x[1:]), rtol=1e-12)
    for y in (x, x[:1], x[:0]):
        with pytest.raises(ArgumentError, match="y"):
            f(x, y)


def test_what_a_function_has_captured_is_compared():
    scale, weights = 2.0, np.ones(3)
    f = sg.grad(lambda x: np.sum(np.exp(x * weights) * scale), target="c")
    x = np.zeros(3)
    assert f(x)[0] == f(x)[0] == 2
    scale = 3.0
    assert f(x)[0] == 3
    weights[:] = 2
    assert f(x)[0] == f(x)[0] == 6
    scale = 2.0
    assert f(x)[0] == 4


def test_options_in_force_are_compared():
    f = sg.grad(rosenbrock)
    x = np.linspace(-1, 1, 10)
    with sg.options(target="c"):
        f(x)
        program = program_of(f)
        answering(program)
        f(x)
    with sg.options(target="numpy", optimize=1):
        f(x)
        assert program_of(f) is not program
    with sg.options(target="c"):
        f(x)


def test_in_a_trace_a_call_is_part_of_that(monkeypatch):
    f = sg.compile(lambda x: np.sum(np.exp(x) * x), target="c")
    x = np.linspace(0, 1, 5)
    value = f(x)
    appended, append = [], Function._append
    monkeypatch.setattr(Function, "_append", lambda *args: appended.append(args) or append(*args))
    slope = sg.grad(lambda y: y * f(x))(2.0)
    assert len(appended) == 1
    np.testing.assert_allclose(slope, value, rtol=1e-12)


def test_errors_of_a_kernel():
    f = sg.compile(lambda x, i: np.sum(np.exp(x[i]) * 2), target="c")
    x, i = np.ones(3), np.array([0, 2])
    f(x, i)
    answering(program_of(f))
    with pytest.raises(IndexError, match="out of bounds"):
        f(x, i + 1)
    assert f(x, i) == pytest.approx(4 * np.e)


def test_nothing_is_kept_of_a_call():
    f = sg.value_and_grad(waves, (0, 1, 2), target="c")
    of_any_size = sg.value_and_grad(waves, (0, 1, 2), target="c").compile("float64[n]", "float64[]", "float64[]")
    given = np.linspace(0, 1, 300), np.float64(0.5), np.float64(2.0)
    tree = {"a": [given[0], given[1]], "b": (given[2], "text", 1)}
    of_trees = sg.compile(lambda p: {"a": [p["a"][0] * p["a"][1]], "b": np.exp(p["a"][0]) * p["b"][0]}, target="c")
    objects = [*given, None, NotImplemented, True, tree["a"], *tree]
    calls = [f, of_any_size, lambda *args: f(args[0][::-1], *args[1:]), lambda *args: of_trees(tree)]
    for call in calls:
        call(*given)
    before = [sys.getrefcount(x) for x in objects]
    for call in calls:
        for _ in range(1000):
            call(*given)
    assert all(abs(sys.getrefcount(x) - n) < 500 for x, n in zip(objects, before, strict=True))


def test_threads_are_answered():
    f = sg.grad(rosenbrock, target="c")
    given = [np.linspace(-1, k, 10 + k % 3) for k in range(60)]
    expected = [sg.grad(rosenbrock, target="numpy")(x) for x in given]
    with ThreadPoolExecutor(8) as pool:
        for got, right in zip(pool.map(f, given), expected, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-10, atol=1e-10)


def layers(p, x, n, kind=None):
    total = sum(np.sum(np.tanh(x @ w + b)) for w, b in p["layers"]) * p["scale"]
    return {"loss": total * n, "parts": [total, (np.exp(x[0, :2]), total * 2)]} if kind == "all" else total


def of_layers(rng):
    return {"scale": 2.0, "layers": [(rng.normal(size=(3, 2)), rng.normal(size=2)) for _ in range(2)]}


def test_trees_are_answered():
    rng = np.random.default_rng(0)
    given = of_layers(rng), rng.normal(size=(4, 3)), 7
    for transform in (sg.compile, sg.grad, sg.value_and_grad):
        for more in ((), (None,), ("all",))[: 3 if transform is sg.compile else 2]:
            by_c, by_numpy = (transform(layers, target=target) for target in ("c", "numpy"))
            by_c(*given, *more)
            answering(program_of(by_c))
            expected, got = by_numpy(*given, *more), by_c(*given, *more)
            leaves, structure = optree.tree_flatten(got)
            others, other = optree.tree_flatten(expected)
            assert structure == other
            assert not isinstance(got, dict) or list(got) == list(expected)
            assert [type(x) for x in leaves] == [type(x) for x in others]
            for a, b in zip(leaves, others, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)


OTHER_TREES = {
    "another order": lambda p: {"layers": p["layers"], "scale": p["scale"]},
    "another class": OrderedDict,
    "more": lambda p: p | {"more": 1.0},
    "fewer": lambda p: {"scale": p["scale"]},
    "another key": lambda p: {"scale": p["scale"], "layer": p["layers"]},
    "a list": lambda p: p | {"layers": [list(pair) for pair in p["layers"]]},
    "a tuple": lambda p: p | {"layers": tuple(p["layers"])},
    "another length": lambda p: p | {"layers": p["layers"][:1]},
    "another dtype": lambda p: p | {"scale": np.float32(2.0)},
    "another shape": lambda p: p | {"layers": [(w[:, :1], b[:1]) for w, b in p["layers"]]},
    "an array": lambda p: np.ones(3),
    "None": lambda p: None,
}


@pytest.mark.parametrize("name", OTHER_TREES)
def test_other_trees(name):
    rng = np.random.default_rng(0)
    p, x = of_layers(rng), rng.normal(size=(4, 3))
    by_c, by_numpy = (sg.compile(layers, target=target) for target in ("c", "numpy"))
    compiled = by_c.compile(p, x, 1)
    other = OTHER_TREES[name](p)
    assert compiled.answer(other, x, 1) is NotImplemented
    by_c(p, x, 1)
    got, expected = (outcome(f, other, x, 1) for f in (by_c, by_numpy))
    if isinstance(expected, tuple):
        assert got == expected
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-6)
        assert got.dtype == expected.dtype


def outcome(f, *given):
    try:
        return f(*given)
    except Exception as error:
        return type(error), str(error).splitlines()[0]


VIEWS = {
    "an item": lambda y: y[1],
    "a column": lambda y: y[:, 1],
    "backwards": lambda y: y[::-1],
    "transposed": lambda y: y.T,
    "another shape": lambda y: y.reshape(3, 4),
    "broadcast": lambda y: np.broadcast_to(y[0], (2, 3)),
    "zeros": lambda y: np.zeros(3),
    "two of one": lambda y: (y[0], y.T),
    "with the whole": lambda y: (y, y[0], y.ravel()),
}


@pytest.mark.parametrize("name", VIEWS)
def test_results_that_are_views_in_numpy(name):
    view = VIEWS[name]
    x = np.linspace(-1, 1, 12).reshape(4, 3)
    f = sg.compile(lambda x: (view(np.exp(x) * 2 + x), np.sum(np.exp(x) * x)), target="c").compile(x)
    answering(f)
    got, expected = f(x), sg.compile(lambda x: (view(np.exp(x) * 2 + x), np.sum(np.exp(x) * x)))(x)
    got, expected = pieces(got), pieces(expected)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
        assert type(a) is type(b) and not (a.ndim and any(np.shares_memory(a, c) for c in (x, *got) if c is not a))
        assert a.ndim == 0 or a.flags.writeable


def test_large_results_that_are_views_are_not_copied():
    x = np.ones((40, 50))
    f = sg.compile(lambda x: (np.exp(x) * 2 + x).T, target="c")
    assert f(x).flags.f_contiguous


def test_integers_are_answered():
    f = sg.compile(lambda x, n: np.sum(np.exp(x) * n), target="c")
    x = np.ones(3)
    for n in (3, 4):
        f(x, n)
    compiled = program_of(f)
    assert "n: int" in compiled.signature
    answering(compiled)
    assert compiled(x, 5) == pytest.approx(15 * np.e)
    for n in (True, 0, -1, 10**30, 2.0, np.int64(2)):
        assert compiled.answer(x, n) is NotImplemented
    fixed = sg.compile(lambda x, n: np.sum([np.exp(x) * k for k in range(n)]), target="c").compile(x, 3)
    answering(fixed)
    assert fixed(x, 3) == pytest.approx(9 * np.e)
    for n in (4, True, 3.0, np.int64(3)):
        assert fixed.answer(x, n) is NotImplemented


def test_integers_that_are_too_large():
    def powers(x, most):
        k = 1
        while k * x < most:
            k = k * 10
        return k

    f = sg.compile(powers, target="c")
    f(1.0, 1e3)
    assert program_of(f).answer is not None
    assert f(1.0, 1e3) == 1000
    assert program_of(f).answer(1e-5, 1e15) is NotImplemented


def test_loops_whose_integers_outgrow_64_bits_are_as_in_python():
    def grown(x, most):
        k = 1
        while k * x < most:
            k = k * 3 + 1
        return k, x * k

    f = sg.compile(grown, target="c")
    for most in (1e3, 1e30):
        assert f(1.0, most) == grown(1.0, most)


def test_what_c_does_not_answer():
    programs = {
        "a text": (lambda x: (np.exp(x) * 2, "exp"), (np.ones(3),)),
        "the argument": (lambda x: (np.exp(x) * 2, x), (np.ones(3),)),
        "one result twice": (lambda x: [y := np.exp(x) * 2, y], (np.ones(3),)),
        "more than a kernel": (lambda x: np.exp(np.linalg.eigvalsh(np.exp(x) * 2)), (np.ones((3, 3)),)),
    }
    for name, (f, given) in programs.items():
        by_c = sg.compile(f, target="c")
        by_c(*given)
        assert program_of(by_c).answer is None, name
        expected, got = sg.compile(f, target="numpy")(*given), by_c(*given)
        assert type(got) is type(expected), name
        for a, b in zip(*map(numbers_of, (got, expected)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def numbers_of(x):
    x = list(x.values()) if isinstance(x, dict) else x
    return [y for y in (x if isinstance(x, (list, tuple)) else [x]) if not isinstance(y, str)]


def test_nan_is_looked_for():
    f = sg.compile(lambda x: np.sqrt(x) * 2, target="c", check_nan=True)
    f(np.ones(3))
    with np.errstate(all="ignore"), pytest.raises(NonFiniteError, match="sqrt"):
        f(-np.ones(3))


def test_python_calls_c_at_once():
    x = np.linspace(-1, 1, 10)
    expected = sg.grad(rosenbrock, target="numpy")(x)
    f = sg.grad(rosenbrock, target="c")
    compiled = f.compile(x)
    f(x)
    for called, kind in ((f, Function), (compiled, sg.Compiled)):
        assert isinstance(called, kind)
        assert type(called).__name__ == kind.__name__
        assert isinstance(type(called).__call__, BuiltinFunctionType)
        for got in (called(x), called(x=x), called(np.repeat(x, 2)[::2])):
            np.testing.assert_allclose(got, expected, rtol=1e-12)
        with pytest.raises(ArgumentError, match="x"):
            called()
        with pytest.raises(ArgumentError, match="y"):
            called(x, y=x)
    f(x[:5])
    np.testing.assert_allclose(f(x), expected, rtol=1e-12)
    f.clear()
    assert type(f) is Function
    np.testing.assert_allclose(f(x), expected, rtol=1e-12)


def test_a_program_that_c_answers_is_let_go():
    f = sg.grad(rosenbrock, target="c")
    compiled = f.compile(np.ones(3))
    f(np.ones(3))
    alive = weakref.ref(f), weakref.ref(compiled)
    del f, compiled
    gc.collect()
    assert [x() for x in alive] == [None, None]
