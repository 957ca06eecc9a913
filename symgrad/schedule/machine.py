"""The machine that code is generated for: its cores, and the caches that one of them has, or has a share in."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from symgrad.runtime import _cores

USUAL_CACHE = 1 << 20
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20}


@cache
def cache_bytes() -> int:
    """The level-2 cache of a core, as far as the system tells."""
    return _size(2) or USUAL_CACHE


@cache
def share_bytes() -> int:
    """What there is of the level-3 cache for each of the cores that share it; 0 where the system does not tell."""
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
    """How many cores a list such as 0-3,8 has."""
    ends = [list(map(int, part.split("-"))) for part in cores.strip().split(",")]
    return sum(1 + part[-1] - part[0] for part in ends)


@cache
def cores() -> int:
    """How many cores this process may use."""
    return _cores()
