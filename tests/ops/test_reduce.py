"""Reductions and what accumulates: NumPy's full signatures, derivatives, zeros, ties, empty axes, symbolic sizes."""

from functools import partial
from itertools import product

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Aval, Graph, reached
from symgrad.core.interpret import interpret
from symgrad.core.size_scope import Sizes
from symgrad.derivatives.pullback import pullback
from symgrad.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    UnsupportedError,
    WriteError,
)
from symgrad.frontend.variable import Variable
from symgrad.ops.accumulate import RECURRENCE
from symgrad.ops.operands import WRITTEN_BEFORE
from symgrad.spelling import Code
from tests.oracle import check_derivatives, check_value, trace
from tests.sweep import check_batch, check_close

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (2, 3, 4))
ONE_ZERO, TWO_ZEROS = X.copy(), X.copy()
ONE_ZERO[0, 1, 2] = 0
TWO_ZEROS[0, 1, 2] = TWO_ZEROS[0, 2, 2] = TWO_ZEROS[1, 0, 0] = 0
HOLES = np.where(RNG.uniform(size=X.shape) < 0.3, np.nan, X)
MASK = RNG.uniform(size=X.shape) < 0.7
MASK[..., 0] = True

AXES = [None, 0, -1, 1, (0, 2), (-1, 0), (0, 1, 2), ()]
REDUCTIONS = [
    np.sum, np.mean, np.prod, np.max, np.min, np.amax, np.amin, np.var, np.std, np.any, np.all, np.count_nonzero,
    np.ptp, np.average, np.nansum, np.nanmean, np.nanmax, np.nanmin, np.nanvar, np.nanstd, np.nanprod,
]  # fmt: skip
SMOOTH = [f for f in REDUCTIONS if f not in (np.any, np.all, np.count_nonzero)]
ACCUMULATIONS = [np.cumsum, np.cumprod, np.nancumsum, np.nancumprod]
ids = {"ids": lambda f: getattr(f, "__name__", repr(f))}


# ---- values, shapes and dtypes


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("f", REDUCTIONS, **ids)
def test_reductions_over_every_axis(f):
    for axis, keepdims in product(AXES, (False, True)):
        if not (f is np.average and axis == ()):  # NumPy divides by the size of an empty tuple's result
            check_close(partial(f, axis=axis, keepdims=keepdims), X)
    check_close(f, X)
    check_close(lambda x: f(x, 1), X)
    check_close(f, np.array(3.5))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, np.int64, np.int8, np.uint8, np.bool_], ids=lambda d: d.__name__
)
@pytest.mark.parametrize("f", [*REDUCTIONS, *ACCUMULATIONS], **ids)
def test_dtypes_of_reductions(f, dtype):
    x = (np.arange(6).reshape(2, 3) % 3).astype(dtype)
    if f is np.ptp and dtype is np.bool_:
        with pytest.raises(DTypeError, match=r"^np\.subtract does not take bool, bool\n"):
            trace(f, x)
    else:
        check_close(f, x, rtol=1e-2 if dtype is np.float16 else None)
        check_close(lambda x: f(x, axis=1), x, rtol=1e-2 if dtype is np.float16 else None)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(x, 1, np.float32), lambda x: np.sum(x, dtype=int),
        lambda x: np.mean(x, 0, np.float32, keepdims=True), lambda x: np.sum(x, initial=2.5),
        lambda x: np.sum(x, 0, initial=np.float64(2)), lambda x: np.prod(x, initial=-2),
        lambda x: np.sum(x.astype(int), initial=1.5), lambda x: np.sum(x.astype(np.float32), initial=np.float64(0.1)),
        lambda x: np.max(x, 1, initial=0.5), lambda x: np.min(x, initial=-9), lambda x: np.max(x, initial=None),
        lambda x: np.nanmax(x, initial=0.5), lambda x: x.sum(1, None), lambda x: x.max(-1, keepdims=True),
        lambda x: x.mean(0), lambda x: x.var(0, ddof=1), lambda x: x.std(), lambda x: x.prod(0), lambda x: x.any(0),
        lambda x: x.all(), lambda x: x.argmax(), lambda x: x.min(0), lambda x: x.cumsum(0), lambda x: x.cumprod(),
        lambda x: np.var(x, 0, None, None, 1), lambda x: np.std(x, ddof=2, axis=(0, 1)),
        lambda x: np.var(x, 0, mean=np.mean(x, 0, keepdims=True)),
        lambda x: np.std(x, 1, mean=np.full((2, 1, 4), 0.3)),
        lambda x: np.var(x, mean=np.mean(x, where=MASK), ddof=1, where=MASK),
        lambda x: np.var(x, correction=1), lambda x: np.var(x, 1, ddof=1.0, keepdims=True),
        lambda x: np.std(x, dtype=np.float32), lambda x: np.nanvar(x, ddof=1), lambda x: np.argmax(x, 1),
        lambda x: np.argmin(x, axis=-1, keepdims=True), lambda x: np.argmax(x, keepdims=True),
        lambda x: np.average(x, 1, [1.0, 2.0, 3.0]), lambda x: np.average(x, weights=X),
        lambda x: np.average(X, weights=x),
        lambda x: np.average(x, axis=(2, 0), weights=np.arange(8.0).reshape(4, 2)),
        lambda x: np.average(x, 0, returned=True), lambda x: np.average(x, -1, [1, 2, 3, 4], True),
        lambda x: np.average(x, 0, [1, 2], keepdims=True),
        lambda x: np.average(x.astype(np.float32), 0, np.float32([1, 2])),
        lambda x: np.average(x.astype(int), returned=True), lambda x: np.sum(x, out=np.empty_like(x[0]), axis=0),
        lambda x: np.max(x, 0, np.empty_like(x[0])), lambda x: np.mean(x, 1, where=True),
        lambda x: np.ptp(x, 1, keepdims=True), lambda x: np.count_nonzero(x > 0, axis=0),
    ],
)  # fmt: skip
def test_arguments_of_reductions(f):
    check_close(f, X, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", bool])
def test_sums_and_products_in_a_dtype_wrap(dtype):
    """A cast of the sum of wider integers: the numbers are as NumPy has them in that dtype."""

    def f(x):
        named = {"dtype": dtype}
        y = np.sum(x, **named), x.prod(1, **named), np.nansum(x, 0, **named), np.add.reduce(x, **named)
        y = *y, np.cumsum(x, **named), x.cumprod(**named), np.add.accumulate(x, **named), np.trace(x, **named)
        z = np.sum(x, where=x > 95, initial=50, **named), np.add.reduceat(x, [0, 1], **named)
        return *y, *z, np.multiply.reduceat(x, [0, 1], **named)

    x = np.array([[200, 100, 90], [1, 0, 255]], np.uint8)
    for found, wanted in zip(sg.compile(f)(x), f(x), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


WITH_WHERE = [
    np.sum, np.mean, np.prod, np.var, np.std, np.any, np.all, np.nansum, np.nanmean, np.nanprod, np.nanvar, np.nanstd
]  # fmt: skip


@pytest.mark.parametrize("f", WITH_WHERE, **ids)
@pytest.mark.parametrize("mask", [MASK, MASK[0], MASK[:, :1, :], MASK[0, 0]], ids=lambda m: str(m.shape))
def test_where_of_reductions(f, mask):
    for x in (X, X.astype(np.float32)):
        check_close(lambda x: f(x, where=mask), x)
        check_close(lambda x: f(x, axis=-1, keepdims=True, where=mask), x)
        check_close(lambda x: f(x, axis=2, where=mask), x)


@pytest.mark.parametrize("f", [np.max, np.min, np.nanmax, np.nanmin], **ids)
def test_where_of_extremes(f):
    for x in (X, X.astype(np.float32), (9 * X).astype(np.int8), X > 0):
        check_value(lambda x: f(x, 1, where=MASK, initial=False), x)
        check_value(lambda x: f(x, where=MASK[0], initial=True), x)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("f", [f for f in REDUCTIONS if f.__name__.startswith("nan")], **ids)
def test_nan_reductions(f):
    x = HOLES.copy()
    x[0, :, 0] = np.nan
    x[1, :2, 1] = np.nan
    choices = [{}, {"keepdims": True}, *([{"ddof": 1}, {"ddof": 2}] if f in (np.nanvar, np.nanstd) else [])]
    for axis, options in product((None, 0, 1, (0, 2)), choices):
        check_close(partial(f, axis=axis, **options), x)


@pytest.mark.parametrize(
    "f",
    [
        np.add.reduce, np.multiply.reduce, np.maximum.reduce, np.minimum.reduce, np.logical_and.reduce,
        np.logical_or.reduce, np.logaddexp.reduce,
    ],
    ids=lambda f: f.__self__.__name__,
)  # fmt: skip
def test_ufunc_reduce(f):
    check_close(f, X)
    for axis in (None, 1, (0, 2)):
        check_close(partial(f, axis=axis, keepdims=True), X)
    check_close(lambda x: f(x, axis=-1, where=MASK, initial=f.__self__.identity or 0), X)
    if f.__self__ is not np.logaddexp:
        check_value(f, np.array([[True, False], [True, True]]))
    if "logical" not in f.__self__.__name__:
        check_close(lambda x: f(x, dtype=np.float32), X)


@pytest.mark.parametrize("f", ACCUMULATIONS, **ids)
def test_accumulations(f):
    for x in (X, HOLES, X.astype(np.float32)):
        check_value(f, x)
        for axis in (0, 1, -1):
            check_value(partial(f, axis=axis), x)
    check_value(lambda x: f(x, 0, np.float32), X)
    check_value(f, np.array(2.0))


@pytest.mark.parametrize(
    "f",
    [
        np.add.accumulate, np.multiply.accumulate, lambda x: np.add.accumulate(x, 1),
        lambda x: np.multiply.accumulate(x, axis=-1), lambda x: np.cumulative_sum(x, axis=1),
        lambda x: np.cumulative_prod(x[0, 0]), lambda x: np.cumulative_sum(x, axis=-1, include_initial=True),
        lambda x: np.cumulative_prod(x, axis=0, include_initial=True), np.diff, lambda x: np.diff(x, 2),
        lambda x: np.diff(x, 0), lambda x: np.diff(x, axis=0), lambda x: np.diff(x > 0),
        lambda x: np.diff(x, prepend=0), lambda x: np.diff(x, 1, 1, x[:, :1], 2.0),
        lambda x: np.diff(x, append=x[..., :2]), np.trapezoid, lambda x: np.trapezoid(x, dx=0.5, axis=0),
        lambda x: np.trapezoid(x, [0.0, 1.0, 4.0], axis=1), lambda x: np.trapezoid(x, x**2),
        lambda x: np.trapezoid(x[0, 0], x[1, 0]),
    ],
)  # fmt: skip
def test_functions_along_an_axis(f):
    check_value(f, X)
    check_value(f, X.astype(np.float32))


# ---- derivatives


@pytest.mark.parametrize("f", SMOOTH, **ids)
@pytest.mark.parametrize("axis", [None, 1, (0, 2), ()], ids=str)
def test_derivatives_of_reductions(f, axis):
    if axis == () and f in (np.average, np.std, np.var, np.nanstd, np.nanvar):
        return  # one number has no spread
    check_derivatives(lambda x: f(x, axis=axis), X)
    check_derivatives(lambda x: f(x, axis=axis, keepdims=True) * x, X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.var(x, axis=1, ddof=1), lambda x: np.std(x, ddof=1, axis=(1, 2)),
        lambda x: np.logaddexp.reduce(x, axis=1), lambda x: np.logaddexp.reduce(x, axis=None),
        lambda x: np.maximum.reduce(x, axis=1), lambda x: np.average(x, 0, [1.0, 2.0]),
        lambda x: np.average(x, weights=x**2, axis=1), lambda x: np.sum(x, where=MASK, initial=2.0) ** 2,
        lambda x: np.prod(x, axis=1, where=MASK), lambda x: np.ptp(x, axis=1) ** 2,
        lambda x: np.mean(x, axis=0, where=MASK) ** 2, lambda x: np.var(x, axis=2, where=MASK),
        lambda x: np.std(x, where=MASK), lambda x: np.max(x, axis=1, where=MASK, initial=0.1),
        lambda x: np.max(x, initial=x[0, 0, 0] + 9), lambda x: np.sum(x, out=np.empty_like(x[0]), axis=0) ** 2,
        lambda x: np.argmax(x, axis=1) * x[:, 0], lambda x: np.cumsum(x, axis=1) ** 2, lambda x: np.cumsum(x) ** 2,
        lambda x: np.cumprod(x, axis=0), lambda x: np.cumprod(x[0]), lambda x: np.cumprod(x, axis=-1),
        lambda x: np.diff(x, 2) ** 2, lambda x: np.trapezoid(x, x**2, axis=1),
        lambda x: np.cumulative_prod(x, axis=1, include_initial=True), lambda x: np.multiply.accumulate(x, axis=2),
    ],
)  # fmt: skip
def test_derivatives(f):
    check_derivatives(f, X)


@pytest.mark.parametrize(
    "f", [np.nansum, np.nanmean, np.nanmax, np.nanmin, np.nanprod, np.nanvar, np.nanstd, np.nancumsum], **ids
)
def test_no_nan_reaches_a_gradient_of_a_nan_function(f):
    (g,) = gradient(lambda x: f(x, axis=2), HOLES)
    assert np.isfinite(g).all()
    assert (g[np.isnan(HOLES)] == 0).all()
    expected = gradient(lambda x: f(np.where(np.isnan(HOLES), np.nan, x), axis=2), np.nan_to_num(HOLES, nan=7.0))[0]
    np.testing.assert_array_equal(g, expected)


def gradient(f, *args, order=1):
    """The gradients of the sum of f; order 2 for the sum of the gradient by the first argument."""
    graph, inputs, nodes = trace(f, *args)
    for _ in range(order):
        seeds = [graph.constant(np.ones(y.aval.shape, y.aval.dtype)) for y in nodes]
        nodes = pullback(graph, nodes, seeds, inputs)
    with np.errstate(all="ignore"):
        return interpret(nodes, dict(zip(inputs, args, strict=True)))


@pytest.mark.parametrize("f", [f for f in SMOOTH if f is not np.average], **ids)
def test_float32_gradients_are_computed_in_float32(f):
    for axis in (None, 1):
        graph, inputs, outputs = trace(partial(f, axis=axis), X.astype(np.float32))
        seeds = [graph.constant(np.ones(y.aval.shape, np.float32)) for y in outputs]
        found = pullback(graph, outputs, seeds, inputs)
        assert not [n for n in reached(found) if n.aval.dtype == np.float64 and not n.aval.weak]


# ---- products with zeros


@pytest.mark.parametrize("x", [ONE_ZERO, TWO_ZEROS, np.zeros((2, 3, 4))], ids=["one", "two", "all"])
@pytest.mark.parametrize(
    "f",
    [
        np.prod, lambda x: np.prod(x, axis=1), lambda x: np.prod(x, axis=(0, 2)),
        lambda x: np.prod(x, axis=(1, 2), keepdims=True), np.cumprod, lambda x: np.cumprod(x, axis=1),
        lambda x: np.prod(x, axis=1, where=MASK), lambda x: np.cumprod(x[0, :2], axis=0),
    ],
)  # fmt: skip
def test_products_of_zeros(f, x):
    check_derivatives(f, x)


def test_the_gradient_of_a_product_is_the_product_of_the_others():
    np.testing.assert_array_equal(gradient(np.prod, np.array([2.0, 0.0, 5.0]))[0], [0, 10, 0])
    np.testing.assert_array_equal(gradient(np.prod, np.array([0.0, 0.0, 5.0]))[0], [0, 0, 0])
    np.testing.assert_array_equal(gradient(np.prod, np.array([0.0, 0.0, 5.0]), order=2)[0], [5, 5, 0])


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 9, 17])
def test_cumprod_of_every_length(n):
    x = np.linspace(-1.5, 1.7, n)
    x[n // 2 :: 7] = 0
    check_derivatives(np.cumprod, x)
    check_derivatives(np.prod, x)


# ---- ties, constant data, masks


def test_ties_share_equally():
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    for f in (np.max, np.nanmax):
        np.testing.assert_allclose(gradient(partial(f, axis=1), x)[0], [[0, 0.5, 0.5], [1 / 3] * 3])
        np.testing.assert_allclose(gradient(f, x)[0], [[0, 0.5, 0.5], [0, 0, 0]])
    np.testing.assert_allclose(
        gradient(lambda x: np.min(x, axis=0, keepdims=True), x.T)[0], [[1, 1 / 3], [0, 1 / 3], [0, 1 / 3]]
    )


def test_where_of_an_extreme_does_not_share_with_what_is_left_out():
    (g,) = gradient(lambda x: np.max(x, where=[True, False, True], initial=-1.0), np.array([5.0, 5.0, 2.0]))
    np.testing.assert_array_equal(g, [1, 0, 0])


@pytest.mark.parametrize(
    "f",
    [
        np.std, lambda x: np.std(x, axis=0), np.nanstd, lambda x: np.std(x, where=np.array([True, True, False])),
        lambda x: np.where(np.std(x) > 0, np.std(x), 0), lambda x: np.std(x) / (1 + np.var(x)),
        lambda x: np.sqrt(1 + np.var(x)),
    ],
)  # fmt: skip
def test_the_spread_of_equal_numbers_has_no_slope(f):
    x = np.full(3, 2.0)
    np.testing.assert_array_equal(gradient(f, x)[0], 0)
    assert np.isfinite(gradient(f, x, order=2)[0]).all()


def test_nothing_flows_through_an_extreme_to_what_is_not_the_extreme():
    x = np.array([0.0, 4.0])
    for order in (1, 2):
        assert np.isfinite(gradient(lambda x: np.max(np.sqrt(x)), x, order=order)[0]).all()
        assert np.isfinite(gradient(lambda x: np.max(np.log(x), axis=0), x, order=order)[0]).all()


def test_masks_pass_through_sums():
    x = np.array([[0.0, 4.0], [1.0, 0.0]])
    for f in (np.sum, np.mean, np.cumsum):
        (g,) = gradient(lambda x, f=f: f(np.where(x > 0, np.sqrt(x), 0), axis=1), x)
        assert np.isfinite(g).all()


# ---- sizes


@pytest.mark.parametrize(
    ("f", "ufunc"), [(np.max, "maximum"), (np.min, "minimum"), (np.nanmax, "fmax"), (np.nanmin, "fmin")], **ids
)
def test_extremes_of_nothing(f, ufunc):
    with pytest.raises(ShapeError) as caught:
        trace(lambda x: f(x, axis=0), np.zeros((0, 3)))
    assert caught.value.fact == (
        f"np.{f.__name__} of float64[0, 3] over axis 0: "
        f"zero-size array to reduction operation {ufunc} which has no identity"
    )
    check_value(lambda x: f(x, axis=1), np.zeros((0, 3)))
    check_value(lambda x: f(x, axis=0, initial=2.0), np.zeros((0, 3)))
    check_value(lambda x: f(x, keepdims=True, initial=2), np.zeros((0, 3), np.float32))


def test_position_of_nothing():
    with pytest.raises(ShapeError) as caught:
        trace(np.argmax, np.zeros(0))
    assert caught.value.fact == "np.argmax of float64[0] over axis None: attempt to get argmax of an empty sequence"


@pytest.mark.parametrize("f", [np.sum, np.prod, np.any, np.all, np.cumsum, np.cumprod], **ids)
def test_sums_and_products_of_nothing(f):
    check_value(f, np.zeros((0, 3)))
    check_value(lambda x: f(x, axis=0), np.zeros((0, 3)))


def symbolic(f, x):
    """Value and gradient where all sizes are symbols, evaluated on x."""
    graph, scope = Graph(), Sizes()
    sizes = tuple(scope.symbol(name) for name in "nmk"[: x.ndim])
    node = graph.add_input("x", Aval(sizes, x.dtype))
    y = f(Variable(graph, node))
    (g,) = pullback(graph, [y.node], [np.ones_like(y).node], [node])
    return interpret([y.node, g], {node: x})


@pytest.mark.parametrize(
    "f",
    [
        np.sum, np.mean, np.var, np.std, np.max, np.min, np.nanmean, lambda x: np.mean(x, axis=1),
        lambda x: np.var(x, axis=0, ddof=1), lambda x: np.std(x, axis=(0, 2)), lambda x: np.max(x, axis=1), np.prod,
        lambda x: np.prod(x, axis=1), lambda x: np.prod(x, axis=(0, 2)), lambda x: np.cumsum(x, axis=1), np.cumsum,
        lambda x: np.mean(x, axis=0, where=x > -9), lambda x: np.diff(x, axis=1), lambda x: np.trapezoid(x),
        lambda x: np.logaddexp.reduce(x, axis=2), np.average, lambda x: np.nanvar(x, axis=1),
        lambda x: np.subtract.outer(x, x[0, 0]), lambda x: np.std(x, axis=0, where=x > -9),
    ],
)  # fmt: skip
def test_symbolic_sizes(f):
    value, g = symbolic(f, X)
    np.testing.assert_allclose(value, f(X), rtol=1e-10)
    np.testing.assert_allclose(g, gradient(f, X)[0], rtol=1e-10, atol=1e-12)


RECURRENT = {
    "cumprod": lambda x: np.sum(np.sin(np.cumprod(x, axis=0))),
    "rows": lambda x: np.sum(np.sin(np.cumprod(x, axis=1))),
    "product": lambda x: np.sum(np.prod(np.cos(x), axis=0)),
    "logaddexp": lambda x: np.sum(np.sin(np.logaddexp.accumulate(x, axis=0))),
}


@pytest.mark.parametrize("f", RECURRENT.values(), ids=RECURRENT)
@pytest.mark.parametrize("target", ["numpy", "c"])
def test_second_derivatives_of_recurrences_along_a_symbol(f, target):
    g = sg.hvp(f).compile("float64[n, m]", "float64[n, m]", target=target)
    for shape in ((1, 1), (3, 2), (2, 70), (9, 3)):
        x, v = np.linspace(-1, 1.5, np.prod(shape)).reshape(shape), np.ones(shape)
        x[-1, 0] = 0
        np.testing.assert_allclose(g(x, v), sg.hvp(f)(x, v), rtol=1e-10, atol=1e-12)


def _by_loop(b, a, reverse):
    y = np.zeros_like(b)
    for j in range(len(b))[:: -1 if reverse else 1]:
        last = len(b) - 1 if reverse else 0
        y[j] = b[j] if j == last else b[j] + a[j + reverse] * y[j + 1 if reverse else j - 1]
    return y


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_a_recurrence_is_its_loop(reverse, shared):
    rng = np.random.default_rng(0)
    width = "1" if shared else "m"
    run = sg.compile(lambda b, a: RECURRENCE(b, a, axis=0, reverse=reverse))
    run = run.compile("float64[n, m]", f"float64[n, {width}]", target="c")
    for n, m in product((1, 2, 3, 4, 5, 8, 9, 17), (1, 3, 70)):
        b, a = rng.normal(size=(n, m)), rng.normal(size=(n, 1 if shared else m))
        a[:1] = np.inf  # the first factor is not used
        y = _by_loop(b, a, reverse)
        np.testing.assert_allclose(RECURRENCE.evaluate(b, a, 0, reverse), y, rtol=1e-10)
        np.testing.assert_allclose(RECURRENCE.evaluate(b.T, a.T, 1, reverse).T, y, rtol=1e-10)
        np.testing.assert_allclose(run(b, a), y, rtol=1e-10)


@pytest.mark.parametrize("f", [np.cumprod, np.logaddexp.accumulate], ids=["cumprod", "logaddexp"])
def test_a_recurrence_is_one_node_for_any_length(f):
    slope = sg.grad(lambda x: np.sum(f(x)))
    short, long = ([x.op.name for x in reached(slope.trace(np.ones(n)).graph.outputs)] for n in (4, 400))
    assert short == long
    assert short.count("recurrence") == 1


# ---- batches and source


@pytest.mark.parametrize(
    "f",
    [
        *(partial(f, axis=1) for f in (np.sum, np.mean, np.prod, np.max, np.nanmin, np.var, np.std, np.any, np.argmax)),
        *(np.sum, np.max, np.var, np.argmin, np.all, np.count_nonzero, np.cumsum, np.cumprod),
        lambda x: np.sum(x, axis=(0, 2), keepdims=True), lambda x: np.argmax(x, axis=0, keepdims=True),
        lambda x: np.sum(x, axis=()), lambda x: np.argmax(x, keepdims=True), lambda x: np.cumsum(x, axis=-1),
        lambda x: np.cumprod(x, axis=0), lambda x: np.logaddexp.reduce(x, axis=None),
        lambda x: np.logaddexp.reduce(x, axis=1), lambda x: np.var(x, axis=1, ddof=1),
    ],
)  # fmt: skip
def test_batches(f):
    check_batch(f, X)


@pytest.mark.parametrize(
    ("f", "source"),
    [
        (lambda x: np.cumsum(x), "np.cumsum(x)"),
        (lambda x: np.cumprod(x[None], axis=1), "np.cumprod(x, axis=1)"),
        (lambda x: np.logaddexp.reduce(x), "np.logaddexp.reduce(x, axis=None)"),
        (lambda x: np.logaddexp.reduce(x[None], keepdims=True), "np.logaddexp.reduce(x, axis=0, keepdims=True)"),
    ],
)
def test_source(f, source):
    (node,) = trace(f, np.ones(3))[2]
    assert node.op.spell(node, Code("x")).text == source


def test_parameters_are_what_differs_from_the_defaults():
    def params(f):
        return trace(f, X)[2][0].params

    assert params(lambda x: np.var(x, axis=-3, keepdims=False)) == (("axis", 0),)
    assert params(lambda x: np.var(x, (2, -2, 0), ddof=0)) == ()
    assert params(lambda x: np.std(x, (2, 0), correction=1, keepdims=True)) == (
        ("axis", (0, 2)),
        ("ddof", 1),
        ("keepdims", True),
    )


def test_rules_are_as_one_writes_them():
    def names(f, shape=(4, 3)):
        graph, inputs, outputs = trace(f, np.ones(shape))
        (g,) = pullback(graph, outputs, [graph.constant(np.ones(outputs[0].aval.shape))], inputs)
        return [node.op.name for node in reached([g]) if node.inputs]

    assert names(np.sum) == ["broadcast_to"]
    assert names(np.mean) == ["divide", "broadcast_to"]
    assert sorted(names(np.var)) == ["divide", "mean", "multiply", "multiply", "subtract"]
    assert sorted(names(np.max)) == sorted(["max", "equal", "count_nonzero", "divide", "where"])


# ---- what is refused


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda x: np.sum(x, axis=3), ShapeError, "np.sum: axis 3 is out of bounds for 3 dimensions"),
        (lambda x: np.max(x, axis=(0, -3)), ShapeError, "np.max: axis (0, -3) names a dimension twice"),
        (lambda x: np.cumsum(x, axis=5), ShapeError, "np.cumsum: axis 5 is out of bounds for 3 dimensions"),
        (lambda x: np.std(x, ddof=0.5), UnsupportedError, "np.std: ddof=0.5 is not an integer"),
        (
            lambda x: np.var(x, ddof=1, correction=1),
            ArgumentError,
            "np.var: ddof and correction cannot be given together",
        ),
        (lambda x: np.mean(x, dtype=int), UnsupportedError, "np.mean: dtype=int64 is not supported"),
        (
            lambda x: np.max(x, where=MASK),
            UnsupportedError,
            "np.max: where= without initial= has no value where nothing is selected",
        ),
        (
            lambda x: np.sum(x, where=np.ones((2, 2, 3, 4), bool)),
            ShapeError,
            "np.sum: where= of shape (2, 2, 3, 4) does not fit an array of shape (2, 3, 4)",
        ),
        (lambda x: np.argmax(x, axis=(0, 1)), UnsupportedError, "np.argmax: axis=(0, 1) names several dimensions"),
        (
            lambda x: np.average(x, weights=[1.0, 2.0]),
            ShapeError,
            "np.average: weights of shape (2,) for an array of shape (2, 3, 4) need axis=",
        ),
        (
            lambda x: np.average(x, axis=1, weights=[1.0, 2.0]),
            ShapeError,
            "np.average: weights of shape (2,) for axis 1 of an array of shape (2, 3, 4)",
        ),
        (lambda x: np.sum(x, out=np.zeros(())), WriteError, WRITTEN_BEFORE),
        (
            lambda x: np.sum(x, 0, None, np.zeros((3, 4))),
            WriteError,
            WRITTEN_BEFORE,
        ),
        (lambda x: np.cumulative_sum(x), ArgumentError, "np.cumulative_sum: an array of 3 dimensions needs axis="),
        (lambda x: np.diff(x, -1), ArgumentError, "np.diff: n=-1 is negative"),
        (lambda x: np.equal.reduce(x), UnsupportedError, "np.equal.reduce is not supported"),
        (lambda x: np.hypot.reduce(x, (0, 1)), UnsupportedError, "np.hypot.reduce over several axes"),
    ],
)
def test_refusals(f, error, message):
    with pytest.raises(error) as caught:
        trace(f, X)
    assert caught.value.fact == message
