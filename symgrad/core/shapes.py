"""Shapes of sizes that may be symbols: equality, broadcasting, reshaping, slicing."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias, cast

from symgrad.core.sizes import (
    Dim,
    Shape,
    Size,
    agree,
    at_most,
    difference,
    is_counted,
    is_negative,
    largest,
    same,
    scope_of,
    settled,
    smallest,
)
from symgrad.errors import ShapeError


def product(sizes: Iterable[Size]) -> Size:
    """The product, 1 for no sizes."""
    return math.prod(sizes)


def same_shape(s: Shape, t: Shape) -> bool:
    """Whether two shapes are provably equal; never pins."""
    return s is t or (len(s) == len(t) and all(map(same, s, t)))


def is_one(n: object) -> bool:
    """Whether a size is known to be one: an axis of such a size may stand for a longer one."""
    return isinstance(n, int) and n == 1


def with_size(shape: tuple[Any, ...], axis: int, size: Any) -> tuple[Any, ...]:
    """A shape with another size along one axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def key_along(axis: int, part: Any) -> tuple[Any, ...]:
    """The key of a part along one axis: ``x[:, :, part]``."""
    return (*[slice(None)] * axis, part)


def reduced_shape(shape: Shape, axes: Collection[int], keepdims: bool) -> Shape:
    """A shape without some axes, or with size 1 along them."""
    return tuple(1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes)


def added_axes(short: Shape, long: Shape) -> list[bool] | None:
    """For each axis of the longer shape whether it is one of size 1 that the other lacks; None if more differs."""
    added, rest = [], list(short)
    for n in long:
        added.append(not (rest and same(n, rest[0])))
        if not added[-1]:
            rest.pop(0)
        elif not is_one(n):
            return None
    return None if rest else added


def render_shape(shape: Shape) -> str:
    """Python source of the sizes of a shape, without brackets."""
    return ", ".join(map(str, shape))


def render_tuple(shape: Iterable[Size]) -> str:
    """A shape as Python writes it: ``(n, 3)``."""
    sizes = tuple(shape)
    return f"({render_shape(sizes)},)" if len(sizes) == 1 else f"({render_shape(sizes)})"


def with_value(size: Size) -> str:
    """A size with its number in the call at hand: ``n = 5``."""
    number = size.scope.value(size) if isinstance(size, Dim) else None
    return str(size) if number is None else f"{size} = {number}"


# ---- broadcasting


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that NumPy broadcasts to; symbols that only happen to fit are pinned."""
    result: Shape = ()
    for shape in shapes:
        if shape is result or not shape:
            continue
        if not result:
            result = shape
            continue
        longer, shorter = (result, shape) if len(result) >= len(shape) else (shape, result)
        lead = len(longer) - len(shorter)
        merged = list(longer)
        for axis, b in enumerate(shorter, lead):
            a = merged[axis]
            if a is b or (type(b) is int and (b == 1 or (type(a) is int and a == b))):
                continue
            merged[axis] = b if type(a) is int and a == 1 else _broadcast_size(a, b, shapes)
        result = tuple(merged)
    return result


def _broadcast_size(a: Size, b: Size, shapes: Sequence[Shape]) -> Size:
    """Two sizes, neither of them the int 1, as one."""
    if same(a, b) or agree(a, b):
        return b if isinstance(b, int) else a
    for size, partner in ((a, b), (b, a)):
        if isinstance(size, Dim) and size.scope.value(size) == 1:
            size.scope.pin(size)  # NumPy stretches it, so the program must be for size 1 only
            return partner
    raise _broadcast_error(a, b, shapes)


def _broadcast_error(a: Size, b: Size, shapes: Sequence[Shape]) -> ShapeError:
    """The error for two sizes that differ."""
    names = [render_tuple(shape) for shape in shapes]
    listed = ", ".join(names[:-1]) + " and " + names[-1]
    symbols = [size for size in (a, b) if isinstance(size, Dim)]
    instead = "Sizes agree from the last on, or are 1: x[:, None] and x[None, :] add one of 1."
    if symbols and symbols[0].scope.values is None:
        instead = "Write the same letter for both sizes in the specs."
        if len(symbols) == 1:
            number = a if isinstance(a, int) else b
            instead = f"Write the number {number} instead of {symbols[0]} in the spec."
            if is_counted(symbols[0]):
                instead = f"Only running tells how many there are: fill an array of known length, np.zeros({number})."
    return ShapeError(f"shapes {listed} do not broadcast: {with_value(a)} against {with_value(b)}", instead)


# ---- reshaping


def reshape_shape(old: Shape, new: tuple[Any, ...]) -> Shape:
    """The shape that ``reshape`` gives, with -1 resolved and the number of elements checked."""
    sizes: list[Size] = [size if isinstance(size, Dim) else int(size) for size in new]
    unknown = [axis for axis, size in enumerate(sizes) if isinstance(size, int) and size == -1]
    if len(unknown) > 1:
        raise ShapeError(
            f"reshape to {render_tuple(sizes)}: only one size can be -1", "Write the other sizes as numbers."
        )
    if any(isinstance(size, int) and size < -1 for size in sizes):
        raise ShapeError(
            f"reshape to {render_tuple(sizes)}: sizes cannot be negative",
            "Write -1 for the one size that follows from the others.",
        )
    total, known = product(old), product(size for axis, size in enumerate(sizes) if axis not in unknown)
    if unknown:
        quotient = _exact_quotient(total, known)
        if quotient is None:
            raise _reshape_error(old, sizes, total, "do not divide by", known)
        sizes[unknown[0]] = quotient
    elif not same(total, known) and not agree(total, known):
        raise _reshape_error(old, sizes, total, "against", known)
    return tuple(sizes)


def _exact_quotient(total: Size, known: Size) -> Size | None:
    """``total / known`` where that is an integer, pinning if it only happens to be; else None."""
    if isinstance(known, int) and known == 0:
        return None
    if isinstance(total, int) and isinstance(known, int):
        return None if total % known else total // known
    quotient = total // known
    if same(quotient * known, total):
        return quotient
    scope = scope_of(total, known)
    x, y = scope.value(total), scope.value(known)
    if x is None or not y or x % y:
        return None
    return scope.pin(total) // scope.pin(known)


FITTING = "Write sizes whose product is the number of elements, or -1 for one of them."


def _reshape_error(old: Shape, new: Sequence[Size], total: Size, relation: str, known: Size) -> ShapeError:
    """The error for a number of elements that does not fit."""
    elements = f"{with_value(total)} elements {relation} {with_value(known)}"
    symbols = [size for size in (total, known) if isinstance(size, Dim)]
    without_values = symbols and symbols[0].scope.values is None
    fact = f"cannot reshape {render_tuple(old)} to {render_tuple(new)}: {elements}"
    return ShapeError(fact, "Give numbers, or sizes that fit, in the specs." if without_values else FITTING)


# ---- slicing

Indices: TypeAlias = tuple[Size | None, Size | None, int, Size]


def slice_indices(size: Size, start: Any, stop: Any, step: Any) -> Indices:
    """Return the result of ``slice.indices`` for an int, and the length; symbolic bounds stay as written."""
    step = 1 if step is None else operator.index(step)
    start, stop = (x if x is None or isinstance(x, Dim) else operator.index(x) for x in (start, stop))
    if start is None and stop is None and step in (1, -1) and isinstance(size, Dim):
        return None, None, step, size
    size, start, stop = settled(size), settled(start), settled(stop)
    if not any(isinstance(x, Dim) for x in (size, start, stop)):
        indices = slice(start, stop, step).indices(cast(int, size))
        length = len(range(*indices))
        return (*indices, size if length == size else length)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    forward = step > 0
    first = _slice_position(size, start, forward, is_stop=False)
    last = _slice_position(size, stop, forward, is_stop=True)
    distance = difference(last, first) if forward else difference(first, last)
    return start, stop, step, largest(0, (distance + (abs(step) - 1)) // abs(step))


def first_of_slice(size: Size, start: Size | None, step: int) -> Size | None:
    """Return the index of the first number of a slice, if it has one; None where the sign of the start is unknown."""
    if start is None:
        return 0 if step > 0 else size - 1
    if at_most(0, start):
        return start if step > 0 else smallest(start, size - 1)
    return largest(0, size + start) if at_most(start, -1) else None


def _slice_position(size: Size, bound: Size | None, forward: bool, is_stop: bool) -> Size:
    """Return the start or the stop of a slice, clamped only on the side on which the length depends."""
    if bound is None:
        return (size if forward else -1) if is_stop else (0 if forward else size - 1)
    # The other side cannot make the length positive: x[9:] of 3 elements is 3 - 9 < 0, that is 0.
    upper = is_stop == forward
    if is_negative(bound):
        return size + bound if upper else largest(0 if forward else -1, size + bound)
    return smallest(bound, size if forward else size - 1) if upper else bound
