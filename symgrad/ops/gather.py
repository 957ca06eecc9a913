"""Functions of NumPy that pick numbers of an array by index or by mask."""

import numpy as np

from symgrad.core.axes import matched
from symgrad.core.graph import Aval
from symgrad.core.shapes import broadcast_shapes, key_along, with_size
from symgrad.core.sizes import Dim
from symgrad.errors import DTypeError, ShapeError, UnsupportedError
from symgrad.ops.arguments import check_ndim, flat_or_axis, refuse_given
from symgrad.ops.define import implements, operator, refuses
from symgrad.ops.index import ADD_AT, get
from symgrad.ops.index_expressions import Slot, check_bounds, known_value
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.positions import places
from symgrad.ops.spellings import may_be_small
from symgrad.spelling import ATOM, Code, Name


@implements(np.take)
def take(a, indices, axis=None, out=None, mode="raise"):
    refuse_given("take", out=out)
    indices = indices if isinstance(indices, Dim) else as_input(indices)
    if getattr(indices, "dtype", np.dtype(int)).kind == "b":  # numbers here, where x[indices] has a mask
        indices = indices.astype(int)
    a, axis = flat_or_axis("take", a, axis)
    if mode == "wrap":
        indices = indices % a.shape[axis]
    elif mode == "clip":
        indices = np.clip(indices, 0, a.shape[axis] - 1)
    elif mode != "raise":
        raise UnsupportedError(f"np.take: mode={mode!r}", "Write mode='raise', 'wrap' or 'clip'.")
    y = get(a, key_along(axis, indices))
    return np.copy(y) if y.shape else y


def indices_along(shape, indices, axis, like):
    """Index arrays that pick `indices` along an axis and every place along the others."""
    ones = (1,) * len(shape)
    return [
        indices if i == axis else np.reshape(np.arange(n, like=like), with_size(ones, i, -1))
        for i, n in enumerate(shape)
    ]


def _infer_take_along(a, indices, axis):
    if a.ndim != indices.ndim:
        raise ShapeError(
            f"np.take_along_axis: indices of {indices.ndim} dimensions for an array of {a.ndim}",
            "Give indices of as many dimensions as the array: indices[:, None].",
        )
    if indices.dtype.kind not in "iu":
        raise DTypeError(f"np.take_along_axis: indices of dtype {indices.dtype}", "Write indices.astype(int).")
    rest = broadcast_shapes(*[with_size(s, axis, 1) for s in (a.shape, indices.shape)])
    return Aval(with_size(rest, axis, indices.shape[axis]), a.dtype)


def _bind_take_along(arr, indices, axis=-1):
    indices = as_input(indices)
    arr, axis = flat_or_axis("take_along_axis", arr, axis)
    if np.ndim(indices) == np.ndim(arr) and np.result_type(indices).kind in "iu":
        check_bounds(indices, arr.shape[axis], axis)
    return (arr, indices), {"axis": axis}


def add_along(g, indices, axis, a):
    """Zeros in the shape of `a`, with `g` added at `indices` along an axis: what np.take_along_axis turns round."""
    places = indices_along(a.shape, indices, axis, g)
    key = tuple(map(Slot, range(len(places))))
    return ADD_AT(np.full(a.shape, 0, a.dtype, like=g), g, *places, key=key)


def _batch_take_along(batched, a, indices, axis):
    a, indices = (x if b else x[None] for x, b in zip((a, indices), batched, strict=True))
    return np.take_along_axis(a, indices, axis + 1)


def _signature_take_along(y, a, indices, axis):
    """Along the axis each index picks what it wants of all of `a`."""
    labels = range(y.ndim)
    return matched(y, (a, indices), [[None if i == axis else i for i in labels], labels], labels)


def _rows_and_columns(node, a, indices):
    """Spell np.take_along_axis on a small matrix as an index expression, which saves many calls."""
    n, *width = node.inputs[1].aval.shape
    if dict(node.params)["axis"] != 1 or len(width) != 1 or not may_be_small(node) or node.inputs[0].aval.shape[0] != n:
        return None
    if not isinstance(n, int):  # a size that only shapes mention has no name in the program
        if not isinstance(a, Name):
            return None
        n = f"len({a.text})"
    return Code(f"{a.at(ATOM)}[np.arange({n})[:, None], {indices.text}]")


TAKE_ALONG = operator(
    np.take_along_axis,
    arrays=2,
    infer=_infer_take_along,
    bind=_bind_take_along,
    vjp=lambda g, y, a, indices, axis: (add_along(g, indices, axis, a), None),
    batch=_batch_take_along,
    signature=_signature_take_along,
    places=1,
    quick=_rows_and_columns,
    linear=True,
)


@implements(np.compress)
def compress(condition, a, axis=None, out=None):
    refuse_given("compress", out=out)
    if axis is None and is_traced(condition):
        return np.ravel(a)[condition.astype(bool)]
    return np.take(a, _places("compress", condition), axis)


@implements(np.extract)
def extract(condition, arr):
    if is_traced(condition):
        return np.ravel(arr)[np.ravel(condition).astype(bool)]
    return np.take(np.ravel(arr), _places("extract", condition))


def _places(function, condition):
    known = known_value(as_input(condition))
    if known is None:
        raise _data_dependent(function)
    return np.flatnonzero(known)


@implements(np.choose)
def choose(a, choices, out=None, mode="raise"):
    refuse_given("choose", out=out)
    a, choices = as_input(a), [as_input(c) for c in choices]
    n, dtype = len(choices), np.result_type(*choices)
    a = a % n if mode == "wrap" else np.clip(a, 0, n - 1) if mode == "clip" else a
    if mode == "raise" and is_traced(a) and a.dtype.kind == "i":  # an index of an array may be negative, this one not
        a.may_raise(ValueError)
        a = np.where(a < 0, n, a)
    a, *choices = np.broadcast_arrays(a, *[c if is_traced(c) else np.asarray(c, dtype) for c in choices])
    return np.take_along_axis(np.stack(choices, dtype=dtype), a[None], 0)[0]


@implements(np.ix_)
def ix_(*args):
    arrays = [as_input(a) for a in args]
    for a in arrays:
        check_ndim("np.ix_: an index array", a, 1, 1, "Write indices.ravel().")
        if is_traced(a) and a.dtype == bool:
            raise _data_dependent("ix_")
    arrays = [np.flatnonzero(a) if a.dtype == bool else a for a in arrays]
    return tuple(np.reshape(a, with_size((1,) * len(arrays), i, -1)) for i, a in enumerate(arrays))


_DATA_DEPENDENT = (
    "{}: the size of the result depends on values, and sizes are known before the program runs",
    "Keep the shape: np.where(mask, x, 0), np.sum(x, where=mask); an argument that decides on sizes can be static, "
    "static_argnames=.",
)


def _data_dependent(function):
    fact, instead = _DATA_DEPENDENT
    return UnsupportedError(fact.format(f"np.{function}"), instead)


refuses(*_DATA_DEPENDENT, np.argwhere)
refuses(_DATA_DEPENDENT[0], "Keep the zeros; instead of np.poly1d write np.polyval(p, x).", np.trim_zeros)


@implements(np.nonzero)
def nonzero(a):
    if (found := places(a)) is None:
        raise _data_dependent("nonzero")
    return found


@implements(np.flatnonzero)
def flatnonzero(a):
    if (found := places(np.ravel(a))) is None:
        raise _data_dependent("flatnonzero")
    return found[0]


refuses(*_DATA_DEPENDENT, np.unique, np.unique_all, np.unique_counts, np.unique_inverse, np.unique_values)
refuses(*_DATA_DEPENDENT, np.union1d, np.intersect1d, np.setdiff1d, np.setxor1d)
refuses(
    "{} needs the bytes of an array, which has none before the program runs",
    "Give the array itself, or np.asarray of it.",
    np.frombuffer,
    np.from_dlpack,
)
