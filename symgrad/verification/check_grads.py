"""Derivatives against finite differences."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import tracing
from symgrad.core.progress import work
from symgrad.errors import ArgumentError, DTypeError, GradientCheckError
from symgrad.frontend.arguments import bind, dotted_paths
from symgrad.frontend.conversion.runtime import called
from symgrad.frontend.interception import constant
from symgrad.frontend.plain_arguments import check_numbers
from symgrad.transforms.differentiation import described
from symgrad.transforms.gradients import compile
from symgrad.transforms.products_with_vectors import jvp, vjp
from symgrad.transforms.wrt import below, resolved
from symgrad.verification.compare_grads import Compared, GradientComparison

Arrays = list[Any]
Flat = Callable[[Arrays], Arrays]


class Tolerance(NamedTuple):
    """By how much a derivative may differ, and the step of the differences."""

    atol: float
    rtol: float
    eps: float


_DEFAULTS = {8: Tolerance(1e-8, 1e-5, 1e-5), 4: Tolerance(1e-6, 1e-4, 1e-4), 2: Tolerance(1e-2, 1e-2, 1e-4)}
_MODES = ("fwd", "rev")
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

    Complex numbers are moved in directions of the plane; of complex results the real part of a weighted sum is taken,
    with complex weights.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.check_grads(lambda x: np.sum(np.sin(x) ** 2), (np.array([0.1, 0.2]),))
    """
    check, flat, xs = _prepared(f, args, order, modes, (atol, rtol, eps), {})
    for level in check.levels(flat, xs, order, check.direction):
        for mode in modes:
            for i in range(len(xs)):
                level.check_along(i, mode)


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
    """Compare derivatives of a function with central differences, element by element, and tell the farthest off.

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
    of second order and above, those of the derivative before them in one random direction. Of complex results it is the
    real part of that sum. The derivative by a complex number is ``df/dx - 1j * df/dy``.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> found = sg.compare_grads(lambda x: np.sum(x ** 3), (np.array([1.0, 2.0]),), order=1)
    >>> bool(found), found.rows[0].argument, len(found.rows)
    (True, 'x', 2)
    """
    check, flat, xs = _prepared(f, args, order, modes, (atol, rtol, eps), {} if kwargs is None else kwargs)
    if type(entries) is not int or entries < 1:
        raise ArgumentError(f"entries={entries!r}", "It is a number from 1 on.")
    chosen = _chosen(check.paths, wrt)
    rows: list[Compared] = []
    steps = len(chosen) * sum(len(modes) ** k for k in range(order))
    with work(f"comparing derivatives of {check.name}", steps) as going_on:
        for level in check.levels(flat, xs, order, check.weight):
            for i in chosen:
                going_on.step(f"order {len(level.trail) + 1} by {check.paths[i]}")
                rows += level.compared(i, entries)
    return GradientComparison(check.name, tuple(rows))


def _prepared(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str],
    given: tuple[float | None, float | None, float | None],
    kwargs: Mapping[str, Any],
) -> tuple[_Check, Flat, Arrays]:
    """Return the state shared by all orders, the function of floating leaves, and these; None in `given` is the
    default.
    """
    if not isinstance(args, (tuple, list)):
        raise ArgumentError(f"args is {described(args)}", "Give the arguments as a tuple, (x,) for one.")
    is_known = isinstance(modes, (tuple, list)) and modes and all(isinstance(x, str) and x in _MODES for x in modes)
    if not isinstance(order, int) or order < 1 or not is_known:
        raise ArgumentError(f"order={order!r}, modes={modes!r}", 'Orders count from 1; modes are "fwd" and "rev".')
    if not isinstance(kwargs, Mapping):
        raise ArgumentError(f"kwargs is {described(kwargs)}", 'Give arguments by name, {"name": x}.')
    check_numbers("check_grads", optional=True, atol=given[0], rtol=given[1])
    check_numbers("check_grads", optional=True, positive=True, eps=given[2])
    flat, xs, paths = _of_floats(f, args, kwargs)
    if not xs:
        raise DTypeError("check_grads: none of the arguments is floating", "Only floating arrays have derivatives.")
    name, ys = getattr(f, "__name__", "function"), flat(xs)
    if not ys:
        raise DTypeError(f"check_grads: {name} returns no floating number", "Return one, or an array of them.")
    widths = [min(_width(x), 8) for x in (*xs, *ys)]
    default = _DEFAULTS[min(widths)]
    tolerance = Tolerance(*(d if g is None else g for g, d in zip(given, default, strict=True)))
    follows = all(_width(y) >= 8 for y in flat(_widened(xs)))
    width = 8 if follows else min(widths)
    if given[2] is None and width in _NARROW_STEP:
        tolerance = tolerance._replace(eps=_NARROW_STEP[width])
    return _Check(name, paths, tuple(modes), tolerance, width, np.random.default_rng(0)), flat, xs


def _chosen(paths: list[str], wrt: str | Sequence[str] | None) -> list[int]:
    """The numbers of the leaves at or below these paths."""
    if wrt is None:
        return list(range(len(paths)))
    found: set[int] = set()
    wanted = [wrt] if isinstance(wrt, str) else wrt
    if not isinstance(wanted, (tuple, list)) or not all(isinstance(path, str) for path in wanted):
        raise ArgumentError(f"wrt={wrt!r}", "Name arguments, or parts of them.")
    for path in wanted:
        leaves = below(resolved(path, paths), paths)
        if not leaves:
            raise ArgumentError(
                f"wrt={path!r}: no floating argument has that name", f"There is {', '.join(map(repr, paths))}."
            )
        found.update(leaves)
    return sorted(found)


def _of_floats(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Flat, Arrays, list[str]]:
    """The function from floating leaves to floating leaves, those leaves of the arguments, and where they stand."""
    bound = bind(f, args, kwargs)
    paths, leaves, structure = dotted_paths(bound.arguments)
    places = [i for i, x in enumerate(leaves) if _is_floating(x)]

    def flat(xs: Arrays) -> Arrays:
        graph = tracing.get()
        filled = list(leaves) if graph is None else [constant(graph, x) for x in leaves]
        for i, x in zip(places, xs, strict=True):
            filled[i] = x
        values = dict(zip(bound.arguments, tree.unflatten(structure, filled), strict=True))
        moved = inspect.BoundArguments(bound.signature, values)
        run = f if graph is None else called(f)  # the derivative of its loops, rather than of their iterations
        return [y for y in tree.flatten(run(*moved.args, **moved.kwargs))[0] if _is_floating(y)]

    return flat, [leaves[i] for i in places], [paths[i] for i in places]


def _is_floating(y: Any) -> bool:
    return isinstance(y, (float, complex)) or getattr(y, "dtype", np.dtype(int)).kind in "fc"


def _width(x: Any) -> int:
    """The bytes of a real number, or of the real part of a complex one."""
    return np.asarray(x).real.dtype.itemsize


class _Check(NamedTuple):
    """The state of a check that all orders share."""

    name: str
    paths: list[str]
    modes: tuple[str, ...]
    tolerance: Tolerance
    width: int  # bytes of the numbers that differences are taken in
    rng: np.random.Generator

    def levels(
        self, f: Flat, xs: Arrays, order: int, weight: Callable[[Any], Any], trail: tuple[str, ...] = ()
    ) -> Iterator[_Level]:
        """`f`, then its derivatives as functions in turn, in every combination of modes."""
        level = _Level(self, f, xs, [self.direction(x) for x in xs], [weight(y) for y in f(xs)], trail)
        yield level
        for mode in self.modes if order > 1 else ():
            yield from self.levels(level.fixed(mode), xs, order - 1, weight, (mode, *trail))

    def direction(self, x: Any) -> Any:
        real = self.rng.standard_normal(np.shape(x))
        return _like(x, real + 1j * self.rng.standard_normal(np.shape(x)) if np.iscomplexobj(x) else real)

    def weight(self, y: Any) -> Any:
        """One for a result that is a real number, a random direction for others."""
        return np.ones_like(y)[()] if np.size(y) == 1 and not np.iscomplexobj(y) else self.direction(y)

    def picked(self, size: int, most: int) -> list[int]:
        """The numbers of an argument to move."""
        return list(range(size)) if size <= most else sorted(self.rng.choice(size, most, replace=False).tolist())


class _Level:
    """A function, or one of its derivatives, whose derivatives are compared with its differences."""

    def __init__(
        self, check: _Check, f: Flat, xs: Arrays, tangents: Arrays, weights: Arrays, trail: tuple[str, ...]
    ) -> None:
        self.check, self.f, self.xs = check, f, xs
        self.trail = trail  # the modes of the derivatives that `f` is of, the outermost first
        self.tangents, self.weights = tangents, weights  # random directions of the arguments and of the results
        self.forward = compile(lambda xs, ts: jvp(f, (xs,), (ts,))[1])
        self.reverse = compile(lambda xs, ws: vjp(f, xs)[1](ws)[0])

    def fixed(self, mode: str) -> Flat:
        """The derivative in the random direction, as a function."""
        derivative, fixed = (self.forward, self.tangents) if mode == "fwd" else (self.reverse, self.weights)
        return lambda xs: derivative(xs, [v if type(v) in (float, complex) else np.asarray(v) for v in fixed])

    def products(self, tangents: Arrays, i: int, mode: str) -> Arrays:
        """Return the terms whose sum is the derivative, in a direction of argument `i` alone."""
        if mode == "fwd":
            return [np.real(w * t) for w, t in zip(self.weights, self.forward(self.xs, tangents), strict=True)]
        return [np.real(self.reverse(self.xs, self.weights)[i] * tangents[i])]

    def difference(self, tangents: Arrays, step: float) -> tuple[float, float]:
        """The central difference of the weighted sum of the results, and what rounding may add to it."""
        base = _widened(self.xs) if self.check.width == 8 else self.xs
        sides = []
        for sign in (step, -step):
            moved = [_moved(x, sign, t) for x, t in zip(base, tangents, strict=True)]
            sides.append([np.real(_widest(w) * y) for w, y in zip(self.weights, self.f(moved), strict=True)])
        total = sum(float(np.sum(a - b)) for a, b in zip(*sides, strict=True))
        size = sum(float(np.sum(np.abs(a) + np.abs(b))) for a, b in zip(*sides, strict=True))
        unit = float(np.finfo(f"f{self.check.width}").eps)
        return total / (2 * step), 4 * unit * size / step

    # ---- in a random direction

    def check_along(self, i: int, mode: str) -> None:
        """Raise where the derivative in the direction of one argument is wrong."""
        check, trail = self.check, (mode, *self.trail)
        tangents = [t if i == j else np.zeros_like(t) for j, t in enumerate(self.tangents)]
        products = self.products(tangents, i, mode)
        value = _sum(products)
        rounding = sum(float(np.finfo(np.asarray(p).dtype).eps * np.sum(np.abs(p), dtype=float)) for p in products)
        numeric, noise = self.difference(tangents, check.tolerance.eps)
        allowed = check.tolerance.atol + check.tolerance.rtol * abs(numeric) + noise + 16 * rounding
        if not abs(value - numeric) <= allowed:
            instead = "Look at the rules of what the function calls; or at a kink near the arguments."
            raise GradientCheckError(
                f"check_grads: the derivative of order {len(trail)} ({' of '.join(trail)}) of {check.name} with "
                f"respect to {check.paths[i]} is {value:.8g}, finite differences give {numeric:.8g}",
                instead if np.isfinite(numeric) else "Give arguments near which the function is finite.",
            )

    # ---- elementwise

    def compared(self, i: int, most: int) -> Iterator[Compared]:
        """The derivative by an argument, in each mode: the number that is farthest off."""
        check, size = self.check, np.size(self.xs[i])
        moves = [_move(self.xs, i, place) for place in check.picked(size, most)]
        differences = [self.differences(move, check.tolerance.eps) for move in moves]
        for mode in check.modes if moves else ():
            if mode == "rev":
                whole = np.ravel(self.reverse(self.xs, self.weights)[i])
                found = [whole[move.place].item() for move in moves]
            else:
                found = [_by_number([_sum(self.products(t, i, mode)) for t in move.directions]) for move in moves]
            rows = [self._row(*each) for each in zip(moves, found, differences, strict=True)]
            farthest = max(rows, key=_severity)
            yield Compared(check.paths[i], len(self.trail) + 1, (mode, *self.trail), *farthest, len(moves), size)

    def differences(self, move: _Move, step: float) -> tuple[complex, float]:
        """The difference by one number, and what rounding may add to it."""
        found = [self.difference(t, step) for t in move.directions]
        return _by_number([numeric for numeric, _ in found]), max(noise for _, noise in found)

    def _row(self, move: _Move, value: complex, difference: tuple[complex, float]) -> _Row:
        numeric, noise = difference
        scale = max(abs(value), abs(numeric)) if np.isfinite(numeric) else np.inf
        error = 0.0 if value == numeric else abs(value - numeric) / scale
        return self._is_right(move, value, numeric, noise), move.at, value, numeric, error

    def _is_right(self, move: _Move, value: complex, numeric: complex, noise: float) -> bool | None:
        """Whether a derivative agrees with the difference; None where that is not finite, and so tells nothing."""
        if value == numeric:
            return True
        if not np.isfinite(numeric):
            return None
        tolerance = self.check.tolerance
        rounding = 16 * float(np.finfo(f"f{self.check.width}").eps) * max(abs(value), abs(numeric))
        allowed = tolerance.atol + tolerance.rtol * abs(numeric) + noise + rounding
        if abs(value - numeric) <= allowed:
            return True
        # the difference itself may be poor: so much as a smaller step changes it
        closer, more = self.differences(move, tolerance.eps / 2)
        return abs(value - closer) <= allowed + more + abs(closer - numeric)


_Row = tuple[bool | None, tuple[int, ...], complex, complex, float]
"""A number of an argument: whether it is right, its place, derivative, difference, and their relative distance."""


def _severity(row: _Row) -> tuple[bool, bool, float]:
    """Return a sort key, largest for wrong numbers, then for those that cannot be told; then by distance."""
    right, *_, error = row
    return right is False, right is None, np.inf if np.isnan(error) else error


class _Move(NamedTuple):
    """One number of one argument moved by one; a complex one by 1j as well."""

    place: int
    at: tuple[int, ...]
    directions: list[Arrays]


def _move(xs: Arrays, i: int, place: int) -> _Move:
    index = tuple(int(k) for k in np.unravel_index(place, np.shape(xs[i])))
    directions = []
    for one in (1, 1j) if np.iscomplexobj(xs[i]) else (1,):
        unit = np.zeros_like(np.asarray(xs[i]))
        unit[index] = one
        directions.append([_like(x, unit if i == j else np.zeros_like(x)) for j, x in enumerate(xs)])
    return _Move(place, index, directions)


def _by_number(along: Sequence[float]) -> complex:
    """The derivative by a number, from those along 1 and, of a complex one, along 1j."""
    return along[0] if len(along) == 1 else complex(along[0], -along[1])


def _sum(products: Arrays) -> float:
    return float(sum(np.sum(p, dtype=float) for p in products))


def _like(x: Any, array: np.ndarray) -> Any:
    """Numbers in the dtype of `x`; a number of Python's for such, and one of NumPy's for an array of no dimensions."""
    return type(x)(array) if type(x) in (float, complex) else np.asarray(array, np.asarray(x).dtype)[()]


def _widened(xs: Arrays) -> Arrays:
    return [_widest(x)[()] if isinstance(x, (np.ndarray, np.generic)) else x for x in xs]


def _widest(x: Any) -> Any:
    return np.asarray(x, complex if np.iscomplexobj(x) else float)


def _moved(x: Any, step: float, t: Any) -> Any:
    """An argument, a step further, of its type."""
    if isinstance(x, (np.ndarray, np.generic)):
        return (x + np.asarray(step * t, x.dtype)).astype(x.dtype)
    return type(x)(x + step * t)
