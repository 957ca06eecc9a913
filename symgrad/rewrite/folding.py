"""Constants are folded, and marks go when they have done their work."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.core.graph import CONSTANT, INPUT, ITEM, SEED, SIZE, Graph, Node, Op
from symgrad.core.shapes import product
from symgrad.ops.create import FULL
from symgrad.ops.known import sizes_in
from symgrad.ops.marks import AGAIN, ALIAS, ENTER, LEAVE, STOP
from symgrad.ops.shape import BROADCAST_TO
from symgrad.rewrite.rules import Procedure, exact

SMALL = 64
"""A constant of so many numbers may be made, whatever it is made of."""


_LARGEST_EXACT = 2**31


@exact
def fold(graph: Graph, node: Node) -> Node | None:
    """An operation on constants is a constant, unless it would raise, warn or be larger than what it is made of."""
    for x in node.inputs:  # of most nodes the first tells
        if x.op is not CONSTANT:
            return None
    if not _worth_folding(node) or sizes_in(node.params):
        return None
    values = [dict(x.params)["value"].value for x in node.inputs]
    try:
        with np.errstate(all="raise", under="ignore"):
            result = node.op.evaluate(*values, **dict(node.params))
    except Exception:  # whatever it is, users' operators included: the program raises it when it runs
        return None
    if not _keeps_finite(values, result):
        return None
    if node.aval.weak:
        result = result.item() if isinstance(result, (np.generic, np.ndarray)) else result
        if type(result) is int and abs(result) > _LARGEST_EXACT:  # NumPy would have wrapped it, Python not
            return None
    image = graph.constant(result)
    return image if image.aval.dtype == node.aval.dtype and image.aval.weak == node.aval.weak else None


def _worth_folding(node: Node) -> bool:
    sizes = [product(x.aval.shape) for x in node.inputs]
    size = product(node.aval.shape)
    if not isinstance(size, int) or sizes_in(node.params):  # a place that depends on a symbol
        return False
    return size <= SMALL if node.op.view else size <= max(SMALL, *sizes)


def _keeps_finite(values: list[Any], result: Any) -> bool:
    if np.asarray(result).dtype.kind not in "fc":
        return True
    return bool(np.all(np.isfinite(result))) or not all(np.all(np.isfinite(v)) for v in values)


# ---- marks


@exact
def without_mark(graph: Graph, node: Node) -> Node:
    """A mark matters to differentiation only."""
    return node.inputs[0]


@exact
def constant_again(graph: Graph, node: Node) -> Node | None:
    """A constant is there: it is not computed again."""
    return node.inputs[0] if node.inputs[0].op is CONSTANT else None


_GIVEN = (INPUT, CONSTANT, SIZE, SEED, ITEM)
_OF: dict[Op, list[Procedure]] = {
    **{op: [] for op in (*_GIVEN, ALIAS, STOP, ENTER, LEAVE, FULL, BROADCAST_TO)},
    AGAIN: [constant_again],
}


def folding(op: Op) -> list[Procedure]:
    """What an operator is met with."""
    return _OF.get(op, [fold])


OF_MARKS: dict[Op, list[Procedure]] = {op: [without_mark] for op in (ALIAS, STOP, ENTER, LEAVE)}
"""And where nothing will be differentiated any more."""
