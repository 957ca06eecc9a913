"""`scipy.special`: error functions, the logistic function, entropies, powers, integrals; beside `gammas` and `bessel`.

Derivatives hold over the whole range of their functions: where the usual formula cancels, another stands beside it.
"""

import math

import numpy as np
import scipy.special
import scipy.special as sp

from symgrad.core.axes import aligned
from symgrad.core.graph import Aval
from symgrad.errors import UnsupportedError
from symgrad.ops.arguments import refuse_given
from symgrad.ops.define import flat, implements_at, operator
from symgrad.ops.dtypes import kind_of, ufunc_dtypes
from symgrad.ops.elementwise import DEGREE, LN2, LN10, LOGISTIC, REAL, UNIT, power_partials
from symgrad.ops.operands import as_input, known_number, strong
from symgrad.ops.scipy import bessel as bessel, gammas as gammas, polynomials as polynomials, refused as refused
from symgrad.ops.scipy.table import ORDER, POSITIVE, PROBABILITY, near_zero, parameter, singular, special

ROOT_PI, ROOT_2 = math.sqrt(math.pi), math.sqrt(2)

# ---- error functions (7.2, 7.10)

_FAR = 10.0
_TAIL = [math.prod(range(1, 2 * k, 2)) / 2**k for k in range(1, 16)]
"""Coefficients of 1 / x**2, 1 / x**4, ... in 2 x dawsn(x) - 1, and with changing signs in 1 - sqrt(pi) x erfcx(x)
(7.12.1).
"""


def _tail(x, sign):
    """Return a mask of large arguments, and those series there."""
    far = x > _FAR
    r, series = sign * np.square(1 / np.where(far, x, _FAR)), _TAIL[-1]
    for coefficient in _TAIL[-2::-1]:
        series = series * r + coefficient
    return far, sign * r * series


def _erfcx_slope(y, x):
    far, tail = _tail(x, -1)
    return np.where(far, -2 / ROOT_PI * tail, 2 * x * y - 2 / ROOT_PI)


def _dawsn_slope(y, x):
    far, tail = _tail(np.abs(x), 1)
    return np.where(far, -tail, 1 - 2 * x * y)


def _mills(x):
    """Return the normal density by its distribution function; 0 with all derivatives where `erfcx` overflows."""
    far = x > 37.6
    return np.where(far, 0, math.sqrt(2 / math.pi) / sp.erfcx(-np.where(far, 0, x) / ROOT_2))


def _bell(x):
    """Return ``exp(-x * x)`` with derivatives of 0 at infinity; `bell` drops the choice where none is taken."""
    t = np.where(np.abs(x) > 28.0, 28.0, x)  # where the exponential is 0
    return np.exp(-t * t)


def _normal_bell(x):
    """Return ``exp(-x * x / 2)`` likewise."""
    t = np.where(np.abs(x) > 40.0, 40.0, x)
    return np.exp(-t * t / 2)


special(sp.erf, lambda y, x: 2 / ROOT_PI * _bell(x))
special(sp.erfc, lambda y, x: -2 / ROOT_PI * _bell(x))
singular(sp.erfi, lambda y, x: 2 / ROOT_PI * np.exp(x * x))
singular(sp.erfcx, _erfcx_slope)
special(sp.dawsn, _dawsn_slope)
singular(sp.erfinv, lambda y, x: ROOT_PI / 2 * np.exp(y * y), domain=UNIT)
singular(sp.erfcinv, lambda y, x: -ROOT_PI / 2 * np.exp(y * y), domain=PROBABILITY)
special(sp.ndtr, lambda y, x: _normal_bell(x) / math.sqrt(2 * math.pi))
singular(sp.ndtri, lambda y, p: math.sqrt(2 * math.pi) * np.exp(y * y / 2), domain=PROBABILITY)
singular(sp.log_ndtr, lambda y, x: _mills(x))
singular(sp.ndtri_exp, lambda x, y: 1 / _mills(x), domain=(-3.0, -0.1))


@implements_at(sp, "wofz")
def wofz(z):
    raise UnsupportedError(
        "scipy.special.wofz of a traced number is not supported: its result is complex",
        "Write voigt_profile(x, sigma, gamma) for wofz((x + 1j * gamma) / (sigma * sqrt(2))).real / (sigma * "
        "sqrt(2 * pi)); of a real x, 2 / sqrt(pi) * dawsn(x) for wofz(x).imag and np.exp(-x * x) for wofz(x).real.",
    )


def imaginary_voigt(x, sigma, gamma):
    """The imaginary part of the Faddeeva function, scaled as `voigt_profile` scales the real one."""
    width = sigma * np.sqrt(2.0)
    return scipy.special.wofz((x + 1j * gamma) / width).imag / (width * np.sqrt(np.pi))


def _voigt_partials(y, x, sigma, gamma):
    """From 7.10.2, by the profile of the imaginary part; by the width from the other two (Euler)."""
    other = IMAGINARY_VOIGT(x, sigma, gamma)
    square = np.square(sigma)
    by_x = (gamma * other - x * y) / square
    by_gamma = (x * other + gamma * y - 1 / math.pi) / square
    return by_x, -(y + x * by_x + gamma * by_gamma) / sigma, by_gamma


def _imaginary_voigt_partials(y, x, sigma, gamma):
    """The Cauchy-Riemann equations of both."""
    profile = sp.voigt_profile(x, sigma, gamma)
    square = np.square(sigma)
    by_x = -(x * y + gamma * profile - 1 / math.pi) / square
    by_gamma = (gamma * y - x * profile) / square
    return by_x, -(y + x * by_x + gamma * by_gamma) / sigma, by_gamma


IMAGINARY_VOIGT = singular(
    imaginary_voigt,
    _imaginary_voigt_partials,
    dtype=lambda x, sigma, gamma: ufunc_dtypes(sp.voigt_profile, (x, sigma, gamma), "scipy.special")[0],
    written=True,
    domain=(REAL, POSITIVE, POSITIVE),
)
singular(sp.voigt_profile, _voigt_partials, domain=(REAL, POSITIVE, POSITIVE))


def _owens_t_partials(y, h, a):
    square = 1 + a * a
    by_h = -np.exp(-h * h / 2) * sp.erf(a * h / ROOT_2) / math.sqrt(8 * math.pi)
    return by_h, np.exp(-h * h * square / 2) / (2 * math.pi * square)


special(sp.owens_t, _owens_t_partials)

# ---- logistic functions, entropies: nothing flows from what is multiplied by zero


def _of_floats(function):
    """A function of floats of at least four bytes, which SciPy's loops take."""

    def converted(x):
        x = as_input(x)
        return function(x.astype(ufunc_dtypes(sp.expit, (kind_of(x.aval),), "scipy.special")[0]))

    return converted


implements_at(sp, "expit")(_of_floats(LOGISTIC))
implements_at(sp, "log_expit")(_of_floats(lambda x: -np.logaddexp(0, -x)))
singular(sp.logit, lambda y, x: 1 / (x * (1 - x)), domain=PROBABILITY)


def _log_ratio(x, y):
    """log(x / y), near 1 to its last digits."""
    near = np.abs(x - y) < 0.5 * np.abs(y)
    return np.where(near, np.log1p(np.where(near, x - y, 0) / np.where(near, y, 1)), np.log(x) - np.log(y))


singular(sp.xlogy, lambda z, x, y: (np.log(y), np.where(x != 0, x / y, 0)), domain=POSITIVE)
singular(sp.xlog1py, lambda z, x, y: (np.log1p(y), np.where(x != 0, x / (1 + y), 0)), domain=POSITIVE)
singular(sp.entr, lambda y, x: -np.log(x) - 1, domain=POSITIVE)
singular(sp.rel_entr, lambda z, x, y: (_log_ratio(x, y) + 1, np.where(x != 0, -x / y, 0)), domain=POSITIVE)
singular(
    sp.kl_div,
    lambda z, x, y: (_log_ratio(x, y), np.where(x != 0, (y - x) / np.where(x != 0, y, 1), 1)),
    domain=POSITIVE,
)


def _huber_partials(z, delta, r):
    size = np.abs(r)
    return np.where(size > delta, size - delta, 0), np.where(size > delta, delta * np.sign(r), r)


def _pseudo_huber_partials(z, delta, r):
    """sqrt(1 + u * u) - 1 without a difference."""
    u = r / delta
    root = np.hypot(1, u)
    return delta * np.square(u * u / (root + 1)) / root, r / root


special(sp.huber, _huber_partials, domain=((0.3, 1.0), REAL))
singular(sp.pseudo_huber, _pseudo_huber_partials, domain=(POSITIVE, REAL))

# ---- exponentials, powers, angles

singular(sp.expm1, lambda y, x: np.exp(x), nanoseconds=2.0)
singular(sp.exp2, lambda y, x: LN2 * y)
singular(sp.exp10, lambda y, x: LN10 * y)
singular(sp.log1p, lambda y, x: 1 / (1 + x), domain=UNIT, nanoseconds=1.5)
singular(sp.cbrt, lambda y, x: 1 / (3 * y * y), domain=POSITIVE)
special(sp.cosm1, lambda y, x: -np.sin(x))
special(sp.round, flat)
singular(sp.powm1, lambda z, x, y: power_partials(np.power(x, y), x, y), domain=(POSITIVE, REAL))
special(sp.sindg, lambda y, x: DEGREE * sp.cosdg(x))
special(sp.cosdg, lambda y, x: -DEGREE * sp.sindg(x))
singular(sp.tandg, lambda y, x: DEGREE * (1 + y * y), domain=UNIT)
singular(sp.cotdg, lambda y, x: -DEGREE * (1 + y * y), domain=(20.0, 70.0))
special(sp.radian, lambda y, d, m, s: (DEGREE, DEGREE / 60, DEGREE / 3600))

_EXPREL = [(k + 1) / math.factorial(k + 2) for k in range(20)]


def _exprel_slope(y, x):
    """(exp(x) - y) / x, by its series near 0; where exp(x) overflows it is x * y + 1."""
    near, series = near_zero(x, _EXPREL, 0.5)
    r = 1 / np.where(near, 1, x)
    return np.where(near, series, np.where(x > 0, y * (1 - r) + r, (np.exp(np.minimum(x, 0)) - y) * r))


def _boxcox_by_power(y, log, power):
    """The derivative by the power of (exp(power * log) - 1) / power; where the log is -inf, of -1 / power."""
    zero = log == -np.inf
    log = np.where(zero, 0, log)
    t = power * log
    return np.where(zero, -y / np.where(zero, power, 1), log * log * _exprel_slope(sp.exprel(t), t))


def _inverse_boxcox(y, log, power):
    """Partials of x by (x**power - 1) / power = y and by the power."""
    slope = np.exp((1 - power) * log)
    return slope, -_boxcox_by_power(y, log, power) * slope


singular(sp.exprel, _exprel_slope)
singular(
    sp.boxcox,
    lambda y, x, p: (np.power(x, p - 1), _boxcox_by_power(y, np.log(x), p)),
    domain=(POSITIVE, REAL),
)
singular(
    sp.boxcox1p,
    lambda y, x, p: (np.exp((p - 1) * np.log1p(x)), _boxcox_by_power(y, np.log1p(x), p)),
    domain=(POSITIVE, REAL),
)
singular(sp.inv_boxcox, lambda x, y, p: _inverse_boxcox(y, np.log(x), p), domain=((-0.4, 0.9), (0.2, 1.0)))
singular(
    sp.inv_boxcox1p,
    lambda x, y, p: _inverse_boxcox(y, np.log1p(x), p),
    domain=((-0.4, 0.9), (0.2, 1.0)),
)
special(sp.wrightomega, lambda y, x: y / (1 + y))

# ---- integrals

singular(sp.expi, lambda y, x: np.exp(x) / x, domain=POSITIVE)
singular(sp.exp1, lambda y, x: -np.exp(-x) / x, domain=POSITIVE)
singular(sp.spence, lambda y, x: -1 / sp.exprel(np.log(x)), domain=POSITIVE)


def _expn_partials(y, n, x):
    """8.19.13; of order 0, exp(-x) / x."""
    first = -y * (1 + 1 / x)
    if known_number(n) is not None:
        return ORDER, first if known_number(n) == 0 else -sp.expn(n - 1, x)
    return ORDER, np.where(n == 0, first, -sp.expn(np.maximum(n - 1, 0), x))


singular(sp.expn, _expn_partials, domain=((1.0, 3.0), POSITIVE))

_ELLIPK = [math.pi / 2 * (k + 1) * (math.comb(2 * k + 2, k + 1) / 4 ** (k + 1)) ** 2 for k in range(24)]
_ELLIPE = [-math.pi / 2 * (k + 1) / (2 * k + 1) * (math.comb(2 * k + 2, k + 1) / 4 ** (k + 1)) ** 2 for k in range(24)]


def _ellipk_slope(y, m, rest):
    """19.4.1 in m = k**2, where 1 - m is `rest`; near 0 the derivative of 19.5.1."""
    near, series = near_zero(m, _ELLIPK, 0.1)
    return np.where(near, series, (sp.ellipe(m) / rest - y) / (2 * np.where(near, 1, m)))


def _ellipe_slope(y, m):
    near, series = near_zero(m, _ELLIPE, 0.1)
    return np.where(near, series, (y - sp.ellipk(m)) / (2 * np.where(near, 1, m)))


singular(sp.ellipk, lambda y, m: _ellipk_slope(y, m, 1 - m), domain=UNIT)
singular(sp.ellipkm1, lambda y, p: -_ellipk_slope(y, 1 - p, p), domain=POSITIVE)
singular(sp.ellipe, _ellipe_slope, domain=UNIT)

# ---- hypergeometric functions (13.3.15, 13.3.22, 15.5.1, 16.3.1)

singular(sp.hyp0f1, lambda y, b, x: (parameter("v"), sp.hyp0f1(b + 1, x) / b), domain=POSITIVE)
singular(
    sp.hyp1f1,
    lambda y, a, b, x: (parameter("a"), parameter("b"), a / b * sp.hyp1f1(a + 1, b + 1, x)),
    domain=POSITIVE,
)
singular(
    sp.hyperu,
    lambda y, a, b, x: (parameter("a"), parameter("b"), -a * sp.hyperu(a + 1, b + 1, x)),
    domain=POSITIVE,
)
singular(
    sp.hyp2f1,
    lambda y, a, b, c, x: (
        parameter("a"), parameter("b"), parameter("c"), a * b / c * sp.hyp2f1(a + 1, b + 1, c + 1, x)
    ),
    domain=(POSITIVE, POSITIVE, POSITIVE, (-0.9, 0.5)),
)  # fmt: skip

# ---- several results


def _several(ufunc, pulled_back):
    return operator(
        ufunc,
        infer=lambda x: tuple(Aval(x.shape, dtype) for dtype in ufunc_dtypes(ufunc, (kind_of(x),), "scipy.special")),
        vjp=lambda g, y, x: (pulled_back(g, y, x),),
        signature=aligned,
        package="scipy.special",
        singular=True,
    )


_several(sp.fresnel, lambda g, y, x: g[0] * np.sin(math.pi / 2 * x * x) + g[1] * np.cos(math.pi / 2 * x * x))
_several(sp.sici, lambda g, y, x: g[0] * np.sinc(x / math.pi) + g[1] * np.cos(x) / x)
_several(sp.shichi, lambda g, y, x: g[0] * (sp.exprel(x) + sp.exprel(-x)) / 2 + g[1] * np.cosh(x) / x)  # sinh(x) / x
_several(sp.airy, lambda g, y, x: g[0] * y[1] + g[1] * x * y[0] + g[2] * y[3] + g[3] * x * y[2])  # 9.2.1

# ---- numbers of choices


def _choices(function, N, k, exact, number):
    if exact:
        raise UnsupportedError(
            f"scipy.special.{function}: exact=True counts with integers of Python", "Leave exact= out: it is a float."
        )
    N, k = (strong(as_input(x)) for x in (N, k))
    return np.where((k <= N) & (N >= 0) & (k >= 0), number(N, k), 0.0)


@implements_at(sp, "factorial")
def factorial(n, exact=False, **more):
    refuse_given("factorial", "scipy.special", **more)
    n = as_input(n)
    return _choices("factorial", n, 0, exact, lambda n, _: sp.gamma(np.maximum(n, 0) + 1))


@implements_at(sp, "comb")
def comb(N, k, *, exact=False, repetition=False):
    N = N + k - 1 if repetition else N
    return _choices("comb", N, k, exact, sp.binom)


@implements_at(sp, "perm")
def perm(N, k, exact=False):
    return _choices("perm", N, k, exact, lambda N, k: sp.poch(N - k + 1, k))


if hasattr(sp, "softplus"):  # SciPy 1.15

    @implements_at(sp, "softplus")
    def softplus(x):
        return np.logaddexp(0, x)
