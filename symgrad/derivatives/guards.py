"""Predicates of branches taken apart, so that what is not batched decides before both sides are computed.

Both sides of a branch with a batched predicate are computed. A slice whose extent the predicate makes certain would
have another one where it does not hold: that part of the predicate, which loop indices decide, becomes a branch around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from symgrad.core.graph import ITEM, Graph, Node
from symgrad.core.region import Region, inlined, regions_of, stand_in, with_nested
from symgrad.ops.choice import WHERE
from symgrad.ops.control import COND, EITHER, is_guarded
from symgrad.ops.control_parts import Branch, branch_of
from symgrad.ops.define import TABLE
from symgrad.ops.places import CONJUNCTIONS, DISJUNCTIONS, bare, known_on_side

Taken = bool | Callable[[Graph, Sequence[Node]], Node]
"""A side of a branch, or the predicate of the branch that stands there, made from further operands."""


def guards_apart(node: Node, is_batched: Callable[[Node], bool]) -> Node:
    """Return a branch with a batched predicate as branches on parts of it, where slices in its sides ask for that."""
    if not any(map(is_guarded, with_nested([x for side in regions_of(node) for x in side.nodes]))):
        return node
    pred = node.inputs[0]
    if pred.op is EITHER:
        return _taken(node, pred.inputs[0], [], True, False)
    if pred.op is TABLE[np.logical_not]:
        return _taken(node, pred.inputs[0], [], False, True)
    for connectives, then, other in ((CONJUNCTIONS, _given(0), False), (DISJUNCTIONS, True, _given(0))):
        if any(pred.op is TABLE[each] for each in connectives):
            first, rest = sorted(pred.inputs, key=is_batched)
            return _taken(node, first, [rest], then, other)
    if pred.op is WHERE:
        return _taken(node, pred.inputs[0], pred.inputs[1:], _given(0), _given(1))
    if pred.op is ITEM and pred.inputs[0].op is COND:
        chosen, i = branch_of(pred.inputs[0]), dict(pred.params)["index"]
        sides = _result(chosen, chosen.then, i, True), _result(chosen, chosen.other, i, False)
        return _taken(node, chosen.pred, chosen.operands, *sides)
    return node


def _given(i: int) -> Taken:
    return lambda graph, given: given[i]


def _result(chosen: Branch, side: Region, i: int, holds: bool) -> Taken:
    result = bare(side.results[i])
    outside = dict(zip(side.parameters, chosen.operands, strict=True))
    known: bool | None = known_on_side(outside.get(result, result), chosen.pred, holds)
    return (lambda graph, given: inlined(graph, side, given)[side.results[i]]) if known is None else known


def _taken(node: Node, pred: Node, further: Sequence[Node], then: Taken, other: Taken) -> Node:
    """Return the branch on another predicate, with further operands, in whose sides these sides of the branch stand."""
    of = branch_of(node)
    inputs = (*further, *of.operands)

    def side(taken: Taken) -> Region:
        graph = Graph()
        given = [stand_in(graph, x.aval, x.where) for x in inputs]
        operands = given[len(further) :]
        if callable(taken):
            inner = graph.add(COND, (taken(graph, given[: len(further)]), *operands), node.params, node.where)
            return Region(graph, given, graph.items(inner))
        region = of.then if taken else of.other
        image = inlined(graph, region, operands)
        return Region(graph, given, [image[y] for y in region.results])

    return replace(node, inputs=(pred, *inputs), params=(("other", side(other)), ("then", side(then))))
