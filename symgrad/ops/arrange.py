"""Functions that repeat, shift, mirror or pad numbers, and that insert or delete some."""

from operator import index as operator_index

import numpy as np

from symgrad.core.axes import ALONG_AXIS, AxisSignature, axis_numbers, beside, opaque
from symgrad.core.graph import Aval
from symgrad.core.shapes import key_along, product, with_size, with_value
from symgrad.core.sizes import Dim, is_no_length, same
from symgrad.errors import DTypeError, ShapeError, UnsupportedError
from symgrad.ops.arguments import ANY, axis_index, axis_tuple, check_ndim, flat_or_axis
from symgrad.ops.create import as_shape
from symgrad.ops.define import implements, operator
from symgrad.ops.index import put
from symgrad.ops.index_expressions import known_value
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.shape import as_size
from symgrad.spelling import call, spell_param


def known_argument(function, argument, x):
    """An argument that must be known before the program runs."""
    known = known_value(x) if is_traced(x) else x
    if known is None:
        raise UnsupportedError(
            f"np.{function}: {argument} is traced, and the size of the result would depend on its value",
            f"Give {argument} as a number that does not depend on the arguments of the function.",
        )
    return known


# ---- repeating


def _bind_tile(A, reps):
    A = as_input(A)
    reps = (reps,) if isinstance(reps, Dim) or np.ndim(known_argument("tile", "reps", reps)) == 0 else tuple(reps)
    return (A,), {"reps": (1,) * (np.ndim(A) - len(reps)) + tuple(map(as_size, reps))}


def _infer_tile(x, reps):
    shape = (1,) * (len(reps) - x.ndim) + x.shape
    return Aval(tuple(n * r for n, r in zip(shape, reps, strict=True)), x.dtype)


def _vjp_tile(g, y, x, reps):
    sizes, axes = [], []
    for n, r in zip((1,) * (len(reps) - x.ndim) + x.shape, reps, strict=True):
        if not (isinstance(r, int) and r == 1):
            axes.append(len(sizes))
            sizes.append(r)
        sizes.append(n)
    return (np.reshape(np.sum(np.reshape(g, tuple(sizes)), axis=tuple(axes)) if axes else g, x.shape),)


def _batch_tile(batched, x, reps):
    x = np.reshape(x, (x.shape[0], *(1,) * (len(reps) + 1 - x.ndim), *x.shape[1:]))
    return np.tile(x, (1, *reps))


def _spell_tile(node, x):
    reps = dict(node.params)["reps"]
    return call("np.tile", [x.text, spell_param(reps[0] if len(reps) == 1 else reps)])


def _signature_tile(y, x, reps):
    labels = tuple(i if same(r, 1) else None for i, r in enumerate(reps))
    return AxisSignature((labels[y.ndim - x.ndim :],), labels)


TILE = operator(
    np.tile,
    infer=_infer_tile,
    bind=_bind_tile,
    vjp=_vjp_tile,
    batch=_batch_tile,
    spell=_spell_tile,
    signature=_signature_tile,
    linear=True,
)


def _vjp_repeat(g, y, x, repeats, axis):
    sizes = (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :])
    return (np.sum(np.reshape(g, sizes), axis=axis + 1),)


REPEAT = operator(
    np.repeat,
    infer=lambda x, repeats, axis: Aval(with_size(x.shape, axis, x.shape[axis] * repeats), x.dtype),
    vjp=_vjp_repeat,
    spell=lambda node, x: call(
        "np.repeat",
        [x.text, str(dict(node.params)["repeats"])] + [f"axis={dict(node.params)['axis']}"] * (node.aval.ndim > 1),
    ),
    linear=True,
    **ALONG_AXIS,
)


@implements(np.repeat)
def repeat(a, repeats, axis=None):
    repeats = known_argument("repeat", "repeats", repeats)
    a, axis = flat_or_axis("repeat", a, axis)
    if isinstance(repeats, Dim) or np.size(repeats) == 1:
        return REPEAT(a, repeats=as_size(repeats if isinstance(repeats, Dim) else np.ravel(repeats)[0]), axis=axis)
    n = operator_index(a.shape[axis])
    if np.shape(repeats) != (n,):
        raise ShapeError(
            f"np.repeat: {np.size(repeats)} counts for axis {axis} of size {n}",
            "Give one count, or one for each place along the axis.",
        )
    return np.take(a, np.repeat(np.arange(n), repeats), axis)


# ---- mirroring and shifting


@implements(np.flip)
def flip(m, axis=None):
    m = as_input(m)
    axes = axis_tuple("flip", axis, np.ndim(m))
    return m[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(np.ndim(m)))]


@implements(np.fliplr)
def fliplr(m):
    check_ndim("np.fliplr: m", m, 2, ANY, "Write x[::-1] for an array of one.")
    return np.flip(m, 1)


@implements(np.flipud)
def flipud(m):
    check_ndim("np.flipud: m", m, 1, ANY, "Write x[None] to give it one.")
    return np.flip(m, 0)


@implements(np.rot90)
def rot90(m, k=1, axes=(0, 1)):
    ndim = np.ndim(m)
    if len(axes) != 2:
        raise ShapeError(f"np.rot90: {len(axes)} axes, two are needed", "Write axes=(0, 1).")
    i, j = (axis_index("rot90", axis, ndim) for axis in axes)
    if i == j:
        raise ShapeError(f"np.rot90: axis {i} is named twice", "Name two different axes.")
    k = operator_index(k) % 4
    if k == 0:
        return m[:]
    if k == 2:
        return np.flip(m, (i, j))
    return np.swapaxes(np.flip(m, j), i, j) if k == 1 else np.flip(np.swapaxes(m, i, j), j)


def _shifts(shift):
    """Return the shifts of a call as a list; known ones as numbers."""
    if is_traced(shift) and known_value(shift) is not None:
        shift = known_value(shift)
    several = isinstance(shift, (list, tuple)) or (not isinstance(shift, Dim) and np.ndim(shift))
    shifts = list(shift) if several else [shift]
    return [known_value(s) if is_traced(s) and known_value(s) is not None else s for s in shifts]


def _shifts_of_axes(shifts, axis, ndim):
    """Return as many shifts as axes: one shift may be of several axes, and one axis have several shifts."""
    axes = [axis_index("roll", i, ndim) for i in (axis if isinstance(axis, (tuple, list)) else [axis])]
    if len(shifts) != len(axes):
        if 1 not in (len(shifts), len(axes)):
            raise ShapeError(f"np.roll: {len(shifts)} shifts for {len(axes)} axes", "Give one shift for each axis.")
        count = max(len(shifts), len(axes))
        shifts, axes = (x * count if len(x) == 1 else x for x in (shifts, axes))
    return shifts, axes


def _bind_roll(a, shift, axis=None):
    a, shifts = as_input(a), [as_size(s) for s in _shifts(shift)]
    if axis is None:
        return (a,), {"shift": sum(shifts[1:], start=shifts[0]), "axis": None}
    shifts, axes = _shifts_of_axes(shifts, axis, np.ndim(a))
    if len(axes) == 1:
        return (a,), {"shift": shifts[0], "axis": axes[0]}
    return (a,), {"shift": tuple(shifts), "axis": tuple(axes)}


def _negated(shift):
    return tuple(-s for s in shift) if isinstance(shift, tuple) else -shift


def _batch_roll(batched, x, shift, axis):
    if axis is not None:
        return NotImplemented
    return np.reshape(np.roll(np.reshape(x, (x.shape[0], product(x.shape[1:]))), shift, 1), x.shape)


def _spell_roll(node, x):
    params = dict(node.params)
    axis = params.get("axis")
    keep = axis is not None and node.aval.ndim > 1
    return call("np.roll", [x.text, spell_param(params["shift"]), *([f"axis={spell_param(axis)}"] if keep else [])])


def _signature_roll(y, x, shift, axis):
    return opaque(y, x) if axis is None else beside(axis if isinstance(axis, tuple) else (axis,), y, x)


ROLL = operator(
    np.roll,
    infer=lambda x, shift, axis=None: Aval(x.shape, x.dtype),
    bind=_bind_roll,
    vjp=lambda g, y, x, shift, axis: (np.roll(g, _negated(shift), axis),),
    batch=_batch_roll,
    spell=_spell_roll,
    signature=_signature_roll,
    axes={"axis": axis_numbers},
    linear=True,
)


@implements(np.roll)
def roll(a, shift, axis=None):
    """Shifts that are known before running, or by places modulo the length: places of any sign are right."""
    shifts = _shifts(shift)
    if not any(map(is_traced, shifts)):
        return ROLL(a, shift, axis)
    a = as_input(a)
    if any(is_traced(s) and s.dtype.kind not in "iu" for s in shifts):
        raise DTypeError("np.roll: a shift is no integer", "Write np.roll(x, k.astype(int)).")
    if axis is None:
        return np.reshape(_rolled(np.ravel(a), sum(shifts[1:], start=shifts[0]), 0), a.shape)
    for s, i in zip(*_shifts_of_axes(shifts, axis, a.ndim), strict=True):
        a = _rolled(a, s, i)
    return a


def _rolled(a, shift, axis):
    n = a.shape[axis]
    return np.take(a, (np.arange(n, like=a) - shift) % n, axis)


# ---- inserting and deleting


@implements(np.append)
def append(arr, values, axis=None):
    if axis is None:
        arr, values, axis = np.ravel(as_input(arr)), np.ravel(as_input(values)), 0
    return np.concatenate((arr, values), axis)


@implements(np.delete)
def delete(arr, obj, axis=None):
    arr, axis = flat_or_axis("delete", arr, axis)
    obj = known_argument("delete", "obj", obj)
    if isinstance(obj, (int, np.integer, Dim)) and not isinstance(obj, bool):
        n, i = arr.shape[axis], as_size(obj)
        if is_no_length(n + i if i < 0 else n - i - 1):
            raise ShapeError(
                f"np.delete: index {i} is out of bounds for axis {axis} of size {with_value(n)}",
                "Write an index from -n to n - 1.",
            )
        i = i + n if i < 0 else i
        parts = slice(None, i), slice(i + 1, None)
        return np.concatenate([arr[key_along(axis, part)] for part in parts], axis)
    return np.take(arr, np.delete(np.arange(operator_index(arr.shape[axis])), obj), axis)


@implements(np.insert)
def insert(arr, obj, values, axis=None):
    arr, axis = flat_or_axis("insert", arr, axis)
    obj, values = known_argument("insert", "obj", obj), as_input(values)
    n = operator_index(arr.shape[axis])
    obj = np.arange(n)[obj] if isinstance(obj, slice) else np.asarray(obj)
    if obj.size == 1:  # any number of values goes to a single place
        values = np.reshape(values, (1,) * (arr.ndim - np.ndim(values)) + np.shape(values))
        values = values if obj.ndim else np.moveaxis(values, 0, axis)
        places = _single_place(int(obj.ravel()[0]), n, axis) + np.arange(operator_index(values.shape[axis]))
    else:
        writers = np.insert(np.full(n, -1), obj, np.arange(obj.size))
        inserted = np.flatnonzero(writers >= 0)
        places = inserted[np.argsort(writers[inserted])]
    size = n + len(places)
    like = next(x for x in (arr, values) if is_traced(x))
    y = np.full(with_size(arr.shape, axis, size), 0, arr.dtype, like=like)
    y = put(y, key_along(axis, np.setdiff1d(np.arange(size), places)), arr)
    return put(y, key_along(axis, places), values)


def _single_place(i, n, axis):
    if not -n <= i <= n:
        raise ShapeError(
            f"np.insert: index {i} is out of bounds for axis {axis} of size {n}", "Write an index from -n to n."
        )
    return i + n if i < 0 else i


@implements(np.resize)
def resize(a, new_shape):
    """Repeat the numbers of an array, in C's order, until they fill the shape."""
    a, shape = np.ravel(as_input(a)), as_shape(new_shape)
    if same(a.size, 0):
        return np.zeros_like(a, shape=shape)
    return np.reshape(np.take(a, np.arange(product(shape), like=a) % a.size), shape)
