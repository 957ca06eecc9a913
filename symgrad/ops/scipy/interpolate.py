"""scipy.interpolate: fixed splines at traced places.

All of them are piecewise polynomials in powers of the distance from the breakpoint before, and so are their
derivatives. Nothing of SciPy is left in the program.
"""

import math

import numpy as np
from scipy import interpolate

from symgrad.errors import ArgumentError, UnsupportedError
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
    """Outside of the points, where SciPy would raise, stands NaN, whatever the fill value: a program does not raise."""
    if not isinstance(self, interpolate.interp1d):
        raise UnsupportedError(f"{PACKAGE}.{type(self).__name__} is not supported", "Use CubicSpline or BSpline.")
    x = double(x)
    if self._kind == "linear":
        y = self._y.reshape(len(self.x), *self._y_extra_shape)
        rise = np.diff(y, axis=0) / np.diff(self.x).reshape(-1, *(1,) * (y.ndim - 1))
        breaks, powers = self.x, np.stack([y[:-1], rise])
    elif getattr(self, "_spline", None) is not None and self._spline.k:
        t, c = self._spline._t, self._spline._c
        breaks, powers = _pieces(t, c.reshape(len(c), *self._y_extra_shape), self._spline.k)
    else:
        return _filled(self, x, _step(self, x), _ends(self))
    return _filled(self, x, _evaluated(breaks, powers, x, 0, True), _ends(self))


def _ends(self):
    """Return the fill values below and above the points; None where the spline is extrapolated."""
    if self._extrapolate:
        return None
    return (np.nan, np.nan) if self.bounds_error else (self._fill_value_below, self._fill_value_above)


def _step(self, x):
    """The value of one of the points beside a place."""
    if self._kind.startswith("nearest"):
        point = np.searchsorted(self.x_bds, x, side=self._side)
    elif self._kind == "spline":  # of degree 0
        point = np.clip(np.searchsorted(self.x, x, side="right") - 1, 0, len(self.x) - 1)
    else:  # "previous", "next"
        point = np.searchsorted(self._x_shift, x, side=self._side)
        point = np.clip(point, 1 - self._ind, len(self.x) - self._ind) + self._ind - 1
    return take(self._y.reshape(len(self.x), *self._y_extra_shape), point, axis=0)


def _filled(self, x, y, ends):
    """An interpolation with what stands outside of the points, and with its axes in the order of the values."""
    if ends is not None:
        places = np.reshape(x, (*x.shape, *(1,) * len(self._y_extra_shape)))
        y = np.where(places < self.x[0], ends[0], y)
        y = np.where(places > self.x[-1], ends[1], y)
    axis = self._y_axis
    return y if axis == 0 else np.moveaxis(y, range(x.ndim), range(axis, axis + x.ndim))


class _OfTraced(interpolate.interp1d):
    """An interpolation of traced values: each is the sum of the values, weighted by what interpolates the identity."""

    def __call__(self, x):
        weights = self._weights(x) if is_traced(x) else _untraced_call(self._weights, x)
        return _filled(self, double(x), np.tensordot(weights, self._values, 1), self._outside)


def _untraced_call(function, x):
    with untraced():
        return function(np.asarray(x, dtype=float))


@implements_at(interpolate.interp1d, "__init__")
def _of_traced(
    self, x, y, kind="linear", axis=-1, copy=True, bounds_error=None, fill_value=np.nan, assume_sorted=False
):
    if is_traced(x):
        raise UnsupportedError(f"{PACKAGE}.interp1d at traced points is not supported", "Write np.interp(x, xp, fp).")
    extrapolates = isinstance(fill_value, str)
    if extrapolates and bounds_error:
        raise ArgumentError(f"{PACKAGE}.interp1d cannot extrapolate and raise", "Leave bounds_error= out.")
    values = np.moveaxis(double(y), axis, 0)
    order = np.argsort(x, kind="mergesort")
    with untraced():
        points = np.asarray(x, dtype=float)[order]
        self._weights = interpolate.interp1d(points, np.eye(len(points)), kind, axis=0, fill_value="extrapolate")
    self.__class__ = _OfTraced
    self.x, self._values, self._y_axis = points, np.take(values, order, axis=0), axis % values.ndim
    self._y_extra_shape = values.shape[1:]
    ends = fill_value if isinstance(fill_value, tuple) else (fill_value, fill_value)
    self._outside = None if extrapolates else (np.nan, np.nan) if bounds_error in (None, True) else ends
