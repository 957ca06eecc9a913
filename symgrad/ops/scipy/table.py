"""Helpers shared by the entries for `scipy.special`.

Numbers after a formula are those of the Digital Library of Mathematical Functions (DLMF, https://dlmf.nist.gov).
"""

from functools import partial

import numpy as np

from symgrad.ops.define import Unknown, elementwise

POSITIVE, PROBABILITY = (0.3, 3.0), (0.1, 0.9)

special = partial(elementwise, package="scipy.special")
"""An entry for a ufunc of `scipy.special`."""

singular = partial(special, singular=True)
"""The same for one of which a partial can be infinite or NaN at a finite input."""

ORDER = Unknown("its order", "Keep the order constant.")


def twice(name):
    """The partial by a parameter of the derivative by one, of an incomplete function."""
    instead = "Take at most one derivative by the parameters of an incomplete function."
    return Unknown("a parameter once more", instead, f"scipy.special.{name}")


def parameter(name):
    """The partial by a parameter for which there is no formula but an integral or a series."""
    return Unknown(name, f"Keep {name} constant.")


def near_zero(x, coefficients, radius):
    """(mask, polynomial): where a formula in x cancels, and what to take there, in powers of x from the lowest."""
    near = np.abs(x) < radius
    t, series = np.where(near, x, 0), coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        series = series * t + coefficient
    return near, series
