"""Medians, quantiles, interpolation, covariances, polynomials and slopes."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Aval
from symgrad.core.interpret import interpret
from symgrad.core.shapes import same_shape
from symgrad.core.size_scope import Sizes
from symgrad.derivatives.pullback import pullback
from symgrad.errors import ArgumentError, DTypeError, ShapeError, SymbolicSizeError, SymgradError, UnsupportedError
from symgrad.ops.quantiles import METHODS
from tests.oracle import check_derivatives, check_value, evaluate, trace
from tests.sweep import check_batch, check_close, inferred

RNG = np.random.default_rng(7)
F4 = np.dtype("f4")


def numbers(*shape):
    return RNG.permuted(np.linspace(-2, 3, int(np.prod(shape)))).reshape(shape) if shape else np.float64(0.7)


def gradient_of(f, *args):
    graph, inputs, (y,) = trace(f, *args)
    gradients = pullback(graph, [y], [graph.constant(np.ones(y.aval.shape, y.aval.dtype))], inputs)
    return interpret(gradients, dict(zip(inputs, args, strict=True)))


AXES = {
    "vector": ((5,), None),
    "even": ((6,), 0),
    "scalar": ((), None),
    "one": ((1,), -1),
    "all": ((2, 3), None),
    "rows": ((4, 3), 0),
    "columns": ((4, 3), -1),
    "none of two": ((2, 3), ()),
    "two of three": ((3, 2, 5), (0, -1)),
}
ORDERS = {
    "median": lambda x, axis, keepdims: np.median(x, axis=axis, keepdims=keepdims),
    "quantile": lambda x, axis, keepdims: np.quantile(x, 0.37, axis=axis, keepdims=keepdims),
    "percentile": lambda x, axis, keepdims: np.percentile(x, 37, axis=axis, keepdims=keepdims),
    "quantiles": lambda x, axis, keepdims: np.quantile(x, [0.0, 0.63, 1.0], axis=axis, keepdims=keepdims),
    "lowest": lambda x, axis, keepdims: np.quantile(x, 0.0, axis=axis, keepdims=keepdims),
    "highest": lambda x, axis, keepdims: np.percentile(x, 100.0, axis=axis, keepdims=keepdims),
}


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("case", AXES)
@pytest.mark.parametrize("name", ORDERS)
def test_orders(name, case, keepdims):
    shape, axis = AXES[case]

    def f(x):
        return ORDERS[name](x, axis, keepdims)

    check_value(f, numbers(*shape))
    check_derivatives(lambda x: f(x) ** 2 * np.sum(x), numbers(*shape))
    if name not in ("quantiles", "highest"):  # where q, which the sweep enlarges, has no room
        check_batch(f, np.asarray(numbers(*shape)))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8", "u1"])
@pytest.mark.parametrize(
    "q", [0.3, 0, 1, np.float32(0.3), np.float64(0.3), [0.3, 0.5], [0, 1], np.array([0.3], "f4"), np.array([0.3], "f2")]
)
def test_dtypes_of_quantiles(dtype, q):
    x = np.arange(6).astype(dtype)
    check_value(lambda x: np.quantile(x, q), x)
    check_value(lambda x: np.percentile(x, q), x)
    check_value(np.median, x)


def test_dtypes_of_gradients():
    x = numbers(6).astype(F4)
    for f in (np.median, lambda x: np.quantile(x, 0.3), lambda x: np.percentile(x, [30.0, 60.0])):
        (g,) = gradient_of(f, x)
        assert g.dtype == F4
        np.testing.assert_allclose(np.sum(g), np.size(f(x)), rtol=1e-6)
    check_value(np.median, np.array([True, False, True]))


def test_one_of_equal_numbers_takes_the_cotangent():
    (g,) = gradient_of(np.median, np.array([1.0, 1.0, 1.0, 0.0, 2.0]))
    assert sorted(g) == [0, 0, 0, 0, 1]
    assert g[3] == g[4] == 0
    (g,) = gradient_of(lambda x: np.quantile(x, 0.25), np.array([3.0, 3.0, 3.0]))
    assert sorted(g) == [0, 0.5, 0.5]


def test_nan_is_nan():
    x = np.array([[1.0, np.nan, 2.0], [3.0, 1.0, 2.0]])
    for f in (lambda x: np.median(x, axis=1), lambda x: np.quantile(x, [0.1, 0.5], axis=1), np.median):
        check_value(f, x)


@pytest.mark.parametrize("q", [0.37, np.array([0.1, 0.45, 0.83])])
def test_derivative_by_q(q):
    x = numbers(4, 3)
    check_derivatives(lambda x, q: np.quantile(x, q, axis=0) ** 2, x, q)
    check_derivatives(lambda x, q: np.percentile(x, 100 * q) ** 2, x, q)
    check_batch(lambda x, q: np.quantile(x, q, axis=-1), x, q / 2)
    check_batch(lambda x, q: np.percentile(x, q, keepdims=True), x, q)


def test_q_of_one_side():
    """A quantile that is a number of the array moves up with `q`; from the last it can only come down."""
    x = np.array([0.0, 5.0, 1.0, 3.0, 9.0])
    assert gradient_of(np.quantile, x, np.array(0.5))[1] == 4 * (5 - 3)
    assert gradient_of(np.quantile, x, np.array(1.0))[1] == 4 * (9 - 5)
    assert gradient_of(np.percentile, x, np.array(0.0))[1] == 4 / 100


def test_q_as_an_argument_widens_nothing():
    x = numbers(6).astype(F4)
    value, g = sg.value_and_grad(lambda x, q: np.quantile(x, q))(x, 0.3)
    assert value.dtype == g.dtype == F4
    np.testing.assert_allclose(value, np.quantile(x, 0.3), rtol=1e-6)


def test_hessian_of_a_loss_with_a_median():
    x = numbers(3, 4)
    hessian = sg.hessian(lambda x: np.sum(np.median(x, axis=1) ** 2 * np.quantile(x, 0.2, axis=1)))(x)
    assert hessian.shape == (3, 4, 3, 4)
    flat = hessian.reshape(12, 12)
    np.testing.assert_allclose(flat, flat.T)
    eps = 1e-6
    gradient = sg.grad(lambda x: np.sum(np.median(x, axis=1) ** 2 * np.quantile(x, 0.2, axis=1)))
    v = RNG.standard_normal((3, 4))
    numeric = (gradient(x + eps * v) - gradient(x - eps * v)) / (2 * eps)
    np.testing.assert_allclose(np.sum(hessian * v, axis=(2, 3)), numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", [1, 2, 5, 6])
def test_symbolic_sizes(size):
    f = sg.value_and_grad(lambda x: np.sum(np.median(x, axis=0) ** 2) + np.sum(np.quantile(x, 0.3, axis=0)))
    compiled, x = f.compile("float64[n, 2]"), numbers(size, 2)
    value, g = compiled(x)
    expected, slope = f.compile(f"float64[{size}, 2]")(x)
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(g, slope)


def test_source():
    source = sg.grad(lambda x: np.sum(np.median(x, axis=0) ** 2)).source("float64[5, n]", optimize=1)
    assert "np.median(x, axis=0)" in source
    assert "np.where(np.argsort(np.argsort(x, axis=0), axis=0) == 2, " in source
    assert "np.quantile(x, 0.3, axis=0)" in sg.compile(lambda x: np.quantile(x, 0.3, 0)).source("float64[5, n]")
    assert "np.percentile(x, 30)" in sg.compile(lambda x: np.percentile(x, 30)).source("float64[n]")


def test_out():
    def f(x):
        y = np.zeros_like(x[0])
        np.median(x, axis=0, out=y)
        return y

    x = numbers(5, 2)
    np.testing.assert_array_equal(evaluate(f, x)[0], np.median(x, axis=0))


# ---- interpolation

XP, FP = np.array([-1.0, 0.0, 0.5, 2.0]), np.array([1.0, -1.0, 4.0, 3.0])
INSIDE, AROUND = np.array([[-0.7, 0.2], [1.1, 1.9]]), np.array([-3.0, -0.2, 0.3, 2.5])


@pytest.mark.parametrize("x", [INSIDE, AROUND, np.array(0.1), np.array([np.nan, np.inf, -np.inf]), XP, np.arange(3)])
def test_interp(x):
    for ends in ({}, {"left": 7.0}, {"right": -7.0}, {"left": 1, "right": 2.5}):
        check_value(lambda x, xp, fp, ends=ends: np.interp(x, xp, fp, **ends), x, XP, FP)
    check_value(np.interp, x, XP[:1], FP[:1])
    check_value(np.interp, x.astype(F4), XP.astype(F4), FP.astype(F4))


@pytest.mark.parametrize("x", [INSIDE, AROUND, np.array(0.1)])
def test_derivatives_of_interp(x):
    check_derivatives(lambda x, xp, fp: np.interp(x, xp, fp) ** 2, x, XP, FP)
    check_derivatives(lambda x, left, fp: np.interp(x, XP, fp, left=left, right=2 * left) ** 2, x, 0.3, FP)


def test_slope_at_and_beyond_the_points():
    x = np.array([-1.5, -1.0, 0.0, 0.5, 2.0, 2.5])
    g, _, by_value = gradient_of(np.interp, x, XP, FP)
    np.testing.assert_allclose(g, [0, -2, 10, -1 / 1.5, -1 / 1.5, 0])
    np.testing.assert_array_equal(by_value, [2, 1, 1, 2])
    nothing, _, by_value = gradient_of(
        lambda x, xp, fp: np.interp(x, xp, fp) + 0 * xp + 0 * x, *map(np.ones, (2, 1, 1))
    )
    np.testing.assert_array_equal(nothing, [0, 0])
    np.testing.assert_array_equal(by_value, [2])


def test_second_derivatives_at_the_points():
    """The mixed second derivative is the derivative of the slope that the first one chose."""
    mixed = sg.jacobian(lambda fp: sg.elementwise_grad(lambda x: np.interp(x, XP, fp))(XP[1:3]))(FP)
    np.testing.assert_allclose(mixed, [[0, -2, 2, 0], [0, 0, -1 / 1.5, 1 / 1.5]])


def test_small_integers_do_not_wrap():
    xp, fp = np.array([0, 200, 250], np.uint8), np.array([250, 0, 10], np.uint8)
    g, _ = gradient_of(lambda x, s: np.interp(x, xp, fp) * s, np.array([100.0]), np.array(1.0))
    np.testing.assert_allclose(g, -250 / 200)
    graph, (x, p), (y,) = trace(lambda x, p: np.interp(x, p, p), np.array([100.0]), fp[::2])
    (g,) = pullback(graph, [y], [graph.constant(np.ones(1))], [x])
    np.testing.assert_allclose(interpret([g], {x: np.array([100.0]), p: xp})[0], 1)


def test_interp_keeps_the_dtype_of_arguments():
    args = [a.astype(F4) for a in (AROUND, XP, FP)]
    for g, want in zip(gradient_of(np.interp, *args), gradient_of(np.interp, AROUND, XP, FP), strict=True):
        assert g.dtype == F4
        np.testing.assert_allclose(g, want, rtol=1e-5)


@pytest.mark.parametrize("x", [INSIDE, AROUND, np.array(0.1), XP])
def test_batches_of_interp(x):
    check_batch(np.interp, x, XP, FP, rtol=1e-12)
    check_batch(np.interp, x.astype(F4), XP.astype(F4), FP.astype(F4), rtol=1e-12)


# ---- methods

NANS = np.where(np.arange(12).reshape(4, 3) % 5 == 1, np.nan, numbers(4, 3))
Q = [0.0, 0.1, 0.37, 0.5, 0.81, 1.0]


@pytest.mark.parametrize("method", METHODS)
def test_methods_of_quantiles(method):
    """Values and dtypes are NumPy's; between the numbers the quantile has their slopes, and that by `q`."""
    for f in (np.quantile, np.nanquantile):
        check_value(lambda x, f=f: f(x, Q, axis=0, method=method), numbers(5, 3))
        check_value(lambda x, f=f: f(x, 0.3, keepdims=True, method=method), numbers(5))
        check_derivatives(lambda x, f=f: f(x, [0.04, 0.37, 0.93], axis=0, method=method) ** 2, numbers(5, 3))
        check_derivatives(lambda x, q, f=f: f(x, q, method=method) ** 2, numbers(5), np.array([0.07, 0.33, 0.87]))
        check_batch(lambda x, f=f: f(x, 0.37, axis=0, method=method), numbers(5, 3))
    check_value(lambda x: np.percentile(x, 37, method=method), numbers(6))


@pytest.mark.parametrize("dtype", ["f2", "f4", "i4", "i8", "u1"])
@pytest.mark.parametrize("q", [0.3, 1, np.float32(0.3), np.float64(0.3), [0.3, 0.5], np.array([0.3], "f4")])
def test_dtypes_of_methods(dtype, q):
    for method in METHODS:
        check_value(lambda x, method=method: np.quantile(x, q, method=method), np.arange(6).astype(dtype))
        check_value(lambda x, method=method: np.nanpercentile(x, q, method=method), np.arange(6).astype(dtype))


SKIPPING = {
    "median": lambda x: np.nanmedian(x),
    "medians": lambda x: np.nanmedian(x, axis=0),
    "kept": lambda x: np.nanmedian(x, axis=(0, 1), keepdims=True),
    "quantile": lambda x: np.nanquantile(x, 0.3),
    "quantiles": lambda x: np.nanquantile(x, [0.2, 0.7], axis=1),
    "percentile": lambda x: np.nanpercentile(x, 30, axis=0, method="weibull"),
}


@pytest.mark.parametrize("name", SKIPPING)
def test_nans_are_left_out(name):
    f = SKIPPING[name]
    check_value(f, NANS)
    check_derivatives(lambda x: f(np.where(np.isnan(NANS), np.nan, x)), numbers(4, 3))
    check_batch(f, NANS)
    check_value(f, np.arange(12).reshape(4, 3))
    (g,) = gradient_of(f, NANS)
    assert np.all(g[np.isnan(NANS)] == 0)
    np.testing.assert_allclose(np.sum(g), np.size(f(NANS)))


# ---- covariances

COV = {
    "rows": lambda x: np.cov(x),
    "columns": lambda x: np.cov(x, rowvar=False),
    "bias": lambda x: np.cov(x, bias=True),
    "ddof": lambda x: np.cov(x, ddof=2),
    "frequencies": lambda x: np.cov(x, fweights=[1, 2, 3, 2, 1]),
    "importances": lambda x: np.cov(x, x[0], aweights=np.arange(1.0, 6)),
    "both": lambda x: np.cov(x, fweights=[1, 2, 3, 2, 1], aweights=np.arange(1.0, 6), ddof=2),
    "biased": lambda x: np.cov(x, aweights=np.exp(np.arange(5.0)), ddof=0),
    "two": lambda x: np.cov(x, x[::-1] ** 2),
    "two of columns": lambda x: np.cov(x, x * x, rowvar=False),
    "a vector": lambda x: np.cov(x[0]),
    "two vectors": lambda x: np.cov(x[0], x[1]),
    "two vectors that are columns": lambda x: np.cov(x[0], x[1], rowvar=False),
    "correlation": lambda x: np.corrcoef(x),
    "correlation of columns": lambda x: np.corrcoef(x[:, :2], rowvar=False),
    "correlation of two": lambda x: np.corrcoef(x[0], x[1]),
    "correlation of one": lambda x: np.corrcoef(x[0]),
}


@pytest.mark.parametrize("name", COV)
def test_cov(name):
    x = RNG.standard_normal((3, 5))
    check_close(COV[name], x)
    check_derivatives(COV[name], x, atol=1e-6)
    check_close(COV[name], x.astype(F4), rtol=1e-5)
    check_close(COV[name], np.array([[1, 4, 2, 5, 3], [2, 0, 1, 7, 3], [1, 1, 0, 3, 4]]))


def test_cov_of_dtype_and_symbols():
    x = RNG.standard_normal((3, 5)).astype(F4)
    check_close(lambda x: np.cov(x, dtype=np.float32), x)
    check_close(lambda x: np.corrcoef(x, dtype=np.float32), x)
    sizes = Sizes()
    n, m = sizes.symbol("n"), sizes.symbol("m")
    assert same_shape(inferred(np.cov, Aval((3, m), np.dtype(float))).shape, (3, 3))
    y = numbers(2, 6)
    np.testing.assert_allclose(sg.compile(lambda x: np.cov(x)).compile("float64[2, m]")(y), np.cov(y))
    with pytest.raises(SymbolicSizeError, match=r"np\.cov: the number of variables, n, is a symbol here, and may be 1"):
        sg.compile(lambda x: np.cov(x)).compile("float64[n, m]")
    assert same_shape(inferred(lambda x: np.cov(x, rowvar=False), Aval((n, 2), np.dtype(float))).shape, (2, 2))


# ---- polynomials and slopes


@pytest.mark.parametrize("degree", [0, 1, 3])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_polyval(degree, shape):
    p, x = RNG.standard_normal(degree + 1), np.asarray(numbers(*shape))
    check_value(np.polyval, p, x)
    check_derivatives(np.polyval, p, x)
    check_value(lambda x: np.polyval([1, 2.5, 3], x), x)
    check_value(lambda p: np.polyval(p, [0.5, 2]), p)
    check_value(np.polyval, p.astype(F4), x.astype(F4))
    check_value(lambda p: np.polyval(p, 0.5), p.astype(F4))
    check_value(np.polyval, np.arange(degree + 1), x.astype(F4))
    check_value(lambda x: np.polyval([], x), x)


SLOPES = {
    "vector": lambda x: np.gradient(x[0]),
    "all axes": lambda x: np.gradient(x),
    "spacing": lambda x: np.gradient(x, 0.3),
    "spacings": lambda x: np.gradient(x, 0.3, 2),
    "axis": lambda x: np.gradient(x, axis=0),
    "last axis": lambda x: np.gradient(x, 0.1, axis=-1, edge_order=2),
    "axes": lambda x: np.gradient(x, axis=(1, 0), edge_order=2),
    "differences": lambda x: np.ediff1d(x),
    "differences with ends": lambda x: np.ediff1d(x, to_end=[1, 2], to_begin=x[0, 0]),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes(name):
    x = numbers(3, 4)
    check_close(SLOPES[name], x, rtol=1e-13)
    check_derivatives(SLOPES[name], x)
    check_close(SLOPES[name], x.astype(F4), rtol=1e-5)
    check_close(SLOPES[name], np.arange(12).reshape(3, 4) ** 2, rtol=1e-13)


def test_slopes_by_the_spacing():
    check_derivatives(lambda x, h: np.gradient(x, h, edge_order=2), numbers(5), 0.3)
    f = sg.grad(lambda x: np.sum(np.gradient(x, 0.5) ** 2)).compile("float64[n]")
    for n in (2, 3, 6):
        x, eps, i = numbers(n), 1e-6, np.eye(n)
        numeric = [np.sum(np.gradient(x + eps * e, 0.5) ** 2) - np.sum(np.gradient(x - eps * e, 0.5) ** 2) for e in i]
        np.testing.assert_allclose(f(x), np.array(numeric) / (2 * eps), rtol=1e-6, atol=1e-8)


def test_spacing_widens_nothing():
    check_value(lambda x: np.gradient(x, np.float64(0.5)), numbers(5).astype(F4))


def test_indices_from():
    x, square = numbers(3, 4), numbers(3, 3)
    check_value(lambda x: x[np.tril_indices_from(x)], x)
    check_value(lambda x: x[np.triu_indices_from(x, k=1)], x)
    check_value(lambda x: x[np.diag_indices_from(x)], square)
    check_derivatives(lambda x: x[np.triu_indices_from(x, 1)] ** 2, x)


# ---- refusals

VECTOR = np.array([1.0, 2.0, 4.0])
REFUSED = {
    "a method": (
        lambda x: np.quantile(x, 0.3, method="straight"),
        UnsupportedError,
        "np.quantile: method='straight' is unknown",
    ),
    "weights": (
        lambda x: np.percentile(x, 30, weights=x, method="inverted_cdf"),
        UnsupportedError,
        "np.percentile: the argument weights= is not supported",
    ),
    "overwriting": (
        lambda x: np.median(x, overwrite_input=True),
        UnsupportedError,
        "np.median: the argument overwrite_input= is not supported",
    ),
    "q": (lambda x: np.quantile(x, 1.5), ArgumentError, "np.quantile: q=1.5 is not between 0 and 1"),
    "q of NaN": (lambda x: np.percentile(x, np.nan), ArgumentError, "np.percentile: q=nan is not between 0 and 100"),
    "a matrix of q": (
        lambda x: np.quantile(x, [[0.5]]),
        ShapeError,
        "np.quantile: q has 2 dimensions, not at most 1",
    ),
    "nothing": (
        lambda x: np.quantile(x[:0], 0.5),
        ShapeError,
        "np.quantile of float64[0] over axis None: there is nothing to choose from",
    ),
    "truth": (lambda x: np.quantile(x > 2, 0.5), DTypeError, "np.quantile does not take bool"),
    "complex": (lambda x: np.quantile(x * 1j, 0.5), DTypeError, "np.quantile does not take complex128"),
    "an axis": (lambda x: np.median(x, axis=1), ShapeError, "np.median: axis 1 is out of bounds for 1 dimensions"),
    "integers for q": (
        lambda x: np.quantile(x.astype(int), [0, 1], method="weibull"),
        DTypeError,
        "np.quantile: integers for q and method='weibull'",
    ),
    "a period": (
        lambda x: np.interp(x, x, x, period=2),
        UnsupportedError,
        "np.interp: the argument period= is not supported",
    ),
    "points": (
        lambda x: np.interp(x, x, x[:2]),
        ShapeError,
        "np.interp: points of shapes (3,) and (2,), and they need one and the same size",
    ),
    "no points": (lambda x: np.interp(x, x[:0], x[:0]), ShapeError, "np.interp: there are no points"),
    "complex points": (
        lambda x: np.interp(x, x * 1j, x),
        DTypeError,
        "np.interp at points of complex128: they have no order",
    ),
    "negative weights": (
        lambda x: np.cov(x, aweights=[1, -1, 1]),
        ArgumentError,
        "np.cov: aweights has negative numbers",
    ),
    "few weights": (
        lambda x: np.cov(x, aweights=[1, 1]),
        ShapeError,
        "np.cov: aweights of shape (2,) for 3 observations",
    ),
    "parts of a count": (
        lambda x: np.cov(x, fweights=x),
        DTypeError,
        "np.cov: fweights= are counts, but have dtype float64",
    ),
    "no freedom": (lambda x: np.cov(x[:1]), ShapeError, "np.cov: 1 observations leave 0 degrees of freedom"),
    "half a degree": (lambda x: np.cov(x, ddof=0.5), ArgumentError, "np.cov: ddof=0.5 is not an integer"),
    "three dimensions": (
        lambda x: np.cov(x[None, None]),
        ShapeError,
        "np.cov: m has 3 dimensions, not at most 2",
    ),
    "coefficients": (
        lambda x: np.polyval(x[None], 2.0),
        ShapeError,
        "np.polyval: p has 2 dimensions, not 1",
    ),
    "coordinates": (
        lambda x: np.gradient(x, x[:2]),
        ShapeError,
        "np.gradient: coordinates of shape (2,) for axis 0 of size 3",
    ),
    "spacings": (lambda x: np.gradient(x, 1, 2), ArgumentError, "np.gradient: 2 spacings for 1 axes"),
    "edges": (
        lambda x: np.gradient(x, edge_order=3),
        UnsupportedError,
        "np.gradient: edge_order=3",
    ),
    "a small array": (
        lambda x: np.gradient(x[:2], edge_order=2),
        ShapeError,
        "np.gradient: size 2 of axis 0 is too small for edge_order=2",
    ),
    "ends": (
        lambda x: np.ediff1d(x.astype(int), to_end=0.5),
        DTypeError,
        "np.ediff1d: float64 ends of int64 differences",
    ),
    "a triangle": (
        np.tril_indices_from,
        ShapeError,
        "np.tril_indices_from: arr has 1 dimensions, not 2",
    ),
    "a diagonal": (
        lambda x: np.diag_indices_from(x[None]),
        ShapeError,
        "np.diag_indices_from: an array of shape (1, 3), and all sizes must be equal",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    f, kind, fact = REFUSED[name]
    with pytest.raises(SymgradError) as error:
        trace(f, VECTOR)
    assert (type(error.value), error.value.fact) == (kind, fact)
