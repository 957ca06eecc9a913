"""Bounds of integers, from the ranges of loops and the conditions of branches around a statement, and from sizes.

Each fact is an affine expression that is at least 0. Questions are answered by Fourier-Motzkin elimination: an
expression is at least 0 if it is a positive multiple of a fact plus a rest that is at least 0.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, cast

import numpy as np

from symgrad.core.graph import Op
from symgrad.lowering.expressions import (
    ARITHMETIC,
    ONE,
    TRUTH,
    WHOLE,
    ZERO,
    Apply,
    Convert,
    Expr,
    Extent,
    Load,
    Local,
    Number,
    Whole,
    divided,
    largest_bits,
    minus,
    plus,
    remainder,
    times,
)
from symgrad.ops.define import TABLE

Linear = Mapping[Expr, Fraction | int]
"""An affine expression: a factor for each integer, and the constant as the factor of ONE."""

MOST = 100  # most expressions that are looked at for an answer
LARGEST = Number(1 << 48)  # bound of all sizes: they count what fits in memory
MAXIMUM, MINIMUM = (cast(Op, TABLE[f]) for f in (np.maximum, np.minimum))
SYMBOLS: Mapping[Any, str] = {np.add: "+", np.subtract: "-", np.multiply: "*"}
COMPARED: Mapping[Any, tuple[str, bool]] = {
    np.less: ("<", True), np.greater_equal: ("<", False), np.equal: ("==", True), np.not_equal: ("==", False),
}  # fmt: skip
"""Comparisons of two numbers as ``<`` and ``==``, or their opposite."""
TURNED = {np.greater: np.less, np.less_equal: np.greater_equal}  # with the operands exchanged
JOINED = {np.logical_and: True, np.bitwise_and: True, np.logical_or: False, np.bitwise_or: False}
DIVISIONS = (np.floor_divide, np.remainder)
NEGATED = (np.logical_not, np.invert)


class Bounds(Collection[str]):
    """Facts about integers that hold where a statement is written.

    As a collection it has the names of integers that are known to be at most `LARGEST` in magnitude.
    """

    def __init__(self, sizes: Collection[str]) -> None:
        self._facts: list[Linear] = []
        self._of_nest: dict[Expr, list[Linear]] = {}  # facts about indices of a nest, whose names other nests share
        self._lines: dict[str, Linear] = {}  # name -> affine expression of other names
        self._values: dict[str, Expr] = {}  # name -> value that is not affine
        self._implied: dict[tuple[str, bool], Sequence[tuple[Expr, bool]]] = {}
        self._age: dict[Expr, int] = {}
        self._open: set[object] = set()  # questions that are being answered
        self._steps = 0
        for name in sizes:
            self._add(self._difference(Local(name), ONE), self._difference(LARGEST, Local(name)))

    # ---- facts

    def define(self, local: Local, value: Expr, fits: bool = False) -> None:
        """Note the value of an immutable name; `fits` says that it is known to fit into 64 bits."""
        line = self._linear(value, fits) if local.dtype == WHOLE else None
        if line is None:
            self._values[local.name] = value
        else:
            self._lines[local.name] = line

    def imply(self, local: Local, holds: bool, tests: Sequence[tuple[Expr, bool]]) -> None:
        """Note that tests have these truth values where a boolean name `holds` or does not."""
        self._implied[local.name, holds] = tests

    @contextmanager
    def nested(self, indices: Sequence[tuple[Local, Expr]]) -> Iterator[None]:
        """Enter a nest of loops over indices up to sizes; facts about the indices of the nest before are put aside."""
        outer, self._of_nest = self._of_nest, {}
        for index, size in indices:
            self._age.setdefault(_atom(index), len(self._age))
            known = self._of_nest[_atom(index)] = [{_atom(index): 1}]
            known += [self._without_extremes(x) for x in [self._less(index, size)] if x is not None]
        try:
            yield
        finally:
            self._of_nest = outer

    @contextmanager
    def counting(self, index: Local, stop: Expr | None) -> Iterator[None]:
        """Enter a loop whose index counts from 0, up to `stop` if given."""
        with self._within():
            self._add(self._difference(index, ZERO), None if stop is None else self._less(index, stop))
            yield

    @contextmanager
    def counted(self, x: Local, first: Expr, steps: Collection[int]) -> Iterator[None]:
        """Enter a loop in which a name starts as `first`, and each iteration adds one of `steps` to it."""
        with self._within():
            if min(steps) >= 0:
                self._add(self._difference(x, first))
            if max(steps) <= 0:
                self._add(self._difference(first, x))
            yield

    @contextmanager
    def where(self, test: Expr, holds: bool = True) -> Iterator[None]:
        """Enter a branch in which a test is true, or is not."""
        with self._within():
            self._test(test, holds)
            yield

    @contextmanager
    def _within(self) -> Iterator[None]:
        count = len(self._facts)
        try:
            yield
        finally:
            del self._facts[count:]

    def _add(self, *facts: Linear | None) -> None:
        for fact in facts:
            if fact is not None:
                self._facts.append(self._without_extremes(fact))
                for x in fact:
                    self._age.setdefault(x, len(self._age))

    def _without_extremes(self, fact: Linear) -> Linear:
        """Replace a maximum or minimum in a fact by one of its arguments, if the others contradict the fact.

        An index below ``max(m, 0)`` is below m, since none is below 0.
        """
        for x, factor in fact.items():
            value = self._value(x)
            if not isinstance(value, Apply) or value.op is not (MAXIMUM if factor > 0 else MINIMUM):
                continue
            cases = [self._instead(fact, x, y) for y in value.arguments]
            left = [y for y in cases if y is None or not self._holds(_sum({ONE: -1}, y, -1))]
            if len(left) == 1 and left[0] is not None:
                return self._without_extremes(left[0])
        return fact

    def _instead(self, line: Linear, x: Expr, value: Expr) -> Linear | None:
        """Return an affine expression with `value` substituted for `x`."""
        other = self._linear(value)
        return None if other is None else _sum(line, _sum(other, {x: 1}, -1), line[x])

    def _test(self, test: Expr, holds: bool) -> None:
        if isinstance(test, Convert) and test.operand.dtype == TRUTH:
            test = test.operand
        if isinstance(test, Local):
            for x, is_true in self._implied.get((test.name, holds), ()):
                self._test(x, is_true)
            if test.name in self._values:
                self._test(self._values[test.name], holds)
        elif isinstance(test, Whole) and test.symbol in ("<", "==", ">="):
            symbol = "==" if test.symbol == "==" else "<"
            self._compare(symbol, test.left, test.right, holds == (test.symbol != ">="))
        elif isinstance(test, Apply):
            self._apply(test, holds)

    def _apply(self, test: Apply, holds: bool) -> None:
        function, operands = test.op.evaluate, [*test.arguments]
        if function in TURNED:
            function, operands = TURNED[function], operands[::-1]
        if function in COMPARED:
            symbol, is_same = COMPARED[function]
            self._compare(symbol, operands[0], operands[1], holds == is_same)
        elif function in NEGATED and operands[0].dtype == TRUTH:
            self._test(operands[0], not holds)
        elif JOINED.get(function) is holds and all(x.dtype == TRUTH for x in operands):
            for x in operands:
                self._test(x, holds)

    def _compare(self, symbol: str, a: Expr, b: Expr, holds: bool) -> None:
        if a.dtype != WHOLE or b.dtype != WHOLE:
            return
        ahead, behind = self._difference(a, b), self._difference(b, a)
        if ahead is None or behind is None:
            return
        if symbol == "<":
            self._add(self._less(a, b) if holds else ahead)
        elif holds:
            self._add(ahead, behind)
        else:
            self._add(*[_sum(x, {ONE: -1}) for x in (ahead, behind) if self._holds(x)])

    # ---- questions

    def at_least(self, a: Expr, b: Expr) -> bool:
        """Whether an integer is known to be at least as large as another."""
        difference = self._difference(a, b)
        return difference is not None and self._holds(difference)

    def is_known(self, x: Expr) -> bool:
        """Whether an integer can have facts: it is not read from memory that may be written."""
        return self._linear(x) is not None

    def __contains__(self, name: object) -> bool:
        x = Local(str(name))
        with self._asked(name) as is_new:
            return is_new and self.at_least(LARGEST, x) and self.at_least(x, Number(-LARGEST.value))

    def __iter__(self) -> Iterator[str]:
        return (x.name for x in self._age if isinstance(x, Local) and x.name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @contextmanager
    def _asked(self, question: object) -> Iterator[bool]:
        """Mark a question as being answered; yield whether it is not being answered already, which would be a cycle."""
        if not self._open:
            self._steps = 0
        is_new = question not in self._open
        self._open |= {question}
        try:
            yield is_new
        finally:
            self._open -= {question} if is_new else set()

    def _holds(self, goal: Linear) -> bool:
        """Whether an affine expression is known to be at least 0."""
        with self._asked(frozenset(goal.items())) as is_new:
            return is_new and self._follows(goal, set())

    def _follows(self, goal: Linear, seen: set[frozenset[tuple[Expr, Any]]]) -> bool:
        """Whether facts imply that an affine expression is at least 0; those in `seen` are not tried again."""
        names, key = [x for x in goal if x != ONE], frozenset(goal.items())
        if not names:
            return goal.get(ONE, 0) >= 0
        self._steps += 1
        if key in seen or self._steps > MOST:
            return False
        seen.add(key)
        x = max(names, key=self._order)
        factor = goal[x]
        # an index of a nest says nothing of what stands before its loop, which may have no iterations
        for fact in (*self._facts_about(x), *self._of_nest.get(x, ()), *reversed(self._facts)):
            if fact.get(x, 0) * factor > 0 and self._follows(_sum(goal, fact, -Fraction(factor) / fact[x]), seen):
                return True
        if isinstance(value := self._value(x), Apply) and value.op in (MAXIMUM, MINIMUM):
            cases = [self._instead(goal, x, y) for y in value.arguments]
            some = all if (value.op is MINIMUM) == (factor > 0) else any
            return some(y is not None and self._follows(y, seen) for y in cases)
        return False

    def _order(self, x: Expr) -> tuple[bool, int]:
        """Return the key by which names are eliminated: names with facts that mention older ones come after these."""
        return not isinstance(x, Local), self._age.get(x, len(self._age))

    def _value(self, x: Expr) -> Expr:
        return self._values.get(x.name, x) if isinstance(x, Local) else x

    def _facts_about(self, x: Expr) -> list[Linear]:
        """Return facts about the result of an operator."""
        value = self._value(x)
        if isinstance(value, Load) and value.buffer.value is not None and value.buffer.value.size:
            return [
                {x: 1, ONE: -int(value.buffer.value.min())},
                {x: -1, ONE: int(value.buffer.value.max())},
            ]
        if isinstance(value, Whole) and value.symbol in ("/", "%"):
            with self._asked(x) as is_new:  # the operands are said to be at least 0, in sizes as well
                return self._of_division(x, value.symbol == "%", *value.operands) if is_new else []
        if isinstance(value, Apply) and value.dtype == WHOLE and value.op.evaluate in DIVISIONS:
            with self._asked(x) as is_new:
                return self._of_division(x, value.op.evaluate is np.remainder, *value.arguments) if is_new else []
        return []

    def _of_division(self, x: Expr, is_remainder: bool, a: Expr, b: Expr) -> list[Linear]:
        """Return facts about a floor quotient or its remainder; in C both operands are at least 0."""
        if not self.at_least(a, ZERO) or not self.at_least(b, ONE):
            return []
        dividend, divisor = self._linear(a), self._linear(b)
        found: list[Linear] = [{x: 1}]
        if is_remainder:
            found += [_sum(y, {x: -1, ONE: k}) for k, y in enumerate((divisor, dividend), start=-1) if y is not None]
        elif dividend is not None and isinstance(b, Number):
            rest = _sum(dividend, {x: 1}, -b.value)
            found += [rest, _sum({ONE: b.value - 1}, rest, -1)]
        return found

    # ---- sums

    def _difference(self, a: Expr, b: Expr) -> Linear | None:
        left, right = self._linear(a), self._linear(b)
        return None if left is None or right is None else _sum(left, right, -1)

    def _less(self, a: Expr, b: Expr) -> Linear | None:
        """Return the affine expression that is at least 0 if an integer is less than another."""
        difference = self._difference(b, a)
        return None if difference is None else _sum(difference, {ONE: -1})

    def _linear(self, x: Expr, fits: bool = False) -> Linear | None:
        """Return an integer as an affine expression; None if it is read from memory that may be written."""
        if isinstance(x, Number):
            return {ONE: int(x.value)} if x.value else {}
        if isinstance(x, Local) and x.name in self._lines:
            return self._lines[x.name]
        if isinstance(x, Extent):
            size = _parsed(x.text)
            return {size: 1} if isinstance(size, Extent) else self._linear(size)
        if isinstance(x, Convert) and x.operand.dtype == WHOLE:
            return self._linear(x.operand)
        if (found := self._arithmetic(x, fits)) is not None:
            return found
        return {_atom(x): 1} if all(map(_stays, x.parts())) else None

    def _arithmetic(self, x: Expr, fits: bool) -> Linear | None:
        """Return sums, differences and multiples as an affine expression; None if they may not fit into 64 bits."""
        symbol = x.symbol if isinstance(x, Whole) else SYMBOLS.get(x.op.evaluate) if isinstance(x, Apply) else None
        if symbol not in ARITHMETIC or x.dtype != WHOLE or any(y.dtype != WHOLE for y in x.operands):
            return None
        left, right = (self._linear(y) for y in x.operands)
        if left is None or right is None or not (fits or largest_bits(Whole(symbol, *x.operands), self) < 64):
            return None
        if symbol == "*":
            left, right = (right, left) if {*right} - {ONE} else (left, right)
            return None if {*right} - {ONE} else _sum({}, left, right.get(ONE, 0))
        return _sum(left, right, 1 if symbol == "+" else -1)


def _sum(a: Linear, b: Linear, factor: Fraction | int = 1) -> Linear:
    """Return an affine expression plus a multiple of another."""
    found = {**a}
    for x, n in b.items():
        found[x] = found.get(x, 0) + factor * n
    return {x: n for x, n in found.items() if n}


def _atom(x: Expr) -> Expr:
    """Return an expression as a key of `Linear`: a name without what it depends on."""
    return Local(x.name) if isinstance(x, Local) else x


def _stays(x: Expr) -> bool:
    """Whether an expression has one value everywhere: it is not read from memory that may be written."""
    return not isinstance(x, Load) or x.buffer.kind in ("given", "constant")


@lru_cache(1024)
def _parsed(text: str) -> Expr:
    """Parse the text of a size, as far as it is arithmetic of symbols."""
    return _size(ast.parse(text, mode="eval").body)


def _size(x: ast.expr) -> Expr:
    if isinstance(x, ast.Name):
        return Local(x.id)
    if isinstance(x, ast.Constant) and type(x.value) is int:
        return Number(x.value)
    if isinstance(x, ast.UnaryOp) and isinstance(x.op, ast.USub):
        return minus(ZERO, _size(x.operand))
    if isinstance(x, ast.BinOp) and type(x.op) in _OPERATORS:
        return cast(Expr, _OPERATORS[type(x.op)](_size(x.left), _size(x.right)))
    if isinstance(x, ast.Call) and isinstance(x.func, ast.Name) and x.func.id in _EXTREMES:
        op = _EXTREMES[x.func.id]
        return reduce(lambda a, b: Apply(op, (a, b), WHOLE), map(_size, x.args))
    return Extent(ast.unparse(x))


_OPERATORS: Mapping[type, Any] = {
    ast.Add: plus, ast.Sub: minus, ast.Mult: times, ast.FloorDiv: divided, ast.Mod: remainder,
}  # fmt: skip
_EXTREMES = {"max": MAXIMUM, "min": MINIMUM}
