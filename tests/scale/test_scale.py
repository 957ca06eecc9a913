"""Programs over chunks of rows: the same results as whole, wherever chunks end and whoever computes them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree
from symgrad.scale import checkpoint, worker
from symgrad.scale.combining import Pairwise, compensated, plainly
from symgrad.scale.dask import TOGETHER, _check_versions
from symgrad.scale.run import _pace
from symgrad.targets.c.toolchain import compiler

ROWS = 103


# ---- programs, with specs and how many rounds they need


def logistic(w, X, y):
    return np.mean(np.log(1 + np.exp(-y * (X @ w))))


def softmax_over_rows(w, X):
    scores = X @ w
    p = np.exp(scores - np.max(scores))
    return np.sum(p / np.sum(p) * np.sum(X**2, axis=1))


def batch_norm(w, X, y):
    h = X @ w
    h = (h - h.mean(0)) / np.sqrt(h.var(0) + 1e-5)
    return np.mean((np.tanh(h).sum(1) - y) ** 2)


def embedding(E, idx, Y):
    return np.sum((E[idx].sum(1) - Y) ** 2)


def mixture(mu, X):
    d = -np.sum((X[:, None] - mu) ** 2, axis=2)
    m = np.max(d, axis=1)
    return np.mean(m + np.log(np.sum(np.exp(d - m[:, None]), axis=1)))


def network(params, X, y):
    h = np.tanh(X @ params["W"] + params["b"])
    return np.mean((np.sum(h, axis=1) - y) ** 2)


def filters(q, Z, y):
    m, p, loss = np.zeros(Z.shape[0]), np.ones(Z.shape[0]), 0.0
    for t in range(Z.shape[1]):
        p = p + q
        gain = p / (p + y**2)
        e = Z[:, t] - m
        loss = loss + np.sum(np.log(p + y**2) + e * e / (p + y**2))
        m, p = m + gain * e, (1 - gain) * p
    return loss


def factors(U, V, Y):
    return np.sum((U @ V.T - Y) ** 2) + np.linalg.norm(U) ** 2


def affine(w, X, y):
    return np.sum((X @ w[:-1] + w[-1] - y) ** 2)


def columns(c, x):
    A = np.empty((len(x), 3))
    for j in range(3):
        A[:, j] = x**j
    return np.sum(np.tanh(A @ c))


def classifier(w, X, labels):
    scores = X @ w
    return np.mean(np.log(np.sum(np.exp(scores), axis=1)) - scores[np.arange(len(X)), labels])


def chosen(w, X, labels):
    scores = np.tanh(X @ w)
    return np.mean(np.take_along_axis(scores, labels[:, None], axis=1)[:, 0])


def tokens(w, X, y):
    return np.mean((np.tanh(X @ w).sum((1, 2)) - y) ** 2)


def phases(h, x):
    return np.sum(np.abs(np.fft.rfft(x, axis=1) * h) ** 2)


def recurrent(w, s, X):
    total = 0.0
    for t in range(X.shape[0]):
        s = np.tanh(w @ s + X[t])
        total = total + s @ s
    return total + s[0]


def garch(theta, returns):
    theta = 1 / (2 + theta**2)
    variance, loss = theta[0] + np.mean(returns**2), 0.0
    for r in returns - np.mean(returns):
        loss = loss + np.log(variance) + r**2 / variance
        variance = theta[0] + theta[1] * r**2 + theta[2] * variance
    return loss


def roots(c, x):
    found = []
    for each in x:
        root = 1.0
        for _ in range(5):
            root = root - (root**3 - c - each**2) / (3 * root**2)
        found.append(root)
    return np.sum(np.stack(found))


def residuals(w, X, y):
    return X @ w - y


PROGRAMS = {
    "logistic": (sg.value_and_grad(logistic), ("float64[d]", "float64[n, d]", "float64[n]"), 1),
    "hessian": (sg.hessian(logistic), ("float64[d]", "float64[n, d]", "float64[n]"), 1),
    "softmax_over_rows": (sg.value_and_grad(softmax_over_rows), ("float64[d]", "float64[n, d]"), 4),
    "batch_norm": (sg.value_and_grad(batch_norm), ("float64[d, k]", "float64[n, d]", "float64[n]"), 4),
    "embedding": (sg.value_and_grad(embedding), ("float64[v, k]", "int64[n, 3]", "float64[n, k]"), 1),
    "mixture": (sg.value_and_grad(mixture), ("float64[k, d]", "float64[n, d]"), 1),
    "filters": (sg.value_and_grad(filters), ("float64[]", "float64[n, 40]", "float64[n]"), 1),
    "factors": (sg.value_and_grad(factors, argnums=(0, 1)), ("float64[n, k]", "float64[d, k]", "float64[n, d]"), 2),
    "affine": (sg.value_and_grad(affine), ("float64[d + 1]", "float64[n, d]", "float64[n]"), 1),
    "columns": (sg.value_and_grad(columns), ("float64[3]", "float64[n]"), 1),
    "classifier": (sg.value_and_grad(classifier), ("float64[d, v]", "float64[n, d]", "int64[n]"), 1),
    "chosen": (sg.value_and_grad(chosen), ("float64[d, v]", "float64[n, d]", "int64[n]"), 1),
    "tokens": (sg.value_and_grad(tokens), ("float64[d, v]", "float64[n, 5, d]", "float64[n]"), 1),
    "phases": (sg.value_and_grad(phases), ("complex128[9]", "float64[n, 16]"), 1),
    "recurrent": (sg.value_and_grad(recurrent, (0, 1, 2)), ("float64[k, k]", "float64[k]", "float64[n, k]"), 2),
    "garch": (sg.value_and_grad(garch), ("float64[3]", "float64[n]"), 3),
    "roots": (sg.value_and_grad(roots), ("float64[]", "float64[n]"), 1),
    "per sample": (sg.grad(logistic, argnums=(1, 0)), ("float64[d]", "float64[n, d]", "float64[n]"), 1),
    "residuals": (sg.compile(residuals), ("float64[d]", "float64[n, d]", "float64[n]"), 1),
    "jacobian": (sg.jacobian(residuals), ("float64[d]", "float64[n, d]", "float64[n]"), 1),
}
SIZES = {"n": ROWS, "d": 4, "k": 3, "v": 7}


def drawn(spec, rng):
    shape = tuple(eval(n, SIZES) if isinstance(n, str) else n for n in sg.spec(spec).shape)
    if spec.startswith("int"):
        return rng.integers(0, SIZES["v"], shape)
    x = rng.normal(size=shape)[()]
    return x + 1j * rng.normal(size=shape) if spec.startswith("complex") else x


def arguments(specs):
    rng = np.random.default_rng(0)
    return [drawn(spec, rng) for spec in specs]


def assert_close(got, expected, rtol=1e-9):
    got, expected = (tree.flatten(x)[0] for x in (got, expected))
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


def assert_same(got, expected):
    for a, b in zip(tree.flatten(got)[0], tree.flatten(expected)[0], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def plans():
    found = {}

    def plan(name):
        if name not in found:
            f, specs, _ = PROGRAMS[name]
            found[name] = sg.split(f, *specs, axis="n")
        return found[name]

    return plan


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_the_whole(plans, name):
    f, specs, rounds = PROGRAMS[name]
    args = arguments(specs)
    plan, expected = plans(name), f(*args)
    assert len(plan.rounds) == rounds
    for rows in (1, 17, ROWS, 1000):
        assert_close(plan(*args, rows=rows), expected)


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_parts_in_c():
    _, specs, _ = PROGRAMS["logistic"]
    args = arguments(specs)
    slope = sg.value_and_grad(logistic, target="c")
    plan = sg.split(slope, *specs, axis="n")
    assert plan.rounds[0].partial.compiled.native
    expected = plan(*args, rows=20)
    assert_close(expected, sg.value_and_grad(logistic)(*args))
    with ProcessPoolExecutor(1) as processes:  # which compiles it for itself
        assert_same(plan(*args, rows=20, executor=processes), expected)


def test_trees_and_axes_by_name():
    rng = np.random.default_rng(0)
    params = {"W": rng.normal(size=(4, 3)), "b": rng.normal(size=3)}
    X, y = rng.normal(size=(ROWS, 4)), rng.normal(size=ROWS)
    slope = sg.grad(network)
    plan = sg.split(slope, params, X, y, axis={"X": 0, "y": 0})
    assert_close(plan(params, X, y, rows=10), slope(params, X, y))
    assert_close(plan.bind(X=X, y=y)(params), slope(params, X, y))


def test_rows_may_lie_along_another_axis():
    slope = sg.grad(lambda w, X: np.mean(np.tanh(w @ X)))
    w, X = np.ones(3), np.random.default_rng(0).normal(size=(3, ROWS))
    plan = sg.split(slope, "float64[d]", "float64[d, n]", axis="n")
    assert_close(plan(w, X, rows=9), slope(w, X))


def test_a_compiled_program_is_split():
    compiled = sg.grad(logistic).compile("float64[d]", "float64[n, d]", "float64[n]")
    args = arguments(("float64[d]", "float64[n, d]", "float64[n]"))
    assert_close(sg.split(compiled, axis="n")(*args, rows=20), compiled(*args))


@pytest.mark.parametrize("optimize", [0, 1])
def test_other_levels(optimize):
    f, specs, _ = PROGRAMS["batch_norm"]
    args = arguments(specs)
    assert_close(sg.split(f, *specs, axis="n", optimize=optimize)(*args, rows=31), f(*args))


# ---- what is refused


@pytest.mark.parametrize(
    ("f", "spec", "operation"),
    [
        (lambda x: np.sum(np.sort(x)[:3]), "float64[n]", "sort"),
        (lambda x: np.sum(np.cumsum(x) ** 2), "float64[n]", "cumsum"),
        (lambda x: np.sum(np.exp(-((x[:, None] - x) ** 2))), "float64[n]", "subtract"),
        (lambda x: np.sum(x[1:] * x[:-1]), "float64[n]", ""),
        (lambda x: np.median(x), "float64[n]", ""),
    ],
)
def test_operations_that_mix_rows_are_refused_with_their_line(f, spec, operation):
    with pytest.raises(sg.errors.UnsupportedError, match=r"(?s)reads all rows.*test_scale\.py") as error:
        sg.split(sg.compile(f), spec, axis="n")
    assert operation in str(error.value)


def test_programs_that_raise_or_print_are_refused():
    def checked(a, x):
        if np.min(x) < 0:
            raise ValueError("negative")
        return np.sum(a * x)

    def in_a_loop(a, x):
        for each in x:
            if each < 0:
                raise ValueError("negative")
            a = a + each
        return a

    def printed(a, x):
        print(a)
        return np.sum(a * x)

    for f in (checked, in_a_loop, printed):
        with pytest.raises(
            sg.errors.UnsupportedError, match=r"(?s)raises, warns or prints.*test_scale\.py.*checks=False"
        ):
            sg.split(sg.compile(f), "float64[]", "float64[n]", axis="n")
    plan = sg.split(sg.compile(checked, checks=False), "float64[]", "float64[n]", axis="n")
    assert plan(np.float64(2.0), np.arange(5.0), rows=2) == 20.0


def test_an_argument_that_is_cut_in_part_is_refused():
    slope = sg.grad(lambda data: np.sum((data["X"] @ data["w"]) ** 2))
    with pytest.raises(sg.errors.ArgumentError, match=r"data\['X'\] has rows of chunks and data\['w'\]"):
        sg.split(slope, {"w": sg.spec("float64[d]"), "X": sg.spec("float64[n, d]")}, axis="n")


def test_wrong_arguments():
    slope = sg.grad(logistic)
    specs = "float64[d]", "float64[n, d]", "float64[n]"
    with pytest.raises(sg.errors.ArgumentError, match="no argument has an axis of size m"):
        sg.split(slope, *specs, axis="m")
    with pytest.raises(sg.errors.ArgumentError, match="has its arguments already"):
        sg.split(slope.compile(*specs), *specs, axis="n")
    with pytest.raises(sg.errors.ArgumentError, match=r"X is float64\[2 \* n, d\], which cannot be cut along n"):
        sg.split(sg.compile(lambda X, y: np.sum(X) + np.sum(y)), "float64[2*n, d]", "float64[n]", axis="n")
    with pytest.raises(sg.errors.ArgumentError, match="there is no argument Z"):
        sg.split(slope, *arguments(specs), axis={"Z": 0})
    plan = sg.split(slope, *specs, axis="n")
    w, X, y = arguments(specs)
    with pytest.raises(sg.errors.ShapeError, match="X 103, y 102"):
        plan(w, X, y[:-1])
    with pytest.raises(sg.errors.ArgumentError, match="Give X, y"):
        plan.bind(X=X)
    with pytest.raises(sg.errors.ArgumentError, match="sums='kahan'"):
        plan.bind(X=X, y=y, sums="kahan")
    with pytest.raises(sg.errors.ArgumentError, match="chunks= and arrays as well"):
        plan.bind(X=X, chunks=[(X, y)])
    with pytest.raises(sg.errors.ArgumentError, match="missing a required argument: 'w'"):
        plan.bind(X=X, y=y)()


@pytest.mark.parametrize("threads", [0, 2])
def test_a_chunk_of_another_kind_is_named(plans, threads):
    """A worker without symgrad would take any type or shape."""
    w, X, y = arguments(PROGRAMS["logistic"][1])
    executor = ThreadPoolExecutor(threads) if threads else None
    for rows in (X[50:].astype("U8"), X[50:].astype("float32"), X[50:, :2], X[50:, 0]):
        chunks = [(X[:50], y[:50]), (rows, y[50:])]
        with pytest.raises(sg.errors.ArgumentError, match=r"chunk 1, rows 50 to 103: .*the program was compiled for"):
            plans("logistic").bind(chunks=chunks, executor=executor)(w)


def test_arrays_of_another_kind_are_named(plans):
    w, X, y = arguments(PROGRAMS["logistic"][1])
    with pytest.raises(sg.errors.ArgumentError, match=r"bind: X is float32\[103, 4\], the plan is for float64\[n, d\]"):
        plans("logistic").bind(X=X.astype("float32"), y=y)
    with pytest.raises(sg.errors.ArgumentError, match=r"bind: y is float64\[103, 1\], the plan is for float64\[n\]"):
        plans("logistic").bind(X=X, y=y[:, None])
    with pytest.raises(sg.errors.ShapeError, match="X has d = 2, others have 4"):
        plans("logistic").bind(X=X[:, :2], y=y)(w)


@pytest.mark.parametrize("threads", [0, 2])
def test_a_chunk_that_is_not_finite_is_named(threads):
    f, specs, _ = PROGRAMS["logistic"]
    w, X, y = arguments(specs)
    X[60, 1] = np.nan
    plan = sg.split(f, *specs, axis="n", check_nan=True)
    executor = ThreadPoolExecutor(threads) if threads else None
    with pytest.raises(sg.errors.NonFiniteError, match="chunk 3, rows 60 to 80"):
        plan(w, X, y, rows=20, executor=executor)


def test_chunks_that_end_early_are_refused(plans):
    """Results of fewer rows would be wrong where the number of all rows is known before."""
    w, X, y = arguments(PROGRAMS["hessian"][1])
    with pytest.raises(sg.errors.ShapeError, match="the chunks have 100 rows, not 103"):
        plans("hessian").bind(chunks=[(X[:100], y[:100])], total=ROWS)(w)

    class Shorter(list):
        """The second round has fewer rows than the first."""

        def __iter__(self):
            yield from super().__iter__()
            self.pop()

    w, X, y = arguments(PROGRAMS["batch_norm"][1])
    with pytest.raises(sg.errors.ShapeError, match="the chunks have 60 rows, not 103"):
        plans("batch_norm").bind(chunks=Shorter([(X[:60], y[:60]), (X[60:], y[60:])]))(w)


# ---- chunks from elsewhere


def test_memory_maps(plans, tmp_path):
    f, specs, _ = PROGRAMS["batch_norm"]
    w, X, y = arguments(specs)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    objective = plans("batch_norm").bind(
        X=np.load(tmp_path / "X.npy", mmap_mode="r"), y=np.load(tmp_path / "y.npy", mmap_mode="r"), rows=25
    )
    assert_close(objective(w), f(w, X, y))
    assert_close(objective(2 * w), f(2 * w, X, y))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no count of pages of files")
def test_pages_of_memory_maps_are_released(tmp_path):
    """A pass over a file leaves no more of it in the memory of the process than a chunk."""

    def resident():
        (line,) = [x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("RssFile")]
        return 1024 * int(line.split()[1])

    np.save(tmp_path / "x.npy", np.ones(4_000_000))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    objective = sg.split(sg.compile(lambda x: np.sum(x)), "float64[n]", axis="n").bind(x=x, rows=500_000)
    objective()
    before = resident()
    assert np.sum(x) == 4e6
    assert resident() - before > x.nbytes / 2
    assert objective() == 4e6
    assert resident() - before < x.nbytes / 4


def test_changes_of_a_memory_map_that_is_no_file_stay(tmp_path):
    np.save(tmp_path / "x.npy", np.ones(100_000))
    x = np.load(tmp_path / "x.npy", mmap_mode="c")
    x[10] = 5.0
    objective = sg.split(sg.compile(lambda x: np.sum(x)), "float64[n]", axis="n").bind(x=x, rows=7000)
    assert objective() == objective() == 100_004.0


class Anew:
    """An iterable that begins anew."""

    def __init__(self, chunks):
        self.chunks = chunks

    def __iter__(self):
        yield from self.chunks


def test_iterables_of_chunks_of_any_lengths(plans):
    f, specs, _ = PROGRAMS["logistic"]
    w, X, y = arguments(specs)
    cuts = [(0, 5), (5, 5), (5, 60), (60, ROWS)]
    tuples = [(X[i:j], y[i:j]) for i, j in cuts]
    dicts = [{"y": y[i:j], "X": X[i:j]} for i, j in cuts]
    for chunks in (tuples, iter(tuples), dicts, Anew(tuples)):
        assert_close(plans("logistic").bind(chunks=chunks)(w), f(w, X, y))
    f, specs, _ = PROGRAMS["batch_norm"]
    w, X, y = arguments(specs)
    tuples = [(X[i:j], y[i:j]) for i, j in cuts]
    assert_close(plans("batch_norm").bind(chunks=Anew(tuples))(w), f(w, X, y))
    with pytest.raises(sg.errors.ArgumentError, match="reads all chunks 4 times"):
        plans("batch_norm").bind(chunks=iter(tuples))


def test_chunks_without_rows_alone_are_refused(plans):
    w, X, y = arguments(PROGRAMS["logistic"][1])
    for chunks in ([], [(X[:0], y[:0])]):
        with pytest.raises(sg.errors.ArgumentError, match="the chunks have no rows"):
            plans("logistic").bind(chunks=chunks)(w)


def test_chunks_that_do_not_fit_are_named(plans):
    w, X, y = arguments(PROGRAMS["logistic"][1])
    with pytest.raises(sg.errors.ShapeError, match="chunk 0 has arguments of 5 and 6 rows"):
        plans("logistic").bind(chunks=[(X[:5], y[:6])])(w)
    with pytest.raises(sg.errors.ArgumentError, match="chunk 1 has no y"):
        plans("logistic").bind(chunks=[{"X": X, "y": y}, {"X": X}])(w)


def test_an_error_of_a_source_ends_the_run(plans):
    w, X, y = arguments(PROGRAMS["logistic"][1])

    def broken():
        yield X[:5], y[:5]
        raise OSError("the file ends early")

    with pytest.raises(OSError, match="the file ends early"):
        plans("logistic").bind(chunks=broken())(w)
    assert not [t for t in threading.enumerate() if t.name.startswith("symgrad chunks")]


def test_a_size_that_chunks_need_is_asked_for(plans):
    f, specs, _ = PROGRAMS["hessian"]
    w, X, y = arguments(specs)
    chunks = [(X[:50], y[:50]), (X[50:], y[50:])]
    with pytest.raises(sg.errors.ArgumentError, match="n is needed before the last chunk, the number of all rows"):
        plans("hessian").bind(chunks=chunks)(w)
    assert_close(plans("hessian").bind(chunks=chunks, total=ROWS)(w), f(w, X, y))


@pytest.mark.parametrize("kind", ["zarr", "h5py"])
def test_arrays_of_other_libraries(plans, kind, tmp_path):
    library = pytest.importorskip(kind)
    f, specs, _ = PROGRAMS["logistic"]
    w, X, y = arguments(specs)
    if kind == "zarr":
        X_there, y_there = (library.array(x, chunks=(10, *x.shape[1:])) for x in (X, y))
    else:
        file = library.File(tmp_path / "data.h5", "w")
        X_there, y_there = (file.create_dataset(name, data=x) for name, x in (("X", X), ("y", y)))
    assert_close(plans("logistic").bind(X=X_there, y=y_there, rows=30)(w), f(w, X, y))


def test_batches_of_a_parquet_file(plans, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    f, specs, _ = PROGRAMS["batch_norm"]
    w, X, y = arguments(specs)
    columns = {f"x{i}": x for i, x in enumerate(X.T)} | {"y": y}
    parquet.write_table(pyarrow.table(columns), tmp_path / "rows.parquet")

    class Batches:
        def __iter__(self):
            for batch in parquet.ParquetFile(tmp_path / "rows.parquet").iter_batches(30):
                yield {"X": np.column_stack([batch[f"x{i}"] for i in range(X.shape[1])]), "y": np.asarray(batch["y"])}

    assert_close(plans("batch_norm").bind(chunks=Batches())(w), f(w, X, y))


def test_progress_has_rows_rate_and_the_time_left():
    assert _pace(1500, 4500, 1000.0) == "1,500 of 4,500 rows, 1,000 a second, 3 s left"
    assert _pace(1500, None, 1000.0) == "1,500 rows, 1,000 a second"


# ---- loops over rows


def stored(X, lengths):
    """Chunks of an array, of any lengths."""
    ends = np.cumsum(lengths)
    return [(X[j - n : j],) for n, j in zip(lengths, ends, strict=True)]


def test_loops_carry_from_chunk_to_chunk_and_back(plans):
    f, specs, _ = PROGRAMS["recurrent"]
    w, s, X = arguments(specs)
    first, last = plans("recurrent").rounds
    assert not first.reverse
    assert last.reverse
    lines = [line.strip() for line in str(plans("recurrent")).splitlines() if line.startswith("  carried")]
    assert lines == ["carried   carry_1, from chunk to chunk", "carried   carry_2, from the last chunk to the first"]
    expected = f(w, s, X)
    for lengths in ([1, 0, 50, 0, 51, 1], [0, ROWS]):
        assert_close(plans("recurrent").bind(chunks=stored(X, lengths))(w, s), expected)


def test_arguments_may_be_called_as_carries_are():
    def filtered(carry_1, x):
        s = 0.0
        for each in x:
            s = carry_1 * s + each
        return s

    x = np.random.default_rng(0).normal(size=ROWS)
    f = sg.value_and_grad(filtered)
    plan = sg.split(f, "float64[]", "float64[n]", axis="n")
    assert_close(plan(np.float64(0.5), x, rows=10), f(np.float64(0.5), x))


@pytest.mark.parametrize("order", [1, -1])
def test_loops_over_rows_give_their_results_in_order(order):
    """Rows, and the last carry, of a loop that runs forwards, and of the gradient of one, which runs backwards."""

    def filtered(a, x):
        s, found = 0.0, []
        for each in x:
            s = a * s + each
            found.append(s)
        return np.stack(found), s

    f = sg.compile(filtered) if order == 1 else sg.grad(lambda a, x: np.sum(filtered(a, x)[0] ** 2), 1)
    x = np.random.default_rng(0).normal(size=ROWS)
    plan = sg.split(f, "float64[]", "float64[n]", axis="n")
    for rows in (1, 7, ROWS):
        assert_close(plan(np.float64(0.5), x, rows=rows), f(np.float64(0.5), x))


def test_loops_that_run_in_both_directions_have_rounds_of_their_own():
    def forth(a, x):
        s, total = 0.0, 0.0
        for each in x:
            s = np.tanh(a * s + each)
            total = total + s**2
        return total

    def both(a, x):  # neither needs the other
        return forth(a, x), forth(a, np.cos(x))

    f = sg.compile(lambda a, x: (both(a, x), sg.grad(forth, 1)(a, x)))
    x = np.random.default_rng(0).normal(size=ROWS)
    plan = sg.split(f, "float64[]", "float64[n]", axis="n")
    assert [each.reverse for each in plan.rounds] == [False, True]
    assert_close(plan(np.float64(0.5), x, rows=10), f(np.float64(0.5), x))


@pytest.mark.parametrize(
    ("f", "spec"),
    [
        (lambda x, s: [s := s * 0.5 + each for each in x][-1] + np.sum(np.sort(x)), "float64[]"),
        (lambda x, s: [s := s * 0.5 + each for each in x][-1], "float64[n]"),
    ],
)
def test_loops_over_rows_that_need_all_rows_are_refused(f, spec):
    with pytest.raises(sg.errors.UnsupportedError, match=r"(?s)(needs|reads) all rows.*test_scale\.py"):
        sg.split(sg.compile(f), "float64[n]", spec, axis="n")


def test_a_loop_that_ends_early_is_refused():
    def until(x):
        total = 0.0
        for each in x:
            total = total + each
            if total > 3:
                break
        return total

    with pytest.raises(sg.errors.UnsupportedError, match=r"(?s)a loop reads all rows.*for each in x"):
        sg.split(sg.compile(until), "float64[n]", axis="n")


def test_chunks_that_cannot_be_read_backwards_are_refused(plans):
    _, specs, _ = PROGRAMS["recurrent"]
    _, _, X = arguments(specs)
    with pytest.raises(sg.errors.ArgumentError, match="from the last to the first, and a Anew gives them forwards"):
        plans("recurrent").bind(chunks=Anew(stored(X, [50, 53])))
    sums = sg.split(sg.compile(garch), "float64[3]", "float64[n]", axis="n")
    assert len(sums.rounds) == 2
    assert_close(
        sums.bind(chunks=Anew(stored(X[:, 0], [50, 53])))(np.ones(3)), garch(np.ones(3), X[:, 0])
    )  # a value alone


class Cut(list):
    """Chunks that are cut in another way each time."""

    def __reversed__(self):
        ((X,), (Y,)) = self
        return iter([(np.concatenate([X[-1:], Y]),), (X[:-1],)])


def test_chunks_that_are_cut_in_other_ways_are_refused(plans):
    w, s, X = arguments(PROGRAMS["recurrent"][1])
    with pytest.raises(sg.errors.ShapeError, match="chunk 1, rows 49 to 103 is another chunk than in the round before"):
        plans("recurrent").bind(chunks=Cut(stored(X, [50, 53])))(w, s)


def test_loops_over_rows_follow_a_stream():
    """A filter is up to date after each batch."""

    def filtered(a, x):
        s = 0.0
        for each in x:
            s = a * s + each
        return s

    x = np.random.default_rng(0).normal(size=ROWS)
    plan = sg.split(sg.compile(filtered), "float64[]", "float64[n]", axis="n")
    sums = plan.accumulate(np.float64(0.5))
    for i in range(0, ROWS, 20):
        sums.add(x=x[i : i + 20])
        assert_close(sums.result(), filtered(0.5, x[: i + 20]))


def test_a_loop_that_runs_backwards_alone():
    """Its first round reads chunks from the last on: their number of rows must be known, and batches do not do."""

    def filtered(a, x):
        s = 0.0
        for each in x:
            s = a * s + each**2
        return s

    x = np.random.default_rng(0).normal(size=ROWS)
    slope = sg.grad(filtered, 1)
    plan = sg.split(slope, "float64[]", "float64[n]", axis="n")
    assert [each.reverse for each in plan.rounds] == [True]
    expected = slope(np.float64(0.9), x)
    assert_close(plan(np.float64(0.9), x, rows=10), expected)
    chunks = stored(x, [50, 0, 53])
    assert_close(plan.bind(chunks=chunks, total=ROWS)(np.float64(0.9)), expected)
    with pytest.raises(sg.errors.ArgumentError, match="n is needed before the last chunk"):
        plan.bind(chunks=chunks)(np.float64(0.9))
    with pytest.raises(sg.errors.ArgumentError, match="needs the last chunk first"):
        plan.accumulate(np.float64(0.9))


def test_loops_over_rows_go_on_from_a_checkpoint(plans, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SELDOM", 0.0)
    w, s, X = arguments(PROGRAMS["recurrent"][1])
    plan, file = plans("recurrent"), tmp_path / "run.npz"
    expected = plan(w, s, X, rows=10)

    class Interrupted(list):
        def __reversed__(self):
            yield from list(super().__reversed__())[:4]
            raise KeyboardInterrupt

    chunks = [(X[i : i + 10],) for i in range(0, ROWS, 10)]
    with pytest.raises(KeyboardInterrupt):
        plan.bind(chunks=Interrupted(chunks), checkpoint=file)(w, s)
    assert file.exists()

    class Once(list):
        def __iter__(self):
            yield pytest.fail("the first round is over")

    assert_same(plan.bind(chunks=Once(chunks), checkpoint=file)(w, s), expected)


# ---- the order of sums, executors


@pytest.mark.parametrize("name", ["logistic", "batch_norm", "per sample", "recurrent"])
def test_executors_give_the_same_bits(plans, name):
    _, specs, _ = PROGRAMS[name]
    args = arguments(specs)
    expected = plans(name)(*args, rows=10)
    with ThreadPoolExecutor(3) as threads:
        assert_same(plans(name)(*args, rows=10, executor=threads), expected)
    if name in ("batch_norm", "recurrent"):
        with ProcessPoolExecutor(2) as processes:
            assert_same(plans(name)(*args, rows=10, executor=processes), expected)


def test_sums_are_combined_in_pairs():
    sums = Pairwise(plainly(lambda a, b: (f"({a[0]}{b[0]})",)))
    for letter in "abcdefg":
        sums.add((letter,))
    assert sums.total() == ("(((ab)(cd))((ef)g))",)
    assert len(sums.begun) == 3


def test_groups_are_combined_in_the_same_pairs():
    text = "def join(left, right):\n    return (f'({left[0]}{right[0]})',)\n"
    for count in range(1, 150):
        letters = [("", f"{i} ") for i in range(count)]
        sums = Pairwise(plainly(lambda a, b: (f"({a[0]}{b[0]})",)))
        for _, letter in letters:
            sums.add((letter,))
        found, which = letters, [1]
        while len(found) > 1 or which == [1]:
            groups = [found[k : k + TOGETHER] for k in range(0, len(found), TOGETHER)]
            found, which = [worker.combined(text, "join", group, which) for group in groups], [0]
        assert found == [sums.total()]


def test_compensated_sums_have_the_digits_of_one_pass():
    sums = Pairwise(compensated([np.add, np.maximum]))
    numbers = [1e16, 1.0, -1e16, 1.0]
    for x in numbers:
        sums.add((np.float64(x), np.float64(x)))
    assert sums.total() == (2.0, 1e16)
    assert sum(numbers) != 2.0
    infinite = Pairwise(compensated([np.add]))
    for x in (1.0, np.inf):
        infinite.add((np.float64(x),))
    assert infinite.total() == (np.inf,)


def test_compensated_sums_in_a_plan():
    plan = sg.split(sg.compile(lambda x: np.sum(x)), "float64[n]", axis="n")
    x = np.array([1e16, 1.0, 1.0, 1.0, -1e16, 1.0])
    assert plan.bind(x=x, rows=1, sums="compensated")() == 4.0


def test_a_run_goes_on_from_its_checkpoint(plans, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SELDOM", 0.0)
    _, specs, _ = PROGRAMS["batch_norm"]
    w, X, y = arguments(specs)
    chunks = [(X[i : i + 10], y[i : i + 10]) for i in range(0, ROWS, 10)]
    file, plan = tmp_path / "run.npz", plans("batch_norm")
    expected = plan.bind(chunks=chunks)(w)
    reads = []

    class Interrupted(Anew):
        def __iter__(self):
            reads.append(0)
            for k, chunk in enumerate(self.chunks):
                if len(reads) == 3 and k == 7:
                    raise KeyboardInterrupt
                yield chunk

    with pytest.raises(KeyboardInterrupt):
        plan.bind(chunks=Interrupted(chunks), checkpoint=file)(w)
    with pytest.raises(sg.errors.ArgumentError, match="is the checkpoint of another run"):
        plan.bind(chunks=Anew(chunks), checkpoint=file)(2 * w)
    begun = []

    class Counted(Anew):
        def __iter__(self):
            begun.append(0)
            yield from self.chunks

    assert_same(plan.bind(chunks=Counted(chunks), checkpoint=file)(w), expected)
    assert len(begun) == 2  # the third round, from its seventh chunk, and the fourth
    assert not file.exists()
    file.write_text("nothing")
    with pytest.raises(sg.errors.ArgumentError, match="is no checkpoint"):
        plan.bind(chunks=chunks, checkpoint=file)(w)


def test_rows_go_on_from_a_checkpoint_as_well(plans, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SELDOM", 0.0)
    w, X, y = arguments(PROGRAMS["per sample"][1])
    plan, file = plans("per sample"), tmp_path / "run.npz"
    chunks = [(X[i : i + 10], y[i : i + 10]) for i in range(0, ROWS, 10)]

    def ends():
        yield from chunks[:4]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan.bind(chunks=ends(), total=ROWS, checkpoint=file)(w)
    assert_same(plan.bind(chunks=iter(chunks), total=ROWS, checkpoint=file)(w), plan(w, X, y, rows=10))


def test_accumulated_batches(plans):
    f, specs, _ = PROGRAMS["logistic"]
    w, X, y = arguments(specs)
    sums = plans("logistic").accumulate(w)
    for i in range(0, ROWS, 20):
        sums.add(X=X[i : i + 20], y=y[i : i + 20])
        assert_close(sums.result(), f(w, X[: i + 20], y[: i + 20]))
    sums.add(X=X[:0], y=y[:0])
    assert_close(sums.result(), f(w, X, y))
    with pytest.raises(sg.errors.ArgumentError, match="the chunks have no rows"):
        plans("logistic").accumulate(w).result()
    with pytest.raises(sg.errors.ArgumentError, match="needs 4 rounds"):
        plans("batch_norm").accumulate(arguments(PROGRAMS["batch_norm"][1])[0])


# ---- a plan as a value


def test_a_plan_shows_its_rounds(plans):
    assert repr(plans("batch_norm")) == "<Plan batch_norm_value_and_grad along n, 4 rounds>"
    assert str(plans("logistic")).splitlines() == [
        "logistic_value_and_grad along n: 1 round",
        "round 1",
        "  a chunk   X: float64[m, d], y: float64[m], w: float64[d] -> float64[], float64[d]",
        "  combined  by add, add; 8*d + 8 bytes of each chunk travel",
        "  work      4*d*m + d + 10*m operations for a chunk",
        "  memory    8*d*m + 24*d + 8*m + 8 bytes for a chunk",
        "  time      about 30 ms for 1,000,000 rows of d = 30, an estimate; 248 ms to read them at 1 GB/s",
        "finish",
        "  t1: float64[], t2: float64[d], n: int -> float64[], float64[d]",
    ]


def test_estimated_times_are_those_of_the_sizes_at_hand():
    def line(columns):
        plan = sg.split(sg.grad(logistic), f"float64[{columns}]", f"float64[n, {columns}]", "float64[n]", axis="n")
        return next(line for line in str(plan).splitlines() if line.startswith("  time"))

    assert line(10).endswith("rows, an estimate; 88 ms to read them at 1 GB/s")
    assert line(1000).endswith("rows, an estimate; 8.01 s to read them at 1 GB/s")
    few, many = (
        float(line(columns).split()[2]) * {"ms": 1, "s": 1e3}[line(columns).split()[3]] for columns in (10, 1000)
    )
    assert 10 * few < many < 200 * few


def test_rows_of_chunks_are_taken_to_be_many(usual_sizes):
    """A chunk is read twice here, so its rows come in blocks; a program for any number of rows is kept short."""
    slope = sg.value_and_grad(lambda w, X, y: np.mean((X @ w - y) ** 2)).compile(*PROGRAMS["logistic"][1])
    assert "_in_parts(" not in slope.source.program
    assert "_in_parts(" in sg.split(slope, axis="n").rounds[0].partial.compiled.source.program


def test_parts_run_without_symgrad(plans, tmp_path):
    f, specs, _ = PROGRAMS["logistic"]
    w, X, y = arguments(specs)
    names = [path.name for path in plans("logistic").save(tmp_path)]
    assert names == [f"logistic_value_and_grad_{part}.py" for part in ("partial", "combine", "finish")]
    script = tmp_path / "script.py"
    np.savez(tmp_path / "data.npz", w=w, X=X, y=y)
    script.write_text(
        "import sys\n"
        "sys.modules['symgrad'] = None\n"
        "import numpy as np\n"
        "from logistic_value_and_grad_partial import logistic_value_and_grad_partial as partial\n"
        "from logistic_value_and_grad_combine import logistic_value_and_grad_combine as combine\n"
        "from logistic_value_and_grad_finish import logistic_value_and_grad_finish as finish\n"
        "data = np.load('data.npz')\n"
        "w, X, y = data['w'], data['X'], data['y']\n"
        "both = combine(partial(X[:40], y[:40], w), partial(X[40:], y[40:], w))\n"
        "np.savez('result.npz', *finish(*both, len(y)))\n"
    )
    subprocess.run([sys.executable, "-W", "error", str(script)], cwd=tmp_path, check=True)
    assert_close(list(np.load(tmp_path / "result.npz").values()), f(w, X, y))


def test_a_plan_pickles(plans):
    args = arguments(PROGRAMS["logistic"][1])
    again = pickle.loads(pickle.dumps(plans("logistic")))
    assert_same(again(*args, rows=10), plans("logistic")(*args, rows=10))


# ---- Dask


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.filterwarnings("ignore:Sending large graph:UserWarning")
@pytest.mark.parametrize("name", ["logistic", "batch_norm", "per sample", "filters", "recurrent"])
def test_dask_gives_the_same_bits(plans, cluster, name):
    array = pytest.importorskip("dask.array")
    _, specs, _ = PROGRAMS[name]
    args = arguments(specs)
    plan = plans(name)
    names = [p.name for p in plan.program.parameters]
    chunked = {x: args[names.index(x)] for x in plan.chunked}
    shared = [x for x, key in zip(args, names, strict=True) if key not in chunked]
    there = {key: array.from_array(x, chunks=10) for key, x in chunked.items()}
    objective = plan.bind(executor=cluster, **there)
    expected = plan.bind(rows=10, **chunked)(*shared)
    assert_same(objective(*shared), expected)
    assert_same(objective(*shared), expected)
    assert_same(plan.bind(executor=cluster, rows=10, **chunked)(*shared), expected)


def test_blocks_of_dask_may_have_no_rows(plans, cluster):
    array = pytest.importorskip("dask.array")
    w, X = arguments(PROGRAMS["softmax_over_rows"][1])
    there = array.from_array(X, chunks=((0, 40, 0, ROWS - 40, 0), X.shape[1]))
    whole = PROGRAMS["softmax_over_rows"][0](w, X)
    assert_close(plans("softmax_over_rows").bind(executor=cluster, X=there)(w), whole)


def test_a_worker_of_dask_that_dies_changes_nothing(plans, cluster):
    array = pytest.importorskip("dask.array")
    w, X, y = arguments(PROGRAMS["logistic"][1])
    plan = plans("logistic")
    objective = plan.bind(executor=cluster, X=array.from_array(X, chunks=10), y=array.from_array(y, chunks=10))
    expected = plan(w, X, y, rows=10)
    assert_same(objective(w), expected)
    (pid, *_) = cluster.run(os.getpid).values()
    os.kill(pid, 9)
    for _ in range(3):
        assert_same(objective(w), expected)


def test_workers_need_no_symgrad(plans, cluster):
    w, X, y = arguments(PROGRAMS["logistic"][1])

    def hidden(dask_worker):
        sys.modules["symgrad"] = None

    def shown(dask_worker):
        sys.modules.pop("symgrad", None)

    cluster.run(hidden)
    try:
        found = plans("logistic").bind(executor=cluster, X=X, y=y, rows=10)(w)
    finally:
        cluster.run(shown)
    assert_same(found, plans("logistic")(w, X, y, rows=10))


def test_workers_with_another_numpy_are_refused():
    class Client:
        def __init__(self, found):
            self.found = found

        def run(self, function):
            return self.found

    _check_versions(Client({"tcp://a": np.__version__}))
    with pytest.raises(sg.errors.ArgumentError, match=r"the worker tcp://b has NumPy 1\.0, here it is"):
        _check_versions(Client({"tcp://a": np.__version__, "tcp://b": "1.0"}))
    with pytest.raises(sg.errors.ArgumentError, match="has no worker"):
        _check_versions(Client({}))


def test_a_chunk_of_dask_that_is_not_finite_is_named(cluster):
    f, specs, _ = PROGRAMS["logistic"]
    w, X, y = arguments(specs)
    X[60, 1] = np.nan
    objective = sg.split(f, *specs, axis="n", check_nan=True).bind(executor=cluster, X=X, y=y, rows=20)
    with pytest.raises(sg.errors.NonFiniteError, match="chunk 3, rows 60 to 80"):
        objective(w)


def test_no_cluster_at_the_address():
    """Dask says so; a plan is given a client that has a cluster."""
    distributed = pytest.importorskip("distributed")
    with pytest.raises(OSError, match="Timed out trying to connect to tcp"):
        distributed.Client("tcp://127.0.0.1:9", timeout=0.2)


def test_dask_refuses_what_it_cannot_do(plans, cluster):
    array = pytest.importorskip("dask.array")
    w, X, y = arguments(PROGRAMS["logistic"][1])
    with pytest.raises(sg.errors.ArgumentError, match=r"bind: X is float32\[103, 4\], the plan is for float64\[n, d\]"):
        plans("logistic").bind(executor=cluster, X=array.from_array(X.astype("float32")), y=y, rows=10)
    with pytest.raises(sg.errors.ShapeError, match="X has d = 2, others have 4"):
        plans("logistic").bind(executor=cluster, X=array.from_array(X[:, :2]), y=y, rows=10)(w)
    with pytest.raises(sg.errors.ArgumentError, match="Give rows="):
        plans("logistic").bind(executor=cluster, X=X, y=y)
    some = array.from_array(y, chunks=10)
    with pytest.raises(sg.errors.ShapeError, match="does not know the sizes of its chunks"):
        plans("logistic").bind(executor=cluster, X=array.from_array(X, chunks=10), y=some[some > 0])


# ---- names


def test_import_symgrad_imports_nothing_of_it():
    code = "import sys, symgrad; print(sorted(m for m in sys.modules if m.startswith(('symgrad.scale', 'dask'))))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
