"""Loop fission: hoist computations out of a loop, done for all iterations at once. `sink` has those after a loop.

A product with one of the xs takes a NumPy call in each iteration; for all iterations it is one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from typing import Any, NamedTuple, cast

import numpy as np

from symgrad.analysis.cost import likely, numbers
from symgrad.analysis.uses import users_of
from symgrad.analysis.values import known_size
from symgrad.control.places import iterations_of
from symgrad.control.replacement import Recorded, image_of, instead_of, rebuilt
from symgrad.core.graph import Aval, Graph, Node, reached
from symgrad.core.region import Region, inline, stand_in
from symgrad.core.sizes import Size, same
from symgrad.derivatives.batch import batch
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import Loop, Read, loop_of
from symgrad.ops.determinants import SLOGDET
from symgrad.ops.elementwise import ADD, NEGATIVE
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import EVERYTHING, Slot
from symgrad.ops.linalg import CHOLESKY, INV, SOLVE
from symgrad.rewrite.engine import Made, copied

FEW = 512
"""Most elements for which a NumPy function takes less time than its call; batched over iterations it is much faster."""

LONG = 32
"""Number of iterations from which on an array with one number for each is faster than Python's numbers."""

MORE = 4
"""Most memory of new stacks, as a multiple of that of the loop's xs and ys."""


OF_STACKS = frozenset((SOLVE, INV, CHOLESKY, SLOGDET))
"""Operators that NumPy applies to a stack of matrices in one call, which take several microseconds for each matrix."""


class Ahead(NamedTuple):
    """A hoisted value, as an operand of the loop."""

    node: Node  # in the body
    aval: Aval  # with an axis of iterations if it is stacked


Stands = Mapping[Node, Node]
"""Hoisted values of a body, and the parameters that stand for them."""

Instead = Mapping[Node, Made]
"""Nodes and the makers of their replacements."""


def _as_they_are(given: Stands) -> Instead:
    return {x: image_of(y) for x, y in given.items()}


def _count(loop: Loop) -> Size | None:
    """Return the number of iterations; None if only the running program knows it."""
    return loop.iterations if loop.iterations is not None else iterations_of(loop.length)


class Split(NamedTuple):
    """A loop to split, with its node in the program."""

    node: Node
    loop: Loop

    @property
    def iterations(self) -> Size | None:
        """Return the number of iterations if values can be stacked, else None.

        They cannot where the number is unknown, xs are longer, or sizes differ between iterations.
        """
        loop = self.loop
        size = _count(loop)
        whole = size is not None and all(same(x.source.aval.shape[0], size) for x in loop.xs)
        return size if whole and loop.test is None and not loop.sizes_of_iteration else None

    @property
    def has_arrays(self) -> bool:
        """Whether it has arrays among its carries or xs; Python computes with scalars by itself."""
        return any(x.aval.shape for x in (*(c.value for c in self.loop.carry), *(x.value for x in self.loop.xs)))

    @property
    def is_long(self) -> bool:
        """Whether it is known to have so many iterations that arrays of scalars, one for each, pay."""
        length = known_size(self.loop.length)
        return length is not None and likely(length) >= LONG

    @property
    def kept(self) -> int:
        """Return how many elements the xs and ys have for each iteration."""
        return sum(numbers(x.aval.shape) for x in (*(x.value for x in self.loop.xs), *self.loop.ys))

    @property
    def room(self) -> int:
        """Return how many elements new stacks may have for each iteration."""
        return max(FEW, MORE * self.kept)

    def reading(
        self, once: Sequence[Node], for_all: Sequence[Node] = (), written: Callable[[Stands], Instead] = _as_they_are
    ) -> tuple[Loop, Recorded]:
        """Return the loop that reads hoisted values, `once` as consts and `for_all` as xs, and its maker.

        `written` returns makers that replace values of the body, given the parameters for the hoisted values.
        """
        loop, size = self.loop, cast(Size, self.iterations)  # None where nothing is made for all iterations
        given = {x: stand_in(loop.graph, x.aval, x.where) for x in (*once, *for_all)}
        fixed = [Read(Ahead(x, x.aval), given[x]) for x in once]
        xs = [Read(Ahead(x, x.aval._replace(shape=(size, *x.aval.shape))), given[x]) for x in for_all]
        after = replace(loop, xs=[*loop.xs, *xs], consts=[*loop.consts, *fixed])
        instead = written(given)
        after = after.map_body(lambda body: copied(body, instead)).without_unread()
        region = Region(loop.graph, [x.value for x in loop.consts], once)

        def recorded(graph: Graph, image: Mapping[Node, Node]) -> Node:
            body = inline(graph, region, [image[x.source] for x in loop.consts])
            stacks = {x.value: image[x.source] for x in loop.xs}
            ahead = for_all_iterations(graph, image, loop, for_all, stacks) if for_all else []
            made: dict[Any, Node] = {x.source: body[x.source.node] for x in fixed}
            made |= {x.source: stack for x, stack in zip(xs, ahead, strict=True)}
            return after.record(graph, {**image, **made})

        return after, recorded


def whole_loop(node: Node) -> Split | None:
    """Return the loop of a node if it can be split; None if it may end before the last of its xs, or is small."""
    split = Split(node, loop_of(node).opened())
    return split if split.iterations is not None and (split.has_arrays or split.is_long) else None


def for_all_iterations(
    graph: Graph, image: Mapping[Any, Node], loop: Loop, outputs: Sequence[Node], stacks: Mapping[Node, Node]
) -> list[Node]:
    """Append values of the body, batched over all iterations, given stacks of some of its values."""
    given = {**{x.value: image[x.source] for x in loop.consts if x.value not in stacks}}
    seeds = {x: graph.seed(x.aval) for x in stacks}
    region = Region(loop.graph, [*seeds, *given], outputs)
    body = inline(graph, region, [*seeds.values(), *given.values()])
    values = [body[y] for y in outputs]
    if not stacks:  # the same in all iterations
        return [np.broadcast_to(Variable(graph, y), (_count(loop), *y.aval.shape)).node for y in values]
    return batch(graph, values, {seeds[x]: stack for x, stack in stacks.items()})


def is_batched(node: Node) -> bool:
    """Whether the operator runs on one axis more at NumPy's full speed."""
    op = node.op
    if op.elementwise or op.contracts or op.joins or op in OF_STACKS or _is_row(node):
        return True
    return (op.assigns and len(node.inputs) == 2) or (len(node.inputs) == 1 and (op.view or bool(op.axes)))


def _is_row(node: Node) -> bool:
    """Whether a value is a row of an array under an index: rows for all iterations are one gather."""
    if node.op is not GET:
        return False
    first, *others = dict(node.params)["key"]
    return first == Slot(0) and all(x == EVERYTHING for x in others) and not node.inputs[1].aval.shape


# ---- before the loop


def hoist_maps(graph: Graph, numerics: str = "stable") -> Graph:
    """Hoist maps over the xs, batched over all iterations: products, and small values."""
    return rebuilt(graph, SCAN, lambda node, _: _computed_ahead(whole_loop(node), numerics))


def _computed_ahead(split: Split | None, numerics: str) -> dict[Node, Made]:
    if split is None:
        return {}
    known = Known(split)
    if better := known.signs() | (known.sums() if numerics == "stable" else {}):
        split = split._replace(loop=split.loop.map_body(partial(copied, instead=better)))
        known = Known(split)
    ahead = known.last()
    return instead_of(split.reading((), ahead)[1], split.node, {}) if ahead else {}


class Known:
    """Values of an iteration that depend on xs and consts alone, and that are worth computing before the loop."""

    def __init__(self, split: Split) -> None:
        loop, self.results = split.loop, split.loop.results
        self.nodes = reached(self.results)
        self.xs, self.fixed = {x.value for x in loop.xs}, {x.value for x in loop.consts}
        self.fixed |= {x for x in self.nodes if not x.inputs and x not in loop.graph.inputs}
        self.found: dict[Node, None] = {}
        for node in self.nodes:
            if node.inputs and all(map(self.knows, node.inputs)) and type(node.aval) is Aval and not node.aval.weak:
                if self.fixed.issuperset(node.inputs):
                    self.fixed.add(node)
                elif is_batched(node) and numbers(node.aval.shape) <= (split.room if node.op.contracts else FEW):
                    self.found[node] = None

    def knows(self, x: Node) -> bool:
        """Whether a value is known before the loop."""
        return x in self.found or x in self.xs or x in self.fixed

    @cached_property
    def users(self) -> dict[Node, list[Node]]:
        return users_of(self.nodes)

    def last(self) -> list[Node]:
        """Return the known values that are results, or that unknown values read."""
        return [x for x in self.found if x in self.results or not all(y in self.found for y in self.users[x])]

    def signs(self) -> dict[Node, Made]:
        """Rewrite products of negatives, so that factors known before the loop get the signs."""
        instead: dict[Node, Made] = {}
        for x in self.nodes:
            if x.op is NEGATIVE and x.aval.dtype.kind == "f" and not self.knows(x) and x not in self.results:
                products = {y: _with_sign_of(y, x) for y in self.users[x] if self.has_known_factor(y)}
                instead |= products if len(products) == len(self.users[x]) else {}
        return instead

    def has_known_factor(self, product: Node) -> bool:
        """Whether a product of matrices and vectors has a factor that is known before the loop."""
        ahead = [y for y in product.inputs if y in self.xs or y in self.found]
        return product.op is MATMUL and any(y.aval.shape and numbers(y.aval.shape) <= FEW for y in ahead)

    def sums(self) -> dict[Node, Made]:
        """Rewrite sums so that terms known before the loop come first, and are added there."""
        instead: dict[Node, Made] = {}
        inner: set[Node] = set()
        for node in reversed(self.nodes):
            if node.op is ADD and node not in inner and not self.knows(node) and numbers(node.aval.shape) <= FEW:
                terms = self.terms(node, inner)
                known = [x for x in terms if self.knows(x)]
                if len(known) > 1 and not self.fixed.issuperset(known):
                    instead[node] = _sum_of([*known, *(x for x in terms if not self.knows(x))])
        return instead

    def terms(self, node: Node, inner: set[Node]) -> list[Node]:
        """Return the terms of a sum; `inner` sums are parts with no other user."""
        found, stack = list[Node](), [*reversed(node.inputs)]
        while stack:
            x = stack.pop()
            alone = len(self.users[x]) == 1 and x not in self.results
            if x.op is ADD and alone and x.aval == node.aval and not self.knows(x):
                inner.add(x)
                stack += reversed(x.inputs)
            else:
                found.append(x)
        alike = all(x.aval.dtype == node.aval.dtype or x.aval.weak for x in found)
        return found if alike and node.aval.dtype.kind == "f" else [node]


def _with_sign_of(product: Node, x: Node) -> Made:
    """Return a product with a negative as one with the negative of the other factor."""
    signed = lambda new, image, y: Variable(new, image[x.inputs[0]]) if y is x else -Variable(new, image[y])
    return lambda new, image: np.matmul(*[signed(new, image, y) for y in product.inputs])


def _sum_of(terms: Sequence[Node]) -> Made:
    return lambda new, image: reduce(np.add, [Variable(new, image[x]) for x in terms])
