"""Forms that run faster and read worse: for the highest level of optimisation, after everything else."""

import numpy as np

from symgrad.rewrite.algebra import floating
from symgrad.rewrite.engine import rule
from symgrad.shapes import same_shape


@rule(when=floating)
def softplus_by_vectors(x):
    """What NumPy's scalar loop for `logaddexp` does, in functions that have loops for vectors: three times as fast."""
    return np.logaddexp(0, x), np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@rule(when=lambda x, y: floating(x) and floating(y))
def twice_the_negative(x, y):
    """What the two sides of a square leave behind where one has taken the sign."""
    return -x * y - x * y, -2 * (x * y)


@rule(changes_nan=True, alone=True, when=lambda x, y, a: floating(x) and floating(y) and same_shape(x.shape, y.shape))
def common_number(x, y, a=0.3):
    """One product less."""
    return a * x + a * y, a * (x + y)
