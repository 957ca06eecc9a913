"""Reductions: sum, mean, prod, max, min, and what is counted or accumulated along an axis."""

import inspect

import numpy as np

from symgrad.dims import product
from symgrad.graph import Aval, Op
from symgrad.ops.define import TABLE, as_input, axis_tuple, display_name, refuse

_UNSET = np._NoValue


def reduction(function, vjp, *, dtype=lambda dtype: dtype, where=None, combine=None, linear=False):
    """Define an operator that reduces over axes, under NumPy's full signature.

    Parameters
    ----------
    function : callable
        The NumPy function.
    vjp : callable or None
        ``vjp(g, y, x, axis)`` with g and y shaped to broadcast against x gives the cotangent of x.
    dtype : callable
        The dtype of the result from that of the input.
    where : number, optional
        What stands in for numbers that ``where=`` leaves out.
    combine : callable, optional
        How ``initial=`` joins the result.
    """
    name = display_name(function)

    def infer(x, axis=None, keepdims=False):
        axes = axis_tuple(name, axis, x.ndim)
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes)
        return Aval(shape, dtype(x.dtype))

    def pullback(g, y, x, axis, keepdims):
        if not keepdims:
            axes = axis_tuple(name, axis, x.ndim)
            kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
            g, y = np.reshape(g, kept), np.reshape(y, kept)
        return (vjp(g, y, x, axis),)

    def bind(x, axis=None, keepdims=False):
        x = as_input(x)
        ndim = np.ndim(x)
        axes = axis_tuple(name, axis, ndim)
        return (x,), {"axis": None if len(axes) == ndim else axes[0] if len(axes) == 1 else axes, "keepdims": bool(keepdims)}

    def batch(batched, x, axis, keepdims):
        return op(x, axis=tuple(i + 1 for i in axis_tuple(name, axis, x.ndim - 1)), keepdims=keepdims)

    op = Op(name, function, infer, bind, vjp=vjp and pullback, batch=batch, linear=linear, defaults={"axis": None, "keepdims": False})
    TABLE[function] = _with_numpy_signature(function, op, where, combine)
    return op


def _with_numpy_signature(function, op, fill, combine):
    names = tuple(inspect.signature(function).parameters)

    def call(*args, **kwargs):
        given = {**dict(zip(names, args)), **kwargs}
        x, axis = as_input(given.pop("a")), given.pop("axis", None)
        keepdims, out = given.pop("keepdims", _UNSET), given.pop("out", None)
        dtype, initial, where = given.pop("dtype", None), given.pop("initial", _UNSET), given.pop("where", _UNSET)
        for argument in given:
            refuse(op.name, argument)
        if dtype is not None:
            x = np.astype(x, dtype)
        if where is not _UNSET and where is not True:
            if fill is None:
                refuse(op.name, "where")
            x = np.where(where, x, fill)
        y = op(x, axis=axis, keepdims=keepdims is not _UNSET and keepdims)
        if initial is not _UNSET and initial is not None:
            y = combine(y, initial)
        if out is not None:
            out[...] = y
        return y if out is None else out

    return call


def _sum_dtype(dtype):
    """Small integers are summed as the platform's."""
    return np.dtype(np.uint64 if dtype.kind == "u" else np.int64) if dtype.kind in "biu" and dtype.itemsize < 8 else dtype


def _count(x, axis):
    return product([x.shape[i] for i in axis_tuple("mean", axis, x.ndim)])


SUM = reduction(
    np.sum, lambda g, y, x, axis: np.broadcast_to(g, x.shape), dtype=_sum_dtype, where=0, combine=np.add, linear=True
)
MEAN = reduction(
    np.mean,
    lambda g, y, x, axis: np.broadcast_to(g / _count(x, axis), x.shape),
    dtype=lambda dtype: np.dtype(float) if dtype.kind in "biu" else dtype,
    linear=True,
)
ANY = reduction(np.any, None, dtype=lambda dtype: np.dtype(bool), where=False, combine=np.logical_or)
ALL = reduction(np.all, None, dtype=lambda dtype: np.dtype(bool), where=True, combine=np.logical_and)
