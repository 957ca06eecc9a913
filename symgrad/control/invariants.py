"""What is the same in every turn: constants stand in bodies, where rules see them; all else is computed outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from symgrad.analysis.uses import users_of
from symgrad.analysis.values import is_known, number
from symgrad.control.branch_invariants import ahead_of_branches
from symgrad.control.opened import (
    Appended,
    Opened,
    Read,
    image_of,
    instead_of,
    items_of,
    opened,
    stand_in,
    with_sources,
)
from symgrad.core.graph import CONSTANT, SIZE, Aval, Graph, Node, reached
from symgrad.core.region import Region, inline, map_regions
from symgrad.core.sizes import is_counted
from symgrad.frontend.variable import Variable
from symgrad.ops.control import COND, SCAN, may_fail
from symgrad.ops.control_parts import loop_of
from symgrad.rewrite.engine import Made, copied
from symgrad.rewrite.repetition import full

# ---- into bodies


def know_constants(graph: Graph, numerics: str = "stable") -> Graph:
    """Numbers, and arrays of one number, stand in the bodies of the loops and branches that read them."""
    instead: dict[Node, Made] = {}
    for node in graph.compound:
        if node.op in (SCAN, COND):
            known = {i: x for i, x in enumerate(_read_as_it_is(node)) if is_known(x)}
            if known:
                instead[node] = _knowing(node, known)
    return copied(graph, instead) if instead else graph


def _read_as_it_is(node: Node) -> Sequence[Node]:
    """The inputs that are the last parameters of the regions."""
    return node.inputs[1:] if node.op is COND else loop_of(node).others


def _knowing(node: Node, known: Mapping[int, Node]) -> Made:
    n = len(_read_as_it_is(node))
    first = len(node.inputs) - n
    inputs = [x for i, x in enumerate(node.inputs) if i - first not in known]

    def region(old: Region) -> Region:
        """A region in which known values take the places of its last parameters."""
        body, last = Graph(), len(old.parameters) - n
        image: dict[Node, Node] = {}
        for i, x in enumerate(old.parameters):
            image[x] = _appended(body, known[i - last]) if i - last in known else stand_in(body, x.aval, x.where)
        found = inline(body, old, [image[x] for x in old.parameters])
        old.label(body, found)
        return Region(body, body.inputs, [found[y] for y in old.results])

    params = map_regions(node, region)
    return lambda new, image: Variable(new, new.add(node.op, tuple([image[x] for x in inputs]), params))


def _appended(graph: Graph, known: Node) -> Node:
    """A known value in another graph."""
    return graph.rebuild(known, tuple([_appended(graph, x) for x in known.inputs]), known.where)


# ---- out of loops


def hoist_invariants(graph: Graph, numerics: str = "stable") -> Graph:
    """What turns compute of what all turns read, once before the loop; if it is stacked, repeated instead."""
    instead: dict[Node, Made] = {}
    for node in graph.compound:
        if node.op is SCAN:
            loop = ahead_of_branches(opened(loop_of(node)))
            if invariant := _invariant(loop):
                instead |= instead_of(_hoisted(loop, invariant), node, {})
    return _with_repeated(copied(graph, instead) if instead else graph)


def _invariant(loop: Opened) -> list[Node]:
    """What is the same in every turn, but for that of which only more such is made."""
    nodes = reached([*loop.results, *([] if loop.test is None else [loop.test])])
    fixed = {x.value for x in loop.others}
    of_turn = {x for x in nodes if loop.has_size_of_turn(x)}
    fixed |= {x for x in nodes if not x.inputs and x not in loop.graph.inputs and x not in of_turn}
    turns = loop.test is None and (loop.length.op is SIZE or number(loop.length) not in (None, 0))
    found: dict[Node, None] = {}
    for node in nodes:
        if not turns and may_fail(node):  # there may be no turn that asks for it
            continue
        if node.inputs and fixed.issuperset(node.inputs) and type(node.aval) is Aval and node not in of_turn:
            fixed.add(node)
            found[node] = None
    ends, users = {*loop.results, loop.test}, users_of(nodes)
    return [x for x in found if x in ends or not all(y in found for y in users[x])]


def _hoisted(loop: Opened, invariant: Sequence[Node]) -> Appended:
    given = {x: stand_in(loop.graph, x.aval, x.where) for x in invariant}
    turn = {x: image_of(y) for x, y in given.items()}
    after = replace(loop, others=[*loop.others, *(Read(x, y) for x, y in given.items())])
    region = Region(loop.graph, [x.value for x in loop.others], invariant)

    def made(graph: Graph, image: Mapping[Node, Node]) -> dict[Any, Node]:
        body = inline(graph, region, [image[x.source] for x in loop.others])
        return {x: body[x] for x in invariant}

    return with_sources(after.rewritten(lambda graph: copied(graph, turn)).without_unread(), made)


# ---- out of stacks


def _with_repeated(graph: Graph) -> Graph:
    """What is the same in each turn repeated, rather than stacked by the turns."""
    instead: dict[Node, Made] = {}
    for node, items in items_of(graph.live if graph.compound else ()).items():
        loop = opened(loop_of(node)) if node.op is SCAN else None
        if loop is not None and loop.test is None and not is_counted(loop.turns):  # which the loop itself tells
            first, source = len(loop.carried), {x.value: x.source for x in loop.others}
            for j, y in enumerate(loop.stacked, first):
                item = items.get(j)
                if item is None or not (y in source or y.op is CONSTANT):
                    continue
                if not y.aval.shape or item not in graph.outputs:  # of an array it would be a view
                    instead[item] = _repeated(source.get(y, y), item)
    return copied(graph, instead) if instead else graph


def _repeated(x: Node, item: Node) -> Made:
    """How a value outside, or a constant, is repeated for all turns."""

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        value = Variable(graph, image[x] if x in image else _appended(graph, x))
        if value.shape:
            return np.broadcast_to(value, item.aval.shape)
        return Variable(graph, full(graph, value.node, item.aval))

    return made
