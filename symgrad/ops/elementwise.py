"""Elementwise functions: arithmetic, comparison, logic, exponentials, trigonometry, rounding, choice.

Partials are first-year calculus unless a line says otherwise. The first argument of a partial is the result.
"""

import math

import numpy as np

from symgrad.core.axes import aligned
from symgrad.core.graph import CONSTANT, INPUT, Aval, is_view
from symgrad.core.shapes import broadcast_shapes, same_shape
from symgrad.core.sizes import same
from symgrad.errors import ArgumentError, ShapeError, UnsupportedError
from symgrad.ops.define import (
    TABLE,
    _kind,
    as_input,
    elementwise,
    flat,
    implements,
    is_small,
    is_traced,
    operator,
    refuse,
    result_dtype,
    strong,
    ufunc_dtypes,
)
from symgrad.ops.marks import STOP
from symgrad.spelling import ATOM, CHOICE, COMPARE, PRODUCT, UNARY, Code, call as spelled, infix

LN2, LN10, DEGREE = float(np.log(2.0)), float(np.log(10.0)), float(np.pi / 180)
POSITIVE, UNIT, REAL = (0.1, 3.0), (-0.9, 0.9), (-2.0, 2.0)
_UNSET = np._NoValue


def known_number(x):
    """The Python number that an operand is known to be before running, or None."""
    node = getattr(x, "node", None)
    if node is not None:
        x = node.constant
    if isinstance(x, (np.ndarray, np.generic)):
        x = x.item() if x.ndim == 0 else None
    return x if type(x) in (int, float) else None


def _no_positional(function, out):
    """``out=`` by keyword is delivered before a function is called."""
    if out is not None:
        refuse(function, "out")


def scalar(number, dtype):
    """A number for np.where and np.ldexp, which take Python's as float64 where nothing else has a dtype."""
    return number if dtype == np.float64 else dtype.type(number)


# ---- arithmetic


def _scalar_power(node, x, y):
    """Of a negative base Python's ** would be complex where the exponent is no integer; math.pow raises."""
    n = node.inputs[1].constant
    if n is None or not math.isfinite(n) or n != int(n):
        return spelled("math.pow", [x.text, y.text])
    return infix("**", x, Code(str(int(n)), ATOM if n >= 0 else UNARY))


def _power_partials(z, x, y):
    return _power_by_base(x, y), _power_by_exponent(z, x, y)


def _power_by_base(x, y):
    n = known_number(y)
    if n is not None:
        return None if n == 0 else 1 if n == 1 else 2 * x if n == 2 else n * x ** (n - 1)
    if y.dtype.kind == "f" and is_traced(y) and y.node.op is not CONSTANT:
        return y * np.power(np.where((x == 0) & (y == 0), 1, x), y - 1)  # y moves: its exponent must stay y - 1
    return y * np.power(x, np.where(y == 0, 1, y - 1))


def _power_by_exponent(z, x, y):
    """At x = 0 zero, as in JAX: the limit of 0**y log 0 for y > 0."""
    base = known_number(x)
    if base is not None and base > 0:
        return z * math.log(base)
    return z * np.log(np.where(x == 0, 1, x))


def _spell_absolute(node, x):
    text = f"np.abs({x.text})"
    return Code(f"{text}.item()" if node.aval.weak else text)


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
    singular=True,
    domain=(REAL, POSITIVE),
    interval=lambda x, y: x / y,
    nanoseconds=0.5,
    elided=True,
)
elementwise(np.floor_divide, flat, infix="//", domain=(REAL, POSITIVE), elided=True)
elementwise(
    np.remainder, lambda z, x, y: (1, -(x // y)), infix="%", singular=True, domain=(REAL, POSITIVE), elided=True
)
# x / y may round up to an integer that fmod, which is exact, has not reached
elementwise(
    np.fmod, lambda z, x, y: (1, -np.rint((x - z) / y)), singular=True, domain=(REAL, POSITIVE), scalar="math.fmod"
)
POWER = elementwise(
    np.power,
    _power_partials,
    infix="**",
    singular=True,
    domain=(POSITIVE, REAL),
    scalar=_scalar_power,
    nanoseconds=8.0,
    integral=True,
)
elementwise(np.float_power, _power_partials, singular=True, domain=(POSITIVE, REAL), scalar="math.pow")
NEGATIVE = elementwise(np.negative, lambda y, x: -1, prefix="-", interval=lambda x: -x, cheap=True, elided=True)
elementwise(np.positive, lambda y, x: 1, prefix="+")
elementwise(np.conjugate, lambda y, x: 1)
elementwise(
    np.reciprocal,
    lambda y, x: -y * y,
    singular=True,
    domain=POSITIVE,
    scalar=lambda node, x: Code(f"1.0 / {x.at(UNARY)}", PRODUCT),
)
elementwise(np.square, lambda y, x: 2 * x, scalar="a * a")
SQRT = elementwise(np.sqrt, lambda y, x: 0.5 / y, singular=True, domain=POSITIVE, scalar="math.sqrt", nanoseconds=0.6)
elementwise(np.cbrt, lambda y, x: 1 / (3 * y * y), singular=True, domain=POSITIVE, scalar="math.cbrt")
ABSOLUTE = elementwise(
    np.absolute, lambda y, x: np.sign(x), keeps_weak=True, spell=_spell_absolute, scalar="abs", interval=abs, cheap=True
)
elementwise(np.fabs, lambda y, x: np.sign(x), scalar="math.fabs")
# its loop branches: in place it takes five times as long where signs are mixed
elementwise(np.sign, flat, scalar="1.0 if a > 0 else -1.0 if a < 0 else a + 0.0", interval=(-1, 1), slow_in_place=True)
elementwise(
    np.heaviside,
    lambda z, x, h: (None, np.where(x == 0, 1.0, 0)),
    scalar="1.0 if a > 0 else 0.0 if a < 0 else b if a == 0 else a",
    nanoseconds=2.0,
)
elementwise(np.copysign, lambda z, x, y: (np.sign(x) * np.copysign(1.0, y), None), scalar="math.copysign")


def _hypot_partials(z, x, y):
    """Zero at the origin, as the derivative of the absolute value is."""
    length = np.where(z == 0, 1, z)
    return x / length, y / length


elementwise(np.hypot, _hypot_partials, commutes=True, scalar="math.hypot", nanoseconds=5.0)

# ---- exponentials and logarithms

EXP = elementwise(np.exp, lambda y, x: y, singular=True, scalar="math.exp", interval=lambda x: x.exp(), nanoseconds=0.8)
elementwise(np.exp2, lambda y, x: LN2 * y, singular=True, scalar="math.exp2")
elementwise(np.expm1, lambda y, x: np.exp(x), singular=True, scalar="math.expm1", nanoseconds=2.0)
LOG = elementwise(np.log, lambda y, x: 1 / x, singular=True, domain=POSITIVE, scalar="math.log", nanoseconds=1.2)
elementwise(np.log2, lambda y, x: 1 / (LN2 * x), singular=True, domain=POSITIVE, scalar="math.log2")
elementwise(np.log10, lambda y, x: 1 / (LN10 * x), singular=True, domain=POSITIVE, scalar="math.log10")
elementwise(np.log1p, lambda y, x: 1 / (1 + x), singular=True, domain=(-0.9, 3), scalar="math.log1p", nanoseconds=1.5)
LOGADDEXP = elementwise(np.logaddexp, lambda z, x, y: (np.exp(x - z), np.exp(y - z)), commutes=True, nanoseconds=18.0)
elementwise(np.logaddexp2, lambda z, x, y: (np.exp2(x - z), np.exp2(y - z)), commutes=True)

# ---- trigonometric and hyperbolic

elementwise(np.sin, lambda y, x: np.cos(x), scalar="math.sin", interval=(-1, 1), nanoseconds=8.0)
elementwise(np.cos, lambda y, x: -np.sin(x), scalar="math.cos", interval=(-1, 1), nanoseconds=8.0)
elementwise(np.tan, lambda y, x: 1 + y * y, singular=True, domain=(-1.2, 1.2), scalar="math.tan", nanoseconds=10.0)
elementwise(
    np.arcsin,
    lambda y, x: 1 / np.sqrt((1 - x) * (1 + x)),
    singular=True,
    domain=UNIT,
    scalar="math.asin",
    nanoseconds=5.0,
)
elementwise(
    np.arccos,
    lambda y, x: -1 / np.sqrt((1 - x) * (1 + x)),
    singular=True,
    domain=UNIT,
    scalar="math.acos",
    nanoseconds=5.0,
)
elementwise(np.arctan, lambda y, x: 1 / (1 + x * x), scalar="math.atan", nanoseconds=5.0)


def _arctan2_partials(z, y, x):
    """Squares would overflow, or vanish, where the partials are ordinary numbers."""
    length = np.hypot(x, y)
    return x / length / length, -y / length / length


elementwise(
    np.arctan2, _arctan2_partials, singular=True, domain=(POSITIVE, POSITIVE), scalar="math.atan2", nanoseconds=15.0
)
elementwise(np.sinh, lambda y, x: np.cosh(x), singular=True, scalar="math.sinh", nanoseconds=8.0)
elementwise(np.cosh, lambda y, x: np.sinh(x), singular=True, scalar="math.cosh", nanoseconds=8.0)
elementwise(np.tanh, lambda y, x: 1 - y * y, scalar="math.tanh", interval=(-1, 1), nanoseconds=1.7)
elementwise(np.arcsinh, lambda y, x: 1 / np.sqrt(x * x + 1), scalar="math.asinh")
elementwise(
    np.arccosh,
    lambda y, x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)),
    singular=True,
    domain=(1.1, 4.0),
    scalar="math.acosh",
)
elementwise(np.arctanh, lambda y, x: 1 / ((1 - x) * (1 + x)), singular=True, domain=UNIT, scalar="math.atanh")
elementwise(np.deg2rad, lambda y, x: DEGREE, scalar="math.radians")
elementwise(np.radians, lambda y, x: DEGREE, scalar="math.radians")
elementwise(np.rad2deg, lambda y, x: 1 / DEGREE, scalar="math.degrees")
elementwise(np.degrees, lambda y, x: 1 / DEGREE, scalar="math.degrees")

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


elementwise(np.sinc, _sinc_slope, dtype=lambda x: result_dtype(x, float))

# ---- choice: ties share equally, and a mask in the partial stops what comes from the branch not taken


def _takes(z, x, y, chosen):
    """1 where x is chosen, a half at a tie with y, nothing elsewhere."""
    return np.where(chosen, np.where(x == y, scalar(0.5, z.dtype), 1.0), 0)


MAXIMUM = elementwise(
    np.maximum,
    lambda z, x, y: (_takes(z, x, y, x >= y), _takes(z, y, x, y >= x)),
    commutes=True,
    scalar="a if a > b or a != a else b",
    interval=lambda x, y: x.maximum(y),
    nanoseconds=0.5,
    cheap=True,
)
MINIMUM = elementwise(
    np.minimum,
    lambda z, x, y: (_takes(z, x, y, x <= y), _takes(z, y, x, y <= x)),
    commutes=True,
    scalar="a if a < b or a != a else b",
    interval=lambda x, y: x.minimum(y),
    nanoseconds=0.5,
    cheap=True,
)
elementwise(np.fmax, lambda z, x, y: (_takes(z, x, y, (x >= y) | np.isnan(y)), _takes(z, y, x, (y >= x) | np.isnan(x))))
elementwise(np.fmin, lambda z, x, y: (_takes(z, x, y, (x <= y) | np.isnan(y)), _takes(z, y, x, (y <= x) | np.isnan(x))))


def _clip_partials(z, x, low, high):
    """Those of np.minimum(np.maximum(x, low), high)."""
    half = scalar(0.5, z.dtype)
    raised = np.maximum(x, low)
    below = np.where(x == low, half, 1.0) * np.where(raised == high, half, 1.0)
    return (
        np.where((low <= x) & (x <= high), np.where((x == low) | (x == high), half, 1.0), 0),
        np.where((x <= low) & (low <= high), below, 0),
        _takes(z, high, raised, high <= raised),
    )


def _clip_in_two(node, x, low, high):
    """Two calls of ufuncs take half of the time of one of np.clip, which is Python."""
    dtype = node.aval.dtype
    if dtype.kind != "f" or not is_small(node) or any(a.aval.dtype != dtype and not a.aval.weak for a in node.inputs):
        return None
    return spelled("np.minimum", [f"np.maximum({x.text}, {low.text})", high.text])


CLIP = elementwise(
    np.clip,
    _clip_partials,
    dtype=result_dtype,
    quick=_clip_in_two,
    scalar="d if (d := a if a > b or a != a else b) < c or d != d else c",
    interval=lambda x, low, high: x.maximum(low).minimum(high),
    nanoseconds=0.4,
    out=True,
)


@implements(np.clip)
def clip(a, a_min=_UNSET, a_max=_UNSET, out=None, *, min=_UNSET, max=_UNSET, **unknown):
    for argument in unknown:
        refuse("clip", argument)
    _no_positional("clip", out)
    low, high = (None if x is _UNSET else x for x in (a_min, a_max))
    if (min is not _UNSET or max is not _UNSET) and (a_min is not _UNSET or a_max is not _UNSET):
        raise ArgumentError("np.clip: min= or max= together with a_min or a_max", "Write np.clip(x, low, high).")
    low, high = low if min is _UNSET else min, high if max is _UNSET else max
    a = strong(a)
    if low is None:
        return np.positive(a) if high is None else np.minimum(a, high)
    return np.maximum(a, low) if high is None else CLIP(a, low, high)


def _where_in_bits(node, condition, x, y):
    """``np.where(c, x, 0)`` as a product of bits: NumPy's loop waits at each number where c has no pattern.

    No infinity or NaN comes through, which a product of floats would let. 1850 us to 130 for 524288 of float32.
    """
    c, *sides = node.inputs
    if is_small(node) or c.aval.dtype != bool or not c.aval.shape:
        return None
    if _is_zero(sides[1]):
        value, code, mask = sides[0], x, condition
    elif _is_zero(sides[0]):
        value, code, mask = sides[1], y, Code(f"~{condition.at(UNARY)}", UNARY)
    else:
        return None
    dtype = node.aval.dtype
    if dtype not in (np.float32, np.float64) or value.aval.dtype != dtype or not value.aval.shape or _given(value):
        return None
    bits = f"{code.at(ATOM)}.view(np.uint{8 * dtype.itemsize})"
    return Code(f"({bits} * {mask.at(UNARY)}).view(np.{dtype.name})")


def _is_zero(node):
    """Whether a value is known to be zero, and has no sign."""
    return not node.aval.shape and bool(node.constant == 0) and not np.signbit(node.constant)


def _given(node):
    """Whether a value is in the caller's memory, whose bytes may be in another order."""
    while is_view(node):
        node = node.inputs[0]
    return node.op is INPUT


WHERE = elementwise(
    np.where,
    lambda z, condition, x, y: (None, np.where(condition, 1.0, 0), np.where(condition, 0, 1.0)),
    dtype=lambda condition, x, y: result_dtype(x, y),
    quick=_where_in_bits,
    scalar=lambda node, condition, x, y: Code(
        f"{x.at(COMPARE)} if {condition.at(COMPARE)} else {y.at(COMPARE)}", CHOICE
    ),
    nanoseconds=1.0,
)


@implements(np.where)
def where(condition, x=_UNSET, y=_UNSET, /):
    if x is _UNSET or y is _UNSET:
        raise UnsupportedError(
            "np.where(condition): the size of the result depends on values",
            "Write np.where(condition, x, y), or np.sum(x, where=condition).",
        )
    condition = bool(condition) if type(condition) in (int, float) else as_input(condition)
    if type(condition) is not bool and condition.dtype != bool:
        condition = condition != 0
    return WHERE(condition, x, y)


@implements(np.select)
def select(condlist, choicelist, default=0):
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ArgumentError(
            f"np.select: {len(condlist)} conditions for {len(choicelist)} choices",
            "Give one choice for each condition.",
        )
    choices, default = [as_input(x) for x in choicelist], as_input(default)
    dtype = np.result_type(*choices, default)
    result = np.astype(default, dtype) if is_traced(default) else np.asarray(default, dtype)[()]
    for condition, choice in zip(condlist[::-1], choices[::-1], strict=True):
        result = np.where(condition, choice, result)
    return result


NAN_TO_NUM = elementwise(np.nan_to_num, lambda y, x: np.where(np.isfinite(x), 1.0, 0), dtype=lambda x: result_dtype(x))


@implements(np.nan_to_num)
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    y = _numbers_for_nans(x, nan, posinf, neginf)
    if copy or not x.writes_in_place:
        return y
    x[...] = y
    return x


def _numbers_for_nans(x, nan, posinf, neginf):
    if posinf is None and neginf is None and known_number(nan) == 0.0:
        return NAN_TO_NUM(x)
    x = as_input(x)
    if x.dtype.kind != "f":
        return np.copy(x)
    most, least = (float(limit) for limit in (np.finfo(x.dtype).max, np.finfo(x.dtype).min))
    x = np.where(np.isnan(x), np.astype(nan, x.dtype) if is_traced(nan) else nan, x)
    x = np.where(x == np.inf, most if posinf is None else posinf, x)
    return np.where(x == -np.inf, least if neginf is None else neginf, x)


# ---- comparison, logic, bits, steps: constant piece by piece


def _scalar_not(node, x):
    """~True is -2."""
    return Code(f"not {x.at(COMPARE)}", CHOICE)


for ufunc, symbol in (
    (np.less, "<"), (np.less_equal, "<="), (np.greater, ">"), (np.greater_equal, ">="), (np.equal, "=="),
    (np.not_equal, "!="), (np.bitwise_and, "&"), (np.bitwise_or, "|"), (np.bitwise_xor, "^"), (np.left_shift, "<<"),
    (np.right_shift, ">>"),
):  # fmt: skip
    elementwise(ufunc, flat, infix=symbol, commutes=symbol in ("==", "!=", "&", "|", "^"))
for ufunc, scalar_form in (
    (np.logical_and, "bool(a and b)"), (np.logical_or, "bool(a or b)"), (np.logical_xor, "bool(a) != bool(b)"),
    (np.logical_not, _scalar_not), (np.signbit, "math.copysign(1.0, a) < 0"),
    (np.isnan, "math.isnan"), (np.isfinite, "math.isfinite"), (np.isinf, "math.isinf"),
    (np.floor, "math.copysign(math.floor(a), a)"), (np.ceil, "math.copysign(math.ceil(a), a)"),
    (np.trunc, "math.copysign(math.trunc(a), a)"), (np.rint, "math.copysign(round(a), a)"),
    (np.gcd, None), (np.lcm, None), (np.bitwise_count, None), (np.spacing, None),
):  # fmt: skip
    elementwise(ufunc, flat, scalar=scalar_form)

ROUND = operator(
    np.round,
    infer=lambda x, decimals=0: Aval(x.shape, np.dtype(np.float16) if x.dtype == bool else x.dtype),
    vjp=lambda g, y, x, decimals: (None,),
    flow=aligned,
)


@implements(np.round, np.around)
def round_(a, decimals=0, out=None):
    _no_positional("round", out)
    return ROUND(a, decimals=decimals)


@implements(np.fix)
def fix(x, out=None):
    _no_positional("fix", out)
    return np.trunc(x)


@implements(np.isposinf)
def isposinf(x, out=None):
    _no_positional("isposinf", out)
    return as_input(x) == np.inf


@implements(np.isneginf)
def isneginf(x, out=None):
    _no_positional("isneginf", out)
    return as_input(x) == -np.inf


@implements(np.isclose)
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    a, b = as_input(a), as_input(b)
    close = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b) | (a == b)
    return close | (np.isnan(a) & np.isnan(b)) if equal_nan else close


@implements(np.allclose)
def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return np.all(np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan))


@implements(np.array_equal)
def array_equal(a1, a2, equal_nan=False):
    a, b = as_input(a1), as_input(a2)
    shapes = np.shape(a), np.shape(b)
    if not same_shape(*shapes):
        if len(shapes[0]) == len(shapes[1]) and not all(_comparable(m, n) for m, n in zip(*shapes, strict=True)):
            raise UnsupportedError(
                f"np.array_equal: whether the shapes {shapes[0]} and {shapes[1]} are equal is open",
                "Compile from arrays, or write the same letter for equal sizes.",
            )
        return False
    equal = a == b
    return np.all(equal | (np.isnan(a) & np.isnan(b)) if equal_nan else equal)


@implements(np.array_equiv)
def array_equiv(a1, a2):
    try:
        equal = as_input(a1) == as_input(a2)
    except ShapeError:
        return False
    return np.all(equal)


def _comparable(m, n):
    return same(m, n) or (isinstance(m, int) and isinstance(n, int))


# ---- numbers as integers times powers of two

elementwise(np.ldexp, lambda z, x, n: (np.ldexp(scalar(1.0, z.dtype), n), None), integral=True)
elementwise(np.nextafter, lambda z, x, y: (1, None))

# ---- real and imaginary parts of reals


def _refuse_complex(function, x):
    if x.dtype.kind == "c":
        raise UnsupportedError(
            f"np.{function} of complex numbers is not supported", "Write it in terms of real and imaginary parts."
        )
    return x


implements(np.real)(lambda val: _refuse_complex("real", val))
implements(np.imag)(lambda val: np.zeros_like(_refuse_complex("imag", val)))
implements(np.isreal)(lambda x: np.ones_like(_refuse_complex("isreal", x), dtype=bool))
implements(np.iscomplex)(lambda x: np.zeros_like(_refuse_complex("iscomplex", x), dtype=bool))


@implements(np.angle)
def angle(z, deg=False):
    """That of a real number is 0 or pi, and has no slope."""
    z = as_input(z)
    if z.dtype.kind == "c":
        raise UnsupportedError(f"np.angle of {z.dtype} is not supported", "Write np.arctan2(imaginary, real).")
    y = np.arctan2(0.0, STOP(z))
    return y * (180 / np.pi) if deg else y


@implements(np.real_if_close)
def real_if_close(a, tol=100):
    if as_input(a).dtype.kind == "c":
        raise UnsupportedError(
            "np.real_if_close of complex numbers: values decide the dtype of the result",
            "Write x.real where the imaginary part is none.",
        )
    return np.asarray(a, like=a)


# ---- several results


def _several(ufunc, xs):
    shape = broadcast_shapes(*[x.shape for x in xs])
    return tuple(Aval(shape, dtype) for dtype in ufunc_dtypes(ufunc, tuple(map(_kind, xs))))


DIVMOD = operator(
    np.divmod,
    arrays=2,
    infer=lambda x, y: _several(np.divmod, (x, y)),
    vjp=lambda g, results, x, y: (g[1], -g[1] * results[0]),
    flow=aligned,
    singular=True,
)
MODF = operator(
    np.modf,
    infer=lambda x: _several(np.modf, (x,)),
    vjp=lambda g, results, x: (g[0],),
    flow=aligned,
)
FREXP = operator(
    np.frexp,
    infer=lambda x: _several(np.frexp, (x,)),
    vjp=lambda g, results, x: (np.ldexp(g[0], -results[1]),),
    flow=aligned,
)

# ---- ufunc.outer


def _outer(call, name):
    def outer(a, b, /, **unknown):
        for argument in unknown:
            refuse(f"{name}.outer", argument)
        a, b = (strong(as_input(x)) for x in (a, b))
        return call(a[(..., *[None] * np.ndim(b))] if np.ndim(a) and np.ndim(b) else a, b)

    return outer


for ufunc, call in list(TABLE.items()):
    if isinstance(ufunc, np.ufunc) and ufunc.nin == 2:
        implements(ufunc.outer)(_outer(call, ufunc.__name__))
elementwise(np.invert, flat, prefix="~", scalar=_scalar_not)
