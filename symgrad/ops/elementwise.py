"""Elementwise functions: arithmetic, comparison, logic, exponentials, trigonometry, rounding, choice.

Partials are first-year calculus unless a line says otherwise. ``z`` and ``y`` are results, so that a partial can use them.
"""

import numpy as np

from symgrad.ops.define import elementwise, flat, result_dtype

LN2, LN10, DEGREE = float(np.log(2.0)), float(np.log(10.0)), float(np.pi / 180)
POSITIVE, UNIT, ANY = (0.1, 3.0), (-0.9, 0.9), (-2.0, 2.0)

# ---- arithmetic

elementwise(np.add, lambda z, x, y: (1, 1), infix="+", commutes=True)
elementwise(np.subtract, lambda z, x, y: (1, -1), infix="-")
elementwise(np.multiply, lambda z, x, y: (y, x), infix="*", commutes=True)
elementwise(np.true_divide, lambda z, x, y: (1 / y, -z / y), infix="/", singular=True, domain=(ANY, POSITIVE))
elementwise(np.floor_divide, flat, infix="//", domain=(ANY, POSITIVE))
elementwise(np.remainder, lambda z, x, y: (1, -np.floor_divide(x, y)), infix="%", domain=(ANY, POSITIVE))
elementwise(np.fmod, lambda z, x, y: (1, -np.trunc(x / y)), domain=(ANY, POSITIVE))
elementwise(
    np.power,
    lambda z, x, y: (y * np.power(x, np.where(y == 0, 1, y - 1)), z * np.log(np.where(x == 0, 1, x))),
    infix="**",
    singular=True,
    domain=(POSITIVE, ANY),
)
elementwise(np.negative, lambda y, x: -1)
elementwise(np.positive, lambda y, x: 1)
elementwise(np.reciprocal, lambda y, x: -y * y, singular=True, domain=POSITIVE)
elementwise(np.square, lambda y, x: 2 * x)
elementwise(np.sqrt, lambda y, x: 0.5 / y, singular=True, domain=POSITIVE)
elementwise(np.cbrt, lambda y, x: 1 / (3 * y * y), singular=True, domain=POSITIVE)
elementwise(np.absolute, lambda y, x: np.sign(x))
elementwise(np.fabs, lambda y, x: np.sign(x))
elementwise(np.sign, flat)
elementwise(np.heaviside, flat)
elementwise(np.copysign, lambda z, x, y: (np.copysign(1.0, x) * np.copysign(1.0, y), None))
elementwise(np.hypot, lambda z, x, y: (x / z, y / z), singular=True, commutes=True)

# ---- exponentials and logarithms

elementwise(np.exp, lambda y, x: y, singular=True)
elementwise(np.exp2, lambda y, x: LN2 * y, singular=True)
elementwise(np.expm1, lambda y, x: y + 1, singular=True)
elementwise(np.log, lambda y, x: 1 / x, singular=True, domain=POSITIVE)
elementwise(np.log2, lambda y, x: 1 / (LN2 * x), singular=True, domain=POSITIVE)
elementwise(np.log10, lambda y, x: 1 / (LN10 * x), singular=True, domain=POSITIVE)
elementwise(np.log1p, lambda y, x: 1 / (1 + x), singular=True, domain=(-0.9, 3))
elementwise(np.logaddexp, lambda z, x, y: (np.exp(x - z), np.exp(y - z)), commutes=True)
elementwise(np.logaddexp2, lambda z, x, y: (np.exp2(x - z), np.exp2(y - z)), commutes=True)

# ---- trigonometric and hyperbolic

elementwise(np.sin, lambda y, x: np.cos(x))
elementwise(np.cos, lambda y, x: -np.sin(x))
elementwise(np.tan, lambda y, x: 1 + y * y, singular=True, domain=(-1.2, 1.2))
elementwise(np.arcsin, lambda y, x: 1 / np.sqrt(1 - x * x), singular=True, domain=UNIT)
elementwise(np.arccos, lambda y, x: -1 / np.sqrt(1 - x * x), singular=True, domain=UNIT)
elementwise(np.arctan, lambda y, x: 1 / (1 + x * x))
elementwise(
    np.arctan2, lambda z, y, x: (x / (x * x + y * y), -y / (x * x + y * y)), singular=True, domain=(POSITIVE, POSITIVE)
)
elementwise(np.sinh, lambda y, x: np.cosh(x), singular=True)
elementwise(np.cosh, lambda y, x: np.sinh(x), singular=True)
elementwise(np.tanh, lambda y, x: 1 - y * y)
elementwise(np.arcsinh, lambda y, x: 1 / np.sqrt(x * x + 1))
elementwise(np.arccosh, lambda y, x: 1 / np.sqrt(x * x - 1), singular=True, domain=(1.1, 4.0))
elementwise(np.arctanh, lambda y, x: 1 / (1 - x * x), singular=True, domain=UNIT)
elementwise(np.deg2rad, lambda y, x: DEGREE)
elementwise(np.radians, lambda y, x: DEGREE)
elementwise(np.rad2deg, lambda y, x: 1 / DEGREE)
elementwise(np.degrees, lambda y, x: 1 / DEGREE)

# ---- choice: ties share equally, and a mask in the partial stops what comes from the branch not taken


def _takes(x, y, chosen):
    """1 where this one is chosen, a half at a tie, nothing elsewhere."""
    return np.where(chosen, np.where(x == y, 0.5, 1.0), 0)


elementwise(np.maximum, lambda z, x, y: (_takes(x, y, x >= y), _takes(x, y, y >= x)), commutes=True)
elementwise(np.minimum, lambda z, x, y: (_takes(x, y, x <= y), _takes(x, y, y <= x)), commutes=True)
elementwise(np.fmax, lambda z, x, y: (_takes(x, y, (x >= y) | np.isnan(y)), _takes(x, y, (y >= x) | np.isnan(x))))
elementwise(np.fmin, lambda z, x, y: (_takes(x, y, (x <= y) | np.isnan(y)), _takes(x, y, (y <= x) | np.isnan(x))))

WHERE = elementwise(
    np.where,
    lambda z, condition, x, y: (None, np.where(condition, 1.0, 0), np.where(condition, 0, 1.0)),
    dtype=lambda condition, x, y: result_dtype(x, y),
)

# ---- comparison, logic, bits

for ufunc, symbol in (
    (np.less, "<"), (np.less_equal, "<="), (np.greater, ">"), (np.greater_equal, ">="), (np.equal, "=="), (np.not_equal, "!="),
    (np.bitwise_and, "&"), (np.bitwise_or, "|"), (np.bitwise_xor, "^"), (np.left_shift, "<<"), (np.right_shift, ">>"),
):  # fmt: skip
    elementwise(ufunc, flat, infix=symbol, commutes=symbol in ("==", "!=", "&", "|", "^"))
for ufunc in (
    np.logical_and, np.logical_or, np.logical_xor, np.logical_not, np.invert, np.isnan, np.isfinite, np.isinf, np.signbit,
    np.floor, np.ceil, np.trunc, np.rint, np.gcd, np.lcm, np.bitwise_count,
):  # fmt: skip
    elementwise(ufunc, flat)
