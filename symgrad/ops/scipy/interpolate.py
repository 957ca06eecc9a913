"""scipy.interpolate: fixed splines at traced places.

All of them are piecewise polynomials in powers of the distance from the breakpoint before, and so are their
derivatives. Nothing of SciPy is left in the program.
"""

import math

import numpy as np
from scipy import interpolate

from symgrad.errors import UnsupportedError
from symgrad.ops.define import implements_at
from symgrad.ops.gather import take
from symgrad.ops.operands import is_traced
from symgrad.ops.scipy.convert import definer, double, untraced

PACKAGE = "scipy.interpolate"


def _evaluated(breaks, powers, x, axis, extrapolate):
    """``sum_k powers[k, i] * (x - breaks[i])**k`` for the piece i that x lies in.

    Parameters
    ----------
    breaks : ndarray, shape (m + 1,)
        Growing.
    powers : ndarray, shape (n, m, ...)
    extrapolate : bool or 'periodic'
        Whether the first and the last piece go on, else NaN stands outside.
    """
    inside = None if extrapolate else (x >= breaks[0]) & (x <= breaks[-1])
    if extrapolate == "periodic":
        x = breaks[0] + (x - breaks[0]) % (breaks[-1] - breaks[0])
    piece = np.clip(np.searchsorted(breaks, x, side="right") - 1, 0, len(breaks) - 2)
    rest = (1,) * (powers.ndim - 2)
    distance = np.reshape(x - take(breaks[:-1], piece), (*x.shape, *rest))
    y = take(powers[-1], piece, axis=0)
    for coefficients in powers[-2::-1]:
        y = y * distance + take(coefficients, piece, axis=0)
    if inside is not None:
        y = np.where(np.reshape(inside, (*x.shape, *rest)), y, np.nan)
    return y if axis == 0 else np.moveaxis(y, range(x.ndim), range(axis, axis + x.ndim))


def _derivative(powers, nu):
    """The coefficients of a derivative."""
    for _ in range(nu):
        degrees = np.arange(1, len(powers)).reshape(-1, *(1,) * (powers.ndim - 1))
        powers = powers[1:] * degrees if len(powers) > 1 else np.zeros_like(powers)
    return powers


def _order(nu):
    if is_traced(nu):
        raise UnsupportedError(f"{PACKAGE}: the order of the derivative, nu=, is traced", "Give it as a number.")
    return int(nu)


# ---- piecewise polynomials: CubicSpline, PchipInterpolator and Akima1DInterpolator are such


def _piecewise(self, x, nu=0, extrapolate=None):
    if np.any(np.diff(self._x) < 0):
        raise UnsupportedError(
            f"{PACKAGE}.{type(self).__name__} with falling breakpoints is not supported",
            "Sort the breakpoints, and the coefficients with them.",
        )
    if isinstance(self, interpolate.BPoly):
        with untraced():
            self = interpolate.PPoly.from_bernstein_basis(self)  # whose coefficients keep the axis in front
    extrapolate = self.extrapolate if extrapolate is None else extrapolate
    return _evaluated(self._x, _derivative(self._c[::-1], _order(nu)), double(x), self.axis, extrapolate)


implements_at(definer(interpolate.PPoly, "__call__"), "__call__")(_piecewise)  # of BPoly, too


# ---- splines by their knots


def _pieces(t, c, k):
    """Breakpoints and powers of a B-spline, by its derivatives at the knots (Taylor)."""
    base = t[k : len(t) - k]
    breaks = base[np.r_[True, np.diff(base) > 0]]
    with untraced():
        spline = interpolate.BSpline(t, c, k)
        return breaks, np.stack([spline(breaks[:-1], nu) / math.factorial(nu) for nu in range(k + 1)])


@implements_at(definer(interpolate.BSpline, "__call__"), "__call__")
def _b_spline(self, x, nu=0, extrapolate=None):
    breaks, powers = _pieces(self._t, self._c, self.k)
    extrapolate = self.extrapolate if extrapolate is None else extrapolate
    return _evaluated(breaks, _derivative(powers, _order(nu)), double(x), self.axis, extrapolate)


@implements_at(definer(interpolate.UnivariateSpline, "__call__"), "__call__")
def _univariate_spline(self, x, nu=0, ext=None):
    ext = self.ext if ext is None else ext
    if ext not in (0, 3, "extrapolate", "const"):
        raise UnsupportedError(
            f"{PACKAGE}.{type(self).__name__}: ext={ext!r} is not supported",
            "Give ext=0 or ext=3, and np.where for what lies outside.",
        )
    breaks, powers = _pieces(*self._eval_args)
    x = double(x)
    x = x if ext in (0, "extrapolate") else np.clip(x, breaks[0], breaks[-1])
    return _evaluated(breaks, _derivative(powers, _order(nu)), x, 0, True)


# ---- interp1d


@implements_at(definer(interpolate.interp1d, "__call__"), "__call__")
def _interp1d(self, x):
    """Outside of the points, where SciPy would raise, stands NaN: a program does not raise."""
    if not isinstance(self, interpolate.interp1d):
        raise UnsupportedError(f"{PACKAGE}.{type(self).__name__} is not supported", "Use CubicSpline or BSpline.")
    x = double(x)
    if self._kind == "linear":
        y = self._y.reshape(len(self.x), *self._y_extra_shape)
        rise = np.diff(y, axis=0) / np.diff(self.x).reshape(-1, *(1,) * (y.ndim - 1))
        breaks, powers = self.x, np.stack([y[:-1], rise])
    elif hasattr(self, "_spline") and self._spline is not None:
        t, c = self._spline._t, self._spline._c
        breaks, powers = _pieces(t, c.reshape(len(c), *self._y_extra_shape), self._spline.k)
    else:
        raise UnsupportedError(f"{PACKAGE}.interp1d of kind {self._kind!r} is not supported", "Write np.searchsorted.")
    y = _evaluated(breaks, powers, x, self._y_axis, True)
    if self._extrapolate:
        return y
    rest = len(self._y_extra_shape)
    if self._y_axis != 0 and rest:
        raise UnsupportedError(
            f"{PACKAGE}.interp1d along axis {self._y_axis} with a fill_value is not supported",
            "Write axis=0, or fill_value='extrapolate'.",
        )
    x = np.reshape(x, (*x.shape, *(1,) * rest))
    y = np.where(x < breaks[0], self._fill_value_below, y)
    return np.where(x > breaks[-1], self._fill_value_above, y)
