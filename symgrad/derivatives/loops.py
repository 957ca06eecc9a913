"""Loops for differentiation: an iteration on stand-ins in the graph, and the recording of loops made from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from symgrad.analysis.values import known_size
from symgrad.core.graph import Aval, Graph, Node, depends, needed
from symgrad.core.region import Region, inlined
from symgrad.core.sizes import Size
from symgrad.derivatives.bodies import appended
from symgrad.ops.control_parts import Carry, Loop, Read, loop_of


def recorded(loop: Loop, instead: Mapping[Node, Node] = MappingProxyType({})) -> Node:
    """Record a loop in the graph of its iteration, without unused xs; loop-invariant nodes stay outside.

    `instead` has images for values of the iteration.
    """
    graph, ends = loop.graph, loop.ends
    image = images(loop) | {**instead}
    image = inlined(graph, Region(graph, [*image], ends), [*image.values()])
    bound = replace(loop, consts=()).moved(graph, image, [image[y] for y in ends])
    return bound.without_unread().closed().record(graph)


def images(loop: Loop) -> dict[Node, Node]:
    """Return the images of the stand-ins of a loop in the graph of its iteration: consts are read from outside."""
    own = [*(c.value for c in loop.carry), loop.index, *(x.value for x in loop.xs)]
    return dict(zip(own, own, strict=True)) | {x.value: x.source for x in loop.consts}


class OpenLoop:
    """A loop whose iteration is appended to the graph on stand-ins; its operands and results go by number."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node, loop = graph, node, loop_of(node)
        stand_ins = [graph.seed(x.aval) for x in loop.parameters]
        carried = stand_ins[: len(loop.carry)]
        self.body = appended(graph, loop.body, stand_ins, loop.index_size)._replace(carried=carried)
        self.loop = loop.moved(graph, dict(zip(loop.parameters, stand_ins, strict=True)), self.body.results)
        self.test = loop.test  # on parameters of its own
        self.operands = self.loop.operands[1:]
        self.stand_ins = self.loop.stand_ins
        self.carry, self.xs, self.consts = self.loop.split(self.stand_ins)
        self.iterations = _iterations(graph, loop)

    def carries_between(self, moving: Iterable[int], reaching: Iterable[int]) -> list[int]:
        """Return the numbers of carries on a path from some operands to some results.

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
        carry: Sequence[Carry] = (),
        xs: Sequence[Read] = (),
        consts: Sequence[Read] = (),
        ys: Sequence[Node] = (),
    ) -> Node:
        """Record the loop again, with more of each kind."""
        loop = replace(
            self.loop,
            carry=[*self.loop.carry, *carry],
            xs=[*self.loop.xs, *xs],
            consts=[*self.loop.consts, *consts],
            ys=[*self.loop.ys, *ys],
            iterations=self.iterations,
        )
        return recorded(loop.tested(self.goes_on(self.carry, loop.index)))

    def goes_on(self, carry: Sequence[Node], index: Node) -> Node | None:
        """Append the test of the loop, if it has one."""
        if self.test is None:
            return None
        return appended(self.graph, self.test, [*carry, index, *self.consts]).results[0]


def _iterations(graph: Graph, loop: Loop) -> Size:
    """Return the length of the ys of a loop."""
    if loop.iterations is not None:
        return loop.iterations
    size = known_size(loop.length) if loop.test is None else None
    return graph.sizes.turns() if size is None else size
