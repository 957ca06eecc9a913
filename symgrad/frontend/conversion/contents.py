"""State that a body can reach: all mutable objects, the changes that the body makes, and their undoing."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from types import BuiltinMethodType, CodeType, FrameType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any
from weakref import finalize, ref

import numpy as np

from symgrad.core.provenance import internal, package_of
from symgrad.errors import UnsupportedError
from symgrad.frontend.conversion.inherited import inherited
from symgrad.frontend.conversion.mutable import (
    DICT,
    OBJECT,
    OWN,
    UNDEFINED,
    Kind,
    Place,
    State,
    is_same,
    is_same_form,
    kind_of,
    path,
    per_class,
    root_of,
)
from symgrad.frontend.reach import is_gone
from symgrad.ops.operands import is_traced

CONSTRUCT = ".here"
"""Prefix of the names that hold loops and branches while they run."""

MOST = 20_000
"""Mutable objects that are looked into; a body that reaches more is not converted."""


class HiddenStateError(UnsupportedError):
    """A body reaches state that cannot be compared or restored."""


class Entry:
    """A mutable object, and its state when it was first seen; `names` are the keys that matter, None for all."""

    __slots__ = ("form", "holder", "kind", "name", "names", "state")

    def __init__(self, holder: Any, kind: Kind, name: str, names: Collection[str] | None = None) -> None:
        self.holder, self.kind, self.name, self.names = holder, kind, name, names
        self.state, self.form = self.now(), None if names is not None else kind.form(holder)

    def now(self) -> State:
        """The present state."""
        if self.names is None:
            return self.kind.read(self.holder)
        keys = [name for name in self.names if name in self.holder]
        return State(keys, [self.holder[name] for name in keys])

    def add_names(self, names: Collection[str]) -> list[Any]:
        """Note further keys of a namespace; the values that they have."""
        assert self.names is not None
        new = [name for name in names if name not in self.names and name in self.holder]
        self.names = {**dict.fromkeys(self.names), **dict.fromkeys(names)}
        keys, values = self.state
        added = [self.holder[name] for name in new]
        self.state = State([*(keys or ()), *new], [*values, *added])
        return added

    def reform(self, form: Any) -> None:
        """Give the object another form with the values that it has."""
        if not is_same_form(form, self.kind.form(self.holder)):
            items = self.now().items
            keys = form if type(form) is tuple else tuple(items)
            self.kind.restore(self.holder, State(keys, [items[key] for key in keys]), form)

    def restore(self) -> None:
        """Set the state of the beginning."""
        if self.names is None:
            self.kind.restore(self.holder, self.state, self.form)
            return
        before = self.state.items
        for name in self.names:
            if name in before:
                self.holder[name] = before[name]
            elif not isinstance(self.holder.get(name), ModuleType):  # imported meanwhile, it stays so
                self.holder.pop(name, None)


class Contents:
    """The state of all mutable objects that can be reached from some values, and from the globals that code names.

    `read` are the names that the body reads, None for all: from these no iterator may be reached. What functions reach
    that the body calls is added when they are called, by `see`.
    """

    def __init__(
        self, values: Mapping[str, Any], read: Collection[str] | None = None, frame: FrameType | None = None
    ) -> None:
        self.values = dict(values)
        self.found: dict[int, Entry] = {}
        self.arrays: list[np.ndarray] = []  # real ones, which the body could write into
        self._called: dict[int, CodeType] = {}  # of functions whose globals are among the state
        self._met: dict[int, Any] = {}  # all that was looked at: their ids stay theirs
        self._names: dict[str, None] = {}  # of attributes that code may ask for
        self._modules: list[ModuleType] = []
        own = {name: x for name, x in values.items() if not name.startswith(CONSTRUCT)}
        if frame is not None and not internal(frame.f_code):
            self._names_of(frame.f_code, frame.f_globals, read)
        self._look([(name, x) for name, x in own.items() if read is None or name in read], frame is not None)
        self._look([*own.items()], False)

    def see(self, function: Any) -> None:
        """Add the globals that a function names which is about to be called.

        Its closure, defaults and instance are known where they are older than the body; others are the body's own.
        """
        if isinstance(function, partial):
            function = function.func
        if isinstance(function, type):
            function = function.__init__  # type: ignore[misc]
        function = getattr(function, "__func__", function)
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType) and id(code) not in self._called:
            self._called[id(code)] = code
            if not (internal(code) or package_of(code) in OWN):
                self._names_of(code, function.__globals__)

    def _names_of(self, code: CodeType, namespace: dict[str, Any], read: Collection[str] | None = None) -> None:
        """Add the globals, and attributes of modules, that code names; `read` ones must not be iterators."""
        names = mentioned(code)
        for module in [*self._modules]:
            self._add_names(vars(module), names, f"{module.__name__}.")
        self._names.update(dict.fromkeys(names))
        self._add_names(namespace, [name for name in names if read is None or name in read], "")
        if read is not None:
            self._add_names(namespace, names, "", strict=False)

    def _add_names(self, namespace: dict[str, Any], names: Collection[str], prefix: str, strict: bool = True) -> None:
        entry = self.found.get(id(namespace))
        if entry is None:
            entry = self.found[id(namespace)] = Entry(namespace, DICT, prefix, dict.fromkeys(names))
            self._met[id(namespace)] = namespace
            new: Sequence[Any] = entry.state.values
        else:
            new = entry.add_names(names) if entry.names is not None else ()
        self._look([(getattr(x, "__name__", "a global") if prefix else _name_in(entry, x), x) for x in new], strict)

    def _look(self, waiting: list[tuple[str, Any]], strict: bool) -> None:
        """Note objects, and those in them; `strict` refuses iterators."""
        while waiting:
            name, x = waiting.pop()
            if id(x) in self._met or is_gone(x) or is_traced(x):
                continue
            self._met[id(x)] = x
            if isinstance(x, ModuleType):
                if not _is_library(x):
                    self._modules.append(x)
                    self._add_names(vars(x), self._names, f"{x.__name__}.", strict)
                continue
            if isinstance(x, np.ndarray):
                self.arrays.append(x)
                waiting += [(name, y) for y in x.flat] if x.dtype == object else []
                continue
            if strict and _is_iterator(type(x)):
                raise HiddenStateError(
                    f"{name} is an iterator, and a loop or a branch that depends on traced values may advance it",
                    "Take its items first: items = [*iterator].",
                )
            kind = kind_of(type(x)) if _has_state(x) else None
            found = parts(x)
            if kind is not None:
                entry = self.found[id(x)] = Entry(x, kind, name)
                waiting += self._inside(entry, strict)
                found = (*kind.parts(x), *found)
                if len(self.found) > MOST:
                    raise HiddenStateError(
                        f"a loop or a branch can reach more than {MOST:,} lists, dicts and objects from {name}",
                        "Pass what it needs as arguments.",
                    )
            inside = [(name, y) for y in found if type(y) not in _ATOMS]
            if isinstance(x, BuiltinMethodType):  # a list is rather called by its own name than by that of its method
                waiting[:0] = inside
            else:
                waiting += inside

    def _inside(self, entry: Entry, strict: bool) -> Iterator[tuple[str, Any]]:
        keys, values = entry.state
        named = strict and (entry.kind is OBJECT or isinstance(entry.holder, type))
        for i, y in enumerate(values):
            if type(y) in _ATOMS or (named and _is_iterator(type(y)) and keys and keys[i] not in self._names):
                continue
            if not (isinstance(entry.holder, type) and isinstance(y, FunctionType)):
                yield entry.name, y

    # ---- changes

    def changes(self) -> Iterator[tuple[Place, Any, Any]]:
        """Yield the places that have changed, with their old and new values, UNDEFINED for none.

        The old value of an attribute that an object has got is that which it has inherited.
        """
        for entry in self.found.values():
            now = entry.now()
            if entry.state.is_same(now):
                continue
            old, new = entry.state.items, now.items
            for key in [*old, *(key for key in new if key not in old)]:
                a, b = old.get(key, UNDEFINED), new.get(key, UNDEFINED)
                own = a is UNDEFINED and entry.kind is OBJECT
                if own:
                    a = inherited(entry.holder, key)
                is_imported = a is UNDEFINED and isinstance(b, ModuleType)
                if own or (a is not b and not is_same(a, b) and not is_imported):
                    yield Place(entry.holder, key, path(entry.holder, key, entry.name)), a, b

    def forms(self) -> dict[int, tuple[Entry, Any]]:
        """The objects whose form has changed, and the form that they have now."""
        found = {}
        for key, entry in self.found.items():
            if entry.names is None and not is_same_form(entry.form, now := entry.kind.form(entry.holder)):
                found[key] = entry, now
        return found

    def has_changed(self) -> bool:
        """Whether any object holds something else now, or has another form."""
        return next(self.changes(), None) is not None or bool(self.forms())

    def restore(self) -> None:
        """Restore the values that all objects had."""
        for entry in self.found.values():
            kept = entry.names is not None or is_same_form(entry.form, entry.kind.form(entry.holder))
            if not kept or not entry.state.is_same(entry.now()):
                entry.restore()


def _name_in(entry: Entry, x: Any) -> str:
    return next(str(key) for key, y in zip(entry.state.keys or (), entry.state.values, strict=True) if y is x)


def parts(x: Any) -> Sequence[Any]:
    """The objects in one that is not mutable itself."""
    if isinstance(x, (tuple, frozenset)):
        return tuple(x)
    if isinstance(x, MethodType):
        return (x.__func__, x.__self__)
    if isinstance(x, (BuiltinMethodType, MethodWrapperType)):
        return (x.__self__,)
    return (x(),) if isinstance(x, ref) else ()


_ATOMS = {int, float, complex, bool, str, bytes, type(None), np.float64, np.float32, np.int64, np.bool_}


def _is_library(module: ModuleType) -> bool:
    root = module.__name__.partition(".")[0]
    return root in OWN or root in sys.stdlib_module_names


_mentioned: dict[int, tuple[str, ...]] = {}  # by the id of a code that is alive: to hash a code takes long


def mentioned(code: CodeType) -> tuple[str, ...]:
    """The names of globals and attributes in a code, and in the codes of functions that are written in it."""
    if id(code) not in _mentioned:
        inner = [name for x in code.co_consts if isinstance(x, CodeType) for name in mentioned(x)]
        _note(code, tuple(dict.fromkeys([*code.co_names, *inner])))
    return _mentioned[id(code)]


def name_as(converted: CodeType, code: CodeType) -> None:
    """Give converted code the names of the code that it was made from."""
    _note(converted, tuple(dict.fromkeys([*mentioned(converted), *mentioned(code)])))


def _note(code: CodeType, names: tuple[str, ...]) -> None:
    if id(code) not in _mentioned:
        finalize(code, _mentioned.pop, id(code), None)
    _mentioned[id(code)] = names


# ---- what is looked into


def _is_iterator(cls: type) -> bool:
    """Whether instances are iterators of Python's own: their position is nowhere to be read."""
    return per_class(_steps_unseen, cls)


def _steps_unseen(cls: type) -> bool:
    step = getattr(cls, "__next__", None)
    return step is not None and not isinstance(step, FunctionType) and not hasattr(cls, "write")


def _has_state(x: Any) -> bool:
    """Whether a class is looked into: not one of Python's, NumPy's or symgrad's."""
    return not isinstance(x, type) or bool(x.__flags__ & _HEAP and root_of(x) not in OWN)


_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE
