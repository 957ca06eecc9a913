"""Extents in source: the names of a block's rows in its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from symgrad.core.graph import Aval
from symgrad.core.sizes import Rows, Size
from symgrad.loops.halos import plus
from symgrad.loops.loop import Block
from symgrad.spelling import Code, Name
from symgrad.targets.numpy.names import Names
from symgrad.targets.numpy.statements import Assign, Statement, mentioned, remark

SHARED = "some rows of neighbouring blocks are needed here: both compute them, so that none waits"


class Extent(NamedTuple):
    """The rows of a value that a block has: the names of their start, stop and number in the source."""

    start: str
    stop: str
    length: str

    @property
    def size(self) -> str:
        return f"{self.stop} - {self.start}"

    def rows(self, by: Size = 0) -> str:
        """Return them as a slice of all rows, shifted by some places."""
        return f"{plus(self.start, by)}:{plus(self.stop, by)}"

    def among(self, other: Extent, by: Size) -> tuple[str, str]:
        """Return where rows, shifted by some places, begin and end in another extent; "" at its own ends."""
        begin, end = _between(self.start, by, other.start), _between(self.stop, by, other.start)
        return "" if begin == "0" else begin, "" if plus(self.stop, by) == other.stop else end


def _between(place: str, by: Size, first: str) -> str:
    """A place among rows from `first` on."""
    if place != first:
        return f"{plus(place, by)} - {first}"
    return f"{by}" if isinstance(by, int) else f"({by})"


class Extents:
    """The extents of a block, and the statements that define them."""

    def __init__(self, names: Names, block: Block) -> None:
        self.i, self.j = names.local("i"), names.local("j")
        self._names, self._main = names, block.rows
        self._overlap = any(extent.more for extent in block.bounds)
        self._known = {self.i: self.i, self.j: self.j}  # names by what they stand for
        self._made = {self.i: 0, self.j: 0}
        self._of = {int(block.rows): Extent(self.i, self.j, str(block.rows))}
        for extent, bounds in block.bounds.items():
            start = self._name(extent.start_text(self.i, block.size), self.i)
            stop = self._name(extent.stop_text(self.j, block.size), self.j)
            self._of[int(bounds.rows)] = Extent(start, stop, str(bounds.rows))

    def _name(self, text: str, letter: str) -> str:
        if text not in self._known:
            self._made[letter] += 1
            self._known[text] = self._names.local(f"{letter}{self._made[letter]}")
        return self._known[text]

    def of(self, length: int) -> Extent:
        return self._of[int(length)]

    def note(self, aval: Aval) -> str:
        """Return the note of a value: its dtype and shape, with the number of rows where that is not the block's."""
        return str(aval) if len(self._of) == 1 else f"{aval.dtype}[{', '.join(map(self._noted, aval.shape))}]"

    def _noted(self, size: Size) -> str:
        return self._of[int(size)].size if isinstance(size, Rows) and size != self._main else str(size)

    def definitions(self, body: Sequence[Statement]) -> list[Statement]:
        """Return the definitions of the names that a body mentions."""
        names = mentioned([x.length for x in self._of.values()], body)
        lengths = [Assign((Name(x.length),), Code(x.size)) for x in self._of.values() if x.length in names]
        known = {name: text for text, name in self._known.items() if name != text}
        names = mentioned(known, [*body, *lengths])
        bounds = [Assign((Name(name),), Code(text)) for name, text in known.items() if name in names]
        return [*([remark(SHARED)] if self._overlap and bounds else []), *bounds, *lengths]
