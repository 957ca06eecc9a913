"""Tiling: the pass that puts parts of a program into loops over blocks of rows, each loop a single node."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from symgrad.analysis.cost import is_work, likely, likely_numbers, likely_rows, rows_scale
from symgrad.core.graph import INPUT, ITEM, Aval, Graph, Node, moved_name
from symgrad.core.provenance import Where
from symgrad.core.recording import note
from symgrad.core.shapes import is_one
from symgrad.core.sizes import Dim, is_counted, symbols_of
from symgrad.loops import machine, reasons
from symgrad.loops.axes import Axis, axes_of
from symgrad.loops.blockwise import blockwise
from symgrad.loops.bodies import Bodies
from symgrad.loops.buffer_allocation import Layout, laid_out, nbytes_added, nbytes_of_row
from symgrad.loops.cost_model import (
    CALL,
    SETUP,
    block_seconds,
    call_seconds,
    calls_of,
    fresh_seconds,
    kernel_seconds,
    numbers_made,
    whole_seconds,
)
from symgrad.loops.iterations import ys_of_loops
from symgrad.loops.loop import LOOP, Block
from symgrad.loops.plan import Plan, partly_whole, plan_for, views_read_outside
from symgrad.loops.row_gathers import NARROW
from symgrad.loops.rows_of_block import rows_of_block
from symgrad.loops.stencils import Moved, moved_of
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import taken_axis
from symgrad.ops.shape import COPY, TRANSPOSE

FEWEST = 1 << 12  # numbers in the largest value below which blocks are not tried
FEWEST_ROWS = 128
GAIN = 0.8  # the largest ratio of the time in blocks to the time without
LEAST, WORTH = 20e-6, 0.1  # seconds, and fraction of the program's time, that must be saved beyond that
WORTH_THREADS = 400e-6  # seconds of work


def nest(graph: Graph, numerics: str = "stable") -> Graph:
    """Put computations along rows into loops over blocks, where that is faster.

    Values that the loops along one axis leave outside may get loops along another axis.
    """
    work = _work(graph)
    scale = _most_rows(work)
    large = _large(work, scale)
    if not large:
        note(reasons.nothing_large, max(map(likely_numbers, work), default=0), FEWEST)
        return graph
    worth, at_most = max(LEAST, WORTH * _seconds_whole(work, scale)), _at_most_saved(large, scale)
    if at_most <= worth:
        note(reasons.little_to_save, at_most, worth)
        return graph
    best = _best(blockwise(graph, FEWEST), worth)
    while best is not None:
        graph = best.rebuilt()
        left = _large(_work(graph), scale)
        best = _best(graph, worth) if _at_most_saved(left, scale) > worth else None
    return graph


def _work(graph: Graph) -> list[Node]:
    return [x for x in graph.live if is_work(x) and x.op is not LOOP]


def _large(work: Sequence[Node], scale: float) -> list[Node]:
    large = {y for y in {y for x in work for y in (x, *x.inputs)} if likely_numbers(y) * scale >= FEWEST}
    return [x for x in work if not large.isdisjoint((x, *x.inputs))]


def _best(graph: Graph, worth: float) -> Division | None:
    """Return the division that saves most, where a later one must save clearly more than those before it.

    Axes with stencils come first; their parts without stencils are not tried again.
    """
    best: Division | None = None
    axes = _promising(graph, worth)
    for axis in axes:
        if best is not None and best.axis.stencils and axis.places.items() <= best.axis.places.items():
            continue
        division = Division(graph, axis)
        needed = best.saved + WORTH * best.seconds if best else worth
        if division.blocks:
            note(reasons.compared, axis.size, division.saved, needed)
        else:
            note(reasons.not_along, axis.size, "a loop would have nothing to take blocks of")
        if division.saved > needed and division.pays_with_few_rows():
            best = division
        if division.plan.loops > 1:
            axes += axis.otherwise
    return best


def _promising(graph: Graph, worth: float) -> list[Axis]:
    """Return long axes with much of the work, along which blocks that cost nothing would be faster."""
    nodes, work = graph.live, _work(graph)
    axes = [axis for axis in (*_with_stencils(nodes), *axes_of(nodes, rows=FEWEST_ROWS)) if _has_many_rows(axis)]
    along = [[x for x in work if not axis.places.keys().isdisjoint((x, *x.inputs))] for axis in axes]
    weights = [sum(numbers_made(x) for x in axis.places if is_work(x)) for axis in axes]
    promising = []
    for axis, touched, weight in zip(axes, along, weights, strict=True):
        if not weight or weight < max(weights) / 2:
            note(reasons.not_along, axis.size, "too little of the work lies along this axis")
        elif (at_most := _at_most_saved(touched, rows_scale(axis.size))) <= worth:
            note(reasons.little_to_save, at_most, worth, axis.size)
        else:
            promising.append(axis)
    return promising


def _with_stencils(nodes: Sequence[Node]) -> list[Axis]:
    """Return axes along which slices shift many rows."""
    moving = [x for x in nodes if x.op in (GET, SET, ADD_AT) and any(map(_is_long, moved_of(x)))]
    axes = axes_of(nodes, stencils=True) if moving else []
    return [axis for axis in axes if not axis.places.keys().isdisjoint(moving)]


def _has_many_rows(axis: Axis) -> bool:
    many = likely_rows(axis.size) >= FEWEST_ROWS
    if not many and not is_one(axis.size):
        note(reasons.not_along, axis.size, f"fewer than {FEWEST_ROWS} rows")
    return many


def _is_long(moved: Moved) -> bool:
    return likely_rows(moved.size) >= FEWEST_ROWS


def _at_most_saved(work: Sequence[Node], scale: float) -> float:
    several = machine.cores()
    return _seconds_whole(work, scale) * GAIN - block_seconds(work, scale, several, 0, several)


def _seconds_whole(work: Sequence[Node], scale: float) -> float:
    """Estimate the time of work outside of blocks."""
    return whole_seconds(work, scale) + fresh_seconds(work, scale)


def _most_rows(work: Sequence[Node]) -> float:
    """Return the largest scale of the sizes of a program."""
    sizes = {n for x in work if isinstance(x.aval, Aval) for n in x.aval.shape if isinstance(n, Dim)}
    return max(map(rows_scale, sizes), default=1.0)


# ---- loops


class Division:
    """A program divided along an axis into loops and the rest."""

    def __init__(self, graph: Graph, axis: Axis) -> None:
        self.graph, self.nodes, self.axis = graph, graph.live, axis
        self._work = _work(graph)
        self.plan = self._plan()
        self.made = Bodies(graph, self.nodes, self.plan)
        self.bodies = self.made.bodies
        self.results: list[dict[Node, int]] = []  # for each loop: result -> the number of its output
        blocks = [self._block(k) for k in range(self.plan.loops)] if self._is_cut() else []
        # a loop in a block whose number of iterations is unknown fills ys of unknown size: no buffer fits
        self.blocks = [] if any(is_counted(block.layout.row_bytes) for block in blocks) else blocks
        self.seconds = self._seconds_of_all(machine.cores())
        self.saved = self._saved() if self.blocks else 0.0

    def _plan(self) -> Plan:
        """Return the plan without loops that save nothing, and without views that are read outside of loops."""
        plan = plan_for(self.nodes, self.graph.outputs, self.axis)
        never = partly_whole(plan, self.nodes)
        if any(x in plan.loop for x in never):
            plan = plan_for(self.nodes, self.graph.outputs, self.axis, never)
        idle = self._idle(plan) if plan.loops > 1 else [False] * plan.loops
        whole = never if all(idle) else never | {x for x, k in plan.loop.items() if idle[k]}
        whole |= views_read_outside(plan, self.nodes, whole)
        return plan_for(self.nodes, self.graph.outputs, self.axis, whole) if whole else plan

    def _idle(self, plan: Plan) -> list[bool]:
        """Return for each loop whether it cannot pay."""
        work: list[list[Node]] = [[] for _ in range(plan.loops)]
        for x, k in plan.loop.items():
            work[k] += [x] * is_work(x)
        scale, cores = rows_scale(self.axis.size), machine.cores()
        inside = [x for each in work for x in each]
        many = self._seconds_outside(plan) + block_seconds(inside, scale, cores, 0, cores)
        saved = [_at_most_saved(each, scale) for each in work]
        return [s <= 0 or not self._pays(s, many, each) for s, each in zip(saved, work, strict=True)]

    def _seconds_outside(self, plan: Plan) -> float:
        """Estimate the time of all that the plan leaves outside, including earlier loops over blocks."""
        loops = [dict(x.params)["body"] for x in self.nodes if x.op is LOOP]
        outside = [x for x in self._work if x not in plan.loop]
        return _seconds_whole(outside, rows_scale(self.axis.size)) + sum([block.seconds for block in loops])

    def _pays(self, saved: float, many: float, work: Sequence[Node], loops: int = 1) -> bool:
        """Whether loops for any number of rows gain with many rows as large a fraction as they lose with few.

        With many rows they save `saved` of the `many` seconds of the program. With few rows only calls count.
        """
        if rows_scale(self.axis.size) == 1.0:
            return True
        lost = call_seconds(work) - CALL * calls_of(work) + SETUP * loops
        return saved * CALL * calls_of(self._work) >= lost * many

    def _is_cut(self) -> bool:
        """Whether every loop reads an input in blocks."""
        return bool(self.bodies) and all(any(cut for _, cut in body.inputs) for body in self.bodies)

    # -- loops as nodes

    def _block(self, k: int) -> Block:
        body = self.bodies[k]
        graph = body.graph
        made = {x: self.made.output(x, k) for x in body.image if self.made.is_result(x, k)}
        results = {y: x for x, y in reversed(made.items())}  # the value itself rather than a slice of all its rows
        graph.outputs = [*dict.fromkeys(made.values())]
        self.results.append({x: graph.outputs.index(y) for x, y in made.items()})
        for x in body.image:
            name = self.graph.names.get(x)
            if name is not None and (moved_to := moved_name(self.graph.names, name, body.image)) is not None:
                graph.label(body.image[x], moved_to)
        self.made.bound(k)
        rows = [y for y in graph.outputs if self.plan.is_row(results[y])]
        by_columns = [y for y in rows if results[y] in self._by_columns]
        layout = laid_out(graph, rows, self.made.halo(k), by_columns)
        cuts = tuple(cut for _, cut in body.inputs)
        joins = tuple(self._join(results[y]) for y in graph.outputs)
        avals = tuple(results[y].aval for y in graph.outputs)
        least = self._least(k, layout)
        seconds = self._seconds(k, layout, least, cores=1)
        return Block(graph, self.axis.size, self.made.rows, body.bounds, cuts, joins, avals, layout, least, seconds)

    @cached_property
    def _by_columns(self) -> set[Node]:
        """Return the rows that are read outside of loops only by scatters, which go column by column."""
        adding = [x for x in self.nodes if x.op is ADD_AT and x not in self.plan.loop]
        added = {x.inputs[1] for x in adding if taken_axis(dict(x.params)["key"]) == 0}
        narrow = {x for x in added if x.aval.ndim == 2 and likely(x.aval.shape[1]) < NARROW}
        if not narrow:
            return narrow
        outside = [x for x in self.nodes if x not in self.plan.loop]
        read = {y for x in outside for i, y in enumerate(x.inputs) if x.op is not ADD_AT or i != 1}
        return narrow - read - set(self.graph.outputs)

    def _join(self, x: Node) -> int | np.ufunc:
        combine = self.axis.signature(x).combine
        if self.plan.is_row(x):
            return self.axis.places[x]
        assert combine is not None
        return combine

    # -- cost

    def _least(self, k: int, layout: Layout) -> int:
        """Return the fewest bytes of rows, to two digits, that take a thread several times as long as the calls."""
        work = self._work_of(k)
        seconds = kernel_seconds(work) / max(likely(self.axis.size), 1)
        worth = (WORTH_THREADS / 2 + 4 * call_seconds(work)) * likely(layout.row_bytes) / max(seconds, 1e-12)
        return max(int(float(f"{worth:.1e}")), 1)

    def _work_of(self, k: int) -> list[Node]:
        return [x for x in self.bodies[k].image if is_work(x)]

    def _seconds(self, k: int, layout: Layout, least: int, cores: int) -> float:
        body, work = self.bodies[k], self._work_of(k)
        total = round(likely_rows(self.axis.size))
        rows = rows_of_block(total, likely(layout.row_bytes), least)
        cut = {x: twin for (x, cut), twin in body.inputs.items() if cut}  # once, though stencils read it repeatedly
        stacks = ys_of_loops(body.graph) * 2  # they are written and read
        streamed = total * sum(map(nbytes_of_row, (*cut.values(), *body.graph.outputs, *stacks)))
        streamed += total / rows * sum(map(nbytes_added, body.graph.outputs))
        scale = rows_scale(self.axis.size) * (1 + self.made.halo(k) / rows)
        return block_seconds(work, scale, max(1.0, total / rows), streamed, cores if rows < total else 1)

    def _seconds_of_all(self, cores: int) -> float:
        return sum(self._seconds(k, x.layout, x.least, cores) for k, x in enumerate(self.blocks))

    @cached_property
    def _whole(self) -> float:
        """Estimate the time of the tiled work without tiling."""
        return _seconds_whole(self._in_loops, rows_scale(self.axis.size))

    @cached_property
    def _in_loops(self) -> list[Node]:
        return [x for x in self.nodes if x in self.plan.loop and is_work(x)]

    def _saved(self) -> float:
        """Estimate the time that blocks save; negative if they are not clearly faster."""
        return self._whole * GAIN - self.seconds

    def pays_with_few_rows(self) -> bool:
        """Whether loops gain as much with many rows as they lose with few, with no more cores than usual.

        A short program is then printed without loops on every machine.
        """
        size = self.axis.size
        if isinstance(size, Dim) and not size.scope.many.isdisjoint(symbols_of(size)):
            return True
        inside = self._seconds_of_all(min(machine.cores(), machine.USUAL_CORES))
        many = self._seconds_outside(self.plan) + inside
        if self._pays(self._whole - inside, many, self._in_loops, len(self.blocks)):
            return True
        note(reasons.not_along, self.axis.size, "with few rows loops would lose more than they gain with many")
        return False

    # -- the program with loops

    def rebuilt(self) -> Graph:
        note(reasons.chosen, self.axis.size, self.saved)
        new = Graph()
        image: dict[Node, Node] = {}
        for x in self.graph.inputs:
            image[x] = new.add(INPUT, (), x.params, x.where)
            new.inputs.append(image[x])
        for k in range(self.plan.loops + 1):
            for node in self.nodes:
                if node not in image and self.plan.after.get(node) == k:
                    inputs = tuple([image[x] for x in node.inputs])
                    image[node] = new.add(node.op, inputs, node.params, node.where.moved(image))
            if k < self.plan.loops:
                self._add_loop(new, image, k)
        new.outputs = [image[y] for y in self.graph.outputs]
        new.take_names(self.graph.names, image)
        return new

    def _add_loop(self, new: Graph, image: dict[Node, Node], k: int) -> None:
        again = tuple(x for x in self.made.members[k] if self.plan.loop[x] != k)
        if again:
            note(reasons.again_in_loop, k, again)
        results = self.results[k]
        where = next(iter(results)).where
        inputs = tuple([self._read(new, image[x], k, twin, where) for (x, _), twin in self.bodies[k].inputs.items()])
        loop = new.add(LOOP, inputs, (("body", self.blocks[k]), ("symbols", self.blocks[k].symbols)), where)
        for x, i in results.items():
            image[x] = new.add(ITEM, (loop,), (("index", i),), x.where.moved(image))

    def _read(self, new: Graph, x: Node, k: int, twin: Node, where: Where) -> Node:
        """Return an input of a loop, packed in another memory order if the layout says so."""
        order = self.blocks[k].layout.packed_whole.get(twin)
        if order is None:
            return x
        packed = new.add(COPY, (new.add(TRANSPOSE, (x,), (("axes", order),), where),), (), where)
        back = tuple(map(order.index, range(len(order))))
        return new.add(TRANSPOSE, (packed,), (("axes", back),), where)
