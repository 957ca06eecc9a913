"""Guards: context managers and bodies of `try` around the line that runs, which may catch an exception."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stderr, redirect_stdout
from functools import cache
from textwrap import dedent
from types import CodeType, TracebackType
from typing import Any

import numpy as np

from symgrad.core.graph import Graph, tracing
from symgrad.core.options import options


class Noted(AbstractContextManager[Any]):
    """A context manager of the user's, noted as long as it is entered."""

    def __init__(self, manager: Any, call: Callable[..., Any]) -> None:
        self._manager, self._call = manager, call

    def __enter__(self) -> Any:
        value = self._call(type(self._manager).__enter__, self._manager)
        guards_of(tracing.get()).append(self._manager)
        return value

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> Any:
        guards = guards_of(tracing.get())
        if self._manager in guards:
            guards.remove(self._manager)
        return self._call(type(self._manager).__exit__, self._manager, kind, error, trace)


def guards_of(graph: Graph | None) -> list[Any]:
    """Return the context managers and bodies of `try` around the line that runs."""
    return [] if graph is None else graph.guards


def managed(manager: Any, call: Callable[..., Any]) -> Any:
    """Return the replacement of a user's context manager, whose methods `call` calls."""
    is_known = isinstance(manager, np.errstate) or not hasattr(type(manager), "__exit__") or tracing.get() is None
    return manager if is_known else Noted(manager, call)


def trying(classes: Callable[[], Any]) -> AbstractContextManager[Any]:
    """Return what is entered in the body of a `try`, whose handlers are for these classes."""
    return Noted(Try(classes), lambda method, *args: method(*args))


class Try(AbstractContextManager[Any]):
    """The body of a `try`, whose handlers are for some classes."""

    def __init__(self, classes: Callable[[], Any]) -> None:
        self._classes = classes

    def lets_pass(self, kind: type) -> bool:
        """Whether no handler is for exceptions of a class."""
        try:
            return not issubclass(kind, self._classes())
        except Exception:  # None: they are not known; or a name that Python looks up when it handles an exception
            return False

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


def lets_pass(manager: Any, error: Any) -> bool:
    """Whether a context manager, or the handlers of a `try`, surely let an exception through."""
    if isinstance(manager, Try):
        return manager.lets_pass(error if isinstance(error, type) else type(error))
    if isinstance(manager, (np.errstate, warnings.catch_warnings, nullcontext, redirect_stdout, redirect_stderr)):
        return True
    code = getattr(getattr(manager, "gen", None), "gi_code", None)
    if code is None:
        return _gives_nothing(getattr(type(manager).__exit__, "__code__", None))
    is_own = code.co_filename == options.__code__.co_filename
    return is_own or _handles_nothing(code)


@cache
def _handles_nothing(code: CodeType) -> bool:
    """Whether no handler is around where the generator of a `contextlib.contextmanager` yields, by its source."""
    around = [x for x in _source_of(code) if isinstance(x, (ast.Try, ast.TryStar, ast.With)) and _yields(x)]
    return bool(_source_of(code)) and not any(isinstance(x, ast.With) or x.handlers or _jumps(x) for x in around)


@cache
def _gives_nothing(code: CodeType | None) -> bool:
    """Whether a method such as ``__exit__`` returns None or False, by its source: then an exception goes on."""
    returned = [x.value for x in _source_of(code) if isinstance(x, ast.Return)]
    known = [x is None or (isinstance(x, ast.Constant) and x.value in (None, False)) for x in returned]
    return bool(_source_of(code)) and all(known)


def _source_of(code: CodeType | None) -> list[ast.AST]:
    """Return the parts of a function's source; none where it has none, or is a lambda."""
    try:
        tree = ast.parse(dedent(inspect.getsource(code))) if code is not None else ast.Module([], [])
    except (OSError, SyntaxError):
        return []
    return [*ast.walk(tree)] if tree.body and isinstance(tree.body[0], ast.FunctionDef) else []


def _yields(x: ast.AST) -> bool:
    return any(isinstance(y, (ast.Yield, ast.YieldFrom)) for y in ast.walk(x))


def _jumps(x: ast.Try | ast.TryStar) -> bool:
    """Whether a `finally` returns or leaves a loop, and with it ends an exception."""
    ends = (ast.Return, ast.Break, ast.Continue)
    return any(isinstance(y, ends) for statement in x.finalbody for y in ast.walk(statement))


def name_of(manager: Any) -> str:
    """Return the name of a context manager: its class, or the function that makes it."""
    return str(getattr(getattr(manager, "gen", None), "__name__", type(manager).__name__))
