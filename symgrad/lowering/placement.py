"""Placement: the memory of every value of a NumPy program, decided before its text is written.

A suite is a function, or a region in it: the body or the condition of a loop, a side of a branch. Its `Placement` says
which array an assignment under an index writes into, what is copied before, what lies in memory that is there already,
whose memory a node takes over, and which memory a loop or a branch may have handed on. `symgrad.lowering.placing`
decides it, and a target reads it; tests check it by going through the program without any text.

In this program the first assignment is made in a copy, since `x` is the caller's, and the second one in the same array:

>>> import numpy as np, symgrad as sg
>>> from symgrad.lowering.placing import place
>>> def f(x):
...     y = np.copy(x)
...     y[0] = 1.0
...     y[1] = 2.0
...     return y
>>> graph = sg.trace(f, "float64[3]").graph
>>> [write.value for write in place(graph.outputs).writes.values()]
['copy', 'here']
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from symgrad.analysis.aliases import roots_of
from symgrad.analysis.liveness import last_users
from symgrad.analysis.uses import users_of
from symgrad.core.counted_sizes import by_sizes
from symgrad.core.graph import ITEM, TOKEN, Aval, Node, reached, without_tokens
from symgrad.loops.buffer_allocation import Buffer


class Write(Enum):
    """The array that an assignment under an index writes into."""

    HERE = "here"  # the array itself: nothing else needs what it held
    COPY = "copy"  # a copy of it
    ANEW = "anew"  # an array of one number, made for this assignment
    SUM = "sum"  # the partial sum of a loop over blocks of rows


class Step(Enum):
    """The memory of a carry's next value."""

    NEW = "new"
    ASSIGNED = "assigned"  # that of the carry, into which the iteration assigns under an index
    UPDATED = "updated"  # that of the carry, over which its sum or product with something is written


class Carry(NamedTuple):
    """The memory of one carry of a loop."""

    own: bool  # whether its initial value is for the loop alone
    anew: bool  # whether that is an array of one number, made for the loop
    copied: bool  # whether that is copied, since iterations write into it
    step: Step


class Stack(NamedTuple):
    """The memory of the ys of a loop: an array that iterations fill, or a list that they append to."""

    y: Node  # what an iteration gives, a value of the body
    listed: bool
    stays: bool  # whether the list is what is read later, rather than an array made of it
    copied: bool = False  # whether the list has copies, since `y` is written into later


@dataclass(eq=False)
class LoopPlacement:
    """The decisions for a loop."""

    body: Placement
    test: Placement | None
    carries: Sequence[Carry | None]  # None for tokens
    stacks: dict[Node, Stack]  # by the item of the loop that has them
    joint: Sequence[Node]  # those that are one list of tuples
    stop: int | None  # the number of the carried boolean that does nothing but end the loop
    runs: bool  # whether it surely has an iteration
    made: frozenset[Node]  # carries that are made of the last value behind the loop
    on_numbers: bool  # whether it runs on the language's own numbers


@dataclass(eq=False)
class BranchPlacement:
    """The decisions for a branch."""

    then: Placement
    other: Placement
    continued: dict[Node, list[int]]  # the numbers of the operands in whose memory a result may stay, by its item


@dataclass(eq=False)
class Placement:
    """The memory of the values of one suite."""

    nodes: Sequence[Node]  # in the order in which they are computed
    outputs: Collection[Node]  # values that are needed behind all of them
    results: Sequence[Node]  # those that go on as they are, rather than as copies
    given: Sequence[Node]  # the parameters, where the suite is a region
    uses: dict[Node, list[Node]]
    roots: dict[Node, Node]  # the owner of the memory of each value
    last_use: dict[Node, Node | None]  # by owner; None where its memory is needed behind all nodes
    items: dict[Node, dict[int, Node]]  # the results of each operator with several, by their numbers
    anew: frozenset[Node] = frozenset()  # arrays of one number, made for each assignment and loop that begins with them
    own: set[Node] = field(default_factory=set)  # parameters whose memory is the suite's to write into
    writes: dict[Node, Write] = field(default_factory=dict)
    updates: dict[Node, Node] = field(default_factory=dict)  # results that are written over a parameter
    buffers: Sequence[Buffer] = ()  # arrays that are there before the iterations, or the blocks, of a loop
    assignments: Mapping[Node, int] = field(default_factory=dict)  # the values that are computed into them, by number
    borrowed: set[Node] = field(default_factory=set)  # results of loops and branches that may be what these were given
    lent: set[Node] = field(default_factory=set)  # owners of memory that such results, or lists, may have
    taken_over: dict[Node, list[Node]] = field(default_factory=dict)  # by node the owners that have no memory behind it
    lists: set[Node] = field(default_factory=set)  # ys, and parameters, that are lists
    pythons: set[Node] = field(default_factory=set)  # lists of Python's numbers, and rows of such
    straight: set[Node] = field(default_factory=set)  # values that are computed right where they are put, if nested
    copied: set[Node] = field(default_factory=set)  # outputs that the caller gets as copies
    released: frozenset[Node] = frozenset()  # owners of memory that is released after their last use
    loops: dict[Node, LoopPlacement] = field(default_factory=dict)
    branches: dict[Node, BranchPlacement] = field(default_factory=dict)
    parts: dict[Node, Placement] = field(default_factory=dict)  # of the bodies of checks, and of loops over blocks

    def reads(self, x: Node) -> bool:
        """Whether a parameter is needed at all."""
        return bool(self.uses.get(x)) or x in self.outputs

    @cached_property
    def _order(self) -> dict[Node, int]:
        return {x: i for i, x in enumerate(self.nodes)}

    def is_read_behind(self, x: Node, node: Node) -> bool:
        """Whether some node reads a value that is computed behind this node."""
        users = self.uses.get(x, [])
        return bool(users) and self._order[users[-1]] > self._order[node]

    def take_over(self, node: Node, owners: Iterable[Node]) -> None:
        """Note whose memory a node writes over, or hands on to its results: nothing reads these owners behind it."""
        self.taken_over.setdefault(node, []).extend(owners)


class Abilities(NamedTuple):
    """The facts about a target that placement depends on."""

    makes_anew: bool = True  # whether an array of one number may be made several times, rather than copied
    keeps: Callable[[Node], bool] = lambda x: False  # whether a value of a loop's body gets a buffer, if it may
    on_numbers: Callable[[Node], bool] = lambda loop: False  # whether a loop runs on the language's own numbers
    runs_twice: Callable[[Node], bool] = lambda loop: False  # whether such a loop may run again from where it began
    fills: Callable[[Node], bool] = lambda put: False  # whether the value of an assignment is computed where it is put
    joins: Callable[[Node, Node], bool] = lambda x, whole: False  # whether a part of a joined array is
    releases: Callable[[Node, bool], bool] = lambda x, again: False  # whether a value is large enough to be released

    @property
    def in_blocks(self) -> Abilities:
        """Return those for loops over blocks of rows, whose buffers are in the cache."""
        return Abilities(keeps=self.keeps, fills=self.fills)


def unplaced(outputs: Sequence[Node], results: Sequence[Node] = (), given: Sequence[Node] = ()) -> Placement:
    """Return a suite before any decision, with the facts that these depend on."""
    nodes = by_sizes(reached(outputs))
    roots = roots_of(nodes)
    last: dict[Node, Node | None] = {**last_users(nodes, roots), **dict.fromkeys([roots[y] for y in outputs])}
    return Placement(
        nodes, set(without_tokens(outputs)), [*results], given, users_of(nodes), roots, last, _items(nodes)
    )


def _items(nodes: Sequence[Node]) -> dict[Node, dict[int, Node]]:
    items: dict[Node, dict[int, Node]] = {}
    for node in nodes:
        if not isinstance(node.aval, Aval):
            items.setdefault(node, {})
        elif node.op is ITEM and node.aval != TOKEN:
            items[node.inputs[0]][dict(node.params)["index"]] = node
    return items
