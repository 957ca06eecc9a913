"""Aliases between parameters and results of regions: arrays that are updated in place."""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.analysis.aliases import roots_of, stays_in_place
from symgrad.analysis.liveness import last_users
from symgrad.core.graph import INPUT, ITEM, Node, reached, same_aval
from symgrad.core.region import Region, per_region, regions_of
from symgrad.ops.control import COND, SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.ops.elementwise import ADD, MULTIPLY, SUBTRACT
from symgrad.ops.index import ADD_AT, SET

OVER_AN_OPERAND = (ADD, SUBTRACT, MULTIPLY)
"""Operators whose result a carry may be written over by."""


def place_of_origin(node: Node, last_use: Mapping[Node, Node | None], sums: bool = False) -> Node:
    """Return the array that a value is, before assignments into it, if nothing reads the versions between.

    With `sums`, and in inner loops, a sum or product with the array may overwrite it as well.
    """
    while True:
        base, user = overwritten(node)
        if base is None and sums and node.aval.shape:
            base = next((x for x in updatable(node) if last_use.get(x) is node), None)
        if base is None or last_use.get(base) is not user:
            return node
        node = base


def updatable(node: Node) -> list[Node]:
    """Return the operands of a sum, difference or product that are parameters of a region and may be overwritten."""
    if node.op not in OVER_AN_OPERAND or node.inputs[0] is node.inputs[1]:
        return []
    operands = node.inputs if node.op.commutes else node.inputs[:1]
    return [x for x in operands if x.op is INPUT and same_aval(x.aval, node.aval)]


def overwritten(node: Node) -> tuple[Node | None, Node]:
    """Return the value that a node overwrites, if any, and the node."""
    if node.op is SET or node.op is ADD_AT:
        return node.inputs[0], node
    if node.op is ITEM and node.inputs[0].op in (SCAN, COND) and node.aval.shape:  # nothing is written into a number
        user = node.inputs[0]
        i = dict(node.params)["index"]
        origin = _origin_in_loop(user, i) if user.op is SCAN else _origin_in_branch(user, i)
        if origin is not None and user.inputs.count(user.inputs[origin]) == 1:
            return user.inputs[origin], user
    return None, node


def _origin_in_loop(loop: Node, i: int) -> int | None:
    parts = loop_of(loop)
    return 1 + i if i < len(parts.carry) and origins(parts.body)[i] == i else None


def _origin_in_branch(branch: Node, i: int) -> int | None:
    sides = {origins(side)[i] for side in regions_of(branch)}
    origin = sides.pop()
    return None if sides or origin is None else 1 + origin


@per_region
def origins(region: Region) -> tuple[int | None, ...]:
    """Return for each result the number of the parameter that it is, perhaps updated in place."""
    graph = region.body
    nodes = reached(graph.outputs)
    roots = roots_of(nodes)
    last: dict[Node, Node | None] = {**last_users(nodes, roots), **dict.fromkeys(roots[y] for y in graph.outputs)}
    numbers = {x: i for i, x in enumerate(graph.inputs)}
    found = [place_of_origin(y, last, sums=True) for y in graph.outputs]
    kept = [roots[y] for y in graph.outputs]
    return tuple(
        [numbers.get(x) if kept.count(roots[y]) == 1 else None for x, y in zip(found, graph.outputs, strict=True)]
    )


def may_lie_in(node: Node) -> set[Node]:
    """Return the values that a value may alias, including operands that a loop or a branch may return."""
    found, waiting = set[Node](), [node]
    while waiting:
        x = waiting.pop()
        while stays_in_place(x):
            x = x.inputs[0]
        if x not in found:  # the ways to a value double with each loop or branch in between
            found.add(x)
            waiting += _passed_on(x)
    return found


def _passed_on(item: Node) -> list[Node]:
    """Return the operands of a loop or a branch that one of its results may alias."""
    user = item.inputs[0] if item.op is ITEM else item
    if user is item or user.op not in (SCAN, COND):
        return []
    i, given = dict(item.params)["index"], list(user.inputs[1:])
    if user.op is COND:
        return [given[k] for side in regions_of(user) for k in _parameters(side)[i]]
    parts = loop_of(user)
    if i >= len(parts.carry):
        return []
    given.insert(len(parts.carry), user.inputs[0])  # where bodies have the loop's index
    found, waiting = list[Node](), [i]
    for k in waiting:
        found.append(given[k])
        waiting += [m for m in (_parameters(parts.body)[k] if k < len(parts.carry) else ()) if m not in waiting]
    return found


@per_region
def _parameters(region: Region) -> tuple[tuple[int, ...], ...]:
    """Return for each result the numbers of the parameters that it may alias."""
    numbers = {x: i for i, x in enumerate(region.body.inputs)}
    return tuple([tuple(sorted(numbers[x] for x in may_lie_in(y) if x in numbers)) for y in region.body.outputs])
