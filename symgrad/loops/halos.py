"""Halos: a block computes its own rows of a value, and the neighbouring rows that slices need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from symgrad.core.sizes import Dim, Size, difference, evaluate


@dataclass(frozen=True, eq=False)
class Extent:
    """The rows ``i + before`` to ``j + behind`` of a value, clipped to its `size`, for the block of rows i to j.

    Both neighbours compute the rows of a halo, so that blocks never wait for each other.
    """

    size: Size
    before: Size = 0
    behind: Size = 0

    @property
    def sizes(self) -> tuple[Size, ...]:
        return self.size, self.before, self.behind

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        """Return a key for comparisons: asking whether two symbolic sizes are equal may pin them."""
        return tuple([_key_of(size) for size in self.sizes])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def more(self) -> int:
        """Return the halo: how many rows a block has beyond its own."""
        more = self.behind - self.before
        return more if isinstance(more, int) else 0

    def moved(self, size: Size, by: Size) -> Extent:
        """Return the extent shifted by some rows, in a value of another size."""
        return Extent(size, self.before + by, self.behind + by)

    def joined(self, other: Extent | None) -> Extent:
        """Return the smallest extent that contains both."""
        if other is None:
            return self
        return Extent(self.size, min(self.before, other.before), max(self.behind, other.behind))

    def rows(self, i: int, j: int, symbols: Mapping[str, int]) -> tuple[int, int]:
        size, before, behind = (evaluate(x, symbols) for x in self.sizes)
        return min(max(i + before, 0), size), min(max(j + behind, 0), size)

    # ---- as source

    def start_text(self, i: str, size: Size) -> str:
        """Return the start as source, in a loop over `size` rows."""
        text = plus(i, self.before)
        if not (isinstance(self.before, int) and self.before >= 0):
            text = f"max({text}, 0)"
        return text if self._ends_behind(size, self.before - 1) else f"min({text}, {self.size})"

    def stop_text(self, j: str, size: Size) -> str:
        text = plus(j, self.behind)
        if not (isinstance(self.behind, int) and self.behind >= -1):
            text = f"max({text}, 0)"
        return text if self._ends_behind(size, self.behind) else f"min({text}, {self.size})"

    def _ends_behind(self, size: Size, by: Size) -> bool:
        """Whether the last of a loop's `size` rows, shifted by `by`, is surely a row of the value."""
        beyond = difference(size, self.size)
        return isinstance(beyond, int) and isinstance(by, int) and beyond + by <= 0


def _key_of(size: Size) -> Any:
    """Return a size for comparisons, without importing SymPy for multiples of symbols."""
    if not isinstance(size, Dim):
        return size
    return (size.multiple, None) if size.multiple else (None, size.expr)


def is_zero(size: Size) -> bool:
    return isinstance(size, int) and size == 0


def plus(text: str, by: Size) -> str:
    """Return the source of an expression plus a number: ``i + 1``, ``i - 1`` or ``i``."""
    if not isinstance(by, int):
        return f"{text} + ({by})"
    return text if by == 0 else f"{text} {'-' if by < 0 else '+'} {abs(by)}"
