"""Captured state: values that a function reads beside its arguments, guarded at each call of its program.

The bytecode of a function, and of the functions that it reaches by name, tells what they read: globals, cells of
closures, defaults, and attributes by their names. From there on values are followed through attributes that the code
mentions, and through the items of lists, tuples, dicts, sets and queues. What is only written, as in ``log.append(x)``
and ``self.calls += 1``, is not read. A generated test compares all of it by identity, and numbers, texts and small
arrays by content; and that what was not found is still missing, and what was inherited is not shadowed.
"""

from __future__ import annotations

import builtins
import operator
import sys
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from operator import attrgetter, methodcaller
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from symgrad.compiler.code_reads import Reads, names_in, reads_of
from symgrad.core.generated import defined
from symgrad.core.provenance import internal, package_of
from symgrad.core.text import is_name
from symgrad.frontend.interception import Held, Seen
from symgrad.frontend.reach import MISSING, is_gone, own_attributes
from symgrad.frontend.static import Static
from symgrad.frontend.variable import Variable

MOST = 2_000  # places that are guarded, and objects that are looked into
LONGEST = 100  # items of a list, a dict or a set that are looked at
SMALL = 1024  # bytes of an array that is compared by content
ARRAYS = 32  # arrays that are
ROUNDS = 5  # at most until the code that can be reached is known
_SCALARS = (bool, int, float, complex, str, bytes, type(None), type(...))
_LIBRARIES = ("numpy", "scipy", "symgrad")
_MAPPINGS = (dict, MappingProxyType)
_WRAPPERS = (UserDict, UserList, ChainMap)
_CONTAINERS = (list, tuple, deque, array, bytearray, set, frozenset, *_MAPPINGS)
_ASIDE = frozenset(("__repr__", "__str__", "__format__", "__reduce__", "__getstate__", "__setstate__", "__del__"))


# ---- places


class Place(NamedTuple):
    """A place where a function finds a value: how to read it from its holder, and its name in messages."""

    kind: str  # of `_READ`
    holder: Any
    key: Any
    path: str
    value: Any  # before the trace; MISSING for nothing
    twin: Any  # a copy of an array that is compared by content
    above: frozenset[int]  # the places on the way to it
    bound: type | None = None  # the type of what the function binds there itself, in each run: no more is compared

    def now(self) -> Any:
        """Return the value that is there now."""
        try:
            return _plain(_READ[self.kind](self.holder, self.key))
        except Exception:
            return MISSING

    def holds(self, now: Any) -> bool:
        """Whether a value is the one that was there."""
        if self.bound is not None:
            return type(now) is self.bound
        if self.twin is not None:
            same_kind = type(now) is np.ndarray and (now.shape, now.dtype) == (self.twin.shape, self.twin.dtype)
            return same_kind and now.tobytes() == self.twin.tobytes()
        if now is self.value or type(now) is not type(self.value):
            return now is self.value
        if self.kind == "keys":
            return bool(now == self.value)
        return _is_scalar(now) and (now == self.value or now != now) and repr(now) == repr(self.value)

    def holds_plain(self, now: Any) -> bool:
        """Whether `holds` is true of a value that another thread may have exchanged for its trace."""
        return self.holds(_plain(now))

    @property
    def by_content(self) -> bool:
        """Whether it is compared by content."""
        return self.twin is not None or self.value is MISSING or self.kind == "keys" or _is_scalar(self.value)


_READ: dict[str, Callable[[Any, Any], Any]] = {
    "item": operator.getitem,
    "attribute": getattr,
    "cell": lambda holder, _: holder.cell_contents,
    "length": lambda holder, _: len(holder),
    "keys": lambda holder, _: tuple(holder),
    "without attributes": lambda holder, names: vars(holder).keys().isdisjoint(names),
    "without keys": lambda holder, keys: holder.keys().isdisjoint(keys),
}
_SOURCE = {
    "item": "{0}[{1}]",
    "attribute": "{0}.{2}",
    "cell": "{0}.cell_contents",
    "length": "len({0})",
    "keys": "tuple({0})",
    "without attributes": "{0}.__dict__.keys().isdisjoint({1})",
    "without keys": "{0}.keys().isdisjoint({1})",
}


def _is_scalar(x: Any) -> bool:
    if is_gone(x):
        return False
    return isinstance(x, np.generic) or type(x) in _SCALARS or (type(x) is tuple and all(map(_is_scalar, x)))


def _is_data(x: Any) -> bool:
    return type(x) is np.ndarray or _is_scalar(x)


def _is_small(x: Any) -> bool:
    return type(x) is np.ndarray and x.nbytes <= SMALL and not x.dtype.hasobject


def _plain(x: Any) -> Any:
    """Return the value that the user has put there, where another thread has exchanged it for its trace."""
    if type(x) is Seen:
        return x.__wrapped__
    if is_gone(x):
        return MISSING
    return x.base if type(x) is Held and type(x.base) is np.ndarray else x


def _holds_traced(x: Any) -> bool:
    if isinstance(x, dict):
        x = list(x.values())
    held = x if isinstance(x, (list, tuple)) else (x,)
    return any(issubclass(type(y), Variable) for y in held)


class Captured:
    """The captured state of a function as it is before a trace.

    Attributes
    ----------
    unchanged : callable or None
        Whether all of it is as it was, in a few hundred nanoseconds; None where there is nothing to compare.
    changed : str
        The name of a place that the trace itself has changed; "" if there is none.
    """

    def __init__(self, function: Callable[..., Any], arguments: Iterable[Any] = ()) -> None:
        roots = [function, *(x.value if type(x) is Static else x for x in arguments)]
        names = _NOTHING
        for _ in range(ROUNDS):
            walk = _Walk(names)
            walk.visit_all(roots)
            if walk.names == names:
                break
            names = walk.names
        self.places = walk.places
        self.unchanged: Callable[[], bool] | None = None
        self.changed = self._given_up = ""

    def settle(self) -> None:
        """Make the guard, after the trace; values that the function rebinds in each run are left out."""
        bound: set[int] = set()
        for i, place in enumerate(self.places):
            now = place.now()
            rebound = not place.holds(now) and not place.by_content and not _is_scalar(now)
            if rebound or _holds_traced(now):
                bound.add(i)
                self.places[i] = place._replace(bound=type(now), twin=None)
        self.places = [place for place in self.places if bound.isdisjoint(place.above)]
        self.changed = self.change()
        if self.places:
            self.unchanged = _test_of(self.places)

    def give_up(self, path: str) -> None:
        """Count the state at a place as changed from now on."""
        self.unchanged, self._given_up = lambda: False, path

    def change(self) -> str:
        """Return the name of the first place that holds another value now; "" if none does."""
        if self._given_up:
            return self._given_up
        return next((place.path for place in self.places if not place.holds(place.now())), "")


def _test_of(places: Sequence[Place]) -> Callable[[], bool]:
    """Generate the function that tells whether all places hold their old values."""
    scope: dict[str, Any] = {"missing": MISSING}
    names: dict[int, str] = {}

    def name(x: Any) -> str:
        found = names.setdefault(id(x), f"v{len(names)}")
        scope[found] = x
        return found

    lines = ["def unchanged():", "    try:"]
    for i, place in enumerate(places):
        holder, value, key = name(place.holder), name(place.value), name(place.key)
        scope[f"holds{i}"] = place.holds_plain
        read = _SOURCE[place.kind].format(holder, key, place.key)
        if place.bound is not None:
            test = f"not holds{i}({read})"
        elif place.value is MISSING:
            test = f"getattr({holder}, {key}, missing) is not missing"
        elif place.kind in ("length", "keys"):
            test = f"{read} != {value}"
        elif place.twin is not None:
            scope[f"bytes{i}"] = place.twin.tobytes()
            test = f"((x := {read}) is not {value} or x.tobytes() != bytes{i}) and not holds{i}(x)"
        else:
            test = f"(x := {read}) is not {value} and not holds{i}(x)"
        lines.append(f"        if {test}: return False")
    lines += ["    except Exception: return False", "    return True"]
    unchanged: Callable[[], bool] = defined("\n".join(lines), "unchanged", scope)
    return unchanged


# ---- from the roots to what is read


_NONE = frozenset[str]()
_NOTHING = Reads(*[_NONE] * len(Reads._fields))


class _Walk:
    """A walk from some values through attributes of known names; it collects the names that the code there reads."""

    def __init__(self, known: Reads) -> None:
        self.names, self._known = known, known
        self.places: list[Place] = []
        self._seen: dict[tuple[int, bool, bool], Any] = {}  # by identity and how much is read, and alive meanwhile
        self._classes: set[int] = set()  # whose members are visited, by identity
        self._arrays = 0
        self._waiting: list[tuple[Any, str, frozenset[int]]] = []

    def visit_all(self, values: Iterable[Any]) -> None:
        self._waiting = [(x, "", frozenset[int]()) for x in values]
        while self._waiting and len(self.places) + len(self._seen) < MOST:
            x, path, above = self._waiting.pop(0)
            key = id(x), self._is_inside(x, path), self._is_whole(path)
            if key not in self._seen and not _is_scalar(x) and type(x) is not np.ndarray:
                self._seen[key] = x
                self._visit(x, path, above)

    def _is_whole(self, path: str) -> bool:
        """Whether all items of an object are read, more than some keys."""
        name = path.rpartition(".")[2]
        return name in self._known.whole or name not in self._known.read

    def _is_inside(self, x: Any, path: str) -> bool:
        """Whether all attributes of an object are read."""
        inside = self._known.inside
        of_class = any(hasattr(type(x), name[1:]) for name in inside if name.startswith("."))
        return of_class or "" in inside or path.rpartition(".")[2] in inside

    def _visit(self, x: Any, path: str, above: frozenset[int]) -> None:
        if isinstance(x, FunctionType):
            self._function(x, path, above)
        elif isinstance(x, MethodType):
            self._enter(above, (x.__func__, path), (x.__self__, path.rpartition(".")[0]))
        elif isinstance(x, partial):
            self._enter(above, (x.func, path), (x.args, path), (x.keywords, f"{path}()"))
        elif isinstance(x, (attrgetter, methodcaller)):
            names = frozenset(names_in(x.__reduce__()[1]))
            self._note(_NOTHING._replace(attributes=names, read=names, whole=names, maybe=names))
        elif isinstance(x, _CONTAINERS):
            self._container(x, path, above)
        elif isinstance(x, ModuleType):
            if not _is_library(x.__name__):
                self._own(x, path, above)
        elif isinstance(x, type):
            self._class(x, above)
        elif within := _functions_in(x):
            self._enter(above, *((f, path) for f in within))
        elif hasattr(type(x), "__wrapped__") or "__wrapped__" in own_attributes(x):
            self._enter(above, (x.__wrapped__, path))
        else:
            self._instance(x, path, above)

    def _enter(self, above: frozenset[int], *values: tuple[Any, str]) -> None:
        """Visit values that stay where they are."""
        self._waiting += [(x, path, above) for x, path in values]

    def _note(self, reads: Reads) -> None:
        self.names = Reads(*(a | b for a, b in zip(self.names, reads, strict=True)))

    def _add(self, kind: str, holder: Any, key: Any, path: str, above: frozenset[int], value: Any = MISSING) -> None:
        place = Place(kind, holder, key, path, value, None, above)
        value, twin = place.now() if value is MISSING else value, None
        if isinstance(value, ModuleType) and _is_library(value.__name__):
            return
        if key in self._known.changed - self._known.read and _is_library(type(value).__module__):
            return  # it is changed, and that is all
        if _is_small(value) and self._arrays < ARRAYS:
            twin, self._arrays = value.copy(), self._arrays + 1
        self.places.append(place._replace(value=value, twin=twin))
        self._waiting.append((value, path, above | {len(self.places) - 1}))

    def _add_missing(self, kind: str, holder: Any, names: Iterable[str], path: str, above: frozenset[int]) -> None:
        """Note that an object has nothing under some names."""
        if missing := frozenset(names):
            self._add(kind, holder, missing, path, above)

    # ---- kinds of values

    def _function(self, f: FunctionType, path: str, above: frozenset[int]) -> None:
        code = f.__code__
        cells = zip(code.co_freevars, f.__closure__ or (), strict=True)
        if internal(code) or package_of(code) in _LIBRARIES:
            self._enter(above, *((cell.cell_contents, name) for name, cell in cells if cell != CellType()))
            return
        reads = reads_of(code)
        self._note(reads._replace(catches=_NONE, inside=_NONE) if _is_library(f.__module__) else reads)
        for name, cell in cells:
            if name in reads.free and cell != CellType():
                self._add("cell", cell, name, name, above)
        for name in sorted(reads.globals & f.__globals__.keys()):
            self._add("item", f.__globals__, name, name, above)
        if self._known.catches:
            missing = reads.globals - f.__globals__.keys() - vars(builtins).keys()
            self._add_missing("without keys", f.__globals__, missing, f"globals of {f.__module__}", above)
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(f, name):
                self._add("attribute", f, name, f"{f.__name__}.{name}", above)
        if "." not in path or vars(f):  # methods hardly ever get attributes later
            self._own(f, path or f.__name__, above)

    def _container(self, x: Any, path: str, above: frozenset[int]) -> None:
        self._items(x, path, above)
        if not _is_library(type(x).__module__):
            self._instance(x, path, above)

    def _items(self, x: Any, path: str, above: frozenset[int]) -> None:
        is_dict = isinstance(x, _MAPPINGS)
        keys: Iterable[Any] = x if is_dict else range(len(x))
        if is_dict and not self._is_whole(path):
            keys = [key for key in x if key in self._known.keys]
            if self._known.catches or hasattr(type(x), "__missing__"):
                self._add_missing("without keys", x, self._known.keys - x.keys(), f"keys of {path}", above)
        elif len(x) > LONGEST:
            self._add("length", x, None, path, above)
            return
        elif isinstance(x, (set, frozenset)):
            self._add("keys", x, None, path, above)
            self._enter(above, *((y, path) for y in x))
            return
        elif not isinstance(x, tuple):
            self._add("keys" if is_dict else "length", x, None, path, above)
        for key in keys:
            self._add("item", x, key, f"{path}[{key!r}]", above)

    def _attributes(self, x: Any, names: Iterable[str], path: str, above: frozenset[int]) -> None:
        for name in names:
            if is_name(name):
                self._add("attribute", x, name, f"{path}.{name}", above)

    def _own(self, x: Any, path: str, above: frozenset[int], slots: Collection[str] = ()) -> None:
        """Visit the attributes that an object has of its own, and note those that it has not."""
        own, wanted = own_attributes(x), self._known.attributes
        held = own.keys() | {name for name in slots if hasattr(x, name)}
        if type(x).__dictoffset__ and self._is_inside(x, path):
            self._add("keys", own, None, f"{path}.__dict__", above)
            wanted |= held
        self._attributes(x, sorted(held & wanted), path, above)
        missing, maybe = {name for name in wanted - held if not name.startswith("__")}, self._maybe(type(x))
        if not hasattr(type(x), "__getattr__"):
            self._attributes(x, sorted(maybe & missing.intersection(slots)), path, above)
        if type(x).__dictoffset__:
            missing = {name for name in missing.difference(slots) if name in maybe or hasattr(type(x), name)}
            self._add_missing("without attributes", x, missing, f"attributes of {path}", above)

    def _maybe(self, cls: type) -> frozenset[str]:
        """Return the names of attributes that instances may be without."""
        return self._known.attributes if self._known.catches or hasattr(cls, "__getattr__") else self._known.maybe

    def _class(self, cls: type, above: frozenset[int]) -> None:
        """Visit the methods of a class, and its attributes; note what it inherits, and so may shadow."""
        names = {*self._maybe(cls)}
        self._enter(above, (type(cls), type(cls).__name__))
        for base in reversed(cls.__mro__):
            if _is_library(base.__module__):
                names |= vars(base).keys() & self._known.attributes
                continue
            members = {name: x for name, x in vars(base).items() if self._is_member(name, x)}
            missing = names - vars(base).keys()
            self._add_missing("without attributes", base, missing, f"attributes of {base.__name__}", above)
            names |= members.keys()
            if id(base) not in self._classes:
                self._classes.add(id(base))
                for name, value in members.items():
                    self._add("item", vars(base), name, f"{base.__name__}.{name}", above, value)

    def _is_member(self, name: str, value: Any) -> bool:
        """Whether an attribute of a class is read, by name or by Python."""
        function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value  # __new__ is the former
        is_function = isinstance(function, FunctionType)
        return name in self._known.attributes or (is_function and _is_special(name, function.__code__))

    def _instance(self, x: Any, path: str, above: frozenset[int]) -> None:
        cls, own, path = type(x), own_attributes(x), path or type(x).__name__
        if _top(cls.__module__) == "symgrad":
            return
        slots = {name for base in cls.__mro__ for name in _as_tuple(vars(base).get("__slots__", ()))}
        self._own(x, path, above, slots)
        if issubclass(cls, Collection if _is_library(cls.__module__) else _WRAPPERS):
            for name in own:  # its items are there
                self._add("attribute", x, name, path, above)
        if _is_library(cls.__module__):
            self._enter(above, *((f, path) for f in own.values() if isinstance(f, FunctionType)))
            if _top(cls.__module__) in _LIBRARIES:  # whose code is not looked into: it may read all of them
                data = {name: getattr(x, name) for name in sorted(own.keys() | slots) if hasattr(x, name)}
                self._attributes(x, [name for name, value in data.items() if _is_data(value)], path, above)
        else:
            self._enter(above, (cls, cls.__name__))


def _is_special(name: str, code: CodeType) -> bool:
    """Whether Python calls a method without its name: of classes in installed packages calls alone count."""
    return name == "__call__" or (name.startswith("__") and name not in _ASIDE and not package_of(code))


def _functions_in(value: Any) -> list[Any]:
    """Return the functions behind a method, a property or a decorated method."""
    if isinstance(value, FunctionType):
        return [value]
    if isinstance(value, (staticmethod, classmethod)):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget] if value.fget is not None else []
    own = own_attributes(value)
    return [own["func"]] if "func" in own and "attrname" in own else []  # a cached property


def _as_tuple(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_library(module: str) -> bool:
    """Whether a module is Python's, NumPy's, SciPy's or symgrad's own: nobody binds its names anew."""
    top = _top(module)
    return top in sys.stdlib_module_names - {"__main__"} or top in _LIBRARIES


def _top(module: Any) -> str:
    """Return the package that a module is in."""
    return str(module).partition(".")[0]
