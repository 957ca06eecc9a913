"""`sliding_window_view`: every window of an array as a view, for filters, patches and lags."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from symgrad.core.axes import axis_numbers, matched
from symgrad.core.graph import Aval
from symgrad.core.shapes import key_along, render_shape, with_size
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
                f"np.{_NAME}: a window of {w} along axis {i} of shape ({render_shape(x.shape)})",
                "Give a window of at most the size of the axis.",
            )
    return Aval((*shape, *window_shape), x.dtype)


def _vjp_windows(g, y, x, window_shape, axis):
    """One window after the other, from the last: each is a sum of shifted slices."""
    for i, w in reversed([*zip(axis, window_shape, strict=True)]):
        if isinstance(w, Dim):
            raise UnsupportedError(f"the derivative of np.{_NAME} with a window of symbolic size {w}", "Give a number.")
        shape = with_size(g.shape[:-1], i, g.shape[i] + w - 1)
        total = np.full(shape, 0, g.dtype, like=g)
        for k in range(w):
            key = encode(total, key_along(i, slice(k, k - w + 1 or None)))[0]
            total = ADD_AT(total, g[..., k], key=key)
        g = total
    return (g,)


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
