"""Softplus and its slopes from one exponential, where several of them are needed for one value.

With ``w = exp(min(x, C))``, where C is about the largest number with a finite exponential, softplus(x) is
``max(log1p(w), x)`` and sigmoid(x) is ``w / (1 + w)``: beyond C log1p(w) is less than x, and below it is not. What they
give for infinities and NaNs is right. sigmoid(-x) stays ``1 / (1 + exp(x))``, which must get zero: where that is wanted
exp(x) is cut instead of x.

This looks at all of a graph, since what is best for the first of them depends on which others come later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.analysis.values import number
from symgrad.core.graph import Graph, Node
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import LOGADDEXP, NEGATIVE
from symgrad.rewrite.engine import copied
from symgrad.rewrite.logistic import Instead, Member, families_of, made, sign_and_rest, slope_of

MANY, VERY_MANY = 500, 8192
"""Numbers from which on more calls are fewer nanoseconds, and from which on `clip` is faster than `minimum`."""

HIGHEST = {4: (88.0, 1e38), 8: (709.0, 1e308)}
"""By the bytes of the dtype: about the largest number with a finite exponential, and about the largest number."""


def share_exponentials(graph: Graph, numerics: str = "stable") -> Graph:
    """Softplus, and what is related to it, in functions with loops for vectors.

    It stands after the rules, which bring signs to where two values are seen to be each other's negative.
    """
    instead: Instead = {}
    for family in families_of(graph, _value, _slope_of_many).values():
        instead |= _replacements(family, numerics == "stable")
    return copied(graph, instead) if instead else graph


def _replacements(family: list[Member], stable: bool) -> Instead:
    """Return replacements that share one exponential, and for softplus of both signs one logarithm."""
    first = family[0]
    values = [m for m in family if m.a is None]
    slopes = [m for m in family if m.a is not None]
    clips = first.x.aval.dtype.itemsize in HIGHEST
    by_absolute = not clips or len({m.sign for m in values}) > 1
    sign = -first.sign if first.x.op is NEGATIVE else first.sign
    if values and not by_absolute:
        sign = values[0].sign
    negative = any(m.sign == sign for m in slopes)
    exp = _exp_cut_late if negative else _exp_cut
    form = _softplus_by_absolute if by_absolute else partial(_softplus, exp=exp)
    found = {m.node: made(form, m, first, sign) for m in values}
    if stable and clips and ((values and not by_absolute) or len({m.sign for m in slopes}) > 1):
        found |= {m.node: made(partial(_slope, exp=exp), m, first, sign) for m in slopes}
    return found


# ---- how they are written, of x or of its negative


def _at_most(x: Variable, most: float) -> Variable:
    return np.clip(x, -np.inf, most) if numbers(x.shape) >= VERY_MANY else np.minimum(x, most)


def _exp_cut(x: Variable) -> Variable:
    return np.exp(_at_most(x, HIGHEST[x.dtype.itemsize][0]))


def _exp_cut_late(x: Variable) -> Variable:
    return _at_most(np.exp(x), HIGHEST[x.dtype.itemsize][1])


def _softplus(x: Variable, same: bool, exp: Callable[[Variable], Variable]) -> Variable:
    """All that are written so are of one sign."""
    return np.maximum(np.log1p(exp(x)), x)


def _softplus_by_absolute(x: Variable, same: bool) -> Variable:
    many = numbers(x.shape) >= VERY_MANY
    tail = np.log1p(np.exp(-np.abs(x)))
    if same:
        return (np.clip(x, 0, np.inf) if many else np.maximum(x, 0)) + tail
    return tail - (np.clip(x, -np.inf, 0) if many else np.minimum(x, 0))


def _slope(x: Variable, same: bool, a: Variable, exp: Callable[[Variable], Any]) -> Variable:
    """``a / (1 + exp(x))``, or that of -x."""
    if same:
        return a / (1 + np.exp(x))
    w = exp(x)
    return w / (1 + w) if number(a.node) == 1 else a * (w / (1 + w))


# ---- what belongs together


def _value(node: Node) -> Member | None:
    if node.op is LOGADDEXP:
        for zero, x in (node.inputs, node.inputs[::-1]):
            if number(zero) == 0 and _many(x):
                return Member(node, x, sign_and_rest(x)[0])
    return None


def _slope_of_many(node: Node) -> Member | None:
    m = slope_of(node)
    return m if m is not None and _many(m.x) else None


def _many(x: Node) -> bool:
    return x.aval.dtype.kind == "f" and len(x.aval.shape) > 0 and numbers(x.aval.shape) >= MANY
