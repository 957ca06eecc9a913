"""Between which numbers a value lies whatever the arguments are: interval arithmetic (Moore) on operators' entries."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from symgrad.analysis.values import number
from symgrad.core.graph import Node, Op

LARGEST_EXPONENT = math.log(sys.float_info.max)


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers from `low`, which may be -inf, to `high`, which may be inf; a NaN is taken to lie in any interval."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def magnitude(self) -> float:
        """A number that no absolute value exceeds."""
        return max(-self.low, self.high)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __abs__(self) -> Interval:
        return Interval(max(self.low, -self.high, 0.0), self.magnitude)

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        ends = [x * y if x and y else 0.0 for x in (self.low, self.high) for y in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def __truediv__(self, other: Interval) -> Interval:
        if other.low <= 0 <= other.high:
            return Interval()
        ends = [0.0 if math.isinf(y) else x / y for x in (self.low, self.high) for y in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def minimum(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), min(self.high, other.high))

    def maximum(self, other: Interval) -> Interval:
        return Interval(max(self.low, other.low), max(self.high, other.high))

    def exp(self) -> Interval:
        low, high = (math.exp(x) if x < LARGEST_EXPONENT else math.inf for x in (self.low, self.high))
        return Interval(low, high)


ANYWHERE = Interval()


def ranges_of(nodes: Iterable[Node]) -> dict[Node, Interval]:
    """The interval of each value, to its rounding; that of integers, which wrap around, is known of numbers alone.

    The nodes stand in order of creation, with all that they are made of.
    """
    ranges: dict[Node, Interval] = {}
    for node in nodes:
        ranges[node] = _range_of(node, ranges)
    return ranges


def _range_of(node: Node, ranges: dict[Node, Interval]) -> Interval:
    c = number(node)
    if c is not None and node.aval.dtype.kind in "iuf":
        return Interval(float(c), float(c)) if math.isfinite(c) else ANYWHERE
    if node.op.interval is None or node.aval.dtype.kind != "f":
        return ANYWHERE
    return _result(node.op, node.aval.dtype, *[ranges[x] for x in node.inputs])


@lru_cache(maxsize=4096)  # most are of values that may be anything
def _result(op: Op, dtype: np.dtype[Any], *given: Interval) -> Interval:
    """The interval that an entry gives, of what a dtype has for numbers: beyond its largest there is infinity alone."""
    entry: Any = op.interval
    exact = Interval(*entry) if isinstance(entry, tuple) else entry(*given)
    largest = float(np.finfo(dtype).max)
    low = exact.low if exact.low >= -largest else -math.inf
    high = exact.high if exact.high <= largest else math.inf
    return Interval(low, high) if low <= largest and high >= -largest else ANYWHERE
