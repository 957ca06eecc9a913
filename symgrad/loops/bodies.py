"""Bodies of the loops along an axis, as graphs in which each value has the rows that are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from symgrad.analysis.values import is_zeros
from symgrad.core.graph import CONSTANT, INPUT, SIZE, Aval, Graph, Node, Params
from symgrad.core.provenance import UNKNOWN
from symgrad.core.shapes import with_size
from symgrad.core.sizes import MOST_ROWS, Dim, Rows, symbols_of
from symgrad.core.text import free_name
from symgrad.loops.halos import Extent, is_zero
from symgrad.loops.iterations import params_for
from symgrad.loops.loop import Bounds, Cut
from symgrad.loops.plan import Plan
from symgrad.loops.row_access import READ_ROWS, WRITE_ROWS, key_at
from symgrad.loops.row_gathers import adds_to_rows, numbering
from symgrad.loops.stencils import Moved
from symgrad.ops.create import ARANGE, FULL
from symgrad.ops.index import ADD_AT, GET
from symgrad.ops.index_expressions import EVERYTHING


@dataclass
class Body:
    """A loop's body under construction: its graph, and the sources of its inputs."""

    graph: Graph = field(default_factory=Graph)
    inputs: dict[tuple[Node, Cut | None], Node] = field(default_factory=dict)  # a value, and how it is cut
    image: dict[Node, Node] = field(default_factory=dict)
    bounds: dict[Extent, Bounds] = field(default_factory=dict)

    def bounds_of(self, extent: Extent, rows: Rows) -> Bounds:
        """Return the stand-ins for the start and the stop of an extent."""
        if extent not in self.bounds:
            k = len(self.bounds)
            start, stop = (
                self.graph.add(INPUT, (), (("aval", _PLACE), ("name", f"{s}{k}")), UNKNOWN) for s in ("start", "stop")
            )
            self.bounds[extent] = Bounds(start, stop, rows)
        return self.bounds[extent]


_PLACE = Aval((), np.dtype(int), True)


class Bodies:
    """The bodies of the loops of a plan; none at all where values have too many lengths."""

    def __init__(self, graph: Graph, nodes: Sequence[Node], plan: Plan) -> None:
        self.graph, self.nodes, self.plan, self.axis = graph, nodes, plan, plan.axis
        self.rows = Rows(_free_name("rows", graph))  # stands for the length of a block
        self.lengths: dict[Extent, Rows] = {Extent(self.axis.size): self.rows}
        self.members = [self._members(k) for k in range(plan.loops)]  # what each loop computes
        self.stored = self._stored()  # what is wanted outside of the loop that computes it
        self.extents = [self._extents(k) for k in range(plan.loops)]
        self.bodies = [self._body(k) for k in range(plan.loops)] if len(set(self._lengths())) < MOST_ROWS else []

    def is_result(self, x: Node, k: int) -> bool:
        return self.plan.loop[x] == k and x in self.stored

    def output(self, x: Node, k: int) -> Node:
        """Return a value as a result of loop `k`; of a value with a halo only the rows of the block itself."""
        body = self.bodies[k]
        if not self.plan.is_row(x):
            return body.image[x]
        return self._window(body, body.image[x], Cut(self.axis.places[x], self._own(x)), self.extents[k][x])

    def bound(self, k: int) -> None:
        """Add inputs to the body of loop `k` that stand for the start and the stop of each extent."""
        for extent in self.extents[k].values():
            self.bodies[k].bounds_of(extent, self._length(extent))

    def halo(self, k: int) -> int:
        """Return the halo of loop `k`: the most rows that a block has of any value beyond its own."""
        return max((extent.more for extent in self.extents[k].values()), default=0)

    # -- which rows of what

    def _members(self, k: int) -> list[Node]:
        """Return the nodes of a loop in order, including rows of earlier loops that are recomputed."""
        members: dict[Node, None] = {}
        for node in self.nodes:
            if self.plan.loop.get(node) == k:
                self._add_member(members, node)
        return list(members)

    def _add_member(self, members: dict[Node, None], node: Node) -> None:
        for x, cut in zip(node.inputs, self.plan.cuts[node], strict=True):
            if x not in members and self.plan.has_rows(x, cut) and self._is_recomputed(x):
                self._add_member(members, x)
        members[node] = None

    def _is_recomputed(self, x: Node) -> bool:
        """Whether rows of an earlier loop are recomputed; slices that move rows are read from the whole array."""
        moves = self.plan.is_row(x) and x.op is GET and self._moved(x) is not None
        return moves or self.plan.is_rematerialised(x)

    def _extents(self, k: int) -> dict[Node, Extent]:
        """Find the extents of all values of a loop: its own rows for results, and the rows that these need."""
        extents: dict[Node, Extent] = {}
        members = set(self.members[k])
        for node in reversed(self.members[k]):
            if self.plan.is_row(node) and self.is_result(node, k):
                extents[node] = self._own(node).joined(extents.get(node))
            numbers = numbering(node)  # which are made anew
            for i, (x, cut) in enumerate(zip(node.inputs, self._cuts(node, extents.get(node)), strict=True)):
                if cut is not None and i != numbers and x in members and self.plan.has_rows(x, cut.axis):
                    size = self.axis.size_of(x)
                    extents[x] = cut.extent.moved(size, cut.by).joined(extents.get(x))
        return extents

    def _own(self, node: Node) -> Extent:
        return Extent(self.axis.size_of(node))

    def _cuts(self, node: Node, extent: Extent | None) -> list[Cut | None]:
        """Return the cuts of a node's inputs that an extent, or a partial sum, of the node needs."""
        cuts: list[Cut | None] = []
        moved = self._moved(node)
        for i, (x, axis) in enumerate(zip(node.inputs, self.plan.cuts[node], strict=True)):
            if axis is None or (extent is None and self.plan.is_row(node)):  # not at all for rows that no one reads
                cuts.append(None)
                continue
            if extent is None:
                cuts.append(Cut(axis, Extent(x.aval.shape[axis] if type(x.aval) is Aval else self.axis.size)))
            elif moved is not None and node.op is GET:
                cuts.append(Cut(axis, extent, moved.by))
            elif moved is not None and i == 1:
                cuts.append(Cut(axis, extent.moved(x.aval.shape[axis], -moved.by)))
            else:
                cuts.append(Cut(axis, extent))
        return cuts

    def _moved(self, node: Node) -> Moved | None:
        """Return how a node moves rows, None if it does not."""
        if not self.plan.is_row(node):
            return None
        label = self.axis.signature(node).result[self.axis.places[node]]
        return label if isinstance(label, Moved) else None

    # -- what a loop computes

    def _body(self, k: int) -> Body:
        body = Body()
        for node in self.members[k]:
            if node in self.extents[k] or not self.plan.is_row(node):
                self._compute(body, node, k)
        return body

    def _compute(self, body: Body, node: Node, k: int) -> None:
        extent, moved, numbers = self.extents[k].get(node), self._moved(node), numbering(node)
        inputs = tuple([
            self._numbers_of_rows(body, x, cut) if i == numbers and cut
            else self._zeros(body, x) if i == 0 and adds_to_rows(node) and is_zeros(x) and not cut
            else self._fetch(body, x, cut, k)
            for i, (x, cut) in enumerate(zip(node.inputs, self._cuts(node, extent), strict=True))
        ])  # fmt: skip
        where = node.where.moved(body.image)
        if moved is None or extent is None:
            twin = body.graph.add(node.op, inputs, self._params(node, extent), where)
        elif node.op is GET:
            twin = self._read(body, node, inputs[0], moved)
        else:
            twin = self._put(body, node, inputs, extent, moved)
        body.image[node] = twin

    def _length(self, extent: Extent) -> Rows:
        known = self.lengths.get(extent)
        if known is None:
            name = _free_name(f"rows_{len(self.lengths)}", self.graph)
            known = self.lengths[extent] = Rows(name, len(self.lengths))
        return known

    def _numbers_of_rows(self, body: Body, x: Node, cut: Cut) -> Node:
        """Return 0, 1, 2, ...: the numbers of rows, counted from the start of the block."""
        rows = self._length(cut.extent)
        start, stop, step = body.graph.constant(0), body.graph.size(rows), body.graph.constant(1)
        params: Params = (("dtype", np.dtype(int)), ("n", rows))
        numbers = body.graph.add(ARANGE, (start, stop, step), params, x.where)
        if x.aval.ndim == 1:
            return numbers
        key = (EVERYTHING, *[None] * (x.aval.ndim - 1))
        return body.graph.add(GET, (numbers,), (("key", key),), x.where)

    def _zeros(self, body: Body, x: Node) -> Node:
        """Return zeros to which a block adds rows, so that the loop gives a sum over its own rows."""
        return body.graph.add(FULL, (body.graph.add(CONSTANT, (), x.inputs[0].params),), x.params, x.where)

    def _read(self, body: Body, node: Node, x: Node, moved: Moved) -> Node:
        """Return a slice of a value: the fetched rows, indexed along the other axes."""
        items, axis = list(dict(node.params)["key"]), -1
        for i, item in enumerate(items):
            axis += item is not None
            if axis == moved.axis and item is not None:
                items[i] = EVERYTHING
        if all(item == EVERYTHING for item in items):
            return x
        return body.graph.add(GET, (x,), (("key", tuple(items)),), node.where)

    def _put(self, body: Body, node: Node, inputs: tuple[Node, ...], extent: Extent, moved: Moved) -> Node:
        """Return an assignment to rows, restricted to the rows of an extent."""
        key, rows = dict(node.params)["key"], extent.moved(moved.size, -moved.by)
        places = [i for i, item in enumerate(key) if item is not None]
        place = places[moved.axis]
        start, stop, _ = body.bounds_of(rows, self._length(rows))
        first, _, _ = body.bounds_of(extent, self._length(extent))
        params = (
            ("adds", node.op is ADD_AT), ("by", moved.by), ("key", key_at(key, place, None, None)), ("place", place),
        )  # fmt: skip
        return body.graph.add(WRITE_ROWS, (*inputs, start, stop, first), params, node.where.moved(body.image))

    def _fetch(self, body: Body, x: Node, cut: Cut | None, k: int) -> Node:
        """Return a value in the body of a loop: computed there, a constant, or an input of the loop."""
        if cut and x in body.image and self.plan.has_rows(x, cut.axis):
            twin = body.image[x]
            if twin.op is not INPUT:
                return self._window(body, twin, cut, self.extents[k][x])
            whole, there = next(key for key, known in body.inputs.items() if known is twin)  # of which x is a slice
            return self._fetch(body, whole, cut if there is None else Cut(there.axis, cut.extent, cut.by + there.by), k)
        if x.op in (CONSTANT, SIZE) and x.aval.shape == ():
            return body.graph.add(x.op, (), x.params, x.where)
        known = body.inputs.get((x, cut))
        if known is None:
            shape = with_size(x.aval.shape, cut.axis, self._length(cut.extent)) if cut else x.aval.shape
            params = (("aval", x.aval._replace(shape=shape)), ("name", f"x{len(body.inputs)}"))
            known = body.inputs[x, cut] = body.graph.add(INPUT, (), params, x.where)
            body.graph.inputs.append(known)
            if cut:
                body.bounds_of(cut.extent, self._length(cut.extent))
        return known

    def _window(self, body: Body, x: Node, cut: Cut, there: Extent) -> Node:
        """Return the wanted rows among the available ones."""
        if cut.extent == there and is_zero(cut.by):
            return x
        start, stop, rows = body.bounds_of(cut.extent, self._length(cut.extent))
        first, _, _ = body.bounds_of(there, self._length(there))
        params = (("axis", cut.axis), ("by", cut.by), ("rows", rows))
        return body.graph.add(READ_ROWS, (x, start, stop, first), params, x.where)

    def _params(self, node: Node, extent: Extent | None) -> Params:
        """Return the parameters of a node for a block."""
        if extent is None or not self.plan.is_row(node):
            return node.params
        return params_for(node, self.axis.places[node], self._length(extent))

    def _stored(self) -> set[Node]:
        """Return the rows that are read outside of the loop that computes them."""
        read = set(self.graph.outputs)
        for members in self.members:
            there = set(members)
            for node in members:
                read.update(
                    x
                    for x, cut in zip(node.inputs, self.plan.cuts[node], strict=True)
                    if not (x in there and self.plan.has_rows(x, cut))
                )
        for node in self.nodes:
            if node not in self.plan.loop:
                read.update(node.inputs)
        return {x for x in read if x in self.plan.loop}

    def _lengths(self) -> Iterator[Extent]:
        """Yield every extent that will occur."""
        yield from self.lengths
        for members, extents in zip(self.members, self.extents, strict=True):
            for node in members if self.axis.stencils else ():
                extent, moved = extents.get(node), self._moved(node)
                yield from (cut.extent for cut in self._cuts(node, extent) if cut is not None)
                if extent is not None:
                    yield from (extent, self._own(node))
                if extent is not None and moved is not None:
                    yield extent.moved(moved.size, -moved.by)


def _free_name(name: str, graph: Graph) -> str:
    """Return a name that neither a value nor a size has."""
    sizes = {n for x in graph.inputs for size in x.aval.shape if isinstance(size, Dim) for n in symbols_of(size)}
    taken = sizes.union(hint for hint in graph.names.values() if isinstance(hint, str))
    return free_name(name, taken)
