"""NumPy's own BLAS, whose functions kernels call by their addresses."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

NAMES = ("scipy_cblas_{}64_", "cblas_{}64_")  # with integers of 64 bits


class Blas(NamedTuple):
    """The addresses of the functions that multiply matrices, in double and in single precision."""

    dgemm: int
    sgemm: int


@cache
def found() -> Blas | None:
    """Return NumPy's BLAS, None where its functions are called otherwise than in NumPy's own wheels."""
    import ctypes

    core: Any = import_module("numpy._core._multiarray_umath")
    try:
        library = ctypes.CDLL(core.__file__)  # is loaded: what it is linked with is searched, too
    except OSError:
        return None
    for name in NAMES:
        functions = [getattr(library, name.format(kind), None) for kind in Blas._fields]
        addresses = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions if f is not None]
        if len(addresses) == len(functions):
            return Blas(*addresses)
    return None
