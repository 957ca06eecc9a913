"""Statistics of order: medians and quantiles, with NaNs or without."""

from typing import NamedTuple

import numpy as np

from symgrad.core.axes import AxisSignature, axis_numbers, reduced
from symgrad.core.graph import Aval
from symgrad.core.shapes import product, reduced_shape
from symgrad.core.sizes import same
from symgrad.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from symgrad.ops.arguments import axis_tuple, check_ndim, refuse_given
from symgrad.ops.define import implements, operator
from symgrad.ops.dtypes import common_dtype
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.reduce import over_axes
from symgrad.ops.reduction import mean_dtype, reduction

# ---- ranks


def _ranks(x, axes):
    """The place of each number among those along the axes, in the shape of `x`; equal numbers as sorting has them."""
    return over_axes(lambda x, axis: np.argsort(np.argsort(x, axis=axis), axis=axis), x, axes)


def _count(x, axes, skips_nan):
    """Return how many numbers there are to choose from; where NaNs are skipped, they rank last and are not counted."""
    if skips_nan and x.dtype.kind in "fc":
        return np.sum(~np.isnan(x), axis=axes, keepdims=True)
    return product([x.shape[i] for i in axes])


# ---- medians


def _median(function, skips_nan):
    """Define a median and NumPy's signature of it."""
    name = function.__name__

    def vjp(g, y, x, axis):
        """The one or two numbers in the middle take the cotangent; ties follow the sort order."""
        axes = axis_tuple(name, axis, x.ndim)
        ranks, n = _ranks(x, axes), _count(x, axes, skips_nan)
        low, high = (n - 1) // 2, n // 2
        if not is_traced(n) and same(low, high):
            return np.where(ranks == low, g, 0)
        return np.where(ranks == low, g * 0.5, 0) + np.where(ranks == high, g * 0.5, 0)

    op = reduction(function, vjp, dtype=mean_dtype, finds_nan=skips_nan)

    @implements(function)
    def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
        # by keyword `out` is delivered before the function is called
        refuse_given(name, out=out, overwrite_input=bool(overwrite_input))
        return op(a, axis=axis, keepdims=keepdims is not np._NoValue and keepdims)

    return op


MEDIAN = _median(np.median, skips_nan=False)
_median(np.nanmedian, skips_nan=True)

# ---- methods


class Method(NamedTuple):
    """Position of the quantile `q` among `n` sorted numbers, from 0, with linear interpolation between them."""

    position: object  # of n and q
    slope: object = lambda n: 0  # of the position in q, where it is not a step
    picks: bool = False  # whether it always is one of the numbers, in their dtype


def _between(alpha, beta):
    return Method(lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1, lambda n: n + (1 - alpha - beta))


def _step(position, picks=True):
    return Method(position, picks=picks)


METHODS = {
    "linear": Method(lambda n, q: q * (n - 1), lambda n: n - 1),
    "interpolated_inverted_cdf": _between(0, 1),
    "hazen": _between(0.5, 0.5),
    "weibull": _between(0, 0),
    "median_unbiased": _between(1 / 3, 1 / 3),
    "normal_unbiased": _between(3 / 8, 3 / 8),
    "lower": _step(lambda n, q: np.floor(q * (n - 1))),
    "higher": _step(lambda n, q: np.ceil(q * (n - 1))),
    "nearest": _step(lambda n, q: np.rint(q * (n - 1))),
    "midpoint": _step(lambda n, q: 0.5 * (np.floor(q * (n - 1)) + np.ceil(q * (n - 1))), picks=False),
    "inverted_cdf": _step(lambda n, q: np.ceil(n * q) - 1),
    "averaged_inverted_cdf": _step(lambda n, q: 0.5 * (np.ceil(n * q) + np.floor(n * q) - 1), picks=False),
    "closest_observation": _step(lambda n, q: np.rint(n * q) - 1),
}
"""Hyndman & Fan, *Sample quantiles in statistical packages*, The American Statistician 50 (1996), and NumPy's own."""


# ---- quantiles


def _order_statistic(function, whole, skips_nan=False):
    """Define np.quantile, where `whole` is 1, or np.percentile, where it is 100. An array `q` adds the first axis."""
    name = function.__name__

    def infer(a, q, axis=None, keepdims=False, method="linear"):
        if a.dtype.kind not in "iuf":
            raise DTypeError(f"np.{name} does not take {a.dtype}", "Convert it first: a.astype(float).")
        axes = axis_tuple(name, axis, a.ndim)
        if any(same(a.shape[i], 0) for i in axes):
            raise ShapeError(
                f"np.{name} of {a} over axis {axis}: there is nothing to choose from", "Test the size before: x.size."
            )
        return Aval(q.shape + reduced_shape(a.shape, axes, keepdims), _dtype(a, q, method, whole))

    def bind(a, q, axis=None, keepdims=False, method="linear"):
        inputs, params = MEDIAN.bind(a, axis, keepdims)
        return (*inputs, as_input(q)), {**params, "method": method}

    def vjp(g, y, a, q, axis, keepdims, method):
        axes = axis_tuple(name, axis, a.ndim)
        kept = reduced_shape(a.shape, axes, keepdims=True)
        g, q = np.reshape(g, q.shape + kept), np.reshape(q, q.shape + (1,) * a.ndim) if q.ndim else q
        n = _count(a, axes, skips_nan)
        return _vjp_quantile(g, a, q if whole == 1 else q / whole, n, axes, METHODS[method], whole)

    def batch(batched, a, q, axis, keepdims, method):
        if not batched[1]:
            return NotImplemented
        over = axis_numbers(axis, 0, a.ndim - 1, a.shape[:1]) if batched[0] else axis
        y = op(a, np.ravel(q), axis=over, keepdims=keepdims, method=method)
        y = np.reshape(y, q.shape + y.shape[1:])
        if not batched[0]:
            return y
        rows = np.arange(a.shape[0], like=a)  # each with each was made, and each with its own is asked for
        return y[rows, :, rows] if q.ndim > 1 else y[rows, rows]

    def signature(y, a, q, axis, keepdims, method):
        kept = reduced(a, axis_tuple(name, axis, a.ndim), keepdims)
        of_q = tuple(range(-q.ndim, 0))
        return AxisSignature((*kept.inputs, of_q), (*of_q, *kept.result))

    op = operator(
        function,
        arrays=2,
        infer=infer,
        bind=bind,
        vjp=vjp,
        batch=batch,
        signature=signature,
        axes={"axis": axis_numbers},
        finds_nan=skips_nan,
    )
    return op


def _dtype(a, q, method, whole):
    if METHODS[method].picks:
        return a.dtype
    if q.dtype.kind not in "iu":
        return common_dtype(a, q)
    if method == "linear" and whole == 1:  # NumPy picks without interpolation; 100ths are always interpolated
        return a.dtype
    if q.ndim and a.dtype.kind in "iu" and whole == 1:  # integers then, for some methods
        raise DTypeError(f"np.quantile: integers for q and method={method!r}", "Write q as floats.")
    return common_dtype(a, Aval((), np.dtype(float), q.weak))


def _vjp_quantile(g, a, q, n, axes, method, whole):
    """The two numbers between which the quantile lies share the cotangent; where it is one of them, `q` moves it up."""
    position, slope = method.position(n, q), method.slope(n)
    if method is not METHODS["linear"]:  # others reach beyond the numbers, where the first or the last one stands
        inside = (position >= 0) & (position < n - 1)
        position, slope = np.clip(position, 0, n - 1), np.where(inside, slope, 0)
    low = np.minimum(np.floor(position), n - 2)
    t, ranks = position - low, _ranks(a, axes)
    below, above = ranks == low, ranks == low + 1
    d_a = np.where(below, g * (1 - t), 0) + np.where(above, g * t, 0)
    steps = np.where(above, a, 0) - np.where(below, a, 0)
    if not q.ndim:
        return d_a, np.sum(g * steps * (slope / whole))
    return np.sum(d_a, axis=0), np.sum(g * steps * (slope / whole), axis=tuple(range(1, g.ndim)))


def _signed(function, whole, skips_nan=False):
    """Define an order statistic and NumPy's signature of it."""
    name, op = function.__name__, _order_statistic(function, whole, skips_nan)

    @implements(function)
    def quantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
        refuse_given(name, out=out, overwrite_input=bool(overwrite_input), weights=weights)
        if method not in METHODS:
            raise UnsupportedError(f"np.{name}: method={method!r} is unknown", f"The methods are {', '.join(METHODS)}.")
        _check_q(name, q, whole)
        return op(a, q, axis=axis, keepdims=keepdims is not np._NoValue and keepdims, method=method)

    return op


def _check_q(name, q, whole):
    check_ndim(f"np.{name}: q", q, 0, 1, "Write q.ravel().")
    if not is_traced(q) and not np.all((np.asarray(q) >= 0) & (np.asarray(q) <= whole)):
        raise ArgumentError(
            f"np.{name}: q={q} is not between 0 and {whole}",
            "np.quantile takes q from 0 to 1, np.percentile from 0 to 100.",
        )


QUANTILE, PERCENTILE = _signed(np.quantile, 1), _signed(np.percentile, 100)
_signed(np.nanquantile, 1, skips_nan=True)
_signed(np.nanpercentile, 100, skips_nan=True)
