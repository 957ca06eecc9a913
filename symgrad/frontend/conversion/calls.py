"""Calls of functions: the user's are converted as well, and functions of Python's take traced values."""

from __future__ import annotations

import builtins
import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from symgrad.core.sizes import is_counted
from symgrad.frontend.conversion import iteration
from symgrad.frontend.conversion.branches import both, either
from symgrad.frontend.conversion.construct import truth
from symgrad.frontend.conversion.functions import converted
from symgrad.frontend.conversion.lists import Listing
from symgrad.frontend.conversion.merging import is_numeric
from symgrad.frontend.conversion.state import check_draw, check_length
from symgrad.frontend.interception import length_of
from symgrad.ops.control import NUMBER
from symgrad.ops.operands import is_traced


def called(function: Any) -> Any:
    """What to call instead of a function."""
    check_draw(function)
    try:
        instead = _INSTEAD.get(function)
    except TypeError:  # it has no hash
        instead = None
    return instead or converted(function)


def _extreme(plain: Any, of_array: Any, better: Callable[[Any, Any], Any], *args: Any, **kwargs: Any) -> Any:
    """The first of the best, as Python has it: each of the numbers is compared with the best so far."""
    if kwargs.keys() == {"key"} and kwargs["key"] is not None and args:
        items = args[0] if len(args) == 1 else args
        return iteration.best(better, items, kwargs["key"]) if _are_there(items) else plain(*args, **kwargs)
    if kwargs.keys() == {"default"} and is_traced(args[0]) and args[0].shape and not is_counted(args[0].shape[0]):
        kwargs = {}
    if kwargs or not args:
        return plain(*args, **kwargs)
    if len(args) == 1 and is_traced(args[0]) and args[0].ndim == 1 and _is_long(args[0].shape[0]):
        return of_array(args[0])
    items = [x.scope.lift(x) if is_counted(x) else x for x in (args[0] if len(args) == 1 else args)]
    if not any(is_traced(x) and not x.shape and x.known_value() is None for x in items):
        return plain(items) if len(args) == 1 else plain(*args)
    best = items[0]
    for x in items[1:]:
        best = _as_one_of([x, best], np.where(better(x, best), x, best))
    return best


def _as_one_of(xs: Sequence[Any], y: Any) -> Any:
    """A value without axes as a number of Python's if these are such, and else of NumPy's, unless one is an array."""
    if all(x.aval.weak if is_traced(x) else type(x) in (int, float) for x in xs):
        return NUMBER(y)
    y.as_array(any(is_traced(x) and x.writes_in_place for x in xs))
    return y


def _asked(plain: Any, of_array: Any, joined: Callable[[Any, Callable[[], Any]], Any], items: Any, /) -> Any:
    """Whether any of items holds, or all: it asks one after the other, until it knows."""
    if is_traced(items) and items.ndim == 1:
        return of_array(items)
    if is_traced(items):
        return plain(items)
    iterator, neutral = iter(items), plain(())

    def rest(found: Any) -> Any:
        for item in iterator:
            known = truth(item)
            if is_traced(known):
                found = known if found is neutral else joined(found, partial(truth, known))
            elif known is not neutral:
                return known
        return found

    return rest(neutral)


def _total(items: Any, /, start: Any = 0) -> Any:
    """Of a long array by NumPy, whatever its order is; else one after the other."""
    if is_traced(items) and items.ndim and _is_long(items.shape[0]):
        return np.sum(items, axis=0) + start
    return builtins.sum(items, start)


def _ordered(items: Any, /, key: Any = None, reverse: Any = False) -> Any:
    """Numbers in order: a long array gives a list as a loop does that fills one."""
    numbers: Sequence[Any] = ()
    if type(items) in (list, tuple, range) and len(items) and all(map(is_numeric, items)):
        like = next(filter(is_traced, (*items, *[converted(key)(x) for x in items[:1] if key])), None)
        numbers, items = items, items if like is None else np.array([*items], like=like)
    if not is_traced(items) or items.ndim != 1:
        return builtins.sorted(items, key=key, reverse=reverse)
    found = iteration.ordered(items, key, bool(reverse)) if key or reverse else np.sort(items)
    if _is_long(found.shape[0]):
        return Listing(found.graph, found.node)
    return [_as_one_of(numbers, x) for x in found] if numbers else list(found)


def _are_there(items: Any) -> bool:
    """Whether there is an item, of something that may be cut."""
    return (is_traced(items) and items.ndim > 0) or (type(items) in (list, tuple, range) and len(items) > 0)


def _listed(items: Any = (), /) -> Any:
    """Another list: of one that a loop has filled as much."""
    return Listing(items.graph, items.node) if type(items) is Listing else list(items)


def _length(x: Any) -> Any:
    check_length(x)
    return length_of(x)


def _is_long(n: Any) -> bool:
    return not isinstance(n, int) or n > 16


_INSTEAD: dict[Any, Any] = {
    builtins.len: _length,
    length_of: _length,
    builtins.max: partial(_extreme, builtins.max, np.max, operator.gt),
    builtins.min: partial(_extreme, builtins.min, np.min, operator.lt),
    builtins.any: partial(_asked, builtins.any, np.any, either),
    builtins.all: partial(_asked, builtins.all, np.all, both),
    builtins.sum: _total,
    builtins.sorted: _ordered,
    builtins.list: _listed,
    builtins.tuple: lambda items=(), /: _listed(items) if type(items) is Listing else tuple(items),
    builtins.map: iteration.mapped,
    builtins.filter: iteration.filtered,
    functools.reduce: iteration.reduced,
    itertools.accumulate: iteration.accumulated,
    itertools.pairwise: iteration.pairs,
    itertools.islice: iteration.sliced,
    itertools.chain: iteration.chained,
    **{f: iteration.tabulated(f) for f in (itertools.product, itertools.combinations, itertools.permutations)},
}
