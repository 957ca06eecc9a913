"""Functions that are given by points or by coefficients."""

import numpy as np

from symgrad.dims import same
from symgrad.errors import DTypeError, ShapeError
from symgrad.graph import Aval
from symgrad.ops.define import as_input, implements, is_traced, operator, refuse
from symgrad.shapes import same_shape

# ---- straight lines between points


def _infer_interp(x, xp, fp):
    if xp.ndim != 1 or fp.ndim != 1 or not same_shape(xp.shape, fp.shape):
        raise ShapeError(f"np.interp: points of shapes {xp.shape} and {fp.shape}, and they need one and the same size")
    if same(xp.shape[0], 0):
        raise ShapeError("np.interp: there are no points")
    for values in (x, xp, fp):
        if values.dtype.kind == "c":
            raise DTypeError(f"np.interp in {values.dtype} is not supported", "Interpolate the real and imaginary parts.")
    return Aval(x.shape, np.dtype(float))


def _share(x, low, high):
    """How far x is on its way between two points: nothing before the first, all behind the last."""
    return np.clip((x - low) / (high - low), 0, 1)
