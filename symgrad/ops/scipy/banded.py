"""scipy.linalg: systems and spectra of matrices that are given by their diagonals, in LAPACK's storage of bands."""

import numpy as np
from scipy import linalg

from symgrad.core import shapes
from symgrad.core.graph import Aval
from symgrad.errors import ShapeError
from symgrad.ops.arguments import check_ndim, refuse_given
from symgrad.ops.contract import fits
from symgrad.ops.define import implements_at, operator
from symgrad.ops.linalg import float_dtype
from symgrad.ops.operands import as_input
from symgrad.spelling import Code

PACKAGE = "scipy.linalg"


def _shifted(x, d):
    """Return rows `d` places ahead of their own, zeros from beyond the ends."""
    rest = [(0, 0)] * (x.ndim - 1)
    return np.pad(x, [(0, d), *rest])[d:] if d > 0 else np.pad(x, [(-d, 0), *rest])[: x.shape[0]] if d else x


def _transposed(ab, lower, upper):
    """Return the diagonals of the transpose."""
    return np.stack([_shifted(ab[upper + lower - r], r - lower) for r in range(lower + upper + 1)])


def _bands(rows, columns, lower, upper):
    """Return the diagonals of ``rows @ columns.T``."""
    if rows.ndim == 1:
        rows, columns = rows[:, None], columns[:, None]
    return np.stack([np.sum(_shifted(rows, d) * columns, axis=1) for d in range(-upper, lower + 1)])


def solve_with_bands(ab, b, lower, upper):
    return linalg.solve_banded((lower, upper), ab, b)


def _infer(ab, b, lower, upper):
    check_ndim(f"{PACKAGE}.solve_banded: the diagonals {ab}", ab, 2, 2, "Give one matrix, each diagonal as a row.")
    check_ndim(f"{PACKAGE}.solve_banded: the right-hand side {b}", b, 1, 2, "Give a vector or a matrix.")
    if not (fits(ab.shape[0], lower + upper + 1) and fits(b.shape[0], ab.shape[1])):
        raise ShapeError(
            f"{PACKAGE}.solve_banded: {lower} lower and {upper} upper diagonals {ab} and the right-hand side {b} do "
            "not fit",
            "Give lower + upper + 1 rows, as many columns as the right-hand side has rows.",
        )
    return Aval(b.shape, float_dtype("solve_banded", ab, b, package=PACKAGE))


def _vjp(g, y, ab, b, lower, upper):
    gb = SOLVE_BANDED(_transposed(ab, lower, upper), g, upper, lower)
    return -_bands(gb, y, lower, upper), gb


def _spell(node, ab, b):
    known = dict(node.params)
    return Code(f"scipy.linalg.solve_banded(({known['lower']}, {known['upper']}), {ab.text}, {b.text})")


SOLVE_BANDED = operator(
    solve_with_bands,
    name="solve_banded",
    arrays=2,
    infer=_infer,
    vjp=_vjp,
    spell=_spell,
    flops=lambda y, ab, b, lower, upper: 2 * (lower + 1) * shapes.product(ab.shape) + 2 * shapes.product(y.shape),
    package=PACKAGE,
    refuses=True,
)


@implements_at(linalg, "solve_banded")
def solve_banded(l_and_u, ab, b, overwrite_ab=False, overwrite_b=False, check_finite=True):
    lower, upper = map(int, l_and_u)
    return SOLVE_BANDED(as_input(ab), as_input(b), lower, upper)


@implements_at(linalg, "solveh_banded")
def solveh_banded(ab, b, overwrite_ab=False, overwrite_b=False, lower=False, check_finite=True):
    """With both halves: the other one is the conjugate of that which is given."""
    ab = as_input(ab)
    m = int(ab.shape[0]) - 1
    bands = [ab[k] for k in range(m + 1)]
    diagonal = 0 if lower else m
    bands[diagonal] = np.real(bands[diagonal])
    if lower:
        upper = [_shifted(np.conjugate(ab[k]), -k) for k in range(m, 0, -1)]
        return SOLVE_BANDED(np.stack([*upper, *bands]), as_input(b), m, m)
    below = [_shifted(np.conjugate(ab[m - k]), k) for k in range(1, m + 1)]
    return SOLVE_BANDED(np.stack([*bands, *below]), as_input(b), m, m)


@implements_at(linalg, "eigvalsh_tridiagonal")
def eigvalsh_tridiagonal(d, e, select="a", select_range=None, check_finite=True, tol=0.0, lapack_driver="auto"):
    refuse_given("eigvalsh_tridiagonal", PACKAGE, select_range=select_range)
    d, e = as_input(d), as_input(e)
    return np.linalg.eigvalsh(np.diag(d) + np.diag(e, -1))
