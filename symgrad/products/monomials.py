"""Products as monomials: a number and a multiset of factors, in whatever order they were written."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from symgrad.analysis.uses import users_of
from symgrad.core.graph import Aval, Graph, Node
from symgrad.core.shapes import same_shape
from symgrad.frontend.variable import Variable
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import ABSOLUTE, ADD, DIVIDE, EXP, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.shape import BROADCAST_TO
from symgrad.rewrite.engine import number

_AT_MOST_ONE = frozenset(TABLE[f] for f in (np.sin, np.cos, np.tanh, np.sign))
MOST = 16
"""So many factors are looked at together."""

MODERATE = {4: 1e10, 8: 1e30}
"""What numbers are joined, by the bytes of the dtype: others may be there to keep something from overflowing."""

NEAR_ONE = {4: 1e8, 8: 1e10}
"""What numbers are multiplied with another array than they were, such as one over a size: results stay right so far
from the ends of the range."""


class Scale(NamedTuple):
    """A number, and what is known to be one when the program runs."""

    value: float
    others: tuple[Node, ...] = ()

    def times(self, value: float, others: Iterable[Node] = ()) -> Scale:
        return Scale(self.value * value, tuple(sorted((*self.others, *others), key=_by_id)))

    def written(self, graph: Graph, image: Mapping[Node, Node]) -> Variable | float:
        result: Variable | float = self.value
        for x in self.others:
            other = Variable(graph, image[x])
            result = other if type(result) is float and result == 1 else result * other
        return result


ONE = Scale(1.0)


class Monomial(NamedTuple):
    """A scale times factors, in the order of their ids."""

    scale: Scale
    factors: tuple[Node, ...]


def _by_id(node: Node) -> int:
    return node.id


def is_product(node: Node) -> bool:
    """Whether each number of a value is that of one array times another, or a number."""
    aval = node.aval
    if node.op not in (MULTIPLY, NEGATIVE) or aval.dtype.kind != "f" or not aval.shape:
        return False
    arrays = [x for x in node.inputs if x.aval.shape]
    alike = all(x.aval.dtype == aval.dtype and same_shape(x.aval.shape, aval.shape) for x in arrays)
    return alike and aval.dtype.itemsize in MODERATE


def moderate(c: float, most: float) -> bool:
    return 1 / most < abs(c) < most


def _joined(c: float, d: float, most: float) -> bool:
    return moderate(c, most) and moderate(d, most) and moderate(c * d, most)


class Origins:
    """Which arrays values are made of, and how large they can be.

    The factors of ``x * (x * exp(-x * x))`` balance each other: far from zero the last is nothing where ``x * x`` is
    infinite. Those of ``x * y * z`` do so by chance only, and those of ``sin(x) * cos(x) * tanh(x)`` never.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._bits: dict[Hashable, int] = {}  # one for each array
        self._most: dict[Hashable, float] = {}
        sources = 0
        for node in nodes:
            self.add(node, node.inputs)
            if not node.inputs and (type(node.aval) is not Aval or node.aval.shape):
                self._bits[node], sources = 1 << sources, sources + 1
            self._most[node] = self._largest(node)

    def add(self, x: Hashable, made_of: Iterable[Hashable]) -> None:
        """What stands for a value that the graph does not have."""
        self._bits[x] = reduce(operator.or_, [self._bits[y] for y in made_of], 0)
        self._most[x] = math.inf

    def balance(self, factors: Collection[Hashable]) -> bool:
        """Whether a product may be right in the order in which it is written only."""
        if len(factors) < 3 or math.prod([self._most[x] for x in factors]) < min(MODERATE.values()):
            return False
        seen = 0
        for x in dict.fromkeys(factors):
            if seen & self._bits[x]:
                return True
            seen |= self._bits[x]
        return False

    def _largest(self, node: Node) -> float:
        """A number that no absolute value exceeds."""
        if node.op in _AT_MOST_ONE:
            return 1.0
        if (c := number(node)) is not None and node.aval.dtype.kind in "iuf":
            return abs(float(c))
        most = [self._most[x] for x in node.inputs]
        if node.op in (ADD, SUBTRACT):
            return sum(most)
        if node.op is MULTIPLY:
            return 0.0 if 0.0 in most else math.prod(most)
        if node.op is DIVIDE and _is_above_one(node.inputs[1]):
            return most[0]
        return most[0] if node.op in (NEGATIVE, ABSOLUTE, BROADCAST_TO) else math.inf


def _is_above_one(x: Node) -> bool:
    """What a sigmoid divides by."""
    return x.op is ADD and any(number(a) == 1 and b.op is EXP for a, b in (x.inputs, x.inputs[::-1]))


class Products:
    """The products of a graph, by their factors.

    Attributes
    ----------
    of : dict of Node to Monomial
        What each product is; where a factor has taken its number, without it.
    parts : dict of Node to list of Node
        The products that a product was made of.
    wanted : list of Node
        Those that are more than a part of another product, but for the negatives of such.
    scaled : dict of Node to float
        Factors that have taken a number, and the products that these are sums of.
    """

    def __init__(self, nodes: Sequence[Node], outputs: Iterable[Node]) -> None:
        self.of: dict[Node, Monomial] = {}
        self.parts: dict[Node, list[Node]] = {}
        self.scaled: dict[Node, float] = {}
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
        scale, factors, parts = Scale(-1.0) if node.op is NEGATIVE else ONE, [], []
        count = sum(len(self.of[x].factors) if x in self.of else bool(x.aval.shape) for x in node.inputs)
        most = (MODERATE if count == 1 else NEAR_ONE)[node.aval.dtype.itemsize]
        for x in sorted(node.inputs, key=lambda x: len(x.aval.shape)):  # numbers first
            known, c = self.of.get(x), number(x)
            if known and len(factors) + len(known.factors) < MOST and _joined(scale.value, known.scale.value, most):
                scale = scale.times(*known.scale)
                factors += known.factors
                parts.append(x)
            elif x.aval.shape:
                factors.append(x)
            else:
                scale = scale.times(1.0, [x]) if c is None else scale.times(float(c))
        self.of[node] = Monomial(scale, tuple(sorted(factors, key=_by_id)))
        self.parts[node] = parts

    def keeps_order(self, node: Node) -> bool:
        """Whether only the numbers of a product may change places."""
        return self._origins.balance([x for x in self.of[node].factors if x not in self.of])  # long ones are in parts

    def passes(self, group: Iterable[Node]) -> int:
        """How many products it has taken so far."""
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
            terms = [
                self.of[y].factors[0] for x in (first, *rest) if x in self.scaled for y in x.inputs if y in self.of
            ]
            for x in (*rest, *terms):
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
                x = next((x for x in factors if self._takes(x, scale, having[x])), None)
                if x is not None:
                    self._put(scale.value, x, having[x])

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
