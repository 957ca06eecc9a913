"""Checks without messages: what an error says is computed where the call is repeated to raise it."""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.control.dead import drop_dead_results
from symgrad.control.replacement import instead_of, rebuilt
from symgrad.core.graph import Graph, Node, freeze
from symgrad.core.region import Region
from symgrad.ops.checks import CHECK, Raise, action_of
from symgrad.rewrite.engine import Made, in_bodies


def without_messages(graph: Graph) -> Graph:
    """Drop the operands of raising checks, other than conditions, and what only messages need."""
    return drop_dead_results(in_bodies(lambda body, _: rebuilt(body, CHECK, _without_message))(graph, "stable"))


def _without_message(node: Node, items: Mapping[int, Node]) -> dict[Node, Made]:
    action = action_of(node)
    if not isinstance(action, Raise) or not (action.arguments or node.inputs[2:]):
        return {}
    params = freeze(CHECK, {"action": Raise(action.error, ()), "body": Region(Graph(), (), ())})

    def recorded(new: Graph, image: Mapping[Node, Node]) -> Node:
        return new.add(CHECK, (image[node.inputs[0]], image[node.inputs[1]]), params)

    return instead_of(recorded, node, {x: i for i, x in items.items()})
