"""Methods of ufuncs: ``outer``, ``reduceat``; ``reduce`` and ``accumulate`` of those that have no operator for them."""

import numpy as np

from symgrad.core.axes import AxisSignature, axis_numbers
from symgrad.core.graph import Aval
from symgrad.core.shapes import with_size
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops.accumulate import along
from symgrad.ops.arguments import axis_index, refuse, refuse_given
from symgrad.ops.define import TABLE, implements, operator
from symgrad.ops.dtypes import ufunc_dtypes
from symgrad.ops.index_expressions import known_value
from symgrad.ops.operands import as_input, strong
from symgrad.ops.reduction import in_dtype, sum_dtype
from symgrad.spelling import call


def _operand(name, array, axis, dtype, out):
    refuse_given(name, out=out)  # by keyword it is delivered before the method is called
    x = as_input(array) if dtype is None else np.astype(as_input(array), np.dtype(dtype))
    if isinstance(axis, tuple) or (axis is None and x.ndim != 1):
        raise UnsupportedError(f"np.{name} over several axes", "Reduce one axis after the other.")
    return x, axis_index(name, 0 if axis is None else axis, x.ndim)


# ---- one number after the other


def _prefixes(ufunc, name, x, axis, start=None):
    """Return the reductions of the first element, of the first two, and so on, each without the axis."""
    (dtype,) = ufunc_dtypes(ufunc, (x.dtype, x.dtype))
    x = x if x.dtype == dtype else x != 0 if dtype.kind == "b" else np.astype(x, dtype)
    n = int(x.shape[axis])
    if n == 0:
        raise ShapeError(f"np.{name} of {x.aval}: there is nothing along axis {axis}", "Test the size before: x.size.")
    numbers = [along(x, axis, i) for i in range(n)]
    results = [numbers[0] if start is None else ufunc(start, numbers[0])]
    for number in numbers[1:]:
        results.append(ufunc(results[-1], number))
    return results


def _folded(ufunc):
    """Give a ufunc of two numbers the methods that no other entry has."""

    def reduce(array, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=True):
        name = f"{ufunc.__name__}.reduce"
        if where is not True:
            refuse(name, "where")
        x, axis = _operand(name, array, axis, dtype, out)
        y = _prefixes(ufunc, name, x, axis, None if initial is np._NoValue else initial)[-1]
        return np.expand_dims(y, axis) if keepdims else y

    def accumulate(array, axis=0, dtype=None, out=None):
        name = f"{ufunc.__name__}.accumulate"
        x, axis = _operand(name, array, axis, dtype, out)
        return np.stack(_prefixes(ufunc, name, x, axis), axis)

    for method, written in ((ufunc.reduce, reduce), (ufunc.accumulate, accumulate)):
        if method not in TABLE:
            implements(method)(written)


# ---- one slice after the other


def _spell_sums(node, x, indices):
    axis = dict(node.params).get("axis", 0)
    return call("np.add.reduceat", [x.text, indices.text, *([f"axis={axis}"] if axis else [])])


def _signature_sums(y, x, indices, axis):
    labels = tuple(None if i == axis else i for i in range(x.ndim))
    return AxisSignature((labels, (None,)), labels)


SUMS = operator(
    np.add.reduceat,
    name="add.reduceat",
    arrays=2,
    infer=lambda x, indices, axis=0: Aval(with_size(x.shape, axis, indices.shape[0]), sum_dtype(x.dtype)),
    vjp=lambda g, y, x, indices, axis: (_to_slices(g, x, indices, axis), None),
    spell=_spell_sums,
    signature=_signature_sums,
    axes={"axis": axis_numbers},
)
"""The sums of the slices that begin at increasing indices, each up to the next."""


def _to_slices(g, x, indices, axis):
    """Each number takes the cotangent of its slice; those before the first one take nothing."""
    places = np.searchsorted(indices, np.arange(x.shape[axis], like=x), "right")
    zero = np.full(with_size(g.shape, axis, 1), 0, g.dtype, like=g)
    return np.take(np.concatenate([zero, g], axis), places, axis)


def _reduceat(ufunc):
    name = f"{ufunc.__name__}.reduceat"

    @implements(ufunc.reduceat)
    def reduceat(array, indices, axis=0, dtype=None, out=None):
        known = known_value(as_input(indices))
        if known is None:
            raise UnsupportedError(
                f"np.{name}: indices are traced", "Give indices as numbers that do not depend on the arguments."
            )
        x, axis = _operand(name, array, axis, dtype, out)
        indices, n = np.asarray(known, dtype=np.intp), x.shape[axis]
        if isinstance(n, int) and not np.all((indices >= 0) & (indices < n)):
            raise ShapeError(
                f"np.{name}: indices {indices} are out of bounds for axis {axis} of size {n}",
                "Write mode='clip' or mode='wrap', or other indices.",
            )
        if ufunc is np.add and np.all(np.diff(indices) > 0):
            return in_dtype(SUMS(x, indices, axis=axis), dtype)
        stops = [*np.where(indices[1:] > indices[:-1], indices[1:], indices[:-1] + 1), None]
        slices = map(slice, indices, stops)
        parts = [ufunc.reduce(along(x, axis, part), axis=axis, keepdims=True) for part in slices]
        return in_dtype(np.concatenate(parts, axis), dtype)


def _outer(ufunc):
    @implements(ufunc.outer)
    def outer(a, b, /, **unknown):
        for argument in unknown:
            refuse(f"{ufunc.__name__}.outer", argument)
        a, b = (strong(as_input(x)) for x in (a, b))
        return TABLE[ufunc](a[(..., *[None] * np.ndim(b))] if np.ndim(a) and np.ndim(b) else a, b)


_COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
for ufunc in [f for f in TABLE if isinstance(f, np.ufunc) and f.nin == 2]:
    _outer(ufunc)
for ufunc in [f for f in TABLE if isinstance(f, np.ufunc) and (f.nin, f.nout) == (2, 1) and f.signature is None]:
    if ufunc not in _COMPARISONS:
        _folded(ufunc)
        _reduceat(ufunc)
