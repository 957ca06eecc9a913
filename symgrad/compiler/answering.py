"""Calls that C answers before any code of Python's runs.

Python finds `__call__` in the class of an object. Where it is a function of Python's, a dict of keywords, a tuple of
arguments and a frame are made first, which takes longer than many programs do. So an object whose calls C answers has a
class of its own, with the function of C in that place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

OWN = "_is_own"


def answer_calls(program: Any, bind: Callable[[Callable[..., Any]], Callable[..., Any]] | None) -> None:
    """Let a function of C answer the calls of an object, or Python again.

    Parameters
    ----------
    program : object
        Its class has a `__call__`.
    bind : callable or None
        Returns the function of C, given the function to be called with arguments that C does not take. None for Python.
    """
    cls = type(program)
    general: Any = cls.__base__ if OWN in vars(cls) else cls
    if bind is None:
        program.__class__ = general
        return
    names = {name: getattr(general, name) for name in ("__module__", "__qualname__", "__doc__")}
    own = {"__call__": bind(_by_python(program, general.__call__)), OWN: True, "__slots__": ()}
    program.__class__ = type(general.__name__, (general,), names | own)


def _by_python(program: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call of an object as a function, which does not keep it alive."""
    found = ref(program)

    def by_python(*args: Any, **kwargs: Any) -> Any:
        return call(found(), *args, **kwargs)

    return by_python
