"""Windows: the part of a buffer that holds a value, always in row-major order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from symgrad.lowering.expressions import Expr, Load, Local, place_of, strides_of
from symgrad.lowering.statements import Buffer, Store

At = tuple[Expr, ...]


class Window(NamedTuple):
    """The elements of a value in a buffer: the whole buffer, or its part at the first indices `under`."""

    buffer: Buffer
    under: At = ()

    @property
    def strides(self) -> tuple[Expr, ...]:
        """Return the stride of each axis, in elements."""
        return strides_of(self.buffer.shape)[len(self.under) :]

    @property
    def start(self) -> Expr:
        """Return the position of the first element in the buffer."""
        return place_of(self.buffer.shape, self.under)

    def load(self, at: At) -> Expr:
        """Return the element at an index."""
        return Load(self.buffer, (*self.under, *at))

    def store(self, at: At, value: Expr, combine: np.ufunc | None = None) -> Store:
        """Return the statement that writes the element at an index."""
        return Store(self.buffer, (*self.under, *at), value, combine)


Value = Window | Expr
"""A value in memory, or, if it is one number, as an expression."""


def row_of(window: Window, index: Local) -> Value:
    """Return the row of an array that belongs to an iteration."""
    row = Window(window.buffer, (*window.under, index))
    return row if row.strides else row.load(())
