"""The pullback of a loop: a loop that runs backwards over the turns that there were.

It carries the cotangents of what the loop carries, and sums those of what every turn reads as it is; those of slices it
stacks. What it reads of a turn and cannot compute again cheaply the loop is appended once more to stack, behind the
stacks that it had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import CONSTANT, SIZE, Aval, Graph, Node, depends, reached
from symgrad.core.region import Region, closed
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import Size
from symgrad.derivatives.bodies import Back, appended, images, item, seed_for, strong, zeros
from symgrad.errors import NotDifferentiableError
from symgrad.frontend.bodies import promoted
from symgrad.frontend.variable import Variable, freeze
from symgrad.ops.control import NUMBER, SCAN, parted, within
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
    return _Backward(graph, node, cotangents, active).through(back)


class _Turns(NamedTuple):
    """A loop in the making: stand-ins, each with what it stands for, and what a turn makes of them."""

    length: Node
    carry: dict[Node, Node]
    place: Node
    slices: dict[Node, Node]
    others: dict[Node, Node]
    results: Sequence[Node]
    turns: Size
    reverse: bool
    test: Sequence[Node] = ()

    def recorded(self, graph: Graph, instead: dict[Node, Node]) -> Node:
        """The node of the loop; `instead` has images for values of a turn. What does not move stands outside."""
        given = [*self.carry, self.place, *self.slices]
        image = dict(zip(given, given, strict=True)) | self.others | instead
        made = [*self.results, *self.test]
        image = images(graph, graph, Region(graph, [*image], made), [*image.values()])
        made = [image[y] for y in made]
        nodes = set(reached(made))
        slices = {x: array for x, array in self.slices.items() if x in nodes}
        given = [*self.carry, self.place, *slices]
        others = closed(graph, given, made, within(made, given).__contains__).parameters[len(given) :]
        n = len(self.carry)
        body = Region(graph, [*given, *others], made[: len(self.results)])
        params: dict[str, Any] = {"body": body, "carried": n, "sliced": len(slices), "reverse": self.reverse}
        params["turns"] = self.turns
        if self.test:
            params["test"] = Region(graph, [*given[: n + 1], *others], made[len(self.results) :])
        inputs = (self.length, *self.carry.values(), *slices.values(), *others)
        return graph.add(SCAN, inputs, freeze(SCAN, params))


class _Backward:
    """The pullback of a loop that runs upwards, or as often as its length says."""

    def __init__(self, graph: Graph, node: Node, cotangents: Mapping[int, Node], active: Sequence[int]) -> None:
        self.graph, self.node, self.cotangents = graph, node, cotangents
        self.params = dict(node.params)
        self.length, *self.inputs = node.inputs
        region, n = self.params["body"], self.params["carried"]
        self.body = appended(graph, region, [graph.seed(x.aval) for x in region.parameters])
        *carry, self.place = self.body.parameters[: n + 1]
        self.stand_ins = [*carry, *self.body.parameters[n + 1 :]]  # for the inputs
        self.carry, self.slices, self.others = parted(self.stand_ins, n, self.params.get("sliced", 0))
        self.active = [i - 1 for i in active]
        self.turns = _turns(graph, node)

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
        slots = {x: graph.seed(Aval(x.aval.shape, x.aval.dtype)) for x in stacks}
        backward = _Turns(
            count,
            dict(zip([*(arrived[i] for i in live), *summed.values()], starts, strict=True)),
            self.place,
            {slots[x]: stack for x, stack in stacks.items()}
            | dict(zip(self.slices, self.inputs[n:], strict=False))
            | {g: self.cotangents[i] for i, g in arrived.items() if i >= n},
            self.bound_others,
            made,
            self.turns,
            not self.params.get("reverse", False),
        ).recorded(graph, {x: _as_was(graph, slot, x) for x, slot in slots.items()})
        return {i + 1: item(graph, backward, k) for k, i in enumerate([*live, *summed, *stacked]) if i in self.active}

    @property
    def bound_others(self) -> dict[Node, Node]:
        return dict(zip(self.others, self.inputs[len(self.inputs) - len(self.others) :], strict=True))

    # ---- one turn

    def differentiated(self, back: Back) -> tuple[dict[int, Node], dict[Node, Node]]:
        """Stand-ins for the cotangents of the results of a turn, and the cotangents of its parameters."""
        n, results = len(self.carry), self.body.results
        live = self.carries_with_cotangents()
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

    def carries_with_cotangents(self) -> list[int]:
        """What depends on something that cotangents are wanted of, and has an influence on what has one."""
        n, results = len(self.carry), self.body.results
        moving, reaching = set(self.active), {i for i in self.cotangents}
        for _ in range(n):
            nodes = depends(self.body.nodes, [self.stand_ins[i] for i in moving])
            moving |= {i for i in range(n) if results[i] in nodes and results[i].aval.differentiable}
            nodes = set(reached([results[i] for i in reaching]))
            reaching |= {i for i in range(n) if self.carry[i] in nodes}
        return sorted(i for i in moving & reaching if i < n)

    def has_a_slice_per_turn(self, x: Node) -> bool:
        return "test" not in self.params and same_shape(x.aval.shape[:1], (self.turns,))

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
        node = self.extended(new) if new else self.node
        count = item(self.graph, node, len(node.aval) - 1) if "test" in self.params else self.length
        return {x: item(self.graph, node, places[x]) for x in kept}, count

    def extended(self, further: Sequence[Node]) -> Node:
        """The loop once more, with stacks of further values behind those that it has."""
        graph, n = self.graph, len(self.carry)
        test: Sequence[Node] = ()
        if "test" in self.params:
            test = appended(graph, self.params["test"], [*self.carry, self.place, *self.others]).results
        return _Turns(
            self.length,
            dict(zip(self.carry, self.inputs, strict=False)),
            self.place,
            dict(zip(self.slices, self.inputs[n:], strict=False)),
            self.bound_others,
            [*self.body.results, *(promoted(graph, x, strong(x.aval)) for x in further)],
            self.turns,
            self.params.get("reverse", False),
            test,
        ).recorded(graph, {})


def _turns(graph: Graph, node: Node) -> Size:
    """By which size the stacks of a loop are known."""
    params, length = dict(node.params), node.inputs[0]
    turns: Size | None = params.get("turns")
    if turns is not None:
        return turns
    known = "test" not in params and length.op in (CONSTANT, SIZE)
    return _number(length) if known else graph.sizes.fresh("turns_")


def _number(length: Node) -> Size:
    size: Size = length.constant if length.op is CONSTANT else dict(length.params)["value"]
    return size


def _as_was(graph: Graph, kept: Node, x: Node) -> Node:
    """What was kept of a value, as Python's number if it was one."""
    return NUMBER(Variable(graph, kept)).node if x.aval.weak and not kept.aval.weak else kept


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
    if not all(length.op in (CONSTANT, SIZE) and same_shape(x.aval.shape[:1], (_number(length),)) for x in arrays):
        raise NotDifferentiableError(
            "a loop runs downwards over a part of an array until a test fails",
            "Slice the array before the loop, and run over all of the slice.",
            node.where,
        )
    region = params["body"]
    seeds = [graph.seed(x.aval) for x in region.parameters]
    turn, bound = seeds[n], graph.seed(length.aval)
    place: Any = Variable(graph, bound) - (Variable(graph, turn) + 1)
    given = [*seeds[:n], _as_was(graph, place.node, turn), *seeds[n + 1 :]]
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
