"""Bessel functions: the derivatives by the argument are neighbours in order (DLMF 10.6.1, 10.29.1, 10.51.1).

By the order there are only integrals and series (10.15, 10.38).
"""

import numpy as np
import scipy.special as sp

from symgrad.errors import DTypeError, UnsupportedError
from symgrad.ops.define import implements_at
from symgrad.ops.operands import as_input, is_traced, known_number
from symgrad.ops.scipy.table import ORDER, POSITIVE, singular, special

ORDERS = ((1.0, 3.0), POSITIVE)

special(sp.j0, lambda y, x: -sp.j1(x))
special(sp.j1, lambda y, x: (sp.j0(x) - sp.jv(2, x)) / 2)
singular(sp.y0, lambda y, x: -sp.y1(x), domain=POSITIVE)
singular(sp.y1, lambda y, x: (sp.y0(x) - sp.yv(2, x)) / 2, domain=POSITIVE)
singular(sp.i0, lambda y, x: sp.i1(x))
singular(sp.i1, lambda y, x: (sp.i0(x) + sp.iv(2, x)) / 2)
singular(sp.k0, lambda y, x: -sp.k1(x), domain=POSITIVE)
singular(sp.k1, lambda y, x: -(sp.k0(x) + sp.kv(2, x)) / 2, domain=POSITIVE)
special(sp.i0e, lambda y, x: sp.i1e(x) - np.sign(x) * y)
special(sp.i1e, lambda y, x: (sp.i0e(x) + sp.ive(2, x)) / 2 - np.sign(x) * y)
singular(sp.k0e, lambda y, x: y - sp.k1e(x), domain=POSITIVE)
singular(sp.k1e, lambda y, x: y - (sp.k0e(x) + sp.kve(2, x)) / 2, domain=POSITIVE)

for f in (sp.jv, sp.jve, sp.yn, sp.yv, sp.yve):  # scaled, those of a real argument are the same
    singular(f, lambda y, v, x, f=f: (ORDER, (f(v - 1, x) - f(v + 1, x)) / 2), domain=ORDERS)
for f in (sp.kn, sp.kv):
    singular(f, lambda y, v, x, f=f: (ORDER, -(f(v - 1, x) + f(v + 1, x)) / 2), domain=ORDERS)
singular(sp.iv, lambda y, v, x: (ORDER, (sp.iv(v - 1, x) + sp.iv(v + 1, x)) / 2), domain=ORDERS)
singular(sp.ive, lambda y, v, x: (ORDER, (sp.ive(v - 1, x) + sp.ive(v + 1, x)) / 2 - np.sign(x) * y), domain=ORDERS)
singular(sp.kve, lambda y, v, x: (ORDER, y - (sp.kve(v - 1, x) + sp.kve(v + 1, x)) / 2), domain=ORDERS)


def _dtype_of(function, kind):
    """The dtype of the result, which SciPy's wrappers choose themselves."""
    try:
        return np.asarray(function(1, np.ones(1, kind))).dtype
    except TypeError:
        raise DTypeError(
            f"scipy.special.{function.__name__} does not take {np.dtype(kind)}", "Convert it first: x.astype(float)."
        ) from None


def _spherical(function, before, after):
    """An entry, with the signs of the neighbours; `derivative=True` is written with them, too."""

    def slope(n, x):
        if known_number(n) == 0:
            return after * op(1, x)
        first = np.maximum(n - 1, 0)  # of order 0 it counts 0 times
        return (before * n * op(first, x) + after * (n + 1) * op(n + 1, x)) / (2 * n + 1)

    def written(n, z, derivative=False):
        n = as_input(n)
        if is_traced(n) and n.dtype.kind == "f":
            raise UnsupportedError(
                f"scipy.special.{function.__name__}: the order is a traced float", "Give an integer."
            )
        n = n if is_traced(n) else np.asarray(n, int)[()]
        return slope(n, z) if derivative else op(n, z)

    op = singular(function, lambda y, n, x: (None, slope(n, x)), dtype=lambda n, x: _dtype_of(function, x))
    implements_at(sp, function.__name__)(written)


_spherical(sp.spherical_jn, 1, -1)
_spherical(sp.spherical_yn, 1, -1)
_spherical(sp.spherical_in, 1, 1)
_spherical(sp.spherical_kn, -1, -1)
