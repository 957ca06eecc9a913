"""Lists that the turns of a loop append to: behind the loop they are arrays, of which a row is an item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.core.graph import Graph, Node
from symgrad.errors import UnsupportedError
from symgrad.frontend.bodies import promoted
from symgrad.frontend.conversion.state import ELSEWHERE, Held, held
from symgrad.frontend.variable import Variable, lift


class Listing(Variable):
    """The list behind the loop. It is indexed and iterated over as the array is; ``+`` joins it to lists."""

    __slots__ = ()
    __hash__ = Variable.__hash__

    def __getitem__(self, key: Any) -> Any:
        x = super().__getitem__(key)
        return Listing(x.graph, x.node) if type(key) is slice else x

    def __add__(self, other: Any) -> Any:
        return self._joined([self, *_rows(other)])

    def __radd__(self, other: Any) -> Any:
        return self._joined([*_rows(other), self])

    __iadd__ = __add__

    def _joined(self, parts: Sequence[Any]) -> Listing:
        x = np.concatenate(parts)
        return Listing(x.graph, x.node)

    def _refused(self, other: Any) -> Any:
        raise UnsupportedError(
            "a list that a loop has appended to is multiplied or compared", "Make it an array: np.array(x)."
        )

    __mul__ = __rmul__ = __imul__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refused


def _rows(other: Any) -> list[Any]:
    if isinstance(other, Listing):
        return [other]
    if type(other) is not list:
        raise UnsupportedError("something else than a list is added to a list", "Make it an array: np.array(x).")
    return [np.stack(other)] if other else []


class Appended:
    """A list, and what a turn appends to it."""

    def __init__(self, graph: Graph, name: str, items: list[Any]) -> None:
        self.graph, self.name, self.items = graph, name, items
        self.before = list(items)
        self.new: list[Held] = []
        self._marks = 0

    def begin(self, last: Sequence[Any]) -> None:
        """Let the list be as in the middle of the loop: `last` is what stands for its last item, if there is one."""
        self.items[:] = [ELSEWHERE, ELSEWHERE, *last]
        self._marks = len(self.items)

    def end(self) -> bool:
        """Look at what was appended; whether that is all that has happened, and as many items as in the turn before."""
        new = [held(x) for x in self.items[self._marks :]]
        kept = len(self.items) >= self._marks and self.items[0] is self.items[1] is ELSEWHERE
        same = not self.new or len(self.new) == len(new)
        self.new = new
        return kept and same and bool(new) and all(len(x.leaves) == 1 for x in new)

    def rows(self) -> list[Node]:
        """What a turn appends."""
        nodes = [x.nodes[0] or lift(self.graph, x.leaves[0]) for x in self.new]
        return [promoted(self.graph, x, x.aval._replace(weak=False)) for x in nodes]

    def behind(self, stacks: Sequence[Variable]) -> Listing:
        """The list behind the loop; the one that was appended to is given up."""
        rows = stacks[0]
        if stacks[1:]:
            both = np.stack(stacks, axis=1)
            rows = np.reshape(both, (-1, *both.shape[2:]))
        if self.before:
            rows = np.concatenate([np.stack(self.before), rows])
        self.items[:] = [ELSEWHERE]
        return Listing(self.graph, rows.node)
