"""scipy.stats: correlation and regression of two samples, with the probabilities of their tests."""

from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from symgrad.core import tree
from symgrad.core.shapes import product, reduced_shape
from symgrad.core.sizes import same
from symgrad.errors import ArgumentError, ShapeError, UnsupportedError
from symgrad.ops.arguments import axis_index, axis_tuple, refuse_given
from symgrad.ops.define import implements_at
from symgrad.ops.marks import STOP
from symgrad.ops.operands import is_traced
from symgrad.ops.scipy.convert import double
from symgrad.ops.scipy.samples import (
    PACKAGE,
    count,
    either,
    full_of_nan,
    keeps,
    mean,
    paired,
    root,
    rows,
    without,
)

# ---- what both share


def _tail(function, y, cdf, sf, alternative):
    """Return the probability of a statistic beyond `y`, which is distributed about zero."""
    if alternative == "less":
        return cdf(y)
    if alternative == "greater":
        return sf(y)
    if alternative == "two-sided":
        return 2 * sf(np.abs(y))
    raise ArgumentError(
        f"{PACKAGE}.{function}: alternative={alternative!r} is unknown", "Write 'less', 'greater' or 'two-sided'."
    )


def _is_constant(x, axes):
    return np.max(x, axis=axes, keepdims=keeps(x, axes)) == np.min(x, axis=axes, keepdims=keeps(x, axes))


# ---- correlation


class PearsonRResult(NamedTuple):
    """The result of `scipy.stats.pearsonr`, without samples to draw from."""

    statistic: Any
    pvalue: Any

    @property
    def correlation(self) -> Any:
        return self.statistic

    def confidence_interval(self, confidence_level: float = 0.95, method: Any = None) -> Any:
        raise UnsupportedError(
            f"{PACKAGE}.pearsonr: the confidence interval of a traced result is not supported",
            "Write np.tanh(np.arctanh(r) + z / np.sqrt(n - 3)) with the quantile z of the normal distribution.",
        )


@implements_at(stats, "pearsonr")
def pearsonr(x, y, *, alternative="two-sided", method=None, axis=0):
    refuse_given("pearsonr", PACKAGE, method=method)
    x, y = rows("pearsonr", "propagate", x, y)
    x, y, axes = _along_one_axis(x, y, axis)
    n = count(x, axes)
    r = np.clip(np.sum(_unit(x, axes) * _unit(y, axes), axis=axes), -1, 1)
    half = np.maximum(n / 2 - 1, n.dtype.type(0.5))

    def pvalue():
        """By the distribution of r for independent normal numbers, a beta distribution on (-1, 1)."""
        return _tail(
            "pearsonr",
            r,
            lambda r: special.betainc(half, half, (r + 1) / 2),
            lambda r: special.betaincc(half, half, (r + 1) / 2),
            alternative,
        )

    # two pairs lie on a line: r is 1 or -1, and no other pairs have a larger one
    return PearsonRResult(
        either(n == 2, lambda: np.round(r), lambda: r),
        either(n == 2, lambda: np.where(np.isnan(r), r, r.dtype.type(1)), pvalue),
    )


def _along_one_axis(x, y, axis):
    """Return two samples in a common shape, and the axis of the pairs."""
    if axis is None:
        x, y, axis = np.ravel(x), np.ravel(y), 0
    ndim = max(x.ndim, y.ndim)
    x, y = (np.reshape(z, (1,) * (ndim - z.ndim) + z.shape) for z in (x, y))
    axis = axis_index("pearsonr", axis, ndim, PACKAGE)
    n, m = x.shape[axis], y.shape[axis]
    if any(same(n, few) for few in (0, 1)) or not (same(n, m) or n == m):
        raise ShapeError(f"{PACKAGE}.pearsonr of {n} and {m} numbers", "Give two pairs of numbers, or more.")
    return *np.broadcast_arrays(x, y), (axis,)


def _unit(x, axes):
    """Deviations from the mean, of length 1; NaN of a constant sample. Scaled before, they do not overflow."""
    deviations = x - mean(x, axes)
    scale = STOP(np.max(np.abs(deviations), axis=axes, keepdims=keeps(x, axes)))
    scaled = deviations / np.where(_is_constant(x, axes), np.nan, scale)
    return scaled / np.sqrt(np.sum(scaled**2, axis=axes, keepdims=keeps(x, axes)))


# ---- regression

_KNOWN = stats.linregress([0.0, 1.0, 2.0], [0.0, 1.0, 3.0])
FITTED = tree.register(
    type(_KNOWN),
    lambda fit: ((*fit, fit.intercept_stderr), None, (*fit._fields, "intercept_stderr")),
    lambda _, parts: FITTED(*parts[:5], intercept_stderr=parts[5]),
)


@implements_at(stats, "linregress")
def linregress(x, y, alternative="two-sided", *, axis=0, nan_policy="propagate", keepdims=False):
    """The line of least squares. Where all of x are one number, or NaN, it is NaN."""
    x, y = paired(*rows("linregress", nan_policy, double(x), double(y)), axis)
    axes = axis_tuple("linregress", axis, x.ndim, PACKAGE)
    if any(same(product([x.shape[i] for i in axes]), few) for few in (0, 1)):
        nothing = full_of_nan(x, reduced_shape(x.shape, axes, keepdims))
        return FITTED(*[nothing] * 5, intercept_stderr=nothing)
    *parts, error = (without(part, axes, keepdims) for part in _line(x, y, axes, alternative))
    return FITTED(*parts, intercept_stderr=error)


def _line(x, y, axes, alternative):
    """Slope, intercept, correlation, its probability if there is no slope, and the errors of slope and intercept."""
    n, x_mean, y_mean, same_x = count(x, axes), mean(x, axes), mean(y, axes), _is_constant(x, axes)
    if is_traced(same_x):
        same_x.may_raise(ValueError)
    xs, ys = x - x_mean, y - y_mean
    xx, xy, yy = mean(xs * xs, axes), mean(xs * ys, axes), mean(ys * ys, axes)
    xx = np.where(same_x, np.nan, xx)
    slope, r = xy / xx, np.clip(xy / np.sqrt(xx * yy), -1, 1)
    exact, freedom = np.where(np.isnan(slope), slope, 0.0), np.maximum(n - 2, 1)

    def pvalue():
        """By the distribution of t for normal errors."""
        t = r * np.sqrt(freedom / ((1 - r + 1e-20) * (1 + r + 1e-20)))
        return _tail(
            "linregress", t, lambda t: special.stdtr(freedom, t), lambda t: special.stdtr(freedom, -t), alternative
        )

    error = either(n == 2, lambda: exact, lambda: root((1 - r**2) * yy / xx / freedom))
    probability = either(n == 2, lambda: np.where(_is_constant(y, axes), exact + 1, exact), pvalue)
    return slope, y_mean - slope * x_mean, r, probability, error, error * np.sqrt(xx + x_mean**2)
