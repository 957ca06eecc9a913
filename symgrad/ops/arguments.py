"""Arguments that several functions of NumPy take: those that are refused, an axis or none."""

import numpy as np

from symgrad.ops.define import as_input, axis_index, refuse


def refuse_given(function, package="np", **given):
    """Refuse those of the arguments that say something: that are not None, False or NumPy's stand-in for nothing."""
    for argument, value in given.items():
        if value is not None and value is not False and value is not np._NoValue:
            refuse(function, argument, package)


def flat_or_axis(function, x, axis):
    """An array and one of its axes; all of its numbers in one row where no axis is named."""
    x = as_input(x)
    return (np.ravel(x), 0) if axis is None else (x, axis_index(function, axis, np.ndim(x)))
