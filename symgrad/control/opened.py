"""A loop taken apart: what it is given outside, and one turn of it in a graph of its own, to be put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from symgrad.core.graph import CONSTANT, INPUT, ITEM, Aval, Graph, Node, reached
from symgrad.core.provenance import Where
from symgrad.core.region import Region, inline
from symgrad.core.sizes import Size, is_counted
from symgrad.frontend.variable import Variable, freeze
from symgrad.ops.control import SCAN, mentions
from symgrad.ops.control_parts import Given, Loop
from symgrad.rewrite.engine import Made

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


def stand_in(graph: Graph, aval: Aval, where: Where) -> Node:
    """A further input of the graph of a turn."""
    node = graph.add(INPUT, (), (("aval", aval), ("name", f"x{len(graph.inputs)}")), where)
    graph.inputs.append(node)
    return node


class Carried(NamedTuple):
    """What a loop carries: its start outside, and in the turn what stands for it and what becomes of it."""

    start: Any  # a node, or what says how one is made
    value: Node
    update: Node


class Read(NamedTuple):
    """What a turn reads: an array outside, and in the turn what stands for it or for a slice of it."""

    source: Any  # a node, or what says how one is made
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
    checkpoint : int or str, optional
        For its pullback.
    place_size : str, optional
        What the place is called as a size, if values of a turn have such sizes.
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
    checkpoint: int | str | None
    place_size: str | None = None

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Of its node."""
        return (self.length, *(x[0] for x in (*self.carried, *self.sliced, *self.others)))

    @property
    def results(self) -> list[Node]:
        """Of its body."""
        return [*(c.update for c in self.carried), *self.stacked]

    def has_size_of_turn(self, node: Node) -> bool:
        """Whether a value of the turn is of a size that only the turn knows, or is made by such a size."""
        return self.place_size is not None and mentions(node, {self.place_size})

    def rewritten(self, step: Callable[[Graph], Graph]) -> Opened:
        """The loop with what a step makes of the graph of its turn; itself where that stays as it is."""
        old, tests = self.graph, [] if self.test is None else [self.test]
        old.outputs = [*self.results, *tests]
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
            test=new.outputs[-1] if tests else None,
        )

    def without_unread(self) -> Opened:
        """The loop without slices and other values that its turn does not read."""
        read = set(reached([*self.results, *([] if self.test is None else [self.test])]))
        sliced, others = ([x for x in part if x.value in read] for part in (self.sliced, self.others))
        return replace(self, sliced=sliced, others=others)

    def appended(self, graph: Graph, image: Mapping[Any, Node]) -> Node:
        """Its node in another graph, on images of what it is given."""
        carry, slices, reads = ([x.value for x in part] for part in (self.carried, self.sliced, self.others))
        body = Region(self.graph, [*carry, self.place, *slices, *reads], self.results)
        params = {"body": body, "carried": len(carry), "sliced": len(slices), "reverse": self.reverse}
        params |= {"checkpoint": self.checkpoint, "place": self.place_size}
        if self.test is not None:
            params["test"] = Region(self.graph, [*carry, self.place, *reads], [self.test])
        if self.stacked or is_counted(self.turns):  # of which there may be other arrays
            params["turns"] = self.turns
        return graph.add(SCAN, tuple([image[x] for x in self.inputs]), freeze(SCAN, params))


def opened(loop: Loop) -> Opened:
    """A loop with its turn in a graph of its own, which has for itself the numbers that it reads."""
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
    """A loop with this turn of it, which stands in a graph and is given these values."""
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
    """Whether what every turn reads is a number that is known."""
    return source.op is CONSTANT and not source.aval.shape and source.aval == parameter.aval


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


def with_sources(loop: Opened, made: Callable[[Graph, Mapping[Node, Node]], Mapping[Any, Node]]) -> Appended:
    """How a loop is appended of whose sources some are made for it."""
    return lambda graph, image: loop.appended(
        graph, {**{x: image[x] for x in loop.inputs if x in image}, **made(graph, image)}
    )


def instead_of(appended: Appended, node: Node, items: Mapping[Node, int | Node]) -> dict[Node, Made]:
    """How a node comes into the place of another, and into that of values its results, by number, or other values."""
    instead: dict[Node, Made] = {node: lambda new, image: Variable(new, appended(new, image))}
    return instead | {x: _result(node, i) if isinstance(i, int) else image_of(i) for x, i in items.items()}


def _result(node: Node, i: int) -> Made:
    return lambda new, image: Variable(new, new.item(image[node], i))


def image_of(x: Node) -> Made:
    """How what has become of another value stands for one."""
    return lambda new, image: Variable(new, image[x])
