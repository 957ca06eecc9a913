"""Sums in straight lines: a number that is set and then added to is one expression, as a person would write it.

Loops over few terms that are unrolled leave such lines behind. An element that has been written from a name is read by
that name, so that a small matrix is not read back from memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import numpy as np

from symgrad.core.graph import Op
from symgrad.lowering.element_names import are_apart
from symgrad.lowering.expressions import Apply, Expr, Load, Local, Number, neutral
from symgrad.lowering.fewer_names import reads_of_names
from symgrad.lowering.statements import Assign, Buffer, Declare, Function, Statement, Store, rewrite, walk
from symgrad.lowering.uses import Uses, uses_of
from symgrad.ops.elementwise import ADD, MULTIPLY

MOST = 8  # terms of an expression: more of them fill many lines
OPERATORS: Mapping[np.ufunc, Op] = {np.add: ADD, np.multiply: MULTIPLY}
Index = tuple[Expr, ...]
Target = tuple[Buffer | str, Index]
"""An element of a buffer, or a name and no index."""


def with_straight_sums(function: Function) -> Function:
    """Merge a statement that sets a number with those of the same suite that add to it."""
    changing = _assigned(function.body)
    reads = reads_of_names(walk(function.body))
    partial = {s.adds_to for s in walk(function.body) if isinstance(s, Declare) and reads[s.adds_to] == 1}
    body = _suite(function.body, changing, partial)
    fixed = changing - _assigned(body)
    for s in walk(body):
        if isinstance(s, Declare) and s.local.name in fixed:
            s.mutable = False
    return replace(function, body=body)


def _assigned(body: list[Statement]) -> set[str]:
    return {s.local.name for s in walk(body) if isinstance(s, Assign)}


def _suite(statements: Iterable[Statement], changing: set[str], partial: set[str]) -> list[Statement]:
    line = _Line(changing, partial)
    for s in statements:
        for body in s.bodies:
            body[:] = _suite(body, changing, partial)
        line.add(s)
    return [s for s in line.statements if s is not None]


@dataclass
class _Sum:
    """A statement that sets a target, and moves down to the next one that adds to it."""

    place: int
    statement: Declare | Store
    terms: int


@dataclass
class _Line:
    """The statements of a suite in their new order, with None where one has moved down."""

    changing: set[str]
    partial: set[str]  # names that only the one reads that adds to them
    statements: list[Statement | None] = field(default_factory=list)
    sums: dict[Target, _Sum] = field(default_factory=dict)
    targets: dict[Buffer | str, set[Target]] = field(default_factory=dict)  # of the sums, by buffer or name
    readers: dict[Buffer | str, set[Target]] = field(default_factory=dict)  # of the sums, by what they read
    elements: dict[Buffer, dict[Index, Expr]] = field(default_factory=dict)  # the names of elements' values

    def add(self, s: Statement) -> None:
        """Append a statement, merged with the one that has set its target."""
        if not s.bodies:
            rewrite(s, self._named)
        merged = self._continued(s) if isinstance(s, Declare) and s.adds_to in self.partial else self._merged(s)
        uses = uses_of(s)
        self._leave(s, uses)
        if merged is not None:
            self.statements[merged.place] = None
            s = merged.statement
            self._begin(s, uses_of(s), merged.terms)
        elif self._may_go_on(s):
            self._begin(s, uses, 1)
        self.statements.append(s)
        self._learn(s, uses)

    def _merged(self, s: Statement) -> _Sum | None:
        """Return the sum to which a statement adds, with the new term; None if there is none, or it gets too long."""
        if not isinstance(s, Assign | Store) or s.combine not in OPERATORS:
            return None
        found, dtype = self.sums.get(_target(s)), s.value.dtype
        if (
            found is None
            or found.terms == MOST
            or _reads(s.value, _target(s)[0])
            or found.statement.value.dtype != dtype
            or dtype.kind not in "fc"
        ):
            return None
        begins = found.statement.value == neutral(s.combine, dtype)
        value = s.value if begins else Apply(OPERATORS[s.combine], (found.statement.value, s.value), dtype)
        return replace(found, statement=replace(found.statement, value=value), terms=found.terms + (not begins))

    def _continued(self, s: Declare) -> _Sum | None:
        """Return the sum of a name that another one adds to, under the other name; None if it cannot move there."""
        found, x = self.sums.get((s.adds_to, ())), s.value
        if found is None or found.terms == MOST or not isinstance(x, Apply) or len(x.arguments) != 2:
            return None
        before, term = x.arguments
        if not isinstance(before, Local) or before.name != s.adds_to or before.dtype != found.statement.value.dtype:
            return None
        value = x.with_operands(found.statement.value, term)
        return replace(found, statement=replace(s, value=value, adds_to=""), terms=found.terms + 1)

    def _may_go_on(self, s: Statement) -> TypeGuard[Declare | Store]:
        """Whether a statement sets a number that others may add to."""
        if isinstance(s, Declare):
            return s.mutable or s.local.name in self.partial
        return isinstance(s, Store) and s.combine is None

    def _begin(self, s: Declare | Store, uses: Uses, terms: int) -> None:
        target = _target(s)
        self.sums[target] = _Sum(len(self.statements), s, terms)
        self.targets.setdefault(target[0], set()).add(target)
        for key in uses.reads:
            self.readers.setdefault(key, set()).add(target)

    def _leave(self, s: Statement, uses: Uses) -> None:
        """Leave sums where they are if a statement uses their targets, or changes what they read."""
        left = {target for key in uses.sets for target in self.readers.get(key, ())}
        for key in uses.reads | uses.sets:
            for target in self.targets.get(key, ()):
                at = uses.at(key) if isinstance(key, Buffer) else [None]
                if not all(index is not None and are_apart(index, target[1]) for index in at):
                    left.add(target)
        for target in left:
            if self.sums.pop(target, None) is not None:
                self.targets[target[0]].discard(target)

    def _learn(self, s: Statement, uses: Uses) -> None:
        """Note the name of an element's value, and forget those of elements that a statement may have changed."""
        for b, written in uses.written.items():
            known = self.elements.get(b, {})
            self.elements[b] = {
                at: x for at, x in known.items() if all(index is not None and are_apart(index, at) for index in written)
            }
        if isinstance(s, Store) and s.combine is None and self._is_fixed(s) and s.value.dtype == s.buffer.dtype:
            self.elements.setdefault(s.buffer, {})[s.index] = s.value

    def _is_fixed(self, s: Store) -> bool:
        """Whether a store is of a number or a name, and neither that nor the index changes."""
        names = {name for x in s.expressions for name in x.names}
        loads = any(isinstance(part, Load) for x in s.index for part in x.parts())
        return isinstance(s.value, Number | Local) and names.isdisjoint(self.changing) and not loads

    def _named(self, x: Expr) -> Expr:
        if isinstance(x, Load) and (value := self.elements.get(x.buffer, {}).get(x.index)) is not None:
            return value
        return x.with_operands(*map(self._named, x.operands)) if x.operands else x


def _target(s: Declare | Assign | Store) -> Target:
    return (s.buffer, s.index) if isinstance(s, Store) else (s.local.name, ())


def _reads(x: Expr, key: Buffer | str) -> bool:
    """Whether an expression reads a buffer or a name."""
    return key in x.names or any(isinstance(part, Load) and part.buffer is key for part in x.parts())
