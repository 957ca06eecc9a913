"""Products and quotients: numbers and vectors meet before they meet a matrix, and leave what is contracted.

``(A * v) / w`` is ``A * (v / w)`` where that needs fewer operations. Which sizes are the smaller ones decides, so these
are procedures rather than patterns. All of them can change an overflow on the way: not for ``numerics="ieee"``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from symgrad.analysis.overflow import has_range
from symgrad.analysis.values import number
from symgrad.core.graph import Aval, Graph, Node, Op
from symgrad.core.shapes import broadcast_shapes, is_one, product, same_shape
from symgrad.core.sizes import same
from symgrad.errors import ShapeError
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL, OUTER, TENSORDOT, VECDOT
from symgrad.ops.create import EYE
from symgrad.ops.einsum import EINSUM
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import Slice, Slot
from symgrad.ops.reduce import SUM
from symgrad.ops.shape import RESHAPE, TRANSPOSE
from symgrad.rewrite.engine import alone
from symgrad.rewrite.rules import Procedure, exact

if TYPE_CHECKING:
    from symgrad.core.sizes import Shape


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
    if not has_range(big.aval.dtype) or any(x.aval.dtype != big.aval.dtype and not x.aval.weak for x in small):
        return False
    if any(same_shape(x.aval.shape, big.aval.shape) for x in small):
        return False
    if all(number(x) is not None for x in small):  # rules join numbers, and look whether they overflow
        return False
    try:
        return thin(broadcast_shapes(*[x.aval.shape for x in small]), big.aval.shape)
    except ShapeError:
        return False


class Factor(NamedTuple):
    """A product or quotient of something large and something small."""

    big: Variable
    small: Variable
    first: bool  # whether the large one is the first operand
    over: bool  # whether it is a quotient

    def times(self, other: Variable, before: bool = False) -> Variable:
        """With one factor more, which stood before it or behind it."""
        if self.over:
            return self.big * (other / self.small) if self.first else (self.small * other) / self.big
        small = other * self.small if before else self.small * other
        return self.big * small if self.first else small * self.big

    def divided(self, other: Variable) -> Variable | None:
        """``(A / v) / w`` stays: what is divided by twice is often tiny, and its square nothing."""
        if not self.over:
            return self.big * (self.small / other) if self.first else (self.small / other) * self.big
        return None if self.first else (self.small / other) / self.big


def _factors(graph: Graph, node: Node, *others: Node) -> Iterator[Factor]:
    """A product read as something large times something small, if `others` can meet the small one first."""
    if node.op not in (MULTIPLY, DIVIDE) or not _apart(graph, node):
        return
    for first in (True, False):
        big, small = node.inputs if first else node.inputs[::-1]
        if _thin_together(big, small, *others):
            yield Factor(Variable(graph, big), Variable(graph, small), first, node.op is DIVIDE)


# ---- small ones meet first


def product_of_product(graph: Graph, node: Node) -> Variable | None:
    """``(A * v) * w`` and ``(A / v) * w``."""
    for p, w, before in ((*node.inputs, False), (*node.inputs[::-1], True)):
        if p.op is not MULTIPLY and p.op is not DIVIDE:
            continue
        for f in _factors(graph, p, w):
            return f.times(Variable(graph, w), before)
    return None


def quotient_of_product(graph: Graph, node: Node) -> Variable | None:
    """``(A * v) / w`` and ``(v / A) / w``."""
    p, w = node.inputs
    return next((y for f in _factors(graph, p, w) if (y := f.divided(Variable(graph, w))) is not None), None)


@exact
def negative_of_product(graph: Graph, node: Node) -> Variable | None:
    """``-(A * v)`` and ``-(v / A)``."""
    for f in _factors(graph, node.inputs[0]):
        if not f.over:
            return f.big * -f.small if f.first else -f.small * f.big
        if not f.first:
            return -f.small / f.big
    return None


def common_factor(graph: Graph, node: Node) -> Variable | None:
    """``A * v + A * w``."""
    x, y = node.inputs
    if x is y or not all(p.op is MULTIPLY and alone(graph, p) for p in (x, y)):
        return None
    for f in _factors(graph, x):
        others = [p for p in y.inputs if p is not f.big.node]
        if len(others) == 1 and f.big.node in y.inputs and _thin_together(f.big.node, f.small.node, *others):
            small = node.op(f.small, Variable(graph, others[0]))
            return f.big * small if f.first else small * f.big
    return None


def transpose_of_product(graph: Graph, node: Node) -> Variable | None:
    """``(A.T * v).T``: a scaling of the rows."""
    p = node.inputs[0]
    if len(node.aval.shape) != 2 or dict(node.params)["axes"] != (1, 0):
        return None
    for f in _factors(graph, p):
        if f.big.node.op is TRANSPOSE:
            small = f.small[:, None] if f.small.ndim == 1 else f.small.T
            big = f.big.T
            return p.op(big, small) if f.first else p.op(small, big)
    return None


# ---- numbers leave


class Pulled(NamedTuple):
    """A value as ``scale * rest``, or ``rest / scale``."""

    scale: Node
    over: bool
    rest: Variable
    place: Shape  # what has been multiplied by the number so far


def pulled(graph: Graph, x: Node, depth: int = 1000) -> Pulled | None:
    """A number that is a factor of `x`, and the rest."""
    if not depth or x.op not in (MULTIPLY, DIVIDE) or not _apart(graph, x) or not has_range(x.aval.dtype):
        return None
    a, b = x.inputs
    found: Pulled | None = None
    if _is_scale(b, a):
        found = Pulled(b, x.op is DIVIDE, Variable(graph, a), x.aval.shape)
    elif x.op is MULTIPLY and _is_scale(a, b):
        found = Pulled(a, False, Variable(graph, b), x.aval.shape)
    elif x.op is DIVIDE and _is_scale(a, b) and number(a) != 1:
        found = Pulled(a, False, 1 / Variable(graph, b), x.aval.shape)
    elif (p := pulled(graph, a, depth - 1)) is not None:
        found = p._replace(rest=x.op(p.rest, Variable(graph, b)))
    elif x.op is MULTIPLY and (p := pulled(graph, b, depth - 1)) is not None:
        found = p._replace(rest=x.op(Variable(graph, a), p.rest))
    if found is None or found.rest.dtype != x.aval.dtype or not same_shape(found.rest.shape, x.aval.shape):
        return None
    return found


def _is_scale(c: Node, x: Node) -> bool:
    return type(c.aval) is Aval and not c.aval.shape and bool(x.aval.shape)


def _no_larger(result: Shape, place: Shape) -> bool:
    n, m = product(result), product(place)
    return n <= m if isinstance(n, int) and isinstance(m, int) else len(result) <= len(place)


def numbers_leave(graph: Graph, node: Node) -> Variable | None:
    """``(c * A) @ B`` is ``c * (A @ B)``, and so for everything that sums products."""
    for i, x in enumerate(node.inputs):
        p = pulled(graph, x)
        if p is None or not (_no_larger(node.aval.shape, p.place) or _is_identity(p.rest.node)):
            continue
        rest = graph.add(node.op, (*node.inputs[:i], p.rest.node, *node.inputs[i + 1 :]), node.params)
        if rest.aval.dtype == node.aval.dtype:
            return _scaled(graph, Variable(graph, rest), p)
    return None


def _scaled(graph: Graph, y: Variable, p: Pulled) -> Variable:
    scale = Variable(graph, p.scale)
    if p.over:
        return y / scale
    if p.scale.op is DIVIDE and number(p.scale.inputs[0]) == 1:  # one over a size
        return y / Variable(graph, p.scale.inputs[1])
    return scale * y


def multiple_of_part(graph: Graph, node: Node) -> Variable | None:
    """``(c * x)[key]`` is ``c * x[key]``, so that the number meets others; and so for a transpose."""
    x = node.inputs[0]
    if len(node.inputs) > 1 or not node.aval.shape or not alone(graph, x) or not has_range(x.aval.dtype):
        return None
    if node.op is GET and not _spreads_behind(dict(node.params)["key"]):
        return None
    if x.op is NEGATIVE:
        return -Variable(graph, graph.add(node.op, x.inputs, node.params))
    if x.op is not MULTIPLY:
        return None
    for c, y in (x.inputs, x.inputs[::-1]):
        if number(c) is not None and same_shape(y.aval.shape, x.aval.shape):
            return Variable(graph, c) * Variable(graph, graph.add(node.op, (y,), node.params))
    return None


def _spreads_behind(key: tuple[object, ...]) -> bool:
    """Whether a key is basic and does more than to put axes in front, which broadcasting does anyway."""
    if any(isinstance(item, Slot) for item in key):
        return False
    rest = list(key)
    while rest and rest[0] is None:
        rest.pop(0)
    return any(item != Slice(None, None, None) for item in rest)


OF: dict[Op, list[Procedure]] = {
    MULTIPLY: [product_of_product],
    DIVIDE: [quotient_of_product],
    NEGATIVE: [negative_of_product],
    ADD: [common_factor],
    SUBTRACT: [common_factor],
    TRANSPOSE: [transpose_of_product],
    **{op: [numbers_leave] for op in (MATMUL, SUM, EINSUM, VECDOT, TENSORDOT, OUTER)},
}
"""What an operator is met with where the graph will run."""

OF_PARTS: dict[Op, list[Procedure]] = {op: [multiple_of_part] for op in (TRANSPOSE, GET)}
"""And where the number may still meet others."""
