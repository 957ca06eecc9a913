"""Conversion of functions: the function that stands for one during a trace."""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache, partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, TypeVar
from weakref import finalize

from symgrad.core.options import current
from symgrad.core.provenance import internal, package_of
from symgrad.frontend.conversion.contents import name_as
from symgrad.frontend.conversion.jumps import Unconvertible
from symgrad.frontend.conversion.templates import RUNTIME
from symgrad.frontend.numba import in_python

_F = TypeVar("_F")
_PACKAGES = ("numpy", "scipy")
_known: dict[int, CodeType | None] = {}  # by the id of a code that is alive: to hash a code takes long
CELL = CellType()
"""In which converted functions find the module `runtime`; it is put there by that module, which imports this one."""


def converted(function: _F) -> _F:
    """Convert the loops and branches of a user's function; return any other function unchanged."""
    function = in_python(function)
    return function if current().loops == "unroll" else _converted(function)


def _converted(f: Any) -> Any:
    if type(f) is FunctionType:
        return _function(f)
    if type(f) is MethodType:
        inner = _converted(f.__func__)
        return f if inner is f.__func__ else MethodType(inner, f.__self__)
    if type(f) is partial:
        inner = _converted(f.func)
        return f if inner is f.func else partial(inner, *f.args, **f.keywords)
    if isinstance(f, type):
        return _constructor(f)
    call = getattr(type(f), "__call__", None)  # noqa: B004
    return MethodType(_function(call), f) if type(call) is FunctionType and _code(call) is not None else f


def _constructor(cls: type) -> Any:
    """Return a constructor with the ``__init__`` of a class converted, or the class where nothing changes."""
    begin = cls.__init__  # type: ignore[misc]
    changes = any(type(f) is FunctionType and _code(f) is not None for f in (begin, _after(cls)))
    if not changes or type(cls).__call__ is not type.__call__ or issubclass(cls, BaseException):
        return cls

    def construct(*args: Any, **kwargs: Any) -> Any:
        made: Any = cls.__new__(cls, *args, **kwargs)
        if isinstance(made, cls):
            _convert_after(made)
            _converted(type(made).__init__)(made, *args, **kwargs)
        return made

    return construct


def _after(cls: type) -> Any:
    """Return the ``__post_init__`` of a dataclass, which its generated ``__init__`` calls."""
    return getattr(cls, "__post_init__", None) if is_dataclass(cls) else None


def _convert_after(x: Any) -> None:
    """Let the ``__init__`` of an instance of a dataclass find ``__post_init__`` converted."""
    own = getattr(x, "__dict__", None)
    if own is None or _after(type(x)) is None:
        return
    after = _converted(x.__post_init__)

    def call_once(*args: Any) -> None:
        own.pop("__post_init__")
        after(*args)

    own["__post_init__"] = call_once


def as_users(f: _F) -> _F:
    """A function of symgrad's that is always called as a user's would be, converted: when it is called first."""

    @cache
    def made() -> Any:
        code = _made(f)  # type: ignore[arg-type]
        return f if code is None else _with(f, code)  # type: ignore[arg-type]

    return lambda *args: made()(*args)  # type: ignore[return-value]


def _function(f: FunctionType) -> FunctionType:
    code = _code(f)
    return f if code is None else _with(f, code)


def _with(f: FunctionType, code: CodeType) -> FunctionType:
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    cells[RUNTIME] = CELL
    closure = tuple(cells[name] for name in code.co_freevars)
    new = FunctionType(code, f.__globals__, f.__name__, f.__defaults__, closure)
    new.__kwdefaults__, new.__qualname__ = f.__kwdefaults__, f.__qualname__
    new.__module__, new.__doc__ = f.__module__, f.__doc__
    new.__dict__.update(f.__dict__)
    return new


def _code(f: FunctionType) -> CodeType | None:
    """The code that stands for that of a function; None where it stays as it is."""
    code = f.__code__
    if internal(code) or RUNTIME in code.co_freevars or package_of(code) in _PACKAGES:
        return None
    key = id(code)
    if key not in _known:
        finalize(code, _known.pop, key, None)  # first: an entry that outlives its code would be that of another
        _known[key] = _made(f)
    return _known[key]


def _made(f: FunctionType) -> CodeType | None:
    from symgrad.frontend.conversion.lowering import lowered  # when the first function is traced
    from symgrad.frontend.conversion.source import compiled, source_of

    code = f.__code__
    source = source_of(code, f.__globals__)
    if source is None:
        return None
    shadowed = {*f.__globals__, *code.co_freevars}
    try:
        new = compiled(source._replace(definition=lowered(source.definition, shadowed)), code, (RUNTIME,))
    except (Unconvertible, SyntaxError):  # Python nests twenty blocks
        return None
    if RUNTIME not in new.co_freevars:
        return None
    new = new.replace(co_qualname=code.co_qualname)
    name_as(new, code)
    return new
