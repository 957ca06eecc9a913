"""Bessel functions: the derivatives by the argument are neighbours in order (DLMF 10.6.1, 10.29.1, 10.51.1).

By the order there are only integrals and series (10.15, 10.38).
"""

import numpy as np
import scipy.special
from scipy.special import (
    i0,
    i0e,
    i1,
    i1e,
    iv,
    ive,
    j0,
    j1,
    jv,
    jve,
    k0,
    k0e,
    k1,
    k1e,
    kn,
    kv,
    kve,
    spherical_in,
    spherical_jn,
    spherical_kn,
    spherical_yn,
    y0,
    y1,
    yn,
    yv,
    yve,
)  # fmt: skip

from symgrad.errors import DTypeError, UnsupportedError
from symgrad.ops.define import implements_at
from symgrad.ops.operands import as_input, is_traced, known_number
from symgrad.ops.scipy.table import ORDER, POSITIVE, singular, special

ORDERS = ((1.0, 3.0), POSITIVE)

special(j0, lambda y, x: -j1(x))
special(j1, lambda y, x: (j0(x) - jv(2, x)) / 2)
singular(y0, lambda y, x: -y1(x), domain=POSITIVE)
singular(y1, lambda y, x: (y0(x) - yv(2, x)) / 2, domain=POSITIVE)
singular(i0, lambda y, x: i1(x))
singular(i1, lambda y, x: (i0(x) + iv(2, x)) / 2)
singular(k0, lambda y, x: -k1(x), domain=POSITIVE)
singular(k1, lambda y, x: -(k0(x) + kv(2, x)) / 2, domain=POSITIVE)
special(i0e, lambda y, x: i1e(x) - np.sign(x) * y)
special(i1e, lambda y, x: (i0e(x) + ive(2, x)) / 2 - np.sign(x) * y)
singular(k0e, lambda y, x: y - k1e(x), domain=POSITIVE)
singular(k1e, lambda y, x: y - (k0e(x) + kve(2, x)) / 2, domain=POSITIVE)

for f in (jv, jve, yn, yv, yve):  # scaled, those of a real argument are the same
    singular(f, lambda y, v, x, f=f: (ORDER, (f(v - 1, x) - f(v + 1, x)) / 2), domain=ORDERS)
for f in (kn, kv):
    singular(f, lambda y, v, x, f=f: (ORDER, -(f(v - 1, x) + f(v + 1, x)) / 2), domain=ORDERS)
singular(iv, lambda y, v, x: (ORDER, (iv(v - 1, x) + iv(v + 1, x)) / 2), domain=ORDERS)
singular(ive, lambda y, v, x: (ORDER, (ive(v - 1, x) + ive(v + 1, x)) / 2 - np.sign(x) * y), domain=ORDERS)
singular(kve, lambda y, v, x: (ORDER, y - (kve(v - 1, x) + kve(v + 1, x)) / 2), domain=ORDERS)


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
    implements_at(scipy.special, function.__name__)(written)


_spherical(spherical_jn, 1, -1)
_spherical(spherical_yn, 1, -1)
_spherical(spherical_in, 1, 1)
_spherical(spherical_kn, -1, -1)
