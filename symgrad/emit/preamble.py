"""What stands at the top of a generated module so that its loops can run: the text of `symgrad.runtime`, in parts."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from symgrad import runtime


class Part(NamedTuple):
    """Functions of the runtime, the imports that they need, and the lines before them."""

    standard: tuple[str, ...]
    others: tuple[str, ...]
    state: tuple[str, ...]
    functions: tuple[str, ...]


PARTS = {
    "_scratch": Part(
        ("from contextlib import contextmanager",),
        (),
        ("_kept = {}  # scratch memory that nobody uses at present",),
        ("_scratch",),
    ),
    "_in_parts": Part(
        (
            "import os",
            "from concurrent.futures import ThreadPoolExecutor",
            "from contextvars import copy_context",
            "from functools import cache",
        ),
        (),
        (),
        ("_cores", "_pool", "_in_parts"),
    ),
    "_blas_on_one_thread": Part(
        ("import threading", "from contextlib import contextmanager", "from functools import cache"),
        ("from threadpoolctl import ThreadpoolController",),
        ("_blas = cache(ThreadpoolController)", "_lock, _limits, _holders = threading.Lock(), [], []"),
        ("_blas_on_one_thread",),
    ),
}


def imports_for(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Import lines of the standard library, and of others than NumPy."""
    wanted = set(names)
    parts = [PARTS[name] for name in PARTS if name in wanted]
    return list({line: 0 for part in parts for line in part.standard}), [x for part in parts for x in part.others]


def packages_for(names: Iterable[str]) -> list[str]:
    """What a module needs beside NumPy."""
    return [line.split()[1] for line in imports_for(names)[1]]


def text_for(names: Iterable[str]) -> str:
    """The functions, ready to stand before the function that calls them."""
    wanted = set(names)
    return "\n\n\n".join(_text(name) for name in PARTS if name in wanted)


@cache
def _text(name: str) -> str:
    part = PARTS[name]
    state = ["\n".join(part.state)] if part.state else []
    return "\n\n\n".join([*state, *(inspect.getsource(getattr(runtime, f)).rstrip() for f in part.functions)])


def shared(namespace: dict[str, Any]) -> dict[str, Any]:
    """The runtime's own functions in the place of those that a module has defined."""
    return {name: getattr(runtime, name) for name in PARTS if name in namespace}
