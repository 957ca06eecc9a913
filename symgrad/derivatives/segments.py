"""Checkpointed loops: nested loops whose pullback stores the states at the starts of segments.

A segment is computed again when the loop that runs backwards comes to it. With `d` loops within each other, of `a`
iterations each, about ``d * a`` states of ``a ** d`` iterations are stored, and each is computed `d` times more often.

References
----------
Griewank & Walther, *Evaluating Derivatives*, 2nd ed., ch. 12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import numpy as np

from symgrad.core.graph import CONSTANT, Graph, Node, reached
from symgrad.core.region import Region, cut, inlined, mark
from symgrad.derivatives.bodies import Body, Pull, as_number, strong
from symgrad.derivatives.loops import OpenLoop, recorded
from symgrad.derivatives.rematerialise import as_checkpoint
from symgrad.errors import UnsupportedError
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.control import INDEX, UNBOUNDED
from symgrad.ops.control_parts import Carry, Loop, loop_of

BASE = 16
"""Iterations of each of the nested loops, where no number is given."""

MOST = 5
"""Most nested loops."""


def is_segmented(node: Node) -> bool:
    """Whether a loop is checkpointed and may have more iterations than states are to be stored."""
    checkpoint, length = loop_of(node).checkpoint, node.inputs[0]
    if checkpoint is None or length.op is not CONSTANT or length.constant == UNBOUNDED:
        return checkpoint is not None
    return bool(length.constant > (BASE if checkpoint == "log" else checkpoint))


def through_segments(pull: Pull) -> dict[int, Node]:
    """Append the pullback of a checkpointed loop to the graph; arguments and result as for `through_branch`.

    In the place of stacks the loops in segments carry one number more: the sum of the products of what would be stacked
    with the cotangents that have arrived of it. Its derivative is theirs, and its value is not needed.
    """
    graph, node, cotangents, active, back, totals = pull[:6]
    if loop_of(node).index_size is not None:
        raise UnsupportedError(
            "a loop with checkpoint= has slices whose bounds depend on its index",
            "Leave checkpoint= out, or use slices of one size.",
            node.where,
        )
    nest = _Nest(graph, node, cotangents)
    arrived = {i: graph.seed(strong(g.aval)) for i, g in cotangents.items() if i < len(nest.carry)}
    outputs = {seed: nest.results[i] for i, seed in arrived.items()}
    if nest.weights:
        outputs[graph.constant(1.0)] = nest.results[-1]
    wanted = {i: nest.sources[i] for i in active}
    seeds = {i: graph.seed(total.aval) for i, total in totals.items()}
    left = {nest.sources[i]: seed for i, seed in seeds.items()}
    found = back(nest.as_body, outputs, [*wanted.values()], left)
    bound = dict(zip(nest.sources, node.inputs, strict=True)) | {seed: totals[i] for i, seed in seeds.items()}
    for i in [i for i in seeds if nest.sources[i] not in left]:
        del totals[i]
    bound |= {seed: cotangents[i] for i, seed in (nest.weights | arrived).items()}
    image = inlined(graph, Region(graph, [*bound], [*found.values()]), [*bound.values()])
    return {i: image[found[x]] for i, x in wanted.items() if x in found}


class _Nest(OpenLoop):
    """A loop as nested loops, on stand-ins for its inputs and for the cotangents of its ys."""

    def __init__(self, graph: Graph, node: Node, cotangents: Mapping[int, Node]) -> None:
        super().__init__(graph, node)
        n, start = len(self.carry), len(self.operands) - len(self.consts)
        self.sources = [graph.seed(x.aval) for x in node.inputs[: start + 1]] + [*self.consts]
        self.weights = {i: graph.seed(strong(g.aval)) for i, g in cotangents.items() if i >= n}
        self.count = self.number_of_iterations()
        assert self.loop.checkpoint is not None
        self.sizes = sizes_of_segments(self.loop.checkpoint, self.count)
        self.results = self.level(
            0, [*self.sources[1 : n + 1], *[graph.constant(np.float64(0))] * bool(self.weights)], 0, None
        )

    def number_of_iterations(self) -> Any:
        """Return the length; None if there is none."""
        length = self.loop.length
        if length.op is not CONSTANT:
            return Variable(self.graph, as_number(self.graph, self.sources[0], self.loop.index))
        return None if length.constant == UNBOUNDED else int(length.constant)

    @property
    def as_body(self) -> Body:
        """Return the nest as one body, with parameters in the order of those of an iteration."""
        n, nodes = len(self.carry), reached(self.results)
        length, *rest = self.sources
        parameters = [*rest[:n], length, *rest[n:], *self.weights.values()]
        return Body(parameters, sorted({*nodes, *parameters}, key=lambda x: x.id), self.results, {})

    def level(self, depth: int, values: Sequence[Node], start: Any, most: Any) -> list[Node]:
        """Return the carry after up to `most` iterations from `start`."""
        graph, size = self.graph, self.sizes[depth]
        carry = [graph.seed(x.aval) for x in values]
        for x, y in zip(self.carry, carry, strict=False):
            if x in graph.names:
                graph.label(y, graph.names[x])
        index = graph.seed(INDEX)
        at: Any = Variable(graph, index)
        at = at if depth == len(self.sizes) - 1 else at * size
        at = at if depth == 0 else start + at
        if depth == len(self.sizes) - 1:
            made = self.iteration(carry, at)
        else:
            since = mark(graph)
            inner = self.level(depth + 1, carry, at, size)
            made = [x.node for x in as_checkpoint(graph, cut(graph, inner, since))]
        length = self.length_of(start, most, size)
        test = None if self.test is None else self.goes_on(carry[: len(self.carry)], self.index_of(at))
        iterations = length if type(length) is int and self.test is None else graph.sizes.turns()
        loop = Loop(
            graph=graph,
            length=lift(graph, length),
            index=index,
            carry=[Carry(*each) for each in zip(values, carry, made, strict=True)],
            iterations=iterations,
        )
        node = recorded(loop.tested(test))
        return [graph.item(node, i) for i in range(len(values))]

    def length_of(self, start: Any, most: Any, size: Any) -> Any:
        """Return the number of iterations of a loop of segments of this size."""
        if self.count is None:
            return UNBOUNDED if most is None else -(-most // size)
        exact = type(self.count) is int and self.count % self.sizes[0] == 0
        left = self.count if most is None else most if exact else np.minimum(most, self.count - start)
        if type(left) is int:
            return -(-left // size)
        return left if type(size) is int and size == 1 else (left + (size - 1)) // size

    def index_of(self, at: Any) -> Node:
        """Return the index of the iteration of number `at`."""
        number = self.count - 1 - at if self.loop.reverse else at
        return as_number(self.graph, lift(self.graph, number), self.loop.index)

    def iteration(self, carry: Sequence[Node], at: Any) -> list[Node]:
        """Return the carry after one iteration."""
        graph, n = self.graph, len(self.carry)
        index = self.index_of(at)
        row = lambda array: Variable(graph, array)[Variable(graph, index)]
        arrays = self.sources[n + 1 : n + 1 + len(self.xs)]
        given = [*carry[:n], index, *[row(x).node for x in arrays], *self.consts]
        image = inlined(graph, Region(graph, self.body.parameters, self.body.results), given)
        made = [image[y] for y in self.body.results]
        if not self.weights:
            return made[:n]
        total: Any = Variable(graph, carry[-1])
        for i, weights in self.weights.items():
            product = Variable(graph, made[i]) * row(weights)
            total = total + (np.sum(product) if product.shape else product).astype(float)
        return [*made[:n], total.node]


def sizes_of_segments(checkpoint: int | str, count: Any) -> list[Any]:
    """Return, for the nested loops from the outermost one, how many iterations one of theirs stands for."""
    if type(count) is not int:
        if isinstance(checkpoint, str):
            return [BASE**3, BASE**2, BASE, 1]
        return [checkpoint if count is None else np.maximum((count + (checkpoint - 1)) // checkpoint, 1), 1]
    if isinstance(checkpoint, str):
        depth = min(max(round(log(max(count, 1), BASE)), 2), MOST)
    else:
        kept = {depth: depth * _root(count, depth) for depth in range(2, MOST + 1)}
        depth = next((d for d, states in kept.items() if states <= checkpoint), min(kept, key=lambda d: kept[d]))
    base = _root(count, depth)
    return [base**power for power in reversed(range(depth))]


def _root(n: int, depth: int) -> int:
    """Return the least number whose power is at least n."""
    root = max(round(n ** (1 / depth)) - 1, 1)
    while root**depth < n:
        root += 1
    return root
