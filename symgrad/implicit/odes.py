"""Ordinary differential equations: Dormand and Prince's method with adaptive steps and results at given times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.tree import tree_map
from symgrad.derivatives.closure import closure_convert
from symgrad.derivatives.custom import custom_vjp
from symgrad.errors import ArgumentError, ShapeError
from symgrad.frontend.control import scan, while_loop
from symgrad.frontend.plain_arguments import check_numbers
from symgrad.implicit.vectors import Array, as_leaves, precision, pulled, traced
from symgrad.transforms.gradients import stop_gradient

State = list[Array]
"""Arrays and numbers, each by itself: what is made of numbers alone runs on numbers."""

Slope = Callable[..., State]
"""A function of a state, a time, and of the values that it closes over."""


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
    check_numbers("sg.odeint", optional=True, arrays=True, rtol=rtol, atol=atol)
    check_numbers("sg.odeint", mxstep=mxstep)
    start, back = as_leaves(y0, "y0 of sg.odeint")
    (times,), _ = as_leaves(t, "t of sg.odeint")
    if np.ndim(times) != 1:
        raise ShapeError(f"t of sg.odeint has the shape {np.shape(t)}", "Give an array of times.")
    times = times.astype(start[0].dtype)
    slope, outside = closure_convert(lambda y, t: _as_slope(y, func(back(y), t, *args)), start, times[0])
    end = precision(times, 0.5)
    tolerance = _Tolerance(end if rtol is None else rtol, end if atol is None else atol, mxstep)
    return back(_GRADIENTS[gradient](slope, start, times, outside, tolerance))


def _as_slope(y: State, slope: Any) -> State:
    found, _ = as_leaves(slope, "the result of the function of sg.odeint")
    shapes = [[np.shape(x) for x in leaves] for leaves in (found, y)]
    if shapes[0] != shapes[1]:
        fact = f"the function of sg.odeint gives arrays of the shapes {shapes[0]} for {shapes[1]}"
        raise ShapeError(fact, "Give the derivative by the time, a tree like the state.")
    return [k.astype(x.dtype) for k, x in zip(found, y, strict=True)]


class _Tolerance(NamedTuple):
    """When a step is good enough, and how many there may be between two times."""

    rtol: float
    atol: float
    mxstep: int

    def ratio(self, errors: State, before: State, after: State) -> Array:
        """The error of a step, where 1 is as much as it may be."""
        total, count = 0.0, 0
        for error, x, y in zip(errors, before, after, strict=True):
            scale = self.atol + self.rtol * np.maximum(np.abs(x), np.abs(y))
            total, count = total + np.sum((error / scale) ** 2), count + error.size
        return np.sqrt(total / count)


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


class _Step(NamedTuple):
    """Behind a step: the time, the state and its slope; the length of the next one; and the polynomial across it."""

    t: Array
    y: State
    slope: State
    h: Array
    before: Array  # the time at which the last step began
    polynomial: list[State]  # its coefficients


def _direct(f: Slope, start: State, times: Array, outside: Sequence[Array], tolerance: _Tolerance) -> State:
    """The states at the times, stacked."""
    upwards = np.where(times[-1] >= times[0], 1, -1).astype(times.dtype)
    ahead = lambda y, t: [upwards * k for k in f(y, upwards * t, *outside)]  # in a time that always grows
    times = upwards * times
    slope, zeros = ahead(start, times[0]), [np.zeros_like(y) for y in start]
    h = stop_gradient(_first_length(ahead, start, times[0], slope, tolerance))
    first = _Step(times[0], start, slope, h, times[0], [start, zeros, zeros, zeros, zeros])

    def reach(last: _Step, target: Array) -> tuple[_Step, State]:
        goes_on = lambda state: (state[0].t < target) & (state[1] < tolerance.mxstep)
        last, _ = while_loop(goes_on, lambda state: (_next(ahead, state[0], tolerance), state[1] + 1), (last, 0))
        there = _across(last, target)
        return last, [np.where(last.t >= target, y, np.nan).astype(y.dtype) for y in there]

    _, rows = scan(reach, first, times[1:])
    return [np.concatenate([y[None], row]) for y, row in zip(start, rows, strict=True)]


def _next(f: Slope, last: _Step, tolerance: _Tolerance) -> _Step:
    """One step, or where it is too long the same state with a shorter one to come."""
    t, y, h = last.t, last.y, last.h
    slopes = [last.slope]
    for node, stage in zip(_NODES[1:], _STAGES[1:], strict=True):
        new = [x + h * change for x, change in zip(y, _combined(stage, slopes), strict=True)]
        slopes.append(f(new, t + node * h))
    ratio = tolerance.ratio([h * error for error in _combined(_ERROR, slopes)], y, new)
    taken = _Step(t + h, new, slopes[-1], h, t, _polynomial(y, new, h, slopes))
    good = ratio <= 1
    kept = tree_map(lambda a, b: np.where(good, a, b).astype(b.dtype), taken, last)
    factor = np.where(np.isfinite(ratio), np.clip(0.9 * np.maximum(ratio, 1e-10) ** -0.2, 0.2, 10.0), 0.2)
    return kept._replace(h=stop_gradient(h * factor.astype(h.dtype)))


def _combined(weights: Sequence[float], slopes: Sequence[State]) -> State:
    rows = zip(*slopes, strict=True)
    return [sum(w * k for w, k in zip(weights, row, strict=True) if w) for row in rows]


def _polynomial(y: State, new: State, h: Array, slopes: Sequence[State]) -> list[State]:
    """The coefficients of the polynomial across a step (Hairer, Nørsett & Wanner, II.6)."""
    change = [b - a for a, b in zip(y, new, strict=True)]
    first = [h * k - c for k, c in zip(slopes[0], change, strict=True)]
    second = [c - h * k - b for c, k, b in zip(change, slopes[-1], first, strict=True)]
    return [y, change, first, second, [h * k for k in _combined(_DENSE, slopes)]]


def _across(last: _Step, t: Array) -> State:
    """The state at a time within the last step."""
    length = last.t - last.before
    x = (t - last.before) / np.where(length > 0, length, 1).astype(length.dtype)
    rows = zip(*last.polynomial, strict=True)
    return [a + x * (b + (1 - x) * (c + x * (d + (1 - x) * e))) for a, b, c, d, e in rows]


def _first_length(f: Slope, y: State, t: Array, slope: State, tolerance: _Tolerance) -> Array:
    """A length to begin with, by the sizes of the first two derivatives (Hairer, Nørsett & Wanner, II.4)."""
    size = lambda xs: tolerance.ratio(xs, y, y)
    of_state, of_slope = size(y), size(slope)
    unknown = (of_state < 1e-5) | (of_slope < 1e-5)
    h = np.where(unknown, 1e-6, 0.01 * of_state / np.where(unknown, 1, of_slope)).astype(t.dtype)
    further = f([x + h * k for x, k in zip(y, slope, strict=True)], t + h)
    bend = size([b - a for a, b in zip(slope, further, strict=True)]) / h
    most = np.maximum(of_slope, bend)
    flat = most <= 1e-15
    guess = np.where(flat, np.maximum(1e-6, h * 1e-3), (0.01 / np.where(flat, 1, most)) ** 0.2)
    return np.minimum(100 * h, guess).astype(t.dtype)


# ---- derivatives by the adjoint equation


def _adjoint(f: Slope, start: State, times: Array, outside: Sequence[Array], tolerance: _Tolerance) -> State:
    """The same, with a rule of its own: the cotangent of the state obeys an equation that goes back in time."""

    @custom_vjp
    def odeint_adjoint(start: State, times: Array, outside: Sequence[Array]) -> State:
        return _direct(f, start, times, outside, tolerance)

    def forward(start: State, times: Array, outside: Sequence[Array]) -> Any:
        states = odeint_adjoint(start, times, outside)
        return states, (states, times, outside)

    def backward(residuals: Any, g: State) -> Any:
        states, times, outside = residuals
        n = len(states)
        floating = [x for x in outside if x.dtype.kind in "fc"]
        zeros = [np.zeros_like(x) for x in [*(y[0] for y in states), *floating]]

        def back(found: State, turn: Any) -> Any:
            y, g, t, before = turn
            arrived = [*(a + b for a, b in zip(found[:n], g, strict=True)), *found[n:]]
            span = np.stack([t, before])
            both = _adjoint(_augmented(f, n), [*y, *arrived], span, outside, tolerance)
            return [x[1] for x in both[n:]], _inner(g, f(y, t, *outside))

        turns = [y[1:] for y in states], [x[1:] for x in g], times[1:], times[:-1]
        found, by_times = scan(back, zeros, turns, reverse=True)
        by_first = -_inner(found[:n], f([y[0] for y in states], times[0], *outside))
        of_outside = iter(found[n:])
        return (
            [a[0] + b for a, b in zip(g, found[:n], strict=True)],
            np.concatenate([by_first[None], by_times]).astype(times.dtype),
            [next(of_outside) if x.dtype.kind in "fc" else None for x in outside],
        )

    odeint_adjoint.defvjp(forward, backward)
    return odeint_adjoint(start, times, outside)


def _inner(xs: State, ys: State) -> Array:
    return sum(np.sum(x * y) for x, y in zip(xs, ys, strict=True))


def _augmented(f: Slope, n: int) -> Slope:
    """Return the equation of a state, of its cotangent, and of the cotangents of the slope's outside values."""

    def slope(whole: State, t: Array, *outside: Array) -> State:
        y, g = whole[:n], whole[n : 2 * n]
        found = pulled(lambda *given: f([*given[:n]], t, *given[n:]), [*y, *outside], g)
        return [*f(y, t, *outside), *(-x for x in found if x is not None)]

    return slope


_GRADIENTS = {"direct": _direct, "adjoint": _adjoint}
