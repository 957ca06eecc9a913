"""Variance and standard deviation."""

import math

import numpy as np

from symgrad.errors import ArgumentError, UnsupportedError
from symgrad.ops.arguments import UNSET, axis_tuple
from symgrad.ops.define import implements
from symgrad.ops.dtypes import real_dtype
from symgrad.ops.elementwise import conjugate
from symgrad.ops.reduction import (
    as_divisor,
    check_mean_dtype,
    count_along,
    delivered,
    mean_dtype,
    operand_of,
    options_of,
    reduction,
    where_mask,
)
from symgrad.ops.spellings import as_method


def _var_dtype(dtype):
    return real_dtype(mean_dtype(dtype))


def _vjp_var(g, y, x, axis, ddof):
    return g * 2 / freedom(x, axis, ddof) * conjugate(centred(x, axis))


def _vjp_std(g, y, x, axis, ddof):
    """Zero where all numbers are equal, as the derivative of the absolute value is."""
    return g / (freedom(x, axis, ddof) * np.where(y == 0, 1, y)) * conjugate(centred(x, axis))


def freedom(x, axis, ddof):
    """Return the number of elements along axes, less `ddof`."""
    n = count_along(x, axis) - ddof
    return max(n, 0) if isinstance(n, int) else n


def centred(x, axis):
    """Deviations from the mean along axes, which broadcasts by itself where they are the first ones."""
    first = axis is None or axis_tuple("var", axis, x.ndim) == tuple(range(np.size(axis)))
    return x - np.mean(x, axis=axis, keepdims=not first)


VAR = reduction(np.var, _vjp_var, dtype=_var_dtype, defaults={"ddof": 0}, interval=(0, math.inf), quick=as_method)
STD = reduction(np.std, _vjp_std, dtype=_var_dtype, defaults={"ddof": 0}, quick=as_method)


def _root(variance):
    """The square root with slope 0 at 0."""
    zero = variance == 0
    return np.where(zero, 0, np.sqrt(np.where(zero, 1, variance)))


def _squares(x, mask, mean, ddof, options):
    """Sums of squares about the mean, one that is given or that of the selected, and how many they are less `ddof`."""
    axis = options.get("axis")
    if mean is UNSET:
        mean = np.mean(x, axis=axis, keepdims=True, where=mask)
    deviation = x - mean if mask is None else np.where(mask, x - mean, 0)
    total = np.sum(np.real(deviation * conjugate(deviation)), **options)
    if mask is None:
        return total, freedom(x, axis, ddof)
    return total, as_divisor(np.count_nonzero(mask, **options) - ddof, total.dtype)


def _degrees(name, ddof, correction):
    if correction is not UNSET:
        if ddof != 0:
            raise ArgumentError(f"np.{name}: ddof and correction cannot be given together", "Leave one of them out.")
        ddof = correction
    if isinstance(ddof, (float, np.floating)) and ddof == int(ddof):
        ddof = int(ddof)
    if not isinstance(ddof, (int, np.integer)):
        raise UnsupportedError(f"np.{name}: ddof={ddof} is not an integer", "Scale the result by hand.")
    return int(ddof)


def _moment(function, op, root, skip_nan=False):
    name = function.__name__

    @implements(function)
    def moment(
        a, axis=None, dtype=None, out=None, ddof=0, keepdims=UNSET, *, where=UNSET, mean=UNSET, correction=UNSET
    ):
        check_mean_dtype(name, dtype)
        ddof, options = _degrees(name, ddof, correction), options_of({"axis": axis, "keepdims": keepdims})
        x = operand_of({"a": a, "dtype": dtype})
        chosen = None if where is UNSET or where is True else where_mask(name, x, where)
        if skip_nan and x.dtype.kind in "fc":
            chosen = ~np.isnan(x) if chosen is None else chosen & ~np.isnan(x)
        elif chosen is None and mean is UNSET:
            return delivered(out, op(x, ddof=ddof, **options))
        total, count = _squares(x, chosen, mean, ddof, options)
        if skip_nan:
            result = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        else:
            result = total / np.maximum(count, 0)
        return delivered(out, root(result))


_moment(np.var, VAR, lambda variance: variance)
_moment(np.std, STD, _root)
_moment(np.nanvar, VAR, lambda variance: variance, skip_nan=True)
_moment(np.nanstd, STD, _root, skip_nan=True)
