"""What a loop goes over: how many items there are, and the item of a turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.core.sizes import Dim
from symgrad.frontend.bodies import places
from symgrad.frontend.conversion.calls import called
from symgrad.ops.operands import ARRAYS, is_traced

LONG = 200  # items of a list from which on arrays are stacked to be looped over
Length = Any  # an int, a symbolic size, or a traced number


class Items:
    """Items that are known by their number before the loop runs.

    Attributes
    ----------
    length : int, Dim or Variable
    arrays : list
        Each turn is given a slice of each, along its first axis.
    """

    @property
    def length(self) -> Length:
        raise NotImplementedError

    @property
    def arrays(self) -> Sequence[Any]:
        return ()

    @property
    def can_be_sliced(self) -> bool:
        """Whether the items can be told by slices."""
        return True

    def item(self, t: Any, slices: Sequence[Any]) -> Any:
        """The item at place `t`, of the slices there."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        """The items one after the other, as Python gives them."""
        raise NotImplementedError


@dataclass
class Steps(Items):
    """``range(start, stop, step)`` of which some are traced or symbols, or all are known."""

    start: Any
    stop: Any
    step: Any

    @property
    def length(self) -> Length:
        return places(self.start, self.stop, self.step)

    def item(self, t: Any, slices: Sequence[Any]) -> Any:
        step = t if self.step == 1 else self.step * t
        return step if isinstance(self.start, int) and self.start == 0 else self.start + step

    def __iter__(self) -> Iterator[Any]:
        return iter(range(self.start, self.stop, self.step))


@dataclass
class Rows(Items):
    """Those of an array."""

    array: Any

    @property
    def length(self) -> Length:
        return self.array.shape[0]

    @property
    def arrays(self) -> Sequence[Any]:
        return [self.array]

    def item(self, t: Any, slices: Sequence[Any]) -> Any:
        return slices[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.array)


@dataclass
class Listed(Items):
    """Those of a list or a tuple: numbers, or arrays, of one kind."""

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
        kinds = {(x.shape, x.dtype) if is_traced(x) or isinstance(x, ARRAYS) else None for x in self.values}
        if len(kinds) != 1 or None in kinds or any(is_traced(x) and x.aval.weak for x in self.values):
            return False
        return not np.ndim(self.values[0]) or len(self.values) >= LONG

    def item(self, t: Any, slices: Sequence[Any]) -> Any:
        return slices[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)


@dataclass
class Joined(Items):
    """Tuples of items: what `zip` and `enumerate` give, or, of their `function`, one after the other."""

    parts: Sequence[Items]
    function: Callable[..., Any]

    @property
    def length(self) -> Length:
        lengths = [part.length for part in self.parts]
        known = [n for n in lengths if isinstance(n, int)]
        return min(known) if len(known) == len(lengths) else lengths[0]

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

    def __iter__(self) -> Iterator[Any]:
        return iter(self.function(*map(iter, self.parts)))


def items_of(x: Any) -> Items | None:
    """What is known of something to be looped over; None where that is nothing."""
    if isinstance(x, Items):
        return x
    if type(x) is range:
        return Steps(x.start, x.stop, x.step)
    if is_traced(x) or isinstance(x, ARRAYS):
        return Rows(x) if np.ndim(x) and x.dtype.kind in "biufc" else None
    return Listed(x) if type(x) in (list, tuple) else None


def over(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``range(n)``, ``zip(x, y)``, ``enumerate(x, start)`` or ``reversed(x)`` at the head of a loop."""
    if function is range:
        return _steps(*args) if any(is_traced(x) or isinstance(x, Dim) for x in args) else range(*args)
    head = next((head for known, head in _HEADS if known is function), None)
    parts = [items_of(x) for x in (args if function is zip else args[:1])] if head else []
    known = [part for part in parts if part is not None]
    if head is None or len(known) < len(parts) or not parts:
        return called(function)(*args, **kwargs)
    found = head(known, *([] if function is zip else args[1:]), **kwargs)
    return function(*args, **kwargs) if found is None else found


def _steps(*args: Any) -> Items:
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    return Steps(start, stop, step)


def _zip(parts: list[Items], strict: bool = False) -> Items | None:
    lengths = [part.length for part in parts]
    if strict and len(set(map(str, lengths))) > 1:
        return None  # Python says so
    same = all(isinstance(n, int) for n in lengths) or all(n is lengths[0] or n == lengths[0] for n in lengths)
    return Joined(parts, zip) if same else None


def _enumerate(parts: list[Items], start: Any = 0) -> Items:
    return Joined([Steps(start, start + parts[0].length, 1), parts[0]], lambda _, x: enumerate(x, start))


def _reversed(parts: list[Items]) -> Items | None:
    (part,) = parts
    if isinstance(part, Rows):
        return Rows(part.array[::-1])
    if isinstance(part, Listed):
        return Listed(part.values[::-1])
    if isinstance(part, Steps) and isinstance(part.step, int):
        last = part.start + (part.length - 1) * part.step
        return Steps(last, part.start - part.step, -part.step)
    return None


_HEADS: list[tuple[Any, Callable[..., Items | None]]] = [(zip, _zip), (enumerate, _enumerate), (reversed, _reversed)]
