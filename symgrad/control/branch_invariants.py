"""What branches in a loop compute of what all turns read: it is computed in front of them, and so before the loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from symgrad.control.opened import Opened
from symgrad.control.surroundings import Surrounded, surrounded
from symgrad.core.graph import Aval, Graph, Node, depends
from symgrad.core.region import Region, map_regions, regions_of
from symgrad.ops.control import COND, may_fail


def ahead_of_branches(loop: Opened) -> Opened:
    """The loop, in front of whose branches stands what is the same in all turns, and cheap."""
    fixed = {x.value for x in loop.others}
    return loop.rewritten(lambda turn: _ahead(turn, fixed, loop.has_size_of_turn))


def _ahead(graph: Graph, fixed: Collection[Node], stays: Callable[[Node], bool]) -> Graph:
    if not any(node.op is COND for node in graph.compound):
        return graph
    moving = depends(graph.live, [x for x in graph.inputs if x not in fixed])
    still = lambda node: [x not in moving for x in node.inputs[1:]]
    return surrounded(graph, lambda new, node, image: _Branch(new, node, image, still(node), stays))


class _Branch(Surrounded):
    """A branch with what it computes of some operands in front of it: of those that are `fixed`, by their numbers."""

    def __init__(
        self,
        graph: Graph,
        node: Node,
        image: Mapping[Node, Node],
        fixed: Sequence[bool],
        stays: Callable[[Node], bool],
    ) -> None:
        def inner(side: Region) -> Region:
            given = {x for x, is_fixed in zip(side.body.inputs, fixed, strict=True) if is_fixed}
            body = _ahead(side.body, given, stays)
            return side if body is side.body else Region(body, body.inputs, body.outputs)

        node = replace(node, params=map_regions(node, inner))
        self.fixed: dict[Node, bool] = {}
        for side in regions_of(node):
            self.fixed |= dict(zip(side.parameters, fixed, strict=True))
        self.stays = stays
        super().__init__(graph, node, image)

    def move(self, x: Node) -> None:
        """Compute a value of a side in front if it is cheap, and cannot fail there."""
        if not (x.op.view or x.op.cheap) or type(x.aval) is not Aval or may_fail(x) or self.stays(x):
            return
        if all(y in self.same and self._is_fixed(y) for y in x.inputs):
            self.same[x] = self.graph.rebuild(x, tuple([self.same[y] for y in x.inputs]), x.where)

    def _is_fixed(self, x: Node) -> bool:
        if x not in self.fixed:
            self.fixed[x] = all(map(self._is_fixed, x.inputs))
        return self.fixed[x]
