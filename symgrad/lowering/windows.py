"""Windows: the part of a buffer in which a value lies, always in row-major order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from symgrad.lowering.expressions import Expr, Load, Local, place_of, strides_of
from symgrad.lowering.statements import Buffer, Store

At = tuple[Expr, ...]


class Window(NamedTuple):
    """The numbers of a value in a buffer: all of them, or the part under the first indices `under`."""

    buffer: Buffer
    under: At = ()

    @property
    def strides(self) -> tuple[Expr, ...]:
        """Return how far apart numbers lie along each axis."""
        return strides_of(self.buffer.shape)[len(self.under) :]

    @property
    def start(self) -> Expr:
        """Return how far from the start of the buffer the first number lies."""
        return place_of(self.buffer.shape, self.under)

    def load(self, at: At) -> Expr:
        """Return the number with an index."""
        return Load(self.buffer, (*self.under, *at))

    def store(self, at: At, value: Expr, combine: np.ufunc | None = None) -> Store:
        """Return the statement that writes the number with an index."""
        return Store(self.buffer, (*self.under, *at), value, combine)


Value = Window | Expr
"""A value in memory, or, if it is one number, as an expression."""


def row_of(window: Window, index: Local) -> Value:
    """Return the row of an array that belongs to an iteration."""
    row = Window(window.buffer, (*window.under, index))
    return row if row.strides else row.load(())
