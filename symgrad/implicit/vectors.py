"""What solvers work with: trees as vectors, and linear maps that are the derivative of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import tracing
from symgrad.core.shapes import product
from symgrad.core.sizes import Size
from symgrad.errors import ArgumentError, DTypeError, ShapeError
from symgrad.frontend.trace import graph_at_hand
from symgrad.transforms.gradients import compile
from symgrad.transforms.products_with_vectors import jvp, vjp

Array = Any


def traced(solver: Callable[..., Any]) -> Callable[..., Any]:
    """A solver, ``solver(f, *arrays, **options)``, which outside of a trace is compiled for the call at hand."""

    @wraps(solver)
    def solve(f: Any, *args: Any, **options: Any) -> Any:
        if not callable(f) and not hasattr(f, "shape"):
            raise ArgumentError(f"sg.{solver.__name__}: {f!r} is not a function", "Give a function of arrays.")
        if tracing.get() is not None or graph_at_hand(args) is not None:
            return solver(f, *args, **options)
        return compile(lambda *args: solver(f, *args, **options))(*args)

    return solve


def as_vector(x: Any, what: str) -> tuple[Array, Callable[[Array], Any]]:
    """The numbers of a tree of floating arrays, and the way back from such a vector, or from rows of them."""
    leaves, structure = tree.flatten(x)
    for leaf in leaves:
        if not isinstance(leaf, float) and getattr(getattr(leaf, "dtype", None), "kind", "") != "f":
            raise DTypeError(f"{what} has a leaf that is {leaf!r}", "Give floating arrays, or trees of them.")
    shapes, dtypes = [np.shape(leaf) for leaf in leaves], [getattr(leaf, "dtype", np.dtype(float)) for leaf in leaves]
    common = np.result_type(*dtypes)
    parts = [np.ravel(leaf).astype(common) for leaf in leaves]

    def back(v: Array) -> Any:
        found: list[Any] = []
        start: Size = 0
        for shape, dtype in zip(shapes, dtypes, strict=True):
            size, whole = product(shape), (*v.shape[:-1], *shape)
            part = np.reshape(v[..., start : start + size], whole) if whole else v[start]
            found.append(part.astype(dtype))
            start += size
        return tree.unflatten(structure, found)

    return parts[0] if len(parts) == 1 else np.concatenate(parts), back


def vector_like(v: Array, x: Any, what: str) -> Array:
    """A tree as a vector like `v`; `what` gave it."""
    found = as_vector(x, f"what {what} gives")[0]
    if found.shape != v.shape:
        raise ShapeError(f"{what} gives {found.shape[0]} numbers for {v.shape[0]}", "Give one for each.")
    return found.astype(v.dtype)


def precision(v: Array, power: float) -> float:
    """A power of the precision of a dtype."""
    return float(np.finfo(v.dtype).eps) ** power


def pushed(f: Callable[..., Array], xs: Sequence[Array], tangents: Sequence[Array | None]) -> Array:
    """The derivative of ``f(*xs)`` in a direction; None in it is zero."""
    moving = [i for i, t in enumerate(tangents) if t is not None]
    some = lambda *ys: f(*_with(xs, moving, ys))
    return jvp(some, [xs[i] for i in moving], [tangents[i] for i in moving])[1]


def pulled(f: Callable[..., Array], xs: Sequence[Array], g: Array) -> list[Array | None]:
    """The cotangents of `xs` for that of ``f(*xs)``; None of what is not floating."""
    moving = [i for i, x in enumerate(xs) if x.dtype.kind == "f"]
    found = vjp(lambda *ys: f(*_with(xs, moving, ys)), *[xs[i] for i in moving])[1](g)
    return list(_with([None] * len(xs), moving, found))


def _with(xs: Sequence[Any], places: Sequence[int], ys: Sequence[Any]) -> Sequence[Any]:
    """Some of `xs` exchanged."""
    at = dict(zip(places, ys, strict=True))
    return [at.get(i, x) for i, x in enumerate(xs)]
