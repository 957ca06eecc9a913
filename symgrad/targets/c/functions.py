"""Spellings of elementwise operators in C, by the dtype that they compute with; NumPy computes all others."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np

from symgrad.core.graph import Op
from symgrad.lowering.expressions import Apply, Number
from symgrad.targets.c.names import c_word

C_TYPES = {"float64": "double", "float32": "float", "int64": "int64_t", "bool": "bool"}
"""The dtypes that C computes with."""

IN_MEMORY = {**C_TYPES, "bool": "uint8_t"}
"""Their types in arrays: gcc vectorises no choice by a bool that is read from memory."""

_ARITHMETIC = {ast.Add: "({} + {})", ast.Sub: "({} - {})", ast.Mult: "({} * {})"}
_DIVISIONS = {ast.FloorDiv: "sg_whole_quotient({}, {})", ast.Mod: "sg_whole_remainder({}, {})"}
_EXTREMES = {"max": "sg_maximum({}, {})", "min": "sg_minimum({}, {})"}


@cache
def size_text(text: str) -> str:
    """Return a size, which is written in Python, as C; "" where it is more than arithmetic of integers."""
    try:
        return _size(ast.parse(text, mode="eval").body)
    except (_NotInC, ValueError):  # a power that is no number
        return ""


class _NotInC(Exception):
    """An expression that C has nothing for."""


def _size(x: ast.expr) -> str:
    if isinstance(x, ast.Name):
        return c_word(x.id)
    if isinstance(x, ast.Constant) and type(x.value) is int:
        return str(x.value)
    if isinstance(x, ast.UnaryOp) and isinstance(x.op, ast.USub):
        return f"(-{_size(x.operand)})"
    if isinstance(x, ast.BinOp) and isinstance(x.op, ast.Pow):
        return f"({' * '.join([_size(x.left)] * int(_size(x.right)))})"
    if isinstance(x, ast.BinOp) and type(x.op) in _ARITHMETIC | _DIVISIONS:
        return (_ARITHMETIC | _DIVISIONS)[type(x.op)].format(_size(x.left), _size(x.right))
    if isinstance(x, ast.Call) and isinstance(x.func, ast.Name) and x.func.id in _EXTREMES:
        form = _EXTREMES[x.func.id]
        return reduce(lambda a, b: form.format(a, b), map(_size, x.args))
    raise _NotInC


Template = str | Callable[[Apply, Sequence[str]], str]


def _suffixed(name: str) -> Callable[[Apply, Sequence[str]], str]:
    """Return the spelling of a call of C's library, or of our own, in double or single precision."""

    def spell(x: Apply, arguments: Sequence[str]) -> str:
        suffix = "f" if x.arguments[0].dtype == np.float32 else ""
        return f"{name}{suffix}({', '.join(arguments)})"

    return spell


def _infix(symbol: str) -> str:
    return f"({{0}} {symbol} {{1}})"


def _power(x: Apply, arguments: Sequence[str]) -> str:
    """Return the spelling of a power: squares, reciprocals and what square roots give are computed as such."""
    exponent = x.arguments[1]
    if isinstance(exponent, Number) and exponent.value in POWERS:
        return POWERS[exponent.value].format(arguments[0])
    return _suffixed("sg_pow")(x, arguments)


POWERS = {
    2: "sg_square({0})", 1: "{0}", -1: "(1 / {0})", 0.5: "sqrt({0})",
    1.5: "sg_power_3_2({0})", -0.5: "sg_power_m1_2({0})", -1.5: "sg_power_m3_2({0})",
}  # fmt: skip


FLOATS: dict[Callable[..., Any], Template] = {
    np.add: _infix("+"), np.subtract: _infix("-"), np.multiply: _infix("*"), np.divide: _infix("/"),
    np.negative: "(-{0})", np.positive: "{0}", np.reciprocal: "(1 / {0})", np.conjugate: "{0}",
    np.square: _suffixed("sg_square"),
    np.power: _power, np.sqrt: _suffixed("sqrt"), np.cbrt: _suffixed("sg_cbrt"),
    np.absolute: _suffixed("fabs"), np.fabs: _suffixed("fabs"), np.sign: "sg_sign({0})",
    np.exp: _suffixed("sg_exp"), np.expm1: _suffixed("sg_expm1"), np.exp2: _suffixed("sg_exp2"),
    np.log: _suffixed("sg_log"), np.log1p: _suffixed("sg_log1p"),
    np.log2: _suffixed("sg_log2"), np.log10: _suffixed("sg_log10"),
    np.sin: _suffixed("sg_sin"), np.cos: _suffixed("sg_cos"), np.tan: _suffixed("sg_tan"),
    np.arcsin: _suffixed("sg_asin"), np.arccos: _suffixed("sg_acos"), np.arctan: _suffixed("sg_atan"),
    np.arctan2: _suffixed("sg_atan2"), np.hypot: _suffixed("sg_hypot"),
    np.sinh: _suffixed("sg_sinh"), np.cosh: _suffixed("sg_cosh"), np.tanh: _suffixed("sg_tanh"),
    np.arcsinh: _suffixed("asinh"), np.arccosh: _suffixed("acosh"), np.arctanh: _suffixed("atanh"),
    np.logaddexp: _suffixed("sg_logaddexp"),
    np.maximum: "sg_maximum({0}, {1})", np.minimum: "sg_minimum({0}, {1})",
    np.fmax: _suffixed("fmax"), np.fmin: _suffixed("fmin"),
    np.floor: _suffixed("floor"), np.ceil: _suffixed("ceil"), np.trunc: _suffixed("trunc"), np.rint: _suffixed("rint"),
    np.heaviside: "sg_heaviside({0}, {1})", np.float_power: _power, np.nan_to_num: _suffixed("sg_nan_to_num"),
    np.copysign: _suffixed("copysign"), np.fmod: _suffixed("fmod"),
    np.remainder: _suffixed("sg_remainder"), np.floor_divide: _suffixed("sg_floor_divide"),
    np.sinc: _suffixed("sg_sinc"),
    **dict.fromkeys((np.deg2rad, np.radians), f"({{0}} * {np.pi / 180})"),
    **dict.fromkeys((np.rad2deg, np.degrees), f"({{0}} * {180 / np.pi})"),
    np.isnan: "({0} != {0})", np.isinf: "(fabs({0}) == INFINITY)", np.isfinite: "(fabs({0}) < INFINITY)",
}  # fmt: skip

OF_SCIPY: dict[str, Template] = {
    name: _suffixed(f"sg_{name}")
    for name in ("erf", "erfc", "erfcx", "ndtr", "log_ndtr", "xlogy", "xlog1py", "entr", "gammaln", "psi")
}
"""Functions of `scipy.special` on floats, by their names: nobody who does without it is to import SciPy."""

WHOLES: dict[Callable[..., Any], Template] = {
    np.add: _infix("+"), np.subtract: _infix("-"), np.multiply: _infix("*"), np.negative: "(-{0})", np.positive: "{0}",
    np.square: "({0} * {0})", np.absolute: "sg_whole_abs({0})", np.sign: "sg_sign({0})",
    np.maximum: "sg_maximum({0}, {1})", np.minimum: "sg_minimum({0}, {1})",
    np.remainder: "sg_whole_remainder({0}, {1})", np.floor_divide: "sg_whole_quotient({0}, {1})",
    np.bitwise_and: _infix("&"), np.bitwise_or: _infix("|"), np.bitwise_xor: _infix("^"), np.invert: "(~{0})",
    np.left_shift: "sg_left_shift({0}, {1})", np.right_shift: "sg_right_shift({0}, {1})", np.nan_to_num: "{0}",
}  # fmt: skip

TRUTHS: dict[np.ufunc, Template] = {
    np.logical_and: _infix("&"), np.logical_or: _infix("|"), np.logical_xor: _infix("^"), np.logical_not: "(!{0})",
    np.bitwise_and: _infix("&"), np.bitwise_or: _infix("|"), np.bitwise_xor: _infix("^"), np.invert: "(!{0})",
    np.add: _infix("|"), np.multiply: _infix("&"), np.maximum: _infix("|"), np.minimum: _infix("&"),
}  # fmt: skip

COMPARISONS: dict[np.ufunc, str] = {
    np.less: "<", np.less_equal: "<=", np.greater: ">", np.greater_equal: ">=", np.equal: "==", np.not_equal: "!=",
}  # fmt: skip


ONE_BY_ONE = frozenset((
    np.arcsinh, np.arccosh, np.arctanh, np.fmod, np.remainder, np.floor_divide, np.fmax, np.fmin,
))  # fmt: skip
"""Functions of C's library that compilers call for one number after the other."""

LIMITED = frozenset(("sin", "cos", "tan", "sinc", "gammaln", "psi"))
"""Functions whose formulas do not hold for very large or for negative numbers: a program that meets one begins anew."""


def template(function: Callable[..., Any], dtype: np.dtype) -> Template | None:
    """Return how an elementwise function reads on operands of a dtype, None where C does not compute it."""
    if dtype.name not in C_TYPES:
        return None
    if function in COMPARISONS:
        return _infix(COMPARISONS[function])
    known = {"f": FLOATS, "i": WHOLES, "b": TRUTHS}[dtype.kind].get(function)
    is_of_scipy = known is None and dtype.kind == "f" and isinstance(function, np.ufunc)
    return OF_SCIPY.get(function.__name__) if is_of_scipy else known


def is_limited(op: Op) -> bool:
    """Whether the formula for an operator does not hold for all numbers."""
    return getattr(op.evaluate, "__name__", "") in LIMITED


def vectorises(op: Op) -> bool:
    """Whether compilers compute an operator for several numbers at once."""
    return op.evaluate not in ONE_BY_ONE


def spelled(x: Apply, arguments: Sequence[str]) -> str:
    """Return an operator on the text of its arguments."""
    found = template(x.op.evaluate, x.arguments[0].dtype)
    assert found is not None, x.op
    return found.format(*arguments) if isinstance(found, str) else found(x, arguments)
