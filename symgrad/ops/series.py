"""numpy.polynomial: its Python is traced as it is; here is what asks for values or is compiled."""

import numpy as np
from numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre, polynomial, polyutils

from symgrad.ops.arguments import refuse_given
from symgrad.ops.define import implements, implements_at, refuses_at
from symgrad.ops.interpolate import fitted, points, without_zeros
from symgrad.ops.operands import as_input


@implements_at(polyutils, "trimseq")
def trimseq(seq):
    """Drop the zeros of the highest powers that are known; what is traced keeps them, as in np.polymul."""
    return without_zeros(as_input(seq)[::-1])[::-1]


@implements(polynomial.polyval2d)
def polyval2d(x, y, c):
    return polynomial.polyval(y, polynomial.polyval(x, c), tensor=False)


@implements(polynomial.polygrid2d)
def polygrid2d(x, y, c):
    return polynomial.polyval(y, polynomial.polyval(x, c))


@implements_at(polynomial, "polyroots")
def polyroots(c):
    """Real roots, in order; as many as the degree says."""
    return np.sort(np.roots(as_input(c)[::-1]))


@implements_at(polyutils, "_fit")
def fit(vander_f, x, y, deg, rcond=None, full=False, w=None):
    """Least squares by any family of polynomials: `polyfit`, `chebfit`, ``Legendre.fit``."""
    refuse_given("polynomial.polyfit", rcond=rcond, full=bool(full))
    x, y = points("polynomial.polyfit", x, y)
    return fitted(vander_f(x, deg), y, w)


def _linear(function):
    """Return a change of basis for traced coefficients: the one of each basis polynomial, times its coefficient."""

    def change(c):
        c = without_zeros(as_input(c)[::-1])[::-1]
        n = len(c)
        return c @ np.array([np.pad(function([0] * i + [1]), (0, n - 1 - i)) for i in range(n)])

    return change


_FAMILIES = {chebyshev: "cheb", legendre: "leg", hermite: "herm", hermite_e: "herme", laguerre: "lag"}
for _module, _name in _FAMILIES.items():
    for _change in (f"poly2{_name}", f"{_name}2poly"):
        implements_at(_module, _change)(_linear(getattr(_module, _change)))

refuses_at(
    polyutils,
    "{}: the size of the result depends on values, and sizes are known before the program runs",
    "Keep the zeros.",
    "trimcoef",
)
