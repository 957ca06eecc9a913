"""Updates that are linear in the state of a loop: the state times a factor that is made before the loop.

``R + a * (R @ C) + b * (R @ C @ C)`` takes five calls of NumPy in each turn, and more in its pullback, where
``R @ (I + a * C + b * C @ C)`` takes one: the matrix needs no state, and is made for all turns at once.

What is lost: products are rounded in another order, and a factor that all turns share is wrong by the same rounding in
all of them. In n turns of ``x + h * (A @ x)`` these add up to n roundings, where independent ones would likely come to
the square root of n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from symgrad.analysis.cost import is_work, likely, numbers
from symgrad.analysis.uses import users_of
from symgrad.analysis.values import known_size
from symgrad.control.fission import FEW, Split, for_all_turns, is_batched
from symgrad.control.linear_forms import LINEAR, Form, Forms, factors_of
from symgrad.control.opened import Opened, Read, instead_of, opened, stand_in, with_sources
from symgrad.control.scalar_replacement import time_on_arrays, time_on_numbers
from symgrad.core.graph import Aval, Graph, Node, needed, reached
from symgrad.core.region import Region, inline
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL
from symgrad.ops.control import SCAN, may_fail
from symgrad.ops.control_parts import Loop, loop_of
from symgrad.products.contractions import contraction_of
from symgrad.rewrite.engine import Made, copied, replaced_within

CALL = 400.0
"""Nanoseconds that a call of NumPy takes."""

WORD = 0.5
"""And a number that it reads or writes."""

STACKED = 100.0
"""And a matrix in a stack, for which it calls BLAS."""

ROW = 150.0
"""And to take a row of a stack, there and in the pullback."""

WITH_PULLBACK = 3
"""How many times as much as the factors take they take with their derivative."""

GAIN = 0.75
"""The part of its time that an update may still take."""

SLOW = 2.0
"""How many times as long calls take that one is sure of: what is counted on arrays is the least."""

UNKNOWN_TURNS = 10
"""That a loop is reckoned to have that a test ends."""


def factor_updates(graph: Graph, fit: Callable[[Sequence[Node]], bool]) -> Graph:
    """What is linear in states of loops, as products of them with factors; `fit` says what Python can compute."""
    instead = _with_factors(graph.compound, fit)
    return copied(graph, instead) if instead else graph


def factor_updates_within(
    graph: Graph, fit: Callable[[Sequence[Node]], bool], outputs: Sequence[Node], kept: Sequence[Node], since: int
) -> dict[Node, Node]:
    """The same appended to a graph."""
    if all(x.op is not SCAN for x in graph.nodes[since:]):
        return {}
    nodes = graph.needed_for([*outputs, *kept])
    instead = _with_factors([x for x in nodes if x.id >= since], fit)
    return replaced_within(graph, nodes, instead) if instead else {}


def _with_factors(nodes: Sequence[Node], fit: Callable[[Sequence[Node]], bool]) -> dict[Node, Made]:
    instead: dict[Node, Made] = {}
    for node in nodes:
        if node.op is SCAN and _may_be_linear(loop := loop_of(node)):
            updates = _Updates(Split(node, opened(loop)))
            updates.look()
            after = updates.factored() if updates.forms else None
            if after and _is_faster(after, updates.loop, fit):
                instead |= instead_of(with_sources(after, partial(updates.made, after=after)), node, {})
    return instead


def _is_faster(after: Opened, before: Opened, fit: Callable[[Sequence[Node]], bool]) -> bool:
    """Whether factors save time if Python may compute with the numbers of small arrays, without calls."""
    least = time_on_numbers(before, fit)
    return least is None or GAIN * least > (time_on_numbers(after, fit) or SLOW * time_on_arrays(after))


def _may_be_linear(loop: Loop) -> bool:
    """Whether a turn adds up arrays and multiplies them, which is quickly seen."""
    linear = (x for x in loop.body.nodes if x.op in LINEAR and x.aval.shape)
    return any(x.aval.shape for x in loop.starts) and len([*islice(linear, 2)]) == 2


class Factor(NamedTuple):
    """A factor by what it is in a turn, and as the array that is made before the loop."""

    node: Node
    aval: Aval


class _Updates:
    """What in a turn is written anew, as forms."""

    def __init__(self, split: Split) -> None:
        self.loop = loop = split.loop
        self.nodes = reached([*loop.results, *([] if loop.test is None else [loop.test])])
        self.results = {*loop.results, loop.test}
        self.given = set(loop.graph.inputs)
        self.stack_size: Any = split.turns
        length = known_size(loop.length)
        self.turns = UNKNOWN_TURNS if length is None or loop.test is not None else max(likely(length), 1)
        self.fixed = {x.value for x in loop.others}
        self.known = {*self.fixed}
        if split.turns is not None and loop.checkpoint is None:
            self.known.update(x.value for x in loop.sliced)
        for x in self.nodes:
            self.learn(x)
        self.forms: dict[Node, Form] = {}  # of what they come into the place of
        self.gone = set[Node]()

    def learn(self, x: Node) -> None:
        """Note a value that needs no state, if it may be made before the loop."""
        if x in self.given or type(x.aval) is not Aval or self.loop.has_size_of_turn(x):
            return
        if self.fixed.issuperset(x.inputs) and not may_fail(x):
            self.fixed.add(x)
            self.known.add(x)
        elif self.known.issuperset(x.inputs) and not x.aval.weak and is_batched(x) and numbers(x.aval.shape) <= FEW:
            self.known.add(x)

    # ---- which forms are worth it

    def look(self) -> None:
        """Find them, the largest first."""
        graph = self.loop.graph
        forms = Forms(graph, self.known)
        found = [x for x in self.nodes if x not in forms.known and forms.read(x)]
        users = users_of(self.nodes)
        for x in reversed(found):
            if x not in self.gone and forms.of[x].terms:
                graph.provenance = x.where
                self.take(x, forms.of[x], users)

    def take(self, root: Node, form: Form, users: Mapping[Node, Sequence[Node]]) -> None:
        """Take a form if its products, and its factors, take clearly less time than what is gone then."""
        gone = self.without(root, form, users)
        if len(gone) < 2:
            return
        value, own = form.value(self.loop.graph).node, set(self.nodes) - gone
        made = needed([value], own)
        for x in made:
            self.learn(x)
        turn = [x for x in made if x not in self.known]
        ahead = [x for x in made if x in self.known]
        if not self.may_be_ahead(form):
            return
        rows = sum(x in ahead and x not in self.fixed for x in factors_of(form))
        time = sum(map(_time, turn)) + ROW * rows + WITH_PULLBACK * sum(map(self.time_ahead, ahead))
        if time <= GAIN * sum(map(_time, gone)):
            self.forms[root] = form
            self.gone |= gone

    def without(self, root: Node, form: Form, users: Mapping[Node, Sequence[Node]]) -> set[Node]:
        """What nothing needs any more if a value is made by its form."""
        atoms, gone = {x.atom for x in form.terms}, {root}
        for x in reversed(needed([root], atoms | self.known)):
            if x not in self.results and all(y in gone for y in users[x]):
                gone.add(x)
        return gone

    def may_be_ahead(self, form: Form) -> bool:
        """Whether all that is not of the state may be made before the loop."""
        return all(x in self.known and (x in self.fixed or not x.aval.weak) for x in factors_of(form))

    def time_ahead(self, x: Node) -> float:
        """The nanoseconds, of those of one turn, that it takes to make a part of a factor before the loop."""
        if x in self.fixed:
            return _time(x) / self.turns
        return CALL / self.turns + STACKED * (x.op is MATMUL) + _time(x) - CALL

    # ---- how they are made

    def factored(self) -> Opened:
        """The loop that reads factors."""
        loop = self.loop
        factors = dict.fromkeys(x for form in self.forms.values() for x in factors_of(form) if x.inputs)
        given = {x: stand_in(loop.graph, x.aval, x.where) for x in factors}
        instead = {root: _written(form, given) for root, form in self.forms.items()}
        fixed = [Read(Factor(x, x.aval), y) for x, y in given.items() if x in self.fixed]
        sliced = [Read(self.stacked(x), y) for x, y in given.items() if x not in self.fixed]
        after = replace(loop, sliced=[*loop.sliced, *sliced], others=[*loop.others, *fixed])
        return after.rewritten(lambda turn: copied(turn, instead)).without_unread()

    def stacked(self, x: Node) -> Factor:
        """The stack of a factor of all turns."""
        return Factor(x, x.aval._replace(shape=(self.stack_size, *x.aval.shape)))

    def made(self, graph: Graph, image: Mapping[Node, Node], after: Opened) -> dict[Any, Node]:
        """The factors that the loop reads."""
        loop = self.loop
        fixed, sliced = ([x.source for x in part if type(x.source) is Factor] for part in (after.others, after.sliced))
        region = Region(loop.graph, [x.value for x in loop.others], [x.node for x in fixed])
        body = inline(graph, region, [image[x.source] for x in loop.others])
        stacks = {x.value: image[x.source] for x in loop.sliced}
        of_turns = for_all_turns(graph, image, loop, [x.node for x in sliced], stacks) if sliced else []
        return {x: body[x.node] for x in fixed} | dict(zip(sliced, of_turns, strict=True))


def _written(form: Form, given: Mapping[Node, Node]) -> Made:
    """A form in the graph of a turn that is given its factors."""

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        there = lambda x: Variable(graph, image[given.get(x.node, x.node)]) if isinstance(x, Variable) else x
        terms = [x._replace(atom=image[x.atom], factor=there(x.factor)) for x in form.terms]
        return Form(tuple(terms), there(form.rest)).value(graph)

    return made


def _time(x: Node) -> float:
    """The nanoseconds that a node takes in one turn."""
    if not is_work(x) or not x.inputs:
        return 0.0
    contraction = contraction_of(x)
    if contraction is not None:
        return CALL + WORD * contraction.work()
    return CALL + x.op.nanoseconds * numbers(x.aval.shape) + WORD * sum(numbers(y.aval.shape) for y in (x, *x.inputs))
