"""Combine partial results in an order that depends on the number of chunks alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Parts = tuple[Any, ...]


class Combining(NamedTuple):
    """A way to combine partial results: what begins with those of a chunk, joins two, and ends with results."""

    begin: Callable[[Parts], Parts]
    join: Callable[[Parts, Parts], Parts]
    end: Callable[[Parts], Parts]


class Pairwise:
    """Partial results combined in pairs: neighbours first, then pairs of pairs, as a tree over the chunks.

    No more than one result a level of the tree is kept, in `begun` with its level. Rounding errors grow with the
    logarithm of the number of chunks.
    """

    def __init__(self, ways: Combining, begun: Sequence[tuple[int, Parts]] = ()) -> None:
        self.ways, self.begun = ways, list(begun)

    def add(self, parts: Parts) -> None:
        """Take the partial results of the next chunk."""
        level, parts = 0, self.ways.begin(parts)
        while self.begun and self.begun[-1][0] == level:
            parts, level = self.ways.join(self.begun.pop()[1], parts), level + 1
        self.begun.append((level, parts))

    def total(self) -> Parts:
        """Return the results of all chunks."""
        (_, parts), *others = reversed(self.begun)
        for _, left in others:
            parts = self.ways.join(left, parts)
        return self.ways.end(parts)


def plainly(join: Callable[[Parts, Parts], Parts]) -> Combining:
    """Combine partial results as they are."""
    return Combining(lambda parts: parts, join, lambda parts: parts)


def compensated(joins: Sequence[np.ufunc]) -> Combining:
    """Combine sums with what rounding takes from them: a sum over chunks has the digits of one pass.

    Floating sums are followed by the rest that they lack, which two-sum gives exactly (Knuth, *The Art of Computer
    Programming*, vol. 2, 4.2.2, theorem B).
    """

    def begin(parts: Parts) -> Parts:
        rests = [np.zeros_like(x)[()] for x, u in zip(parts, joins, strict=True) if u is np.add and _is_floating(x)]
        return (*parts, *rests)

    def join(left: Parts, right: Parts) -> Parts:
        count = len(joins)
        rests, others = iter(left[count:]), iter(right[count:])
        made, lost = [], []
        for u, a, b in zip(joins, left[:count], right[:count], strict=True):
            made.append(u(a, b))
            if u is np.add and _is_floating(a):
                lost.append(_lost(a, b, made[-1]) + next(rests) + next(others))
        return (*made, *lost)

    def end(parts: Parts) -> Parts:
        rests = iter(parts[len(joins) :])
        pairs = zip(joins, parts[: len(joins)], strict=True)
        return tuple([x + next(rests) if u is np.add and _is_floating(x) else x for u, x in pairs])

    return Combining(begin, join, end)


def _is_floating(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def _lost(a: Any, b: Any, total: Any) -> Any:
    """Return what a sum of two numbers lacks; nothing where it is not finite."""
    with np.errstate(invalid="ignore"):
        moved = total - a
        rest = (a - (total - moved)) + (b - moved)
    return np.where(np.isfinite(total), rest, 0)[()]
