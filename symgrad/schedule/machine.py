"""The machine that code is generated for: its cores, and the cache that one of them has to itself."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from symgrad.runtime import _cores

USUAL_CACHE = 1 << 20
_LEVEL_2 = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
_UNITS = {"K": 1 << 10, "M": 1 << 20}


@cache
def cache_bytes() -> int:
    """The level-2 cache of a core, as far as the system tells."""
    try:
        text = _LEVEL_2.read_text().strip()
        return int(text[:-1]) * _UNITS[text[-1]]
    except (OSError, ValueError, KeyError):
        return USUAL_CACHE


@cache
def cores() -> int:
    """How many cores this process may use."""
    return _cores()
