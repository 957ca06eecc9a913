"""Why a program is run in blocks of rows, or is not: what `nest` notes."""

from __future__ import annotations

from typing import NamedTuple

from symgrad.analysis.cost import likely, rows_scale
from symgrad.core.graph import Node
from symgrad.core.sizes import Size
from symgrad.core.text import duration


class NothingLarge(NamedTuple):
    """No value is long enough for blocks."""

    largest: int
    fewest: int

    def __str__(self) -> str:
        return f"no value has {self.fewest:,} numbers: {self.largest:,} at most"


class LittleToSave(NamedTuple):
    """What blocks could save at best, along one axis or along any."""

    saved: float
    worth: float
    size: Size | None = None

    def __str__(self) -> str:
        could = f"save {duration(self.saved)} at most" if self.saved > 0 else "not save anything"
        text = f"blocks could {could}, and pay from {duration(self.worth)} on"
        return text if self.size is None else f"along {self.size}: {text}{_assumed(self.size)}"


class NotAlong(NamedTuple):
    """An axis along which there are no blocks, and why."""

    size: Size
    why: str

    def __str__(self) -> str:
        return f"along {self.size}: {self.why}"


class Compared(NamedTuple):
    """An axis along which blocks were tried."""

    size: Size
    saved: float
    worth: float

    def __str__(self) -> str:
        gained = f"save {duration(self.saved)}" if self.saved > 0 else f"cost {duration(-self.saved)} more"
        must = f"to be chosen they must save {duration(self.worth)}{_assumed(self.size)}"
        return f"along {self.size}: blocks would {gained}; {must}"


class Chosen(NamedTuple):
    """The axis along which the program is run in blocks."""

    size: Size
    saved: float

    def __str__(self) -> str:
        return f"along {self.size}: saves {duration(self.saved)}, as far as reckoned{_assumed(self.size)}"


class AgainInLoop(NamedTuple):
    """Values of earlier loops that one computes again, rather than reading them."""

    loop: int
    values: tuple[Node, ...]

    def __str__(self) -> str:
        values = dict.fromkeys(f"{x.op.name} of {x.where}" for x in self.values)
        return f"in loop {self.loop + 1}, rather than read: {', '.join(values)}"


def _assumed(size: Size) -> str:
    """For how many rows figures are reckoned, where their number is a symbol without a value."""
    scale = rows_scale(size)
    return "" if scale == 1.0 else f", for {round(likely(size) * scale):,} rows"
