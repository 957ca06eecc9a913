"""Areas of an array: parts that contain all the elements which a loop or a branch may write.

In ``for j in range(m): A[i, k * j] = ...`` the area is ``A[i]``. The index of the first axis is loop-invariant; that of
the second axis varies, so the area has the whole axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from symgrad.analysis.values import known_size
from symgrad.core.graph import CONSTANT, ITEM, SIZE, Graph, Node, Params, freeze
from symgrad.core.region import Region, regions_of
from symgrad.core.sizes import Size, at_most
from symgrad.frontend.variable import Variable
from symgrad.ops.control import COND, SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.ops.elementwise import ADD, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import EVERYTHING, Slot

Place: TypeAlias = tuple[Sequence[Node], Params]
"""The place of an assignment: index arrays, and the parameters of GET and SET."""

Outside = Callable[[Node], Node | None]
"""Gives the value outside of a loop that equals an invariant value inside; None for a value that varies."""

INTEGERS = {ADD, SUBTRACT, MULTIPLY, NEGATIVE}
"""Operators of indices that can be computed again anywhere: they never fail."""


def version_before(node: Node) -> Node | None:
    """Return the version of an array that an assignment, a loop or a branch updates; None for other nodes."""
    if node.op.assigns:
        return node.inputs[0]
    if node.op is not ITEM:
        return None
    maker, number = node.inputs[0], dict(node.params)["index"]
    if maker.op is SCAN:
        carry = loop_of(maker).carry
        init: Node | None = carry[number].init if number < len(carry) else None
        return init
    operand = operand_of(node) if maker.op is COND else None
    return None if operand is None else maker.inputs[1 + operand]


def operand_of(node: Node) -> int | None:
    """Return the number of the operand that both sides of a branch update to this result; None if there is none."""
    found = {_origin(side, dict(node.params)["index"]) for side in regions_of(node.inputs[0])}
    return found.pop() if len(found) == 1 else None


def _origin(side: Region, number: int) -> int | None:
    """Return the number of the parameter that a side updates to a result."""
    node: Node | None = side.results[number]
    while node is not None and node not in side.parameters:
        node = version_before(node)
    return None if node is None else side.parameters.index(node)


def areas(graph: Graph, node: Node, ends: Mapping[Node, tuple[Size, Size]]) -> list[Place]:
    """Return the areas that a loop or a branch writes to make a version of an array; none if it may write all of it.

    Indices are clipped to the array: a loop without iterations writes nothing, so its index may be out of bounds.
    `ends` has the least and the largest values of indices, for which that is not needed.
    """
    written = _written(graph, node, lambda x: x)
    keys = [items for items in written if items is not None]
    if len(keys) < len(written):
        return []
    found: dict[Any, Place] = {}
    for items in keys:
        if all(item == EVERYTHING for item in items):
            return []
        if any(_contains(other, items) and not _contains(items, other) for other in keys):
            continue
        indices = [x for x in items if isinstance(x, Node)]
        numbers = count()
        key = tuple([Slot(next(numbers)) if isinstance(x, Node) else x for x in items])
        sizes = [n for x, n in zip(items, node.aval.shape, strict=True) if isinstance(x, Node)]
        within = [_within(graph, x, n, ends) for x, n in zip(indices, sizes, strict=True)]
        found[key, *indices] = within, freeze(GET, {"key": key})
    return [*found.values()]


def _within(graph: Graph, x: Node, n: Size, ends: Mapping[Node, tuple[Size, Size]]) -> Node:
    """Return an index if it is one of an axis of `n` numbers, else the nearest one that is."""
    found = _ends(x, ends)
    if found is not None and at_most(0, found[0] + n) and at_most(found[1], n - 1):
        return x
    return np.clip(Variable(graph, x), -n, n - 1).node


def _ends(x: Node, given: Mapping[Node, tuple[Size, Size]]) -> tuple[Size, Size] | None:
    """Return the least and the largest value of an index, None if they are not known."""
    size = known_size(x)
    if x in given or size is not None:
        return given.get(x, (size, size))  # type: ignore[arg-type]
    inner = [_ends(y, given) for y in x.inputs] if x.op in (ADD, SUBTRACT) else [None]
    if None in inner:
        return None
    (a, b), (c, d) = inner  # type: ignore[misc]
    return (a + c, b + d) if x.op is ADD else (a - d, b - c)


def _contains(area: list[Any], other: list[Any]) -> bool:
    return all(item in (EVERYTHING, same) for item, same in zip(area, other, strict=True))


def _written(graph: Graph, node: Node, outside: Outside) -> list[list[Any] | None]:
    """Return the keys of all assignments that make a version of an array, with None for what is not known."""
    if node.op.assigns:
        return [_items(node, outside)]
    maker, number = node.inputs[0], dict(node.params)["index"]
    if maker.op is SCAN:
        loop = loop_of(maker)
        given = {x.value: x.source for x in loop.consts}
        carry = loop.carry[number]
        return _chained(graph, carry.value, carry.update, _outside_of(graph, given, outside))
    found: list[list[Any] | None] = []
    for side in regions_of(maker):
        operand = _origin(side, number)
        assert operand is not None
        given = dict(zip(side.parameters, maker.inputs[1:], strict=True))
        inner = _outside_of(graph, given, outside)
        found += _chained(graph, side.parameters[operand], side.results[number], inner)
    return found


def _chained(graph: Graph, value: Node, node: Node, outside: Outside) -> list[list[Any] | None]:
    """Return the keys of all assignments from one version of an array to another one."""
    found: list[list[Any] | None] = []
    while node is not value:
        last = version_before(node)
        if last is None:
            return [None]
        found, node = _written(graph, node, outside) + found, last
    return found


def _outside_of(graph: Graph, given: dict[Node, Node], outside: Outside) -> Outside:
    """Return a function for the values of a region; `given` maps its invariant parameters to values around it."""

    def found(x: Node) -> Node | None:
        if x in given:
            return outside(given[x])
        if x.op is CONSTANT or x.op is SIZE:
            return graph.rebuild(x, (), x.where)
        if x.op not in INTEGERS or x.aval.shape or x.aval.dtype.kind not in "iu":
            return None
        inputs = [found(y) for y in x.inputs]
        return None if None in inputs else graph.rebuild(x, tuple(inputs), x.where)  # type: ignore[arg-type]

    return found


def _items(node: Node, outside: Outside) -> list[Any] | None:
    """Return the key of an assignment, an item for each axis: an invariant index, a number, or the whole axis."""
    found: list[Any] = []
    for item in dict(node.params)["key"]:
        if item is None or item is Ellipsis:
            return None
        if isinstance(item, Slot):
            x = node.inputs[2 + item.input]
            found.append((None if x.aval.shape else outside(x)) or EVERYTHING)
        else:
            found.append(item if isinstance(item, int) else EVERYTHING)
    return found if len(found) == node.aval.ndim else None
