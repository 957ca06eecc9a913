"""Notes: conditions under which NumPy warns or Python raises, but the processor's floating-point flags do not show it.

Division, ``sqrt`` and C's library raise flags; our own functions return infinities and NaN without any. And of a choice
compilers compute only the side that is taken, where NumPy computes both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from math import inf
from typing import NamedTuple

import numpy as np

from symgrad.analysis.ranges import Interval
from symgrad.lowering.expressions import Apply, Choose, Expr, Load, Local, Number
from symgrad.lowering.intervals import Intervals
from symgrad.lowering.statements import Assign, Declare, Statement, While, walk
from symgrad.lowering.uses import uses_of
from symgrad.spelling import SUM, UNARY
from symgrad.targets.c.functions import POWERS
from symgrad.targets.c.text import code_of


class Comparison(NamedTuple):
    """A comparison of an argument, or its magnitude, with a number; `single` is that for single precision."""

    place: int
    symbol: str
    number: float
    single: float | None = None
    absolute: bool = False

    def limit(self, x: Apply) -> float:
        return self.single if self.single is not None and x.arguments[0].dtype == np.float32 else self.number

    def text(self, x: Apply, arguments: Sequence[str]) -> str:
        number = self.limit(x)
        number_text = "INFINITY" if number == inf else f"{number:g}"
        argument = arguments[self.place]
        return f"({f'fabs({argument})' if self.absolute else argument} {self.symbol} {number_text})"

    def may_hold(self, x: Apply, intervals: Intervals) -> bool:
        """Whether the comparison may be true, as far as intervals tell."""
        found, number = intervals.of(x.arguments[self.place]), self.limit(x)
        if self.absolute:
            found = Interval(0.0, found.magnitude)
        below = {"<": found.low < number, "<=": found.low <= number, "==": found.holds(number)}
        return below.get(self.symbol, found.high >= number)


def _power(x: Apply) -> Sequence[Comparison]:
    """Return the conditions for zero to a negative power, and for a fractional power of a negative number."""
    y = x.arguments[1]
    assert isinstance(y, Number)
    if y.value in POWERS or (y.value >= 0 and y.value == int(y.value)):
        return []
    if y.value == int(y.value):
        return [Comparison(0, "==", 0)]
    return [Comparison(0, "<" if y.value > 0 else "<=", 0)]


ANY_POWER = "({0} == 0 ? {1} < 0 : ({0} < 0) & ({1} != trunc({1})))"
POWER = frozenset((np.power, np.float_power))
SILENT: dict[np.ufunc, Sequence[Comparison]] = {
    **dict.fromkeys((np.log, np.log2, np.log10), (Comparison(0, "<=", 0),)),
    np.log1p: [Comparison(0, "<=", -1)],
}  # fmt: skip
"""Functions of ours that raise no flags (powers are another case), and where they are not finite."""

NO_REST = [Comparison(1, "==", 0), Comparison(0, "==", inf, absolute=True)]
SKIPPED: dict[np.ufunc, Sequence[Comparison]] = {
    np.divide: [Comparison(1, "==", 0)], np.reciprocal: [Comparison(0, "==", 0)],
    np.floor_divide: NO_REST, np.remainder: NO_REST, np.fmod: NO_REST,
    np.sqrt: [Comparison(0, "<", 0)],
    np.exp: [Comparison(0, ">", 709, 88)], np.expm1: [Comparison(0, ">", 709, 88)],
    np.exp2: [Comparison(0, ">", 1023, 127)],
    **dict.fromkeys((np.sinh, np.cosh), (Comparison(0, ">", 710, 89, absolute=True),)),
    **dict.fromkeys((np.arcsin, np.arccos), (Comparison(0, ">", 1, absolute=True),)),
    np.arccosh: [Comparison(0, "<", 1)], np.arctanh: [Comparison(0, ">=", 1, absolute=True)],
    **dict.fromkeys((np.sin, np.cos, np.tan), (Comparison(0, "==", inf, absolute=True),)),
}  # fmt: skip
"""Functions that raise flags when they are computed, with the conditions for the side of a choice that is not."""

OVERFLOWING = frozenset((np.exp, np.expm1, np.exp2, np.sinh, np.cosh))
QUOTIENTS = frozenset((np.divide, np.reciprocal))
DIVISIONS = frozenset((np.divide, np.floor_divide, np.remainder))


class Notes:
    """The conditions of each statement of a function, as C; `tells_overflow` says whether NumPy warns of overflow."""

    def __init__(self, body: Sequence[Statement], tells_overflow: bool = True) -> None:
        self._tells_overflow = tells_overflow
        statements = list(walk(body))
        values = {s.local.name: s.value for s in statements if isinstance(s, Declare)}
        self._skipped = _chosen(statements, values)  # names that only a side of a choice may need
        assigned = {s.local.name for s in statements if isinstance(s, Assign)}
        self._intervals = Intervals({name: x for name, x in values.items() if name not in assigned})
        self._found: dict[int, list[str]] = {}
        self._find(body, {})

    def of(self, s: Statement) -> list[str]:
        """Return the conditions of a statement, without those of its bodies."""
        return self._found.get(id(s), [])

    def within(self, statements: Iterable[Statement]) -> bool:
        """Whether there are conditions for any of the statements."""
        return any(map(self.of, statements))

    def _find(self, body: Sequence[Statement], noted: Mapping[str, Set[str]]) -> None:
        """Find the conditions of statements, except those `noted` before; these map to the names that they read."""
        for s in body:
            found = dict.fromkeys(self._of(s))
            self._found[id(s)] = [x for x in found if x not in noted]
            reads = {part.buffer.name if isinstance(part, Load) else part.name for part in _named(s)}
            changed = {x.local.name for x in walk([s]) if isinstance(x, Assign)} | {b.name for b in uses_of(s).written}
            if not isinstance(s, While):  # its test may never be computed
                noted = {**noted, **dict.fromkeys(found, reads)}
            noted = {x: names for x, names in noted.items() if changed.isdisjoint(names)}
            for inner in s.bodies:
                self._find(inner, noted)

    def _of(self, s: Statement) -> Iterator[str]:
        skipped = isinstance(s, Declare) and s.local.name in self._skipped
        for x in s.expressions:
            yield from self._in(x, skipped)

    def _in(self, x: Expr, skipped: bool) -> Iterator[str]:
        if isinstance(x, Load):
            return
        if isinstance(x, Choose):
            test, *sides = x.operands
            yield from self._in(test, skipped)
            for side, taken in zip(sides, ("{0} && {1}", "!{0} && {1}"), strict=True):
                reads = any(isinstance(part, Load) for part in side.parts())  # an index may be out of bounds there
                for condition in self._in(side, skipped=not reads or skipped):
                    yield f"({taken.format(code_of(test).at(UNARY), condition)})" if reads else condition
            return
        if isinstance(x, Apply):
            condition = self._condition(x, skipped)
            if condition:
                yield condition
        for part in x.operands:
            yield from self._in(part, skipped)

    def _condition(self, x: Apply, skipped: bool) -> str:
        function, arguments = x.op.evaluate, [code_of(y).at(SUM) for y in x.arguments]
        if x.arguments[0].dtype.kind not in "fc":
            return ""
        if x.dtype.kind == "c" or x.arguments[0].dtype.kind == "c":
            divides = function in QUOTIENTS and (skipped or x.is_python)
            found = [test.text(x, arguments) for test in SKIPPED[function]] if divides else []
            return "".join(found)
        if function in POWER and not isinstance(x.arguments[1], Number):
            return ANY_POWER.format(*arguments)
        if function in OVERFLOWING and not self._tells_overflow:
            return ""
        tests = SILENT.get(function) or (SKIPPED.get(function, ()) if skipped else ())
        if function in POWER:
            tests = _power(x)
        if x.is_python and function in DIVISIONS:  # Python raises where the number divided is infinite, too
            tests = SKIPPED[np.divide]
        found = [test.text(x, arguments) for test in tests if test.may_hold(x, self._intervals)]
        return f"({' | '.join(found)})" if len(found) > 1 else "".join(found)


def _named(s: Statement) -> Iterator[Load | Local]:
    return (part for x in s.expressions for part in x.parts() if isinstance(part, Load | Local))


def _chosen(statements: Sequence[Statement], values: Mapping[str, Expr]) -> set[str]:
    """Return the names on which sides of choices depend."""
    parts = (part for s in statements for x in s.expressions for part in x.parts())
    waiting = [side for x in parts if isinstance(x, Choose) for side in x.operands[1:]]
    found: set[str] = set()
    while waiting:
        for part in waiting.pop().parts():
            if isinstance(part, Local) and part.name in values and part.name not in found:
                found.add(part.name)
                waiting.append(values[part.name])
    return found
