"""Which numbers may be joined, and which factors may change places, without an overflow that was not there before."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Hashable, Iterable
from functools import reduce

import numpy as np

from symgrad.analysis.values import number
from symgrad.core.graph import Aval, Node
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import ABSOLUTE, ADD, DIVIDE, EXP, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.shape import BROADCAST_TO

_AT_MOST_ONE = frozenset(TABLE[f] for f in (np.sin, np.cos, np.tanh, np.sign))

MODERATE = {4: 1e10, 8: 1e30}
"""What numbers are joined, by the bytes of the dtype: others may be there to keep something from overflowing."""

NEAR_ONE = {4: 1e8, 8: 1e10}
"""What numbers are multiplied with another array than they were, such as one over a size: results stay right so far
from the ends of the range."""


def has_range(dtype: np.dtype) -> bool:
    """Whether factors may change places: products of float16 overflow at 65504."""
    return dtype.kind == "f" and dtype.itemsize >= 4


def moderate(c: float, most: float) -> bool:
    return 1 / most < abs(c) < most


class Origins:
    """Which arrays values are made of, and how large they can be.

    The factors of ``x * (x * exp(-x * x))`` balance each other: far from zero the last is nothing where ``x * x`` is
    infinite. Those of ``x * y * z`` do so by chance only, and those of ``sin(x) * cos(x) * tanh(x)`` never.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._bits: dict[Hashable, int] = {}  # one for each array
        self._most: dict[Hashable, float] = {}
        sources = 0
        for node in nodes:
            self.add(node, node.inputs)
            if not node.inputs and (type(node.aval) is not Aval or node.aval.shape):
                self._bits[node], sources = 1 << sources, sources + 1
            self._most[node] = self._largest(node)

    def add(self, x: Hashable, made_of: Iterable[Hashable]) -> None:
        """What stands for a value that the graph does not have."""
        self._bits[x] = reduce(operator.or_, [self._bits[y] for y in made_of], 0)
        self._most[x] = math.inf

    def balance(self, factors: Collection[Hashable]) -> bool:
        """Whether a product may be right in the order in which it is written only."""
        if len(factors) < 3 or math.prod([self._most[x] for x in factors]) < min(MODERATE.values()):
            return False
        seen = 0
        for x in dict.fromkeys(factors):
            if seen & self._bits[x]:
                return True
            seen |= self._bits[x]
        return False

    def _largest(self, node: Node) -> float:
        """A number that no absolute value exceeds."""
        if node.op in _AT_MOST_ONE:
            return 1.0
        if (c := number(node)) is not None and node.aval.dtype.kind in "iuf":
            return abs(float(c))
        most = [self._most[x] for x in node.inputs]
        if node.op in (ADD, SUBTRACT):
            return sum(most)
        if node.op is MULTIPLY:
            return 0.0 if 0.0 in most else math.prod(most)
        if node.op is DIVIDE and _is_above_one(node.inputs[1]):
            return most[0]
        return most[0] if node.op in (NEGATIVE, ABSOLUTE, BROADCAST_TO) else math.inf


def _is_above_one(x: Node) -> bool:
    """What a sigmoid divides by."""
    return x.op is ADD and any(number(a) == 1 and b.op is EXP for a, b in (x.inputs, x.inputs[::-1]))
