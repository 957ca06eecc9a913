"""Transposed matrices that many small products read, copied once: BLAS reads rows of the right operand faster.

The loop of a recurrent network takes a third less for its products in the pullback, and attention for its scores. BLAS
copies the operands of large products itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from symgrad.analysis import costs
from symgrad.analysis.cost import numbers
from symgrad.core.axes import aligned
from symgrad.core.graph import Graph, Node, Op
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL
from symgrad.ops.shape import TRANSPOSE
from symgrad.products.contractions import plain
from symgrad.rewrite.engine import Made, copied
from symgrad.spelling import ATOM, Code

SMALL = 100**3
"""Up to so many multiplications OpenBLAS reads the operands of a product where they are."""

COPY = Op(
    "copy",
    lambda x: np.array(x, order="C"),
    lambda x: x,
    lambda x: ((x,), {}),
    spell=lambda node, x: Code(f"{x.at(ATOM)}.copy()"),
    signature=aligned,
)
"""The same numbers in the order of C."""


def pack_operands(graph: Graph, numerics: str = "stable") -> Graph:
    """Transposed matrices that many small products read are copied. It stands behind what moves transposes."""
    saved: dict[Node, float] = {}
    for node in graph.live:
        if node.op is MATMUL and _is_transposed(node.inputs[1]) and (work := _small_work(node)):
            saved[node.inputs[1]] = saved.get(node.inputs[1], 0) + work * costs.AGAINST
    packed = {x: _copy(x) for x, time in saved.items() if time > costs.COPY + costs.NEAR * numbers(x.aval.shape)}
    return copied(graph, packed) if packed else graph


def _is_transposed(x: Node) -> bool:
    """Whether numbers beside each other in memory stand in one column."""
    ndim = len(x.aval.shape)
    return x.op is TRANSPOSE and ndim > 1 and dict(x.params)["axes"].index(ndim - 1) == ndim - 2


def _small_work(product: Node) -> int:
    """The multiplications of a product, or of a stack of them, that are small; 0 if they are not.

    Or if the transposed matrix has few columns, which BLAS reads as fast.
    """
    shapes = [x.aval.shape for x in product.inputs]
    known = all(isinstance(n, int) for shape in shapes for n in shape)
    if not known or not plain(*product.inputs) or len(shapes[0]) != len(shapes[1]):
        return 0
    (rows, inner), columns = shapes[0][-2:], shapes[1][-1]
    one = rows * inner * columns
    return one * numbers(product.aval.shape[:-2]) if one <= SMALL and 2 * columns >= inner else 0


def _copy(x: Node) -> Made:
    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        view = graph.add(TRANSPOSE, (image[x.inputs[0]],), x.params)
        return Variable(graph, graph.add(COPY, (view,)))

    return made
