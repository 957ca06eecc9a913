"""Loop-invariant code motion: constants are inlined in bodies, where rules see them; all else is hoisted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import replace

import numpy as np

from symgrad.analysis.uses import users_of
from symgrad.analysis.values import is_known, number
from symgrad.control.fission import Split
from symgrad.control.replacement import instead_of, rebuilt
from symgrad.control.surroundings import Surrounded, surrounded
from symgrad.core.graph import CONSTANT, SIZE, Aval, Graph, Node, depends, reached
from symgrad.core.region import Region, inlined, map_regions, regions_of, stand_in
from symgrad.core.sizes import is_counted
from symgrad.frontend.variable import Variable
from symgrad.ops.control import COND, SCAN, may_fail
from symgrad.ops.control_parts import Loop, loop_of
from symgrad.rewrite.engine import Made, copied
from symgrad.rewrite.repetition import full

# ---- into bodies


def inline_constants(graph: Graph, numerics: str = "stable") -> Graph:
    """Inline constant scalars, and arrays of one repeated number, into the bodies of loops and branches."""
    instead: dict[Node, Made] = {}
    for node in graph.compound:
        if node.op in (SCAN, COND):
            known = {i: x for i, x in enumerate(_consts(node)) if is_known(x)}
            if known:
                instead[node] = _with_inlined(node, known)
    return copied(graph, instead) if instead else graph


def _consts(node: Node) -> Sequence[Node]:
    """Return the consts of a loop, or the operands of a branch: each is one of the last parameters of every region."""
    return node.inputs[1:] if node.op is COND else [x.source for x in loop_of(node).consts]


def _with_inlined(node: Node, known: Mapping[int, Node]) -> Made:
    n = len(_consts(node))
    first = len(node.inputs) - n
    inputs = [x for i, x in enumerate(node.inputs) if i - first not in known]

    def region(old: Region) -> Region:
        """Return a region with known values inlined for their parameters."""
        body, last = Graph(), len(old.parameters) - n
        image: dict[Node, Node] = {}
        for i, x in enumerate(old.parameters):
            image[x] = _appended(body, known[i - last]) if i - last in known else stand_in(body, x.aval, x.where)
        found = inlined(body, old, [image[x] for x in old.parameters])
        return Region(body, body.inputs, [found[y] for y in old.results])

    params = map_regions(node, region)
    return lambda new, image: Variable(new, new.add(node.op, tuple([image[x] for x in inputs]), params))


def _appended(graph: Graph, known: Node) -> Node:
    """Append a known value to another graph."""
    return graph.rebuild(known, tuple([_appended(graph, x) for x in known.inputs]), known.where)


# ---- out of loops


def hoist_invariants(graph: Graph, numerics: str = "stable") -> Graph:
    """Hoist loop-invariant values out of loops; where they are ys, repeat them instead of stacking."""
    graph = rebuilt(graph, SCAN, _hoisted)
    return rebuilt(graph, SCAN, lambda node, items: _with_repeated(node, items, graph.outputs))


def _hoisted(node: Node, _: Mapping[int, Node]) -> dict[Node, Made]:
    loop = _ahead_of_branches(loop_of(node).opened())
    invariant = _invariant(loop)
    return instead_of(Split(node, loop).reading(invariant)[1], node, {}) if invariant else {}


def _invariant(loop: Loop) -> list[Node]:
    """Return the loop-invariant values to hoist, without those that only other such values need."""
    nodes = reached(loop.ends)
    fixed = {x.value for x in loop.consts}
    sized = {x for x in nodes if loop.has_size_of_iteration(x)}
    fixed |= {x for x in nodes if not x.inputs and x not in loop.graph.inputs and x not in sized}
    runs = loop.test is None and (loop.length.op is SIZE or number(loop.length) not in (None, 0))
    found: dict[Node, None] = {}
    for node in nodes:
        if not runs and may_fail(node):  # a loop without iterations must not fail
            continue
        if node.inputs and fixed.issuperset(node.inputs) and type(node.aval) is Aval and node not in sized:
            fixed.add(node)
            found[node] = None
    ends, users = set(loop.ends), users_of(nodes)
    return [x for x in found if x in ends or not all(y in found for y in users[x])]


# ---- out of branches in loops


def _ahead_of_branches(loop: Loop) -> Loop:
    """Hoist cheap loop-invariant values out of the branches of a loop's body."""
    fixed = {x.value for x in loop.consts}
    return loop.map_body(lambda body: _ahead(body, fixed, loop.has_size_of_iteration))


def _ahead(graph: Graph, fixed: Collection[Node], stays: Callable[[Node], bool]) -> Graph:
    if not any(node.op is COND for node in graph.compound):
        return graph
    moving = depends(graph.live, [x for x in graph.inputs if x not in fixed])
    still = lambda node: [x not in moving for x in node.inputs[1:]]
    return surrounded(graph, lambda new, node, image: _Branch(new, node, image, still(node), stays))


class _Branch(Surrounded):
    """A branch from whose sides functions of its loop-invariant operands are hoisted; `fixed` says which these are."""

    def __init__(
        self,
        graph: Graph,
        node: Node,
        image: Mapping[Node, Node],
        fixed: Sequence[bool],
        stays: Callable[[Node], bool],
    ) -> None:
        def inner(side: Region) -> Region:
            given = {x for x, is_fixed in zip(side.body.inputs, fixed, strict=True) if is_fixed}
            body = _ahead(side.body, given, stays)
            return side if body is side.body else Region(body, body.inputs, body.outputs)

        node = replace(node, params=map_regions(node, inner))
        self.fixed: dict[Node, bool] = {}
        for side in regions_of(node):
            self.fixed |= dict(zip(side.parameters, fixed, strict=True))
        self.stays = stays
        super().__init__(graph, node, image)

    def move(self, x: Node) -> None:
        """Hoist a value of a side if it is cheap and cannot fail."""
        if not (x.op.view or x.op.cheap) or type(x.aval) is not Aval or may_fail(x) or self.stays(x):
            return
        if all(y in self.same and self._is_fixed(y) for y in x.inputs):
            self.same[x] = self.graph.rebuild(x, tuple([self.same[y] for y in x.inputs]), x.where)

    def _is_fixed(self, x: Node) -> bool:
        if x not in self.fixed:
            self.fixed[x] = all(map(self._is_fixed, x.inputs))
        return self.fixed[x]


# ---- out of ys


def _with_repeated(node: Node, items: Mapping[int, Node], outputs: Container[Node]) -> dict[Node, Made]:
    """Return makers that repeat loop-invariant ys instead of stacking them."""
    loop = loop_of(node).opened()
    if loop.test is not None or is_counted(loop.iterations):  # only the loop knows how often to repeat
        return {}
    source = {x.value: x.source for x in loop.consts}
    ys = [(items[j], y) for j, y in enumerate(loop.ys, len(loop.carry)) if j in items]
    found = [(item, y) for item, y in ys if y in source or y.op is CONSTANT]
    found = [
        (item, y) for item, y in found if not y.aval.shape or item not in outputs
    ]  # a repeated array is a view, which outputs are not
    return {item: _repeated(source.get(y, y), item) for item, y in found}


def _repeated(x: Node, item: Node) -> Made:
    """Return a maker that repeats an outside value, or a constant, for all iterations."""

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        value = Variable(graph, image[x] if x in image else _appended(graph, x))
        if value.shape:
            return np.broadcast_to(value, item.aval.shape)
        return Variable(graph, full(graph, value.node, item.aval))

    return made
