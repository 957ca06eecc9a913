"""How a node reads as NumPy source: code with its precedence, and the spelling of parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.sizes import Dim, Rows
from symgrad.core.text import key_literal
from symgrad.errors import ArgumentError

# Python's precedences, from the loosest; only what generated code uses
COMPARE, OR, XOR, AND, SHIFT, SUM, PRODUCT, MATMUL, UNARY, POWER, ATOM = range(11)
CHOICE = -1  # ``a if c else b``, ``not a``, ``a and b``
PRECEDENCE = {"|": OR, "^": XOR, "&": AND, "<<": SHIFT, ">>": SHIFT, "+": SUM, "-": SUM, "**": POWER, "@": MATMUL}
PRECEDENCE |= dict.fromkeys(("*", "/", "//", "%"), PRODUCT) | dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), COMPARE)


class Code(NamedTuple):
    """An expression in Python source, and how tightly it binds."""

    text: str
    level: int = ATOM

    def at(self, level: int) -> str:
        """The text, in parentheses where it binds less tightly than `level`."""
        return self.text if self.level >= level else f"({self.text})"


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


def call(function: str, arguments: Iterable[str]) -> Code:
    return Code(f"{function}({', '.join(arguments)})")


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
            f"an operator has the parameter {value!r}, which has no form in Python source",
            "Give your operator a spell= that writes it with NumPy.",
        )
    return text


def spell_dtype(dtype: np.dtype[Any]) -> str:
    """A dtype as Python source."""
    known = getattr(np, dtype.name, None)
    return f"np.{dtype.name}" if known is not None and np.dtype(known) == dtype else f"np.dtype({dtype.str!r})"
