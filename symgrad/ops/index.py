"""Indexing, and assignment into what is indexed."""

import numpy as np

from symgrad.core.axes import matched
from symgrad.core.graph import Aval
from symgrad.core.shapes import broadcast_shapes, product, render_tuple, same_shape
from symgrad.core.sizes import Dim
from symgrad.errors import ShapeError, WriteError
from symgrad.ops.contract import align, spread
from symgrad.ops.define import operator
from symgrad.ops.index_expressions import (
    EVERYTHING,
    Slice,
    Slot,
    decode,
    encode_items,
    indexed_shape,
    is_advanced,
    is_symbolic,
    key_items,
    key_labels,
    known_value,
    parts,
    spell_key,
)
from symgrad.ops.masks import Selected, is_traced_mask, selection
from symgrad.ops.operands import as_input, is_traced
from symgrad.spelling import ATOM, Code

# ---- reading


def _bind_key(*inputs, key):
    return [as_input(x) for x in inputs], {"key": key}


def _vjp_get(g, y, x, *arrays, key):
    if all(item is None or item == EVERYTHING for item in key):  # new axes alone
        return (np.reshape(g, x.shape),)
    return (ADD_AT(np.full(x.shape, 0, x.dtype, like=g), g, *arrays, key=key), *[None] * len(arrays))


def _batched_key(batched, x, arrays, key):
    """Return the key and arrays for a batch of inputs, and where the axes of the result, batch first, are."""
    if not any(batched[1:]):
        joined = max((a.ndim for a in arrays), default=0)
        key = (EVERYTHING, *key) if batched[0] else key
        apart = joined and not parts(x.shape, key, arrays).before  # NumPy puts their axes in front of the batch
        return key, arrays, (joined, *range(joined)) if apart and batched[0] else None
    joined, rows = max(a.ndim - b for a, b in zip(arrays, batched[1:], strict=True)), align(batched[1:], *arrays)
    before = len(parts(x.shape[1:] if batched[0] else x.shape, key, rows).before)
    if not batched[0]:
        return key, rows, (before, *range(before)) if before else None
    size = next(a.shape[0] for a, b in zip(arrays, batched[1:], strict=True) if b)
    rows.append(np.reshape(np.arange(size, like=rows[0]), (size, *(1,) * joined)))
    order = (0, *range(1 + joined, 1 + joined + before), *range(1, 1 + joined)) if before else None
    return (Slot(len(rows) - 1), *key), rows, order


def _longer_key(key, at, ndim, size):
    """Return a key with a full slice before it, for one axis more."""
    places = [0, *(i + 1 for i, item in enumerate(key) if item is not None and item is not Ellipsis)]
    return (*key[: places[at]], EVERYTHING, *key[places[at] :])


def _full_order(order, ndim):
    return (*order, *range(len(order), ndim))


def _batch_get(batched, x, *arrays, key):
    if not arrays:
        return NotImplemented
    key, arrays, order = _batched_key(batched, x, arrays, key)
    y = GET(x, *arrays, key=key)
    return y if order is None else np.transpose(y, _full_order(order, y.ndim))


def _signature_get(y, x, *arrays, key):
    whole, selected = key_labels(key, max((a.ndim for a in arrays), default=0))
    return matched(y, (x, *arrays), [whole, *(range(-a.ndim, 0) for a in arrays)], selected)


def _spell_get(node, x, *arrays):
    key = spell_key(dict(node.params)["key"], arrays)
    if not node.inputs[0].aval.shape:  # an argument may be Python's number
        return Code(f"np.asarray({x.text})[{key}]")
    return Code(f"{x.at(ATOM)}[{key}]")


GET = operator(
    lambda x, *arrays, key: x[decode(key, arrays)],
    name="index",
    arrays=-1,
    bind=_bind_key,
    infer=lambda x, *arrays, key: Aval(indexed_shape(x.shape, key, arrays), x.dtype),
    vjp=_vjp_get,
    batch=_batch_get,
    spell=_spell_get,
    signature=_signature_get,
    axes={"key": _longer_key},
    places=1,
    linear=True,
    selects=True,
    view=True,
    write_back=lambda x, content, *arrays, key: SET(x, content, *arrays, key=key),
)


def get(x, key):
    """x[key]: a view where the key has no array in it, not even one of no dimensions, as in NumPy."""
    items = key_items(x, key)
    if any(map(is_traced_mask, items)):
        return selection(x, items)[1]
    encoded, arrays = encode_items(x, items)
    if all(item is None or item == EVERYTHING for item in encoded):
        return _whole_view(x, encoded, Ellipsis in items)
    y = GET(x, *arrays, key=encoded)
    is_copy = any(isinstance(item, np.ndarray) for item in items)
    is_scalar = not y.shape and not any(item is Ellipsis for item in items)
    if not is_traced(y) or is_scalar or (y.shape and not is_copy):
        return y
    if is_copy:
        return np.copy(y)
    row = np.reshape(x, (*x.shape, 1))  # in which it is an array of one number
    return np.reshape(GET(row, *arrays, key=(*encoded, EVERYTHING)), ())


def picks_first(node):
    """Whether index arrays stand first in a key: then NumPy lays out the result in C's order."""
    return isinstance(dict(node.params)["key"][0], Slot)


def _whole_view(x, key, has_ellipsis):
    if x.shape:
        return np.reshape(x, _with_new_axes(x.shape, key))
    if key:
        return np.reshape(x, (1,) * len(key))
    return x.copied(array=has_ellipsis) if not has_ellipsis or not x.writes_in_place else x


def _with_new_axes(shape, key):
    sizes = iter(shape)
    return tuple(1 if item is None else next(sizes) for item in key)


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
    return ShapeError(
        f"a value of shape {render_tuple(shape)} cannot be written into the shape {render_tuple(target)}",
        "Give a value that broadcasts to the place, or write into a slice of its shape.",
    )


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
    """Return a mask of the numbers that no later number of the value overwrites; None where none is overwritten."""
    if all(np.ndim(a) == 0 for a in arrays):
        return None
    joined, after = parts(x.shape, key, arrays)[1:]
    own = zip(x.shape, [item for item in key if item is not None and item is not Ellipsis], strict=True)
    sizes, items = zip(*[(n, item) for n, item in own if is_advanced(item)], strict=True)
    known = [known_value(a) for a in arrays]
    if all(a is not None for a in known) and not any(isinstance(n, Dim) for n in (*sizes, *items)):
        last = _wins(known, items, sizes, joined)
        if last.all():
            return None
    else:
        last = _wins(arrays, items, sizes, joined)
    return np.reshape(last, (*joined, *(1,) * len(after)))


def _wins(arrays, items, sizes, joined):
    """Write the numbers of the writers where they write, and look who is found there."""
    like = arrays[0]
    order = np.reshape(np.arange(product(joined), like=like), joined)
    marks = SET(np.full(sizes, 0, like=like), order, *arrays, key=items)
    return GET(marks, *arrays, key=items) == order


def _batch_put(op, batched, x, value, *arrays, key):
    rows = next(v.shape[0] for v, b in zip((x, value, *arrays), batched, strict=True) if b)
    x = x if batched[0] else np.broadcast_to(x, (rows, *x.shape))
    inner = [np.ndim(a) - b for a, b in zip(arrays, batched[2:], strict=True)]
    ndim = len([i for i in key if i is None or isinstance(i, Slice)]) + max(inner, default=0)
    key, arrays, order = _batched_key((True, *batched[2:]), x, arrays, key)
    if batched[1] or (order is not None and np.ndim(value)):
        value = spread(value, ndim + 1 - np.ndim(value), int(batched[1]))
    if order is not None and np.ndim(value):
        value = np.transpose(value, np.argsort(_full_order(order, ndim + 1)))
    return op(x, value, *arrays, key=key)


def _signature_put(y, x, value, *arrays, key):
    """Axes that the key leaves whole; along the others all of the value goes into all of x."""
    whole, selected = key_labels(key, max((a.ndim for a in arrays), default=0))
    written = [label if label in whole else None for label in selected[len(selected) - value.ndim :]]
    return matched(y, (x, value, *arrays), [whole, written, *((None,) * a.ndim for a in arrays)], whole)


def _flops_put(y, x, value, *arrays, key):
    """Return how many numbers are written: the others stay where they are."""
    return product(GET.infer(x, *arrays, key=key).shape)


SET = operator(
    _set,
    name="index_set",
    arrays=-1,
    bind=_bind_key,
    infer=_infer_put,
    vjp=_vjp_set,
    batch=lambda *args, key: _batch_put(SET, *args, key=key),
    signature=_signature_put,
    places=2,
    linear=True,
    selects=True,
    assigns=True,
    flops=_flops_put,
)
ADD_AT = operator(
    _add,
    name="index_add",
    arrays=-1,
    bind=_bind_key,
    infer=_infer_put,
    vjp=lambda g, y, x, value, *arrays, key: (g, GET(g, *arrays, key=key), *[None] * len(arrays)),
    batch=lambda *args, key: _batch_put(ADD_AT, *args, key=key),
    signature=_signature_put,
    places=2,
    linear=True,
    assigns=True,
    flops=_flops_put,
)


def put(x, key, value):
    """Return x as it is after ``x[key] = value``."""
    items = key_items(x, key)
    if any(map(is_traced_mask, items)):
        return _put_selected(x, items, value)
    if isinstance(value, Selected):
        raise value.refusal()
    encoded, arrays = encode_items(x, items)
    if isinstance(value, (list, tuple)) and _holds_symbols(value):
        value = np.array(value, like=x)
    value = value if isinstance(value, Dim) else as_input(value)
    if all(item is None or item == EVERYTHING for item in encoded):
        return _whole(x, value, _with_new_axes(x.shape, encoded))
    if not isinstance(value, Dim):
        value = _without_leading_ones(value, len(indexed_shape(x.shape, encoded, arrays)))
    return SET(x, value, *arrays, key=encoded)


def _put_selected(x, items, value):
    key, selected = selection(x, items)
    content = np.where(selected.spread(), selected.whole(value), selected.x)
    if not same_shape(content.shape, selected.x.shape):
        raise _misfit(np.shape(value), selected.x.shape)
    return put(x, key, content)


def _holds_symbols(x):
    return is_symbolic(x) or (isinstance(x, (list, tuple)) and any(map(_holds_symbols, x)))


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
    if view.op.write_back is None:
        raise WriteError(f"{view.op.path} gives a read-only array", "Write into a copy: x = x.copy().")
    others = [type(base)(base.graph, x) for x in view.inputs[1:]]
    return view.op.write_back(base, content, *others, **dict(view.params))
