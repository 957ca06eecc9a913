"""What a pullback computes again: the segments of checkpointed functions that it passes."""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.core.graph import Graph, Node, depends
from symgrad.frontend.variable import Variable
from symgrad.ops.marks import AGAIN, ENTER, LEAVE, Segment, entered


def segment_of(mark: Node) -> Segment:
    """The segment that a mark is a boundary of."""
    return dict(mark.params)["segment"]


def computed_again(graph: Graph, leave: Node, segment: Segment, known: Mapping[Node, Node]) -> dict[Node, Node]:
    """Append once more what the result `leave` of a segment is made of; the twin of each node.

    Parameters
    ----------
    segment : Segment
        What the twins belong to.
    known : mapping of Node to Node
        Twins of nodes outside of the segment, to be read in their place.
    """
    twins: dict[Node, Node] = {}
    for node in _body(leave):
        if _enters(node, segment_of(leave)):
            x = node.inputs[0]
            twins[node] = entered(graph, known.get(x, x), segment, AGAIN)
            continue
        inputs = tuple([twins.get(x) or known.get(x, x) for x in node.inputs])
        twin = twins[node] = graph.add(node.op, inputs, node.params, node.where._replace(of=node, again=True))
        name = graph.names.get(node)
        if name is not None:
            graph.label(twin, ("{}_again", node) if isinstance(name, str) else name)
    return twins


def _body(leave: Node) -> list[Node]:
    """What lies between the inputs of a segment and one of its results, in order of creation; the marks included."""
    segment = segment_of(leave)
    seen: set[Node] = set()
    stack = [leave.inputs[0]]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(() if _enters(node, segment) else node.inputs)
    nodes = sorted(seen, key=lambda node: node.id)
    inner = depends(nodes, [node for node in nodes if _enters(node, segment)])
    return [node for node in nodes if node in inner]


def _enters(node: Node, segment: Segment) -> bool:
    return node.op in (ENTER, AGAIN) and segment_of(node) is segment


def enter(x: Variable, segment: Segment) -> Variable:
    """A cotangent as it comes into a segment."""
    return Variable(x.graph, entered(x.graph, x.node, segment))


def leave(x: Variable, segment: Segment) -> Variable:
    """A cotangent as it comes out of a segment."""
    return Variable(x.graph, x.graph.add(LEAVE, (x.node,), (("segment", segment),)))
