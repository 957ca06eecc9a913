"""Which values are computed in blocks along an axis, and in which loop: two loops where a sum must be whole first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from symgrad.core.axes import AxisSignature
from symgrad.core.graph import Node
from symgrad.core.sizes import largest, same
from symgrad.loops.axes import Axis
from symgrad.ops.checkpoint import BARRIER

Cut = tuple[bool, ...]  # for each input of a node, whether the node takes blocks of it


@dataclass
class Plan:
    """How a program is divided into loops along one axis.

    Attributes
    ----------
    cuts : dict of Node to tuple of bool
        The nodes that are computed block by block: rows, and partial sums of rows.
    loop : dict of Node to int
        For those, the loop that computes them.
    after : dict of Node to int
        For all others, how many loops must have run before.
    """

    axis: Axis
    cuts: dict[Node, Cut] = field(default_factory=dict)
    loop: dict[Node, int] = field(default_factory=dict)
    after: dict[Node, int] = field(default_factory=dict)

    @property
    def loops(self) -> int:
        return 1 + max(self.loop.values(), default=-1)

    def is_row(self, node: Node) -> bool:
        """Whether a node is computed block by block and has the axis itself; if not, it is a partial sum."""
        return node in self.cuts and node in self.axis.places

    def ready(self, x: Node, cut: bool) -> int:
        """The first loop that can read a value: rows of the same loop, or all of it after the loop that makes it."""
        if x in self.loop:
            return self.loop[x] if cut and self.is_row(x) else self.loop[x] + 1
        return self.after[x]


def plan_for(nodes: Sequence[Node], outputs: Iterable[Node], axis: Axis) -> Plan:
    """The plan for an axis: every value as early as it can be, then rows as late as saves storing them.

    But what is computed again, rather than kept, comes no earlier than the rows before it.
    """
    plan, begun = Plan(axis), 0
    for node in nodes:
        cuts = _cuts(node, axis)
        first = max((plan.ready(x, c) for x, c in zip(node.inputs, cuts or _uncut(node), strict=True)), default=0)
        if node.op is BARRIER:
            first = max(first, begun)
        if cuts is None:
            plan.after[node] = first
        else:
            plan.cuts[node], plan.loop[node] = cuts, first
            begun = max(begun, first)
    _postpone(plan, nodes, set(outputs))
    return plan


def _uncut(node: Node) -> Cut:
    """All inputs are read whole."""
    return (False,) * len(node.inputs)


def _cuts(node: Node, axis: Axis) -> Cut | None:
    """For each input whether blocks of it make a block, or a partial sum, of the node; None where they do not."""
    signature = axis.signature(node)
    places = [axis.places.get(x) for x in node.inputs]
    labels = [None if i is None else given[i] for i, given in zip(places, signature.inputs, strict=True)]
    if node in axis.places:
        label = signature.result[axis.places[node]] if signature.result else None
    else:
        reduced = (i for i, s in enumerate(labels) if s is not None and s not in signature.result)
        at = next(reduced, None) if signature.combine else None
        label = None if at is None or _may_lack_rows(signature, node.inputs[at], axis) else labels[at]
    return None if label is None else tuple(s == label for s in labels)


def _may_lack_rows(signature: AxisSignature, x: Node, axis: Axis) -> bool:
    """Whether in some block there may be nothing to reduce, of which there is no maximum."""
    if signature.combine is None or signature.combine.identity is not None:
        return False
    size = axis.size_of(x)
    return not (same(size, axis.size) and same(largest(1, size), size))


def _postpone(plan: Plan, nodes: Sequence[Node], outputs: set[Node]) -> None:
    """Compute rows in the loop that reads them first, where they are made of no more than is at hand there.

    Otherwise a row that could be computed at once would be stored until a loop comes that needs it.
    """
    latest: dict[Node, int] = {}
    for node in reversed(nodes):
        if plan.is_row(node) and node not in outputs and node in latest:
            made_of = [x for x, cut in zip(node.inputs, plan.cuts[node], strict=True) if cut and plan.is_row(x)]
            if latest[node] > plan.loop[node] and len(made_of) <= 1:
                plan.loop[node] = latest[node]
        for x, cut in zip(node.inputs, plan.cuts.get(node) or _uncut(node), strict=True):
            needed = plan.loop[node] - (not cut) if node in plan.loop else plan.after[node] - 1
            latest[x] = min(latest.get(x, needed), needed)
