"""Values known before a program runs: numbers, zeros, ranges of indices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from symgrad.core.graph import CONSTANT, ITEM, SIZE, Literal, Node
from symgrad.core.shapes import broadcast_shapes, is_one
from symgrad.core.sizes import Dim, Size, same
from symgrad.ops.create import ARANGE, EYE, FULL
from symgrad.ops.grids import TRIL_INDICES, TRIU_INDICES
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import Slice, Slot
from symgrad.ops.shape import RESHAPE
from symgrad.ops.sorting import ARGSORT


def number(node: Node) -> Any:
    """Return the Python or NumPy scalar that a node is, None if it is no known scalar."""
    if node.op is not CONSTANT or node.aval.shape:
        return None
    literal = node.params[0][1]
    return literal.value if literal.weak else literal.value[()]


def is_known(node: Node) -> bool:
    """Whether a value is a constant, a size, or an array of one such number."""
    return node.op in (CONSTANT, SIZE) or (node.op is FULL and all(x.op in (CONSTANT, SIZE) for x in node.inputs))


def known_size(node: Node) -> Size | None:
    """Return the int or the symbolic size that a node is, None if it is neither."""
    if node.op is SIZE:
        size: Size = dict(node.params)["value"]
        return size
    value = number(node)
    return int(value) if isinstance(value, (int, np.integer)) else None


def is_zeros(node: Node) -> bool:
    """Whether a value is an array of zeros."""
    return node.op is FULL and number(node.inputs[0]) == 0


def one_number(node: Node) -> Any:
    """Return the scalar that all elements of a constant array are, to the last bit; None if they differ."""
    return _one_number(node.params[0][1]) if node.op is CONSTANT and node.aval.shape else None


def is_identity(node: Node) -> bool:
    """Whether a value is an identity matrix."""
    shape = node.aval.shape
    if len(shape) != 2 or not same(*shape):
        return False
    return dict(node.params)["k"] == 0 if node.op is EYE else node.op is CONSTANT and _is_identity(node.params[0][1])


@lru_cache(maxsize=256)
def _one_number(literal: Literal) -> Any:
    values = literal.value.reshape(-1, 1)
    if not values.size or values[0].tobytes() != values[-1].tobytes():
        return None
    bits = values.view(np.uint8)
    return values[0, 0] if np.all(bits == bits[0]) else None


@lru_cache(maxsize=256)
def _is_identity(literal: Literal) -> bool:
    values = literal.value
    return bool(values.size and values[0, 0] == 1 and np.array_equal(values, np.eye(len(values))))


def is_range(array: Node, size: Any) -> bool:
    """Whether an index array is every place of an axis, in order."""
    if len(array.aval.shape) != 1 or not same(array.aval.shape[0], size):
        return False
    if array.op is ARANGE:
        start, _, step = map(number, array.inputs)
        return bool(start == 0 and step == 1)
    return array.op is CONSTANT and np.array_equal(array.constant, np.arange(array.aval.shape[0]))


def raises_at_zero(node: Node) -> bool:
    """Whether Python raises for a zero where NumPy gives an infinity."""
    pole = None if node.op.pole is None else node.inputs[node.op.pole]
    return pole is not None and not _never_zero(pole)


def _never_zero(x: Node) -> bool:
    if x.op is CONSTANT:
        return bool(np.all(x.constant != 0))
    size = dict(x.params)["value"] if x.op is SIZE else None
    return isinstance(size, Dim) and (size.multiple is not None or size.scope.decide(operator.gt, size.expr) is True)


# ---- places under index arrays


def hits_once(node: Node) -> bool:
    """Whether an assignment under index arrays surely reaches no place twice.

    An array of different numbers tells the positions along its axes apart; if every axis of what the arrays broadcast
    to is told apart by one, no two positions are the same place. Nor are they where all arrays are known.
    """
    arrays = node.inputs[2:]
    joined = broadcast_shapes(*[a.aval.shape for a in arrays])
    keyed = [(arrays[item.input], size) for item, size in keyed_axes(node) if isinstance(item, Slot)]
    apart: set[int] = set()
    for array, size in keyed:
        if _all_different(array, size):
            shape = array.aval.shape
            apart.update(i - len(shape) for i, n in enumerate(shape) if not is_one(n))
    return all(is_one(n) or i - len(joined) in apart for i, n in enumerate(joined)) or _different_together(keyed)


def keyed_axes(node: Node) -> list[tuple[Any, Any]]:
    """The items of a key that use up an axis, each with the size of that axis."""
    items = [item for item in dict(node.params)["key"] if item is not None and item is not Ellipsis]
    return list(zip(items, node.aval.shape, strict=True))


def _different_together(keyed: Sequence[tuple[Node, Any]]) -> bool:
    """Whether several arrays, along axes of these sizes, name no place twice, as those of a triangle do not."""
    if len(keyed) < 2:
        return False
    (first, _), *others = keyed
    if first.op is ITEM and first.inputs[0].op in (TRIL_INDICES, TRIU_INDICES):
        return any(x is not first and x.inputs == first.inputs for x, _ in others)
    if not all(x.op is CONSTANT and isinstance(size, int) for x, size in keyed):
        return False
    return _are_different_together(tuple([(dict(x.params)["value"], size) for x, size in keyed]))


@lru_cache(maxsize=256)
def _are_different_together(keyed: tuple[tuple[Literal, int], ...]) -> bool:
    if not all(size for _, size in keyed):
        return True
    places = np.ravel_multi_index([x.value % size for x, size in keyed], [size for _, size in keyed])
    return len(np.unique(places)) == places.size


def _all_different(array: Node, size: Any) -> bool:
    array = _reordered(array)
    if array.op is ARGSORT:
        return array.aval.ndim == 1
    if array.op is ARANGE:
        start, _, step = map(number, array.inputs)
        return start is not None and start >= 0 and step is not None and step > 0
    if array.op is not CONSTANT:
        return False
    return _are_different(dict(array.params)["value"], size if isinstance(size, int) else None)


@lru_cache(maxsize=256)
def _are_different(literal: Literal, size: int | None) -> bool:
    """Looking through a long index takes longer than everything else that is asked about it, and is asked often."""
    values = literal.value
    if size is not None:
        values = values % max(size, 1)
    elif np.any(values < 0):
        return False
    return len(np.unique(values)) == np.size(values)


def _reordered(array: Node) -> Node:
    """Return the array whose numbers this one has in another shape."""
    while array.op is RESHAPE or (
        array.op is GET and all(item is None or item == Slice(None, None, None) for item in dict(array.params)["key"])
    ):
        array = array.inputs[0]
    return array
