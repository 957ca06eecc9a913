"""Values without dimensions that NumPy computes as arrays, where it computes others as scalars."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.core.graph import ITEM, Node, is_view
from symgrad.core.region import regions_of
from symgrad.ops.arrange import ROLL
from symgrad.ops.astype import ASTYPE
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.choice import WHERE
from symgrad.ops.control import COND, SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.ops.create import EMPTY, FULL
from symgrad.ops.index import ADD_AT, SET
from symgrad.ops.marks import ALIAS, STOP

PASS_ON = (ALIAS, STOP, ASTYPE, BARRIER)
"""Operators that give an array of no dimensions for one, and a scalar for a scalar."""
MAKE = (WHERE, FULL, EMPTY, SET, ADD_AT, ROLL)
"""Operators that give an array of no dimensions where others give a scalar."""


def is_zero_dimensional(node: Node) -> bool:
    """Whether a value is an array of no dimensions that the program makes, or one from some branch or iteration."""
    if node.aval.shape or node.aval.weak:
        return False
    while node.op in PASS_ON or (is_view(node) and not node.inputs[0].aval.shape):
        node = node.inputs[0]
    if node.op is ITEM and node.inputs[0].op in (COND, SCAN):
        return any(map(is_zero_dimensional, _results(node.inputs[0], dict(node.params)["index"])))
    return node.op in MAKE


def _results(node: Node, i: int) -> Iterable[Node]:
    """Return what a result of a branch or a loop is: that of a side, or of an iteration."""
    if node.op is COND:
        sides = [side.body for side in regions_of(node)]
        operand = {x: y for side in sides for x, y in zip(side.inputs, node.inputs[1:], strict=True)}
        return [operand.get(y, y) for y in (side.outputs[i] for side in sides)]
    return [carry.update for carry in loop_of(node).carry[i : i + 1]]
