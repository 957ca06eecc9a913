"""Masks of a derivative: reductions of numbers that stand for masks become reductions by `np.any`.

A mask is taken through a linear operator as numbers, with ones for the other operand, and is true where the result is
not zero. All of these numbers have one sign, so that nothing cancels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.analysis.values import is_zeros, number
from symgrad.core.graph import Graph, Node
from symgrad.frontend.variable import Variable
from symgrad.ops.astype import ASTYPE
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import MULTIPLY, NEGATIVE
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.reduce import SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.ops.shape import BROADCAST_TO, RESHAPE, TRANSPOSE
from symgrad.rewrite.rules import procedure

NOT_EQUAL: Any = TABLE[np.not_equal]

DEEPEST = 12
_MOVING = frozenset({TRANSPOSE, RESHAPE, BROADCAST_TO, GET})


@procedure(NOT_EQUAL, changes_nan=True)
def mask_from_numbers(graph: Graph, node: Node) -> Variable | Node | None:
    """``sum(astype(mask)) != 0`` is ``np.any(mask)``, and so for everything that moves, scales or spreads."""
    x, zero = node.inputs
    if number(zero) != 0 or not x.aval.shape:
        return None
    return _moved(graph, x)


def _moved(graph: Graph, x: Node, depth: int = DEEPEST) -> Node | None:
    """Return the mask of nonzeros in a value made from a mask by moving, repeating, summing, scaling and padding."""
    mask = _mask(x)
    if mask is not None or not depth:
        return mask
    if x.op is MULTIPLY:
        scaled = [y for y, scale in (x.inputs, x.inputs[::-1]) if 0 < abs(number(scale) or 0) < np.inf]
        return _moved(graph, scaled[0], depth - 1) if scaled else None
    if x.op is NEGATIVE:
        return _moved(graph, x.inputs[0], depth - 1)
    if x.op is SUM:
        y = _moved(graph, x.inputs[0], depth - 1)
        keepdims = dict(x.params).get("keepdims", False)
        return None if y is None else np.any(Variable(graph, y), axis=reduced_axes(x), keepdims=keepdims).node
    if x.op in _MOVING and len(x.inputs) == 1:
        y = _moved(graph, x.inputs[0], depth - 1)
        return None if y is None else graph.add(x.op, (y,), x.params)
    if x.op in (SET, ADD_AT) and len(x.inputs) == 2 and is_zeros(x.inputs[0]):
        y = _moved(graph, x.inputs[1], depth - 1)
        zeros = np.full(x.aval.shape, False, like=Variable(graph, x)).node
        return None if y is None else graph.add(SET, (zeros, y), x.params)
    return None


def _mask(x: Node) -> Node | None:
    """The mask that numbers were made of."""
    return x.inputs[0] if x.op is ASTYPE and x.inputs[0].aval.dtype.kind == "b" else None
