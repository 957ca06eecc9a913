"""Loops over small arrays as loops over the numbers in them (scalar replacement of aggregates).

NumPy takes half a microsecond for an array of four numbers, and Python a tenth of that for each of them: a turn that
takes arrays apart and puts them together again is several times as fast on the numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from symgrad.control.elements import compute, is_few, label, nodes_of, numbered, stand_ins
from symgrad.control.opened import Carried, Opened, Read, instead_of, items_of, opened, with_sources
from symgrad.core.graph import ITEM, Aval, Graph, Node, depends, moved_name, reached
from symgrad.core.region import with_nested
from symgrad.frontend.variable import Variable
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.ops.index import GET
from symgrad.ops.join import CONCATENATE, STACK
from symgrad.ops.reduce import SUM
from symgrad.rewrite.engine import Made, copied

CALL = 10.0
"""How many operations on Python's numbers take the time of a call of NumPy."""

CALLS = {GET: 0.2, SUM: 3.0, STACK: 2.0, CONCATENATE: 2.0}
"""Of operators on arrays that are more, or less, than one call."""

STORED = 3
"""How many operations take the time of a number in a list that becomes an array, and of that a list again."""

MOST = 600
"""Operations of a turn, which one may have to read; rules have still to find those that are needless."""


def replace_arrays(graph: Graph, is_python: Callable[[Node], bool]) -> Graph:
    """Loops over numbers instead of small arrays where that is faster; `is_python` says what Python can compute."""
    instead = dict[Node, Made]()
    for node in graph.compound:
        numbers = _numbers_of(opened(loop_of(node))) if node.op is SCAN else None
        if numbers is not None and numbers.pays(is_python):
            instead |= numbers.instead(node, graph)
    return copied(graph, instead) if instead else graph


class Part(NamedTuple):
    """A number of an array outside, or such a one of each row."""

    array: Node
    place: tuple[int, ...]
    of_rows: bool

    def made(self, graph: Graph, image: Mapping[Node, Node]) -> Node:
        key = (slice(None), *self.place) if self.of_rows else self.place
        return Variable(graph, image[self.array])[key].node


class _Numbers(NamedTuple):
    """A loop, and the same over numbers."""

    arrays: Opened
    numbers: Opened

    def pays(self, is_python: Callable[[Node], bool]) -> bool:
        """Whether Python's numbers are faster, and the turn is one that a person can read."""
        loop = self.numbers
        turn = [x for x in _turn(loop) if x.inputs]
        if len([*with_nested(turn)]) > MOST or not all(map(is_python, turn)):
            return False
        stored = len(loop.stacked) + len(loop.sliced)
        calls = sum(CALLS.get(x.op, 1.0) for x in _carried_on(self.arrays) if _has_arrays(x))
        return len(_carried_on(loop)) + STORED * stored < CALL * calls

    def instead(self, node: Node, graph: Graph) -> dict[Node, Made]:
        """How the loop over numbers is made, and of its results those of the other."""
        parts = [x for x in self.numbers.inputs if isinstance(x, Part)]
        appended = with_sources(self.numbers, lambda graph, image: {x: x.made(graph, image) for x in parts})
        items, shapes = items_of(graph.live)[node], [y.aval.shape for y in self.arrays.results]
        first = [0, *np.cumsum([len([*np.ndindex(shape)]) for shape in shapes]).tolist()]
        whole = {x: first[i] for i, x in items.items() if i == len(shapes) or not shapes[i]}
        rest = {i: x for i, x in items.items() if x not in whole}
        names = {x: moved_name(graph.names, graph.names[x], {}) for x in rest.values() if x in graph.names}
        made = {x: _joined(node, x, first[i], shapes[i], names.get(x)) for i, x in rest.items()}
        return instead_of(appended, node, whole) | made


def _joined(node: Node, item: Node, first: int, shape: tuple[Any, ...], name: str | None) -> Made:
    """How an array of such a shape, or a stack of such arrays, is made of numbers, or stacks of them."""

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        each = []
        for i, place in enumerate(np.ndindex(shape), first):
            number = graph.add(ITEM, (image[node],), (("index", i),))
            each.append(Variable(graph, number))
            if name is not None:
                graph.label(number, numbered(name, place))
        joined: Variable = np.stack(each, axis=each[0].ndim)
        return joined if joined.ndim == item.aval.ndim else joined.reshape(item.aval.shape)

    return made


# ---- the loop over numbers


def _numbers_of(loop: Opened) -> _Numbers | None:
    """A loop whose turns compute with the numbers of small arrays, if there is one."""
    given = [*(c.value for c in loop.carried), *(x.value for x in (*loop.sliced, *loop.others))]
    if not any(x.aval.shape for x in given) or not all(map(_is_small, given)):
        return None
    graph = Graph()
    graph.provenance = loop.graph.provenance
    found: dict[Node, Any] = stand_ins(graph, [*given, loop.place])
    if not compute(graph, _turn(loop), found):
        return None
    label(graph, loop.graph, found)
    parts = lambda x, source, rows: list(zip(_parts(source, x.aval.shape, rows), nodes_of(found[x]), strict=True))
    carried = [
        Carried(*start, update)
        for c in loop.carried
        for start, update in zip(parts(c.value, c.start, rows=False), nodes_of(found[c.update]), strict=True)
    ]
    numbers = replace(
        loop,
        graph=graph,
        place=found[loop.place][()].node,
        carried=carried,
        sliced=[Read(*each) for x in loop.sliced for each in parts(x.value, x.source, rows=True)],
        others=[Read(*each) for x in loop.others for each in parts(x.value, x.source, rows=False)],
        stacked=[y for x in loop.stacked for y in nodes_of(found[x])],
        test=None if loop.test is None else found[loop.test][()].node,
    )
    return _Numbers(loop, numbers.without_unread())


def _is_small(x: Node) -> bool:
    """Whether a value consists of a few numbers with which Python computes as NumPy does."""
    return is_few(x.aval) and (x.aval.weak or x.aval.dtype in (np.dtype(float), np.dtype(bool)))


def _parts(source: Any, shape: tuple[int, ...], rows: bool) -> list[Any]:
    """The numbers of an array outside of such a shape, or of its rows."""
    return [Part(source, place, rows) for place in np.ndindex(shape)] if shape else [source]


def _turn(loop: Opened) -> list[Node]:
    """What a turn computes, and its test."""
    return reached([*loop.results, *([] if loop.test is None else [loop.test])])


def _carried_on(loop: Opened) -> list[Node]:
    """The operations of a turn on what is carried: others are done for all turns at once."""
    nodes = _turn(loop)
    carried = depends(nodes, [c.value for c in loop.carried])
    return [x for x in with_nested([x for x in nodes if x in carried]) if x.inputs and x.op is not ITEM]


def _has_arrays(node: Node) -> bool:
    return type(node.aval) is Aval and any(x.aval.shape for x in (node, *node.inputs) if type(x.aval) is Aval)
