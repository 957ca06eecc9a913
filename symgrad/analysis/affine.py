"""Affine indices: integers that are ``first + step * t`` in the iteration t of a loop."""

from __future__ import annotations

from typing import NamedTuple

from symgrad.analysis.values import known_size
from symgrad.core.graph import Node
from symgrad.core.sizes import Size
from symgrad.ops.elementwise import ADD, SUBTRACT


class Line(NamedTuple):
    """An affine index ``first + step * t`` of the iteration t."""

    first: Size
    step: int


def line_of(x: Node, index: Node, deepest: int = 8) -> Line | None:
    """Return a value as an affine function of the loop's index, if it is one."""
    if x is index:
        return Line(0, 1)
    size = known_size(x)
    if size is not None:
        return Line(size, 0)
    if not deepest or x.op not in (ADD, SUBTRACT):
        return None
    a, b = (line_of(y, index, deepest - 1) for y in x.inputs)
    if a is None or b is None:
        return None
    sign = 1 if x.op is ADD else -1
    return Line(a.first + sign * b.first, a.step + sign * b.step)
