"""Operands of calls: numbers, arrays and Variables, which rules do not tell apart."""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any

import numpy as np

from symgrad.core.graph import Traced
from symgrad.core.sizes import Dim
from symgrad.core.specs import instead_of_dtype
from symgrad.errors import DTypeError, SymgradError, UnsupportedError

Array = Any  # an ndarray, a NumPy or Python scalar, or a Variable: rules do not tell them apart


def is_traced(x: Any) -> bool:
    """Whether `x` is a Variable."""
    return isinstance(x, Traced)


def reads_traced(x: Any) -> bool:
    """Whether a function has a Variable in its closure."""
    cells = (x.__closure__ or ()) if type(x) is FunctionType else ()
    return any(cell != CellType() and is_traced(cell.cell_contents) for cell in cells)


ARRAYS = (np.ndarray, np.generic)
"""Bound once: while a trace runs, each look at an attribute of NumPy asks who looks."""

_PLAIN = (*ARRAYS, bool, int, float, complex, Dim)


def as_input(x: Any) -> Array:
    """An operand as NumPy takes it: a list becomes an array, a Python scalar stays weak."""
    if is_traced(x) or (isinstance(x, _PLAIN) and not _holds_objects(x)):
        return x
    traced = traced_in(x)
    return np.asarray(x) if traced is None else np.array(x.tolist() if _holds_objects(x) else x, like=traced)


def traced_in(x: Any) -> Any:
    """The first Variable in nested lists, tuples or an array of objects; None if there is none."""
    if is_traced(x):
        return x
    if isinstance(x, Dim):
        return x.scope.lift and x.scope.lift(x)
    if isinstance(x, (list, tuple)):
        return next((found for found in map(traced_in, x) if found is not None), None)
    return traced_in(x.ravel().tolist()) if _holds_objects(x) else None


WRITTEN_BEFORE = "a traced value would be written into an array that exists before the program runs"


def no_operand(x: Any) -> SymgradError:
    """The error for an operand that is neither a number nor an array of numbers."""
    items = x.ravel().tolist() if isinstance(x, ARRAYS) and x.dtype.kind in "OUS" else [x]
    other = next((item for item in items if not isinstance(item, (bool, int, float, complex))), x)
    if other is None:
        return DTypeError("None is not a number", "Give a number or an array; test `x is None` first.")
    spec = instead_of_dtype(other)
    if isinstance(other, (str, bytes)):
        return DTypeError(f"{other!r} is not a number", spec or "Convert it before: float(text), np.array(...).")
    kind = (
        f"an array of dtype {other.dtype}" if isinstance(other, np.ndarray) else f"the {type(other).__name__} {other!r}"
    )
    instead = spec or "Give arrays of booleans, integers, floating or complex numbers."
    if isinstance(other, type):
        instead = f"Write {other.__name__}(x) for one of its values. {spec}".rstrip()
    return UnsupportedError(f"{kind} cannot take part in a traced computation", instead)


def _holds_objects(x: Any) -> bool:
    return isinstance(x, ARRAYS) and x.dtype.kind == "O"


def strong(x: Any) -> Array:
    """A Python number as NumPy's, where a NumPy function makes arrays of what it is given."""
    if is_traced(x):
        return x.astype(x.dtype, copy=False)
    return np.asarray(x)[()] if type(x) in (int, float, complex) else x


def known_number(x: Any) -> int | float | None:
    """The Python number that an operand is known to be before running, or None."""
    node = getattr(x, "node", None)
    if node is not None:
        x = node.constant
    if isinstance(x, ARRAYS):
        x = x.item() if x.ndim == 0 else None
    return x if type(x) in (int, float) else None
