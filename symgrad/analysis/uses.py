"""Uses of values: by nodes, and by the caller as results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from symgrad.core.graph import Node


def users_of(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """Return the users of each node, in their order; a node that reads it twice is listed twice."""
    users: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for x in node.inputs:
            users[x].append(node)
    return users


def times_used(nodes: Iterable[Node], outputs: Iterable[Node]) -> Counter[Node]:
    """Return how often each value is used; being a result counts as a use."""
    return Counter(chain(chain.from_iterable([node.inputs for node in nodes]), outputs))


def shared_values(nodes: Iterable[Node], outputs: Iterable[Node]) -> set[Node]:
    """Return the values that are results, or that several nodes read."""
    first: dict[Node, Node] = {}
    shared = set(outputs)
    for node in nodes:
        for x in node.inputs:
            if first.setdefault(x, node) is not node:
                shared.add(x)
    return shared


def live_in(part: Iterable[Node], outputs: Iterable[Node] = ()) -> set[Node]:
    """Return the values that a part of a program reads, or gives as results, and does not compute."""
    computed = set(part)
    return {x for node in computed for x in node.inputs}.union(outputs) - computed
