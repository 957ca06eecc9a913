"""scipy.fft: Fourier transforms, written with np.fft, and cosine and sine transforms, which have their own operators.

Arguments that only say how to compute (`overwrite_x`, `workers`) change nothing. The transforms of types 1 and 4 are
symmetric, those of types 2 and 3 the transposes of each other, if the numbers at their ends are scaled as
`orthogonalize=True` says.
"""

import math

import numpy as np
from scipy import fft

from symgrad.core.axes import ALONG_AXIS
from symgrad.core.graph import Aval
from symgrad.core.shapes import with_size
from symgrad.errors import ArgumentError, ShapeError, UnsupportedError
from symgrad.ops import fft as numpys
from symgrad.ops.arguments import axis_index, refuse_given
from symgrad.ops.define import implements_at, operator, refuses_at
from symgrad.ops.dtypes import real_dtype
from symgrad.ops.fft import (
    SWAPPED,
    check_length,
    complex_dtype,
    normalisation,
    over_axes,
    resized,
    sizes_and_axes,
    work_of,
)
from symgrad.ops.operands import as_input
from symgrad.ops.parts import COMPLEX
from symgrad.spelling import call, spell_param

PACKAGE = "scipy.fft"

# ---- Fourier transforms


def _along(name, transform):
    @implements_at(fft, name)
    def written(x, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, *, plan=None):
        refuse_given(name, PACKAGE, plan=plan)
        return transform(x, n, axis, norm)


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _along(_name, getattr(numpys, _name))


def _several(name, last, others, ending=False):
    transform = over_axes(name, last, others, ending, PACKAGE)

    @implements_at(fft, f"{name}n")
    def several(x, s=None, axes=None, norm=None, overwrite_x=False, workers=None, *, plan=None):
        refuse_given(name, PACKAGE, plan=plan)
        return transform(x, s, axes, norm)

    @implements_at(fft, f"{name}2")
    def of_two(x, s=None, axes=(-2, -1), norm=None, overwrite_x=False, workers=None, *, plan=None):
        return several(x, s, axes, norm, plan=plan)


_several("fft", numpys.fft, numpys.fft)
_several("ifft", numpys.ifft, numpys.ifft)
_several("rfft", numpys.rfft, numpys.fft)
_several("irfft", numpys.irfft, numpys.ifft, ending=True)
_several("hfft", numpys.hfft, numpys.fft, ending=True)
_several("ihfft", numpys.ihfft, numpys.ifft)


# ---- cosine and sine transforms


class _Family:
    """The cosine or the sine transforms: their function, and the ends that `orthogonalize` scales, by the type."""

    def __init__(self, function, ends):
        self.function, self.ends = function, ends
        self.operator = operator(
            function,
            infer=self.infer,
            evaluate=self.evaluate,
            vjp=self.vjp,
            spell=self.spell,
            flops=work_of,
            package=PACKAGE,
            **ALONG_AXIS,
        )

    @property
    def name(self):
        return self.function.__name__

    def infer(self, x, type=2, axis=-1, norm="backward", orthogonalize=False):
        least = 2 if self.ends.get(type) == "both" else 1
        check_length(f"{PACKAGE}.{self.name} of type {type}", x.shape[axis], least)
        return Aval(x.shape, real_dtype(complex_dtype(x)))

    def evaluate(self, x, type=2, axis=-1, norm="backward", orthogonalize=False):
        return self.function(x, type, None, axis, norm, orthogonalize=orthogonalize)

    def vjp(self, g, y, x, type, axis, norm, orthogonalize):
        """With the matrix D1 O D2, where O is the one of the scaled ends: D2 O.T D1."""
        outer, inner = (1.0, 1.0) if orthogonalize or type not in self.ends else _SCALES[type]
        g = self.scaled(g, axis, type, outer)
        g = self.operator(g, type=_TRANSPOSE[type], axis=axis, norm=norm, orthogonalize=True)
        return (self.scaled(g, axis, type, inner),)

    def scaled(self, x, axis, type, factor):
        """Multiply the numbers at the ends that the type scales."""
        if factor == 1:
            return x
        n = x.shape[axis]
        k = np.arange(n, like=x)
        first, last = k == 0, k == n - 1
        ends = {"first": first, "last": last, "both": first | last}[self.ends[type]]
        factors = np.astype(np.where(ends, factor, 1.0), real_dtype(x.dtype))
        return x * np.reshape(factors, with_size((1,) * x.ndim, axis, -1))

    def spell(self, node, x):
        params = {**node.op.defaults, **dict(node.params)}
        given = [] if params["type"] == 2 else [spell_param(params["type"])]
        given += [] if params["axis"] == node.aval.ndim - 1 else [f"axis={params['axis']}"]
        given += [] if params["norm"] == "backward" else [f"norm={spell_param(params['norm'])}"]
        usual = params["norm"] == "ortho"
        given += [] if params["orthogonalize"] == usual else [f"orthogonalize={params['orthogonalize']}"]
        return call(f"{PACKAGE}.{self.name}", [x.text, *given])

    def transform(self, x, type, n, axis, norm, orthogonalize, inverse):
        """Transform along one axis; the inverse is the transpose, with the factor of the other direction."""
        x = as_input(x)
        if np.ndim(x) == 0:
            raise ShapeError(f"{PACKAGE}.{self.name} of a number", "Give an array of one dimension or more.")
        if type not in _TRANSPOSE:
            raise ArgumentError(f"{PACKAGE}.{self.name}: type={type!r} is none of 1, 2, 3 and 4", "Write type=2.")
        norm = normalisation(self.name, norm, PACKAGE)
        axis = axis_index(self.name, axis, np.ndim(x))
        orthogonalize = norm == "ortho" if orthogonalize is None else bool(orthogonalize)
        x = resized(x, n, axis)
        type, norm = (_TRANSPOSE[type], SWAPPED[norm]) if inverse else (type, norm)
        params = {"type": type, "axis": axis, "norm": norm, "orthogonalize": orthogonalize}
        if x.dtype.kind != "c":
            return self.operator(x, **params)
        if orthogonalize != (norm == "ortho"):
            raise UnsupportedError(
                f"{PACKAGE}.{self.name}: orthogonalize= of complex numbers is not supported: SciPy passes over it",
                "Transform x.real and x.imag.",
            )
        return COMPLEX(self.operator(np.real(x), **params), self.operator(np.imag(x), **params))


_TRANSPOSE = {1: 1, 2: 3, 3: 2, 4: 4}
_ROOT = math.sqrt(2)
_SCALES = {1: (_ROOT, 1 / _ROOT), 2: (_ROOT, 1.0), 3: (1.0, 1 / _ROOT)}
"""By the type the factors of its ends behind and before the transform with scaled ends."""

COSINE = _Family(fft.dct, {1: "both", 2: "first", 3: "first"})
SINE = _Family(fft.dst, {2: "last", 3: "last"})


def _trigonometric(family, inverse):
    name = f"{'i' * inverse}{family.name}"

    @implements_at(fft, name)
    def along(x, type=2, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, orthogonalize=None):
        return family.transform(x, type, n, axis, norm, orthogonalize, inverse)

    @implements_at(fft, f"{name}n")
    def several(x, type=2, s=None, axes=None, norm=None, overwrite_x=False, workers=None, *, orthogonalize=None):
        x = as_input(x)
        for n, axis in sizes_and_axes(f"{name}n", x, s, axes, PACKAGE):
            x = family.transform(x, type, n, axis, norm, orthogonalize, inverse)
        return x


for _family in (COSINE, SINE):
    _trigonometric(_family, False)
    _trigonometric(_family, True)


# ---- others

implements_at(fft, "fftshift")(lambda x, axes=None: np.fft.fftshift(x, axes))
implements_at(fft, "ifftshift")(lambda x, axes=None: np.fft.ifftshift(x, axes))
implements_at(fft, "fftfreq")(lambda n, d=1.0, *, xp=None, device=None: np.fft.fftfreq(n, d))
implements_at(fft, "rfftfreq")(lambda n, d=1.0, *, xp=None, device=None: np.fft.rfftfreq(n, d))

refuses_at(
    fft,
    "{} has no derivative by a formula that symgrad knows",
    "Write it with scipy.fft.rfft and irfft, and the coefficients of scipy.fft.fht as numbers.",
    "fht ifht",
)
