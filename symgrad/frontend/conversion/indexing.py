"""Items of Python's lists and tuples at traced indices, and where sorted numbers have a traced one."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.analysis.affine import line_of
from symgrad.frontend.conversion.absent import is_perhaps
from symgrad.frontend.conversion.classes import examples_of, of_classes
from symgrad.frontend.conversion.lists import asked_for, whole
from symgrad.frontend.conversion.merging import is_numeric
from symgrad.frontend.conversion.specials import call, users_method
from symgrad.frontend.conversion.state import Earlier, Pending, is_elsewhere, is_whole
from symgrad.ops.control import NUMBER
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.python_math import as_python_int


def item(x: Any, i: Any) -> Any:
    """``x[i]``; at a traced index one of the numbers of a list, or of the tuples in it, which nobody can write into.

    Of a list that branches have filled it is one of the array that stands for it.
    """
    if not is_whole(x) and not any(map(is_elsewhere, x)):
        x = whole(x)
    if (method := users_method(x, "__getitem__")) is not None:
        return call(method, x, i)
    is_unknown = is_traced(i) and not i.shape and i.dtype.kind in "iu" and i.known_value() is None
    if is_unknown and type(x) in (list, tuple):
        found = _chosen(x, i) if _is_table(x) else x[_place(x, i)]
    else:
        found = x[i]
    if isinstance(found, Pending):  # another name of it would be another item
        raise asked_for()
    if not is_whole(x) and not is_traced(i) and _is_behind_others(x, i):
        raise asked_for()
    return found


def unpacked(x: Any) -> Any:
    """Return the right side of ``first, *others = x``: an array for a list that loops or branches have filled."""
    return x if is_whole(x) or not any(isinstance(y, Pending) for y in x) else whole(x)


def _is_behind_others(x: Sequence[Any], i: Any) -> bool:
    """Whether an inner loop or a branch has added items between ``x[i]`` and the end from which i counts.

    How many these are is not known, so neither is which item ``x[i]`` is.
    """
    others = x[:i] if i >= 0 else x[i:]
    return any(isinstance(y, Pending) for y in others)


def _place(x: Sequence[Any], i: Any) -> Any:
    """Return a traced index as a number, where a loop tells which item it is; else as it is, and Python refuses it.

    In a list that the loop appends to it is counted from the end. Of any other list the first iteration reads one item,
    and then may append to it.
    """
    if x and type(x[0]) is Earlier:
        place = x[0].of.from_end(i)
        return i if place is None else place
    for at in reversed(i.graph.nest):
        line = line_of(i.node, at.seed)
        if line is not None and line.step == 1 and type(line.first) is int:
            at.asks_first = True
            return line.first if at.is_first else i
    return i


def entry(x: Any, places: tuple[Any, ...]) -> Any:
    """Return ``x[i][j]``: at traced indices rows that are lists are read as tuples, as nothing else can see them."""
    if any(map(is_traced, places)):
        found = _at(_frozen(x), places)
        if type(found) is not tuple:
            return found
    return _at(x, places)


def _at(x: Any, places: tuple[Any, ...]) -> Any:
    for i in places:
        x = item(x, i)
    return x


def _frozen(x: Any) -> Any:
    """Return a list or a tuple, and those in it, as tuples; anything else as it is."""
    return tuple(map(_frozen, x)) if type(x) in (list, tuple) else x


def _is_table(x: Sequence[Any]) -> bool:
    """Whether items are numbers of one kind, or tuples of such, all alike."""
    if x and type(x[0]) is tuple:
        alike = all(type(row) is tuple and len(row) == len(x[0]) for row in x)
        return alike and bool(x[0]) and all(map(_is_table, zip(*x, strict=True)))
    return _kind_of(x) is not None


def _kind_of(x: Sequence[Any]) -> Any:
    """Return the type of all items, float for a mix of Python integers and floats; None where there is none."""
    kinds = {_kind(value) for value in x}
    if kinds == {_INTEGER, _FLOAT}:
        return _FLOAT
    return kinds.pop() if len(kinds) == 1 else None


def _kind(x: Any) -> Any:
    """Return the dtype, and whether it is weak, of a number; None for anything that no number can stand for."""
    if is_traced(x):
        return None if x.writes_in_place or is_perhaps(x) else (x.dtype, x.aval.weak)
    if type(x) in (int, float):
        return np.dtype(type(x)), True
    return (x.dtype, False) if isinstance(x, np.generic) and x.dtype.kind in "iuf" else None


_INTEGER, _FLOAT = (np.dtype(int), True), (np.dtype(float), True)


def _chosen(x: Sequence[Any], i: Any) -> Any:
    if type(x[0]) is tuple:
        return tuple(_chosen(column, i) for column in zip(*x, strict=True))
    dtype, weak = _kind_of(x)
    found = np.array([*x], dtype, like=i)[i]
    examples = {kind: like for each in x for kind, like in examples_of(each).items()}
    return of_classes(NUMBER(found) if weak else found, examples)


def bisected(plain: Callable[..., int], side: str) -> Callable[..., Any]:
    """``bisect.bisect_left``, or `bisect_right`: of traced numbers it is `np.searchsorted`."""

    def search(a: Any, x: Any, lo: Any = 0, hi: Any = None, **kwargs: Any) -> Any:
        known = not kwargs and all(type(n) is int and n >= 0 for n in (lo, hi) if n is not None)
        like = next(filter(is_traced, (x, a, *(a if type(a) in (list, tuple) else ()))), None)
        if not known or like is None or not is_numeric(x) or np.ndim(x) or not _is_row(a):
            return plain(a, x, lo, hi, **kwargs)
        if side == "left" and as_input(x).dtype.kind == "f":  # Python finds no number below a NaN
            x = np.where(x > -np.inf, x, -np.inf)[()]
        found = as_python_int(np.searchsorted(np.array(a[lo:hi], like=like), x, side=side))
        return found + lo if lo else found

    return search


def _is_row(a: Any) -> bool:
    """Whether it is a list or an array of numbers."""
    if type(a) in (list, tuple):
        return len(a) > 0 and all(is_numeric(x) and not np.ndim(x) for x in a)
    return (is_traced(a) or isinstance(a, np.ndarray)) and a.ndim == 1


LEFT, RIGHT = bisected(bisect.bisect_left, "left"), bisected(bisect.bisect_right, "right")
