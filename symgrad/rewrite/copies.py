"""Copies of an array: shifted slices that are joined are its windows, and what is spread and made flat is `np.repeat`.

The first takes one copy instead of many, the second makes rows three times as fast. The gradient of a mean over windows
spreads its numbers so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import is_one, same_shape
from symgrad.core.sizes import Shape, Size
from symgrad.frontend.variable import Variable
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import Slice
from symgrad.ops.join import CONCATENATE
from symgrad.ops.shape import BROADCAST_TO, RESHAPE
from symgrad.ops.windows import WINDOWS
from symgrad.rewrite.engine import alone
from symgrad.rewrite.rules import procedure
from symgrad.rewrite.structure import without

MANY = 1000
"""Fewer numbers are joined in less time than it takes to make the view."""


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


def _starts(x: Node, node: Node) -> tuple[int, ...] | None:
    """Where a slice of `x` begins along each axis."""
    key = dict(node.params).get("key", ())
    if node.op is not GET or node.inputs != (x,) or len(key) != len(node.aval.shape):
        return None
    if not all(isinstance(item, Slice) and item.step is None for item in key):
        return None
    starts = tuple(item.start or 0 for item in key)
    return starts if all(isinstance(i, int) and i >= 0 for i in starts) else None


# ---- copies beside each other


@procedure(RESHAPE, changes_nan=True)
def repeat(graph: Graph, node: Node) -> Variable | None:
    """``reshape(broadcast_to(x[:, None], (n, 3, k)), (3 * n, k))`` repeats rows; the last axis goes first."""
    spread = node.inputs[0]
    if spread.op is not BROADCAST_TO:
        return None
    x, shape = spread.inputs[0], spread.aval.shape
    if len(x.aval.shape) != len(shape):
        return None
    ones = [i for i, n in enumerate(x.aval.shape) if is_one(n)]
    new = [i for i in ones if not is_one(shape[i])]
    kept = [i for i in range(len(shape)) if i not in ones]
    counts = {max(before): shape[i] for i in new if (before := [k for k in kept if k < i])}
    if not new or len(counts) < len(new):
        return None
    merged = [shape[k] * counts.get(k, 1) for k in kept]
    if not same_shape(_without_ones(node.aval.shape), _without_ones(merged)):
        return None
    y = Variable(graph, _squeezed(graph, x, ones))
    for k in sorted(counts, reverse=True):
        y = np.repeat(y, counts[k], axis=kept.index(k))
    return np.reshape(y, node.aval.shape)


def _without_ones(shape: Iterable[Size]) -> Shape:
    return tuple(n for n in shape if not is_one(n))


def _squeezed(graph: Graph, x: Node, axes: Sequence[int]) -> Node:
    """A value without axes of size one, which an array times a number loses where the array has them."""
    arrays = [i for i, z in enumerate(x.inputs) if z.aval.shape]
    if not x.op.elementwise or len(arrays) != 1 or not alone(graph, x):
        return without(graph, x, axes)
    (i,) = arrays
    return graph.add(x.op, (*x.inputs[:i], _squeezed(graph, x.inputs[i], axes), *x.inputs[i + 1 :]), x.params)
