"""`sliding_window_view`: every window of an array as a view, for filters, patches and lags."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from symgrad.core.axes import axis_numbers, matched
from symgrad.core.graph import Aval
from symgrad.core.shapes import render_tuple, with_size
from symgrad.core.sizes import Dim, is_no_length
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops.arguments import axis_index, refuse_given
from symgrad.ops.define import operator
from symgrad.ops.index import ADD_AT
from symgrad.ops.index_expressions import encode
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.shape import as_size
from symgrad.spelling import call, spell_param

_NAME = "lib.stride_tricks.sliding_window_view"

PLACES = 64
"""So many places of a window are added one by one: of a larger one along each axis, which takes fewer lines."""


def _bind_windows(x, window_shape, axis=None, *, subok=False, writeable=False):
    refuse_given(_NAME, subok=bool(subok), writeable=bool(writeable))
    x = as_input(x)
    windows = tuple(map(as_size, _as_tuple(window_shape)))
    axes = range(np.ndim(x)) if axis is None else [axis_index(_NAME, i, np.ndim(x)) for i in _as_tuple(axis)]
    if len(windows) != len(axes):
        raise ShapeError(f"np.{_NAME}: {len(windows)} windows for {len(axes)} axes", "Give one window for each axis.")
    return (x,), {"window_shape": windows, "axis": tuple(axes)}


def _as_tuple(sizes):
    if is_traced(sizes):
        raise UnsupportedError(
            f"np.{_NAME}: a window or an axis is traced, and the size of the result would depend on its value",
            "Give windows and axes as numbers that do not depend on the arguments of the function.",
        )
    return (sizes,) if isinstance(sizes, Dim) or np.ndim(sizes) == 0 else tuple(sizes)


def _infer_windows(x, window_shape, axis):
    shape = list(x.shape)
    for i, w in zip(axis, window_shape, strict=True):
        shape[i] = shape[i] - w + 1
        if is_no_length(w) or is_no_length(shape[i] - 1):
            raise ShapeError(
                f"np.{_NAME}: a window of {w} along axis {i} of shape {render_tuple(x.shape)}",
                "Give a window of at most the size of the axis.",
            )
    return Aval((*shape, *window_shape), x.dtype)


def _vjp_windows(g, y, x, window_shape, axis):
    """Shift what windows show at each of their places and add it up; along one axis after another for large windows."""
    for w in window_shape:
        if isinstance(w, Dim):
            raise UnsupportedError(f"the derivative of np.{_NAME} with a window of symbolic size {w}", "Give a number.")
    windows = [*zip(axis, window_shape, strict=True)]
    if not windows:
        return (g,)
    if prod(window_shape) <= PLACES and len({*axis}) == len(axis):
        return (_summed(g, windows),)
    for window in reversed(windows):
        g = _summed(g, [window])
    return (g,)


def _summed(g, windows):
    """Windows over the last axes of `g`, as axes and sizes, added where they lie."""
    axes, sizes = zip(*windows, strict=True)
    shape = g.shape[: -len(axes)]
    for i, w in windows:
        shape = with_size(shape, i, shape[i] + w - 1)
    total = np.full(shape, 0, g.dtype, like=g)
    for place in np.ndindex(sizes):
        key = [slice(None)] * len(shape)
        for i, w, k in zip(axes, sizes, place, strict=True):
            key[i] = slice(k, k - w + 1 or None)
        total = ADD_AT(total, g[(..., *place)], key=encode(total, tuple(key))[0])
    return total


def _spell_windows(node, x):
    params = dict(node.params)
    windows, axes = params["window_shape"], params["axis"]
    if axes == tuple(range(len(node.inputs[0].aval.shape))):
        return call(f"np.{_NAME}", [x.text, spell_param(windows)])
    if len(axes) == 1:
        windows, axes = windows[0], axes[0]
    return call(f"np.{_NAME}", [x.text, spell_param(windows), f"axis={spell_param(axes)}"])


def _signature_windows(y, x, window_shape, axis):
    labels = [None if i in axis else i for i in range(x.ndim)]
    return matched(y, (x,), [labels], [*labels, *[None] * len(axis)])


WINDOWS = operator(
    sliding_window_view,
    name=_NAME,
    infer=_infer_windows,
    bind=_bind_windows,
    vjp=_vjp_windows,
    spell=_spell_windows,
    signature=_signature_windows,
    axes={"axis": axis_numbers},
    linear=True,
    view=True,
    read_only=True,
)
