"""scipy.signal: convolution and correlation, of any number of dimensions, computed directly."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import signal

from symgrad.errors import ShapeError
from symgrad.ops.arguments import axis_tuple, check_ndim, refuse
from symgrad.ops.define import implements_at
from symgrad.ops.operands import as_input
from symgrad.ops.products import check_mode

PACKAGE = "scipy.signal"


def _operands(function, in1, in2, mode):
    in1, in2 = as_input(in1), as_input(in2)
    check_mode(function, mode, PACKAGE)
    if np.ndim(in1) != np.ndim(in2):
        raise ShapeError(
            f"{PACKAGE}.{function}: arrays of {np.ndim(in1)} and {np.ndim(in2)} dimensions",
            "Give both the same number: x[:, None].",
        )
    return in1, in2


def _in_order(function, in1, in2):
    """The larger one first, for mode='valid'."""
    first = all(n >= m for n, m in zip(in1.shape, in2.shape, strict=True))
    if not first and not all(n <= m for n, m in zip(in1.shape, in2.shape, strict=True)):
        raise ShapeError(
            f"{PACKAGE}.{function}: mode='valid' of shapes {in1.shape} and {in2.shape}, neither of which contains the "
            "other",
            "Write mode='full' or mode='same', or swap axes so that one contains the other.",
        )
    return (in1, in2) if first else (in2, in1)


def _valid(x, kernel):
    """Each place where all of the kernel meets the array."""
    n = x.ndim
    return np.tensordot(sliding_window_view(x, kernel.shape), np.flip(kernel), axes=(range(n, 2 * n), range(n)))


def _middle(full, in1, in2, late):
    """The part with the shape of `in1`; of an even kernel the middle is the place before, or behind for `late`."""
    starts = [(m - 1 + late) // 2 for m in in2.shape]
    return full[tuple(slice(start, start + n) for start, n in zip(starts, in1.shape, strict=True))]


def _convolved(function, in1, in2, mode, late=False):
    in1, in2 = _operands(function, in1, in2, mode)
    if mode == "valid":
        in1, in2 = _in_order(function, in1, in2)
    if np.ndim(in1) == 0:
        return in1 * in2
    vectors = np.ndim(in1) == 1
    if mode == "valid":
        return np.convolve(in1, in2, "valid") if vectors else _valid(in1, in2)
    around = [(m - 1, m - 1) for m in in2.shape]
    full = np.convolve(in1, in2) if vectors else _valid(np.pad(in1, around), in2)
    return full if mode == "full" else _middle(full, in1, in2, late)


@implements_at(signal, "convolve")
def convolve(in1, in2, mode="full", method="auto"):
    return _convolved("convolve", in1, in2, mode)


@implements_at(signal, "fftconvolve", "oaconvolve")
def fftconvolve(in1, in2, mode="full", axes=None):
    if axes is not None and axis_tuple("fftconvolve", axes, np.ndim(in1)) != tuple(range(np.ndim(in1))):
        refuse("fftconvolve", "axes", PACKAGE)
    return _convolved("fftconvolve", in1, in2, mode)


@implements_at(signal, "convolve2d")
def convolve2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    _check_plane("convolve2d", in1, boundary, fillvalue)
    return _convolved("convolve2d", in1, in2, mode)


@implements_at(signal, "correlate")
def correlate(in1, in2, mode="full", method="auto"):
    return _convolved("correlate", in1, np.conjugate(np.flip(as_input(in2))), mode)


@implements_at(signal, "correlate2d")
def correlate2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    _check_plane("correlate2d", in1, boundary, fillvalue)
    return _convolved("correlate2d", in1, np.conjugate(np.flip(as_input(in2))), mode, late=True)


def _check_plane(function, in1, boundary, fillvalue):
    instead = "Write np.convolve for one dimension, scipy.signal.convolve for more."
    check_ndim(f"{PACKAGE}.{function}: in1", in1, 2, 2, instead)
    if boundary != "fill":
        refuse(function, "boundary", PACKAGE)
    if fillvalue != 0:
        refuse(function, "fillvalue", PACKAGE)
