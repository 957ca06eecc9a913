"""Consecutive places along one axis of an array: what passes read of it, and how they write it."""

from __future__ import annotations

from typing import Any, NamedTuple

from symgrad.core.graph import Node
from symgrad.frontend.variable import Variable
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import EVERYTHING, Slice


class Run(NamedTuple):
    """``array[..., start:stop, ...]`` along an axis, or ``array[..., start, ...]``, which has not `kept` it."""

    array: Node
    axis: int
    start: int
    stop: int
    kept: bool


def run_of(x: Node) -> Run | None:
    """A value as places of an array whose length is known."""
    key = dict(x.params)["key"] if x.op is GET and len(x.inputs) == 1 else ()
    axes = [i for i, item in enumerate(key) if item != EVERYTHING]
    if len(axes) != 1 or key[axes[0]] is None:
        return None
    array, axis, item = x.inputs[0], axes[0], key[axes[0]]
    size = array.aval.shape[axis]
    if not isinstance(size, int):
        return None
    if isinstance(item, int):
        return Run(array, axis, item % size, item % size + 1, kept=False)
    if not isinstance(item, Slice):  # a symbol
        return None
    start = 0 if item.start is None else item.start
    stop = size if item.stop is None else item.stop
    if not all(type(n) is int for n in (start, stop)) or item.step is not None:  # to ask a symbol would fix its value
        return None
    return Run(array, axis, start, stop, kept=True) if 0 <= start < stop <= size else None


def along(array: Variable, axis: int, item: Any) -> Variable:
    """The array under an index along one axis."""
    key = (*(EVERYTHING,) * axis, item, *(EVERYTHING,) * (array.ndim - axis - 1))
    return Variable(array.graph, array.graph.add(GET, (array.node,), (("key", key),)))


def places(array: Variable, axis: int, start: int, stop: int) -> Variable:
    """The places from `start` to `stop`."""
    size = array.shape[axis]
    if start == 0 and stop == size:
        return array
    return along(array, axis, Slice(start or None, None if stop == size else stop, None))
