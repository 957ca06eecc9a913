"""What modules of SciPy do with all that they are given."""

import numpy as np

from symgrad.ops.define import as_input, is_traced


def double(x):
    """In double precision, in which much of SciPy computes whatever it is given."""
    x = as_input(x)
    dtype = np.dtype(complex if np.result_type(x).kind == "c" else float)
    if not is_traced(x):
        return np.asarray(x, dtype)
    return x if x.dtype == dtype else np.astype(x, dtype)
