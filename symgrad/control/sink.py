"""Sinking: sums over iterations, and ys that no carry depends on, are computed after the loop.

They are computed for all iterations at once, from stacks of their operands: ``([consts, [c, s], xs] -> [c, s + f(y)])``
becomes ``([consts, c, xs] -> [c, ys])`` and ``s + sum(f(ys))``. `fission` hoists what is known before a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis import costs
from symgrad.analysis.cost import is_work, numbers
from symgrad.analysis.uses import users_of
from symgrad.analysis.values import is_zeros
from symgrad.control.fission import FEW, Split, for_all_iterations, is_batched, whole_loop
from symgrad.control.replacement import instead_of, rebuilt
from symgrad.core.graph import ITEM, Aval, Graph, Node, depends, frontier, needed, reached, same_aval
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL
from symgrad.ops.control import SCAN
from symgrad.ops.elementwise import ADD, MULTIPLY, SUBTRACT
from symgrad.rewrite.engine import Made


def sink_sums(graph: Graph, numerics: str = "stable") -> Graph:
    """Sink sums over iterations out of loops; a sum of products becomes one product of stacked operands."""
    return _sunk(graph, _Sums)


def sink_maps(graph: Graph, numerics: str = "stable") -> Graph:
    """Sink small ys that no carry depends on out of loops, where stacks of their operands take little memory."""
    return _sunk(graph, _Maps)


def rematerialise_ys(graph: Graph, numerics: str = "stable") -> Graph:
    """Rematerialise ys after the loop, rather than stack them, where a few operations make them from other ys."""
    return _sunk(graph, _Rematerialised)


def _sunk(graph: Graph, kind: type[_Sunk]) -> Graph:

    def sunk(node: Node, items: Mapping[int, Node]) -> dict[Node, Made]:
        split = whole_loop(node)
        if split is None:
            return {}
        part = kind(split)
        part.look()
        return part.instead(items) if part.made else {}

    return rebuilt(graph, SCAN, sunk)


MANY = 3
"""Number of operations on small arrays that takes clearly longer than stacking one array and reading it again."""

Maker = Callable[[Graph, Mapping[Node, Node], Mapping[Node, Node]], Variable]
"""Appends a result to a new graph, given the map from old nodes to new ones, and stacks of an iteration's values."""


class _Sunk:
    """The results of a loop that are sunk, and the ys needed for them."""

    def __init__(self, split: Split) -> None:
        self.node, self.loop, self.iterations = split.node, split.loop, split.iterations
        self.is_long = split.is_long
        self.room, self.much = split.room, 2 * split.kept
        self.xs = {x.value: x.source for x in self.loop.xs}
        self.fixed = {x.value for x in self.loop.consts}
        self.ys = [*self.loop.ys]
        self.sums: Mapping[int, Sequence[_Term]] = {}  # number of a carry -> its terms
        self.made: dict[int, Maker] = {}  # number of a result -> its maker

    def look(self) -> None:
        """Find the results to sink."""
        raise NotImplementedError

    def is_fixed(self, x: Node) -> bool:
        """Whether a value is one of the consts, or a constant."""
        return x in self.fixed or not (x.inputs or x in self.loop.graph.inputs)

    @cached_property
    def carried_on(self) -> set[Node]:
        """Return the values that the next carries depend on, without sums."""
        return set(reached([c.update for i, c in enumerate(self.loop.carry) if i not in self.sums]))

    def is_apart(self, x: Node) -> bool:
        """Whether no other iteration needs a value, and its operator can be batched over iterations."""
        if x.op is ITEM:
            return self.is_apart(x.inputs[0])
        avals: Any = (x.aval,) if type(x.aval) is Aval else x.aval
        if not x.inputs or x in self.carried_on or any(aval.weak for aval in avals):
            return False
        return is_batched(x) and sum(numbers(aval.shape) for aval in avals) <= FEW

    def leaves(self, y: Node, there: Container[Node] = ()) -> list[Node]:
        """Return the values to stack for computing `y`: the nearest that are stacked (`there`) or cannot be sunk."""
        made = lambda x: x not in there and (x is y or self.is_apart(x))
        return [x for x in frontier([y], made) if not self.is_fixed(x)]

    def pays(self, made: Sequence[Node], leaves: Sequence[Node], more: Sequence[Node], saved: int = 0) -> bool:
        """Whether computing `made` after the loop saves many operations, and stacking `more` takes little memory."""
        saved += sum(1 for x in needed(made, set(leaves)) if is_work(x))
        return sum(numbers(x.aval.shape) for x in more) <= self.much and MANY * len(more) <= saved

    def instead(self, items: Mapping[int, Node]) -> dict[Node, Made]:
        """Return makers of the loop without the sunk results, and of these results from its ys."""
        n, results = len(self.loop.carry), len(self.loop.results)
        carry, ys = ([i for i in part if i not in self.made] for part in (range(n), range(n, results)))
        numbers = {i: k for k, i in enumerate(carry)}
        numbers |= {j: len(carry) + self.ys.index(self.loop.results[j]) for j in ys}
        kept = [self.loop.carry[i] for i in carry]
        after = replace(self.loop, carry=kept, ys=self.ys, iterations=self.iterations)
        numbered = {x: numbers[i] for i, x in items.items() if i in numbers}
        made = {x: self.after(self.made[i], len(carry)) for i, x in items.items() if i in self.made}
        return instead_of(after.without_unread().record, self.node, numbered) | made

    def after(self, made: Maker, carries: int) -> Made:
        """Return a maker of a sunk result, from the xs and ys of a loop with so many carries."""

        def result(graph: Graph, image: Mapping[Node, Node]) -> Variable:
            stacks = {y: image[x] for y, x in self.xs.items()}
            stacks |= {y: graph.item(image[self.node], carries + k) for k, y in enumerate(self.ys)}
            return made(graph, image, stacks)

        return result


# ---- sums over iterations


class _Term(NamedTuple):
    """A value that is added in each iteration, or subtracted."""

    node: Node
    negative: bool


class _Sums(_Sunk):
    """Sums over iterations: carries that are used for nothing else."""

    def look(self) -> None:
        nodes = reached([*self.loop.results, *(c.value for c in self.loop.carry)])
        users = users_of(nodes)
        self.sums = {i: terms for i in range(len(self.loop.carry)) if (terms := self.summed(i, nodes, users))}
        products = [i for i, terms in self.sums.items() if any(_is_product(term.node) for term in terms)]
        for i in products:
            self.take([i])
        others = [i for i in self.sums if i not in products]
        if not self.take(others):  # all at once first: they share stacks, and use those of products
            for i in others:
                self.take([i])

    def summed(self, i: int, nodes: Sequence[Node], users: Mapping[Node, Sequence[Node]]) -> list[_Term]:
        """Return the terms that an iteration adds to carry `i`; none if it uses the carry for anything else."""
        init, value, update = self.loop.carry[i]
        chain = depends(nodes, [value])
        terms, x = [], value
        while x is not update:
            if len(users[x]) != 1 or users[x][0].op not in (ADD, SUBTRACT):
                return []
            a, b = users[x][0].inputs
            if b in chain and users[x][0].op is SUBTRACT:
                return []
            terms.append(_Term(b if a is x else a, users[x][0].op is SUBTRACT))
            (x,) = users[x]
        alone = not users[update] and sum(y in chain for y in self.loop.results) == 1
        terms = [part for term in terms for part in self.split(term, users)]
        alone = alone and all(same_aval(y.aval, value.aval) for y in (init, *(term.node for term in terms)))
        return terms if alone else []

    def split(self, term: _Term, users: Mapping[Node, Sequence[Node]]) -> list[_Term]:
        """Return the terms of a term that is a sum with products; the term itself otherwise."""
        found, stack = list[_Term](), [term]
        while stack:
            x, negative = stack.pop()
            if x.op in (ADD, SUBTRACT) and len(users[x]) == 1 and x not in self.loop.results:
                a, b = x.inputs
                stack += [_Term(b, negative != (x.op is SUBTRACT)), _Term(a, negative)]
            else:
                found.append(_Term(x, negative))
        return found if any(_is_product(part.node) for part in found) else [term]

    def take(self, sums: Sequence[int]) -> bool:
        """Sink sums if there is memory for the new ys, and it pays; return whether."""
        terms = [term.node for i in sums for term in self.sums[i]]
        of_terms = {x: self.parts(x) for x in terms}
        parts = [x for each in of_terms.values() for x in each]
        new = [x for x in dict.fromkeys(parts) if x not in self.xs and x not in self.ys]
        room = self.room - sum(numbers(x.aval.shape) for x in new)
        if room < 0 or not all(of_terms.values()) or any(x.aval.weak for x in parts):
            return False
        if not all(map(_is_product, terms)) and not self.pays(terms, parts, new, len(terms)):
            return False
        self.room = room
        self.ys += new
        for i in sums:
            parts_of = [(term, of_terms[term.node]) for term in self.sums[i]]
            self.made[i] = self.total(self.loop.carry[i].init, parts_of)
        return True

    def parts(self, term: Node) -> list[Node]:
        """Return the values that have to be stacked for a term."""
        made_of, there = [_whole(x) for x in term.inputs], {*self.ys, *self.xs}
        if _is_product(term) or (len(made_of) == 1 and made_of[0] in there and is_batched(term)):
            return [x for x in made_of if not self.is_fixed(x)]
        return self.leaves(term, there) if term in there or self.is_apart(term) else [term]

    def total(self, init: Node, terms: Sequence[tuple[_Term, Sequence[Node]]]) -> Maker:
        """Return the initial value plus the terms of all iterations."""

        def made(graph: Graph, image: Mapping[Node, Node], stacks: Mapping[Node, Node]) -> Variable:
            totals = [] if is_zeros(init) else [Variable(graph, image[init])]
            for (term, negative), parts in terms:
                total = self.over_iterations(graph, image, term, {x: stacks[x] for x in parts})
                totals.append(-total if negative else total)
            return reduce(np.add, totals)

        return made

    def over_iterations(
        self, graph: Graph, image: Mapping[Node, Node], term: Node, stacks: Mapping[Node, Node]
    ) -> Variable:
        """Return a term summed over all iterations."""
        if term.op is MATMUL and len(stacks) == 2 and all(x.aval.ndim == 2 for x in term.inputs):
            a, b = for_all_iterations(graph, image, self.loop, term.inputs, stacks)
            return np.tensordot(Variable(graph, a), Variable(graph, b), axes=((0, 2), (0, 1)))
        (y,) = for_all_iterations(graph, image, self.loop, [term], stacks)
        return np.sum(Variable(graph, y), axis=0)


def _is_product(x: Node) -> bool:
    """Whether a value is a product with more numbers, or more work, than its operands."""
    if x.op is MULTIPLY:
        return all(numbers(y.aval.shape) < numbers(x.aval.shape) for y in x.inputs)
    return x.op.contracts


def _whole(x: Node) -> Node:
    """Return the base of a value that is a view of all elements of it."""
    while len(x.inputs) == 1 and x.op.view and _has_same_numbers(x, x.inputs[0]):
        (x,) = x.inputs
    return x


def _has_same_numbers(view: Node, x: Node) -> bool:
    return numbers(view.aval.shape) == numbers(x.aval.shape) and view.aval.dtype == x.aval.dtype


# ---- ys


class _Maps(_Sunk):
    """Small ys that no carry depends on, where stacks of their operands take little memory."""

    def look(self) -> None:
        n = len(self.loop.carry)
        made_of = {n + j: self.leaves(y) for j, y in enumerate(self.loop.ys) if self.is_apart(y)}
        made_of = {j: leaves for j, leaves in made_of.items() if leaves and not any(x.aval.weak for x in leaves)}
        if not self.saves(made_of):
            made_of = {j: leaves for j, leaves in made_of.items() if self.saves({j: leaves})}
        for j, leaves in made_of.items():
            self.made[j] = self.map(self.loop.results[j], leaves)
        self.ys = [y for j, y in enumerate(self.loop.ys) if n + j not in self.made]
        self.ys += self.new(made_of)

    def saves(self, made_of: Mapping[int, Sequence[Node]]) -> bool:
        """Whether the new stacks take no more memory than the old ones, or little for many operations."""
        size = lambda xs: sum(numbers(x.aval.shape) for x in xs)
        new, gone = self.new(made_of), [self.loop.results[j] for j in made_of]
        leaves = [x for each in made_of.values() for x in each]
        return size(new) <= size(gone) or self.pays(gone, leaves, new)

    def new(self, made_of: Mapping[int, Sequence[Node]]) -> list[Node]:
        """Return the values to stack that are not stacked yet."""
        gone = {self.loop.results[j] for j in made_of}
        there = {*self.xs, *(y for y in self.loop.ys if y not in gone)}
        return [x for x in dict.fromkeys(x for leaves in made_of.values() for x in leaves) if x not in there]

    def map(self, y: Node, leaves: Sequence[Node]) -> Maker:
        """Compute a value for all iterations, from stacks."""

        def made(graph: Graph, image: Mapping[Node, Node], stacks: Mapping[Node, Node]) -> Variable:
            (z,) = for_all_iterations(graph, image, self.loop, [y], {x: stacks[x] for x in leaves})
            return Variable(graph, z)

        return made


# ---- rematerialisation


class _Rematerialised(_Maps):
    """Ys that a few operations recompute from other ys and xs, for all iterations at once."""

    def look(self) -> None:
        if not self.is_long:
            return
        n, paid = len(self.loop.carry), set[Node]()
        kept: dict[Node, None] = {}
        for y in sorted(self.loop.ys, key=lambda y: y.id):
            there = {*self.xs, *kept}
            nodes = [] if y in self.xs else [x for x in needed([y], there) if not self.is_fixed(x)]
            if nodes and all(map(_is_plain, nodes)) and sum(_time(x) for x in nodes if x not in paid) <= costs.STACK:
                paid.update(nodes)
                leaves = {x for node in nodes for x in node.inputs if x in there}
                self.made[n + self.loop.ys.index(y)] = self.map(y, sorted(leaves, key=lambda x: x.id))
            else:
                kept[y] = None
        self.ys = [y for j, y in enumerate(self.loop.ys, n) if j not in self.made]


def _is_plain(x: Node) -> bool:
    """Whether an operation may be recomputed: not on booleans, which another rounding could change."""
    avals: list[Any] = [y.aval for y in (x, *x.inputs)]
    floats = all(type(aval) is Aval and (aval.dtype.kind == "f" or aval.weak) for aval in avals)
    return bool(x.inputs) and floats and (x.op.elementwise or x.op.view)


def _time(x: Node) -> float:
    """Estimate the nanoseconds of an operation on the numbers of one iteration, done for all iterations at once."""
    return 0.0 if x.op.view else (1.0 + x.op.nanoseconds) * numbers(x.aval.shape)
