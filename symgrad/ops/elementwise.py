"""Elementwise functions that are smooth: arithmetic, exponentials, logarithms, trigonometry.

Partials are first-year calculus unless a line says otherwise. The first argument of a partial is the result.
"""

import math

import numpy as np

from symgrad.core.graph import CONSTANT
from symgrad.ops.branch_distances import first_input, quotient_from_integer
from symgrad.ops.define import elementwise, flat
from symgrad.ops.dtypes import result_dtype, ufunc_dtypes
from symgrad.ops.operands import is_traced, known_number
from symgrad.spelling import ATOM, PRODUCT, UNARY, Code, call as spelled, infix

LN2, LN10, DEGREE = float(np.log(2.0)), float(np.log(10.0)), float(np.pi / 180)
POSITIVE, UNIT, REAL = (0.1, 3.0), (-0.9, 0.9), (-2.0, 2.0)


def scalar(number, dtype):
    """A number for np.where and np.ldexp, which take Python's as float64 where nothing else has a dtype."""
    return number if dtype == np.float64 else dtype.type(number)


def conjugate(x):
    """The complex conjugate; real numbers as they are."""
    return np.conjugate(x) if x.dtype.kind == "c" else x


# ---- arithmetic


def _scalar_power(node, x, y):
    """Spell a power of Python floats. A negative base with a fractional exponent is complex under ``**``; math.pow
    raises.
    """
    if node.aval.dtype.kind == "i":  # which a float does not hold from 2**53 on
        return infix("**", x, y)
    n = node.inputs[1].constant
    if n is None or not math.isfinite(n) or n != int(n):
        return spelled("math.pow", [x.text, y.text])
    return infix("**", x, Code(str(int(n)), ATOM if n >= 0 else UNARY))


def power_partials(z, x, y):
    return _power_by_base(x, y), _power_by_exponent(z, x, y)


def _power_by_base(x, y):
    n = known_number(y)
    if n is not None:
        return None if n == 0 else 1 if n == 1 else 2 * x if n == 2 else n * x ** (n - 1)
    if y.dtype.kind in "fc" and is_traced(y) and y.node.op is not CONSTANT:
        return y * np.power(np.where((x == 0) & (y == 0), 1, x), y - 1)  # y moves: its exponent must stay y - 1
    return y * np.power(x, np.where(y == 0, 1, y - 1))


def _power_by_exponent(z, x, y):
    """At x = 0 zero, as in JAX: the limit of 0**y log 0 for y > 0."""
    base = known_number(x)
    if base is not None and np.isreal(base) and base.real > 0:
        return z * math.log(base)
    return z * np.log(np.where(x == 0, 1, x))


def _spell_absolute(node, x):
    return spelled("abs" if node.aval.weak else "np.abs", [x.text])


ADD = elementwise(
    np.add, lambda z, x, y: (1, 1), infix="+", commutes=True, interval=lambda x, y: x + y, cheap=True, elided=True
)
SUBTRACT = elementwise(
    np.subtract, lambda z, x, y: (1, -1), infix="-", interval=lambda x, y: x - y, cheap=True, elided=True
)
MULTIPLY = elementwise(
    np.multiply, lambda z, x, y: (y, x), infix="*", commutes=True, interval=lambda x, y: x * y, cheap=True, elided=True
)
DIVIDE = elementwise(
    np.true_divide,
    lambda z, x, y: (1 / y, -z / y),
    infix="/",
    singular=lambda x, y: y.holds(0.0),
    domain=(REAL, POSITIVE),
    interval=lambda x, y: x / y,
    nanoseconds=0.5,
    elided=True,
)
elementwise(
    np.floor_divide,
    flat,
    infix="//",
    domain=(REAL, POSITIVE),
    branch_distance=quotient_from_integer,
    elided=True,
)
elementwise(
    np.remainder,
    lambda z, x, y: (1, -(x // y)),
    infix="%",
    singular=True,
    domain=(REAL, POSITIVE),
    branch_distance=quotient_from_integer,
    elided=True,
)
# x / y may round up to an integer that fmod, which is exact, has not reached
elementwise(
    np.fmod,
    lambda z, x, y: (1, -np.rint((x - z) / y)),
    singular=True,
    domain=(REAL, POSITIVE),
    branch_distance=quotient_from_integer,
)
POWER = elementwise(
    np.power,
    power_partials,
    infix="**",
    singular=lambda x, y: not y.is_natural,
    domain=(POSITIVE, REAL),
    scalar=_scalar_power,
    interval=lambda x, y: x**y,
    nanoseconds=12.0,
    integral=True,
)
elementwise(np.float_power, power_partials, singular=True, domain=(POSITIVE, REAL), scalar="math.pow", nanoseconds=12.0)
NEGATIVE = elementwise(np.negative, lambda y, x: -1, prefix="-", interval=lambda x: -x, cheap=True, elided=True)
elementwise(np.positive, lambda y, x: 1, prefix="+")
elementwise(np.conjugate, vjp=lambda g, y, x: (conjugate(g),), linear=True)
RECIPROCAL = elementwise(
    np.reciprocal,
    lambda y, x: -y * y,
    singular=True,
    domain=POSITIVE,
    scalar=lambda node, x: Code(f"1.0 / {x.at(UNARY)}", PRODUCT),
)
elementwise(np.square, lambda y, x: 2 * x, scalar="a * a", interval=lambda x: abs(x) * abs(x))
SQRT = elementwise(
    np.sqrt,
    lambda y, x: 0.5 / y,
    singular=lambda x: x.low <= 0,
    domain=POSITIVE,
    interval=lambda x: x.sqrt(),
    nanoseconds=1.3,
)
elementwise(np.cbrt, lambda y, x: 1 / (3 * y * y), singular=True, domain=POSITIVE, nanoseconds=13.0)


def _absolute_slope(y, x):
    """Zero at zero."""
    return np.sign(x) if x.dtype.kind != "c" else np.conjugate(x) / np.where(y == 0, 1, y)


ABSOLUTE = elementwise(
    np.absolute,
    _absolute_slope,
    keeps_weak=True,
    spell=_spell_absolute,
    scalar="abs",
    interval=abs,
    branch_distance=first_input,
    cheap=True,
)
elementwise(np.fabs, lambda y, x: np.sign(x), branch_distance=first_input)


def _vjp_sign(g, y, x):
    """Zero of real numbers. Of a complex one it is the direction, which moves when the number moves across it."""
    if x.dtype.kind != "c":
        return (None,)
    length = np.abs(x)
    across = g - np.real(g * y) * np.conjugate(y)
    return (np.where(length == 0, 0, across / np.where(length == 0, 1, length)),)


# its loop branches: in place it takes five times as long where signs are mixed
elementwise(
    np.sign,
    vjp=_vjp_sign,
    scalar="1.0 if a > 0 else -1.0 if a < 0 else a + 0.0",
    interval=(-1, 1),
    branch_distance=first_input,
    slow_in_place=True,
)
elementwise(
    np.heaviside,
    lambda z, x, h: (None, np.where(x == 0, 1.0, 0)),
    scalar="1.0 if a > 0 else 0.0 if a < 0 else b if a == 0 else a",
    branch_distance=first_input,
    nanoseconds=2.0,
)
elementwise(np.copysign, lambda z, x, y: (np.sign(x) * np.copysign(1.0, y), None), branch_distance=lambda x, y: y)


def _hypot_partials(z, x, y):
    """Zero at the origin, as the derivative of the absolute value is."""
    length = np.where(z == 0, 1, z)
    return x / length, y / length


elementwise(np.hypot, _hypot_partials, commutes=True, nanoseconds=8.0)

# ---- exponentials and logarithms

EXP = elementwise(
    np.exp, lambda y, x: y, singular=lambda x: x.exp().high == math.inf, interval=lambda x: x.exp(), nanoseconds=4.6
)
elementwise(np.exp2, lambda y, x: LN2 * y, singular=True, nanoseconds=4.3)
elementwise(np.expm1, lambda y, x: np.exp(x), singular=True, nanoseconds=5.3)
LOG = elementwise(np.log, lambda y, x: 1 / x, singular=lambda x: x.low <= 0, domain=POSITIVE, nanoseconds=3.8)
elementwise(np.log2, lambda y, x: 1 / (LN2 * x), singular=True, domain=POSITIVE, nanoseconds=4.1)
elementwise(np.log10, lambda y, x: 1 / (LN10 * x), singular=True, domain=POSITIVE, nanoseconds=6.9)
elementwise(np.log1p, lambda y, x: 1 / (1 + x), singular=lambda x: x.low <= -1, domain=(-0.9, 3), nanoseconds=6.0)


def logistic(x):
    """``1 / (1 + exp(-x))``, which is zero, as it should be, where the exponential overflows."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


LOGISTIC = elementwise(
    logistic,
    lambda y, x: y * LOGISTIC(-x),
    dtype=lambda x: ufunc_dtypes(np.exp, (x,))[0],
    scalar="0.0 if a < -709.78 else 1.0 / (1.0 + math.exp(-a))",
    interval=(0, 1),
    nanoseconds=5.5,
    written=True,
)
"""`rewrite.logistic` recognises it, `targets.numpy.logistic` writes it by exponentials."""


def difference(x, y):
    """``x - y``, and 0 for equal infinities, as for other equal numbers."""
    apart = x != y
    return np.where(apart, x, 0) - np.where(apart, y, 0)


DIFFERENCE = elementwise(
    difference,
    lambda z, x, y: (1, -1),
    dtype=lambda x, y: ufunc_dtypes(np.subtract, (x, y))[0],
    scalar="0.0 if a == b else a - b",
    nanoseconds=1.0,
    written=True,
)
"""`targets.numpy.logistic` writes it by choices."""


def _differences(x, y):
    """Return ``x - y`` and ``y - x``, without choices if x or y is a finite number, as in ``log(1 + exp(x))``."""
    if any(a is not None and abs(a) < np.inf for a in map(known_number, (x, y))):
        return x - y, y - x
    d = DIFFERENCE(x, y)
    return d, -d


def _logaddexp_partials(z, x, y):
    d, negative = _differences(x, y)
    return LOGISTIC(d), LOGISTIC(negative)


def _logaddexp2_partials(z, x, y):
    d, negative = _differences(x, y)
    return LOGISTIC(LN2 * d), LOGISTIC(LN2 * negative)


LOGADDEXP = elementwise(
    np.logaddexp,
    _logaddexp_partials,
    silent=-np.inf,  # log(0 + 0)
    commutes=True,
    nanoseconds=18.0,
    scalar="a + math.log(2.0) if a == b else max(a, b) + math.log1p(math.exp(-abs(a - b)))",
)
elementwise(
    np.logaddexp2,
    _logaddexp2_partials,
    silent=-np.inf,
    commutes=True,
    nanoseconds=16.0,
)

# ---- trigonometric and hyperbolic

elementwise(np.sin, lambda y, x: np.cos(x), singular_off_axis=True, interval=(-1, 1), nanoseconds=8.0)
elementwise(np.cos, lambda y, x: -np.sin(x), singular_off_axis=True, interval=(-1, 1), nanoseconds=8.0)
elementwise(np.tan, lambda y, x: 1 + y * y, singular=True, domain=(-1.2, 1.2), nanoseconds=10.0)


def _one_more(x):
    """Add 1 and keep the sign of an imaginary part that is zero: it says on which side of a cut the number lies."""
    return x - -1 if x.dtype.kind == "c" else x + 1


def _one_minus_square(x):
    return -((x - 1) * _one_more(x)) if x.dtype.kind == "c" else (1 - x) * (1 + x)


elementwise(np.arcsin, lambda y, x: 1 / np.sqrt(_one_minus_square(x)), singular=True, domain=UNIT, nanoseconds=5.0)
elementwise(np.arccos, lambda y, x: -1 / np.sqrt(_one_minus_square(x)), singular=True, domain=UNIT, nanoseconds=5.0)
elementwise(np.arctan, lambda y, x: 1 / (1 + x * x), singular_off_axis=True, nanoseconds=8.0)


def _arctan2_partials(z, y, x):
    """Squares would overflow, or vanish, where the partials are ordinary numbers."""
    length = np.hypot(x, y)
    return x / length / length, -y / length / length


elementwise(np.arctan2, _arctan2_partials, singular=True, domain=(POSITIVE, POSITIVE), nanoseconds=15.0)
elementwise(np.sinh, lambda y, x: np.cosh(x), singular=True, nanoseconds=11.0)
elementwise(np.cosh, lambda y, x: np.sinh(x), singular=True, nanoseconds=8.0)
elementwise(np.tanh, lambda y, x: 1 - y * y, singular_off_axis=True, interval=(-1, 1), nanoseconds=12.0)
elementwise(np.arcsinh, lambda y, x: 1 / np.sqrt(_one_more(x * x)), singular_off_axis=True, nanoseconds=12.0)
elementwise(np.arccosh, lambda y, x: 1 / (np.sqrt(x - 1) * np.sqrt(_one_more(x))), singular=True, domain=(1.1, 4.0))
elementwise(np.arctanh, lambda y, x: 1 / ((1 - x) * (1 + x)), singular=True, domain=UNIT, nanoseconds=12.0)
elementwise(np.deg2rad, lambda y, x: DEGREE, scalar="math.radians")
elementwise(np.radians, lambda y, x: DEGREE)
elementwise(np.rad2deg, lambda y, x: 1 / DEGREE, scalar="math.degrees")
elementwise(np.degrees, lambda y, x: 1 / DEGREE)

_SINC = [(-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(1, 12)]
"""Maclaurin coefficients of the derivative of sin(t) / t, in t, t**3, ..."""


def _sinc_slope(y, x):
    """By its series near 0, where cos(t) - sin(t) / t cancels; long enough for several more derivatives."""
    near = np.abs(x) < 0.3
    t = np.pi * x
    square, series = t * t, _SINC[-1]
    for coefficient in _SINC[-2::-1]:
        series = series * square + coefficient
    return np.where(near, np.pi * t * series, (np.cos(t) - y) / np.where(near, 1, x))


elementwise(np.sinc, _sinc_slope, singular_off_axis=True, dtype=lambda x: result_dtype(x, float))


# ---- numbers as integers times powers of two

elementwise(np.ldexp, lambda z, x, n: (np.ldexp(scalar(1.0, z.dtype), n), None), integral=True)
elementwise(np.nextafter, lambda z, x, y: (1, None))
