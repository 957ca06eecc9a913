"""Bounds of sizes for all values of their symbols, to decide comparisons.

All follows from lower bounds of polynomials in positive integers; see `_lower`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

from symgrad.core.size_expressions import REMEMBERED, ordered, symbol, sympify

if TYPE_CHECKING:
    from sympy import Expr


@lru_cache(REMEMBERED)
def decide(op: Callable[[Any, Any], Any], expr: Expr) -> bool | None:
    """Whether ``op(expr, 0)`` for all positive integers; None where that is unknown or differs."""
    if op is operator.eq:
        return _always_zero(expr)
    if op is operator.ge:
        return True if _never_negative(expr) else False if _never_negative(-expr - 1) else None
    if op is operator.le:
        return decide(operator.ge, -expr)
    opposite = decide({operator.ne: operator.eq, operator.lt: operator.ge, operator.gt: operator.le}[op], expr)
    return None if opposite is None else not opposite


@lru_cache(REMEMBERED)
def extreme(largest: bool, a: Expr, b: Expr) -> Expr:
    """The larger or the smaller, decided where that is possible."""
    from sympy import Max, Min

    if _never_negative(a - b):
        return a if largest else b
    if _never_negative(b - a):
        return b if largest else a
    return (Max if largest else Min)(a, b)


def least(expr: Expr) -> int | None:
    """A number that the expression is never below; None where none is found."""
    bound = _lower(expr)
    return None if bound is None else math.ceil(bound)


MOST = 1 << 20  # no lower bound of a size is looked for beyond it


@lru_cache(REMEMBERED)
def solved(expr: Expr) -> tuple[Expr, Expr] | None:
    """A symbol and a lower bound for it that make the expression at least 0; None where none is found.

    ``2 * n - 5`` gives n and 3, ``n - 2 * k`` gives n and 2 * k. The bound is the least one if it is a number, and
    where there are several symbols it says exactly that the expression is at least 0.
    """
    symbols = ordered(expr.free_symbols)
    for s in symbols:
        bound = (s - expr).expand()
        if not bound.has(s):
            return s, bound
    if len(symbols) != 1 or not _holds_from(expr, MOST):
        return None
    below, least = 0, MOST
    while least - below > 1:
        middle = (below + least) // 2
        below, least = (below, middle) if _holds_from(expr, middle) else (middle, least)
    return symbols[0], sympify(least)


def _holds_from(expr: Expr, least: int) -> bool:
    """Whether an expression of one symbol is at least 0 wherever the symbol is at least so large."""
    (s,) = expr.free_symbols
    return _never_negative(expr.xreplace({s: s + (least - 1)}))


@lru_cache(REMEMBERED)
def conditions(expr: Expr) -> tuple[tuple[Expr, ...], ...]:
    """Ways to make the expression 0: each some expressions, all of which must be at least 0.

    ``min(3, n) - 3`` is 0 where ``n - 3`` is at least 0.
    """
    from sympy import Max, Min

    return tuple(
        tuple((case - other) * (1 if isinstance(atom, Max) else -1) for other in atom.args if other != case)
        for atom in ordered(expr.atoms(Max, Min))
        for case in ordered(atom.args)
        if _always_zero(expr.xreplace({atom: case})) is True
    )


MANY = 6  # extremes in one expression, of which each may double the work


@lru_cache(REMEMBERED)
def distributed(expr: Expr) -> Expr:
    """``rest - max(a, b)`` as ``min(rest - a, rest - b)``, and the like: more can be decided, if there are not many."""
    from sympy import Add, Max, Min

    if len(expr.atoms(Max, Min)) > MANY:
        return expr
    for term in Add.make_args(expr):
        sign, atom = term.as_coeff_Mul()
        if isinstance(atom, (Max, Min)) and sign in (1, -1):
            result, *others = [distributed(expr - term + sign * case) for case in atom.args]
            for case in others:
                result = extreme(isinstance(atom, Max) == (sign == 1), result, case)
            return result
    return expr


def _never_negative(expr: Expr) -> bool:
    """Whether the expression is provably at least 0."""
    bound = _lower(expr)
    return bound is not None and bound >= 0


@lru_cache(REMEMBERED)
def _always_zero(expr: Expr) -> bool | None:
    """True where the expression provably is 0, False where it provably never is."""
    expr = expr.expand()
    if expr.is_Integer:
        return bool(expr == 0)
    bounds = _lower(expr), _lower(-expr)
    if any(bound is not None and bound > 0 for bound in bounds):
        return False
    if all(bound is not None and bound >= 0 for bound in bounds):
        return True  # min(m, n) - 1 is min(m - 1, n - 1)
    terms = expr.as_coefficients_dict()
    if all(coefficient.is_Integer for coefficient in terms.values()):
        constant = int(terms.pop(sympify(1), 0))
        if constant % math.gcd(*map(int, terms.values())):
            return False  # 2 * n == 3 has no integer solution
    return True if _zero_for_all_residues(expr) else None


def _zero_for_all_residues(expr: Expr) -> bool:
    """Whether ``//`` and ``%`` cancel in every residue class: ``(n + 1) // 2 + n // 2 - n``."""
    from sympy import Mod, Symbol, floor

    periods = [int(mod.args[1]) for mod in expr.atoms(Mod) if mod.args[1].is_Integer]
    periods += [int(q) for f in expr.atoms(floor) if (q := f.args[0].expand().as_numer_denom()[1]).is_Integer]
    period, symbols = math.lcm(*map(abs, periods)), ordered(expr.free_symbols)
    if period == 1 or period ** len(symbols) > 64:
        return False
    for residues in product(range(period), repeat=len(symbols)):
        cosets = {s: period * Symbol(s.name, integer=True) + r for s, r in zip(symbols, residues, strict=True)}
        if expr.xreplace(cosets).expand() != 0:
            return False
    return True


@lru_cache(REMEMBERED)
def _lower(expr: Expr) -> Fraction | None:
    """A number that the expression is never below; None where none is found.

    Each of ``//``, ``%``, ``min`` and ``max`` is replaced by something simpler that bounds it on the side that
    matters, until a polynomial is left.
    """
    from sympy import Max, Min, Mod, ceiling, floor

    expr = expr.expand()
    atoms = ordered(expr.atoms(floor, ceiling, Mod, Max, Min))
    if not atoms:
        return _lower_of_fraction(expr)
    if len(atoms) > 6:
        return None  # each may try several bounds
    outermost = [atom for atom in atoms if not any(other != atom and other.has(atom) for other in atoms)]
    atom = next((atom for atom in outermost if _is_either(atom, expr)), outermost[0])
    free = symbol(f"<{atom}>")
    opened = expr.xreplace({atom: free}).expand()
    slope, rest = opened.coeff(free, 1), opened.coeff(free, 0)
    if (opened - slope * free - rest).expand() == 0:
        for below, sign in ((True, 1), (False, -1)):
            if _never_negative(sign * slope):
                bounds, all_of_them = _bounds(atom, below)
                return _best([_lower(rest + slope * bound) for bound in bounds], all_of_them)
    least = _lower(atom)
    if least is None:
        return None
    return _lower(opened.xreplace({free: free + sympify(least) - 1}))  # a symbol is at least 1


def _is_either(atom: Expr, expr: Expr) -> bool:
    """Whether every argument of an atom counts: of a minimum that is added, or a maximum that is subtracted."""
    from sympy import Max, Min

    slope = expr.coeff(atom)
    return _never_negative(slope if isinstance(atom, Min) else -slope) if isinstance(atom, (Max, Min)) else False


def _best(bounds: Sequence[Fraction | None], all_of_them: bool) -> Fraction | None:
    """The strongest of several lower bounds, or the weakest where any of them may be the one that holds."""
    known = [bound for bound in bounds if bound is not None]
    if not known or (all_of_them and len(known) < len(bounds)):
        return None
    return min(known) if all_of_them else max(known)


def _bounds(atom: Expr, below: bool) -> tuple[list[Expr], bool]:
    """Simpler expressions below (or above) an atom; and whether only all of them together bound it."""
    from sympy import Max, Min, Mod, ceiling

    if isinstance(atom, (Max, Min)):
        return list(atom.args), isinstance(atom, Max) != below
    if isinstance(atom, Mod):
        value, modulus = atom.args
        if not _never_negative(modulus - 1):
            return [], False
        if below:
            return [sympify(0)], False
        if _never_negative(value - modulus):
            value -= modulus  # SymPy writes (i - 1) % n as (i + n - 1) % n
        return [modulus - 1, value] if _never_negative(value) else [modulus - 1], False
    (value,) = atom.args
    up = isinstance(atom, ceiling)
    denominator = value.expand().as_numer_denom()[1]
    slack = 1 - 1 / denominator if denominator.is_Integer else sympify(1)
    bounds = [value] if below == up else [value - slack if below else value + slack]
    known = _lower(value if below else -value)
    if known is not None:
        least = known if below else -known
        bounds.append(sympify(math.ceil(least) if up else math.floor(least)))
    return bounds, False


def _lower_of_fraction(expr: Expr) -> Fraction | None:
    """The lower bound of a polynomial, or 0 for a quotient of two that are not negative."""
    from sympy import fraction, together

    above, below = fraction(together(expr))
    if not below.is_Integer:
        bound = _lower(below)
        return Fraction(0) if bound is not None and bound > 0 and _never_negative(above) else None
    # With every symbol written as 1 + s, s >= 0, the constant is the least value if no term falls.
    terms = expr.xreplace({s: s + 1 for s in expr.free_symbols}).expand().as_coefficients_dict()
    constant = terms.pop(sympify(1), sympify(0))
    if any(not coefficient >= 0 for coefficient in terms.values()):
        return None
    return Fraction(int(constant.p), int(constant.q))
