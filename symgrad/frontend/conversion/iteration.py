"""Python's higher-order functions, written in Python so that their arguments are converted."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.frontend.conversion.functions import as_users, converted
from symgrad.frontend.conversion.items import Items, Joined, Listed, Rows, Steps, are_alike, items_of
from symgrad.frontend.conversion.loops import limit
from symgrad.ops.marks import STOP
from symgrad.ops.operands import is_traced

MANY = 1_000_000
"""Most tuples whose items are tabulated."""


# ---- traced as if the user had written them


@as_users
def _mapped(function: Any, items: Any) -> Any:
    return [function(*item) for item in items]


@as_users
def _filtered(keeps: Any, items: Any) -> Any:
    return [item for item in items if keeps(item)]


@as_users
def _reduced(function: Any, items: Any, value: Any) -> Any:
    for item in items:
        value = function(value, item)
    return value


@as_users
def _accumulated(function: Any, items: Any, value: Any) -> Any:
    found = [value]
    for item in items:
        value = function(value, item)
        found.append(value)
    return found


@as_users
def _best(better: Any, key: Any, items: Any, best: Any) -> Any:
    most = _compared(key(best))
    for item in items:
        value = _compared(key(item))
        if better(value, most):
            best, most = item, value
    return best


def _compared(x: Any) -> Any:
    """Return a key without its derivative, which may be NaN where the key is: no more than its order is asked for."""
    return STOP(x) if is_traced(x) and x.dtype.kind == "f" else x


# ---- what to call instead


def mapped(function: Any, *iterables: Any) -> Any:
    """``map(function, x, ...)``"""
    parts = _known(iterables)
    if parts is None or not any(map(_is_traced, parts)):
        return map(converted(function), *iterables)
    return _mapped(function, Joined(parts, zip))


def filtered(function: Any, iterable: Any) -> Any:
    """``filter(function, x)``"""
    if function is None or not (parts := _known([iterable])) or not _is_traced(parts[0]):
        return filter(converted(function), iterable)
    return _filtered(function, iterable)


def reduced(function: Any, iterable: Any, *initial: Any) -> Any:
    """``functools.reduce(function, x)``"""
    first, rest = (initial, iterable) if initial else _headed(iterable)
    return _reduced(function, rest, *first)


def accumulated(iterable: Any, func: Any = operator.add, *, initial: Any = None) -> Any:
    """``itertools.accumulate(x)``"""
    if initial is None and not _is_traced(items_of(iterable)):
        return itertools.accumulate(iterable, converted(func))
    first, rest = ((initial,), iterable) if initial is not None else _headed(iterable)
    return _accumulated(func, rest, *first)


def best(better: Callable[[Any, Any], Any], items: Any, key: Any) -> Any:
    """Return the first largest item, ``max(x, key=f)``, or the first smallest."""
    (first,), rest = _headed(items)
    return _best(better, key, rest, first)


def ordered(values: Any, key: Any = None, reverse: bool = False) -> Any:
    """Sort an array, ``sorted(x, key=f)``; equal items keep their order."""
    keys = values if key is None else np.array(_mapped(key, Joined([Rows(values)], zip)), like=values)
    return values[order_of(keys, reverse)]


def order_of(keys: Any, reverse: bool) -> Any:
    """Return the places of keys in their order; equal ones keep theirs, also where it is reversed."""
    order = np.argsort(keys[::-1] if reverse else keys, kind="stable")
    return keys.shape[0] - 1 - order[::-1] if reverse else order


def _headed(iterable: Any) -> tuple[Sequence[Any], Any]:
    """The first item, if there is one, and the others."""
    if is_traced(iterable) or isinstance(iterable, (list, tuple, np.ndarray, range)):
        return iterable[:1], iterable[1:]
    iterator = iter(iterable)
    return [*itertools.islice(iterator, 1)], iterator


def pairs(iterable: Any) -> Any:
    """``itertools.pairwise(x)``"""
    if not _is_traced(items_of(iterable)):
        return itertools.pairwise(iterable)
    return Joined([part for x in (iterable[:-1], iterable[1:]) if (part := items_of(x))], zip)


def sliced(iterable: Any, *bounds: Any) -> Any:
    """``itertools.islice(x, start, stop, step)``"""
    if not is_traced(iterable):
        return itertools.islice(iterable, *bounds)
    itertools.islice((), *[x for x in bounds if not is_traced(x)])  # which refuses what would count from the end
    return iterable[slice(*bounds)]


def chained(*iterables: Any) -> Any:
    """``itertools.chain(x, ...)``"""
    arrays = any(map(is_traced, iterables)) and are_alike(iterables, rows=True) and all(len(x.shape) for x in iterables)
    return np.concatenate(iterables) if arrays else itertools.chain(*iterables)


def tabulated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Tabulate a function of itertools that goes over tuples of items: the choice of items is independent of their
    values.
    """

    def tuples(*args: Any, **kwargs: Any) -> Any:
        iterables, more = (args, ()) if function is itertools.product else (args[:1], args[1:])
        parts = None if kwargs else _known(iterables)
        if parts is None or not all(isinstance(part.length, int) for part in parts):
            return function(*args, **kwargs)
        ranges = [range(part.length) for part in parts]
        table = np.array([*itertools.islice(function(*ranges, *more), MANY + 1)], int)
        if not limit() <= len(table) <= MANY:
            return function(*args)
        columns = parts if function is itertools.product else parts * table.shape[1]
        rows = [Rows(_values(part)[places]) for part, places in zip(columns, table.T, strict=True)]
        return Joined(rows, zip)

    return tuples


def _values(part: Items) -> Any:
    return np.array([*part]) if isinstance(part, Steps) else part.arrays[0]


def _known(iterables: Sequence[Any]) -> list[Items] | None:
    """Return the items of iterables, if all are arrays, ranges, or lists that can be stacked."""
    parts = [items_of(x) for x in iterables]
    known: list[Items] = [part for part in parts if isinstance(part, (Rows, Steps, Listed)) and part.can_be_sliced]
    return known if known and len(known) == len(parts) else None


def _is_traced(part: Items | None) -> bool:
    if isinstance(part, Rows):
        return is_traced(part.array)
    return isinstance(part, Listed) and any(map(is_traced, part.values))
