"""scipy.ndimage: images between their pixels, by interpolation of order 0 and 1: `map_coordinates`, `shift`, `zoom`."""

from itertools import product

import numpy as np
from scipy import ndimage

from symgrad.core.shapes import with_size
from symgrad.errors import ArgumentError, DTypeError, UnsupportedError
from symgrad.ops.arguments import refuse, refuse_given
from symgrad.ops.define import implements_at, refuses_at
from symgrad.ops.operands import as_input, is_traced

PACKAGE = "scipy.ndimage"
MODES = ("constant", "grid-constant", "nearest", "mirror", "reflect", "grid-mirror", "grid-wrap")


def _image(function, x, output, order, mode):
    refuse_given(function, PACKAGE, output=output)
    if order not in (0, 1):
        raise UnsupportedError(
            f"{PACKAGE}.{function}: order={order} fits splines to the whole image, which is not supported",
            "Give order=1, which interpolates between neighbours, or order=0.",
        )
    if mode not in MODES:
        raise UnsupportedError(f"{PACKAGE}.{function}: mode={mode!r} is not one of {', '.join(MODES)}", "Give one.")
    x = as_input(x)
    if x.dtype.kind not in "fc":
        raise DTypeError(f"{PACKAGE}.{function} of {x.dtype} rounds its result", "Convert first: x.astype(float).")
    return x


def _neighbours(c, order):
    """Return whole coordinates around `c`, and their weights."""
    if order == 0:
        return [(np.floor(c + 0.5), 1.0)]
    below = np.floor(c)
    return [(below, 1 - (c - below)), (below + 1, c - below)]


def _inside(i, n, mode):
    """Return the pixel that a whole coordinate stands for, and where there is none."""
    i = i.astype(int)
    if mode in ("constant", "grid-constant"):
        return np.clip(i, 0, n - 1), (i < 0) | (i > n - 1)
    if mode == "nearest":
        return np.clip(i, 0, n - 1), None
    if mode == "grid-wrap":
        return i % n, None
    period = max(2 * (n - 1), 1) if mode == "mirror" else 2 * n
    i = i % period
    return np.where(i > n - 1, period - i - (mode != "mirror"), i), None


def _sampled(x, coordinates, order, mode, cval):
    """Return the image at coordinates: one array for each axis, all of one shape."""
    along = [_neighbours(c, order) for c in coordinates]
    result = 0.0
    for corner in product(*along):
        places, lacking, weight = [], None, 1.0
        for (i, w), n in zip(corner, x.shape, strict=True):
            place, none = _inside(i, n, mode)
            places.append(place)
            weight = weight * w
            lacking = none if lacking is None else lacking | none
        value = x[tuple(places)]
        result = result + weight * (value if lacking is None else np.where(lacking, cval, value))
    if mode == "constant":  # which does not interpolate beyond the last pixels
        for c, n in zip(coordinates, x.shape, strict=True):
            result = np.where((c < 0) | (c > n - 1), cval, result)
    return np.astype(result, x.dtype)


@implements_at(ndimage, "map_coordinates")
def map_coordinates(input, coordinates, output=None, order=3, mode="constant", cval=0.0, prefilter=True):
    x, coordinates = _image("map_coordinates", input, output, order, mode), as_input(coordinates)
    if np.ndim(coordinates) == 0 or coordinates.shape[0] != x.ndim:
        raise ArgumentError(
            f"{PACKAGE}.map_coordinates: coordinates of shape {np.shape(coordinates)} for {x.ndim} axes",
            "Give one array of coordinates for each axis: np.stack([rows, columns]).",
        )
    return _sampled(x, [coordinates[i] for i in range(x.ndim)], order, mode, cval)


def _along_axes(x, coordinates, order, mode, cval):
    """Sample one axis after the other, at one vector of coordinates for each; None leaves an axis as it is."""
    for axis, c in enumerate(coordinates):
        if c is None:
            continue
        moved = np.moveaxis(x, axis, 0)
        parts, n = 0.0, x.shape[axis]
        for i, w in _neighbours(c, order):
            place, none = _inside(i, n, mode)
            value = moved[place]
            spread = with_size((1,) * x.ndim, 0, -1)
            value = value if none is None else np.where(np.reshape(none, spread), cval, value)
            parts = parts + (value if order == 0 else np.reshape(w, spread) * value)
        if mode == "constant":
            parts = np.where(np.reshape((c < 0) | (c > n - 1), spread), cval, parts)
        x = np.astype(np.moveaxis(parts, 0, axis), x.dtype)
    return x


def _each(function, value, ndim):
    """One number for each axis."""
    value = as_input(value)
    if np.ndim(value) == 0:
        return [value] * ndim
    if np.shape(value) != (ndim,):
        raise ArgumentError(
            f"{PACKAGE}.{function}: numbers of shape {np.shape(value)} for {ndim} axes", "Give one for each axis."
        )
    return [value[i] for i in range(ndim)]


@implements_at(ndimage, "shift")
def shift(input, shift, output=None, order=3, mode="constant", cval=0.0, prefilter=True):
    x = _image("shift", input, output, order, mode)
    moved = zip(_each("shift", shift, x.ndim), x.shape, strict=True)
    return _along_axes(x, [np.arange(n, like=x) - by for by, n in moved], order, mode, cval)


@implements_at(ndimage, "zoom")
def zoom(input, zoom, output=None, order=3, mode="constant", cval=0.0, prefilter=True, *, grid_mode=False):
    x = _image("zoom", input, output, order, mode)
    if grid_mode:
        refuse("zoom", "grid_mode", PACKAGE)
    if is_traced(zoom):
        raise UnsupportedError(
            f"{PACKAGE}.zoom: zoom is traced, and the size of the result depends on it",
            "Write map_coordinates with coordinates that depend on it.",
        )
    coordinates = []
    for factor, n in zip(_each("zoom", zoom, x.ndim), map(int, x.shape), strict=True):
        m = round(n * float(factor))
        same = np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 1.0)
        coordinates.append(np.minimum(same, n - 1.0))
    return _along_axes(x, coordinates, order, mode, cval)


refuses_at(
    ndimage,
    "{} is not supported",
    "Write scipy.ndimage.map_coordinates(image, coordinates, order=1), with the coordinates as you want them.",
    "affine_transform rotate geometric_transform",
)
