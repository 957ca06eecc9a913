"""Interval arithmetic: bounds of a float expression, where it is not NaN.

Rounding is monotonic, so the bounds of a sum or product are sums and products of bounds, rounded in the same way. For
other functions only bounds that rounding cannot change are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from math import inf, isnan

import numpy as np

from symgrad.lowering.expressions import Apply, Choose, Expr, Local, Number

Interval = tuple[float, float]
ANY: Interval = (-inf, inf)
POSITIVE: Interval = (0.0, inf)  # or zero


def _hull(*xs: Interval) -> Interval:
    return min(x[0] for x in xs), max(x[1] for x in xs)


def _add(a: Interval, b: Interval) -> Interval:
    low, high = a[0] + b[0], a[1] + b[1]
    return -inf if isnan(low) else low, inf if isnan(high) else high


def _negative(a: Interval) -> Interval:
    return -a[1], -a[0]


def _multiply(a: Interval, b: Interval) -> Interval:
    corners = [0.0 if isnan(x * y) else x * y for x, y in product(a, b)]  # a bound that is infinite is no number
    return min(corners), max(corners)


def _divide(a: Interval, b: Interval) -> Interval:
    """Return the sign of a quotient by a positive number, as bounds that include zero."""
    if b[0] <= 0:
        return ANY
    return (0.0 if a[0] >= 0 else -inf), (0.0 if a[1] <= 0 else inf)


RULES: Mapping[Callable[..., object], Callable[..., Interval]] = {
    np.add: _add, np.subtract: lambda a, b: _add(a, _negative(b)), np.negative: _negative,
    np.multiply: _multiply, np.divide: _divide, np.positive: lambda a: a,
    **dict.fromkeys((np.absolute, np.fabs, np.square, np.sqrt, np.exp, np.exp2), lambda a: POSITIVE),
    np.maximum: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    np.minimum: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
}  # fmt: skip


class Intervals:
    """The intervals of expressions, given the values of immutable names."""

    def __init__(self, values: Mapping[str, Expr]) -> None:
        self.values = values
        self.known: dict[str, Interval] = {}

    def of(self, x: Expr) -> Interval:
        if isinstance(x, Number) and x.dtype.kind == "f":
            return ANY if isnan(x.value) else (float(x.value), float(x.value))
        if isinstance(x, Local) and x.name in self.values:
            if x.name not in self.known:
                self.known[x.name] = self.of(self.values[x.name])
            return self.known[x.name]
        if isinstance(x, Choose) and x.dtype.kind == "f":
            return _hull(self.of(x.then), self.of(x.otherwise))
        rule = RULES.get(x.op.evaluate) if isinstance(x, Apply) and x.dtype.kind == "f" else None
        if rule is None:
            return ANY
        assert isinstance(x, Apply)
        if x.op.evaluate is np.multiply and x.arguments[0] == x.arguments[1]:
            return POSITIVE
        low, high = rule(*map(self.of, x.arguments))
        with np.errstate(over="ignore", under="ignore"):
            return float(x.dtype.type(low)), float(x.dtype.type(high))
