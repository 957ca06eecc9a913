"""The pass that cuts a program into blocks of rows: a graph in, a graph out in which loops are single nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

import numpy as np

from symgrad.dims import MOST_ROWS, Dim, Rows, symbols_of
from symgrad.flow import flow_of
from symgrad.graph import CONSTANT, INPUT, ITEM, Aval, Graph, Node, Params, reached
from symgrad.ops.create import ARANGE
from symgrad.ops.define import axis_tuple
from symgrad.ops.index import ADD, GET, SET
from symgrad.ops.keys import FULL
from symgrad.ops.reduce import MEAN
from symgrad.rewrite.engine import Rules, copied, moved as moved_where, moved_name, rewrite
from symgrad.schedule import machine
from symgrad.schedule.axes import Axis, axes_of
from symgrad.schedule.gain import block_seconds, is_work, whole_seconds
from symgrad.schedule.layout import laid_out, nbytes_of_row
from symgrad.schedule.loop import LOOP, Block, Bounds, Cut
from symgrad.schedule.picks import numbering
from symgrad.schedule.plan import Plan, is_cheap, plan_for
from symgrad.schedule.sizes import likely, rows_scale
from symgrad.schedule.spans import Span, is_zero
from symgrad.schedule.stencils import Moved, moved_of
from symgrad.schedule.windows import PUT, WINDOW, key_at
from symgrad.shapes import product
from symgrad.variable import Variable

FEWEST = 1 << 12  # numbers in a value from which on blocks are thought of
FEWEST_ROWS = 128
GAIN = 0.8  # the part of its time that a program may still take in blocks
LEAST, WORTH = 20e-6, 0.05  # seconds, and the part of the program's, that must be saved beyond that
WORTH_THREADS = 400e-6  # seconds of work


def in_blocks(graph: Graph) -> Graph:
    """The program with what depends on its rows in loops over blocks, where that is faster; else as it is."""
    work = [x for x in reached(graph.outputs) if is_work(x)]
    scale = _most_rows(work)
    large = [x for x in work if any(_numbers(y) * scale >= FEWEST for y in (x, *x.inputs))]
    worth = max(LEAST, WORTH * whole_seconds(work, scale)) if large else 0
    if not large or _at_most_saved(large, scale) <= worth:
        return graph
    summed = _means_as_sums(graph)
    divisions = [Division(summed, axis) for axis in _promising(summed, worth)]
    best = max(divisions, key=lambda division: division.saved, default=None)
    return best.rebuilt() if best is not None and best.saved > worth else graph


def _numbers(node: Node) -> int:
    return likely(product(node.aval.shape)) if isinstance(node.aval, Aval) else 0


def _promising(graph: Graph, worth: float) -> list[Axis]:
    """Long axes along which much of the work lies, where blocks without any cost would be faster."""
    nodes = reached(graph.outputs)
    work = [x for x in nodes if is_work(x)]
    axes = [axis for axis in (*_with_stencils(nodes), *axes_of(nodes)) if _rows_of(axis) >= FEWEST_ROWS]
    along = [[x for x in work if not axis.places.keys().isdisjoint((x, *x.inputs))] for axis in axes]
    weights = [sum(_numbers(x) for x in axis.places if is_work(x)) for axis in axes]
    return [
        axis
        for axis, touched, weight in zip(axes, along, weights, strict=True)
        if weight and weight >= max(weights) / 2 and _at_most_saved(touched, rows_scale(axis.size)) > worth
    ]


def _with_stencils(nodes: Sequence[Node]) -> list[Axis]:
    """Axes along which slices move many rows."""
    moving = [x for x in nodes if x.op in (GET, SET, ADD) and any(map(_is_long, moved_of(x)))]
    axes = axes_of(nodes, stencils=True) if moving else []
    return [axis for axis in axes if not axis.places.keys().isdisjoint(moving)]


def _is_long(moved: Moved) -> bool:
    return likely(moved.size) * rows_scale(moved.size) >= FEWEST_ROWS


def _rows_of(axis: Axis) -> float:
    return likely(axis.size) * rows_scale(axis.size)


def _at_most_saved(work: Sequence[Node], scale: float) -> float:
    several = machine.cores()
    return whole_seconds(work, scale) * GAIN - block_seconds(work, scale, several, 0, several)


def _most_rows(work: Sequence[Node]) -> float:
    """A scale for all of a program."""
    sizes = {n for x in work if isinstance(x.aval, Aval) for n in x.aval.shape if isinstance(n, Dim)}
    return max(map(rows_scale, sizes), default=1.0)


def _mean_as_sum(graph: Graph, node: Node) -> Variable | None:
    """A mean as a quotient, since it is sums that are made of parts."""
    x = Variable(graph, node.inputs[0])
    if x.dtype == np.float16:  # which NumPy's mean adds up in float32
        return None
    params = dict(node.params)
    axes = axis_tuple("mean", params.get("axis"), x.ndim)
    return np.sum(x, **params) / product([x.shape[i] for i in axes])


_MEANS = Rules((), lambda op: [_mean_as_sum] if op is MEAN else [])


def _means_as_sums(graph: Graph) -> Graph:
    return copied(rewrite(graph, _MEANS)) if any(node.op is MEAN for node in graph.nodes) else graph


def _free_name(name: str, graph: Graph) -> str:
    """A name that neither a value nor a size has."""
    sizes = {n for x in graph.inputs for size in x.aval.shape if isinstance(size, Dim) for n in symbols_of(size)}
    taken = sizes.union(hint for hint in graph.names.values() if isinstance(hint, str))
    return next(each for each in chain((name,), (f"{name}_{i}" for i in count(2))) if each not in taken)


# ---- loops


@dataclass
class Body:
    """The body of a loop while it is put together: its graph, and where its inputs come from."""

    graph: Graph = field(default_factory=Graph)
    inputs: dict[tuple[Node, Cut | None], Node] = field(default_factory=dict)  # a value, and how it is cut
    image: dict[Node, Node] = field(default_factory=dict)
    bounds: dict[Span, Bounds] = field(default_factory=dict)

    def bounds_of(self, span: Span, rows: Rows) -> Bounds:
        """The stand-ins for where a span starts and stops."""
        if span not in self.bounds:
            k = len(self.bounds)
            start, stop = (
                self.graph.add(INPUT, (), (("aval", _PLACE), ("name", f"{s}{k}"))) for s in ("start", "stop")
            )
            self.bounds[span] = Bounds(start, stop, rows)
        return self.bounds[span]


_PLACE = Aval((), np.dtype(int), True)


class Division:
    """A program divided along an axis into loops and the rest."""

    def __init__(self, graph: Graph, axis: Axis) -> None:
        self.graph, self.nodes, self.axis = graph, reached(graph.outputs), axis
        self.plan: Plan = plan_for(self.nodes, graph.outputs, axis)
        self.rows = Rows(_free_name("rows", graph))
        self.lengths: dict[Span, Rows] = {Span(axis.size): self.rows}
        self.members = [self._members(k) for k in range(self.plan.loops)]
        self.stored = self._stored()
        self.spans = [self._spans(k) for k in range(self.plan.loops)]
        self.bodies = [self._body(k) for k in range(self.plan.loops)] if self._is_known() else []
        self.results = [[x for x in body.image if self._is_result(x, k)] for k, body in enumerate(self.bodies)]
        self.blocks = [self._block(k) for k in range(self.plan.loops)] if self._is_cut() else []
        self.saved = self._saved() if self.blocks else 0.0

    def _is_known(self) -> bool:
        """Whether values have no more lengths than there are numbers for."""
        return len({span for spans in self.spans for span in spans.values()}) < MOST_ROWS / 4

    def _is_cut(self) -> bool:
        """Whether every loop has something to take blocks of."""
        return all(any(cut for _, cut in body.inputs) for body in self.bodies)

    # -- which rows of what

    def _members(self, k: int) -> list[Node]:
        """What a loop computes, with rows of earlier loops that are computed again, in order."""
        members: dict[Node, None] = {}
        for node in self.nodes:
            if self.plan.loop.get(node) == k:
                for x, cut in zip(node.inputs, self.plan.cuts[node], strict=True):
                    if cut and x not in members and self._is_recomputed(x):
                        members[x] = None
                members[node] = None
        return list(members)

    def _is_recomputed(self, x: Node) -> bool:
        """Whether rows of an earlier loop are computed again: cheaply, from what is there anyway."""
        if not self.plan.is_row(x) or not is_cheap(x):
            return False
        if x.op is GET and self._moved(x) is not None:
            return True
        return not any(cut and y in self.plan.loop for y, cut in zip(x.inputs, self.plan.cuts[x], strict=True))

    def _spans(self, k: int) -> dict[Node, Span]:
        """The rows of each value that a loop computes: its own where it is a result, and whatever is made of them."""
        spans: dict[Node, Span] = {}
        members = set(self.members[k])
        for node in reversed(self.members[k]):
            if self.plan.is_row(node) and self._is_result(node, k):
                spans[node] = self._own(node).joined(spans.get(node))
            for x, cut in zip(node.inputs, self._cuts(node, spans.get(node)), strict=True):
                if cut is not None and x in members:
                    size = self.axis.size_of(x)
                    spans[x] = cut.span.moved(size, cut.by).joined(spans.get(x))
        return spans

    def _own(self, node: Node) -> Span:
        return Span(self.axis.size_of(node))

    def _cuts(self, node: Node, span: Span | None) -> list[Cut | None]:
        """Which rows of its inputs a node takes for those of a span, or for a partial sum of its own."""
        cuts: list[Cut | None] = []
        moved = self._moved(node)
        for i, (x, cut) in enumerate(zip(node.inputs, self.plan.cuts[node], strict=True)):
            if not cut or (span is None and self.plan.is_row(node)):  # not at all for rows that no one reads
                cuts.append(None)
                continue
            axis, size = self.axis.places[x], self.axis.size_of(x)
            if span is None:
                cuts.append(Cut(axis, Span(size)))
            elif moved is not None and node.op is GET:
                cuts.append(Cut(axis, span, moved.by))
            elif moved is not None and i == 1:
                cuts.append(Cut(axis, span.moved(size, -moved.by)))
            else:
                cuts.append(Cut(axis, span))
        return cuts

    def _moved(self, node: Node) -> Moved | None:
        """How a node moves rows, if it does."""
        if not self.plan.is_row(node):
            return None
        label = self.axis.flow(node).result[self.axis.places[node]]
        return label if isinstance(label, Moved) else None

    # -- what a loop computes

    def _body(self, k: int) -> Body:
        body = Body()
        for node in self.members[k]:
            if node in self.spans[k] or not self.plan.is_row(node):
                self._compute(body, node, k)
        return body

    def _compute(self, body: Body, node: Node, k: int) -> None:
        span, moved, numbers = self.spans[k].get(node), self._moved(node), numbering(node)
        inputs = tuple([
            self._numbers_of_rows(body, node, span) if i == numbers and cut else self._fetch(body, x, cut, k)
            for i, (x, cut) in enumerate(zip(node.inputs, self._cuts(node, span), strict=True))
        ])  # fmt: skip
        where = moved_where(node.where, body.image)
        if moved is None or span is None:
            twin = body.graph.add(node.op, inputs, self._params(node, span), where)
        elif node.op is GET:
            twin = self._read(body, node, inputs[0], moved)
        else:
            twin = self._put(body, node, inputs, span, moved)
        body.image[node] = twin

    def _length(self, span: Span) -> Rows:
        known = self.lengths.get(span)
        if known is None:
            name = _free_name(f"rows_{len(self.lengths)}", self.graph)
            known = self.lengths[span] = Rows(name, len(self.lengths))
        return known

    def _numbers_of_rows(self, body: Body, node: Node, span: Span | None) -> Node:
        """0, 1, 2, ...: rows are counted from where the block begins."""
        rows = self._length(span or self._own(node.inputs[0]))
        start, stop, step = body.graph.constant(0), body.graph.size(rows), body.graph.constant(1)
        params: Params = (("dtype", np.dtype(int)), ("n", rows))
        return body.graph.add(ARANGE, (start, stop, step), params, node.where)

    def _read(self, body: Body, node: Node, x: Node, moved: Moved) -> Node:
        """The slice of a value: its rows are those that were fetched, and the key is for other axes."""
        items, axis = list(dict(node.params)["key"]), -1
        for i, item in enumerate(items):
            axis += item is not None
            if axis == moved.axis and item is not None:
                items[i] = FULL
        return (
            x
            if all(item == FULL for item in items)
            else body.graph.add(GET, (x,), (("key", tuple(items)),), node.where)
        )

    def _put(self, body: Body, node: Node, inputs: tuple[Node, ...], span: Span, moved: Moved) -> Node:
        """An assignment to some rows, as far as they are among those of a span."""
        key, rows = dict(node.params)["key"], span.moved(moved.size, -moved.by)
        places = [i for i, item in enumerate(key) if item is not None]
        place = places[moved.axis]
        start, stop, _ = body.bounds_of(rows, self._length(rows))
        first, _, _ = body.bounds_of(span, self._length(span))
        params = (
            ("adds", node.op is ADD), ("by", moved.by), ("key", key_at(key, place, None, None)), ("place", place),
        )  # fmt: skip
        return body.graph.add(PUT, (*inputs, start, stop, first), params, moved_where(node.where, body.image))

    def _fetch(self, body: Body, x: Node, cut: Cut | None, k: int) -> Node:
        """A value inside of a loop: computed there, a constant, or an input of the loop."""
        if cut and x in body.image:
            twin = body.image[x]
            if twin.op is not INPUT:
                return self._window(body, twin, cut, self.spans[k][x])
            whole, there = next(key for key, known in body.inputs.items() if known is twin)  # of which x is a slice
            return self._fetch(body, whole, cut if there is None else Cut(there.axis, cut.span, cut.by + there.by), k)
        if x.op is CONSTANT and x.aval.shape == ():
            return body.graph.add(CONSTANT, (), x.params, x.where)
        known = body.inputs.get((x, cut))
        if known is None:
            shape = self._cut_shape(x, cut.span) if cut else x.aval.shape
            params = (("aval", x.aval._replace(shape=shape)), ("name", f"x{len(body.inputs)}"))
            known = body.inputs[x, cut] = body.graph.add(INPUT, (), params, x.where)
            body.graph.inputs.append(known)
            if cut:
                body.bounds_of(cut.span, self._length(cut.span))
        return known

    def _window(self, body: Body, x: Node, cut: Cut, there: Span) -> Node:
        """The rows that are wanted of those that are there."""
        if cut.span == there and is_zero(cut.by):
            return x
        start, stop, rows = body.bounds_of(cut.span, self._length(cut.span))
        first, _, _ = body.bounds_of(there, self._length(there))
        params = (("axis", cut.axis), ("by", cut.by), ("rows", rows))
        return body.graph.add(WINDOW, (x, start, stop, first), params, x.where)

    def _cut_shape(self, x: Node, span: Span) -> tuple[Any, ...]:
        i = self.axis.places[x]
        return (*x.aval.shape[:i], self._length(span), *x.aval.shape[i + 1 :])

    def _params(self, node: Node, span: Span | None) -> Params:
        """The parameters for a block: `shape` is by convention that of the result."""
        if span is None or not self.plan.is_row(node):
            return node.params
        return tuple((key, self._cut_shape(node, span) if key == "shape" else value) for key, value in node.params)

    # -- what it gives

    def _stored(self) -> set[Node]:
        """Rows that are wanted outside of the loop that computes them."""
        read = set(self.graph.outputs)
        for members in self.members:
            there = set(members)
            for node in members:
                read.update(
                    x for x, cut in zip(node.inputs, self.plan.cuts[node], strict=True) if not (cut and x in there)
                )
        for node in self.nodes:
            if node not in self.plan.loop:
                read.update(node.inputs)
        return {x for x in read if x in self.plan.loop}

    def _is_result(self, x: Node, k: int) -> bool:
        return self.plan.loop[x] == k and x in self.stored

    def _output(self, body: Body, x: Node, k: int) -> Node:
        """A result of the loop: of rows those of its own."""
        if not self.plan.is_row(x):
            return body.image[x]
        return self._window(body, body.image[x], Cut(self.axis.places[x], self._own(x)), self.spans[k][x])

    def _block(self, k: int) -> Block:
        body, results = self.bodies[k], self.results[k]
        graph = body.graph
        graph.outputs = [self._output(body, x, k) for x in results]
        for x in body.image:
            name = self.graph.names.get(x)
            if name is not None and (moved_to := moved_name(self.graph, name, body.image)) is not None:
                graph.label(body.image[x], moved_to)
        for span in self.spans[k].values():
            body.bounds_of(span, self._length(span))
        rows = [y for x, y in zip(results, graph.outputs, strict=True) if self.plan.is_row(x)]
        layout = laid_out(graph, rows, self.axis.size, self._halo(k))
        cuts = tuple(cut for _, cut in body.inputs)
        joins = tuple(self._join(x) for x in results)
        avals = tuple(x.aval for x in results)
        threads = self._is_worth_threads(k, layout.rows)
        return Block(graph, self.axis.size, self.rows, body.bounds, cuts, joins, avals, layout, threads)

    def _halo(self, k: int) -> int:
        """How many rows more than its own a block may have of a value."""
        return max((span.more for span in self.spans[k].values()), default=0)

    def _join(self, x: Node) -> int | np.ufunc:
        combine = flow_of(x).combine
        if self.plan.is_row(x):
            return self.axis.places[x]
        assert combine is not None
        return combine

    # -- what it costs

    def _seconds(self, k: int, rows: int, threads: int) -> float:
        body = self.bodies[k]
        total = _rows_of(self.axis)
        cut = {
            x: twin for (x, cut), twin in body.inputs.items() if cut
        }  # once, though stencils read it again and again
        streamed = total * sum(map(nbytes_of_row, (*cut.values(), *body.graph.outputs)))
        work = [x for x in body.image if is_work(x)]
        scale = rows_scale(self.axis.size) * (1 + self._halo(k) / rows)
        return block_seconds(work, scale, max(1.0, total / rows), streamed, threads)

    def _is_worth_threads(self, k: int, rows: int) -> bool:
        return self._seconds(k, rows, 1) > WORTH_THREADS

    def _saved(self) -> float:
        """Seconds by which blocks are faster; negative where they are not clearly."""
        whole = whole_seconds([x for x in self.plan.loop if is_work(x)], rows_scale(self.axis.size))
        several = machine.cores()
        blocks = sum(
            self._seconds(k, block.layout.rows, several if block.threads else 1) for k, block in enumerate(self.blocks)
        )
        return whole * GAIN - blocks

    # -- the program with loops

    def rebuilt(self) -> Graph:
        new = Graph()
        image: dict[Node, Node] = {}
        for x in self.graph.inputs:
            image[x] = new.add(INPUT, (), x.params, x.where)
            new.inputs.append(image[x])
        for k in range(self.plan.loops + 1):
            for node in self.nodes:
                if node not in image and self.plan.after.get(node) == k:
                    inputs = tuple([image[x] for x in node.inputs])
                    image[node] = new.add(node.op, inputs, node.params, moved_where(node.where, image))
            if k < self.plan.loops:
                self._add_loop(new, image, k)
        new.outputs = [image[y] for y in self.graph.outputs]
        self._label(new, image)
        return new

    def _add_loop(self, new: Graph, image: dict[Node, Node], k: int) -> None:
        inputs = tuple([image[x] for x, _ in self.bodies[k].inputs])
        results = self.results[k]
        where = results[0].where
        loop = new.add(LOOP, inputs, (("body", self.blocks[k]), ("symbols", self.blocks[k].symbols)), where)
        for i, x in enumerate(results):
            image[x] = new.add(ITEM, (loop,), (("index", i),), moved_where(x.where, image))

    def _label(self, new: Graph, image: dict[Node, Node]) -> None:
        for x, name in self.graph.names.items():
            if x in image and image[x].op is not CONSTANT:
                moved_to = moved_name(self.graph, name, image)
                if moved_to is not None:
                    new.label(image[x], moved_to)
