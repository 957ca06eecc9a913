"""Common subexpressions of a branch and the graph around it: the branch reads them from outside.

A derivative in a branch may need further results of a loop outside. The loop outside gets these results, and its copy
in the branch is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from symgrad.analysis.values import is_known
from symgrad.control.fuse import fuse_loops, fused_loops
from symgrad.control.replacement import image_of
from symgrad.core.graph import ITEM, Aval, Graph, Node, freeze, needed, reached, same_aval
from symgrad.core.region import Region, inlined, regions_of, stand_in, with_nested
from symgrad.frontend.variable import Variable
from symgrad.ops.control import COND, SCAN, may_fail
from symgrad.ops.control_parts import Loop, loop_of
from symgrad.ops.marks import ALIAS
from symgrad.rewrite.engine import Made, copied

MORE = 2
"""Most operations added to a loop for a branch, as a multiple of its own: no loss if two of three times it is taken."""


# ---- quick test


def may_share_loops(graph: Graph) -> bool:
    """Whether two loops of a graph, or of its branches, may be fused once they are in canonical form."""
    loops = [*_loops(graph.compound)]
    if any(_are_alike(a, b) for a, b in combinations(loops, 2)):
        return True
    return any(may_share_loops(loop.body.body) for loop in loops)


def _loops(nodes: Sequence[Node]) -> Iterator[Loop]:
    """Yield the loops among nodes with several results, and in their branches."""
    for node in nodes:
        if node.op is SCAN:
            yield loop_of(node)
        elif node.op is COND:
            for side in regions_of(node):
                yield from _loops([x for x in side.nodes if type(x.aval) is not Aval])


def _are_alike(a: Loop, b: Loop) -> bool:
    kinds = ({c.value.aval for c in loop.carry} for loop in (a, b))
    return a.reverse == b.reverse and (a.test is None) == (b.test is None) and not set.isdisjoint(*kinds)


def without_aliases(graph: Graph, numerics: str = "stable") -> Graph:
    """Merge aliases with their values, once all derivatives are taken."""
    aliases = {node: image_of(node.inputs[0]) for node in graph.live if node.op is ALIAS}
    return copied(graph, aliases) if aliases else graph


# ---- reading from outside


def read_surroundings(graph: Graph, numerics: str = "stable") -> Graph:
    """Let branches read common subexpressions from outside, and fuse loops in branches with loops outside."""
    along: dict[Node, list[Loop]] = {}
    after = surrounded(graph, lambda new, node, image: _WithLoops(new, node, image, along))
    return graph if after is graph else fuse_loops(after)


def surrounded(graph: Graph, branch: Callable[[Graph, Node, Mapping[Node, Node]], Surrounded]) -> Graph:
    """Rebuild a graph with its branches replaced by `branch`, if one of the new branches reads more from outside."""
    branches = [node for node in graph.compound if node.op is COND]
    read: list[Node] = []

    def reading(node: Node) -> Made:
        def made(new: Graph, image: Mapping[Node, Node]) -> Variable:
            found = branch(new, node, image)
            read.extend(found.outside)
            return Variable(new, found.appended())

        return made

    after = copied(graph, {node: reading(node) for node in branches}) if branches else graph
    return after if read else graph


class Surrounded:
    """A branch, and the values of the graph around it that its sides compute too."""

    def __init__(self, graph: Graph, node: Node, image: Mapping[Node, Node]) -> None:
        self.graph, self.node = graph, node
        self.inputs = [image[x] for x in node.inputs]
        self.same: dict[Node, Node] = {}  # value of a side -> equal value of the graph
        self.outside: dict[Node, Node] = {}  # the part of it that the branch reads
        for side in regions_of(node):
            self.look_through(side)

    def look_through(self, side: Region) -> None:
        """Find the values of a side that the graph computes, too."""
        given = {x: y for x, y in zip(side.parameters, self.inputs[1:], strict=True) if same_aval(x.aval, y.aval)}
        self.same |= given
        for x in side.nodes:
            if not self.finds(x):
                self.move(x)
        ends = (y for x in side.nodes if x not in self.same for y in x.inputs)
        read = (x for x in dict.fromkeys((*ends, *side.results)) if x in self.same and x not in given)
        self.outside |= {x: self.same[x] for x in read if not is_known(x)}

    def finds(self, x: Node) -> bool:
        """Look for a value of a side in the graph; constants, and results of nodes that are found, are added to it."""
        if not all(y in self.same for y in x.inputs):
            return False
        inputs = tuple([self.same[y] for y in x.inputs])
        found = self.graph.known(x.op, inputs, x.params)
        if found is None and (is_known(x) or x.op is ITEM):
            found = self.graph.rebuild(x, inputs, x.where)
        if found is not None and same_aval(found.aval, x.aval):
            self.same[x] = found
        return x in self.same

    def move(self, x: Node) -> None:
        """Compute a value of a side outside, where that pays."""

    def appended(self) -> Node:
        """Append the branch, which reads outside values."""
        sources = [*dict.fromkeys(self.outside.values())]
        sides = {name: self.reading(side, sources) for name, side in self.node.params}
        return self.graph.add(COND, (*self.inputs, *sources), freeze(COND, sides))

    def reading(self, side: Region, sources: Sequence[Node]) -> Region:
        """Return a side with further parameters for the outside values."""
        graph = Graph()
        given = [stand_in(graph, x.aval, x.where) for x in side.parameters]
        further = {x: stand_in(graph, x.aval, x.where) for x in sources}
        image = dict(zip(side.parameters, given, strict=True))
        image |= {x: further[y] for x, y in self.outside.items()}
        nodes = inlined(graph, Region(side.graph, [*image], side.results), [*image.values()])
        return Region(graph, [*given, *further.values()], [nodes[y] for y in side.results])


class _WithLoops(Surrounded):
    """A branch whose loops may be fused with loops outside."""

    def __init__(self, graph: Graph, node: Node, image: Mapping[Node, Node], along: dict[Node, list[Loop]]) -> None:
        self.along = along  # loop of the graph -> loops moved out of branches that will be fused with it
        super().__init__(graph, node, image)

    def move(self, x: Node) -> None:
        """Move a loop of a side outside with its inputs, if it can be fused with one there."""
        if x.op is SCAN:
            self._move_loop(x)

    def _move_loop(self, node: Node) -> None:
        made = needed(node.inputs, self.same)
        if any(type(x.aval) is not Aval or may_fail(x) for x in made):
            return
        there = set(reached(self.same[y] for x in (*made, node) for y in x.inputs if y in self.same))
        loop = loop_of(node).reading([self.same.get(x, x) for x in node.inputs])
        others = [x for x in self.graph.nodes if x.op is SCAN and x not in there]
        other = next((x for x in others if _may_be_fused(loop, [loop_of(x), *self.along.get(x, ())], len(made))), None)
        if other is not None:
            for x in (*made, node):
                self.same[x] = self.graph.rebuild(x, tuple([self.same[y] for y in x.inputs]), x.where)
            self.along.setdefault(other, []).append(loop_of(self.same[node]))


def _may_be_fused(loop: Loop, others: Sequence[Loop], before: int) -> bool:
    """Whether a loop can be fused with others, without much more work than the first has and without new failures.

    `before` is the number of operations for the inputs of the loop.
    """
    one = fused_loops([*others, loop])
    if one is None:
        return False
    both, alone = ([*with_nested(nodes)] for nodes in (reached(one.loop.results), others[0].body.nodes))
    if sum(map(may_fail, both)) > sum(map(may_fail, alone)):
        return False
    return before + _operations(both) <= (1 + MORE) * _operations(alone)


def _operations(nodes: Sequence[Node]) -> int:
    return sum(bool(x.inputs) and x.op is not ITEM for x in nodes)
