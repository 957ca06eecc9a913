"""Clocks and the system's random generator: a program has what they gave while its function was traced."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NamedTuple

from symgrad.core.provenance import Where, here

ALWAYS = sys.maxsize
_CLOCKS: dict[str, dict[str, int]] = {
    "time": {
        **dict.fromkeys(("time", "monotonic", "perf_counter", "process_time", "thread_time"), ALWAYS),
        **dict.fromkeys(("time_ns", "monotonic_ns", "perf_counter_ns", "process_time_ns", "thread_time_ns"), ALWAYS),
        **dict.fromkeys(("clock_gettime", "clock_gettime_ns"), ALWAYS),
        **{"localtime": 1, "gmtime": 1, "ctime": 1, "asctime": 1, "strftime": 2},
    },
    "datetime": dict.fromkeys(("now", "utcnow", "today"), ALWAYS),
    os.name: {"times": ALWAYS},
}
"""Functions that read a clock, by their modules, and the number of arguments with which they do not."""
_ENTROPY = {
    os.name: ("urandom", "getrandom"),
    "nt": ("urandom",),
    "secrets": ("randbelow", "token_bytes", "token_hex", "token_urlsafe"),
    "uuid": ("uuid1", "uuid4"),
}
"""Functions that ask the system's random generator."""


class Reading(NamedTuple):
    """A clock that was read at a line."""

    clock: Callable[..., Any]
    where: Where
    result: Any


class Readings:
    """Clocks and the system's random generator, as one trace reads them.

    A body that is traced again finds the clocks as they were: its traces have to be alike.
    """

    def __init__(self) -> None:
        self._told: dict[Where, str] = {}  # the first function at each line
        self._tape: list[Reading] = []  # the clocks that bodies have read
        self.at = 0  # the place on the tape

    def note(self, name: str) -> None:
        """Note that a function is called whose result changes from call to call."""
        self._told.setdefault(here(), name)

    def read(self, clock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what a body reads from a clock: where it is traced again, the same as before."""
        where = here()
        known = self._tape[self.at] if self.at < len(self._tape) else None
        if known is None or (known.clock, known.where) != (clock, where):
            known = Reading(clock, where, clock(*args, **kwargs))
            self._tape[self.at :] = [known]
        self.at += 1
        return known.result

    def tell(self, warn: Callable[..., None]) -> bool:
        """Warn of what was read; say whether anything was."""
        for where, name in self._told.items():
            warn(f"{name} is called", where, "result becomes", "Call it outside of the function, and pass the result")
        return bool(self._told)


def name_of_entropy(function: Any) -> str:
    """The name of a function that asks the system's random generator, ``os.urandom``; "" of any other one."""
    if type(function) is MethodType:
        kind = getattr(sys.modules.get("random"), "SystemRandom", ())
        return f"SystemRandom.{function.__name__}" if isinstance(function.__self__, kind) else ""
    module, name = _place(function)
    return f"{_shown(module)}.{name}" if name in _ENTROPY.get(module, ()) else ""


def name_of_clock(function: Any, count: int) -> str:
    """The name of a function that reads a clock if it is called with `count` arguments; "" of any other one."""
    module, name = _place(function)
    is_clock = count < _CLOCKS.get(module, {}).get(name, 0)
    return f"{_shown(module)}.{getattr(function, '__qualname__', name)}" if is_clock else ""


def is_clock(function: Any) -> bool:
    """Whether a function reads a clock, at least with some arguments."""
    module, name = _place(function)
    return name in _CLOCKS.get(module, {})


def _place(function: Any) -> tuple[str, str]:
    """Return the module and the name of a function, or of a class method such as ``datetime.now``."""
    if type(function) not in (BuiltinFunctionType, FunctionType):
        return "", ""
    own = getattr(function, "__self__", None)
    return (own.__module__ if isinstance(own, type) else function.__module__) or "", function.__name__


def _shown(module: str) -> str:
    return "os" if module == os.name else module
