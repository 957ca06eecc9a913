"""Large arrays that no loop has put together are written once: behind the loops only."""

from __future__ import annotations

from symgrad.core.graph import Graph, Node
from symgrad.ops.index import ADD_AT
from symgrad.rewrite.rules import procedure
from symgrad.targets.numpy.scatter_coalescing import written_once


@procedure(ADD_AT)
def write_once(graph: Graph, node: Node) -> Node | None:
    """Pieces of a large array that meet: cut where they begin and end, so that each number is written once."""
    return written_once(graph, node)
