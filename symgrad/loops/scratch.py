"""How much memory the loops of a program keep from call to call."""

from __future__ import annotations

from symgrad.core.graph import Graph
from symgrad.core.sizes import Size
from symgrad.loops import machine
from symgrad.loops.buffer_allocation import PARTS, Buffer, scratch_bytes
from symgrad.loops.loop import LOOP, Block


def scratch_of(graph: Graph, threads: int | None) -> Size:
    """Bytes of buffers; loops with the same ones share them."""
    kept: dict[tuple[int, tuple[Buffer, ...]], int] = {}
    for node in graph.live:
        if node.op is LOOP:
            block: Block = dict(node.params)["body"]
            key = block.layout.length, tuple(block.layout.buffers)
            kept[key] = max(_at_a_time(block, threads), kept.get(key, 0))
    return sum((scratch_bytes(buffers, rows) * times for (rows, buffers), times in kept.items()), 0)


def _at_a_time(block: Block, threads: int | None) -> int:
    """How many threads may work on the rows."""
    if not block.threads:
        return 1
    most = threads or machine.cores()
    return min(most, _parts(block.size, block.layout.rows)) if isinstance(block.size, int) else most


def _parts(size: int, rows: int) -> int:
    return -(-size // (rows * max(1, -(-size // (PARTS * rows)))))
