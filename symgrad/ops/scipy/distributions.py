"""Formulas of the distributions of scipy.stats, at location 0 and scale 1.

N. Johnson, S. Kotz and N. Balakrishnan, *Continuous Univariate Distributions*, 2nd ed., 1994, and N. Johnson, A. Kemp
and S. Kotz, *Univariate Discrete Distributions*, 3rd ed., 2005, in the parameters that scipy.stats gives them.
"""

from collections.abc import Callable
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from symgrad.ops.scipy.table import near_zero

LOG2, LOG_PI = float(np.log(2.0)), float(np.log(np.pi))
LOG_SQRT_2PI = float(np.log(2 * np.pi)) / 2
LOG_SQRT_HALF_PI = float(np.log(np.pi / 2)) / 2


def _positive(*shapes):
    """Whether the shapes, if there are any, are positive."""
    return reduce(and_, [shape > 0 for shape in shapes]) if shapes else True


def _everywhere(z, y):
    """Return a value that does not depend on the place, unless the place is NaN."""
    return np.where(np.isnan(z), np.nan, y)


class Distribution(NamedTuple):
    """Functions of the place, in the support, and the shapes. A logarithm that is missing is that of the function."""

    log_density: Callable[..., Any]  # of a discrete distribution the logarithm of the mass
    cdf: Callable[..., Any] | None = None
    sf: Callable[..., Any] | None = None
    log_cdf: Callable[..., Any] | None = None
    log_sf: Callable[..., Any] | None = None
    ppf: Callable[..., Any] | None = None
    low: Any = -np.inf  # the support, or how the shapes give it
    high: Any = np.inf
    interior: Any = None  # in the support, or how the shapes give it: for formulas that are not defined outside of it
    valid: Callable[..., Any] = _positive  # which shapes there can be
    open: bool = False  # whether the density ends in 0 at the ends of the support, which do not belong to it
    masked: bool = False  # whether what cannot be gives NaN in the place of the result, else in that of the shapes


DISTRIBUTIONS: dict[type, Distribution] = {}


def _add(distribution, *args, **facts):
    DISTRIBUTIONS[type(distribution)] = Distribution(*args, **facts)


def _by_log_sf(log_sf):
    """Return the functions of a decaying probability, all from the logarithm of the survival function."""
    return {"cdf": lambda *at: -np.expm1(log_sf(*at)), "sf": lambda *at: np.exp(log_sf(*at)), "log_sf": log_sf}


def with_ends(ppf, low, high):
    """Quantiles whose formula holds between 0 and 1 alone: there they are the ends of the support."""

    def formula(q, *shapes):
        inner = ppf(np.where((q == 0) | (q == 1), 0.5, q), *shapes)
        return np.where(q == 0, low(*shapes), np.where(q == 1, high(*shapes), inner))

    return formula


_FROM_0 = {"low": 0.0, "interior": 1.0}
_COUNTS = {"low": 0.0, "interior": 0.0}
_UNIT = {"low": 0.0, "high": 1.0, "interior": 0.5}

# ---- continuous, on the whole line

_add(
    stats.norm,
    lambda z: -0.5 * z * z - LOG_SQRT_2PI,
    cdf=lambda z: special.ndtr(z),
    sf=lambda z: special.ndtr(-z),
    log_cdf=lambda z: special.log_ndtr(z),
    log_sf=lambda z: special.log_ndtr(-z),
    ppf=lambda q: special.ndtri(q),
)
_add(
    stats.t,
    lambda z, df: -special.betaln(df / 2, 0.5) - 0.5 * np.log(df) - (df + 1) / 2 * np.log1p(z * z / df),
    cdf=lambda z, df: special.stdtr(df, z),
    sf=lambda z, df: special.stdtr(df, -z),
)
_add(
    stats.cauchy,
    lambda z: -LOG_PI - 2 * np.log(np.hypot(1.0, z)),
    cdf=lambda z: np.arctan2(1.0, -z) / np.pi,
    sf=lambda z: np.arctan2(1.0, z) / np.pi,
    ppf=lambda q: _cauchy_ppf(q),
)
_add(
    stats.laplace,
    lambda z: -np.abs(z) - LOG2,
    cdf=lambda z: _laplace_cdf(z),
    sf=lambda z: _laplace_cdf(-z),
    log_cdf=lambda z: _laplace_log_cdf(z),
    log_sf=lambda z: _laplace_log_cdf(-z),
    ppf=lambda q: np.where(q > 0.5, -np.log(2 * np.where(q > 0.5, 1 - q, 0.5)), np.log(2 * np.where(q > 0.5, 0.5, q))),
)
_add(
    stats.logistic,
    lambda z: -np.abs(z) - 2 * np.log1p(np.exp(-np.abs(z))),
    cdf=lambda z: special.expit(z),
    sf=lambda z: special.expit(-z),
    log_cdf=lambda z: special.log_expit(z),
    log_sf=lambda z: special.log_expit(-z),
    ppf=lambda q: special.logit(q),
)
_add(
    stats.gumbel_r,
    lambda z: -z - np.exp(-z),
    cdf=lambda z: np.exp(-np.exp(-z)),
    sf=lambda z: -np.expm1(-np.exp(-z)),
    log_cdf=lambda z: -np.exp(-z),
    ppf=lambda q: -np.log(-np.log(q)),
)
_add(
    stats.gumbel_l,
    lambda z: z - np.exp(z),
    ppf=lambda q: np.log(-np.log1p(-q)),
    **_by_log_sf(lambda z: -np.exp(z)),
)
_add(
    stats.skewnorm,
    lambda z, a: LOG2 - LOG_SQRT_2PI - 0.5 * z * z + special.log_ndtr(a * z),
    valid=lambda a: a == a,
)


def _cauchy_ppf(q):
    """From the nearer end."""
    above = q > 0.5
    distance = 1 / np.tan(np.pi * np.where(above, 1 - q, q))
    return np.where(above, distance, -distance)


def _laplace_cdf(z):
    half = 0.5 * np.exp(-np.abs(z))
    return np.where(z > 0, 1 - half, half)


def _laplace_log_cdf(z):
    decay = -np.abs(z)
    return np.where(z > 0, np.log1p(-0.5 * np.exp(decay)), decay - LOG2)


# ---- continuous, from 0 on

_add(
    stats.expon,
    lambda z: -z,
    ppf=lambda q: -np.log1p(-q),
    low=0.0,
    **_by_log_sf(lambda z: -z),
)
_add(
    stats.gamma,
    lambda z, a: special.xlogy(a - 1, z) - z - special.gammaln(a),
    cdf=lambda z, a: special.gammainc(a, z),
    sf=lambda z, a: special.gammaincc(a, z),
    **_FROM_0,
)
DISTRIBUTIONS[type(stats.erlang)] = DISTRIBUTIONS[type(stats.gamma)]
_add(
    stats.chi2,
    lambda z, df: special.xlogy(df / 2 - 1, z) - z / 2 - special.gammaln(df / 2) - LOG2 / 2 * df,
    cdf=lambda z, df: special.gammainc(df / 2, z / 2),
    sf=lambda z, df: special.gammaincc(df / 2, z / 2),
    **_FROM_0,
)
_add(
    stats.invgamma,
    lambda z, a: -(a + 1) * np.log(z) - special.gammaln(a) - 1 / z,
    cdf=lambda z, a: special.gammaincc(a, 1 / z),
    sf=lambda z, a: special.gammainc(a, 1 / z),
    open=True,
    **_FROM_0,
)
_add(
    stats.lognorm,
    lambda z, s: -0.5 * (np.log(z) / s) ** 2 - np.log(s * z) - LOG_SQRT_2PI,
    cdf=lambda z, s: special.ndtr(np.log(z) / s),
    sf=lambda z, s: special.ndtr(-np.log(z) / s),
    log_cdf=lambda z, s: special.log_ndtr(np.log(z) / s),
    log_sf=lambda z, s: special.log_ndtr(-np.log(z) / s),
    ppf=lambda q, s: np.exp(s * special.ndtri(q)),
    open=True,
    **_FROM_0,
)
_add(
    stats.weibull_min,
    lambda z, c: np.log(c) + special.xlogy(c - 1, z) - z**c,
    ppf=lambda q, c: (-np.log1p(-q)) ** (1 / c),
    **_by_log_sf(lambda z, c: -(z**c)),
    **_FROM_0,
)
_add(
    stats.rayleigh,
    lambda z: np.log(z) - 0.5 * z * z,
    ppf=lambda q: np.sqrt(-2 * np.log1p(-q)),
    open=True,
    **_by_log_sf(lambda z: -0.5 * z * z),
    **_FROM_0,
)
_add(
    stats.halfnorm,
    lambda z: -0.5 * z * z - LOG_SQRT_HALF_PI,
    cdf=lambda z: special.erf(z / np.sqrt(2.0)),
    sf=lambda z: 2 * special.ndtr(-z),
    log_sf=lambda z: LOG2 + special.log_ndtr(-z),
    ppf=lambda q: special.ndtri((1 + q) / 2),
    low=0.0,
)
_add(
    stats.halfcauchy,
    lambda z: LOG2 - LOG_PI - 2 * np.log(np.hypot(1.0, z)),
    cdf=lambda z: 2 / np.pi * np.arctan(z),
    sf=lambda z: 2 / np.pi * np.arctan2(1.0, z),
    ppf=lambda q: np.tan(np.pi / 2 * q),
    low=0.0,
)
_add(
    stats.invgauss,
    lambda z, mu: -LOG_SQRT_2PI - 1.5 * np.log(z) - (z / mu - 1) ** 2 / (2 * z),
    open=True,
    **_FROM_0,
)
_add(
    stats.geninvgauss,
    lambda z, p, b: (p - 1) * np.log(z) - b * np.square(z - 1) / (2 * z) - np.log(special.kve(p, b)) - LOG2,
    valid=lambda p, b: (p == p) & (b > 0),
    open=True,
    masked=True,
    **_FROM_0,
)


def _generalised_hyperbolic(z, p, a, b):
    root, slope = np.hypot(1.0, z), np.sqrt((a - b) * (a + b))
    bessel = np.log(special.kve(p - 0.5, a * root) / special.kve(p, slope)) - a * root + slope
    return p * np.log(slope / a) + 0.5 * np.log(a) - LOG_SQRT_2PI + (p - 0.5) * np.log(root) + b * z + bessel


_add(
    stats.genhyperbolic,
    _generalised_hyperbolic,
    valid=lambda p, a, b: np.abs(b) < a,
    masked=True,
)
_add(
    stats.f,
    lambda z, m, n: (
        m / 2 * np.log(m)
        + n / 2 * np.log(n)
        + special.xlogy(m / 2 - 1, z)
        - (m + n) / 2 * np.log(n + m * z)
        - special.betaln(m / 2, n / 2)
    ),
    cdf=lambda z, m, n: special.betainc(m / 2, n / 2, 1 / (1 + n / (m * z))),
    sf=lambda z, m, n: special.betainc(n / 2, m / 2, n / (n + m * z)),
    **_FROM_0,
)

# ---- continuous, on intervals that a shape opens: all functions are analytic in it, also where it is 0

_LOG1P = [(-1) ** k / (k + 1) for k in range(24)]


def _log1p_ratio(t):
    """log(1 + t) / t"""
    near, series = near_zero(t, _LOG1P, 0.15)
    t = np.where(near, 1.0, t)
    return np.where(near, series, np.log1p(t) / t)


def _extreme_scale(z, c):
    """Return the exponent of an extreme value distribution at z."""
    return -z * _log1p_ratio(-c * z)


def _end_of(c, sign):
    """Return where 1 + c z vanishes if the support ends on this side, else an infinity."""
    bounded = sign * c < 0
    return np.where(bounded, -1 / np.where(bounded, c, 1.0), sign * np.inf)


def _log_extreme_density(z, c):
    """At an end of the support the exponential, which is infinite there, outweighs all else."""
    s = _extreme_scale(z, c)
    beyond = s > 709.0
    s = np.where(beyond, 0.0, s)
    return np.where(beyond, -np.inf, (1 - c) * s - np.exp(s))


_add(
    stats.genextreme,
    _log_extreme_density,
    cdf=lambda z, c: np.exp(-np.exp(_extreme_scale(z, c))),
    sf=lambda z, c: -np.expm1(-np.exp(_extreme_scale(z, c))),
    log_cdf=lambda z, c: -np.exp(_extreme_scale(z, c)),
    ppf=with_ends(
        lambda q, c: -np.log(-np.log(q)) * special.exprel(c * np.log(-np.log(q))),
        lambda c: _end_of(-c, -1),
        lambda c: _end_of(-c, 1),
    ),
    low=lambda c: _end_of(-c, -1),
    high=lambda c: _end_of(-c, 1),
    interior=0.0,
    valid=lambda c: np.isfinite(c),
)
_add(
    stats.genpareto,
    lambda z, c: -(c + 1) * z * _log1p_ratio(c * z),
    ppf=with_ends(
        lambda q, c: -np.log1p(-q) * special.exprel(-c * np.log1p(-q)), lambda c: 0.0, lambda c: _end_of(c, 1)
    ),
    low=0.0,
    high=lambda c: _end_of(c, 1),
    interior=0.0,
    valid=lambda c: np.isfinite(c),
    **_by_log_sf(lambda z, c: -z * _log1p_ratio(c * z)),
)

# ---- continuous, on other intervals

_add(
    stats.uniform,
    lambda z: _everywhere(z, 0.0),
    cdf=lambda z: z,
    sf=lambda z: 1 - z,
    ppf=lambda q: q,
    **_UNIT,
)
_add(
    stats.beta,
    lambda z, a, b: special.xlog1py(b - 1, -z) + special.xlogy(a - 1, z) - special.betaln(a, b),
    cdf=lambda z, a, b: special.betainc(a, b, z),
    sf=lambda z, a, b: special.betainc(b, a, 1 - z),
    **_UNIT,
)
_add(
    stats.pareto,
    lambda z, b: np.log(b) - (b + 1) * np.log(z),
    cdf=lambda z, b: -np.expm1(-b * np.log(z)),
    sf=lambda z, b: z**-b,
    log_sf=lambda z, b: -b * np.log(z),
    ppf=lambda q, b: (1 - q) ** (-1 / b),
    low=1.0,
    interior=2.0,
)


def _log_mass(a, b):
    """The logarithm of the probability that a standard normal variable lies between a and b, of either tail."""
    right = a > 0
    low, high = special.log_ndtr(np.where(right, -b, a)), special.log_ndtr(np.where(right, -a, b))
    return high + np.log(-np.expm1(low - high))


def _truncnorm_log_cdf(z, a, b):
    return _of_smaller(_log_mass(a, z) - _log_mass(a, b), _log_mass(z, b) - _log_mass(a, b))


def _truncnorm_log_sf(z, a, b):
    return _of_smaller(_log_mass(z, b) - _log_mass(a, b), _log_mass(a, z) - _log_mass(a, b))


def _of_smaller(y, complement):
    """The logarithm of a probability; of a large one from the probability of the contrary, which is known better."""
    large = y > -0.1
    return np.where(large, np.log1p(-np.exp(np.where(large, complement, -1.0))), y)


_add(
    stats.truncnorm,
    lambda z, a, b: -0.5 * z * z - LOG_SQRT_2PI - _log_mass(a, b),
    cdf=lambda z, a, b: np.exp(_truncnorm_log_cdf(z, a, b)),
    sf=lambda z, a, b: np.exp(_truncnorm_log_sf(z, a, b)),
    log_cdf=_truncnorm_log_cdf,
    log_sf=_truncnorm_log_sf,
    low=lambda a, b: a,
    high=lambda a, b: b,
    valid=lambda a, b: a < b,
)

# ---- discrete: of whole numbers, which the distribution functions round down to


def _log_binomial(n, k):
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)


def _probability(p):
    return (p >= 0) & (p <= 1)


def _whole(n):
    return (n >= 0) & (n == np.floor(n))


_add(
    stats.poisson,
    lambda k, mu: special.xlogy(k, mu) - special.gammaln(k + 1) - mu,
    cdf=lambda k, mu: special.gammaincc(np.floor(k) + 1, mu),
    sf=lambda k, mu: special.gammainc(np.floor(k) + 1, mu),
    valid=lambda mu: mu >= 0,
    **_COUNTS,
)
_add(
    stats.binom,
    lambda k, n, p: _log_binomial(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p),
    cdf=lambda k, n, p: special.betainc(n - np.floor(k), np.floor(k) + 1, 1 - p),
    sf=lambda k, n, p: special.betainc(np.floor(k) + 1, n - np.floor(k), p),
    high=lambda n, p: n,
    valid=lambda n, p: _whole(n) & _probability(p),
    **_COUNTS,
)
_add(
    stats.bernoulli,
    lambda k, p: special.xlogy(k, p) + special.xlog1py(1 - k, -p),
    cdf=lambda k, p: _everywhere(k, 1 - p),
    sf=lambda k, p: _everywhere(k, p),
    high=1.0,
    valid=_probability,
    **_COUNTS,
)
_add(
    stats.nbinom,
    lambda k, n, p: (
        special.gammaln(n + k) - special.gammaln(k + 1) - special.gammaln(n) + n * np.log(p) + special.xlog1py(k, -p)
    ),
    cdf=lambda k, n, p: special.betainc(n, np.floor(k) + 1, p),
    sf=lambda k, n, p: special.betainc(np.floor(k) + 1, n, 1 - p),
    valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    **_COUNTS,
)
_add(
    stats.skellam,
    lambda k, m, n: (
        k / 2 * np.log(m / n)
        - np.square(np.sqrt(m) - np.sqrt(n))
        + np.log(special.ive(np.abs(k), 2 * np.sqrt(m) * np.sqrt(n)))
    ),
    masked=True,
)
_add(
    stats.geom,
    lambda k, p: special.xlog1py(k - 1, -p) + np.log(p),
    low=1.0,
    interior=1.0,
    valid=lambda p: (p > 0) & (p <= 1),
    **_by_log_sf(lambda k, p: np.floor(k) * np.log1p(-p)),
)
_add(
    stats.betabinom,
    lambda k, n, a, b: (
        -np.log(n + 1) - special.betaln(n - k + 1, k + 1) + special.betaln(k + a, n - k + b) - special.betaln(a, b)
    ),
    high=lambda n, a, b: n,
    valid=lambda n, a, b: _whole(n) & _positive(a, b),
    **_COUNTS,
)
