"""Parts of numbers: real and imaginary, quotient and remainder, integer and fraction, mantissa and exponent."""

import numpy as np

from symgrad.core.axes import aligned
from symgrad.core.graph import Aval
from symgrad.core.shapes import broadcast_shapes
from symgrad.errors import UnsupportedError
from symgrad.ops.define import implements, operator
from symgrad.ops.dtypes import kind_of, ufunc_dtypes
from symgrad.ops.marks import STOP
from symgrad.ops.operands import as_input

# ---- real and imaginary parts of reals


def _refuse_complex(function, x):
    if x.dtype.kind == "c":
        raise UnsupportedError(
            f"np.{function} of complex numbers is not supported", "Write it in terms of real and imaginary parts."
        )
    return x


implements(np.real)(lambda val: _refuse_complex("real", val))
implements(np.imag)(lambda val: np.zeros_like(_refuse_complex("imag", val)))
implements(np.isreal)(lambda x: np.ones_like(_refuse_complex("isreal", x), dtype=bool))
implements(np.iscomplex)(lambda x: np.zeros_like(_refuse_complex("iscomplex", x), dtype=bool))


@implements(np.angle)
def angle(z, deg=False):
    """angle of a real number: 0 or pi, with derivative zero."""
    z = as_input(z)
    if z.dtype.kind == "c":
        raise UnsupportedError(f"np.angle of {z.dtype} is not supported", "Write np.arctan2(imaginary, real).")
    y = np.arctan2(0.0, STOP(z))
    return y * (180 / np.pi) if deg else y


@implements(np.real_if_close)
def real_if_close(a, tol=100):
    if as_input(a).dtype.kind == "c":
        raise UnsupportedError(
            "np.real_if_close of complex numbers: values decide the dtype of the result",
            "Write x.real where the imaginary part is none.",
        )
    return np.asarray(a, like=a)


# ---- several results


def _several(ufunc, xs):
    shape = broadcast_shapes(*[x.shape for x in xs])
    return tuple(Aval(shape, dtype) for dtype in ufunc_dtypes(ufunc, tuple(map(kind_of, xs))))


DIVMOD = operator(
    np.divmod,
    arrays=2,
    infer=lambda x, y: _several(np.divmod, (x, y)),
    vjp=lambda g, results, x, y: (g[1], -g[1] * results[0]),
    signature=aligned,
    singular=True,
)
MODF = operator(
    np.modf,
    infer=lambda x: _several(np.modf, (x,)),
    vjp=lambda g, results, x: (g[0],),
    signature=aligned,
)
FREXP = operator(
    np.frexp,
    infer=lambda x: _several(np.frexp, (x,)),
    vjp=lambda g, results, x: (np.ldexp(g[0], -results[1]),),
    signature=aligned,
)
