"""Dtypes of results, by NumPy's rules for arrays and Python scalars (NEP 50)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from symgrad.core.graph import Aval, Op
from symgrad.errors import DTypeError

_PYTHON_SCALAR = {"i": int, "f": float, "c": complex}


def kind_of(x: Aval) -> np.dtype | type:
    """The dtype, or for a Python scalar its type, as `ufunc.resolve_dtypes` takes them."""
    return _PYTHON_SCALAR[x.dtype.kind] if x.weak and x.dtype.kind != "b" else x.dtype


@cache
def ufunc_dtypes(ufunc: np.ufunc, kinds: tuple[np.dtype | type, ...], package: str = "np") -> tuple[np.dtype, ...]:
    """The dtypes of a ufunc's results."""
    try:
        return ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))[ufunc.nin :]
    except TypeError:
        names = ", ".join(kind.__name__ if isinstance(kind, type) else str(kind) for kind in kinds)
        raise DTypeError(f"{package}.{ufunc.__name__} does not take {names}", _instead_of(ufunc, kinds)) from None


def _instead_of(ufunc: np.ufunc, kinds: tuple[np.dtype | type, ...]) -> str:
    """Return what to write where a ufunc does not take some dtypes."""
    if complex in kinds or any(isinstance(kind, np.dtype) and kind.kind == "c" for kind in kinds):
        return "Write it for a real number: z.real, np.abs(z)."
    if all(types.partition("->")[0].strip("?bBhHiIlLqQpPO") == "" for types in ufunc.types):
        return "Convert the inputs first: x.astype(int); of conditions write (x > 0) & (y > 0)."
    return "Convert the inputs first: x.astype(float)."


def operand_dtypes(op: Op, result: np.dtype, *xs: Aval) -> Sequence[np.dtype]:
    """The dtypes to which an elementwise operator converts its inputs before it computes."""
    if isinstance(op.evaluate, np.ufunc):
        kinds = (*[kind_of(x) for x in xs], *[None] * op.evaluate.nout)
        return op.evaluate.resolve_dtypes(kinds)[: op.evaluate.nin]
    return [result if x.dtype.kind == "f" else x.dtype for x in xs]


def result_dtype(*kinds: np.dtype | type) -> np.dtype:
    """NumPy's common dtype of arrays and Python scalars (NEP 50)."""
    return np.result_type(*[kind(0) if isinstance(kind, type) else kind for kind in kinds])


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the real parts of numbers."""
    return np.zeros((), dtype).real.dtype


def common_dtype(*xs: Aval) -> np.dtype:
    """NumPy's common dtype of values."""
    return result_dtype(*[kind_of(x) for x in xs])
