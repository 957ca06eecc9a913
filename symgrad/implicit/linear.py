"""Linear systems with a matrix-free operator: conjugate gradients and GMRES, with derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.derivatives.closure import closure_convert
from symgrad.derivatives.custom import custom_vjp
from symgrad.frontend.control import fori_loop, while_loop
from symgrad.frontend.plain_arguments import check_numbers, integer
from symgrad.frontend.variable import Variable
from symgrad.implicit.vectors import Array, as_vector, like, pulled, traced
from symgrad.transforms.products_with_vectors import vjp

Matvec = Callable[..., Array]
"""A function of a vector and of the values that it closes over."""

Solve = Callable[[Callable[[Array], Array], Array, Array, Sequence[Array]], Array]
"""Takes a matrix as a function, a right side, a first guess, and auxiliary values; returns the solution."""


def linear_solve(
    matvec: Matvec,
    transposed: Matvec,
    b: Array,
    outside: Sequence[Array],
    x0: Array,
    solve: Solve,
    aids: Sequence[Array] = (),
) -> Array:
    """Return ``A^-1 b``, as a function of `b` and of the outside values that `A` reads; `solve` finds it.

    From ``A x = b`` follows ``dx = A^-1 (db - dA x)``, whose transpose solves with the transposed matrix.
    """

    @custom_vjp
    def solution(b: Array, outside: Sequence[Array], x0: Array, aids: Sequence[Array]) -> Array:
        return solve(lambda v: matvec(v, *outside), b, x0, aids)

    def forward(b: Array, outside: Sequence[Array], x0: Array, aids: Sequence[Array]) -> Any:
        x = solution(b, outside, x0, aids)
        return x, (x, outside, aids)

    def backward(residuals: Any, g: Array) -> Any:
        x, outside, aids = residuals
        y = linear_solve(transposed, matvec, g, outside, np.zeros_like(g), solve, aids)
        return y, pulled(lambda *outside: matvec(x, *outside), outside, -y), None, None

    solution.defvjp(forward, backward)
    solution.linear = True
    return solution(b, outside, x0, aids)


@traced
def cg(
    A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None
) -> Any:
    """The solution of ``A x = b`` for a symmetric positive definite matrix, by conjugate gradients.

    Parameters
    ----------
    A : callable or array
        The matrix, or a function that multiplies with it: of a tree like `b` another one. It may read traced values
        from outside.
    b : tree of floating arrays
    x0 : tree, optional
        Where the iteration starts, by default zero. The solution has no derivative by it.
    tol, atol : float
        It ends when ``norm(b - A x) <= max(tol * norm(b), atol)``.
    maxiter : int, optional
        How many steps are made at most; by default ten times the number of unknowns.
    M : callable or array, optional
        A preconditioner, approximately the inverse of `A`, symmetric positive definite, too.

    Returns
    -------
    tree
        Like `b`. Where the iteration does not converge all of its numbers are NaN.

    Raises
    ------
    DTypeError
        If `b` has other leaves than floating arrays.
    ShapeError
        If `A` does not give what is like `b`.

    Notes
    -----
    Of any order and in both directions a derivative is another system with the same matrix, to the same tolerance.
    That the matrix is symmetric is not checked, and derivatives rely on it.

    References
    ----------
    Nocedal & Wright, *Numerical Optimization*, 2nd ed., algorithm 5.3.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def f(a, b):
    ...     return sg.cg(lambda x: a * x, b)[0]
    >>> sg.grad(f)(4.0, np.array([8.0, 4.0]))
    np.float64(-0.5)
    """
    check_numbers("sg.cg", tol=tol, atol=atol)
    check_numbers("sg.cg", optional=True, maxiter=maxiter)
    matvec, right, start, back, outside = _system("sg.cg", A, b, x0)
    divide, aids = closure_convert(_in_vectors("sg.cg", M, back), right)
    most = 10 * right.shape[0] if maxiter is None else maxiter

    def solve(apply: Callable[[Array], Array], b: Array, x: Array, aids: Sequence[Array]) -> Array:
        end = np.maximum(tol * np.sqrt(b @ b), atol)

        def step(state: Any) -> Any:
            x, r, p, rz, k = state
            q = apply(p)
            alpha = rz / (p @ q)
            r = r - alpha * q
            z = divide(r, *aids)
            new = r @ z
            return x + alpha * p, r, z + new / rz * p, new, k + 1

        r = b - apply(x)
        z = divide(r, *aids)
        goes_on = lambda state: (np.sqrt(state[1] @ state[1]) > end) & (state[4] < most)
        x, r, _, _, _ = while_loop(goes_on, step, (x, r, z, r @ z, 0))
        return np.where(np.sqrt(r @ r) <= end, x, np.nan).astype(b.dtype)

    return back(linear_solve(matvec, matvec, right, outside, start, solve, aids))


@traced
def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
) -> Any:
    """The solution of ``A x = b`` by GMRES, for any matrix that has an inverse.

    Parameters
    ----------
    A, b, x0, tol, atol
        As in `cg`.
    restart : int
        How many vectors are kept until it starts anew from the best solution in their span.
    maxiter : int, optional
        How often it starts at most; by default ten times the number of unknowns.

    Returns
    -------
    tree
        As of `cg`.

    Raises
    ------
    DTypeError, ShapeError
        As in `cg`.

    Notes
    -----
    Of any order and in both directions a derivative is another system with the same matrix, or with its transpose,
    which is the pullback of `A`, to the same tolerance.

    References
    ----------
    Saad & Schultz, "GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear systems", 1986.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def f(a, b):
    ...     return sg.gmres(lambda x: a * x[::-1], b)[0]
    >>> round(sg.grad(f)(4.0, np.array([8.0, 4.0])), 6)
    np.float64(-0.25)
    """
    check_numbers("sg.gmres", tol=tol, atol=atol)
    check_numbers("sg.gmres", optional=True, maxiter=maxiter)
    restart = integer("sg.gmres: restart", restart)
    matvec, right, start, back, outside = _system("sg.gmres", A, b, x0)
    n = right.shape[0]
    most, kept = 10 * n if maxiter is None else maxiter, min(restart, n)

    def solve(apply: Callable[[Array], Array], b: Array, x: Array, _: Sequence[Array]) -> Array:
        end = np.maximum(tol * np.sqrt(b @ b), atol)
        goes_on = lambda state: (np.sqrt(state[1] @ state[1]) > end) & (state[2] < most)

        def cycle(state: Any) -> Any:
            x, r, k = state
            x = x + _best_in_span(apply, r, kept)
            return x, b - apply(x), k + 1

        x, r, _steps = while_loop(goes_on, cycle, (x, b - apply(x), 0))
        return np.where(np.sqrt(r @ r) <= end, x, np.nan).astype(b.dtype)

    transposed = lambda v, *outside: vjp(lambda u: matvec(u, *outside), np.zeros_like(v))[1](v)[0]
    return back(linear_solve(matvec, transposed, right, outside, start, solve))


def _best_in_span(apply: Callable[[Array], Array], r: Array, count: int) -> Array:
    """The change that leaves the smallest residual, in the span of ``r, A r, A^2 r, ...``: Arnoldi's iteration.

    Vectors are made orthogonal twice, so that they stay so.
    """
    tiny = np.finfo(r.dtype).tiny
    size = np.sqrt(r @ r)
    basis = _put(np.zeros_like(r, shape=(count + 1, r.shape[0])), 0, r / np.maximum(size, tiny))
    hessenberg = np.zeros_like(r, shape=(count, count + 1))  # a row for each vector

    def extend(k: Any, state: Any) -> Any:
        basis, hessenberg = state
        w = apply(basis[k])
        h = basis @ w
        w = w - h @ basis
        again = basis @ w
        w = w - again @ basis
        length = np.sqrt(w @ w)
        ends = length <= 10 * np.finfo(r.dtype).eps * np.sqrt(h @ h)  # the span is all that A makes of it
        new = np.where(ends, 0, w / np.where(ends, 1, length)).astype(r.dtype)
        row = h + again + np.where(np.arange(count + 1) == k + 1, np.where(ends, 0, length), 0).astype(r.dtype)
        return _put(basis, k + 1, new), _put(hessenberg, k, row)

    basis, hessenberg = fori_loop(0, count, extend, (basis, hessenberg))
    e = _put(np.zeros_like(r, shape=count + 1), 0, size)
    y = np.linalg.lstsq(hessenberg.T, e, rcond=None)[0]
    return y @ basis[:count]


def _put(array: Array, i: Any, row: Array) -> Array:
    """A copy with another row."""
    array = np.copy(array)
    array[i] = row
    return array


# ---- what both take


def _system(name: str, A: Any, b: Any, x0: Any) -> Any:
    """Return the matrix as a function of vectors, the right side, the start, the inverse of flattening, and outside
    values.
    """
    right, back = as_vector(b, f"b of {name}")
    start = np.zeros_like(right) if x0 is None else as_vector(x0, f"x0 of {name}")[0].astype(right.dtype)
    matvec, outside = closure_convert(_in_vectors(name, A, back), right)
    return matvec, right, start, back, outside


def _in_vectors(name: str, A: Any, back: Callable[[Array], Any]) -> Callable[[Array], Array]:
    """A matrix that is an array, a function of trees, or None for the identity, as a function of vectors."""

    def apply(v: Array) -> Array:
        if A is None:
            return v
        given = back(v)
        y = A(given) if callable(A) and not isinstance(A, Variable) else A @ given
        return like(v, y, f"A of {name}")

    return apply
