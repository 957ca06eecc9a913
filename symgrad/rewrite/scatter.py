"""Scatter: indices hit once are assigned, and reductions and sums of scattered values skip the scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.analysis.values import hits_once, is_range, is_zeros, keyed_axes, number
from symgrad.core.graph import Aval, Graph, Node
from symgrad.core.shapes import broadcast_shapes, same_shape
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import EVERYTHING, Slice, Slot, composed, indexed_shape
from symgrad.ops.places import is_bounded_by_index
from symgrad.ops.reduce import SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.rewrite.engine import alone
from symgrad.rewrite.rules import procedure


def _scattered(node: Node) -> bool:
    """Whether a value is an array of zeros with numbers written or added to places of which none is hit twice."""
    if (node.op is not SET and node.op is not ADD_AT) or not is_zeros(node.inputs[0]):
        return False
    if len(node.inputs) < 3:
        return is_bounded_by_index(node)
    return node.op is ADD_AT or hits_once(node)


def _scattered_one_by_one(graph: Graph, node: Node) -> list[Node] | None:
    """Return the writes and additions to zeros, the last first, where their intermediate arrays have no other user."""
    found = [node]
    while found[-1].op is ADD_AT and not is_zeros(found[-1].inputs[0]):
        if not alone(graph, found[-1].inputs[0]):
            return None
        found.append(found[-1].inputs[0])
    return found if _scattered(found[-1]) else None


# ---- procedures


@procedure(ADD_AT, exact=True, plane="all")
def add_where_hit_once(graph: Graph, node: Node) -> Node | None:
    """``np.add.at`` into zeros is an assignment where no place is hit twice."""
    if len(node.inputs) < 3 or not is_zeros(node.inputs[0]) or not hits_once(node):
        return None
    return graph.add(SET, node.inputs, node.params)


@procedure(ADD_AT, changes_nan=True, plane="all")
def add_zeros(graph: Graph, node: Node) -> Node | None:
    """Zeros added to some places change nothing: those of windows with gaps between their places."""
    base, value = node.inputs[:2]
    return base if is_zeros(value) or number(value) == 0 else None


@procedure(ADD_AT, SET, exact=True, plane="all")
def everything_written(graph: Graph, node: Node) -> Variable | None:
    """Zeros with a number written to each place, or added, are these numbers."""
    if len(node.inputs) != 3 or dict(node.params)["key"] != (Slot(0),) or not is_zeros(node.inputs[0]):
        return None
    if not is_range(node.inputs[2], node.aval.shape[0]):
        return None
    value, aval = Variable(graph, node.inputs[1]), node.aval
    if not value.ndim:
        return np.full(aval.shape, value, aval.dtype, like=value)
    return np.broadcast_to(value.astype(aval.dtype), aval.shape)


@procedure(SUM, of={SET, ADD_AT}, plane="all")
def sum_of_scattered(graph: Graph, node: Node) -> Variable | None:
    """Along the axes of the sum it does not matter where a number is put."""
    x = node.inputs[0]
    if not _scattered(x) or node.aval.dtype != x.aval.dtype:
        return None
    items = keyed_axes(x)
    if not all(isinstance(item, Slot) for item, _ in items) or len(items) != len(dict(x.params)["key"]):
        return None
    axes = reduced_axes(node)
    value, arrays = Variable(graph, x.inputs[1]), x.inputs[2:]
    joined = broadcast_shapes(*[a.aval.shape for a in arrays])
    kept = [arrays[item.input] for i, (item, _) in enumerate(items) if i not in axes]
    if not kept:
        return np.sum(np.broadcast_to(value, joined))
    if not same_shape(broadcast_shapes(*[a.aval.shape for a in kept]), joined):
        return None
    shape = tuple(n for i, (_, n) in enumerate(items) if i not in axes)
    zeros = np.full(shape, 0.0, x.aval.dtype, like=value)
    y = graph.add(ADD_AT, (zeros.node, value.node, *kept), (("key", tuple(map(Slot, range(len(kept))))),))
    return np.reshape(Variable(graph, y), node.aval.shape)


@procedure(ADD, SUBTRACT, of={SET, ADD_AT}, plane="all")
def sum_with_scattered(graph: Graph, node: Node) -> Node | None:
    """``x + scattered`` is ``x`` with the numbers added in place."""
    pairs = [node.inputs] if node.op is SUBTRACT else [node.inputs, node.inputs[::-1]]
    for x, y in pairs:
        parts = _scattered_one_by_one(graph, y)
        if parts and x.aval.dtype == y.aval.dtype and same_shape(x.aval.shape, y.aval.shape):
            for part in reversed(parts):
                value = Variable(graph, part.inputs[1])
                value = -value if node.op is SUBTRACT else value
                x = graph.add(ADD_AT, (x, value.node, *part.inputs[2:]), part.params)
            return x
    return None


@procedure(MULTIPLY, DIVIDE, NEGATIVE, of={SET, ADD_AT}, changes_nan=True)
def scaled_scattered(graph: Graph, node: Node) -> Node | None:
    """A multiple of what was scattered: the numbers are scaled first."""
    for i, x in enumerate(node.inputs[:1] if node.op is DIVIDE else node.inputs):
        if not _scattered(x):
            continue
        if any(type(c.aval) is not Aval or c.aval.shape for c in (*node.inputs[:i], *node.inputs[i + 1 :])):
            continue
        if node.aval.dtype != x.aval.dtype or x.aval.dtype.kind != "f" or not alone(graph, x):
            continue
        value = graph.add(node.op, (*node.inputs[:i], x.inputs[1], *node.inputs[i + 1 :]), node.params)
        if value.aval.dtype == node.aval.dtype:
            return graph.add(x.op, (x.inputs[0], value, *x.inputs[2:]), x.params)
    return None


def increment(graph: Graph, node: Node) -> Node | None:
    """Return ``y[1:] += v`` for ``y[1:] = y[1:] + v``; None for any other assignment."""
    y, total, *places = node.inputs
    if total.op not in (ADD, SUBTRACT) or total.aval.dtype != y.aval.dtype:
        return None
    for read, value in [total.inputs, total.inputs[::-1]][: 1 if total.op is SUBTRACT else 2]:
        is_own = read.op is GET and read.inputs == (y, *places) and read.params == node.params
        if is_own and same_shape(total.aval.shape, read.aval.shape):
            negated = value if total.op is ADD else graph.add(NEGATIVE, (value,))
            return graph.add(ADD_AT, (y, negated, *places), node.params)
    return None


@procedure(SET, of={ADD, SUBTRACT}, exact=True, plane="all")
def added_in_place(graph: Graph, node: Node) -> Node | None:
    """Numbers are added in place, as derivatives are written."""
    return increment(graph, node) if len(node.inputs) == 2 and alone(graph, node.inputs[1]) else None


@procedure(ADD_AT, SET, of={SET}, exact=True, plane="all")
def written_twice(graph: Graph, node: Node) -> Node | None:
    """Numbers that are written over the last, or added to zeros that were written, are written alone."""
    last, value, *arrays = node.inputs
    if last.op is not SET or [*last.inputs[2:]] != arrays or last.params != node.params or not alone(graph, last):
        return None
    if node.op is ADD_AT and (number(last.inputs[1]) != 0 or not hits_once(node)):
        return None
    return graph.add(SET, (last.inputs[0], value, *arrays), node.params)


@procedure(SET, of={GET}, exact=True, plane="all")
def written_back(graph: Graph, node: Node) -> Node | None:
    """An array into which its own numbers are written where they are is that array."""
    y, value = node.inputs[:2]
    is_own = value.op is GET and value.inputs == (y, *node.inputs[2:]) and value.params == node.params
    return y if is_own else None


# ---- what was scattered under slices


@procedure(ADD_AT, SET, changes_nan=True, plane="all")
def scattered_twice(graph: Graph, node: Node) -> Node | None:
    """Merge two scatters under slices of zeros into one.

    The derivative of every eighth window is added where these windows lie, without an array for all windows.
    """
    base, content = node.inputs[:2]
    x, read = (content.inputs[0], _slices(content)) if content.op is GET else (content, None)
    if len(node.inputs) > 2 or (node.op is SET and not is_zeros(base)) or not _lies_in_zeros(x):
        return None
    put, outer, value = _slices(x), _slices(node), x.inputs[1]
    read = read or ((EVERYTHING,) * len(x.aval.shape) if content is x else None)
    if put is None or read is None or outer is None:
        return None
    if any(EVERYTHING not in pair for pair in zip(read, put, strict=True)):
        return None
    places = [p for r, p in zip(read, put, strict=True) if isinstance(r, Slice)]
    part = [r for r, p in zip(read, put, strict=True) if isinstance(p, Slice)]
    if len(places) != sum(isinstance(item, Slice) for item in outer):
        return None  # it is broadcast
    inner = iter(places)
    key = [composed(item, next(inner)) if isinstance(item, Slice) else item for item in outer]
    if any(item is None for item in key):
        return None
    if any(item != EVERYTHING for item in part):
        value = graph.add(GET, (value,), (("key", tuple(part)),))
    if not same_shape(indexed_shape(node.aval.shape, tuple(key), ()), value.aval.shape):
        return None
    return graph.add(node.op, (base, value), (("key", tuple(key)),))


def _lies_in_zeros(x: Node) -> bool:
    """Whether a value is zeros but for another that fills a part of them."""
    if x.op not in (SET, ADD_AT) or len(x.inputs) > 2 or not is_zeros(x.inputs[0]):
        return False
    return same_shape(indexed_shape(x.aval.shape, dict(x.params)["key"], ()), x.inputs[1].aval.shape)


def _slices(node: Node) -> tuple[Any, ...] | None:
    """The key of a node, if it is one of slices and numbers for all axes."""
    key = dict(node.params)["key"]
    return key if all(isinstance(item, (Slice, int)) for item in key) else None
