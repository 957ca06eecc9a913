"""Indexing with a mask that has no value before the program runs."""

import math
from functools import partial
from inspect import signature

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from symgrad.core.shapes import render_tuple, same_shape
from symgrad.core.sizes import Dim, same
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops.control import NUMBER
from symgrad.ops.elementwise import conjugate
from symgrad.ops.operands import as_input, is_traced

_BOOL = np.dtype(bool)


def is_mask(x):
    return getattr(x, "dtype", None) == _BOOL


def is_traced_mask(x):
    return is_traced(x) and x.dtype == bool


class Selected(NDArrayOperatorsMixin):
    """x[mask] for a traced mask: its size depends on values, so it is reduced, or assigned where the mask selects."""

    def __init__(self, x, mask, after):
        self._x, self.mask, self.after = x, mask, after
        self._is_spoilt = False  # whether it was written into: the result of that has the new numbers

    @property
    def x(self):
        """The array that is selected from, as it was then."""
        if self._is_spoilt:
            raise UnsupportedError(
                "x[mask] of a traced mask is written under one name and read under another",
                "Bind the name anew: y = y + 1 instead of y += 1.",
            )
        return self._x

    @property
    def where(self):
        """The line of the mask."""
        return self.mask.node.where

    def refusal(self, where=None):
        return UnsupportedError(
            "indexing with a traced boolean mask: the size of the result depends on values",
            "Write np.where(mask, x, 0); np.sum(x[mask]) and its like, x[mask] = y and x[mask] += y are supported.",
            where,
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
            fact = "elements selected by one traced mask are combined with elements selected by another"
            raise UnsupportedError(fact, "Use one mask for both: x[mask] = y[mask].")
        value = value if isinstance(value, Dim) else as_input(value)
        shape = () if isinstance(value, Dim) else np.shape(value)
        if len(shape) <= self.after:
            return value
        place = len(shape) - self.after - 1
        if isinstance(shape[place], int) and shape[place] == 1:
            return np.reshape(value, (*shape[:place], *(1,) * self.mask.ndim, *shape[place + 1 :]))
        raise UnsupportedError(
            f"an array of shape {render_tuple(shape)} is assigned to x[mask], whose size depends on the values of mask",
            "Give a value of the shape of x: x = np.where(mask, value, x), or x[mask] = value[mask].",
        )

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        ours = out is None or (len(out) == 1 and out[0] is self)  # x[mask] += v gives itself as out
        if method != "__call__" or kwargs or ufunc.nout > 1 or ufunc.signature or not ours:
            raise self.refusal()
        x = ufunc(*[self.whole(value) for value in inputs])
        if out is None:
            return Selected(x, self.mask, self.after)
        x = x.astype(self.x.dtype, casting="same_kind")
        self._is_spoilt = True
        return Selected(x, self.mask, self.after)

    def __array_function__(self, function, types, args, kwargs):
        if function not in _REDUCTIONS:
            raise self.refusal()
        return _REDUCTIONS[function](*args, **kwargs)

    @property
    def first(self):
        """The first axis of x that the mask selects from."""
        return self.x.ndim - self.after - self.mask.ndim

    @property
    def count(self):
        """Return the number of selected elements."""
        return NUMBER(np.count_nonzero(self.mask))

    @property
    def shape(self):
        return (*self.x.shape[: self.first], self.count, *self.x.shape[self.x.ndim - self.after :])

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def ndim(self):
        return self.first + 1 + self.after

    @property
    def dtype(self):
        return self.x.dtype

    def over(self, axis):
        """The axes of x that an axis stands for: those of the mask, or all."""
        if axis is None or (self.ndim == 1 and axis == -1):
            return None
        if axis not in (self.first, self.first - self.ndim):
            raise self.refusal()
        return tuple(range(self.first, self.first + self.mask.ndim))

    def _refuse(self, *args, **kwargs):
        raise self.refusal()

    __array__ = __bool__ = __len__ = __iter__ = __getitem__ = __setitem__ = __float__ = __int__ = __index__ = _refuse

    def __getattr__(self, attribute):
        if attribute in _METHODS:
            return partial(_REDUCTIONS[getattr(np, attribute)], self)
        if hasattr(np.ndarray, attribute) and not attribute.startswith("__"):
            raise self.refusal()
        raise AttributeError(attribute)


# ---- reductions


def _reduction(reduce):
    """A reduction of what is selected, from x and the mask that broadcasts against it."""

    def reduced(a, axis=None, **options):
        known = isinstance(a, Selected) and options.keys() <= {*signature(reduce).parameters}
        if not known:
            raise next(x for x in (a, *options.values()) if isinstance(x, Selected)).refusal()
        return reduce(a.x, a.spread(), a.over(axis), **options)

    return reduced


def _best(reduce, x, mask, axis, worst):
    """The largest number, or the smallest; NaN where nothing is selected, for which NumPy raises an error."""
    if x.dtype.kind != "f":
        raise Selected(x, mask, 0).refusal()
    mask.may_raise(ValueError)
    found = np.any(np.broadcast_to(mask, x.shape), axis=axis)
    return np.where(found, reduce(np.where(mask, x, worst), axis=axis), np.nan)[()]


def _variance(x, mask, axis, ddof=0):
    centred = x - np.mean(x, axis=axis, where=mask, keepdims=True)
    count = np.count_nonzero(np.broadcast_to(mask, x.shape), axis=axis)
    squares = np.square(centred) if x.dtype.kind != "c" else np.real(centred * np.conjugate(centred))
    return np.sum(squares, axis=axis, where=mask) / np.where(count > ddof, count - ddof, 0)


def _median(x, mask, axis):
    """The mean of the two numbers in the middle, as those that are not selected stand behind them."""
    if axis is not None or x.dtype.kind != "f":
        raise Selected(x, mask, 0).refusal()
    ordered = np.sort(np.ravel(np.where(mask, x, np.inf)))
    count = np.count_nonzero(np.broadcast_to(mask, x.shape))
    middle = (ordered[np.maximum(count - 1, 0) // 2] + ordered[np.minimum(count // 2, ordered.shape[0] - 1)]) / 2
    return np.where(count > 0, middle, np.nan)[()]


def _dot(a, b, *rest, **options):
    """``a @ b`` of vectors that one mask selects from."""
    x = a if isinstance(a, Selected) else b
    alike = isinstance(a, Selected) and isinstance(b, Selected) and a.matches(b) and a.x.ndim == 1
    if not alike or rest or options:
        raise x.refusal()
    return np.sum(a.x * b.x, where=a.mask)


_REDUCTIONS = {
    np.sum: _reduction(lambda x, mask, axis, dtype=None: np.sum(x, axis=axis, dtype=dtype, where=mask)),
    np.prod: _reduction(lambda x, mask, axis, dtype=None: np.prod(x, axis=axis, dtype=dtype, where=mask)),
    np.mean: _reduction(lambda x, mask, axis: np.mean(x, axis=axis, where=mask)),
    np.var: _reduction(_variance),
    np.std: _reduction(lambda x, mask, axis, ddof=0: np.sqrt(_variance(x, mask, axis, ddof))),
    np.median: _reduction(_median),
    np.max: _reduction(lambda x, mask, axis: _best(np.max, x, mask, axis, -np.inf)),
    np.min: _reduction(lambda x, mask, axis: _best(np.min, x, mask, axis, np.inf)),
    np.any: _reduction(lambda x, mask, axis: np.any(np.logical_and(x, mask), axis=axis)),
    np.all: _reduction(lambda x, mask, axis: np.all(np.logical_or(x, ~mask), axis=axis)),
    np.count_nonzero: _reduction(lambda x, mask, axis: np.count_nonzero(np.logical_and(x, mask), axis=axis)),
    np.linalg.norm: _reduction(lambda x, mask, axis: np.linalg.norm(np.ravel(np.where(mask, x, 0)))),
    np.size: lambda a: a.size,
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.dot: _dot,
    np.inner: _dot,
    np.vdot: lambda a, b, **options: _dot(conjugate(a), b, **options),
}
_METHODS = frozenset({"sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "dot"})


# ---- what is selected


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
    return key, Selected(np.copy(sub), np.copy(mask), sub.ndim - axis - mask.ndim)


def check_mask(mask, shape, axis):
    """Refuse a mask of other sizes than those of the axes from this one on."""
    for i, n in enumerate(mask.shape, axis):
        if not same(n, shape[i]) and n != shape[i]:
            raise ShapeError(
                f"a mask of size {n} for axis {i} of size {shape[i]}",
                "Compute the mask from that axis: x[x > 0], x[np.any(x > 0, axis=1)].",
            )
