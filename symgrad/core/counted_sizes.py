"""Sizes that only running tells, such as numbers of iterations: their defining nodes, and an order for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from symgrad.core.graph import Aval, Node
from symgrad.core.region import Region, per_region
from symgrad.core.sizes import Dim, is_counted, is_symbol, symbols_of


def tellers(nodes: Iterable[Node]) -> dict[str, Node]:
    """Return by symbol the first node that defines it: a loop, or its length if it has no condition."""
    found: dict[str, Node] = {}
    for node in nodes:
        if type(node.aval) is Aval:
            continue
        if symbol := _own_symbol(node):
            teller = node if _has_test(node) else node.inputs[0]
            found[symbol] = min(found.get(symbol, teller), teller, key=lambda x: x.id)
    return found


def _own_symbol(node: Node) -> str:
    """Return the symbol of a length that only running a loop tells; "" for none: n + 1 iterations say nothing of n."""
    turns = dict(node.params).get("turns", 1)
    return str(turns) if is_counted(turns) and is_symbol(turns) else ""


def _has_test(node: Node) -> bool:
    return "test" in dict(node.params)


def by_sizes(nodes: Sequence[Node]) -> Sequence[Node]:
    """Return the nodes in an order in which the definition of a size precedes its uses.

    Nodes come in the order of their creation, in which inputs stand before their users. A size is no input, and a
    derivative that computes a loop's length again does so behind what it has made for that length.
    """
    needs = needed_for_sizes(nodes)
    at = {node: i for i, node in enumerate(nodes)} if needs else {}
    if all(at[x] <= at[node] for node, xs in needs.items() for x in xs):
        return nodes
    ordered: dict[Node, None] = {}
    waiting = [*reversed(nodes)]
    begun: set[Node] = set()
    while waiting:
        node = waiting[-1]
        known = (*node.inputs, *needs.get(node, ()))
        first = [] if node in begun else [x for x in known if x in at and x not in ordered]
        begun.add(node)
        if first:
            waiting += [x for x in reversed(first) if x not in begun]
        else:
            waiting.pop()
            ordered[node] = None
    return [*ordered]


def needed_for_sizes(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """Return the nodes that mention sizes which only running tells, each with those of the nodes that define them."""
    told = tellers(nodes)
    if told:
        known = set(nodes)
        told = {symbol: node for symbol, node in told.items() if node in known}
    found = {node: [told[name] for name in _symbols(node) if name in told] for node in nodes if told}
    return {node: needed for node, others in found.items() if (needed := [x for x in others if x is not node])}


def untold(nodes: Sequence[Node]) -> Node | None:
    """Return the first node that mentions a size which only running tells, and which no node defines."""
    told = tellers(nodes)
    for node in nodes:
        for name, unknown in _mentioned(node):
            if unknown and name not in told:
                return node
    return None


def _symbols(node: Node) -> Iterator[str]:
    """Yield the symbols in the shapes, parameters and bodies of a node, without those that it defines."""
    yield from (name for name, _ in _mentioned(node))


def _mentioned(node: Node) -> Iterator[tuple[str, bool]]:
    """Yield these symbols, and of each whether only running tells it."""
    avals = [node.aval] if isinstance(node.aval, Aval) else node.aval
    own = _own_symbol(node) if _has_test(node) else ""  # of its stacks' lengths
    waiting: list[Any] = [n for aval in avals for n in aval.shape if type(n) is not int and str(n) != own]
    waiting += [value for key, value in node.params if key != "turns"]
    while waiting:
        x = waiting.pop()
        if isinstance(x, Dim):
            yield from ((name, name in x.scope.counted) for name in symbols_of(x))
        elif type(x) is Region:
            yield from _mentioned_in(x)
        elif type(x) is tuple:
            waiting += x


@per_region
def _mentioned_in(region: Region) -> Sequence[tuple[str, bool]]:
    """Return the symbols that the nodes of a region mention and none of them defines."""
    inside = tellers(region.nodes)
    return [*dict.fromkeys(found for y in region.nodes for found in _mentioned(y) if found[0] not in inside)]
