"""Rematerialisation: regions of checkpoints that a pullback appends again."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.core.graph import CONSTANT, Graph, Node, depends
from symgrad.core.region import Region, inline
from symgrad.frontend.variable import Variable
from symgrad.ops.checkpoint import BARRIER, CHECKPOINT


def barred(graph: Graph, x: Node) -> Node:
    """Return a value under an identity of its own, so that nodes made of it are rematerialised."""
    return x if x.op is CONSTANT else graph.add(BARRIER, (x,), (("own", len(graph.nodes)),), x.where)


def computed_again(graph: Graph, region: Region, inputs: Sequence[Node]) -> dict[Node, Node]:
    """Append a region again, and return the twin of each of its nodes."""
    moving = depends(region.nodes, region.parameters)
    twins = inline(graph, region, inputs, lambda x: x.where.repeated(x) if x in moving else x.where)
    for node in region.nodes:
        name = region.graph.names.get(node)
        if name is not None and node in moving:
            graph.label(twins[node], ("{}_again", node) if isinstance(name, str) else name)
    return twins


def as_checkpoint(graph: Graph, region: Region) -> list[Variable]:
    """Return the results of a region of the graph as those of a checkpoint."""
    if not region.parameters:
        return [Variable(graph, y) for y in region.results]
    node = graph.add(CHECKPOINT, region.parameters, (("region", region),))
    return [Variable(graph, y) for y in graph.items(node)]
