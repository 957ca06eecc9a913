"""C code of elementwise operators, by the dtype that they compute with; NumPy computes all others."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cache, partial, reduce
from typing import Any

import numpy as np

from symgrad.core.graph import Op
from symgrad.lowering.expressions import Apply, Number
from symgrad.ops.parts import COMPLEX, IMAG, REAL
from symgrad.spelling import CHOICE, POWER, UNARY, Code, call, infix, negative
from symgrad.targets.c.names import c_word

NARROW = {name: f"{name}_t" for name in ("int32", "int16", "int8", "uint32", "uint16", "uint8")}
"""Dtypes of integers of fewer than 64 bits: C computes in `int` or more, and results wrap around as NumPy's do."""

C_TYPES = {
    "float64": "double", "float32": "float", "complex128": "double _Complex", "complex64": "float _Complex",
    "int64": "int64_t", "uint64": "uint64_t", **NARROW, "bool": "bool",
}  # fmt: skip
"""The dtypes that C computes with."""

SINGLE = (np.float32, np.complex64)
"""Dtypes in single precision, for which functions have names of their own."""

IN_MEMORY = {**C_TYPES, "bool": "uint8_t"}
"""Their types in arrays: gcc vectorises no choice by a bool that is read from memory."""

_ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_DIVISIONS = {ast.FloorDiv: "sg_whole_quotient", ast.Mod: "sg_whole_remainder"}
_EXTREMES = {"max": "sg_maximum", "min": "sg_minimum"}


@cache
def size_code(text: str) -> Code | None:
    """Return the text of a size as C; None if it is more than integer arithmetic."""
    try:
        return _size(ast.parse(text, mode="eval").body)
    except (_NotInC, ValueError):  # a power that is no number
        return None


class _NotInC(Exception):
    """An expression without a C equivalent."""


def _size(x: ast.expr) -> Code:
    if isinstance(x, ast.Name):
        return Code(c_word(x.id))
    if isinstance(x, ast.Constant) and type(x.value) is int:
        return Code(str(x.value))
    if isinstance(x, ast.UnaryOp) and isinstance(x.op, ast.USub):
        return negative(_size(x.operand))
    if isinstance(x, ast.BinOp) and isinstance(x.op, ast.Pow):
        return reduce(partial(infix, "*"), [_size(x.left)] * int(_size(x.right).text))
    if isinstance(x, ast.BinOp) and type(x.op) in _ARITHMETIC:
        return infix(_ARITHMETIC[type(x.op)], _size(x.left), _size(x.right))
    if isinstance(x, ast.BinOp) and type(x.op) in _DIVISIONS:
        return call(_DIVISIONS[type(x.op)], [_size(x.left).text, _size(x.right).text])
    if isinstance(x, ast.Call) and isinstance(x.func, ast.Name) and x.func.id in _EXTREMES:
        function = _EXTREMES[x.func.id]
        return reduce(lambda a, b: call(function, [a.text, b.text]), map(_size, x.args))
    raise _NotInC


Spelling = Callable[..., Code]
"""From an operator, and its arguments in C, to the whole in C."""


def _called(name: str) -> Spelling:
    return lambda x, *arguments: call(name, [a.text for a in arguments])


def _suffixed(name: str) -> Spelling:
    """Return the spelling of a call of a library function, C's or ours, in double or single precision."""

    def spell(x: Apply, *arguments: Code) -> Code:
        suffix = "f" if x.arguments[0].dtype in SINGLE else ""
        return call(f"{name}{suffix}", [a.text for a in arguments])

    return spell


def _infix(symbol: str) -> Spelling:
    return lambda x, a, b: infix(symbol, a, b)


def bits(symbol: str, a: Code, b: Code) -> Code:
    """Return ``a symbol b`` in parentheses, for operators whose precedence in C few know by heart."""
    return Code(f"{a.at(UNARY)} {symbol} {b.at(UNARY)}", CHOICE)


def _bits(symbol: str) -> Spelling:
    return lambda x, a, b: bits(symbol, a, b)


def _prefix(symbol: str) -> Spelling:
    return lambda x, a: Code(f"{symbol}{a.at(POWER)}", UNARY)


def _same(x: Apply, a: Code) -> Code:
    return a


def _times(number: float) -> Spelling:
    return lambda x, a: infix("*", a, Code(repr(number)))


def _one_over(x: Apply, a: Code) -> Code:
    return infix("/", Code("1"), a)


def _magnitude(symbol: str) -> Spelling:
    """Return the spelling of a comparison of a number's magnitude with infinity."""
    return lambda x, a: infix(symbol, call("fabs", [a.text]), Code("INFINITY"))


def _power(x: Apply, base: Code, exponent: Code) -> Code:
    """Return the spelling of a power, as a product, a quotient or a square root where it is one."""
    y = x.arguments[1]
    found = POWERS.get(y.value) if isinstance(y, Number) else None
    return found(x, base) if found else _suffixed("sg_pow")(x, base, exponent)


def _complex_product(x: Apply, a: Code, b: Code) -> Code:
    """Return the spelling of a product of complex numbers; one with a negative constant is a call, see `sg_ctimes`."""
    constants = [y.value for y in x.arguments if isinstance(y, Number)]
    is_negative = any(np.signbit(part) for c in constants for part in (c.real, c.imag))
    return _suffixed("sg_ctimes")(x, a, b) if is_negative else infix("*", a, b)


def _complex_power(x: Apply, base: Code, exponent: Code) -> Code:
    """Return the spelling of a power of a complex number; as in NumPy, some have functions of their own."""
    y = x.arguments[1]
    name = COMPLEX_POWERS.get(y.value) if isinstance(y, Number) else None
    return _suffixed(name)(x, base) if name else _suffixed("sg_cpow")(x, base, exponent)


COMPLEX_POWERS = {2: "sg_csquare", 3: "sg_ccube", -1: "sg_creciprocal", 0.5: "csqrt"}

POWERS: dict[Any, Spelling] = {
    2: _called("sg_square"), 1: _same, -1: _one_over, 0.5: _called("sqrt"),
    1.5: _called("sg_power_3_2"), -0.5: _called("sg_power_m1_2"), -1.5: _called("sg_power_m3_2"),
}  # fmt: skip


FLOATS: dict[Callable[..., Any], Spelling] = {
    np.add: _infix("+"), np.subtract: _infix("-"), np.multiply: _infix("*"), np.divide: _infix("/"),
    np.negative: _prefix("-"), np.positive: _same, np.reciprocal: _one_over, np.conjugate: _same,
    np.square: _suffixed("sg_square"),
    np.power: _power, np.sqrt: _suffixed("sqrt"), np.cbrt: _suffixed("sg_cbrt"),
    np.absolute: _suffixed("fabs"), np.fabs: _suffixed("fabs"), np.sign: _called("sg_sign"),
    np.exp: _suffixed("sg_exp"), np.expm1: _suffixed("sg_expm1"), np.exp2: _suffixed("sg_exp2"),
    np.log: _suffixed("sg_log"), np.log1p: _suffixed("sg_log1p"),
    np.log2: _suffixed("sg_log2"), np.log10: _suffixed("sg_log10"),
    np.sin: _suffixed("sg_sin"), np.cos: _suffixed("sg_cos"), np.tan: _suffixed("sg_tan"),
    np.arcsin: _suffixed("sg_asin"), np.arccos: _suffixed("sg_acos"), np.arctan: _suffixed("sg_atan"),
    np.arctan2: _suffixed("sg_atan2"), np.hypot: _suffixed("sg_hypot"),
    np.sinh: _suffixed("sg_sinh"), np.cosh: _suffixed("sg_cosh"), np.tanh: _suffixed("sg_tanh"),
    np.arcsinh: _suffixed("asinh"), np.arccosh: _suffixed("acosh"), np.arctanh: _suffixed("atanh"),
    np.logaddexp: _suffixed("sg_logaddexp"),
    np.maximum: _called("sg_maximum"), np.minimum: _called("sg_minimum"),
    np.fmax: _suffixed("fmax"), np.fmin: _suffixed("fmin"),
    np.floor: _suffixed("floor"), np.ceil: _suffixed("ceil"), np.trunc: _suffixed("trunc"), np.rint: _suffixed("rint"),
    np.heaviside: _called("sg_heaviside"), np.float_power: _power, np.nan_to_num: _suffixed("sg_nan_to_num"),
    np.copysign: _suffixed("copysign"), np.fmod: _suffixed("fmod"),
    np.remainder: _suffixed("sg_remainder"), np.floor_divide: _suffixed("sg_floor_divide"),
    np.sinc: _suffixed("sg_sinc"),
    **dict.fromkeys((np.deg2rad, np.radians), _times(np.pi / 180)),
    **dict.fromkeys((np.rad2deg, np.degrees), _times(180 / np.pi)),
    np.isnan: lambda x, a: infix("!=", a, a), np.isinf: _magnitude("=="), np.isfinite: _magnitude("<"),
    np.signbit: lambda x, a: infix("!=", call("signbit", [a.text]), Code("0")),
    COMPLEX.evaluate: _suffixed("sg_complex"),
}  # fmt: skip

OF_SCIPY: dict[str, Spelling] = {
    name: _suffixed(f"sg_{name}")
    for name in ("erf", "erfc", "erfcx", "ndtr", "log_ndtr", "xlogy", "xlog1py", "entr", "gammaln", "psi")
}
"""Functions of `scipy.special` on floats, by their names: nobody who does without it is to import SciPy."""

COMPLEXES: dict[Callable[..., Any], Spelling] = {
    np.add: _infix("+"), np.subtract: _infix("-"), np.multiply: _complex_product,
    np.divide: _suffixed("sg_cquotient"), np.reciprocal: _suffixed("sg_creciprocal"),
    np.negative: _prefix("-"), np.positive: _same, np.conjugate: _suffixed("conj"), np.square: _suffixed("sg_csquare"),
    np.power: _complex_power, np.absolute: _suffixed("sg_cabs"), np.sign: _suffixed("sg_csign"),
    REAL.evaluate: _suffixed("creal"), IMAG.evaluate: _suffixed("cimag"),
    np.exp: _suffixed("sg_cexp"), np.log: _suffixed("clog"), np.sqrt: _suffixed("csqrt"),
    np.log2: _suffixed("sg_clog2"), np.log10: _suffixed("sg_clog10"),
    np.sin: _suffixed("csin"), np.cos: _suffixed("ccos"), np.tan: _suffixed("ctan"),
    np.sinh: _suffixed("csinh"), np.cosh: _suffixed("ccosh"), np.tanh: _suffixed("ctanh"),
    np.arcsin: _suffixed("casin"), np.arccos: _suffixed("cacos"), np.arctan: _suffixed("catan"),
    np.arcsinh: _suffixed("casinh"), np.arccosh: _suffixed("cacosh"), np.arctanh: _suffixed("catanh"),
    np.isnan: lambda x, a: infix("!=", a, a), np.isinf: _called("sg_cisinf"), np.isfinite: _called("sg_cisfinite"),
}  # fmt: skip

WHOLES: dict[Callable[..., Any], Spelling] = {
    np.add: _infix("+"), np.subtract: _infix("-"), np.multiply: _infix("*"),
    np.negative: _prefix("-"), np.positive: _same, np.square: lambda x, a: infix("*", a, a),
    np.absolute: _called("sg_whole_abs"), np.sign: _called("sg_sign"),
    np.maximum: _called("sg_maximum"), np.minimum: _called("sg_minimum"),
    np.remainder: _called("sg_whole_remainder"), np.floor_divide: _called("sg_whole_quotient"),
    np.bitwise_and: _bits("&"), np.bitwise_or: _bits("|"), np.bitwise_xor: _bits("^"), np.invert: _prefix("~"),
    np.left_shift: _called("sg_left_shift"), np.right_shift: _called("sg_right_shift"), np.nan_to_num: _same,
    np.gcd: _called("sg_gcd"),
}  # fmt: skip

UNSIGNED: dict[Callable[..., Any], Spelling] = {
    **{f: spelling for f, spelling in WHOLES.items() if f is not np.gcd}, np.absolute: _same,
    np.remainder: _called("sg_unsigned_remainder"), np.floor_divide: _called("sg_unsigned_quotient"),
    np.left_shift: _called("sg_unsigned_left_shift"), np.right_shift: _called("sg_unsigned_right_shift"),
}  # fmt: skip
"""Operators on uint64; those on fewer unsigned bits are computed as int64."""

TRUTHS: dict[np.ufunc, Spelling] = {
    np.logical_and: _bits("&"), np.logical_or: _bits("|"), np.logical_xor: _bits("^"), np.logical_not: _prefix("!"),
    np.bitwise_and: _bits("&"), np.bitwise_or: _bits("|"), np.bitwise_xor: _bits("^"), np.invert: _prefix("!"),
    np.add: _bits("|"), np.multiply: _bits("&"), np.maximum: _bits("|"), np.minimum: _bits("&"),
}  # fmt: skip

COMPARISONS: dict[np.ufunc, str] = {
    np.less: "<", np.less_equal: "<=", np.greater: ">", np.greater_equal: ">=", np.equal: "==", np.not_equal: "!=",
}  # fmt: skip


ONE_BY_ONE = frozenset((
    np.gcd, np.arcsinh, np.arccosh, np.arctanh, np.fmod, np.remainder, np.floor_divide, np.fmax, np.fmin,
))  # fmt: skip
"""Functions of C's library that compilers call for one number after the other."""

LIMITED = {"f": frozenset(("sin", "cos", "tan", "sinc", "gammaln", "psi")), "c": frozenset(("exp",))}
"""Functions whose formulas do not hold for very large or for negative numbers, by the kind of dtype.

A program that meets such a number begins anew."""

ORDERED = (np.less, np.less_equal, np.greater, np.greater_equal)
"""Comparisons that C does not have for complex numbers."""


def spelling_of(function: Callable[..., Any], dtype: np.dtype) -> Spelling | None:
    """Return the spelling of an elementwise function on operands of a dtype; None if C does not compute it."""
    if dtype.name not in C_TYPES:
        return None
    if function in COMPARISONS:
        return None if dtype.kind == "c" and function in ORDERED else _infix(COMPARISONS[function])
    functions = {"f": FLOATS, "c": COMPLEXES, "i": WHOLES, "u": WHOLES, "b": TRUTHS}[dtype.kind]
    known = (UNSIGNED if dtype == np.uint64 else functions).get(function)
    is_of_scipy = known is None and dtype.kind == "f" and isinstance(function, np.ufunc)
    return OF_SCIPY.get(function.__name__) if is_of_scipy else known


def is_limited(x: Apply) -> bool:
    """Whether the C formula for an operator is valid only for a limited range of numbers."""
    return getattr(x.op.evaluate, "__name__", "") in LIMITED.get(x.arguments[0].dtype.kind, ())


def vectorises(op: Op) -> bool:
    """Whether compilers vectorise an operator."""
    return op.evaluate not in ONE_BY_ONE


def spelled(x: Apply, arguments: Sequence[Code]) -> Code:
    """Return an operator applied to its arguments, in C."""
    found = spelling_of(x.op.evaluate, x.arguments[0].dtype)
    assert found is not None, x.op
    code = found(x, *arguments)
    return Code(f"({NARROW[x.dtype.name]}){code.at(UNARY)}", UNARY) if x.dtype.name in NARROW else code
