"""Jacobians by a matrix start from the identity over all its numbers; what they are made of is blocks on a diagonal.

``np.eye(a * c).reshape(a * c, a, c) @ M`` is nearly all zeros: block i of its diagonal is M. The blocks alone are
computed with, and written into zeros at the end. Zeros times infinity would be NaN: not for ``numerics="ieee"``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.values import is_range, is_zeros
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import product, same_shape
from symgrad.core.sizes import same
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL
from symgrad.ops.create import EYE
from symgrad.ops.elementwise import DIVIDE, MULTIPLY, NEGATIVE
from symgrad.ops.index import SET
from symgrad.ops.index_expressions import EVERYTHING, Slot
from symgrad.ops.shape import RESHAPE
from symgrad.rewrite.rules import procedure

_KEY = (Slot(0), EVERYTHING, Slot(1), EVERYTHING)


class Blocks(NamedTuple):
    """``(a * c, a, m)`` numbers: in row (i, j) of ``a * c`` those under i are ``values[i, j]``, the others 0."""

    values: Variable  # broadcasts to (a, c, m)
    a: Any
    c: Any
    m: Any

    def written(self) -> Variable:
        zeros = np.full((self.a, self.c, self.a, self.m), 0, self.values.dtype, like=self.values)
        i = np.arange(self.a, like=self.values)
        return np.reshape(SET(zeros, self.values, i, i, key=_KEY), (self.a * self.c, self.a, self.m))


def _identity(node: Node) -> tuple[Any, Any] | None:
    """(a, c) of an identity over all numbers of an a by c matrix."""
    shape = node.aval.shape
    if node.op is not RESHAPE or len(shape) != 3 or node.inputs[0].op is not EYE:
        return None
    size, (n, a, c) = node.inputs[0].aval.shape, shape
    square = same(*size) and dict(node.inputs[0].params)["k"] == 0
    return (a, c) if square and same(n, size[0]) and same(n, product((a, c))) else None


def _blocks(graph: Graph, node: Node) -> Blocks | None:
    """A value as blocks, if it was written as such."""
    if node.op is not RESHAPE or len(node.aval.shape) != 3 or node.inputs[0].op is not SET:
        return None
    shape = node.aval.shape
    y = node.inputs[0]
    if dict(y.params)["key"] != _KEY or not is_zeros(y.inputs[0]) or y.inputs[2] is not y.inputs[3]:
        return None
    a, c, again, m = y.aval.shape
    if not same(a, again) or not same_shape(shape, (product((a, c)), a, m)) or not is_range(y.inputs[2], a):
        return None
    values = Variable(graph, y.inputs[1])
    return Blocks(values, a, c, m) if values.ndim > 1 and same_shape(values.shape[-2:], (c, m)) else None


# ---- procedures


@procedure(MATMUL, changes_nan=True)
def product_with_blocks(graph: Graph, node: Node) -> Variable | None:
    """A matrix product of the identity, or of blocks."""
    x, y = node.inputs
    if len(y.aval.shape) != 2:
        return None
    b, known = Variable(graph, y), _identity(x)
    if known is not None:
        return Blocks(b, *known, b.shape[1]).written() if b.dtype == node.aval.dtype else None
    found = _blocks(graph, x)
    if found is None:
        return None
    return found._replace(values=found.values @ b, m=b.shape[1]).written()


@procedure(MULTIPLY, DIVIDE, changes_nan=True)
def scaled_blocks(graph: Graph, node: Node) -> Variable | None:
    """A product with what is the same for each unit vector, or a quotient."""
    for i, x in enumerate(node.inputs[:1] if node.op is DIVIDE else node.inputs):
        if x.op is not RESHAPE:
            continue
        other = Variable(graph, node.inputs[1 - i])
        known = _identity(x)
        if known is not None and same_shape(other.shape, known) and node.op is MULTIPLY and other.dtype == x.aval.dtype:
            return np.reshape(np.diag(np.reshape(other, (-1,))), x.aval.shape)
        found = _blocks(graph, x)
        if found is None or other.ndim > 2:
            continue
        scale = other[:, None] if other.ndim == 2 and same(other.shape[0], found.a) else other
        if other.ndim == 2 and scale is other:  # one row for all
            continue
        values = node.op(found.values, scale) if i == 0 else node.op(scale, found.values)
        if values.dtype == node.aval.dtype:
            return found._replace(values=values).written()
    return None


@procedure(NEGATIVE, changes_nan=True)
def negative_blocks(graph: Graph, node: Node) -> Variable | None:
    found = _blocks(graph, node.inputs[0])
    return found and found._replace(values=-found.values).written()
