"""Gamma and beta functions, their incomplete forms, and the distributions that are made of these."""

import numpy as np
import scipy.special
from scipy.special import betainc, cosdg, digamma, gamma, gammainc, gammaln, jv, poch, psi, sindg

from symgrad.errors import DTypeError, UnsupportedError
from symgrad.ops.define import flat, implements_at, registered
from symgrad.ops.dtypes import ufunc_dtypes
from symgrad.ops.elementwise import REAL
from symgrad.ops.operands import is_traced, known_number
from symgrad.ops.scipy.incomplete import _beta_density, _betainc_by_a, _gamma_density, _gammainc_by_a
from symgrad.ops.scipy.table import POSITIVE, PROBABILITY, parameter, singular, special, twice

# ---- complete


def _rgamma_slope(y, x):
    """By reflection (5.5.3) on the left, where digamma has poles and the derivative has none."""
    left = x < 0.5
    mirrored = np.where(left, 1 - x, 1.0)
    angle = 180 * np.where(left, x, 0)
    reflected = gamma(mirrored) * (cosdg(angle) - sindg(angle) * digamma(mirrored) / np.pi)
    return np.where(left, reflected, -y * digamma(np.where(left, 1.0, x)))


singular(gammaln, lambda y, x: digamma(x), domain=POSITIVE)
singular(scipy.special.loggamma, lambda y, x: digamma(x), domain=POSITIVE)
singular(gamma, lambda y, x: y * digamma(x), domain=POSITIVE)
singular(psi, lambda y, x: zeta(2.0, x), name="digamma", domain=POSITIVE)
singular(scipy.special.rgamma, _rgamma_slope)
special(scipy.special.gammasgn, flat)
singular(
    scipy.special.beta,
    lambda y, a, b: (y * (digamma(a) - digamma(a + b)), y * (digamma(b) - digamma(a + b))),
    commutes=True,
    domain=POSITIVE,
)
singular(
    scipy.special.betaln,
    lambda y, a, b: (digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)),
    commutes=True,
    domain=POSITIVE,
)
singular(poch, lambda y, a, m: (y * (digamma(a + m) - digamma(a)), y * digamma(a + m)), domain=POSITIVE)


def _binom_partials(y, n, k):
    rest = digamma(n - k + 1)
    return y * (digamma(n + 1) - rest), y * (rest - digamma(k + 1))


singular(scipy.special.binom, _binom_partials, domain=((4.0, 6.0), (0.3, 3.0)))

# ---- zeta, polygamma


def _zeta_dtype(*kinds):
    """The dtype of a function of two real numbers, with the types of `jv`; SciPy's own is no ufunc."""
    if any(np.dtype(kind).kind == "c" for kind in kinds):
        raise DTypeError("scipy.special.zeta of complex numbers is not supported", "Write it for real ones.")
    return ufunc_dtypes(jv, kinds, "scipy.special")[0]


ZETA = singular(  # 25.11.17
    scipy.special.zeta,
    lambda y, s, q: (parameter("s"), -s * zeta(s + 1, q)),
    dtype=_zeta_dtype,
    domain=((1.5, 4.0), POSITIVE),
)
RIEMANN = singular(
    lambda s: scipy.special.zeta(s),
    lambda y, s: parameter("s"),
    dtype=lambda s: ufunc_dtypes(gammaln, (s,), "scipy.special")[0],
    name="zeta",
)
registered(RIEMANN, "scipy.special.riemann_zeta")


@implements_at(scipy.special, "zeta")
def zeta(x, q=None, out=None):
    if out is not None:
        raise UnsupportedError("scipy.special.zeta: the argument out= is not supported", "Leave out= out.")
    return RIEMANN(x) if q is None else ZETA(x, q)


def _polygamma_dtype(n, x):
    """The dtype of polygamma, which is that of zeta, but for half precision, which its other branch makes double."""
    if "c" in (np.dtype(n).kind, np.dtype(x).kind):
        raise DTypeError("scipy.special.polygamma of complex numbers is not supported", "Write psi(x), its first one.")
    return np.dtype("f") if (n, x) == ("f", "f") else np.dtype("d")


POLYGAMMA = singular(  # 5.15.1, for an order that the program does not know
    scipy.special.polygamma,
    lambda y, n, x: (parameter("n"), polygamma(n + 1, x)),
    dtype=_polygamma_dtype,
    domain=((1.0, 3.0), POSITIVE),
)


@implements_at(scipy.special, "polygamma")
def polygamma(n, x):
    """Compute polygamma of a known order by the Hurwitz zeta function (25.11.12), in double precision, as SciPy."""
    n, x = (v if is_traced(v) else np.asarray(v)[()] for v in (n, x))
    if known_number(n) is None:
        return POLYGAMMA(n, x)
    if x.dtype.kind == "c":
        raise DTypeError("scipy.special.polygamma of complex numbers is not supported", "Write psi(x), its first one.")
    order, x = n + 1.0, x.astype(float) if is_traced(x) else x
    return digamma(x) if known_number(n) == 0 else (-1.0) ** order * gamma(order) * zeta(order, x)


@implements_at(scipy.special, "multigammaln")
def multigammaln(a, d):
    """The sum of 35.3.4."""
    if is_traced(d):
        raise UnsupportedError("scipy.special.multigammaln: d is traced", "Give d as a number that the program knows.")
    total = gammaln(a)
    for j in range(1, int(d)):
        total = total + gammaln(a - j / 2)
    return total + d * (d - 1) / 4 * np.log(np.pi)


# ---- incomplete gamma functions

GAMMA_DENSITY = singular(  # exp(-x) x**(a - 1) / gamma(a)
    _gamma_density,
    lambda y, a, x: (y * (np.log(x) - digamma(a)), y * ((a - 1) / x - 1)),
    dtype=lambda a, x: ufunc_dtypes(gammainc, (a, x), "scipy.special")[0],
    written=True,
    domain=POSITIVE,
)
GAMMAINC_BY_A = singular(
    _gammainc_by_a,
    lambda y, p, a, x: (None, twice("gammainc"), GAMMA_DENSITY(a, x) * (np.log(x) - digamma(a))),
    dtype=lambda p, a, x: p,
    written=True,
)


def _gammaincinv_partials(x, a, sign):
    density = GAMMA_DENSITY(a, x)
    return -GAMMAINC_BY_A(x, a, x) / density, sign / density


singular(  # 8.8.13
    gammainc,
    lambda y, a, x: (GAMMAINC_BY_A(y, a, x), GAMMA_DENSITY(a, x)),
    domain=POSITIVE,
)
singular(scipy.special.gammaincc, lambda y, a, x: (-GAMMAINC_BY_A(y, a, x), -GAMMA_DENSITY(a, x)), domain=POSITIVE)
singular(scipy.special.gammaincinv, lambda x, a, p: _gammaincinv_partials(x, a, 1), domain=(POSITIVE, PROBABILITY))
singular(scipy.special.gammainccinv, lambda x, a, q: _gammaincinv_partials(x, a, -1), domain=(POSITIVE, PROBABILITY))

# ---- incomplete beta functions: y is 1 - x, to which x does not tell when it is tiny

BETA_DENSITY = singular(  # x**(a - 1) y**(b - 1) / beta(a, b)
    _beta_density,
    lambda z, a, b, x, y: (
        z * (np.log(x) - digamma(a) + digamma(a + b)),
        z * (np.log(y) - digamma(b) + digamma(a + b)),
        z * ((a - 1) / x),
        z * ((b - 1) / y),
    ),
    dtype=lambda a, b, x, y: ufunc_dtypes(betainc, (a, b, x), "scipy.special")[0],
    written=True,
    domain=(POSITIVE, POSITIVE, PROBABILITY, PROBABILITY),
)
BETAINC_BY_A = singular(  # x moves with y
    _betainc_by_a,
    lambda z, p, a, b, x, y: (
        None,
        twice("betainc"),
        twice("betainc"),
        BETA_DENSITY(a, b, x, y) * (np.log(x) - digamma(a) + digamma(a + b)),
        None,
    ),
    dtype=lambda p, a, b, x, y: p,
    written=True,
)  # fmt: skip


def _betainc_partials(z, a, b, x):
    """8.17.4 for the derivative by b."""
    y = 1 - x
    return BETAINC_BY_A(z, a, b, x, y), -BETAINC_BY_A(z, b, a, y, x), BETA_DENSITY(a, b, x, y)


def _betaincc_partials(z, a, b, x):
    y = 1 - x
    return -BETAINC_BY_A(z, a, b, x, y), BETAINC_BY_A(z, b, a, y, x), -BETA_DENSITY(a, b, x, y)


def _betaincinv_partials(x, a, b, p):
    y = 1 - x
    density = BETA_DENSITY(a, b, x, y)
    return -BETAINC_BY_A(x, a, b, x, y) / density, BETAINC_BY_A(x, b, a, y, x) / density, 1 / density


def _betainccinv_partials(x, a, b, q):
    by_a, by_b, by_p = _betaincinv_partials(x, a, b, q)
    return by_a, by_b, -by_p


for name, partials in (
    ("betainc", _betainc_partials), ("betaincc", _betaincc_partials),
    ("betaincinv", _betaincinv_partials), ("betainccinv", _betainccinv_partials),
):  # fmt: skip
    singular(getattr(scipy.special, name), partials, domain=(POSITIVE, POSITIVE, PROBABILITY))

# ---- distributions made of these; the numbers of successes are orders, as they are whole


def _chdtr_partials(y, v, x):
    return GAMMAINC_BY_A(y, v / 2, x / 2) / 2, GAMMA_DENSITY(v / 2, x / 2) / 2


def _gdtr_partials(y, a, b, x):
    density = GAMMA_DENSITY(b, a * x)
    return x * density, GAMMAINC_BY_A(y, b, a * x), a * density


def _negative(partials):
    return lambda *values: tuple(-p for p in partials(*values))


singular(scipy.special.chdtr, _chdtr_partials, domain=POSITIVE)
singular(scipy.special.chdtrc, _negative(_chdtr_partials), domain=POSITIVE)
singular(scipy.special.gdtr, _gdtr_partials, domain=POSITIVE)
singular(scipy.special.gdtrc, _negative(_gdtr_partials), domain=POSITIVE)
singular(scipy.special.pdtr, lambda y, k, m: (parameter("k"), -GAMMA_DENSITY(np.floor(k) + 1, m)), domain=POSITIVE)
singular(scipy.special.pdtrc, lambda y, k, m: (parameter("k"), GAMMA_DENSITY(np.floor(k) + 1, m)), domain=POSITIVE)


def _bdtr_slope(k, n, p):
    return BETA_DENSITY(np.floor(k) + 1, n - np.floor(k), p, 1 - p)


singular(
    scipy.special.bdtr,
    lambda y, k, n, p: (parameter("k"), parameter("n"), -_bdtr_slope(k, n, p)),
    domain=((1.0, 2.0), (5.0, 5.5), PROBABILITY),
)
singular(
    scipy.special.bdtrc,
    lambda y, k, n, p: (parameter("k"), parameter("n"), _bdtr_slope(k, n, p)),
    domain=((1.0, 2.0), (5.0, 5.5), PROBABILITY),
)


def _t_density(v, t):
    """Student's, of v degrees of freedom."""
    return poch(v / 2, 0.5) / np.sqrt(np.pi * v) * np.exp(-0.5 * (v + 1) * np.log1p(t * t / v))


def _stdtr_by_df(y, v, t, density):
    """From half of betainc(v / 2, 1 / 2, v / (v + t * t)), which is the part beyond abs(t)."""
    whole = v + t * t
    return -np.sign(t) / 4 * BETAINC_BY_A(y, v / 2, 0.5, v / whole, t * t / whole) - t * density / (2 * v)


def _stdtr_partials(y, v, t):
    density = _t_density(v, t)
    return _stdtr_by_df(y, v, t, density), density


def _stdtrit_partials(t, v, p):
    density = _t_density(v, t)
    return -_stdtr_by_df(t, v, t, density) / density, 1 / density


singular(scipy.special.stdtr, _stdtr_partials, domain=(POSITIVE, REAL))
singular(scipy.special.stdtrit, _stdtrit_partials, domain=(POSITIVE, PROBABILITY))
