"""Products of the slices of an array with one matrix as one product: ``(X @ W)[t]`` for each ``X[t] @ W``.

A loop over time steps that Python has unrolled makes a small product of each step's input. They do not wait for each
other, and BLAS does better with all of them; what each step adds to its product in the same way is added at once.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from symgrad.analysis.cost import numbers
from symgrad.analysis.uses import times_used, users_of
from symgrad.core.graph import CONSTANT, Graph, Node
from symgrad.core.shapes import same_shape
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL
from symgrad.ops.elementwise import ADD
from symgrad.products.contractions import plain
from symgrad.products.monomials import terms_of
from symgrad.products.slices import along, places, run_of
from symgrad.rewrite.engine import Made, copied

SEVERAL = 4
"""So many products make one worth while."""

DENSE = 0.75
"""And so large a part of the slices between the first and the last must be multiplied."""

SINGLE = 1 << 18
"""From so many multiplications on a product has BLAS at its best by itself."""

WIDER = 4
"""How many times as large as the array that is sliced the product may be, since it is kept as a whole."""


class Batch(NamedTuple):
    """What products of slices have in common: the array, the axis that is sliced, and the matrix on one side."""

    array: Node
    axis: int
    matrix: Node
    left: bool  # whether the matrix stands on the left


Group = Mapping[int, Node]
"""Products by the place of their slice."""


def batch_matmuls(graph: Graph, numerics: str = "stable") -> Graph:
    """One product of matrices for those of all slices. It stands before sums of products, which take slices apart."""
    nodes = graph.live
    groups: dict[Batch, dict[int, Node]] = {}
    for node in nodes:
        found = _batch(node) if node.op is MATMUL and plain(node, *node.inputs) else None
        if found is not None:
            groups.setdefault(found[0], {})[found[1]] = node
    groups = {batch: group for batch, group in groups.items() if _pays(batch, group)}
    if not groups:
        return graph
    addends = Addends(graph, nodes) if numerics == "stable" else None
    instead: dict[Node, Made] = {}
    for batch, group in groups.items():
        added = addends.taken(list(group.values())) if addends else None
        whole = Whole(batch, group, added)
        instead |= {node: whole.part(place) for place, node in group.items()}
    return copied(graph, instead | dict(addends.replacements() if addends else {}))


def _batch(node: Node) -> tuple[Batch, int] | None:
    """Rows times a matrix, or a matrix times one vector."""
    for left in (False, True):
        x, matrix = node.inputs[::-1] if left else node.inputs
        at = run_of(x) if len(matrix.aval.shape) == 2 and len(x.aval.shape) <= (1 if left else 2) else None
        if at is not None and not at.kept and at.axis < len(at.array.aval.shape) - 1:
            return Batch(at.array, at.axis, matrix, left), at.start
    return None


def _pays(batch: Batch, group: Group) -> bool:
    length, one = max(group) + 1 - min(group), next(iter(group.values()))
    work = numbers(one.aval.shape) * numbers(batch.array.aval.shape[-1:])
    wide = length * numbers(one.aval.shape) > WIDER * numbers(batch.array.aval.shape)
    return len(group) >= max(SEVERAL, DENSE * length) and work < SINGLE and not wide


class Whole:
    """The product of all slices from one to another, made where the first of them is needed."""

    def __init__(self, batch: Batch, group: Group, added: Node | None) -> None:
        self.batch, self.added = batch, added
        self.start, self.stop = min(group), max(group) + 1
        self._made: Variable | None = None

    def part(self, place: int) -> Made:
        def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
            if self._made is None:
                self._made = self._product(graph, image)
            return along(self._made, self.batch.axis, place - self.start)

        return made

    def _product(self, graph: Graph, image: Mapping[Node, Node]) -> Variable:
        matrix = Variable(graph, image[self.batch.matrix])
        array = places(Variable(graph, image[self.batch.array]), self.batch.axis, self.start, self.stop)
        y = array @ (matrix.T if self.batch.left else matrix)
        if self.added is None:
            return y
        return y + Variable(graph, image.get(self.added) or graph.add(CONSTANT, (), self.added.params))


# ---- what is added to each of them

FARTHEST = 8
"""Sums of so many terms are looked through."""


class Addends:
    """The sums that products are terms of, and the terms that have been taken from them."""

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        self._times, self._users = times_used(nodes, graph.outputs), users_of(nodes)
        self._taken: dict[Node, Node] = {}

    def taken(self, products: Sequence[Node]) -> Node | None:
        """A row that all of these products meet in their sums, from which it is taken; None if there is none."""
        ends = [self._end(x) for x in products]
        if len(set(ends)) < len(ends) or not self._taken.keys().isdisjoint((*ends, *products)):
            return None
        sums = [terms_of(end, self._times, FARTHEST) for end in ends]
        one = min(products, key=lambda x: x.id)
        for row in sums[0]:
            if _is_row_of(one, row) and row not in products and all(terms.count(row) == 1 for terms in sums):
                self._taken |= dict.fromkeys(ends, row)
                return row
        return None

    def replacements(self) -> dict[Node, Made]:
        """How the sums are made without what was taken."""
        return {end: self._without(end, row) for end, row in self._taken.items()}

    def _without(self, end: Node, row: Node) -> Made:
        left = [x for x in terms_of(end, self._times, FARTHEST) if x is not row]
        return lambda graph, image: reduce(operator.add, [Variable(graph, image[x]) for x in left])

    def _end(self, x: Node) -> Node:
        """The sum that nothing but a value flows into."""
        for _ in range(FARTHEST):
            if self._times[x] != 1 or not self._users[x] or self._users[x][0].op is not ADD:
                break
            (x,) = self._users[x]
        return x


def _is_row_of(first: Node, row: Node) -> bool:
    """Whether a value can be added to each row of products of which this is the first."""
    there = row.op is CONSTANT or row.id < first.id
    return there and row.aval.dtype == first.aval.dtype and same_shape(row.aval.shape, first.aval.shape[-1:])
