"""Writes that a pullback undoes: of an array that iterations write a part of, that part is stored, not the array.

The loop that runs backwards starts from the array as it is in the end. Each of its iterations puts back what the
iteration has overwritten, and then reads the array as it was.

References
----------
Griewank & Walther, *Evaluating Derivatives*, 2nd ed., ch. 4.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from symgrad.analysis.cost import numbers
from symgrad.core.graph import Graph, Node, depends, reached
from symgrad.core.region import Region, inlined
from symgrad.derivatives.bodies import Body
from symgrad.derivatives.loops import OpenLoop
from symgrad.ops.control import mentions, own_sizes
from symgrad.ops.control_parts import Carry, Loop
from symgrad.ops.index import GET, SET

FEW = 32
"""Least ratio of an array to what an iteration writes of it, for the writes to be undone."""


@dataclass(frozen=True, eq=False)
class Overwritten:
    """A carried array that becomes its next value by assignments alone."""

    graph: Graph
    number: int  # of the carry
    value: Node
    writes: Sequence[Node]  # each into the result of the one before
    end: Node | None = None  # what the loop has made of it

    @cached_property
    def old(self) -> list[Node]:
        """Return what each assignment overwrites."""
        return [self.graph.add(GET, (x.inputs[0], *x.inputs[2:]), x.params) for x in self.writes]

    @property
    def places(self) -> list[Node]:
        """Return where the assignments write."""
        return [place for x in self.writes for place in x.inputs[2:]]

    def needed(self, body: Body, kept: Collection[Node]) -> list[Node]:
        """Return what is stored to undo the assignments."""
        return [*self.old, *body.residuals(self.places, (), body.carried, kept)]

    def is_read_between(self, made: Sequence[Node], cotangents: Collection[Node]) -> bool:
        """Whether a pullback reads the array as it is after an assignment."""
        derived = depends(reached(made), cotangents)
        read = {x for node in derived for x in node.inputs} | set(made)
        return any(x in read for x in self.writes)

    def restored(self, loop: Loop, instead: Mapping[Node, Node]) -> Carry:
        """Return the carry of the loop that runs backwards: from the array in the end to the one that there was.

        `instead` has images for what is stored.
        """
        graph, value = self.graph, self.graph.seed(self.value.aval)
        bound = {loop.index: loop.index, **{x.value: x.value for x in loop.xs}}
        bound |= {x.value: x.source for x in loop.consts} | {**instead}
        image = inlined(graph, Region(graph, [*bound], self.places), [*bound.values()])
        array = value
        for write, old in zip(reversed(self.writes), reversed(self.old), strict=True):
            places = [image[x] for x in write.inputs[2:]]
            array = graph.add(SET, (array, instead[old], *places), write.params)
        return Carry(self.end, value, array)


def overwritten_in(loop: OpenLoop, i: int) -> Overwritten | None:
    """Return a carried array of a loop of which iterations overwrite a small part, with what they overwrite."""
    value, node = loop.carry[i], loop.body.results[i]
    writes: list[Node] = []
    while node.op.assigns:
        writes.insert(0, node)
        node = node.inputs[0]
    if node is not value or not writes:
        return None
    found = Overwritten(loop.graph, i, value, writes)
    own = own_sizes(loop.body.nodes) | ({loop.body.index_size} - {None})
    if any(mentions(x, own) for x in found.old if own):
        return None
    written = sum(numbers(x.aval.shape) for x in found.old)
    return found if numbers(value.aval.shape) >= FEW * written else None
