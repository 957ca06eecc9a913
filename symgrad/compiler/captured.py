"""Captured state: values that a function reads beside its arguments, guarded at each call of its program.

The bytecode of a function, and of the functions that it reaches by name, tells what they read: globals, cells of
closures, defaults, and attributes by their names. From there on values are followed through attributes that the code
mentions, and through the items of lists, tuples and dicts. What is only written, as in ``log.append(x)`` and
``self.calls += 1``, is not read. A generated test compares all of it by identity, and numbers, texts and small arrays
by content.
"""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from symgrad.core.generated import defined
from symgrad.core.provenance import internal, package_of
from symgrad.core.text import is_name
from symgrad.frontend.interception import Held, Seen
from symgrad.frontend.reach import MISSING, is_gone, own_attributes
from symgrad.frontend.static import Static
from symgrad.frontend.variable import Variable

MOST = 2_000  # places that are guarded, and objects that are looked into
LONGEST = 100  # items of a list or a dict that are looked at
SMALL = 1024  # bytes of an array that is compared by content
ARRAYS = 32  # arrays that are
ROUNDS = 5  # at most until the code that can be reached is known
_SCALARS = (bool, int, float, complex, str, bytes, type(None), type(...))
_MUTATORS = frozenset(("append", "extend", "insert", "add", "update", "clear", "appendleft", "setdefault", "write"))
_LIBRARIES = ("numpy", "scipy", "symgrad")
_ASIDE = frozenset(("__repr__", "__str__", "__format__", "__reduce__", "__getstate__", "__setstate__", "__del__"))


# ---- what code reads


class Reads(NamedTuple):
    """The names that code reads: globals, free variables, attributes; and attributes that it binds.

    `changed` are the names of what it changes, `read` those of what it does more with; `whole` are the names of what
    it reads more of than items under keys, and `keys` are these.
    """

    globals: frozenset[str]
    free: frozenset[str]
    attributes: frozenset[str]
    stored: frozenset[str]
    changed: frozenset[str]
    read: frozenset[str]
    whole: frozenset[str]
    keys: frozenset[str]


_known: dict[int, Reads] = {}  # by the id of a code that is alive: to hash a code takes long


def reads_of(code: CodeType) -> Reads:
    """Return the names that a function reads, and those of the functions that are defined inside of it."""
    key = id(code)
    if key not in _known:
        finalize(code, _known.pop, key, None)  # first: an entry that outlives its code would be that of another
        _known[key] = _reads_of(code)
    return _known[key]


_KINDS = {
    "LOAD_GLOBAL": "globals", "LOAD_NAME": "globals", "LOAD_DEREF": "free", "LOAD_CLASSDEREF": "free",
    "LOAD_FROM_DICT_OR_DEREF": "free", "LOAD_ATTR": "attributes", "LOAD_METHOD": "attributes",
    "LOAD_SUPER_ATTR": "attributes", "STORE_ATTR": "stored",
}  # fmt: skip


def _reads_of(code: CodeType) -> Reads:
    found: dict[str, set[str]] = {name: set() for name in Reads._fields}
    steps = list(dis.get_instructions(code))
    for i, step in enumerate(steps):
        kind = _KINDS.get(step.opname)
        if kind is None:
            continue
        found[kind].add(step.argval)
        if kind != "stored" and _is_only_written(steps, i):
            found["changed"].add(step.argval)
        elif kind != "stored":
            found["read"].add(step.argval)
            key = _key_behind(steps, i)
            found["whole" if key is None else "keys"].add(step.argval if key is None else key)
    own = Reads(*map(frozenset, found.values()))
    inner = [reads_of(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    merged = Reads(*(frozenset().union(*names) for names in zip(own, *inner, strict=True)))
    return merged._replace(free=merged.free & {*code.co_freevars})


def _key_behind(steps: Sequence[dis.Instruction], i: int) -> str | None:
    """Return the key of ``x["key"]``; None of any other use of ``x``."""
    first, second = (*steps[i + 1 : i + 3], steps[-1], steps[-1])[:2]
    item = second.opname == "BINARY_SUBSCR" or (second.opname == "BINARY_OP" and second.argrepr == "[]")
    return first.argval if item and first.opname == "LOAD_CONST" and isinstance(first.argval, str) else None


def _is_only_written(steps: Sequence[dis.Instruction], i: int) -> bool:
    """Whether a value is loaded to be changed, and for nothing else: ``x.append(y)``, ``x[k] = y``, ``x += y``."""
    name, (first, second, third) = steps[i].argval, [s.opname for s in (*steps[i + 1 : i + 4], *[steps[-1]] * 3)[:3]]
    if first in ("LOAD_ATTR", "LOAD_METHOD"):
        return steps[i + 1].argval in _MUTATORS
    if not first.startswith("LOAD_"):
        return False
    if second == "STORE_SUBSCR" or (second == third == "COPY"):
        return True
    bound = steps[i + 3 : i + 5]
    adds = second == "BINARY_OP" and steps[i + 2].argrepr.endswith("=")
    return adds and any(s.opname.startswith("STORE_") and s.argval == name for s in bound)


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
        return _is_scalar(now) and (now == self.value or now != now) and repr(now) == repr(self.value)

    def holds_plain(self, now: Any) -> bool:
        """Whether `holds` is true of a value that another thread may have exchanged for its trace."""
        return self.holds(_plain(now))

    @property
    def by_content(self) -> bool:
        """Whether it is compared by content."""
        return self.twin is not None or self.value is MISSING or _is_scalar(self.value)


_READ: dict[str, Callable[[Any, Any], Any]] = {
    "item": operator.getitem,
    "attribute": getattr,
    "cell": lambda holder, _: holder.cell_contents,
    "length": lambda holder, _: len(holder),
    "keys": lambda holder, _: tuple(holder),
    "own": lambda holder, name: name in vars(holder),
}
_SOURCE = {
    "item": "{0}[{1}]",
    "attribute": "{0}.{2}",
    "cell": "{0}.cell_contents",
    "length": "len({0})",
    "keys": "tuple({0})",
    "own": "({1} in {0}.__dict__)",
}


def _is_scalar(x: Any) -> bool:
    if is_gone(x):
        return False
    return isinstance(x, np.generic) or type(x) in _SCALARS or (type(x) is tuple and all(map(_is_scalar, x)))


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
        if self.places:
            self.unchanged = _test_of(self.places)

    def change(self) -> str:
        """Return the name of the first place that holds another value now; "" if none does."""
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


_NOTHING = Reads(*[frozenset[str]()] * len(Reads._fields))


class _Walk:
    """A walk from some values through attributes of known names; it collects the names that the code there reads."""

    def __init__(self, known: Reads) -> None:
        self.names, self._known = known, known
        self.places: list[Place] = []
        self._seen: dict[int, Any] = {}  # by identity, and alive meanwhile
        self._arrays = 0
        self._waiting: list[tuple[Any, str, frozenset[int]]] = []

    def visit_all(self, values: Iterable[Any]) -> None:
        self._waiting = [(x, "", frozenset[int]()) for x in values]
        while self._waiting and len(self.places) + len(self._seen) < MOST:
            x, path, above = self._waiting.pop(0)
            if id(x) not in self._seen and not _is_scalar(x) and type(x) is not np.ndarray:
                self._seen[id(x)] = x
                self._visit(x, path, above)

    def _visit(self, x: Any, path: str, above: frozenset[int]) -> None:
        if isinstance(x, FunctionType):
            self._function(x, path, above)
        elif isinstance(x, MethodType):
            self._enter(above, (x.__func__, path), (x.__self__, path.rpartition(".")[0]))
        elif isinstance(x, partial):
            self._enter(above, (x.func, path), (x.args, path), (x.keywords, f"{path}()"))
        elif isinstance(x, (list, tuple, dict)):
            self._items(x, path, above)
        elif isinstance(x, ModuleType):
            if not _is_library(x.__name__):
                self._attributes(x, [name for name in vars(x) if name in self._known.attributes], path, above)
        elif isinstance(x, type):
            self._class(x, path, above)
        elif hasattr(type(x), "__wrapped__") or "__wrapped__" in own_attributes(x):
            self._enter(above, (x.__wrapped__, path))
        else:
            self._instance(x, path, above)

    def _enter(self, above: frozenset[int], *values: tuple[Any, str]) -> None:
        """Visit values that stay where they are."""
        self._waiting += [(x, path, above) for x, path in values]

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

    # ---- kinds of values

    def _function(self, f: FunctionType, path: str, above: frozenset[int]) -> None:
        code = f.__code__
        cells = zip(code.co_freevars, f.__closure__ or (), strict=True)
        if internal(code) or package_of(code) in _LIBRARIES:
            self._enter(above, *((cell.cell_contents, name) for name, cell in cells if cell != CellType()))
            return
        reads = reads_of(code)
        self.names = Reads(*(a | b for a, b in zip(self.names, reads, strict=True)))
        for name, cell in cells:
            if name in reads.free and cell != CellType():
                self._add("cell", cell, name, name, above)
        for name in sorted(reads.globals & f.__globals__.keys()):
            self._add("item", f.__globals__, name, name, above)
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(f, name):
                self._add("attribute", f, name, f"{f.__name__}.{name}", above)
        self._attributes(f, [name for name in vars(f) if name in self._known.attributes], path or f.__name__, above)

    def _items(self, x: Any, path: str, above: frozenset[int]) -> None:
        keys: Iterable[Any] = x if isinstance(x, dict) else range(len(x))
        name = path.rpartition(".")[2]
        if isinstance(x, dict) and is_name(name) and name not in self._known.whole:
            keys = [key for key in x if key in self._known.keys]
        elif len(x) > LONGEST:
            self._add("length", x, None, path, above)
            return
        elif not isinstance(x, tuple):
            self._add("keys" if isinstance(x, dict) else "length", x, None, path, above)
        for key in keys:
            self._add("item", x, key, f"{path}[{key!r}]", above)

    def _attributes(self, x: Any, names: Iterable[str], path: str, above: frozenset[int]) -> None:
        for name in names:
            if is_name(name):
                self._add("attribute", x, name, f"{path}.{name}", above)

    def _class(self, cls: type, path: str, above: frozenset[int]) -> None:
        """Visit the methods of a class, and its attributes."""
        for base in cls.__mro__:
            if _is_library(base.__module__):
                continue
            for name, value in vars(base).items():
                special = isinstance(value, FunctionType) and _is_special(name, value.__code__)
                if not special and name not in self._known.attributes:
                    continue
                within = [f for f in _functions_in(value) if f is not None]
                if not within:
                    self._add("attribute", base, name, f"{base.__name__}.{name}", above)
                elif isinstance(value, FunctionType) and not special:
                    self._add("attribute", base, name, f"{base.__name__}.{name}", above, value)
                else:
                    self._enter(above, *((f, f"{base.__name__}.{name}") for f in within))

    def _instance(self, x: Any, path: str, above: frozenset[int]) -> None:
        cls, wanted, path = type(x), self._known.attributes, path or type(x).__name__
        if _is_library(cls.__module__):
            return
        own = getattr(x, "__dict__", None)
        slots = {name for base in cls.__mro__ for name in _as_tuple(vars(base).get("__slots__", ()))}
        held = {*(own if type(own) is dict else ()), *(name for name in slots if hasattr(x, name))}
        self._attributes(x, sorted(held & wanted), path, above)
        for name in sorted(wanted - held - slots):
            inherited = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), MISSING)
            if inherited is MISSING and name in self._known.stored and not hasattr(cls, "__getattr__"):
                self._add("attribute", x, name, f"{path}.{name}", above)  # which the function may bind
            elif inherited is not MISSING and type(own) is dict and not name.startswith("__"):
                self._add("own", x, name, f"{path}.{name}", above)  # it may get one of its own
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
        return [value.fget]
    return [value.func] if hasattr(value, "func") and hasattr(value, "attrname") else []  # a cached property


def _as_tuple(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_library(module: str) -> bool:
    """Whether a module is Python's, NumPy's, SciPy's or symgrad's own: nobody binds its names anew."""
    top = str(module).partition(".")[0]
    return top in sys.stdlib_module_names - {"__main__"} or top in _LIBRARIES
