"""Undoing work however it ends: an interrupt may come at any line, also during the undoing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import wraps
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def contained(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let a function run in a copy of the context: the context variables that it sets are gone after it."""

    @wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return copy_context().run(function, *args, **kwargs)

    return run


@contextmanager
def setting(variable: ContextVar[_T], value: _T) -> Iterator[None]:
    """Let a context variable have a value within the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def surely(undo: Callable[[], None], function: Callable[[], _T]) -> _T:
    """Call a function, and then `undo` twice: if an interrupt ends the first, the second completes it."""
    try:
        try:
            return function()
        finally:
            undo()
    finally:
        undo()
