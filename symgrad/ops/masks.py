"""Indexing with a mask that has no value before the program runs."""

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from symgrad.core.shapes import render_tuple, same_shape
from symgrad.core.sizes import Dim, same
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops.operands import as_input, is_traced

_BOOL = np.dtype(bool)


def is_mask(x):
    return getattr(x, "dtype", None) == _BOOL


def is_traced_mask(x):
    return is_traced(x) and x.dtype == bool


class Selected(NDArrayOperatorsMixin):
    """x[mask] for a traced mask: its size depends on values, so it can be assigned where that mask selects, no more."""

    def __init__(self, x, mask, after):
        self.x, self.mask, self.after = x, mask, after

    def refusal(self):
        return UnsupportedError(
            "indexing with a traced boolean mask: the size of the result depends on values",
            "Write np.where(mask, x, 0), or np.sum(x, where=mask); x[mask] = value and x[mask] += value are supported.",
        )

    def spread(self):
        """The mask, to broadcast against x."""
        return np.reshape(self.mask, (*self.mask.shape, *(1,) * self.after))

    def matches(self, other):
        return (
            self.mask.node is other.mask.node and self.after == other.after and same_shape(self.x.shape, other.x.shape)
        )

    def whole(self, value):
        """A value to be combined with what is selected, to broadcast against x."""
        if isinstance(value, Selected):
            if self.matches(value):
                return value.x
            raise UnsupportedError("two traced masks meet", "Select with one mask: x[mask] = y[mask].")
        value = value if isinstance(value, Dim) else as_input(value)
        shape = () if isinstance(value, Dim) else np.shape(value)
        if len(shape) <= self.after:
            return value
        place = len(shape) - self.after - 1
        if isinstance(shape[place], int) and shape[place] == 1:
            return np.reshape(value, (*shape[:place], *(1,) * self.mask.ndim, *shape[place + 1 :]))
        raise UnsupportedError(
            f"a value of shape {render_tuple(shape)} for the places of a traced mask, whose number depends on values",
            "Give a number for every place of x: x = np.where(mask, value, x), or x[mask] = value[mask].",
        )

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        ours = out is None or (len(out) == 1 and out[0] is self)  # x[mask] += v gives itself as out
        if method != "__call__" or kwargs or ufunc.nout > 1 or ufunc.signature or not ours:
            raise self.refusal()
        x = ufunc(*[self.whole(value) for value in inputs])
        return Selected(x if out is None else x.astype(self.x.dtype, casting="same_kind"), self.mask, self.after)

    def __array_function__(self, function, types, args, kwargs):
        raise self.refusal()

    def _refuse(self, *args, **kwargs):
        raise self.refusal()

    __array__ = __bool__ = __len__ = __iter__ = __getitem__ = __setitem__ = __float__ = __int__ = __index__ = _refuse

    def __getattr__(self, attribute):
        if hasattr(np.ndarray, attribute) and not attribute.startswith("__"):
            raise self.refusal()
        raise AttributeError(attribute)


def selection(x, items):
    """The items with full slices instead of their traced mask, and what they select of x, as one with the mask."""
    masks = [item for item in items if is_traced_mask(item)]
    if len(masks) > 1 or any(getattr(item, "ndim", 0) and not is_mask(item) for item in items):
        raise UnsupportedError(
            "indexing with a traced mask and other arrays", "Combine them into one mask of x's shape."
        )
    mask = masks[0]
    at = next(i for i, item in enumerate(items) if item is mask)
    key = (*items[:at], *[slice(None)] * mask.ndim, *items[at + 1 :])
    sub = x[key]
    axis = sum(item is None or isinstance(item, slice) for item in items[:at])
    if any(item is Ellipsis for item in items[:at]):
        axis = sub.ndim - mask.ndim - sum(item is None or isinstance(item, slice) for item in items[at + 1 :])
    check_mask(mask, sub.shape, axis)
    return key, Selected(sub, mask, sub.ndim - axis - mask.ndim)


def check_mask(mask, shape, axis):
    """Refuse a mask of other sizes than those of the axes from this one on."""
    for i, n in enumerate(mask.shape, axis):
        if not same(n, shape[i]) and n != shape[i]:
            raise ShapeError(
                f"a mask of size {n} for axis {i} of size {shape[i]}",
                "Compute the mask from that axis: x[x > 0], x[np.any(x > 0, axis=1)].",
            )
