"""Derivatives of a branch: branches on the same predicate, with the derivatives of both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.analysis.cost import numbers
from symgrad.core.graph import INPUT, SEED, Aval, Graph, Node, depends, reached, same_aval
from symgrad.core.region import Region, closed, inlined, regions_of
from symgrad.core.sizes import anywhere
from symgrad.derivatives.bodies import Body, Forth, Pull, appended, dot_for, strong, zeros
from symgrad.derivatives.totals import added
from symgrad.ops.control import COND
from symgrad.ops.index import GET

Pair = tuple[Node | None, Node | None]
"""A value of each side, or of one of them alone."""


def through_branch(pull: Pull) -> dict[int, Node]:
    """Append the pullback of a branch and return the cotangents of its active inputs, by their numbers.

    What the pullback reads of a side, and cannot compute again cheaply, the branch is appended once more to give,
    behind the results that it had; where the other side is taken, zeros stand for it.
    """
    graph, node, cotangents, active, back, totals, _, changing = pull
    seeds = [graph.seed(x.aval) for x in node.inputs[1:]]
    arrived = {i: graph.seed(strong(g.aval)) for i, g in cotangents.items()}
    bound = dict(zip(seeds, node.inputs[1:], strict=True)) | {g: cotangents[i] for i, g in arrived.items()}
    lost = [seeds[i - 1] for i in changing if i and all(_is_read_in_part(x, i - 1) for x in regions_of(node))]
    sides = [appended(graph, region, seeds)._replace(carried=lost) for region in regions_of(node)]
    sums = {i: graph.seed(total.aval) for i, total in totals.items() if i in active}
    found = []
    for side in sides:
        outputs = {g: side.results[i] for i, g in arrived.items()}
        left = {seeds[i - 1]: total for i, total in sums.items()}
        found.append(back(side, outputs, [seeds[i - 1] for i in active], left))
    wanted = [i for i in active if any(seeds[i - 1] in each for each in found)]
    bound |= {sums[i]: totals.pop(i) for i in wanted if i in sums}
    made = [[_with_total(graph, each, seeds[i - 1], sums.get(i)) for i in wanted] for each in found]
    kept = [_kept(side, ys, [*arrived.values(), *sums.values()]) for side, ys in zip(sides, made, strict=True)]
    pairs = paired(*kept)
    slots = [graph.seed(_aval(pair)) for pair in pairs]
    if pairs:
        extended = extended_branch(graph, node, sides, pairs)
        bound |= {slot: graph.item(extended, len(node.aval) + k) for k, slot in enumerate(slots)}
    results = [_of_slots(graph, ys, [*bound], [pair[k] for pair in pairs], slots) for k, ys in enumerate(made)]
    backward = recorded_branch(graph, node.inputs[0], results, bound)
    return {i: graph.item(backward, k) for k, i in enumerate(wanted)}


def tangents_of_branch(
    graph: Graph, node: Node, tangents: Mapping[int, Node], wanted: Sequence[int], forth: Forth
) -> dict[int, Node]:
    """Append the branch with tangents after its results; return the tangents of some results, by their numbers."""
    seeds = [graph.seed(x.aval) for x in node.inputs[1:]]
    sides = [appended(graph, region, seeds) for region in regions_of(node)]
    dots = {i: dot_for(graph, seeds[i - 1]) for i in tangents}
    bound = dict(zip(seeds, node.inputs[1:], strict=True)) | {dots[i]: t for i, t in tangents.items()}
    moving = {seeds[i - 1]: dot for i, dot in dots.items()}
    found = [forth(side, [side.results[i] for i in wanted], moving) for side in sides]
    flows = [k for k in range(len(wanted)) if any(each[k] is not None for each in found)]
    results = []
    for side, each in zip(sides, found, strict=True):
        made = [each[k] or zeros(graph, strong(side.results[wanted[k]].aval)) for k in flows]
        results.append([*side.results, *made])
    again = recorded_branch(graph, node.inputs[0], results, bound)
    return {wanted[k]: graph.item(again, len(node.aval) + place) for place, k in enumerate(flows)}


def _kept(side: Body, made: Sequence[Node], cotangents: Sequence[Node]) -> list[Node]:
    """Return the residuals of a side; an operand needs not be given by the branch as well."""
    return [x for x in side.residuals(made, cotangents, side.carried) if x not in side.parameters]


def _is_read_in_part(region: Region, i: int) -> bool:
    """Whether a side reads no more than parts of an array, by indices, and may assign into it."""
    x = region.parameters[i]
    if not x.aval.shape:
        return False
    same = {x}
    for node in region.nodes:
        if node in same or same.isdisjoint(node.inputs):
            continue
        if node.op.assigns and same.isdisjoint(node.inputs[1:]):
            same.add(node)
        elif node.op is COND:
            places = [k for k, y in enumerate(node.inputs[1:]) if y in same]
            if not all(_is_read_in_part(side, k) for side in regions_of(node) for k in places):
                return False
        elif node.op is not GET or numbers(node.aval.shape) >= numbers(x.aval.shape):
            return False
    return True


def _aval(pair: Pair) -> Aval:
    """Return the abstract value of a residual, which either side gives."""
    aval = next(x.aval for x in pair if x is not None)
    return aval._replace(shape=tuple(map(anywhere, aval.shape)))


def _with_total(graph: Graph, found: Mapping[Node, Node], x: Node, total: Node | None) -> Node:
    """The cotangent of a parameter, with the total that it is added to; zeros for none."""
    g = found.get(x)
    if total is None:
        return g or zeros(graph, strong(x.aval))
    return total if g is None else added(graph, total, g)


def paired(other: Sequence[Node], then: Sequence[Node]) -> list[Pair]:
    """Pair values of both sides that have one type."""
    left, pairs = [*then], []
    for x in other:
        twin = next((y for y in left if same_aval(y.aval, x.aval)), None)
        pairs.append((x, twin))
        if twin is not None:
            left.remove(twin)
    return [*pairs, *((None, y) for y in left)]


def extended_branch(graph: Graph, node: Node, sides: Sequence[Body], pairs: Sequence[Pair]) -> Node:
    """Append the branch again, with values of a side as further results."""
    regions = []
    for k, side in enumerate(sides):
        further = [pair[k] or zeros(graph, _aval(pair)) for pair in pairs]
        regions.append(Region(graph, side.parameters, [*side.results, *further]))
    return _recorded(graph, node.inputs, regions)


def _of_slots(
    graph: Graph, made: Sequence[Node], given: Sequence[Node], kept: Sequence[Node | None], slots: Sequence[Node]
) -> list[Node]:
    """Return the nodes of a side, with slots in the place of residuals."""
    instead = {x: slot for x, slot in zip(kept, slots, strict=True) if x is not None}
    own = [x for x in given if x not in slots]
    image = inlined(graph, Region(graph, [*own, *instead], made), [*own, *instead.values()])
    return [image[y] for y in made]


def recorded_branch(graph: Graph, pred: Node, results: Sequence[Sequence[Node]], bound: Mapping[Node, Node]) -> Node:
    """Append a branch with these results on stand-ins, which are bound to values; other nodes become consts."""
    made = [y for side in results for y in side]
    nodes = reached(made)
    foreign = [x for x in nodes if x.op in (INPUT, SEED) and x not in bound]
    outside = depends(nodes, foreign) - depends(nodes, bound)
    whole = closed(graph, [x for x in nodes if x in bound], made, lambda x: x not in outside)
    inputs = (pred, *(bound.get(x, x) for x in whole.parameters))
    return _recorded(graph, inputs, [Region(graph, whole.parameters, side) for side in results])


def _recorded(graph: Graph, inputs: Sequence[Node], regions: Sequence[Region]) -> Node:
    other, then = regions
    return graph.add(COND, tuple(inputs), (("other", other), ("then", then)))
