"""The cotangent of a value, in the making: what its uses hand on, by the conditions under which something flows.

Shares under the same conditions are added as they come. Those of the two sides of a condition, as of
``np.where(x > 0, x, 0.01 * x)``, are a choice between them: where something flows no longer depends on it.
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
"""A condition, and whether it is one that must hold or one that must not."""

MOST = 12
"""Conditions that are told apart: as many as choices are made within each other."""

_AND, _NOT = TABLE[np.bitwise_and], TABLE[np.invert]


class Group(NamedTuple):
    """The sum of the shares under some conditions; of each of these the mask that says so."""

    masks: dict[Literal, Variable]
    sum: Cotangent

    def under(self, conditions: frozenset[Literal]) -> Mask:
        """The mask of those conditions alone."""
        return reduce(both, [mask for literal, mask in self.masks.items() if literal in conditions], None)


class Shares:
    """The shares of a value so far."""

    def __init__(self) -> None:
        self.groups: dict[frozenset[Literal], Group] = {}

    def add(self, g: Cotangent) -> None:
        masks = _literals(g.mask)
        conditions = frozenset(masks)
        old = self.groups.get(conditions)
        self.groups[conditions] = Group(masks, g) if old is None else old._replace(sum=_sum(old.sum, g))

    def total(self) -> Cotangent:
        """Their sum."""
        while len(self.groups) > 1 and self._join():
            pass
        return reduce(_sum, [group.sum for group in self.groups.values()])

    def _join(self) -> bool:
        """Join the sides of one condition, if there are two."""
        for conditions, group in self.groups.items():
            for node, holds in group.masks:
                others = conditions - {(node, holds)}
                opposite = self.groups.get(others | {(node, not holds)})
                if opposite is not None:
                    chosen, other = (group, opposite) if holds else (opposite, group)
                    del self.groups[conditions], self.groups[others | {(node, not holds)}]
                    self.add(_choice(Variable(chosen.masks[node, True].graph, node), chosen, other, others))
                    return True
        return False


def _choice(condition: Variable, chosen: Group, other: Group, conditions: frozenset[Literal]) -> Cotangent:
    value, mask = np.where(condition, chosen.sum.value, other.sum.value), chosen.under(conditions)
    return Cotangent(value, mask, None if chosen.sum.valid is None and other.sum.valid is None else mask)


def both(a: Mask, b: Mask) -> Mask:
    """Where two masks are true."""
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
    """The conditions that a mask is the conjunction of: the last ones on their own, those before together."""
    found: list[tuple[Literal, Variable]] = []
    while mask is not None:
        split = mask.node.op is _AND and len(found) < MOST
        rest, last = (Variable(mask.graph, x) for x in mask.node.inputs) if split else (None, mask)
        holds = last.node.op is not _NOT
        found.append(((last.node if holds else last.node.inputs[0], holds), last))
        mask = rest
    return dict(reversed(found))
