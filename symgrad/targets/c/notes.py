"""Notes: conditions under which NumPy warns, or Python raises, and that leave no trace in the processor's flags.

Division, ``sqrt`` and C's library raise flags of the processor; our own functions give infinities and NaN without any.
And compilers compute a side of a choice only where it is taken, where NumPy computes both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

import numpy as np

from symgrad.lowering.expressions import Apply, Choose, Expr, Load, Local, Number
from symgrad.lowering.statements import Assign, Declare, Statement, While, walk
from symgrad.lowering.uses import uses_of
from symgrad.spelling import SUM, UNARY
from symgrad.targets.c.functions import POWERS
from symgrad.targets.c.text import code_of

Condition = Callable[[Apply, Sequence[str]], str]


def _power(x: Apply, arguments: Sequence[str]) -> str:
    """Zero to a negative power, and a fractional power of a negative number."""
    base, exponent = arguments
    y = x.arguments[1]
    if not isinstance(y, Number):
        return f"({base} == 0 ? {exponent} < 0 : ({base} < 0) & ({exponent} != trunc({exponent})))"
    if y.value in POWERS or (y.value >= 0 and y.value == int(y.value)):
        return ""
    if y.value == int(y.value):
        return f"({base} == 0)"
    return f"({base} {'<' if y.value > 0 else '<='} 0)"


def _beyond(double: int, single: int, absolute: bool = False) -> Condition:
    def condition(x: Apply, arguments: Sequence[str]) -> str:
        number = f"fabs({arguments[0]})" if absolute else arguments[0]
        return f"({number} > {single if x.arguments[0].dtype == np.float32 else double})"

    return condition


def _plain(template: str) -> Condition:
    return lambda x, arguments: template.format(*arguments)


SILENT: dict[np.ufunc, Condition] = {
    **dict.fromkeys((np.log, np.log2, np.log10), _plain("({0} <= 0)")),
    np.log1p: _plain("({0} <= -1)"), np.power: _power, np.float_power: _power,
}  # fmt: skip
"""Functions of ours that raise no flag."""


def _zero(x: Apply, arguments: Sequence[str]) -> str:
    """A divisor that is zero."""
    return "" if isinstance(x.arguments[1], Number) and x.arguments[1].value else f"({arguments[1]} == 0)"


_NO_REST = _plain("(({1} == 0) | (fabs({0}) == INFINITY))")
SKIPPED: dict[np.ufunc, Condition] = {
    np.divide: _zero, np.reciprocal: _plain("({0} == 0)"),
    np.floor_divide: _NO_REST, np.remainder: _NO_REST, np.fmod: _NO_REST,
    np.sqrt: _plain("({0} < 0)"),
    np.exp: _beyond(709, 88), np.expm1: _beyond(709, 88), np.exp2: _beyond(1023, 127),
    np.sinh: _beyond(710, 89, absolute=True), np.cosh: _beyond(710, 89, absolute=True),
    np.arcsin: _plain("(fabs({0}) > 1)"), np.arccos: _plain("(fabs({0}) > 1)"),
    np.arccosh: _plain("({0} < 1)"), np.arctanh: _plain("(fabs({0}) >= 1)"),
    **dict.fromkeys((np.sin, np.cos, np.tan), _plain("(fabs({0}) == INFINITY)")),
}  # fmt: skip
"""Functions that raise flags where they are computed."""

DIVISIONS = frozenset((np.divide, np.floor_divide, np.remainder))


class Notes:
    """The notes of a function: for each of its statements the conditions, as C."""

    def __init__(self, body: Sequence[Statement]) -> None:
        statements = list(walk(body))
        self._skipped = _chosen(statements)  # names of numbers that a choice may not need
        self._found: dict[int, list[str]] = {}
        self._find(body, {})

    def of(self, s: Statement) -> list[str]:
        """Return the conditions for what a statement computes itself."""
        return self._found.get(id(s), [])

    def within(self, statements: Iterable[Statement]) -> bool:
        """Whether there are conditions for any of the statements."""
        return any(map(self.of, statements))

    def _find(self, body: Sequence[Statement], noted: Mapping[str, Set[str]]) -> None:
        """Find the conditions of statements, but for those that are `noted`, with the names that they read."""
        for s in body:
            found = dict.fromkeys(self._of(s))
            self._found[id(s)] = [x for x in found if x not in noted]
            reads = {part.buffer.name if isinstance(part, Load) else part.name for part in _named(s)}
            changed = {x.local.name for x in walk([s]) if isinstance(x, Assign)} | {b.name for b in uses_of(s).written}
            if not isinstance(s, While):  # a test that may not be computed again
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
                reads = any(isinstance(part, Load) for part in side.parts())  # what may lie outside of an array
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
        function = x.op.evaluate
        if x.arguments[0].dtype.kind != "f":
            return ""
        found = SILENT.get(function) or (SKIPPED.get(function) if skipped else None)
        if x.is_python and function in DIVISIONS:  # Python raises where the number divided is infinite, too
            found = _zero
        return found(x, [code_of(y).at(SUM) for y in x.arguments]) if found else ""


def _named(s: Statement) -> Iterator[Load | Local]:
    return (part for x in s.expressions for part in x.parts() if isinstance(part, Load | Local))


def _chosen(statements: Sequence[Statement]) -> set[str]:
    """Return the names of numbers that sides of choices are made of."""
    values = {s.local.name: s.value for s in statements if isinstance(s, Declare)}
    parts = (part for s in statements for x in s.expressions for part in x.parts())
    waiting = [side for x in parts if isinstance(x, Choose) for side in x.operands[1:]]
    found: set[str] = set()
    while waiting:
        for part in waiting.pop().parts():
            if isinstance(part, Local) and part.name in values and part.name not in found:
                found.add(part.name)
                waiting.append(values[part.name])
    return found
