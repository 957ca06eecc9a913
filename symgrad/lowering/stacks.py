"""Readers of ys: for loops that read them row by row, a list serves as well as an array."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from symgrad.analysis.uses import users_of
from symgrad.core.graph import INPUT, Node
from symgrad.core.region import regions_of
from symgrad.ops.astype import ASTYPE
from symgrad.ops.control import COND, NUMBER, SCAN
from symgrad.ops.control_parts import loop_of


def readers_of(x: Node, users: Sequence[Node], outputs: Collection[Node]) -> list[Node] | None:
    """Return the loops that read an array by rows, also in branches; None if anything else reads it."""
    if x in outputs:
        return None
    found: list[Node] = []
    for user in users:
        each = [user] if takes_rows_of(user, x) else _readers_in_branch(x, user) if user.op is COND else None
        if each is None:
            return None
        found += each
    return found


def _readers_in_branch(x: Node, branch: Node) -> list[Node] | None:
    found: list[Node] = []
    for side in (region.body for region in regions_of(branch)):
        users = users_of([*side.inputs, *(y for y in side.live if y.op is not INPUT)])
        for y in [y for y, of in zip(side.inputs, branch.inputs[1:], strict=True) if of is x]:
            each = readers_of(y, users[y], side.outputs)
            if each is None:
                return None
            found += each
    return found


def takes_rows_of(user: Node, x: Node) -> bool:
    """Whether a loop reads an array by rows only."""
    if user.op is not SCAN:
        return False
    return [y.source for y in loop_of(user).xs].count(x) == user.inputs.count(x)


def has_pythons(y: Node, readers: Sequence[Node], users: Sequence[Node], item: Node) -> bool:
    """Whether a list holds Python's numbers, as all its readers need them: integers of any number of digits."""
    if y.op is not ASTYPE or y.inputs[0].aval != y.aval._replace(weak=True):
        return False
    return all(user.op is SCAN and _takes_pythons(user, item) for user in users)


def _takes_pythons(loop: Node, item: Node) -> bool:
    """Whether a loop makes Python numbers of the rows that it reads."""
    body = loop_of(loop).body
    rows = {row for row, x in zip(body.parameters, loop.inputs, strict=True) if x is item}
    if any(x.op is not NUMBER and not rows.isdisjoint(x.inputs) for x in body.nodes):
        return False
    return rows.isdisjoint(body.results)
