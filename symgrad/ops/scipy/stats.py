"""scipy.stats: densities, masses and distribution functions, frozen distributions too.

Every distribution has the methods of its base class, which are replaced here; `distributions` has formulas, and
`generic` runs those of SciPy's own classes for all others.
What lies outside of the support has a derivative of zero, and a parameter that cannot be gives NaN.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from scipy import stats

from symgrad.ops.define import implements_at
from symgrad.ops.operands import is_traced
from symgrad.ops.scipy.convert import double
from symgrad.ops.scipy.distributions import DISTRIBUTIONS
from symgrad.ops.scipy.generic import of_scipy, unsupported

# ---- what the methods share


def _formula(distribution, method, *alternatives):
    """The first of these formulas of a distribution that there is, and its name."""
    for known in (DISTRIBUTIONS.get(type(distribution)), of_scipy(distribution, method)):
        for name in alternatives:
            if known is not None and getattr(known, name) is not None:
                return known, name
    raise unsupported(distribution, method)


def _nan_unless(valid, x):
    """`x`, or NaN where the parameters are not valid; nothing is done where they are known to be."""
    return x if not is_traced(valid) and np.all(valid) else np.where(valid, x, np.nan)


def _is(x, number):
    return not is_traced(x) and np.ndim(x) == 0 and x == number


def _parameters(distribution, known, args, kwds):
    """Shapes, location and scale, with NaN in the place of what cannot be."""
    shapes, loc, scale = distribution._parse_args(*args, **kwds)
    shapes, loc, scale = [double(s) for s in shapes], double(loc), double(scale)
    valid = known.valid(*shapes)
    shapes = shapes if known.masked else [_nan_unless(valid, s) for s in shapes]
    return shapes, loc, _nan_unless(scale > 0, scale), valid


def _place(x, loc, scale):
    """Standardise `x`, to location 0 and scale 1."""
    x = double(x)
    x = x if _is(loc, 0) else x - loc
    return x if _is(scale, 1) else x / scale


def _masked(y, known, z, valid):
    """The result, NaN where shapes or the place are none, unless these give NaN by themselves."""
    return _nan_unless(valid & (z == z), y) if known.masked else y


def _end(end, shapes, valid):
    """One end of the support, NaN if the parameters are not valid: then nothing is known to lie beyond it."""
    return end(*shapes) if callable(end) else _nan_unless(valid, end) if np.isfinite(end) else end


def _beyond(z, end, compare):
    """Return where `z` is beyond an end of the support; None if that cannot be."""
    return None if not is_traced(end) and np.ndim(end) == 0 and np.isinf(end) else compare(z, end)


def _fractional(k, valid):
    """Return where a number is not an integer, which a discrete distribution never takes."""
    fractional = np.floor(k) < k
    return fractional if not is_traced(valid) and np.all(valid) else fractional & valid


def _within(formula, z, shapes, interior, regions):
    """A formula for places that are in none of the regions, which have a value each."""
    regions = [(mask, value) for mask, value in regions if mask is not None]
    inner = z
    interior = interior(*shapes) if callable(interior) else interior
    if interior is not None:
        for mask, _ in regions:
            inner = np.where(mask, interior, inner)
    y = formula(inner, *shapes)
    for mask, value in regions:
        y = np.where(mask, value, y)
    return y


def _is_discrete(distribution):
    return isinstance(distribution, stats.rv_discrete)


# ---- densities and masses


def _log_density(distribution, method, x, args, kwds):
    known, _ = _formula(distribution, method, "log_density")
    shapes, loc, scale, valid = _parameters(distribution, known, args, kwds)
    z = _place(x, loc, scale)
    low, high = _end(known.low, shapes, valid), _end(known.high, shapes, valid)
    regions = [
        (_beyond(z, low, np.less_equal if known.open else np.less), -np.inf),
        (_beyond(z, high, np.greater_equal if known.open else np.greater), -np.inf),
        (_fractional(z, valid) if _is_discrete(distribution) else None, -np.inf),
    ]
    log_scale = 0.0 if _is(scale, 1) else np.log(scale)

    def formula(z, *shapes):
        y = known.log_density(z, *shapes)
        return y if _is(log_scale, 0) else y - log_scale

    y = _within(formula, z, shapes, known.interior, regions)
    return _masked(y, known, z, valid), known.masked or any(mask is not None for mask, _ in regions)


def _density(distribution, method, x, args, kwds):
    """Return the density; its slope is zero where it vanishes at the end of the support, as the logarithm's is
    infinite.
    """
    y, bounded = _log_density(distribution, method, x, args, kwds)
    if not bounded:
        return np.exp(y)
    zero = y == -np.inf
    return np.where(zero, 0.0, np.exp(np.where(zero, 0.0, y)))


# ---- distribution functions


def _cumulative(distribution, method, x, args, kwds, names, ends):
    """The function that is the first of `names`; if it is missing, the logarithm of the second by help of the third."""
    known, name = _formula(distribution, method, *names[:2])
    shapes, loc, scale, valid = _parameters(distribution, known, args, kwds)
    z = _place(x, loc, scale)
    low, high = _end(known.low, shapes, valid), _end(known.high, shapes, valid)
    below = np.less if _is_discrete(distribution) else np.less_equal
    formula = getattr(known, name) if name == names[0] else _logarithm(getattr(known, name), getattr(known, names[2]))
    regions = [(_beyond(z, low, below), ends[0]), (_beyond(z, high, np.greater_equal), ends[1])]
    return _masked(_within(formula, z, shapes, known.interior, regions), known, z, valid)


def _logarithm(probability, contrary):
    """Return a formula for the logarithm of a probability, from its complement where the probability is large."""

    def formula(z, *shapes):
        p, q = probability(z, *shapes), contrary(z, *shapes)
        large = p > 0.5
        return np.where(large, np.log1p(-np.where(large, q, 0.0)), np.log(np.where(large, 1.0, p)))

    return formula


def _quantile(distribution, q, args, kwds):
    known, _ = _formula(distribution, "ppf", "ppf")
    shapes, loc, scale, valid = _parameters(distribution, known, args, kwds)
    q = double(q)
    z = _masked(known.ppf(np.where((q >= 0) & (q <= 1), q, np.nan), *shapes), known, q, valid)
    z = z if _is(scale, 1) else z * scale
    return z if _is(loc, 0) else z + loc


# ---- the methods of the base classes


def logpdf(self, x, *args, **kwds):
    return _log_density(self, "logpdf", x, args, kwds)[0]


def pdf(self, x, *args, **kwds):
    return _density(self, "pdf", x, args, kwds)


def logpmf(self, k, *args, **kwds):
    return _log_density(self, "logpmf", k, args, kwds)[0]


def pmf(self, k, *args, **kwds):
    return _density(self, "pmf", k, args, kwds)


def cdf(self, x, *args, **kwds):
    return _cumulative(self, "cdf", x, args, kwds, ("cdf",), (0.0, 1.0))


def sf(self, x, *args, **kwds):
    return _cumulative(self, "sf", x, args, kwds, ("sf",), (1.0, 0.0))


def logcdf(self, x, *args, **kwds):
    return _cumulative(self, "logcdf", x, args, kwds, ("log_cdf", "cdf", "sf"), (-np.inf, 0.0))


def logsf(self, x, *args, **kwds):
    return _cumulative(self, "logsf", x, args, kwds, ("log_sf", "sf", "cdf"), (0.0, -np.inf))


def ppf(self, q, *args, **kwds):
    return _quantile(self, q, args, kwds)


_OF_BOTH: tuple[Callable[..., Any], ...] = (cdf, sf, logcdf, logsf, ppf)
_METHODS = {stats.rv_continuous: (logpdf, pdf, *_OF_BOTH), stats.rv_discrete: (logpmf, pmf, *_OF_BOTH)}
for _base, _methods in _METHODS.items():
    _own = {
        type(x): None for x in vars(stats).values() if isinstance(x, _base)
    }  # some have a public method of their own
    for _class, _method in product([_base, *_own], _methods):
        if _method.__name__ in vars(_class):
            implements_at(_class, _method.__name__)(_method)
