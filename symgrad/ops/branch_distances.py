"""Branch distances of operators that are defined piece by piece: where one changes its sign another piece begins.

`Op.branch_distance` gives, of the inputs and parameters of an operator, such an array or a tuple of them. The notion is
that of search-based testing (McMinn, *Search-based software test data generation*, 2004), with a sign.
"""

import numpy as np

FEW_BINS = 8  # each has a branch distance of its own


def difference(x, y):
    """Return x - y in floating numbers, also of booleans and of integers without a sign."""
    return np.real(1.0 * np.asarray(x) - y)


def first_input(x, *rest):
    return x


def from_integer(x, *rest):
    """Return by how much x is above the nearest integer."""
    return x - np.rint(x)


def from_half(x):
    """Return by how much x is above the middle between two integers."""
    return x - np.floor(x) - 0.5


def quotient_from_integer(x, y):
    return from_integer(np.true_divide(x, y))


def from_others(function):
    """Return a function that gives by how much each number exceeds the extreme of the others along the axis."""
    ufunc, worst = (np.fmax, -np.inf) if "max" in function.__name__ else (np.fmin, np.inf)

    def distance(x, axis=None, **_):
        axes = tuple(range(np.ndim(x))) if axis is None else axis
        x = np.asarray(x, float)
        extreme = ufunc.reduce(x, axis=axes, keepdims=True, initial=worst)
        is_extreme = x == extreme
        alone = np.count_nonzero(is_extreme, axis=axes, keepdims=True) == 1
        second = ufunc.reduce(x, axis=axes, keepdims=True, initial=worst, where=~is_extreme)
        return x - np.where(is_extreme & alone, second, extreme)

    return distance


def between_neighbours(x, axis=-1, **_):
    """Return the differences of numbers next to each other along an axis."""
    return np.diff(np.asarray(x, float), axis=axis)


def from_bins(bins, x):
    """Return by how much each number of x is above a bin, for one bin after the other, or for many at once."""
    x, bins = np.asarray(x, float), np.ravel(bins)
    return tuple(x - each for each in bins) if bins.size <= FEW_BINS else x[..., None] - bins
