"""Roots and fixed points, by iteration; their derivatives, by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from symgrad.core.sizes import at_most
from symgrad.derivatives.closure import closure_convert
from symgrad.derivatives.custom import custom_jvp
from symgrad.frontend.control import while_loop
from symgrad.frontend.plain_arguments import check_numbers
from symgrad.implicit.linear import gmres
from symgrad.implicit.vectors import Array, as_unknown, like, precision, pushed, traced
from symgrad.transforms.jacobians import jacobian
from symgrad.transforms.products_with_vectors import jvp

A = TypeVar("A")
Residual = Callable[..., Array]
Solve = Callable[[Residual, Array, Sequence[Array]], Array]
Divide = Callable[[Callable[[Array], Array], Array, Array], Array]


def implicit(
    residual: Residual, outside: Sequence[Array], guess: Array, solve: Solve, divide: Divide | None = None
) -> Array:
    """The vector at which ``residual(v, *outside)`` is zero, as a function of `outside`; `solve` finds it.

    From ``r(v(a), a) = 0`` follows ``dv = -(dr/dv)^-1 (dr/da) da``; `divide` multiplies with that inverse.
    """
    divide = divide or by_jacobian

    @custom_jvp
    def solution(outside: Sequence[Array], guess: Array) -> Array:
        return solve(residual, guess, outside)

    @solution.defjvp
    def rule(primals: Any, tangents: Any) -> tuple[Array, Array]:
        (outside, guess), (moved, _) = primals, tangents
        v = solution(outside, guess)
        if all(t is None for t in moved):
            return v, np.zeros_like(v)
        change = pushed(lambda *outside: residual(v, *outside), outside, moved)
        return v, -divide(lambda v: residual(v, *outside), v, change)

    return solution(outside, guess)


def by_jacobian(f: Callable[[Array], Array], v: Array, b: Array) -> Array:
    """The solution of a linear system with the Jacobian of a function."""
    return np.linalg.solve(jacobian(f)(v), b) if np.ndim(v) else b / jacobian(f)(v)


def by_products(f: Callable[[Array], Array], v: Array, b: Array) -> Array:
    """The same by products with the Jacobian alone, to as many digits as iterations have."""
    return gmres(lambda t: jvp(f, (v,), (t,))[1], b, tol=precision(v, 0.75))


@traced
def root(f: Callable[..., Any], x0: A, *args: Any, tol: float | None = None, maxiter: int = 50) -> A:
    """Find a root of a function, which gives as many numbers as it takes.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` gives a tree of floating arrays with as many numbers as `x` has. It may read traced values from
        outside.
    x0 : tree of floating arrays
        Where the iteration starts. The solution has no derivative by it.
    *args : tree
        Further arguments of `f`.
    tol : float, optional
        The solution is found when a full step of Newton changes no number by more than ``tol * (1 + max|x|)``. By
        default the square root of the precision: one step further, where the iteration ends, nearly all digits are
        right.
    maxiter : int
        How many steps are made at most.

    Returns
    -------
    tree
        Like `x0`. Where the iteration does not converge all of its numbers are NaN.

    Raises
    ------
    DTypeError
        If `x0` or the result of `f` has other leaves than floating arrays.
    ShapeError
        If `f` does not give as many numbers as `x` has.

    Notes
    -----
    Where the Jacobian is singular in the solution a derivative raises NumPy's LinAlgError when it runs.

    Newton's method, each step halved until the residual becomes smaller. The derivative, of any order and in both
    directions, is that of the solution and not of the iteration: a linear system with the Jacobian of `f`. In memory
    and in time both are meant for some hundred unknowns; for more see `fixed_point`.

    Outside of a trace it is compiled for every call.

    References
    ----------
    Kelley, *Solving Nonlinear Equations with Newton's Method*, SIAM 2003, ch. 1.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def f(x, a):
    ...     return x**3 - a
    >>> value, slope = sg.value_and_grad(lambda a: sg.root(f, 1.0, a))(8.0)
    >>> print(f"{value:.6f} {slope:.6f}")
    2.000000 0.083333
    """
    check_numbers("sg.root", optional=True, tol=tol)
    check_numbers("sg.root", maxiter=maxiter)
    v0, back = as_unknown(x0, "x0 of sg.root")
    residual, outside = closure_convert(lambda v: like(v, f(back(v), *args), "the function of sg.root"), v0)
    return back(implicit(residual, outside, v0, lambda r, v, outside: newton(r, v, outside, tol, maxiter)))


def newton(residual: Residual, v: Array, outside: Sequence[Array], tol: float | None, maxiter: int) -> Array:
    """Newton's method with a step that is halved until the residual decreases."""
    tol = precision(v, 0.5) if tol is None else tol
    size = lambda v: np.sqrt(np.sum(residual(v, *outside) ** 2))

    def step(state: Any) -> Any:
        v, _, k = state
        slope, now = jacobian(lambda v: residual(v, *outside))(v), residual(v, *outside)
        full = -_divided(slope, now)
        before = size(v)
        worse = lambda t: ~(size(v + t * full) <= (1 - _SUFFICIENT * t) * before) & (t > _LEAST)
        t = while_loop(worse, lambda t: t / 2, v.dtype.type(1))
        found = np.max(np.abs(full)) <= tol * (1 + np.max(np.abs(v)))
        return v + np.where(found, 1, t).astype(v.dtype) * full, ~found, k + 1

    return until_found(step, v, maxiter)


def _divided(matrix: Array, b: Array) -> Array:
    """Return the solution of a linear system, or of a scalar equation; NaN where there is none."""
    if not np.ndim(b):
        return np.where(matrix != 0, b / np.where(matrix != 0, matrix, 1), np.nan).astype(b.dtype)
    one, finite = np.eye(b.size, like=b), np.all(np.isfinite(matrix))
    regular = finite & (np.linalg.slogdet(np.where(finite, matrix, one))[0] != 0)
    return np.where(regular, np.linalg.solve(np.where(regular, matrix, one), b), np.nan).astype(b.dtype)


def until_found(step: Callable[[Any], Any], v: Array, maxiter: int) -> Array:
    """Repeat steps, which say whether another one is needed; give NaN after too many."""
    goes_on = lambda state: state[1] & (state[2] < maxiter) & np.all(np.isfinite(state[0]))
    v, missing, _ = while_loop(goes_on, step, (v, np.bool(True), 0))
    return v + np.where(missing, np.nan, 0).astype(v.dtype)  # of a number a number, where `np.where` gives arrays


_SUFFICIENT = 1e-4
"""Fraction of the decrease promised by the linear model that a step must reach."""

_LEAST = 2.0**-20
"""The shortest step that is tried."""


@traced
def fixed_point(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    tol: float | None = None,
    maxiter: int = 1000,
    damping: float = 1.0,
) -> Any:
    """Find a fixed point of a function, by applying it again and again.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` gives a tree like `x`. It may read traced values from outside.
    x0, *args
        As in `root`.
    tol : float, optional
        It ends when `f` changes no number by more than ``tol * (1 + max|x|)``; by default the precision to the power
        3/4, which is 2e-12 of float64 and 6e-6 of float32. Where each iteration comes closer by a factor `c`, the
        numbers are right to ``c / (1 - c)`` times as much.
    maxiter : int
        How often `f` is applied at most.
    damping : float
        The part of each step that is made: ``x + damping * (f(x) - x)``.

    Returns
    -------
    tree
        As of `root`.

    Raises
    ------
    DTypeError, ShapeError
        As in `root`.

    Notes
    -----
    The derivative, of any order and in both directions, is that of the solution and not of the iteration, which is not
    kept: a linear system, solved with the Jacobian of `f` up to 100 unknowns, and by `gmres` beyond.

    Outside of a trace it is compiled for every call.

    References
    ----------
    Christianson, "Reverse accumulation and attractive fixed points", 1994. Bai, Kolter & Koltun, "Deep equilibrium
    models", 2019.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def f(x, a):
    ...     return 0.5 * (x + a / x)
    >>> sg.value_and_grad(lambda a: sg.fixed_point(f, 1.0, a))(4.0)
    (np.float64(2.0), np.float64(0.25))
    """
    check_numbers("sg.fixed_point", optional=True, tol=tol)
    check_numbers("sg.fixed_point", maxiter=maxiter)
    v0, back = as_unknown(x0, "x0 of sg.fixed_point")
    residual, outside = closure_convert(lambda v: v - like(v, f(back(v), *args), "the function of sg.fixed_point"), v0)

    def solve(residual: Residual, v: Array, outside: Sequence[Array]) -> Array:
        end = precision(v, 0.75) if tol is None else tol

        def step(state: Any) -> Any:
            v, _, k = state
            change = -residual(v, *outside)
            found = np.max(np.abs(change)) <= end * (1 + np.max(np.abs(v)))
            return v + damping * change, ~found, k + 1

        return until_found(step, v, maxiter)

    return back(implicit(residual, outside, v0, solve, by_jacobian if at_most(v0.size, _FEW) else by_products))


_FEW = 100
"""Most unknowns for which the Jacobian is formed, rather than products with it."""
