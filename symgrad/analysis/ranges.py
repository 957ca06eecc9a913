"""Ranges of values for all arguments: interval arithmetic (Moore) on the operators' entries."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from symgrad.analysis.values import number
from symgrad.core.graph import CONSTANT, Aval, Graph, Node, Op, per_node
from symgrad.core.region import Region, per_region, regions_of
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import inputs_of_body, loop_of
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import MULTIPLY

SQUARE = TABLE[np.square]
LARGEST_EXPONENT = math.log(sys.float_info.max)


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers from `low`, which may be -inf, to `high`, which may be inf; a NaN is taken to lie in any interval."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def magnitude(self) -> float:
        """Return the largest absolute value of the interval."""
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
        if other.holds(0.0):
            return Interval()
        ends = [0.0 if math.isinf(y) else x / y for x in (self.low, self.high) for y in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def minimum(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), min(self.high, other.high))

    def maximum(self, other: Interval) -> Interval:
        return Interval(max(self.low, other.low), max(self.high, other.high))

    def __pow__(self, other: Interval) -> Interval:
        even = other.low == other.high and other.low % 2 == 0
        return Interval(0.0) if even else Interval()

    @property
    def is_natural(self) -> bool:
        """Whether it is one number, and that of factors in a product."""
        return self.low == self.high >= 0 and self.low % 1 == 0

    def holds(self, x: float) -> bool:
        return self.low <= x <= self.high

    def repeated(self) -> Interval:
        """Return the interval of sums of any number of such values, or of none."""
        return Interval(-math.inf if self.low < 0 else 0.0, math.inf if self.high > 0 else 0.0)

    def sqrt(self) -> Interval:
        return Interval(*(math.sqrt(max(x, 0.0)) for x in (self.low, self.high)))

    def exp(self) -> Interval:
        low, high = (math.exp(x) if x < LARGEST_EXPONENT else math.inf for x in (self.low, self.high))
        return Interval(low, high)


ANYWHERE = Interval()


class Hazards:
    """The values of a graph that may be infinite or NaN though all of its inputs are finite.

    An input counts, too, if the program tests it for NaNs or infinities.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._flags: list[bool] = []  # by id
        self._suspects: set[Node] = _tested(graph.nodes)

    def __contains__(self, node: Node) -> bool:
        flags = self._flags
        for x in self._graph.nodes[len(flags) : node.id + 1]:
            flags.append(is_singular(x) or x in self._suspects or any([flags[y.id] for y in x.inputs]))
        return flags[node.id]

    def enter(self, node: Node, parameters: Sequence[Node], body: Sequence[Node]) -> None:
        """Bind the parameters of a body: to the inputs of `node`, and to the carries so far."""
        given, carried = inputs_of_body(node), len(loop_of(node).carry) if node.op is SCAN else 0
        suspects = [x for x, y in zip(parameters, given, strict=False) if y in self]
        self._suspect([*suspects, *_tested(body)])
        if any(x in self for x in body):
            self._suspect(parameters[:carried])

    def _suspect(self, nodes: Sequence[Node]) -> None:
        new = [x.id for x in nodes if x not in self]
        self._suspects.update(nodes)
        del self._flags[min(new, default=len(self._flags)) :]


_COMPARISONS = frozenset((TABLE[np.equal], TABLE[np.not_equal]))


def _tests(node: Node) -> bool:
    """Whether a node of the user's program asks for NaNs, which are not equal to themselves, or leaves them out."""
    of_itself = node.op in _COMPARISONS and node.inputs[0] is node.inputs[1]
    return node.where.of is None and (node.op.finds_nan or of_itself)


def _tested(nodes: Iterable[Node]) -> set[Node]:
    """Return the inputs whose numbers, or what is made of each, the user's program tests for NaNs or infinities."""
    found: set[Node] = set()
    waiting = [node.inputs[0] for node in nodes if _tests(node)]
    seen = {*waiting}
    while waiting:
        x = waiting.pop()
        if not x.inputs and x.op is not CONSTANT:
            found.add(x)
        elif x.op.elementwise or x.op.view:
            new = [y for y in x.inputs if y not in seen]
            seen.update(new)
            waiting += new
    return found


@per_node
def is_singular(node: Node) -> bool:
    """Whether a value may be infinite or NaN where its inputs are finite; asked in the order of creation."""
    _interval(node)  # of each value in turn: a recursion would be as deep as the program
    if type(node.aval) is not Aval and regions_of(node):
        return _may_be_singular(node)
    if node.op is CONSTANT:
        return node.aval.differentiable and not np.all(np.isfinite(node.constant))
    singular = node.op.singular or _is_off_axis(node)
    return singular(*map(_interval, node.inputs)) if callable(singular) else singular


def _may_be_singular(node: Node) -> bool:
    regions = regions_of(node)
    return any(map(_holds_singular, regions)) if regions else bool(node.op.singular) or _is_off_axis(node)


@per_region
def _holds_singular(region: Region) -> bool:
    return any(map(_may_be_singular, region.nodes))


def _is_off_axis(node: Node) -> bool:
    """Whether a function is singular at complex numbers, and takes such."""
    return node.op.singular_off_axis and node.inputs[0].aval.dtype.kind == "c"


def ranges_of(nodes: Iterable[Node]) -> dict[Node, Interval]:
    """The interval of each value, to its rounding; that of integers, which wrap around, is known of numbers alone.

    The nodes stand in order of creation, with all that they are made of.
    """
    ranges: dict[Node, Interval] = {}
    for node in nodes:
        ranges[node] = _range_of(node, ranges.__getitem__)
    return ranges


@per_node
def _interval(node: Node) -> Interval:
    """Return the interval of one value; asked in the order of creation."""
    return _range_of(node, _interval)


def _range_of(node: Node, of: Callable[[Node], Interval]) -> Interval:
    c = number(node) if node.op is CONSTANT else None
    if c is not None and node.aval.dtype.kind in "iuf":
        return Interval(float(c), float(c)) if math.isfinite(c) else ANYWHERE
    if type(node.aval) is not Aval or node.aval.dtype.kind != "f":
        return ANYWHERE
    if node.op is MULTIPLY and node.inputs[0] is node.inputs[1]:
        return result_interval(SQUARE, node.aval.dtype, of(node.inputs[0]))
    if node.op.interval is None:
        return of(node.inputs[0]) if node.op.view else ANYWHERE
    given = () if isinstance(node.op.interval, tuple) else [*map(of, node.inputs)]
    return result_interval(node.op, node.aval.dtype, *given)


@lru_cache(maxsize=4096)  # most are of values that may be anything
def result_interval(op: Op, dtype: np.dtype[Any], *given: Interval) -> Interval:
    """Return the interval of an entry in a dtype, beyond whose largest number there is only infinity."""
    entry: Any = op.interval
    exact = Interval(*entry) if isinstance(entry, tuple) else entry(*given)
    largest = float(np.finfo(dtype).max)
    low = exact.low if exact.low >= -largest else -math.inf
    high = exact.high if exact.high <= largest else math.inf
    return Interval(low, high) if low <= largest and high >= -largest else ANYWHERE
