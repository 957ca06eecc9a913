"""scipy.ndimage: filters that are correlations with constant or traced weights, and extremes of windows.

An array is continued beyond its ends, and each place takes the sum over a window of it.
"""

import numbers

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import ndimage

from symgrad.errors import ArgumentError, UnsupportedError
from symgrad.ops.arguments import axis_index, axis_tuple, refuse
from symgrad.ops.define import implements_at
from symgrad.ops.operands import as_input, is_traced

PACKAGE = "scipy.ndimage"
_MODES = {
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "mirror": "reflect",
    "nearest": "edge",
    "constant": "constant",
    "grid-constant": "constant",
    "wrap": "wrap",
    "grid-wrap": "wrap",
}
"""Modes of boundaries, by the names that np.pad has."""


def _input(function, x, output=None):
    if output is not None:
        refuse(function, "output", PACKAGE)
    return as_input(x)


def _each(function, name, value, axes):
    """A parameter for each axis."""
    if isinstance(value, (str, numbers.Number)) or is_traced(value) or value is None:
        return (value,) * len(axes)
    if len(value) != len(axes):
        raise ArgumentError(f"{PACKAGE}.{function}: {len(value)} {name} for {len(axes)} axes", "Give one for each.")
    return tuple(value)


def _padded(function, x, axis, before, after, mode, cval):
    if mode not in _MODES:
        raise UnsupportedError(f"{PACKAGE}.{function}: mode={mode!r} is not one of {', '.join(_MODES)}", "Give one.")
    around = [(before, after) if i == axis else (0, 0) for i in range(x.ndim)]
    given = {"constant_values": cval} if _MODES[mode] == "constant" else {}
    return np.pad(x, around, _MODES[mode], **given)


def _around(function, size, origin):
    """Return how many elements of a window lie before and after its origin."""
    before = size // 2 + origin
    if not 0 <= before < size:
        raise ArgumentError(
            f"{PACKAGE}.{function}: origin={origin} is outside of a window of {size}", "Write origin=0."
        )
    return before, size - 1 - before


def _in_double(x):
    return x if x.dtype.kind in "fc" else np.astype(x, float)


def _as_given(y, x):
    """SciPy computes in double precision, and gives the dtype that it was given."""
    return y if y.dtype == x.dtype else np.astype(y, x.dtype)


# ---- along one axis


def _along(function, x, size, axis, mode, cval, origin):
    """Views of the windows, whose axis comes last."""
    axis = axis_index(function, axis, x.ndim)
    before, after = _around(function, int(size), origin)
    return sliding_window_view(_padded(function, _in_double(x), axis, before, after, mode, cval), int(size), axis=axis)


@implements_at(ndimage, "correlate1d")
def correlate1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    x = _input("correlate1d", input, output)
    weights = as_input(weights)
    return _as_given(_along("correlate1d", x, weights.shape[0], axis, mode, cval, origin) @ weights, x)


@implements_at(ndimage, "convolve1d")
def convolve1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    x, weights = _input("convolve1d", input, output), np.flip(as_input(weights))
    origin = -origin - (int(weights.shape[0]) % 2 == 0)
    return _as_given(_along("convolve1d", x, weights.shape[0], axis, mode, cval, origin) @ weights, x)


@implements_at(ndimage, "uniform_filter1d")
def uniform_filter1d(input, size, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    x = _input("uniform_filter1d", input, output)
    return _as_given(np.sum(_along("uniform_filter1d", x, size, axis, mode, cval, origin), -1) / size, x)


def _gaussian(function, sigma, order, truncate, radius):
    """The weights of a Gaussian, or of a derivative of it (Hermite)."""
    if is_traced(sigma) and radius is None:
        raise UnsupportedError(
            f"{PACKAGE}.{function}: sigma is traced, and the size of the window depends on it", "Give radius= as well."
        )
    radius = int(truncate * float(sigma) + 0.5) if radius is None else int(radius)
    x = np.arange(-radius, radius + 1)
    density = np.exp(-0.5 * (x / sigma) ** 2)
    density = density / np.sum(density)
    slopes = [1.0, -x / sigma**2]  # of order n by those of n - 1 and n - 2
    for n in range(2, order + 1):
        slopes.append(-(x * slopes[n - 1] + (n - 1) * slopes[n - 2]) / sigma**2)
    return np.flip(slopes[order] * density)


@implements_at(ndimage, "gaussian_filter1d")
def gaussian_filter1d(
    input, sigma, axis=-1, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None
):
    x = _input("gaussian_filter1d", input, output)
    weights = _gaussian("gaussian_filter1d", sigma, order, truncate, radius)
    return _as_given(_along("gaussian_filter1d", x, weights.shape[0], axis, mode, cval, 0) @ weights, x)


# ---- along several axes, one after the other


def _axes(function, x, axes):
    return axis_tuple(function, range(x.ndim) if axes is None else axes, x.ndim)


@implements_at(ndimage, "gaussian_filter")
def gaussian_filter(
    input, sigma, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None, axes=None
):
    x = _input("gaussian_filter", input, output)
    axes = _axes("gaussian_filter", x, axes)
    named = {"sigma": sigma, "order": order, "mode": mode, "radius": radius}
    for axis, *own in zip(axes, *[_each("gaussian_filter", *item, axes) for item in named.items()], strict=True):
        width, n, how, reach = own
        if is_traced(width) or width > 1e-15:
            x = gaussian_filter1d(x, width, axis, n, None, how, cval, truncate, radius=reach)
    return x


@implements_at(ndimage, "uniform_filter")
def uniform_filter(input, size=3, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    x = _input("uniform_filter", input, output)
    axes = _axes("uniform_filter", x, axes)
    named = {"size": size, "mode": mode, "origin": origin}
    for axis, n, how, at in zip(axes, *[_each("uniform_filter", *item, axes) for item in named.items()], strict=True):
        x = uniform_filter1d(x, n, axis, None, how, cval, at) if n > 1 else x
    return x


def _differences(name, smoothing):
    @implements_at(ndimage, name)
    def filtered(input, axis=-1, output=None, mode="reflect", cval=0.0):
        x = _input(name, input, output)
        axis = axis_index(name, axis, x.ndim)
        modes = _each(name, "modes", mode, range(x.ndim))
        y = correlate1d(x, np.array([-1.0, 0, 1]), axis, None, modes[axis], cval)
        for other in range(x.ndim):
            y = y if other == axis else correlate1d(y, np.array(smoothing), other, None, modes[other], cval)
        return y


_differences("sobel", [1.0, 2.0, 1.0])
_differences("prewitt", [1.0, 1.0, 1.0])


@implements_at(ndimage, "laplace")
def laplace(input, output=None, mode="reflect", cval=0.0, *, axes=None):
    x = _input("laplace", input, output)
    axes = _axes("laplace", x, axes)
    modes = _each("laplace", "modes", mode, axes)
    return sum(
        correlate1d(x, np.array([1.0, -2.0, 1.0]), axis, None, how, cval) for axis, how in zip(axes, modes, strict=True)
    )


@implements_at(ndimage, "gaussian_laplace")
def gaussian_laplace(input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, **kwargs):
    x = _input("gaussian_laplace", input, output)
    axes = _axes("gaussian_laplace", x, axes)
    orders = [tuple(2 * (i == j) for j in range(len(axes))) for i in range(len(axes))]
    return sum(gaussian_filter(x, sigma, order, None, mode, cval, axes=axes, **kwargs) for order in orders)


# ---- over windows of several axes


def _windows(function, x, shape, mode, cval, origin):
    """Views of the windows, whose axes come last."""
    axes = range(x.ndim)
    for axis, n, at in zip(axes, shape, _each(function, "origins", origin, axes), strict=True):
        before, after = _around(function, int(n), at)
        x = _padded(function, x, axis, before, after, mode, cval)
    return sliding_window_view(x, shape)


def _correlated(function, x, weights, mode, cval, origin):
    if weights.ndim != x.ndim:
        raise ArgumentError(
            f"{PACKAGE}.{function}: weights of {weights.ndim} dimensions for an array of {x.ndim}",
            "Give both the same number of axes: weights[None].",
        )
    windows = _windows(function, _in_double(x), weights.shape, mode, cval, origin)
    n = x.ndim
    return _as_given(np.tensordot(windows, weights, axes=(range(n, 2 * n), range(n))), x)


@implements_at(ndimage, "correlate")
def correlate(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    if axes is not None:
        refuse("correlate", "axes", PACKAGE)
    return _correlated("correlate", _input("correlate", input, output), as_input(weights), mode, cval, origin)


@implements_at(ndimage, "convolve")
def convolve(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    if axes is not None:
        refuse("convolve", "axes", PACKAGE)
    x, weights = _input("convolve", input, output), np.flip(as_input(weights))
    origins = _each("convolve", "origins", origin, range(x.ndim))
    origin = tuple(-at - (int(n) % 2 == 0) for at, n in zip(origins, weights.shape, strict=False))
    return _correlated("convolve", x, weights, mode, cval, origin)


def _extreme(name, of_windows):
    def of(input, size=None, footprint=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
        x = _input(name, input, output)
        if footprint is not None or axes is not None:
            refuse(name, "footprint" if footprint is not None else "axes", PACKAGE)
        shape = tuple(int(n) for n in _each(name, "sizes", size, range(x.ndim)))
        windows = _windows(name, x, shape, mode, cval, origin)
        return of_windows(windows, axis=tuple(range(x.ndim, 2 * x.ndim)))

    def along(input, size, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
        x = _input(f"{name}1d", input, output)
        return _as_given(of_windows(_along(f"{name}1d", x, size, axis, mode, cval, origin), axis=-1), x)

    implements_at(ndimage, name)(of)
    implements_at(ndimage, f"{name}1d")(along)


_extreme("minimum_filter", np.min)
_extreme("maximum_filter", np.max)
