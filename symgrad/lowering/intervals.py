"""Interval arithmetic: bounds of a float expression, where it is not NaN.

Sums, products and roots are rounded to the nearest number, which is monotonic: the bounds of a result are the results
of bounds, rounded in the same way. For other functions only bounds that rounding cannot change are used.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from symgrad.analysis.ranges import ANYWHERE, Interval, result_interval
from symgrad.lowering.expressions import Apply, Choose, Expr, Local, Number
from symgrad.ops.define import TABLE

SQUARE = TABLE[np.square]
ROUNDED = frozenset(
    (np.add, np.subtract, np.negative, np.multiply, np.divide, np.absolute, np.square, np.sqrt, np.maximum, np.minimum)
)
"""Functions whose results are exact, or the nearest numbers."""

NOT_NEGATIVE = frozenset((np.fabs, np.exp, np.exp2))


class Intervals:
    """The intervals of expressions, given the values of immutable names."""

    def __init__(self, values: Mapping[str, Expr]) -> None:
        self.values = values
        self.known: dict[str, Interval] = {}

    def of(self, x: Expr) -> Interval:
        if isinstance(x, Local) and x.name in self.values:
            if x.name not in self.known:
                self.known[x.name] = self.of(self.values[x.name])
            return self.known[x.name]
        if x.dtype.kind != "f":
            return ANYWHERE
        if isinstance(x, Number):
            return ANYWHERE if np.isnan(x.value) else Interval(float(x.value), float(x.value))
        if isinstance(x, Choose):
            then, otherwise = self.of(x.then), self.of(x.otherwise)
            return Interval(min(then.low, otherwise.low), max(then.high, otherwise.high))
        if not isinstance(x, Apply) or x.op.evaluate not in ROUNDED:
            return Interval(0.0) if isinstance(x, Apply) and x.op.evaluate in NOT_NEGATIVE else ANYWHERE
        is_square = x.op.evaluate is np.multiply and x.arguments[0] == x.arguments[1]
        op, arguments = (SQUARE, x.arguments[:1]) if is_square else (x.op, x.arguments)
        found = result_interval(op, x.dtype, *map(self.of, arguments))
        return Interval(float(x.dtype.type(found.low)), float(x.dtype.type(found.high)))
