"""Minima, by Newton's method; their derivatives, by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from symgrad.derivatives.closure import closure_convert
from symgrad.errors import ShapeError
from symgrad.frontend.control import while_loop
from symgrad.frontend.plain_arguments import check_numbers
from symgrad.implicit.roots import Residual, implicit, until_found
from symgrad.implicit.vectors import Array, as_unknown, precision, traced
from symgrad.transforms.gradients import grad
from symgrad.transforms.jacobians import jacobian

A = TypeVar("A")


@traced
def minimize(f: Callable[..., Any], x0: A, *args: Any, tol: float | None = None, maxiter: int = 200) -> A:
    """Find a local minimum of a function.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` gives a floating number. It may read traced values from outside.
    x0 : tree of floating arrays
        Where the search starts. The solution has no derivative by it.
    *args : tree
        Further arguments of `f`.
    tol : float, optional
        The minimum is found when a full step of Newton changes no number by more than ``tol * (1 + max|x|)``, and the
        function bends upwards in every direction. By default the square root of the precision: one step further, where
        the search ends, nearly all digits are right.
    maxiter : int
        How many steps are made at most.

    Returns
    -------
    tree
        Like `x0`: a local minimum. Where the search does not converge all of its numbers are NaN.

    Raises
    ------
    DTypeError
        If `x0` has other leaves than floating arrays.
    ShapeError
        If `f` gives anything but one number.

    Notes
    -----
    Where the Hessian is singular in the minimum a derivative raises NumPy's LinAlgError when it runs.

    Newton's method with a line search: directions in which the function bends downwards are taken with the opposite
    curvature, and a step is halved until the value decreases enough. The derivative, of any order and in both
    directions, is that of the minimum and not of the search: a linear system with the Hessian. In memory and in time
    both are meant for some hundred unknowns.

    Outside of a trace it is compiled for every call; `to_scipy` is for a minimum of which no derivative is taken.

    References
    ----------
    Nocedal & Wright, *Numerical Optimization*, 2nd ed., sections 3.1 and 3.4.

    Examples
    --------
    The best slope of a line, as a function of the weight of a penalty:

    >>> import numpy as np, symgrad as sg
    >>> x, y = np.array([1.0, 2.0]), np.array([2.0, 4.0])
    >>> def slope(weight):
    ...     return sg.minimize(lambda w: np.sum((w * x - y) ** 2) + weight * w**2, 0.0)
    >>> sg.value_and_grad(slope)(5.0)
    (np.float64(1.0), np.float64(-0.1))
    """
    check_numbers("sg.minimize", optional=True, tol=tol)
    check_numbers("sg.minimize", maxiter=maxiter)
    v0, back = as_unknown(x0, "x0 of sg.minimize")
    value, outside = closure_convert(lambda v: _number(f(back(v), *args)), v0)
    gradient = lambda v, *outside: grad(lambda v: value(v, *outside))(v)
    descent = lambda gradient, v, outside: _descent(value, gradient, v, outside, tol, maxiter)
    return back(implicit(gradient, outside, v0, descent))


def _number(y: Any) -> Array:
    if np.shape(y) != ():
        raise ShapeError(f"the function of sg.minimize gives shape {np.shape(y)}", "Return one number: np.sum(x).")
    return y


def _descent(
    value: Residual, gradient: Residual, v: Array, outside: Sequence[Array], tol: float | None, maxiter: int
) -> Array:
    """Newton's method along directions of descent."""
    tol = precision(v, 0.5) if tol is None else tol
    rounding = 10 * precision(v, 1)

    def step(state: Any) -> Any:
        v, _, k = state
        slope = gradient(v, *outside)
        direction, convex = _newton_direction(jacobian(lambda v: gradient(v, *outside))(v), slope)
        before, expected = value(v, *outside), np.sum(slope * direction)
        enough = lambda t: before + _SUFFICIENT * t * expected + rounding * np.abs(before)
        worse = lambda t: ~(value(v + t * direction, *outside) <= enough(t)) & (t > _LEAST)
        t = while_loop(worse, lambda t: t / 2, v.dtype.type(1))
        found = convex & (np.max(np.abs(direction)) <= tol * (1 + np.max(np.abs(v))))
        return v + np.where(found, 1, t).astype(v.dtype) * direction, ~found, k + 1

    return until_found(step, v, maxiter)


def _newton_direction(hessian: Array, slope: Array) -> tuple[Array, Array]:
    """The step to the minimum of a model whose curvatures are made positive, and whether they were so."""
    curvatures, axes = np.linalg.eigh(hessian) if np.ndim(hessian) else (hessian, None)
    sizes = np.abs(curvatures)
    least = precision(slope, 0.5) * np.max(sizes) + np.finfo(slope.dtype).tiny
    convex, sizes = np.min(curvatures) >= -least, np.maximum(sizes, least)
    return -slope / sizes if axes is None else -(axes @ ((slope @ axes) / sizes)), convex


_SUFFICIENT = 1e-4
"""Fraction of the decrease promised by the slope that a step must reach (Armijo)."""

_LEAST = 2.0**-40
"""The shortest step that is tried."""
