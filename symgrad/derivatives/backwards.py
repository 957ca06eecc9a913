"""The pullback of a loop: a loop that runs backwards over the iterations.

Of a loop ``[consts, carry, xs] -> [carry, ys]`` it is ``[residuals, CT carry, CT ys] -> [CT consts, CT carry, CT xs]``.

Cotangents of consts are summed, those of xs are stacked. Residuals that are expensive to rematerialise become further
ys of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from symgrad.analysis.values import known_size
from symgrad.core.graph import Node
from symgrad.core.region import Region
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import same
from symgrad.derivatives.bodies import Pull, appended, as_number, seed_for, strong, zeros
from symgrad.derivatives.loops import Loop, Turns
from symgrad.derivatives.segments import is_segmented, through_segments
from symgrad.derivatives.totals import added
from symgrad.errors import NotDifferentiableError
from symgrad.frontend.bodies import promoted
from symgrad.frontend.variable import Variable, freeze
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.ops.index import ADD_AT
from symgrad.ops.index_expressions import EVERYTHING, Slot


def through_loop(pull: Pull) -> dict[int, Node]:
    """Append the pullback of a loop to the graph; arguments and result as for `through_branch`.

    References
    ----------
    Griewank & Walther, *Evaluating Derivatives*, 2nd ed., ch. 3 and 12.
    """
    params = dict(pull.node.params)
    if "test" in params and params.get("reverse"):
        return _through_mirrored(pull)
    return through_segments(pull) if is_segmented(pull.node) else _Backward(pull).through()


class _Turn(NamedTuple):
    """A backward iteration: stand-ins, by the numbers of results and inputs, and cotangents of parameters."""

    arrived: dict[int, Node]
    summed: dict[int, Node]
    found: dict[Node, Node]


class _Backward(Loop):
    """The pullback of a loop that counts upwards, or whose length is known."""

    def __init__(self, pull: Pull) -> None:
        super().__init__(pull.graph, pull.node)
        self.back, self.totals = pull.back, pull.totals
        self.cotangents, self.active = pull.cotangents, [i - 1 for i in pull.active]

    def through(self) -> dict[int, Node]:
        """Return the cotangents of the inputs of the node, by their numbers."""
        graph, n = self.graph, len(self.carry)
        arrived, summed, found = self.differentiated()
        init = {i: self.start(i) for i in arrived if i < n}
        fixed = {i: x for i, x in init.items() if found.get(self.carry[i]) is arrived[i]}
        live = [i for i in init if i not in fixed]
        stacked = [i for i in self.active if i >= n and i not in summed and self.stand_ins[i] in found]
        made = [found.get(self.carry[i]) or zeros(graph, strong(self.carry[i].aval)) for i in live]
        made += [found[self.stand_ins[i]] for i in [*summed, *stacked]]
        stacks, count = self.stacks(made, [*arrived.values(), *summed.values()])
        starts = [init[i] for i in live]
        begun = {i: self.totals.pop(i + 1) for i in summed if i + 1 in self.totals}
        starts += [begun.get(i) or zeros(graph, strong(self.inputs[i].aval)) for i in summed]
        slots = {x: graph.seed(strong(x.aval)) for x in stacks}
        slices = {slots[x]: stack for x, stack in stacks.items()} | self.bound(self.slices)
        backward = Turns(
            count,
            dict(zip([*(arrived[i] for i in live), *summed.values()], starts, strict=True)),
            self.place,
            slices | {g: self.cotangents[i] for i, g in arrived.items() if i >= n},
            self.bound(self.others) | {arrived[i]: x for i, x in fixed.items()},
            made,
            self.turns,
            not self.reverse,
            place_size=self.parts.place_size,
        ).recorded(graph, {x: as_number(graph, slot, x) for x, slot in slots.items()})
        results = fixed | {i: graph.item(backward, k) for k, i in enumerate([*live, *summed, *stacked])}
        return {i + 1: g for i, g in results.items() if i in self.active}

    def start(self, i: int) -> Node:
        """Return the cotangent of the final carry."""
        g = self.cotangents.get(i) or zeros(self.graph, self.carry[i].aval)
        return promoted(self.graph, g, strong(g.aval))

    # ---- one iteration

    def differentiated(self) -> _Turn:
        """Pull back one iteration: ``[residuals, CT consts, CT carry, CT ys] -> [CT consts, CT carry, CT xs]``."""
        graph, n, results = self.graph, len(self.carry), self.body.results
        live = self.carries_between(self.active, self.cotangents)
        wanted = [i for i in self.active if i >= n]
        sums = {i: seed_for(graph, self.stand_ins[i], self.inputs[i].aval) for i in wanted if not self.is_stacked(i)}
        while True:
            through = [*live, *(i for i in self.cotangents if i >= n)]
            arrived = {i: seed_for(graph, results[i]) for i in through}
            pairs = {g: results[i] for i, g in arrived.items()}
            others = {self.stand_ins[i]: total for i, total in sums.items() if self.stand_ins[i] in self.others}
            found = self.back(self.body, pairs, [self.stand_ins[i] for i in [*live, *wanted]], others)
            idle = [i for i in live if i not in self.cotangents and self.carry[i] not in found]
            if not idle:
                break
            live = [i for i in live if i not in idle]
        summed = {i: total for i, total in sums.items() if self.stand_ins[i] in found}
        return _Turn(arrived, summed, found | {self.stand_ins[i]: self.added(i, x, found) for i, x in summed.items()})

    def is_stacked(self, i: int) -> bool:
        """Whether the cotangent of an input is stacked: for one of the xs, of which iterations slice all."""
        sliced = i < len(self.carry) + len(self.slices)
        return sliced and not self.tested and same_shape(self.inputs[i].aval.shape[:1], (self.turns,))

    def added(self, i: int, total: Node, found: Mapping[Node, Node]) -> Node:
        """Return the accumulated cotangent of an input, with that of one iteration added."""
        g = found[self.stand_ins[i]]
        if self.stand_ins[i] in self.others:
            return added(self.graph, total, g)
        row = (Slot(0), *[EVERYTHING] * g.aval.ndim)
        return ADD_AT(*[Variable(self.graph, x) for x in (total, g, self.place)], key=row).node

    # ---- the loop once more

    def stacks(self, made: Sequence[Node], cotangents: Sequence[Node]) -> tuple[dict[Node, Node], Node]:
        """Return the stacked residuals, and the number of iterations; further residuals become ys of the loop."""
        n, results = len(self.carry), self.body.results
        places = {results[i]: i for i in range(n, len(results))}
        kept = self.body.residuals(made, cotangents, self.carry, places)
        new = [x for x in kept if x not in places]
        places |= {x: len(results) + k for k, x in enumerate(new)}
        kept_too = [promoted(self.graph, x, strong(x.aval)) for x in new]
        node = self.again([*results, *kept_too]) if new else self.node
        count = self.graph.item(node, len(node.aval) - 1) if self.tested else self.length
        return {x: self.graph.item(node, places[x]) for x in kept}, count


def _through_mirrored(pull: Pull) -> dict[int, Node]:
    """Pull back a loop that counts downwards until a condition fails, as one that counts upwards over reversed xs."""
    graph, node = pull.graph, pull.node
    loop = loop_of(node)
    assert loop.test is not None
    length, carry, arrays, others = loop.length, loop.starts, loop.slices_of, loop.others
    n, sliced = len(carry), len(arrays)
    flipped = lambda x: Variable(graph, x)[::-1].node
    size = known_size(length)
    if not all(size is not None and same(x.aval.shape[0], size) for x in arrays):
        raise NotDifferentiableError(
            "a loop with a condition counts downwards over a part of an array",
            "Slice the array before the loop, and loop over the whole slice.",
            node.where,
        )
    if loop.place_size is not None:
        raise NotDifferentiableError(
            "a loop with a condition counts downwards, and has slices whose bounds depend on its index",
            "Use slices of one size, or count upwards.",
            node.where,
        )
    region = loop.body
    seeds = [graph.seed(x.aval) for x in region.parameters]
    turn, bound = seeds[n], graph.seed(length.aval)
    place: Any = Variable(graph, bound) - (Variable(graph, turn) + 1)
    given = [*seeds[:n], as_number(graph, place.node, turn), *seeds[n + 1 :]]
    body = Region(graph, [*seeds, bound], appended(graph, region, given).results)
    of_test = [*given[: n + 1], *given[n + 1 + sliced :]]
    free = [*seeds[: n + 1], *seeds[n + 1 + sliced :], bound]
    test = Region(graph, free, appended(graph, loop.test, of_test).results)
    changed = {"body": body, "test": test, "reverse": False}
    upwards = graph.add(
        SCAN, (length, *carry, *map(flipped, arrays), *others, length), freeze(SCAN, {**dict(node.params), **changed})
    )
    turned = {i: g if i < n else flipped(g) for i, g in pull.cotangents.items()}
    found = through_loop(pull._replace(node=upwards, cotangents=turned, totals={}))
    return {i: flipped(g) if n < i <= n + sliced else g for i, g in found.items()}
