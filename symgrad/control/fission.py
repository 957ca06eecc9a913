"""What of a loop can be done for all turns at once: before it, and behind it (loop fission).

A product of what one turn reads takes a call of NumPy in each turn; for all turns it is one product of matrices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.analysis.uses import users_of
from symgrad.analysis.values import is_zeros
from symgrad.control.opened import (
    Appended,
    Opened,
    Read,
    image_of,
    instead_of,
    items_of,
    loop_of,
    opened,
    stand_in,
    with_sources,
)
from symgrad.core.graph import ITEM, Aval, Graph, Node, depends, reached
from symgrad.core.region import Region, inline
from symgrad.derivatives.batch import batch
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL
from symgrad.ops.control import SCAN
from symgrad.ops.elementwise import ADD, MULTIPLY, SUBTRACT
from symgrad.rewrite.engine import Made, copied

FEW = 512
"""Numbers of which a function takes less time than calling it: for all turns at once it is computed much faster."""

MORE = 4
"""How many times the memory of what a loop reads and stacks may be taken for what is computed for all turns."""


class _Split(NamedTuple):
    """A loop, what it is in the program, and how much memory its turns have for it."""

    node: Node
    loop: Opened

    @property
    def room(self) -> int:
        """How many numbers there may be for each turn."""
        kept = [*(x.value for x in self.loop.sliced), *self.loop.stacked]
        return max(FEW, MORE * sum(numbers(x.aval.shape) for x in kept))


def _loops(nodes: Iterable[Node]) -> list[_Split]:
    """Loops that go over all of what they slice: others may end before."""
    found = [_Split(node, opened(loop_of(node))) for node in nodes if node.op is SCAN]
    return [each for each in found if each.loop.test is None and each.loop.sliced]


def for_all_turns(
    graph: Graph, image: Mapping[Any, Node], loop: Opened, outputs: Sequence[Node], stacks: Mapping[Node, Node]
) -> list[Node]:
    """What a turn computes of what it reads and of values of which there are stacks, appended for all turns at once."""
    given = {**{x.value: image[x.source] for x in loop.others if x.value not in stacks}}
    seeds = {x: graph.seed(x.aval) for x in stacks}
    region = Region(loop.graph, [*seeds, *given], outputs)
    body = inline(graph, region, [*seeds.values(), *given.values()])
    return batch(graph, [body[y] for y in outputs], {seeds[x]: stack for x, stack in stacks.items()})


def _is_batched(node: Node) -> bool:
    """Whether its operator works on one axis more as fast as NumPy goes."""
    op = node.op
    return op.elementwise or op.contracts or (len(node.inputs) == 1 and (op.view or bool(op.axes)))


# ---- before the loop


def compute_ahead(graph: Graph, numerics: str = "stable") -> Graph:
    """What turns compute of slices alone, for all turns at once before the loop: products, and what is small."""
    instead: dict[Node, Made] = {}
    for split in _loops(graph.live):
        ahead = _ahead(split)
        if ahead:
            instead |= instead_of(_with_slices_for(split.loop, ahead), split.node, {})
    return copied(graph, instead) if instead else graph


def _ahead(split: _Split) -> list[Node]:
    """What a turn makes of slices that is worth it, but for that of which only more such is made."""
    loop, room = split.loop, split.room
    nodes = reached(loop.results)
    moving, fixed = {x.value for x in loop.sliced}, {x.value for x in loop.others}
    found: list[Node] = []
    for node in nodes:
        known = all(x in moving or x in fixed or not (x.inputs or x in loop.graph.inputs) for x in node.inputs)
        if not node.inputs or not known or type(node.aval) is not Aval or node.aval.weak:
            continue
        if moving.isdisjoint(node.inputs):
            fixed.add(node)
        elif _is_batched(node) and numbers(node.aval.shape) <= (room if node.op.contracts else FEW):
            moving.add(node)
            found.append(node)
    inner = {x for x in found if x not in loop.results and moving.issuperset(users_of(nodes)[x])}
    return [x for x in found if x not in inner]


def _with_slices_for(loop: Opened, ahead: Sequence[Node]) -> Appended:
    """The loop that reads slices of what is computed ahead."""
    given = {x: stand_in(loop.graph, x.aval, x.where) for x in ahead}
    turn = {x: image_of(y) for x, y in given.items()}
    sliced = replace(loop, sliced=[*loop.sliced, *(Read(x, y) for x, y in given.items())])

    def made(graph: Graph, image: Mapping[Node, Node]) -> dict[Any, Node]:
        stacks = {x.value: image[x.source] for x in loop.sliced}
        return dict(zip(ahead, for_all_turns(graph, image, loop, ahead, stacks), strict=True))

    return with_sources(sliced.rewritten(lambda graph: copied(graph, turn)).without_unread(), made)


# ---- behind the loop


def accumulate_behind(graph: Graph, numerics: str = "stable") -> Graph:
    """Sums over turns that no turn reads: of products one of stacked operands, behind the loop."""
    instead: dict[Node, Made] = {}
    items = items_of(graph.live)
    for split in _loops(graph.live):
        sums = _Sums(split)
        if sums.terms:
            instead |= sums.instead(items[split.node])
    return copied(graph, instead) if instead else graph


class _Term(NamedTuple):
    """What is added in each turn, or subtracted."""

    node: Node
    negative: bool


class _Sums:
    """Those sums of a loop that are taken behind it."""

    def __init__(self, split: _Split) -> None:
        self.node, self.loop, self.room = split.node, split.loop, split.room
        self.slices = {x.value: x.source for x in self.loop.sliced}
        self.fixed = {x.value for x in self.loop.others}
        self.stacked = [*self.loop.stacked]
        self.terms: dict[int, list[_Term]] = {}
        nodes = reached([*self.loop.results, *(c.value for c in self.loop.carried)])
        users = users_of(nodes)
        sums = {i: terms for i in range(len(self.loop.carried)) if (terms := self.summed(i, nodes, users))}
        for products in (True, False):  # what products have stacked, others need not stack again
            for i, terms in sums.items():
                if any(_is_product(term.node) for term in terms) == products:
                    self.take(i, terms)

    def summed(self, i: int, nodes: Sequence[Node], users: Mapping[Node, Sequence[Node]]) -> list[_Term]:
        """What is added to a carried value in each turn, if nothing else becomes of it."""
        start, value, update = self.loop.carried[i]
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
        return terms if alone and all(y.aval == value.aval for y in (start, *(term.node for term in terms))) else []

    def take(self, i: int, terms: Sequence[_Term]) -> None:
        """Take a sum behind the loop if there is room for what is not stacked so far."""
        of_terms = [self.parts(term.node) for term in terms]
        parts = [x for each in of_terms for x in each]
        new = [x for x in dict.fromkeys(parts) if x not in self.slices and x not in self.stacked]
        free = all(_is_product(term.node) for term in terms) or not new
        room = self.room - sum(numbers(x.aval.shape) for x in new)
        if free and room >= 0 and all(of_terms) and not any(x.aval.weak for x in parts):
            self.room, self.terms[i] = room, [*terms]
            self.stacked += new

    def parts(self, term: Node) -> list[Node]:
        """The values of which stacks are needed for a term: of a sum of what is stacked anyhow, these."""
        made_of = [_whole(x) for x in term.inputs]
        is_there = len(made_of) == 1 and (made_of[0] in self.stacked or made_of[0] in self.slices)
        found = made_of if _is_product(term) or (is_there and _is_batched(term)) else [term]
        return [x for x in found if x not in self.fixed and (x.inputs or x in self.loop.graph.inputs)]

    def instead(self, items: Mapping[int, Node]) -> dict[Node, Made]:
        """How the loop is made without these sums, and they of its stacks."""
        loop, n = self.loop, len(self.loop.carried)
        kept = [i for i in range(n) if i not in self.terms]
        turns = loop.turns if loop.turns is not None else loop.sliced[0].source.aval.shape[0]
        after = replace(loop, carried=[loop.carried[i] for i in kept], stacked=self.stacked, turns=turns)
        places = {i: k for k, i in enumerate([*kept, *range(n, len(loop.results))])}
        numbered = {x: places[i] for i, x in items.items() if i in places}
        appended = after.without_unread().appended
        sums = {x: self.made(i, len(kept)) for i, x in items.items() if i in self.terms}
        return instead_of(appended, self.node, numbered) | sums

    def made(self, i: int, carried: int) -> Made:
        """How a sum is made of stacks, which come behind what is carried."""

        def total(graph: Graph, image: Mapping[Node, Node]) -> Variable:
            result = lambda k: graph.add(ITEM, (image[self.node],), (("index", carried + k),))
            stacks = {y: image[x] for y, x in self.slices.items()}
            stacks |= {y: result(k) for k, y in enumerate(self.stacked)}
            start = self.loop.carried[i].start
            sums = [self.over_turns(graph, image, term.node, stacks) for term in self.terms[i]]
            parts = [-x if term.negative else x for term, x in zip(self.terms[i], sums, strict=True)]
            return reduce(np.add, parts if is_zeros(start) else [Variable(graph, image[start]), *parts])

        return total

    def over_turns(self, graph: Graph, image: Mapping[Node, Node], term: Node, stacks: Mapping[Node, Node]) -> Variable:
        """A term for all turns, summed."""
        used = {x: stacks[x] for x in self.parts(term)}
        if term.op is MATMUL and len(used) == 2 and all(x.aval.ndim == 2 for x in term.inputs):
            a, b = for_all_turns(graph, image, self.loop, term.inputs, used)
            return np.tensordot(Variable(graph, a), Variable(graph, b), axes=((0, 2), (0, 1)))
        (y,) = for_all_turns(graph, image, self.loop, [term], used)
        return np.sum(Variable(graph, y), axis=0)


def _is_product(x: Node) -> bool:
    """Whether something is a product that has more numbers, or takes more work, than what it is made of."""
    if x.op is MULTIPLY:
        return all(numbers(y.aval.shape) < numbers(x.aval.shape) for y in x.inputs)
    return x.op.contracts


def _whole(x: Node) -> Node:
    """What a value is another view of, with all of its numbers."""
    while len(x.inputs) == 1 and x.op.view and numbers(x.aval.shape) == numbers(x.inputs[0].aval.shape):
        (x,) = x.inputs
    return x
