"""Reasons why a program runs in blocks of rows or not, which `nest` notes for ``explain()``."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.analysis.cost import likely, rows_scale
from symgrad.core.graph import Node
from symgrad.core.sizes import Size
from symgrad.core.text import duration


def nothing_large(largest: int, fewest: int) -> str:
    """Return the reason that no value is long enough for blocks."""
    return f"no value has {fewest:,} numbers: {largest:,} at most"


def little_to_save(saved: float, worth: float, size: Size | None = None) -> str:
    """Return the reason that blocks could save little, along one axis or along any."""
    could = f"save {duration(saved)} at most" if saved > 0 else "not save anything"
    text = f"blocks could {could}, and pay from {duration(worth)} on"
    return text if size is None else f"along {size}: {text}{_assumed(size)}"


def not_along(size: Size, why: str) -> str:
    """Return why there are no blocks along an axis."""
    return f"along {size}: {why}"


def compared(size: Size, saved: float, worth: float) -> str:
    """Return what blocks along an axis would save."""
    gained = f"save {duration(saved)}" if saved > 0 else f"cost {duration(-saved)} more"
    return f"along {size}: blocks would {gained}; to be chosen they must save {duration(worth)}{_assumed(size)}"


def chosen(size: Size, saved: float) -> str:
    """Return along which axis the program runs in blocks."""
    return f"along {size}: saves {duration(saved)}, as estimated{_assumed(size)}"


def again_in_loop(loop: int, values: Iterable[Node]) -> str:
    """Return which values of earlier loops a loop recomputes."""
    shown = dict.fromkeys(f"{x.op.name} of {x.where}" for x in values)
    return f"in loop {loop + 1}, rather than read: {', '.join(shown)}"


def _assumed(size: Size) -> str:
    """Return the number of rows that estimates assume, where it is a symbol without a value."""
    scale = rows_scale(size)
    return "" if scale == 1.0 else f", for {round(likely(size) * scale):,} rows"
