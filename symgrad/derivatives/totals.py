"""Accumulation of cotangents over the iterations of a loop, in place: scatter-adds go into the total."""

from __future__ import annotations

from collections.abc import Iterator

from symgrad.analysis.values import is_zeros
from symgrad.core.graph import Graph, Node, reached
from symgrad.core.shapes import same_shape
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import ADD
from symgrad.ops.index import ADD_AT


def added(graph: Graph, total: Node, g: Node) -> Node:
    """The sum of a total and a cotangent, which may have the total in it already."""
    terms = [g] if _is_read(graph, g) else [*terms_of(g)]
    base = next((x for x in terms if total in reached([x])), total)
    rest = [x for x in terms if x is not base]
    if not any(map(_adds_to_zeros, rest)):
        rest = [] if base is not total or g is total else [g]
        base = g if not rest else total
    for x in rest:
        base = _sum(graph, base, x)
    return base


def _is_read(graph: Graph, g: Node) -> bool:
    """Whether another node reads a sum, which then has to be an array."""
    return any(g in node.inputs for node in graph.nodes[g.id + 1 :])


def terms_of(g: Node) -> Iterator[Node]:
    """Yield the terms of a sum."""
    if g.op is ADD and all(same_shape(x.aval.shape, g.aval.shape) and x.aval.dtype == g.aval.dtype for x in g.inputs):
        for x in g.inputs:
            yield from terms_of(x)
    else:
        yield g


def _adds_to_zeros(x: Node) -> bool:
    return x.op is ADD_AT and is_zeros(x.inputs[0])


def _sum(graph: Graph, total: Node, g: Node) -> Node:
    onto = Variable(graph, total)
    if not _adds_to_zeros(g):
        return (onto + Variable(graph, g)).node
    return ADD_AT(onto, *[Variable(graph, x) for x in g.inputs[1:]], **dict(g.params)).node
