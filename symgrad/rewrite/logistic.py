"""Logistic functions of one value and of its negative: ``1 - s`` instead of another exponential.

Rules keep the slope of ``s = 1 / (1 + exp(-x))`` as ``s / (1 + exp(x))``, which has all of its digits wherever x is.
Beside others in a sum, or a product of matrices, ``s * (1 - s)`` is as right: there a slope next to nothing changes
nothing. But it has lost half of its digits where x is 18, and is zero from 37 on: what a result is a multiple of stays
as it is, and so does what is divided by.

This looks at all of a graph: who needs the digits of a value comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from symgrad.analysis.values import number
from symgrad.core.graph import CONSTANT, Graph, Node, Op
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import ADD, DIVIDE, EXP, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.reduce import MEAN, SUM
from symgrad.rewrite.engine import Made, copied
from symgrad.rewrite.rules import stable_only

Instead: TypeAlias = dict[Node, Made]


class Member(NamedTuple):
    """``a / (1 + exp(x))``, a multiple of sigmoid(-x); or another function of x, without an `a`."""

    node: Node
    x: Node
    sign: int  # of x, among what is one value or its negative
    a: Node | None = None


@stable_only
def reuse_values(graph: Graph, numerics: str = "stable") -> Graph:
    """The slope of a logistic function from its value."""
    families = [family for family in families_of(graph, slope_of).values() if len({m.sign for m in family}) == 2]
    if not families:
        return graph
    signs = [
        next((m.sign for m in family if m.a is not None and number(m.a) == 1), family[0].sign) for family in families
    ]
    members = [(m, m.sign == sign) for family, sign in zip(families, signs, strict=True) for m in family]
    needed = _needed(graph, {m.node: same for m, same in members})
    instead: Instead = {}
    for family, sign in zip(families, signs, strict=True):
        chosen = [m for m in family if m.sign == sign or not needed.get(m.node, NOTHING)]
        if any(m.sign != sign for m in chosen):
            instead |= {m.node: made(_multiple, m, family[0], sign) for m in chosen}
    return copied(graph, instead) if instead else graph


def _multiple(x: Variable, same: bool, a: Variable) -> Variable:
    s = 1 / (1 + np.exp(x))
    p = s if same else 1 - s
    return p if number(a.node) == 1 else a * p


# ---- whose digits are needed

NOTHING, DIGITS, NOT_ZERO = range(3)
"""Precision that users need of a value beside its absolute error; NOT_ZERO is for divisors."""

SMALL = 0.1
"""A number up to which something that is next to nothing counts beside it."""


def _needed(graph: Graph, members: Mapping[Node, bool]) -> dict[Node, int]:
    """Return the precision needed of each value; for logistic functions it decides which one is computed."""
    small = _small(graph, members)
    needed = dict.fromkeys(graph.outputs, DIGITS)
    for node in reversed(graph.live):
        for i, x in enumerate(node.inputs):
            need = _handed_on(node, i, needed.get(node, NOTHING), small)
            if need > needed.get(x, NOTHING):
                needed[x] = need
    return needed


def _handed_on(node: Node, i: int, need: int, small: Mapping[Node, int]) -> int:
    """Return the precision that an operator needs of an input, from that needed of its result."""
    op = node.op
    if op is EXP:
        return NOTHING
    if op is ADD or op is SUBTRACT:
        return need if need >= small.get(node.inputs[1 - i], NOT_ZERO + 1) else NOTHING
    if op.singular and (op is not DIVIDE or i == 1):
        return NOT_ZERO
    return NOTHING if _mixes(op) and need < NOT_ZERO else need


def _small(graph: Graph, members: Mapping[Node, bool]) -> dict[Node, int]:
    """Return the values that are negligible in the tails of a slope, and the precision that still matters there.

    These are the slope, an exponential or a quotient, and multiples and sums of these alone. The value is about one
    there.
    """
    small: dict[Node, int] = {}
    for node in graph.live:
        op, factors = node.op, node.inputs
        if op is CONSTANT:
            c = number(node)
            alone = c is not None and abs(c) < SMALL
        elif op is DIVIDE and (node in members or number(factors[1]) is not None):
            alone, factors = not members.get(node, True), factors[:1]
        else:
            alone = op.singular
        found, multiple = [small[x] for x in factors if x in small], op is MULTIPLY or op.contracts
        if alone:
            small[node] = DIGITS
        elif found and (multiple or len(found) == len(factors)):
            small[node] = NOT_ZERO if _mixes(op) else min(found) if multiple else max(found)
    return small


def _mixes(op: Op) -> bool:
    """Whether numbers of an operand are added to each other."""
    return op is SUM or op is MEAN or op.contracts


# ---- what belongs together


def families_of(graph: Graph, *kinds: Callable[[Node], Member | None]) -> dict[Any, list[Member]]:
    """Functions of one value or of its negative, by that value."""
    found: dict[Any, list[Member]] = {}
    for node in graph.live:
        for kind in kinds:
            member = kind(node)
            if member is not None and member.x.aval.dtype == node.aval.dtype:
                found.setdefault(sign_and_rest(member.x)[1], []).append(member)
    return found


def slope_of(node: Node) -> Member | None:
    """``a / (1 + exp(x))`` is a multiple of sigmoid(-x)."""
    if node.op is not DIVIDE or node.inputs[1].op is not ADD:
        return None
    a, below = node.inputs
    for one, e in (below.inputs, below.inputs[::-1]):
        if number(one) == 1 and e.op is EXP and e.aval.dtype.kind == "f":
            return Member(node, e.inputs[0], sign_and_rest(e.inputs[0])[0], a)
    return None


def sign_and_rest(x: Node) -> tuple[int, Any]:
    """A key that a value and its negative have in common, and which of the two it is."""
    if x.op is NEGATIVE:
        sign, rest = sign_and_rest(x.inputs[0])
        return -sign, rest
    if x.op is ADD or x.op is SUBTRACT:
        return _sign_and_terms(x)
    if x.op is MULTIPLY:
        for c, y in (x.inputs, x.inputs[::-1]):
            scale = number(c)
            if scale is not None:
                return (1 if scale > 0 else -1), (abs(scale), y)
    return 1, x


def _sign_and_terms(x: Node) -> tuple[int, Any]:
    """The sign of the term that was there first, and both but for it: ``-a - c`` is the negative of ``a + c``."""
    terms = [(-1, y.inputs[0]) if y.op is NEGATIVE else (1, y) for y in x.inputs]
    if x.op is SUBTRACT:
        terms[1] = -terms[1][0], terms[1][1]
    (sign, a), (other, b) = sorted(terms, key=lambda term: term[1].id)
    return sign, (a, sign * other, b)


def made(form: Callable[..., Variable], m: Member, first: Member, sign: int) -> Made:
    """A member by the first of its family with this sign: what others are written with may come later."""

    def make(new: Graph, image: Mapping[Node, Node]) -> Variable:
        x = Variable(new, image[first.x])
        if sign != first.sign:
            x = Variable(new, image[first.x.inputs[0]]) if first.x.op is NEGATIVE else -x
        return form(x, m.sign == sign, *([Variable(new, image[m.a])] if m.a is not None else []))

    return make
