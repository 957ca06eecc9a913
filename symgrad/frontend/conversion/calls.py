"""Calls of functions: the user's are converted as well, and functions of Python's take traced values."""

from __future__ import annotations

import bisect
import builtins
import collections
import functools
import itertools
import math
import operator
import sys
import warnings
from collections.abc import Callable, ItemsView, Iterator, KeysView, Sequence, ValuesView
from functools import partial
from keyword import iskeyword
from types import (
    BuiltinMethodType,
    FrameType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

import numpy as np

from symgrad.core.graph import tracing
from symgrad.core.provenance import user_frame
from symgrad.core.sizes import Dim, Size, is_counted, largest, number_of, smallest
from symgrad.errors import DTypeError, WriteError
from symgrad.frontend.checks import of_text, shown, warned
from symgrad.frontend.conversion import indexing, iteration
from symgrad.frontend.conversion.absent import check_presence
from symgrad.frontend.conversion.branches import both, chosen, either
from symgrad.frontend.conversion.classes import (
    Examples,
    as_python,
    examples_in,
    examples_of,
    of_classes,
    result_examples,
)
from symgrad.frontend.conversion.construct import truth
from symgrad.frontend.conversion.defaults import Defaults
from symgrad.frontend.conversion.either import Either
from symgrad.frontend.conversion.functions import converted
from symgrad.frontend.conversion.inherited import asked_for_own, changing
from symgrad.frontend.conversion.iterators import Counter, advanced, cycle, iterator
from symgrad.frontend.conversion.lists import LENGTH, Listing, Table, Tuple, whole, written
from symgrad.frontend.conversion.merging import is_numeric
from symgrad.frontend.conversion.specials import assign, call, users_method
from symgrad.frontend.conversion.state import all_are_whole, check_draw, is_of_a_branch, is_whole, see
from symgrad.frontend.draws import drawing
from symgrad.frontend.interception import existing, length_of, looked_up, seen
from symgrad.frontend.texts import as_source, as_text, formatted, read
from symgrad.frontend.variable import Variable, class_of
from symgrad.ops.control import NUMBER
from symgrad.ops.masks import Selected
from symgrad.ops.operands import WRITTEN_BEFORE, as_input, is_traced
from symgrad.ops.python_math import as_python_complex, as_python_float, as_python_int, is_integral
from symgrad.ops.truths import is_pythons, is_truth, of_numpy, of_python


def called(function: Any) -> Any:
    """Return what to call instead of a function."""
    found, graph = _called(function), tracing.get()
    if type(function) in (BuiltinMethodType, type) and (name := _METHODS.get(function)):
        return partial(_by_method, name, found)
    if graph is None or all_are_whole():
        return found
    own = getattr(function, "__self__", None)
    is_method = type(function) is BuiltinMethodType or (
        type(function) is MethodWrapperType and function.__name__ in WRITERS
    )
    if is_method and not (is_whole(own) or function.__name__ in ("append", "extend")):
        if function.__name__ == "insert":
            return partial(_inserted, own)
        return getattr(whole(own) if function.__name__ == "copy" else written(own), function.__name__)
    return partial(_of_whole, found) if _takes_items(function, found) else found


WRITERS = ("__setitem__", "__delitem__", "__iadd__", "__imul__")
"""Special methods by which a list is changed."""


def _inserted(x: Any, index: Any, item: Any) -> None:
    """``x.insert(index, item)`` of a list with items that stand for others: in a loop, in front of all of them."""
    graph = tracing.get()
    in_front = type(index) is int and index == 0 and graph is not None and not is_of_a_branch(graph, x)
    (x if in_front else written(x)).insert(index, item)


def _by_method(name: str, otherwise: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``abs(x)``, and the like, which ask a method of the user's."""
    method = users_method(args[0], name) if args and not kwargs and None not in args[1:] else None
    if method is None:
        return otherwise(*args, **kwargs)
    found = call(method, *args)
    return otherwise(found) if name == "__float__" else found


_METHODS = {builtins.abs: "__abs__", builtins.round: "__round__", builtins.float: "__float__"}


def _takes_items(function: Any, found: Any) -> bool:
    """Whether a function that is not converted may ask for the items of a list, or how many there are."""
    if type(function) in _COMPILED:
        of_object = type(function) is BuiltinMethodType and type(function.__self__) not in (ModuleType, type(None))
        return not of_object and function not in _LOOK_AT_NO_ITEMS
    if isinstance(function, type):
        return function is not type and function.__module__ in _WITH_CONTAINERS
    return type(function) is FunctionType and found is function


_LOOK_AT_NO_ITEMS = (len, isinstance, id, callable, getattr, hasattr, setattr)
_WITH_CONTAINERS = ("builtins", "itertools", "collections")


def _of_whole(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function that may ask for the items of lists."""
    return function(*map(whole, args), **kwargs)


def _called(function: Any) -> Any:
    if type(function) is Either:
        return partial(_call_one, function)
    check_draw(function)
    if type(function) is BuiltinMethodType and isinstance(function.__self__, np.ndarray):
        return _of_constant(function)
    if type(function) is BuiltinMethodType and type(function.__self__) is str:
        return of_text(function)
    try:
        instead = _INSTEAD.get(function)
    except TypeError:  # it has no hash
        instead = None
    if instead is not None:
        return instead
    if (permuting := drawing(function)) is not None:
        return permuting
    if type(function) is FunctionType and type(getattr(function, "registry", None)) is MappingProxyType:
        return partial(_dispatched, function)
    if type(function) is partial:
        return partial(called(function.func), *function.args, **function.keywords)
    if type(function) is BuiltinMethodType and type(function.__self__) is list and function.__name__ == "sort":
        return partial(_sort, function.__self__)
    found = _with_entry(function, user_frame() or sys._getframe(1))
    if type(function) in _COMPILED or found is not function:
        return found
    see(function)
    return converted(function)


def _with_entry(function: Any, frame: FrameType) -> Any:
    """Return the replacement of a function, or of that of a method such as ``norm.cdf``, if symgrad has an entry."""
    if type(function) is MethodType:
        inner = looked_up(function.__func__, frame)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    return looked_up(function, frame) if type(function) in (*_COMPILED, FunctionType) else function


_COMPILED = (BuiltinMethodType, np.ufunc, type(np.sum))


# ---- methods of constants


def _of_constant(method: Any) -> Any:
    """A method of an array of NumPy's: with traced arguments that of the array as a constant of the program."""

    def call(*args: Any, **kwargs: Any) -> Any:
        like = _first_traced([*args, *kwargs.values()])
        if like is None:
            return method(*args, **kwargs)
        if method.__name__ in _WRITING:
            raise WriteError(WRITTEN_BEFORE, "Write into a copy: x = np.array(x).")
        return getattr(existing(like.graph, method.__self__), method.__name__)(*args, **kwargs)

    return call


_WRITING = ("fill", "itemset", "partition", "put", "resize", "setfield", "sort")


def _first_traced(items: Sequence[Any]) -> Any:
    """The first traced value, in lists too."""
    found = (_first_traced(x) if type(x) in (list, tuple) else x if is_traced(x) else None for x in items)
    return next((x for x in found if x is not None), None)


# ---- numbers of Python and of NumPy


def _type(*args: Any) -> Any:
    """``type(x)``: of a traced value that of the array or number that it stands for."""
    if len(args) == 1 and isinstance(args[0], Dim):
        return int
    if len(args) == 1:
        check_presence(args)
    return class_of(args[0]) if len(args) == 1 and is_traced(args[0]) else type(*args)


def _float(*args: Any) -> Any:
    return as_python_float(args[0]) if len(args) == 1 and _is_real_number(args[0]) else float(*map(read, args))


def _complex(*args: Any, **kwargs: Any) -> Any:
    numbers = [*args, *kwargs.values()]
    if not any(map(_is_number, numbers)) or any(is_traced(x) and x.shape for x in numbers):
        return complex(*map(read, args), **kwargs)
    return as_python_complex(*args, **kwargs)


def _bool(*args: Any) -> Any:
    """``bool(x)``: a traced boolean as one of Python's."""
    return of_python(truth(args[0])) if len(args) == 1 else bool(*args)


def _int(*args: Any) -> Any:
    """``int(x)``: a number that may have a fraction is refused."""
    is_whole = len(args) == 1 and _is_real_number(args[0]) and is_integral(args[0].node)
    return as_python_int(args[0]) if is_whole else int(*map(read, args))


def _is_number(x: Any) -> bool:
    """Whether it is a traced number without a known value."""
    return is_traced(x) and x.shape == () and x.known_value() is None


def _is_real_number(x: Any) -> bool:
    return _is_number(x) and x.dtype.kind != "c"


def _of_type(kind: Any) -> Any:
    """Convert ``np.float64(x)`` of a traced value to a cast."""

    def cast(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != 1 or _first_traced(args) is None:
            return kind(*args, **kwargs)
        x = np.astype(as_input(args[0]), np.dtype(kind))
        x.as_array(False)
        return of_numpy(x) if is_truth(x) else x

    return cast


def _of_items(function: Any) -> Any:
    """Return a function of several numbers that also takes an iterator."""
    return lambda items, /, **kwargs: seen(function)([*items] if isinstance(items, Iterator) else items, **kwargs)


def _extreme(plain: Any, of_array: Any, better: Callable[[Any, Any], Any], *args: Any, **kwargs: Any) -> Any:
    """The first of the best, as Python has it: each of the numbers is compared with the best so far."""
    if kwargs.keys() == {"key"} and kwargs["key"] is not None and args:
        items = _as_list(args[0]) if len(args) == 1 else args
        args = (items,) if len(args) == 1 else args
        return iteration.best(better, items, kwargs["key"]) if _are_there(items) else plain(*args, **kwargs)
    if kwargs.keys() == {"default"} and is_traced(args[0]) and args[0].shape and not is_counted(args[0].shape[0]):
        kwargs = {}
    if kwargs or not args:
        return plain(*args, **kwargs)
    if len(args) == 1 and is_traced(args[0]) and args[0].ndim == 1 and _is_long(args[0].shape[0]):
        return _as_item(args[0], _extreme_of(Variable(args[0].graph, args[0].node), of_array, better))
    items = [x.scope.lift(x) if is_counted(x) else x for x in (args[0] if len(args) == 1 else args)]
    if any(type(x) is Dim for x in items) and all(type(x) in (int, Dim) for x in items):
        return functools.reduce(largest if plain is builtins.max else smallest, items)
    if not any(is_traced(x) and not x.shape and x.known_value() is None for x in items):
        return plain(items) if len(args) == 1 else plain(*args)
    best = items[0]
    for x in items[1:]:
        if is_traced(x) or is_traced(best):
            best = _as_one_of([x, best], np.where(truth(better(x, best)), x, best))
        else:
            best = plain(best, x)
    return best


def _extreme_of(x: Variable, of_array: Any, better: Callable[[Any, Any], Any]) -> Variable:
    """The first largest number of an array, or smallest: comparisons skip NaNs, unless the first number is one."""
    if x.dtype.kind != "f":
        return of_array(x)
    place = np.argmax if of_array is np.max else np.argmin
    return x[place(np.where(better(x, x[:1]), x, x[:1]))]


def _as_one_of(xs: Sequence[Any], y: Any) -> Any:
    """A value without axes as a number of Python's if these are such, and else of NumPy's, unless one is an array."""
    examples = {kind: like for x in xs for kind, like in examples_of(x).items()}
    if all(map(is_pythons, xs)):
        for x in xs:
            if type(x) is int and y.dtype.kind == "f" and abs(x) > 2**53:
                raise DTypeError(
                    f"traced values choose between floats and the integer {x}, whose digits a float cannot all hold",
                    f"Write {x} as a float.",
                )
        return of_classes(NUMBER(y), examples)
    arrays = [x for x in xs if is_traced(x) and x.writes_in_place]
    y.as_array(bool(arrays))
    for x in arrays:  # in Python it is one of them
        y.link(x, "max, min or sorted may have given another name to")
    return of_classes(y, examples)


def _asked(plain: Any, of_array: Any, joined: Callable[[Any, Callable[[], Any]], Any], items: Any, /) -> Any:
    """Whether any of items holds, or all: it asks one after the other, until it knows."""
    if is_traced(items) and items.ndim == 1:
        return of_python(of_array(items))
    if is_traced(items):
        return plain(items)
    return of_python(_asked_of(joined, iter(items), plain(())))


def _asked_of(joined: Callable[[Any, Callable[[], Any]], Any], iterator: Iterator[Any], neutral: Any) -> Any:

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
    """Sum a long array by NumPy, in its order of summation; anything else item by item, as Python does."""
    is_long = isinstance(items, Selected) or (is_traced(items) and items.ndim and _is_long(items.shape[0]))
    if not is_long or isinstance(items, Table):
        return builtins.sum(items, start)
    of_numbers = type(items) in (Listing, Tuple) and items.ndim == 1
    of_items = items.item_examples if of_numbers else _like_array(items)
    found = _sum_examples(of_items, _like_array(start) if np.ndim(start) else examples_of(start))
    # NumPy would add small integers and booleans as those of the platform
    y = np.sum(items, axis=0, dtype=np.result_type(*found.values())) + start
    if not of_numbers and not isinstance(items, Selected):
        return y
    is_sure = of_numbers and _is_positive(items.shape[0])
    return of_classes(y, found if is_sure else found | examples_of(start))


def _is_positive(n: Size) -> bool:
    """Whether a length is provably 1 or more, also where only running tells it."""
    return n > 0 if isinstance(n, int) else n.scope.decide_counted(operator.gt, n.expr) is True


def _like_array(x: Any) -> Examples:
    """Return an example of the dtype of an array, in which its items are added."""
    return {np.ndarray: np.empty(0, x.dtype)}


def _sum_examples(items: Examples, start: Examples) -> Examples:
    """Return the classes of which the sum of the items may be."""
    one = result_examples(operator.add, start, items)
    more = result_examples(operator.add, one, items)  # True + 1.0 + 1.0 is of the class of True + 1.0
    return one | more


def _as_item(items: Variable, x: Any) -> Any:
    """One of the items: of a list that a loop has filled, of their class."""
    return items.row(x) if isinstance(items, Listing) else x


def _ordered(items: Any, /, key: Any = None, reverse: Any = False) -> Any:
    """Numbers in order: a long array gives a list as a loop does that fills one."""
    numbers: Sequence[Any] = ()
    items = _as_list(items)
    if key is not None and (found := _ordered_tuples(items, key, bool(reverse))) is not None:
        return found
    if type(items) in (list, tuple, range) and len(items) and all(map(is_numeric, items)):
        like = next(filter(is_traced, (*items, *[converted(key)(x) for x in items[:1] if key])), None)
        numbers, items = items, items if like is None else np.array([*items], like=like)
    if not is_traced(items) or items.ndim != 1:
        return builtins.sorted(items, key=key, reverse=reverse)
    found = iteration.ordered(items, key, bool(reverse)) if key or reverse else np.sort(items)
    if _is_long(found.shape[0]):
        examples = items.item_examples if type(items) is Listing else examples_in(numbers)
        return Listing(found.graph, found.node, examples)
    return [_as_one_of(numbers, x) if numbers else _as_item(items, x) for x in found]


def _ordered_tuples(items: Any, key: Any, reverse: bool) -> list[Any] | None:
    """Return tuples of numbers in the order of a traced key; None for anything else."""
    if type(items) is not list or not items or not all(type(x) is tuple and len(x) == len(items[0]) for x in items):
        return None
    keys = [called(key)(x) for x in items]
    like = next(filter(is_traced, keys), None)
    if like is None or not all(is_numeric(y) and not np.ndim(y) for x in (*items, keys) for y in x):
        return None
    columns = [(column, np.array(column, like=like)) for column in zip(*items, strict=True)]
    order = iteration.order_of(np.array(keys, like=like), reverse)
    return [tuple(_as_one_of(column, array[i]) for column, array in columns) for i in order]


def _as_list(items: Any) -> Any:
    """Return the items of an iterator, or of a view of a dict, as a list; anything else as it is."""
    is_view = isinstance(items, (KeysView, ValuesView, ItemsView))
    return [*items] if is_view or (isinstance(items, Iterator) and not is_traced(items)) else items


def _dispatched(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function of `functools.singledispatch`, which chooses by the class of the first argument."""
    return called(function.dispatch(type(as_python(args[0]))))(*args, **kwargs) if args else function()


def _call_one(either: Either, /, *args: Any, **kwargs: Any) -> Any:
    """Call the function that the program chooses."""
    then, other = either.then, either.other
    return chosen(either.pred, lambda: called(then)(*args, **kwargs), lambda: called(other)(*args, **kwargs))


def _sort(items: list[Any], /, **how: Any) -> None:
    """``items.sort()``"""
    items[:] = _ordered(items, **how)


def _are_there(items: Any) -> bool:
    """Whether there is an item, of something that may be cut."""
    return (is_traced(items) and items.ndim > 0) or (type(items) in (list, tuple, range) and len(items) > 0)


def _listed(items: Any = (), /) -> Any:
    """Another list: of one that a loop has filled as much."""
    return Listing(items.graph, items.node, items.item_examples) if type(items) in (Listing, Tuple) else list(items)


def _tupled(items: Any = (), /) -> Any:
    """Return a tuple; that of a list which a loop has filled has the length of the list."""
    return Tuple(items.graph, items.node, items.item_examples) if type(items) in (Listing, Tuple) else tuple(items)


def _dictionary(*args: Any, **kwargs: Any) -> Any:
    """``dict(zip(names, theta))``: numbers that are read from an array for it are called by their keys."""
    graph = tracing.get()
    known = 0 if graph is None else len(graph.nodes)
    made = dict(*args, **kwargs)
    for key, x in made.items():
        if _is_name(key) and type(x) is Variable and x.graph is graph and x.node.id >= known and not graph.provenance:
            graph.names[x.node] = key  # not by the name of the dict
    return made


def _is_name(key: Any) -> bool:
    return type(key) is str and key.isidentifier() and not iskeyword(key)


def _queue(items: Any = (), maxlen: Any = None) -> Any:
    """``deque(items, maxlen=n)``, which does not ask a size for its number by itself."""
    return collections.deque(items, number_of(maxlen))


def _power(base: Any, exp: Any, mod: Any = None) -> Any:
    """``pow(base, exp, mod)``, in which no operator of a size takes part."""
    return pow(base, exp) if mod is None else pow(*map(number_of, (base, exp, mod)))


def _length(x: Any) -> Any:
    return length_of(whole(x, LENGTH))


def _is_long(n: Any) -> bool:
    return not isinstance(n, int) or n > 16


_INSTEAD: dict[Any, Any] = {
    builtins.len: _length,
    collections.defaultdict: Defaults,
    collections.deque: _queue,
    length_of: _length,
    builtins.pow: _power,
    builtins.max: partial(_extreme, builtins.max, np.max, operator.gt),
    builtins.min: partial(_extreme, builtins.min, np.min, operator.lt),
    builtins.any: partial(_asked, builtins.any, np.any, either),
    builtins.all: partial(_asked, builtins.all, np.all, both),
    builtins.sum: _total,
    builtins.sorted: _ordered,
    bisect.bisect_left: indexing.LEFT,
    bisect.bisect_right: indexing.RIGHT,
    builtins.dict: _dictionary,
    builtins.list: _listed,
    builtins.tuple: _tupled,
    builtins.map: iteration.mapped,
    builtins.filter: iteration.filtered,
    functools.reduce: iteration.reduced,
    itertools.accumulate: iteration.accumulated,
    builtins.iter: iterator,
    builtins.next: advanced,
    itertools.count: Counter,
    itertools.cycle: cycle,
    itertools.pairwise: iteration.pairs,
    itertools.islice: iteration.sliced,
    itertools.chain: iteration.chained,
    **{f: iteration.tabulated(f) for f in (itertools.product, itertools.combinations, itertools.permutations)},
    builtins.type: _type,
    builtins.vars: lambda x, /: vars(asked_for_own(x)),
    builtins.setattr: assign,
    builtins.delattr: lambda x, name, /: delattr(changing(x, name), name),
    builtins.bool: _bool,
    builtins.float: _float,
    builtins.complex: _complex,
    builtins.str: as_text,
    builtins.repr: as_source,
    builtins.format: lambda value, spec="", /: formatted(value, "", spec),
    builtins.print: shown,
    warnings.warn: warned,
    builtins.int: _int,
    **{kind: _of_type(kind) for kind in {np.dtype(code).type for code in "?bhilqBHILQefdgFDG"}},
    **{function: _of_items(function) for function in (math.fsum, math.prod)},
}
