"""np.fft: Fourier transforms along one axis, of complex and of real numbers, and what is written with them.

The matrix of a discrete Fourier transform is symmetric: the derivative of a transform is the same transform. Of the
halves that belong to real numbers, what the other half repeats counts twice.
"""

import numpy as np

from symgrad.core import shapes
from symgrad.core.axes import ALONG_AXIS
from symgrad.core.graph import Aval
from symgrad.core.shapes import key_along, with_size
from symgrad.core.sizes import Dim, same
from symgrad.errors import ArgumentError, DTypeError, ShapeError
from symgrad.ops.arguments import axis_index, axis_tuple, refuse, refuse_given
from symgrad.ops.create import arange, array, creates
from symgrad.ops.define import implements, operator
from symgrad.ops.dtypes import real_dtype, result_dtype
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.shape import as_size
from symgrad.spelling import call, spell_param

SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""By the scale of a transform that of the one with the other sign which has the same factor in front."""


def normalisation(function, norm, package="np"):
    """Return the name of a scale, of which None is the first."""
    norm = norm or "backward"
    if norm not in SWAPPED:
        raise ArgumentError(
            f"{package}.{function}: norm={norm!r} is none of 'backward', 'ortho' and 'forward'",
            "Write norm='ortho', or leave it out.",
        )
    return norm


# ---- the operators


def complex_dtype(x):
    return result_dtype(x.dtype, np.complex64)


def check_length(what, n, least=1):
    """Refuse too few numbers to transform."""
    if isinstance(n, int) and n < least:
        raise ShapeError(f"{what}: there are {n} numbers to transform", f"Give {least} or more.")


def _spell(function):
    def spell(node, x):
        params = {**node.op.defaults, **dict(node.params)}
        n, axis, norm = params.get("n"), params["axis"], params["norm"]
        operand = node.inputs[0].aval
        given = [] if n is None or same(n, 2 * operand.shape[axis] - 2) else [spell_param(n)]
        given += [] if axis == operand.ndim - 1 else [f"axis={axis}"]
        given += [] if norm == "backward" else [f"norm={spell_param(norm)}"]
        return call(f"np.fft.{function.__name__}", [x.text, *given])

    return spell


def work_of(y, x, axis, **params):
    """Return 5 n log2 n for each transform (J. Cooley and J. Tukey, 1965)."""
    n = x.shape[axis]
    return 5 * shapes.product(x.shape) * (n.bit_length() if isinstance(n, int) else 10)


def _transform(function):
    """Define a transform of complex numbers; it is its own transpose."""

    def infer(x, axis=-1, norm="backward"):
        check_length(f"np.fft.{function.__name__}", x.shape[axis])
        return Aval(x.shape, complex_dtype(x))

    op = operator(
        function,
        infer=infer,
        evaluate=lambda x, axis=-1, norm="backward": function(x, None, axis, norm),
        vjp=lambda g, y, x, axis, norm: (op(g, axis=axis, norm=norm),),
        spell=_spell(function),
        flops=work_of,
        out=True,
        **ALONG_AXIS,
    )
    return op


FFT, IFFT = _transform(np.fft.fft), _transform(np.fft.ifft)


def _half(n):
    return n // 2 + 1


def _counted(x, n, axis, once, twice):
    """Scale a half of a transform of n numbers: what stands in it `once`, and what the other half repeats."""
    k = np.arange(_half(n), like=x)
    factors = np.astype(np.where((k == 0) | (2 * k == n), once, twice), real_dtype(x.dtype))
    return x * np.reshape(factors, with_size((1,) * x.ndim, axis, -1))


def _infer_rfft(x, axis=-1, norm="backward"):
    if x.dtype.kind == "c":
        raise DTypeError(f"np.fft.rfft does not take {x.dtype}", "Write np.fft.fft, or x.real.")
    check_length("np.fft.rfft", x.shape[axis])
    return Aval(with_size(x.shape, axis, _half(x.shape[axis])), complex_dtype(x))


RFFT = operator(
    np.fft.rfft,
    infer=_infer_rfft,
    evaluate=lambda x, axis=-1, norm="backward": np.fft.rfft(x, None, axis, norm),
    vjp=lambda g, y, x, axis, norm: (_hfft(_counted(g, x.shape[axis], axis, 1.0, 0.5), x.shape[axis], axis, norm),),
    spell=_spell(np.fft.rfft),
    flops=work_of,
    out=True,
    **ALONG_AXIS,
)


def _infer_irfft(x, n, axis=-1, norm="backward"):
    check_length("np.fft.irfft", n)
    return Aval(with_size(x.shape, axis, n), real_dtype(complex_dtype(x)))


IRFFT = operator(
    np.fft.irfft,
    infer=_infer_irfft,
    evaluate=lambda x, n, axis=-1, norm="backward": np.fft.irfft(x, n, axis, norm),
    vjp=lambda g, y, x, n, axis, norm: (_counted(_ihfft(g, axis, norm), n, axis, 1.0, 2.0),),
    spell=_spell(np.fft.irfft),
    flops=lambda y, x, n, axis, norm: work_of(y, y, axis),
    out=True,
    **ALONG_AXIS,
)
"""The n real numbers of a half that has ``n // 2 + 1`` of theirs."""


def _hfft(x, n, axis, norm):
    return IRFFT(np.conjugate(x), n=n, axis=axis, norm=SWAPPED[norm])


def _ihfft(x, axis, norm):
    return np.conjugate(RFFT(x, axis=axis, norm=SWAPPED[norm]))


# ---- along one axis, of another length


def resized(x, n, axis):
    """The first n numbers along an axis, with zeros behind those that there are."""
    size = x.shape[axis]
    if n is None or same(n, size):
        return x
    n = as_size(n)
    if n < size:
        return x[key_along(axis, slice(n))]
    return np.pad(x, [(0, n - size) if i == axis else (0, 0) for i in range(x.ndim)])


def _operand(function, a, axis):
    a = as_input(a)
    if np.ndim(a) == 0:
        raise ShapeError(f"np.fft.{function} of a number", "Give an array of one dimension or more.")
    return a, axis_index(f"fft.{function}", axis, np.ndim(a))


def _along(function, op, is_half=False):
    """Implement a transform along one axis, of a given number of elements, or of a half that stands for so many."""

    def transform(a, n=None, axis=-1, norm=None, out=None):
        name = function.__name__
        refuse_given(f"fft.{name}", out=out)
        a, axis = _operand(name, a, axis)
        how = {"axis": axis, "norm": normalisation(f"fft.{name}", norm)}
        if not is_half:
            return op(resized(a, n, axis), **how)
        n = 2 * (a.shape[axis] - 1) if n is None else as_size(n)
        return op(resized(a, _half(n), axis), n=n, **how)

    return implements(function)(transform)


fft, ifft, rfft = (
    _along(function, op) for function, op in ((np.fft.fft, FFT), (np.fft.ifft, IFFT), (np.fft.rfft, RFFT))
)
ihfft = _along(np.fft.ihfft, _ihfft)
irfft, hfft = _along(np.fft.irfft, IRFFT, is_half=True), _along(np.fft.hfft, _hfft, is_half=True)


# ---- along several axes, one after the other


def sizes_and_axes(function, a, s, axes, package="np"):
    """Return sizes and axes of a transform of several dimensions: None for a size that stays as it is."""
    if axes is None:
        axes = range(a.ndim) if s is None else range(a.ndim - len(s), a.ndim)
    axes = [axis_index(function, i, a.ndim) for i in axes]
    s = [None] * len(axes) if s is None else [None if isinstance(n, int) and n == -1 else n for n in s]
    if len(s) != len(axes):
        raise ShapeError(f"{package}.{function}: {len(s)} sizes for {len(axes)} axes", "Give one size for each axis.")
    return list(zip(s, axes, strict=True))


def over_axes(function, last, others, ending, package="np"):
    """Return a transform along several axes: along the last one of them by `last`, first or, `ending`, at the end."""

    def transform(a, s=None, axes=None, norm=None):
        a = as_input(a)
        pairs = sizes_and_axes(function, a, s, axes, package)
        if not pairs:
            raise ShapeError(f"{package}.{function} along no axis", "Name an axis at least.")
        *rest, (n, axis) = pairs
        if not ending:
            a = last(a, n, axis, norm)
        for size, i in rest if ending else reversed(rest):
            a = others(a, size, i, norm)
        return last(a, n, axis, norm) if ending else a

    return transform


def _several(name, last, others, ending=False):
    transform = over_axes(f"fft.{name}", last, others, ending)

    @implements(getattr(np.fft, f"{name}n"))
    def several(a, s=None, axes=None, norm=None, out=None):
        refuse_given(f"fft.{name}", out=out)
        return transform(a, s, axes, norm)

    @implements(getattr(np.fft, f"{name}2"))
    def of_two(a, s=None, axes=(-2, -1), norm=None, out=None):
        return several(a, s, axes, norm, out)


_several("fft", fft, fft)
_several("ifft", ifft, ifft)
_several("rfft", rfft, fft)
_several("irfft", irfft, ifft, ending=True)


# ---- frequencies, and halves that change places


def _frequencies(function, places):
    """Register frequencies as multiples of ``1 / (n * d)``: by NumPy itself where both are numbers."""

    @creates(function)
    def frequencies(new, n, d=1.0, device=None):
        if device not in (None, "cpu"):
            refuse(f"fft.{function.__name__}", "device")
        n = as_size(n)
        if not isinstance(n, Dim) and not is_traced(d):
            return array(new, function(n, d))
        return places(new, n) * (1 / (n * d))


def _around_zero(new, n):
    k = arange(new, n)
    return np.where(k < (n + 1) // 2, k, k - n)


_frequencies(np.fft.fftfreq, _around_zero)
_frequencies(np.fft.rfftfreq, lambda new, n: arange(new, _half(n)))


def _shifted_halves(function, half):
    @implements(function)
    def shift(x, axes=None):
        x = as_input(x)
        axes = axis_tuple(f"fft.{function.__name__}", axes, np.ndim(x))
        return np.roll(x, tuple(half(x.shape[i]) for i in axes), axes) if axes else np.copy(x)


_shifted_halves(np.fft.fftshift, lambda n: n // 2)
_shifted_halves(np.fft.ifftshift, lambda n: -(n // 2))
