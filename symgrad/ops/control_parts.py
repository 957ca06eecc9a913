"""Branches and loops by their parts: nothing else knows which input, parameter or result of their nodes is which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from symgrad.core.graph import CONSTANT, ITEM, Graph, Node, Params, freeze, per_node, reached
from symgrad.core.provenance import UNKNOWN, Where
from symgrad.core.region import Region, closed, inlined, stand_in
from symgrad.core.sizes import Size, is_counted
from symgrad.ops.control import SCAN, mentions, own_sizes, parted, within

_T = TypeVar("_T")


# ---- branches


class Branch(NamedTuple):
    """A branch by its parts."""

    pred: Node
    operands: Sequence[Node]
    other: Region
    then: Region


def branch_of(node: Node) -> Branch:
    """A node that is a branch, by its parts."""
    return Branch(node.inputs[0], node.inputs[1:], *dict(node.params).values())


# ---- loops


class Carry(NamedTuple):
    """A carry: its initial value outside, and in an iteration its value and the next one."""

    init: Any  # a node, or what makes one: made(graph, image)
    value: Node
    update: Node


class Read(NamedTuple):
    """One of the xs or the consts: an array outside, and in an iteration its slice or the whole of it."""

    source: Any  # a node, or what makes one: made(graph, image)
    value: Node


@dataclass(frozen=True, eq=False, kw_only=True)
class Loop:
    """A loop ``[consts, carry, xs] -> [carry, ys]``: the operands outside, each with its stand-in in one iteration.

    `loop_of` reads one from a node and `record` makes a node. In between, `opened` has the iteration in a graph of its
    own, where `map_body` rewrites it; `on` has it on any stand-ins. Parts are replaced by `dataclasses.replace`.
    """

    graph: Graph  # of the iteration
    length: Node
    index: Node
    carry: Sequence[Carry] = ()
    xs: Sequence[Read] = ()
    consts: Sequence[Read] = ()
    ys: Sequence[Node] = ()
    test: Region | None = None  # [*carry, index, *consts] -> [bool]
    iterations: Size | None = None  # the length of the ys
    reverse: bool = False
    checkpoint: int | str | None = None  # for its pullback
    index_size: str | None = None  # the symbol of the index, if values of an iteration have such sizes
    where: Where = UNKNOWN

    # ---- by kind

    def split(self, values: Sequence[_T]) -> tuple[Sequence[_T], Sequence[_T], Sequence[_T]]:
        """Split values for the operands behind the length by kind: ``(carry, xs, consts)``."""
        return parted(values, len(self.carry), len(self.xs))

    @property
    def operands(self) -> tuple[Any, ...]:
        """Return the inputs of the node."""
        return (self.length, *(x[0] for x in (*self.carry, *self.xs, *self.consts)))

    @property
    def stand_ins(self) -> list[Node]:
        """Return the stand-ins of the operands behind the length."""
        return [*(c.value for c in self.carry), *(x.value for x in (*self.xs, *self.consts))]

    @property
    def parameters(self) -> list[Node]:
        """Return the parameters of the body."""
        carry, xs, consts = self.split(self.stand_ins)
        return [*carry, self.index, *xs, *consts]

    @property
    def results(self) -> list[Node]:
        """Return the results of the body: the next carry, then the ys."""
        return [*(c.update for c in self.carry), *self.ys]

    @property
    def ends(self) -> list[Node]:
        """Return the results of the body and of the test."""
        return [*self.results, *(self.test.results if self.test else ())]

    @cached_property
    def body(self) -> Region:
        """Return the region ``[*carry, index, *xs, *consts] -> [*carry, *ys]``."""
        return Region(self.graph, self.parameters, self.results)

    # ---- sizes that only an iteration knows

    @cached_property
    def sizes_of_iteration(self) -> set[str]:
        """Return the symbols of sizes that only an iteration knows: its index, and the iterations of loops inside."""
        return own_sizes(reached(self.ends)) | ({self.index_size} - {None})

    def has_size_of_iteration(self, node: Node) -> bool:
        """Whether the shape or a parameter of a value depends on a size that only an iteration knows."""
        return bool(self.sizes_of_iteration) and mentions(node, self.sizes_of_iteration)

    # ---- other loops

    def tested(self, test: Node | None) -> Loop:
        """Return the loop with a value of the iteration as its test."""
        own = [*(c.value for c in self.carry), self.index, *(x.value for x in self.consts)]
        return replace(self, test=None if test is None else Region(self.graph, own, [test]))

    def on(self, graph: Graph, parameters: Sequence[Node]) -> Loop:
        """Append the iteration to a graph, with the user's names, on these values for the parameters of the body."""
        n = len(self.carry)
        image = inlined(graph, self.body, parameters)
        ends = [image[y] for y in self.body.results]
        if self.test is not None:
            of_test = inlined(graph, self.test, [*parameters[: n + 1], *parameters[n + 1 + len(self.xs) :]])
            ends += [of_test[y] for y in self.test.results]
        return self.moved(graph, dict(zip(self.parameters, parameters, strict=True)), ends)

    def opened(self) -> Loop:
        """Return the loop with its iteration in a graph of its own; numbers among the consts are inlined."""
        graph = Graph()
        graph.provenance = self.where
        parameters = self.parameters
        known = {x.value: x.source for x in self.consts if _is_number(x)}
        given = [
            graph.constant(known[x].constant) if x in known else stand_in(graph, x.aval, x.where) for x in parameters
        ]
        loop = self.on(graph, given)
        return replace(loop, consts=[x for x in loop.consts if x.value.op is not CONSTANT])

    def map_body(self, step: Callable[[Graph], Graph]) -> Loop:
        """Rewrite the graph of the iteration; return the loop itself if nothing changes."""
        old = self.graph
        old.outputs = self.ends
        new = step(old)
        if new is old:
            return self
        return self.moved(new, dict(zip(old.inputs, new.inputs, strict=True)), new.outputs)

    def moved(self, graph: Graph, image: Mapping[Node, Node], ends: Sequence[Node]) -> Loop:
        """Return the loop with its iteration in another graph: images of the parameters, and other `ends`."""
        updates, ys, test = parted(ends, len(self.carry), len(self.ys))
        loop = replace(
            self,
            graph=graph,
            index=image[self.index],
            carry=[Carry(c.init, image[c.value], y) for c, y in zip(self.carry, updates, strict=True)],
            xs=[Read(x.source, image[x.value]) for x in self.xs],
            consts=[Read(x.source, image[x.value]) for x in self.consts],
            ys=ys,
        )
        return loop.tested(*test or [None])

    def reading(self, operands: Sequence[Node]) -> Loop:
        """Return the loop with other operands."""
        carry, xs, consts = self.split(operands[1:])
        return replace(
            self,
            length=operands[0],
            carry=[c._replace(init=x) for c, x in zip(self.carry, carry, strict=True)],
            xs=[Read(x, y.value) for x, y in zip(xs, self.xs, strict=True)],
            consts=[Read(x, y.value) for x, y in zip(consts, self.consts, strict=True)],
        )

    def closed(self) -> Loop:
        """Return the loop with the outside values that its iteration reads as consts; loop-invariants stay outside."""
        own, ends = self.parameters, self.ends
        region = closed(self.graph, own, ends, within(self.graph, ends, own, self.index_size).__contains__)
        return replace(self, consts=[*self.consts, *(Read(x, x) for x in region.parameters[len(own) :])])

    def without_unread(self) -> Loop:
        """Return the loop without unused xs and consts."""
        read = set(reached(self.ends))
        xs, consts = ([x for x in part if x.value in read] for part in (self.xs, self.consts))
        return replace(self, xs=xs, consts=consts)

    # ---- its node

    @property
    def params(self) -> Params:
        """Return the parameters of the node."""
        params: dict[str, Any] = {"body": self.body, "carried": len(self.carry), "sliced": len(self.xs)}
        params |= {"reverse": self.reverse, "checkpoint": self.checkpoint, "place": self.index_size}
        if self.test is not None:
            assert self.index in self.test.parameters, "a loop is changed once its test is on the body's parameters"
            params["test"] = self.tested(*self.test.results).test
        if self.ys or is_counted(self.iterations):
            params["turns"] = self.iterations
        return freeze(SCAN, params)

    def record(self, graph: Graph, image: Mapping[Any, Node] | None = None) -> Node:
        """Append the loop to a graph: to another one on images of its operands, or on values that these make there."""
        operands = self.operands
        if image is not None:
            operands = tuple([image[x] if x in image else x.made(graph, image) for x in operands])
        return graph.add(SCAN, operands, self.params)


@per_node
def loop_of(node: Node) -> Loop:
    """Return a SCAN node by its parts."""
    params: dict[str, Any] = {**node.op.defaults, **dict(node.params)}
    body: Region = params["body"]
    n, m = params["carried"], params["sliced"]
    (length, *operands), parameters = node.inputs, body.parameters
    inits, xs, consts = parted(operands, n, m)
    slices, fixed, _ = parted(parameters[n + 1 :], m, len(consts))
    loop = Loop(
        graph=body.graph,
        length=length,
        index=parameters[n],
        carry=[Carry(*each) for each in zip(inits, parameters, body.results, strict=False)],
        xs=[Read(*each) for each in zip(xs, slices, strict=True)],
        consts=[Read(*each) for each in zip(consts, fixed, strict=True)],
        ys=body.results[n:],
        test=params["test"],
        iterations=params["turns"],
        reverse=params["reverse"],
        checkpoint=params["checkpoint"],
        index_size=params["place"],
        where=node.where,
    )
    vars(loop)["body"] = body  # with what has been found out about it
    return loop


def inputs_of_body(node: Node) -> Sequence[Node]:
    """Return what the parameters of the regions of a loop or a branch are in the first iteration.

    The length stands in for the index, and arrays for their slices.
    """
    if node.op is not SCAN:
        return node.inputs[1:]
    loop = loop_of(node)
    carry, xs, consts = loop.split(loop.operands[1:])
    return (*carry, loop.length, *xs, *consts)


def _is_number(x: Read) -> bool:
    """Whether one of the consts is a known number."""
    return x.source.op is CONSTANT and not x.source.aval.shape and x.source.aval == x.value.aval


def y_number(x: Node) -> int | None:
    """Return the number of a value among the ys of its loop; None for carries and for values that no loop gives."""
    if x.op is not ITEM or x.inputs[0].op is not SCAN:
        return None
    number: int = dict(x.params)["index"] - len(loop_of(x.inputs[0]).carry)
    return None if number < 0 else number
