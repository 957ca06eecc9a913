"""The two sides of a rewrite that was applied, as short mathematics in which common parts have common names."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import chain
from string import ascii_lowercase
from typing import NamedTuple

from symgrad.core.graph import INPUT, Graph, Node
from symgrad.core.listing import node_names, number
from symgrad.core.recording import Applied
from symgrad.core.text import cut_to, visible
from symgrad.report.mathematics import CUT, at_a_glance
from symgrad.spelling import Code

NEAR = 64  # nodes of a side that are looked at
DEEPEST = 6  # operations in each other that a person still follows
WIDEST = 88  # characters
INLINE = 16  # up to so many characters a common part without a name stands as it is


class Naming:
    """The user's names of values, each graph searched once."""

    def __init__(self) -> None:
        self._known: dict[int, dict[Node, str]] = {}

    def of(self, graph: Graph) -> dict[Node, str]:
        """Return the named nodes of a graph."""
        if id(graph) not in self._known:
            names = node_names(graph)
            self._known[id(graph)] = {x: name for x, name in names.items() if not name.startswith("%")}
        return self._known[id(graph)]


class Sides(NamedTuple):
    """The text of both sides of a rewrite."""

    before: str
    after: str


def sides_of(applied: Applied, naming: Naming) -> Sides:
    """Both sides down to what they have in common; what only the left one has is a letter, whatever it is made of."""
    return _Writer(applied, naming.of(applied.graph)).sides()


class _Writer:
    def __init__(self, applied: Applied, names: dict[Node, str]) -> None:
        self.applied, self.names = applied, names
        self.letters: dict[Node, str] = {}

    def sides(self) -> Sides:
        before, after = self.applied.before, self.applied.after
        left = list(_walk(before, lambda x: False))
        common = _first_met(after, {self._became(x) for x in left if x is not before and number(x) is None})
        shown: set[Node] = set()  # of the left side: what is made of common parts
        fixed: set[Node] = set()  # and of numbers alone
        for x in sorted(left, key=lambda x: x.id):
            if self._became(x) in common or not shown.isdisjoint(x.inputs):
                shown.add(x)
            elif x.op is not INPUT and fixed.issuperset(x.inputs):
                fixed.add(x)
        is_leaf = lambda x: x is not before and x not in fixed and (x not in shown or self._became(x) in common)
        return Sides(self._text(before, is_leaf), self._text(after, common.__contains__))

    def _became(self, x: Node) -> Node:
        return self.applied.image.get(x, x)

    def _text(self, root: Node, is_leaf: Callable[[Node], bool]) -> str:
        known = lambda x: self._named(self._became(x)) if is_leaf(x) and number(x) is None else None
        return visible(cut_to(at_a_glance(root, known, DEEPEST).text, WIDEST))

    def _named(self, y: Node) -> Code:
        """A part under its name, or as what it is made of if that is short, or as a letter."""
        if y not in self.letters:
            code = at_a_glance(y, self._plain, 1)
            if CUT.text not in code.text and len(code.text) <= INLINE:
                return code
            self.letters[y] = next(self._free)
        return Code(self.letters[y])

    def _plain(self, y: Node) -> Code | None:
        """Return a value by its name, if it has one."""
        return Code(self.names[y]) if y in self.names else None

    @cached_property
    def _free(self) -> Iterator[str]:
        taken = set(self.names.values())
        return (x for x in chain(ascii_lowercase, map("a{}".format, range(2 * NEAR))) if x not in taken)


def _first_met(root: Node, known: set[Node]) -> set[Node]:
    """Return the known values first met from `root` towards its inputs, perhaps `root` itself."""
    return known.intersection(_walk(root, known.__contains__))


def _walk(root: Node, ends: Callable[[Node], bool]) -> Iterator[Node]:
    """A value and what it is made of, nearest first, as far as one looks and not below what ends it."""
    waiting, seen = deque([root]), {root}
    while waiting:
        node = waiting.popleft()
        yield node
        for x in () if ends(node) else node.inputs:
            if x not in seen and len(seen) < NEAR:
                seen.add(x)
                waiting.append(x)
