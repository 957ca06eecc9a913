"""Replacement of loops and branches, and of their results.

A *maker* (`rewrite.engine.Made`) is a function of the new graph, and of the map from old nodes to new ones; it appends
the replacement of a node and returns it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from symgrad.core.graph import ITEM, Graph, Node, Op
from symgrad.frontend.variable import Variable
from symgrad.rewrite.engine import Made, copied

Other = Callable[[Node, Mapping[int, Node]], Mapping[Node, Made]]
"""Takes a loop or a branch and its results that are read, by numbers; returns makers of their replacements."""


def rebuilt(graph: Graph, op: Op, other: Other) -> Graph:
    """Return a graph with its loops or branches replaced as `other` says; the same graph if it replaces none."""
    found = [x for x in graph.compound if x.op is op and x.id >= graph.since]
    if not found:
        return graph
    items = items_of(graph.live)
    instead = {x: made for node in found for x, made in other(node, items.get(node, {})).items()}
    return copied(graph, instead) if instead else graph


def items_of(nodes: Iterable[Node]) -> dict[Node, dict[int, Node]]:
    """Return for each node with several results those that are among `nodes`, by number."""
    items: dict[Node, dict[int, Node]] = {}
    for node in nodes:
        if node.op is ITEM:
            items.setdefault(node.inputs[0], {})[dict(node.params)["index"]] = node
    return items


Recorded = Callable[[Graph, Mapping[Node, Node]], Node]
"""Appends a node to a new graph, given the map from old nodes to new ones."""


def instead_of(recorded: Recorded, node: Node, items: Mapping[Node, int | Node]) -> dict[Node, Made]:
    """Return makers of a node and its results; `items` maps each old result to its new number, or to another value."""
    instead: dict[Node, Made] = {node: lambda new, image: Variable(new, recorded(new, image))}
    return instead | {x: _result(node, i) if isinstance(i, int) else image_of(i) for x, i in items.items()}


def _result(node: Node, i: int) -> Made:
    return lambda new, image: Variable(new, new.item(image[node], i))


def image_of(x: Node) -> Made:
    """Return a maker that replaces a node by another value of the old graph."""
    return lambda new, image: Variable(new, image[x])
