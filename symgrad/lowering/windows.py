"""Windows: the places in memory of the numbers of a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from symgrad.core.shapes import product
from symgrad.core.sizes import Size
from symgrad.lowering.expressions import Expr, Load, Local, extent, plus, times
from symgrad.lowering.statements import Buffer

At = tuple[Expr, ...]


class Window(NamedTuple):
    """The numbers of a value in a buffer: how far from its start, and how far apart along each axis."""

    buffer: Buffer
    start: Expr
    strides: tuple[Expr, ...]

    def place(self, at: At) -> Expr:
        """Return the place in the buffer of the number with an index."""
        place = self.start
        for i, stride in zip(at, self.strides, strict=True):
            place = plus(place, times(i, stride))
        return place

    def load(self, at: At) -> Expr:
        return Load(self.buffer, self.place(at))


Value = Window | Expr
"""A value in memory, or, if it is one number, as an expression."""


def strides_of(shape: Sequence[Size]) -> tuple[Expr, ...]:
    """Return how far apart numbers lie along each axis in row-major order."""
    return tuple([extent(product(shape[k + 1 :])) for k in range(len(shape))])


def row_of(window: Window, index: Local) -> Value:
    """Return the row of an array that belongs to an iteration."""
    row = Window(window.buffer, plus(window.start, times(index, window.strides[0])), window.strides[1:])
    return row if row.strides else row.load(())


def size_of(shape: Sequence[Size]) -> Expr:
    """Return how many numbers an array of a shape has."""
    return extent(product(shape))
