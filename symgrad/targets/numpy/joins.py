"""Arrays that are joined: where each lies in the whole, and which NumPy can compute right there."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from symgrad.analysis.cost import magnitude
from symgrad.analysis.memory_profile import nbytes
from symgrad.core.graph import Node
from symgrad.core.sizes import Size
from symgrad.ops.index_expressions import EVERYTHING, Slice

FEW = 8  # arrays that are written one by one, rather than joined by one call
LARGE = 1 << 15  # bytes from which on a copy takes longer than a call
NEAR = 8  # places from the end of an axis up to which they are counted from there


def is_computed_into(x: Node, whole: Node) -> bool:
    """Whether a value is large, and NumPy can write it into an array of which it is one of few parts."""
    if len(whole.inputs) > FEW:
        return False
    able = x.op.elementwise and isinstance(x.op.evaluate, np.ufunc) and x.aval.dtype == whole.aval.dtype
    return able and bool(magnitude(nbytes(x.aval)) >= LARGE)


def places_of(whole: Node) -> list[tuple[Any, ...]]:
    """The keys of the arrays that are joined."""
    axis = dict(whole.params).get("axis", 0)
    size = whole.aval.shape[axis]
    *ends, _ = accumulate(x.aval.shape[axis] for x in whole.inputs)
    edges = [None, *(_edge(n, size) for n in ends), None]
    return [(*(EVERYTHING,) * axis, Slice(start, stop, None)) for start, stop in pairwise(edges)]


def _edge(n: Size, size: Size) -> Size:
    """A place of an axis, from its end where that is near."""
    left = size - n
    if not isinstance(left, int) or not 0 < left <= NEAR or (isinstance(n, int) and n <= left):
        return n
    return -left
