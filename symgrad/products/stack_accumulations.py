"""Sums of products as one product: ``A.T @ B`` with the operands of all terms concatenated.

The gradient of a weight that a program uses at each of many steps is such a sum: of outer products, or of products of
small batches. It costs two passes over an array of the size of the weight for each step, which is most of the time
that such a program takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.analysis.uses import times_used
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import same_shape
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL, OUTER
from symgrad.ops.elementwise import ADD
from symgrad.ops.reduce import SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.ops.shape import TRANSPOSE
from symgrad.products.contractions import Contraction, plain
from symgrad.products.monomials import terms_of
from symgrad.products.slices import Run, places, run_of
from symgrad.rewrite.engine import Made, copied

SEVERAL = 4
"""Terms that make it worth copying their operands."""

SINGLE = 1 << 18
"""Multiplications from which a product reaches BLAS's best speed by itself."""

Terms = list[tuple[Node, Contraction]]
"""Terms of a sum, each as what it contracts; see `_stacked`."""


def stack_accumulations(graph: Graph, numerics: str = "stable") -> Graph:
    """Replace a sum of many products by one product. Runs before rules that lower single products."""
    nodes = graph.live
    if sum(node.op is ADD for node in nodes) < SEVERAL - 1:
        return graph
    uses = times_used(nodes, graph.outputs)
    sums = [(node, terms) for node in _ends(nodes, uses) if len(terms := _terms(node, uses)) >= SEVERAL]
    if not sums:
        return graph
    together = {node: found for node, terms in sums if (found := _products(terms, uses))}
    stacks = {_as_bag(side): side for found in together.values() for group in found for side in _sides(group)}
    stacking = Stacking(list(stacks.values()))
    instead = {node: _by_products(dict(sums)[node], found, stacking) for node, found in together.items()}
    for node, terms in sums:
        side = stacks.get(_as_bag(_rows(terms)))
        if node not in together and side and len(node.aval.shape) == 1:
            instead[node] = _by_rows(side, stacking)
    return copied(graph, instead) if instead else graph


# ---- what is added


def _ends(nodes: Sequence[Node], uses: Mapping[Node, int]) -> list[Node]:
    """The sums that are no term of another sum."""
    inner = {x for node in nodes if node.op is ADD for x in node.inputs if x.op is ADD and uses[x] == 1}
    return [node for node in nodes if node.op is ADD and node not in inner]


def _terms(end: Node, uses: Mapping[Node, int]) -> list[Node]:
    """The terms of a sum, if all are of its shape."""
    terms = terms_of(end, uses)
    return terms if plain(end, *terms) and all(same_shape(x.aval.shape, end.aval.shape) for x in terms) else []


def _products(terms: Iterable[Node], uses: Mapping[Node, int]) -> list[Terms]:
    """Return groups of several terms that are products of one kind."""
    kinds: dict[Any, Terms] = {}
    for node in dict.fromkeys(terms):
        c = _stacked(node) if uses[node] == 1 else None
        if c is not None:
            kinds.setdefault((c.terms, c.operands[0].aval.shape), []).append((node, c))
    several = [_in_order(group) for group in kinds.values() if len(group) >= SEVERAL]
    return [group for group in several if _copies_pay(group)]


def _stacked(node: Node) -> Contraction | None:
    """A product in the labels of the operands of many: without transposes, and with rows for outer products."""
    if not plain(node, *node.inputs):
        return None
    if node.op is OUTER:
        return Contraction(node.inputs, ("si", "sj"), "ij")
    if node.op is not MATMUL or any(x.aval.ndim != 2 for x in node.inputs):
        return None
    left, right = (x.op is TRANSPOSE for x in node.inputs)
    operands = tuple(x.inputs[0] if x.op is TRANSPOSE else x for x in node.inputs)
    return Contraction(operands, ("si" if left else "is", "js" if right else "sj"), "ij")


def _in_order(group: Terms) -> Terms:
    """Return the terms in the order of the slices that they multiply, else in order of creation."""
    for side in _sides(group):
        at = _slices(side)
        if at is not None:
            return [each for _, each in sorted(zip(at, group, strict=True), key=lambda pair: pair[0].start)]
    return sorted(group, key=lambda each: each[1].operands[0].id)


def _copies_pay(group: Terms) -> bool:
    """Whether to copy the operands takes less than to add the products to a sum."""
    product, c = group[0]
    copied = [side[0] for side, term in zip(_sides(group), c.terms, strict=True) if not _lie(side, term.index("s"))]
    few = copied or numbers(c.operands[0].aval.shape) * numbers(product.aval.shape[-1:]) < SINGLE
    return bool(few) and 2 * sum(numbers(x.aval.shape) for x in copied) < 3 * numbers(product.aval.shape)


def _sides(group: Terms) -> tuple[list[Node], list[Node]]:
    return [c.operands[0] for _, c in group], [c.operands[1] for _, c in group]


def _slices(xs: Sequence[Node]) -> list[Run] | None:
    """Different slices of one array along one axis."""
    found = [at for x in xs if (at := run_of(x)) is not None and not at.kept]
    one = len(found) == len(xs) and len({(at.array, at.axis) for at in found}) == 1
    return found if one and len({at.start for at in found}) == len(xs) else None


def _lie(xs: Sequence[Node], axis: int) -> list[Run] | None:
    """Slices that lie beside each other as they would be joined along an axis."""
    at = _slices(xs)
    if at is None or at[0].axis != axis or [each.start - at[0].start for each in at] != list(range(len(xs))):
        return None
    return at


def _rows(terms: Sequence[Node]) -> tuple[Node, ...]:
    """Return the added rows, or the matrices whose rows were summed."""
    return tuple(x.inputs[0] if x.op is SUM and _over_rows(x) else x for x in terms)


def _as_bag(xs: Iterable[Node]) -> frozenset[tuple[Node, int]]:
    """Values in any order."""
    return frozenset(Counter(xs).items())


def _over_rows(x: Node) -> bool:
    axes = reduced_axes(x)
    return axes == (0,) and len(x.inputs[0].aval.shape) == 2 and not dict(x.params).get("keepdims")


# ---- the new form


class Stacking:
    """Joins the operands of all terms; a series contained in a longer one is a slice of that."""

    def __init__(self, series: Sequence[Sequence[Node]]) -> None:
        self._longest = sorted(series, key=len, reverse=True)
        self._places = [{x: i for i, x in enumerate(xs)} for xs in self._longest]

    def __call__(self, xs: Sequence[Node], graph: Graph, image: Mapping[Node, Node], axis: int = 0) -> Variable:
        """Matrices below (or beside) each other, vectors as the rows of a matrix."""
        shape, at = xs[0].aval.shape, _lie(xs, axis)
        if at is not None:
            y = places(Variable(graph, image[at[0].array]), axis, at[0].start, at[-1].start + 1)
        else:
            whole, start = self._whole(xs, image) if axis == 0 else (xs, 0)
            y = np.concatenate([Variable(graph, image[x]) for x in whole], axis=axis)
            if len(whole) > len(xs):
                y = places(y, 0, start * shape[0], (start + len(xs)) * shape[0])
        if len(shape) == 1:
            return np.reshape(y, (len(xs), *shape))
        return np.reshape(y, tuple(n * len(xs) if i == axis else n for i, n in enumerate(shape)))

    def _whole(self, xs: Sequence[Node], image: Mapping[Node, Node]) -> tuple[Sequence[Node], int]:
        """The longest series that has this one in it and has been computed, and where."""
        for ys, index in zip(self._longest, self._places, strict=True):
            start = index.get(xs[0])
            if start is not None and list(ys[start : start + len(xs)]) == list(xs) and all(y in image for y in ys):
                return ys, start
        return xs, 0


def _by_products(terms: Sequence[Node], groups: Sequence[Terms], stacking: Stacking) -> Made:
    taken = {node for group in groups for node, _ in group}

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        found = [_product(group, graph, image, stacking) for group in groups]
        found += [Variable(graph, image[x]) for x in terms if x not in taken]
        y = found[0]
        for term in found[1:]:
            y = y + term
        return y

    return made


def _product(group: Terms, graph: Graph, image: Mapping[Node, Node], stacking: Stacking) -> Variable:
    of_left, of_right = group[0][1].terms
    left, right = _sides(group)
    a, b = stacking(left, graph, image, of_left.index("s")), stacking(right, graph, image, of_right.index("s"))
    return (a.T if of_left == "si" else a) @ (b.T if of_right == "js" else b)


def _by_rows(rows: Sequence[Node], stacking: Stacking) -> Made:
    return lambda graph, image: np.sum(stacking(rows, graph, image), axis=0)
