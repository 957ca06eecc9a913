"""Derivatives of the incomplete gamma and beta functions by their parameters, written with NumPy and SciPy alone.

The text of these functions stands in the modules that call them. The derivative of the integral of a density by its
parameter a is the integral of the density times log t - mean(log t), which changes sign once: integrated from the side
on which it has one sign, nothing cancels. Where a parameter is small, the recurrence that raises it by 1 keeps the
integrand short; both of its terms have that sign, too.
"""

import numpy as np
import scipy.special

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_NEGLIGIBLE = 40.0  # exp(-40) beside 1


@np.errstate(all="ignore")  # at the ends of the range, as SciPy's own
def _gamma_density(a, x):
    """exp(-x) x**(a - 1) / Gamma(a)."""
    dtype, (a, x) = scipy.special.gammainc(a, x).dtype, np.broadcast_arrays(a, x)
    given, inside = (a >= 0) & (x >= 0), (a > 0) & (x > 0) & (a < np.inf) & (x < np.inf)
    s, t = (np.where(inside, v, 1.0).astype(float) for v in (a, x))
    edge = np.where(x == 0, np.power(0.0, np.where(x == 0, a - 1.0, 1.0)), 0.0)
    density = np.where(inside, _gamma_front(s, t) * (s / t), edge)
    return np.where(given, density, np.nan).astype(dtype)[()]


@np.errstate(all="ignore")
def _beta_density(a, b, x, y):
    """x**(a - 1) y**(b - 1) / B(a, b), where y = 1 - x."""
    dtype, (a, b, x, y) = scipy.special.betainc(a, b, x).dtype, np.broadcast_arrays(a, b, x, y)
    given, inside = (a >= 0) & (b >= 0) & (x >= 0) & (y >= 0), (a > 0) & (b > 0) & (x > 0) & (y > 0)
    s, t, u, v = (np.where(inside, w, 0.5).astype(float) for w in (a, b, x, y))
    low, high = (np.power(0.0, np.where(u == 0, n - 1.0, 0.0)) for n, u in ((a, x), (b, y)))
    edge = low * high * scipy.special.rgamma(a) * scipy.special.poch(b, a)
    density = np.where(inside, _beta_front(s, t, u, v) * (s / u) * (t / v), edge)
    return np.where(given, density, np.nan).astype(dtype)[()]


@np.errstate(all="ignore")
def _gammainc_by_a(p, a, x):
    """The derivative of p = gammainc(a, x) by a.

    DLMF 8.2.4 with t = x exp(-s) after 8.8.5, or t = x exp(s).
    """
    dtype, (a, x) = p.dtype, np.broadcast_arrays(a, x)
    given, edge = (a >= 0) & (x >= 0), (x == 0) | (x == np.inf) | (a == np.inf)
    a, x = (np.where(given & ~edge, v, 1.0).astype(float) for v in (a, x))
    n = np.maximum(a, 10.0)
    large = _log_ratio((x - n) / n, x / n) - _stirling(n)[1]
    k = np.where(a < 10, np.log(x) - scipy.special.digamma(a + 1), large)
    below = k < 0
    sign, rate = np.where(below, -1.0, 1.0), np.where(below, a + 1, -a)

    def integrand(s):
        e = np.expm1(sign * s)
        weight = np.where(below, x * (k - s), -1 - a * (k + s))
        return rate * s + x * e, rate + sign * x * (e + 1), weight

    parabola = _reached(np.maximum(rate + sign * x, 0), x / 3)
    by_line, by_exp = (_NEGLIGIBLE + x) / (a + 1), np.log1p((_NEGLIGIBLE + a * parabola) / x)
    stop = np.where(below, np.where(parabola < 1, parabola, by_line), np.minimum(parabola, by_exp))
    slope = _gamma_front(a, x) * (np.where(below, k, 0) + _integral(integrand, stop))
    return np.where(given, np.where(edge, 0, slope), np.nan).astype(dtype)[()]


@np.errstate(all="ignore")
def _betainc_by_a(p, a, b, x, y):
    """The derivative of p = betainc(a, b, x) by a, where y = 1 - x.

    DLMF 8.17.1 with t / (1 - t) = x / y exp(-s) after 8.17.20, or x / y exp(s) after 8.17.21.
    """
    dtype, (a, b, x, y) = p.dtype, np.broadcast_arrays(a, b, x, y)
    given, edge = (a >= 0) & (b >= 0) & (a + b > 1e-90) & (x >= 0) & (y >= 0), (x == 0) | (y == 0)
    a, b, x, y = (np.where(given & ~edge, v, 0.5).astype(float) for v in (a, b, x, y))
    a, b = np.maximum(a, 1e-100), np.maximum(b, 1e-100)
    c = a + b
    by_a = _log_ratio((x * b - y * a) / a, x * c / a)
    k = by_a - _stirling(a)[1] + _stirling(c)[1]  # log x - digamma(a + 1) + digamma(a + b + 1)
    below = k < 0
    p, q = np.where(below, a, b) + 1, np.where(below, b, a)
    z, w = np.where(below, x, y), np.where(below, y, x)
    near = z > 0.5
    sign, rate, scale = np.where(near, 1.0, -1.0), np.where(near, -q, p), np.where(near, w, z)

    def integrand(s):
        change = np.log1p(scale * np.expm1(sign * s))
        longer = np.where(near, change, change + s)  # log(w exp(s) + z)
        weight = np.where(below, b * x * (k - longer), -y * (1 + a * (k - longer + s)))
        return rate * s + (p + q) * change, p - (p + q) * z * np.exp(-longer), weight

    parabola = _reached(np.maximum(p - (p + q) * z, 0), (p + q) * z * w / 6)
    by_line = (_NEGLIGIBLE - (p + q) * np.log(w)) / p
    stop = np.minimum(np.where(parabola < 1, parabola, by_line), 700.0)
    first = np.where(below, b * (k - 1 / c), -a * k - b / c)
    slope = _beta_front(a, b, x, y) * (first + c * _integral(integrand, stop))
    return np.where(given, np.where(edge, 0, slope), np.nan).astype(dtype)[()]


def _gamma_front(a, x):
    """x**a exp(-x) / Gamma(a + 1)."""
    n = np.maximum(a, 10.0)
    large = np.exp(n * _log_ratio((x - n) / n, x / n) - (x - n) - _stirling(n)[0]) / np.sqrt(2 * np.pi * n)
    return np.where(a < 10, np.exp(a * np.log(x) - x - scipy.special.gammaln(a + 1)), large)


def _beta_front(a, b, x, y):
    """x**a y**b Gamma(a + b) / (Gamma(a + 1) Gamma(b + 1))."""
    c, shift = a + b, x * b - y * a
    by_a, by_b = _log_ratio(shift / a, x * c / a), _log_ratio(-shift / b, y * c / b)
    star = _stirling(c)[0] - _stirling(a)[0] - _stirling(b)[0]
    return np.exp(a * by_a + b * by_b + star) / np.sqrt(2 * np.pi * a) / np.sqrt(b) / np.sqrt(c)


def _integral(integrand, stop):
    """The integral from 0 of weight exp(-fall) for `integrand` giving a convex fall, its slope, and the weight.

    At `stop` nothing is left. Gauss-Legendre where the exponential is flat, and where it falls.
    """
    stop = _moved_back(integrand, stop, _NEGLIGIBLE)
    middle = _moved_back(integrand, stop, 1.0)
    total = 0.0
    for start, half in ((0.0, middle / 2), (middle, (stop - middle) / 2)):
        for node, share in zip(_NODES, _WEIGHTS, strict=True):
            fall, _, weight = integrand(start + half * (1 + node))
            total = total + share * half * weight * np.exp(-fall)
    return total


def _moved_back(integrand, s, level):
    """From the right Newton's method comes down to where a convex fall is `level`, and never beyond."""
    for _ in range(6):
        fall, slope, _ = integrand(s)
        s = s - np.maximum(fall - level, 0) / np.where(slope > 0, slope, np.inf)
    return s


def _reached(slope, bend):
    """Return where the exponential of ``-(slope * s + bend * s**2)`` becomes negligible."""
    return 2 * _NEGLIGIBLE / (slope + np.sqrt(slope * slope + 4 * _NEGLIGIBLE * bend))


def _log_ratio(change, ratio):
    """The logarithm of ratio = 1 + change."""
    small = np.abs(change) < 0.5
    return np.where(small, np.log1p(np.where(small, change, 0)), np.log(ratio))


def _stirling(n):
    """Return the errors of Stirling's formula for log Gamma(n), and digamma(n + 1) - log n; DLMF 5.11.1 and 5.11.2."""
    m = np.maximum(n, 10.0)
    r = 1 / (m * m)
    star = 1 / 1188 - r * 691 / 360360
    star = (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r * star)))) / m
    mean = 1 / 132 - r * 691 / 32760
    mean = 0.5 / m - r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * mean))))
    by_gamma = scipy.special.gammaln(n) - (n - 0.5) * np.log(n) + n - 0.5 * np.log(2 * np.pi)
    return np.where(n < 10, by_gamma, star), np.where(n < 10, scipy.special.digamma(n + 1) - np.log(n), mean)
