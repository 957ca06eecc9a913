"""The names and buffers that all parts of a function share during lowering, and the sizes of buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count

import numpy as np

from symgrad.core.graph import Aval, Graph, Node
from symgrad.core.sizes import Size, symbols_of
from symgrad.errors import GraphError
from symgrad.lowering.bounds import Bounds
from symgrad.lowering.names import LETTERS, Names
from symgrad.lowering.ragged import Lengths, indices_in, largest_extent
from symgrad.lowering.statements import Buffer, Kind
from symgrad.lowering.verify import REPORT
from symgrad.lowering.windows import Window

Called = Callable[[Graph, Node], str | None]
"""The user's name of a value, if a target can call it so."""


class Program:
    """The names and buffers of a function."""

    def __init__(
        self, called: Called, sizes: Sequence[str], taken: Sequence[str], has_blas: bool, alone: bool, lengths: Lengths
    ) -> None:
        self.called, self.has_blas, self.is_alone = called, has_blas, alone
        self.names, self.sizes = Names(set(taken)), set(sizes)
        self.buffers: list[Buffer] = []
        self.bounds = Bounds(sizes)
        self.lengths = lengths
        self.around: list[str] = []  # the loops that statements are written into, by the names of their indices
        self.indices: set[str] = set()  # the names of the indices of all loops
        self.open_loops = 0  # how many of the loops around have a test: infinities and NaNs may make them endless

    def letters(self) -> Iterator[str]:
        """Yield names for the indices of a nest, which no value has; all nests share them."""
        return (name for k in count(1) for x in LETTERS if (name := x * k) not in self.names.taken)

    def window(self, hint: str, aval: Aval, kind: Kind = "own") -> Window:
        return Window(self.buffer(hint, aval, kind))

    def buffer(self, hint: str, aval: Aval, kind: Kind = "own", value: np.ndarray | None = None) -> Buffer:
        shape = self.room(aval.shape)
        told = {name for n in shape for name in symbols_of(n)} - self.sizes
        made = Buffer(self.names.fresh(hint), aval.dtype, shape, "growing" if told else kind, value)
        self.buffers.append(made)
        return made

    def room(self, shape: Sequence[Size]) -> tuple[Size, ...]:
        """Return the largest shape that a value has in any iteration of the loops around it."""
        found = [largest_extent(n, self.lengths) for n in shape]
        if None in found:
            raise GraphError(f"the extents of an array are not bounded: {shape}", REPORT)
        return tuple([n for n in found if n is not None])

    def extents(self, shape: Sequence[Size]) -> tuple[Size, ...]:
        """Return the shape to copy of an array; ragged rows, whose lengths are those of a finished loop, as a whole."""
        return tuple([n if indices_in(n) <= {*self.around} else self.room([n])[0] for n in shape])
