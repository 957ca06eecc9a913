"""Lists that the turns of a loop append to: behind the loop they are arrays, of which a row is an item."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from symgrad.core.graph import Graph, Node
from symgrad.core.sizes import is_counted
from symgrad.errors import UnsupportedError
from symgrad.frontend.bodies import promoted, repeat
from symgrad.frontend.conversion.state import ELSEWHERE, UNDEFINED, Held, Pending, Unread, held, is_of_a_loop
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

    def copy(self, *_: Any) -> Listing:
        return Listing(self.graph, self.node)

    def copied(self, order: str = "C", array: bool = False) -> Any:
        """The array of it."""
        return Variable(self.graph, self.node).copied(order, array)

    def _changed(self, *_: Any) -> Any:
        raise UnsupportedError(
            "a list that a loop has filled is changed behind it",
            "Make another one: x = x + [y], x = x[::-1], x = sorted(x); in nested loops append as often in each turn.",
        )

    append = extend = insert = remove = pop = clear = reverse = __delitem__ = _changed
    __mul__ = __rmul__ = __imul__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refused


def _rows(other: Any) -> list[Any]:
    if isinstance(other, Listing):
        return [other]
    if type(other) is not list:
        raise UnsupportedError("something else than a list is added to a list", "Make it an array: np.array(x).")
    return [np.stack(other)] if other else []


class Appended:
    """A list, and what a turn appends to it.

    Attributes
    ----------
    new : list of Held
        What the turn has appended: an item, or rows of several.
    last : Held
        The last item that is there behind the turn; of a list that no turn has an item of, not bound.
    """

    def __init__(self, graph: Graph, name: str, items: list[Any]) -> None:
        self.graph, self.name, self.items = graph, name, items
        self.before = list(items)
        self.new: list[Held] = []
        self.last = held(UNDEFINED)
        self._there: list[Any] = []
        self._kinds: list[tuple[bool, bool]] = []
        self._marks = 0

    @property
    def first(self) -> Held | None:
        """The last item before the loop, where it is known."""
        return None if not self.before or isinstance(self.before[-1], Unread) else held(self.before[-1])

    def begin(self, last: Sequence[Any]) -> None:
        """Let the list be as in the middle of the loop: `last` is what stands for its last item, if there is one."""
        self.items[:] = [ELSEWHERE, ELSEWHERE, *last]
        self._marks = len(self.items)

    def end(self) -> bool:
        """Look at what was appended; whether that is all that has happened, and as many items as in the turn before."""
        kept = len(self.items) >= self._marks and self.items[0] is self.items[1] is ELSEWHERE
        items = [x if isinstance(x, Pending) else Pending(x, None, False) for x in self.items[self._marks :]]
        kinds = [(x.there is not None, x.many) for x in items]
        same = not self._kinds or self._kinds == kinds
        self.new, self._there, self._kinds = [held(x.value) for x in items], [x.there for x in items], kinds
        if not (kept and same and items and all(len(x.leaves) == 1 for x in self.new)):
            return False
        self.last = held(reduce(_last, items, self.items[2] if self._marks == 3 else UNDEFINED))
        return True

    def rows(self) -> list[Node]:
        """What a turn appends, and for what may not be there whether it is."""
        nodes = [x.nodes[0] or lift(self.graph, x.leaves[0]) for x in self.new]
        values = [promoted(self.graph, x, x.aval._replace(weak=False)) for x in nodes]
        return [*values, *(lift(self.graph, x) for x in self._there if x is not None)]

    def behind(self, stacks: Sequence[Variable]) -> Any:
        """The list behind the loop, of what the turns append; the one that was appended to is given up.

        In a turn of another loop it is kept, with the rows as what that turn appends.
        """
        values, there = stacks[: len(self.new)], iter(stacks[len(self.new) :])
        rows, found = self._joined(values), None
        if any(x is not None for x in self._there):
            truths = [
                next(there) if x is not None else np.full(y.shape[: 1 + many], True, like=y)
                for x, y, (_, many) in zip(self._there, values, self._kinds, strict=True)
            ]
            found = self._joined(truths)
        if is_of_a_loop(self.graph, self.items):
            if is_counted(rows.shape[0]):
                raise _of_other_length(self.name)
            self.items[:] = [*self.before, Pending(rows, found, True)]
            return self.items
        if found is not None:
            rows = _compressed(rows, found)
        if self.before:
            rows = np.concatenate([np.stack(self.before), rows])
        self.items[:] = [ELSEWHERE]
        return Listing(self.graph, rows.node)

    def _joined(self, stacks: Sequence[Variable]) -> Variable:
        """What the turns append one after the other."""
        if len(stacks) == 1 and not self._kinds[0][1]:
            return stacks[0]
        blocks = [y if many else y[:, None] for y, (_, many) in zip(stacks, self._kinds, strict=True)]
        both: Variable = np.concatenate(blocks, axis=1) if blocks[1:] else blocks[0]
        return np.reshape(both, (-1, *both.shape[2:]))


def _last(before: Any, item: Pending) -> Any:
    """The last item behind one that is appended."""
    value, there = item.value, item.there
    if item.many:
        at = -1 if there is None else there.shape[0] - 1 - np.argmax(there[::-1])
        value, there = value[at], None if there is None else np.any(there)
    return value if there is None or before is UNDEFINED else np.where(there, value, before)


def _compressed(rows: Variable, there: Variable) -> Variable:
    """The rows that are there."""
    order = np.argsort(np.logical_not(there), kind="stable")
    turn = lambda carry, t, _: ((carry[0] + 1,), (rows[order[t]],))
    (count,), (found,), _ = repeat(rows.graph, turn, (0,), np.sum(there))
    rows.graph.counts[str(found.shape[0])] = count.node  # also where none of the rows is asked for
    return found


def _of_other_length(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"a loop in another one appends to {name}, and only running tells how often",
        "Append what a turn of the outer loop makes of it: its sum, or its last item.",
    )
