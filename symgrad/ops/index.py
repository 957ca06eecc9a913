"""Indexing, and assignment into what is indexed."""

from operator import index as operator_index
from typing import Any, NamedTuple

import numpy as np

from symgrad.dims import Dim, broadcast_shapes, render, same_shape, slice_indices
from symgrad.errors import DTypeError, ShapeError, UnsupportedError
from symgrad.graph import Aval
from symgrad.ops.define import as_input, is_traced, operator
from symgrad.spelling import ATOM, Code


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


def encode(x, key):
    """An index as a hashable key of exactly ``x.ndim`` dimensions, and the arrays in it."""
    items, arrays, encoded = list(key) if isinstance(key, tuple) else [key], [], []
    items = _expand_masks(items)
    ndim = len(x.shape)
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > ndim:
        raise ShapeError(f"{used} indices for an array of {ndim} dimensions")
    rest = [slice(None)] * (ndim - used)
    at = next((i for i, item in enumerate(items) if item is Ellipsis), None)
    items = items + rest if at is None else items[:at] + rest + items[at + 1 :]
    axis = 0
    for item in items:
        if item is None:
            encoded.append(None)
            continue
        encoded.append(_encode_item(item, x.shape[axis], axis, arrays))
        axis += 1
    return tuple(encoded), arrays


def _encode_item(item, size, axis, arrays):
    if isinstance(item, slice):
        return Slice(*(_plain(x) for x in (item.start, item.stop, item.step)))
    if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
        if not isinstance(size, Dim) and not -size <= item < size:
            raise ShapeError(f"index {item} is out of bounds for axis {axis} of size {size}")
        return int(item)
    if isinstance(item, Dim):
        return item
    array = as_input(item)
    if array.dtype.kind not in "iu":
        raise DTypeError(f"an index array of dtype {array.dtype}", "Index with integers or a boolean mask.")
    arrays.append(array)
    return Slot(len(arrays) - 1)


def _plain(x):
    return x if x is None or isinstance(x, Dim) else operator_index(x)


def _expand_masks(items):
    """A boolean mask known now is the integer arrays of its true places."""
    expanded = []
    for item in items:
        item = np.asarray(item) if isinstance(item, list) and not any(map(is_traced, item)) else item
        if getattr(item, "dtype", None) == bool:
            if is_traced(item):
                raise UnsupportedError(
                    "indexing with a traced boolean mask: the size of the result depends on values",
                    "Write np.where(mask, x, 0), or np.sum(x, where=mask).",
                )
            expanded.extend(np.nonzero(item))
        else:
            expanded.append(item)
    return expanded


def decode(key, arrays):
    """The key as NumPy takes it."""
    return tuple(
        slice(*item) if isinstance(item, Slice) else arrays[item.input] if isinstance(item, Slot) else item for item in key
    )


def spell_key(key, arrays):
    """The key as source, without the full slices at its end."""
    texts = [arrays[item.input].text if isinstance(item, Slot) else _spell_item(item) for item in key]
    while len(texts) > 1 and texts[-1] == ":":
        texts.pop()
    return ", ".join(texts)


def _spell_item(item):
    return render(item) if isinstance(item, (int, Dim)) else str(item)


def indexed_shape(shape, key, arrays):
    """The shape of x[key]: NumPy's rules for basic and advanced indices."""
    basic, axis, advanced = [], 0, []
    for place, item in enumerate(key):
        if item is None:
            basic.append((place, 1))
            continue
        if isinstance(item, Slice):
            basic.append((place, slice_indices(shape[axis], *item)[3]))
        else:
            advanced.append((place, isinstance(item, Slot)))
        axis += 1
    if not any(is_array for _, is_array in advanced):
        return tuple(size for _, size in basic)
    places = [place for place, _ in advanced]
    joined = broadcast_shapes(*[a.shape for a in arrays])
    together = places == list(range(places[0], places[-1] + 1))
    first = places[0] if together else -1
    return (*(n for p, n in basic if p < first), *joined, *(n for p, n in basic if p >= first))


def _bind_key(*inputs, key):
    return [as_input(x) for x in inputs], {"key": key}


def _infer_get(x, *arrays, key):
    return Aval(indexed_shape(x.shape, key, arrays), x.dtype)


def _vjp_get(g, y, x, *arrays, key):
    return (ADD(np.zeros(x.shape, x.dtype, like=g), g, *arrays, key=key), *[None] * len(arrays))


GET = operator(
    lambda x, *arrays, key: x[decode(key, arrays)],
    name="index",
    arrays=-1,
    bind=_bind_key,
    infer=_infer_get,
    vjp=_vjp_get,
    spell=lambda node, x, *arrays: Code(f"{x.at(ATOM)}[{spell_key(dict(node.params)['key'], arrays)}]"),
    linear=True,
    view=True,
)


# ---- assignment: a new array that differs from x under the key


def _infer_put(x, value, *arrays, key):
    target = indexed_shape(x.shape, key, arrays)
    if not same_shape(broadcast_shapes(target, value.shape), target):
        raise ShapeError(f"a value of shape {value.shape} does not fit into the {target} that is assigned")
    return Aval(x.shape, x.dtype)


def _set(x, value, *arrays, key):
    y = np.array(x)
    y[decode(key, arrays)] = value
    return y


def _add(x, value, *arrays, key):
    y = np.array(x)
    np.add.at(y, decode(key, arrays), value)
    return y


SET = operator(
    _set,
    name="index_set",
    arrays=-1,
    bind=_bind_key,
    infer=_infer_put,
    vjp=lambda g, y, x, value, *arrays, key: (SET(g, 0.0, *arrays, key=key), GET(g, *arrays, key=key), *[None] * len(arrays)),
    linear=True,
)
ADD = operator(
    _add,
    name="index_add",
    arrays=-1,
    bind=_bind_key,
    infer=_infer_put,
    vjp=lambda g, y, x, value, *arrays, key: (g, GET(g, *arrays, key=key), *[None] * len(arrays)),
    linear=True,
)


def get(x, key):
    """x[key]."""
    key, arrays = encode(x, key)
    return GET(x, *arrays, key=key)


def put(x, key, value):
    """What x is after ``x[key] = value``."""
    key, arrays = encode(x, key)
    if key == (Slice(None, None, None),) * len(x.shape) and x.shape:
        return np.broadcast_to(np.astype(value, x.dtype), x.shape)
    return SET(x, value, *arrays, key=key)


def is_same(view, key):
    """Whether the node `view` is what `key` selects of its first input."""
    return view.op is GET and (dict(view.params)["key"], []) == encode(view.inputs[0].aval, key)
