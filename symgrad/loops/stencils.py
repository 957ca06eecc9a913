"""Stencils: axis signatures of slices that shift rows, such as ``x[1:]``."""

from __future__ import annotations

from typing import Any, NamedTuple

from symgrad.analysis.cost import likely
from symgrad.core.axes import AxisSignature
from symgrad.core.graph import Aval, Node
from symgrad.core.shapes import slice_indices
from symgrad.core.sizes import Size, same
from symgrad.loops.row_gathers import row_signature
from symgrad.ops.create import EMPTY
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import EVERYTHING, Slice

FARTHEST = 1024  # rows by which a slice may move the others, or leave them out


class Moved(NamedTuple):
    """The label of an axis that an index slices: row r of the selection is row r + `by` of the array."""

    axis: int  # of the array
    by: Size
    size: Size  # how many rows are selected


class Selected(NamedTuple):
    """An item of an index that selects rows."""

    moved: Moved
    place: int  # of the axis in what is selected
    taken: bool  # by a number, which leaves no axis


def stencil_signature(node: Node) -> AxisSignature:
    """Return the axis signature, with `Moved` labels for axes from which slices of step 1 leave out few rows."""
    if node.op is EMPTY:
        return AxisSignature((), tuple(range(node.aval.ndim)))
    signature = row_signature(node)
    if node.op is GET:
        return _reading(signature, node)
    return _writing(signature, node) if node.op in (SET, ADD_AT) else signature


def moved_of(node: Node) -> list[Moved]:
    """Return the labels of the axes along which a node shifts rows."""
    return [label for label in stencil_signature(node).result if isinstance(label, Moved)]


def _reading(signature: AxisSignature, node: Node) -> AxisSignature:
    x = node.inputs[0]
    wide, narrow = list(signature.inputs[0]), list(signature.result)
    for moved, place, taken in _selected(node, x.aval):
        if not taken and _is_near(moved, x.aval.shape[moved.axis]):
            wide[moved.axis] = narrow[place] = moved
    return AxisSignature((tuple(wide), *signature.inputs[1:]), tuple(narrow), signature.combine)


def _writing(signature: AxisSignature, node: Node) -> AxisSignature:
    """Return the signature of an assignment, whose value has the assigned rows or is broadcast to them."""
    x, value = node.inputs[:2]
    wide, narrow = list(signature.result), list(signature.inputs[1])
    ndim = sum(item is None or isinstance(item, Slice) for item in dict(node.params)["key"])
    for moved, place, taken in _selected(node, x.aval):
        i = place - (ndim - value.aval.ndim)
        if taken:
            wide[moved.axis] = moved if place == 0 else None  # so that a row is spread over rows
        elif i < 0 or (same(value.aval.shape[i], 1) and not same(moved.size, 1)):
            wide[moved.axis] = moved
        elif same(value.aval.shape[i], moved.size) and _is_near(moved, x.aval.shape[moved.axis]):
            wide[moved.axis] = narrow[i] = moved
    return AxisSignature((tuple(wide), tuple(narrow), *signature.inputs[2:]), tuple(wide), signature.combine)


def _selected(node: Node, x: Aval) -> list[Selected]:
    """Return the axes that an index without arrays selects from, by a slice of step 1 or a number."""
    first = 1 if node.op is GET else 2
    if len(node.inputs) > first:
        return []
    found, axis, place = [], 0, 0
    for item in dict(node.params)["key"]:
        by = None if item is None else _begin(item, x.shape[axis])
        if by is not None:
            is_slice = isinstance(item, Slice)
            size = slice_indices(x.shape[axis], *item)[3] if isinstance(item, Slice) else 1
            found.append(Selected(Moved(axis, by, size), place, not is_slice))
        axis += item is not None
        place += item is None or isinstance(item, Slice)
    return found


def _begin(item: Any, size: Size) -> Size | None:
    """Return the first row that an item selects; None if it selects all, takes steps, or is unknown."""
    if item == EVERYTHING:
        return None
    if not isinstance(item, Slice):
        return size + item if isinstance(item, int) and item < 0 else item if isinstance(item, int) else None
    if item.step not in (None, 1):
        return None
    start = slice_indices(size, *item)[0]
    return 0 if start is None else start if isinstance(start, int) and start >= 0 else None


def _is_near(moved: Moved, size: Size) -> bool:
    return isinstance(moved.by, int) and max(moved.by, likely(size) - likely(moved.size)) <= FARTHEST
