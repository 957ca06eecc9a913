"""The pullback of a loop: a loop that runs backwards over the iterations.

Of a loop ``[consts, carry, xs] -> [carry, ys]`` it is ``[residuals, CT carry, CT ys] -> [CT consts, CT carry, CT xs]``.

Cotangents of consts are summed, those of xs are stacked. Residuals that are expensive to rematerialise become further
ys of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from symgrad.analysis.values import known_size
from symgrad.core.graph import Node, same_aval
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import same
from symgrad.derivatives.bodies import Looped, Pull, as_number, seed_for, strong, zeros
from symgrad.derivatives.loops import OpenLoop, recorded
from symgrad.derivatives.segments import is_segmented, through_segments
from symgrad.derivatives.totals import added
from symgrad.derivatives.undone import Overwritten, overwritten_in, with_restored
from symgrad.errors import NotDifferentiableError
from symgrad.frontend.bodies import promoted
from symgrad.frontend.variable import Variable
from symgrad.ops.control_parts import Carry, Loop, Read, loop_of
from symgrad.ops.index import ADD_AT
from symgrad.ops.index_expressions import EVERYTHING, Slot


def through_loop(pull: Pull) -> dict[int, Node]:
    """Append the pullback of a loop to the graph; arguments and result as for `through_branch`.

    References
    ----------
    Griewank & Walther, *Evaluating Derivatives*, 2nd ed., ch. 3 and 12.
    """
    loop = loop_of(pull.node)
    if loop.test is not None and loop.reverse:
        return _through_mirrored(pull)
    return through_segments(pull) if is_segmented(pull.node) else _Backward(pull).through()


class _Iteration(NamedTuple):
    """A backward iteration: stand-ins, by the numbers of results and operands, and cotangents of parameters."""

    arrived: dict[int, Node]
    summed: dict[int, Node]
    found: dict[Node, Node]


class _Backward(OpenLoop):
    """The pullback of a loop that counts upwards, or whose length is known."""

    def __init__(self, pull: Pull) -> None:
        super().__init__(pull.graph, pull.node)
        self.back, self.totals, self.looped = pull.back, pull.totals, pull.looped
        self.cotangents, self.active = pull.cotangents, [i - 1 for i in pull.active]

    def through(self) -> dict[int, Node]:
        """Return the cotangents of the inputs of the node, by their numbers."""
        graph, n = self.graph, len(self.carry)
        arrived, summed, found = self.differentiated()
        init = {i: self.start(i) for i in arrived if i < n}
        fixed = {i: x for i, x in init.items() if found.get(self.carry[i]) is arrived[i]}
        live = [i for i in init if i not in fixed]
        stacked = [i for i in self.active if i >= n and i not in summed and self.stand_ins[i] in found]
        updates = [found.get(self.carry[i]) or zeros(graph, strong(self.carry[i].aval)) for i in live]
        updates += [found[self.stand_ins[i]] for i in summed]
        ys = [found[self.stand_ins[i]] for i in stacked]
        inits = [init[i] for i in live]
        begun = {i: self.totals.pop(i + 1) for i in summed if i + 1 in self.totals}
        inits += [begun.get(i) or zeros(graph, strong(self.operands[i].aval)) for i in summed]
        values = [*(arrived[i] for i in live), *summed.values()]
        loop = Loop(
            graph=graph,
            length=self.loop.length,
            index=self.loop.index,
            carry=[Carry(*each) for each in zip(inits, values, updates, strict=True)],
            xs=[*self.loop.xs, *(Read(self.cotangents[i], g) for i, g in arrived.items() if i >= n)],
            consts=[*self.loop.consts, *(Read(x, arrived[i]) for i, x in fixed.items())],
            ys=ys,
            iterations=self.iterations,
            reverse=not self.loop.reverse,
            index_size=self.loop.index_size,
        )
        cotangents = [*arrived.values(), *summed.values()]
        backward = self.recorded(loop, cotangents, undo=True) or self.recorded(loop, cotangents, undo=False)
        assert backward is not None, "without arrays to restore nothing is read before it is there"
        numbers = [*range(len(values)), *range(len(backward.aval) - len(ys), len(backward.aval))]
        results = fixed | {i: graph.item(backward, k) for k, i in zip(numbers, [*live, *summed, *stacked], strict=True)}
        return {i + 1: g for i, g in results.items() if i in self.active}

    def recorded(self, loop: Loop, cotangents: Sequence[Node], undo: bool) -> Node | None:
        """Record a loop that runs backwards, with what it reads of the iterations; None where it cannot undo writes."""
        graph = self.graph
        again, tape, undone, count = self.tape(loop.ends, cotangents, undo)
        slots = {x: graph.seed(strong(x.aval)) for x in tape}
        given = [Read(tape[x], slot) for x, slot in slots.items()]
        instead = {x: as_number(graph, slot, x) for x, slot in slots.items()}
        whole = with_restored(replace(loop, length=count, xs=[*given, *loop.xs]), undone, instead, self.carry)
        if whole is None:
            return None
        backward = recorded(*whole)
        before = {x.number: graph.item(backward, k) for k, x in enumerate(undone, len(loop.carry))}
        for i, x in enumerate(self.carry):
            if x.aval.shape:
                looped = Looped(before.get(i), graph.item(again, i), [*tape.values()])
                self.looped[graph.item(self.node, i)] = looped
        return backward

    def start(self, i: int) -> Node:
        """Return the cotangent of the final carry."""
        g = self.cotangents.get(i) or zeros(self.graph, self.carry[i].aval)
        return promoted(self.graph, g, strong(g.aval))

    # ---- one iteration

    def differentiated(self) -> _Iteration:
        """Pull back one iteration: ``[residuals, CT consts, CT carry, CT ys] -> [CT consts, CT carry, CT xs]``."""
        graph, n, results = self.graph, len(self.carry), self.body.results
        live = self.carries_between(self.active, self.cotangents)
        wanted = [i for i in self.active if i >= n]
        sums = {i: seed_for(graph, self.stand_ins[i], self.operands[i].aval) for i in wanted if not self.is_stacked(i)}
        while True:
            through = [*live, *(i for i in self.cotangents if i >= n)]
            arrived = {i: seed_for(graph, results[i]) for i in through}
            pairs = {g: results[i] for i, g in arrived.items()}
            consts = {self.stand_ins[i]: total for i, total in sums.items() if self.stand_ins[i] in self.consts}
            found = self.back(self.body, pairs, [self.stand_ins[i] for i in [*live, *wanted]], consts)
            idle = [i for i in live if i not in self.cotangents and self.carry[i] not in found]
            if not idle:
                break
            live = [i for i in live if i not in idle]
        summed = {i: total for i, total in sums.items() if self.stand_ins[i] in found}
        totals = {self.stand_ins[i]: self.added(i, x, found) for i, x in summed.items()}
        return _Iteration(arrived, summed, found | totals)

    def is_stacked(self, i: int) -> bool:
        """Whether the cotangent of an input is stacked: for one of the xs, of which iterations slice all."""
        sliced = i < len(self.carry) + len(self.xs)
        return sliced and self.test is None and same_shape(self.operands[i].aval.shape[:1], (self.iterations,))

    def added(self, i: int, total: Node, found: Mapping[Node, Node]) -> Node:
        """Return the accumulated cotangent of an input, with that of one iteration added."""
        g = found[self.stand_ins[i]]
        if self.stand_ins[i] in self.consts:
            return added(self.graph, total, g)
        row = (Slot(0), *[EVERYTHING] * g.aval.ndim)
        return ADD_AT(*[Variable(self.graph, x) for x in (total, g, self.loop.index)], key=row).node

    # ---- the loop once more

    def tape(
        self, made: Sequence[Node], cotangents: Sequence[Node], undo: bool
    ) -> tuple[Node, dict[Node, Node], list[Overwritten], Node]:
        """Return the loop with residuals as further ys, these, the carries to undo, and the number of iterations.

        No loop is made for residuals that are ys of the loop already.
        """
        n, results = len(self.carry), self.body.results
        numbers = {results[i]: i for i in range(n, len(results))}
        kept = self.body.residuals(made, cotangents, self.carry, numbers)
        arrays = [y.aval for y in kept if undo and y.aval.shape]
        whole = [i for i, x in enumerate(self.carry) if any(same_aval(x.aval, aval) for aval in arrays)]
        undone = [x for i in whole if (x := overwritten_in(self, i, made, cotangents))]
        if undone:
            again = {x.value for x in undone}
            needed = [y for x in undone for y in x.needed(self.body, numbers)]
            lost, given = [x for x in self.carry if x not in again], {y for x in undone for y in x.given}
            kept = [*dict.fromkeys([*needed, *self.body.residuals(made, cotangents, lost, numbers, given)])]
        new = [x for x in kept if x not in numbers]
        numbers |= {x: len(results) + k for k, x in enumerate(new)}
        kept_too = [promoted(self.graph, x, strong(x.aval)) for x in new]
        node = self.again(ys=kept_too) if new else self.node
        count = self.loop.length if self.test is None else self.graph.item(node, len(node.aval) - 1)
        undone = [replace(x, end=self.graph.item(node, x.number)) for x in undone]
        return node, {x: self.graph.item(node, numbers[x]) for x in kept}, undone, count


def _through_mirrored(pull: Pull) -> dict[int, Node]:
    """Pull back a loop that counts downwards until a condition fails, as one that counts upwards over reversed xs."""
    graph, node = pull.graph, pull.node
    loop, flipped = loop_of(node), lambda x: Variable(graph, x)[::-1].node
    assert loop.test is not None
    n, size = len(loop.carry), known_size(loop.length)
    if not all(size is not None and same(x.source.aval.shape[0], size) for x in loop.xs):
        raise NotDifferentiableError(
            "a loop with a condition counts downwards over a part of an array",
            "Slice the array before the loop, and loop over the whole slice.",
            node.where,
        )
    if loop.index_size is not None:
        raise NotDifferentiableError(
            "a loop with a condition counts downwards, and has slices whose bounds depend on its index",
            "Use slices of one size, or count upwards.",
            node.where,
        )
    seeds = [graph.seed(x.aval) for x in loop.parameters]
    index, bound = seeds[n], graph.seed(loop.length.aval)
    mirrored: Any = Variable(graph, bound) - (Variable(graph, index) + 1)
    loop = loop.on(graph, [*seeds[:n], as_number(graph, mirrored.node, index), *seeds[n + 1 :]])
    assert loop.test is not None
    upwards = replace(
        loop,
        index=index,
        xs=[Read(flipped(x.source), x.value) for x in loop.xs],
        consts=[*loop.consts, Read(loop.length, bound)],
        reverse=False,
    ).tested(*loop.test.results)
    cotangents = {i: g if i < n else flipped(g) for i, g in pull.cotangents.items()}
    found = through_loop(pull._replace(node=upwards.record(graph), cotangents=cotangents, totals={}))
    return {i: flipped(g) if n < i <= n + len(loop.xs) else g for i, g in found.items()}
