"""Plans: which values are computed in blocks along an axis, and in which loop.

A value that reads a sum over all rows needs a second loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from symgrad.analysis.cost import likely_numbers
from symgrad.control.checks_first import makes_checks, may_end
from symgrad.core.axes import AxisSignature, Label
from symgrad.core.graph import ITEM, Node, is_view
from symgrad.core.sizes import largest, same
from symgrad.loops.axes import Axis
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.control import own_sizes

Cut = tuple[int | None, ...]  # for each input of a node the axis along which it is read in blocks; None: whole


@dataclass
class Plan:
    """A division of a program into loops along one axis."""

    axis: Axis
    cuts: dict[Node, Cut] = field(default_factory=dict)  # of values computed in blocks: rows, and sums over rows
    loop: dict[Node, int] = field(default_factory=dict)  # value in blocks -> the loop that computes it
    after: dict[Node, int] = field(default_factory=dict)  # other value -> the number of loops that run before it

    @property
    def loops(self) -> int:
        return 1 + max(self.loop.values(), default=-1)

    def is_row(self, node: Node) -> bool:
        """Whether a node is computed in blocks and has the axis; a node in blocks without it is a sum over rows."""
        return node in self.cuts and node in self.axis.places

    def has_rows(self, x: Node, cut: int | None) -> bool:
        """Whether a value is computed in blocks, along its axis number `cut`."""
        return cut is not None and self.is_row(x) and self.axis.places[x] == cut

    def is_rematerialised(self, x: Node) -> bool:
        """Whether each loop that reads rows recomputes them: they are cheap, and no loop computes their operands."""
        made_of = (y for y, cut in self.reads(x) if cut is not None)
        return self.is_row(x) and (is_view(x) or x.op.cheap) and not any(y in self.loop for y in made_of)

    def reads(self, node: Node) -> Iterator[tuple[Node, int | None]]:
        """Yield the inputs of a node, each with the axis along which it is read in blocks; None if it is read whole."""
        return zip(node.inputs, self.cuts.get(node) or (None,) * len(node.inputs), strict=True)

    def ready(self, x: Node, cut: int | None) -> int:
        """Return the first loop that can read a value: its own for its rows, the one after it for the whole."""
        if x in self.loop:
            return self.loop[x] + (not self.has_rows(x, cut))
        return self.after[x]


def plan_for(
    nodes: Sequence[Node],
    outputs: Iterable[Node],
    axis: Axis,
    whole: Collection[Node] = (),
    earliest: Callable[[Plan, Node, int], int] = lambda plan, node, first: first,
) -> Plan:
    """Return the plan for an axis: each value in the earliest possible loop, unless a later one saves storing it.

    Values behind a checkpoint's barrier come no earlier than those before it. No loop computes the nodes in `whole`.
    `earliest` may choose a later loop than the first in which the inputs of a value are ready.
    """
    plan, begun = Plan(axis), 0
    checked = 0  # the number of loops before the last check: operations that may raise come after it
    for node in nodes:
        cuts = None if node in whole else _cuts(node, plan)
        if cuts is not None:
            plan.cuts[node] = cuts
        first = max((plan.ready(x, cut) for x, cut in plan.reads(node)), default=0)
        if node.op is BARRIER:
            first = max(first, begun)
        if may_end(node):
            first = max(first, checked)
        if cuts is None:
            plan.after[node] = first
            checked = max(checked, first) if makes_checks(node) else checked
        else:
            plan.loop[node] = first = earliest(plan, node, first)
            begun = max(begun, first)
    _postpone(plan, nodes, set(outputs))
    return plan


def _cuts(node: Node, plan: Plan) -> Cut | None:
    """Return for each input the axis along which it is read in blocks; None if the node cannot be one in blocks."""
    signature, places = plan.axis.signature(node), plan.axis.places
    if node not in places:
        label = _summed(node, signature, plan)
    else:
        label = signature.result[places[node]] if signature.result else None
    return None if label is None else _along(label, signature)


def _along(label: Label, signature: AxisSignature) -> Cut:
    return tuple([given.index(label) if label in given else None for given in signature.inputs])


def _summed(node: Node, signature: AxisSignature, plan: Plan) -> Label:
    """Return the label of the rows over which a node is a sum; None if it is none."""
    if signature.combine is None:
        return None
    for x, labels in zip(node.inputs, signature.inputs, strict=True):
        i = plan.axis.places.get(x)
        label = None if i is None else labels[i]
        if label is None or label in signature.result or _may_lack_rows(signature, x, plan.axis):
            continue
        cuts = zip(node.inputs, _along(label, signature), strict=True)
        if all(cut is None or plan.has_rows(y, cut) or not plan.is_row(y) for y, cut in cuts):
            return label
    return None


def _may_lack_rows(signature: AxisSignature, x: Node, axis: Axis) -> bool:
    """Whether a block may have no rows of a value whose reduction has no identity, such as a maximum."""
    if signature.combine is None or signature.combine.identity is not None:
        return False
    size = axis.size_of(x)
    return not (same(size, axis.size) and same(largest(1, size), size))


def _postpone(plan: Plan, nodes: Sequence[Node], outputs: Collection[Node]) -> None:
    """Move rows to the first loop that reads them, unless their operands would have to be stored instead.

    Rows stay where they are if they have several operands that are stored, or one that is larger than they are.
    """
    latest: dict[Node, int] = {}
    for node in reversed(nodes):
        if plan.is_row(node) and node.op is not ITEM and node not in outputs and latest.get(node, 0) > plan.loop[node]:
            made_of = [x for x, cut in plan.reads(node) if plan.has_rows(x, cut)]
            stored = [x for x in made_of if not plan.is_rematerialised(x)]
            if len(stored) <= 1 and not any(likely_numbers(x) > likely_numbers(node) for x in stored):
                plan.loop[node] = latest[node]
        for x, cut in plan.reads(node):
            needed = plan.loop[node] - (not plan.has_rows(x, cut)) if node in plan.loop else plan.after[node] - 1
            latest[x] = min(latest.get(x, needed), needed)


def _independent_of_loops(plan: Plan, nodes: Sequence[Node], whole: Collection[Node]) -> set[Node]:
    """Return the rows that depend on nothing that another loop computes; no loop computes the nodes in `whole`."""
    free: set[Node] = set()
    for node in nodes:
        if plan.is_row(node) and node not in whole:
            reads = [(x, cut) for x, cut in plan.reads(node) if x in plan.loop and x not in whole]
            if all(x in free and plan.has_rows(x, cut) for x, cut in reads):
                free.add(node)
    return free


def views_read_outside(plan: Plan, nodes: Sequence[Node], whole: Collection[Node]) -> set[Node]:
    """Return views that are read outside of loops, and that cost nothing there: no loop computes their base."""
    read = {x for node in nodes for x, cut in plan.reads(node) if node in whole or not plan.has_rows(x, cut)}
    free = _independent_of_loops(plan, nodes, whole)
    found: set[Node] = set()
    for node in reversed(nodes):
        if is_view(node) and node in free and node in read:
            found.add(node)
            read.update(node.inputs)
    return found


def partly_whole(plan: Plan, nodes: Sequence[Node]) -> set[Node]:
    """Return nodes of which some results cannot be computed in blocks, with all of their results.

    This includes a loop whose number of iterations is a size that another loop defines.
    """
    items = [node for node in nodes if node.op is ITEM]
    whole = {node.inputs[0] for node in items if node not in plan.cuts or own_sizes([node.inputs[0]])}
    return {x for node in items if node.inputs[0] in whole for x in (node, node.inputs[0])}
