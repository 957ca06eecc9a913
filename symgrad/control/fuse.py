"""Loop fusion: several loops over the same range become one, where they share something.

A derivative that needs more of a loop appends a second loop, with further results, beside the first. Tangents run
beside their primals. In a fused loop each common value is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from symgrad.control.branches import join_branches, share_results
from symgrad.control.merging import Needs, in_order
from symgrad.control.replacement import instead_of, items_of
from symgrad.core.graph import CONSTANT, Graph, Node
from symgrad.core.region import stand_in
from symgrad.ops.control import INDEX, SCAN
from symgrad.ops.control_parts import Carry, Loop, Read, loop_of
from symgrad.rewrite.engine import Made, copied, in_bodies


def fuse_loops(graph: Graph, numerics: str = "stable") -> Graph:
    """Fuse loops over the same range that share carries or inputs; merge equal results of a loop.

    Two loops are fused only if neither needs a result of the other.
    """
    while found := _fused(graph):
        graph = found
    return graph


def _fused(graph: Graph) -> Graph | None:
    """Fuse all loops that can be fused now; None if there are none. Afterwards others may have equal ranges."""
    loops = {node: loop_of(node) for node in graph.compound if node.op is SCAN}
    if not loops:
        return None
    groups = [group for group in _groups(graph, loops) if group.saves]
    if not groups:
        return None
    items = items_of(graph.live)
    instead: dict[Node, Made] = {}
    first: dict[Node, Node] = {}
    operands: dict[Node, Sequence[Node]] = {}
    for group in groups:
        node, *others = group.nodes
        assert group.joined is not None
        loop, numbers = group.joined.loop, zip(group.nodes, group.joined.results, strict=True)
        results = {x: of_node[i] for each, of_node in numbers for i, x in items[each].items()}
        instead |= instead_of(loop.record, node, results)
        first |= dict.fromkeys(others, node)
        operands[node] = loop.operands
    return copied(graph, instead, in_order(graph, first, operands))


# ---- which loops


class _Group:
    """Loops to fuse, and the fused loop; that of a single loop is made when `saves` asks for it."""

    def __init__(self, node: Node, loop: Loop) -> None:
        self.nodes, self.loops = [node], [loop]
        self.joined: Joined | None = None

    @property
    def saves(self) -> bool:
        """Whether there will be fewer loops, or one with fewer results or xs."""
        if self.joined is None and _may_merge(*self.loops):
            self.joined = fused_loops(self.loops)
        return self.joined is not None and self.joined.saves


def _groups(graph: Graph, loops: Mapping[Node, Loop]) -> list[_Group]:
    """Return groups of loops that share something, and of which none depends on another, even through other groups."""
    needs = Needs(graph, [*loops])
    groups: list[_Group] = []
    for node, loop in loops.items():
        for group in groups:
            joined = fused_loops([*group.loops, loop]) if needs.may_join(group.nodes, node) else None
            if joined is not None:
                needs.join(group.nodes, node)
                group.nodes, group.loops, group.joined = [*group.nodes, node], [*group.loops, loop], joined
                break
        else:
            groups.append(_Group(node, loop))
    return groups


def _may_merge(loop: Loop) -> bool:
    """Whether a loop has duplicates: two carries, xs or consts with one source, or two ys that are one value."""
    parts = [_sources(x) for x in (loop.carry, loop.xs, loop.consts)]
    known = {x.source.params for x in loop.consts if x.source.op is CONSTANT}
    twice = any(x.op is CONSTANT and x.params in known for x in loop.body.nodes) if known else False
    return twice or any(len({*x}) < len(x) for x in (*parts, loop.ys))


# ---- the fused loop


class Joined(NamedTuple):
    """Several loops fused into one, with the numbers of their results in it."""

    loops: Sequence[Loop]
    loop: Loop
    results: Sequence[Sequence[int]]

    @property
    def saves(self) -> bool:
        """Whether there are fewer loops than before, or one with fewer results or xs."""
        (first, *others), one = self.loops, self.loop
        return bool(others) or len(one.results) < len(first.results) or len(one.xs) < len(first.xs)


def fused_loops(loops: Sequence[Loop]) -> Joined | None:
    """Fuse loops; carries with equal initial values and updates become one.

    At first all carries with equal initial values are taken to be equal. Classes of carries are split until the updates
    in each are equal (partition refinement). None if the ranges of the loops differ, or they share nothing.
    """
    first, *others = loops
    sizes = {str(loop.iterations) for loop in loops if loop.iterations is not None}
    if len(sizes) > 1 or any(not _may_have_one_range(first, loop) for loop in others):
        return None
    kinds: Kinds = [_sources(loop.carry) for loop in loops]
    xs = {*chain(*(_sources(loop.xs) for loop in loops))}
    apart = sum(len(loop.carry) + len(loop.xs) for loop in loops)
    while True:
        if others and len({*chain(*kinds)}) + len(xs) == apart:
            return None
        fusion = _Fusion(loops, kinds)
        kinds = fusion.finer()
        if len(set(chain(*kinds))) == len(fusion.carry):
            return fusion.joined()


def _may_have_one_range(a: Loop, b: Loop) -> bool:
    """Whether two loops may have the same range, as far as their nodes tell."""
    sizes = {loop.index_size for loop in (a, b)} - {None}
    return a.length is b.length and a.reverse == b.reverse and (a.test is None) == (b.test is None) and len(sizes) < 2


def _merged(body: Graph) -> Graph:
    """Fuse the loops and merge the branches of a fused body, and merge their duplicate results."""
    before = None
    while body is not before and len(body.compound) > 1:  # branches may have one predicate when results are merged
        before = body
        body = in_bodies(lambda graph, _: join_branches(fuse_loops(graph)))(body, "stable")
        body = in_bodies(share_results, inner_first=True)(body, "stable")
    return body


Kinds = list[list[Any]]
"""For each loop and carry a class; carries of one class are assumed to be equal."""


def _sources(parts: Sequence[Carry | Read]) -> list[Any]:
    return [(source, value.aval) for source, value, *_ in parts]


class _Fusion:
    """The fused body of several loops, in which carries of one class are one value."""

    def __init__(self, loops: Sequence[Loop], kinds: Kinds) -> None:
        self.loops, self.kinds, self.graph = loops, kinds, Graph()
        self.carry: dict[Any, Read] = {}
        self.xs: dict[Any, Read] = {}
        self.consts: dict[Any, Read] = {}
        self.index = stand_in(self.graph, INDEX, loops[0].where)
        self.parts = [self._part(*each) for each in zip(loops, kinds, strict=True)]
        if len(loops) > 1:
            self._merge()

    def _part(self, loop: Loop, kinds: Sequence[Any]) -> Loop:
        """Return one of the loops in the fused body, without consts: the fused loop has those of all."""
        carry = self._values(self.carry, kinds, loop.carry)
        xs = self._values(self.xs, _sources(loop.xs), loop.xs)
        consts = [self._read(x) for x in loop.consts]
        return replace(loop.on(self.graph, [*carry, self.index, *xs, *consts]), consts=())

    def _values(self, known: dict[Any, Read], kinds: Sequence[Any], parts: Sequence[Carry | Read]) -> list[Node]:
        """Return the parameters for values of a loop: one for each class."""
        for kind, (source, value, *_) in zip(kinds, parts, strict=True):
            if kind not in known:
                known[kind] = Read(source, stand_in(self.graph, value.aval, value.where))
        return [known[kind].value for kind in kinds]

    def _read(self, x: Read) -> Node:
        """Return the parameter for one of the consts; a constant is inlined, as it may be in other loops."""
        if x.source.op is CONSTANT and x.source.aval == x.value.aval:
            return self.graph.rebuild(x.source, (), x.source.where)
        (value,) = self._values(self.consts, _sources([x]), [x])
        return value

    def _merge(self) -> None:
        """Merge loops and branches of the body, which may have equal results."""
        before = self.graph
        before.outputs = [y for part in self.parts for y in part.ends]
        self.graph = _merged(before)
        if self.graph is before:
            return
        image = dict(zip([*before.inputs, *before.outputs], [*self.graph.inputs, *self.graph.outputs], strict=True))
        for known in (self.carry, self.xs, self.consts):
            known |= {kind: Read(x.source, image[x.value]) for kind, x in known.items()}
        self.index = image[self.index]
        self.parts = [part.moved(self.graph, image, [image[y] for y in part.ends]) for part in self.parts]

    def finer(self) -> Kinds:
        """Return the classes split where members differ after the iteration."""
        pairs = [self._updates(*each) for each in zip(self.kinds, self.parts, strict=True)]
        number = {pair: i for i, pair in enumerate(dict.fromkeys(chain(*pairs)))}
        return [[number[pair] for pair in each] for each in pairs]

    def _updates(self, kinds: Sequence[Any], part: Loop) -> list[tuple[Any, Node]]:
        return [(kind, c.update) for kind, c in zip(kinds, part.carry, strict=True)]

    def joined(self) -> Joined | None:
        """Return the fused loop, unless conditions differ."""
        loops, parts = self.loops, self.parts
        tests = {part.test.results[0] if part.test else None for part in parts}
        if len(tests) > 1:
            return None
        updates = dict(chain(*map(self._updates, self.kinds, parts)))
        loop = replace(
            loops[0],
            graph=self.graph,
            index=self.index,
            carry=[Carry(*read, updates[kind]) for kind, read in self.carry.items()],
            xs=[*self.xs.values()],
            consts=[*self.consts.values()],
            ys=[*dict.fromkeys(y for part in parts for y in part.ys)],
            iterations=next((loop.iterations for loop in loops if loop.iterations is not None), None),
            checkpoint=next((loop.checkpoint for loop in loops if loop.checkpoint is not None), None),
            index_size=next((loop.index_size for loop in loops if loop.index_size is not None), None),
        )
        return Joined(loops, loop.tested(*tests), self._results(loop))

    def _results(self, loop: Loop) -> list[list[int]]:
        """Return for each loop the numbers of its results in the fused loop; the last is the number of iterations."""
        carry = {kind: i for i, kind in enumerate(self.carry)}
        ys = {y: i for i, y in enumerate(loop.ys, len(carry))}
        pairs, last = zip(self.kinds, self.parts, strict=True), len(loop.results)
        return [[*(carry[kind] for kind in kinds), *(ys[y] for y in part.ys), last] for kinds, part in pairs]
