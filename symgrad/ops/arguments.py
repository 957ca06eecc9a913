"""Arguments of calls: one spelling for each, and what is refused."""

from __future__ import annotations

import math
import operator as python_operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from symgrad.core.graph import path_of
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops.operands import Array, as_input

ANY = math.inf
"""No limit on the number of dimensions."""

UNSET = np._NoValue  # NumPy's stand-in for an argument that is not given


def refuse_given(function: str, package: str = "np", **given: Any) -> None:
    """Refuse those of the arguments that say something: that are not None, False or NumPy's stand-in for nothing."""
    for argument, value in given.items():
        if value is not None and value is not False and value is not UNSET:
            refuse(function, argument, package)


def flat_or_axis(function: str, x: Array, axis: Any) -> tuple[Array, int]:
    """Return an array and one of its axes; flatten the array where no axis is named."""
    x = as_input(x)
    return (np.ravel(x), 0) if axis is None else (x, axis_index(function, axis, np.ndim(x)))


def refuse(function: str, argument: str, package: str = "np") -> None:
    """Refuse an argument of a function by name."""
    raise UnsupportedError(
        f"{path_of(function, package)}: the argument {argument}= is not supported", f"Leave {argument}= out."
    )


def canonical(function: str, key: str, value: Any, x: Array) -> Any:
    """One spelling of a parameter, so that equal calls are one node."""
    if key in ("axis", "axis1", "axis2") and value is not None:
        return axis_index(function, value, np.ndim(x))
    if key == "keepdims":
        return bool(value)
    if key == "dtype" and value is not None:
        return np.dtype(value)
    if isinstance(value, list):
        return tuple(value)
    return int(value) if isinstance(value, np.integer) else value


def check_ndim(what: str, x: Array, least: int, most: float, instead: str) -> None:
    """Refuse an array of fewer dimensions, or of more: `what` is its place in a call, ``np.digitize: bins``."""
    ndim = x.ndim if hasattr(x, "ndim") else np.ndim(as_input(x))
    if not least <= ndim <= most:
        several = f"at most {most}" if least == 0 else f"{least} or more" if most == ANY else f"{least} to {most}"
        raise ShapeError(f"{what} has {ndim} dimensions, not {least if least == most else several}", instead)


def axis_index(function: str, axis: Any, ndim: int, package: str = "np") -> int:
    return axes_as_given(function, python_operator.index(axis), ndim, package)[0]


def axes_of(ndim: int) -> str:
    """Advice: which axes there are."""
    return f"Its axes are {-ndim} to {ndim - 1}." if ndim else "Leave axis= out: a number has no axes."


def axis_tuple(function: str, axis: Any, ndim: int, package: str = "np") -> tuple[int, ...]:
    """Sorted axes counted from the front; None is all of them."""
    return tuple(range(ndim)) if axis is None else tuple(sorted(axes_as_given(function, axis, ndim, package)))


def axes_as_given(function: str, axis: Any, ndim: int, package: str = "np") -> tuple[int, ...]:
    """Axes in the order in which they are given, counted from the front."""
    try:
        return normalize_axis_tuple(axis, ndim)
    except np.exceptions.AxisError:
        raise ShapeError(
            f"{package}.{function}: axis {axis} is out of bounds for {ndim} dimensions", axes_of(ndim)
        ) from None
    except ValueError:
        raise ShapeError(f"{package}.{function}: axis {axis} names a dimension twice", "Name each axis once.") from None
