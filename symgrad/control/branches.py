"""Branches: merge those with the same predicate, and simplify those with a known predicate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from symgrad.analysis.values import number
from symgrad.control.merging import Needs, in_order
from symgrad.control.replacement import image_of, instead_of, items_of, rebuilt
from symgrad.core.graph import Aval, Graph, Node, freeze
from symgrad.core.region import Region, inline, inlined, stand_in
from symgrad.frontend.variable import Variable
from symgrad.ops.astype import ASTYPE
from symgrad.ops.checks import CHECK
from symgrad.ops.control import COND, NUMBER
from symgrad.ops.control_parts import Branch, branch_of
from symgrad.ops.marks import ALIAS
from symgrad.rewrite.engine import Made, copied


def join_branches(graph: Graph, numerics: str = "stable") -> Graph:
    """Merge branches with the same predicate, unless a value between them depends on one and is needed by another."""
    nodes = [node for node in graph.compound if node.op is COND]
    if len({node.inputs[0] for node in nodes}) == len(nodes):
        return graph
    needs = Needs(graph, nodes, {node: node.inputs[0] for node in nodes})
    groups: list[list[Node]] = []
    for node in nodes:
        of_one = (group for group in groups if group[0].inputs[0] is node.inputs[0])
        group = next((group for group in of_one if needs.may_join(group, node)), None)
        if group is None:
            groups.append([node])
        else:
            needs.join(group, node)
            group.append(node)
    items, instead = items_of(graph.live), dict[Node, Made]()
    first: dict[Node, Node] = {}
    inputs: dict[Node, Sequence[Node]] = {}
    for one, *others in groups:
        if others:
            joined = _Joined([one, *others], items)
            instead |= instead_of(joined.appended, one, joined.results)
            first |= dict.fromkeys(others, one)
            inputs[one] = joined.inputs
    return copied(graph, instead, in_order(graph, first, inputs)) if instead else graph


class _Joined:
    """Several branches with the same predicate, merged into one."""

    def __init__(self, nodes: Sequence[Node], items: Mapping[Node, Mapping[int, Node]]) -> None:
        self.items = {node: items[node] for node in nodes}
        every = [x for each in self.items.values() for x in each.values()]
        self.results = {x: i for i, x in enumerate(every)}  # result of a branch -> its number in the merged branch
        read = dict.fromkeys(x for node in nodes for x in branch_of(node).operands)
        self.operands = [x for x in read if x not in self.results]
        self.inputs = nodes[0].inputs[0], *self.operands
        self.sides = {side: self._side(side) for side in ("other", "then")}

    def _side(self, side: str) -> Region:
        graph = Graph()
        given = [stand_in(graph, x.aval, x.where) for x in self.operands]
        image = dict(zip(self.operands, given, strict=True))
        for node, items in self.items.items():
            branch = branch_of(node)
            region: Region = getattr(branch, side)
            graph.provenance = node.where
            own = inlined(graph, region, [image[x] for x in branch.operands])
            image |= {x: own[region.results[i]] for i, x in items.items()}
        return Region(graph, given, [image[x] for x in self.results])

    def appended(self, graph: Graph, image: Mapping[Node, Node]) -> Node:
        """Append the merged branch to a graph; `image` maps its operands there."""
        return graph.add(COND, tuple([image[x] for x in self.inputs]), freeze(COND, self.sides))


def share_results(graph: Graph, numerics: str = "stable") -> Graph:
    """Merge duplicate results of a branch: two that are one value on either side."""
    return rebuilt(graph, COND, _sharing)


def _sharing(node: Node, items: Mapping[int, Node]) -> dict[Node, Made]:
    branch, first = branch_of(node), dict[tuple[Node, Node], Node]()
    pairs = {x: (branch.then.results[i], branch.other.results[i]) for i, x in sorted(items.items())}
    same = {x: first.setdefault(pair, x) for x, pair in pairs.items()}
    return {x: image_of(y) for x, y in same.items() if x is not y}


def simplify_branches(graph: Graph, numerics: str = "stable") -> Graph:
    """Inline the side that is taken where the predicate is known; hoist results that both sides compute alike."""
    return rebuilt(rebuilt(graph, COND, _simplified), CHECK, _without_check)


def _without_check(node: Node, items: Mapping[int, Node]) -> dict[Node, Made]:
    """Replace a check that never raises by the token before it."""
    return {x: image_of(node.inputs[0]) for x in items.values() if number(node.inputs[1]) is False}


def _simplified(node: Node, items: Mapping[int, Node]) -> dict[Node, Made]:
    branch = branch_of(node)
    side, known = _known_results(branch)
    found = {x: _computed(branch, side, i) for i, x in items.items() if i in known}
    made = {x: _flag(branch, i) for i, x in items.items() if i not in known}
    flags = {x: flag for x, flag in made.items() if flag is not None}
    return found | flags if len(flags) == len(made) else found  # a branch that stays may be that of a `break`


def _flag(branch: Branch, i: int) -> Made | None:
    """Return a maker of result `i` by a logical operation with the predicate; None if neither side is True or False.

    ``(p ? True : False)`` is p, and ``(p ? True : y)`` is ``p | y``, where y is a value of the graph around.
    """
    then, other = (_outside(branch, side, side.results[i]) for side in (branch.then, branch.other))
    if then is None or other is None or branch.pred.aval.dtype != bool or branch.then.results[i].aval != _BOOLEAN:
        return None
    for value, rest, is_then in ((then, other, True), (other, then, False)):
        if isinstance(value, bool):
            return lambda graph, image: _joined_by(graph, image, branch.pred, value, rest, is_then)
    return None


_BOOLEAN = Aval((), np.dtype(bool))


def _outside(branch: Branch, side: Region, y: Node) -> bool | Node | None:
    """Return a result of a side as the boolean that it is, or the operand; None where the side computes it."""
    known = number(y)
    if known is not None:
        return bool(known)
    while y not in side.parameters and y.op in _CONVERSIONS and y.inputs[0].aval.dtype == bool:
        y = y.inputs[0]
    is_boolean = y in side.parameters and y.aval._replace(weak=False) == _BOOLEAN
    return branch.operands[side.parameters.index(y)] if is_boolean else None


_CONVERSIONS = (NUMBER, ASTYPE, ALIAS)
"""Operators that make a boolean of Python's one of NumPy's, or the other way round."""


def _joined_by(
    graph: Graph, image: Mapping[Node, Node], pred: Node, value: bool, rest: bool | Node, is_then: bool
) -> Variable:
    """Return `value` where the predicate has the truth `is_then`, elsewhere `rest`."""
    p = Variable(graph, image[pred])
    if isinstance(rest, bool):
        return p if value is is_then else ~p
    y = Variable(graph, image[rest])
    return (p if is_then else ~p) | y if value else (~p if is_then else p) & y


def _known_results(branch: Branch) -> tuple[Region, Sequence[int]]:
    """Return a side of a branch, and the numbers of the results that always equal those of this side."""
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
    """Return a maker of result `i` that inlines a side of a branch."""
    y = side.results[i]
    region = Region(side.graph, side.parameters, [y])

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        return Variable(graph, inline(graph, region, [image[x] for x in branch.operands])[y])

    return made
