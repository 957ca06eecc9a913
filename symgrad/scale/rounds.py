"""Rounds: what a program computes of each chunk of rows, and from the partial results of all chunks.

A round reads all chunks once. Its partial results (sums, maxima) are those of the loops over blocks of rows that
`symgrad.loops` makes, so what may be cut is decided there. Rows that a later round needs are computed again from the
chunk rather than stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from symgrad.core import tree
from symgrad.core.axes import AxisSignature
from symgrad.core.graph import CONSTANT, ITEM, SIZE, Aval, Node, Params, frontier, is_token, needed
from symgrad.core.region import Region, rebuilt, with_nested
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import Dim, Rows, Size, is_rows, symbols_of
from symgrad.errors import UnsupportedError
from symgrad.frontend.arguments import Leaf
from symgrad.frontend.graphs import Graph
from symgrad.frontend.trace import Program
from symgrad.frontend.variable import Variable
from symgrad.loops.axes import Axis, Signature, axes_of
from symgrad.loops.bodies import Bodies, Body
from symgrad.loops.plan import Plan, partly_whole, plan_for
from symgrad.loops.row_gathers import numbering
from symgrad.ops.checks import START
from symgrad.ops.control import SCAN
from symgrad.ops.shape import COPY
from symgrad.scale.forms import chunk_signature, in_sums
from symgrad.scale.recurrences import (
    LAST,
    Border,
    Directions,
    item_signature,
    loop_signature,
    params_of_chunk,
    recurs,
    with_borders,
)

Given = tuple[Node, bool]  # a value that a program takes, and whether it takes chunks of it
Join: TypeAlias = np.ufunc | int | None  # combines two partial results; the axis of rows; None for a carry


class Part(NamedTuple):
    """A program of a round: it takes `given`, and gives the values of `made` in the whole program."""

    program: Program
    given: tuple[Given, ...]
    made: tuple[Node, ...]
    sizes: tuple[str, ...]  # the names of sizes that it takes after the arrays


class Round(NamedTuple):
    """A pass over the chunks: what is made before it, of each chunk, and how partial results are combined."""

    before: Part | None  # of shared values and of partial results of earlier rounds
    partial: Part  # of a chunk: it takes rows, carries at the border of the chunk, and shared values
    joins: tuple[Join, ...]  # by result of `partial`


@dataclass
class Division:
    """A program divided along an axis."""

    rounds: list[Round]
    finish: Part | None
    inputs: list[Node]
    outputs: list[Node]
    borders: list[Border]


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
    _check_effects(graph.live)
    loops = [x for x in graph.live if recurs(x, n)]
    over_rows = _axis(graph.live, n, chunked, loops).places
    after, loops, borders = with_borders(graph, [x for x in loops if x in over_rows])
    chunked = {y: chunked[x] for x, y in zip(graph.inputs, after.inputs, strict=False) if x in chunked}
    plan = _plan(after.live, after.outputs, _axis(after.live, n, chunked, loops), borders)
    _check(_without_numberings(after.live, after.outputs), plan, chunked)
    _check_loops(loops, borders, plan, chunked)
    return _Divider(program, after, plan, loops, borders, (len(graph.inputs), len(graph.outputs))).division()


@dataclass(eq=False)
class _Rows(Axis):
    """The axis of the rows that chunks are cut from."""

    read: Signature = chunk_signature

    def signature(self, node: Node) -> AxisSignature:
        return self.read(node)


def _axis(nodes: Sequence[Node], n: Dim, chunked: Mapping[Node, int], loops: Collection[Node]) -> Axis:
    """Return the axis of the rows: all axes of values that go along with one of a chunked input.

    Iterations of `loops` go along it, too.
    """

    def read(node: Node) -> AxisSignature:
        if node in loops:
            return loop_signature(node, chunk_signature(node))
        in_loop = node.op is ITEM and node.inputs[0] in loops
        return item_signature(node, chunk_signature(node)) if in_loop else chunk_signature(node)

    found = [way for axis in axes_of(nodes, read=read) for way in (axis, *axis.otherwise)]
    ours = [axis for axis in found if any(axis.places.get(x) == i for x, i in chunked.items())]
    places = {x: i for axis in ours for x, i in axis.places.items() if chunked.get(x, i) == i}
    return _Rows(n, places | dict(chunked), read=read)


def _plan(nodes: Sequence[Node], outputs: Sequence[Node], axis: Axis, borders: Sequence[Border]) -> Plan:
    outputs = [*outputs, *(border.loop for border in borders)]  # a loop stays in its pass
    plan = plan_for(nodes, outputs, axis, earliest=Directions(borders))
    whole = partly_whole(plan, nodes)
    if any(x in plan.loop for x in whole):
        plan = plan_for(nodes, outputs, axis, whole, Directions(borders))
    return plan


def _check_loops(loops: Sequence[Node], borders: Sequence[Border], plan: Plan, chunked: Mapping[Node, int]) -> None:
    """Refuse loops over rows that are computed as a whole, or that begin with rows."""
    whole = [x for x in loops if x not in plan.loop]
    whole += [border.loop for border in borders if border.init in chunked or plan.is_row(border.init)]
    if whole:
        raise _mixed(whole[0], "needs all rows at once")


def _check_effects(nodes: Sequence[Node]) -> None:
    """Refuse a program that raises, warns or prints: chunks would do so in another order."""
    effect = next((x for x in nodes if is_token(x) and x.op is not START), None)
    if effect is not None:
        raise UnsupportedError(
            "split: the program raises, warns or prints by its values, which chunks cannot do in its order",
            "Leave that out with checks=False, or test the values before.",
            effect.where,
        )


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
    if node.op is SCAN:
        return UnsupportedError(
            f"split: a loop {what}, so it cannot be computed in chunks",
            "Loop over all rows, by themselves: for x in xs, without their numbers and without break.",
            node.where,
        )
    return UnsupportedError(
        f"split: {node.op.path} {what}, so it cannot be computed in chunks",
        "Write it as a sum, a maximum or a minimum over rows of what each row gives.",
        node.where,
    )


class _Rounds(Bodies):
    """The bodies of the loops of a plan, where rows are computed again in each round that reads them."""

    def __init__(self, graph: Any, plan: Plan, loops: Collection[Node]) -> None:
        self._loops = loops  # over rows
        super().__init__(graph, graph.live, plan)

    def _is_recomputed(self, x: Node) -> bool:
        return True

    def _compute(self, body: Body, node: Node, k: int) -> None:
        if node in self._loops:
            self._run(body, node, k)
        else:
            super()._compute(body, node, k)

    def _run(self, body: Body, loop: Node, k: int) -> None:
        """Run a loop over the rows of a chunk."""
        extent = self.extents[k][loop]
        rows = self._length(extent)
        _, *operands = zip(loop.inputs, self._cuts(loop, extent), strict=True)
        inputs = [body.graph.size(rows), *(self._fetch(body, x, cut, k) for x, cut in operands)]
        body.image[loop] = body.graph.add(loop.op, tuple(inputs), params_of_chunk(loop, rows), loop.where)


class _Divider:
    """The programs of the rounds, made from the bodies of loops over blocks."""

    def __init__(
        self,
        program: Program,
        graph: Any,
        plan: Plan,
        loops: Collection[Node],
        borders: list[Border],
        counts: tuple[int, int],
    ) -> None:
        self.program, self.graph, self.plan, self.borders = program, graph, plan, borders
        self.inputs, self.outputs = graph.inputs[: counts[0]], graph.outputs[: counts[1]]  # without those of borders
        self.bodies = _Rounds(graph, plan, loops)
        self.sizes: Sizes = program.sizes
        self.rows = self.sizes.fresh("m") if "m" in self.sizes.symbols else self.sizes.symbol("m")
        self.sizes.many.add(str(self.rows))
        self.names = _Names(graph, program)

    def division(self) -> Division:
        rounds, known = [], set(self.graph.inputs)
        for k in range(self.plan.loops):
            partial, joins = self._partial(k)
            begun = [border.init for border in self.borders if border.left in partial.made]
            wanted = [x for x in (*(x for x, is_cut in partial.given if not is_cut), *begun) if x not in known]
            before = self._between([*dict.fromkeys(wanted)], known, f"before_{k + 1}")
            rounds.append(Round(before, partial, joins))
            known |= set(partial.made)
        ends = [y for y in self.outputs if y not in known]
        finish = self._between([*dict.fromkeys(ends)], known, "finish")
        return Division(rounds, finish, self.inputs, self.outputs, self.borders)

    def _partial(self, k: int) -> tuple[Part, tuple[Join, ...]]:
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
        own = {border.given: border.left in results for border in self.borders}  # carries of earlier loops come first
        for x in sorted(frontier(shared, self._is_number), key=lambda x: (x not in own, own.get(x, False), x.id)):
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

    def _join(self, x: Node) -> Join:
        if self.plan.is_row(x):
            return self.plan.axis.places[x]
        combine = self.plan.axis.signature(x).combine
        assert combine is not None
        return None if combine is LAST else combine

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
            name: size.scope.written(name)
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
            return rebuilt(value, lambda x: self._aval(x.aval), lambda node: self._params(node.params))
        return self._size(value) if isinstance(value, Rows) else value


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
        leaves = [leaf.name for leaf in program.leaves if leaf.node is not None]
        self._leaves = dict(zip(graph.inputs, leaves, strict=False))  # the inputs behind them are carries
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
