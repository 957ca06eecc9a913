"""Reductions over rows in forms of sums, of which chunks give partial results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from string import ascii_lowercase

import numpy as np

from symgrad.analysis.values import is_zeros
from symgrad.core.axes import AxisSignature, aligned
from symgrad.core.graph import Graph, Node, Op
from symgrad.core.shapes import product, same_shape
from symgrad.core.sizes import Dim, same
from symgrad.frontend.variable import Variable
from symgrad.loops.axes import axis_signature
from symgrad.loops.blockwise import added_to_zeros, blockwise
from symgrad.loops.row_gathers import adds_to_rows, signature_of_sums
from symgrad.ops.contract import MATMUL
from symgrad.ops.create import EMPTY
from symgrad.ops.moments import STD, VAR
from symgrad.ops.norm import NORM
from symgrad.ops.reduction import reduced_axes
from symgrad.ops.shape import RESHAPE, TRANSPOSE
from symgrad.rewrite.engine import Made, copied


def in_sums(graph: Graph, n: Dim) -> Graph:
    """Rewrite reductions and products over axes of size `n`, and rows added to a table, as sums over rows."""
    instead = {x: _FORMS[x.op](x) for x in graph.nodes if x.op in _FORMS and _reduces(x, n)}
    instead |= {x: _product(*pair) for x in graph.nodes if (pair := _merged_pair(x, n)) is not None}
    instead |= {x: added_to_zeros(x) for x in graph.nodes if adds_to_rows(x) and not is_zeros(x.inputs[0])}
    return blockwise(copied(graph, instead), 0)


def chunk_signature(node: Node) -> AxisSignature:
    """Return the axis signature of a node, where each chunk may have arrays of its own to write and to add rows to."""
    if node.op is EMPTY:
        return aligned(node.aval)
    if adds_to_rows(node) and is_zeros(node.inputs[0]):
        return signature_of_sums(node)
    return axis_signature(node)


def _reduces(node: Node, n: Dim) -> bool:
    return any(same(node.inputs[0].aval.shape[i], n) for i in _axes(node))


def _axes(node: Node) -> Collection[int]:
    x, axis = node.inputs[0].aval, dict(node.params).get("axis")
    if node.op is not NORM:
        return reduced_axes(node)
    return range(x.ndim) if axis is None else [i % x.ndim for i in (axis if isinstance(axis, tuple) else (axis,))]


def _variance(node: Node) -> Made:
    """Replace a variance, or a standard deviation, by a mean of squares."""
    params = {"axis": None, "keepdims": False, "ddof": 0} | dict(node.params)

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        x = Variable(graph, image[node.inputs[0]])
        count = product([x.shape[i] for i in reduced_axes(node)])
        away = x - np.sum(x, axis=params["axis"], keepdims=True) / count
        sums = np.sum(away * away, axis=params["axis"], keepdims=params["keepdims"])
        variance = sums / (count - params["ddof"])
        return np.sqrt(variance) if node.op is STD else variance

    return made


def _norm(node: Node) -> Made:
    """Replace a norm by the root of a sum of squares."""

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        x = Variable(graph, image[node.inputs[0]])
        return np.sqrt(np.sum(x * x, **dict(node.params)))

    return made


def _merged_pair(node: Node, n: Dim) -> tuple[Node, Node] | None:
    """Return x and y of a product ``reshape(x, (-1, i)).T @ reshape(y, (-1, j))``, if `n` is among the merged axes.

    The gradient of a weight has this form where each sample has several rows.
    """
    if node.op is not MATMUL or node.inputs[0].op is not TRANSPOSE:
        return None
    left, right = node.inputs[0].inputs[0], node.inputs[1]
    if not all(each.op is RESHAPE and each.aval.ndim == 2 for each in (left, right)):
        return None
    x, y = left.inputs[0], right.inputs[0]
    rows = x.aval.shape[:-1]
    merged = [x.aval.shape[-1], y.aval.shape[-1]] == [left.aval.shape[1], right.aval.shape[1]]
    known = merged and same_shape(rows, y.aval.shape[:-1]) and any(same(size, n) for size in rows)
    return (x, y) if known else None


def _product(x: Node, y: Node) -> Made:
    """Replace the product by a sum over all axes but the last."""

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        rows = ascii_lowercase[: x.aval.ndim - 1]
        return np.einsum(f"{rows}y,{rows}z->yz", Variable(graph, image[x]), Variable(graph, image[y]))

    return made


_FORMS: dict[Op, Callable[[Node], Made]] = {VAR: _variance, STD: _variance, NORM: _norm}
