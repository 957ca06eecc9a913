"""Arguments to try a program with: sizes that it may have, usual numbers by kind, and those at the ends of ranges.

The numbers come of a formula of integers, which every version of NumPy computes alike on every machine.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.cost import most_iterations
from symgrad.core import tree
from symgrad.core.graph import Aval, Node, needed
from symgrad.core.interpret import at_sizes, like
from symgrad.core.region import regions_of, with_nested
from symgrad.core.sizes import evaluate, symbols_of
from symgrad.frontend.arguments import Leaf
from symgrad.frontend.static import Static
from symgrad.frontend.trace import Program
from symgrad.ops.control import SCAN, own_sizes
from symgrad.targets.numpy.guard import readable_bounds

SizesAt = Mapping[str, int]
MANY_ITERATIONS = 100  # of a loop of which nothing but running tells how many it has


class Point(NamedTuple):
    """Arguments of one call."""

    kind: str  # what is said of the numbers
    sizes: SizesAt
    leaves: Sequence[Any]  # in the order of the program's
    kinds: Sequence[str]  # of the usual numbers in each leaf, of which these were made


def usual(program: Program, sizes: SizesAt, seed: int = 0) -> Iterator[Point]:
    """Points of usual numbers, of one kind after the other and then mixed; the caller takes those in the domain.

    `sizes` are such as `some_sizes` gives; another `seed` gives other points of the same kinds.
    """
    count = len(program.leaves)
    for i, kind in enumerate(KINDS):
        yield drawn(program, sizes, [kind] * count, seed + i)
    for turn in range(4 * len(KINDS)):
        picks = (uniform(count, seed + 1000 + turn) * len(KINDS)).astype(int)
        names = [list(KINDS)[k] for k in picks]
        yield drawn(program, sizes, names, seed + turn)


def drawn(program: Program, sizes: SizesAt, kinds: Sequence[str], seed: int) -> Point:
    """The point where each leaf has usual numbers of a kind."""
    index = min([n for leaf in program.leaves if leaf.node for n in _shape(leaf, sizes)], default=1)
    leaves = [
        _value(leaf, sizes, name, index, 100 * seed + i)
        for i, (leaf, name) in enumerate(zip(program.leaves, kinds, strict=True))
    ]
    return Point(", ".join(dict.fromkeys(kinds)), sizes, leaves, kinds)


def extreme(point: Point) -> Iterator[Point]:
    """Yield points at the ends of ranges and at kinks, from a usual one: all floating arguments at once, then each."""
    floating = [i for i, x in enumerate(point.leaves) if np.asarray(x).dtype.kind in "fc"]
    for kind, change in EXTREMES.items():
        yield _changed(point, kind, change, floating)
    for i in floating if len(floating) > 1 else ():
        yield _changed(point, "zeros in one argument", EXTREMES["zeros"], [i])


def call(
    program: Program, point: Point, copied: Callable[[np.ndarray], np.ndarray] = np.copy
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the call, by position and by keyword; arrays are fresh copies."""
    leaves = [copied(x) if isinstance(x, np.ndarray) else x for x in point.leaves]
    values = tree.unflatten(program.structure, leaves)
    takes = inspect.Signature([p.replace(default=p.empty, annotation=p.empty) for p in program.parameters])
    bound = inspect.BoundArguments(takes, dict(zip(takes.parameters, values, strict=True)))
    return bound.args, bound.kwargs


def strided(x: np.ndarray) -> np.ndarray:
    """Return a copy that is not contiguous, and whose axes stand in memory in reverse order."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]) if x.ndim else (), x.dtype, order="F")
    copy: np.ndarray = wide[..., ::2] if x.ndim else wide
    copy[...] = x
    return copy


# ---- sizes


def some_sizes(
    program: Program, smallest: int = 3, large: Mapping[str, int] | None = None, reverse: bool = False
) -> dict[str, int]:
    """A number for each symbol among the sizes of the arguments, all different, for which the program may run.

    They differ from those that are numbers as well: so axes that change places are seen. They begin with `smallest`
    where nothing larger is assumed, or asked for in `large`; with `reverse` the last one is the smallest.
    """
    shapes = [leaf.node.aval.shape for leaf in program.leaves if leaf.node]
    sizes = [n for shape in shapes for n in shape] + [leaf.size for leaf in program.leaves if leaf.size is not None]
    names = list(dict.fromkeys(name for n in sizes for name in symbols_of(n)))
    fixed = {n for n in sizes if isinstance(n, int)}
    pinned, bounds = program.sizes.pinned, readable_bounds(program.leaves, program.sizes)
    found: dict[str, int] = {}
    for name in names[::-1] if reverse else names:
        found[name] = pinned.get(name, _free(max(smallest, (large or {}).get(name, 1)), {*fixed, *found.values()}))
    for _ in range(len(names) * len(bounds)):  # a bound may raise what another has as its least
        for bound in bounds:
            least, (name,) = evaluate(bound.least, found), symbols_of(bound.symbol)
            if name not in pinned and found[name] < least:
                found[name] = _free(least, {*fixed, *found.values()})
    return found


def counts(program: Program, sizes: SizesAt) -> list[int]:
    """Return how many numbers each value of one evaluation has."""
    nodes, sizes = _estimated(program, sizes)
    return [number for node in nodes for number in _counts(node, sizes)]


def operations(program: Program, sizes: SizesAt) -> int:
    """Return how many operations one evaluation takes, counted in each iteration."""
    nodes, sizes = _estimated(program, sizes)
    return _operations(nodes, sizes)


def _operations(nodes: Sequence[Node], sizes: SizesAt) -> int:
    inside = lambda node: sum(_operations(region.nodes, sizes) for region in regions_of(node))
    times = lambda node: at_sizes(most_iterations(node), sizes) if node.op is SCAN else 1
    return sum(1 + times(node) * inside(node) for node in nodes)


def _estimated(program: Program, sizes: SizesAt) -> tuple[list[Node], SizesAt]:
    """Return the evaluated nodes, and the sizes with estimates of those that only running tells."""
    nodes = needed(program.graph.outputs, ())
    return nodes, {**dict.fromkeys(own_sizes(with_nested(nodes)), MANY_ITERATIONS), **sizes}


def _counts(node: Node, sizes: SizesAt) -> Iterator[int]:
    parts: Any = [node.aval] if isinstance(node.aval, Aval) else node.aval
    yield from (math.prod(at_sizes(part.shape, sizes)) for part in parts)
    if node.op is SCAN:
        iterations = at_sizes(most_iterations(node), sizes)
        inside = [x for region in regions_of(node) for x in region.nodes]
        yield iterations * sum(number for x in inside for number in _counts(x, sizes))


def _free(least: int, taken: set[int]) -> int:
    while least in taken:
        least += 1
    return least


# ---- numbers


def uniform(count: int, seed: int) -> np.ndarray:
    """So many numbers between 0 and 1, by the mixing function of Steele, Lea and Flood's SplitMix (2014)."""
    z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(seed % 2**32) << np.uint64(32)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


def _definite(u: np.ndarray) -> np.ndarray:
    """Symmetric positive definite matrices where the last two axes are alike; else positive numbers."""
    if u.ndim < 2 or u.shape[-1] != u.shape[-2]:
        return 0.2 + 2 * u
    return np.matmul(u - 0.5, np.swapaxes(u - 0.5, -1, -2)) + np.eye(u.shape[-1])


def _shares(u: np.ndarray) -> np.ndarray:
    """Positive numbers that sum to one along the last axis."""
    return (0.2 + u) / np.sum(0.2 + u, axis=-1, keepdims=True) if u.ndim else 0.2 + 0.6 * u


KINDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "of both signs": lambda u: 4 * u - 2,
    "between 0 and 1": lambda u: 0.1 + 0.8 * u,
    "positive": lambda u: 0.2 + 2 * u,
    "definite": _definite,
    "above 1": lambda u: 1.1 + 2 * u,
    "shares": _shares,
    "sorted": lambda u: np.sort(4 * u - 2, axis=-1) if u.ndim else 4 * u - 2,
}


SPECIAL = ("zeros", "zeros in one argument", "equal", "whole numbers")  # where numbers are alike, and cancel
EXTREMES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "large": lambda x: x * x.dtype.type(100 if x.dtype.itemsize == 2 else 1000),
    "tiny": lambda x: x * x.dtype.type(1e-3 if x.dtype.itemsize == 2 else 1e-8),
    "negative": lambda x: -np.abs(x),
    "zeros": np.zeros_like,
    "equal": lambda x: np.full_like(x, x.flat[0] if x.size else 0),
    "whole numbers": np.rint,
}


def _shape(leaf: Leaf, sizes: SizesAt) -> tuple[int, ...]:
    return at_sizes(leaf.node.aval.shape, sizes) if leaf.node else ()


def _value(leaf: Leaf, sizes: SizesAt, kind: str, index: int, seed: int) -> Any:
    """Return the value of a leaf of the arguments: an array, a number, or the static value of the trace."""
    if leaf.size is not None:
        return evaluate(leaf.size, sizes)
    if leaf.node is None:
        return leaf.static.value if isinstance(leaf.static, Static) else leaf.static
    aval, shape = leaf.node.aval, _shape(leaf, sizes)
    u = uniform(int(np.prod(shape)), seed).reshape(shape)
    array = np.asarray(_numbers(aval, u, kind, index, seed), aval.dtype)
    if aval.weak:
        return array.item()
    return array if shape or leaf.is_array else array[()]


def _numbers(aval: Aval, u: np.ndarray, kind: str, index: int, seed: int) -> np.ndarray:
    """Numbers of a dtype; integers are such that they may be indices of the shortest axis."""
    if aval.dtype.kind == "b":
        return u < 0.5
    if aval.dtype.kind in "iu":
        return np.floor(u * max(index, 2))
    if aval.dtype.kind == "c":
        return KINDS[kind](u) + 1j * KINDS[kind](uniform(u.size, seed + 50).reshape(u.shape))
    return KINDS[kind](u)


def _changed(point: Point, kind: str, change: Callable[[np.ndarray], np.ndarray], places: Sequence[int]) -> Point:
    leaves = list(point.leaves)
    for i in places:
        leaves[i] = like(leaves[i], change(np.asarray(leaves[i])))
    return Point(kind, point.sizes, leaves, point.kinds)
