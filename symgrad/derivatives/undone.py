"""Undo writes in a pullback: of an array that iterations write parts of, these parts are stored, not the whole array.

The loop that runs backwards starts from the final array. Each of its iterations restores what the iteration forwards
has overwritten; then its pullback reads the array as it was.

An iteration turns the array into its next value by steps, called links: assignments, branches and inner loops. Each
makes a new version of the array. An assignment is undone by the numbers that it overwrites, a branch on the side that
was taken. An inner loop is undone by its own pullback if that restores the array; else by the rows that contain all
that it writes.

References
----------
Griewank & Walther, *Evaluating Derivatives*, 2nd ed., ch. 4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from symgrad.analysis.cost import numbers
from symgrad.core.graph import ITEM, Graph, Node, depends, reached
from symgrad.core.region import Region, inlined, regions_of
from symgrad.core.sizes import Size, has_side
from symgrad.derivatives.areas import Place, areas, operand_of, version_before
from symgrad.derivatives.bodies import Body, Looped, appended
from symgrad.derivatives.branches import Pair, extended_branch, paired, recorded_branch
from symgrad.derivatives.loops import OpenLoop, images
from symgrad.ops.control import COND, mentions, own_sizes
from symgrad.ops.control_parts import Carry, Loop
from symgrad.ops.index import GET, SET

FEW = 32
"""Least ratio of an array to what an iteration writes of it, for the writes to be undone."""

At = Callable[[Node], Node]
"""Gives the image of a value of an iteration in the loop that runs backwards."""

# Each class of links has: the versions `before` and `after`; the values `stored` to undo it; other values `read` for
# that; and `undone`, which appends the version before to the graph, given the version after.


@dataclass(frozen=True, eq=False)
class Parts:
    """A link that writes only into some parts of the array: an assignment, or an inner loop."""

    graph: Graph
    before: Node
    after: Node
    places: Sequence[Place]

    @cached_property
    def stored(self) -> Sequence[Node]:
        return [self.graph.add(GET, (self.before, *indices), params) for indices, params in self.places]

    @property
    def read(self) -> Sequence[Node]:
        return [x for indices, _ in self.places for x in indices]

    def undone(self, after: Node, at: At) -> Node:
        for (indices, params), old in zip(reversed(self.places), reversed(self.stored), strict=True):
            after = self.graph.add(SET, (after, at(old), *map(at, indices)), params)
        return after


@dataclass(frozen=True, eq=False)
class Backwards:
    """An inner loop whose pullback runs in the iteration backwards.

    If its residuals cannot be stored, since their number differs between iterations, the loop runs again to give them:
    `again` are the parts to restore before that.
    """

    before: Node
    after: Node
    looped: Looped
    again: Parts | None

    stored: Sequence[Node] = ()
    read: Sequence[Node] = ()

    def undone(self, after: Node, at: At) -> Node:
        if self.looped.before is not None:
            return at(self.looped.before)
        assert self.again is not None
        return self.again.undone(at(self.looped.after), at)


@dataclass(frozen=True, eq=False)
class Sides:
    """A branch: the side that was taken is undone."""

    graph: Graph
    before: Node
    after: Node
    stand_ins: Sequence[Node]  # of the operands
    bodies: Sequence[Body]
    chains: Sequence[Sequence[Link]]  # of each side

    @property
    def branch(self) -> Node:
        return self.after.inputs[0]

    @cached_property
    def pairs(self) -> list[Pair]:
        """Return the values that the sides store, in pairs of one type."""
        own = set(self.stand_ins)
        values = [[x for link in chain for x in (*link.stored, *link.read) if x not in own] for chain in self.chains]
        return paired(*[[*dict.fromkeys(each)] for each in values])

    @cached_property
    def stored(self) -> Sequence[Node]:
        if not self.pairs:
            return []
        node = extended_branch(self.graph, self.branch, self.bodies, self.pairs)
        return [self.graph.item(node, len(self.branch.aval) + k) for k in range(len(self.pairs))]

    @cached_property
    def operands(self) -> dict[Node, Node]:
        """Return the operands that the links of the sides read, by their stand-ins."""
        read = {x for chain in self.chains for link in chain for x in link.read}
        return {x: y for x, y in zip(self.stand_ins, self.branch.inputs[1:], strict=True) if x in read}

    @property
    def read(self) -> Sequence[Node]:
        return [self.branch.inputs[0], *self.operands.values()]

    def undone(self, after: Node, at: At) -> Node:
        graph, array = self.graph, self.graph.seed(after.aval)
        slots = [graph.seed(x.aval) for x in self.stored]
        bound = {array: after} | {x: at(y) for x, y in self.operands.items()}
        bound |= {slot: at(x) for slot, x in zip(slots, self.stored, strict=True)}
        results = [[self._side_undone(k, array, slots)] for k in range(len(self.chains))]
        return graph.item(recorded_branch(graph, at(self.branch.inputs[0]), results, bound), 0)

    def _side_undone(self, k: int, array: Node, slots: Sequence[Node]) -> Node:
        """Append the version before one of the sides to the graph, given the one after."""
        given = {pair[k]: slot for pair, slot in zip(self.pairs, slots, strict=True)}
        for link in reversed(self.chains[k]):
            array = link.undone(array, lambda x: given.get(x, x))
        return array


Link: TypeAlias = Parts | Backwards | Sides


class Around(NamedTuple):
    """Facts of the loop around the links."""

    looped: Mapping[Node, Looped] = MappingProxyType({})  # the arrays that inner loops carry
    own: Collection[str] = ()  # sizes that no other iteration has
    ends: Mapping[Node, tuple[Size, Size]] = MappingProxyType({})  # the least and the largest value of its index


def links(graph: Graph, value: Node, node: Node, around: Around) -> list[Link] | None:
    """Return the links from one version of an array to another one; None where one of them cannot be undone."""
    found: list[Link] = []
    while node is not value:
        last = version_before(node)
        made = [] if last is None else _links_between(graph, last, node, around)
        if last is None or not made:
            return None
        found, node = [*made, *found], last
    return found


def _links_between(graph: Graph, before: Node, after: Node, around: Around) -> list[Link]:
    """Return the links to a version from the one before, none if they cannot be undone."""
    if after.op.assigns:
        return [Parts(graph, before, after, [(after.inputs[2:], after.params)])]
    if after.inputs[0].op is COND:
        sides = _sides_of(graph, before, after)
        return [] if sides is None else [sides]
    looped = around.looped.get(after)
    again = looped is not None and any(mentions(x, around.own) for x in looped.stored)
    if looped is not None and looped.before is not None and not again:
        return [Backwards(before, after, looped, None)]
    places = areas(graph, after, around.ends)
    if not places:
        return []
    parts = Parts(graph, before, after, places)
    return [Backwards(before, after, looped, parts), parts] if looped is not None and again else [parts]


def _sides_of(graph: Graph, before: Node, after: Node) -> Sides | None:
    """Return the link of a branch; None if a side cannot be undone, or stores values of a size that only a side has."""
    branch, number, operand = after.inputs[0], dict(after.params)["index"], operand_of(after)
    assert operand is not None, "there is a version before"
    stand_ins = [graph.seed(x.aval) for x in branch.inputs[1:]]
    bodies = [appended(graph, region, stand_ins) for region in regions_of(branch)]
    chains = [links(graph, stand_ins[operand], body.results[number], Around()) for body in bodies]
    found = Sides(graph, before, after, stand_ins, bodies, [chain for chain in chains if chain is not None])
    if len(found.chains) < len(chains):
        return None
    values = [x for pair in found.pairs for x in pair if x is not None]
    return None if any(has_side(n) for x in values for n in x.aval.shape) else found


@dataclass(frozen=True, eq=False)
class Overwritten:
    """A carried array that iterations write parts of."""

    number: int  # of the carry
    value: Node
    links: Sequence[Link]
    end: Node | None = None  # what the loop has made of it

    @cached_property
    def versions(self) -> set[Node]:
        """Return the versions of the array in an iteration."""
        return {x for link in self.links for x in (link.before, link.after)}

    @cached_property
    def given(self) -> set[Node]:
        """Return the values that an iteration backwards restores: the versions, and what inner pullbacks start from."""
        return self.versions | {link.looped.after for link in self.links if isinstance(link, Backwards)}

    @property
    def stored(self) -> list[Node]:
        return [x for link in self.links for x in link.stored]

    def needed(self, body: Body, kept: Collection[Node]) -> list[Node]:
        """Return what is stored to undo the links."""
        read = [x for link in self.links for x in link.read]
        return [*self.stored, *body.residuals(read, (), body.carried, kept)]

    def is_read_between(self, derived: Collection[Node], made: Sequence[Node]) -> bool:
        """Whether a pullback reads a version between two links, neither of which is an inner loop with a pullback."""
        inner = [link for link in self.links if isinstance(link, Backwards)]
        between = self.versions - {self.value} - {x for link in inner for x in (link.before, link.after)}
        return not between.isdisjoint({*made, *(x for node in derived for x in node.inputs)})


def overwritten_in(
    loop: OpenLoop, number: int, made: Sequence[Node], cotangents: Collection[Node]
) -> Overwritten | None:
    """Return a carried array of which iterations overwrite a small part, if the pullback `made` can undo that."""
    body, value, nodes = loop.body, loop.carry[number], reached([*made, *loop.body.results])
    own = own_sizes(nodes) | ({body.index_size} - {None})
    derived = depends(nodes, cotangents)
    around = Around(_made_backwards(body.looped, {*nodes}), own, {loop.loop.index: (0, loop.iterations - 1)})
    chain = links(loop.graph, value, body.results[number], around)
    if not chain:
        return None
    found = Overwritten(number, value, chain)
    written = sum(numbers(x.aval.shape) for x in found.stored)
    few = numbers(value.aval.shape) >= FEW * written and not any(mentions(x, own) for x in found.stored)
    return found if few and not found.is_read_between(derived, made) else None


def _made_backwards(looped: Mapping[Node, Looped], nodes: Collection[Node]) -> dict[Node, Looped]:
    """Return the arrays of those loops that a pullback, made of these nodes, runs backwards."""
    found = {}
    for y, x in looped.items():
        before = x.before if x.before is not None and x.before.inputs[0] in nodes else None
        if before is not None or any(z.inputs[0] in nodes for z in x.stored):
            found[y] = x._replace(before=before)
    return found


class _Lost(Exception):
    """A value of the iteration is read before it is restored."""


def with_restored(
    loop: Loop, undone: Sequence[Overwritten], instead: Mapping[Node, Node], lost: Collection[Node]
) -> tuple[Loop, dict[Node, Node]] | None:
    """Add the arrays that a backward loop restores to its carries; return it, and `instead` with their versions.

    `instead` maps values of the iteration to their images in the backward loop. The result is None if one of the `lost`
    values, which are not there in the backward loop, would be read before it is restored.
    """
    graph, known = loop.graph, images(loop)
    image = {**known, **instead}

    def at(node: Node) -> Node:
        if node in image:
            return image[node]
        region = Region(graph, [*image], [node])
        if not set(lost).isdisjoint(region.nodes):
            raise _Lost
        return inlined(graph, region, [*image.values()])[node]

    values = [graph.seed(x.value.aval) for x in undone]
    arrays = [*values]
    steps = [(*_order(link), k, place) for k, x in enumerate(undone) for place, link in enumerate(x.links)]
    try:
        for k, x in enumerate(undone):
            _note(x.links[-1], arrays[k], image)
        for _, _, k, place in sorted(steps, reverse=True):
            link, last = undone[k].links[place], undone[k].links[place - 1 : place]
            arrays[k] = link.undone(arrays[k], at)
            image.setdefault(link.before, arrays[k])
            for each in last:
                _note(each, arrays[k], image)
    except _Lost:
        return None
    carries = [Carry(x.end, value, array) for x, value, array in zip(undone, values, arrays, strict=True)]
    found = {x: y for x, y in image.items() if x not in known} | {x: x for x in arrays}
    return replace(loop, carry=[*loop.carry, *carries]), found


def _order(link: Link) -> tuple[int, bool]:
    """Return a key in the order of the iteration: the last link is undone first.

    Of a loop that runs again, the parts come last: they are restored before it does.
    """
    maker = link.after.inputs[0] if link.after.op is ITEM else link.after
    return maker.id, isinstance(link, Parts)


def _note(link: Link, array: Node, image: dict[Node, Node]) -> None:
    """Note the image of the version of an array that a link has made."""
    image.setdefault(link.after, array)
    if isinstance(link, Backwards) and link.again is None:
        image.setdefault(link.looped.after, array)
