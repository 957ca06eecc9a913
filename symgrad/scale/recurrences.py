"""Recurrences: loops with an iteration for each row, whose carry crosses the border from one chunk to the next.

A chunk is given the carry at its border, runs its own iterations, and leaves the carry to its neighbour: the next
chunk, or the one before it for a loop that runs backwards, as pullbacks do. What a loop has left at all borders is
kept, so a later pass can run its iterations again in any chunk.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from symgrad.analysis.values import known_size
from symgrad.core.axes import AxisSignature
from symgrad.core.graph import INPUT, Graph, Node, Params, reached
from symgrad.core.sizes import Dim, Size, same
from symgrad.frontend.variable import Variable
from symgrad.loops.plan import Plan
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.rewrite.engine import Made, copied

LAST = np.frompyfunc(lambda left, right: right, 2, 1)  # how the carries that two chunks leave are combined
ITERATIONS = "iterations"


class Border(NamedTuple):
    """A carry of a loop at the borders between chunks."""

    loop: Node
    given: Node  # an input that stands for the carry that a chunk is given
    init: Node  # what the first chunk is given
    left: Node  # the carry that a chunk leaves

    @property
    def reverse(self) -> bool:
        """Whether the loop goes from the last chunk to the first."""
        return loop_of(self.loop).reverse


def recurs(node: Node, n: Dim) -> bool:
    """Whether a node is a loop over `n` rows that neither ends early nor reads the number of an iteration."""
    if node.op is not SCAN:
        return False
    loop, size = loop_of(node), known_size(node.inputs[0])
    plain = loop.test is None and loop.index_size is None and loop.index not in reached(loop.ends)
    return plain and size is not None and same(size, n)


def with_borders(graph: Graph, loops: Collection[Node]) -> tuple[Graph, list[Node], list[Border]]:
    """Give loops inputs in the place of their initial carries; the inits and the last carries are outputs, too."""
    images: list[Node] = []
    borders: list[Border] = []
    new = copied(graph, {x: _bordered(x, images, borders) for x in loops})
    new.inputs += [border.given for border in borders]
    new.outputs += [x for border in borders for x in (border.init, border.left)]
    return new, images, borders


def _bordered(node: Node, images: list[Node], borders: list[Border]) -> Made:
    carry = loop_of(node).carry

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        given = [_given(graph, c.value, i) for i, c in enumerate(carry, len(borders) + 1)]
        length, *operands = [image[x] for x in node.inputs]
        images.append(graph.add(SCAN, (length, *given, *operands[len(given) :]), node.params))
        borders.extend(Border(images[-1], x, operands[i], graph.item(images[-1], i)) for i, x in enumerate(given))
        return Variable(graph, images[-1])

    return made


def _given(graph: Graph, value: Node, number: int) -> Node:
    """Return an input for a carry, whose name no argument has."""
    node = graph.add(INPUT, (), (("aval", value.aval), ("name", f"carry {number}")), value.where)
    graph.label(node, f"carry_{number}")
    return node


def loop_signature(loop: Node, signature: AxisSignature) -> AxisSignature:
    """Add the axis of the iterations to the axis signature of a loop."""
    parts, (length, *inputs) = loop_of(loop), signature.inputs
    carry, xs, consts = parts.split(inputs)
    along = [(ITERATIONS, *labels[1:]) for labels in xs]
    return AxisSignature((length, *carry, *along, *consts), (*signature.result, ITERATIONS))


def item_signature(item: Node, signature: AxisSignature) -> AxisSignature:
    """Add the axis of the iterations to the axis signature of a result of a loop, which its ys have."""
    (given,), index = signature.inputs, dict(item.params)["index"]
    if index < len(loop_of(item.inputs[0]).carry):
        return AxisSignature(((*given, ITERATIONS),), signature.result, LAST)
    return AxisSignature(((*given, ITERATIONS),), (ITERATIONS, *signature.result[1:]))


def params_of_chunk(loop: Node, rows: Size) -> Params:
    """Return the parameters of a loop for so many iterations."""
    return tuple([(key, rows if key == "turns" and value is not None else value) for key, value in loop.params])


@dataclass
class Directions:
    """The first pass that a loop can be in: all loops of a pass run in one direction, and their inits are known."""

    borders: Collection[Border]
    reverse: dict[int, bool] = field(default_factory=dict)  # by the number of a pass

    def __call__(self, plan: Plan, node: Node, first: int) -> int:
        own = [border for border in self.borders if border.loop is node]
        if own:
            first = max(first, *[plan.ready(border.init, None) for border in own])
            while self.reverse.setdefault(first, own[0].reverse) != own[0].reverse:
                first += 1
        return first
