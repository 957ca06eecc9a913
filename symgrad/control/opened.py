"""A loop in parts: its inputs outside, and one iteration in a graph of its own, to be assembled again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from symgrad.core.graph import CONSTANT, INPUT, ITEM, Aval, Graph, Node, Op, reached
from symgrad.core.provenance import Where
from symgrad.core.region import Region, inlined
from symgrad.core.sizes import Size, is_counted
from symgrad.frontend.variable import Variable, freeze
from symgrad.ops.control import SCAN, mentions, own_sizes
from symgrad.ops.control_parts import Given, Loop
from symgrad.rewrite.engine import Made, copied, replaced_within

# ---- one iteration in a graph


class Turn(NamedTuple):
    """The results of one iteration: next carry, ys, and whether the iteration was to run."""

    updates: list[Node]
    stacked: list[Node]
    test: Node | None


def turn_in(graph: Graph, loop: Loop, given: Given) -> Turn:
    """Append one iteration of a loop to a graph, with the user's names."""
    image = inlined(graph, loop.body, [*given.carry, given.place, *given.slices, *given.others])
    results, n, test = [image[y] for y in loop.body.results], len(loop.starts), None
    if loop.test is not None:
        image = inlined(graph, loop.test, [*given.carry, given.place, *given.others])
        test = image[loop.test.results[0]]
    return Turn(results[:n], results[n:], test)


def stand_in(graph: Graph, aval: Aval, where: Where) -> Node:
    """Add an input to the graph of an iteration."""
    node = graph.add(INPUT, (), (("aval", aval), ("name", f"x{len(graph.inputs)}")), where)
    graph.inputs.append(node)
    return node


class Carried(NamedTuple):
    """A carry: its start outside, and in the iteration its stand-in and its update."""

    start: Any  # a node, or what makes one: made(graph, image)
    value: Node
    update: Node


class Read(NamedTuple):
    """An input of an iteration: an array outside, and the stand-in for it or for a slice of it."""

    source: Any  # a node, or what makes one: made(graph, image)
    value: Node


@dataclass
class Opened:
    """A loop with one iteration in a graph of its own; its length and the sources of its inputs are outside."""

    graph: Graph  # what an iteration is given are inputs
    length: Node
    place: Node
    carried: list[Carried]
    sliced: list[Read]
    others: list[Read]
    stacked: list[Node]
    test: Node | None
    turns: Size | None  # by which stacks are known
    reverse: bool
    checkpoint: int | str | None  # for its pullback
    place_size: str | None = None  # what the place is called as a size, if values of an iteration have such sizes

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Return the inputs of the SCAN node."""
        return (self.length, *(x[0] for x in (*self.carried, *self.sliced, *self.others)))

    @property
    def results(self) -> list[Node]:
        """Return the results of the body: the updates, then the ys."""
        return [*(c.update for c in self.carried), *self.stacked]

    @property
    def ends(self) -> list[Node]:
        """Return the outputs of an iteration: the results of the body, and the condition."""
        return self.results if self.test is None else [*self.results, self.test]

    def has_size_of_turn(self, node: Node) -> bool:
        """Whether the shape or a parameter of a value depends on a size that only an iteration knows."""
        return bool(self.sizes_of_turn) and mentions(node, self.sizes_of_turn)

    @cached_property
    def sizes_of_turn(self) -> set[str]:
        """Return the symbols of sizes that only an iteration knows: its index, and the iterations of loops inside."""
        return own_sizes(reached(self.ends)) | ({self.place_size} - {None})

    def rewritten(self, step: Callable[[Graph], Graph]) -> Opened:
        """Return the loop with its iteration's graph rewritten; itself if nothing changes."""
        old = self.graph
        old.outputs = self.ends
        new = step(old)
        if new is old:
            return self
        image, n = dict(zip(old.inputs, new.inputs, strict=True)), len(self.carried)
        pairs = zip(self.carried, new.outputs, strict=False)
        return replace(
            self,
            graph=new,
            place=image[self.place],
            carried=[Carried(c.start, image[c.value], y) for c, y in pairs],
            sliced=[Read(x.source, image[x.value]) for x in self.sliced],
            others=[Read(x.source, image[x.value]) for x in self.others],
            stacked=new.outputs[n : n + len(self.stacked)],
            test=None if self.test is None else new.outputs[-1],
        )

    def without_unread(self) -> Opened:
        """Return the loop without unused xs and consts."""
        read = set(reached(self.ends))
        sliced, others = ([x for x in part if x.value in read] for part in (self.sliced, self.others))
        return replace(self, sliced=sliced, others=others)

    def appended(self, graph: Graph, image: Mapping[Any, Node]) -> Node:
        """Append the loop to another graph, with images of its inputs, or values made from these."""
        carry, slices, reads = ([x.value for x in part] for part in (self.carried, self.sliced, self.others))
        body = Region(self.graph, [*carry, self.place, *slices, *reads], self.results)
        params = {"body": body, "carried": len(carry), "sliced": len(slices), "reverse": self.reverse}
        params |= {"checkpoint": self.checkpoint, "place": self.place_size}
        if self.test is not None:
            params["test"] = Region(self.graph, [*carry, self.place, *reads], [self.test])
        if self.stacked or is_counted(self.turns):  # of which there may be other arrays
            params["turns"] = self.turns
        inputs = [image[x] if x in image else x.made(graph, image) for x in self.inputs]
        return graph.add(SCAN, tuple(inputs), freeze(SCAN, params))


def opened(loop: Loop) -> Opened:
    """Return a loop in parts; constants are inlined."""
    graph, at = Graph(), loop.given
    graph.provenance = loop.node.where
    stand_ins = lambda parameters: [stand_in(graph, x.aval, x.where) for x in parameters]
    carry, (place,), slices = (stand_ins(part) for part in (at.carry, [at.place], at.slices))
    others = [
        graph.constant(source.constant) if _is_number(source, x) else stand_in(graph, x.aval, x.where)
        for source, x in zip(loop.others, at.others, strict=True)
    ]
    given = Given(carry, place, slices, others)
    return with_turn(graph, loop, given, turn_in(graph, loop, given))


def with_turn(graph: Graph, loop: Loop, given: Given, turn: Turn) -> Opened:
    """Return a loop with this iteration, which stands in a graph on these stand-ins."""
    return Opened(
        graph,
        loop.length,
        given.place,
        [Carried(*each) for each in zip(loop.starts, given.carry, turn.updates, strict=True)],
        [Read(*each) for each in zip(loop.slices_of, given.slices, strict=True)],
        [Read(*each) for each in zip(loop.others, given.others, strict=True) if each[1].op is not CONSTANT],
        turn.stacked,
        turn.test,
        loop.turns,
        loop.reverse,
        loop.checkpoint,
        loop.place_size,
    )


def _is_number(source: Node, parameter: Node) -> bool:
    """Whether one of the consts is a known number."""
    return source.op is CONSTANT and not source.aval.shape and source.aval == parameter.aval


# ---- in the place of others

Other = Callable[[Node, Mapping[int, Node]], Mapping[Node, Made]]
"""Takes a loop or a branch and its results that are read, by numbers; returns makers of their replacements."""


def rebuilt(graph: Graph, op: Op, other: Other) -> Graph:
    """Replace loops, or branches, of a graph; return the same graph if all stay."""
    instead = _instead_of_all(graph.live if graph.compound else (), op, other)
    return copied(graph, instead) if instead else graph


def rebuilt_within(
    graph: Graph, op: Op, other: Other, outputs: Sequence[Node], kept: Sequence[Node], since: int
) -> dict[Node, Node]:
    """Append replacements of loops or branches to a graph, for nodes since `since`; return the image of each node."""
    if all(x.op is not op for x in graph.nodes[since:]):
        return {}
    nodes = graph.needed_for([*outputs, *kept])
    instead = _instead_of_all([x for x in nodes if x.id >= since], op, other)
    return replaced_within(graph, nodes, instead) if instead else {}


def _instead_of_all(nodes: Sequence[Node], op: Op, other: Other) -> dict[Node, Made]:
    found = [x for x in nodes if x.op is op]
    items = items_of(nodes) if found else {}
    return {x: made for node in found for x, made in other(node, items.get(node, {})).items()}


def items_of(nodes: Iterable[Node]) -> dict[Node, dict[int, Node]]:
    """Return by node with several results those among `nodes`, by their numbers."""
    items: dict[Node, dict[int, Node]] = {}
    for node in nodes:
        if node.op is ITEM:
            items.setdefault(node.inputs[0], {})[dict(node.params)["index"]] = node
    return items


Appended = Callable[[Graph, Mapping[Node, Node]], Node]
"""A function that appends a node to another graph, on images of its inputs."""


def instead_of(appended: Appended, node: Node, items: Mapping[Node, int | Node]) -> dict[Node, Made]:
    """Return makers for a node and for values that become its results, by number, or other values."""
    instead: dict[Node, Made] = {node: lambda new, image: Variable(new, appended(new, image))}
    return instead | {x: _result(node, i) if isinstance(i, int) else image_of(i) for x, i in items.items()}


def _result(node: Node, i: int) -> Made:
    return lambda new, image: Variable(new, new.item(image[node], i))


def image_of(x: Node) -> Made:
    """Return a maker that replaces a value by the image of another."""
    return lambda new, image: Variable(new, image[x])
