"""Batched matrix products with a shared matrix as one product: ``(X.reshape(-1, d) @ W).reshape(X.shape)`` for ``X @
W``.

NumPy computes a stack of products one by one; of one product BLAS makes the best, on several cores. The result keeps
its rows below each other for as long as what follows can be computed of those: elementwise, or row by row.

This stands after the division into blocks, which goes along an axis that is still one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from typing import Any

from symgrad.core.graph import Aval, Graph, Node, Op, is_view
from symgrad.core.shapes import is_one, product, same_shape
from symgrad.core.sizes import Shape
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL, VECDOT
from symgrad.ops.einsum import EINSUM, LETTERS
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import EVERYTHING, Slice
from symgrad.ops.reduce import MAX, MEAN, MIN, SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.ops.shape import RESHAPE
from symgrad.products.contractions import as_written
from symgrad.rewrite.engine import copied, rewrite
from symgrad.rewrite.rules import Procedure, Rules
from symgrad.rewrite.structure import merge_reshapes

REDUCTIONS = frozenset({SUM, MEAN, MAX, MIN})
KEEP_ORDER = frozenset({EINSUM, SET, ADD_AT, SUM, MEAN})
"""Operators, beside the elementwise ones, whose results NumPy lays out as their operands are."""

DEEPEST = 20


def collapse_batch(graph: Graph, numerics: str = "stable") -> Graph:
    """Replace each product of a stack of matrices with a shared matrix by one product."""
    if not any(map(_is_stack_with_matrix, graph.nodes)):
        return graph
    walk = Walk()
    new = rewrite(graph, Rules((), walk.procedures))
    new.names = {walk.rows_of(node): _moved(name, walk) for node, name in new.names.items()}
    return copied(new)


def _is_stack_with_matrix(node: Node) -> bool:
    return node.op is MATMUL and len(node.inputs[0].aval.shape) > 2 and len(node.inputs[1].aval.shape) <= 2


def _moved(name: Any, walk: Walk) -> Any:
    return name if isinstance(name, str) else (name[0], walk.rows_of(name[1]))


class Walk:
    """The procedures of the walk, and their facts about the graph that it makes.

    `merged` has reshapes that give a matrix of rows its leading axes back, and how many they are.
    """

    def __init__(self) -> None:
        self.merged: dict[Node, int] = {}
        self._packed: dict[Node, bool] = {}

    def procedures(self, op: Op) -> Sequence[Procedure]:
        if op.elementwise:
            return [self.number_by_number]
        if op in REDUCTIONS:
            return [self.reduction]
        known: dict[Any, Sequence[Procedure]] = {
            MATMUL: [self.product],
            RESHAPE: [self.ones, merge_reshapes],
            EINSUM: [self.einsum],
            VECDOT: [self.vecdot],
            GET: [self.ones],
        }
        return known.get(op, [])

    def rows_of(self, x: Node) -> Node:
        """Return the rows that a value was reshaped from, or the value itself."""
        return x.inputs[0] if x in self.merged else x

    # ---- rows and stacks

    def _rows(self, graph: Graph, x: Node, lead: int) -> Node:
        """A value with its leading axes merged."""
        if self.merged.get(x) == lead:
            return x.inputs[0]
        shape = (product(x.aval.shape[:lead]), *x.aval.shape[lead:])
        return graph.add(RESHAPE, (x,), (("shape", shape),))

    def _stack(self, graph: Graph, y: Node, shape: Shape, lead: int) -> Node:
        """Rows with their leading axes given back."""
        x = Graph.add(graph, RESHAPE, (y,), (("shape", shape),))  # not simplified: what follows may need `y` alone
        self.merged[x] = lead
        return x

    def _lead(self, xs: Sequence[Node]) -> int:
        return next((self.merged[x] for x in xs if x in self.merged), 0)

    def _fits(self, x: Node, lead: Shape) -> bool:
        """Whether the rows of a value with these leading axes are at hand."""
        return same_shape(x.aval.shape[: len(lead)], lead) and (self.merged.get(x) == len(lead) or self.is_packed(x))

    # ---- layout

    def is_packed(self, x: Node, depth: int = DEEPEST) -> bool:
        """Whether numbers lie in the order of C without gaps, as far as one can know: merging axes takes no copy."""
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

    # ---- what is computed of rows

    def product(self, graph: Graph, node: Node) -> Node | None:
        a, b = node.inputs
        if not _is_stack_with_matrix(node) or not (a in self.merged or self.is_packed(a)):
            return None
        lead = len(a.aval.shape) - 1
        return self._stack(graph, graph.add(MATMUL, (self._rows(graph, a, lead), b)), node.aval.shape, lead)

    def number_by_number(self, graph: Graph, node: Node) -> Node | None:
        shape, lead = node.aval.shape, self._lead(node.inputs)
        if not lead:
            return None
        rows = []
        for x in node.inputs:
            extra = len(shape) - len(x.aval.shape)
            if (extra and extra < lead) or (not extra and not self._fits(x, shape[:lead])):
                return None
            rows.append(x if extra else self._rows(graph, x, lead))
        return self._stack(graph, graph.add(node.op, tuple(rows), node.params), shape, lead)

    def reduction(self, graph: Graph, node: Node) -> Node | Variable | None:
        x, kept = node.inputs[0], dict(node.params).get("keepdims", False)
        lead = self._lead([x])
        axes = reduced_axes(node)
        summed = [i for i in axes if i < lead]
        if not lead or (summed and (len(summed) < lead or kept)):
            return None
        own = tuple(i - lead + 1 for i in axes if i >= lead)
        y = node.op(Variable(graph, self._rows(graph, x, lead)), axis=(0, *own) if summed else own, keepdims=kept)
        return y if summed else self._stack(graph, y.node, node.aval.shape, lead)

    def einsum(self, graph: Graph, node: Node) -> Node | None:
        lead = self._lead(node.inputs)
        if not lead:
            return None
        _, terms, out = c = as_written(node)
        pairs = list(zip(node.inputs, terms, strict=True))
        labels = next(term[:lead] for x, term in pairs if x in self.merged)
        shape = next(x.aval.shape[:lead] for x in node.inputs if x in self.merged)
        if any(_is_apart(term, labels) is None for term in (out, *terms)):
            return None
        if not all(_is_apart(term, labels) or self._fits(x, shape) for x, term in pairs):
            return None
        rows = tuple(x if _is_apart(term, labels) else self._rows(graph, x, lead) for x, term in pairs)
        text = _renamed(c.subscripts.replace(labels, labels[0]))
        y = graph.add(EINSUM, rows, tuple((k, text if k == "subscripts" else v) for k, v in node.params))
        return y if _is_apart(out, labels) else self._stack(graph, y, node.aval.shape, lead)

    def vecdot(self, graph: Graph, node: Node) -> Node | None:
        a, b = node.inputs
        lead = self._lead(node.inputs)
        shape = node.aval.shape[:lead]
        if not 0 < lead < len(a.aval.shape) == len(b.aval.shape) or not all(self._fits(x, shape) for x in (a, b)):
            return None
        y = graph.add(VECDOT, (self._rows(graph, a, lead), self._rows(graph, b, lead)))
        return self._stack(graph, y, node.aval.shape, lead)

    def ones(self, graph: Graph, node: Node) -> Node | None:
        """Axes of size one behind the others, by an index or by a reshape."""
        lead, shape = self._lead(node.inputs[:1]), node.aval.shape
        old = node.inputs[0].aval.shape
        if not lead or len(shape) <= len(old) or not same_shape(shape[: len(old)], old):
            return None
        if not all(map(is_one, shape[len(old) :])):
            return None
        rows = Variable(graph, self._rows(graph, node.inputs[0], lead))
        return self._stack(graph, rows[(..., *[None] * (len(shape) - len(old)))].node, shape, lead)


def _is_apart(term: str, labels: str) -> bool | None:
    """Whether a term has none of the labels; None where it does not just begin with all of them."""
    if not set(labels).intersection(term):
        return True
    rest = term[len(labels) :]
    return False if term.startswith(labels) and not set(labels).intersection(rest) else None


def _renamed(subscripts: str) -> str:
    """The same with labels from the first letter on."""
    names = dict(zip(dict.fromkeys(c for c in subscripts if c.isalpha()), LETTERS, strict=False))
    return "".join(names.get(c, c) for c in subscripts)


def _is_run(key: Sequence[Any], shape: Shape) -> bool:
    """Whether an index selects numbers that lie beside each other: ``x[3, 1:5]``, or all, without axes of size one."""
    items = zip([item for item in key if item is not None], shape, strict=False)
    rest = list(dropwhile(lambda item: isinstance(item, int), (item for item, n in items if not is_one(n))))
    run = all(isinstance(item, Slice) and item.step in (None, 1) for item in rest[:1])
    return run and all(item == EVERYTHING for item in rest[1:])
