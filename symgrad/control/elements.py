"""Elements of small arrays as scalars, and operators applied to each; `scalar_replacement` is the pass.

A small array is represented as a NumPy array of objects, one `Number` an element. So NumPy itself indexes, joins,
transposes, adds and multiplies them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import SIZE, Aval, Graph, Node, moved_name
from symgrad.core.region import stand_in
from symgrad.core.shapes import product
from symgrad.frontend.bodies import promoted
from symgrad.ops.astype import ASTYPE
from symgrad.ops.choice import MAXIMUM, MINIMUM
from symgrad.ops.control import NUMBER
from symgrad.ops.create import EMPTY, FULL
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, SQRT
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import Slice, decode
from symgrad.ops.join import CONCATENATE, STACK
from symgrad.ops.norm import NORM
from symgrad.ops.reduce import ALL, ANY, MAX, MEAN, MIN, PROD, SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.ops.shape import BROADCAST_TO, RESHAPE, TRANSPOSE

FEW = 16
"""Most elements of an array that is replaced."""

MOVES = frozenset((BROADCAST_TO, CONCATENATE, RESHAPE, STACK, TRANSPOSE))
"""Operators that move elements, whatever their type."""

REDUCTIONS: dict[Any, Any] = {
    **{SUM: ADD, MEAN: ADD, NORM: ADD, PROD: MULTIPLY, MAX: MAXIMUM, MIN: MINIMUM},
    **{ANY: TABLE[np.logical_or], ALL: TABLE[np.logical_and]},
}
"""The operators that join elements in a reduction with a result of their dtype; a sum of booleans is not one."""


@dataclass(frozen=True, eq=False, slots=True)
class Number:
    """One element of an array; NumPy adds and multiplies such objects."""

    graph: Graph
    node: Node

    def __add__(self, other: Number) -> Number:
        return Number(self.graph, self.graph.add(ADD, (self.node, other.node)))

    def __radd__(self, zero: int) -> Number:  # with which np.einsum begins
        return self

    def __mul__(self, other: Number) -> Number:
        return Number(self.graph, self.graph.add(MULTIPLY, (self.node, other.node)))

    def conjugate(self) -> Number:
        """Return the number itself: np.vecdot asks for it."""
        return self


class Rows(NamedTuple):
    """An array that loops read by rows: the elements of a row, each as a stack."""

    numbers: np.ndarray


def is_few(aval: Any) -> bool:
    """Whether a value is a number, or an array of a few."""
    return type(aval) is Aval and all(type(n) is int for n in aval.shape) and 0 < product(aval.shape) <= FEW


def nodes_of(array: np.ndarray) -> list[Node]:
    """Return the elements of an array in row-major order."""
    return [x.node for x in array.flat]


def stand_ins(graph: Graph, arrays: Iterable[Node], by_rows: Collection[Node] = ()) -> dict[Node, Any]:
    """Add inputs to a graph for the elements of arrays, and for stacks of the elements of rows."""

    def given(x: Node) -> Any:
        lengths, shape = (x.aval.shape[:1], x.aval.shape[1:]) if x in by_rows else ((), x.aval.shape)
        aval = x.aval._replace(shape=lengths)
        array = array_of(graph, [stand_in(graph, aval, x.where) for _ in np.ndindex(shape)], shape)
        return Rows(array) if x in by_rows else array

    return {x: given(x) for x in arrays}


def label(graph: Graph, arrays: Graph, numbers: Mapping[Node, Any]) -> None:
    """Name elements after their array and their indices."""
    for x, held in numbers.items():
        name = moved_name(arrays.names, arrays.names[x], {}) if x in arrays.names else None
        if name is not None:
            array = held.numbers if isinstance(held, Rows) else held
            for place in np.ndindex(array.shape):
                graph.label(array[place].node, numbered(name, place))


def numbered(name: str, place: Iterable[int]) -> str:
    """Return the name of an element."""
    return "_".join([name, *map(str, place)])


def array_of(graph: Graph, nodes: Sequence[Node], shape: Sequence[Any]) -> np.ndarray:
    """Return an array of elements, given as nodes in row-major order."""
    array = np.empty(len(nodes), object)
    array[:] = [Number(graph, x) for x in nodes]
    return array.reshape(shape)


# ---- operators


def computed(graph: Graph, node: Node, inputs: Sequence[np.ndarray]) -> np.ndarray | None:
    """Return the elements of a node's result, appended to a graph; None if its operator has no scalar form."""
    made = _operation(graph, node, inputs) if is_few(node.aval) else None
    if made is None:
        return None
    nodes = nodes_of(made) if isinstance(made, np.ndarray) else [made.node]  # one for an array without axes
    return array_of(graph, [promoted(graph, x, node.aval) for x in nodes], node.aval.shape)


def _operation(graph: Graph, node: Node, inputs: Sequence[np.ndarray]) -> Any:
    """Return the result of an operator, as an array or as one element; None if it has no scalar form."""
    op, params = node.op, dict(node.params)
    if op is SIZE:
        return array_of(graph, [graph.size(params["value"])], ())
    if not inputs:
        value = np.zeros(node.aval.shape) if op is EMPTY else np.asarray(op.evaluate(**params))
        return array_of(graph, [graph.constant(x) for x in value.flat], value.shape)
    if op.elementwise or op in (ASTYPE, NUMBER):
        rows = zip(*map(nodes_of, np.broadcast_arrays(*inputs)), strict=True)
        return array_of(graph, [graph.add(op, row, node.params) for row in rows], node.aval.shape)
    if op is FULL:
        return np.broadcast_to(inputs[0], node.aval.shape)
    if op in (GET, SET, ADD_AT) and not _is_known(params["key"]):
        return None
    if op in (SET, ADD_AT):
        return _written(node, *inputs)
    alike = node.aval.dtype.kind in "fb" and all(x.aval.dtype == node.aval.dtype for x in node.inputs)
    if op in REDUCTIONS:
        return _reduced(graph, node, *inputs) if alike and params.keys() <= {"axis", "keepdims"} else None
    return op.evaluate(*inputs, **params) if op in MOVES or op is GET or (op.contracts and alike) else None


def _reduced(graph: Graph, node: Node, array: np.ndarray) -> np.ndarray:
    axes, op = reduced_axes(node), REDUCTIONS[node.op]
    array = array * array if node.op is NORM else array
    rows = np.moveaxis(array, axes, range(len(axes))).reshape(product([array.shape[i] for i in axes]), -1)
    result, *others = map(nodes_of, rows)
    for row in others:
        result = [graph.add(op, pair) for pair in zip(result, row, strict=True)]
    if node.op is MEAN:
        count = graph.constant(float(len(rows)))
        result = [graph.add(DIVIDE, (x, count)) for x in result]
    if node.op is NORM:
        result = [graph.add(SQRT, (x,)) for x in result]
    return array_of(graph, result, node.aval.shape)


def _is_known(key: Sequence[Any]) -> bool:
    """Whether an index selects the same elements in each iteration."""
    items = [x for item in key for x in (item if isinstance(item, Slice) else [item])]
    return all(x is None or x is Ellipsis or type(x) is int for x in items)


def _written(node: Node, array: np.ndarray, value: Any) -> np.ndarray:
    """Return an array with elements assigned, or added to."""
    array, key = array.copy(), decode(dict(node.params)["key"], ())
    value = value if node.op is SET else np.add(array[key], value)
    array[key] = value[()] if isinstance(value, np.ndarray) else value  # of an array without axes its number
    return array
