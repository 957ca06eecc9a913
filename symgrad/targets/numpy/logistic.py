"""Softplus and its slopes out of one exponential, where several of them are wanted of one value.

With ``w = exp(min(x, C))``, where C is about the largest number with a finite exponential, softplus(x) is
``max(log1p(w), x)`` and sigmoid(x) is ``w / (1 + w)``: beyond C log1p(w) is less than x, and below it is not. What they
give for infinities and NaNs is right. sigmoid(-x) stays ``1 / (1 + exp(x))``, which must get zero: where that is wanted
exp(x) is cut instead of x.

This looks at all of a graph, since what is best for the first of them depends on which others come later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.analysis.values import number
from symgrad.core.graph import Graph, Node
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import ADD, DIVIDE, EXP, LOGADDEXP, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.rewrite.engine import Made, copied

MANY, VERY_MANY = 500, 8192
"""Numbers from which on more calls are fewer nanoseconds, and from which on `clip` is faster than `minimum`."""

HIGHEST = {4: (88.0, 1e38), 8: (709.0, 1e308)}
"""By the bytes of the dtype: about the largest number with a finite exponential, and about the largest number."""

Instead: TypeAlias = dict[Node, Made]


class Member(NamedTuple):
    """``logaddexp(0, x)``, or ``a / (1 + exp(x))``, which is a sigmoid(-x)."""

    node: Node
    x: Node
    sign: int  # of x, among what is one value or its negative
    a: Node | None = None


def share_exponentials(graph: Graph, numerics: str = "stable") -> Graph:
    """Softplus, and what is related to it, in functions with loops for vectors.

    It stands after the rules, which bring signs to where two values are seen to be each other's negative.
    """
    instead: Instead = {}
    for family in _families(graph).values():
        instead |= _replacements(family, numerics == "stable")
    return copied(graph, instead) if instead else graph


def _replacements(family: list[Member], stable: bool) -> Instead:
    """Of softplus of both signs there is one logarithm too. Slopes of one sign have one exponential already."""
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
    found = {m.node: _made(form, m, first, sign) for m in values}
    if stable and clips and ((values and not by_absolute) or len({m.sign for m in slopes}) > 1):
        found |= {m.node: _made(partial(_slope, exp=exp), m, first, sign) for m in slopes}
    return found


def _made(form: Callable[..., Variable], m: Member, first: Member, sign: int) -> Made:
    """A member by the first of its family with this sign: what others are written with may come later."""

    def make(new: Graph, image: Mapping[Node, Node]) -> Variable:
        x = Variable(new, image[first.x])
        if sign != first.sign:
            x = Variable(new, image[first.x.inputs[0]]) if first.x.op is NEGATIVE else -x
        return form(x, m.sign == sign, *([Variable(new, image[m.a])] if m.a is not None else []))

    return make


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


def _families(graph: Graph) -> dict[Any, list[Member]]:
    found: dict[Any, list[Member]] = {}
    for node in graph.live:
        if node.op is LOGADDEXP or node.op is DIVIDE:
            member = _value(node) if node.op is LOGADDEXP else _slope_of(node)
            if member is not None and member.x.aval.dtype == node.aval.dtype:
                found.setdefault(_sign_and_rest(member.x)[1], []).append(member)
    return found


def _value(node: Node) -> Member | None:
    for zero, x in (node.inputs, node.inputs[::-1]):
        if number(zero) == 0 and _many(x):
            return Member(node, x, _sign_and_rest(x)[0])
    return None


def _slope_of(node: Node) -> Member | None:
    """``a / (1 + exp(x))`` is a multiple of sigmoid(-x)."""
    a, below = node.inputs
    if below.op is not ADD:
        return None
    for one, e in (below.inputs, below.inputs[::-1]):
        if number(one) == 1 and e.op is EXP and _many(e):
            return Member(node, e.inputs[0], _sign_and_rest(e.inputs[0])[0], a)
    return None


def _many(x: Node) -> bool:
    return x.aval.dtype.kind == "f" and len(x.aval.shape) > 0 and numbers(x.aval.shape) >= MANY


def _sign_and_rest(x: Node) -> tuple[int, Any]:
    """A key that a value and its negative have in common, and which of the two it is."""
    if x.op is NEGATIVE:
        sign, rest = _sign_and_rest(x.inputs[0])
        return -sign, rest
    a, b = x.inputs if len(x.inputs) == 2 else (x, x)
    if x.op is SUBTRACT:
        return (1, (a, b)) if a.id < b.id else (-1, (b, a))
    if x.op is MULTIPLY:
        for c, y in ((a, b), (b, a)):
            scale = number(c)
            if scale is not None:
                return (1 if scale > 0 else -1), (abs(scale), y)
    return 1, x
