"""A loop taken apart: what it is given outside, and one turn of it in a graph of its own, to be put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from symgrad.core.graph import INPUT, ITEM, Graph, Node
from symgrad.core.region import Region, inline
from symgrad.core.sizes import Size
from symgrad.frontend.variable import Variable, freeze
from symgrad.ops.control import SCAN, parted
from symgrad.rewrite.engine import Made

# ---- as it stands in a program


class Given(NamedTuple):
    """What a turn is given, by what it is."""

    carry: Sequence[Node]
    place: Node
    slices: Sequence[Node]
    others: Sequence[Node]


class Loop(NamedTuple):
    """A loop: its inputs by what they are, and its parameters."""

    node: Node
    length: Node
    starts: Sequence[Node]
    slices_of: Sequence[Node]
    others: Sequence[Node]
    body: Region
    test: Region | None
    turns: Size | None
    reverse: bool

    @property
    def given(self) -> Given:
        """The parameters of its body."""
        n, m = len(self.starts), len(self.starts) + 1 + len(self.slices_of)
        parameters = self.body.parameters
        return Given(parameters[:n], parameters[n], parameters[n + 1 : m], parameters[m:])


def loop_of(node: Node) -> Loop:
    """A node that is a loop, by its parts."""
    params = dict(node.params)
    starts, slices_of, others = parted(node.inputs[1:], params["carried"], params.get("sliced", 0))
    body, test, turns = params["body"], params.get("test"), params.get("turns")
    return Loop(node, node.inputs[0], starts, slices_of, others, body, test, turns, params.get("reverse", False))


# ---- one turn in a graph


class Turn(NamedTuple):
    """What a turn gives: what is carried on and what is stacked, and whether there was to be one."""

    updates: list[Node]
    stacked: list[Node]
    test: Node | None


def turn_in(graph: Graph, loop: Loop, given: Given) -> Turn:
    """One turn of a loop, appended to a graph, with the names that it has."""
    image = inline(graph, loop.body, [*given.carry, given.place, *given.slices, *given.others])
    loop.body.label(graph, image)
    results, n, test = [image[y] for y in loop.body.results], len(loop.starts), None
    if loop.test is not None:
        image = inline(graph, loop.test, [*given.carry, given.place, *given.others])
        loop.test.label(graph, image)
        test = image[loop.test.results[0]]
    return Turn(results[:n], results[n:], test)


def stand_in(graph: Graph, parameter: Node, loop: Loop) -> Node:
    """An input of the graph of a turn for a parameter of a loop's body, called as that is."""
    node = graph.add(INPUT, (), (("aval", parameter.aval), ("name", f"x{len(graph.inputs)}")), parameter.where)
    graph.inputs.append(node)
    loop.body.label(graph, {parameter: node})
    return node


class Carried(NamedTuple):
    """What a loop carries: its start outside, and in the turn what stands for it and what becomes of it."""

    start: Node
    value: Node
    update: Node


class Read(NamedTuple):
    """What a turn reads: an array outside, and in the turn what stands for it or for a slice of it."""

    source: Node
    value: Node


@dataclass
class Opened:
    """A loop whose turn stands in a graph of its own.

    Attributes
    ----------
    graph : Graph
        Of the turn: what it is given are inputs.
    length : Node
        Outside, as the sources of what is carried, sliced and read.
    place : Node
    carried : list of Carried
    sliced, others : list of Read
    stacked : list of Node
    test : Node, optional
    turns : Size, optional
        By which stacks are known.
    reverse : bool
    """

    graph: Graph
    length: Node
    place: Node
    carried: list[Carried]
    sliced: list[Read]
    others: list[Read]
    stacked: list[Node]
    test: Node | None
    turns: Size | None
    reverse: bool

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Of its node."""
        return (self.length, *(x[0] for x in (*self.carried, *self.sliced, *self.others)))

    @property
    def results(self) -> list[Node]:
        """Of its body."""
        return [*(c.update for c in self.carried), *self.stacked]

    def appended(self, graph: Graph, image: Mapping[Node, Node]) -> Node:
        """Its node in another graph, on images of what it is given."""
        carry, slices, reads = ([x.value for x in part] for part in (self.carried, self.sliced, self.others))
        body = Region(self.graph, [*carry, self.place, *slices, *reads], self.results)
        params = {"body": body, "carried": len(carry), "sliced": len(slices), "reverse": self.reverse}
        if self.test is not None:
            params["test"] = Region(self.graph, [*carry, self.place, *reads], [self.test])
        if self.stacked:
            params["turns"] = self.turns
        return graph.add(SCAN, tuple([image[x] for x in self.inputs]), freeze(SCAN, params))


def opened(loop: Loop) -> Opened:
    """A loop with its turn in a graph of its own."""
    graph, at = Graph(), loop.given
    stand_ins = lambda parameters: [stand_in(graph, x, loop) for x in parameters]
    given = Given(stand_ins(at.carry), stand_in(graph, at.place, loop), stand_ins(at.slices), stand_ins(at.others))
    turn = turn_in(graph, loop, given)
    return Opened(
        graph,
        loop.length,
        given.place,
        [Carried(*each) for each in zip(loop.starts, given.carry, turn.updates, strict=True)],
        [Read(*each) for each in zip(loop.slices_of, given.slices, strict=True)],
        [Read(*each) for each in zip(loop.others, given.others, strict=True)],
        turn.stacked,
        turn.test,
        loop.turns,
        loop.reverse,
    )


# ---- in the place of others


def items_of(nodes: Iterable[Node]) -> dict[Node, dict[int, Node]]:
    """Of each node with several results those that are among `nodes`, by their numbers."""
    items: dict[Node, dict[int, Node]] = {}
    for node in nodes:
        if node.op is ITEM:
            items.setdefault(node.inputs[0], {})[dict(node.params)["index"]] = node
    return items


Appended = Callable[[Graph, Mapping[Node, Node]], Node]
"""How a node is appended to another graph, to images of what it is given."""


def instead_of(appended: Appended, node: Node, items: Mapping[Node, int | Node]) -> dict[Node, Made]:
    """How a node comes into the place of another, and into that of values its results, by number, or other values."""
    instead: dict[Node, Made] = {node: lambda new, image: Variable(new, appended(new, image))}
    return instead | {x: _result(node, i) if isinstance(i, int) else _image(i) for x, i in items.items()}


def _result(node: Node, i: int) -> Made:
    return lambda new, image: Variable(new, new.add(ITEM, (image[node],), (("index", i),)))


def _image(x: Node) -> Made:
    return lambda new, image: Variable(new, image[x])
