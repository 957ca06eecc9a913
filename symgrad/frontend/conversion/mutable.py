"""Mutable objects by kind: the values that an object holds by key, the rest of its state, and how to set both."""

from __future__ import annotations

import array
import io
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from operator import is_
from types import CellType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from symgrad.frontend.conversion.defaults import Defaults
from symgrad.frontend.conversion.either import Either
from symgrad.frontend.reach import own_attributes


class _Undefined:
    """The value of a name that is not bound."""

    def __repr__(self) -> str:
        return "not bound"


UNDEFINED = _Undefined()


class Stateful:
    """An object of symgrad's whose attributes are state of the user's program."""


# ---- kinds of mutable objects


class State(NamedTuple):
    """Values by key; `keys` is None for positions 0, 1, ..."""

    keys: Sequence[Any] | None
    values: Sequence[Any]

    @property
    def items(self) -> dict[Any, Any]:
        """The values as a dict."""
        return dict(enumerate(self.values) if self.keys is None else zip(self.keys, self.values, strict=True))

    def is_same(self, other: State) -> bool:
        """Whether keys and values are the same objects in the same order."""
        return _identical(self.values, other.values) and _identical(self.keys or (), other.keys or ())


def _identical(xs: Sequence[Any], ys: Sequence[Any]) -> bool:
    return len(xs) == len(ys) and all(map(is_, xs, ys))


class Kind(NamedTuple):
    """The functions that read and set one kind of mutable object."""

    read: Callable[[Any], State]
    put: Callable[[Any, Any, Any], None]  # one value, by its key
    restore: Callable[[Any, State, Any], None]  # all values, and the form
    form: Callable[[Any], Any] = lambda x: None  # state that no loop can carry and no branch can choose
    parts: Callable[[Any], Sequence[Any]] = lambda x: ()  # other objects to look into


def per_class(function: Callable[[type], Any], cls: type) -> Any:
    """Cache a function of a class."""
    known = _known.get(function)
    if known is None:
        known = _known.setdefault(function, WeakKeyDictionary())
    found = known.get(cls, UNDEFINED)
    if found is UNDEFINED:
        found = known[cls] = function(cls)
    return found


_known: dict[Any, WeakKeyDictionary[type, Any]] = {}


def _restore_list(x: Any, state: State, form: Any) -> None:
    list.__setitem__(x, slice(None), state.values)


def _restore_deque(x: Any, state: State, form: Any) -> None:
    x.clear()
    x.extend(state.values)


def _restore_dict(x: Any, state: State, form: Any) -> None:
    base = OrderedDict if isinstance(x, OrderedDict) else dict
    base.clear(x)
    base.update(x, state.items)


def _restore_set(x: Any, state: State, form: Any) -> None:
    set.clear(x)
    set.update(x, form)


def _restore_bytes(x: Any, state: State, form: Any) -> None:
    x[:] = form


def _content(x: Any) -> Any:
    """Return the content of a file in memory; None once it is closed."""
    return None if x.closed else x.getvalue()


def _restore_file(x: Any, state: State, form: Any) -> None:
    if form is not None and not x.closed:
        x.seek(0)
        x.truncate()
        x.write(form)


def _put_item(x: Any, key: Any, value: Any) -> None:
    if isinstance(x, (list, deque)) and key == len(x):  # both sides of a branch have appended
        x.append(value)
    else:
        x[key] = value


def _read_cell(x: CellType) -> State:
    return State((0,), (x.cell_contents,)) if x != CellType() else State((), ())


def _put_cell(x: CellType, key: Any, value: Any) -> None:
    x.cell_contents = value


def _restore_cell(x: CellType, state: State, form: Any) -> None:
    if state.values:
        x.cell_contents = state.values[0]
    elif x != CellType():
        del x.cell_contents


def _read_variable(x: ContextVar[Any]) -> State:
    try:
        return State((0,), (x.get(),))
    except LookupError:
        return State((), ())


def _put_variable(x: ContextVar[Any], key: Any, value: Any) -> None:
    x.set(value)


def _restore_variable(x: ContextVar[Any], state: State, form: Any) -> None:
    if state.values:
        x.set(state.values[0])
    elif x.get(UNDEFINED) is not UNDEFINED:  # without a token it stays set: to what no program can use
        x.set(UNDEFINED)


def _slots(kind: type) -> dict[str, Any]:
    """The descriptors of the slots of a class, by name."""
    return per_class(_slots_of, kind)


def _slots_of(kind: type) -> dict[str, Any]:
    members = [item for base in reversed(kind.__mro__) if "__slots__" in vars(base) for item in vars(base).items()]
    return {name: x for name, x in members if isinstance(x, MemberDescriptorType)}


def _read_object(x: Any) -> State:
    found = dict(own_attributes(x))
    for name, slot in _slots(type(x)).items():
        try:
            found[name] = slot.__get__(x)
        except AttributeError:  # not bound
            continue
    return State(tuple(found), tuple(found.values()))


def _put_attribute(x: Any, name: str, value: Any) -> None:
    slot = _slots(type(x)).get(name)
    if slot is None:
        x.__dict__[name] = value
    else:
        slot.__set__(x, value)


def _restore_object(x: Any, state: State, form: Any) -> None:
    slots, items = _slots(type(x)), state.items
    own = own_attributes(x)
    own.clear()
    own.update({name: value for name, value in items.items() if name not in slots})
    for name, slot in slots.items():
        if name in items:
            slot.__set__(x, items[name])
        elif hasattr(x, name):
            slot.__delete__(x)


def _read_class(x: type) -> State:
    found = {name: value for name, value in vars(x).items() if not name.startswith("__")}
    return State(tuple(found), tuple(found.values()))


def _restore_class(x: type, state: State, form: Any) -> None:
    now, before = _read_class(x).items, state.items
    for name in now.keys() - before.keys():
        type.__delattr__(x, name)
    for name, value in before.items():
        if now.get(name, UNDEFINED) is not value:
            type.__setattr__(x, name, value)


def _parts_of_function(f: FunctionType) -> Sequence[Any]:
    return *(f.__closure__ or ()), *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()


def _parts_of_class(x: type) -> Sequence[Any]:
    """Return its bases, its metaclass, and what its functions hold."""
    return *x.__bases__, type(x), *(y for member in vars(x).values() for y in _parts_of_member(member))


def _parts_of_member(member: Any) -> Sequence[Any]:
    """Return what the functions of a member hold: one that has attributes is state itself."""
    found: Sequence[Any] = (member,)
    if isinstance(member, property):
        found = (member.fget, member.fset, member.fdel)
    elif isinstance(member, (classmethod, staticmethod)):
        found = (member.__func__,)
    functions = [f for f in found if type(f) is FunctionType]
    return [y for f in functions for y in ((f,) if f.__dict__ else _parts_of_function(f))]


_EMPTY = State((), ())
DICT = Kind(lambda x: State([*x.keys()], [*x.values()]), _put_item, _restore_dict, form=tuple)
OBJECT = Kind(_read_object, _put_attribute, _restore_object, parts=lambda x: (type(x),))
_KINDS: dict[type, Kind] = {
    list: Kind(lambda x: State(None, list(x)), _put_item, _restore_list),
    deque: Kind(lambda x: State(None, list(x)), _put_item, _restore_deque),
    Defaults: DICT._replace(read=lambda x: State(x.own_keys(), [*dict.values(x)]), form=Defaults.own_keys),
    dict: DICT,
    set: Kind(lambda x: _EMPTY, _put_item, _restore_set, form=frozenset, parts=tuple),
    bytearray: Kind(lambda x: _EMPTY, _put_item, _restore_bytes, form=bytes),
    array.array: Kind(lambda x: _EMPTY, _put_item, _restore_bytes, form=lambda x: x[:]),
    CellType: Kind(_read_cell, _put_cell, _restore_cell),
    FunctionType: OBJECT._replace(parts=_parts_of_function),
    type: Kind(_read_class, type.__setattr__, _restore_class, parts=_parts_of_class),
    io.StringIO: Kind(lambda x: _EMPTY, _put_item, _restore_file, form=_content),
    io.BytesIO: Kind(lambda x: _EMPTY, _put_item, _restore_file, form=_content),
    ContextVar: Kind(_read_variable, _put_variable, _restore_variable),
    threading.local: OBJECT,
    Either: Kind(lambda x: _EMPTY, _put_item, lambda x, state, form: None, parts=lambda x: (x.then, x.other)),
    Stateful: OBJECT,
    partial: OBJECT._replace(parts=lambda x: (x.func, *x.args, x.keywords)),
}
_NO_STATE = (str, bytes, ModuleType, MethodType, np.ndarray, np.generic)
OWN = ("builtins", "numpy", "scipy", "symgrad")
"""Packages whose objects hold no state of the user's program."""


def kind_of(cls: type) -> Kind | None:
    """Return the kind of a class's instances; None if they have no mutable state that is known."""
    return per_class(_kind_of, cls)


def root_of(cls: type) -> str:
    """Return the package of a class; "" where it has no name of a module, as some compiled ones."""
    name: Any = cls.__module__
    return name.partition(".")[0] if isinstance(name, str) else ""


def _kind_of(cls: type) -> Kind | None:
    base, root = next((known for known in _KINDS if issubclass(cls, known)), None), root_of(cls)
    if base is not None:
        kind = _KINDS[base]
        of_users = kind.read is not _read_object and base is not type and root not in OWN
        return kind._replace(parts=partial(_parts_and_attributes, kind)) if of_users and cls.__dictoffset__ else kind
    if issubclass(cls, _NO_STATE) or (root in OWN and not (root == "builtins" and issubclass(cls, BaseException))):
        return None
    return OBJECT if cls.__dictoffset__ or _slots(cls) else None


def _parts_and_attributes(kind: Kind, x: Any) -> Sequence[Any]:
    """Return the parts of a list or a dict, say, of a class of the user's; its attributes are a dict of their own."""
    return *kind.parts(x), own_attributes(x)


# ---- places


class Place(NamedTuple):
    """A name, an item of a list or a dict, an attribute, or the content of a cell."""

    holder: Any  # None of a name
    key: Any
    name: str  # in messages

    @property
    def id(self) -> tuple[int, Any]:
        return (id(self.holder), self.key)

    def put(self, value: Any) -> None:
        """Let the object hold a value there."""
        kind = kind_of(type(self.holder))
        assert kind is not None
        kind.put(self.holder, self.key, value)


def path(holder: Any, key: Any, name: str) -> str:
    """Return what messages call the value that an object holds under a key."""
    if isinstance(holder, CellType):
        return name
    if not isinstance(holder, (list, dict, deque)):
        return f"{name}.{key}"
    return f"{name}[{key!r}]" if name else f"{key}"


# ---- the same


def is_same_form(a: Any, b: Any) -> bool:
    """Whether two forms of one object are the same."""
    if type(a) is not tuple:
        return bool(a == b)
    return len(a) == len(b) and all(x is y or x == y for x, y in zip(a, b, strict=True))


def is_same(a: Any, b: Any) -> bool:
    """Whether it makes no difference which of two values there is: Python's own numbers and texts that are equal."""
    if a is b:
        return True
    return type(a) is type(b) and type(a) in _PLAIN and repr(a) == repr(b)


_PLAIN = (bool, int, float, complex, str, bytes, type(None))
