"""A loop over blocks of rows as one node, whose body is a graph that computes one block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from symgrad.core.graph import SIZE, Aval, Graph, Node, Op
from symgrad.core.interpret import interpret
from symgrad.core.region import Region, with_nested
from symgrad.core.shapes import key_along
from symgrad.core.sizes import Dim, Rows, Size, evaluate, symbols_of
from symgrad.loops.buffer_allocation import Layout
from symgrad.loops.halos import Extent
from symgrad.loops.row_access import READ_ROWS, WRITE_ROWS
from symgrad.loops.rows_of_block import rows_of_block
from symgrad.ops.control import own_sizes
from symgrad.ops.create import FULL


class Cut(NamedTuple):
    """Blocks of a value along an axis: the rows of an extent, shifted by `by`."""

    axis: int
    extent: Extent
    by: Size = 0


class Bounds(NamedTuple):
    """The place of an extent in a block: inputs of the body for its start and its stop, and its length."""

    start: Node
    stop: Node
    rows: Rows


class Block(Region):
    """The body of a loop over blocks, with the facts that its code depends on.

    The inputs of its graph are those of the loop, whole or in blocks: a cut axis has the length of an extent. Blocks of
    an output are concatenated along an axis, or are partial results that a ufunc combines.
    """

    def __init__(
        self,
        graph: Graph,
        size: Size,  # how many rows there are
        rows: Rows,  # stands for the length of a block
        bounds: dict[Extent, Bounds],  # the extents of its values
        cuts: tuple[Cut | None, ...],  # of each input how it is cut, None where it is read whole
        joins: tuple[int | np.ufunc, ...],  # of each output
        avals: tuple[Aval, ...],  # of the results of the loop
        layout: Layout,  # where its values are kept
        least: int,  # bytes of rows that are work enough for a thread
        seconds: float,  # that one thread takes for it, as estimated
    ) -> None:
        places = [node for each in bounds.values() for node in (each.start, each.stop)]
        super().__init__(graph, [*graph.inputs, *places], graph.outputs)
        self.size, self.rows, self.bounds, self.cuts, self.joins, self.avals = size, rows, bounds, cuts, joins, avals
        self.layout, self.least, self.seconds = layout, least, seconds

    @property
    def body(self) -> Graph:
        return self.graph

    @property
    def key(self) -> tuple[Any, ...]:
        """Return a key for comparisons; buffers follow from the rest."""
        extents = tuple([(extent, each.rows) for extent, each in self.bounds.items()])
        columns = tuple(y in self.layout.columns for y in self.graph.outputs)
        what = self.size, self.rows, extents, self.cuts, self.joins, self.avals, self.layout.halo, columns
        return (*self.structure, *what, self.least, self.seconds)

    @property
    def sizes(self) -> tuple[Any, ...]:
        """Return every size that the loop mentions outside of its graph."""
        extents = tuple(extent.sizes for extent in self.bounds)
        avals = tuple(aval.shape for aval in self.avals)
        return (self.size, self.layout.row_bytes, *extents, *avals, *(buffer.shape for buffer in self.layout.buffers))

    @property
    def step(self) -> Any:
        """Return the rows of a block: a SymPy expression where sizes are symbols."""
        return rows_of_block(self.size, self.layout.row_bytes, self.least)

    def step_at(self, sizes: Mapping[str, int]) -> int:
        """Return the rows of a block for these values of the symbols."""
        return cast(int, rows_of_block(evaluate(self.size, sizes), evaluate(self.layout.row_bytes, sizes), self.least))

    @property
    def threads(self) -> bool:
        """Whether there may be several blocks, which threads share."""
        return not (isinstance(self.size, int) and self.step == self.size)

    @property
    def symbols(self) -> tuple[Dim, ...]:
        """Return the symbols whose values are needed to run the loop: those of block sizes, bounds and array sizes."""
        nodes = list(with_nested(self.graph.nodes))
        moved = [dict(x.params)["by"] for x in nodes if x.op in (READ_ROWS, WRITE_ROWS)]
        tables = [size for x in nodes if x.op is FULL for size in x.aval.shape]
        numbers = [dict(x.params)["value"] for x in nodes if x.op is SIZE]
        extents = [size for extent in self.bounds for size in extent.sizes]
        sizes = [self.size, self.layout.row_bytes, *extents, *moved, *tables, *numbers]
        found = {s: size.scope.written(s) for size in sizes if isinstance(size, Dim) for s in symbols_of(size)}
        own = own_sizes(nodes)
        return tuple([symbol for name, symbol in found.items() if name not in own])


def _evaluate(*xs: Any, body: Block, symbols: tuple[int, ...]) -> tuple[Any, ...]:
    """Run the loop block by block in the interpreter."""
    sizes = {str(name): number for name, number in zip(body.symbols, symbols, strict=True)}
    n, rows = evaluate(body.size, sizes), body.step_at(sizes)
    parts = [_one(body, xs, i, min(i + rows, n), sizes) for i in range(0, max(n, 1), rows)]
    return tuple(_joined(join, part) for join, part in zip(body.joins, zip(*parts, strict=True), strict=True))


def _one(body: Block, xs: Sequence[Any], i: int, j: int, sizes: Mapping[str, int]) -> list[Any]:
    feeds: dict[Node, Any] = {}
    lengths = {**sizes, str(body.rows): j - i}
    for extent, (first, last, rows) in body.bounds.items():
        feeds[first], feeds[last] = start, stop = extent.rows(i, j, sizes)
        lengths[str(rows)] = stop - start
    for node, x, cut in zip(body.graph.inputs, xs, body.cuts, strict=True):
        feeds[node] = x if cut is None else _rows_of(x, cut, i, j, sizes)
    return interpret(body.graph.outputs, feeds, lengths)


def _rows_of(x: Any, cut: Cut, i: int, j: int, sizes: Mapping[str, int]) -> Any:
    by = evaluate(cut.by, sizes)
    start, stop = cut.extent.rows(i, j, sizes)
    return x[key_along(cut.axis, slice(start + by, stop + by))]


def _joined(join: int | np.ufunc, parts: Sequence[Any]) -> Any:
    return np.concatenate(parts, axis=join) if isinstance(join, int) else join.reduce(parts)


LOOP = Op("loop", _evaluate, lambda *xs, body, symbols: body.avals)
