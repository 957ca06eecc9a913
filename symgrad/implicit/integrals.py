"""Integrals over an interval, by an adaptive rule of Gauss and Kronrod."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.tree import tree_map
from symgrad.derivatives.closure import closure_convert
from symgrad.derivatives.custom import custom_vjp
from symgrad.errors import ShapeError
from symgrad.frontend.control import while_loop
from symgrad.implicit.vectors import Array, as_vector, precision, pulled, traced
from symgrad.ops.operands import is_traced
from symgrad.transforms.batches import vmap

Integrand = Callable[..., Array]
"""A function of a number and of the vector that it closes over."""


@traced
def quad(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    *args: Any,
    rtol: float | None = None,
    atol: float | None = None,
    maxiter: int = 1000,
) -> Any:
    """The integral of a function from `a` to `b`.

    Parameters
    ----------
    f : callable
        ``f(x, *args)``, of one number, gives a tree of floating arrays. It may read traced values from outside.
    a, b : float or array of shape ()
        The ends, in any order; as numbers of Python ``-np.inf`` and ``np.inf``, too.
    *args : tree
        Further arguments of `f`.
    rtol, atol : float, optional
        The error is estimated to be below ``max(atol, rtol * |integral|)``, in the largest of the numbers. By default
        the square root of the precision: 1.5e-8 of float64, 3.5e-4 of float32; usually many more digits are right.
    maxiter : int
        Into how many parts the interval is divided at most.

    Returns
    -------
    tree
        Like what `f` gives. Where the error cannot be made small enough all numbers are NaN.

    Raises
    ------
    DTypeError
        If `f` gives other leaves than floating arrays, or an end is no floating number.
    ShapeError
        If an end is not one number.

    Notes
    -----
    The rule of 21 points, on halves of the interval, and halves of these, where it is not good enough. The ends
    themselves are not evaluated, so that `f` may be infinite there. Derivatives by what `f` reads, of any order and in
    both directions, are integrals that are adapted for themselves; those by the ends are values of `f`.

    Outside of a trace it is compiled for every call.

    References
    ----------
    Piessens, de Doncker-Kapenga, Überhuber & Kahaner, *QUADPACK*, 1983. Gander & Gautschi, "Adaptive quadrature -
    revisited", 2000.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def area(a):
    ...     return sg.quad(lambda x: np.exp(-a * x), 0.0, np.inf)
    >>> np.allclose(sg.value_and_grad(area)(2.0), [1 / 2, -1 / 4])
    True
    """
    a, b = (float(x) if type(x) is int else x for x in (a, b))
    a, b, f = _finite(a, b, f)
    ends, _ = as_vector((a, b), "an end of sg.quad")
    if ends.shape != (2,):
        raise ShapeError(f"sg.quad: from shape {np.shape(a)} to shape {np.shape(b)}", "Give one number for each end.")
    backs: list[Callable[[Array], Any]] = []

    def integrand(x: Array) -> Array:
        vector, back = as_vector(f(x, *args), "the result of the function of sg.quad")
        backs.append(back)
        return vector

    converted, outside = closure_convert(integrand, ends[0])
    end = precision(ends, 0.5)
    goal = _Goal(end if rtol is None else rtol, end if atol is None else atol, maxiter)
    return backs[0](_integral(converted, outside, goal, ends))


class _Goal(NamedTuple):
    rtol: float
    atol: float
    maxiter: int


def _finite(a: Any, b: Any, f: Callable[..., Any]) -> tuple[Any, Any, Callable[..., Any]]:
    """The same integral over an interval with ends that are finite."""
    low, high = (not is_traced(x) and isinstance(x, float) and math.isinf(x) for x in (a, b))
    if not low and not high:
        return a, b, f
    if low and high:
        whole = lambda t, *args: (t / (1 - t * t), (1 + t * t) / (1 - t * t) ** 2)
        signs = math.copysign(1.0, a), math.copysign(1.0, b)
        return *signs, _substituted(f, whole)
    anchor, sign = (b, math.copysign(1.0, a)) if low else (a, math.copysign(1.0, b))
    half = lambda t, *args: (anchor + sign * t / (1 - t), sign / (1 - t) ** 2)
    return *((1.0, 0.0) if low else (0.0, 1.0)), _substituted(f, half)


def _substituted(f: Callable[..., Any], change: Callable[..., Any]) -> Callable[..., Any]:
    def g(t: Array, *args: Any) -> Any:
        x, slope = change(t)
        return tree_map(lambda y: y * slope, f(x, *args))

    return g


# ---- the integral, and its rule


def _integral(f: Integrand, outside: Sequence[Array], goal: _Goal, ends: Array) -> Array:
    """Return the integral as a vector, a function of the ends and of the integrand's outside values."""

    @custom_vjp
    def integral(ends: Array, outside: Sequence[Array]) -> Array:
        return _adaptive(lambda x: f(x, *outside), ends, goal)

    def forward(ends: Array, outside: Sequence[Array]) -> Any:
        return integral(ends, outside), (ends, outside)

    def backward(residuals: Any, g: Array) -> Any:
        ends, outside = residuals

        def share(i: int) -> Array:
            """Return the cotangent of one outside value: an integral of its own, which may not depend on `g`."""
            others = lambda y: [*outside[:i], y, *outside[i + 1 :]]
            at = lambda x: np.ravel(pulled(lambda y: f(x, *others(y)), [outside[i]], g)[0])
            return np.reshape(_integral(*closure_convert(at, ends[0]), goal, ends), outside[i].shape)

        by_ends = np.stack([-(g @ f(ends[0], *outside)), g @ f(ends[1], *outside)]).astype(ends.dtype)
        return by_ends, [share(i) if x.dtype.kind in "fc" else None for i, x in enumerate(outside)]

    integral.defvjp(forward, backward)
    integral.linear = True
    return integral(ends, outside)


# ---- the rule of Gauss and Kronrod

_POSITIVE = (
    (0.995657163025808080735527280689003, 0.011694638867371874278064396062192, 0.0),
    (0.973906528517171720077964012084452, 0.032558162307964727478818972459390, 0.066671344308688137593568809893332),
    (0.930157491355708226001207180059508, 0.054755896574351996031381300244580, 0.0),
    (0.865063366688984510732096688423493, 0.075039674810919952767043140916190, 0.149451349150580593145863397657697),
    (0.780817726586416897063717578345042, 0.093125454583697605535065465083366, 0.0),
    (0.679409568299024406234327365114874, 0.109387158802297641899210590325805, 0.219086362515982043995534934228163),
    (0.562757134668604683339000099272694, 0.123491976262065851077958109585166, 0.0),
    (0.433395394129247190799265943165784, 0.134709217311473325928054001771707, 0.269266719309996355091226921569469),
    (0.294392862701460198131126603103866, 0.142775938577060080797094273138717, 0.0),
    (0.148874338981631210884826001129720, 0.147739104901338491374841515972068, 0.295524224714752870173815619188769),
)
"""Points in (-1, 1), their weights in the rule of 21 points, and in that of 10."""

_RULE = np.array([*((-x, k, g) for x, k, g in _POSITIVE), (0.0, 0.149445554002916905664936468389821, 0.0),
                  *_POSITIVE[::-1]])  # fmt: skip


def _adaptive(f: Callable[[Array], Array], ends: Array, goal: _Goal) -> Array:
    """The sum over parts of the interval, from left to right: the part ``[i, i + 1] / 2**depth`` or its halves."""
    length = ends[1] - ends[0]

    def part(state: Any) -> Any:
        i, depth, total, error, size, k = state
        w = length * 0.5 ** depth.astype(ends.dtype)
        value, doubt = _panel(f, ends[0] + i.astype(ends.dtype) * w, w)
        size = np.maximum(size, np.max(np.abs(value)))
        good = (doubt <= _SHARE * np.maximum(goal.atol, goal.rtol * size)) | (depth >= _DEEPEST)
        up = good & (i % 2 == 1)  # both halves are done
        i = np.where(good, np.where(up, (i + 1) // 2, i + 1), 2 * i)
        depth = np.where(good, np.where(up, depth - 1, depth), depth + 1)
        total = total + np.where(good, value, 0).astype(value.dtype)
        return i, depth, total, error + np.where(good, doubt, 0).astype(doubt.dtype), size, k + 1

    middle = np.zeros_like(f((ends[0] + ends[1]) / 2))
    zero, none = np.zeros((), middle.dtype), np.zeros((), int)
    more = lambda state: (state[0] < 2 ** state[1]) & (state[5] < goal.maxiter)
    i, depth, total, error, size, _ = while_loop(more, part, (none, none, middle, zero, zero, 0))
    found = (i >= 2**depth) & (error <= np.maximum(goal.atol, goal.rtol * size))
    return np.where(found, total, np.nan).astype(middle.dtype)


def _panel(f: Callable[[Array], Array], start: Array, w: Array) -> tuple[Array, Array]:
    """The integral over an interval, and the estimate of its error in QUADPACK."""
    points, kronrod, gauss = _RULE.T
    values = vmap(f)((start + w * (points + 1) / 2).astype(w.dtype))
    dtype = values.dtype
    weigh = lambda weights, values: (0.5 * w).astype(dtype) * (weights.astype(dtype) @ values)
    value = weigh(kronrod, values)
    difference = np.abs(value - weigh(gauss, values))
    spread = np.abs(weigh(kronrod, np.abs(values - np.mean(values, axis=0))))
    flat = spread <= np.finfo(dtype).tiny
    relative = 200 * difference / np.where(flat, 1, spread).astype(dtype)
    return value, np.max(np.where(flat, difference, spread * np.minimum(1, relative) ** 1.5)).astype(dtype)


_SHARE = 1 / 32
"""The part of the error that one part of the interval may make."""

_DEEPEST = 60
"""Most halvings of the interval."""
