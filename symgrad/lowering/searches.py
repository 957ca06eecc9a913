"""Binary searches as statements: `np.searchsorted`, and `np.interp`, which searches for a line segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from symgrad.core.graph import Node, Op
from symgrad.lowering.expressions import (
    ONE,
    ZERO,
    Apply,
    Choose,
    Expr,
    Local,
    Number,
    Whole,
    converted,
    divided,
    extent,
    minus,
    plus,
)
from symgrad.lowering.statements import Assign, Declare, If, While
from symgrad.lowering.windows import Window
from symgrad.ops.define import TABLE
from symgrad.ops.interpolate import INTERP
from symgrad.ops.sorting import SEARCHSORTED

if TYPE_CHECKING:
    from symgrad.lowering.build import Nest, Part

SEARCHES = {SEARCHSORTED: (0,), INTERP: (1, 2)}
"""Operators that search in sorted numbers, and which of their operands they read at any index."""

BITS = 64  # of a size: a range is halved at most so often
ARITHMETIC = frozenset((np.add, np.subtract, np.multiply, np.divide))  # other results are booleans
TRUTH = np.dtype(bool)


def write_search(part: Part, node: Node) -> None:
    """Write the nest that searches for each number of an array, or interpolates at it."""
    target, windows = part.begin(node), [part.window(node.inputs[k]) for k in SEARCHES[node.op]]
    points, x = node.inputs[SEARCHES[node.op][0]], node.inputs[1 if node.op is SEARCHSORTED else 0]
    is_line = node.op is INTERP
    dtype = node.aval.dtype if is_line else np.result_type(points.aval.dtype, x.aval.dtype)
    with part.nested(node.aval.shape) as nest:
        search = _Search(part, nest, dtype, windows, extent(points.aval.shape[0]))
        value = search.named("value", converted(part.pull(x, nest.at), dtype))
        count = search.count(value, is_right=is_line or dict(node.params).get("side") == "right")
        nest.levels[-1].append(target.store(nest.at, search.line(value, count) if is_line else count))
    part.values[node] = target


class _Search:
    """The statements for one number, in a nest; `windows` are the sorted numbers, and the values at them."""

    def __init__(self, part: Part, nest: Nest, dtype: np.dtype, windows: list[Window], size: Expr) -> None:
        self.fresh, self.body = part.program.names.fresh, nest.levels[-1]
        self.around = frozenset(i.name for i in nest.indices)
        self.dtype, self.windows, self.size = dtype, windows, size

    def local(self, hint: str, dtype: np.dtype = ZERO.dtype) -> Local:
        return Local(self.fresh(hint), dtype, self.around)

    def named(self, hint: str, x: Expr) -> Local:
        local = self.local(hint, x.dtype)
        self.body.append(Declare(local, x))
        return local

    def apply(self, function: np.ufunc, *xs: Expr) -> Expr:
        op: Op = TABLE[function]  # type: ignore[assignment]
        return Apply(op, xs, self.dtype if function in ARITHMETIC else TRUTH)

    def load(self, window: Window, index: Expr) -> Expr:
        return converted(window.load((index,)), self.dtype)

    def is_nan(self, x: Expr) -> Expr:
        return self.apply(np.isnan, x)

    def count(self, value: Local, is_right: bool) -> Local:
        """Count by bisection the sorted numbers below a value, or up to it (`is_right`); NaN is above all others."""
        low, high, middle, step = map(self.local, ("low", "high", "middle", "step"))
        point = self.local("point", self.dtype)
        first, second = (value, point) if is_right else (point, value)
        is_less = self.apply(np.less, first, second)
        if self.dtype.kind == "f":
            is_last = self.apply(np.logical_and, self.is_nan(second), self.apply(np.equal, first, first))
            is_less = self.apply(np.logical_or, is_less, is_last)
        forth, back = [Assign(low, plus(middle, ONE))], [Assign(high, middle)]
        search = [
            Declare(middle, divided(plus(low, high), Number(2))),
            Declare(point, self.load(self.windows[0], middle)),
            If(is_less, [*back], [*forth]) if is_right else If(is_less, [*forth], [*back]),
        ]
        self.body += [Declare(low, ZERO, mutable=True), Declare(high, self.size, mutable=True)]
        self.body.append(While(step, Number(BITS), [], Whole("<", low, high), search))
        return low

    def line(self, value: Local, count: Local) -> Expr:
        """Interpolate between the points around a value, of which `count` come before it, by NumPy's formula."""
        places, values = self.windows
        last = minus(self.size, ONE)
        k = self.named("k", Choose(Whole("<", ZERO, count), minus(count, ONE), ZERO))
        behind = self.named("next_k", Choose(Whole("<", k, last), plus(k, ONE), last))
        left, right = self.named("left", self.load(places, k)), self.named("right", self.load(places, behind))
        y, next_y = self.named("y", self.load(values, k)), self.named("next_y", self.load(values, behind))
        # nobody asks for the slope between points in one place: no flag of a division is to be raised
        are_apart, gap = self.apply(np.not_equal, left, right), self.apply(np.subtract, right, left)
        width = self.named("width", Choose(are_apart, gap, Number(1.0, self.dtype)))
        slope = self.named("slope", self.apply(np.divide, self.apply(np.subtract, next_y, y), width))
        by_left = self.named("by_left", self._on_line(slope, value, left, y))
        by_right = self.named("by_right", self._on_line(slope, value, right, next_y))
        flat = Choose(self.apply(np.equal, y, next_y), y, by_right)
        inside = Choose(self.is_nan(by_left), Choose(self.is_nan(by_right), flat, by_right), by_left)
        is_outside = self.apply(np.logical_or, Whole("<", count, ONE), Whole("<", last, count))
        is_known = self.apply(np.logical_or, is_outside, self.apply(np.equal, left, value))
        # of one point NumPy does not look at the number
        is_lost = self.apply(np.logical_and, Whole("<", ZERO, last), self.is_nan(value))
        return Choose(is_lost, value, Choose(is_known, y, inside))

    def _on_line(self, slope: Expr, value: Expr, place: Expr, y: Expr) -> Expr:
        return self.apply(np.add, self.apply(np.multiply, slope, self.apply(np.subtract, value, place)), y)
