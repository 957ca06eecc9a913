"""Iterables of loops: the number of items, and the item of an iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from symgrad.core.shapes import is_one, same_shape
from symgrad.core.sizes import smallest
from symgrad.frontend.bodies import range_length
from symgrad.frontend.conversion.absent import is_perhaps
from symgrad.frontend.conversion.lists import Listing, whole
from symgrad.ops.operands import ARRAYS, is_traced

LONG = 200  # items of a list from which on arrays are stacked to be looped over
Length = Any  # an int, a symbolic size, or a traced number


class Items:
    """Items that are known by their number before the loop runs."""

    @property
    def length(self) -> Length:
        raise NotImplementedError

    @property
    def arrays(self) -> Sequence[Any]:
        """Return the xs: each iteration is given a slice of each along its first axis."""
        return ()

    @property
    def can_be_sliced(self) -> bool:
        """Whether the items can be given as slices."""
        return True

    def item(self, t: Any, slices: Sequence[Any]) -> Any:
        """Return the item at index `t`, from its slices."""
        raise NotImplementedError

    def at(self, place: int) -> Any:
        """Return the item at an index, of which the length is known to be larger."""
        return self.item(place, [x[place] for x in self.arrays])

    def after(self, count: int) -> Items:
        """Return the items behind the first `count`."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        """The items one after the other, as Python gives them."""
        raise NotImplementedError


@dataclass
class Steps(Items):
    """The items of ``range(start, stop, step)``, with traced or symbolic ends."""

    start: Any
    stop: Any
    step: Any

    @property
    def length(self) -> Length:
        return range_length(self.start, self.stop, self.step)

    def item(self, t: Any, slices: Sequence[Any]) -> Any:
        step = t if is_one(self.step) else self.step * t
        return step if type(self.start) is int and self.start == 0 else self.start + step

    def after(self, count: int) -> Items:
        return Steps(self.start + count * self.step, self.stop, self.step)

    def __iter__(self) -> Iterator[Any]:
        return iter(range(self.start, self.stop, self.step))


@dataclass
class Rows(Items):
    """The rows of an array."""

    array: Any

    @property
    def length(self) -> Length:
        return self.array.shape[0]

    @property
    def arrays(self) -> Sequence[Any]:
        return [self.array]

    def item(self, t: Any, slices: Sequence[Any]) -> Any:
        return self.array.row(slices[0]) if isinstance(self.array, Listing) else slices[0]

    def after(self, count: int) -> Items:
        return Rows(self.array[count:])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.array)


@dataclass
class Listed(Items):
    """The items of a list or a tuple: numbers, or arrays, of one kind."""

    values: Sequence[Any]

    @property
    def length(self) -> Length:
        return len(self.values)

    @property
    def arrays(self) -> Sequence[Any]:
        like = next(filter(is_traced, self.values), None)
        return [np.asarray(self.values) if like is None else np.array(self.values, like=like)]

    @property
    def can_be_sliced(self) -> bool:
        """If they are of NumPy's: Python's numbers go by the dtypes of others. Arrays, which are copied, if many."""
        if any(is_perhaps(x) or (is_traced(x) and x.aval.weak) for x in self.values) or not are_alike(self.values):
            return False
        return not np.ndim(self.values[0]) or len(self.values) >= LONG

    def item(self, t: Any, slices: Sequence[Any]) -> Any:
        return slices[0]

    def after(self, count: int) -> Items:
        return Listed(self.values[count:])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)


@dataclass
class Joined(Items):
    """Tuples of items, as `zip` and `enumerate` give them, or the results of `function` for them."""

    parts: Sequence[Items]
    function: Callable[..., Any]

    @property
    def length(self) -> Length:
        lengths = [part.length for part in self.parts]
        return lengths[0] if any(map(is_traced, lengths)) else reduce(smallest, lengths)

    @property
    def arrays(self) -> Sequence[Any]:
        return [x for part in self.parts for x in part.arrays]

    @property
    def can_be_sliced(self) -> bool:
        return all(part.can_be_sliced for part in self.parts)

    def item(self, t: Any, slices: Sequence[Any]) -> Any:
        given, items = iter(slices), []
        for part in self.parts:
            items.append(part.item(t, [next(given) for _ in part.arrays]))
        return tuple(items)

    def after(self, count: int) -> Items:
        return Joined([part.after(count) for part in self.parts], self.function)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.function(*map(iter, self.parts)))


def items_of(x: Any) -> Items | None:
    """Return the items of an iterable; None where they are not known."""
    if isinstance(x, Items):
        return x
    if type(x) is range:
        return Steps(x.start, x.stop, x.step)
    x = whole(x)
    if is_traced(x) or isinstance(x, ARRAYS):
        return Rows(x) if np.ndim(x) and x.dtype.kind in "biufc" else None
    return Listed(x) if type(x) in (list, tuple) else None


def are_alike(values: Sequence[Any], rows: bool = False) -> bool:
    """Whether values, one at least, are arrays of one dtype and one shape; or if `rows` are."""
    if not values or not all(is_traced(x) or isinstance(x, ARRAYS) for x in values):
        return False
    first = values[0]
    return all(x.dtype == first.dtype and same_shape(x.shape[rows:], first.shape[rows:]) for x in values)
