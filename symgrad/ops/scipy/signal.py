"""scipy.signal: convolution and correlation of any number of dimensions, directly and by Fourier transforms."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import signal
from scipy.fft import next_fast_len

from symgrad.core.shapes import is_one
from symgrad.errors import ArgumentError, ShapeError
from symgrad.ops.arguments import axis_tuple, check_ndim
from symgrad.ops.define import implements_at
from symgrad.ops.operands import as_input, is_traced
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


def _in_order(function, in1, in2, axes=None):
    """The larger one first, for mode='valid'."""
    pairs = [(in1.shape[i], in2.shape[i]) for i in (range(in1.ndim) if axes is None else axes)]
    first = all(n >= m for n, m in pairs)
    if not first and not all(n <= m for n, m in pairs):
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


def _convolved(function, in1, in2, mode, late=False, beyond=None):
    in1, in2 = _operands(function, in1, in2, mode)
    if mode == "valid":
        in1, in2 = _in_order(function, in1, in2)
    if np.ndim(in1) == 0:
        return in1 * in2
    vectors = np.ndim(in1) == 1
    if mode == "valid":
        return np.convolve(in1, in2, "valid") if vectors else _valid(in1, in2)
    around = [(m - 1, m - 1) for m in in2.shape]
    full = np.convolve(in1, in2) if vectors else _valid(np.pad(in1, around, **(beyond or {})), in2)
    return full if mode == "full" else _middle(full, in1, in2, late)


@implements_at(signal, "convolve")
def convolve(in1, in2, mode="full", method="auto"):
    return _convolved("convolve", in1, in2, mode)


# ---- by Fourier transforms


@implements_at(signal, "fftconvolve", "oaconvolve")
def fftconvolve(in1, in2, mode="full", axes=None):
    in1, in2 = (_floating(x) for x in _operands("fftconvolve", in1, in2, mode))
    axes = axis_tuple("fftconvolve", axes, in1.ndim)
    if mode == "valid":
        in1, in2 = _in_order("fftconvolve", in1, in2, axes)
    long = [i for i in axes if not is_one(in1.shape[i]) and not is_one(in2.shape[i])]
    if not long:
        return in1 * in2
    sizes = [in1.shape[i] + in2.shape[i] - 1 for i in long]
    full = _product_of_transforms(in1, in2, [_fast(n) for n in sizes], long)
    sizes, starts = [*full.shape], [0] * in1.ndim
    for i in axes:
        n, m = in1.shape[i], in2.shape[i]
        sizes[i] = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
        starts[i] = {"full": 0, "same": (m - 1) // 2, "valid": m - 1}[mode]
    return full[tuple(slice(start, start + n) for start, n in zip(starts, sizes, strict=True))]


def _product_of_transforms(in1, in2, sizes, axes):
    complex_ = "c" in (in1.dtype.kind, in2.dtype.kind)
    there, back = (np.fft.fftn, np.fft.ifftn) if complex_ else (np.fft.rfftn, np.fft.irfftn)
    return back(there(in1, sizes, axes) * there(in2, sizes, axes), sizes, axes)


def _fast(n):
    """Return a length from `n` on that is a product of small primes, where it is a number."""
    return next_fast_len(n, True) if isinstance(n, int) else n


def _floating(x):
    return x if x.dtype.kind in "fc" else np.astype(x if is_traced(x) else np.asarray(x), float)


# ---- in the plane


@implements_at(signal, "convolve2d")
def convolve2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    beyond = _beyond_plane("convolve2d", in1, boundary, fillvalue)
    return _convolved("convolve2d", in1, in2, mode, beyond=beyond)


@implements_at(signal, "correlate")
def correlate(in1, in2, mode="full", method="auto"):
    return _convolved("correlate", in1, np.conjugate(np.flip(as_input(in2))), mode)


@implements_at(signal, "correlate2d")
def correlate2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    beyond = _beyond_plane("correlate2d", in1, boundary, fillvalue)
    return _convolved("correlate2d", in1, np.conjugate(np.flip(as_input(in2))), mode, late=True, beyond=beyond)


def _beyond_plane(function, in1, boundary, fillvalue):
    """Return the arguments of `np.pad` for what a boundary says is beyond the edges."""
    instead = "Write np.convolve for one dimension, scipy.signal.convolve for more."
    check_ndim(f"{PACKAGE}.{function}: in1", in1, 2, 2, instead)
    if boundary not in _BOUNDARIES:
        raise ArgumentError(
            f"{PACKAGE}.{function}: boundary={boundary!r} is not known", 'Give boundary "fill", "wrap" or "symm".'
        )
    mode = _BOUNDARIES[boundary]
    return {"mode": mode, "constant_values": fillvalue} if mode == "constant" else {"mode": mode}


_BOUNDARIES = {
    **dict.fromkeys(("fill", "pad"), "constant"),
    **dict.fromkeys(("wrap", "circular"), "wrap"),
    **dict.fromkeys(("symm", "symmetric"), "symmetric"),
}
