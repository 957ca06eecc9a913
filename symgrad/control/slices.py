"""Slices of loops: what a turn reads of an array at its own place, all turns together read along an axis.

The derivative of ``x[t]`` adds to an array as large as x in each turn; that of a slice is a stack of cotangents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.values import number
from symgrad.control.opened import Appended, Opened, Read, image_of, instead_of, loop_of, opened, stand_in, with_sources
from symgrad.core.graph import SIZE, Aval, Graph, Node, reached
from symgrad.core.sizes import Size, at_most, same
from symgrad.frontend.variable import Variable
from symgrad.ops.control import SCAN
from symgrad.ops.elementwise import ADD, SUBTRACT
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import EVERYTHING, Slice, Slot
from symgrad.rewrite.engine import Made, copied, replaced_within


def slice_reads(graph: Graph, numerics: str = "stable") -> Graph:
    """What turns read of arrays at their own places, ``x[t + 1]`` or ``x[n - 1 - t, 0]``, as slices of loops."""
    instead = _with_slices(graph.live)
    return copied(graph, instead) if instead else graph


def slice_reads_within(
    graph: Graph, numerics: str, outputs: Sequence[Node], kept: Sequence[Node], since: int
) -> dict[Node, Node]:
    """The same appended to a graph."""
    nodes = reached([*outputs, *kept])
    instead = _with_slices([node for node in nodes if node.id >= since])
    return replaced_within(graph, nodes, instead) if instead else {}


def _with_slices(nodes: Sequence[Node]) -> dict[Node, Made]:
    """How loops are made whose turns read slices."""
    instead: dict[Node, Made] = {}
    for node in nodes:
        if node.op is SCAN and (appended := _sliced(node)) is not None:
            instead |= instead_of(appended, node, {})
    return instead


def _sliced(node: Node) -> Appended | None:
    """The loop with slices; those in its turn come first, which take with them what does not depend on their place."""
    before = opened(loop_of(node))
    loop = before.rewritten(slice_reads)
    reads = _Reads(loop)
    if reads.instead:
        loop = reads.loop.rewritten(lambda turn: copied(turn, reads.instead))
    elif loop is before:
        return None
    cuts = [*reads.cuts]
    return with_sources(loop.without_unread(), lambda graph, image: {cut: cut.made(graph, image) for cut in cuts})


class Cut(NamedTuple):
    """An array outside, or a part of it, with the axis first of which each turn reads its own place."""

    array: Node
    key: tuple[Any, ...]  # with numbers outside where it speaks of such
    places: Slice
    at: int  # which item of the key the places are

    def made(self, graph: Graph, image: Mapping[Node, Node]) -> Node:
        items = [*self.key[: self.at], self.places, *self.key[self.at + 1 :]]
        numbers = [Variable(graph, image[x]) if isinstance(x, Node) else x for x in items]
        key = tuple([slice(*x) if isinstance(x, Slice) else x for x in numbers])
        axis = sum(x is None or isinstance(x, slice) for x in key[: self.at])
        return np.moveaxis(Variable(graph, image[self.array])[key], axis, 0).node


class _Reads:
    """Those of a turn that become slices of the loop."""

    def __init__(self, loop: Opened) -> None:
        self.loop, self.instead, self.cuts = loop, dict[Node, Made](), dict[Cut, Node]()
        self.source = {x.value: x.source for x in loop.others}
        self.length = _known_size(loop.length)
        if self.length is None or (isinstance(self.length, int) and self.length < 0):
            return
        nodes = reached([*loop.results, *([] if loop.test is None else [loop.test])])
        tested = set() if loop.test is None else set(reached([loop.test]))
        for node in nodes:
            if node.op is GET and len(node.inputs) > 1 and node.inputs[0] in self.source and node not in tested:
                self.read(node)

    def read(self, node: Node) -> None:
        """Let a slice stand for what a turn reads, if all turns read along an axis, and surely within it."""
        array, *indices = node.inputs
        key: tuple[Any, ...] = dict(node.params)["key"]
        if Ellipsis in key or any(x.aval.shape for x in indices):
            return
        slots = [(at, indices[x.input]) for at, x in enumerate(key) if isinstance(x, Slot)]
        moving = [(at, x) for at, x in slots if x not in self.source]
        for at, index in moving:
            axis = sum(x is not None for x in key[:at])
            places = self.places(index, array.aval.shape[axis])
            if places is None:
                continue
            if len(moving) == 1:
                numbers = tuple([self.source.get(indices[x.input]) if isinstance(x, Slot) else x for x in key])
                self.instead[node] = image_of(self.slice(Cut(self.source[array], numbers, places, at), node.aval))
            else:
                self.slice_first(node, places, at, axis)
            return

    def slice_first(self, node: Node, places: Slice, at: int, axis: int) -> None:
        """Let a turn read in a slice what it reads at other places as well."""
        array, *indices = node.inputs
        aval, key = array.aval, dict(node.params)["key"]
        whole = (EVERYTHING,) * aval.ndim
        shape = (*aval.shape[:axis], *aval.shape[axis + 1 :])
        y = self.slice(Cut(self.source[array], whole, places, axis), Aval(shape, aval.dtype))
        rest = [indices[x.input] if isinstance(x, Slot) else x for i, x in enumerate(key) if i != at]

        def made(new: Graph, image: Mapping[Node, Node]) -> Variable:
            items = [Variable(new, image[x]) if isinstance(x, Node) else x for x in rest]
            return Variable(new, image[y])[tuple([slice(*x) if isinstance(x, Slice) else x for x in items])]

        self.instead[node] = made

    def slice(self, cut: Cut, aval: Aval) -> Node:
        """What stands for a slice in the turn."""
        if cut not in self.cuts:
            self.cuts[cut] = y = stand_in(self.loop.graph, aval, cut.array.where)
            self.loop.sliced.append(Read(cut, y))
        return self.cuts[cut]

    def places(self, index: Node, size: Size) -> Slice | None:
        """Where an index is, turn after turn, along an axis of this size; None if that may be outside."""
        line = _line(index, self.loop.place)
        if line is None or self.length is None:
            return None
        first, step = line
        if step == 1:
            end = first + self.length
            return Slice(first, end, None) if at_most(0, first) and at_most(end, size) else None
        end = first - self.length
        if step != -1 or not at_most(first + 1, size):
            return None
        return Slice(first, None, -1) if same(end, -1) else Slice(first, end, -1) if at_most(0, end) else None


def _line(index: Node, place: Node, deepest: int = 8) -> tuple[Size, int] | None:
    """At the place t an index is ``first + step * t``."""
    if index is place:
        return 0, 1
    size = _known_size(index)
    if size is not None:
        return size, 0
    if not deepest or index.op not in (ADD, SUBTRACT):
        return None
    a, b = (_line(x, place, deepest - 1) for x in index.inputs)
    if a is None or b is None:
        return None
    return (a[0] + b[0], a[1] + b[1]) if index.op is ADD else (a[0] - b[0], a[1] - b[1])


def _known_size(node: Node) -> Size | None:
    if node.op is SIZE:
        size: Size = dict(node.params)["value"]
        return size
    value = number(node)
    return int(value) if isinstance(value, (int, np.integer)) else None
