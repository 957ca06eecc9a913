"""The pullback of a loop: a loop that runs backwards over the turns that there were.

It carries the cotangents of what the loop carries, and sums those of what every turn reads as it is; those of slices it
stacks. What it reads of a turn and cannot compute again cheaply the loop is appended once more to stack, behind the
stacks that it had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.core.graph import CONSTANT, SIZE, Graph, Node
from symgrad.core.region import Region
from symgrad.core.shapes import same_shape
from symgrad.derivatives.bodies import Back, appended, as_number, item, seed_for, strong, zeros
from symgrad.derivatives.loops import Loop, Turns, number_of
from symgrad.derivatives.segments import is_segmented, through_segments
from symgrad.errors import NotDifferentiableError
from symgrad.frontend.bodies import promoted
from symgrad.frontend.variable import Variable, freeze
from symgrad.ops.control import SCAN, parted
from symgrad.ops.create import FULL
from symgrad.ops.elementwise import ADD
from symgrad.ops.index import ADD_AT
from symgrad.ops.index_expressions import EVERYTHING, Slot


def through_loop(
    graph: Graph, node: Node, cotangents: Mapping[int, Node], active: Sequence[int], back: Back
) -> dict[int, Node]:
    """Append the pullback of a loop to the graph: as `through_branch`.

    References
    ----------
    Griewank & Walther, *Evaluating Derivatives*, 2nd ed., ch. 3 and 12.
    """
    params = dict(node.params)
    if "test" in params and params.get("reverse"):
        return _through_mirrored(graph, node, cotangents, active, back)
    if is_segmented(node):
        return through_segments(graph, node, cotangents, active, back)
    return _Backward(graph, node, cotangents, active).through(back)


class _Backward(Loop):
    """The pullback of a loop that runs upwards, or as often as its length says."""

    def __init__(self, graph: Graph, node: Node, cotangents: Mapping[int, Node], active: Sequence[int]) -> None:
        super().__init__(graph, node)
        self.cotangents, self.active = cotangents, [i - 1 for i in active]

    def through(self, back: Back) -> dict[int, Node]:
        """The cotangents of the inputs of the node, by their numbers."""
        graph, n = self.graph, len(self.carry)
        arrived, found = self.differentiated(back)
        live = [i for i in range(n) if i in arrived]
        flows = [i for i in self.active if i >= n and self.stand_ins[i] in found]
        stacked = [i for i in flows if i < n + len(self.slices) and self.has_a_slice_per_turn(self.inputs[i])]
        summed = {i: seed_for(graph, self.stand_ins[i], self.inputs[i].aval) for i in flows if i not in stacked}
        made = [found.get(self.carry[i]) or zeros(graph, strong(self.carry[i].aval)) for i in live]
        made += [self.added(i, total, found[self.stand_ins[i]]) for i, total in summed.items()]
        made += [found[self.stand_ins[i]] for i in stacked]
        stacks, count = self.stacks(made, [*arrived.values(), *summed.values()])
        init = [self.cotangents.get(i) or zeros(graph, self.carry[i].aval) for i in live]
        starts = [promoted(graph, g, strong(g.aval)) for g in init]
        starts += [zeros(graph, strong(self.inputs[i].aval)) for i in summed]
        slots = {x: graph.seed(strong(x.aval)) for x in stacks}
        slices = {slots[x]: stack for x, stack in stacks.items()} | self.bound(self.slices)
        backward = Turns(
            count,
            dict(zip([*(arrived[i] for i in live), *summed.values()], starts, strict=True)),
            self.place,
            slices | {g: self.cotangents[i] for i, g in arrived.items() if i >= n},
            self.bound(self.others),
            made,
            self.turns,
            not self.reverse,
        ).recorded(graph, {x: as_number(graph, slot, x) for x, slot in slots.items()})
        return {i + 1: item(graph, backward, k) for k, i in enumerate([*live, *summed, *stacked]) if i in self.active}

    # ---- one turn

    def differentiated(self, back: Back) -> tuple[dict[int, Node], dict[Node, Node]]:
        """Stand-ins for the cotangents of the results of a turn, and the cotangents of its parameters."""
        n, results = len(self.carry), self.body.results
        live = self.carries_between(self.active, self.cotangents)
        wanted = [self.stand_ins[i] for i in self.active if i >= n]
        while True:
            through = [*live, *(i for i in self.cotangents if i >= n)]
            arrived = {i: seed_for(self.graph, results[i]) for i in through}
            pairs = {g: results[i] for i, g in arrived.items()}
            found = back(self.body, pairs, [*(self.carry[i] for i in live), *wanted])
            idle = [i for i in live if i not in self.cotangents and self.carry[i] not in found]
            if not idle:
                return arrived, found
            live = [i for i in live if i not in idle]

    def has_a_slice_per_turn(self, x: Node) -> bool:
        return not self.tested and same_shape(x.aval.shape[:1], (self.turns,))

    def added(self, i: int, total: Node, g: Node) -> Node:
        """The sum of the cotangents of what every turn reads, with that of one turn."""
        if i < len(self.carry) + len(self.slices):
            row = (Slot(0), *[EVERYTHING] * g.aval.ndim)
            return ADD_AT(*[Variable(self.graph, x) for x in (total, g, self.place)], key=row).node
        return _added(Variable(self.graph, total), Variable(self.graph, g)).node

    # ---- the loop once more

    def stacks(self, made: Sequence[Node], cotangents: Sequence[Node]) -> tuple[dict[Node, Node], Node]:
        """What is kept of each turn, with the stacks that hold it; and the number of turns."""
        n, results = len(self.carry), self.body.results
        places = {results[i]: i for i in range(n, len(results))}
        kept = self.body.residuals(made, cotangents, self.carry, places)
        new = [x for x in kept if x not in places]
        places |= {x: len(results) + k for k, x in enumerate(new)}
        kept_too = [promoted(self.graph, x, strong(x.aval)) for x in new]
        node = self.again([*results, *kept_too]) if new else self.node
        count = item(self.graph, node, len(node.aval) - 1) if self.tested else self.length
        return {x: item(self.graph, node, places[x]) for x in kept}, count


def _added(total: Variable, g: Variable) -> Variable:
    """A sum; what is added to places of zeros is added to those places of the total."""
    node, xs = g.node, [Variable(g.graph, x) for x in g.node.inputs]
    if node.op is ADD and any(x.node.op in (ADD, ADD_AT) for x in xs):
        return _added(_added(total, xs[0]), xs[1])
    if node.op is ADD_AT and xs[0].node.op is FULL and not np.any(xs[0].node.inputs[0].constant):
        return ADD_AT(total, *xs[1:], **dict(node.params))
    return total + g


def _through_mirrored(
    graph: Graph, node: Node, cotangents: Mapping[int, Node], active: Sequence[int], back: Back
) -> dict[int, Node]:
    """The same for a loop that runs downwards until a test fails: as one that runs upwards over reversed slices."""
    params, (length, *inputs) = dict(node.params), node.inputs
    n, sliced = params["carried"], params.get("sliced", 0)
    flipped = lambda x: Variable(graph, x)[::-1].node
    carry, arrays, others = parted(inputs, n, sliced)
    if not all(length.op in (CONSTANT, SIZE) and same_shape(x.aval.shape[:1], (number_of(length),)) for x in arrays):
        raise NotDifferentiableError(
            "a loop runs downwards over a part of an array until a test fails",
            "Slice the array before the loop, and run over all of the slice.",
            node.where,
        )
    region = params["body"]
    seeds = [graph.seed(x.aval) for x in region.parameters]
    turn, bound = seeds[n], graph.seed(length.aval)
    place: Any = Variable(graph, bound) - (Variable(graph, turn) + 1)
    given = [*seeds[:n], as_number(graph, place.node, turn), *seeds[n + 1 :]]
    body = Region(graph, [*seeds, bound], appended(graph, region, given).results)
    of_test = [*given[: n + 1], *given[n + 1 + sliced :]]
    free = [*seeds[: n + 1], *seeds[n + 1 + sliced :], bound]
    test = Region(graph, free, appended(graph, params["test"], of_test).results)
    changed = {"body": body, "test": test, "reverse": False}
    upwards = graph.add(
        SCAN, (length, *carry, *map(flipped, arrays), *others, length), freeze(SCAN, {**params, **changed})
    )
    turned = {i: g if i < n else flipped(g) for i, g in cotangents.items()}
    found = through_loop(graph, upwards, turned, active, back)
    return {i: flipped(g) if n < i <= n + sliced else g for i, g in found.items()}
