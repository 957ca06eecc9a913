"""Advice against NaNs and infinities, by the operator that makes one and its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import Node, Op, depends
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import DIVIDE, LOG, SQRT, SUBTRACT
from symgrad.ops.reduce import SUM


class Failure(NamedTuple):
    """A node that makes a NaN or an infinity of numbers that are finite or, a NaN, of infinities."""

    node: Node
    kind: str  # "nan", "inf" or "overflow"
    operands: tuple[Any, ...]  # of the number in question; () where there are many
    nodes: Sequence[Node]  # of the program


class Remedy(NamedTuple):
    """Advice, and the failures to which it applies."""

    instead: str
    applies: Callable[[Failure], bool] = lambda failure: True


def remedy(failure: Failure) -> str:
    """Return advice against a failure; "" where there is none."""
    where = failure.node.where
    pole = failure.kind != "overflow" and _one(_zero)(failure)
    if pole and where.of is not None and not where.again and where.of.op in SLOPES:
        return SLOPES[where.of.op]
    if failure.node.op is SQRT and where.of is not None and where.of.op in _WITH_ROOTS:
        return SLOPES[where.of.op]
    found = (each.instead for each in REMEDIES.get(failure.node.op, ()) if each.applies(failure))
    return next(found, OVERFLOW if failure.kind == "overflow" else "")


# ---- conditions


def _operand(i: int, holds: Callable[[Any], Any]) -> Callable[[Failure], bool]:
    return lambda failure: bool(failure.operands) and bool(holds(failure.operands[i]))


def _all(holds: Callable[[Any], Any]) -> Callable[[Failure], bool]:
    return lambda failure: bool(failure.operands) and all(map(holds, failure.operands))


def _one(holds: Callable[[Any], Any]) -> Callable[[Failure], bool]:
    return lambda failure: any(map(holds, failure.operands))


def _follows(failure: Failure) -> set[Node]:
    """The values of the function itself, not of its derivatives, that depend on the node."""
    return {node for node in depends(failure.nodes, [failure.node]) if node.where.of is None}


def _log_of_sum(failure: Failure) -> bool:
    return {SUM, LOG} <= {node.op for node in _follows(failure)}


def _share_of_sum(failure: Failure) -> bool:
    after = _follows(failure)
    return any(node.op is DIVIDE and after.issuperset(node.inputs) for node in after)


def _of_difference(failure: Failure) -> bool:
    return failure.node.inputs[0].op is SUBTRACT and bool(_operand(0, _negative)(failure))


def _negative(x: Any) -> bool:
    return bool(x < 0)


def _zero(x: Any) -> bool:
    return bool(x == 0)


# ---- the table

OVERFLOW = "It is too large for its dtype: compute its logarithm instead, scale the data, or use a wider dtype."
_BOUNDED = "Keep what goes in away from the ends, np.clip(x, -1 + eps, 1 - eps), or take the angle by np.arctan2(y, x)."
_DIVISOR = "Divide by what is never 0: np.where(ok, a / np.where(ok, b, 1), 0) with ok = b != 0."
_LOGARITHM = (
    "Take the logarithm of what is never 0: np.where(x > 0, np.log(np.where(x > 0, x, 1)), 0), or np.log(x + eps)."
    " x * log(y) is scipy.special.xlogy(x, y)."
)
_ROOT = (
    "The slope of a root is infinite at 0: np.sqrt(x + eps), or np.where(x > 0, np.sqrt(np.where(x > 0, x, 1)), 0)."
    " np.linalg.norm has the slope 0 there."
)
_LOGARITHMS = {TABLE[f]: _LOGARITHM for f in (np.log, np.log2, np.log10)}

SLOPES: dict[Any, str] = {  # by the operator that is differentiated
    SQRT: _ROOT,
    TABLE[np.power]: (
        "The slope of x**p at 0 is infinite for p < 1: (x + eps)**p, or np.where(x > 0, np.where(x > 0, x, 1)**p, 0)."
    ),
    TABLE[np.cbrt]: "The slope of a root is infinite at 0: take that of what is never 0.",
    **dict.fromkeys((TABLE[f] for f in (np.arcsin, np.arccos, np.arctanh)), _BOUNDED),
    TABLE[np.arccosh]: "The slope of arccosh is infinite at 1: np.arccosh(np.maximum(x, 1 + eps)).",
    DIVIDE: _DIVISOR,
    **_LOGARITHMS,
    TABLE[np.log1p]: "The slope of log1p is infinite at -1: np.log1p(np.maximum(x, -1 + eps)).",
}

_WITH_ROOTS = [TABLE[f] for f in (np.arcsin, np.arccos, np.arccosh)]
"""Operators whose slopes have a root: what it is NaN of is their own argument."""

_EXPONENTIAL = (
    Remedy(
        "Subtract the maximum: m + np.log(np.sum(np.exp(x - m))) with m = np.max(x), or scipy.special.logsumexp(x).",
        _log_of_sum,
    ),
    Remedy("Subtract the maximum: np.exp(x - np.max(x)) in numerator and denominator.", _share_of_sum),
    Remedy(
        "Stay with logarithms, np.logaddexp(a, b) for np.log(np.exp(a) + np.exp(b)), or bound the exponent, "
        "np.exp(np.minimum(x, limit))."
    ),
)

REMEDIES: dict[Op | Any, tuple[Remedy, ...]] = {  # by the operator that fails
    **{
        op: (Remedy(text, _operand(0, _zero)), Remedy("Its argument is negative: np.log(np.maximum(x, eps))."))
        for op, text in _LOGARITHMS.items()
    },
    TABLE[np.log1p]: (Remedy("Its argument is -1 or less: np.log1p(np.maximum(x, -1 + eps))."),),
    **{TABLE[f]: _EXPONENTIAL for f in (np.exp, np.exp2, np.expm1)},
    DIVIDE: (
        Remedy(_DIVISOR, _operand(1, _zero)),
        Remedy("Infinity by infinity: divide before numbers become so large, or by logarithms.", _all(np.isinf)),
    ),
    SQRT: (
        Remedy(
            "A difference that rounding makes negative: for a variance np.mean((x - np.mean(x))**2) or np.var(x), "
            "else np.sqrt(np.maximum(x, 0)).",
            _of_difference,
        ),
        Remedy("Its argument is negative: np.sqrt(np.maximum(x, 0)).", _operand(0, _negative)),
    ),
    TABLE[np.power]: (
        Remedy("A negative power of 0: np.where(x > 0, np.where(x > 0, x, 1)**p, 0).", _operand(0, _zero)),
        Remedy("A power of a negative number: np.abs(x)**p, or np.maximum(x, 0)**p.", _operand(0, _negative)),
    ),
    **{
        TABLE[f]: (Remedy("Its argument is outside of -1 to 1: np.clip(x, -1, 1)."),)
        for f in (np.arcsin, np.arccos, np.arctanh)
    },
    TABLE[np.arccosh]: (Remedy("Its argument is below 1: np.maximum(x, 1)."),),
    **{
        TABLE[f]: (Remedy("Divide by what is never 0: np.where(b == 0, 1, b) in place of b.", _operand(1, _zero)),)
        for f in (np.remainder, np.fmod, np.floor_divide)
    },
    TABLE[np.multiply]: (
        Remedy("0 times infinity: x * log(y) is scipy.special.xlogy(x, y); or leave it out by np.where.", _one(_zero)),
    ),
    **{
        TABLE[f]: (
            Remedy("Where all of a row is masked, mask by a finite number such as -1e30.", _all(np.isneginf)),
            Remedy("Infinities cancel: subtract before numbers become so large.", _all(np.isinf)),
        )
        for f in (np.subtract, np.add)
    },
}
