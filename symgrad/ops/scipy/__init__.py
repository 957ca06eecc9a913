"""SciPy's functions: entries of the table that are there when the user's program has imported the module of SciPy."""

import sys
from importlib import import_module

_WAITING = {
    "special": ("special", "softmax"),
    "linalg": ("linalg",),
    "stats": ("special", "linalg", "stats", "multivariate"),
    "signal": ("signal",),
    "interpolate": ("interpolate",),
    "sparse": ("sparse",),
}
"""Modules of SciPy, and those that have the entries for each."""


def load() -> None:
    """Add the entries for those modules of SciPy that are imported by now; symgrad itself imports none."""
    for name in [name for name in _WAITING if f"scipy.{name}" in sys.modules]:
        for own in _WAITING[name]:
            import_module(f"symgrad.ops.scipy.{own}")
        _WAITING.pop(name, None)  # another thread may have been first
