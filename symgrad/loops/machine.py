"""The machine that code is generated for: its cores, and the caches of one core."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from symgrad.core.undo import setting

USUAL_CACHE, USUAL_SHARE, USUAL_CORES = 1 << 20, 16 << 20, 2
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20}
_any: ContextVar[bool] = ContextVar("any", default=False)


def any_machine() -> AbstractContextManager[None]:
    """Generate code for a usual machine within the context, so that the text is the same everywhere."""
    return setting(_any, True)


def cache_bytes() -> int:
    """Return the bytes of a core's level-2 cache, as far as the system tells."""
    return USUAL_CACHE if _any.get() else _cache_bytes()


def share_bytes() -> int:
    """Return a core's share of the level-3 cache in bytes; 0 where the system does not tell."""
    return USUAL_SHARE if _any.get() else _share_bytes()


def block_bytes() -> int:
    """Return the most bytes of a block of rows, in whole megabytes.

    Larger blocks are better up to eight times the level-2 cache, if half of a core's share of the level-3 cache holds
    one: threads contend in fewer calls.
    """
    near = cache_bytes()
    return max(min(max(4 * near, share_bytes() // 2), 8 * near) >> 20, 1) << 20


def cores() -> int:
    """Return how many cores this process may use."""
    return USUAL_CORES if _any.get() else _cores_here()


@cache
def _cache_bytes() -> int:
    return _size(2) or USUAL_CACHE


@cache
def _share_bytes() -> int:
    try:
        return _size(3) // _number_of((_CACHES / "index3" / "shared_cpu_list").read_text())
    except (OSError, ValueError):
        return 0


def _size(level: int) -> int:
    try:
        text = (_CACHES / f"index{level}" / "size").read_text().strip()
        return int(text[:-1]) * _UNITS[text[-1]]
    except (OSError, ValueError, KeyError, IndexError):
        return 0


def _number_of(cores: str) -> int:
    """Return the number of cores in a list such as 0-3,8."""
    ends = [list(map(int, part.split("-"))) for part in cores.strip().split(",")]
    return sum(1 + part[-1] - part[0] for part in ends)


@cache
def _cores_here() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
