"""The cross-entropy of scores from which the maximum was taken by hand: its derivative cancels there as well.

``log(sum(exp(s))) - s[np.arange(n), labels]`` of ``s = x - max(x)`` does not depend on the maximum, which both terms
hold once, with opposite signs. `prepare` has the forms that need no labels.
"""

from __future__ import annotations

from symgrad.analysis.values import is_range
from symgrad.core.graph import CONSTANT, Graph, Node
from symgrad.core.shapes import is_one
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import EXP, LOG, SUBTRACT
from symgrad.ops.gather import TAKE_ALONG
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import EVERYTHING, Slot
from symgrad.ops.marks import STOP
from symgrad.ops.reduce import SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.rewrite.rules import procedure


@procedure(SUBTRACT, changes_nan=True)
def cross_entropy_by_hand(graph: Graph, node: Node) -> Variable | None:
    """The maximum, or whatever was subtracted from each row, is a constant of the derivative."""
    for total, picked in (node.inputs, node.inputs[::-1]):
        shifted = _summed(total)
        if shifted is None or shifted.op is not SUBTRACT or not _picks_one_of_each_row(picked, shifted, total):
            continue
        x, top = shifted.inputs
        if top.op in (STOP, CONSTANT) or not _is_same_along(top, shifted, *reduced_axes(_sum_of(total))):
            continue
        held = (Variable(graph, x) - STOP(Variable(graph, top))).node
        return node.op(*(Variable(graph, _of(graph, y, shifted, held)) for y in node.inputs))
    return None


def _sum_of(total: Node) -> Node:
    return total.inputs[0]


def _summed(total: Node) -> Node | None:
    """Of ``log(sum(exp(s)))`` it is s, where the sum is along one axis."""
    if total.op is not LOG or _sum_of(total).op is not SUM or _sum_of(total).inputs[0].op is not EXP:
        return None
    return _sum_of(total).inputs[0].inputs[0] if len(reduced_axes(_sum_of(total))) == 1 else None


def _is_same_along(top: Node, shifted: Node, axis: int) -> bool:
    i = axis - len(shifted.aval.shape) + len(top.aval.shape)
    return i < 0 or is_one(top.aval.shape[i])


def _picks_one_of_each_row(picked: Node, shifted: Node, total: Node) -> bool:
    """Whether in `picked` stands, for each number of `total`, one of those that were summed for it."""
    (axis,), kept = reduced_axes(_sum_of(total)), dict(_sum_of(total).params).get("keepdims", False)
    key, ndim = dict(picked.params).get("key", ()), len(shifted.aval.shape)
    if picked.op is GET and key == (Slot(0), Slot(1)) and picked.inputs[0] is shifted:
        return axis == 1 and ndim == 2 and not kept and is_range(picked.inputs[1], shifted.aval.shape[0])
    if picked.op is GET and not kept:  # of the one that was taken along the axis
        picked, kept = picked.inputs[0], key == tuple(0 if i == axis else EVERYTHING for i in range(ndim))
    taken = picked.op is TAKE_ALONG and picked.inputs[0] is shifted and dict(picked.params)["axis"] == axis
    return bool(kept) and taken and is_one(picked.aval.shape[axis])


def _of(graph: Graph, node: Node, shifted: Node, held: Node) -> Node:
    """The same of `held`, where the way to `shifted` is along first operands."""
    if node is shifted:
        return held
    return graph.add(node.op, (_of(graph, node.inputs[0], shifted, held), *node.inputs[1:]), node.params)
