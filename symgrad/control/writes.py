"""Stacked writes: arrays written at affine indices become ys, and rows that later iterations read become carries.

``y[t] = a * y[t - 1] + x[t]`` then carries one number, not the whole of y (scalar replacement of array elements), and
its derivative stacks numbers, not arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.affine import Line, line_of
from symgrad.analysis.uses import users_of
from symgrad.control.places import indexed, items_of_key, length_of, places_of
from symgrad.core.graph import Aval, Graph, Node, reached
from symgrad.core.region import stand_in
from symgrad.core.shapes import key_along, same_shape
from symgrad.core.sizes import Size, at_most
from symgrad.frontend.bodies import promoted
from symgrad.frontend.variable import Variable
from symgrad.ops.control_parts import Carry, Loop, Read
from symgrad.ops.index import GET, SET, put
from symgrad.ops.index_expressions import EVERYTHING, Slice
from symgrad.rewrite.engine import Made, copied


class Start(NamedTuple):
    """A row of an array outside, along an axis."""

    array: Node
    axis: int
    place: Size

    def made(self, graph: Graph, image: Mapping[Node, Node]) -> Node:
        return Variable(graph, image[self.array])[key_along(self.axis, self.place)].node


class Filled(NamedTuple):
    """An array after the loop that fills it: the initial array, with the ys put into a slice of an axis."""

    array: Node
    axis: int
    places: Slice
    stack: int  # the number of a result of the loop

    def made(self, loop: Node) -> Made:
        """Return a maker of the array, from the results of the loop."""

        def filled(graph: Graph, image: Mapping[Node, Node]) -> Variable:
            stack = Variable(graph, graph.item(image[loop], self.stack))
            key = key_along(self.axis, slice(*self.places))
            return put(Variable(graph, image[self.array]), key, np.moveaxis(stack, 0, self.axis))

        return filled


class _Seen(NamedTuple):
    """A read of the row that is written `lag` iterations before; with a lag below 0, in a later iteration."""

    node: Node
    lag: int
    behind: bool  # whether it comes after the write of its own iteration
    rest: Sequence[Any]  # the other items of its index


class _Written(NamedTuple):
    """A carried array that iterations write at an affine index only."""

    carry: Carry
    axis: int
    line: Line
    places: Slice
    seen: Sequence[_Seen]

    @property
    def row(self) -> Aval:
        shape = self.carry.value.aval.shape
        return Aval((*shape[: self.axis], *shape[self.axis + 1 :]), self.carry.value.aval.dtype)

    @property
    def lags(self) -> int:
        """Return the largest lag: the number of rows to carry."""
        return max((each.lag for each in self.seen), default=0)

    def content(self, graph: Graph, value: Node) -> Node:
        """Return a written value as a row of the array: in its dtype, and broadcast."""
        x = promoted(graph, value, self.row._replace(shape=value.aval.shape))
        return (
            x if same_shape(x.aval.shape, self.row.shape) else np.broadcast_to(Variable(graph, x), self.row.shape).node
        )


def with_stacked_writes(loop: Loop) -> tuple[Loop, list[int | Filled]]:
    """Stack the rows that a loop writes into carried arrays; return the new loop, and what each old result becomes.

    A loop with a condition has one more result, the number of iterations.
    """
    n, results = len(loop.carry), len(loop.results)
    writes = {i: found for i in range(n) if (found := _Search(loop).written(i)) is not None}
    if not writes:
        return loop, [*range(results + (loop.test is not None))]
    carry = [c for i, c in enumerate(loop.carry) if i not in writes]
    consts, ys, instead = [*loop.consts], [*loop.ys], dict[Node, Made]()
    for written in writes.values():
        row = written.content(loop.graph, written.carry.update.inputs[1])
        earlier = [stand_in(loop.graph, written.row, written.carry.value.where) for _ in range(max(written.lags, 0))]
        inits = _inits(loop, written)
        carry += [Carry(*each) for each in zip(inits, earlier, [row, *earlier], strict=False)]
        start = stand_in(loop.graph, written.carry.value.aval, written.carry.value.where)
        consts.append(Read(written.carry.init, start))
        ys.append(row)
        instead |= {each.node: _read(written, each, earlier, start) for each in written.seen}
    iterations = loop.iterations if loop.iterations is not None else length_of(loop)
    after = replace(loop, carry=carry, consts=consts, ys=ys, iterations=iterations)
    kept = [i for i in range(results) if i not in writes]
    added = len(carry) - (n - len(writes))
    numbers: dict[int, int | Filled] = {i: k + added * (i >= n) for k, i in enumerate(kept)}
    for k, (i, written) in enumerate(writes.items(), len(carry) + len(loop.ys)):
        numbers[i] = Filled(written.carry.init, written.axis, written.places, k)
    told = [] if loop.test is None else [len(after.results)]
    return after.map_body(lambda body: copied(body, instead)), [*(numbers[i] for i in range(results)), *told]


def _inits(loop: Loop, written: _Written) -> list[Start]:
    """Return the rows of the initial array that the first iterations read: the initial values of the new carries."""
    length, (first, step) = length_of(loop), written.line
    assert length is not None
    back, place = (-step, first + step * (length - 1)) if loop.reverse else (step, first)
    return [Start(written.carry.init, written.axis, place - k * back) for k in range(1, written.lags + 1)]


def _read(written: _Written, seen: _Seen, earlier: Sequence[Node], start: Node) -> Made:
    """Return a maker of a read: of a carried row, of the row of this iteration, or of the initial array."""
    write = written.carry.update

    def made(new: Graph, image: Mapping[Node, Node]) -> Variable:
        if seen.lag > 0:
            return indexed(Variable(new, image[earlier[seen.lag - 1]]), seen.rest, image)
        if seen.lag == 0 and seen.behind:
            return indexed(Variable(new, written.content(new, image[write.inputs[1]])), seen.rest, image)
        indices = [image[x] for x in seen.node.inputs[1:]]
        return Variable(new, new.add(GET, (image[start], *indices), seen.node.params))

    return made


class _Search:
    """A search for arrays that iterations write at affine indices."""

    def __init__(self, loop: Loop) -> None:
        self.loop, self.length = loop, length_of(loop) if loop.test is None else None

    @cached_property
    def users(self) -> dict[Node, list[Node]]:
        return users_of(reached([*self.loop.results, *(c.value for c in self.loop.carry)]))

    def written(self, i: int) -> _Written | None:
        """Return how an iteration uses carry `i`, if it writes one row, and reads rows at known distances from it."""
        carry = init, value, write = self.loop.carry[i]
        if self.length is None or write.op is not SET or write.inputs[0] is not value or init.aval != value.aval:
            return None
        items = items_of_key(write) or []
        axes = [axis for axis, item in enumerate(items) if item != EVERYTHING]
        if len(axes) != 1 or not isinstance(items[axes[0]], Node):
            return None
        (axis,) = axes
        line = line_of(items[axis], self.loop.index)
        places = places_of(line, self.length, value.aval.shape[axis])
        alone = sum(y in (value, write) for y in self.loop.results) == 1
        if line is None or places is None or not alone:
            return None
        seen = [self.seen(x, axis, line) for x in (*self.users[value], *self.users[write]) if x is not write]
        found = _Written(carry, axis, line, places, [each for each in seen if each is not None])
        return found if len(found.seen) == len(seen) and self.starts_within(found) else None

    def seen(self, node: Node, axis: int, line: Line) -> _Seen | None:
        """Return when the row of a read was written, if that is known."""
        items = (items_of_key(node) if node.op is GET else None) or []
        at = [i for i, item in enumerate(items) if item is not None][axis : axis + 1]
        if not at or not isinstance(items[at[0]], Node):
            return None
        read = line_of(items[at[0]], self.loop.index)
        if read is None or read.step != line.step:
            return None
        lag = (line.first - read.first) * line.step * (-1 if self.loop.reverse else 1)
        rest = [item for i, item in enumerate(items) if i != at[0]]
        behind = node.inputs[0].op is SET
        return _Seen(node, lag, behind, rest) if isinstance(lag, int) else None

    def starts_within(self, written: _Written) -> bool:
        """Whether the rows that the first iteration reads exist even if there is no iteration."""
        size = written.carry.value.aval.shape[written.axis]
        return all(at_most(0, x.place) and at_most(x.place + 1, size) for x in _inits(self.loop, written))
