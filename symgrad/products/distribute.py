"""Factoring of sums: ``a * x * y + a * x * z`` is ``a * x * (y + z)``.

What cancels in the sum cancels in that of the rests, more exactly. What overflows on the way may be another value: not
for ``numerics="ieee"``. It stands after the rules, since it goes by what is needed once in what they have left.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from symgrad.analysis.overflow import NEAR_ONE, Origins, moderate
from symgrad.analysis.uses import times_used
from symgrad.core.graph import Graph, Node
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import ADD, SUBTRACT
from symgrad.products.monomials import MOST, ONE, Monomial, Scale, is_product, monomial_of
from symgrad.rewrite.engine import Made, copied
from symgrad.rewrite.rules import stable_only


class Rest(NamedTuple):
    """The other factor of a sum whose common factors have been taken out."""

    sum: Node


class Sum(NamedTuple):
    """The common factors of two terms, and the remaining factors of each."""

    common: Monomial
    rests: tuple[Monomial, Monomial]


@stable_only
def distribute(graph: Graph, numerics: str = "stable") -> Graph:
    """Take common factors out of sums. The result is a product, which may be a term of another sum."""
    nodes = graph.live
    uses = times_used(nodes, graph.outputs)
    origins = Origins(nodes)
    sums: dict[Node, Sum] = {}
    for node in nodes:
        if node.op in (ADD, SUBTRACT) and (found := _sum_of(node, uses, sums, origins)) is not None:
            sums[node] = found
            origins.add(Rest(node), [x for t in found.rests for x in t.factors])
    rests: dict[Node, Variable] = {}
    return copied(graph, {node: _writer(node, found, rests) for node, found in sums.items()}) if sums else graph


def _sum_of(node: Node, uses: Mapping[Node, int], sums: Mapping[Node, Sum], origins: Origins) -> Sum | None:
    """Squares stay, since sums of them are taken apart."""
    if not all((is_product(x) or x in sums) and uses[x] == 1 for x in node.inputs):
        return None
    x, y = (_term(x, uses, sums) for x in node.inputs)
    if any(origins.balance(t.factors) for t in (x, y)):
        x, y = (_term(x, uses, sums, 0) for x in node.inputs)
    a, b = x.scale.value, -y.scale.value if node.op is SUBTRACT else y.scale.value
    left, right = Counter(x.factors), Counter(y.factors)
    common = left & right
    scale = a if a == b or abs(a) == abs(b) != 1 else 1.0
    if (not common and abs(scale) == 1) or left == right or any(n > 1 for n in common.values()):
        return None
    if not all(moderate(c, NEAR_ONE[node.aval.dtype.itemsize]) for c in (a, b)):
        return None
    rests = (_monomial(a / scale, left - common), _monomial(b / scale, right - common))
    return Sum(_monomial(scale, common), rests)


def _monomial(scale: float, factors: Counter[Node | Rest]) -> Monomial:
    return Monomial(Scale(scale), tuple(factors.elements()))


def _term(node: Node, uses: Mapping[Node, int], sums: Mapping[Node, Sum], depth: int = MOST) -> Monomial:
    """Return a term as a monomial, through products that nothing else needs."""
    if node in sums:
        return sums[node].common.times(Monomial(ONE, (Rest(node),)))
    return monomial_of(
        node,
        lambda _, x: (
            _term(x, uses, sums, depth - 1) if depth and uses[x] == 1 and (is_product(x) or x in sums) else None
        ),
    )


# ---- as nodes


def _writer(node: Node, found: Sum, rests: dict[Node, Variable]) -> Made:
    """Return the maker of a factored sum, which may not be needed if a larger sum includes it."""

    def make(new: Graph, image: Mapping[Node, Node]) -> Variable:
        def arrays(t: Monomial) -> list[Variable]:
            return [rests[x.sum] if isinstance(x, Rest) else Variable(new, image[x]) for x in t.factors]

        rests[node] = _sum(*[(t.scale.value, arrays(t)) for t in found.rests])
        return _scaled(found.common.scale.value, [*arrays(found.common), rests[node]])

    return make


def _sum(x: tuple[float, list[Variable]], y: tuple[float, list[Variable]]) -> Variable:
    """Without a pass for a sign; the scales are not both -1."""
    (a, xs), (b, ys) = (y, x) if x[0] == -1 else (x, y)
    first, second = _scaled(a, xs), _scaled(abs(b), ys)
    return first - second if b < 0 else first + second


def _scaled(scale: float, arrays: list[Variable]) -> Any:
    if not arrays:
        return scale
    result = functools.reduce(operator.mul, arrays)
    return result if scale == 1 else -result if scale == -1 else scale * result
