"""What stands at the top of a generated module so that its loops can run: the text of `symgrad.runtime`, in parts."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from functools import cache
from typing import Any, NamedTuple

from symgrad import runtime


class Part(NamedTuple):
    """Functions of the runtime, the imports that they need, and the lines before them."""

    imports: tuple[str, ...]
    package: tuple[str, ...]
    state: tuple[str, ...]
    functions: tuple[str, ...]


PARTS = {
    "_scratch": Part(
        ("from contextlib import contextmanager",),
        (),
        (
            "_kept = {}  # scratch memory that nobody uses at present, by what it is for",
            "_MOST = 1 << 28  # bytes of it that are kept",
        ),
        ("_scratch", "_make_room"),
    ),
    "_in_parts": Part(
        (
            "import os",
            "from collections import deque",
            "from concurrent.futures import ThreadPoolExecutor, wait",
            "from contextvars import copy_context",
            "from functools import cache",
        ),
        (),
        (),
        ("_cores", "_pool", "_in_parts"),
    ),
    "_blas_on_one_thread": Part(
        ("import os", "import threading", "from contextlib import contextmanager", "from functools import cache"),
        ("threadpoolctl",),
        ("_limiting = {}  # by process, for forks: a lock, the limit in force, whoever wants it",),
        ("_blas", "_blas_on_one_thread"),
    ),
}


CALLED = frozenset(("range", "min", "sum", "map", "zip", *PARTS))
"""What loops call by name, and what therefore no argument may be called."""


def imports_for(names: Collection[str]) -> list[str]:
    """Import lines, of the standard library."""
    return list({line: 0 for name in PARTS if name in names for line in PARTS[name].imports})


def packages_for(names: Collection[str]) -> list[str]:
    """What a module needs beside NumPy."""
    return [package for name in PARTS if name in names for package in PARTS[name].package]


def text_for(names: Collection[str]) -> str:
    """The functions that the generated function calls."""
    return "\n\n\n".join(_text(name) for name in PARTS if name in names)


@cache
def _text(name: str) -> str:
    part = PARTS[name]
    state = ["\n".join(part.state)] if part.state else []
    return "\n\n\n".join([*state, *(inspect.getsource(getattr(runtime, f)).rstrip() for f in part.functions)])


def shared(names: Collection[str]) -> dict[str, Any]:
    """The runtime's own functions, which are those that the text defines."""
    return {name: getattr(runtime, name) for name in PARTS if name in names}
