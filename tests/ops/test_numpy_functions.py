"""Functions of NumPy beyond the table of operators: partitions, bins, methods of ufuncs, functions of the user."""

import numpy as np
import pytest

import symgrad as sg
import symgrad.numpy as snp
from symgrad.derivatives.mapped import vectorized
from symgrad.errors import (
    ArgumentError,
    DTypeError,
    GraphError,
    ShapeError,
    SymgradError,
    UnsupportedError,
    WriteError,
)
from tests.oracle import check_derivatives, check_value, evaluate, trace
from tests.sweep import check_batch, check_close

RNG = np.random.default_rng(11)
X = RNG.permuted(np.linspace(-2, 3, 7))
A = RNG.permuted(np.linspace(-1, 2.5, 12)).reshape(3, 4)
T = RNG.permuted(np.linspace(-2, 2, 24)).reshape(2, 3, 4)
NANS = np.where(A > 1.5, np.nan, A)
BINS = np.array([0, 1, 1, 2, 0, 3, 3])

# ---- values as NumPy has them, and derivatives

SMOOTH = {
    "partition": (lambda x: np.partition(x, 3)[3], X),
    "partition of rows": (lambda x: np.partition(x, 1, axis=0)[1], A),
    "several parts": (lambda x: np.partition(x, (1, -2))[:, 1:3], A),
    "partition of all": (lambda x: np.partition(x, 4, axis=None)[4], A),
    "the smallest": (lambda x: np.sum(np.partition(x, 3)[:3] ** 2), X),
    "bincount": (lambda x: np.bincount(BINS, x), X),
    "more bins": (lambda x: np.bincount(BINS, weights=x * x, minlength=6), X),
    "traced bins": (lambda x: np.bincount((x > 0).astype(int), x * x, minlength=2), X),
    "two bins": (lambda x: np.bincount(x > 0, x, minlength=2), X),
    "running maximum": (lambda x: np.maximum.accumulate(x) ** 2, X),
    "running minimum": (lambda x: np.minimum.accumulate(x, axis=1) ** 2, T),
    "running fmax": (lambda x: np.fmax.accumulate(x, -1) ** 2, A),
    "drawdown": (lambda x: np.max(np.maximum.accumulate(x) - x), X),
    "running logaddexp": (lambda x: np.logaddexp.accumulate(3 * x), X),
    "running logaddexp of columns": (lambda x: np.logaddexp.accumulate(x, axis=1), T),
    "sums of slices": (lambda x: np.add.reduceat(x, [0, 2, 3]) ** 2, X),
    "sums of slices of columns": (lambda x: np.add.reduceat(x, [1, 3], axis=1) ** 2, A),
    "slices that turn back": (lambda x: np.add.reduceat(x, [0, 4, 2]) ** 2, X),
    "products of slices": (lambda x: np.multiply.reduceat(x, [0, 2, 4]), X),
    "largest of slices": (lambda x: np.maximum.reduceat(x, [0, 2], axis=1) ** 2, A),
    "hypot.reduce": (lambda x: np.hypot.reduce(x, axis=1, keepdims=True), A),
    "subtract.reduce": (lambda x: np.subtract.reduce(x**2, initial=2.0), X),
    "divide.reduce": (lambda x: np.divide.reduce(x), X),
    "subtract.accumulate": (lambda x: np.subtract.accumulate(x**2, axis=-1), A),
    "fmin.reduce": (lambda x: np.fmin.reduce(x, axis=1) ** 2, A),
    "pieces": (lambda x: np.piecewise(x, [x < 0, x >= 0], [np.negative, lambda v: v**2]), X),
    "pieces and the rest": (lambda x: np.piecewise(x, [x > 0], [np.log, 1.0]), X),
    "overlapping pieces": (lambda x: np.piecewise(x, [x > 0, x > 1], [np.sqrt, lambda v: v**3]), A),
    "one condition": (lambda x: np.piecewise(x, x < 0, [lambda v, k: k * v**2, lambda v, k: np.exp(v)], 3.0), X),
    "an argument": (lambda x: np.piecewise(x, [x < 0], [lambda v, k=1: k * v**2, 2.0], k=4.0), X),
    "known pieces": (lambda x: np.piecewise(x, BINS > 0, [lambda v: v * np.sum(v), np.exp]), X),
    "a piece of a number": (lambda x: np.piecewise(x, [x < 0, x >= 0], [np.negative, np.exp]), np.array(0.7)),
    "rows": (lambda x: np.apply_along_axis(lambda v: v / np.sum(v**2), 1, x), A),
    "a number a column": (lambda x: np.apply_along_axis(lambda v: np.sum(v**2), 0, x), T),
    "matrices": (lambda x: np.apply_along_axis(lambda v: np.outer(v, v), 1, x), T),
    "sorted rows": (lambda x: np.apply_along_axis(np.sort, 1, x) ** 2, T),
    "filtered rows": (lambda x: np.apply_along_axis(np.convolve, 2, x, np.array([1.0, 2]), mode="valid"), T),
    "a vector": (lambda x: np.apply_along_axis(lambda v: v[0] * v, 0, x), X),
    "sums over axes": (lambda x: np.apply_over_axes(np.sum, x**2, [0, -1]), T),
    "sum over one axis": (lambda x: np.apply_over_axes(np.mean, x**2, 1), T),
    "unwrapped": (lambda x: np.unwrap(5 * x) ** 2, X),
    "unwrapped columns": (lambda x: np.unwrap(5 * x, axis=0, discont=4.0) ** 2, A),
    "another period": (lambda x: np.unwrap(5 * x, period=3), A),
    "uneven steps": (lambda x: np.gradient(x, np.arange(7.0) ** 2) ** 2, X),
    "uneven steps of integers": (lambda x: np.gradient(x, [0, 1, 3], axis=1, edge_order=2) ** 2, T),
    "traced steps": (lambda x: np.gradient(x**2, np.cumsum(x**2 + 1)), X),
    "steps of both kinds": (lambda x: np.gradient(x**2, 0.3, np.array([0.0, 1, 3, 4])), A),
    "norm of reciprocals": (lambda x: np.linalg.norm(x, -2.5, axis=1), A),
    "harmonic norm": (lambda x: np.linalg.norm(x, -1), X),
    "resized": (lambda x: np.resize(x, (4, 5)) ** 2, A),
    "resized to fewer": (lambda x: np.resize(x, 3) ** 2, A),
    "halves": (lambda x: np.fft.fftshift(x) * x, T),
    "halves of rows": (lambda x: np.fft.ifftshift(x, axes=1) * x, T),
    "fit": (lambda x: np.polyfit(np.arange(7.0), x, 2), X),
    "weighted fit": (lambda x: np.polyfit(x, x**3, 2, w=np.arange(1.0, 8)), X),
    "fits": (lambda x: np.polyfit(x[0, :, 0], x[1], 1), T),
    "derivative of a polynomial": (lambda x: np.polyder(x**2, 2), X),
    "integral of a polynomial": (lambda x: np.polyint(x**2, 2, k=[1.0, 2]), X),
    "sum of polynomials": (lambda x: np.polyadd([1.0, 2], x**2), X),
    "difference of polynomials": (lambda x: np.polysub(x**2, x[:3]), X),
    "product of polynomials": (lambda x: np.polymul(x, x[:3]), X),
    "geometric": (lambda x: np.geomspace(1.0, x[0] ** 2, 5) ** 2, X),
    "geometric below zero": (lambda x: np.geomspace(-(x[:2] ** 2), -3, 4, endpoint=False, axis=1), X),
    "numbers for NaNs": (lambda x: np.nan_to_num(x * 2, copy=False) * x, X),
    "place in a matrix": (lambda x: x[np.unravel_index(np.argmax(x), x.shape)] ** 2, A),
    "compressed": (lambda x: x.compress([True, False, True], axis=0) ** 2, A),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_values_and_derivatives(name):
    f, x = SMOOTH[name]
    with np.errstate(invalid="ignore"):  # np.log of what a condition leaves out
        check_close(f, x)
        check_derivatives(f, x, atol=1e-6)


WHOLE = {
    "argpartition": lambda x: np.argpartition(x, 3, axis=None)[3],
    "argpartition of rows": lambda x: x.argpartition(1)[:, 1],
    "lexsort": lambda x: np.lexsort((x, np.round(x))),
    "lexsort of columns": lambda x: np.lexsort((x, np.round(x)), axis=0),
    "sort_complex": np.sort_complex,
    "bins": lambda x: np.digitize(x, [-1.0, 0.0, 1.0]),
    "bins from above": lambda x: np.digitize(x, [1.0, 0.0, -1.0], right=True),
    "traced bins": lambda x: np.digitize(0.3, np.sort(x, axis=None)),
    "members": lambda x: np.isin(np.round(x), [0, 1]),
    "no members": lambda x: np.isin(np.round(x), [0, 1], invert=True),
    "traced members": lambda x: np.isin(x, x[0]),
    "counts": lambda x: np.bincount(np.ravel(x > 0), minlength=2),
    "counts of the known": lambda x: np.bincount(BINS, minlength=2) * x[0, 0],
    "unravel_index": lambda x: np.unravel_index(np.argsort(x, axis=None), x.shape),
    "unravel_index in another order": lambda x: np.unravel_index(np.argmax(x), x.shape, order="F"),
    "ravel_multi_index": lambda x: np.ravel_multi_index((np.argsort(x[0]), np.argsort(x[1])), (4, 5)),
    "nanargmax": lambda x: np.nanargmax(np.where(x > 2, np.nan, x), axis=1),
    "nanargmin": lambda x: np.nanargmin(np.where(x < 0, np.nan, x)),
    "logical_or.accumulate": lambda x: np.logical_or.accumulate(x > 2, axis=1),
    "logical_xor.reduce": np.logical_xor.reduce,
    "logical_xor.accumulate": np.logical_xor.accumulate,
    "bitwise_or.reduce": lambda x: np.bitwise_or.reduce((x * 9).astype(int)),
    "divide.reduce of integers": lambda x: np.divide.reduce((x * 9).astype(int) | 1),
    "angle": np.angle,
    "angle in degrees": lambda x: np.angle(x, deg=True),
    "real_if_close": np.real_if_close,
    "equivalent": lambda x: (np.array_equiv(x, x[0]), np.array_equiv(x, x[:1] + 0 * x), np.array_equiv(x, x[:2])),
    "view": lambda x: x.view(),
    "reshape in no order": lambda x: x.reshape((4, 3), order=None),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize("name", WHOLE)
def test_values(name, dtype):
    check_close(WHOLE[name], (A * 3).astype(dtype))


BATCHED = {
    "partition of rows": SMOOTH["partition of rows"],
    "running logaddexp": SMOOTH["running logaddexp of columns"],
    "running minimum": SMOOTH["running minimum"],
    "bincount": SMOOTH["bincount"],
    "traced bins": SMOOTH["traced bins"],
    "members": (WHOLE["traced members"], A),
    "no members": (lambda x: np.isin(x, x[0], invert=True), A),
    "places of rows": (lambda x: np.ravel_multi_index((x.astype(int) * 0, np.argsort(x[0])), (9, 9)), abs(A)),
}


@pytest.mark.parametrize("name", BATCHED)
def test_batches(name):
    check_batch(*BATCHED[name])


def test_jacobians():
    sums = sg.jacobian(lambda x: np.add.reduceat(x, [0, 3]))
    np.testing.assert_array_equal(sums(X), [[1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1]])
    counts = sg.jacfwd(lambda w, i: np.bincount(i, w, minlength=3))
    np.testing.assert_array_equal(counts(np.ones(2), np.array([0, 2])), [[1, 0], [0, 0], [0, 1]])
    with pytest.raises(IndexError):
        counts(np.ones(2), np.array([0, 3]))
    squares = sg.hessian(lambda w: np.sum(np.bincount(BINS, w) ** 2))(X)
    np.testing.assert_array_equal(squares, 2 * (BINS[:, None] == BINS))


@pytest.mark.parametrize("dtype", ["f2", "f4", "i1", "i8", "?"])
def test_dtypes(dtype):
    x = np.array([[3, 1, 2], [0, 2, 1]]).astype(dtype)
    for f in (np.maximum.accumulate, np.minimum.accumulate, np.fmax.accumulate, np.logical_and.accumulate):
        check_value(f, x)
        check_value(lambda x, f=f: f(x, axis=1), x)
    check_value(lambda x: np.add.reduceat(x, [0, 1]), x)
    check_value(lambda x: np.partition(x, 1)[:, 1], x)
    if dtype in ("f2", "f4"):
        check_close(np.logaddexp.accumulate, x, rtol=1e-2)


@pytest.mark.parametrize("period", [4, 5, 2.5])
def test_unwrapping_integers(period):
    check_value(lambda x: np.unwrap(x, period=period), np.array([0, 3, 7, 1, 5, 3, -2]))


def test_phases_half_a_period_apart():
    for x in ([0.0, 2.0, 4.0, 2.0, 0.0], [0.0, 6.0, -6.0, 1.0]):
        check_value(lambda x: np.unwrap(x, period=4.0), np.array(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_cross_of_two_components():
    check_close(lambda x: np.cross(x[:, :2], x[:, 2:]), A)
    check_derivatives(lambda x: np.cross(x[:, :2], x[0, 2:]), A)


KNOWN = {
    "bins": lambda x: np.bincount(snp.array(BINS), x),
    "slices": lambda x: np.add.reduceat(x, snp.array([0, 2])),
    "a place": lambda x: np.partition(x, snp.array(3))[3],
    "counts": lambda x: np.repeat(x, snp.array(BINS)),
    "a shift": lambda x: np.roll(x, snp.array(2)),
    "a mask of pieces": lambda x: np.piecewise(x, [snp.arange(7) > 3, snp.arange(7) > 9], [np.max, np.max, 3.0]),
    "a mask": lambda x: (np.compress(snp.arange(7) > 3, x), np.extract(snp.arange(7) > 3, x)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_made_of_constants_is_known(name):
    check_value(KNOWN[name], X)


# ---- ties, infinities, places that are not there


def gradient(f, x):
    return sg.grad(lambda x: np.sum(f(x)))(np.asarray(x, dtype=float))


def test_of_equal_numbers_the_last_takes_the_cotangent():
    np.testing.assert_array_equal(gradient(np.maximum.accumulate, [1, 3, 2, 3, 0]), [1, 2, 0, 2, 0])
    np.testing.assert_array_equal(gradient(np.minimum.accumulate, [1, 1, 2]), [1, 2, 0])


def test_running_sums_of_nothing():
    """The logarithm of zero, as a mask in a sum of exponentials."""
    some = np.array([False, False, True, True])
    g = gradient(lambda x: np.logaddexp.accumulate(np.where(some, x, -np.inf))[2:], X[:4])
    np.testing.assert_allclose(g, [0, 0, *gradient(np.logaddexp.accumulate, X[2:4])])


def test_a_bin_beyond_the_last_is_an_error():
    counts = sg.compile(lambda i, w: np.bincount(i, w, minlength=3))
    np.testing.assert_array_equal(counts(np.array([0, 2]), np.ones(2)), [1, 0, 1])
    for wrong in (np.array([0, 3]), np.array([-1, 0])):
        with pytest.raises(ValueError):
            counts(wrong, np.ones(2))


def test_bins_must_be_in_order():
    bins = sg.compile(np.digitize)
    with pytest.raises(ValueError, match="monoton"):
        bins(X, np.array([0.0, 2.0, 1.0]))


def test_partition_in_place():
    def f(x):
        y = x.copy()
        y.partition(2)
        return y[2]

    check_value(f, X)


# ---- functions of the user


VECTORIZED = {
    "one": (np.vectorize(lambda v: v**2 + 1), (A,)),
    "two": (np.vectorize(lambda a, b: np.tanh(a) * b), (A, X[:4])),
    "a number": (np.vectorize(lambda a, b: a * b), (A, np.array(2.0))),
    "two results": (np.vectorize(lambda v: (np.sin(v), v)), (A,)),
    "vectors": (np.vectorize(lambda v: np.sum(v**2), signature="(n)->()"), (A,)),
    "matrix and vector": (np.vectorize(lambda m, v: m @ v, signature="(n,m),(m)->(n)"), (T, X[:4])),
    "dtype": (np.vectorize(lambda v: v * 2, otypes=[np.float32]), (A,)),
}


@pytest.mark.parametrize("name", VECTORIZED)
def test_vectorize(name):
    f, args = VECTORIZED[name]
    expected = f(*args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, want in zip(evaluate(lambda *xs: vectorized(f, *xs), *args), expected, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want)
    if name != "dtype":
        check_derivatives(lambda *xs: vectorized(f, *xs), *args)


def test_no_axis_is_moved_for_rows():
    source = sg.compile(lambda x: np.apply_along_axis(lambda v: v / np.sum(v * v), 1, x), optimize=1).source(T)
    assert "return x / np.sum(x * x, axis=1)[:, None]" in source


def test_what_is_excluded_is_given_as_it_is():
    power = np.vectorize(lambda v, k=2: v**k if k > 0 else v, excluded=["k"])
    check_value_of = sg.compile(lambda x: vectorized(power, x, k=3))
    np.testing.assert_allclose(check_value_of(A), A**3)


def test_rows_of_symbolic_number():
    f = sg.value_and_grad(lambda x: np.sum(np.apply_along_axis(lambda v: v / np.linalg.norm(v), 1, x) ** 3))
    compiled = f.compile("float64[n, m]")
    for x in (A, A[:1], np.ones((5, 2))):
        for got, want in zip(compiled(x), f(x), strict=True):
            np.testing.assert_allclose(got, want)


def test_a_row_does_not_leave_its_function():
    def kept(x):
        rows = []
        np.apply_along_axis(lambda v: rows.append(v) or v, 1, x)
        return rows[0]

    with pytest.raises(GraphError, match=r"of vmap, stored outside"):
        sg.compile(kept)(A)


# ---- what is refused

REFUSED = {
    "bins without a number": (
        lambda x: np.bincount(x.astype(int)),
        UnsupportedError,
        "np.bincount of traced integers: the size of the result depends on values",
    ),
    "bins of floats": (lambda x: np.bincount(x), DTypeError, "np.bincount: the argument is float64 with 1 dimensions"),
    "few weights": (
        lambda x: np.bincount([0, 1], x),
        ShapeError,
        "np.bincount: weights of shape (7,) for integers of shape (2,)",
    ),
    "kth": (lambda x: np.partition(x, 7), ShapeError, "np.partition: kth=7 is out of bounds for axis 0 of size 7"),
    "traced kth": (lambda x: np.partition(x, np.argmax(x)), UnsupportedError, "np.partition: kth is traced"),
    "histogram": (
        lambda x: np.histogram(x, bins=3),
        UnsupportedError,
        "np.histogram is not supported: it counts, and counts have no derivative",
    ),
    "unique": (
        lambda x: np.unique_values(x),
        UnsupportedError,
        "np.unique_values: the size of the result depends on values, and sizes are known before the program runs",
    ),
    "slices": (
        lambda x: np.add.reduceat(x, [0, 9]),
        ShapeError,
        "np.add.reduceat: indices [0 9] are out of bounds for axis 0 of size 7",
    ),
    "traced slices": (
        lambda x: np.add.reduceat(x, np.argsort(x)),
        UnsupportedError,
        "np.add.reduceat: indices are traced",
    ),
    "a sum of a piece": (
        lambda x: np.piecewise(x, [x > 0], [np.cumsum]),
        UnsupportedError,
        "indexing with a traced boolean mask: the size of the result depends on values",
    ),
    "functions": (
        lambda x: np.piecewise(x, [x > 0], [1, 2, 3]),
        ArgumentError,
        "np.piecewise: 3 functions for 1 conditions",
    ),
    "writing into a row": (
        lambda x: np.apply_along_axis(lambda v: v.fill(0.0), 0, x[None]),
        WriteError,
        "it is one row of many: the function is traced once for all of them",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    f, kind, fact = REFUSED[name]
    with pytest.raises(SymgradError) as error:
        trace(f, X)
    assert (type(error.value), error.value.fact) == (kind, fact)
    assert error.value.instead or kind in (ShapeError,)


# ---- Bessel functions


def test_i0_has_its_derivative_over_the_whole_range():
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-26, 26, 105), [-700, -1e-9, 25 - 1e-9, 25 + 1e-9, 60, 709]])
    np.testing.assert_allclose(sg.elementwise_grad(np.i0)(x), special.i1(x), rtol=4e-15)
    second = sg.elementwise_grad(sg.elementwise_grad(np.i0))(x)
    np.testing.assert_allclose(second, (special.i0(x) + special.iv(2, x)) / 2, rtol=4e-15)


def test_a_kaiser_window_by_its_parameter():
    sg.check_grads(lambda beta: np.sum(np.kaiser(6, beta) ** 2), (3.0,))
    for m in (1, 6):
        np.testing.assert_allclose(sg.compile(lambda beta: np.kaiser(m, beta))(3.0), np.kaiser(m, 3.0))  # noqa: B023


# ---- refused by name


@pytest.mark.parametrize(
    "f",
    [np.array2string, np.base_repr, lambda x: np.save("x.npy", x), np.isnat, np.packbits, np.einsum_path],
)
def test_what_needs_numbers_is_refused_by_name(f):
    with pytest.raises(UnsupportedError, match=r"^np\.\w+ (makes|writes|is about|is not).*\n.*\n  \S"):
        sg.trace(lambda x: f(x), "float64[3]")


def test_shapes_and_dtypes_are_known_before_the_program_runs():
    assert sg.trace(lambda x: np.broadcast_shapes(x.shape, (3, 1)), "float64[4]").outputs == (3, 4)
    assert sg.trace(lambda x: np.common_type(x, np.ones(2)), "float32[4]").outputs is np.float64


def test_what_is_known_of_numbers_in_lists():
    def f(x):
        facts = np.isscalar(x[0]), np.isscalar(x), np.isscalar([x[0]]), np.iterable([x[0]]), np.iterable(x[0])
        assert np.isrealobj([x[0]])
        return np.array(facts) * x[0] + np.ndim([x, x]) + np.size([x]) + np.shape([x, x])[1]

    np.testing.assert_array_equal(sg.compile(f)(X), f(X))
