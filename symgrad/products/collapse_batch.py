"""Batched matrix products with a shared matrix as one product: ``(X.reshape(-1, d) @ W).reshape(X.shape)`` for ``X @
W``.

NumPy computes a stack of products one by one; of one product BLAS makes the best, on several cores.

This stands after the division into blocks, which goes along an axis that is still one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from typing import Any

from symgrad.core.graph import Aval, Graph, Node, Op, is_view
from symgrad.core.shapes import is_one, product
from symgrad.core.sizes import Shape
from symgrad.ops.contract import MATMUL
from symgrad.ops.einsum import EINSUM
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import EVERYTHING, Slice
from symgrad.ops.reduce import MEAN, SUM
from symgrad.ops.shape import RESHAPE
from symgrad.rewrite.engine import copied, rewrite
from symgrad.rewrite.rules import Procedure, Rules
from symgrad.rewrite.structure import merge_reshapes

KEEP_ORDER = frozenset({EINSUM, SET, ADD_AT, SUM, MEAN})
"""Operators, beside the elementwise ones, whose results NumPy lays out as their operands are."""

DEEPEST = 20


def collapse_batch(graph: Graph, numerics: str = "stable") -> Graph:
    """Replace each product of a stack of matrices with a shared matrix by one product."""
    if not any(map(_is_stack_with_matrix, graph.nodes)):
        return graph
    return copied(rewrite(graph, Rules((), Walk().procedures)))


def _is_stack_with_matrix(node: Node) -> bool:
    return node.op is MATMUL and len(node.inputs[0].aval.shape) > 2 and len(node.inputs[1].aval.shape) <= 2


class Walk:
    """The procedures of the walk, and which values of the graph that it makes lie packed."""

    def __init__(self) -> None:
        self._packed: dict[Node, bool] = {}

    def procedures(self, op: Op) -> Sequence[Procedure]:
        known: dict[Any, Sequence[Procedure]] = {MATMUL: [self.product], RESHAPE: [merge_reshapes]}
        return known.get(op, [])

    def product(self, graph: Graph, node: Node) -> Node | None:
        """One product of all rows, if merging their axes takes no copy."""
        a, b = node.inputs
        if not _is_stack_with_matrix(node) or not self.is_packed(a):
            return None
        *lead, terms = a.aval.shape
        rows = graph.add(RESHAPE, (a,), (("shape", (product(lead), terms)),))
        return graph.add(RESHAPE, (graph.add(MATMUL, (rows, b)),), (("shape", node.aval.shape),))

    def is_packed(self, x: Node, depth: int = DEEPEST) -> bool:
        """Whether numbers lie in the order of C without gaps, as far as one can know."""
        known = self._packed.get(x)
        if known is None:
            known = self._packed[x] = self._lies_packed(x, depth - 1) if depth else True
        return known

    def _lies_packed(self, x: Node, depth: int) -> bool:
        below = [y for y in x.inputs if type(y.aval) is Aval and len(y.aval.shape) > 1]
        if x.op is RESHAPE and len(x.aval.shape) < len(x.inputs[0].aval.shape):
            return True  # for it has copied what was not
        if x.op is GET and len(x.inputs) == 1 and not _is_run(dict(x.params)["key"], x.inputs[0].aval.shape):
            return False
        if is_view(x) and x.op not in (RESHAPE, GET):
            return False
        if is_view(x) or x.op.elementwise or x.op in KEEP_ORDER:
            return all(self.is_packed(y, depth) for y in below)
        return True


def _is_run(key: Sequence[Any], shape: Shape) -> bool:
    """Whether an index selects numbers that lie beside each other: ``x[3, 1:5]``, or all, without axes of size one."""
    items = zip([item for item in key if item is not None], shape, strict=False)
    rest = list(dropwhile(lambda item: isinstance(item, int), (item for item, n in items if not is_one(n))))
    run = all(isinstance(item, Slice) and item.step in (None, 1) for item in rest[:1])
    return run and all(item == EVERYTHING for item in rest[1:])
