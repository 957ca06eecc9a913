"""NumPy's own BLAS, whose functions kernels call by address."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

NAMES = ("scipy_cblas_{}64_", "cblas_{}64_")  # with integers of 64 bits
ASKED = ("scipy_openblas_get_corename64_", "openblas_get_corename64_")  # for which processor its kernels are
OF_WIDE_VECTORS = (b"SkylakeX", b"Cooperlake", b"SapphireRapids")


class Blas(NamedTuple):
    """The addresses of the functions that multiply matrices: real and complex, in double and in single precision."""

    dgemm: int
    sgemm: int
    zgemm: int
    cgemm: int


KINDS = dict(zip(("float64", "float32", "complex128", "complex64"), Blas._fields, strict=True))
"""The names of these functions, by dtype."""


@cache
def found() -> Blas | None:
    """Return NumPy's BLAS; None if its functions do not have the names of NumPy's own wheels."""
    import ctypes

    library = _library()
    for name in NAMES:
        functions = [getattr(library, name.format(kind), None) for kind in Blas._fields]
        addresses = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions if f is not None]
        if len(addresses) == len(functions):
            return Blas(*addresses)
    return None


def has_wide_kernels() -> bool:
    """Whether NumPy's BLAS uses vectors of 512 bits, as it does on processors that it knows."""
    import ctypes

    for name in ASKED:
        if (corename := getattr(_library(), name, None)) is not None:
            corename.restype = ctypes.c_char_p
            return corename() in OF_WIDE_VECTORS
    return True


@cache
def _library() -> Any:
    """Return NumPy's loaded extension module, in which symbols of its BLAS are found as well; None if there is none."""
    import ctypes

    core: Any = import_module("numpy._core._multiarray_umath")
    try:
        return ctypes.CDLL(core.__file__)
    except OSError:
        return None
