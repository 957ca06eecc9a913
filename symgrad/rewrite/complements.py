"""Logistic functions of one value and of its negative: ``1 - s`` instead of another exponential.

The slope of ``s = logistic(x)`` is ``s * logistic(-x)``, which has all of its digits wherever x is.
Beside others in a sum, or a product of matrices, ``s * (1 - s)`` is as right: there a slope next to nothing changes
nothing. But it has lost half of its digits where x is 18, and is zero from 37 on: what a result is a multiple of stays
as it is, and so does what is divided by, or is added to what may be next to nothing as well.

This looks at all of a graph: who needs the digits of a value comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import reduce
from operator import and_, or_
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.values import number
from symgrad.core.graph import CONSTANT, Aval, Graph, Node, Op
from symgrad.frontend.variable import Variable
from symgrad.ops.astype import ASTYPE
from symgrad.ops.choice import CLIP, MAXIMUM, MINIMUM, WHERE
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import ADD, DIVIDE, EXP, LOGISTIC, MULTIPLY, NEGATIVE, POWER, SUBTRACT
from symgrad.ops.reduce import MEAN, SUM
from symgrad.rewrite.engine import Made, copied
from symgrad.rewrite.rules import stable_only

TANH = TABLE[np.tanh]


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


def _needed(graph: Graph, first: Mapping[Node, Node]) -> dict[Node, int]:
    """Return the precision needed of each value; for complements, given with the value of each, it decides."""
    bits = {value: 1 << k for k, value in enumerate(dict.fromkeys(first.values()))}
    tails = _Tails(graph, bits, {node: bits[value] for node, value in first.items()})
    needed = dict.fromkeys(graph.outputs, DIGITS)
    for node in reversed(graph.live):
        for i, x in enumerate(node.inputs):
            need = tails.handed_on(node, i, needed.get(node, NOTHING))
            if need > needed.get(x, NOTHING):
                needed[x] = need
    return needed


class _Tails:
    """Values in the tails of slopes, where the complement of a logistic function is next to nothing.

    A tail has a bit. The function itself is about one in its tail, and so are inputs: what is added to a complement
    there makes its digits needless. Slopes, exponentials, quotients, masks, and logistic functions of related values
    may vanish where the complement does.
    """

    def __init__(self, graph: Graph, values: Mapping[Node, int], complements: Mapping[Node, int]) -> None:
        self.comes_from: dict[Node, int] = {}  # the tails of the complements that a value is computed from
        self.counts: dict[Node, int] = {}  # those in which it is not negligible
        self.matters: dict[Node, int] = {}  # the precision that still matters beside a negligible one
        self.everywhere = (1 << len(values)) - 1
        related = _related(graph, values)
        for node in graph.live:
            self.comes_from[node] = reduce(or_, [self.comes_from[x] for x in node.inputs], complements.get(node, 0))
            if node.op is LOGISTIC:
                self.counts[node] = (self.everywhere & ~related[node]) | values.get(node, 0)
                self.matters[node] = DIGITS
            else:
                self._note(node)

    def _note(self, node: Node) -> None:
        """Note in which tails the value of any other operator counts."""
        op = node.op
        factors = node.inputs[:1] if _is_over_number(node) else node.inputs[op is WHERE :]
        counted = [self.counts[x] for x in factors]
        if _may_vanish(node):
            self.counts[node] = 0
        else:
            self.counts[node] = reduce(and_ if op in _LEAST or op.contracts else or_, counted or [self.everywhere])
        mattering = [self.matters[x] for x in factors if self.counts[x] != self.everywhere]
        least = min if op is MULTIPLY or op.contracts else max
        self.matters[node] = NOT_ZERO if _mixes(op) else least(mattering, default=DIGITS)

    def handed_on(self, node: Node, i: int, need: int) -> int:
        """Return the precision that an operator needs of an input, from that needed of its result."""
        op = node.op
        if op is EXP:
            return NOTHING
        if op is ADD or op is SUBTRACT:
            other = node.inputs[1 - i]
            vanishes = self.comes_from[node.inputs[i]] & ~self.counts[other]
            return need if vanishes and need >= self.matters[other] else NOTHING
        if op.singular and (op is not DIVIDE or i == 1):
            return NOT_ZERO
        return NOTHING if _mixes(op) and need < NOT_ZERO else need


_LEAST = (MULTIPLY, WHERE, MAXIMUM, MINIMUM, CLIP)
"""Operators whose result may be negligible where one operand is."""


def _may_vanish(node: Node) -> bool:
    """Whether a value is near zero for many inputs, by what computes it."""
    op = node.op
    if op is CONSTANT:
        c = number(node)
        return c is not None and abs(c) < SMALL
    if op is ADD or op is SUBTRACT:
        return any(number(c) is not None and _has_tanh(x) for c, x in (node.inputs, node.inputs[::-1]))
    aval = node.inputs[0].aval if op is ASTYPE else node.aval
    if type(aval) is Aval and aval.dtype.kind == "b":  # a mask
        return True
    return bool(op.singular) and not _is_over_number(node)


def _is_over_number(node: Node) -> bool:
    return node.op is DIVIDE and number(node.inputs[1]) is not None


def _related(graph: Graph, values: Mapping[Node, int]) -> dict[Node, int]:
    """Return the tails of the functions that have an origin in common with a value.

    Origins are what it is computed from number by number: inputs, and sums over other numbers.
    """
    ahead: dict[Node, int] = {}  # the tails of the functions that are computed from a value
    for node in reversed(graph.live):
        ahead[node] = ahead.get(node, 0) | values.get(node, 0)
        for x in () if _mixes(node.op) else node.inputs:
            ahead[x] = ahead.get(x, 0) | ahead[node]
    found: dict[Node, int] = {}
    for node in graph.live:
        is_origin = not node.inputs or _mixes(node.op)
        found[node] = ahead[node] if is_origin else reduce(or_, [found[x] for x in node.inputs])
    return found


def _has_tanh(x: Node) -> bool:
    """Whether a value is a power of a hyperbolic tangent, perhaps times a number: its slope is made of that."""
    while x.op is MULTIPLY or x.op is POWER:
        x = x.inputs[number(x.inputs[0]) is not None]
    return x.op is TANH


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
