"""Arrays of indices and of weights whose number may be a symbol: triangles, diagonals, grids, windows."""

from operator import index as operator_index

import numpy as np

from symgrad.core.graph import Aval
from symgrad.core.shapes import with_size
from symgrad.core.sizes import Dim, largest, same
from symgrad.errors import ArgumentError, ShapeError
from symgrad.ops.arguments import check_ndim
from symgrad.ops.create import arange, as_length, as_shape, creates, linspace
from symgrad.ops.define import implements, operator
from symgrad.ops.operands import as_input, is_traced, traced_in
from symgrad.spelling import call


def _creates_indices(function):
    """Register how indices are made where a size is a symbol; else they are what they always are, and stay plain."""

    def register(written):
        def created(new, *args, **kwargs):
            given = [n for x in (*args, *kwargs.values()) for n in (x if isinstance(x, (list, tuple)) else (x,))]
            symbolic = any(isinstance(n, Dim) for n in given)
            return written(new, *args, **kwargs) if symbolic else function(*args, **kwargs)

        return creates(function)(created)

    return register


# ---- triangles


def _triangular(n):
    """1 + 2 + ... + n, and 0 where n is negative."""
    n = largest(0, n)
    return n * (n + 1) // 2


def _above(n, k, m):
    """Return the number of elements of an n by m matrix on or above its k-th diagonal.

    Row i has m - k - i of them, but at least 0 and at most m.
    """
    return _triangular(m - k) - _triangular(m - k - n) - _triangular(-k) + _triangular(-k - n)


def _triangle(function, count):
    def infer(n, k, m):
        indices = Aval((count(n, k, m),), np.dtype(np.intp))
        return indices, indices

    def spell(node):
        n, k, m = (dict(node.params)[key] for key in "nkm")
        return call(f"np.{function.__name__}", [str(n)] + [f"k={k}"] * (k != 0) + [f"m={m}"] * (not same(n, m)))

    return operator(function, arrays=0, infer=infer, spell=spell)


TRIU_INDICES = _triangle(np.triu_indices, _above)
TRIL_INDICES = _triangle(np.tril_indices, lambda n, k, m: n * m - _above(n, k + 1, m))


def _recorder(arr):
    """Return a function that records nodes in the graph of an array."""
    return lambda op, *inputs, **params: arr.__symgrad_record__(op, inputs, params)


def _signed(op, function, of_array):
    """Register the signatures of an operator of sizes: that with the sizes, and that with an array of them."""

    @_creates_indices(function)
    def triangle(new, n, k=0, m=None):
        return new(op, n=as_length(n), k=operator_index(k), m=as_length(n if m is None else m))

    @implements(of_array)
    def triangle_of_array(arr, k=0):
        arr = as_input(arr)
        instead = "Write a loop over the matrices, or x.reshape(n, -1)."
        check_ndim(f"np.{of_array.__name__}: arr", arr, 2, 2, instead)
        return triangle(_recorder(arr), arr.shape[0], k, arr.shape[1])


_signed(TRIU_INDICES, np.triu_indices, np.triu_indices_from)
_signed(TRIL_INDICES, np.tril_indices, np.tril_indices_from)


# ---- diagonals and grids


@_creates_indices(np.diag_indices)
def diag_indices(new, n, ndim=2):
    return (arange(new, as_length(n)),) * ndim


@implements(np.diag_indices_from)
def diag_indices_from(arr):
    arr = as_input(arr)
    if np.ndim(arr) < 2 or not all(same(n, arr.shape[0]) for n in arr.shape):
        raise ShapeError(
            f"np.diag_indices_from: an array of shape {arr.shape}, and all sizes must be equal",
            "Write np.diag_indices(min(x.shape)).",
        )
    return diag_indices(_recorder(arr), arr.shape[0], np.ndim(arr))


@_creates_indices(np.indices)
def indices(new, dimensions, dtype=int, sparse=False):
    shape = as_shape(dimensions)
    grids = tuple(
        np.reshape(arange(new, n, dtype=dtype), with_size((1,) * len(shape), axis, n)) for axis, n in enumerate(shape)
    )
    return grids if sparse else np.stack([np.broadcast_to(grid, shape) for grid in grids])


def _range(new, part):
    """Return the numbers of a slice in the brackets of `np.mgrid`: ``0:1:5j`` are five from 0 to 1."""
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        return linspace(new, start, part.stop, int(abs(part.step)))
    return arange(new, start, part.stop, part.step)


def _of_brackets(original, name, sparse):
    """Return `np.mgrid` or `np.ogrid` as a function of what stands in brackets, and register how that is made."""

    def grid(key):
        return original[key]

    @creates(grid)
    def created(new, key):
        parts = key if isinstance(key, tuple) else (key,)
        if traced_in(parts) is not None and not all(isinstance(part, slice) for part in parts):
            raise ArgumentError(f"np.{name} takes slices alone", f"Write np.{name}[0:n, 0:m], or np.meshgrid(x, y).")
        ends = [x for part in parts if isinstance(part, slice) for x in (part.start, part.stop, part.step)]
        if not any(isinstance(x, Dim) or is_traced(x) for x in ends):
            return original[key]
        ranges = [_range(new, part) for part in parts]
        dtype = np.result_type(*[x.dtype for x in ranges])
        ranges = [x.astype(dtype) for x in ranges]
        if not isinstance(key, tuple):
            return ranges[0]
        shape = tuple(x.shape[0] for x in ranges)
        grids = [np.reshape(x, with_size((1,) * len(shape), i, x.shape[0])) for i, x in enumerate(ranges)]
        return tuple(grids) if sparse else np.stack([np.broadcast_to(x, shape) for x in grids])

    grid.__name__, grid.__module__ = name, "numpy"
    return grid


GRIDS = {id(np.mgrid): _of_brackets(np.mgrid, "mgrid", False), id(np.ogrid): _of_brackets(np.ogrid, "ogrid", True)}
"""By the identity of what they stand for."""


@creates(np.fromfunction)
def fromfunction(new, function, shape, *, dtype=float, **kwargs):
    return function(*indices(new, shape, dtype=dtype), **kwargs)


# ---- windows


def _window(function, weights):
    """A window by its weights at ``x``, which goes from -1 to 1."""

    @_creates_indices(function)
    def window(new, M):
        x = arange(new, 1 - M, M, 2) / largest(1, M - 1)  # one sample is in the middle
        return weights(x)

    return window


_window(np.bartlett, lambda x: 1 - np.abs(x))
_window(np.hanning, lambda x: 0.5 + 0.5 * np.cos(np.pi * x))
_window(np.hamming, lambda x: 0.54 + 0.46 * np.cos(np.pi * x))
_window(np.blackman, lambda x: 0.42 + 0.5 * np.cos(np.pi * x) + 0.08 * np.cos(2 * np.pi * x))
