"""Rules of complex numbers and their parts: what derivatives of real functions of them leave."""

import numpy as np

from symgrad.core.graph import Graph, Node
from symgrad.ops.astype import ASTYPE
from symgrad.ops.dtypes import real_dtype
from symgrad.ops.elementwise import POSITIVE
from symgrad.ops.fft import FFT, IFFT
from symgrad.ops.parts import COMPLEX
from symgrad.rewrite.conditions import floating, real
from symgrad.rewrite.pattern import Draw
from symgrad.rewrite.rules import procedure, rule

PLANE, COMPLEX128 = Draw(dtype=complex), np.dtype(complex)
NEGATIVE_I = 0 - 1j  # -1j has a negative zero


def _in_plane(z, **_):
    return z.dtype.kind == "c"


def _real_beside(c, z):
    return real(c) and _in_plane(z)


# ---- conjugates


@rule(exact=True, plane="all", z=PLANE)
def conjugate_twice(z):
    return np.conjugate(np.conjugate(z)), z


@rule(plane="finite", changes_nan=True, z=PLANE, when=_real_beside)
def conjugate_of_multiple(c, z):
    return np.conjugate(c * z), c * np.conjugate(z)


# ---- squares of absolute values: these have a derivative at zero, and need no root


@rule(plane="finite", changes_nan=True, z=PLANE, when=_in_plane)
def absolute_squared_in_plane(z):
    return np.abs(z) * np.abs(z), np.real(z * np.conjugate(z))


# ---- parts of multiples


@rule(plane="finite", changes_nan=True, z=PLANE)
def real_of_turned(z):
    return np.real(1j * z), -np.imag(z)


@rule(plane="finite", changes_nan=True, z=PLANE)
def real_of_turned_back(z):
    return np.real(NEGATIVE_I * z), np.imag(z)


# ---- signs


@rule(exact=True, plane="all", z=PLANE, w=PLANE, when=_in_plane)
def add_negative_in_plane(z, w):
    return z + -w, z - w


@rule(exact=True, plane="all", z=PLANE, w=PLANE, when=_in_plane)
def subtract_negative_in_plane(z, w):
    return z - -w, z + w


# ---- real numbers among complex ones


@rule(exact=True, plane="all", when=floating)
def real_of_real(x, dtype=COMPLEX128):
    return np.real(np.astype(x, dtype)), np.astype(np.real(x), real_dtype(dtype))


@rule(exact=True, plane="all", when=floating)
def imaginary_of_real(x, dtype=COMPLEX128):
    return np.imag(np.astype(x, dtype)), 0.0


def _are_real(x, y):
    return floating(x) and floating(y)


@rule(exact=True, plane="all", when=_are_real)
def real_of_parts(x, y):
    return np.real(COMPLEX(x, y)), x


@rule(exact=True, plane="all", when=_are_real)
def imaginary_of_parts(x, y):
    return np.imag(COMPLEX(x, y)), y


def _is_cast_anyway(x, z, dtype):
    """Whether NumPy casts a real number beside this complex one to the same dtype."""
    return floating(x) and _in_plane(z) and z.dtype == dtype and np.result_type(x.dtype, dtype) == dtype


@rule(exact=True, plane="all", z=PLANE, when=_is_cast_anyway)
def cast_in_product(x, z, dtype=COMPLEX128):
    return np.astype(x, dtype) * z, x * z


@rule(exact=True, plane="all", z=PLANE, when=_is_cast_anyway)
def cast_in_sum(x, z, dtype=COMPLEX128):
    return np.astype(x, dtype) + z, x + z


@rule(exact=True, plane="all", x=POSITIVE, z=PLANE, when=_is_cast_anyway)
def cast_in_divisor(x, z, dtype=COMPLEX128):
    return z / np.astype(x, dtype), z / x


# ---- transforms


@procedure(FFT, IFFT, of={ASTYPE}, exact=True, plane="all")
def transform_of_real(graph: Graph, node: Node) -> Node | None:
    """A Fourier transform makes complex numbers of real ones by itself."""
    x = node.inputs[0]
    if x.op is not ASTYPE or x.inputs[0].aval.dtype.kind != "f" or x.inputs[0].aval.weak:
        return None
    y = graph.add(node.op, x.inputs, node.params)
    return y if y.aval == node.aval else None
