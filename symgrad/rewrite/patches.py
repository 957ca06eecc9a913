"""Patches: shifted slices of one array, joined along its last axis, are its windows, and one copy instead of many."""

from __future__ import annotations

from itertools import product

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import is_one
from symgrad.frontend.variable import Variable
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import Slice
from symgrad.ops.join import CONCATENATE
from symgrad.ops.windows import WINDOWS
from symgrad.rewrite.rules import procedure

MANY = 1000
"""Fewer numbers are joined in less time than it takes to make the view."""

Starts = tuple[int, ...]


@procedure(CONCATENATE, changes_nan=True)
def patches(graph: Graph, node: Node) -> Variable | None:
    """``concatenate([x[:, i : i + n, j : j + m] for i in range(h) for j in range(w)], axis=-1)``."""
    slices, ndim = node.inputs, len(node.aval.shape)
    x = slices[0].inputs[0] if slices[0].op is GET else None
    if x is None or ndim < 2 or dict(node.params).get("axis", 0) != ndim - 1 or numbers(node.aval.shape) < MANY:
        return None
    starts = [_starts(x, s) for s in slices]
    places = [start for start in starts if start is not None]
    sizes = tuple(max(start) + 1 for start in zip(*places, strict=True))
    axes = tuple(i for i, size in enumerate(sizes) if size > 1)
    if len(places) < len(slices) or not axes or axes[-1] == ndim - 1 or places != [*product(*map(range, sizes))]:
        return None
    if any(dict(slices[-1].params)["key"][i].stop is not None for i in axes):
        return None
    if is_one(x.aval.shape[-1]) or axes == (ndim - 2,):  # numbers one by one; a view, which products copy each time
        return None
    windows = WINDOWS(Variable(graph, x), [sizes[i] for i in axes], axis=axes)
    order = (*range(ndim - 1), *range(ndim, ndim + len(axes)), ndim - 1)
    return np.reshape(np.transpose(windows, order), node.aval.shape)


def _starts(x: Node, node: Node) -> Starts | None:
    """Where a slice of `x` begins along each axis."""
    key = dict(node.params).get("key", ())
    if node.op is not GET or node.inputs != (x,) or len(key) != len(node.aval.shape):
        return None
    if not all(isinstance(item, Slice) and item.step is None for item in key):
        return None
    starts = tuple(item.start or 0 for item in key)
    return starts if all(isinstance(i, int) and i >= 0 for i in starts) else None
