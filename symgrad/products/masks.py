"""Masks of where a derivative flows: what differentiation has found with products of ones is found by `np.any`.

A mask is taken through a linear operator as numbers, with ones for the other operand, and is true where the result is
not zero. Nothing in it is negative, so that nothing cancels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.analysis.values import is_zeros, number
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import is_one
from symgrad.frontend.variable import Variable
from symgrad.ops.astype import ASTYPE
from symgrad.ops.create import FULL
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import MULTIPLY
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.reduce import ALL, ANY, SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.ops.shape import BROADCAST_TO, RESHAPE, TRANSPOSE
from symgrad.products.contractions import CONTRACTIONS, Contraction, contraction_of
from symgrad.rewrite.rules import procedure
from symgrad.rewrite.structure import with_axes, without

NOT_EQUAL: Any = TABLE[np.not_equal]

DEEPEST = 12
_MOVING = frozenset({TRANSPOSE, RESHAPE, BROADCAST_TO, GET})


@procedure(NOT_EQUAL, changes_nan=True)
def mask_from_numbers(graph: Graph, node: Node) -> Variable | Node | None:
    """``astype(mask) @ ones != 0`` is ``np.any(mask, axis=-1)``, and so for everything that sums, scales or spreads."""
    x, zero = node.inputs
    if number(zero) != 0 or not x.aval.shape:
        return None
    inner = _mask(x.inputs[0]) if len(x.inputs) == 1 else None
    if inner is not None and x.op is SUM:
        keepdims = dict(x.params).get("keepdims", False)
        return np.any(Variable(graph, inner), axis=reduced_axes(x), keepdims=keepdims)
    moved = _moved(graph, x)
    if moved is not None:
        return moved
    c = contraction_of(x) if x.op in CONTRACTIONS else None
    return _any(graph, c) if c is not None and len(c.terms) == 2 else None


def _moved(graph: Graph, x: Node, depth: int = DEEPEST) -> Node | None:
    """Where numbers are not zero that a mask was made of, moved, repeated, scaled and put among zeros."""
    mask = _mask(x)
    if mask is not None or not depth:
        return mask
    if x.op is MULTIPLY:
        scaled = [y for y, scale in (x.inputs, x.inputs[::-1]) if 0 < abs(number(scale) or 0) < np.inf]
        return _moved(graph, scaled[0], depth - 1) if scaled else None
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


def _any(graph: Graph, c: Contraction) -> Variable | None:
    """Where a contraction of a mask with one positive number everywhere is not zero."""
    for i in (0, 1):
        mask, ones = _mask(c.operands[i]), c.operands[1 - i]
        if mask is None or ones.op is not FULL or not (number(ones.inputs[0]) or 0) > 0:
            continue
        term = c.terms[i]
        gone = tuple(j for j, label in enumerate(term) if label not in c.out)
        y = Variable(graph, mask)
        y = np.any(y, axis=gone) if gone else y
        left = [label for label in term if label in c.out]
        order = sorted(range(len(left)), key=lambda j: c.out.index(left[j]))
        y = np.transpose(y, order) if order != sorted(order) else y
        missing = [j for j, label in enumerate(c.out) if label not in left]
        return with_axes(graph, y, missing, len(c.out)) if missing else y
    return None


@procedure(ANY, ALL, changes_nan=True)
def any_of_repeated(graph: Graph, node: Node) -> Variable | Node | None:
    """What is repeated is looked at once."""
    x = node.inputs[0]
    ndim, keepdims = len(x.aval.shape), dict(node.params).get("keepdims", False)
    if x.op is not BROADCAST_TO or len(x.inputs[0].aval.shape) != ndim:
        return None
    z, axes = x.inputs[0], reduced_axes(node)
    if z.aval.dtype.kind != "b" or not all(is_one(z.aval.shape[i]) for i in axes):
        return node.op(Variable(graph, z), axis=axes, keepdims=keepdims)
    return z if keepdims else without(graph, z, axes)
