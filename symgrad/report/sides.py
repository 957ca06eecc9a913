"""The two sides of a rewrite that was applied, as short mathematics in which common parts have common names."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import chain
from string import ascii_lowercase
from typing import NamedTuple

from symgrad.graph import Graph, Node
from symgrad.listing import node_names, number
from symgrad.mathematics import CUT, at_a_glance
from symgrad.recording import Applied
from symgrad.spelling import Code
from symgrad.text import visible

NEAR = 64  # nodes of a side that are looked at
DEEPEST = 6  # operations in each other that a person still follows
WIDEST = 88  # characters
INLINE = 16  # up to so many characters a common part without a name stands as it is


class Naming:
    """What the user calls the values of graphs, each graph looked through once."""

    def __init__(self) -> None:
        self._known: dict[int, dict[Node, str]] = {}

    def of(self, graph: Graph) -> dict[Node, str]:
        """The names of those that have one."""
        if id(graph) not in self._known:
            names = node_names(graph)
            self._known[id(graph)] = {x: name for x, name in names.items() if not name.startswith("%")}
        return self._known[id(graph)]


class Sides(NamedTuple):
    """Both sides of a rewrite, and what they have in common: a node of the left side and one of the right."""

    before: str
    after: str
    common: list[tuple[Node, Node]]


def sides_of(applied: Applied, naming: Naming) -> Sides:
    """Both sides down to what they have in common."""
    return _Writer(applied, naming).sides()


class _Writer:
    def __init__(self, applied: Applied, naming: Naming) -> None:
        self.applied, self.image = applied, applied.image
        self.names = naming.of(applied.graph)
        self.letters: dict[Node, str] = {}
        self.met: dict[Node, None] = {}  # the common parts

    def sides(self) -> Sides:
        before, after = self.applied.before, self.applied.after
        left = {self._became(x): x for x in _near(before) if x is not before}
        right = set(_near(after))
        texts = (
            self._text(before, lambda x: x is not before and self._became(x) in right),
            self._text(after, left.__contains__),
        )
        return Sides(*texts, [(left[y], y) for y in self.met])

    def _became(self, x: Node) -> Node:
        return self.image.get(x, x)

    def _text(self, root: Node, is_common: Callable[[Node], bool]) -> str:
        known = lambda x: self._named(self._became(x)) if is_common(x) and number(x) is None else None
        text = at_a_glance(root, known, DEEPEST).text
        return visible(text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}...")

    def _named(self, y: Node) -> Code:
        """A common part: under its name, or as what it is made of if that is short, or as a letter."""
        self.met[y] = None
        if y not in self.letters:
            code = at_a_glance(y, self._plain, 1)
            if CUT.text not in code.text and len(code.text) <= INLINE:
                return code
            self.letters[y] = next(self._free)
        return Code(self.letters[y])

    def _plain(self, y: Node) -> Code | None:
        """What has a name."""
        return Code(self.names[y]) if y in self.names else None

    @cached_property
    def _free(self) -> Iterator[str]:
        taken = set(self.names.values())
        return (x for x in chain(ascii_lowercase, map("a{}".format, range(NEAR))) if x not in taken)


def _near(root: Node) -> list[Node]:
    """What a value is made of, nearest first, as far as one looks."""
    found, waiting = [root], deque([root])
    seen = {root}
    while waiting and len(found) < NEAR:
        for x in waiting.popleft().inputs:
            if x not in seen:
                seen.add(x)
                found.append(x)
                waiting.append(x)
    return found
