"""Overflow: constants that may be joined, and factors that may be reordered, without a new overflow."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property, reduce

import numpy as np

from symgrad.analysis.ranges import Interval, ranges_of
from symgrad.analysis.values import number
from symgrad.core.graph import Node, reached
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import ABSOLUTE, ADD, DIVIDE, EXP, LOG, MULTIPLY, NEGATIVE, POWER, SQRT, SUBTRACT

WIDE = (8, np.dtype(np.longdouble).itemsize)
"""The bytes of numbers in double precision, or in more."""

MODERATE = {4: 1e10, **dict.fromkeys(WIDE, 1e30)}
"""Bounds of joined constants, by the bytes of the dtype: a larger one may be there to avoid an overflow."""

NEAR_ONE = {4: 1e8, **dict.fromkeys(WIDE, 1e10)}
"""Bounds of constants that move to another array, such as one over a size: results stay right so far from the ends of
the range.
"""


def has_range(dtype: np.dtype) -> bool:
    """Whether factors may change places: products of float16 overflow at 65504."""
    return dtype.kind == "f" and dtype.itemsize >= 4


def moderate(c: float, most: float) -> bool:
    return 1 / most < abs(c) < most


ONE = Interval(1.0, 1.0)

POLYNOMIAL, ROOT, ALGEBRAIC, STEEP = range(4)
"""Growth of a value with its origins: polynomial; like a root of that; algebraic, where it may vanish; or faster than
powers.
"""

_SUMS = frozenset({ADD, SUBTRACT, MULTIPLY})
_ROOTS = frozenset({SQRT, ABSOLUTE, TABLE[np.hypot]})


def _growth(node: Node, known: dict[Node, int]) -> int:
    """Return the growth of a value, from that of its inputs as far as known."""
    op, below = node.op, [known[x] for x in node.inputs]
    most = max(below, default=POLYNOMIAL)
    if not below or op.view or op is NEGATIVE:
        return most
    if op in _ROOTS:
        return max(most, ROOT)
    plain = op in _SUMS or op.linear or (op is DIVIDE and number(node.inputs[1]) is not None)
    if plain and most == POLYNOMIAL:
        return POLYNOMIAL
    gentle = plain or op is DIVIDE or op is LOG or (op is POWER and number(node.inputs[1]) is not None)
    return max(most, ALGEBRAIC) if gentle else STEEP


class Origins:
    """The values without inputs that values are computed from, and how large these can be.

    The factors of ``x * (x * exp(-x * x))`` balance each other: far from zero the last is nothing where ``x * x`` is
    infinite. Those of ``x * y * z`` do so by chance only, and those of ``sin(x) * cos(x) * tanh(x)`` never.
    """

    def __init__(self, nodes: Collection[Node]) -> None:
        self._nodes = nodes

    @cached_property
    def _bits(self) -> dict[Node, int]:  # few programs have products that ask, here and below
        """Return the origins of each value, as bits."""
        bits: dict[Node, int] = {}
        sources = 0
        for node in self._nodes:
            if node.inputs:
                bits[node] = reduce(operator.or_, [bits[x] for x in node.inputs])
            else:
                bits[node], sources = 1 << sources, sources + 1
        return bits

    @cached_property
    def _ranges(self) -> dict[Node, Interval]:
        return ranges_of(self._nodes)

    def balance_powers(self, powers: Iterable[tuple[Node, int]], numbers: int) -> bool:
        """Whether a product of powers, with some numbers besides, may be right only in the order in which it is
        written.
        """
        powers = tuple(powers)
        if sum(abs(n) for _, n in powers) + numbers < 3 or not self._share(x for x, _ in powers):
            return False
        sizes = [((self._ranges[x] if n > 0 else ONE / self._ranges[x]).magnitude, abs(n)) for x, n in powers]
        return sum(n * math.log(max(most, 1.0)) for most, n in sizes) >= math.log(min(MODERATE.values()))

    @cached_property
    def _growths(self) -> dict[Node, int]:
        growths: dict[Node, int] = {}
        for node in self._nodes:
            growths[node] = _growth(node, growths)
        return growths

    def grow_alike(self, powers: Sequence[tuple[Node, int]]) -> bool:
        """Whether no factor vanishes where a related one grows, and the same for divisors."""
        growths = self._growths
        if any(growths[x] == STEEP for x, _ in powers):
            return False
        sides = [x for x, n in powers if n > 0], [x for x, n in powers if n < 0]
        return all(max(map(growths.__getitem__, xs), default=0) <= ROOT or not self._share(xs) for xs in sides)

    def related(self, x: Node, y: Node) -> bool:
        """Whether two values have an origin in common."""
        return bool(self._bits[x] & self._bits[y])

    def _share(self, factors: Iterable[Node]) -> bool:
        """Whether several have an origin in common."""
        seen = 0
        for x in dict.fromkeys(factors):
            if seen & self._bits[x]:
                return True
            seen |= self._bits[x]
        return False


def overflows_harmlessly(nodes: Collection[Node]) -> bool:
    """Whether something is divided by a sum with an exponential that may be infinite: then zero is the right result."""
    sums = [node.inputs[1] for node in nodes if node.op is DIVIDE and node.inputs[1].op is ADD]
    exponentials = [x for node in sums for x in node.inputs if x.op is EXP]
    ranges = ranges_of(reached(exponentials))
    return any(ranges[x].high == math.inf for x in exponentials)
