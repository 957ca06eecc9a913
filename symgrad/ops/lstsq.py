"""Least squares, pseudo-inverses and ranks; tensors that are solved as matrices."""

import numpy as np

from symgrad.core import shapes
from symgrad.core.axes import lettered
from symgrad.core.graph import Aval
from symgrad.core.sizes import is_negative
from symgrad.errors import ShapeError
from symgrad.ops.arguments import refuse_given
from symgrad.ops.contract import fits, flattened, transposed
from symgrad.ops.define import implements, operator
from symgrad.ops.elementwise import conjugate
from symgrad.ops.linalg import adjoint, check_matrix, float_dtype, flow_solve, in_columns, of_matrix, product
from symgrad.ops.operands import as_input
from symgrad.spelling import Code

# ---- least squares: for matrices of locally constant rank


def vjp_pinv(g, y, a):
    """G. Golub and V. Pereyra, *The differentiation of pseudo-inverses and nonlinear least squares* (1973)."""
    pt, gt, a, y = transposed(y), adjoint(g), conjugate(a), conjugate(y)
    left, right = gt @ y @ pt, pt @ y @ gt
    return (left - a @ (y @ left) + right - (right @ y) @ a - product(pt, g, pt),)


PINV = operator(
    np.linalg.pinv,
    infer=lambda a: of_matrix("pinv", "mn->nm", a),
    vjp=vjp_pinv,
    signature=lettered("...__->...__"),
    refuses=True,
)


@implements(np.linalg.pinv)
def pinv(a, rcond=None, hermitian=False, *, rtol=np._NoValue):
    refuse_given("linalg.pinv", rcond=rcond, hermitian=bool(hermitian), rtol=rtol)
    return PINV(a)


def infer_lstsq(a, b):
    if a.ndim != 2 or b.ndim not in (1, 2) or not fits(a.shape[0], b.shape[0]):
        raise ShapeError(
            f"np.linalg.lstsq: {a} and the right-hand side {b} do not fit",
            "Give a matrix, and a right-hand side of one or two dimensions with as many rows.",
        )
    return Aval((a.shape[1], *b.shape[1:]), float_dtype("lstsq", a, b))


def vjp_lstsq(g, y, a, b):
    """Pull back as for pinv: the solution is pinv(a) @ b."""
    p = np.linalg.pinv(a)
    gb = p.T @ g
    rest, back, y_, g_ = conjugate(b - a @ y), conjugate(gb), conjugate(y), conjugate(g)
    if b.ndim == 1:
        return np.outer(rest, p @ back) - np.outer(gb, y) + np.outer(p.T @ y_, g_ - back @ conjugate(a)), gb
    return rest @ (p @ back).T - gb @ y.T + (p.T @ y_) @ (g_.T - back.T @ conjugate(a)), gb


def _batch_lstsq(batched, a, b):
    if batched[0]:
        p = np.linalg.pinv(a)
        if b.ndim - batched[1] == 1:
            return (p @ b[..., None])[..., 0] if batched[1] else p @ b
        return p @ b
    return in_columns(lambda b: LSTSQ(a, b), b)


LSTSQ = operator(
    lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0],
    name="linalg.lstsq",
    arrays=2,
    infer=infer_lstsq,
    vjp=vjp_lstsq,
    batch=_batch_lstsq,
    signature=lambda y, a, b: flow_solve(y, a, b)._replace(stack=None),
    spell=lambda node, a, b: Code(f"np.linalg.lstsq({a.text}, {b.text}, rcond=None)[0]"),
    refuses=True,
)


@implements(np.linalg.lstsq)
def lstsq(a, b, rcond=None):
    """The residuals are those of a matrix of full rank; NumPy leaves them out where the rank is lower."""
    refuse_given("linalg.lstsq", rcond=rcond)
    a, b = as_input(a), as_input(b)
    x = LSTSQ(a, b)
    residual = b - a @ x
    squares = np.sum(np.real(residual * conjugate(residual)), axis=0)
    tall = not is_negative(a.shape[0] - a.shape[1] - 1)
    squares = np.reshape(squares, (-1,)) if tall else np.zeros_like(np.real(x), shape=(0,))
    return x, squares, np.linalg.matrix_rank(a), np.linalg.svdvals(a)


def _infer_rank(a):
    check_matrix("matrix_rank", a, square=False)
    return Aval(a.shape[:-2], np.dtype(np.int64))


RANK = operator(
    np.linalg.matrix_rank,
    infer=_infer_rank,
    signature=lettered("...__->..."),
    refuses=True,
)


@implements(np.linalg.matrix_rank)
def matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    refuse_given("linalg.matrix_rank", tol=tol, hermitian=bool(hermitian), rtol=rtol)
    a = as_input(A)
    return RANK(a) if a.ndim > 1 else np.astype(np.any(a != 0), int)


# ---- tensors as matrices


@implements(np.linalg.tensorinv)
def tensorinv(a, ind=2):
    a = as_input(a)
    if not 0 < ind < a.ndim:
        raise ShapeError(
            f"np.linalg.tensorinv: ind={ind} does not split {a.ndim} axes in two",
            "Give ind between 1 and the number of axes.",
        )
    inverse = np.linalg.inv(np.reshape(a, (shapes.product(a.shape[:ind]), shapes.product(a.shape[ind:]))))
    return np.reshape(inverse, (*a.shape[ind:], *a.shape[:ind]))


@implements(np.linalg.tensorsolve)
def tensorsolve(a, b, axes=None):
    a, b = as_input(a), as_input(b)
    if axes is not None:
        a = np.moveaxis(a, axes, range(-len(axes), 0))
    n = shapes.product(b.shape)
    return np.reshape(np.linalg.solve(np.reshape(a, (n, n)), flattened(b)), a.shape[b.ndim :])
