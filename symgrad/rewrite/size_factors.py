"""Numbers made of sizes: ``2 / n * n`` is 2, and ``(2 / n) * (x / n)`` is ``2 / n**2 * x``.

A size is a positive integer: of an array without numbers the mean is NaN, and so would be the quotient of two sizes.
"""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from symgrad.analysis.overflow import MODERATE, moderate
from symgrad.analysis.values import number
from symgrad.core.graph import CONSTANT, SIZE, Graph, Node
from symgrad.core.size_expressions import as_quotient
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import Dim
from symgrad.frontend.variable import Variable
from symgrad.ops.astype import ASTYPE
from symgrad.ops.elementwise import DIVIDE, MULTIPLY, NEGATIVE
from symgrad.rewrite.engine import alone
from symgrad.rewrite.rules import procedure

if TYPE_CHECKING:
    from sympy import Expr

DEEPEST = 6

_SCALED = frozenset({MULTIPLY, DIVIDE, NEGATIVE, ASTYPE})
_SCALES = frozenset({CONSTANT, SIZE, *_SCALED})


class Scale(NamedTuple):
    """A number times a quotient of sizes, whose symbols come from a scope; 1 and None where there are none."""

    number: Any
    sizes: Any = 1
    scope: Sizes | None = None

    def times(self, other: Scale) -> Scale:
        return Scale(self.number * other.number, self.sizes * other.sizes, self.scope or other.scope)

    def over(self, other: Scale) -> Scale | None:
        """The quotient, unless the other may be zero."""
        if not other.number:
            return None
        if other.scope is None:
            return self._replace(number=self.number / other.number)
        if other.scope.decide(operator.gt, as_quotient(other.sizes)[1]) is not True:
            return None
        return Scale(self.number / other.number, self.sizes / other.sizes, other.scope)

    def spelled(self, graph: Graph) -> Any:
        """A number of Python's, or a scalar of the program that is as one."""
        factor, above, below = as_quotient(self.sizes)
        whole = Fraction(self.number) * factor if self.number % 1 == 0 else None
        c = self.number * factor.numerator if whole is None else whole.numerator
        below = below * (factor if whole is None else whole).denominator
        if above == below == 1:
            return float(c)
        value = c if above == 1 else self._size(graph, above) if c == 1 else c * self._size(graph, above)
        return value if below == 1 else value / self._size(graph, below)

    def _size(self, graph: Graph, expr: Expr) -> Any:
        assert self.scope is not None
        return int(expr) if expr.is_Integer else Variable(graph, graph.size(Dim(expr, self.scope)))


def _scale(node: Node, depth: int = DEEPEST) -> Scale | None:
    """A scalar as a number times sizes."""
    if node.aval.shape or not depth:
        return None
    if node.op is CONSTANT:
        c = number(node)
        return Scale(c.item() if isinstance(c, np.generic) else c) if node.aval.dtype.kind in "fi" else None
    if node.op is SIZE:
        size = dict(node.params)["value"]
        return Scale(1, size.expr, size.scope) if isinstance(size, Dim) else None
    if node.op not in _SCALED or not (node.aval.weak or node.aval.dtype.kind == "f"):
        return None
    if not all([x.op in _SCALES for x in node.inputs]):
        return None
    found = [_scale(x, depth - 1) for x in node.inputs]
    a, b = found[0], found[-1]
    if a is None or b is None:
        return None
    if node.op is NEGATIVE:
        return a._replace(number=-a.number)
    return a.times(b) if node.op is MULTIPLY else a.over(b) if node.op is DIVIDE else a


@procedure(MULTIPLY, DIVIDE, NEGATIVE, changes_nan=True)
def sizes_meet(graph: Graph, node: Node) -> Any:
    """Numbers made of sizes are one quotient, and so are those that an array is multiplied with."""
    if node.aval.dtype.kind != "f":
        return None
    if node.aval.shape:
        return _of_array(graph, node) if node.op is not NEGATIVE else None
    if node.op is DIVIDE and node.inputs[0].op is CONSTANT and node.inputs[1].op is SIZE:
        return None
    scale = _scale(node)
    return None if scale is None or scale.scope is None else scale.spelled(graph)


def _of_array(graph: Graph, node: Node) -> Variable | None:
    """``a * (b * x)``, where one of the two is made of sizes."""
    outer = _taken_apart(node)
    if outer is None or node.aval.dtype.itemsize not in MODERATE:
        return None
    factor, x = outer
    inner = _taken_apart(x) if alone(graph, x) else None
    if factor.op is CONSTANT and (inner is None or inner[0].op is CONSTANT):  # no size takes part
        return None
    is_plain = all(y.aval.weak or y.aval.shape for y in node.inputs)
    if inner is None and is_plain:
        return None
    scale = _scale_of_array(node, factor)
    if scale is None:
        return None
    if inner is not None and (other := _scale_of_array(x, inner[0])) is not None:
        scale, x = scale.times(other), inner[1]
    elif is_plain:
        return None
    if scale.scope is None or x.aval.dtype != node.aval.dtype:
        return None
    if not moderate(scale.number, MODERATE[x.aval.dtype.itemsize]):
        return None
    return cast(Variable, scale.spelled(graph) * Variable(graph, x))


def _taken_apart(node: Node) -> tuple[Node, Node] | None:
    """The scalar factor or divisor of an array, and the array that it scales."""
    if node.op is not MULTIPLY and node.op is not DIVIDE:
        return None
    x, y = node.inputs
    if not y.aval.shape and x.aval.shape:
        return y, x
    return (x, y) if node.op is MULTIPLY and not x.aval.shape and y.aval.shape else None


def _scale_of_array(node: Node, scalar: Node) -> Scale | None:
    """The factor of a product, or one over the divisor of a quotient."""
    scale = _scale(scalar)
    return Scale(1).over(scale) if scale is not None and node.op is DIVIDE else scale
