"""Products and quotients of many numbers in fewer passes: scalars meet, and what is there already is used again.

Every pass over a large array counts here, where at lower levels the program reads as it was written.
"""

from __future__ import annotations

from symgrad.analysis.cost import numbers
from symgrad.analysis.overflow import MODERATE, has_range
from symgrad.analysis.values import number
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import same_shape
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY
from symgrad.products.factors import Scaled, pulled
from symgrad.rewrite.engine import alone, known
from symgrad.rewrite.rules import procedure

NEAR = 3
"""So many factors away a scalar is looked for."""

SMALLER = 8
"""Ratio of sizes below which scaling a factor instead of the product is almost free."""


def _arrays(node: Node) -> bool:
    """Whether two arrays of floats meet, neither of which is repeated."""
    return (
        has_range(node.aval.dtype)
        and bool(node.aval.shape)
        and all(x.aval.dtype == node.aval.dtype and same_shape(x.aval.shape, node.aval.shape) for x in node.inputs)
    )


# ---- scalars


@procedure(MULTIPLY, DIVIDE, of={MULTIPLY, DIVIDE}, changes_nan=True)
def scalars_meet(graph: Graph, node: Node) -> Variable | None:
    """``(a * X) * (b * Y)`` is ``(a * b) * (X * Y)``, and so for quotients and where the scalars are 0-d arrays."""
    if not all(x.op is MULTIPLY or x.op is DIVIDE for x in node.inputs) or not _arrays(node):
        return None
    p, q = (pulled(graph, x, NEAR) for x in node.inputs)
    if p is None or q is None or not _moderate(p, q):
        return None
    over = q.over != (node.op is DIVIDE)
    a, b, rest = p.scale, q.scale, node.op(p.rest, q.rest)
    if p.over:
        return rest / (a * b) if over else (b / a) * rest
    return (a / b if over else a * b) * rest


def _moderate(*parts: Scaled) -> bool:
    """Whether numbers joined stay numbers."""
    known = [abs(float(value)) for p in parts if (value := number(p.scale.node)) is not None]
    most = MODERATE.get(parts[0].rest.dtype.itemsize, 1.0) ** 0.5
    return all(1 / most < value < most for value in known)


# ---- what is there already


@procedure(MULTIPLY, of={MULTIPLY, DIVIDE}, changes_nan=True)
def product_from_parts(graph: Graph, node: Node) -> Variable | None:
    """``(x * y) * z`` where ``y * z`` is needed anyway, and ``(x / y) * z`` where ``z / y`` is."""
    if not _arrays(node):
        return None
    for inner, z in (node.inputs, node.inputs[::-1]):
        if inner is z or inner.op not in (MULTIPLY, DIVIDE) or not alone(graph, inner) or not _arrays(inner):
            continue
        x, y = inner.inputs
        pairs = ((x, y), (y, x)) if inner.op is MULTIPLY else ((x, y),)
        for other, partner in pairs:
            part = known(graph, inner.op, (z, partner))
            if part is not None:
                return Variable(graph, other) * Variable(graph, part)
    return None


# ---- what is added twice


@procedure(ADD, of={ADD}, changes_nan=True)
def added_twice(graph: Graph, node: Node) -> Variable | None:
    """``(x + a * y) + a * y``, as the two sides of a square leave it, is ``x + (2 * a) * y`` where `a` is small."""
    if not _arrays(node):
        return None
    for inner, y in (node.inputs, node.inputs[::-1]):
        if inner.op is not ADD or y not in inner.inputs or y.op is not MULTIPLY or not alone(graph, inner):
            continue
        small, large = sorted(y.inputs, key=lambda x: numbers(x.aval.shape))
        if small.aval.dtype == y.aval.dtype and SMALLER * numbers(small.aval.shape) <= numbers(y.aval.shape):
            x = inner.inputs[inner.inputs[0] is y]
            return Variable(graph, x) + MULTIPLY(2, Variable(graph, small)) * Variable(graph, large)
    return None
