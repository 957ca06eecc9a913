"""Polynomials by their roots and roots of polynomials."""

import numpy as np

from symgrad.core.axes import lettered
from symgrad.core.graph import Aval
from symgrad.errors import DTypeError, UnsupportedError
from symgrad.ops.arguments import check_ndim
from symgrad.ops.define import implements, operator
from symgrad.ops.dtypes import kind_of, ufunc_dtypes
from symgrad.ops.operands import as_input


def real_roots(p):
    """The roots of a polynomial, which must be real, and as many as its degree says."""
    roots = np.roots(p)
    if np.iscomplexobj(roots) or len(roots) != len(p) - 1:
        raise ValueError("np.roots: roots are complex, or the first coefficient is zero; derivatives need real ones")
    return roots


def _infer(p):
    if p.dtype.kind == "c":
        raise DTypeError("np.roots of complex coefficients is not supported", "Write it for real ones.")
    return Aval((p.shape[0] - 1,), ufunc_dtypes(np.true_divide, (kind_of(p), kind_of(p)))[0])


def _vjp(g, roots, p):
    """A root moves by ``-r**k / p'(r)`` with the coefficient of degree k; double ones move infinitely fast."""
    return (-(g / np.polyval(np.polyder(p), roots)) @ np.vander(roots, p.shape[0]),)


ROOTS = operator(
    real_roots,
    name="real_roots",
    infer=_infer,
    vjp=_vjp,
    signature=lettered("_->_"),
    written=True,
    refuses=True,
    singular=True,
    flops=lambda y, p: 10 * p.shape[0] ** 3,
)


@implements(np.roots)
def roots(p):
    p = as_input(p)
    check_ndim("np.roots: p", p, 1, 1, "Write p.ravel().")
    return ROOTS(p)


@implements(np.poly)
def poly(seq_of_zeros):
    zeros = np.atleast_1d(as_input(seq_of_zeros))
    if zeros.ndim != 1:
        raise UnsupportedError(
            "np.poly of a matrix is not supported", "Write np.poly(np.linalg.eigvalsh(a)) for a symmetric one."
        )
    zeros = zeros if zeros.dtype.kind in "fc" else np.astype(zeros, float)
    coefficients = np.ones_like(zeros, shape=(1,))
    for i in range(int(zeros.shape[0])):
        coefficients = np.append(coefficients, 0) - np.insert(zeros[i] * coefficients, 0, 0)
    return coefficients
