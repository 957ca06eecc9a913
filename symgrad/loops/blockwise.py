"""Rewrites into forms that can be tiled: means as sums, eyes and triangles as comparisons of indices, and scatters as
sums of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from symgrad.analysis.cost import likely_numbers, rows_scale
from symgrad.analysis.values import is_zeros, number
from symgrad.core.graph import Graph, Node, Op
from symgrad.core.shapes import product
from symgrad.core.sizes import Size
from symgrad.frontend.variable import Variable
from symgrad.loops.row_gathers import adds_rows
from symgrad.ops.create import EYE, FULL
from symgrad.ops.diagonal import TRIL, TRIU
from symgrad.ops.index import ADD_AT
from symgrad.ops.reduce import MEAN
from symgrad.ops.reduction import reduced_axes
from symgrad.rewrite.engine import Made, copied


def blockwise(graph: Graph, fewest: int) -> Graph:
    """Rewrite means and, if large, eyes and triangles in forms that can be tiled."""
    instead = {node: _FORMS[node.op](node) for node in graph.nodes if node.op in _FORMS and _matters(node, fewest)}
    made = {node: form for node, form in instead.items() if form is not None}
    return copied(graph, made) if made else graph


def _matters(node: Node, fewest: int) -> bool:
    return node.op in (MEAN, ADD_AT) or likely_numbers(node) * max(map(rows_scale, node.aval.shape)) >= fewest


def _mean(node: Node) -> Made | None:
    """Replace a mean by a quotient, since sums can be accumulated over blocks."""
    if node.aval.dtype == np.float16:  # which NumPy's mean adds up in float32
        return None

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        x = Variable(graph, image[node.inputs[0]])
        return np.sum(x, **dict(node.params)) / product([x.shape[i] for i in reduced_axes(node)])

    return made


def _triangle(node: Node) -> Made | None:
    """Replace a triangle by a comparison of row and column indices."""
    if node.inputs[0].aval.ndim < 2:
        return None

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        x = Variable(graph, image[node.inputs[0]])
        rows, columns = _places(x, x.shape[-2:], dict(node.params).get("k", 0))
        kept = columns <= rows if node.op is TRIL else columns >= rows
        if x.ndim == 2 and x.node.op is FULL and number(x.node.inputs[0]) is True:
            return kept
        return np.where(kept, x, x.dtype.type(0))

    return made


def _eye(node: Node) -> Made | None:
    """Replace an identity by a comparison of row and column indices."""

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        rows, columns = _places(Variable(graph, graph.constant(0)), node.aval.shape, dict(node.params)["k"])
        return np.equal(rows, columns).astype(node.aval.dtype)

    return made


def _added_rows(node: Node) -> Made | None:
    """Replace a scatter into a table by the table plus a scatter into zeros, which can be summed over blocks."""
    return added_to_zeros(node) if adds_rows(node) and not is_zeros(node.inputs[0]) else None


def added_to_zeros(node: Node) -> Made:
    """Return the maker of a table plus a scatter into zeros, of which each part of a loop has its own."""
    table, *others = node.inputs

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        y = Variable(graph, image[table])
        zeros = np.full(y.shape, 0, y.dtype, like=y)
        inputs = (zeros.node, *(image[other] for other in others))
        return y + Variable(graph, graph.add(ADD_AT, inputs, node.params))

    return made


def _places(like: Variable, shape: tuple[Size, ...], k: int) -> tuple[Variable, Variable]:
    """Return the numbers of the rows, shifted by the k-th diagonal, and of the columns."""
    rows = np.arange(shape[0], like=like)
    return (rows + k if k else rows)[:, None], np.arange(shape[1], like=like)


_FORMS: dict[Op, Callable[[Node], Made | None]] = {
    MEAN: _mean,
    TRIL: _triangle,
    TRIU: _triangle,
    EYE: _eye,
    ADD_AT: _added_rows,
}
