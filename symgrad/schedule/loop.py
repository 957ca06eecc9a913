"""A loop over blocks of rows as one node: its body is a graph of what is computed of a block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.dims import Rows, Size
from symgrad.graph import Aval, Graph, Node, Op
from symgrad.interpret import interpret
from symgrad.schedule.layout import Layout


@dataclass(frozen=True, eq=False)
class Block:
    """The body of a loop.

    Attributes
    ----------
    graph : Graph
        Its inputs are those of the loop, blocks of them or whole; an axis that is cut has the size `rows`.
    size : int or Dim
        How many rows there are.
    rows : Rows
        What stands for the length of a block.
    cuts : tuple
        For each input the axis along which it is cut, None for one that is read whole.
    joins : tuple
        For each output the axis along which its blocks lie behind each other, or the ufunc that joins partial results.
    avals : tuple of Aval
        Of the results of the loop.
    layout : Layout
        How many rows a block has, and where its values are kept.
    threads : bool
        Whether it is worth while to share the rows between threads.
    """

    graph: Graph
    size: Size
    rows: Rows
    cuts: tuple[int | None, ...]
    joins: tuple[int | np.ufunc, ...]
    avals: tuple[Aval, ...]
    layout: Layout
    threads: bool

    @property
    def sizes(self) -> tuple[Any, ...]:
        """Every size that the loop mentions, apart from what stands in its graph."""
        return (self.size, *(aval.shape for aval in self.avals), *(buffer.shape for buffer in self.layout.buffers))


def _evaluate(*xs: Any, body: Block) -> tuple[Any, ...]:
    """Block by block, by the interpreter."""
    n = next(np.shape(x)[axis] for x, axis in zip(xs, body.cuts, strict=True) if axis is not None)
    parts = [_one(body, xs, i, i + body.layout.rows) for i in range(0, n, body.layout.rows)]
    return tuple(_joined(join, part) for join, part in zip(body.joins, zip(*parts, strict=True), strict=True))


def _one(body: Block, xs: Sequence[Any], start: int, stop: int) -> list[Any]:
    given = [
        x if axis is None else x[(slice(None),) * axis + (slice(start, stop),)]
        for x, axis in zip(xs, body.cuts, strict=True)
    ]
    return interpret(body.graph.outputs, dict(zip(body.graph.inputs, given, strict=True)))


def _joined(join: int | np.ufunc, parts: Sequence[Any]) -> Any:
    return np.concatenate(parts, axis=join) if isinstance(join, int) else join.reduce(parts)


def _bind(*xs: Any, body: Block) -> tuple[Sequence[Any], dict[str, Any]]:
    return xs, {"body": body}


LOOP = Op("loop", _evaluate, lambda *xs, body: body.avals, _bind)


def with_nested(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes, and those in the bodies of loops among them."""
    for node in nodes:
        yield node
        if node.op is LOOP:
            yield from dict(node.params)["body"].graph.nodes
