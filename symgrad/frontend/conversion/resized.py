"""Arrays whose shape every iteration changes by the same amount, carried in arrays of the largest shape."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import Aval, Graph, Node
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import Shape, Size, largest, symbols_of
from symgrad.frontend.variable import Variable
from symgrad.ops.index import SET
from symgrad.ops.index_expressions import encode


class Resized(NamedTuple):
    """A shape that changes by a constant in every iteration."""

    start: Shape  # before the loop
    by: tuple[int, ...]  # how much longer each axis is behind an iteration
    iterations: Size  # how many there are

    def after(self, iterations: Size) -> Shape:
        """Return the shape after so many iterations."""
        return tuple([n + each * iterations for n, each in zip(self.start, self.by, strict=True)])

    @property
    def whole(self) -> Shape:
        """Return the largest shape."""
        return tuple([largest(n, end) for n, end in zip(self.start, self.after(self.iterations), strict=True)])

    def begun(self, graph: Graph, x: Node) -> Node:
        """Return the initial value in an array of the largest shape."""
        if same_shape(self.start, self.whole):
            return x
        whole = np.zeros(self.whole, x.aval.dtype, like=Variable(graph, x))
        return self.written(whole, Variable(graph, x), 0)

    def read(self, whole: Variable, iterations: Size) -> Variable:
        """Return the value after so many iterations; writing into it does not write into the whole."""
        return Variable(whole.graph, whole[self._key(iterations)].node)

    def written(self, whole: Variable, x: Any, iterations: Size) -> Node:
        """Return the whole with the value after so many iterations written into it."""
        key, _ = encode(whole, self._key(iterations))
        node: Node = SET(whole, x, key=key).node
        return node

    def _key(self, iterations: Size) -> tuple[slice, ...]:
        sizes = zip(self.after(iterations), self.by, strict=True)
        return tuple([slice(n) if each else slice(None) for n, each in sizes])


def resized(before: Aval, after: Aval, iterations: Size | None) -> Resized | None:
    """Return how one iteration has changed a shape, if each may change it alike; else None."""
    if iterations is None or before.ndim != after.ndim:
        return None
    by = [m - n for n, m in zip(before.shape, after.shape, strict=True)]
    return Resized(before.shape, tuple(by), iterations) if all(type(each) is int for each in by) else None


def is_of_turn(y: Node, place: str | None) -> bool:
    """Whether a value has a shape that depends on the loop's index, by the name of the index."""
    return place is not None and any(place in symbols_of(n) for n in y.aval.shape)
