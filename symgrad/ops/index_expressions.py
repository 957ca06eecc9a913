"""Keys of indexing: what stands in the brackets as a hashable parameter, and the shape that it selects."""

from operator import index as operator_index
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.shapes import broadcast_shapes, slice_indices
from symgrad.core.sizes import Dim, same
from symgrad.errors import ArgumentError, BoundsError, DTypeError, ShapeError, UnsupportedError
from symgrad.ops.known import is_constant, value_of
from symgrad.ops.masks import check_mask, is_mask
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.places import bounds_by_index
from symgrad.ops.positions import with_masks
from symgrad.ops.shape import as_size, shortened


class Slice(NamedTuple):
    """A slice as a hashable parameter."""

    start: Any
    stop: Any
    step: Any

    def __eq__(self, other):  # a size in it is not compared with the number of a Slot
        return type(other) is Slice and tuple.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return tuple.__hash__(self)

    def __repr__(self):
        """Return the slice as Python writes it."""
        parts = ["" if x is None else repr(x) for x in self]
        return ":".join(parts if parts[2] else parts[:2])

    def __str__(self):
        start, stop, step = ("" if x is None else str(x) for x in self)
        return f"{start}:{stop}" + (f":{step}" if step else "")


class Slot(NamedTuple):
    """The place in a key of an index array, which is an input of the node."""

    input: int


EVERYTHING = Slice(None, None, None)


def encode(x, key):
    """An index as a hashable key and the arrays in it: of exactly ``x.ndim`` items but for None.

    There is one Ellipsis more where it stands for no axis and yet keeps two index arrays apart, by which NumPy puts
    their axes first.
    """
    return encode_items(x, key_items(x, key))


def key_items(x, key):
    """Return the items of a key; lists become arrays."""
    items = [_item(x, item) for item in with_masks(key if isinstance(key, tuple) else (key,))]
    if sum(item is Ellipsis for item in items) > 1:
        raise ShapeError("an index can have one Ellipsis only", "Write the other ones as colons: x[..., :, 0].")
    return items


def _item(x, item):
    if is_traced(item) and is_constant(item):
        is_array = item.writes_in_place
        item = np.asarray(value_of(item.node))
        item = item if is_array and not (item.ndim == 0 and item.dtype.kind == "b") else item[()]
    if item is None or item is Ellipsis or isinstance(item, (slice, Dim)) or is_traced(item):
        return item
    if isinstance(item, (bool, np.bool_)):
        raise UnsupportedError("indexing with a single True or False", "Write np.where(condition, x, other).")
    if isinstance(item, (int, np.integer)):
        return int(item)
    if isinstance(item, (list, tuple)) and any(map(is_symbolic, item)):
        return np.array(item, like=next(filter(is_traced, (x, *item))))
    if isinstance(item, (list, tuple)) and not item:
        return np.zeros(0, int)
    if isinstance(item, (np.ndarray, list, tuple)):
        return np.asarray(item)
    return operator_index(item) if hasattr(item, "__index__") else np.asarray(item)


def is_symbolic(x):
    return is_traced(x) or isinstance(x, Dim)


def encode_items(x, items):
    used = sum(np.ndim(item) if is_mask(item) else 1 for item in items if item is not None and item is not Ellipsis)
    if used > len(x.shape):
        error = BoundsError if x.shape else ShapeError  # of Python's numbers it is a TypeError
        indices, ending = "index" if used == 1 else "indices", "s" * (len(x.shape) != 1)
        raise error(
            f"{used} {indices} for an array of {len(x.shape)} dimension{ending}",
            "Leave indices out, or give the array an axis: x[None].",
        )
    if not any(item is Ellipsis for item in items):
        items = [*items, Ellipsis]
    encoded, arrays, axis = [], [], 0
    for item in items:
        if item is None:
            encoded.append(None)
        elif item is Ellipsis:
            encoded += [EVERYTHING] * (len(x.shape) - used) or [Ellipsis]
            axis += len(x.shape) - used
        elif is_mask(item):
            check_mask(item, x.shape, axis)
            arrays += np.nonzero(item)  # a mask that is known now
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
        if not (any(map(is_advanced, left)) and any(map(is_advanced, right))):
            return (*left, *right)
        if not any(isinstance(item, Slot) for item in encoded):
            return (*left, *right)
    return tuple(encoded)


def is_advanced(item):
    """Whether an item counts as an index array where there is one: numbers do."""
    return item is not None and item is not Ellipsis and not isinstance(item, Slice)


def taken_axis(key):
    """The axis of which an index array takes places, where it is the only one in a key that leaves all other axes."""
    axes = [axis for axis, item in enumerate(key) if item != EVERYTHING]
    return axes[0] if len(axes) == 1 and isinstance(key[axes[0]], Slot) else None


def _encode_item(item, size, axis, arrays):
    if isinstance(item, slice):
        return _encode_slice(item, size)
    if isinstance(item, Dim):
        return item
    if type(item) is np.ndarray and item.ndim == 0 and item.dtype.kind in "iu":
        item = int(item)
    if type(item) is int:
        if isinstance(size, int):
            _check_index(item, size, axis)
        return item
    array = as_input(item)
    if array.dtype.kind not in "iu":
        raise DTypeError(f"an index array of dtype {array.dtype}", "Index with integers or a boolean mask.")
    check_bounds(array, size, axis)
    arrays.append(array)
    return Slot(len(arrays) - 1)


def index_of(size):
    """Advice: which indices there are."""
    return f"Write an index from {-size} to {size - 1}." if size else "There is nothing along it: test the size before."


def check_bounds(array, size, axis):
    known = known_value(array)
    if known is None or not isinstance(size, int) or not known.size:
        return
    for number in (int(known.min()), int(known.max())):
        _check_index(number, size, axis)


def _check_index(index, size, axis):
    if not -size <= index < size:
        raise BoundsError(f"index {index} is out of bounds for axis {axis} of size {size}", index_of(size))


def known_value(x):
    """The array that a value is before the program runs, None where it has none."""
    if not is_traced(x):
        return np.asarray(x)
    return np.asarray(value_of(x.node)) if is_constant(x) else None


def _bound(x):
    if x is None or isinstance(x, Dim):
        return x
    if is_traced(x):
        return as_size(x)
    if not hasattr(x, "__index__"):
        raise ArgumentError(f"a slice bound is {x!r}, not an integer", "Write integers: x[: n // 2], x[: int(k)].")
    return operator_index(x)


def _encode_slice(item, size):
    """A slice in its shortest form, so that equal slices are one key."""
    step = _bound(item.step)
    start, stop = bounds_by_index(item.start, item.stop, step, size) if step != 0 else (item.start, item.stop)
    start, stop = map(_bound, (start, stop))
    if step == 0:
        raise ShapeError("a slice cannot have step 0", "Write another step, such as 1 or -1.")
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


def composed(outer, inner):
    """The places of a slice under a slice, or a number, as one; None where that is not known."""
    if inner == EVERYTHING or outer == EVERYTHING:
        return outer if inner == EVERYTHING else inner
    numbers = [x for item in (outer, inner) if isinstance(item, Slice) for x in item if x is not None]
    start, step = (default if x is None else x for x, default in ((outer.start, 0), (outer.step, 1)))
    if not all(isinstance(x, int) for x in numbers) or start < 0 or step < 1:
        return None
    if isinstance(inner, int):
        return start + step * inner if inner >= 0 else None
    if (inner.start or 0) < 0 or (inner.step or 1) < 1:
        return None
    stop = outer.stop
    if inner.stop is not None:
        if step > 1 or inner.stop >= 0 or (stop is not None and stop >= 0):
            return None
        stop = (stop or 0) + inner.stop
    steps = step * (inner.step or 1)
    return Slice(start + step * (inner.start or 0) or None, stop, steps if steps > 1 else None)


def spell_key(key, arrays):
    """The key as source, without the full slices at its end."""
    if not key:
        return "..."
    texts = [arrays[x.input].text if isinstance(x, Slot) else "..." if x is Ellipsis else str(x) for x in key]
    return shortened(texts)


def spell_key_argument(key, arrays):
    """Spell a key as a value: an index array by itself, several as a tuple, slices with `np.s_`."""
    text = spell_key(key, arrays)
    kept = key[: max((i for i, item in enumerate(key) if item != EVERYTHING), default=0) + 1]
    if len(kept) == 1:
        return text
    return f"np.s_[{text}]" if any(isinstance(item, Slice) or item is Ellipsis for item in kept) else f"({text})"


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
    basic, axis = [], 0
    for item in key:
        if item is None:
            basic.append(1)
        elif isinstance(item, Slice):
            basic.append(slice_indices(shape[axis], *item)[3])
        axis += item is not None and item is not Ellipsis
    if not any(isinstance(item, Slot) for item in key):
        return Parts(tuple(basic), (), ())
    before, joined = _before(key), broadcast_shapes(*[a.shape for a in arrays])
    return Parts(tuple(basic[:before]), joined, tuple(basic[before:]))


def _before(key):
    """Return how many axes of slices precede those of the index arrays: none where the arrays are apart."""
    advanced = [place for place, item in enumerate(key) if is_advanced(item)]
    together = advanced[-1] - advanced[0] + 1 == len(advanced)
    return sum(item is not Ellipsis for item in key[: advanced[0]]) if together else 0


def key_labels(key, joined):
    """A label for each axis of what is indexed and of what is selected: those that the key leaves whole, and those of
    the index arrays, of which there are `joined` axes, counted from the last."""
    whole, basic = [], []
    for item in key:
        if item is not None and item is not Ellipsis:
            whole.append(len(whole) if item == EVERYTHING else None)
        if item is None or isinstance(item, Slice):
            basic.append(None if item is None else whole[-1])
    before = _before(key) if joined else len(basic)
    return whole, [*basic[:before], *range(-joined, 0), *basic[before:]]


def indexed_shape(shape, key, arrays):
    """The shape of x[key]."""
    return parts(shape, key, arrays).shape
