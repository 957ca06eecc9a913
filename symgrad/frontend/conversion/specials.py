"""Special methods of the user's classes: converted, where Python would call them from C.

In converted functions a stand-in takes the place of an object of such a class while one operator, subscript or
assignment is evaluated. It calls the methods that Python would call, in the same order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType, WrapperDescriptorType
from typing import Any

import numpy as np

from symgrad.core.provenance import internal
from symgrad.frontend import guards
from symgrad.frontend.conversion.construct import truth
from symgrad.frontend.conversion.functions import converted
from symgrad.frontend.conversion.inherited import changing
from symgrad.frontend.conversion.lists import written
from symgrad.frontend.conversion.mutable import UNDEFINED, per_class, root_of
from symgrad.frontend.conversion.state import see
from symgrad.ops.operands import is_traced
from symgrad.ops.truths import of_python

_BINARY = {
    "+": ("add", operator.add), "-": ("sub", operator.sub), "*": ("mul", operator.mul),
    "/": ("truediv", operator.truediv), "//": ("floordiv", operator.floordiv), "%": ("mod", operator.mod),
    "**": ("pow", operator.pow), "@": ("matmul", operator.matmul), "&": ("and", operator.and_),
    "|": ("or", operator.or_), "^": ("xor", operator.xor), "<<": ("lshift", operator.lshift),
    ">>": ("rshift", operator.rshift),
}  # fmt: skip
_IN_PLACE = {f"{symbol}=": getattr(operator, f"i{name}") for symbol, (name, _) in _BINARY.items()}
_COMPARED = {"<": ("lt", "gt"), "<=": ("le", "ge"), "==": ("eq", "eq"), "!=": ("ne", "ne"), ">": ("gt", "lt")}
_COMPARED |= {">=": ("ge", "le")}
_UNARY: dict[str, Callable[[Any], Any]] = {"neg": operator.neg, "pos": operator.pos, "invert": operator.invert}


# ---- the methods of a class


def method_of(cls: type, name: str) -> Any:
    """Return what Python finds for a special method: in the class, and not in its instance or its metaclass."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), UNDEFINED)


def is_users(method: Any) -> bool:
    """Whether a method is a function of the user's, or of a library that is converted."""
    return type(method) is FunctionType and not internal(method.__code__)


def users_method(x: Any, name: str) -> Any:
    """Return a special method of an object, to be called with the object; None where it is not the user's."""
    cls = type(x)
    if not cls.__flags__ & _HEAP or is_traced(x):
        return None
    return per_class(_users_methods, cls).get(name)


def call(method: Any, *args: Any) -> Any:
    """Call a method, converted if it is the user's."""
    if not is_users(method):
        return method(*args)
    see(method)
    return converted(method)(*args)


def managed(manager: Any) -> Any:
    """Return the replacement of a user's context manager."""
    return guards.managed(manager, call)


_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: all classes but those of compiled code


def _users_methods(cls: type) -> dict[str, Any]:
    return {name: method for name, method in _methods(cls).items() if is_users(method)}


def _methods(cls: type) -> dict[str, Any]:
    """Return the special methods of a class that are written in Python."""
    names = dict.fromkeys(name for base in cls.__mro__ for name in vars(base) if name.startswith("__"))
    found = {name: method_of(cls, name) for name in names}
    return {name: method for name, method in found.items() if type(method) is FunctionType}


def _stands_in(x: Any, kind: str) -> bool:
    """Whether an object has methods written in Python for operators or for subscripts."""
    cls = type(x)
    if not cls.__flags__ & _HEAP or is_traced(x) or root_of(cls) == "symgrad":
        return False
    return not per_class(_methods, cls).keys().isdisjoint(_NAMES[kind])


_OF_NUMBERS = {f"__{r}{name}__" for name, _ in _BINARY.values() for r in ("", "r")}
_NAMES = {
    "operators": _OF_NUMBERS | {f"__{name}__" for name in (*dict(_COMPARED.values()), *_UNARY)},
    "in place": _OF_NUMBERS | {f"__i{name}__" for name, _ in _BINARY.values()},
    "subscripts": {"__getitem__", "__setitem__", "__delitem__"},
}


# ---- operators


class _Operand:
    """Stands for an operand in one operation. Operands of compiled classes leave the operation to it."""

    __slots__ = ("of",)
    __array_ufunc__, __array_priority__ = None, 1e9
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, of: Any) -> None:
        self.of = of


class _Left(_Operand):
    """Stands for a left operand, or the only one."""

    __slots__ = ()


class _Right(_Operand):
    """Stands for a right operand: Python calls its reflected method when the left operand does not answer."""

    __slots__ = ()


def left(x: Any) -> Any:
    """Return the left operand of an operator: the object itself, unless its class has operators in Python."""
    return _Left(x) if _stands_in(x, "operators") else x


def right(x: Any) -> Any:
    """Return the right operand of an operator."""
    return _Right(x) if _stands_in(x, "operators") else x


def has_operators(x: Any) -> bool:
    """Whether the class of an object has operators of the user's."""
    return _stands_in(x, "in place")


def in_place(symbol: str, x: Any, y: Any) -> Any:
    """``x += y``, of a class with operators of the user's."""
    name, plain = _BINARY[symbol[:-1]][0], _IN_PLACE[symbol]
    method = method_of(type(x), f"__i{name}__")
    if method is UNDEFINED:
        return _binary(symbol, x, y, plain)
    if not is_users(method):
        return plain(x, y)
    found = call(method, x, y)
    return _binary(symbol, x, y) if found is NotImplemented else found


def _binary(symbol: str, x: Any, y: Any, in_place: Any = None) -> Any:
    name, plain = _BINARY[symbol.rstrip("=")]
    ours, theirs = method_of(type(x), f"__{name}__"), method_of(type(y), f"__r{name}__")
    if not _are_clear(ours, theirs):
        return (in_place or plain)(x, y)
    ways = [(ours, x, y)] if type(x) is type(y) else [(ours, x, y), (theirs, y, x)]
    if issubclass(type(y), type(x)) and theirs is not method_of(type(x), f"__r{name}__"):
        ways.reverse()
    found = _first(sorted(ways, key=lambda way: _joins_sequences(way[0], type(way[1]), name)))
    if found is NotImplemented:
        shown = "** or pow()" if symbol == "**" else symbol
        raise TypeError(f"unsupported operand type(s) for {shown}: {_class(x)!r} and {_class(y)!r}")
    return found


def _compare(symbol: str, x: Any, y: Any) -> Any:
    name, reflected = _COMPARED[symbol]
    ours, theirs = method_of(type(x), f"__{name}__"), method_of(type(y), f"__{reflected}__")
    if not _are_clear(ours, theirs) and not (symbol == "!=" and ours is _NE):
        return getattr(operator, name)(x, y)
    ways = [(ours, x, y), (theirs, y, x)]
    if type(x) is not type(y) and issubclass(type(y), type(x)):
        ways.reverse()
    found = _first(ways)
    if found is NotImplemented and symbol in ("==", "!="):
        return (x is y) is (symbol == "==")
    if found is NotImplemented:
        raise TypeError(f"{symbol!r} not supported between instances of {_class(x)!r} and {_class(y)!r}")
    return found


def _are_clear(*methods: Any) -> bool:
    """Whether to call methods, of which one is the user's, is what Python does: the others are compiled, or missing."""
    kinds = (FunctionType, WrapperDescriptorType)
    return any(map(is_users, methods)) and all(x is UNDEFINED or type(x) in kinds for x in methods)


def _joins_sequences(method: Any, cls: type, name: str) -> bool:
    """Whether a method joins or repeats sequences of Python's: those of numbers, and the user's, are asked before."""
    of = getattr(method, "__objclass__", None)
    is_of_python = not any(is_users(method_of(cls, half)) for half in (f"__{name}__", f"__r{name}__"))
    return is_of_python and hasattr(of, "__add__") and not hasattr(of, "__radd__")


def _first(ways: list[tuple[Any, Any, Any]]) -> Any:
    """Return the first result of methods, of which some may leave it to the next one."""
    for method, x, y in ways:
        found = NotImplemented if method is UNDEFINED else _different(x, y) if method is _NE else call(method, x, y)
        if found is not NotImplemented:
            return found
    return NotImplemented


def _different(x: Any, y: Any) -> Any:
    """``object.__ne__``, which asks ``__eq__``"""
    found = call(method_of(type(x), "__eq__"), x, y)
    if found is NotImplemented:
        return found
    known = truth(found)
    return of_python(np.logical_not(known)) if is_traced(known) else not known


_NE = object.__ne__


def _class(x: Any) -> str:
    """Return the name of a class as Python's messages have it."""
    cls = type(x)
    is_plain = cls.__flags__ & _HEAP or cls.__module__ == "builtins"
    return cls.__name__ if is_plain else f"{cls.__module__}.{cls.__name__}"


def _operator(operate: Callable[[str, Any, Any], Any], symbol: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the method of a left operand for an operator, and that of a right one."""
    return (
        lambda self, other: operate(symbol, self.of, other.of if type(other) is _Right else other),
        lambda self, other: operate(symbol, other, self.of),
    )


def _of_one(name: str, plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        found = method_of(type(self.of), name)
        return call(found, self.of) if is_users(found) else plain(self.of)

    return method


for _symbol, (_name, _) in _BINARY.items():
    _forward, _reflected = _operator(_binary, _symbol)
    setattr(_Left, f"__{_name}__", _forward)
    setattr(_Right, f"__r{_name}__", _reflected)
for _symbol, (_name, _half) in _COMPARED.items():
    _forward, _reflected = _operator(_compare, _symbol)
    setattr(_Left, f"__{_name}__", _forward)
    setattr(_Right, f"__{_half}__", _reflected)
for _name, _plain in _UNARY.items():
    setattr(_Left, f"__{_name}__", _of_one(f"__{_name}__", _plain))


# ---- subscripts


class _Subscripted:
    """Stands for an object whose items are read, set or deleted."""

    __slots__ = ("_of",)

    def __init__(self, of: Any) -> None:
        self._of = of

    def __getitem__(self, key: Any) -> Any:
        method = users_method(self._of, "__getitem__")
        return call(method, self._of, key) if method else self._of[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        method = users_method(self._of, "__setitem__")
        if method:
            call(method, self._of, key, value)
        else:
            self._of[key] = value

    def __delitem__(self, key: Any) -> None:
        method = users_method(self._of, "__delitem__")
        if method:
            call(method, self._of, key)
        else:
            del self._of[key]


def subscripted(x: Any) -> Any:
    """Return what is subscripted: the object itself, unless its class has methods of the user's for it."""
    return _Subscripted(x) if _stands_in(x, "subscripts") else x


def changed(x: Any) -> Any:
    """Return an object with an item that is set or deleted."""
    return subscripted(written(x))


# ---- attributes that are set


class _Assigned:
    """Stands for an object of which one attribute is set, or changed in place."""

    __slots__ = ("_of",)

    def __init__(self, of: Any) -> None:
        object.__setattr__(self, "_of", of)

    def __getattr__(self, name: str) -> Any:
        getter = getattr(method_of(type(self._of), name), "fget", None)
        return call(getter, self._of) if is_users(getter) else getattr(self._of, name)

    def __setattr__(self, name: str, value: Any) -> None:
        assign(self._of, name, value)


def assigned(x: Any, name: str) -> Any:
    """Return an object of which an attribute is about to be set: itself, unless a method of the user's does that."""
    return x if _setter(changing(x, name), name) is None else _Assigned(x)


def assign(x: Any, name: str, value: Any, /) -> None:
    """``setattr(x, name, value)``"""
    setter = _setter(changing(x, name), name)
    if setter is None:
        setattr(x, name, value)
    else:
        call(setter, x, *([] if setter is _property(x, name) else [name]), value)


def _setter(x: Any, name: str) -> Any:
    """Return the user's function that sets an attribute, None where there is none."""
    if not type(x).__flags__ & _HEAP or is_traced(x):
        return None
    if method_of(type(x), "__setattr__") is object.__setattr__:
        return _property(x, name)
    return users_method(x, "__setattr__")


def _property(x: Any, name: str) -> Any:
    """Return the setter of a property."""
    found = method_of(type(x), name)
    return found.fset if type(found) is property and is_users(found.fset) else None
