"""Names that the code of a function can reach: globals, its closure, and those of the functions that it calls."""

from __future__ import annotations

import dis
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from symgrad.core.provenance import Where, internal

MOST = 400  # functions that are looked at: of a large library not all


class Name(NamedTuple):
    """A name in some code, its namespace, and its value there."""

    holder: dict[str, Any] | CellType
    name: str
    value: Any  # MISSING where the name is one of Python's own
    code: CodeType

    @property
    def where(self) -> Where:
        """The first line that uses it."""
        line = self.code.co_firstlineno
        for instruction in dis.get_instructions(self.code):
            line = instruction.starts_line or line
            if instruction.argval == self.name:
                break
        return Where(self.code.co_filename, line)


MISSING = object()


def is_gone(x: Any) -> bool:
    """Whether a weak proxy has outlived its object: any question to it raises an error."""
    if type(x) not in weakref.ProxyTypes:
        return False
    try:
        return x.__class__ is None
    except ReferenceError:
        return True


def reach(function: Callable[..., Any]) -> Iterator[Name]:
    """Yield the names that `function` uses, and those of the functions that it finds under them, each once."""
    waiting: list[Any] = [function]
    looked_at: set[tuple[int, int]] = set()
    while waiting and len(looked_at) < MOST:
        f = _unwrapped(waiting.pop(0))
        code, key = getattr(f, "__code__", None), (id(getattr(f, "__func__", f)), id(getattr(f, "__self__", None)))
        if code is None or key in looked_at:
            continue
        looked_at.add(key)
        if isinstance(f, MethodType):
            waiting += [f.__func__, *_functions_in(f.__self__, code)]
            found = [] if internal(code) else _attributes(f.__self__, code)
        else:
            waiting += [m for default in f.__defaults__ or () for m in _functions_in(default, code)]
            found = _names_of(f, code)
        waiting += [m for name in found for m in _functions_in(name.value, code)]
        yield from found if not internal(code) else ()


def reads(function: Callable[..., Any], parameter: str) -> bool:
    """Whether a function may look at one of its arguments; False if it has no instruction that does."""
    f = _unwrapped(function)
    code = getattr(f, "__code__", None)
    if code is None or parameter not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        return True
    if parameter in code.co_cellvars or not _LOOK_AT_ALL.isdisjoint(code.co_names):
        return True
    return any(i.argval == parameter and i.opname.startswith("LOAD") for i in dis.get_instructions(code))


_LOOK_AT_ALL = {"locals", "vars", "eval", "exec", "dir"}


def _unwrapped(f: Any) -> Any:
    while isinstance(f, partial) or hasattr(f, "__wrapped__"):
        f = f.func if isinstance(f, partial) else f.__wrapped__
    if isinstance(f, (FunctionType, MethodType, type)) or not callable(f):
        return f
    return f.__call__


def _names_of(f: FunctionType, code: CodeType) -> list[Name]:
    """Globals and closure of a function; of symgrad's own functions the closure, which holds the user's."""
    cells = zip(code.co_freevars, f.__closure__ or (), strict=True)
    found = [Name(cell, name, cell.cell_contents, code) for name, cell in cells if cell != CellType()]
    if not internal(code):
        names = _global_names(code).items()
        found += [Name(f.__globals__, name, f.__globals__.get(name, MISSING), within) for name, within in names]
    return found


def _global_names(code: CodeType) -> dict[str, CodeType]:
    """The names that a function and the functions written inside of it look up, and where."""
    found = dict.fromkeys(code.co_names, code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found = _global_names(constant) | found
    return found


def _attributes(x: Any, code: CodeType) -> list[Name]:
    """Return the attributes of an instance that a method names."""
    own = own_attributes(x)
    return [Name(own, name, own[name], code) for name in code.co_names if name in own]


def own_attributes(x: Any) -> dict[str, Any]:
    """Return the ``__dict__`` of an instance, or an empty one: ``__getattr__`` may answer with anything else."""
    own = getattr(x, "__dict__", None)
    return own if isinstance(own, dict) else {}


def _methods(cls: type) -> list[Any]:
    """Return the functions that a class defines, including those of properties, static and class methods."""
    found = []
    for member in vars(cls).values():
        parts = (member.fget, member.fset) if isinstance(member, property) else (member,)
        found += [part.__func__ if isinstance(part, (staticmethod, classmethod)) else part for part in parts]
    return found


def _functions_in(value: Any, code: CodeType) -> list[Any]:
    """The functions that code may call which finds `value` under one of its names."""
    if is_gone(value):
        return []
    if isinstance(value, (FunctionType, MethodType, partial)) or hasattr(type(value), "__wrapped__"):
        return [value]
    if isinstance(value, ModuleType):
        members = [vars(value).get(name) for name in code.co_names]
    elif isinstance(value, type):
        members = _methods(value)
    elif hasattr(value, "__dict__"):
        methods = (getattr(type(value), name, None) for name in (*code.co_names, "__call__"))
        functions = [m.fget if isinstance(m, property) else m for m in methods]
        members = [MethodType(m, value) for m in functions if isinstance(m, FunctionType)]
    else:
        return []
    return [m for m in members if isinstance(m, (FunctionType, MethodType)) and not internal(m.__code__)]
