"""Forward mode through branches and loops: tangents beside the primals, in the same iterations, without residuals.

A pushforward is the pullback of a pullback. For the first one a branch or a loop leaves a node that says no more than
that it is to be transposed, and the second one puts the tangents in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.core.graph import Graph, Node
from symgrad.derivatives.bodies import Forth, dot_for, strong, zeros
from symgrad.derivatives.branches import tangents_of_branch
from symgrad.derivatives.loops import OpenLoop
from symgrad.ops.control import COND, TRANSPOSED
from symgrad.ops.control_parts import Carry, Read


def left_to_transpose(
    graph: Graph, node: Node, cotangents: Mapping[int, Node], active: Sequence[int]
) -> dict[int, Node]:
    """Return placeholders for the cotangents of a node's inputs, by their numbers, until the node is transposed."""
    params = (("active", tuple(active)), ("of", node), ("results", tuple(cotangents)))
    made = graph.add(TRANSPOSED, tuple(cotangents.values()), params)
    return {i: graph.item(made, k) for k, i in enumerate(active)}


def transposed(
    graph: Graph, node: Node, given: Mapping[int, Node], active: Sequence[int], forth: Forth
) -> dict[int, Node]:
    """Transpose such a node: return the cotangents of its inputs from those of its results."""
    params = dict(node.params)
    tangents = {params["active"][k]: t for k, t in given.items()}
    wanted = {params["results"][k]: k for k in active}
    of = params["of"]
    found = (tangents_of_branch if of.op is COND else _tangents_of_loop)(graph, of, tangents, [*wanted], forth)
    return {wanted[i]: t for i, t in found.items()}


def _tangents_of_loop(
    graph: Graph, node: Node, tangents: Mapping[int, Node], wanted: Sequence[int], forth: Forth
) -> dict[int, Node]:
    """Return the tangents of some results of a loop from those of operands; both by their numbers.

    From ``[consts, carry, xs] -> [carry, ys]`` it is
    ``[consts, T consts, carry, T carry, xs, T xs] -> [carry, T carry, ys, T ys]``.
    """
    loop = OpenLoop(graph, node)
    n, results = len(loop.carry), loop.body.results
    given = {i - 1: t for i, t in tangents.items()}
    live = loop.carries_between(given, wanted)
    read = [i for i in given if i >= n]
    dots = {i: dot_for(graph, loop.stand_ins[i]) for i in [*live, *read]}
    ys = [i for i in wanted if i >= n]
    found = forth(loop.body, [results[i] for i in [*live, *ys]], {loop.stand_ins[i]: dot for i, dot in dots.items()})
    updates = [t or zeros(graph, strong(results[i].aval)) for i, t in zip(live, found, strict=False)]
    stacked = {i: t for i, t in zip(ys, found[len(live) :], strict=True) if t is not None}
    inits = [given.get(i) or zeros(graph, strong(loop.carry[i].aval)) for i in live]
    ends = n + len(loop.xs)
    again = loop.again(
        [Carry(init, dots[i], update) for init, i, update in zip(inits, live, updates, strict=True)],
        [Read(given[i], dots[i]) for i in read if i < ends],
        [Read(given[i], dots[i]) for i in read if i >= ends],
        [*stacked.values()],
    )
    numbers = {i: n + k for k, i in enumerate(live)}
    numbers |= {i: len(results) + len(live) + k for k, i in enumerate(stacked)}
    return {i: graph.item(again, numbers[i]) for i in wanted if i in numbers}
