"""Constant factors of products: two of them anywhere in a product become one.

``(a * x) * (b * y)`` is ``(a * b) * x * y``. What overflows or underflows on the way changes: not for
``numerics="ieee"``, nor with numbers that are there to keep something from it. What is divided by stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from symgrad.analysis.overflow import MODERATE, NEAR_ONE, moderate
from symgrad.analysis.values import number
from symgrad.core.graph import CONSTANT, Graph, Node, same_aval
from symgrad.ops.elementwise import DIVIDE, MULTIPLY
from symgrad.rewrite.engine import alone, as_it_was, shared_in
from symgrad.rewrite.rules import procedure

NEAR = 6
"""Depth of factors to which a constant is searched."""

FAR = 2
"""Depth of factors from which on no rule looks for a certain number."""


class Factor(NamedTuple):
    """A number that multiplies, or divides."""

    value: Any
    over: bool = False

    def times(self, other: Factor, most: float) -> Any:
        """The number that takes the other one's place, or None if one of the two is there for a reason."""
        a, b = abs(float(self.value)), abs(float(other.value))
        if not a or not b or not moderate(a * b, most) or not moderate(a / b, most):
            return None
        joined = other.value * self.value if self.over == other.over else other.value / self.value
        return int(joined) if type(joined) is float and joined == int(joined) else joined


def _factor(x: Node, i: int) -> Factor | None:
    """An operand of a product as a number that loses no digit beside others."""
    y = x.inputs[i]
    if y.op is not CONSTANT or y.aval.dtype.kind not in "if" or not (y.aval.weak or y.aval.dtype == x.aval.dtype):
        return None
    c = number(y)
    return None if c is None else Factor(c, i == 1 and x.op is DIVIDE)


def _is_part(graph: Graph, x: Node, user: Node) -> bool:
    """Whether it is a product that only another product needs, and of the same kind."""
    if x.op is not MULTIPLY and x.op is not DIVIDE:
        return False
    (_, dtype, weak), (_, wanted, as_weak) = x.aval, user.aval
    return (dtype is wanted or dtype == wanted) and weak == as_weak and alone(graph, x)


def _parts(graph: Graph, x: Node) -> list[int]:
    """Return which operands are products whose constant factors are those of the whole."""
    a, b = x.inputs
    found = [0] if _is_part(graph, a, x) else []
    if x.op is MULTIPLY and _is_part(graph, b, x):
        found.append(1)
    return found


def _put(graph: Graph, x: Node, i: int, other: Node) -> Node:
    return graph.add(x.op, (*x.inputs[:i], other, *x.inputs[i + 1 :]))


def taken(graph: Graph, x: Node, depth: int = NEAR) -> tuple[Factor, Node] | None:
    """The number of a product, and the product without it, an operation less."""
    for i in (0, 1)[x.op is DIVIDE :]:
        c, rest = _factor(x, i), x.inputs[1 - i]
        if c is not None and same_aval(rest.aval, x.aval):
            return c, rest
    for i in _parts(graph, x) if depth else ():
        found = taken(graph, x.inputs[i], depth - 1)
        if found is not None:
            return found[0], _put(graph, x, i, found[1])
    return None


def _with(graph: Graph, x: Node, c: Factor, most: Mapping[int, float]) -> Node | None:
    """A product with one factor more, if that is no operation more: by its number.

    Of a number far below a product rules see the sign at most: where that stays, and no rule has met below, they are
    not asked again.
    """
    found = _joined(graph, x, c, most) if _has_number(graph, x) else None
    if found is None:
        return None
    joined, way = found
    other, alike = graph.constant(joined), c.value > 0
    for level, (product, i) in enumerate(way):
        inputs = (*product.inputs[:i], other, *product.inputs[i + 1 :])
        far = alike and level >= FAR
        other = as_it_was(graph, product, inputs) if far else graph.add(product.op, inputs)
        alike = alike and other.op is product.op and other.inputs == inputs
    return other


def _joined(
    graph: Graph, x: Node, c: Factor, most: Mapping[int, float], depth: int = NEAR
) -> tuple[Any, list[tuple[Node, int]]] | None:
    """Return the number that a product takes in another one by, and the operands on the way to it, its own first."""
    for i in (0, 1):
        own = _factor(x, i)
        joined = None if own is None else c.times(own, most[x.aval.dtype.itemsize])
        if joined is not None:
            return joined, [(x, i)]
    for i in _parts(graph, x) if depth else ():
        found = _joined(graph, x.inputs[i], c, NEAR_ONE, depth - 1)
        if found is not None:
            found[1].append((x, i))
            return found
    return None


@procedure(MULTIPLY, DIVIDE, of={MULTIPLY, DIVIDE}, changes_nan=True)
def numbers_meet(graph: Graph, node: Node) -> Node | None:
    """``a * (b * x * y)`` is ``(a * b) * x * y``, and so is ``(a * x) * (b * y)``."""
    x, y = node.inputs
    if node.aval.dtype.kind != "f" or node.aval.dtype.itemsize not in MODERATE:
        return None
    for i, part in ((1, x), (0, y))[: 1 + (node.op is MULTIPLY)]:
        c = _factor(node, i)
        if c is not None and c.value != 1 and _is_part(graph, part, node):
            return _with(graph, part, c, MODERATE)
    if len(_parts(graph, node)) < 2 or not _has_number(graph, x):
        return None
    found = taken(graph, y)
    other = None if found is None else _with(graph, x, found[0], NEAR_ONE)
    return None if found is None or other is None else graph.add(MULTIPLY, (other, found[1]))


def _has_number(graph: Graph, x: Node) -> bool:
    """Whether a number stands in a product: few do, in a long one."""
    products, shared = [x], shared_in(graph)
    for _ in range(NEAR + 1):
        inner: list[Node] = []
        for y in products:
            a, b = y.inputs
            if (a.op is CONSTANT and _factor(y, 0) is not None) or (b.op is CONSTANT and _factor(y, 1) is not None):
                return True
            for z in (a, b) if y.op is MULTIPLY else (a,):
                if (z.op is MULTIPLY or z.op is DIVIDE) and z not in shared and _is_part(graph, z, y):
                    inner.append(z)
        products = inner
    return False
