"""Rounds: what a program computes of each chunk of rows, and from the partial results of all chunks.

A round reads all chunks once. Its partial results (sums, maxima) are those of the loops over blocks of rows that
`symgrad.loops` makes, so what may be cut is decided there. Rows that a later round needs are computed again from the
chunk rather than stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from symgrad.core import tree
from symgrad.core.axes import AxisSignature
from symgrad.core.graph import CONSTANT, INPUT, SIZE, Aval, Node, Params, frontier, needed
from symgrad.core.region import Region, with_nested
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import Dim, Rows, Size, is_rows, symbols_of
from symgrad.errors import UnsupportedError
from symgrad.frontend.arguments import Leaf
from symgrad.frontend.graphs import Graph
from symgrad.frontend.trace import Program
from symgrad.frontend.variable import Variable
from symgrad.loops.axes import Axis, axes_of
from symgrad.loops.bodies import Bodies
from symgrad.loops.plan import Plan, partly_whole, plan_for
from symgrad.loops.row_gathers import numbering
from symgrad.products.pack_operands import COPY
from symgrad.scale.forms import chunk_signature, in_sums

Given = tuple[Node, bool]  # a value that a program takes, and whether it takes chunks of it


class Part(NamedTuple):
    """A program of a round: it takes `given`, and gives the values of `made` in the whole program."""

    program: Program
    given: tuple[Given, ...]
    made: tuple[Node, ...]
    sizes: tuple[str, ...]  # the names of sizes that it takes after the arrays


class Round(NamedTuple):
    """A pass over the chunks: what is made before it, of each chunk, and how partial results are combined."""

    before: Part | None  # of shared values and of partial results of earlier rounds
    partial: Part  # of a chunk
    joins: tuple[np.ufunc | int, ...]  # of each result of `partial`: what combines two, or the axis of its rows


@dataclass
class Division:
    """A program divided along an axis."""

    rounds: list[Round]
    finish: Part | None
    inputs: list[Node]
    outputs: list[Node]


def divided(program: Program, graph: Any, n: Dim, chunked: Mapping[Node, int]) -> Division:
    """Divide the optimised graph of a program along the axis of `n` rows that `chunked` inputs have.

    Raises
    ------
    UnsupportedError
        If an operation mixes rows in another way than by a sum, a product, a maximum or a minimum over all of them.
    """
    after = in_sums(graph, n)
    image = dict(zip(graph.inputs, after.inputs, strict=True))
    graph, chunked = after, {image[x]: i for x, i in chunked.items()}
    graph.outputs = [graph.add(COPY, (y,), (), y.where) if y in chunked else y for y in graph.outputs]
    nodes = graph.live
    axis = _axis(nodes, n, chunked)
    plan = _plan(nodes, graph.outputs, axis)
    _check(_without_numberings(nodes, graph.outputs), plan, chunked)
    return _Divider(program, graph, nodes, plan, dict(chunked), n).division()


class _Rows(Axis):
    """The axis of the rows that chunks are cut from."""

    def signature(self, node: Node) -> AxisSignature:
        return chunk_signature(node)


def _axis(nodes: Sequence[Node], n: Dim, chunked: Mapping[Node, int]) -> Axis:
    """Return the axis of the rows: all axes of values that go along with one of a chunked input."""
    found = [way for axis in axes_of(nodes, read=chunk_signature) for way in (axis, *axis.otherwise)]
    ours = [axis for axis in found if any(axis.places.get(x) == i for x, i in chunked.items())]
    places = {x: i for axis in ours for x, i in axis.places.items() if chunked.get(x, i) == i}
    return _Rows(n, places | dict(chunked))


def _plan(nodes: Sequence[Node], outputs: Sequence[Node], axis: Axis) -> Plan:
    plan = plan_for(nodes, outputs, axis)
    whole = partly_whole(plan, nodes)
    return plan_for(nodes, outputs, axis, whole) if any(x in plan.loop for x in whole) else plan


def _check(nodes: Sequence[Node], plan: Plan, chunked: Mapping[Node, int]) -> None:
    """Refuse an operation that reads all rows at once, or makes them of none."""
    places = plan.axis.places
    for node in nodes:
        for i, (x, cut) in enumerate(plan.reads(node)):
            if i == numbering(node):
                continue
            if (x in chunked or plan.is_row(x)) and cut != places[x]:
                raise _mixed(node, f"reads all rows of a {x.aval} at once")
            if x in places and x.inputs and x not in plan.loop:
                raise _mixed(x, f"makes all rows of a {x.aval} at once")


def _without_numberings(nodes: Sequence[Node], outputs: Sequence[Node]) -> list[Node]:
    """Return the nodes that outputs need beside indices that count rows, which are made anew for each chunk."""
    wanted = set(outputs)
    for node in reversed(nodes):
        if node in wanted:
            wanted.update([x for i, x in enumerate(node.inputs) if i != numbering(node)])
    return [node for node in nodes if node in wanted]


def _mixed(node: Node, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"split: {node.op.path} {what}, so it cannot be computed in chunks",
        "Write it as a sum, a maximum or a minimum over rows of what each row gives.",
        node.where,
    )


class _Rounds(Bodies):
    """The bodies of the loops of a plan, where rows are computed again in each round that reads them."""

    def _is_recomputed(self, x: Node) -> bool:
        return True


class _Divider:
    """The programs of the rounds, made from the bodies of loops over blocks."""

    def __init__(
        self, program: Program, graph: Any, nodes: Sequence[Node], plan: Plan, chunked: dict[Node, int], n: Dim
    ) -> None:
        self.program, self.graph, self.nodes, self.plan, self.chunked, self.n = program, graph, nodes, plan, chunked, n
        self.bodies = _Rounds(graph, nodes, plan)
        self.sizes: Sizes = program.sizes
        self.rows = self.sizes.fresh("m") if "m" in self.sizes.symbols else self.sizes.symbol("m")
        self.names = _Names(graph, program)

    def division(self) -> Division:
        rounds, known = [], set(self.graph.inputs)
        for k in range(self.plan.loops):
            partial, joins = self._partial(k)
            wanted = [x for x, is_cut in partial.given if not is_cut and x not in known]
            rounds.append(Round(self._between(wanted, known, f"before_{k + 1}"), partial, joins))
            known |= set(partial.made)
        ends = [y for y in self.graph.outputs if y not in known]
        finish = self._between([*dict.fromkeys(ends)], known, "finish")
        return Division(rounds, finish, self.graph.inputs, self.graph.outputs)

    def _partial(self, k: int) -> tuple[Part, tuple[np.ufunc | int, ...]]:
        """Return what a round computes of a chunk: of rows those that are results, and partial sums."""
        body = self.bodies.bodies[k]
        results = [x for x in body.image if self.bodies.is_result(x, k)]
        ends = [self.bodies.output(x, k) for x in results]
        graph, given = Graph(), []
        image: dict[Node, Node] = {}
        for (x, cut), twin in sorted(body.inputs.items(), key=lambda item: (item[0][1] is None, item[0][0].id)):
            if cut is not None:
                image[twin] = graph.add_input(self.names[x], self._aval(twin.aval), x.where)
                given.append((x, True))
        shared = {x: twin for (x, cut), twin in body.inputs.items() if cut is None}
        made: dict[Node, Node] = {}
        for x in sorted(frontier(shared, self._is_number), key=lambda x: x.id):
            made[x] = graph.add_input(self.names[x], x.aval, x.where)
            given.append((x, False))
        for x in needed(shared, made):
            made[x] = graph.add(x.op, tuple([made[y] for y in x.inputs]), x.params, x.where)
        image |= {twin: made[x] for x, twin in shared.items()}
        for node in needed(ends, image):
            image[node] = graph.add(
                node.op, tuple([image[x] for x in node.inputs]), self._params(node.params), node.where
            )
        back = {twin: x for x, twin in body.image.items()}
        graph.take_names(self.graph.names, {back[twin]: made for twin, made in image.items() if twin in back})
        graph.outputs = [image[y] for y in ends]
        joins = tuple([self._join(x) for x in results])
        name = f"{self.program.name}_partial" + (f"_{k + 1}" if self.plan.loops > 1 else "")
        return self._part(
            graph, given, results, name, f"Partial results of a chunk of rows, for {self.program.name}."
        ), joins

    def _is_number(self, x: Node) -> bool:
        """Whether a shared value is a number made of numbers: each chunk computes it, rather than being given it."""
        return x not in self.plan.loop and x.aval.shape == () and (x.op in (CONSTANT, SIZE) or x.op.elementwise)

    def _join(self, x: Node) -> np.ufunc | int:
        if self.plan.is_row(x):
            return self.plan.axis.places[x]
        combine = self.plan.axis.signature(x).combine
        assert combine is not None
        return combine

    def _between(self, wanted: Sequence[Node], known: set[Node], kind: str) -> Part | None:
        """Return what makes shared values from inputs and from partial results; None if nothing is to be made."""
        if not wanted:
            return None
        graph, image = Graph(), {}
        nodes = needed(wanted, known)
        given = [x for x in sorted(known, key=lambda x: x.id) if any(x in node.inputs for node in nodes)]
        for x in given:
            image[x] = graph.add_input(self.names[x], x.aval, x.where)
        for node in nodes:
            image[node] = graph.add(
                node.op, tuple([image[x] for x in node.inputs]), node.params, node.where.moved(image)
            )
        graph.take_names(self.graph.names, image)
        graph.outputs = [image[y] for y in wanted]
        summary = (
            f"Results of {self.program.name} from partial results."
            if kind == "finish"
            else (f"Values that chunks share, for {self.program.name}.")
        )
        return self._part(graph, [(x, False) for x in given], list(wanted), f"{self.program.name}_{kind}", summary)

    def _part(self, graph: Graph, given: Sequence[Given], made: Sequence[Node], name: str, summary: str) -> Part:
        graph.sizes = Sizes(lift=lambda dim: Variable(graph, graph.size(dim)))
        graph.sizes.assumed, graph.sizes.columns = self.sizes.assumed, self.sizes.columns
        leaves = [
            Leaf(text := self.names[x], "", text, text, node) for (x, _), node in zip(given, graph.inputs, strict=True)
        ]
        numbers = self._unknown_sizes(graph)
        leaves += [Leaf(str(size), "", str(size), str(size), size=size) for size in numbers]
        parameters = [Parameter(leaf.parameter, Parameter.POSITIONAL_OR_KEYWORD) for leaf in leaves]
        inputs: dict[str, Any] = {leaf.name: Variable(graph, leaf.node) for leaf in leaves if leaf.node is not None}
        inputs |= {leaf.name: leaf.size for leaf in leaves if leaf.size is not None}
        program = Program(
            graph,
            inputs,
            tuple([Variable(graph, y) for y in graph.outputs]),
            name,
            self.program.where,
            leaves,
            tree.flatten((0,) * len(leaves))[1],
            parameters,
            graph.sizes,
            [],
            summary,
        )
        return Part(program, tuple(given), tuple(made), tuple(map(str, numbers)))

    def _unknown_sizes(self, graph: Graph) -> list[Dim]:
        """Return the symbols of a program that no shape of its arguments tells."""
        told = {str(n) for x in graph.inputs for n in x.aval.shape if isinstance(n, Dim)}
        used = {
            name: size.scope.symbol(name)
            for x in with_nested(graph.nodes)
            for size in _sizes_of(x)
            for name in symbols_of(size)
        }
        return [size for name, size in used.items() if name not in told]

    # ---- rows of a chunk in the place of those of a block

    def _aval(self, aval: Aval) -> Aval:
        return aval._replace(shape=tuple(map(self._size, aval.shape)))

    def _size(self, size: Size) -> Size:
        return self.rows if is_rows(size) else size

    def _params(self, params: Params) -> Params:
        return tuple([(name, self._value(value)) for name, value in params])

    def _value(self, value: Any) -> Any:
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(map(self._value, value))
        if isinstance(value, Region):
            return self._region(value)
        return self._size(value) if isinstance(value, Rows) else value

    def _region(self, region: Region) -> Region:
        graph, image = Graph(), {}
        for i, x in enumerate(region.parameters):
            image[x] = graph.add(INPUT, (), (("aval", self._aval(x.aval)), ("name", f"x{i}")), x.where)
        for node in region.nodes:
            image[node] = graph.add(
                node.op, tuple([image[x] for x in node.inputs]), self._params(node.params), node.where
            )
        graph.take_names(region.graph.names, image)
        return Region(graph, [image[x] for x in region.parameters], [image[y] for y in region.results])


def _sizes_of(node: Node) -> Iterator[Dim]:
    avals = [node.aval] if isinstance(node.aval, Aval) else node.aval
    for aval in avals:
        yield from (n for n in aval.shape if isinstance(n, Dim))
    for _, value in node.params:
        yield from (n for n in (value if isinstance(value, tuple) else (value,)) if isinstance(n, Dim))


class _Names:
    """The names of values as arguments: those of the user's, or numbered ones."""

    def __init__(self, graph: Any, program: Program) -> None:
        self._hints = graph.names
        self._leaves = {
            node: leaf.name
            for node, leaf in zip(graph.inputs, (each for each in program.leaves if each.node is not None), strict=True)
        }
        self._taken = {*self._leaves.values(), *program.sizes.symbols}
        self._names: dict[Node, str] = dict(self._leaves)

    def __getitem__(self, node: Node) -> str:
        if node not in self._names:
            hint = self._hints.get(node)
            stem = hint if isinstance(hint, str) else "t"
            names = (stem if i == 0 and stem != "t" else f"{stem}{i + 1}" for i in count())
            self._names[node] = next(name for name in names if name not in self._taken)
            self._taken.add(self._names[node])
        return self._names[node]
