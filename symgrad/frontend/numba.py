"""Functions that Numba has compiled: what is traced is the function in Python that it has compiled them from."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from symgrad.ops.operands import is_traced


def in_python(function: Any) -> Any:
    """Return the function in Python that Numba has compiled, by elements for a ufunc; any other as it is."""
    if not type(function).__module__.startswith("numba."):
        return function
    if hasattr(function, "py_func"):
        return function.py_func
    scalar = getattr(getattr(function, "_dispatcher", None), "py_func", None)
    return function if scalar is None else _elementwise(function, scalar)


def _elementwise(ufunc: Callable[..., Any], scalar: Callable[..., Any]) -> Callable[..., Any]:
    """Return what applies a function of numbers to traced arrays, and a ufunc of Numba's to all others."""

    @wraps(scalar)
    def call(*args: Any) -> Any:
        return np.vectorize(scalar)(*args) if any(map(is_traced, args)) else ufunc(*args)

    return call
