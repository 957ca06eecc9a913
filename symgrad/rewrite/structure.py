"""Shape operations merge, and indices that select everything go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from symgrad.core.graph import CONSTANT, Graph, Node
from symgrad.core.shapes import added_axes, is_one, same_shape
from symgrad.frontend.bodies import promoted
from symgrad.frontend.variable import Variable
from symgrad.ops.astype import ASTYPE
from symgrad.ops.control import NUMBER
from symgrad.ops.create import EMPTY, EYE, FULL
from symgrad.ops.index import GET, SET
from symgrad.ops.index_expressions import EVERYTHING
from symgrad.ops.reduce import ALL, ANY, MAX, MEAN, MIN, PROD, SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.ops.shape import BROADCAST_TO, RESHAPE, TRANSPOSE
from symgrad.ops.windows import WINDOWS
from symgrad.rewrite.engine import alone
from symgrad.rewrite.repetition import bare, full, leads
from symgrad.rewrite.rules import procedure

_SCATTERED = frozenset({TRANSPOSE, BROADCAST_TO, WINDOWS})  # what a reshape has to copy


@procedure(BROADCAST_TO, exact=True, plane="all")
def merge_broadcasts(graph: Graph, node: Node) -> Variable | Node | None:
    x, shape = node.inputs[0], node.aval.shape
    if same_shape(x.aval.shape, shape):
        return x
    if x.op is EMPTY:
        return graph.add(EMPTY, (), tuple([(key, shape if key == "shape" else value) for key, value in x.params]))
    plain = bare(graph, x)
    if plain.op is CONSTANT and not plain.aval.shape:
        return full(graph, plain, node.aval)
    if leads(shape, plain.aval.shape):
        return np.reshape(Variable(graph, plain), shape)
    return None if plain is x else graph.add(BROADCAST_TO, (plain,), node.params)


@procedure(RESHAPE, exact=True, plane="all")
def merge_reshapes(graph: Graph, node: Node) -> Variable | Node | None:
    x, shape = node.inputs[0], node.aval.shape
    if same_shape(x.aval.shape, shape):
        return x
    if x.op is FULL:
        return full(graph, x.inputs[0], node.aval)
    if x.op is RESHAPE and x.inputs[0].op in _SCATTERED and not alone(graph, x):
        return None  # a copy, which is better made once
    if x.op is RESHAPE or (x.op is GET and all(item in (None, EVERYTHING) for item in dict(x.params)["key"])):
        return graph.add(RESHAPE, (x.inputs[0],), node.params)
    if x.op is BROADCAST_TO and not x.inputs[0].aval.shape:
        return np.broadcast_to(Variable(graph, x.inputs[0]), shape)
    if x.op in (SUM, MEAN) and dict(x.params).get("keepdims"):
        dropped = Variable(graph, x.inputs[0])
        y = x.op(dropped, axis=dict(x.params).get("axis"))
        return y if same_shape(y.shape, shape) else None
    return new_axes(graph, x, shape)


def new_axes(graph: Graph, x: Node, shape: Any) -> Node | None:
    """``x[:, None]`` for a reshape that only adds axes of size one."""
    added = added_axes(x.aval.shape, shape)
    if not x.aval.shape or added is None:
        return None
    return graph.add(GET, (x,), (("key", tuple([None if new else EVERYTHING for new in added])),))


def without(graph: Graph, x: Node, axes: Iterable[int]) -> Node:
    """A value without some axes of size one."""
    gone = set(axes)
    if not gone:
        return x
    old: tuple[object, ...] = (EVERYTHING,) * len(x.aval.shape)
    if x.op is GET and len(x.inputs) == 1 and all(item in (None, EVERYTHING) for item in dict(x.params)["key"]):
        x, old = x.inputs[0], dict(x.params)["key"]
    items = [item if i not in gone else 0 for i, item in enumerate(old) if i not in gone or item is not None]
    return x if all(item == EVERYTHING for item in items) else graph.add(GET, (x,), (("key", tuple(items)),))


@procedure(SUM, MEAN, PROD, MAX, MIN, ANY, ALL, plane="all")
def reduction_of_one(graph: Graph, node: Node) -> Node | None:
    """A sum, a mean, a maximum of one number: over axes of size one, or of a number that has none."""
    x, axes = node.inputs[0], reduced_axes(node)
    if x.aval.dtype != node.aval.dtype or not all(is_one(x.aval.shape[i]) for i in axes):
        return None
    return x if dict(node.params).get("keepdims") else without(graph, x, axes)


def with_axes(graph: Graph, y: Variable, axes: Sequence[int], ndim: int) -> Variable:
    """A value with axes of size one where a sum would have kept them."""
    key = tuple(None if i in axes else EVERYTHING for i in range(ndim))
    return Variable(graph, graph.add(GET, (y.node,), (("key", key),)))


@procedure(WINDOWS, exact=True, plane="all")
def windows_of_one(graph: Graph, node: Node) -> Variable | None:
    """A window of one place is a new axis."""
    x, params = Variable(graph, node.inputs[0]), dict(node.params)
    pairs = [*zip(params["axis"], params["window_shape"], strict=True)]
    longer = [(i, w) for i, w in pairs if not is_one(w)]
    if len(longer) == len(pairs):
        return None
    if longer:
        axes, sizes = zip(*longer, strict=True)
        x = WINDOWS(x, window_shape=sizes, axis=axes)
    ones = [x.ndim - len(longer) + i for i, (_, w) in enumerate(pairs) if is_one(w)]
    return with_axes(graph, x, ones, x.ndim + len(ones))


@procedure(TRANSPOSE, exact=True, plane="all")
def merge_transposes(graph: Graph, node: Node) -> Node | None:
    x, axes = node.inputs[0], dict(node.params)["axes"]
    if axes == tuple(range(len(axes))):
        return x
    if x.op is FULL:
        return full(graph, x.inputs[0], node.aval)
    if x.op is EYE:
        p = dict(x.params)
        return np.eye(p["m"], p["n"], -p["k"], p["dtype"], like=Variable(graph, x)).node
    if x.op is TRANSPOSE:
        inner = dict(x.params)["axes"]
        return graph.add(TRANSPOSE, (x.inputs[0],), (("axes", tuple(inner[i] for i in axes)),))
    return None


@procedure(ASTYPE, exact=True, plane="all")
def merge_casts(graph: Graph, node: Node) -> Node | None:
    x = node.inputs[0]
    if x.aval.dtype == node.aval.dtype and not x.aval.weak:
        return x
    if x.op is NUMBER and x.inputs[0].aval.dtype == node.aval.dtype:
        return x.inputs[0]
    if x.op is ASTYPE and _keeps_numbers(x.inputs[0].aval.dtype, x.aval.dtype, node.aval.dtype):
        return graph.add(ASTYPE, (x.inputs[0],), node.params)
    return None


def _keeps_numbers(first: np.dtype, between: np.dtype, last: np.dtype) -> bool:
    """Whether a cast from the first dtype to the last gives the numbers that casts by way of another one give.

    NumPy calls a cast from 64-bit integers to floating numbers safe, but it rounds them.
    """
    rounds = first.kind in "iu" and first.itemsize == 8 and between.kind in "fc"
    return np.can_cast(first, between, "safe") and (not rounds or np.can_cast(between, last, "safe"))


@procedure(NUMBER, exact=True, plane="all")
def number_of_number(graph: Graph, node: Node) -> Node | None:
    """Replace the NumPy version of a Python number by the Python number."""
    (x,) = node.inputs
    y = x.inputs[0] if x.op is ASTYPE else x
    return y if y.aval.weak and y.aval.dtype == node.aval.dtype else None


@procedure(GET, exact=True, plane="all")
def index_of_everything(graph: Graph, node: Node) -> Node | None:
    x = node.inputs[0]
    if all(item == EVERYTHING for item in dict(node.params)["key"]):
        return x if x.aval.shape else None
    if x.op is not FULL or len(node.inputs) > 1:
        return None
    return full(graph, x.inputs[0], node.aval) if node.aval.shape else promoted(graph, x.inputs[0], node.aval)


@procedure(SET, exact=True, plane="all")
def set_everything(graph: Graph, node: Node) -> Variable | None:
    """``y[:, 0] = v`` where axis 1 has one place: nothing of y is left."""
    target, value, *arrays = node.inputs
    key, shape = dict(node.params)["key"], target.aval.shape
    if arrays or len(key) != len(shape) or not all(map(covers, key, shape)):
        return None
    kept = tuple(n for item, n in zip(key, shape, strict=True) if item == EVERYTHING)
    content = np.astype(Variable(graph, value), target.aval.dtype)
    return np.reshape(np.broadcast_to(content, kept), shape)


def covers(item: Any, n: Any) -> bool:
    """Whether an item of a key selects all of an axis."""
    return item == EVERYTHING or (type(item) is int and type(n) is int and n == 1)
