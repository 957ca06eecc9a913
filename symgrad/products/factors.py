"""Scaled products and quotients: constants and vectors are multiplied before matrices, and leave contractions.

``(A * v) / w`` is ``A * (v / w)`` where that needs fewer operations. Which sizes are the smaller ones decides, so these
are procedures rather than patterns. All of them can change an overflow on the way: not for ``numerics="ieee"``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from symgrad.analysis.overflow import has_range
from symgrad.analysis.values import number
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import broadcast_shapes, is_one, product, same_shape
from symgrad.core.sizes import Shape, same
from symgrad.errors import ShapeError
from symgrad.frontend.variable import Variable
from symgrad.ops.create import EYE
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.linalg import SOLVE
from symgrad.ops.reduce import SUM
from symgrad.ops.shape import RESHAPE
from symgrad.products.contractions import CONTRACTIONS
from symgrad.rewrite.engine import alone
from symgrad.rewrite.rules import procedure


def _apart(graph: Graph, node: Node) -> bool:
    """Whether a product may be taken apart: it is needed once, or a multiple of an identity, which will go."""
    return alone(graph, node) or any(_is_identity(x) for x in node.inputs)


def _is_identity(node: Node) -> bool:
    return node.op is EYE or (node.op is RESHAPE and node.inputs[0].op is EYE)


# ---- which is the smaller


def thin(small: Shape, big: Shape) -> bool:
    """Whether a shape broadcasts to another that has more numbers: an axis is missing or one."""
    lead = len(big) - len(small)
    if lead < 0:
        return False
    if not all(is_one(n) or same(n, m) for n, m in zip(small, big[lead:], strict=True)):
        return False
    return any(not is_one(m) and (i < lead or is_one(small[i - lead])) for i, m in enumerate(big))


def _thin_together(big: Node, *small: Node) -> bool:
    """Whether what the others make of each other has fewer numbers than `big`, and they are of one dtype."""
    shape, dtype = big.aval.shape, big.aval.dtype
    if not shape or not has_range(dtype) or any([same_shape(x.aval.shape, shape) for x in small]):
        return False
    if any([x.aval.dtype != dtype and not x.aval.weak for x in small]):
        return False
    if all([number(x) is not None for x in small]):  # rules join numbers, and look whether they overflow
        return False
    try:
        return thin(broadcast_shapes(*[x.aval.shape for x in small]), shape)
    except ShapeError:
        return False


class Scaled(NamedTuple):
    """A product or quotient of two values, one of which is seen as the scale of the other."""

    rest: Variable
    scale: Variable
    first: bool  # whether the scale stands behind
    over: bool  # whether it is a quotient
    place: Shape  # what has been multiplied by the scale

    def times(self, other: Variable, before: bool = False) -> Variable:
        """With one factor more, which stood before it or behind it."""
        if self.over:
            return self.rest * (other / self.scale) if self.first else (self.scale * other) / self.rest
        scale = other * self.scale if before else self.scale * other
        return self.rest * scale if self.first else scale * self.rest

    def divided(self, other: Variable) -> Variable | None:
        """``(A / v) / w`` stays: what is divided by twice is often tiny, and its square nothing."""
        if not self.over:
            return self.rest * (self.scale / other) if self.first else (self.scale / other) * self.rest
        return None if self.first else (self.scale / other) / self.rest


def scaled_of(graph: Graph, node: Node, admits: Callable[[Node, Node], bool] | None = None) -> list[Scaled]:
    """The ways, two at most, to see a product or a quotient that may be taken apart; those of a rest and a scale."""
    if (node.op is not MULTIPLY and node.op is not DIVIDE) or not _apart(graph, node):
        return []
    a, b = node.inputs
    over, place = node.op is DIVIDE, node.aval.shape
    return [
        Scaled(Variable(graph, rest), Variable(graph, scale), first, over, place)
        for rest, scale, first in ((a, b, True), (b, a, False))
        if admits is None or admits(rest, scale)
    ]


def _thin_scales(graph: Graph, node: Node, *others: Node) -> list[Scaled]:
    """A product read as something large times something small, if `others` can meet the small one first."""
    return scaled_of(graph, node, lambda rest, scale: _thin_together(rest, scale, *others))


# ---- small ones meet first


@procedure(MULTIPLY, of={MULTIPLY, DIVIDE}, changes_nan=True)
def product_of_product(graph: Graph, node: Node) -> Variable | None:
    """``(A * v) * w`` and ``(A / v) * w``."""
    if not node.aval.shape:
        return None
    for i, p in enumerate(node.inputs):
        w = node.inputs[1 - i]
        if same_shape(w.aval.shape, node.aval.shape):  # no part has more numbers
            continue
        for f in _thin_scales(graph, p, w):
            return f.times(Variable(graph, w), before=i == 1)
    return None


@procedure(DIVIDE, of={MULTIPLY, DIVIDE}, changes_nan=True)
def quotient_of_product(graph: Graph, node: Node) -> Variable | None:
    """``(A * v) / w`` and ``(v / A) / w``."""
    p, w = node.inputs
    return next((y for f in _thin_scales(graph, p, w) if (y := f.divided(Variable(graph, w))) is not None), None)


@procedure(NEGATIVE, of={MULTIPLY, DIVIDE}, changes_nan=True, exact=True)
def negative_of_product(graph: Graph, node: Node) -> Variable | None:
    """``-(A * v)`` and ``-(v / A)``."""
    for f in _thin_scales(graph, node.inputs[0]):
        if not f.over:
            return f.rest * -f.scale if f.first else -f.scale * f.rest
        if not f.first:
            return -f.scale / f.rest
    return None


@procedure(ADD, SUBTRACT, of={MULTIPLY}, changes_nan=True)
def common_factor(graph: Graph, node: Node) -> Variable | None:
    """``A * v + A * w``."""
    x, y = node.inputs
    if x is y or not all(p.op is MULTIPLY and alone(graph, p) for p in (x, y)):
        return None
    for f in _thin_scales(graph, x):
        others = [p for p in y.inputs if p is not f.rest.node]
        if len(others) == 1 and f.rest.node in y.inputs and _thin_together(f.rest.node, f.scale.node, *others):
            small = node.op(f.scale, Variable(graph, others[0]))
            return f.rest * small if f.first else small * f.rest
    return None


# ---- numbers leave


def pulled(graph: Graph, x: Node, depth: int = 1000) -> Scaled | None:
    """A value as ``scale * rest``, or ``rest / scale``, with a scale that is a number."""
    if not depth or not has_range(x.aval.dtype):
        return None
    ways = scaled_of(graph, x)
    found = next((f for f in ways if _by_number(f)), None)
    if found is None:
        for f in ways[:1] if x.op is DIVIDE else ways:  # the factors of a divisor stay
            if (p := pulled(graph, f.rest.node, depth - 1)) is not None:
                found = p._replace(rest=x.op(*((p.rest, f.scale) if f.first else (f.scale, p.rest))))
                break
    elif found.over and not found.first:
        found = found._replace(rest=DIVIDE(1, found.rest), over=False)
    if found is None or found.rest.dtype != x.aval.dtype or not same_shape(found.rest.shape, x.aval.shape):
        return None
    return found


def _by_number(f: Scaled) -> bool:
    """One over something is no multiple of it."""
    return not f.scale.shape and bool(f.rest.shape) and (f.first or not f.over or number(f.scale.node) != 1)


def _no_larger(result: Shape, place: Shape) -> bool:
    n, m = product(result), product(place)
    return n <= m if isinstance(n, int) and isinstance(m, int) else len(result) <= len(place)


@procedure(SUM, SOLVE, *CONTRACTIONS, of={MULTIPLY, DIVIDE}, changes_nan=True)
def numbers_leave(graph: Graph, node: Node) -> Variable | None:
    """``(c * A) @ B`` is ``c * (A @ B)``, and so for everything that sums products, or solves for them."""
    for i in range(node.op is SOLVE, len(node.inputs)):  # of a matrix to solve with the inverse would leave
        p = pulled(graph, node.inputs[i])
        if p is None or not (_no_larger(node.aval.shape, p.place) or _is_identity(p.rest.node)):
            continue
        rest = graph.add(node.op, (*node.inputs[:i], p.rest.node, *node.inputs[i + 1 :]), node.params)
        if rest.aval.dtype == node.aval.dtype:
            return _scaled(graph, Variable(graph, rest), p)
    return None


@procedure(SUM, SOLVE, *CONTRACTIONS, of={NEGATIVE}, changes_nan=True)
def sign_leaves(graph: Graph, node: Node) -> Variable | None:
    """``(-A) @ B`` is ``-(A @ B)``, which has fewer numbers, and so is the sum of ``-A``."""
    for i, x in enumerate(node.inputs):
        if (
            x.op is NEGATIVE
            and alone(graph, x)
            and has_range(x.aval.dtype)
            and _no_larger(node.aval.shape, x.aval.shape)
        ):
            inputs = (*node.inputs[:i], *x.inputs, *node.inputs[i + 1 :])
            return -Variable(graph, graph.add(node.op, inputs, node.params))
    return None


def _scaled(graph: Graph, y: Variable, p: Scaled) -> Variable:
    scale = p.scale.node
    if p.over:
        return y / p.scale
    if scale.op is DIVIDE and number(scale.inputs[0]) == 1:  # one over a size
        return y / Variable(graph, scale.inputs[1])
    return p.scale * y
