"""Placement: the memory of every value of a NumPy program, decided before its text is written.

A suite is a function, or a region in it: the body or the condition of a loop, a side of a branch. Its `Placement` says
which array an indexed assignment writes into, what is copied before, which values lie in buffers, whose memory a node
takes over, and which results of loops and branches may alias their inputs. `symgrad.lowering.placing` decides it, and a
target reads it. Tests check it on the graph, without any text.

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
    """The array that an indexed assignment writes into."""

    HERE = "here"  # the array itself: nothing reads its old content later
    COPY = "copy"  # a copy of it
    ANEW = "anew"  # a new array of one repeated number, made for this assignment
    SUM = "sum"  # the partial sum of a loop over blocks of rows


class Step(Enum):
    """The memory of a carry's next value."""

    NEW = "new"
    ASSIGNED = "assigned"  # that of the carry: the iteration assigns into it under an index
    UPDATED = "updated"  # that of the carry: a sum or product with the carry is written over it


class Carry(NamedTuple):
    """The memory of one carry of a loop."""

    own: bool  # whether only the loop uses the initial value
    anew: bool  # whether the initial value is an array of one repeated number, made for the loop
    copied: bool  # whether the initial value is copied, since iterations write into it
    step: Step


class Stack(NamedTuple):
    """The memory of the ys of a loop: an array that iterations fill, or a list that they append to."""

    y: Node  # the value of the body that is stacked
    listed: bool
    stays: bool  # whether later readers take the list, rather than an array made from it
    copied: bool = False  # whether the list has copies, since iterations write into `y` later


@dataclass(eq=False)
class LoopPlacement:
    """The decisions for a loop."""

    body: Placement
    test: Placement | None
    carries: Sequence[Carry | None]  # None for tokens
    stacks: dict[Node, Stack]  # by the item of the loop that has them
    joint: Sequence[Node]  # ys that are one list of tuples
    stop: int | None  # the number of the carried boolean that only ends the loop
    runs: bool  # whether it surely has an iteration
    made: frozenset[Node]  # carries that are converted to NumPy's numbers after the loop
    on_numbers: bool  # whether it runs on Python's numbers


@dataclass(eq=False)
class BranchPlacement:
    """The decisions for a branch."""

    then: Placement
    other: Placement
    continued: dict[Node, list[int]]  # the numbers of the operands in whose memory a result may stay, by its item


@dataclass(eq=False)
class Placement:
    """The memory of the values of one suite."""

    nodes: Sequence[Node]  # in order of execution
    outputs: Collection[Node]  # values that are live at the end
    results: Sequence[Node]  # outputs that leave the suite uncopied
    given: Sequence[Node]  # the parameters, where the suite is a region
    uses: dict[Node, list[Node]]
    roots: dict[Node, Node]  # the owner of the memory of each value
    last_use: dict[Node, Node | None]  # by owner; None if its memory is live at the end
    items: dict[Node, dict[int, Node]]  # for each operator with several results: number -> result
    anew: frozenset[Node] = frozenset()  # arrays of one repeated number, made again for each user that writes into them
    own: set[Node] = field(default_factory=set)  # parameters that the suite may write into
    writes: dict[Node, Write] = field(default_factory=dict)
    updates: dict[Node, Node] = field(default_factory=dict)  # results that are written over a parameter
    buffers: Sequence[Buffer] = ()  # arrays allocated before a loop, and used again in each iteration or block
    assignments: Mapping[Node, int] = field(default_factory=dict)  # value -> the number of its buffer
    borrowed: set[Node] = field(default_factory=set)  # results of loops and branches that may alias operands of these
    lent: set[Node] = field(default_factory=set)  # owners of memory that such results, or lists, may alias
    taken_over: dict[Node, list[Node]] = field(default_factory=dict)  # node -> owners whose memory it takes over
    lists: set[Node] = field(default_factory=set)  # ys, and parameters, that are lists
    pythons: set[Node] = field(default_factory=set)  # lists of Python's numbers, and their rows
    straight: set[Node] = field(default_factory=set)  # values computed in the memory that they are assigned to
    copied: set[Node] = field(default_factory=set)  # outputs that the caller gets as copies
    released: frozenset[Node] = frozenset()  # owners of memory that is released after their last use
    loops: dict[Node, LoopPlacement] = field(default_factory=dict)
    branches: dict[Node, BranchPlacement] = field(default_factory=dict)
    parts: dict[Node, Placement] = field(default_factory=dict)  # of the bodies of checks, and of loops over blocks

    def reads(self, x: Node) -> bool:
        """Whether anything reads a parameter."""
        return bool(self.uses.get(x)) or x in self.outputs

    @cached_property
    def _order(self) -> dict[Node, int]:
        return {x: i for i, x in enumerate(self.nodes)}

    def is_read_behind(self, x: Node, node: Node) -> bool:
        """Whether a node after this one reads a value."""
        users = self.uses.get(x, [])
        return bool(users) and self._order[users[-1]] > self._order[node]

    def take_over(self, node: Node, owners: Iterable[Node]) -> None:
        """Note whose memory a node overwrites or passes on to its results: nothing reads these owners after it."""
        self.taken_over.setdefault(node, []).extend(owners)


class Abilities(NamedTuple):
    """The facts about a target that placement depends on."""

    makes_anew: bool = True  # whether an array of one number may be made several times, rather than copied
    keeps: Callable[[Node], bool] = lambda x: False  # whether a value of a loop's body is worth a buffer
    on_numbers: Callable[[Node], bool] = lambda loop: False  # whether a loop runs on Python's numbers
    runs_twice: Callable[[Node], bool] = lambda loop: False  # whether such a loop may be started again on arrays
    fills: Callable[[Node], bool] = lambda put: False  # whether an assigned value is computed in the assigned memory
    joins: Callable[[Node, Node], bool] = lambda x, whole: False  # whether a part of a concatenation is
    releases: Callable[[Node, bool], bool] = lambda x, again: False  # whether a value is large enough to be released

    @property
    def in_blocks(self) -> Abilities:
        """Return those for loops over blocks of rows, whose buffers are in the cache."""
        return Abilities(keeps=self.keeps, fills=self.fills)


def unplaced(outputs: Sequence[Node], results: Sequence[Node] = (), given: Sequence[Node] = ()) -> Placement:
    """Return a suite with its uses and aliases, before any decision."""
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
