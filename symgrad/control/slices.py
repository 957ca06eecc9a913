"""Slicing: reads of an array at an affine index become xs of the loop.

The derivative of ``x[t]`` adds to an array as large as x in each iteration; that of a slice is a stack of cotangents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.affine import line_of
from symgrad.control.places import indexed, items_of_key, length_of, places_of
from symgrad.control.replacement import image_of, instead_of, rebuilt
from symgrad.control.writes import Filled, with_stacked_writes
from symgrad.core.graph import Aval, Graph, Node, reached
from symgrad.core.region import stand_in
from symgrad.frontend.variable import Variable
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import Loop, Read, loop_of
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import EVERYTHING, Slice
from symgrad.rewrite.engine import Made, copied


def slice_reads(graph: Graph, numerics: str = "stable") -> Graph:
    """Turn reads at affine indices, ``x[t + 1]`` or ``x[n - 1 - t, 0]``, into xs of the loop."""
    return rebuilt(graph, SCAN, _sliced)


def _sliced(node: Node, items: Mapping[int, Node]) -> dict[Node, Made]:
    """Slice a loop, inner loops first; they hoist what does not depend on their index."""
    before = loop_of(node).opened()
    loop, numbers = with_stacked_writes(before.map_body(slice_reads))
    reads = _Reads(loop)
    if reads.instead:
        loop = replace(loop, xs=reads.xs).map_body(lambda body: copied(body, reads.instead))
    elif loop is before:
        return {}
    loop = loop.without_unread()
    filled = {x: y.made(node) for i, x in items.items() if isinstance(y := numbers[i], Filled)}
    kept = {x: y for i, x in items.items() if isinstance(y := numbers[i], int)}
    return instead_of(loop.record, node, kept) | filled


class Cut(NamedTuple):
    """An array outside, or a part of it, with the sliced axis first."""

    array: Node
    key: tuple[Any, ...]  # its index; scalars are values outside
    places: Slice
    at: int  # the item of the key that `places` replaces

    def made(self, graph: Graph, image: Mapping[Node, Node]) -> Node:
        items = [*self.key[: self.at], self.places, *self.key[self.at + 1 :]]
        axis = sum(x is None or isinstance(x, Slice) for x in items[: self.at])
        return np.moveaxis(indexed(Variable(graph, image[self.array]), items, image), axis, 0).node


class _Reads:
    """The reads of a body that become xs."""

    def __init__(self, loop: Loop) -> None:
        self.loop, self.instead, self.cuts = loop, dict[Node, Made](), dict[Cut, Node]()
        self.xs, self.source = [*loop.xs], {x.value: x.source for x in loop.consts}
        self.length = length_of(loop)
        if self.length is None:
            return
        tested = set() if loop.test is None else set(reached(loop.test.results))
        for node in reached(loop.results):
            if node.op is GET and len(node.inputs) > 1 and node.inputs[0] in self.source and node not in tested:
                self.read(node)

    def read(self, node: Node) -> None:
        """Replace a read by a slice, if the iterations read consecutive elements of an axis, surely within bounds."""
        array, items = node.inputs[0], items_of_key(node)
        moving = (
            [] if items is None else [i for i, x in enumerate(items) if isinstance(x, Node) and x not in self.source]
        )
        for at in moving:
            assert items is not None
            axis = sum(x is not None for x in items[:at])
            places = places_of(line_of(items[at], self.loop.index), self.length, array.aval.shape[axis])
            if places is None:
                continue
            if len(moving) == 1 and not self.loop.has_size_of_iteration(node):
                key = tuple([self.source.get(x) if isinstance(x, Node) else x for x in items])
                self.instead[node] = image_of(self.slice(Cut(self.source[array], key, places, at), node.aval))
            else:
                self.slice_first(node, places, axis, [x for i, x in enumerate(items) if i != at])
            return

    def slice_first(self, node: Node, places: Slice, axis: int, rest: Sequence[Any]) -> None:
        """Replace a read by a read in a slice along one of its indices."""
        array, aval = node.inputs[0], node.inputs[0].aval
        shape = (*aval.shape[:axis], *aval.shape[axis + 1 :])
        whole = Cut(self.source[array], (EVERYTHING,) * aval.ndim, places, axis)
        y = self.slice(whole, Aval(shape, aval.dtype))
        self.instead[node] = lambda new, image: indexed(Variable(new, image[y]), rest, image)

    def slice(self, cut: Cut, aval: Aval) -> Node:
        """Return the stand-in for a slice in the body."""
        if cut not in self.cuts:
            self.cuts[cut] = y = stand_in(self.loop.graph, aval, cut.array.where)
            self.xs.append(Read(cut, y))
        return self.cuts[cut]
