"""scipy.integrate: Simpson's rule, for places at any distances."""

import numpy as np
from scipy import integrate

from symgrad.core.sizes import same
from symgrad.errors import ShapeError
from symgrad.ops.accumulate import along
from symgrad.ops.arguments import axis_index
from symgrad.ops.contract import spread
from symgrad.ops.define import implements_at
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.scipy.convert import double
from symgrad.ops.scipy.samples import either

PACKAGE = "scipy.integrate"


@implements_at(integrate, "simpson")
def simpson(y, x=None, *, dx=1.0, axis=-1):
    y = as_input(y)
    axis = axis_index("simpson", axis, np.ndim(y), PACKAGE)
    n = y.shape[axis]
    if same(n, 0):
        raise ShapeError(f"{PACKAGE}.simpson of no numbers along axis {axis}", "Test the size before.")
    stays = x is None and y.dtype.kind in "fc" and (y.ndim > 1 or (isinstance(n, int) and (n % 2 or n == 2)))
    y, widths = y if stays else double(y), None if x is None else _widths(as_input(x), y.ndim, axis, n)
    pairs = _pairs(y, widths, dx, axis, 2 * ((n - 1) // 2))
    if isinstance(n, int):
        return pairs if n % 2 else pairs + _last(y, widths, dx, axis, n)
    return np.where(1.0 * (n % 2) == 1, pairs, pairs + _last(y, widths, dx, axis, n))[()]


def _widths(x, ndim, axis, n):
    """The distances between places along the axis."""
    if x.ndim not in (1, ndim) or not (same(x.shape[-1 if x.ndim == 1 else axis], n)):
        raise ShapeError(
            f"{PACKAGE}.simpson: x of shape {x.shape} for {n} numbers along axis {axis}", "Give a place for each."
        )
    return double(np.diff(x, axis=axis) if x.ndim == ndim else spread(np.diff(x), ndim - 1 - axis))


def _quotient(x, y):
    """Return x / y, and 0 where y is 0."""
    if not is_traced(y) and np.ndim(y) == 0:
        return x / y if y else 0.0
    return np.where(y == 0, 0, x / np.where(y == 0, 1, y))


def _pairs(y, widths, dx, axis, stop):
    """Parabolas over two intervals each, the last of which ends at the place of number `stop`."""
    first, middle, last = (along(y, axis, slice(i, stop + i, 2)) for i in range(3))
    if widths is None:
        return np.sum(first + 4 * middle + last, axis=axis) * (dx / 3)
    axis_of_widths = axis - y.ndim + widths.ndim
    left, right = (along(widths, axis_of_widths, slice(i, stop + i, 2)) for i in range(2))
    both, by_right = left + right, _quotient(left, right)
    parts = (
        first * (2 - _quotient(1, by_right)) + middle * (both * _quotient(both, left * right)) + last * (2 - by_right)
    )
    return np.sum(both / 6 * parts, axis=axis)


def _last(y, widths, dx, axis, n):
    """The last interval of an even number of places, below a parabola (Cartwright, 2017, equation 8), or a line."""
    above, middle, below = (along(y, axis, np.maximum(n - i, 0)) for i in (1, 2, 3))
    h, h_before = dx, dx
    if widths is not None:
        h, h_before = (along(widths, axis - y.ndim + widths.ndim, np.maximum(n - i, 0)) for i in (2, 3))
    parabola = (
        _quotient(2 * h**2 + 3 * h_before * h, 6 * (h + h_before)) * above
        + _quotient(h**2 + 3 * h_before * h, 6 * h_before) * middle
        - _quotient(h**3, 6 * h_before * (h + h_before)) * below
    )
    return either(1.0 * n == 2, lambda: h / 2 * (above + middle), lambda: parabola)
