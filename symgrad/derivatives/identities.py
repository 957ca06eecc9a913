"""Identities of values in derivatives: originals of rematerialised nodes, and orders of derivatives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from symgrad.core.graph import Node
from symgrad.core.region import regions_of
from symgrad.errors import NotDifferentiableError
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.custom import CUSTOM
from symgrad.ops.marks import identity


def made_in(node: Node) -> Iterator[Node]:
    """Yield the nodes in the regions of a node, however deep."""
    for region in regions_of(node):
        for x in region.nodes:
            yield x
            yield from made_in(x)


def held_inside(node: Node) -> NotDifferentiableError:
    """Return the error for a variable of the derivative that is computed in a region with its own rule."""
    if node.op is CUSTOM:
        fact = f"the variable of the derivative lies inside of {dict(node.params)['rule'].name}, which has its own rule"
        return NotDifferentiableError(fact, "Name a value outside of it.", node.where)
    return NotDifferentiableError(
        "the variable of the derivative is computed in the body of a loop or a branch, and differs between iterations",
        "Differentiate with respect to a value before the loop, or return the value from its body.",
        node.where,
    )


def order_of(node: Node) -> int:
    """The order of the derivative that a node is part of."""
    order, of = 0, node.where.of
    while of is not None:
        order += not node.where.again
        node, of = of, of.where.of
    return order


def original(node: Node) -> Node:
    """Return the node that this one rematerialises, or the node itself."""
    return node.where.of if node.where.of is not None and node.where.again else node


def key_of(node: Node) -> Any:
    """Return the identity by which a node is differentiated: that of the original, however often rematerialised."""
    while node.where.again and node.where.of is not None and node.op is not BARRIER:
        node = node.where.of
    return identity(node)
