"""scipy.stats: statistics of a sample, such as its skewness, by formulas of symgrad's own.

They have SciPy's NaN: of samples that hold one, that are too small, or that are constant where a formula divides by
their deviation.
"""

import math

import numpy as np
from scipy import special, stats

from symgrad.core.shapes import product, reduced_shape, same_shape
from symgrad.core.sizes import same
from symgrad.errors import ArgumentError, DTypeError, ShapeError
from symgrad.ops.arguments import axis_tuple, refuse_given
from symgrad.ops.define import implements_at
from symgrad.ops.operands import as_input, is_traced, strong
from symgrad.ops.quantiles import METHODS

PACKAGE = "scipy.stats"

# ---- what the statistics share


def samples(function, nan_policy, *given, floating=True, kinds="biuf"):
    """Return samples of one dtype, a floating one unless integers may stay."""
    refuse_given(function, PACKAGE, nan_policy=nan_policy != "propagate")
    arrays = [strong(as_input(x)) for x in given]
    dtype = np.result_type(*[x.dtype for x in arrays])
    if dtype.kind not in kinds:
        raise DTypeError(f"{PACKAGE}.{function} of {dtype} is not supported", "Convert it first: x.astype(float).")
    if floating and dtype.kind != "f":
        dtype = np.dtype(float)
    return [in_dtype(x, dtype) for x in arrays]


def rows(*args, **options):
    """Return `samples` with an axis at least: a number is a sample as well."""
    return [x if np.ndim(x) else np.reshape(x, 1) for x in samples(*args, **options)]


def in_dtype(x, dtype):
    return x if x.dtype == dtype else np.astype(x, dtype) if is_traced(x) else np.asarray(x, dtype)


def paired(x, w, axis):
    """Return two samples in a common shape; SciPy flattens them first where no axis is named."""
    if axis is None and not same_shape(x.shape, w.shape):
        x, w = np.ravel(x), np.ravel(w)
    return np.broadcast_arrays(x, w)


def over(function, formula, x, axis, keepdims, least=1):
    """Return ``formula(axes)``, which keeps the axes of `x` unless these are all; NaN of fewer numbers than `least`."""
    axes = axis_tuple(function, axis, x.ndim, PACKAGE)
    if least and any(same(x.shape[i], 0) for i in axes):
        return full_of_nan(x, reduced_shape(x.shape, axes, keepdims))
    y = formula(axes)
    if least > 1:
        y = either(count(x, axes) >= least, lambda: y, lambda: y * np.nan)
    return without(y, axes, keepdims)


def without(y, axes, keepdims=False):
    """Return a statistic without axes of size 1, which it has if it is an array."""
    if np.ndim(y) == 0:
        return np.reshape(y, (1,) * len(axes)) if keepdims else y[()]
    return y if keepdims else np.squeeze(y, axis=axes)


def full_of_nan(x, shape):
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(float)
    return np.full(shape, np.nan, dtype, like=x if is_traced(x) else None) if shape else dtype.type(np.nan)


def count(x, axes):
    """Return the number of elements along axes in the dtype of `x`, a traced one where it is a symbol."""
    n = 1.0 * product([x.shape[i] for i in axes])
    return in_dtype(n, x.dtype) if is_traced(n) else x.dtype.type(n)


def either(condition, y, z):
    """Return ``y()`` or ``z()`` by a condition on sizes, both where these are symbols."""
    if is_traced(condition):
        return np.where(condition, y(), z())
    return y() if condition else z()


def correction(n, ddof):
    """Return n / (n - ddof), which takes degrees of freedom from a mean of squares; infinite if none is left."""
    if not is_traced(ddof) and ddof == 0:
        return 1
    freedom = either(n == ddof, lambda: 1, lambda: n - ddof)
    return either(n == ddof, lambda: n.dtype.type(np.inf), lambda: n / freedom)


def keeps(x, axes):
    """Whether a statistic keeps the axes, to broadcast against the sample: it does by itself where it is a number."""
    return len(axes) < x.ndim


def mean(x, axes):
    return np.mean(x, axis=axes, keepdims=keeps(x, axes))


def root(x):
    """The square root, with slope 0 at 0 as that of `np.std` has."""
    zero = x == 0
    return np.where(zero, x, np.sqrt(np.where(zero, 1, x)))


def deviation(x, axes, ddof):
    """The standard deviation of more than `ddof` numbers."""
    y = np.std(x, axis=axes, keepdims=keeps(x, axes))
    if not is_traced(ddof) and ddof == 0:
        return y
    n = count(x, axes)
    return y * np.sqrt(n / either(n > ddof, lambda: n - ddof, lambda: n))


# ---- means


def _mean(x, axes, weights):
    if weights is None:
        return mean(x, axes)
    weights = in_dtype(weights, x.dtype)
    return np.sum(x * weights, axis=axes, keepdims=keeps(x, axes)) / np.sum(weights, axis=axes, keepdims=keeps(x, axes))


def _generalised(function, transform, back, a, axis, dtype, weights, nan_policy, keepdims, floating=True):
    """The weighted mean of transformed numbers, transformed back."""
    given = [x if dtype is None else np.astype(as_input(x), dtype) for x in (a, weights) if x is not None]
    x, *more = rows(function, nan_policy, *given, floating=floating)
    x, w = paired(x, more[0], axis) if more else (x, None)
    return over(function, lambda axes: back(_mean(transform(x), axes, w)), x, axis, keepdims)


def _not_negative(x):
    return np.where(x < 0, np.nan, x)


@implements_at(stats, "gmean")
def gmean(a, axis=0, dtype=None, weights=None, *, nan_policy="propagate", keepdims=False):
    """The logarithm is that of the given dtype: of small integers it has half precision, in SciPy as well."""
    return _generalised("gmean", np.log, np.exp, a, axis, dtype, weights, nan_policy, keepdims, floating=False)


@implements_at(stats, "hmean")
def hmean(a, axis=0, dtype=None, *, weights=None, nan_policy="propagate", keepdims=False):
    def inverse(x):
        return 1 / x

    return _generalised("hmean", lambda x: 1 / _not_negative(x), inverse, a, axis, dtype, weights, nan_policy, keepdims)


@implements_at(stats, "pmean")
def pmean(a, p, *, axis=0, dtype=None, weights=None, nan_policy="propagate", keepdims=False):
    if is_traced(p) or not isinstance(p, (int, float)) or math.isinf(p):
        raise ArgumentError(f"{PACKAGE}.pmean: p={p} is not a finite number of Python", "Give p as a constant.")
    if p == 0:
        return gmean(a, axis, dtype, weights, nan_policy=nan_policy, keepdims=keepdims)
    return _generalised(
        "pmean",
        lambda x: _not_negative(x) ** float(p),
        lambda y: y ** (1 / p),
        a, axis, dtype, weights, nan_policy, keepdims,
    )  # fmt: skip


@implements_at(stats, "tmean")
def tmean(a, limits=None, inclusive=(True, True), axis=None, *, nan_policy="propagate", keepdims=False):
    (x,) = rows("tmean", nan_policy, a, kinds="iuf")
    if limits is None:
        return over("tmean", lambda axes: mean(x, axes), x, axis, keepdims)
    outside = _outside(x, limits, inclusive)
    if is_traced(outside):
        outside.may_raise(ValueError)  # where all numbers lie outside; here the mean is NaN

    def formula(axes):
        inside = np.sum(np.astype(~outside, x.dtype), axis=axes, keepdims=keeps(x, axes))
        return np.sum(np.where(outside, 0, x), axis=axes, keepdims=keeps(x, axes)) / np.where(
            inside == 0, np.nan, inside
        )

    return over("tmean", formula, x, axis, keepdims)


def _outside(x, limits, inclusive):
    """Return where numbers lie outside of the limits, of which each may be None."""
    (low, high), (with_low, with_high) = limits, inclusive
    outside = np.zeros_like(x, dtype=bool)
    if low is not None:
        outside = outside | (x < low if with_low else x <= low)
    if high is not None:
        outside = outside | (x > high if with_high else x >= high)
    return outside


# ---- moments


@implements_at(stats, "moment")
def moment(a, order=1, axis=0, nan_policy="propagate", *, center=None, keepdims=False):
    (x,) = rows("moment", nan_policy, a)
    orders = [_order(r) for r in np.atleast_1d(order)]
    if center is not None and np.ndim(center):
        raise ShapeError(f"{PACKAGE}.moment: center of shape {np.shape(center)} is no number", "Subtract it before.")
    found = [over("moment", lambda axes, r=r: _moment(x, axes, r, center), x, axis, keepdims) for r in orders]
    return np.stack(found) if np.ndim(order) else found[0]


def _order(r):
    if is_traced(r) or r != int(r) or r < 0:
        raise ArgumentError(f"{PACKAGE}.moment: order={r} is not an integer from 0 on", "Give it as a constant.")
    return int(r)


def _moment(x, axes, order, center=None):
    if order == 0 or (order == 1 and center is None):
        is_nan = np.any(np.isnan(x), axis=axes, keepdims=keeps(x, axes))
        return np.where(is_nan, x.dtype.type(np.nan), x.dtype.type(1 - order))
    centre = mean(x, axes) if center is None else in_dtype(strong(as_input(center)), x.dtype)
    return mean((x - centre) ** order, axes)


def _standardised(x, axes, order):
    """The moment by the power of the variance that has its unit, NaN if that is as small as its rounding error."""
    centre = mean(x, axes)
    variance, top = (mean((x - centre) ** r, axes) for r in (2, order))
    constant = variance <= (np.finfo(x.dtype).eps * centre) ** 2
    return np.where(constant, np.nan, top / np.where(constant, 1, variance) ** (order / 2))


@implements_at(stats, "skew")
def skew(a, axis=0, bias=True, nan_policy="propagate", *, keepdims=False):
    (x,) = rows("skew", nan_policy, a)
    return over("skew", lambda axes: _skew(x, axes, bias), x, axis, keepdims)


def _skew(x, axes, bias=True):
    n, y = count(x, axes), _standardised(x, axes, 3)
    if bias:
        return y
    return either(n > 2, lambda: np.sqrt((n - 1) * n) / np.maximum(n - 2, 1) * y, lambda: y)


@implements_at(stats, "kurtosis")
def kurtosis(a, axis=0, fisher=True, bias=True, nan_policy="propagate", *, keepdims=False):
    (x,) = rows("kurtosis", nan_policy, a)
    return over("kurtosis", lambda axes: _kurtosis(x, axes, bias, fisher), x, axis, keepdims)


def _kurtosis(x, axes, bias=True, fisher=True):
    """The excess over that of the normal distribution, if it is that of Fisher."""
    n, y = count(x, axes), _standardised(x, axes, 4)
    y = y - 3 if bias else either(n > 3, lambda: _unbiased_excess(y, n), lambda: y - 3)
    return y if fisher else y + 3


def _unbiased_excess(y, n):
    freedom = np.maximum((n - 2) * (n - 3), 1)
    return ((n * n - 1) * y - 3 * (n - 1) ** 2) / freedom


@implements_at(stats, "describe")
def describe(a, axis=0, ddof=1, bias=True, nan_policy="propagate"):
    (x,) = rows("describe", nan_policy, a, floating=False, kinds="iuf")
    axes = axis_tuple("describe", axis, x.ndim, PACKAGE)
    n = product([x.shape[i] for i in axes])
    if any(same(size, 0) for size in x.shape):
        raise ShapeError(f"{PACKAGE}.describe: there is nothing in a sample of shape {x.shape}", "Test x.size before.")
    (y,) = samples("describe", nan_policy, x)
    variance = np.var(y, axis=axes, keepdims=keeps(y, axes)) * correction(count(y, axes), ddof)
    parts = [mean(y, axes), variance, _skew(y, axes, bias), _kurtosis(y, axes, bias)]
    extremes = np.min(x, axis=axes), np.max(x, axis=axes)
    return DESCRIBED(np.int64(n) if isinstance(n, int) else n, extremes, *[without(part, axes) for part in parts])


DESCRIBED = type(stats.describe([0.0, 1.0]))


# ---- deviations


@implements_at(stats, "sem")
def sem(a, axis=0, ddof=1, nan_policy="propagate", *, keepdims=False):
    (x,) = rows("sem", nan_policy, a)

    def formula(axes):
        return np.std(x, axis=axes, ddof=ddof, keepdims=keeps(x, axes)) / np.sqrt(count(x, axes))

    return over("sem", formula, x, axis, keepdims, least=2)


@implements_at(stats, "variation")
def variation(a, axis=0, nan_policy="propagate", ddof=0, *, keepdims=False):
    (x,) = rows("variation", nan_policy, a, kinds="biuf" if type(ddof) is int and ddof == 0 else "iuf")
    return over("variation", lambda axes: _variation(x, axes, ddof), x, axis, keepdims)


def _variation(x, axes, ddof):
    """The deviation by the mean; without a degree of freedom infinite, unless it is 0 or there are less than none."""
    n, y = count(x, axes), deviation(x, axes, ddof)

    def otherwise():
        return np.where((y > 0) & (n == ddof), np.inf, np.nan) / mean(x, axes)

    return either(n > ddof, lambda: y / mean(x, axes), otherwise)


@implements_at(stats, "zscore")
def zscore(a, axis=0, ddof=0, nan_policy="propagate"):
    return zmap(a, a, axis, ddof, nan_policy)


@implements_at(stats, "gzscore")
def gzscore(a, *, axis=0, ddof=0, nan_policy="propagate"):
    (x,) = samples("gzscore", nan_policy, a)
    return zscore(np.log(x), axis, ddof)


@implements_at(stats, "zmap")
def zmap(scores, compare, axis=0, ddof=0, nan_policy="propagate"):
    """Scores by the mean and the deviation of others; NaN by their own if these are as small as rounding errors."""
    x, y = samples("zmap", nan_policy, scores, compare)
    axes = axis_tuple("zmap", axis, y.ndim, PACKAGE)
    if any(same(n, 0) for n in y.shape):
        return x - np.nan
    n, centre, width = count(y, axes), mean(y, axes), deviation(y, axes, ddof)
    constant = width <= np.abs(np.finfo(x.dtype).eps * centre) if scores is compare else None
    z = (x - centre) / (width if constant is None else np.where(constant, 1, width))
    z = z if constant is None else np.where(constant, np.nan, z)
    return z if not is_traced(ddof) and ddof == 0 else either(n > ddof, lambda: z, lambda: np.full_like(z, np.nan))


@implements_at(stats, "median_abs_deviation")
def median_abs_deviation(x, axis=0, center=None, scale=1.0, nan_policy="propagate", *, keepdims=False):
    (x,) = rows("median_abs_deviation", nan_policy, x)
    scale = _named_scale("median_abs_deviation", scale, 0.6744897501960817)

    def formula(axes):
        middle = np.median(x, axis=axes, keepdims=keeps(x, axes)) if center is None else _centre(center, x, axes)
        return np.median(np.abs(x - middle), axis=axes, keepdims=keeps(x, axes)) / scale

    return over("median_abs_deviation", formula, x, axis, keepdims)


def _centre(center, x, axes):
    """The centre by a function of the sample and of its axis, the last one of all numbers along the axes."""
    rest = [i for i in range(x.ndim) if i not in axes]
    sizes = [x.shape[i] for i in rest], product([x.shape[i] for i in axes])
    flat = np.reshape(np.transpose(x, (*rest, *axes)), (*sizes[0], sizes[1]))
    return np.reshape(center(flat, axis=-1), reduced_shape(x.shape, axes, keepdims=True))


def _named_scale(function, scale, normal):
    if not isinstance(scale, str):
        return scale
    if scale.lower() != "normal":
        raise ArgumentError(f"{PACKAGE}.{function}: scale={scale!r} is unknown", "Write scale='normal' or a number.")
    return normal


@implements_at(stats, "iqr")
def iqr(x, axis=None, rng=(25, 75), scale=1.0, nan_policy="propagate", interpolation="linear", keepdims=False):
    (x,) = rows("iqr", nan_policy, x, kinds="iuf")
    low, high = sorted(rng)
    if interpolation not in METHODS or not 0 <= low <= high <= 100:
        raise ArgumentError(
            f"{PACKAGE}.iqr: rng={rng} with interpolation={interpolation!r} is not known",
            f"Give two numbers from 0 to 100, and one of {', '.join(METHODS)}.",
        )
    scale = _named_scale("iqr", scale, float(special.erfinv(0.5) * 2 * math.sqrt(2)))

    def formula(axes):
        upper, lower = (
            np.quantile(x, x.dtype.type(q / 100), axis=axes, method=interpolation, keepdims=keeps(x, axes))
            for q in (high, low)
        )
        return (upper - lower) / scale

    return over("iqr", formula, x, axis, keepdims)


# ---- entropies


@implements_at(stats, "entropy")
def entropy(pk, qk=None, base=None, axis=0, *, nan_policy="propagate", keepdims=False):
    given = rows("entropy", nan_policy, *[x for x in (pk, qk) if x is not None])
    given = given if qk is None else paired(*given, axis)
    if base is not None and not is_traced(base) and base <= 0:
        raise ArgumentError(
            f"{PACKAGE}.entropy: base={base} is not positive", "Leave base= out for natural logarithms."
        )

    def formula(axes):
        kept = keeps(given[0], axes)
        parts = [x / np.sum(x, axis=axes, keepdims=kept) for x in given]
        y = np.sum((special.entr if qk is None else special.rel_entr)(*parts), axis=axes, keepdims=kept)
        return y if base is None else y / (np.log(base) if is_traced(base) else math.log(base))

    return over("entropy", formula, given[0], axis, keepdims, least=0)


# ---- directions


def _circular(function, samples_, high, low, axis, nan_policy, keepdims, formula):
    """Return ``formula(sine, cosine, scale)`` of the mean direction, where the period is `scale` times a circle."""
    (x,) = rows(function, nan_policy, samples_)
    scale = (high - low) / (2 * math.pi)
    angle = x * (1 / scale)
    return over(function, lambda axes: formula(mean(np.sin(angle), axes), mean(np.cos(angle), axes), scale), x, axis,
                keepdims)  # fmt: skip


@implements_at(stats, "circmean")
def circmean(samples, high=2 * math.pi, low=0, axis=None, nan_policy="propagate", *, keepdims=False):
    def formula(sine, cosine, scale):
        return (np.arctan2(sine, cosine) * scale - low) % (high - low) + low

    return _circular("circmean", samples, high, low, axis, nan_policy, keepdims, formula)


def _length(sine, cosine):
    """The length of the mean direction, which rounding may make longer than 1."""
    return np.minimum(np.sqrt(sine**2 + cosine**2), 1)


@implements_at(stats, "circvar")
def circvar(samples, high=2 * math.pi, low=0, axis=None, nan_policy="propagate", *, keepdims=False):
    def formula(sine, cosine, scale):
        return 1 - _length(sine, cosine)

    return _circular("circvar", samples, high, low, axis, nan_policy, keepdims, formula)


@implements_at(stats, "circstd")
def circstd(samples, high=2 * math.pi, low=0, axis=None, nan_policy="propagate", *, normalize=False, keepdims=False):
    def formula(sine, cosine, scale):
        return root(-2 * np.log(_length(sine, cosine))) * (1 if normalize else scale)

    return _circular("circstd", samples, high, low, axis, nan_policy, keepdims, formula)
