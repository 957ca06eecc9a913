"""Indexing, and assignment into what is indexed."""

from operator import index as operator_index
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from symgrad.dims import Dim, broadcast_shapes, render, render_shape, same, same_shape, slice_indices
from symgrad.errors import DTypeError, ShapeError, UnsupportedError, WriteError
from symgrad.graph import CONSTANT, Aval
from symgrad.ops.define import as_input, axis_index, implements, is_traced, operator, refuse
from symgrad.ops.shape import RESHAPE, TRANSPOSE, shortened
from symgrad.spelling import ATOM, Code, call

# ---- keys


class Slice(NamedTuple):
    """A slice as a hashable parameter."""

    start: Any
    stop: Any
    step: Any

    def __str__(self):
        start, stop, step = ("" if x is None else render(x) for x in self)
        return f"{start}:{stop}" + (f":{step}" if step else "")


class Slot(NamedTuple):
    """The place in a key of an index array, which is an input of the node."""

    input: int


FULL = Slice(None, None, None)


def encode(x, key):
    """An index as a hashable key and the arrays in it: of exactly ``x.ndim`` items but for None.

    There is one Ellipsis more where it stands for no axis and yet keeps two index arrays apart, by which NumPy puts
    their axes first.
    """
    return _encode(x, _items(x, key))


def _items(x, key):
    """What a key consists of; lists are arrays."""
    items = [_item(x, item) for item in (key if isinstance(key, tuple) else (key,))]
    if sum(item is Ellipsis for item in items) > 1:
        raise ShapeError("an index can have one Ellipsis only")
    return items


def _item(x, item):
    if item is None or item is Ellipsis or isinstance(item, (slice, Dim)) or is_traced(item):
        return item
    if isinstance(item, (bool, np.bool_)):
        raise UnsupportedError("indexing with a single True or False", "Write np.where(condition, x, other).")
    if isinstance(item, (int, np.integer)):
        return int(item)
    if isinstance(item, (list, tuple)) and any(map(_is_symbolic, item)):
        return np.array(item, like=next(filter(is_traced, (x, *item))))
    if isinstance(item, (list, tuple)) and not item:
        return np.zeros(0, int)
    if isinstance(item, (np.ndarray, list, tuple)):
        return np.asarray(item)
    return operator_index(item) if hasattr(item, "__index__") else np.asarray(item)


def _is_symbolic(x):
    return is_traced(x) or isinstance(x, Dim)


def _encode(x, items):
    used = sum(np.ndim(item) if _is_mask(item) else 1 for item in items if item is not None and item is not Ellipsis)
    if used > len(x.shape):
        raise ShapeError(f"{used} indices for an array of {len(x.shape)} dimensions")
    if not any(item is Ellipsis for item in items):
        items = [*items, Ellipsis]
    encoded, arrays, axis = [], [], 0
    for item in items:
        if item is None:
            encoded.append(None)
        elif item is Ellipsis:
            encoded += [FULL] * (len(x.shape) - used) or [Ellipsis]
            axis += len(x.shape) - used
        elif _is_mask(item):
            arrays += _places(item, x.shape, axis)
            encoded += [Slot(len(arrays) - item.ndim + i) for i in range(item.ndim)]
            axis += item.ndim
        else:
            encoded.append(_encode_item(item, x.shape[axis], axis, arrays))
            axis += 1
    return _without_ellipsis(encoded), arrays


def _without_ellipsis(encoded):
    """The key without an Ellipsis that stands for nothing, unless index arrays are on both sides of it."""
    if Ellipsis in encoded:
        at = encoded.index(Ellipsis)
        left, right = encoded[:at], encoded[at + 1 :]
        if not (any(map(_is_advanced, left)) and any(map(_is_advanced, right))):
            return (*left, *right)
        if not any(isinstance(item, Slot) for item in encoded):
            return (*left, *right)
    return tuple(encoded)


def _is_advanced(item):
    """Whether an item counts as an index array where there is one: numbers do."""
    return item is not None and item is not Ellipsis and not isinstance(item, Slice)


def _is_mask(item):
    return getattr(item, "dtype", None) == np.dtype(bool)


def _places(mask, shape, axis):
    """The integer arrays of the true places of a mask that is known now."""
    for i, n in enumerate(mask.shape):
        size = shape[axis + i]
        if not same(n, size) and n != size:
            raise ShapeError(f"a mask of size {n} for axis {axis + i} of size {size}")
    return np.nonzero(mask)


def _encode_item(item, size, axis, arrays):
    if isinstance(item, slice):
        return _encode_slice(item, size)
    if isinstance(item, Dim):
        return item
    if isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind in "iu":
        item = int(item)
    if isinstance(item, int):
        if isinstance(size, int) and not -size <= item < size:
            raise ShapeError(f"index {item} is out of bounds for axis {axis} of size {size}")
        return item
    array = as_input(item)
    if array.dtype.kind not in "iu":
        raise DTypeError(f"an index array of dtype {array.dtype}", "Index with integers or a boolean mask.")
    _check_bounds(array, size, axis)
    arrays.append(array)
    return Slot(len(arrays) - 1)


def _check_bounds(array, size, axis):
    known = known_value(array)
    if known is None or not isinstance(size, int) or not known.size:
        return
    for number in (int(known.min()), int(known.max())):
        if not -size <= number < size:
            raise ShapeError(f"index {number} is out of bounds for axis {axis} of size {size}")


def known_value(x):
    """The array that a value is before the program runs, None where it has none."""
    if not is_traced(x):
        return np.asarray(x)
    return np.asarray(dict(x.node.params)["value"].value) if x.node.op is CONSTANT else None


def _encode_slice(item, size):
    """A slice in its shortest form, so that equal slices are one key."""
    start, stop, step = (
        x if x is None or isinstance(x, Dim) else operator_index(x) for x in (item.start, item.stop, item.step)
    )
    if step == 0:
        raise ShapeError("a slice cannot have step 0")
    if step is None or step > 0:
        start = None if isinstance(start, int) and start == 0 else start
        if stop is not None and (
            same(stop, size) or (isinstance(stop, int) and isinstance(size, int) and stop >= size)
        ):
            stop = None
    return Slice(start, stop, None if isinstance(step, int) and step == 1 else step)


def decode(key, arrays):
    """The key as NumPy takes it."""
    return tuple(
        slice(*item) if isinstance(item, Slice) else arrays[item.input] if isinstance(item, Slot) else item
        for item in key
    )


def spell_key(key, arrays):
    """The key as source, without the full slices at its end."""
    if not key:
        return "..."
    return shortened([arrays[item.input].text if isinstance(item, Slot) else _spell_item(item) for item in key])


def _spell_item(item):
    return "..." if item is Ellipsis else render(item) if isinstance(item, (int, Dim)) else str(item)


# ---- shapes


class Parts(NamedTuple):
    """The shape that a key selects: axes of slices, those of index arrays, and axes of slices again."""

    before: tuple
    joined: tuple
    after: tuple

    @property
    def shape(self):
        return self.before + self.joined + self.after


def parts(shape, key, arrays):
    """NumPy's rules for basic and advanced indices."""
    basic, advanced, axis = [], [], 0
    for place, item in enumerate(key):
        if item is None:
            basic.append((place, 1))
        elif isinstance(item, Slice):
            basic.append((place, slice_indices(shape[axis], *item)[3]))
        elif item is not Ellipsis:
            advanced.append(place)
        axis += item is not None and item is not Ellipsis
    if not any(isinstance(item, Slot) for item in key):
        return Parts(tuple(n for _, n in basic), (), ())
    joined = broadcast_shapes(*[a.shape for a in arrays])
    together = advanced[-1] - advanced[0] + 1 == len(advanced)
    first = advanced[0] if together else -1  # apart: their axes come first
    return Parts(tuple(n for p, n in basic if p < first), joined, tuple(n for p, n in basic if p >= first))


def indexed_shape(shape, key, arrays):
    """The shape of x[key]."""
    return parts(shape, key, arrays).shape


# ---- reading


def _bind_key(*inputs, key):
    return [as_input(x) for x in inputs], {"key": key}


def _infer_get(x, *arrays, key):
    return Aval(indexed_shape(x.shape, key, arrays), x.dtype)


def _vjp_get(g, y, x, *arrays, key):
    return (ADD(np.full(x.shape, 0, x.dtype, like=g), g, *arrays, key=key), *[None] * len(arrays))


def _batched_key(batched, x, arrays, key):
    """Key and arrays for many inputs at once, and where each axis of the result, batch first, is in what they give."""
    if not any(batched[1:]):
        joined = max((a.ndim for a in arrays), default=0)
        key = (FULL, *key) if batched[0] else key
        apart = joined and not parts(x.shape, key, arrays).before  # NumPy puts their axes in front of the batch
        return key, arrays, (joined, *range(joined)) if apart and batched[0] else None
    own = [a.ndim - b for a, b in zip(arrays, batched[1:], strict=True)]
    joined = max(own)
    rows = [
        np.reshape(a, (a.shape[0], *(1,) * (joined - n), *a.shape[1:])) if b else a
        for a, b, n in zip(arrays, batched[1:], own, strict=True)
    ]
    before = len(parts(x.shape[1:] if batched[0] else x.shape, key, rows).before)
    if not batched[0]:
        return key, rows, (before, *range(before)) if before else None
    size = next(a.shape[0] for a, b in zip(arrays, batched[1:], strict=True) if b)
    rows.append(np.reshape(np.arange(size, like=rows[0]), (size, *(1,) * joined)))
    order = (0, *range(1 + joined, 1 + joined + before), *range(1, 1 + joined)) if before else None
    return (Slot(len(rows) - 1), *key), rows, order


def _full_order(order, ndim):
    return (*order, *range(len(order), ndim))


def _batch_get(batched, x, *arrays, key):
    key, arrays, order = _batched_key(batched, x, arrays, key)
    y = GET(x, *arrays, key=key)
    return y if order is None else np.transpose(y, _full_order(order, y.ndim))


GET = operator(
    lambda x, *arrays, key: x[decode(key, arrays)],
    name="index",
    arrays=-1,
    bind=_bind_key,
    infer=_infer_get,
    vjp=_vjp_get,
    batch=_batch_get,
    spell=lambda node, x, *arrays: Code(f"{x.at(ATOM)}[{spell_key(dict(node.params)['key'], arrays)}]"),
    linear=True,
    view=True,
)


def get(x, key):
    """x[key]: a view where the key has no array in it, as in NumPy."""
    items = _items(x, key)
    if any(is_traced(item) and item.dtype == bool for item in items):
        return _select(x, items)
    encoded, arrays = _encode(x, items)
    if all(item is None or item == FULL for item in encoded):
        return _whole_view(x, encoded, Ellipsis in items)
    y = GET(x, *arrays, key=encoded)
    if not is_traced(y) or y.shape:
        return np.copy(y) if any(isinstance(item, np.ndarray) and item.ndim == 0 for item in items) else y
    if (
        any(item is Ellipsis for item in items) and not arrays
    ):  # no scalar, but an array of no dimensions that is a view
        return np.reshape(GET(x, key=_kept_axis(encoded)), ())
    return y


def _whole_view(x, key, has_ellipsis):
    if x.shape:
        return np.reshape(x, _with_new_axes(x.shape, key))
    if key:
        return np.reshape(x, (1,) * len(key))
    return x.copied(array=has_ellipsis) if not has_ellipsis or not x.writes_in_place else x


def _with_new_axes(shape, key):
    sizes = iter(shape)
    return tuple(1 if item is None else next(sizes) for item in key)


def _kept_axis(key):
    """A key of numbers with a slice of one number at its end."""
    *rest, last = key
    return (*rest, Slice(last, None if isinstance(last, int) and last == -1 else last + 1, None))


# ---- assignment: a new array that differs from x under the key


def _infer_put(x, value, *arrays, key):
    target = indexed_shape(x.shape, key, arrays)
    try:
        fits = same_shape(broadcast_shapes(target, value.shape), target)
    except ShapeError:
        fits = False
    if not fits:
        raise _misfit(value.shape, target)
    return Aval(x.shape, x.dtype)


def _misfit(shape, target):
    return ShapeError(f"a value of shape {_tuple(shape)} cannot be written into the shape {_tuple(target)}")


def _tuple(shape):
    return f"({render_shape(shape)}{',' * (len(shape) == 1)})"


def _set(x, value, *arrays, key):
    y = np.array(x)
    y[decode(key, arrays)] = value
    return y


def _add(x, value, *arrays, key):
    y = np.array(x)
    if arrays:
        np.add.at(y, decode(key, arrays), value)
    else:
        y[decode(key, arrays)] += value
    return y


def _vjp_set(g, y, x, value, *arrays, key):
    read = GET(g, *arrays, key=key)
    last = _last_writer(x, arrays, key)
    kept = read if last is None else np.where(last, read, 0)
    return (SET(g, 0.0, *arrays, key=key), kept, *[None] * len(arrays))


def _last_writer(x, arrays, key):
    """Where the value is not overwritten by a later number of itself at the same place; None if it nowhere is."""
    if all(np.ndim(a) == 0 for a in arrays):
        return None
    joined, after = parts(x.shape, key, arrays)[1:]
    sizes = [
        n
        for n, item in zip(x.shape, (i for i in key if i is not None and i is not Ellipsis), strict=True)
        if _is_advanced(item)
    ]
    items = tuple(item for item in key if _is_advanced(item))
    known = [known_value(a) for a in arrays]
    if all(a is not None for a in known) and not any(isinstance(n, Dim) for n in (*sizes, *items)):
        last = _wins(known, items, sizes, joined, np)
        return None if last.all() else np.reshape(last, (*joined, *(1,) * len(after)))
    last = _wins(arrays, items, sizes, joined, None)
    return np.reshape(last, (*joined, *(1,) * len(after)))


def _wins(arrays, items, sizes, joined, known):
    """Write the numbers of the writers where they write, and look who is found there."""
    count = 1
    for n in joined:
        count = count * n
    like = arrays[0]
    order = np.reshape(np.arange(count, like=like), joined)
    marks = SET(np.full(tuple(sizes), 0, like=like), order, *arrays, key=items)
    return GET(marks, *arrays, key=items) == order


def _batch_put(op):
    def batch(batched, x, value, *arrays, key):
        rows = next(v.shape[0] for v, b in zip((x, value, *arrays), batched, strict=True) if b)
        x = x if batched[0] else np.broadcast_to(x, (rows, *x.shape))
        inner = [np.ndim(a) - b for a, b in zip(arrays, batched[2:], strict=True)]
        ndim = len([i for i in key if i is None or isinstance(i, Slice)]) + max(inner, default=0)
        key, arrays, order = _batched_key((True, *batched[2:]), x, arrays, key)
        if batched[1]:
            value = np.reshape(value, (rows, *(1,) * (ndim + 1 - np.ndim(value)), *value.shape[1:]))
        if order is not None and np.ndim(value):
            if not batched[1]:
                value = np.reshape(value, (*(1,) * (ndim + 1 - np.ndim(value)), *value.shape))
            value = np.transpose(value, np.argsort(_full_order(order, ndim + 1)))
        return op(x, value, *arrays, key=key)

    return batch


SET = operator(
    _set,
    name="index_set",
    arrays=-1,
    bind=_bind_key,
    infer=_infer_put,
    vjp=_vjp_set,
    batch=lambda *args, key: _batch_put(SET)(*args, key=key),
    linear=True,
)
ADD = operator(
    _add,
    name="index_add",
    arrays=-1,
    bind=_bind_key,
    infer=_infer_put,
    vjp=lambda g, y, x, value, *arrays, key: (g, GET(g, *arrays, key=key), *[None] * len(arrays)),
    batch=lambda *args, key: _batch_put(ADD)(*args, key=key),
    linear=True,
)


def put(x, key, value):
    """What x is after ``x[key] = value``."""
    items = _items(x, key)
    if any(is_traced(item) and item.dtype == bool for item in items):
        return _put_selected(x, items, value)
    if isinstance(value, Selected):
        raise value.refusal()
    encoded, arrays = _encode(x, items)
    if isinstance(value, (list, tuple)) and _holds_symbols(value):
        value = np.array(value, like=x)
    value = value if isinstance(value, Dim) else as_input(value)
    if all(item is None or item == FULL for item in encoded):
        return _whole(x, value, _with_new_axes(x.shape, encoded))
    if not isinstance(value, Dim):
        value = _without_leading_ones(value, len(indexed_shape(x.shape, encoded, arrays)))
    return SET(x, value, *arrays, key=encoded)


def _holds_symbols(x):
    return _is_symbolic(x) or (isinstance(x, (list, tuple)) and any(map(_holds_symbols, x)))


def _without_leading_ones(value, ndim):
    """NumPy lets a value of shape (1, 3) be written into (3,)."""
    shape = np.shape(value)
    extra = len(shape) - ndim
    if extra > 0 and all(isinstance(n, int) and n == 1 for n in shape[:extra]):
        return np.reshape(value, shape[extra:])
    return value


def _whole(x, value, target):
    """An array as x with new content everywhere."""
    if isinstance(value, Dim) or (not is_traced(value) and np.ndim(value) == 0):
        return np.full(x.shape, value, x.dtype, like=x)
    value = _without_leading_ones(value, len(target))
    if not is_traced(value):
        value = np.array(value, x.dtype, like=x)
    elif value.dtype != x.dtype or value.aval.weak:
        value = value.astype(x.dtype)
    if not same_shape(value.shape, target):
        try:
            value = np.broadcast_to(value, target)
        except ShapeError:
            raise _misfit(value.shape, target) from None
    return np.reshape(value, x.shape)


def write_back(view, base, content):
    """The content of `base` after `content` was written into `view`, a node that views it."""
    params = dict(view.params)
    if view.op is GET:
        arrays = [type(base)(base.graph, a) for a in view.inputs[1:]]
        return SET(base, content, *arrays, key=params["key"])
    if view.op is TRANSPOSE:
        return np.transpose(content, np.argsort(params["axes"]))
    if view.op is RESHAPE:
        return np.reshape(content, base.shape)
    raise WriteError(f"np.{view.op.name} gives a read-only array", "Write into a copy: x = x.copy().")


# ---- masks that have no value before the program runs


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
            f"a value of shape {_tuple(shape)} for the places of a traced mask, whose number depends on values",
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


def _selection(x, items):
    """The items with full slices instead of their traced mask, and what they select of x, as one with the mask."""
    masks = [item for item in items if is_traced(item) and item.dtype == bool]
    if len(masks) > 1 or any(getattr(item, "ndim", 0) and not _is_mask(item) for item in items):
        raise UnsupportedError(
            "indexing with a traced mask and other arrays", "Combine them into one mask of x's shape."
        )
    mask = masks[0]
    at = next(i for i, item in enumerate(items) if item is mask)
    key = (*items[:at], *[slice(None)] * mask.ndim, *items[at + 1 :])
    marked = (*items[:at], *[slice(None)] * mask.ndim, *items[at + 1 :])
    sub = x[marked]
    axis = sum(item is None or isinstance(item, slice) for item in items[:at])
    if any(item is Ellipsis for item in items[:at]):
        axis = sub.ndim - mask.ndim - sum(item is None or isinstance(item, slice) for item in items[at + 1 :])
    for i, (n, m) in enumerate(zip(mask.shape, sub.shape[axis : axis + mask.ndim], strict=True)):
        if not same(n, m) and n != m:
            raise ShapeError(f"a mask of size {n} for axis {axis + i} of size {m}")
    return key, Selected(sub, mask, sub.ndim - axis - mask.ndim)


def _select(x, items):
    return _selection(x, items)[1]


def _put_selected(x, items, value):
    key, selected = _selection(x, items)
    content = np.where(selected.spread(), selected.whole(value), selected.x)
    if not same_shape(content.shape, selected.x.shape):
        raise _misfit(np.shape(value), selected.x.shape)
    return put(x, key, content)


# ---- functions


@implements(np.take)
def take(a, indices, axis=None, out=None, mode="raise"):
    if out is not None:
        refuse("take", "out")
    a, indices = as_input(a), indices if isinstance(indices, Dim) else as_input(indices)
    a, axis = (np.ravel(a), 0) if axis is None else (a, axis_index("take", axis, np.ndim(a)))
    if mode == "wrap":
        indices = indices % a.shape[axis]
    elif mode == "clip":
        indices = np.clip(indices, 0, a.shape[axis] - 1)
    elif mode != "raise":
        raise UnsupportedError(f"np.take: mode={mode!r}", "Write mode='raise', 'wrap' or 'clip'.")
    y = get(a, (slice(None),) * axis + (indices,))
    return np.copy(y) if is_traced(y) and y.shape else y


def _along(shape, indices, axis, like):
    """Index arrays that pick `indices` along an axis and every place along the others."""
    ndim = len(shape)
    return [
        indices if i == axis else np.reshape(np.arange(n, like=like), tuple(-1 if j == i else 1 for j in range(ndim)))
        for i, n in enumerate(shape)
    ]


def _infer_take_along(a, indices, axis):
    if a.ndim != indices.ndim:
        raise ShapeError(f"np.take_along_axis: indices of {indices.ndim} dimensions for an array of {a.ndim}")
    if indices.dtype.kind not in "iu":
        raise DTypeError(f"np.take_along_axis: indices of dtype {indices.dtype}", "Write indices.astype(int).")
    rest = broadcast_shapes(*[(*s[:axis], 1, *s[axis + 1 :]) for s in (a.shape, indices.shape)])
    return Aval((*rest[:axis], indices.shape[axis], *rest[axis + 1 :]), a.dtype)


def _bind_take_along(arr, indices, axis=-1):
    arr, indices = as_input(arr), as_input(indices)
    arr, axis = (np.ravel(arr), 0) if axis is None else (arr, axis)
    axis = axis_index("take_along_axis", axis, np.ndim(arr))
    if np.ndim(indices) == np.ndim(arr) and np.result_type(indices).kind in "iu":
        _check_bounds(indices, arr.shape[axis], axis)
    return (arr, indices), {"axis": axis}


def _vjp_take_along(g, y, a, indices, axis):
    places = _along(a.shape, indices, axis, g)
    key = tuple(map(Slot, range(len(places))))
    return ADD(np.full(a.shape, 0, a.dtype, like=g), g, *places, key=key), None


def _batch_take_along(batched, a, indices, axis):
    a, indices = (x if b else x[None] for x, b in zip((a, indices), batched, strict=True))
    return np.take_along_axis(a, indices, axis + 1)


TAKE_ALONG = operator(
    np.take_along_axis,
    arrays=2,
    infer=_infer_take_along,
    bind=_bind_take_along,
    vjp=_vjp_take_along,
    batch=_batch_take_along,
    linear=True,
)


def _own_array(function, a):
    if not is_traced(a):
        raise WriteError(
            f"np.{function}: a traced value would be written into an array that exists before the program runs",
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
        raise ShapeError(f"np.put_along_axis: indices of {np.ndim(indices)} dimensions for an array of {arr.ndim}")
    arr[tuple(_along(arr.shape, indices, axis, arr))] = values


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
        raise DTypeError(f"np.copyto: cannot cast {source.dtype} to {dst.dtype} by the rule {casting!r}")
    dst[...] = src if where is True else np.where(where, src, dst)


@implements(np.putmask)
def putmask(a, mask, values):
    _own_array("putmask", a)
    values = as_input(values)
    if np.size(values) != 1 and not same_shape(np.shape(values), a.shape):
        raise UnsupportedError("np.putmask: values of another shape than the array", "Write np.where(mask, values, a).")
    a[...] = np.where(mask, values if np.shape(values) == a.shape else np.reshape(values, ()), a)


@implements(np.fill_diagonal)
def fill_diagonal(a, val, wrap=False):
    if wrap:
        refuse("fill_diagonal", "wrap")
    _own_array("fill_diagonal", a)
    if a.ndim < 2 or (a.ndim > 2 and any(not same(n, a.shape[0]) for n in a.shape[1:])):
        raise ShapeError(f"np.fill_diagonal: shape {_tuple(a.shape)} has no diagonal to fill")
    n = a.shape[0] if same(a.shape[0], a.shape[1]) else min(a.shape[:2])
    i = np.arange(n, like=a)
    a[(i,) * a.ndim] = val


@implements(np.compress)
def compress(condition, a, axis=None, out=None):
    if out is not None:
        refuse("compress", "out")
    if is_traced(condition):
        raise _data_dependent("compress")
    return np.take(a, np.flatnonzero(condition), axis)


@implements(np.extract)
def extract(condition, arr):
    if is_traced(condition):
        raise _data_dependent("extract")
    return np.take(np.ravel(arr), np.flatnonzero(condition))


@implements(np.choose)
def choose(a, choices, out=None, mode="raise"):
    if out is not None:
        refuse("choose", "out")
    a, choices = as_input(a), [as_input(c) for c in choices]
    n, dtype = len(choices), np.result_type(*choices)
    a = a % n if mode == "wrap" else np.clip(a, 0, n - 1) if mode == "clip" else a
    a, *choices = np.broadcast_arrays(a, *[c if is_traced(c) else np.asarray(c, dtype) for c in choices])
    return np.take_along_axis(np.stack(choices, dtype=dtype), a[None], 0)[0]


@implements(np.ix_)
def ix_(*args):
    arrays = [as_input(a) for a in args]
    for a in arrays:
        if np.ndim(a) != 1:
            raise ShapeError("np.ix_: indices must have one dimension")
        if is_traced(a) and a.dtype == bool:
            raise _data_dependent("ix_")
    arrays = [np.flatnonzero(a) if a.dtype == bool else a for a in arrays]
    return tuple(np.reshape(a, tuple(-1 if j == i else 1 for j in range(len(arrays)))) for i, a in enumerate(arrays))


def _data_dependent(function):
    return UnsupportedError(
        f"np.{function}: the size of the result depends on values, and sizes are known before the program runs",
        "Keep the shape: np.where(mask, x, 0), np.sum(x, where=mask); or use an array that is not traced.",
    )


def _refuses(function):
    def refused(*args, **kwargs):
        raise _data_dependent(function.__name__)

    implements(function)(refused)


for function in (
    np.nonzero,
    np.flatnonzero,
    np.argwhere,
    np.unique,
    np.place,
    np.union1d,
    np.intersect1d,
    np.setdiff1d,
):
    _refuses(function)


@implements(np.add.at)
def add_at(a, indices, b):
    _own_array("add.at", a)
    source = b.dtype if is_traced(b) else np.result_type(b)
    if not np.can_cast(source, a.dtype, "same_kind"):
        raise DTypeError(f"np.add.at: a {source} value cannot be added into a {a.dtype} array")
    key, arrays = encode(a, indices)
    a.overwrite(ADD(a, b, *arrays, key=key))


@implements(np.subtract.at)
def subtract_at(a, indices, b):
    np.add.at(a, indices, np.negative(b))


# ---- sorting


def _bind_argsort(a, axis=-1, kind=None, order=None, *, stable=None):
    if order is not None:
        refuse("argsort", "order")
    a = as_input(a)
    a, axis = (np.ravel(a), 0) if axis is None else (a, axis_index("argsort", axis, np.ndim(a)))
    return (a,), {"axis": axis, "kind": "stable" if stable or kind in ("stable", "mergesort") else None}


def _spell_argsort(node, x):
    params = dict(node.params)
    axis = [f"axis={params['axis']}"] * (params["axis"] != node.aval.ndim - 1)
    kind = ["kind='stable'"] if params.get("kind") else []
    return call("np.argsort", [x.text, *axis, *kind])


ARGSORT = operator(
    np.argsort,
    infer=lambda a, axis, kind=None: Aval(a.shape, np.dtype(np.intp)),
    bind=_bind_argsort,
    vjp=lambda g, y, a, axis, kind: (None,),
    batch=lambda batched, a, axis, kind: np.argsort(a, axis + 1, kind),
    spell=_spell_argsort,
)


@implements(np.sort)
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    if order is not None:
        refuse("sort", "order")
    a, axis = (np.ravel(a), -1) if axis is None else (as_input(a), axis)
    places = np.argsort(a, axis, kind, stable=stable)
    return np.take(a, places) if np.ndim(a) == 1 else np.take_along_axis(a, places, axis)


SEARCHSORTED = operator(
    np.searchsorted,
    arrays=2,
    infer=lambda a, v, side="left": Aval(v.shape, np.dtype(np.intp)),
    vjp=lambda g, y, a, v, side: (None, None),
)


@implements(np.searchsorted)
def searchsorted(a, v, side="left", sorter=None):
    if np.ndim(a) != 1:
        raise ShapeError(f"np.searchsorted: an array of {np.ndim(a)} dimensions")
    if side not in ("left", "right"):
        raise UnsupportedError(f"np.searchsorted: side={side!r}", "Write side='left' or side='right'.")
    return SEARCHSORTED(a if sorter is None else np.take(a, sorter), v, side=side)


@implements(np.digitize)
def digitize(x, bins, right=False):
    if is_traced(bins):
        raise UnsupportedError(
            "np.digitize: traced bins, of which it is not known whether they grow", "Write np.searchsorted."
        )
    bins, side = np.asarray(bins), "left" if right else "right"
    if len(bins) > 1 and bins[0] > bins[-1]:
        return len(bins) - np.searchsorted(bins[::-1], x, side)
    return np.searchsorted(bins, x, side)
