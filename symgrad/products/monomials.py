"""Products as monomials: a number and a multiset of factors, in whatever order they were written."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from symgrad.analysis.overflow import MODERATE, NEAR_ONE, Origins, moderate
from symgrad.analysis.uses import users_of
from symgrad.analysis.values import number
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import same_shape
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT

BY_ID = operator.attrgetter("id")
MOST = 16
"""So many factors are looked at together."""


class Scale(NamedTuple):
    """A number, and what is known to be one when the program runs."""

    value: float
    others: tuple[Node, ...] = ()

    def times(self, value: float, others: Sequence[Node] = ()) -> Scale:
        return Scale(self.value * value, tuple(sorted((*self.others, *others), key=BY_ID)) if others else self.others)

    def written(self, graph: Graph, image: Mapping[Node, Node]) -> Variable | float:
        others: list[Any] = [Variable(graph, image[x]) for x in self.others]
        return reduce(operator.mul, others if self.value == 1 and others else [self.value, *others])


ONE = Scale(1.0)


class Monomial(NamedTuple):
    """A scale times factors: nodes, or what stands for a value that the graph does not have."""

    scale: Scale
    factors: tuple[Any, ...]

    def times(self, other: Monomial) -> Monomial:
        return Monomial(self.scale.times(*other.scale), (*self.factors, *other.factors))


def monomial_of(node: Node, inner: Callable[[Monomial, Node], Monomial | None]) -> Monomial:
    """A product or a negative by its factors, in the order in which they stand.

    `inner` gives an operand as a product, if its factors are to meet those that have been found so far.
    """
    found = Monomial(Scale(-1.0) if node.op is NEGATIVE else ONE, ())
    for x in sorted(node.inputs, key=lambda x: number(x) is None):  # numbers first
        c = number(x)
        part = Monomial(Scale(float(c)), ()) if c is not None else inner(found, x)
        found = Monomial(found.scale, (*found.factors, x)) if part is None else found.times(part)
    return found


def is_product(node: Node) -> bool:
    """Whether each number of a value is that of one array times another, or a number."""
    aval = node.aval
    if node.op not in (MULTIPLY, NEGATIVE) or aval.dtype.kind != "f" or not aval.shape:
        return False
    arrays = [x for x in node.inputs if x.aval.shape]
    alike = all(x.aval.dtype == aval.dtype and same_shape(x.aval.shape, aval.shape) for x in arrays)
    return alike and aval.dtype.itemsize in MODERATE


class Products:
    """The products of a graph, by their factors; those that are `wanted` are more than a part of another."""

    def __init__(self, nodes: Sequence[Node], outputs: Iterable[Node]) -> None:
        self.of: dict[Node, Monomial] = {}  # what each is; where a factor has taken its number, without it
        self.parts: dict[Node, list[Node]] = {}  # the products that it was made of
        self.scaled: dict[Node, float] = {}  # factors that have taken a number, and products that these are sums of
        self._origins = Origins(nodes)
        self._users = users_of(nodes)
        wanted = set(outputs)
        for node in nodes:
            if is_product(node):
                self._read(node)
            parts = self.parts.get(node, ())
            wanted.update(x for x in node.inputs if x not in parts)
        self._outputs = set(outputs)
        self.wanted = [x for x in self.of if x in wanted and not (x.op is NEGATIVE and x.inputs[0] in wanted)]

    def _read(self, node: Node) -> None:
        parts: list[Node] = []
        count = sum(len(self.of[x].factors) if x in self.of else bool(x.aval.shape) for x in node.inputs)
        most = (MODERATE if count == 1 else NEAR_ONE)[node.aval.dtype.itemsize]

        def inner(found: Monomial, x: Node) -> Monomial | None:
            known = self.of.get(x)
            if known is None or sum([bool(y.aval.shape) for y in found.factors]) + len(known.factors) >= MOST:
                return None
            c, d = found.scale.value, known.scale.value
            if not all(moderate(value, most) for value in (c, d, c * d)):
                return None
            parts.append(x)
            return known

        scale, factors = monomial_of(node, inner)
        if others := [x for x in factors if not x.aval.shape]:
            scale = scale.times(1.0, others)
        self.of[node] = Monomial(scale, tuple(sorted([x for x in factors if x.aval.shape], key=BY_ID)))
        self.parts[node] = parts

    def keeps_order(self, node: Node) -> bool:
        """Whether only the numbers of a product may change places."""
        return self._origins.balance([x for x in self.of[node].factors if x not in self.of])  # long ones are in parts

    def passes(self, group: Iterable[Node]) -> int:
        """Return how many multiplications of arrays a group of products takes."""
        seen: set[Node] = set()
        stack = list(group)
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                stack += self.parts[node]
        return len(seen)

    def groups(self) -> list[list[Node]]:
        """The wanted products, those together that have factors in common or are in sums that take a number."""
        leader: dict[Node, Node] = {}

        def find(x: Node) -> Node:
            while (y := leader.setdefault(x, x)) is not x:
                leader[x] = leader[y]
                x = leader[x]
            return x

        for node in self.wanted:
            first, *rest = self.of[node].factors
            sums = [y for y in (first, *rest) if y in self.scaled]
            for x in (*rest, *(self.of[y].factors[0] for z in sums for y in z.inputs if y in self.of)):
                leader[find(x)] = find(first)
        found: dict[Node, list[Node]] = {}
        for node in self.wanted:
            found.setdefault(find(self.of[node].factors[0]), []).append(node)
        return list(found.values())

    # ---- numbers that factors take

    def put_numbers_into_factors(self) -> None:
        """Users first: a sum that has taken a number may hand it on to factors of what it adds."""
        having: dict[Node, list[Node]] = {}
        for node in self.wanted:
            for x in dict.fromkeys(self.of[node].factors):
                having.setdefault(x, []).append(node)
        for node in reversed(self.wanted):
            scale, factors = self.of[node]
            if scale != ONE and not scale.others:
                for x in factors:
                    if self._takes(x, scale, having[x]):
                        self._put(scale.value, x, having[x])
                        break

    def _takes(self, x: Node, scale: Scale, products: list[Node]) -> bool:
        """Whether a factor has numbers of its own, and occurs once in each of some products that are so scaled."""
        if x.op not in (ADD, SUBTRACT, DIVIDE) or x in self._outputs or x in self.scaled:
            return False
        if any(y not in self.of for y in self._users[x]):
            return False
        if any(self.of[p].scale != scale or self.of[p].factors.count(x) != 1 for p in products):
            return False
        if x.op is DIVIDE:
            return number(x.inputs[0]) is not None and self._scalable(x.inputs[0], scale, x)
        return all(self._scalable(y, scale, x) for y in x.inputs)

    def _scalable(self, y: Node, scale: Scale, user: Node) -> bool:
        """Whether it is multiplied anyway."""
        c = number(y)
        if c is None:
            if y not in self.of or self._users[y] != [user] or y in self._outputs or self.of[y].scale.others:
                return False
            c = self.of[y].scale.value
            if abs(c) == 1 or not same_shape(y.aval.shape, user.aval.shape):
                return False
        return moderate(c * scale.value, NEAR_ONE[user.aval.dtype.itemsize])

    def _put(self, scale: float, x: Node, products: list[Node]) -> None:
        self.scaled[x] = scale
        for p in products:
            self.of[p] = self.of[p]._replace(scale=ONE)
        for y in x.inputs:
            if y in self.of and x.op is not DIVIDE:
                self.scaled[y] = scale
                self.of[y] = self.of[y]._replace(scale=self.of[y].scale.times(scale))
