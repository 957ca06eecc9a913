"""Residuals: values of a body that are stored for its pullback; the others are rematerialised.

Residuals are a minimum cut between the values that cannot be rematerialised and those that the pullback reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np

from symgrad.analysis import costs
from symgrad.analysis.cost import numbers
from symgrad.core.graph import ITEM, Aval, Node, avals_of, depends, is_view
from symgrad.core.region import regions_of, with_nested
from symgrad.ops.control import COND, mentions

FEW = 16  # operations
SMALL = 1024  # numbers, below which a call takes longer than storing its result
CALL = costs.LEAST_CALL / costs.KEPT  # numbers that are kept in the time of a call


def residuals(
    read: Sequence[Node],  # by the pullback
    primal: Sequence[Node],  # what the body computes, in order of creation, with its parameters
    carried: Collection[Node],  # parameters that are gone when the pullback runs
    given: Collection[Node],  # parameters that are there again
    own: Collection[str] = (),  # symbols of sizes that vary between iterations: such values cannot be stored
    kept: Collection[Node] = (),  # stored anyway
) -> list[Node]:
    """Return the values to store, in order of creation.

    Cheap operations are rematerialised: casts, views, sums and products of large arrays or of scalars, and from given
    values everything but matrix products and loops. Among the possible cuts the one that stores the fewest numbers is
    chosen, and among equal ones the one that computes least.
    """
    moving = depends(primal, carried)
    again = {x.inputs[0] for x in read if own and x.op is ITEM and mentions(x, own)}  # loops that have to run again
    edges: dict[Any, dict[Any, float]] = {_SOURCE: {}, _SINK: {}}
    for x in primal:
        if x in given:
            continue
        free = mentions(x, own) if own else False
        cheap = free or _is_cheap(x, x in moving) or (x.op is ITEM and x.inputs[0] in again)
        size = inf if free or _is_no_smaller_view(x) else 0 if x in kept else CALL + numbers(x.aval.shape)
        edges[x, "in"], edges[x, "out"] = {(x, "out"): size}, {}
        if x in carried or not cheap:
            edges[_SOURCE][x, "in"] = inf
        for y in x.inputs:
            if (y, "out") in edges:
                edges[y, "out"][x, "in"] = inf
    for x in read:
        if (x, "out") in edges:
            edges[x, "out"][_SINK] = inf
    behind = _behind_minimum_cut(edges)
    return [x for x in primal if (x, "out") in behind and (x, "in") not in behind]


_SOURCE, _SINK = "source", "sink"


def _is_no_smaller_view(x: Node) -> bool:
    """Whether storing the base of a view, or the node that a result is an item of, is as good."""
    if type(x.aval) is not Aval:
        return True
    return is_view(x) and numbers(x.aval.shape) >= numbers(x.inputs[0].aval.shape)


def _is_cheap(x: Node, moving: bool) -> bool:
    """Whether to rematerialise a value that changes between iterations (`moving`), or one that does not."""
    maker = x.inputs[0] if x.op is ITEM else x
    if maker.op is COND:
        return not moving and _is_flag(maker)
    if type(x.aval) is not Aval:
        return False
    if x.op.view or not x.inputs:
        return True
    if not moving:
        return not x.op.contracts
    flag = x.op.elementwise and x.aval.dtype == np.dtype(bool)
    return (x.op.cheap or flag) and (not x.aval.shape or numbers(x.aval.shape) >= SMALL)


def _is_flag(branch: Node) -> bool:
    """Whether a branch gives single booleans by few operations, as `and` does: ``i >= m and x[i] > 0``."""
    nodes = [x for side in regions_of(branch) for x in with_nested(side.nodes)]
    single = all(type(x.aval) is Aval and numbers(x.aval.shape) == 1 for x in nodes if x.op is not COND)
    return single and len(nodes) <= FEW and all(x.dtype == np.dtype(bool) and not x.shape for x in avals_of(branch))


def _behind_minimum_cut(edges: dict[Any, dict[Any, float]]) -> set[Any]:
    """Return the sink's side of the last of the minimum cuts (Edmonds & Karp 1972)."""
    left = {a: dict(ends) for a, ends in edges.items()}
    while path := _shortest_path(left):
        flow = min(left[a][b] for a, b in pairwise(path))
        for a, b in pairwise(path):
            left[a][b] -= flow
            left[b][a] = left[b].get(a, 0) + flow
    into: dict[Any, list[Any]] = {a: [] for a in left}
    for a, ends in left.items():
        for b, room in ends.items():
            if room > 0:
                into[b].append(a)
    behind, stack = {_SINK}, [_SINK]
    while stack:
        for a in into[stack.pop()]:
            if a not in behind:
                behind.add(a)
                stack.append(a)
    return behind


def _shortest_path(left: dict[Any, dict[Any, float]]) -> list[Any]:
    """Return a path from the source to the sink along edges with remaining capacity; empty if there is none."""
    before: dict[Any, Any] = {_SOURCE: None}
    queue = deque([_SOURCE])
    while queue and _SINK not in before:
        a = queue.popleft()
        for b, room in left[a].items():
            if room > 0 and b not in before:
                before[b] = a
                queue.append(b)
    path, at = [], _SINK if _SINK in before else None
    while at is not None:
        path.append(at)
        at = before[at]
    return path[::-1]
