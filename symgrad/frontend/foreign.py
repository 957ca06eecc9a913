"""Arrays of other libraries, and numbers of classes of the user's, as arguments: taken as their values, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, UnsupportedError
from symgrad.ops.operands import is_traced


def is_foreign(x: Any) -> bool:
    """Whether a leaf may be an array of another library, or a float of a class of its own; it may be a spec as well."""
    if type(x) in (np.ndarray, float, complex) or is_traced(x) or isinstance(x, (np.generic, type)):
        return False
    return isinstance(x, (float, complex)) or hasattr(x, "shape")


def plain(x: Any, path: str = "an argument") -> Any:
    """An argument as NumPy has it: of a pandas Series, a memory map or a tensor the array of its values.

    What computes in another way than arrays do, or holds no numbers, is refused.
    """
    if not is_foreign(x):
        return x
    if isinstance(x, (float, complex)):
        kind: Any = float if isinstance(x, float) else complex
        if type(x).__mul__ is not kind.__mul__:
            raise UnsupportedError(
                f"{path} is a {_name(x)}, whose arithmetic is not NumPy's", f"Pass {kind.__name__}(x)."
            )
        return kind(x)
    if isinstance(x, np.ma.MaskedArray):
        raise UnsupportedError(f"{path} is a masked array", "Pass x.filled(0) and the mask as arrays of their own.")
    if hasattr(x, "tocsr"):
        raise UnsupportedError(
            f"{path} is a {_name(x)}, a sparse array",
            "Pass x.toarray(); or name it in static_argnames=, where it is part of the program.",
        )
    if isinstance(x, np.ndarray) and type(x).__mul__ is not np.ndarray.__mul__:
        raise UnsupportedError(f"{path} is a {_name(x)}, whose arithmetic is not NumPy's", "Pass np.asarray(x).")
    return _values(x, path) if hasattr(x, "__array__") else x


def _values(x: Any, path: str) -> np.ndarray:
    try:
        values = np.asarray(x)
    except Exception as error:  # of whatever kind the library has
        raise ArgumentError(f"{path} is a {_name(x)} without values: {error}", "Pass an array of NumPy.") from None
    if values.dtype.kind not in "biufc":
        raise UnsupportedError(
            f"{path} is a {_name(x)} of dtype {values.dtype}, and not of numbers alone",
            "Pass the numbers, for example x.to_numpy(float) of the columns that have some.",
        )
    return values


def _name(x: Any) -> str:
    return f"{type(x).__module__.partition('.')[0]}.{type(x).__name__}"
