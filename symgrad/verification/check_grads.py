"""Derivatives against finite differences."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.compiler.function import Function
from symgrad.core import tree
from symgrad.core.graph import tracing
from symgrad.errors import ArgumentError, DTypeError, GradientCheckError
from symgrad.frontend.interception import constant
from symgrad.frontend.trace import bind, dotted_paths
from symgrad.transforms.gradients import compile
from symgrad.transforms.products_with_vectors import jvp, vjp
from symgrad.transforms.wrt import described
from symgrad.verification.compare_grads import Compared, GradientComparison

Arrays = list[Any]


class Tolerance(NamedTuple):
    """By how much a derivative may differ, and the step of the differences."""

    atol: float
    rtol: float
    eps: float


class Given(NamedTuple):
    """A `Tolerance` as it was given: None where the default is meant."""

    atol: float | None
    rtol: float | None
    eps: float | None


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
    check, flat, xs = _prepared(f, args, order, modes, Given(atol, rtol, eps), {})
    check.all_orders(flat, xs, order, ())


def compare_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    *,
    kwargs: Mapping[str, Any] | None = None,
    wrt: str | Sequence[str] | None = None,
    entries: int = 64,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> GradientComparison:
    """Compare derivatives of a function with central differences, number by number, and tell the farthest off.

    `check_grads` is for tests: it takes a few random directions, and raises. This is for looking at.

    Parameters
    ----------
    f, args, order, modes, atol, rtol, eps
        As in `check_grads`.
    kwargs : mapping, optional
        Arguments that are passed by name.
    wrt : str or sequence of str, optional
        Arguments or parts of them, ``"params.W"``; by default all that are floating.
    entries : int
        How many numbers of an argument to move, at most; of larger ones a random choice, always the same.

    Returns
    -------
    GradientComparison
        True where all agree. ``print`` it.

    Raises
    ------
    ArgumentError, DTypeError
        For arguments that have no derivative.

    Notes
    -----
    Of a result that is an array the derivative of a weighted sum is taken, with random weights; and so are derivatives
    of second order and above, those of the derivative before them in one random direction.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> found = sg.compare_grads(lambda x: np.sum(x ** 3), (np.array([1.0, 2.0]),), order=1)
    >>> bool(found), found.rows[0].argument, len(found.rows)
    (True, 'x', 2)
    """
    check, flat, xs = _prepared(f, args, order, modes, Given(atol, rtol, eps), kwargs or {})
    if type(entries) is not int or entries < 1:
        raise ArgumentError(f"entries={entries!r}", "It is a number from 1 on.")
    chosen = _chosen(check.paths, wrt)
    return GradientComparison(check.name, tuple(check.compared(flat, xs, order, (), chosen, entries)))


def _prepared(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str],
    given: Given,
    kwargs: Mapping[str, Any],
) -> tuple[_Check, Callable[[Arrays], Arrays], Arrays]:
    """What all orders share, the function of floating leaves, and these."""
    if order < 1 or not modes or not set(modes) <= {"fwd", "rev"}:
        raise ArgumentError(f"order={order!r}, modes={modes!r}", 'Orders count from 1; modes are "fwd" and "rev".')
    if not isinstance(args, (tuple, list)):
        raise ArgumentError(f"args is {described(args)}", "Give the arguments as a tuple, (x,) for one.")
    flat, xs, paths = _of_floats(f, args, kwargs)
    if not xs:
        raise DTypeError("check_grads: none of the arguments is floating", "Only floating arrays have derivatives.")
    widths = [min(np.asarray(x).dtype.itemsize, 8) for x in (*xs, *flat(xs))]
    default = _DEFAULTS[min(widths)]
    tolerance = Tolerance(*(d if g is None else g for g, d in zip(given, default, strict=True)))
    follows = all(np.asarray(y).dtype.itemsize >= 8 for y in flat(_widened(xs)))
    width = 8 if follows else min(widths)
    if given.eps is None and width in _NARROW_STEP:
        tolerance = tolerance._replace(eps=_NARROW_STEP[width])
    name = getattr(f, "__name__", "function")
    return _Check(name, paths, tuple(modes), tolerance, width, np.random.default_rng(0)), flat, xs


def _chosen(paths: list[str], wrt: str | Sequence[str] | None) -> list[int]:
    """The numbers of the leaves at or below these paths."""
    wanted = [""] if wrt is None else [wrt] if isinstance(wrt, str) else list(wrt)
    for path in wanted:
        if path and not any(f"{known}.".startswith(f"{path}.") for known in paths):
            raise ArgumentError(
                f"wrt={path!r}: no floating argument has that name", f"There is {', '.join(map(repr, paths))}."
            )
    return [i for i, known in enumerate(paths) if any(not p or f"{known}.".startswith(f"{p}.") for p in wanted)]


def _of_floats(
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Callable[[Arrays], Arrays], Arrays, list[str]]:
    """The function from floating leaves to floating leaves, those leaves of the arguments, and where they stand."""
    bound = bind(f, args, kwargs)
    paths, leaves, structure = dotted_paths(bound.arguments)
    places = [i for i, x in enumerate(leaves) if isinstance(x, float) or getattr(x, "dtype", np.dtype(int)).kind == "f"]

    def flat(xs: Arrays) -> Arrays:
        graph = tracing.get()
        filled = list(leaves) if graph is None else [constant(graph, x) for x in leaves]
        for i, x in zip(places, xs, strict=True):
            filled[i] = x
        values = dict(zip(bound.arguments, tree.unflatten(structure, filled), strict=True))
        moved = inspect.BoundArguments(bound.signature, values)
        return [y for y in tree.flatten(f(*moved.args, **moved.kwargs))[0] if _is_floating(y)]

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

    def compared(
        self,
        f: Callable[[Arrays], Arrays],
        xs: Arrays,
        order: int,
        trail: tuple[str, ...],
        chosen: list[int],
        most: int,
    ) -> Iterator[Compared]:
        """The derivative of `f` by each chosen argument, then that of the derivative."""
        tangents = [self.direction(x) for x in xs]
        weights = [np.ones_like(y)[()] if np.size(y) == 1 else self.direction(y) for y in f(xs)]
        forward = compile(lambda xs, ts: jvp(f, (xs,), (ts,))[1])
        reverse = compile(lambda xs, ws: vjp(f, xs)[1](ws)[0])
        for i in chosen:
            moves = _moves(xs, i, self.picked(np.size(xs[i]), most))
            differences = [self.difference(f, xs, move.tangents, weights) for move in moves]
            for mode in self.modes:
                if mode == "rev":
                    whole = np.ravel(reverse(xs, weights)[i])
                    found = [float(whole[move.place]) for move in moves]
                else:
                    found = [self.weighted(weights, forward(xs, move.tangents)) for move in moves]
                farthest = self.farthest(f, xs, weights, moves, found, differences)
                if farthest is not None:
                    yield Compared(self.paths[i], len(trail) + 1, (mode, *trail), *farthest, len(moves), np.size(xs[i]))
        if order > 1:
            for mode in self.modes:
                fixed = tangents if mode == "fwd" else weights
                derivative = _with_fixed(forward if mode == "fwd" else reverse, fixed)
                yield from self.compared(derivative, xs, order - 1, (mode, *trail), chosen, most)

    def picked(self, size: int, most: int) -> list[int]:
        """The numbers of an argument to move."""
        return list(range(size)) if size <= most else sorted(self.rng.choice(size, most, replace=False).tolist())

    @staticmethod
    def weighted(weights: Arrays, tangents: Arrays) -> float:
        return float(sum(np.sum(w * t, dtype=float) for w, t in zip(weights, tangents, strict=True)))

    def farthest(
        self,
        f: Callable[[Arrays], Arrays],
        xs: Arrays,
        weights: Arrays,
        moves: Sequence[_Move],
        found: Sequence[float],
        differences: Sequence[tuple[float, float]],
    ) -> _Row | None:
        """Of the numbers that are wrong, or else cannot be told, or else of all, the one that is farthest off."""
        rows = []
        for move, value, (numeric, noise) in zip(moves, found, differences, strict=True):
            right = self.is_right(f, xs, weights, move, value, numeric, noise)
            scale = max(abs(value), abs(numeric)) if np.isfinite(numeric) else np.inf
            rows.append((right, move.at, value, numeric, 0.0 if value == numeric else abs(value - numeric) / scale))
        return max(rows, key=_severity, default=None)

    def is_right(
        self,
        f: Callable[[Arrays], Arrays],
        xs: Arrays,
        weights: Arrays,
        move: _Move,
        value: float,
        numeric: float,
        noise: float,
    ) -> bool | None:
        """Whether a derivative agrees with the difference; None where that is not finite, and so tells nothing."""
        if value == numeric:
            return True
        if not np.isfinite(numeric):
            return None
        rounding = 16 * float(np.finfo(f"f{self.width}").eps) * max(abs(value), abs(numeric))
        allowed = self.tolerance.atol + self.tolerance.rtol * abs(numeric) + noise + rounding
        if abs(value - numeric) <= allowed:
            return True
        # the difference itself may be poor: so much as a smaller step changes it
        halved = self._replace(tolerance=self.tolerance._replace(eps=self.tolerance.eps / 2))
        closer, more = halved.difference(f, xs, move.tangents, weights)
        return abs(value - closer) <= allowed + more + abs(closer - numeric)

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


_Row = tuple[bool | None, tuple[int, ...], float, float, float]
"""Of a number of an argument whether it is right, its place, derivative and difference, and their relative distance."""


def _severity(row: _Row) -> tuple[bool, bool, float]:
    right, *_, error = row
    return right is False, right is None, np.inf if np.isnan(error) else error


class _Move(NamedTuple):
    """One number of one argument moved by one."""

    place: int
    at: tuple[int, ...]
    tangents: Arrays


def _moves(xs: Arrays, i: int, places: Sequence[int]) -> list[_Move]:
    moves = []
    for place in places:
        tangents = [np.zeros_like(x)[()] for x in xs]
        index = tuple(int(k) for k in np.unravel_index(place, np.shape(xs[i])))
        unit = np.zeros_like(np.asarray(xs[i]))
        unit[index] = 1
        tangents[i] = float(unit) if isinstance(xs[i], float) and not isinstance(xs[i], np.floating) else unit[()]
        moves.append(_Move(place, index, tangents))
    return moves


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
