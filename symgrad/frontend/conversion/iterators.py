"""Iterators of Python's with a position that can be read: loops can carry it, and branches can choose it."""

from __future__ import annotations

import builtins
import itertools
from typing import Any, Self

import numpy as np

from symgrad.core.graph import tracing
from symgrad.errors import ConcreteValueError
from symgrad.frontend.conversion.mutable import Stateful
from symgrad.ops.operands import is_traced


class Iterator(Stateful):
    """``iter(items)`` of a list, a tuple, a range or an array."""

    def __init__(self, items: Any) -> None:
        self.items, self.position = items, 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if is_traced(self.position):
            raise ConcreteValueError(
                "whether an iterator has another item depends on traced values",
                "Make a list of its items first, items = [*iterator], and count the position.",
            )
        if self.position >= len(self.items):
            raise StopIteration
        self.position += 1
        return self.items[self.position - 1]


class Counter(Stateful):
    """``itertools.count(start, step)``"""

    def __init__(self, start: Any = 0, step: Any = 1) -> None:
        self.value, self.step = start, step

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        value = self.value
        self.value = value + self.step
        return value


class Cycle(Stateful):
    """``itertools.cycle(items)``, where there are items."""

    def __init__(self, items: Any) -> None:
        self.items, self.position = [*items], 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        position = self.position
        self.position = (position + 1) % len(self.items)
        if is_traced(position):
            return np.stack([np.asarray(x, like=position) for x in self.items])[position]
        return self.items[position]


def _is_known(items: Any) -> bool:
    return type(items) in (list, tuple, range) or (is_traced(items) and items.ndim > 0 and type(len(items)) is int)


def advanced(items: Any, /, *default: Any) -> Any:
    """``next(items)``"""
    note_advanced(items)
    return next(items, *default)


def note_advanced(items: Any) -> None:
    """Note that an iterator gives items, which the next call of the function may find advanced."""
    if (graph := tracing.get()) is not None:
        graph.advanced[id(items)] = items


def iterator(items: Any, *sentinel: Any) -> Any:
    """``iter(items)``"""
    return Iterator(items) if not sentinel and _is_known(items) else builtins.iter(items, *sentinel)


def cycle(items: Any) -> Any:
    """``itertools.cycle(items)``"""
    return Cycle(items) if _is_known(items) and len(items) else itertools.cycle(items)
