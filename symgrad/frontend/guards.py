"""Guards: context managers and bodies of `try` around the line that runs, which may catch an exception."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stderr, redirect_stdout
from types import TracebackType
from typing import Any

import numpy as np

from symgrad.core.graph import Graph, tracing
from symgrad.core.options import options


class Noted(AbstractContextManager[Any]):
    """A context manager of the user's, noted as long as it is entered."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def __enter__(self) -> Any:
        value = type(self._manager).__enter__(self._manager)
        guards_of(tracing.get()).append(self._manager)
        return value

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> Any:
        guards = guards_of(tracing.get())
        if self._manager in guards:
            guards.remove(self._manager)
        return type(self._manager).__exit__(self._manager, kind, error, trace)


def guards_of(graph: Graph | None) -> list[Any]:
    """Return the context managers and bodies of `try` around the line that runs."""
    return [] if graph is None else graph.guards


def managed(manager: Any) -> Any:
    """Return the replacement of a user's context manager."""
    is_known = isinstance(manager, np.errstate) or not hasattr(type(manager), "__exit__") or tracing.get() is None
    return manager if is_known else Noted(manager)


def trying(classes: Callable[[], Any]) -> AbstractContextManager[Any]:
    """Return what is entered in the body of a `try`, whose handlers are for these classes."""
    return Noted(Try(classes))


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
    return code is not None and code.co_filename == options.__wrapped__.__code__.co_filename  # type: ignore[attr-defined]


def name_of(manager: Any) -> str:
    """Return the name of a context manager: its class, or the function that makes it."""
    return str(getattr(getattr(manager, "gen", None), "__name__", type(manager).__name__))
