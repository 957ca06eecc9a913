"""Loop fusion: several loops over the same range become one, where they share something.

A derivative appends a loop that it needs more of, with further results, beside the loop that is there; tangents go
along with the values that they are of; what a program computes twice, it computes once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from symgrad.control.branches import join_branches, share_results
from symgrad.control.opened import Carried, Opened, Read, Turn, instead_of, items_of, stand_in, turn_in
from symgrad.control.together import Needs, in_order
from symgrad.core.graph import CONSTANT, Graph, Node
from symgrad.ops.control import PLACE, SCAN
from symgrad.ops.control_parts import Given, Loop, loop_of
from symgrad.rewrite.engine import Made, copied, in_bodies


def fuse_loops(graph: Graph, numerics: str = "stable") -> Graph:
    """Fuse loops over the same range that share carries or inputs; merge equal results of a loop.

    Loops are as they were, but for one: neither needs a result of the other.
    """
    while found := _fused(graph):
        graph = found
    return graph


def _fused(graph: Graph) -> Graph | None:
    """Fuse all loops that can be fused now, which may make the numbers of iterations of others equal."""
    loops = [loop_of(node) for node in graph.compound if node.op is SCAN]
    if not loops:
        return None
    joined = [each for group in _groups(graph, loops) if (each := group.joined) is not None and each.saves]
    if not joined:
        return None
    items = items_of(graph.live)
    instead: dict[Node, Made] = {}
    first: dict[Node, Node] = {}
    inputs: dict[Node, Sequence[Node]] = {}
    for each in joined:
        node, *others = [loop.node for loop in each.loops]
        results = {x: each.results[loop.node][i] for loop in each.loops for i, x in items[loop.node].items()}
        instead |= instead_of(each.opened.appended, node, results)
        first |= dict.fromkeys(others, node)
        inputs[node] = each.opened.inputs
    return copied(graph, instead, in_order(graph, first, inputs))


# ---- which loops


class _Group:
    """Loops to fuse, and the fused loop."""

    def __init__(self, loop: Loop) -> None:
        self.loops, self.joined = [loop], joined_loops([loop])


def _groups(graph: Graph, loops: Sequence[Loop]) -> list[_Group]:
    """Return groups of loops that share something, of which none depends on another, even through other groups."""
    needs = Needs(graph, [loop.node for loop in loops])
    groups: list[_Group] = []
    for loop in loops:
        for group in groups:
            nodes = [x.node for x in group.loops]
            joined = joined_loops([*group.loops, loop]) if needs.may_join(nodes, loop.node) else None
            if joined is not None:
                group.loops, group.joined = [*group.loops, loop], joined
                needs.join(nodes, loop.node)
                break
        else:
            groups.append(_Group(loop))
    return groups


# ---- what they become


class Joined(NamedTuple):
    """Fused loops, the loop that they become, and the numbers of their results in it."""

    loops: Sequence[Loop]
    opened: Opened
    results: dict[Node, list[int]]

    @property
    def saves(self) -> bool:
        """Whether there is one loop less, or less in one."""
        (first, *others), one = self.loops, self.opened
        results = len(one.carried) + len(one.stacked)
        return bool(others) or results < len(first.body.results) or len(one.sliced) < len(first.slices_of)


def joined_loops(loops: Sequence[Loop]) -> Joined | None:
    """Fuse loops; carries with equal starts and updates become one.

    At first all carries with equal starts are taken to be equal; those that become different in an iteration are split
    until none do (partition refinement). None if the loops end at different iterations, or share nothing.
    """
    first, *others = loops
    stacks = {str(loop.turns) for loop in loops if loop.turns is not None}
    if len(stacks) > 1 or any(not _go_alike(first, loop) for loop in others):
        return None
    kinds: Kinds = [_sources(loop.starts, loop.given.carry) for loop in loops]
    while True:
        together = _Together(loops, kinds)
        kinds = together.finer()
        if len(set(chain(*kinds))) == len(together.carried):
            return together.joined()


def _go_alike(a: Loop, b: Loop) -> bool:
    """Whether two loops may have the same range, as far as their nodes tell."""
    sizes = {loop.place_size for loop in (a, b)} - {None}
    return a.length is b.length and a.reverse == b.reverse and (a.test is None) == (b.test is None) and len(sizes) < 2


def _united(turn: Graph) -> Graph:
    """Fuse the bodies of loops: loops and branches inside are merged where possible, and equal results of them too."""
    before = None
    while turn is not before and len(turn.compound) > 1:  # a result that is shared may be what others branch on
        before = turn
        turn = in_bodies(lambda graph, _: join_branches(fuse_loops(graph)))(turn, "stable")
        turn = in_bodies(share_results, inner_first=True)(turn, "stable")
    return turn


Kinds = list[list[Any]]
"""For each loop and carry a class; carries of one class are assumed to be equal."""


def _sources(xs: Sequence[Node], stand_ins: Sequence[Node]) -> list[Any]:
    return [(x, y.aval) for x, y in zip(xs, stand_ins, strict=True)]


class _Together:
    """The fused body of several loops, in which carries of one class are one value."""

    def __init__(self, loops: Sequence[Loop], kinds: Kinds) -> None:
        self.loops, self.kinds, self.graph = loops, kinds, Graph()
        self.carried: dict[Any, Read] = {}
        self.sliced: dict[Any, Read] = {}
        self.others: dict[Any, Read] = {}
        self.place = stand_in(self.graph, PLACE, loops[0].node.where)
        self.turns = [self._turn(*each) for each in zip(loops, kinds, strict=True)]
        if len(loops) > 1:
            self._unite()

    def _turn(self, loop: Loop, kinds: Sequence[Any]) -> Turn:
        at = loop.given
        carry = self._values(self.carried, kinds, loop.starts, at.carry)
        slices = self._values(self.sliced, _sources(loop.slices_of, at.slices), loop.slices_of, at.slices)
        others = [self._read(x, y) for x, y in zip(loop.others, at.others, strict=True)]
        return turn_in(self.graph, loop, Given(carry, self.place, slices, others))

    def _values(
        self, known: dict[Any, Read], kinds: Sequence[Any], sources: Sequence[Node], values: Sequence[Node]
    ) -> list[Node]:
        """Return the stand-ins for values of a loop: one for all of a class."""
        for kind, source, value in zip(kinds, sources, values, strict=True):
            if kind not in known:
                known[kind] = Read(source, stand_in(self.graph, value.aval, value.where))
        return [known[kind].value for kind in kinds]

    def _read(self, source: Node, value: Node) -> Node:
        """Return the stand-in for one of the consts; a constant stands for itself, as in the bodies of other loops."""
        if source.op is CONSTANT and source.aval == value.aval:
            return self.graph.rebuild(source, (), source.where)
        (x,) = self._values(self.others, [(source, value.aval)], [source], [value])
        return x

    def _unite(self) -> None:
        """Merge loops and branches of the body: results of them may be equal."""
        before = self.graph
        before.outputs = [y for turn in self.turns for y in (*turn.updates, *turn.stacked, turn.test) if y is not None]
        self.graph = _united(before)
        if self.graph is before:
            return
        image: dict[Any, Any] = dict(zip(before.inputs, self.graph.inputs, strict=True))
        image |= {None: None} | dict(zip(before.outputs, self.graph.outputs, strict=True))
        for known in (self.carried, self.sliced, self.others):
            known |= {kind: Read(x.source, image[x.value]) for kind, x in known.items()}
        self.place = image[self.place]
        moved = lambda nodes: [image[y] for y in nodes]
        self.turns = [Turn(moved(x.updates), moved(x.stacked), image[x.test]) for x in self.turns]

    def finer(self) -> Kinds:
        """Return the classes split where members differ after the iteration."""
        pairs = [[*zip(kinds, turn.updates, strict=True)] for kinds, turn in zip(self.kinds, self.turns, strict=True)]
        number = {pair: i for i, pair in enumerate(dict.fromkeys(chain(*pairs)))}
        return [[number[pair] for pair in each] for each in pairs]

    def joined(self) -> Joined | None:
        """Return the fused loop, unless conditions differ or several loops share nothing."""
        loops, turns = self.loops, self.turns
        apart = sum(len(loop.starts) + len(loop.slices_of) for loop in loops)
        nothing = len(loops) > 1 and len(self.carried) + len(self.sliced) == apart
        if nothing or len({turn.test for turn in turns}) > 1:
            return None
        updates = dict(
            chain(*(zip(kinds, turn.updates, strict=True) for kinds, turn in zip(self.kinds, turns, strict=True)))
        )
        loop = Opened(
            self.graph,
            loops[0].length,
            self.place,
            [Carried(*read, updates[kind]) for kind, read in self.carried.items()],
            [*self.sliced.values()],
            [*self.others.values()],
            [*dict.fromkeys(y for turn in turns for y in turn.stacked)],
            turns[0].test,
            next((loop.turns for loop in loops if loop.turns is not None), None),
            loops[0].reverse,
            next((loop.checkpoint for loop in loops if loop.checkpoint is not None), None),
            next((loop.place_size for loop in loops if loop.place_size is not None), None),
        )
        return Joined(loops, loop, self._results(loop))

    def _results(self, loop: Opened) -> dict[Node, list[int]]:
        """Return the result numbers of each loop among those of the fused one; the last is the number of iterations."""
        carried = {kind: i for i, kind in enumerate(self.carried)}
        stacked = {y: i for i, y in enumerate(loop.stacked, len(carried))}
        last = len(carried) + len(stacked)
        return {
            one.node: [*(carried[kind] for kind in kinds), *(stacked[y] for y in turn.stacked), last]
            for one, kinds, turn in zip(self.loops, self.kinds, self.turns, strict=True)
        }
