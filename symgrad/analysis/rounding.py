"""Rounding errors of a program, estimated by evaluating it again with perturbed rounding.

An operation might as well have rounded to a number near by, and in an equivalent program it does. Random rounding tells
what becomes of that in the results, cancellation and ill-conditioned matrices included (Parker, *Monte Carlo
Arithmetic*, 1997). Here the number near by is a function of the number, so that what is equal in one array stays equal:
maxima and masks would be all noise otherwise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, repeat
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import CONSTANT, SIZE, Graph, Node, Op, needed, without_tokens
from symgrad.core.interpret import Change, Watcher, like, values_of, watched
from symgrad.ops.elementwise import ADD, SUBTRACT
from symgrad.ops.reduce import LOGSUMEXP, MEAN, SUM

SAMPLES, MANY_SAMPLES = 3, 16
SPREAD = 32  # times as far as rounding moved a number in a few samples it may be from what is expected
_BITS = {2: 2, 4: 3, 8: 4}  # the last bits of a number that are others, by its size in bytes
_FACTOR = 0x9E3779B97F4A7C15  # odd, and its bits have no pattern: Knuth's multiplicative hashing
Sizes = Mapping[str, int]


class Values(NamedTuple):
    """The results of a program, how far rounding may move them, and whether numbers left the range of a dtype."""

    results: list[Any]
    noise: list[Any]
    left_range: bool


class Unfinished(ValueError):
    """An evaluation takes far longer than others: a loop may be endless at these numbers."""


def unchanged(node: Node, inputs: Sequence[Any], params: Mapping[str, Any], value: Any) -> Any:
    """Return a value as it is: the `change` that changes nothing."""
    return value


def run(
    nodes: Sequence[Node],
    values: dict[Node, Any],
    sizes: Sizes,
    watch: Watcher,
    limit: int,
    change: Change = lambda node, y, inputs: y,
) -> dict[Node, Any]:
    """Evaluate nodes where the values of the inputs are given; Unfinished after so many operations."""
    left = count(limit, -1)

    def counted(node: Node, inputs: Sequence[Any], params: Mapping[str, Any], value: Any) -> Any:
        if next(left) <= 0:
            raise Unfinished(f"more than {limit} operations")
        return watch(node, inputs, params, value)

    with watched(counted):
        return values_of((), values, sizes, nodes=[x for x in nodes if x not in values], change=change)


class Rounding:
    """A graph to evaluate with its rounding; usual `feeds` tell which operations only move numbers, and do not.

    `outputs` are the values that count, by default those of the graph. An evaluation that takes more than `limit`
    operations, bodies included, raises Unfinished.
    """

    def __init__(
        self,
        graph: Graph,
        feeds: Sequence[Any],
        sizes: Sizes,
        outputs: Sequence[Node] | None = None,
        limit: int = sys.maxsize,
    ) -> None:
        self.graph, self._moving, self._limit = graph, set[Node](), limit
        outputs = graph.outputs if outputs is None else outputs
        self._outputs, self._nodes = without_tokens(outputs), needed(outputs, graph.inputs)
        with np.errstate(all="ignore"):
            values = self._values(feeds, sizes, lambda node, y, xs: y)
        self._moving.update(node for node in self._nodes if _moves(values[node], [values[x] for x in node.inputs]))

    def at(
        self,
        feeds: Sequence[Any],
        sizes: Sizes,
        samples: int = SAMPLES,
        special: bool = False,
        exact: bool = False,
        watches: Sequence[Watcher] = (),
    ) -> Values:
        """The results, evaluated node by node; a ValueError or IndexError where NumPy refuses the numbers.

        With `special` what cancels may have cancelled for the choice of the numbers, as it does where they are equal.
        In an equivalent program it may not, and so the largest number on the way says how far rounding moves a result.
        Where the feeds are `exact` they are not rounded otherwise, nor are numbers that an operation has left as they
        were: what is equal to a threshold stays so. The first of
        the `watches` sees the evaluation, the others those with other rounding.
        """
        watch = iter((*watches, *repeat(unchanged, 1 + samples)))
        told: set[str] = set()
        with _telling(told):
            values = self._values(feeds, sizes, lambda node, y, xs: y, next(watch))
        results, left_range = [values[y] for y in self._outputs], bool(told)
        noise: list[Any] = [np.zeros(np.shape(y)) for y in results]
        for sample in range(samples):
            with _telling(told):
                others = self._sample(feeds, sizes, sample, exact, next(watch))
            if others is None:  # a matrix is singular but for rounding
                return Values(results, [np.full(np.shape(y), np.inf) for y in results], left_range)
            noise = [np.maximum(n, distance(y, z)) for n, y, z in zip(noise, results, others, strict=True)]
        if special:
            highest = max(map(largest, values.values()))
            noise = [n + 2 * eps_of(y) * highest for n, y in zip(noise, results, strict=True)]
        return Values(results, noise, left_range)

    def doubted(self, feeds: Sequence[Any], sizes: Sizes, values: Values) -> tuple[Values, float]:
        """Return values with the noise of many samples in which sums are rounded as their terms; the largest number.

        Where terms cancel, an equivalent program may have a number of the size of their rounding in the place of a
        zero, and its square or a product of it in the results.
        """
        with np.errstate(all="ignore"):
            on_the_way = self._values(feeds, sizes, lambda node, y, xs: y)
            others = [self._sample(feeds, sizes, sample, False, unchanged, True) for sample in range(MANY_SAMPLES)]
        noise = values.noise
        for results in others:
            if results is not None:
                noise = [np.maximum(n, distance(y, z)) for n, y, z in zip(noise, values.results, results, strict=True)]
        return values._replace(noise=noise), max(map(largest, on_the_way.values()), default=0.0)

    def _sample(
        self, feeds: Sequence[Any], sizes: Sizes, sample: int, exact: bool, watch: Watcher, sums: bool = False
    ) -> list[Any] | None:
        """The results where every number that is computed is another near by; None where NumPy refuses these."""
        given = feeds if exact else [rounded(x, sample) for x in feeds]
        try:
            values = self._values(
                given, sizes, lambda node, y, xs: self._rounded(node, y, xs, sample, exact, sums), watch
            )
        except np.linalg.LinAlgError:
            return None
        return [values[y] for y in self._outputs]

    def _rounded(self, node: Node, y: Any, inputs: Sequence[Any], sample: int, exact: bool, sums: bool) -> Any:
        terms = _terms(node.op, inputs) if sums and not isinstance(y, tuple) else 0.0
        if np.any(terms) and np.asarray(y).dtype.kind == "f":  # by 1 to 16 units in the last place of the terms
            unit = terms / (1.0 + (sample + node.id) % 3)  # differently from sample to sample
            return like(y, np.asarray(rounded(np.asarray(y + unit), sample + 64 * node.id) - unit))
        if node.op in (CONSTANT, SIZE) or node in self._moving:
            return y
        seed = sample + 64 * node.id

        def near(y: Any) -> Any:
            other = rounded(y, seed)
            return like(y, np.where(_left(node.op, y, inputs), y, other)) if exact and other is not y else other

        return tuple(map(near, y)) if isinstance(y, tuple) else near(y)

    def _values(
        self, feeds: Sequence[Any], sizes: Sizes, change: Change, watch: Watcher = unchanged
    ) -> dict[Node, Any]:
        return run(self._nodes, dict(zip(self.graph.inputs, feeds, strict=True)), sizes, watch, self._limit, change)


def _moves(y: Any, inputs: Sequence[Any]) -> bool:
    """Whether numbers of a result, a few in all parts of it, are those of what it is made of, but for the sign."""
    if isinstance(y, tuple) or not np.any(y):
        return False
    numbers = np.abs(y)[np.nonzero(y)] if np.ndim(y) else np.abs([y])
    given = [np.abs(x) for x in inputs if not isinstance(x, tuple)]
    return all(any(np.any(x == number) for x in given) for number in numbers[:: -(-numbers.size // 8)])


def _left(op: Op, y: Any, inputs: Sequence[Any]) -> Any:
    """Return where numbers are those of the operands, but for the sign; a loop that ends at once leaves all."""
    numbers = [each for x in inputs for each in (x if isinstance(x, tuple) else (x,))]
    given = [np.abs(x) for x in numbers if np.asarray(x).dtype.kind in "iufc"]
    if op.elementwise:
        return np.any([np.broadcast_to(x == np.abs(y), np.shape(y)) for x in given], axis=0)
    return np.isin(np.abs(y), np.concatenate([np.ravel(x) for x in given])) if given else False


@contextmanager
def _telling(told: set[str]) -> Iterator[None]:
    """Note overflow and underflow, and be quiet about the rest."""
    with np.errstate(all="ignore", over="call", under="call", call=lambda kind, flag: told.add(kind)):
        yield


def _terms(op: Op, inputs: Sequence[Any]) -> Any:
    """Return the size of the terms that an operation adds up, 0 where it adds none."""
    if op not in (ADD, SUBTRACT, SUM, MEAN, LOGSUMEXP) and not op.contracts:
        return 0.0
    sizes = [np.where(np.isfinite(x), np.abs(x), 0.0) for x in inputs]
    return np.maximum(*sizes) if op in (ADD, SUBTRACT) else math.prod(float(np.max(x, initial=0.0)) for x in sizes)


def eps_of(x: Any) -> float:
    """Return the distance from one to the next number of a dtype; zero where its numbers are exact."""
    dtype = np.asarray(x).dtype
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0


def largest(x: Any) -> float:
    """Return the largest finite absolute value in one or several arrays."""
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
    """Return the distance of numbers: infinite where one is NaN or infinite, and the other is not the same."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind not in "fc":
        return np.not_equal(a, b).astype(float)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b).astype(float)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isfinite(apart), apart, np.inf))


def agrees(got: np.ndarray, expected: np.ndarray, noise: np.ndarray, rtol: float | None) -> np.ndarray:
    """Return where numbers agree to rounding, which may decide whether they are finite."""
    if expected.dtype.kind not in "fc":
        return np.asarray(distance(got, expected) <= noise)
    eps, size = float(np.finfo(expected.dtype).eps), np.abs(expected)
    largest = np.max(size, initial=0.0, where=np.isfinite(size))
    allowed = (eps**0.75 if rtol is None else rtol) * size + SPREAD * noise + 4 * eps * largest
    return np.asarray(np.isinf(noise) | (distance(got, expected) <= np.where(np.isfinite(size), allowed, 0.0)))


def furthest(got: np.ndarray, expected: np.ndarray, among: Any = True) -> tuple[str, str, str]:
    """Return the place where two arrays differ most, "" for numbers, and both numbers there."""
    apart = np.where(among, distance(got, expected), -1.0)
    index = np.unravel_index(int(np.argmax(apart)), apart.shape)
    place = f"[{', '.join(map(str, map(int, index)))}]" if index else ""
    return (place, *_told_apart(got[index], expected[index]))


def _told_apart(a: Any, b: Any) -> tuple[str, str]:
    """Return two numbers with as many digits as tell them apart, at least six."""
    if np.asarray(a).dtype.kind != "f":
        return str(a), str(b)
    pairs = ((f"{a:.{digits}g}", f"{b:.{digits}g}") for digits in range(6, 18))
    return next((pair for pair in pairs if pair[0] != pair[1]), (repr(float(a)), repr(float(b))))
