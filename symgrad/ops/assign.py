"""Functions of NumPy that write into an array."""

from operator import index as operator_index

import numpy as np

from symgrad.core.shapes import render_tuple, same_shape
from symgrad.core.sizes import same
from symgrad.errors import DTypeError, ShapeError, UnsupportedError, WriteError
from symgrad.ops.arguments import axis_index, refuse_given
from symgrad.ops.define import implements
from symgrad.ops.gather import indices_along
from symgrad.ops.index import ADD_AT, put
from symgrad.ops.index_expressions import encode
from symgrad.ops.operands import WRITTEN_BEFORE, as_input, is_traced


def _own_array(function, a):
    if not is_traced(a):
        raise WriteError(
            f"np.{function}: {WRITTEN_BEFORE}",
            "Make that array with np.zeros(shape, like=x) or symgrad.numpy.zeros(shape).",
        )
    return a


@implements(np.put_along_axis)
def put_along_axis(arr, indices, values, axis=-1):
    arr, indices = _own_array("put_along_axis", arr), as_input(indices)
    if axis is None:
        arr, axis = np.reshape(arr, -1), 0
    axis = axis_index("put_along_axis", axis, arr.ndim)
    if np.ndim(indices) != arr.ndim:
        raise ShapeError(
            f"np.put_along_axis: indices of {np.ndim(indices)} dimensions for an array of {arr.ndim}",
            "Give indices of as many dimensions as the array: indices[:, None].",
        )
    arr[tuple(indices_along(arr.shape, indices, axis, arr))] = values


@implements(np.put)
def put_flat(a, ind, v, mode="raise"):
    flat, ind = np.reshape(_own_array("put", a), -1), np.ravel(as_input(ind))
    if mode == "wrap":
        ind = ind % flat.shape[0]
    elif mode == "clip":
        ind = np.clip(ind, 0, flat.shape[0] - 1)
    v = np.ravel(as_input(v))
    if not same_shape(v.shape, ind.shape) and not (isinstance(v.shape[0], int) and v.shape[0] == 1):
        v = np.take(v, np.arange(operator_index(ind.shape[0])) % operator_index(v.shape[0]))
    a[...] = np.reshape(put(flat, ind, v), a.shape)


@implements(np.copyto)
def copyto(dst, src, casting="same_kind", where=True):
    _own_array("copyto", dst)
    source = src if is_traced(src) else np.asarray(src)
    weak = not is_traced(src) and type(src) in (bool, int, float, complex)
    if not weak and not np.can_cast(source.dtype, dst.dtype, casting):
        raise DTypeError(
            f"np.copyto: cannot cast {source.dtype} to {dst.dtype} by the rule {casting!r}",
            "Convert it first: source.astype(dtype).",
        )
    dst[...] = src if where is True else np.where(where, src, dst)


@implements(np.putmask)
def putmask(a, mask, values):
    _own_array("putmask", a)
    values = as_input(values)
    if np.size(values) != 1 and not same_shape(np.shape(values), a.shape):
        raise UnsupportedError("np.putmask: values of another shape than the array", "Write np.where(mask, values, a).")
    a[...] = np.where(mask, values if np.shape(values) == a.shape else np.reshape(values, ()), a)


@implements(np.place)
def place(arr, mask, vals):
    """A single number goes wherever the mask is true; of several the mask must say where before the program runs."""
    _own_array("place", arr)
    mask, vals = as_input(mask), np.ravel(as_input(vals))
    if np.size(vals) == 1:
        arr[...] = np.where(np.reshape(mask, arr.shape), vals[0], arr)
        return
    places = np.flatnonzero(mask)
    if places.shape[0]:
        np.put(arr, places, vals)


@implements(np.fill_diagonal)
def fill_diagonal(a, val, wrap=False):
    refuse_given("fill_diagonal", wrap=bool(wrap))
    _own_array("fill_diagonal", a)
    if a.ndim < 2 or (a.ndim > 2 and any(not same(n, a.shape[0]) for n in a.shape[1:])):
        raise ShapeError(
            f"np.fill_diagonal: shape {render_tuple(a.shape)} has no diagonal to fill",
            "Give an array of two dimensions, or of more that are equally long.",
        )
    n = a.shape[0] if same(a.shape[0], a.shape[1]) else min(a.shape[:2])
    i = np.arange(n, like=a)
    a[(i,) * a.ndim] = val


@implements(np.add.at)
def add_at(a, indices, b):
    _own_array("add.at", a)
    source = b.dtype if is_traced(b) else np.result_type(b)
    if not np.can_cast(source, a.dtype, "same_kind"):
        raise DTypeError(
            f"np.add.at: a {source} value cannot be added into a {a.dtype} array",
            "Convert it first: values.astype(a.dtype).",
        )
    key, arrays = encode(a, indices)
    a.overwrite(ADD_AT(a, b, *arrays, key=key))


@implements(np.subtract.at)
def subtract_at(a, indices, b):
    dtype = b.dtype if is_traced(b) else np.result_type(b)
    np.add.at(a, indices, np.multiply(b, -1) if dtype.kind == "b" else np.negative(b))
