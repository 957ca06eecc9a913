"""Index checks sunk out of loops, since compilers do not vectorise a loop that any iteration may leave.

In the loop an index out of bounds sets a flag, and 0 is read instead. After the loop the flag is checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from symgrad.lowering.expressions import (
    ONE,
    TRUTH,
    ZERO,
    Apply,
    Choose,
    Convert,
    Expr,
    Extent,
    Local,
    Number,
    Whole,
    minus,
)
from symgrad.lowering.names import names_of
from symgrad.lowering.statements import Assign, Declare, For, Function, Require, Statement
from symgrad.lowering.uses import are_independent, is_heavy, is_many
from symgrad.ops.define import TABLE

NOTED = np.bitwise_or  # combines the flags of iterations


def with_checks_behind_loops(function: Function) -> Function:
    """Sink checks out of innermost loops whose iterations are independent and compute a lot."""
    return replace(function, body=_Checks(function).suite(function.body))


def may_be_noted(s: Require, body: Sequence[Statement]) -> bool:
    """Whether a check can be sunk out of a loop: the body declares the index that it checks."""
    return any(isinstance(x, Declare) and x.local.name == _name(s.index) for x in body)


def _name(index: Expr) -> str:
    return index.name if isinstance(index, Local) else ""


class _Checks:
    """Sinks the checks of a function out of its loops."""

    def __init__(self, function: Function) -> None:
        self.names, self.sizes = names_of(function), function.sizes

    def suite(self, statements: Sequence[Statement]) -> list[Statement]:
        found: list[Statement] = []
        for s in statements:
            for body in s.bodies:
                body[:] = self.suite(body)
            found += (isinstance(s, For) and self._noted(s)) or [s]
        return found

    def _noted(self, s: For) -> list[Statement]:
        """Return the flag, the loop that sets it, and the check of the flag; nothing if the checks stay."""
        checks = [x for x in s.body if isinstance(x, Require)]
        pays = checks and is_many(s) and is_heavy(s)
        if not pays or not all(self._holds_numbers(x.size) and may_be_noted(x, s.body) for x in checks):
            return []
        if not are_independent(replace(s, body=[x for x in s.body if not isinstance(x, Require)])):
            return []
        outside = Local(self.names.fresh("outside"))
        body: list[Statement] = []
        for x in s.body:
            own = [check for check in checks if isinstance(x, Declare) and _name(check.index) == x.local.name]
            if own and isinstance(x, Declare):
                body += self._clamped(x, own, outside)
            elif not isinstance(x, Require):
                body.append(x)
        loop = replace(s, body=body, sums=[*s.sums, (outside, NOTED)])
        return [Declare(outside, ZERO, mutable=True), loop, Require(outside, ONE)]

    def _holds_numbers(self, size: Expr) -> bool:
        """Whether an axis is known not to be empty."""
        if isinstance(size, Number):
            return bool(size.value > 0)
        if not isinstance(size, Extent) or not re.fullmatch(r"[\w +*]+", size.text):  # no subtraction
            return False
        return {*re.findall(r"[^\W\d]\w*", size.text)} <= {*self.sizes}

    def _clamped(self, x: Declare, checks: Sequence[Require], outside: Local) -> list[Statement]:
        """Declare an index, clamped to 0 and flagged where it is out of bounds."""
        either: Any = TABLE[np.logical_or]
        given = Local(self.names.fresh(f"{x.local.name}_given"), x.local.dtype, x.local.depends)
        is_outside = Local(self.names.fresh("is_outside"), TRUTH, x.local.depends)
        tests: list[Expr] = []
        for size, low, high in dict.fromkeys((x.size, x.low, x.high) for x in checks):
            tests += [Whole("<", given, minus(ZERO, size))] * low + [Whole(">=", given, size)] * high
        return [
            Declare(given, x.value),
            Declare(is_outside, reduce(lambda a, b: Apply(either, (a, b), TRUTH), tests)),
            Assign(outside, Convert(is_outside, ZERO.dtype), NOTED),
            Declare(x.local, Choose(is_outside, ZERO, given), x.mutable),
        ]
