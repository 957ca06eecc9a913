"""Forward mode through branches and loops: tangents beside the primals, in the same iterations, without residuals.

A pushforward is the pullback of a pullback. For the first one a branch or a loop leaves a node that says no more than
that it is to be transposed, and the second one puts the tangents in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.core.graph import Graph, Node
from symgrad.derivatives.bodies import Forth, dot_for, strong, zeros
from symgrad.derivatives.branches import tangents_of_branch
from symgrad.derivatives.loops import Loop
from symgrad.ops.control import COND, TRANSPOSED


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
    """Return the tangents of some results of a loop from those of inputs; both by their numbers."""
    loop = Loop(graph, node)
    n, results = len(loop.carry), loop.body.results
    given = {i - 1: t for i, t in tangents.items()}
    live = loop.carries_between(given, wanted)
    read = [i for i in given if i >= n]
    dots = {i: dot_for(graph, loop.stand_ins[i]) for i in [*live, *read]}
    ys = [i for i in wanted if i >= n]
    found = forth(loop.body, [results[i] for i in [*live, *ys]], {loop.stand_ins[i]: dot for i, dot in dots.items()})
    carried = [t or zeros(graph, strong(results[i].aval)) for i, t in zip(live, found, strict=False)]
    stacked = {i: t for i, t in zip(ys, found[len(live) :], strict=True) if t is not None}
    ends = n + len(loop.slices)
    again = loop.again(
        [*results[:n], *carried, *results[n:], *stacked.values()],
        {dots[i]: given.get(i) or zeros(graph, strong(loop.carry[i].aval)) for i in live},
        {dots[i]: given[i] for i in read if i < ends},
        {dots[i]: given[i] for i in read if i >= ends},
    )
    places = {i: n + k for k, i in enumerate(live)}
    places |= {i: len(results) + len(live) + k for k, i in enumerate(stacked)}
    return {i: graph.item(again, places[i]) for i in wanted if i in places}
