"""Branches of which something is known: which side is taken, or that both sides compute the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from symgrad.analysis.values import number
from symgrad.control.opened import items_of, stand_in
from symgrad.core.graph import Graph, Node
from symgrad.core.region import Region, inline
from symgrad.frontend.variable import Variable
from symgrad.ops.control import COND
from symgrad.rewrite.engine import Made, copied


class Branch(NamedTuple):
    """A branch by its parts."""

    pred: Node
    operands: Sequence[Node]
    then: Region
    other: Region


def branch_of(node: Node) -> Branch:
    """A node that is a branch, by its parts."""
    params = dict(node.params)
    return Branch(node.inputs[0], node.inputs[1:], params["then"], params["other"])


def settle_branches(graph: Graph, numerics: str = "stable") -> Graph:
    """Of branches whose predicate is known the side that is taken; what both sides compute alike, outside of them."""
    items, instead = items_of(graph.live if graph.compound else ()), dict[Node, Made]()
    for node in graph.compound:
        if node.op is COND:
            branch = branch_of(node)
            side, known = _known_results(branch)
            instead |= {x: _computed(branch, side, i) for i, x in items[node].items() if i in known}
    return copied(graph, instead) if instead else graph


def _known_results(branch: Branch) -> tuple[Region, Sequence[int]]:
    """A side of a branch, and the results that surely are its."""
    results = range(len(branch.then.results))
    taken = number(branch.pred)
    if taken is not None:
        return branch.then if taken else branch.other, results
    graph = Graph()
    given = [stand_in(graph, x.aval, x.where) for x in branch.then.parameters]
    then, other = (inline(graph, side, given) for side in (branch.then, branch.other))
    pairs = zip(branch.then.results, branch.other.results, strict=True)
    return branch.then, [i for i, (x, y) in enumerate(pairs) if then[x] is other[y]]


def _computed(branch: Branch, side: Region, i: int) -> Made:
    """How a result of a side is computed of the operands."""
    y = side.results[i]
    region = Region(side.graph, side.parameters, [y])

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        return Variable(graph, inline(graph, region, [image[x] for x in branch.operands])[y])

    return made
