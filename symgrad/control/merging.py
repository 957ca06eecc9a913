"""Merging of nodes: which nodes can become one without a cycle of dependencies, and the order afterwards."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from heapq import heappop, heappush

from symgrad.core.counted_sizes import by_sizes, needed_for_sizes
from symgrad.core.graph import ITEM, Graph, Node


class Needs:
    """Dependencies among nodes, updated as nodes are merged.

    Nodes of one of the `kinds` may be merged although one reads results of the other.
    """

    def __init__(self, graph: Graph, nodes: Sequence[Node], kinds: Mapping[Node, Hashable] | None = None) -> None:
        self._places = {node: i for i, node in enumerate(nodes)}
        self._together = [1 << i for i in range(len(nodes))]
        self._needs = [0] * len(nodes)
        self._alike = [0] * len(nodes)  # nodes of its kind whose results it reads
        self._between = [0] * len(nodes)  # nodes that its other inputs, or sizes, need
        above: dict[Node, int] = {}
        for_sizes = needed_for_sizes(graph.live)
        for node in by_sizes(graph.live):
            alike = between = needed = 0
            for x in node.inputs:
                maker = x.inputs[0] if x.op is ITEM else x
                needed |= above[x]
                if kinds and node in kinds and kinds[node] == kinds.get(maker):
                    alike |= 1 << self._places[maker]
                else:
                    between |= above[x]
            for x in for_sizes.get(node, ()):
                needed |= above[x]
                between |= above[x]
            above[node] = needed
            if node in self._places:
                i = self._places[node]
                above[node] |= 1 << i
                self._needs[i], self._alike[i], self._between[i] = needed, alike, between

    def may_join(self, group: Sequence[Node], node: Node) -> bool:
        """Whether a node can join a group of earlier ones: it needs no other node that depends on the group."""
        first, i = self._places[group[0]], self._places[node]
        together = self._together[first]
        outside = self._between[i] | self._alike[i] & ~together
        for k in members(outside):
            outside |= self._needs[k]
        return not (outside & together or self._needs[first] >> i & 1)

    def join(self, group: Sequence[Node], node: Node) -> None:
        """Merge a node into a group; the users of one depend on the whole group."""
        i, j = self._places[group[0]], self._places[node]
        together = self._together[i] | self._together[j]
        needed = (self._needs[i] | self._needs[j]) & ~together
        for k, bits in enumerate(self._needs):
            if together >> k & 1:
                self._together[k], self._needs[k] = together, needed
            elif bits & together:
                self._needs[k] |= together | needed


def members(bits: int) -> list[int]:
    """Return the positions of the bits that are set."""
    return [i for i in range(bits.bit_length()) if bits >> i & 1]


def in_order(graph: Graph, first: Mapping[Node, Node], inputs: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """Return a topological order after merging: each key of `first` has become its value, which has these `inputs`."""
    nodes = [x for x in graph.order if x not in first]
    needs = {x: dict.fromkeys(first.get(y, y) for y in inputs.get(x, x.inputs)) for x in nodes}
    for x, tellers in needed_for_sizes(graph.order).items():
        needs[first.get(x, x)] |= dict.fromkeys(first.get(y, y) for y in tellers)
    users: dict[Node, list[Node]] = {x: [] for x in nodes}
    for x in nodes:
        for y in needs[x]:
            users[y].append(x)
    waits = {x: len(needs[x]) for x in nodes}
    ready = [(x.id, x) for x in nodes if not waits[x]]
    ordered = []
    while ready:
        _, x = heappop(ready)
        ordered.append(x)
        for user in users[x]:
            waits[user] -= 1
            if not waits[user]:
                heappush(ready, (user.id, user))
    return ordered
