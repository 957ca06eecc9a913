"""Symbolic sizes as SymPy sees them: integer arithmetic and Python source.

SymPy is slow, both to import and to compute with, so it is imported when more is asked of a symbol than a multiple of
it, and everything computed with it is remembered.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from sympy import Expr

REMEMBERED = 1 << 14


@lru_cache(REMEMBERED)
def symbol(name: str) -> Expr:
    """The SymPy symbol of a size: a positive integer."""
    from sympy import Symbol

    return Symbol(name, integer=True, positive=True)


class Multiple(NamedTuple):
    """A multiple of a symbol: enough for a loop with that many iterations, without SymPy."""

    number: int
    symbol: str

    @property
    def expr(self) -> Expr:
        """In SymPy."""
        return self.number * symbol(self.symbol)

    def __str__(self) -> str:
        return self.symbol if self.number == 1 else f"{self.number} * {self.symbol}"


def as_multiple(expr: Expr) -> Multiple | None:
    """An expression as a positive multiple of the symbol of a size, where it is one."""
    if expr.is_Symbol:
        return None if place_name(expr) else Multiple(1, expr.name)
    if not expr.is_Mul or len(expr.args) != 2:
        return None
    number, rest = expr.args
    if not (number.is_Integer and number > 0 and rest.is_Symbol) or place_name(rest):
        return None
    return Multiple(int(number), rest.name)


@lru_cache(REMEMBERED)
def place_symbol(name: str, side: int = 0) -> Expr:
    """Return the symbol of an index of this name: a symbol is positive, so it stands for the index plus one.

    In a side of a branch, which has a number, the index has a symbol of its own.
    """
    from sympy import Symbol

    return Symbol(f"{name}{_MORE}{_IN_SIDE}{side}" if side else f"{name}{_MORE}", integer=True, positive=True)


_MORE, _IN_SIDE = " + 1", " in "


def place_name(symbol: Expr) -> str | None:
    """Return the name of the index that a symbol stands for; None for any other symbol."""
    name, more, _ = symbol.name.partition(_MORE)
    return name if more else None


def side_of(symbol: Expr) -> int:
    """Return the number of the side of a branch in which a symbol stands for an index; 0 outside of all."""
    return int(symbol.name.partition(_IN_SIDE)[2] or 0)


@lru_cache(REMEMBERED)
def in_side(expr: Expr, side: int) -> Expr:
    """Return the expression with the symbols that its indices have in a side of a branch."""
    return replaced(expr, tuple((s, place_symbol(name, side)) for s in expr.free_symbols if (name := place_name(s))))


@lru_cache(REMEMBERED)
def sides(expr: Expr) -> tuple[int, ...]:
    """Return the numbers of the sides of branches whose symbols an expression has, sorted; 0 for none."""
    return tuple(sorted({side_of(s) for s in expr.free_symbols if place_name(s) is not None}))


@lru_cache(REMEMBERED)
def _by_places(expr: Expr) -> Expr:
    """Return the expression in terms of the indices themselves."""
    from sympy import Symbol

    places = {s: Symbol(name, integer=True) + 1 for s in expr.free_symbols if (name := place_name(s)) is not None}
    return expr.xreplace(places).expand() if places else expr


def sympify(number: int | Fraction) -> Expr:
    """A Python number in SymPy."""
    from sympy import Rational

    return Rational(number.numerator, number.denominator)


def ordered(expressions: Iterable[Expr]) -> list[Expr]:
    """A set of expressions in an order that is the same in every process."""
    from sympy import default_sort_key

    return sorted(expressions, key=default_sort_key)


@lru_cache(REMEMBERED)
def calculate(op: Callable[[Any, Any], Any], a: Expr, b: Expr) -> Expr:
    """Exact integer arithmetic."""
    from sympy import Mod, cancel, floor

    if op not in (operator.floordiv, operator.mod):
        return cast("Expr", op(a, b))
    if b == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if op is operator.mod:
        return Mod(a, b)
    return floor(a / b if b.is_Integer else cancel(a / b))


@lru_cache(REMEMBERED)
def replaced(expr: Expr, instead: tuple[tuple[Expr, Expr], ...]) -> Expr:
    """The expression with others for some of its symbols."""
    return cast("Expr", expr.xreplace(dict(instead)))


@lru_cache(REMEMBERED)
def as_quotient(expr: Expr) -> tuple[Fraction, Expr, Expr]:
    """A product of powers as a number, what it is multiplied with and what that is divided by."""
    from sympy import fraction

    coefficient, rest = expr.as_coeff_Mul()
    return (Fraction(int(coefficient.p), int(coefficient.q)), *fraction(rest))


@lru_cache(REMEMBERED)
def names(expr: Expr) -> tuple[str, ...]:
    """The names of the symbols, sorted."""
    return tuple(sorted({place_name(symbol) or symbol.name for symbol in expr.free_symbols}))


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """The number that an expression is where its symbols have these values."""
    return cast(int, eval(_code(expr), {"min": min, "max": max}, {name: int(values[name]) for name in names(expr)}))


def computed(expr: Expr, numbers: Mapping[str, Any], smallest: Any, largest: Any) -> Any:
    """The same of anything that is computed with as ints are."""
    return eval(_code(expr), {"min": smallest, "max": largest}, dict(numbers))


@lru_cache(REMEMBERED)
def _code(expr: Expr) -> CodeType:
    return compile(source(expr), "<size>", "eval")


# ---- source

# How tightly a text binds. // and % stand below * so that a product is never read across them.
_SUM, _QUOTIENT, _PRODUCT, _UNARY, _POWER, _ATOM = range(6)


def source(expr: Expr) -> str:
    """Python source."""
    return _source(_by_places(expr))[0]


def _operand(expr: Expr, least: int) -> str:
    """The source of an operand, in parentheses where it binds less tightly than needed."""
    text, binding = _source(expr)
    return text if binding >= least else f"({text})"


def with_functions(expr: Expr, name: Callable[[str], str]) -> Expr:
    """The expression with other functions for `min` and `max`."""
    from sympy import Function, Max, Min

    for extreme, called in ((Max, "max"), (Min, "min")):
        expr = expr.replace(extreme, Function(name(called))) if expr.has(extreme) else expr
    return expr


@lru_cache(REMEMBERED)
def _source(expr: Expr) -> tuple[str, int]:
    """Source, and how tightly it binds."""
    from sympy import Add, Max, Min, Mod, Mul, Pow, Symbol, ceiling, floor

    if isinstance(expr, Symbol):
        return expr.name, _ATOM
    if expr.is_Integer:
        return str(expr), _ATOM if expr >= 0 else _UNARY
    if isinstance(expr, floor):
        return _quotient(expr.args[0])
    if isinstance(expr, ceiling):
        return "-" + _operand(floor(-expr.args[0]), _UNARY), _UNARY
    if isinstance(expr, Mod):
        return f"{_operand(expr.args[0], _PRODUCT)} % {_operand(expr.args[1], _POWER)}", _QUOTIENT
    if isinstance(expr, (Max, Min)):
        args = sorted(ordered(expr.args), key=lambda arg: not arg.is_Integer)
        return f"{'max' if isinstance(expr, Max) else 'min'}({', '.join(map(source, args))})", _ATOM
    if expr.is_Function:
        return f"{expr.func}({', '.join(map(source, expr.args))})", _ATOM
    if _has_denominator(expr):
        return _quotient(expr)
    if isinstance(expr, Add):
        return _sum(expr)
    if isinstance(expr, Mul):
        return _product(expr)
    assert isinstance(expr, Pow), f"{expr} is no size"
    return f"{_operand(expr.base, _ATOM)} ** {_operand(expr.exp, _ATOM)}", _POWER


def _has_denominator(expr: Expr) -> bool:
    """Whether a sum, product or power divides: the division comes out even, but Python must be told with //."""
    if expr.is_Add or expr.is_Mul:
        return any(_has_denominator(arg) for arg in expr.args)
    return bool((expr.is_Rational and not expr.is_Integer) or (expr.is_Pow and expr.exp.is_negative))


def _quotient(expr: Expr) -> tuple[str, int]:
    """The floor of a fraction."""
    from sympy import fraction, together

    above, below = fraction(together(expr))
    if below == 1:
        return _source(above)
    return f"{_operand(above, _PRODUCT)} // {_operand(below, _POWER)}", _QUOTIENT


def _sum(expr: Expr) -> tuple[str, int]:
    """Terms in SymPy's order, but beginning with one that needs no sign."""
    first, *others = sorted(expr.as_ordered_terms(), key=lambda term: term.could_extract_minus_sign())
    text = _operand(first, _QUOTIENT)
    for term in others:
        negative = term.could_extract_minus_sign()
        text += (" - " if negative else " + ") + _operand(-term if negative else term, _QUOTIENT)
    return text, _SUM


def _product(expr: Expr) -> tuple[str, int]:
    """Factors in SymPy's order, the number first."""
    coefficient, rest = expr.as_coeff_Mul()
    factors = [] if coefficient in (1, -1) else [str(coefficient)]
    factors += [_operand(factor, _UNARY) for factor in rest.as_ordered_factors()]
    sign = "-" if coefficient == -1 else ""
    return sign + " * ".join(factors), _PRODUCT if rest.is_Mul or not sign else _UNARY
