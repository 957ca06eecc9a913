"""Scalar replacement in loops: small arrays become their elements (scalar replacement of aggregates).

NumPy takes half a microsecond for an operation on four numbers, Python a tenth of that for an operation on one. An
iteration that takes arrays apart and puts them together again is several times as fast on scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis import costs
from symgrad.control.elements import Rows, array_of, computed, is_few, label, nodes_of, numbered, stand_ins
from symgrad.control.replacement import instead_of, rebuilt
from symgrad.core.graph import ITEM, Aval, Graph, Node, depends, moved_name, reached
from symgrad.core.region import Region, map_regions, regions_of, with_nested
from symgrad.core.shapes import product
from symgrad.frontend.variable import Variable
from symgrad.ops.control import COND, KEPT, SCAN
from symgrad.ops.control_parts import Carry, Loop, Read, inputs_of_body, loop_of
from symgrad.ops.index import GET
from symgrad.ops.join import CONCATENATE, STACK
from symgrad.ops.norm import NORM
from symgrad.ops.reduce import SUM
from symgrad.rewrite.engine import Made

CALLS = {GET: 0.2, SUM: 3.0, NORM: 3.0, STACK: 2.0, CONCATENATE: 2.0}
"""Cost of operators on arrays, in calls, where it is not one."""

MOST = 600
"""Most operations of a body before it is simplified: longer ones are hard to read."""


def replace_arrays(graph: Graph, fit: Callable[[Sequence[Node]], bool]) -> Graph:
    """Replace small arrays in loops by their elements where that is faster.

    `fit` tells whether Python can compute a body. Branches and loops inside the loop are rewritten, too; if one cannot
    be, the loop stays as it is.
    """

    def over_numbers(node: Node, items: Mapping[int, Node]) -> dict[Node, Made]:
        numbers = _numbers_of(loop_of(node).opened()) if any(map(_has_arrays, with_nested([node]))) else None
        return numbers.instead(node, items, graph.names) if numbers is not None and numbers.pays(fit) else {}

    return rebuilt(graph, SCAN, over_numbers)


def time_on_numbers(loop: Loop, fit: Callable[[Sequence[Node]], bool]) -> float | None:
    """Estimate the time of an iteration on elements, with its carries stacked; None if that never pays."""
    states = [c.value for c in loop.carry if c.value.aval.shape]
    numbers = _numbers_of(replace(loop, ys=[*dict.fromkeys([*loop.ys, *states])]))
    return time_on_arrays(loop) - numbers.saved + numbers.stored if numbers and numbers.pays(fit) else None


def time_on_arrays(loop: Loop) -> float:
    """Estimate the time of an iteration's operations that depend on the carry."""
    return sum(map(_time, _carried_on(loop)))


class Part(NamedTuple):
    """An element of an array outside, or of each of its rows."""

    array: Node
    place: tuple[int, ...]
    of_rows: bool

    def made(self, graph: Graph, image: Mapping[Node, Node]) -> Node:
        """Read the element from the array."""
        key = (slice(None), *self.place) if self.of_rows else self.place
        return Variable(graph, image[self.array])[key].node if self.place else image[self.array]

    def among(self, found: Mapping[Node, Any]) -> Node | None:
        """Return the element, if `found` has the elements of its array in the same form."""
        held = found[self.array]
        if isinstance(held, Rows) is not self.of_rows:
            return None
        return (held.numbers if self.of_rows else held)[self.place].node


class _Numbers(NamedTuple):
    """A loop, and the same loop on elements."""

    arrays: Loop
    numbers: Loop

    def pays(self, fit: Callable[[Sequence[Node]], bool]) -> bool:
        """Whether Python can compute the body, a person can read it, and it is faster."""
        body = [x for x in reached(self.numbers.ends) if x.inputs]
        return self.saved > self.stored and len([*with_nested(body)]) <= MOST and fit(body)

    @property
    def saved(self) -> float:
        """Estimate how much less time an iteration takes than on arrays."""
        return time_on_arrays(self.arrays) - costs.OPERATION * len(_carried_on(self.numbers))

    @property
    def stored(self) -> float:
        """Estimate the time of stacking and slicing."""
        return costs.STORE * (len(self.numbers.ys) + len(self.numbers.xs))

    def instead(self, node: Node, items: Mapping[int, Node], names: Mapping[Node, Any]) -> dict[Node, Made]:
        """Return makers of the loop on elements, and of the old loop's results from its results."""
        shapes = [y.aval.shape for y in self.arrays.results]
        first = [0, *np.cumsum([len([*np.ndindex(shape)]) for shape in shapes]).tolist()]
        whole = {x: first[i] for i, x in items.items() if i == len(shapes) or not shapes[i]}
        rest = {i: x for i, x in items.items() if x not in whole}
        named = {x: moved_name(names, names[x], {}) for x in rest.values() if x in names}
        made = {x: _joined(node, x, first[i], shapes[i], named.get(x)) for i, x in rest.items()}
        return instead_of(self.numbers.record, node, whole) | made


def _joined(node: Node, item: Node, first: int, shape: tuple[Any, ...], name: str | None) -> Made:
    """Return a maker of an array of this shape, or a stack of arrays, from its elements or stacks of them."""

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        each = []
        for i, place in enumerate(np.ndindex(shape), first):
            number = graph.item(image[node], i)
            each.append(Variable(graph, number))
            if name is not None:
                graph.label(number, numbered(name, place))
        joined: Variable = np.stack(each, axis=each[0].ndim)
        return joined if joined.ndim == item.aval.ndim else joined.reshape(item.aval.shape)

    return made


# ---- a loop over numbers


def _numbers_of(loop: Loop) -> _Numbers | None:
    """Return a loop on the elements of small arrays, if there is one."""
    nodes = reached(loop.ends)
    rows = _read_by_rows(nodes)
    carry, xs, consts = ([x.value for x in part] for part in (loop.carry, loop.xs, loop.consts))
    if not all(map(_is_small, [*carry, *(x for x in xs if x.aval != KEPT)])):
        return None
    if not all(_is_small(x, x in rows) for x in consts):
        return None
    graph = Graph()
    graph.provenance = loop.graph.provenance
    found = stand_ins(graph, [*carry, *xs, loop.index]) | stand_ins(graph, consts, rows)
    if not _compute(graph, nodes, found) or any(isinstance(found[y], Rows) for y in loop.results):
        return None
    label(graph, loop.graph, found)
    parts = lambda x, of_rows: list(zip(_parts(x, of_rows), _numbers_in(found[x.value]), strict=True))
    numbers = replace(
        loop,
        graph=graph,
        index=found[loop.index][()].node,
        carry=[
            Carry(init, value, update)
            for c in loop.carry
            for (init, value), update in zip(parts(Read(*c[:2]), False), nodes_of(found[c.update]), strict=True)
        ],
        xs=[Read(*each) for x in loop.xs for each in parts(x, True)],
        consts=[Read(*each) for x in loop.consts for each in parts(x, x.value in rows)],
        ys=[y for x in loop.ys for y in nodes_of(found[x])],
    )
    numbers = numbers.tested(found[loop.test.results[0]][()].node if loop.test else None)
    return _Numbers(loop, numbers.without_unread())


def _read_by_rows(nodes: Iterable[Node]) -> set[Node]:
    """Return the arrays that loops among nodes, or in their regions, read by rows."""
    found = set[Node]()
    for node in nodes:
        if node.op is SCAN:
            found.update(x.source for x in loop_of(node).xs)
        for region in regions_of(node):
            if len(region.parameters) == len(node.inputs) - (node.op is COND):  # not a test, which reads numbers
                inner = _read_by_rows(region.nodes)
                found.update(x for x, y in zip(inputs_of_body(node), region.parameters, strict=True) if y in inner)
    return found


def _is_small(x: Node, by_rows: bool = False) -> bool:
    """Whether a value, or a row of it, has few elements, of types that Python computes as NumPy does."""
    aval = x.aval._replace(shape=x.aval.shape[1:]) if by_rows else x.aval
    return is_few(aval) and (aval.weak or aval.dtype in (np.dtype(float), np.dtype(bool)))


def _parts(x: Read, of_rows: bool) -> list[Any]:
    """Return the elements of an array outside, or of its rows."""
    shape = x.source.aval.shape[1:] if of_rows else x.source.aval.shape
    return [Part(x.source, place, of_rows) for place in np.ndindex(shape)] if shape or of_rows else [x.source]


def _numbers_in(held: Any) -> list[Node]:
    return nodes_of(held.numbers if isinstance(held, Rows) else held)


def _carried_on(loop: Loop) -> list[Node]:
    """Return the operations that depend on the carry, also inside loops and branches; all others are hoisted."""
    nodes = reached(loop.ends)
    carried = depends(nodes, [*(c.value for c in loop.carry), *(x for x in nodes if regions_of(x))])
    return [x for x in with_nested([x for x in nodes if x in carried]) if x.inputs and x.op is not ITEM]


def _time(node: Node) -> float:
    """Estimate the time of an operation on arrays; for a loop, the conversion to elements and back."""
    if node.op is SCAN:
        loop = loop_of(node)
        inits, consts = ([x[0] for x in part] for part in (loop.carry, loop.consts))
        taken = [product(x.aval.shape) for x in (*inits, *consts) if x.aval.shape and is_few(x.aval)]
        return costs.TAKE * sum(taken) + costs.LEAST_CALL * CALLS[STACK] * sum(bool(x.aval.shape) for x in inits)
    return costs.LEAST_CALL * CALLS.get(node.op, 1.0) if _has_arrays(node) else costs.OPERATION


def _has_arrays(node: Node) -> bool:
    return type(node.aval) is Aval and any(x.aval.shape for x in (node, *node.inputs) if type(x.aval) is Aval)


# ---- the body on elements


def _compute(graph: Graph, nodes: Iterable[Node], found: dict[Node, Any]) -> bool:
    """Append nodes on elements; return whether all their operators have a scalar form.

    `found` maps nodes to arrays of elements, or to `Rows`; branches and loops to a list of these, one for each result.
    """
    for node in nodes:
        if node not in found:
            made = _made(graph, node, found)
            if made is None:
                return False
            found[node] = made
    return True


def _made(graph: Graph, node: Node, found: Mapping[Node, Any]) -> Any:
    graph.provenance = node.where
    inputs = [found[x] for x in node.inputs]
    if node.op is ITEM:
        return inputs[0][dict(node.params)["index"]]
    if node.op is COND:
        return _branch(graph, node, inputs)
    if node.op is SCAN:
        return _inner_loop(graph, node, found)
    return None if any(isinstance(x, Rows) for x in inputs) else computed(graph, node, inputs)


def _branch(graph: Graph, node: Node, inputs: Sequence[Any]) -> list[Any] | None:
    """Return the results of a branch on elements."""
    by_rows = [isinstance(x, Rows) for x in inputs[1:]]
    sides = {region: side for region in regions_of(node) if (side := _side(region, by_rows)) is not None}
    if not all(region in sides for region in regions_of(node)):
        return None
    operands = tuple([x for held in inputs for x in _numbers_in(held)])
    branch = graph.add(COND, operands, map_regions(node, sides.__getitem__))
    return _results(graph, branch, node.aval, ())


def _side(region: Region, by_rows: Sequence[bool]) -> Region | None:
    graph = Graph()
    rows = {x for x, is_given_so in zip(region.parameters, by_rows, strict=True) if is_given_so}
    found = stand_ins(graph, region.parameters, rows)
    if not _compute(graph, region.nodes, found) or any(isinstance(found[y], Rows) for y in region.results):
        return None
    label(graph, region.graph, found)
    return Region(graph, graph.inputs, [x for y in region.results for x in nodes_of(found[y])])


def _inner_loop(graph: Graph, node: Node, found: Mapping[Node, Any]) -> list[Any] | None:
    """Return the results of an inner loop on elements; None if the loop alone would be slower."""
    loop = loop_of(node)
    inner = _numbers_of(loop.opened())
    if inner is None or inner.saved < 0:
        return None
    of = lambda x: x.among(found) if isinstance(x, Part) else found[x][()].node
    image: dict[Any, Any] = {x: of(x) for x in inner.numbers.operands}
    if None in image.values():
        return None
    stacks = range(len(loop.carry), len(loop.results))
    return _results(graph, inner.numbers.record(graph, image), node.aval, stacks)


def _results(graph: Graph, node: Node, avals: Any, stacks: Container[int]) -> list[Any]:
    """Return the elements of the results of a branch or a loop, some of them stacks."""
    places = count()

    def items(shape: tuple[Any, ...]) -> np.ndarray:
        nodes = [graph.item(node, next(places)) for _ in np.ndindex(shape)]
        return array_of(graph, nodes, shape)

    return [Rows(items(y.shape[1:])) if i in stacks else items(y.shape) for i, y in enumerate(avals)]
