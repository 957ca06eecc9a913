"""The sum of a value's cotangents: the contributions of its uses, grouped by the conditions under which they flow.

Shares under the same conditions are added as they come. Those of the two sides of a condition, as of
``np.where(x > 0, x, 0.01 * x)``, are a choice between them: where something flows no longer depends on it. So are those
under ``c & p`` and ``~c & q``, if both are to be cleaned: what flows under neither is under the opposite of one mask.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple, TypeAlias

import numpy as np

from symgrad.core.graph import Node
from symgrad.derivatives.cotangent import Cotangent, Mask
from symgrad.frontend.variable import Variable
from symgrad.ops.define import TABLE

Literal: TypeAlias = tuple[Node, bool]
"""A condition, and whether it must hold or must not."""

MOST = 12
"""Most conditions that are told apart: choices nested in each other."""

_AND, _NOT = TABLE[np.bitwise_and], TABLE[np.invert]


class Group(NamedTuple):
    """The sum of the contributions under some conditions, with the mask of each."""

    masks: dict[Literal, Variable]
    sum: Cotangent

    def under(self, conditions: frozenset[Literal]) -> Mask:
        """Return the mask of those conditions alone."""
        return reduce(both, [mask for literal, mask in self.masks.items() if literal in conditions], None)


class Shares:
    """The shares of a value so far."""

    def __init__(self) -> None:
        self.groups: dict[frozenset[Literal], Group] = {}

    def add(self, g: Cotangent) -> None:
        masks = {} if g.mask is None else _literals(g.mask)
        conditions = frozenset(masks)
        old = self.groups.get(conditions)
        self.groups[conditions] = Group(masks, g) if old is None else old._replace(sum=_sum(old.sum, g))

    def total(self) -> Cotangent:
        """Their sum."""
        while len(self.groups) > 1 and self._join():
            pass
        return reduce(_sum, [group.sum for group in self.groups.values()])

    def plain(self) -> Variable | None:
        """Their sum, if nothing masks it."""
        group = self.groups.get(frozenset())
        return group.sum.value if group and len(self.groups) == 1 and group.sum.valid is None else None

    def _join(self) -> bool:
        """Join the sides of one condition, if both are there: first groups that agree on all others."""
        for join in (self._beside, self._across):
            for conditions, group in self.groups.items():
                for literal in group.masks:
                    if join(conditions, literal):
                        return True
        return False

    def _beside(self, conditions: frozenset[Literal], literal: Literal) -> bool:
        """Join a group with the one under the opposite of a condition and the same others."""
        others = conditions - {literal}
        opposite = others | {(literal[0], not literal[1])}
        if opposite not in self.groups:
            return False
        self._choose(literal, conditions, opposite, self.groups[conditions if literal[1] else opposite].under(others))
        return True

    def _across(self, conditions: frozenset[Literal], literal: Literal) -> bool:
        """Join a group with one under the opposite of a condition and others, if both are to be cleaned anyway."""
        node, holds = literal
        rest = self.groups[conditions].under(conditions - {literal})
        if not holds or rest is None or self.groups[conditions].sum.valid is None:
            return False
        for opposite, group in self.groups.items():
            apart = (node, False) in opposite and opposite != conditions  # a condition may be in its own way
            other = group.under(opposite - {(node, False)}) if apart else None
            if other is not None and group.sum.valid is not None:
                self._choose(literal, conditions, opposite, _either(Variable(rest.graph, node), rest, other))
                return True
        return False

    def _choose(self, literal: Literal, here: frozenset[Literal], there: frozenset[Literal], mask: Mask) -> None:
        """Put a choice between the sums of two groups, under a mask, in their places."""
        node, holds = literal
        side, opposite = self.groups.pop(here), self.groups.pop(there)
        a, b = (side.sum, opposite.sum) if holds else (opposite.sum, side.sum)
        alike = a.value.node is b.value.node
        value = a.value if alike else np.where(Variable(a.value.graph, node), a.value, b.value)
        self.add(Cotangent(value, mask, None if a.valid is None and b.valid is None else mask))


def _either(condition: Variable, a: Variable, b: Variable) -> Variable:
    """One mask where a condition holds, another where not; in the one form that its opposite is the opposite of."""
    if a.node.op is _NOT:
        return ~np.where(condition, _opposite(a), _opposite(b))
    return np.where(condition, a, b)


def _opposite(mask: Variable) -> Variable:
    return Variable(mask.graph, mask.node.inputs[0]) if mask.node.op is _NOT else ~mask


def both(a: Mask, b: Mask) -> Mask:
    """Return the conjunction of two masks."""
    if a is None or b is None:
        return b if a is None else a
    return a if a.node is b.node else a & b


def _sum(a: Cotangent, b: Cotangent) -> Cotangent:
    if a.mask is None or b.mask is None:
        return Cotangent(a.settled() + b.settled())
    if a.mask.node is not b.mask.node:
        return Cotangent(a.settled() + b.settled(), a.mask | b.mask)
    if a.valid is not None and b.valid is not None and a.valid.node is not b.valid.node:
        return Cotangent(a.settled() + b.settled(), a.mask)
    return Cotangent(a.value + b.value, a.mask, b.valid if a.valid is None else a.valid)


def _literals(mask: Mask) -> dict[Literal, Variable]:
    """Return the conditions whose conjunction a mask is: the last ones separately, those before together."""
    found: list[tuple[Literal, Variable]] = []
    while mask is not None:
        split = mask.node.op is _AND and len(found) < MOST
        rest, last = (Variable(mask.graph, x) for x in mask.node.inputs) if split else (None, mask)
        holds = last.node.op is not _NOT
        found.append(((last.node if holds else last.node.inputs[0], holds), last))
        mask = rest
    return dict(reversed(found))
