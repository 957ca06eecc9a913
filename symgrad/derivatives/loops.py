"""Loops for differentiation: their bodies on stand-ins, and the recording of loops made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from symgrad.analysis.values import known_size
from symgrad.core.graph import Aval, Graph, Node, depends, needed, reached
from symgrad.core.region import Region, inlined
from symgrad.core.sizes import Size
from symgrad.derivatives.bodies import appended
from symgrad.frontend.bodies import parted_turn
from symgrad.frontend.variable import freeze
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import Loop as Parts, loop_of

_NONE: Mapping[Node, Node] = MappingProxyType({})


class Turns(NamedTuple):
    """A loop before it is recorded: stand-ins bound to values, and the results of one iteration."""

    length: Node
    carry: dict[Node, Node]
    place: Node
    slices: dict[Node, Node]
    others: dict[Node, Node]
    results: Sequence[Node]
    turns: Size
    reverse: bool
    test: Sequence[Node] = ()
    checkpoint: int | str | None = None
    place_size: str | None = None

    def recorded(self, graph: Graph, instead: dict[Node, Node]) -> Node:
        """Record the loop; `instead` has images for values of an iteration. Loop-invariant nodes stay outside."""
        given = [*self.carry, self.place, *self.slices]
        image = dict(zip(given, given, strict=True)) | self.others | instead
        made = [*self.results, *self.test]
        image = inlined(graph, Region(graph, [*image], made), [*image.values()])
        made = [image[y] for y in made]
        nodes = set(reached(made))
        slices = {x: array for x, array in self.slices.items() if x in nodes}
        results, test = made[: len(self.results)], made[len(self.results) :]
        params, others = parted_turn(graph, [*self.carry], self.place, [*slices], (), results, test, self.place_size)
        params |= {
            "turns": self.turns,
            "reverse": self.reverse,
            "checkpoint": self.checkpoint,
            "place": self.place_size,
        }
        inputs = (self.length, *self.carry.values(), *slices.values(), *others)
        return graph.add(SCAN, inputs, freeze(SCAN, params))


class Loop:
    """A loop whose body is appended to the graph on stand-ins."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node, self.parts = graph, node, loop_of(node)
        self.length, *self.inputs = node.inputs
        n = len(self.parts.starts)
        stand_ins = [graph.seed(x.aval) for x in self.parts.body.parameters]
        self.body = appended(graph, self.parts.body, stand_ins, self.parts.place_size)
        *carry, self.place = stand_ins[: n + 1]
        self.stand_ins = [*carry, *stand_ins[n + 1 :]]  # for the inputs
        self.carry, self.slices, self.others = self.parts.parted(self.stand_ins)
        self.tested, self.reverse = self.parts.test is not None, self.parts.reverse
        self.turns = _turns(graph, self.parts)

    def bound(self, stand_ins: Iterable[Node]) -> dict[Node, Node]:
        """Return the stand-ins bound to their values: carries to the initial ones."""
        chosen = set(stand_ins)
        return {x: y for x, y in zip(self.stand_ins, self.inputs, strict=True) if x in chosen}

    def carries_between(self, moving: Iterable[int], reaching: Iterable[int]) -> list[int]:
        """Return the numbers of carries on a path from some inputs to some results.

        A path ends at a mask: a cotangent through it would be zeros, which may meet an infinity.
        """
        n, results = len(self.carry), self.body.results
        found, wanted = set(moving), set(reaching)
        ends = {x for x in self.body.nodes if type(x.aval) is Aval and not x.aval.differentiable}
        for _ in range(n):
            nodes = depends(self.body.nodes, [self.stand_ins[i] for i in found])
            found |= {i for i in range(n) if results[i] in nodes and results[i].aval.differentiable}
            nodes = set(needed([results[i] for i in wanted], ends))
            wanted |= {i for i in range(n) if self.carry[i] in nodes}
        return sorted(i for i in found & wanted if i < n)

    def again(
        self,
        results: Sequence[Node],
        carry: Mapping[Node, Node] = _NONE,
        slices: Mapping[Node, Node] = _NONE,
        others: Mapping[Node, Node] = _NONE,
    ) -> Node:
        """Record the loop again, with further stand-ins bound to carries and consts, and further results."""
        test: Sequence[Node] = ()
        if self.parts.test is not None:
            test = appended(self.graph, self.parts.test, [*self.carry, self.place, *self.others]).results
        return Turns(
            self.length,
            {**self.bound(self.carry), **carry},
            self.place,
            {**self.bound(self.slices), **slices},
            {**self.bound(self.others), **others},
            results,
            self.turns,
            self.reverse,
            test,
            self.parts.checkpoint,
            self.parts.place_size,
        ).recorded(self.graph, {})


def _turns(graph: Graph, loop: Parts) -> Size:
    """Return the size of the ys of a loop."""
    if loop.turns is not None:
        return loop.turns
    size = known_size(loop.length) if loop.test is None else None
    return graph.sizes.turns() if size is None else size
