"""Linear recurrences: an update that is linear in the carry becomes the carry times a factor made before the loop.

``R + a * (R @ C) + b * (R @ C @ C)`` takes five calls of NumPy in each iteration, and more in its pullback. ``R @ (I +
a * C + b * C @ C)`` takes one: the matrix does not depend on the carry, and is made for all iterations at once.

The price is rounding. Products are rounded in another order, and all iterations share the rounding error of a
loop-invariant factor: in n iterations of ``x + h * (A @ x)`` it adds up to n errors, where independent errors would
grow as the square root of n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from symgrad.analysis import costs
from symgrad.analysis.cost import UNKNOWN_ITERATIONS, is_work, likely, numbers
from symgrad.analysis.uses import users_of
from symgrad.analysis.values import known_size
from symgrad.control.fission import FEW, Split, is_batched
from symgrad.control.linear_forms import LINEAR, Form, Forms, factors_of
from symgrad.control.replacement import Recorded, instead_of, rebuilt
from symgrad.control.scalar_replacement import time_on_arrays, time_on_numbers
from symgrad.core.graph import Aval, Graph, Node, needed, reached
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL
from symgrad.ops.control import SCAN, may_fail
from symgrad.ops.control_parts import Loop, loop_of
from symgrad.products.contractions import contraction_of
from symgrad.rewrite.engine import Made

WITH_PULLBACK = 3
"""Ratio of the time of the factors with their derivative to their time alone."""

GAIN = 0.75
"""Fraction of its time that an update may still take."""

SLOW = 2.0
"""Ratio of the real time of calls to the estimated one that must not matter: estimates for arrays are lower bounds."""


def factor_updates(graph: Graph, fit: Callable[[Sequence[Node]], bool]) -> Graph:
    """Factor linear updates of carries; `fit` tells whether Python can compute a body."""
    return rebuilt(graph, SCAN, lambda node, _: _with_factors(node, fit))


def _with_factors(node: Node, fit: Callable[[Sequence[Node]], bool]) -> dict[Node, Made]:
    loop = loop_of(node)
    if not _may_be_linear(loop):
        return {}
    updates = _Updates(Split(node, loop.opened()))
    updates.look()
    if not updates.forms:
        return {}
    after, recorded = updates.factored()
    return instead_of(recorded, node, {}) if _is_faster(after, updates.loop, fit) else {}


def _is_faster(after: Loop, before: Loop, fit: Callable[[Sequence[Node]], bool]) -> bool:
    """Whether factors save time even if Python may compute small arrays without NumPy calls."""
    least = time_on_numbers(before, fit)
    return least is None or GAIN * least > (time_on_numbers(after, fit) or SLOW * time_on_arrays(after))


def _may_be_linear(loop: Loop) -> bool:
    """Whether a body adds and multiplies arrays: a quick test."""
    linear = (x for x in loop.body.nodes if x.op in LINEAR and x.aval.shape)
    return any(c.init.aval.shape for c in loop.carry) and len([*islice(linear, 2)]) == 2


class _Updates:
    """The values of a body that are rewritten as linear forms."""

    def __init__(self, split: Split) -> None:
        self.split, self.loop = split, (loop := split.loop)
        self.nodes = reached(loop.ends)
        self.results = set(loop.ends)
        self.given = set(loop.graph.inputs)
        length = known_size(loop.length)
        self.iterations = UNKNOWN_ITERATIONS if length is None or loop.test is not None else max(likely(length), 1)
        self.fixed = {x.value for x in loop.consts}
        self.known = {*self.fixed}
        if split.iterations is not None and loop.checkpoint is None:
            self.known.update(x.value for x in loop.xs)
        for x in self.nodes:
            self.learn(x)
        self.forms: dict[Node, Form] = {}  # value -> the form that replaces it
        self.gone = set[Node]()

    def learn(self, x: Node) -> None:
        """Note a value that is independent of the carry, if it may be hoisted."""
        if x in self.given or type(x.aval) is not Aval or self.loop.has_size_of_iteration(x):
            return
        if self.fixed.issuperset(x.inputs) and not may_fail(x):
            self.fixed.add(x)
            self.known.add(x)
        elif self.known.issuperset(x.inputs) and not x.aval.weak and is_batched(x) and numbers(x.aval.shape) <= FEW:
            self.known.add(x)

    # ---- choice of forms

    def look(self) -> None:
        """Find values to rewrite, the largest first."""
        graph = self.loop.graph
        forms = Forms(graph, self.known)
        found = [x for x in self.nodes if x not in forms.known and forms.read(x)]
        users = users_of(self.nodes)
        for x in reversed(found):
            if x not in self.gone and forms.of[x].terms:
                graph.provenance = x.where
                self.take(x, forms.of[x], users)

    def take(self, root: Node, form: Form, users: Mapping[Node, Sequence[Node]]) -> None:
        """Take a form if its products and factors take clearly less time than the nodes that become dead."""
        gone = self.without(root, form, users)
        if len(gone) < 2:
            return
        value, own = form.value(self.loop.graph).node, set(self.nodes) - gone
        made = needed([value], own)
        for x in made:
            self.learn(x)
        inside = [x for x in made if x not in self.known]
        ahead = [x for x in made if x in self.known]
        if not self.may_be_ahead(form):
            return
        rows = sum(x in ahead and x not in self.fixed for x in factors_of(form))
        time = sum(map(_time, inside)) + costs.ROWS * rows + WITH_PULLBACK * sum(map(self.time_ahead, ahead))
        if time <= GAIN * sum(map(_time, gone)):
            self.forms[root] = form
            self.gone |= gone

    def without(self, root: Node, form: Form, users: Mapping[Node, Sequence[Node]]) -> set[Node]:
        """Return the nodes that become dead if a value is computed by its form."""
        atoms, gone = {x.atom for x in form.terms}, {root}
        for x in reversed(needed([root], atoms | self.known)):
            if x not in self.results and all(y in gone for y in users[x]):
                gone.add(x)
        return gone

    def may_be_ahead(self, form: Form) -> bool:
        """Whether all factors of a form, and its rest, may be hoisted."""
        return all(x in self.known and (x in self.fixed or not x.aval.weak) for x in factors_of(form))

    def time_ahead(self, x: Node) -> float:
        """Estimate the nanoseconds, for each iteration, of a part of a factor made before the loop."""
        if x in self.fixed:
            return _time(x) / self.iterations
        return costs.LEAST_CALL / self.iterations + costs.MATRIX * (x.op is MATMUL) + _time(x) - costs.LEAST_CALL

    # ---- the new loop

    def factored(self) -> tuple[Loop, Recorded]:
        """Return the loop that reads factors, and its maker."""
        factors = dict.fromkeys(x for form in self.forms.values() for x in factors_of(form) if x.inputs)
        once, for_all = ([x for x in factors if (x in self.fixed) is fixed] for fixed in (True, False))
        written = lambda given: {root: _written(form, given) for root, form in self.forms.items()}
        return self.split.reading(once, for_all, written)


def _written(form: Form, given: Mapping[Node, Node]) -> Made:
    """Return a maker of a form in the body; `given` are the parameters for its factors."""

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        there = lambda x: Variable(graph, image[given.get(x.node, x.node)]) if isinstance(x, Variable) else x
        terms = [x._replace(atom=image[x.atom], factor=there(x.factor)) for x in form.terms]
        return Form(tuple(terms), there(form.rest)).value(graph)

    return made


def _time(x: Node) -> float:
    """Estimate the nanoseconds that a node takes in one iteration."""
    if not is_work(x) or not x.inputs:
        return 0.0
    contraction = contraction_of(x)
    if contraction is not None:
        return costs.LEAST_CALL + costs.NEAR * contraction.work()
    return (
        costs.LEAST_CALL
        + x.op.nanoseconds * numbers(x.aval.shape)
        + costs.NEAR * sum(numbers(y.aval.shape) for y in (x, *x.inputs))
    )
