"""What a pullback computes again: the regions of checkpoints that it passes."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.core.graph import CONSTANT, Graph, Node, depends
from symgrad.core.region import Region, inline
from symgrad.frontend.variable import Variable
from symgrad.ops.checkpoint import BARRIER, CHECKPOINT


def barred(graph: Graph, x: Node) -> Node:
    """A value under an identity of its own, on which what is made of it is computed again."""
    return x if x.op is CONSTANT else graph.add(BARRIER, (x,), (("own", len(graph.nodes)),), x.where)


def computed_again(graph: Graph, region: Region, inputs: Sequence[Node]) -> dict[Node, Node]:
    """Append once more what a region computes; the twin of each of its nodes."""
    moving = depends(region.nodes, region.parameters)
    twins = inline(graph, region, inputs, lambda x: x.where.repeated(x) if x in moving else x.where)
    for node in region.nodes:
        name = region.graph.names.get(node)
        if name is not None and node in moving:
            graph.label(twins[node], ("{}_again", node) if isinstance(name, str) else name)
    return twins


def as_checkpoint(graph: Graph, region: Region) -> list[Variable]:
    """The results of a region of the graph as those of a checkpoint."""
    if not region.parameters:
        return [Variable(graph, y) for y in region.results]
    node = graph.add(CHECKPOINT, region.parameters, (("region", region),))
    return [Variable(graph, y) for y in graph.items(node)]
