"""The graphs of values that can be shown."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.compiled import Compiled
from symgrad.compiler.function import Function
from symgrad.core.graph import Graph, Node, results
from symgrad.core.region import regions_of
from symgrad.errors import ArgumentError
from symgrad.frontend.trace import Program
from symgrad.ops.checkpoint import has_units, opened
from symgrad.ops.operands import is_traced


def shown(x: Any, args: tuple[Any, ...]) -> tuple[Graph, list[Node]]:
    """The graph that `x` belongs to or has, and the nodes of it that are asked for; `args` are those of a Function."""
    if isinstance(x, Function):
        return shown(x.graph(*args), ())
    if args:
        raise ArgumentError(f"{type(x).__name__} takes no arguments when it is shown", "Give them with a Function.")
    if is_traced(x):
        return _without_units(x.graph, [x.node])
    if isinstance(x, Compiled) and x.native:
        return shown(x.whole, ())  # before it is cut into kernels
    graph = x if isinstance(x, Graph) else x.graph if isinstance(x, (Program, Compiled)) else None
    if graph is None:
        raise ArgumentError(
            f"{type(x).__name__} has no graph to show",
            "Give a Variable, a Graph, a Program or a Compiled, or a Function such as sg.grad(f) with its arguments.",
        )
    inside = {x for node in graph.nodes for region in regions_of(node) for x in region.nodes}
    return _without_units(graph, [y for y in results(graph) if y not in inside])


def _without_units(graph: Graph, nodes: list[Node]) -> tuple[Graph, list[Node]]:
    """They show as what they compute."""
    if not has_units(nodes):
        return graph, nodes
    graph = opened(graph, nodes)
    return graph, graph.outputs
