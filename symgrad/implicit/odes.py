"""Ordinary differential equations: Dormand and Prince's method with adaptive steps and results at given times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.derivatives.closure import closure_convert
from symgrad.derivatives.custom import custom_vjp
from symgrad.errors import ArgumentError, ShapeError
from symgrad.frontend.control import scan, while_loop
from symgrad.implicit.vectors import Array, as_vector, precision, pulled, traced, vector_like
from symgrad.transforms.gradients import stop_gradient

Slope = Callable[..., Array]
"""Of a state, a time, and what it reads from outside."""


@traced
def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float | None = None,
    atol: float | None = None,
    mxstep: int = 1000,
    gradient: str = "direct",
) -> Any:
    """The solution of ``dy/dt = func(y, t)`` at given times.

    Parameters
    ----------
    func : callable
        ``func(y, t, *args)`` gives a tree like `y`. It may read traced values from outside.
    y0 : tree of floating arrays
        The state at the time ``t[0]``.
    t : array of shape (n,)
        Times in order, upwards or downwards.
    *args : tree
        Further arguments of `func`.
    rtol, atol : float, optional
        Steps are chosen so that the error of each is about ``atol + rtol * |y|`` in the root mean square of its
        numbers. By default the square root of the precision: 1.5e-8 of float64, 3.5e-4 of float32.
    mxstep : int
        How many steps are made at most from one of the times to the next.
    gradient : str
        How derivatives are made: ``"direct"`` of the steps that were made, their lengths taken as constants, or in
        reverse mode ``"adjoint"``, by another equation that is solved backwards in time, in memory that does not grow
        with the steps.

    Returns
    -------
    tree
        Like `y0`, with a first axis more: the states at the times, `y0` the first. Where a time is not reached all
        numbers are NaN.

    Raises
    ------
    ArgumentError
        If `gradient` is neither.
    DTypeError
        If `y0`, `t` or the result of `func` has other leaves than floating arrays.
    ShapeError
        If `t` has not one axis, or `func` does not give as many numbers as `y` has.

    Notes
    -----
    Dormand and Prince's pair of orders 5 and 4; between steps the polynomial of order 4 that belongs to it. Both kinds
    of derivatives are those of the exact solution to about the tolerance, at any order. ``"direct"`` is the faster one
    as long as the steps fit into memory, and goes in both directions.

    Outside of a trace it is compiled for every call.

    References
    ----------
    Hairer, Nørsett & Wanner, *Solving Ordinary Differential Equations I*, 2nd ed., II.4 to II.6. Chen et al., "Neural
    ordinary differential equations", 2018.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def decayed(rate):
    ...     return sg.odeint(lambda y, t: -rate * y, 2.0, np.array([0.0, 1.0]))[-1]
    >>> np.allclose(sg.value_and_grad(decayed)(0.5), [2 * np.exp(-0.5), -2 * np.exp(-0.5)])
    True
    """
    if gradient not in _GRADIENTS:
        raise ArgumentError(f"sg.odeint: gradient={gradient!r}", 'Write gradient="direct" or gradient="adjoint".')
    v0, back = as_vector(y0, "y0 of sg.odeint")
    times = as_vector(t, "t of sg.odeint")[0].astype(v0.dtype)
    if np.ndim(t) != 1:
        raise ShapeError(f"t of sg.odeint has the shape {np.shape(t)}", "Give an array of times.")
    slope, outside = closure_convert(
        lambda v, t: vector_like(v, func(back(v), t, *args), "the function of sg.odeint"), v0, times[0]
    )
    end = precision(v0, 0.5)
    tolerance = _Tolerance(end if rtol is None else rtol, end if atol is None else atol, mxstep)
    return back(_GRADIENTS[gradient](slope, v0, times, outside, tolerance))


class _Tolerance(NamedTuple):
    """When a step is good enough, and how many there may be between two times."""

    rtol: float
    atol: float
    mxstep: int

    def ratio(self, error: Array, before: Array, after: Array) -> Array:
        """The error of a step, where 1 is as much as it may be."""
        scale = self.atol + self.rtol * np.maximum(np.abs(before), np.abs(after))
        return np.sqrt(np.mean((error / scale) ** 2))


# ---- the method

_NODES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
_DENSE = (
    -12715105075 / 11282082432,
    0.0,
    87487479700 / 32700410799,
    -10690763975 / 1880347072,
    701980252875 / 199316789632,
    -1453857185 / 822651844,
    69997945 / 29380423,
)


class _State(NamedTuple):
    """Behind a step: the time, the state and its slope; the length of the next one; and the polynomial across it."""

    t: Array
    y: Array
    slope: Array
    h: Array
    before: Array  # the time at which the last step began
    polynomial: Array  # of shape (5, n)


def _direct(f: Slope, y0: Array, times: Array, outside: Sequence[Array], tolerance: _Tolerance) -> Array:
    """The states at the times, of shape (len(times), n)."""
    upwards = np.where(times[-1] >= times[0], 1, -1).astype(times.dtype)
    ahead = lambda y, t: upwards * f(y, upwards * t, *outside)  # in a time that always grows
    times = upwards * times
    slope = ahead(y0, times[0])
    h = stop_gradient(_first_step(ahead, y0, times[0], slope, tolerance))
    start = _State(times[0], y0, slope, h, times[0], np.stack([y0] + [np.zeros_like(y0)] * 4))

    def reach(state: _State, target: Array) -> tuple[_State, Array]:
        goes_on = lambda inner: (inner[0].t < target) & (inner[1] < tolerance.mxstep)
        step = lambda inner: (_step(ahead, inner[0], tolerance), inner[1] + 1)
        state, _ = while_loop(goes_on, step, (state, 0))
        return state, np.where(state.t >= target, _across(state, target), np.nan).astype(y0.dtype)

    _, rows = scan(reach, start, times[1:])
    return np.concatenate([y0[None], rows])


def _step(f: Slope, state: _State, tolerance: _Tolerance) -> _State:
    """One step, or where it is too long the same state with a shorter one to come."""
    t, y, h = state.t, state.y, state.h
    slopes = [state.slope]
    for node, stage in zip(_NODES[1:], _STAGES[1:], strict=True):
        new = y + h * _combined(stage, slopes)
        slopes.append(f(new, t + node * h))
    ratio = tolerance.ratio(h * _combined(_ERROR, slopes), y, new)
    good = ratio <= 1
    change, first = new - y, h * slopes[0]
    polynomial = np.stack([
        y, change, first - change, 2 * change - first - h * slopes[6], h * _combined(_DENSE, slopes),
    ])  # fmt: skip
    factor = np.where(np.isfinite(ratio), np.clip(0.9 * np.maximum(ratio, 1e-10) ** -0.2, 0.2, 10.0), 0.2)
    taken = _State(t + h, new, slopes[6], h, t, polynomial)
    kept = [np.where(good, a, b) for a, b in zip(taken, state, strict=True)]
    return _State(*kept)._replace(h=stop_gradient(h * factor.astype(h.dtype)))


def _combined(weights: Sequence[float], slopes: Sequence[Array]) -> Array:
    return sum(w * k for w, k in zip(weights, slopes, strict=True) if w)


def _across(state: _State, t: Array) -> Array:
    """The state at a time within the last step."""
    length = state.t - state.before
    x = (t - state.before) / np.where(length > 0, length, 1).astype(length.dtype)
    a, b, c, d, e = (state.polynomial[i] for i in range(5))
    return a + x * (b + (1 - x) * (c + x * (d + (1 - x) * e)))


def _first_step(f: Slope, y: Array, t: Array, slope: Array, tolerance: _Tolerance) -> Array:
    """A length to begin with, by the sizes of the first two derivatives (Hairer, Nørsett & Wanner, II.4)."""
    size = lambda x: tolerance.ratio(x, y, y)
    of_state, of_slope = size(y), size(slope)
    unknown = (of_state < 1e-5) | (of_slope < 1e-5)
    h = np.where(unknown, 1e-6, 0.01 * of_state / np.where(unknown, 1, of_slope)).astype(y.dtype)
    bend = size(f(y + h * slope, t + h) - slope) / h
    most = np.maximum(of_slope, bend)
    flat = most <= 1e-15
    guess = np.where(flat, np.maximum(1e-6, h * 1e-3), (0.01 / np.where(flat, 1, most)) ** 0.2)
    return np.minimum(100 * h, guess).astype(y.dtype)


# ---- derivatives by the adjoint equation


def _adjoint(f: Slope, y0: Array, times: Array, outside: Sequence[Array], tolerance: _Tolerance) -> Array:
    """The same, with a rule of its own: the cotangent of the state obeys an equation that goes back in time."""

    @custom_vjp
    def odeint_adjoint(y0: Array, times: Array, outside: Sequence[Array]) -> Array:
        return _direct(f, y0, times, outside, tolerance)

    def forward(y0: Array, times: Array, outside: Sequence[Array]) -> Any:
        states = odeint_adjoint(y0, times, outside)
        return states, (states, times, outside)

    def backward(residuals: Any, g: Array) -> Any:
        states, times, outside = residuals
        floating = [x for x in outside if x.dtype.kind == "f"]
        start, parts = as_vector([np.zeros_like(states[0]), *map(np.zeros_like, floating)], "the cotangent")
        start, n = start.astype(states.dtype), states.shape[1]

        def back(cotangent: Array, turn: Any) -> Any:
            y, g, t, before = turn
            cotangent = cotangent + np.concatenate([g, np.zeros_like(cotangent[n:])])
            whole = np.concatenate([y, cotangent])
            span = np.stack([t, before])
            both = _adjoint(_augmented(f, n), whole, span, outside, tolerance)
            return both[1, n:], g @ f(y, t, *outside)

        turns = (states[1:], g[1:], times[1:], times[:-1])
        end, by_times = scan(back, start, turns, reverse=True)
        found = parts(end)
        of_outside = iter(found[1:])
        slope = f(states[0], times[0], *outside)
        by_first = -(found[0] @ slope)
        return (
            g[0] + found[0],
            np.concatenate([by_first[None], by_times]),
            [next(of_outside) if x.dtype.kind == "f" else None for x in outside],
        )

    odeint_adjoint.defvjp(forward, backward)
    return odeint_adjoint(y0, times, outside)


def _augmented(f: Slope, n: int) -> Slope:
    """The equation of a state, of its cotangent, and of the cotangents of what the slope reads, joined."""

    def slope(whole: Array, t: Array, *outside: Array) -> Array:
        y, cotangent = whole[:n], whole[n : 2 * n]
        found = pulled(lambda y, *outside: f(y, t, *outside), [y, *outside], cotangent)
        moving = [-np.ravel(x) for x in found if x is not None]
        return np.concatenate([f(y, t, *outside), *moving]).astype(whole.dtype)

    return slope


_GRADIENTS = {"direct": _direct, "adjoint": _adjoint}
