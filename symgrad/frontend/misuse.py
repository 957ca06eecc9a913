"""Messages for NumPy calls that failed without an operator's own message."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np

from symgrad.core.provenance import installed, internal
from symgrad.core.shapes import product
from symgrad.errors import ArgumentError, DTypeError, SymgradError, UnsupportedError
from symgrad.ops.operands import is_traced

LARGEST = 100_000  # numbers in arrays of which NumPy is asked what it would say


def explained(
    path: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception
) -> Exception:
    """Return the error to raise for one from the call of a function.

    Errors of symgrad, errors of linear algebra with constants, and those of functions of the user's that NumPy's
    function has called stand as they are.
    """
    if isinstance(error, (SymgradError, np.linalg.LinAlgError)) or _is_of_user(error.__traceback__):
        return error
    takes = _signature(function)
    given: Mapping[str, Any] = kwargs
    if takes is not None:
        try:
            given = takes.bind(*args, **kwargs).arguments
        except TypeError as misfit:
            return ArgumentError(f"{path}: {misfit}", _takes(takes))
    wrong = _wrong_argument(path, given)
    if wrong is not None:
        return wrong
    instead = _takes(takes) if takes is not None else "Give it numbers or arrays of them."
    refused = _asked(function, args, kwargs)
    if refused is not None:
        return ArgumentError(f"{path}: {refused}", instead)
    return UnsupportedError(f"{path} is not supported with these arguments: {error}", instead)


def _is_of_user(at: TracebackType | None) -> bool:
    while at is not None:
        if not internal(at.tb_frame.f_code) and not installed(at.tb_frame.f_code):
            return True
        at = at.tb_next
    return False


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # built in C
        return None


def _takes(signature: inspect.Signature) -> str:
    """Advice: the parameters, with dots for defaults that have no form in Python source."""
    return f"It takes {re.sub('<.*?>', '...', str(signature))}."


def _wrong_argument(path: str, given: Mapping[str, Any]) -> SymgradError | None:
    """Return the error for an invalid dtype or axis."""
    if "dtype" in given:
        try:
            checked_dtype(path, given["dtype"])
        except DTypeError as error:
            return error
    for name in ("axis", "axes", "axis1", "axis2"):
        value = given.get(name)
        for axis in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(axis, (float, str, bytes)):
                number = str(axis).removesuffix(".0")
                written = number if number.lstrip("-").isdecimal() else "0"
                return ArgumentError(f"{path}: {name}={value!r} is not an integer", f"Write {name}={written}.")
    return None


def checked_dtype(path: str, x: Any) -> np.dtype:
    """A dtype, as NumPy takes it; one of another library is named as NumPy names it."""
    try:
        return np.dtype(x)
    except (TypeError, ValueError):
        last = str(x).rpartition(".")[2]
        known = last if last in np.sctypeDict and hasattr(np, last) else "float64"
        raise DTypeError(f"{path}: dtype={x!r} is not a dtype of NumPy", f"Write dtype=np.{known}.") from None


def _asked(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Exception | None:
    """Return the error that NumPy raises for arrays of these shapes and dtypes; None if none is known."""
    if isinstance(function, partial) or not (getattr(function, "__module__", None) or "numpy").startswith("numpy"):
        return None  # it would be recorded
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            function(*map(_stand_in, args), **{key: _stand_in(x) for key, x in kwargs.items()})
    except _Unknown:
        return None
    except Exception as error:
        return error
    return None


class _Unknown(Exception):
    """No array stands for a value of unknown or of great size."""


def _stand_in(x: Any) -> Any:
    """An array of ones for a Variable, copies for arrays, which NumPy might write into."""
    if is_traced(x):
        if not isinstance(product(x.shape), int) or product(x.shape) > LARGEST:
            raise _Unknown
        return np.ones(x.shape, x.dtype) if x.shape else x.dtype.type(1)
    if isinstance(x, np.ndarray):
        return x.copy()
    return type(x)(map(_stand_in, x)) if type(x) in (list, tuple) else x
