"""Canonical forms for differentiation: their derivatives are stable, and small, at any order."""

import numpy as np

from symgrad.analysis.values import is_range
from symgrad.core.graph import CONSTANT, Graph, Node
from symgrad.core.shapes import is_one
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import EXP, LOG, SUBTRACT
from symgrad.ops.gather import TAKE_ALONG
from symgrad.ops.index import GET, SET
from symgrad.ops.index_expressions import EVERYTHING, Slot
from symgrad.ops.marks import STOP
from symgrad.ops.places import is_bounded_by_index
from symgrad.ops.reduce import SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.rewrite.conditions import floating
from symgrad.rewrite.rules import procedure, rule
from symgrad.rewrite.scatter import increment

# ---- a maximum taken out by hand: its derivative cancels, so it need not be computed


def _held(form, top):
    """A form of the maximum, and the same of a constant."""
    return form(top), form(STOP(top))


def _logsumexp(x, top, **how):
    return np.log(np.sum(np.exp(x - top), **how))


def _softmax(x, top, **how):
    return np.exp(x - top) / np.sum(np.exp(x - top), **how)


def _along_axis(x, axis, keepdims):
    """Whether what is subtracted is one number for all that is summed."""
    return floating(x) and (keepdims or axis is None)


@rule(when=_along_axis)
def logsumexp_by_hand(x, axis=1, keepdims=True):
    how = {"axis": axis, "keepdims": keepdims}
    return _held(lambda top: top + _logsumexp(x, top, **how), np.max(x, **how))


@rule(when=floating)
def logsumexp_by_hand_reshaped(x, axis=1, shape=(2,)):
    return _held(
        lambda top: np.reshape(top, shape) + _logsumexp(x, top, axis=axis), np.max(x, axis=axis, keepdims=True)
    )


@rule(when=lambda x: floating(x) and x.ndim == 2)
def logsumexp_by_hand_indexed(x):
    return _held(lambda top: top[:, 0] + _logsumexp(x, top, axis=1), np.max(x, axis=1, keepdims=True))


@rule(when=floating)
def logsumexp_by_hand_twice(x, axis=1):
    top = np.max(x, axis=axis, keepdims=True)
    before = np.max(x, axis=axis) + _logsumexp(x, top, axis=axis)
    log_total = _logsumexp(x, STOP(top), axis=axis)
    return before, np.reshape(STOP(top), log_total.shape) + log_total


@rule(when=_along_axis)
def softmax_by_hand(x, axis=1, keepdims=True):
    return _held(lambda top: _softmax(x, top, axis=axis, keepdims=keepdims), np.max(x, axis=axis, keepdims=keepdims))


@rule(when=_along_axis)
def logsoftmax_by_hand(x, axis=1, keepdims=True):
    how = {"axis": axis, "keepdims": keepdims}
    return _held(lambda top: (x - top) - _logsumexp(x, top, **how), np.max(x, **how))


# ---- the cross-entropy of scores from which the maximum was taken by hand


@procedure(SUBTRACT, of={SUM, LOG}, changes_nan=True)
def cross_entropy_by_hand(graph: Graph, node: Node) -> Variable | None:
    """The maximum, or whatever was subtracted from each row, is a constant of the derivative."""
    for total, picked in (node.inputs, node.inputs[::-1]):
        summed = total.inputs[0] if total.op is LOG else node
        if summed.op is not SUM or summed.inputs[0].op is not EXP or len(reduced_axes(summed)) != 1:
            continue
        (shifted,), (axis,) = summed.inputs[0].inputs, reduced_axes(summed)
        if shifted.op is not SUBTRACT or not _picks_one_of_each_row(picked, shifted, summed):
            continue
        x, top = shifted.inputs
        if top.op in (STOP, CONSTANT) or not _is_same_along(top, shifted, axis):
            continue
        held = (Variable(graph, x) - STOP(Variable(graph, top))).node
        return node.op(*(Variable(graph, _of(graph, y, shifted, held)) for y in node.inputs))
    return None


def _is_same_along(top: Node, shifted: Node, axis: int) -> bool:
    i = axis - len(shifted.aval.shape) + len(top.aval.shape)
    return i < 0 or is_one(top.aval.shape[i])


def _picks_one_of_each_row(picked: Node, shifted: Node, summed: Node) -> bool:
    """Whether in `picked` stands, for each number of `summed`, one of those that were summed for it."""
    (axis,), kept = reduced_axes(summed), dict(summed.params).get("keepdims", False)
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


# ---- what an iteration changes of an array that it carries


@procedure(SET, exact=True, plane="all")
def add_in_place(graph: Graph, node: Node) -> Node | None:
    """``x[i:] = x[i:] + v`` adds to a part that the iteration bounds: the cotangent of x is as it was."""
    is_part = is_bounded_by_index(node) and not any(x.aval.shape for x in node.inputs[2:])
    return increment(graph, node) if is_part else None
