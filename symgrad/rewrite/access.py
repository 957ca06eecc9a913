"""Composition of indices: an index of an index, and an index of joined arrays."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from symgrad.core.graph import INPUT, Graph, Node, per_node
from symgrad.core.sizes import same
from symgrad.frontend.bodies import promoted
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import EVERYTHING, Slice, composed
from symgrad.ops.join import CONCATENATE, STACK
from symgrad.rewrite.engine import alone
from symgrad.rewrite.rules import procedure


def _key(node: Node) -> list[Any] | None:
    """The items of an index without arrays, one for each axis but for None."""
    key = list(dict(node.params)["key"]) if node.op is GET and len(node.inputs) == 1 else [Ellipsis]
    return None if any(item is Ellipsis for item in key) else key


@procedure(GET, of={GET}, exact=True, plane="all")
def index_of_index(graph: Graph, node: Node) -> Node | None:
    """``x[1:][0]`` is ``x[1]``, where nothing else needs ``x[1:]``."""
    x = node.inputs[0]
    if x.op is not GET or not alone(graph, x):
        return None
    inner, outer = _key(x), _key(node)
    if inner is None or outer is None:
        return None
    key: list[Any] = []
    for item in inner:
        if item is not None and not isinstance(item, Slice):  # a number, which leaves no axis
            key.append(item)
            continue
        while outer[0] is None:
            key.append(outer.pop(0))
        found = _under(item, outer.pop(0))
        if found is None:
            return None
        key += found
    return graph.add(GET, x.inputs, (("key", (*key, *outer)),))


def _under(item: Slice | None, other: Any) -> list[Any] | None:
    """Return the items left of an axis that an item has made, under another item; None where that is not known."""
    if item == EVERYTHING or other == EVERYTHING:
        return [other if item == EVERYTHING else item]
    if item is None:
        return [] if type(other) is int else None
    both = composed(item, other) if isinstance(other, (int, Slice)) else None
    return None if both is None else [both]


@procedure(GET, of={CONCATENATE, STACK}, exact=True, plane="all")
def index_of_joined(graph: Graph, node: Node) -> Node | None:
    """``np.concatenate([x, y])[0]`` is ``x[0]``, ``np.stack([x, y])[1]`` is y."""
    joined, key = node.inputs[0], _key(node)
    if joined.op not in (CONCATENATE, STACK) or key is None:
        return None
    axis = dict(joined.params).get("axis", 0)
    at = [i for i, item in enumerate(key) if item is not None][axis]
    if joined.op is STACK and type(key[at]) is not int:
        return None
    found = _within(key[at], _ends(joined))
    if found is None:
        return None
    i, item = found
    x = joined.inputs[i]
    if not x.aval.shape and not x.op.view and x.op is not INPUT:  # which may be an array without axes
        return promoted(graph, x, node.aval)
    rest = [item] if joined.op is CONCATENATE else []
    return graph.add(GET, (x,), (("key", (*key[:at], *rest, *key[at + 1 :])),))


@per_node  # each part of an array may be read by itself
def _ends(joined: Node) -> list[int]:
    """Return where the parts of a joined array end along its axis; none where that is not known."""
    axis = dict(joined.params).get("axis", 0)
    sizes = [1 if joined.op is STACK else x.aval.shape[axis] for x in joined.inputs]
    return [*accumulate(sizes)] if all([isinstance(n, int) for n in sizes]) else []


def _within(item: Any, ends: Sequence[int]) -> tuple[int, Any] | None:
    """An item of an axis as a part, by its number, and an item of that; None if it takes numbers of several."""
    n = ends[-1] if ends else 0
    if not n:
        return None
    if type(item) is int:
        i = bisect_right(ends, item % n)
        return i, item % n - (ends[i - 1] if i else 0)
    places = _places(n, item) if isinstance(item, Slice) else None
    if not places or places.step < 0:
        return None
    i = bisect_right(ends, places[0])
    start, stop = ends[i - 1] if i else 0, ends[i]
    if places[-1] >= stop:
        return None
    return i, _as_slice(range(places[0] - start, places[-1] + 1 - start, places.step), stop - start)


def _places(n: Any, item: Slice) -> range | None:
    """The places of an axis that a slice takes, if that is known."""
    known = isinstance(n, int) and all(end is None or type(end) is int for end in item)
    return range(n)[slice(*item)] if known else None


def _as_slice(places: range, n: int) -> Slice:
    stop = None if places[-1] + places.step >= n else places[-1] + 1
    return Slice(places.start or None, stop, None if places.step == 1 else places.step)


@procedure(CONCATENATE, exact=True, plane="all")
def joined_to_nothing(graph: Graph, node: Node) -> Node | None:
    """Drop empty arrays from a concatenation."""
    axis = dict(node.params).get("axis", 0)
    kept = tuple([x for x in node.inputs if not same(x.aval.shape[axis], 0)])
    if not kept or (len(kept) == len(node.inputs) > 1):
        return None
    return kept[0] if len(kept) == 1 else graph.add(CONCATENATE, kept, node.params)
