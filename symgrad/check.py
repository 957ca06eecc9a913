"""Derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad import tree
from symgrad.compile import Function
from symgrad.errors import ArgumentError, DTypeError, GradientCheckError
from symgrad.graph import tracing
from symgrad.interception import constant
from symgrad.linear import jvp, vjp
from symgrad.trace import bind, dotted_paths
from symgrad.transforms import compile
from symgrad.wrt import described

Arrays = list[Any]


class Tolerance(NamedTuple):
    """By how much a derivative may differ, and the step of the differences."""

    atol: float
    rtol: float
    eps: float


_DEFAULTS = {8: Tolerance(1e-8, 1e-5, 1e-5), 4: Tolerance(1e-6, 1e-4, 1e-4), 2: Tolerance(1e-2, 1e-2, 1e-4)}
_NARROW_STEP = {4: 5e-3, 2: 1e-1}  # where the function itself rounds to few digits


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compare derivatives of a function with central differences, in random directions.

    Each derivative of each order is that of the one before it, in every combination of modes.

    Parameters
    ----------
    f : callable
        Written in NumPy.
    args : sequence of trees
        Its arguments. Those leaves that are not floating are constants.
    order : int
        The highest derivative to look at.
    modes : sequence of str
        ``"fwd"`` checks `jvp`, ``"rev"`` checks `vjp`.
    atol, rtol : float, optional
        Absolute and relative tolerance; by default after the narrowest dtype, 1e-8 and 1e-5 for float64. What rounding
        adds comes on top.
    eps : float, optional
        Step of the differences.

    Raises
    ------
    GradientCheckError
        An `AssertionError`, naming order, modes, argument and the two numbers.

    Notes
    -----
    Differences of narrow floating numbers have few digits. Where the function follows its arguments to float64, they
    are taken there.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.check_grads(lambda x: np.sum(np.sin(x) ** 2), (np.array([0.1, 0.2]),))
    """
    if order < 1 or not modes or not set(modes) <= {"fwd", "rev"}:
        raise ArgumentError(f"order={order!r}, modes={modes!r}", 'Orders count from 1; modes are "fwd" and "rev".')
    if not isinstance(args, (tuple, list)):
        raise ArgumentError(f"args is {described(args)}", "Give the arguments as a tuple, (x,) for one.")
    flat, xs, paths = _of_floats(f, args)
    if not xs:
        raise DTypeError("check_grads: none of the arguments is floating", "Only floating arrays have derivatives.")
    widths = [min(np.asarray(x).dtype.itemsize, 8) for x in (*xs, *flat(xs))]
    default = _DEFAULTS[min(widths)]
    given = Tolerance(*(d if g is None else g for g, d in zip((atol, rtol, eps), default, strict=True)))
    follows = all(np.asarray(y).dtype.itemsize >= 8 for y in flat(_widened(xs)))
    width = 8 if follows else min(widths)
    if eps is None and width in _NARROW_STEP:
        given = given._replace(eps=_NARROW_STEP[width])
    check = _Check(getattr(f, "__name__", "function"), paths, tuple(modes), given, width, np.random.default_rng(0))
    check.all_orders(flat, xs, order, ())


def _of_floats(f: Callable[..., Any], args: Sequence[Any]) -> tuple[Callable[[Arrays], Arrays], Arrays, list[str]]:
    """The function from floating leaves to floating leaves, those leaves of the arguments, and where they stand."""
    bound = bind(f, args, {})
    paths, leaves, _ = dotted_paths(bound.arguments)
    structure = tree.flatten(tuple(args))[1]
    places = [i for i, x in enumerate(leaves) if isinstance(x, float) or getattr(x, "dtype", np.dtype(int)).kind == "f"]

    def flat(xs: Arrays) -> Arrays:
        graph = tracing.get()
        filled = list(leaves) if graph is None else [constant(graph, x) for x in leaves]
        for i, x in zip(places, xs, strict=True):
            filled[i] = x
        return [y for y in tree.flatten(f(*tree.unflatten(structure, filled)))[0] if _is_floating(y)]

    return flat, [leaves[i] for i in places], [paths[i] for i in places]


def _is_floating(y: Any) -> bool:
    kind = getattr(y, "dtype", np.dtype(type(y) if isinstance(y, (float, complex)) else int)).kind
    if kind == "c":
        raise DTypeError("check_grads: a result is complex", "Return its real and imaginary parts.")
    return kind == "f"


class _Check(NamedTuple):
    """What stays the same in all orders."""

    name: str
    paths: list[str]
    modes: tuple[str, ...]
    tolerance: Tolerance
    width: int  # bytes of the numbers that differences are taken in
    rng: np.random.Generator

    def all_orders(self, f: Callable[[Arrays], Arrays], xs: Arrays, order: int, trail: tuple[str, ...]) -> None:
        """Check the derivative of `f`, then that derivative as a function in turn."""
        tangents = [self.direction(x) for x in xs]
        weights = [self.direction(y) for y in f(xs)]
        forward = compile(lambda xs, ts: jvp(f, (xs,), (ts,))[1])
        reverse = compile(lambda xs, ws: vjp(f, xs)[1](ws)[0])
        for mode in self.modes:
            for i in range(len(xs)):
                only = [t if i == j else np.zeros_like(t) for j, t in enumerate(tangents)]
                self.one(f, xs, i, only, weights, forward if mode == "fwd" else reverse, (mode, *trail))
        if order > 1:
            for mode in self.modes:
                fixed = tangents if mode == "fwd" else weights
                derivative = forward if mode == "fwd" else reverse
                self.all_orders(_with_fixed(derivative, fixed), xs, order - 1, (mode, *trail))

    def direction(self, x: Any) -> Any:
        dtype = np.asarray(x).dtype
        drawn = self.rng.standard_normal(np.shape(x))
        return float(drawn) if isinstance(x, float) and not isinstance(x, np.floating) else np.asarray(drawn, dtype)[()]

    def one(
        self,
        f: Callable[[Arrays], Arrays],
        xs: Arrays,
        i: int,
        tangents: Arrays,
        weights: Arrays,
        derivative: Function,
        trail: tuple[str, ...],
    ) -> None:
        """The derivative in the direction of one argument."""
        if trail[0] == "fwd":
            products = [w * t for w, t in zip(weights, derivative(xs, tangents), strict=True)]
        else:
            products = [derivative(xs, weights)[i] * tangents[i]]
        value = float(sum(np.sum(p, dtype=float) for p in products))
        rounding = sum(float(np.finfo(np.asarray(p).dtype).eps * np.sum(np.abs(p), dtype=float)) for p in products)
        numeric, noise = self.difference(f, xs, tangents, weights)
        allowed = self.tolerance.atol + self.tolerance.rtol * abs(numeric) + noise + 16 * rounding
        if not abs(value - numeric) <= allowed:
            raise GradientCheckError(
                f"check_grads: the derivative of order {len(trail)} ({' of '.join(trail)}) of {self.name} with respect "
                f"to {self.paths[i]} is {value!r}, finite differences give {numeric!r}",
                "Look at the rules of what the function calls; or at a kink near the arguments.",
            )

    def difference(
        self, f: Callable[[Arrays], Arrays], xs: Arrays, tangents: Arrays, weights: Arrays
    ) -> tuple[float, float]:
        """The central difference of the weighted sum of the results, and what rounding may add to it."""
        base, step = _widened(xs) if self.width == 8 else xs, self.tolerance.eps
        sides = []
        for sign in (step, -step):
            moved = [_moved(x, sign, t) for x, t in zip(base, tangents, strict=True)]
            sides.append([np.asarray(w, float) * y for w, y in zip(weights, f(moved), strict=True)])
        total = sum(float(np.sum(a - b)) for a, b in zip(*sides, strict=True))
        size = sum(float(np.sum(np.abs(a) + np.abs(b))) for a, b in zip(*sides, strict=True))
        unit = float(np.finfo(f"f{self.width}").eps)
        return total / (2 * step), 4 * unit * size / step


def _with_fixed(derivative: Function, fixed: Arrays) -> Callable[[Arrays], Arrays]:
    def f(xs: Arrays) -> Arrays:
        like = [v if isinstance(v, float) and not isinstance(v, np.floating) else np.asarray(v) for v in fixed]
        return derivative(xs, like)

    return f


def _widened(xs: Arrays) -> Arrays:
    return [np.asarray(x, float)[()] if isinstance(x, (np.ndarray, np.generic)) else x for x in xs]


def _moved(x: Any, step: float, t: Any) -> Any:
    """An argument, a step further, of its type."""
    if isinstance(x, (np.ndarray, np.generic)):
        return (x + np.asarray(step * t, x.dtype)).astype(x.dtype)
    return float(x + step * t)
