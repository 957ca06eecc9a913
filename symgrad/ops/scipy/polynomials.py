"""`scipy.special`: orthogonal polynomials, whose derivatives are polynomials of the next family (DLMF 18.9)."""

import numpy as np
import scipy.special as sp

from symgrad.errors import UnsupportedError
from symgrad.ops.elementwise import UNIT
from symgrad.ops.operands import known_number
from symgrad.ops.scipy.table import ORDER, parameter, special

DEGREES, PARAMETERS = (1.0, 4.0), (1.0, 3.0)


def _of_degree(ufunc, slope, *parameters):
    """Enter a family: `slope` takes the degree less one, the degree, the parameters and the argument.

    Degrees below zero have other formulas: one that is known is refused, the others give NaN.
    """

    def partials(y, n, *rest):
        known = known_number(n)
        if known is None:
            positive = np.where(n > 0, n, 1)
            by_x = np.where(n > 0, slope(positive - 1, positive, *rest), np.where(n == 0, 0, np.nan))
        elif known < 0:
            fact = f"scipy.special.{ufunc.__name__}: the derivative for the degree {known} is not supported"
            raise UnsupportedError(fact, "Give a degree of 0 or more.")
        else:
            by_x = slope(n - 1, n, *rest) if known else 0 * y
        return ORDER, *map(parameter, parameters), by_x

    special(ufunc, partials, domain=(DEGREES, *[PARAMETERS] * len(parameters), UNIT))


_of_degree(sp.eval_legendre, lambda m, n, x: sp.eval_gegenbauer(m, 1.5, x))
_of_degree(sp.eval_chebyt, lambda m, n, x: n * sp.eval_chebyu(m, x))
_of_degree(sp.eval_chebyu, lambda m, n, x: 2 * sp.eval_gegenbauer(m, 2, x))
_of_degree(sp.eval_chebyc, lambda m, n, x: n * sp.eval_chebyu(m, x / 2))
_of_degree(sp.eval_chebys, lambda m, n, x: sp.eval_gegenbauer(m, 2, x / 2))
_of_degree(sp.eval_hermite, lambda m, n, x: 2 * n * sp.eval_hermite(m, x))
_of_degree(sp.eval_hermitenorm, lambda m, n, x: n * sp.eval_hermitenorm(m, x))
_of_degree(sp.eval_laguerre, lambda m, n, x: -sp.eval_genlaguerre(m, 1, x))
_of_degree(sp.eval_genlaguerre, lambda m, n, a, x: -sp.eval_genlaguerre(m, a + 1, x), "alpha")
_of_degree(sp.eval_gegenbauer, lambda m, n, a, x: 2 * a * sp.eval_gegenbauer(m, a + 1, x), "alpha")
_of_degree(
    sp.eval_jacobi,
    lambda m, n, a, b, x: (n + a + b + 1) / 2 * sp.eval_jacobi(m, a + 1, b + 1, x),
    *("alpha", "beta"),
)
_of_degree(sp.eval_sh_legendre, lambda m, n, x: 2 * sp.eval_gegenbauer(m, 1.5, 2 * x - 1))
_of_degree(sp.eval_sh_chebyt, lambda m, n, x: 2 * n * sp.eval_chebyu(m, 2 * x - 1))
_of_degree(sp.eval_sh_chebyu, lambda m, n, x: 4 * sp.eval_gegenbauer(m, 2, 2 * x - 1))
