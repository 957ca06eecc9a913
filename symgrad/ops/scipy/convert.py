"""Helpers shared by the entries for several modules of SciPy."""

import numpy as np

from symgrad.core.graph import tracing
from symgrad.core.undo import setting
from symgrad.ops.operands import as_input, is_traced


def untraced():
    """SciPy's own code on constants, which writes into arrays where nobody sees it, has NumPy as it is."""
    return setting(tracing, None)


def definer(class_, name):
    """The class of which another has a method."""
    return next(c for c in class_.__mro__ if name in vars(c))


def double(x):
    """In double precision, in which much of SciPy computes whatever it is given."""
    x = as_input(x)
    dtype = np.dtype(complex if np.result_type(x).kind == "c" else float)
    if not is_traced(x):
        return np.asarray(x, dtype)
    return x if x.dtype == dtype else np.astype(x, dtype)
