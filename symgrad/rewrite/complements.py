"""Logistic functions of one value and of its negative: ``1 - s`` instead of another exponential.

The slope of ``s = logistic(x)`` is ``s * logistic(-x)``, which has all of its digits wherever x is.
Beside others in a sum, or a product of matrices, ``s * (1 - s)`` is as right: there a slope next to nothing changes
nothing. But it has lost half of its digits where x is 18, and is zero from 37 on: what a result is a multiple of stays
as it is, and so does what is divided by.

This looks at all of a graph: who needs the digits of a value comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from symgrad.analysis.values import number
from symgrad.core.graph import CONSTANT, Graph, Node, Op
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import ADD, DIVIDE, EXP, LOGISTIC, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.reduce import MEAN, SUM
from symgrad.rewrite.engine import Made, copied
from symgrad.rewrite.rules import stable_only


class Member(NamedTuple):
    """A function of a value or of its negative."""

    node: Node
    x: Node
    sign: int  # of x, among what is one value or its negative


@stable_only
def reuse_values(graph: Graph, numerics: str = "stable") -> Graph:
    """The slope of a logistic function from its value."""
    families = families_of(graph, lambda node: node.inputs[0] if node.op is LOGISTIC else None)
    first = {m.node: family[0].node for family in families for m in family if m.sign != family[0].sign}
    needed = _needed(graph, first) if first else {}
    instead = {node: _complement(value) for node, value in first.items() if not needed.get(node, NOTHING)}
    return copied(graph, instead) if instead else graph


def _complement(value: Node) -> Made:
    return lambda new, image: 1 - Variable(new, image[value])


# ---- whose digits are needed

NOTHING, DIGITS, NOT_ZERO = range(3)
"""Precision that users need of a value beside its absolute error; NOT_ZERO is for divisors."""

SMALL = 0.1
"""A number up to which something that is next to nothing counts beside it."""


def _needed(graph: Graph, others: Collection[Node]) -> dict[Node, int]:
    """Return the precision needed of each value; for logistic functions it decides which one is computed."""
    small = _small(graph, others)
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


def _small(graph: Graph, others: Collection[Node]) -> dict[Node, int]:
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
        elif op is DIVIDE and number(factors[1]) is not None:
            alone, factors = False, factors[:1]
        else:
            alone = op.singular or node in others
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


def families_of(graph: Graph, argument: Callable[[Node], Node | None]) -> Collection[list[Member]]:
    """Functions of one value or of its negative; `argument` gives what a node is a function of."""
    found: dict[Any, list[Member]] = {}
    for node in graph.live:
        x = argument(node)
        if x is not None and x.aval.dtype == node.aval.dtype:
            sign, rest = _sign_and_rest(x)
            found.setdefault(rest, []).append(Member(node, x, sign))
    return found.values()


def _sign_and_rest(x: Node) -> tuple[int, Any]:
    """A key that a value and its negative have in common, and which of the two it is."""
    if x.op is NEGATIVE:
        sign, rest = _sign_and_rest(x.inputs[0])
        return -sign, rest
    if x.op is ADD or x.op is SUBTRACT:
        return _sign_and_terms(x)
    if x.op is MULTIPLY or x.op is DIVIDE:
        (sign, a), (other, b) = map(_sign_and_factor, x.inputs)
        return sign * other, (x.op, frozenset((a, b)) if x.op is MULTIPLY else (a, b))
    return 1, x


def _sign_and_factor(x: Node) -> tuple[int, Any]:
    c = number(x)
    if c is not None:
        return (1, c) if c > 0 else (-1, -c)
    return (-1, x.inputs[0]) if x.op is NEGATIVE else (1, x)


def _sign_and_terms(x: Node) -> tuple[int, Any]:
    """The sign of the term that was there first, and both but for it: ``-a - c`` is the negative of ``a + c``."""
    terms = [(-1, y.inputs[0]) if y.op is NEGATIVE else (1, y) for y in x.inputs]
    if x.op is SUBTRACT:
        terms[1] = -terms[1][0], terms[1][1]
    (sign, a), (other, b) = sorted(terms, key=lambda term: term[1].id)
    return sign, (a, sign * other, b)
