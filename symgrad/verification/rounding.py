"""How far rounding moves the results of a program: it is run again with its operations rounded otherwise.

An operation might as well have rounded to a number near by, and in an equivalent program it does. Random rounding tells
what becomes of that in the results, cancellation and ill-conditioned matrices included (Parker, *Monte Carlo
Arithmetic*, 1997). Here the number near by is a function of the number, so that what is equal in one array stays equal:
maxima and masks would be all noise otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import CONSTANT, SIZE, Graph, Node, needed
from symgrad.core.interpret import evaluate, like

SAMPLES = 3
_BITS = {2: 2, 4: 3, 8: 4}  # the last bits of a number that are others, by its size in bytes
_FACTOR = 0x9E3779B97F4A7C15  # odd, and its bits have no pattern: Knuth's multiplicative hashing
Sizes = Mapping[str, int]


class Values(NamedTuple):
    """The results of a program, how far rounding may move them, and whether numbers left the range of a dtype."""

    results: list[Any]
    noise: list[Any]
    left_range: bool


class Rounding:
    """A graph to evaluate with its rounding; usual `feeds` tell which operations only move numbers, and do not."""

    def __init__(self, graph: Graph, feeds: Sequence[Any], sizes: Sizes) -> None:
        self.graph, self._moving = graph, set[Node]()
        self._nodes = needed(graph.outputs, graph.inputs)
        with np.errstate(all="ignore"):
            values = self._values(feeds, sizes, lambda node, y: y)
        self._moving.update(node for node in self._nodes if _moves(values[node], [values[x] for x in node.inputs]))

    def at(self, feeds: Sequence[Any], sizes: Sizes, samples: int = SAMPLES, special: bool = False) -> Values:
        """The results, evaluated node by node; a ValueError or IndexError where NumPy refuses the numbers.

        With `special` what cancels may have cancelled for the choice of the numbers, as it does where they are equal.
        In an equivalent program it may not, and so the largest number on the way says how far rounding moves a result.
        """
        told: set[str] = set()
        with _telling(told):
            values = self._values(feeds, sizes, lambda node, y: y)
        exact, left_range = [values[y] for y in self.graph.outputs], bool(told)
        noise: list[Any] = [np.zeros(np.shape(y)) for y in exact]
        for sample in range(samples):
            with _telling(told):
                others = self._sample(feeds, sizes, sample)
            if others is None:  # a matrix is singular but for rounding
                return Values(exact, [np.full(np.shape(y), np.inf) for y in exact], left_range)
            noise = [np.maximum(n, distance(y, z)) for n, y, z in zip(noise, exact, others, strict=True)]
        if special:
            highest = max(map(largest, values.values()))
            noise = [n + 2 * _eps(y) * highest for n, y in zip(noise, exact, strict=True)]
        return Values(exact, noise, left_range)

    def _sample(self, feeds: Sequence[Any], sizes: Sizes, sample: int) -> list[Any] | None:
        """The results where every number that is computed is another near by; None where NumPy refuses these."""
        given = [rounded(x, sample) for x in feeds]
        try:
            values = self._values(given, sizes, lambda node, y: self._rounded(node, y, sample))
        except np.linalg.LinAlgError:
            return None
        return [values[y] for y in self.graph.outputs]

    def _rounded(self, node: Node, y: Any, sample: int) -> Any:
        if node.op in (CONSTANT, SIZE) or node in self._moving:
            return y
        seed = sample + 64 * node.id
        return tuple(rounded(each, seed) for each in y) if isinstance(y, tuple) else rounded(y, seed)

    def _values(self, feeds: Sequence[Any], sizes: Sizes, change: Callable[[Node, Any], Any]) -> dict[Node, Any]:
        values = dict(zip(self.graph.inputs, feeds, strict=True))
        for node in self._nodes:
            values[node] = change(node, evaluate(node, values, sizes))
        return values


def _moves(y: Any, inputs: Sequence[Any]) -> bool:
    """Whether numbers of a result, a few in all parts of it, are those of what it is made of, but for the sign."""
    if isinstance(y, tuple) or not np.any(y):
        return False
    numbers = np.abs(y)[np.nonzero(y)] if np.ndim(y) else np.abs([y])
    given = [np.abs(x) for x in inputs if not isinstance(x, tuple)]
    return all(any(np.any(x == number) for x in given) for number in numbers[:: -(-numbers.size // 8)])


@contextmanager
def _telling(told: set[str]) -> Iterator[None]:
    """Note overflow and underflow, and be quiet about the rest."""
    with np.errstate(all="ignore", over="call", under="call", call=lambda kind, flag: told.add(kind)):
        yield


def _eps(x: Any) -> float:
    dtype = np.asarray(x).dtype
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0


def largest(x: Any) -> float:
    """The largest finite number of an array or several, by its absolute value."""
    if isinstance(x, tuple):
        return max(map(largest, x))
    array = np.abs(np.asarray(x, complex))
    return float(np.max(array, initial=0.0, where=np.isfinite(array)))


def rounded(x: Any, seed: int) -> Any:
    """Numbers near by, as another way of rounding has them; zeros, infinities, NaNs and integers stay."""
    array = np.asarray(x)
    if array.dtype.kind == "c":
        return like(x, rounded(array.real, seed) + 1j * rounded(array.imag, seed))
    width = array.dtype.itemsize
    if array.dtype.kind != "f" or width not in _BITS:
        return x
    unsigned, last = np.dtype(f"u{width}").type, _BITS[width]
    mantissa = (1 << np.finfo(array.dtype).nmant) - 1
    bits = np.ascontiguousarray(array).view(unsigned)
    factor = unsigned((2 * seed + 1) * _FACTOR & (1 << 8 * width) - 1)
    mixed = ((bits & unsigned(mantissa >> last << last)) + unsigned(1 << last)) * factor
    near = bits >> unsigned(last) << unsigned(last) | mixed >> unsigned(8 * width - last)
    near = near.view(array.dtype).reshape(array.shape)
    return like(x, np.where((array == 0) | ~np.isfinite(array), array, near))


def distance(a: Any, b: Any) -> np.ndarray:
    """How far numbers are from each other: infinitely where one is NaN or infinite, and the other is not the same."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind not in "fc":
        return np.not_equal(a, b).astype(float)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b).astype(float)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isfinite(apart), apart, np.inf))
