"""Spelling of nodes as NumPy source: code with its precedence, and the spelling of parameters."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from symgrad.core.sizes import Dim, Rows, Size
from symgrad.core.text import key_literal, literal
from symgrad.errors import ArgumentError

# Python's precedences, from the loosest; only what generated code uses
CHOICE, EITHER, BOTH, NOT, COMPARE, OR, XOR, AND, SHIFT, SUM, PRODUCT, MATMUL, UNARY, POWER, ATOM = range(15)
PRECEDENCE = {"|": OR, "^": XOR, "&": AND, "<<": SHIFT, ">>": SHIFT, "+": SUM, "-": SUM, "**": POWER, "@": MATMUL}
PRECEDENCE |= {"and": BOTH, "or": EITHER} | dict.fromkeys(("*", "/", "//", "%"), PRODUCT)
PRECEDENCE |= dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), COMPARE)


@dataclass(slots=True)  # not frozen, which takes three times as long to make
class Code:
    """An expression in Python source, and how tightly it binds."""

    text: str
    level: int = ATOM

    def at(self, level: int) -> str:
        """The text, in parentheses where it binds less tightly than `level`."""
        return self.text if self.level >= level else f"({self.text})"

    @property
    def names(self) -> set[str]:
        """The names that it mentions."""
        return {x.id for x in ast.walk(ast.parse(self.text)) if isinstance(x, ast.Name)}


class Name(Code):
    """A name by itself."""

    __slots__ = ()


@dataclass(slots=True, kw_only=True)
class Negative(Code):
    """A negative, with its operand: ``-x``, or ``-2 * x``."""

    operand: Code


@dataclass(slots=True, kw_only=True)
class Not(Code):
    """``not x``"""

    operand: Code


@dataclass(slots=True, kw_only=True)
class Truth(Code):
    """A NumPy boolean, with its spelling as a Python boolean for places where it is only tested."""

    test: Code


@dataclass(slots=True, kw_only=True)
class Call(Code):
    """The call of a function."""

    function: str
    arguments: Sequence[str]

    def into(self, out: Code) -> Call:
        """The same call, which writes its result into memory that is there."""
        return call(self.function, [*self.arguments, f"out={out.text}"])


def infix(symbol: str, a: Code, b: Code) -> Code:
    """``a symbol b``: left-associative but for ``**``; comparisons do not chain.

    Python gives ``*`` and ``@`` one precedence; mixed, they get parentheses all the same.
    """
    level = PRECEDENCE[symbol]
    if symbol == "**":
        return Code(f"{a.at(ATOM)}**{b.at(UNARY)}", level)
    if level == PRODUCT:
        return Code(f"{a.text if a.level == PRODUCT else a.at(UNARY)} {symbol} {b.at(UNARY)}", level)
    left = level + 1 if level == COMPARE else level
    return Code(f"{a.at(left)} {symbol} {b.at(level + 1)}", level)


def signed(symbol: str, a: Code, b: Code) -> Code:
    """``a symbol b`` of numbers that do not wrap around, as minus something where that is what it is."""
    code = infix(symbol, a, b)
    if not isinstance(a, Negative) or symbol not in OPPOSITE:
        return code
    return Negative(code.text, code.level, operand=infix(OPPOSITE[symbol], a.operand, b))


OPPOSITE = {"*": "*", "/": "/", "-": "+"}
"""Minus ``-a symbol b`` in terms of `a` and `b`."""


def negative(x: Code) -> Negative:
    return Negative(f"-{x.at(POWER)}", UNARY, operand=x)


def call(function: str, arguments: Sequence[str]) -> Call:
    return Call(f"{function}({', '.join(arguments)})", function=function, arguments=arguments)


def tested(code: Code) -> Code:
    """Return a boolean as source for a place where it is only tested."""
    return code.test if isinstance(code, Truth) else code


def negated(test: Code) -> Code:
    """Return the negation of a test."""
    return test.operand if isinstance(test, Not) else not_(test)


def not_(x: Code) -> Not:
    """``not x``, which is True or False."""
    return Not(f"not {x.at(NOT)}", NOT, operand=x)


def several(names: Sequence[str]) -> Code:
    """Names in a row: ``a, b`` and ``(a,)``."""
    return Code(f"({names[0]},)") if len(names) == 1 else Code(", ".join(names), CHOICE)


def spell_number(value: Any, weak: bool) -> Code:
    """A number as source; a NumPy scalar keeps its dtype."""
    number = value if weak else value[()]
    plain = number if weak else number.item()
    text = literal(plain)
    assert text is not None, f"{value!r} is no number"
    if not weak and not isinstance(plain, bool):
        return call(f"np.{number.dtype.name}", [text])
    return negative(spell_number(-plain, weak=True)) if _is_below_zero(plain) else Code(text)


def _is_below_zero(x: Any) -> bool:
    return not isinstance(x, complex) and (x < 0 or (x == 0 and math.copysign(1, x) < 0))


def spell_size(size: Size) -> Code:
    """A size as source: a number, the name of a symbol or of a number of rows, or an expression in symbols."""
    if isinstance(size, Dim):
        text = str(size)
        return Name(text) if text.isidentifier() else Code(text, _level_of(text))
    return Name(str(size)) if isinstance(size, Rows) else Code(str(size))


@cache
def _level_of(size: str) -> int:
    """Return how tightly the text of a size binds."""
    outermost = ast.parse(size, mode="eval").body
    if isinstance(outermost, ast.BinOp):
        return _LEVELS[type(outermost.op)]
    return UNARY if isinstance(outermost, ast.UnaryOp) else ATOM


_LEVELS: dict[type[ast.operator], int] = {
    ast.Add: SUM, ast.Sub: SUM, ast.Mult: PRODUCT, ast.FloorDiv: PRODUCT, ast.Mod: PRODUCT, ast.Pow: POWER,
}  # fmt: skip


def spell_param(value: Any) -> str:
    """A parameter of a node as Python source."""
    if isinstance(value, tuple) and type(value) is tuple:
        inner = ", ".join(map(spell_param, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, np.dtype):
        return spell_dtype(value)
    if isinstance(value, (Dim, Rows)):
        return str(value)
    text = key_literal(value.item() if isinstance(value, np.generic) else value)
    if text is None:
        raise ArgumentError(
            f"an operator has the parameter {value!r}, which cannot be written as Python source",
            "Give your operator a spell= that writes it with NumPy.",
        )
    return text


def spell_dtype(dtype: np.dtype[Any]) -> str:
    """A dtype as Python source."""
    known = getattr(np, dtype.name, None)
    return f"np.{dtype.name}" if known is not None and np.dtype(known) == dtype else f"np.dtype({dtype.str!r})"
