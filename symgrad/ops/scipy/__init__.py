"""SciPy's functions: entries of the table that are there when the user's program has imported the module of SciPy."""

import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from types import CodeType

from symgrad.core.graph import Op
from symgrad.ops.define import OPERATORS

_ENTRIES = {
    "special": ("special", "softmax"),
    "linalg": ("linalg",),
    "stats": ("special", "linalg", "stats", "multivariate", "samples", "pairs"),
    "signal": ("signal", "recursive"),
    "fft": ("fft",),
    "integrate": ("quadrature", "symgrad.implicit.solve_ivp"),  # the second is written with what stands above operators
    "ndimage": ("ndimage", "sampling"),
    "spatial.distance": ("distance",),
    "spatial.transform": ("rotation",),
    "interpolate": ("interpolate",),
    "sparse": ("sparse",),
}
"""Modules of SciPy, and those that have the entries for each."""


def operator_named(name: str) -> Op:
    """The operator of a name in a file; for ``scipy.special.gammaln`` the module of SciPy is imported.

    Raises
    ------
    KeyError
        If there is none.
    """
    package, _, rest = name.partition(".")
    module = rest.partition(".")[0]
    if package == "scipy" and module in _ENTRIES:
        with suppress(ImportError):
            import_module(f"scipy.{module}")
        load()
    return OPERATORS[name]


def load(codes: Iterable[CodeType] = ()) -> None:
    """Add the entries for those modules of SciPy that are imported by now, and those that `codes` are about to import.

    symgrad itself imports none, but a function may; and ``scipy.linalg`` is imported when SciPy is first asked for it.
    So it is with ``numpy.polynomial``.
    """
    names = [set(code.co_names) for code in codes]
    for name in _ENTRIES:
        if any(f"scipy.{name}" in own or {"scipy", *name.split(".")} <= own for own in names):
            with suppress(ImportError):
                import_module(f"scipy.{name}")
    if "numpy.polynomial" in sys.modules or any("polynomial" in own for own in names):
        import_module("symgrad.ops.series")
    for name in [name for name in _ENTRIES if f"scipy.{name}" in sys.modules]:
        for own in _ENTRIES[name]:
            import_module(own if "." in own else f"symgrad.ops.scipy.{own}")
