"""Functions of NumPy that call a function of the user: on the numbers where a condition holds, over one axis after
the other.
"""

from functools import reduce
from operator import or_

import numpy as np

from symgrad.errors import ArgumentError, ShapeError
from symgrad.ops.arguments import axis_index
from symgrad.ops.define import implements
from symgrad.ops.index_expressions import known_value
from symgrad.ops.operands import as_input, is_traced


@implements(np.piecewise)
def piecewise(x, condlist, funclist, *args, **kw):
    """Functions are given ``x[condition]``; where the condition is traced they must be elementwise, see `masks`."""
    x = as_input(x)
    conditions = _conditions(condlist, np.ndim(x))
    if len(funclist) == len(conditions) + 1:
        conditions.append(~reduce(or_, conditions))
    if len(funclist) != len(conditions):
        raise ArgumentError(
            f"np.piecewise: {len(funclist)} functions for {len(conditions)} conditions",
            "Give one function for each condition, and one more for where none holds.",
        )
    x = x if is_traced(x) else np.array(x, like=next(filter(is_traced, conditions)))
    y = np.zeros_like(x)
    for condition, function in zip(conditions, funclist, strict=True):
        known = known_value(condition)
        if known is None or known.any():
            y[condition] = function(x[condition], *args, **kw) if callable(function) else function
    return y


def _conditions(condlist, ndim):
    """A list of masks; one alone needs no list around it."""
    masks = list(condlist) if isinstance(condlist, (list, tuple)) or np.ndim(condlist) else [condlist]
    masks = [_array(mask) for mask in masks]
    if ndim and all(np.ndim(mask) == 0 for mask in masks):
        masks = [_array(condlist)]
    return [mask if mask.dtype == bool else mask != 0 for mask in masks]


def _array(mask):
    return mask if is_traced(mask) else np.asarray(mask)


@implements(np.apply_over_axes)
def apply_over_axes(func, a, axes):
    a = as_input(a)
    for i in axes if np.ndim(axes) else (axes,):
        axis = axis_index("apply_over_axes", i, a.ndim)
        y = func(a, axis)
        y = np.expand_dims(y, axis) if np.ndim(y) == a.ndim - 1 else y
        if np.ndim(y) != a.ndim:
            raise ShapeError(
                f"np.apply_over_axes: the function gives {np.ndim(y)} dimensions for {a.ndim}",
                "Return as many dimensions, or one less.",
            )
        a = y
    return a
