"""Scratch memory that the loops of a program keep between calls."""

from __future__ import annotations

from typing import Any

from symgrad.analysis.cost import as_expr
from symgrad.core.graph import Graph
from symgrad.loops import machine
from symgrad.loops.buffer_allocation import Buffer, nbytes_of_rows
from symgrad.loops.loop import LOOP, Block

PARTS = 16  # into at most so many `runtime._in_parts` divides the rows


def scratch_of(graph: Graph, threads: int | None) -> Any:
    """Return the bytes of the buffers of all loops, a SymPy expression where sizes are symbols.

    Loops with the same buffers share them.
    """
    loops: dict[tuple[Buffer, ...], list[Block]] = {}
    for node in graph.live:
        if node.op is LOOP:
            block: Block = dict(node.params)["body"]
            loops.setdefault(tuple(block.layout.buffers), []).append(block)
    return sum(scratch_bytes(blocks) * max(_at_a_time(block, threads) for block in blocks) for blocks in loops.values())


def scratch_bytes(blocks: list[Block]) -> Any:
    """Return the bytes that one thread needs for loops with the same buffers."""
    rows = {block.step + block.layout.halo for block in blocks}
    return as_expr(nbytes_of_rows(blocks[0].layout.buffers)) * _largest(rows)


def _largest(numbers: set[Any]) -> Any:
    if len(numbers) == 1 or all(isinstance(n, int) for n in numbers):
        return max(numbers)
    from sympy import Max  # as slow to import as NumPy, and only for symbols

    return Max(*numbers)


def _at_a_time(block: Block, threads: int | None) -> int:
    """Return how many threads may share the rows."""
    if not block.threads:
        return 1
    most = threads or machine.cores()
    return min(most, _parts(block.size, block.step)) if isinstance(block.step, int) else most


def _parts(size: Any, rows: int) -> int:
    return -(-size // (rows * max(1, -(-size // (PARTS * rows)))))
