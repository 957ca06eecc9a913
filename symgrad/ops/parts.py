"""Parts of numbers: real and imaginary, quotient and remainder, integer and fraction, mantissa and exponent."""

import numpy as np

from symgrad.core.axes import aligned
from symgrad.core.graph import CONSTANT, ITEM, SEED, Aval
from symgrad.core.shapes import broadcast_shapes
from symgrad.errors import UnsupportedError
from symgrad.ops.define import TABLE, elementwise, implements, operator
from symgrad.ops.dtypes import kind_of, real_dtype, result_dtype, ufunc_dtypes
from symgrad.ops.marks import STOP
from symgrad.ops.operands import as_input, is_traced
from symgrad.spelling import ATOM, Code

# ---- complex numbers and their parts


def _complex(real, imag):
    """The complex numbers that have these parts; 1j * imag would be NaN where that is infinite."""
    y = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), np.result_type(real, imag, 0j))
    y.real, y.imag = real, imag
    return y[()]


COMPLEX = elementwise(
    _complex,
    lambda z, x, y: (1, 1j),
    name="complex_of",
    dtype=lambda x, y: result_dtype(x, y, complex),
    written=True,
)


def _part(function, vjp, write_back):
    """Define a part of complex numbers, which is a view of them."""
    name = function.__name__
    return operator(
        function,
        infer=lambda x: Aval(x.shape, real_dtype(x.dtype), x.weak),
        vjp=vjp,
        spell=lambda node, x: Code(f"{x.at(ATOM)}.{name}"),
        signature=aligned,
        linear=True,
        view=True,
        write_back=write_back,
    )


REAL = _part(np.real, lambda g, y, x: (g,), lambda x, content: COMPLEX(content, np.imag(x)))
IMAG = _part(np.imag, lambda g, y, x: ((0 - 1j) * g,), lambda x, content: COMPLEX(np.real(x), content))


def _is_complex(x):
    return x.dtype.kind == "c"


def _has_parts(x):
    """Whether a number has an imaginary part, as far as that is known before the program runs.

    Raises
    ------
    UnsupportedError
        For a Python float that ``**`` may have made complex.
    """
    if not _is_complex(x) and is_traced(x) and x.aval.weak and _may_be_complex(x):
        raise UnsupportedError(
            "real or imaginary part of x ** y, which Python makes complex if x is negative",
            "Write np.sqrt(x) or np.power(x, y), which are NaN there, or complex(x) ** y.",
        )
    return _is_complex(x)


def _may_be_complex(x):
    """Whether a Python number comes from a power that is complex in Python, or from a loop or a branch beside one."""
    if not any(map(_is_root, x.graph.nodes)):
        return False
    waiting, seen = [x.node], {x.node}
    while waiting:
        node = waiting.pop()
        if _is_root(node) or node.op in (SEED, ITEM):
            return True
        new = {y for y in node.inputs if type(y.aval) is Aval and y.aval.weak} - seen
        seen |= new
        waiting += new
    return False


def _is_root(node):
    """Whether it is a power of Python floats whose base may be negative, and whose exponent may be no integer."""
    if node.op is not TABLE[np.power] or not node.aval.weak or node.aval.dtype.kind != "f":
        return False
    base, exponent = node.inputs
    whole = exponent.aval.dtype.kind in "biu" or (exponent.op is CONSTANT and float(exponent.constant).is_integer())
    return not (whole or (base.op is CONSTANT and base.constant >= 0) or base.op is TABLE[np.absolute])


@implements(np.real)
def real(val):
    """The real part: of real numbers they themselves."""
    return REAL(val) if _has_parts(val) else val


@implements(np.imag)
def imag(val):
    if _has_parts(val):
        return IMAG(val)
    return val.dtype.type(0).item() if is_traced(val) and val.aval.weak else np.zeros_like(val)


def _truths(y):
    """Return an array; of a number no array, into which one could write."""
    return y if y.shape else y[()]


@implements(np.isreal)
def isreal(x):
    return np.imag(x) == 0 if _has_parts(x) else _truths(np.ones_like(x, dtype=bool))


@implements(np.iscomplex)
def iscomplex(x):
    return np.imag(x) != 0 if _has_parts(x) else _truths(np.zeros_like(x, dtype=bool))


@implements(np.angle)
def angle(z, deg=False):
    """angle: of a real number 0 or pi, with derivative zero."""
    z = as_input(z)
    y = np.arctan2(np.imag(z), np.real(z)) if _is_complex(z) else np.arctan2(0, STOP(z))
    return y * (180 / np.pi) if deg else y


@implements(np.real_if_close)
def real_if_close(a, tol=100):
    if _is_complex(as_input(a)):
        raise UnsupportedError(
            "np.real_if_close of complex numbers: values decide the dtype of the result",
            "Write x.real if the imaginary part is zero.",
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
