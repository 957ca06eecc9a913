"""Branches opened for a pass: both sides are inlined into the graph around the branch, where the pass sees all nodes.

A loop in a branch is then in one graph with the loop outside whose residuals it reads. After the pass the nodes that
only a side needs go back into it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import TypeVar

from symgrad.core.graph import ITEM, Graph, Node, Op, freeze
from symgrad.core.region import Region, closed, inlined, regions_of
from symgrad.frontend.variable import Variable
from symgrad.ops.control import COND, SCAN
from symgrad.ops.control_parts import branch_of, loop_of, y_number
from symgrad.rewrite.engine import Made, copied, in_bodies

_T = TypeVar("_T")


def _halves(results: Sequence[_T]) -> tuple[Sequence[_T], Sequence[_T]]:
    return results[: len(results) // 2], results[len(results) // 2 :]


CHOSEN = Op(
    "chosen",
    lambda pred, *results: _halves(results)[0 if pred else 1],
    lambda pred, *results: tuple(_halves(results)[0]),
)
"""A result of an open branch: chosen from the results of its two sides, those of ``then`` first."""


def with_open_branches(step: Callable[[Graph, str], Graph]) -> Callable[[Graph, str], Graph]:
    """Return a pass that opens the branches that read residuals of loops, and closes them again."""

    @wraps(step)
    def taken(graph: Graph, numerics: str = "stable") -> Graph:
        instead = {node: _opened(node) for node in graph.compound if node.op is COND and _reads_residuals(node)}
        if not instead:
            return step(graph, numerics)
        return in_bodies(_closed)(step(copied(graph, instead), numerics), numerics)

    return taken


def _reads_residuals(node: Node) -> bool:
    """Whether a loop in a branch reads residuals of a loop outside."""
    ys = {i for i, x in enumerate(node.inputs[1:]) if y_number(x) is not None}
    return bool(ys) and any(
        side.parameters.index(x.source) in ys
        for side in regions_of(node)
        for loop in side.nodes
        if loop.op is SCAN
        for x in loop_of(loop).xs
        if x.source in side.parameters
    )


def _opened(node: Node) -> Made:
    branch = branch_of(node)

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        pred, *operands = (image[x] for x in node.inputs)
        sides = [(side, inlined(graph, side, operands)) for side in (branch.then, branch.other)]
        results = [found[y] for side, found in sides for y in side.results]
        return Variable(graph, graph.add(CHOSEN, (pred, *results)))

    return made


def _closed(graph: Graph, numerics: str = "stable") -> Graph:
    """Close open branches; each side takes the nodes that no other part of the graph needs."""
    outside = _outside(graph)
    instead = {node: _branch(graph, node, outside) for node in graph.compound if node.op is CHOSEN and node in outside}
    return copied(graph, instead, [x for x in graph.order if x in outside]) if instead else graph


def _outside(graph: Graph) -> set[Node]:
    """Return the nodes that stay outside: those needed whichever side is taken, with all of their results."""
    outside, stack = {*graph.outputs, *graph.inputs}, [*graph.outputs]
    while stack:
        node = stack.pop()
        inputs = node.inputs[:1] if node.op is CHOSEN else node.inputs
        stack += [x for x in inputs if x not in outside]
        outside.update(inputs)
    return outside.union(x for x in graph.live if x.op is ITEM and x.inputs[0] in outside)


def _branch(graph: Graph, node: Node, outside: Collection[Node]) -> Made:
    pred, *results = node.inputs
    given = closed(graph, (), results, lambda x: x not in outside).parameters
    sides = zip(("then", "other"), (Region(graph, given, side) for side in _halves(results)), strict=True)
    params = freeze(COND, dict(sides))
    return lambda new, image: Variable(new, new.add(COND, (image[pred], *(image[x] for x in given)), params))
