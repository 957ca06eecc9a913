"""Images: values for many inputs at once, as batching has them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from symgrad.core.sizes import Shape, Size
from symgrad.errors import UnsupportedError
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import spread


class Image(NamedTuple):
    """A value for many inputs at once.

    Where it is `ragged` it is stacked by a loop whose number of iterations depends on the input: beyond the last
    iteration of an input it may hold anything.
    """

    value: Variable
    axis: int | None  # which of its axes tells the inputs apart; None where it is the same for all
    ragged: bool = False

    def at(self, axis: int) -> Variable:
        """With the axis at another place."""
        self.check_whole()
        return self.value if self.axis in (None, axis) else np.moveaxis(self.value, self.axis, axis)

    def spread_to(self, axis: int, size: Size) -> Variable:
        """With the axis at a place, repeated if it is the same for all."""
        return repeated(self.at(axis), axis, size) if self.axis is None else self.at(axis)

    def check_whole(self) -> None:
        """Refuse to read it as an array where not all of it counts."""
        if self.ragged:
            raise not_whole()


def repeated(x: Variable, axis: int, size: Size) -> Variable:
    """A value that is the same along a new axis."""
    return np.broadcast_to(spread(x, axis > 0, axis), with_axis(x.shape, axis, size))


def with_axis(shape: Shape, axis: int, size: Size) -> Shape:
    """A shape with one axis more."""
    return (*shape[:axis], size, *shape[axis:])


def chosen(mask: Variable, x: Variable, y: Variable | float, ndim: int) -> Variable:
    """Return `x` for the inputs of a mask, else `y`; each has `ndim` axes of its own."""
    return np.where(spread(mask, ndim), x, y)


def not_whole() -> UnsupportedError:
    """The error where all of a stack is asked for, or its length."""
    return UnsupportedError(
        "vmap: stacked outputs of a loop are ragged: the number of iterations depends on the input",
        "Carry what you need of them, such as their sum; or use the same number of iterations for all inputs.",
    )
