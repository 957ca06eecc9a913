"""Vectors for solvers: trees as vectors, and linear maps that are the derivative of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import tracing
from symgrad.core.shapes import product
from symgrad.core.sizes import Size
from symgrad.errors import ArgumentError, DTypeError, ShapeError
from symgrad.frontend.trace import graph_at_hand
from symgrad.frontend.variable import Variable
from symgrad.transforms.gradients import compile
from symgrad.transforms.products_with_vectors import jvp, vjp

Array = Any
F = TypeVar("F", bound=Callable[..., Any])


def traced(solver: F) -> F:
    """A solver, ``solver(f, *arrays, **options)``, which outside of a trace is compiled for the call at hand."""

    @wraps(solver)
    def solve(f: Any, *args: Any, **options: Any) -> Any:
        if not callable(f) and not hasattr(f, "shape"):
            raise ArgumentError(f"sg.{solver.__name__}: {f!r} is not a function", "Give a function of arrays.")
        if tracing.get() is not None or graph_at_hand(args) is not None:
            return solver(f, *args, **options)
        return compile(lambda *args: solver(f, *args, **options))(*args)

    return cast("F", solve)


def as_leaves(x: Any, what: str) -> tuple[list[Array], Callable[[Sequence[Array]], Any]]:
    """Return the floating leaves of a tree in one dtype, and the way back from such a list, or from stacks."""
    leaves, structure = tree.flatten(x)
    for leaf in leaves:
        if not isinstance(leaf, float) and getattr(getattr(leaf, "dtype", None), "kind", "") != "f":
            raise DTypeError(f"{what} has a leaf that is {leaf!r}", "Give floating arrays, or trees of them.")
    if not leaves:
        raise DTypeError(f"{what} has no leaves", "Give floating arrays, or trees of them.")
    dtypes = [getattr(leaf, "dtype", np.dtype(float)) for leaf in leaves]
    common = np.result_type(*dtypes)
    back = lambda ys: tree.unflatten(structure, [y.astype(dtype) for y, dtype in zip(ys, dtypes, strict=True)])
    return [x.astype(common) if isinstance(x, Variable) else np.asarray(x, common)[()] for x in leaves], back


def as_vector(x: Any, what: str) -> tuple[Array, Callable[[Array], Any]]:
    """The numbers of a tree of floating arrays as a vector, and the way back."""
    leaves, whole = as_leaves(x, what)
    shapes = [np.shape(leaf) for leaf in leaves]

    def back(v: Array) -> Any:
        found: list[Any] = []
        start: Size = 0
        for shape in shapes:
            size = product(shape)
            found.append(np.reshape(v[start : start + size], shape) if shape else v[start])
            start += size
        return whole(found)

    parts = [np.ravel(leaf) for leaf in leaves]
    return parts[0] if len(parts) == 1 else np.concatenate(parts), back


def as_unknown(x: Any, what: str) -> tuple[Array, Callable[[Array], Any]]:
    """The same; a tree of one number as that number, so that loops with it run on numbers."""
    leaves, back = as_leaves(x, what)
    return as_vector(x, what) if len(leaves) > 1 or np.ndim(leaves[0]) else (leaves[0], lambda v: back([v]))


def like(v: Array, x: Any, what: str) -> Array:
    """Return a tree as a vector, or a number, like `v`; `what` names its origin in errors."""
    found = (as_vector if np.ndim(v) else as_unknown)(x, f"what {what} gives")[0]
    if found.shape != v.shape:
        raise ShapeError(f"{what} gives {found.size} numbers for {v.size}", "Give one for each.")
    return found.astype(v.dtype)


def precision(v: Array, power: float) -> float:
    """A power of the precision of a dtype."""
    return float(np.finfo(v.dtype).eps) ** power


def pushed(f: Callable[..., Any], xs: Sequence[Array], tangents: Sequence[Array | None]) -> Any:
    """The derivative of ``f(*xs)`` in a direction; None in it is zero."""
    moving = [i for i, t in enumerate(tangents) if t is not None]
    some = lambda *ys: f(*_with(xs, moving, ys))
    return jvp(some, [xs[i] for i in moving], [tangents[i] for i in moving])[1]


def pulled(f: Callable[..., Any], xs: Sequence[Array], g: Any) -> list[Array | None]:
    """The cotangents of `xs` for that of ``f(*xs)``; None of what is not floating."""
    moving = [i for i, x in enumerate(xs) if x.dtype.kind in "fc"]
    if not moving:
        return [None] * len(xs)
    found = vjp(lambda *ys: f(*_with(xs, moving, ys)), *[xs[i] for i in moving])[1](g)
    return list(_with([None] * len(xs), moving, found))


def _with(xs: Sequence[Any], places: Sequence[int], ys: Sequence[Any]) -> Sequence[Any]:
    """Some of `xs` exchanged."""
    at = dict(zip(places, ys, strict=True))
    return [at.get(i, x) for i, x in enumerate(xs)]
