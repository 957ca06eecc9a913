"""Indexing with a mask that has no value before the program runs."""

import math
from functools import partial
from inspect import signature

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from symgrad.core.shapes import render_tuple
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
        """Whether the axes of two selections by one mask meet where NumPy broadcasts them."""
        return self.mask.node is other.mask.node and self.after == other.after

    def whole(self, value):
        """A value to be combined with what is selected, to broadcast against x."""
        if isinstance(value, Selected):
            if self.matches(value):
                return value.x
            if self.mask.node is value.mask.node:
                fact = "rows selected by a traced mask are combined with numbers selected by it"
                raise UnsupportedError(fact, "Give each row its number: x[mask] / r[mask][:, None].")
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
        return _reduced(function, *args, **kwargs)

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

    def others(self, axis):
        """The axes of x that these axes stand for, if none is that of the mask; else None."""
        if not isinstance(axis, (int, tuple)) or isinstance(axis, bool):
            return None
        axes = [k + self.ndim if k < 0 else k for k in (axis if isinstance(axis, tuple) else (axis,))]
        if self.first in axes or not all(0 <= k < self.ndim for k in axes):
            return None
        return tuple([k if k < self.first else k + self.mask.ndim - 1 for k in axes])

    def __getitem__(self, key):
        """Return what is selected, with items of its other axes: x[mask][:, 0], x[mask][:, None]."""
        items = [*key] if isinstance(key, tuple) else [key]
        if not all(item is None or item is Ellipsis or type(item) in (int, slice) for item in items):
            raise self.refusal()
        items += [] if Ellipsis in items else [Ellipsis]
        at, missing = items.index(Ellipsis), self.ndim + 1 - sum(item is not None for item in items)
        items[at : at + 1] = [slice(None)] * missing
        axes = [i for i, item in enumerate(items) if item is not None]
        if missing < 0 or Ellipsis in items or items[axes[self.first]] != slice(None):
            raise self.refusal()
        before, behind = items[: axes[self.first]], items[axes[self.first] + 1 :]
        x = self.x[(*before, *[slice(None)] * self.mask.ndim, *behind)]
        return Selected(x, self.mask, sum(not isinstance(item, int) for item in behind))

    def _refuse(self, *args, **kwargs):
        raise self.refusal()

    __array__ = __bool__ = __len__ = __iter__ = __setitem__ = __float__ = __int__ = __index__ = _refuse

    def __getattr__(self, attribute):
        if attribute in _METHODS:
            return partial(_reduced, getattr(np, attribute), self)
        if hasattr(np.ndarray, attribute) and not attribute.startswith("__"):
            raise self.refusal()
        raise AttributeError(attribute)


# ---- reductions


def _reduced(function, *args, **kwargs):
    """A reduction of what is selected; one of each row by itself is a selection of the rows of all."""
    if function not in _OF_ROWS:
        return _REDUCTIONS[function](*args, **kwargs)
    parameters = signature(function).parameters
    given = signature(function).bind(*args, **kwargs).arguments
    x, *options = [(name, value) for name, value in given.items() if value is not parameters[name].default]
    x, options = x[1], dict(options)
    others = x.others(options.get("axis")) if isinstance(x, Selected) else None
    if others is None:
        return _REDUCTIONS[function](x, **options)
    y = function(x.x, **{**options, "axis": others if isinstance(options["axis"], tuple) else others[0]})
    lost = 0 if options.get("keepdims") else sum(k > x.first for k in others)
    return Selected(y, x.mask, x.after - lost)


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


def _norm(x, mask, axis):
    """The root of the sum of squares; of a matrix that is Frobenius' norm."""
    x = np.where(mask, x, 0)
    if axis is None:
        return np.linalg.norm(np.ravel(x))
    if len(axis) > 2:
        raise Selected(x, mask, 0).refusal()
    return np.linalg.norm(x, axis=axis if len(axis) == 2 else axis[0])


def _dot(a, b, *rest, **options):
    """``a @ b`` of vectors that one mask selects from."""
    x = a if isinstance(a, Selected) else b
    alike = isinstance(a, Selected) and isinstance(b, Selected) and a.matches(b) and a.x.ndim == b.x.ndim == 1
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
    np.linalg.norm: _reduction(_norm),
    np.size: lambda a: a.size,
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.dot: _dot,
    np.inner: _dot,
    np.vdot: lambda a, b, **options: _dot(conjugate(a), b, **options),
}
_OF_ROWS = _REDUCTIONS.keys() - {np.size, np.shape, np.ndim, np.dot, np.inner, np.vdot}
"""Reductions that may be of each row by itself."""
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
