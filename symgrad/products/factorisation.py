"""Factorisation of products: constant factors meet once, and subproducts that several products share are made once.

Products with factors in common are written anew, the pair of factors that occurs most often first, where that takes
fewer passes. A number goes into a factor that has numbers of its own: ``c * x * (1 + a * y)`` is
``x * (c + (c * a) * y)``.

It stands after the rules, which bring sums and signs to where products meet. What overflows on the way changes with the
order: not for ``numerics="ieee"``.

References
----------
M. A. Breuer, Generation of optimal code for expressions via factorization, Communications of the ACM 12 (6), 1969.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial, reduce
from itertools import combinations
from typing import Any, NamedTuple

from symgrad.analysis.values import number
from symgrad.core.graph import Graph, Node
from symgrad.frontend.variable import Variable
from symgrad.products.monomials import ONE, Products, Scale
from symgrad.rewrite.engine import Made, copied
from symgrad.rewrite.rules import stable_only


@stable_only
def factorise(graph: Graph, numerics: str = "stable") -> Graph:
    """Compute the products of a graph in fewer passes over arrays."""
    products = Products(graph.live, graph.outputs)
    products.put_numbers_into_factors()
    instead: dict[Node, Made] = {}
    for group in products.groups():
        plan = Plan(products, group)
        if plan.passes() < products.passes(group):
            instead |= {node: partial(plan.make, node) for node in group}
    return copied(graph, instead) if instead else graph


# ---- how they are made


class Pair(NamedTuple):
    """The product of two earlier atoms."""

    first: int
    second: int


Atom = Node | Scale | Pair
"""A factor of a product."""


class Plan:
    """A plan to make products: atoms, and for each product those left to multiply."""

    def __init__(self, products: Products, group: list[Node]) -> None:
        self.scaled = products.scaled
        self.atoms: list[Atom] = []
        self._index: dict[Atom, int] = {}
        self._terms: dict[Node, Variable] = {}  # of sums that have taken a number, with it
        self.left = {node: self._atoms_of(products, node) for node in group}
        self._pair_up()

    def _atoms_of(self, products: Products, node: Node) -> tuple[int, ...]:
        scale, factors = products.of[node]
        left = [self._atom(scale)] if scale != ONE else []
        if products.keeps_order(node):
            return (*left, self._as_written(products, node))
        return (*left, *map(self._atom, factors))

    def _as_written(self, products: Products, node: Node) -> int:
        """A product without its numbers."""
        parts = products.parts[node]
        made = [self._as_written(products, x) if x in parts else self._atom(x) for x in node.inputs if x.aval.shape]
        return made[0] if len(made) == 1 else self._atom(Pair(min(made), max(made)))

    def _atom(self, atom: Atom) -> int:
        if atom not in self._index:
            self._index[atom] = len(self.atoms)
            self.atoms.append(atom)
        return self._index[atom]

    def passes(self) -> int:
        pairs = sum(isinstance(atom, Pair) for atom in self.atoms)
        return pairs + sum(len(left) - 1 for left in set(self.left.values()))

    def _pair_up(self) -> None:
        """The pair that occurs most often becomes an atom, as long as one occurs twice."""
        lefts = list(dict.fromkeys(self.left.values()))
        now = {left: left for left in lefts}
        counts = Counter(atom for atom in self.atoms if isinstance(atom, Pair))  # of products that stay as written
        if not counts and sum(map(len, lefts)) == len({i for left in lefts for i in left}):  # each factor occurs once
            return
        for left in lefts:
            counts.update(_pairs(left))
        often = {pair for pair, n in counts.items() if n > 1}
        while often:
            whole = {left for left in now.values() if len(left) == 2}
            pair = max(often, key=lambda p: (counts[p], p in whole, -p[1], -p[0]))
            new = self._atom(pair)
            for first, left in now.items():
                if pair[0] in left and pair[1] in left and (made := _with_pair(left, pair, new)) != left:
                    counts.subtract(_pairs(left))
                    counts.update(_pairs(made))
                    now[first] = made
                    often |= {p for p in _pairs(made) if counts[p] > 1}
            often = {p for p in often if counts[p] > 1}
        self.left = {node: now[left] for node, left in self.left.items()}

    # ---- as nodes

    def make(self, node: Node, graph: Graph, image: Mapping[Node, Node]) -> Variable:
        """A product as it was; with the number of the sum that it is in it is another value."""
        result = self._product(self.left[node], graph, image)
        if node not in self.scaled:
            return result
        self._terms[node] = result
        return Variable(graph, graph.add(node.op, tuple([image[x] for x in node.inputs]), node.params))

    def _product(self, left: Sequence[int], graph: Graph, image: Mapping[Node, Node]) -> Variable:
        scales = [i for i in left if isinstance(self.atoms[i], Scale)]
        first, *rest = [self._value(i, graph, image) for i in (*scales, *(i for i in left if i not in scales))]
        return reduce(_times, rest, first)

    def _value(self, i: int, graph: Graph, image: Mapping[Node, Node]) -> Any:
        atom = self.atoms[i]
        if isinstance(atom, Scale):
            return atom.written(graph, image)
        if isinstance(atom, Node):
            return self._factor(atom, graph, image)
        return self._product(atom, graph, image)

    def _factor(self, x: Node, graph: Graph, image: Mapping[Node, Node]) -> Variable:
        scale = self.scaled.get(x)
        if scale is None:
            return Variable(graph, image[x])
        a, b = (self._operand(y, scale, graph, image) for y in x.inputs)
        return x.op(a, b)

    def _operand(self, y: Node, scale: float, graph: Graph, image: Mapping[Node, Node]) -> Variable | float:
        c = number(y)
        if c is not None:
            return float(c) * scale
        return self._terms[y] if y in self._terms else Variable(graph, image[y])


def _times(x: Any, y: Any) -> Any:
    return -y if type(x) is float and x == -1 else x * y


@lru_cache(maxsize=1024)  # asked for again and again as factors are paired up
def _pairs(left: tuple[int, ...]) -> Counter[Pair]:
    """Return how often each pair of atoms occurs in a product."""
    n = Counter(left)
    found = Counter({Pair(i, j): min(n[i], n[j]) for i, j in combinations(sorted(n), 2)})
    found.update({Pair(i, i): n[i] // 2 for i in n if n[i] > 1})
    return found


def _with_pair(left: tuple[int, ...], pair: Pair, new: int) -> tuple[int, ...]:
    rest = list(left)
    for _ in range(_pairs(left)[pair]):
        for i in pair:
            rest.remove(i)
        rest.append(new)
    return tuple(rest)
