"""scipy.linalg: triangular matrices, and the factors of Cholesky and of LU."""

import numpy as np
from scipy import linalg

from symgrad.core import shapes
from symgrad.core.axes import lettered
from symgrad.core.graph import Aval
from symgrad.errors import UnsupportedError
from symgrad.ops.arguments import ANY, check_ndim
from symgrad.ops.contract import broadcast_batch, fits, transposed
from symgrad.ops.define import implements_at, operator, registered
from symgrad.ops.elementwise import conjugate
from symgrad.ops.linalg import (
    batch_solver,
    flow_solve,
    of_matrix,
    with_right_hand_side,
    work,
)
from symgrad.ops.operands import as_input

PACKAGE = "scipy.linalg"


def triangle(a, lower, unit_diagonal=False):
    """Return the triangle that a solver reads, without the diagonal where that counts as ones."""
    return np.tril(a, -1 if unit_diagonal else 0) if lower else np.triu(a, 1 if unit_diagonal else 0)


def by_columns(solve, a, b):
    """Apply a solver of one vector for one matrix, or of columns, to any right-hand side."""
    a, b = as_input(a), as_input(b)
    instead = "Give a vector or a matrix."
    check_ndim(f"{PACKAGE}: the right-hand side of a matrix of shape {a.shape}", b, 1, ANY, instead)
    return solve(a, b[:, None])[..., 0] if b.ndim == 1 and a.ndim > 2 else solve(a, b)


def _outer(left, right):
    return np.outer(left, right) if left.ndim == 1 else left @ transposed(right)


_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


def _transposes(function, trans, a):
    """0 for the matrix, 1 for its transpose, 2 for its adjoint, which that is for real matrices."""
    if trans not in _TRANS:
        raise UnsupportedError(
            f"{PACKAGE}.{function}: trans={trans!r} is not one of 0, 1, 2, 'N', 'T' and 'C'", "Write trans=0, 1 or 2."
        )
    return _TRANS[trans] if as_input(a).dtype.kind == "c" else min(_TRANS[trans], 1)


# ---- triangular systems


def _vjp_triangular(g, y, a, b, trans, lower, unit_diagonal):
    if trans == 2:  # of the conjugates of both sides with the conjugate of the matrix, which is its transpose's adjoint
        gb = conjugate(SOLVE_TRIANGULAR(a, conjugate(g), trans=0, lower=lower, unit_diagonal=unit_diagonal))
        ga = conjugate(_outer(y, gb))
    else:
        gb = SOLVE_TRIANGULAR(a, g, trans=1 - trans, lower=lower, unit_diagonal=unit_diagonal)
        ga = _outer(y, gb) if trans else _outer(gb, y)
    return -triangle(ga, lower, unit_diagonal), gb


SOLVE_TRIANGULAR = operator(
    linalg.solve_triangular,
    arrays=2,
    infer=lambda a, b, trans=0, lower=False, unit_diagonal=False: with_right_hand_side(
        "solve_triangular", a, b, PACKAGE
    ),
    vjp=_vjp_triangular,
    batch=lambda batched, a, b, **kind: batch_solver(lambda a, b: SOLVE_TRIANGULAR(a, b, **kind), batched, a, b),
    flops=lambda y, a, b, **kind: a.shape[-1] * shapes.product(y.shape),
    signature=lambda y, a, b, **kind: flow_solve(y, a, b),
    package=PACKAGE,
    refuses=True,
)


@implements_at(linalg, "solve_triangular")
def solve_triangular(a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, check_finite=True):
    trans = _transposes("solve_triangular", trans, a)
    kind = {"trans": trans, "lower": bool(lower), "unit_diagonal": bool(unit_diagonal)}
    return by_columns(lambda a, b: SOLVE_TRIANGULAR(a, b, **kind), a, b)


# ---- Cholesky


@implements_at(linalg, "cholesky")
def cholesky(a, lower=False, overwrite_a=False, check_finite=True):
    return np.linalg.cholesky(as_input(a), upper=not lower)


@implements_at(linalg, "cho_factor")
def cho_factor(a, lower=False, overwrite_a=False, check_finite=True):
    """In the triangle that SciPy leaves undefined there are zeros."""
    return np.linalg.cholesky(as_input(a), upper=not lower), bool(lower)


@implements_at(linalg, "cho_solve")
def cho_solve(c_and_lower, b, overwrite_b=False, check_finite=True):
    c, lower = as_input(c_and_lower[0]), bool(c_and_lower[1])
    adjoint = _transposes("cho_solve", "C", c)

    def solve(c, b):
        half = SOLVE_TRIANGULAR(c, b, trans=0 if lower else adjoint, lower=lower)
        return SOLVE_TRIANGULAR(c, half, trans=adjoint if lower else 0, lower=lower)

    return by_columns(solve, c, b)


# ---- LU: a = P L U, with the order in which P.T takes the rows


def _row_order(pivots):
    """The order that exchanging row i with row pivots[i], for each i in turn, leaves."""
    n = pivots.shape[-1]
    order = np.broadcast_to(np.arange(n), pivots.shape).copy()
    for i in range(n):
        j = pivots[..., i : i + 1]
        moved = order[..., i : i + 1].copy()
        order[..., i : i + 1] = np.take_along_axis(order, j, -1)
        np.put_along_axis(order, j, moved, -1)
    return order


ROW_ORDER = operator(
    _row_order,
    name="row_order",
    infer=lambda pivots: Aval(pivots.shape, np.dtype(int)),
    signature=lettered("..._->..._"),
    written=True,
)
registered(ROW_ORDER, "scipy.linalg.row_order")


def _in_order(x, order):
    """The rows of each matrix, or the numbers of a vector, in an order."""
    if order.ndim == 1 and x.ndim <= 2:
        return np.take(x, order, axis=0)
    batch = broadcast_batch("lu_solve", x.shape[:-2], order.shape[:-1], package=PACKAGE)
    x = np.broadcast_to(x, (*batch, *x.shape[-2:]))
    return np.take_along_axis(x, np.broadcast_to(order[..., None], x.shape), axis=-2)


def _vjp_lu_factor(g, y, a):
    """F. de Hoog, R. Anderssen and M. Lukas, *Differentiation of matrix functionals using triangular factorization*
    (2011).
    """
    (g, _), (lu, pivots) = g, y
    unit = np.eye(a.shape[-1], dtype=lu.dtype, like=lu)
    lower, upper = np.tril(lu, -1) + unit, np.triu(lu)
    inner = np.tril(transposed(lower) @ np.tril(g, -1), -1) + np.triu(np.triu(g) @ transposed(upper))
    right = transposed(SOLVE_TRIANGULAR(lu, transposed(inner)))  # inner times the inverse of U.T
    ga = SOLVE_TRIANGULAR(lu, right, trans=1, lower=True, unit_diagonal=True)
    return (_in_order(ga, np.argsort(ROW_ORDER(pivots), axis=-1)),)


LU_FACTOR = operator(
    linalg.lu_factor,
    infer=lambda a: (of_matrix("lu_factor", "nn->nn", a, PACKAGE), Aval(a.shape[:-1], np.dtype(np.int32))),
    vjp=_vjp_lu_factor,
    flops=lambda y, a: work(a, 2, 3),
    signature=lettered("...__->...__"),
    singular=True,
    package=PACKAGE,
    refuses=True,
)


implements_at(linalg, "lu_factor")(lambda a, overwrite_a=False, check_finite=True: LU_FACTOR(a))


@implements_at(linalg, "lu_solve")
def lu_solve(lu_and_piv, b, trans=0, overwrite_b=False, check_finite=True):
    lu, pivots = map(as_input, lu_and_piv)
    trans = _transposes("lu_solve", trans, lu)
    return by_columns(lambda lu, b: _lu_solve(lu, ROW_ORDER(pivots), b, trans), lu, b)


def _lu_solve(lu, order, b, trans):
    if trans:
        half = SOLVE_TRIANGULAR(lu, b, trans=trans)
        half = SOLVE_TRIANGULAR(lu, half, trans=trans, lower=True, unit_diagonal=True)
        return _in_order(half, np.argsort(order, axis=-1))
    half = SOLVE_TRIANGULAR(lu, _in_order(b, order), lower=True, unit_diagonal=True)
    return SOLVE_TRIANGULAR(lu, half)


@implements_at(linalg, "lu")
def lu(a, permute_l=False, overwrite_a=False, check_finite=True, p_indices=False):
    a = as_input(a)
    if not fits(a.shape[-1], a.shape[-2]):
        raise UnsupportedError(
            f"{PACKAGE}.lu of matrices that are not square, here of shape {a.shape}, is not supported",
            "Write scipy.linalg.qr, or take the square part.",
        )
    lu, pivots = LU_FACTOR(a)
    unit = np.eye(a.shape[-1], dtype=lu.dtype, like=lu)
    lower, upper, rows = np.tril(lu, -1) + unit, np.triu(lu), np.argsort(ROW_ORDER(pivots), axis=-1)
    if permute_l:
        return _in_order(lower, rows), upper
    return rows if p_indices else _in_order(np.broadcast_to(unit, a.shape), rows), lower, upper
