"""Verifier of statements for C: memory is written before it is read, and names are used in scope."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from symgrad.errors import GraphError
from symgrad.lowering.expressions import Expr, Extent, Load, Local
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Copy,
    Declare,
    Exact,
    For,
    Function,
    Grow,
    If,
    Multiply,
    Parallel,
    Sort,
    Statement,
    Store,
    While,
    walk,
)
from symgrad.lowering.uses import uses_of

REPORT = "The lowering is wrong: report it with the function."


def verify(function: Function) -> None:
    """Check the statements of a function.

    Raises
    ------
    GraphError
        That names the first statement which reads memory that nothing has written, mentions a name that is not
        declared there, assigns to one that may not change, or writes into what belongs to the caller.
    """
    names = {*function.sizes, *(x.name for x in function.parameters if isinstance(x, Local))}
    there = {x for x in function.parameters if isinstance(x, Buffer)}
    there |= {b for b in function.buffers if b.kind == "constant"}
    _Check(function).walk(function.body, names, set(), there)


class _Check:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.declared = _declared([*walk(function.body)])

    def walk(
        self,
        statements: Sequence[Statement],
        names: Collection[str],
        mutable: Collection[str],
        there: Collection[Buffer],
    ) -> set[Buffer]:
        """Check the statements of a suite, and return the buffers that are written after it."""
        names, mutable, there = set(names), set(mutable), set(there)
        for s in statements:
            for x in s.expressions:
                if not isinstance(s, While):
                    self._read(s, x, names, there)
            if isinstance(s, Declare | Exact):
                self._hold(s.local.name not in names, s, "it declares a name again")
                names.add(s.local.name)
                if isinstance(s, Declare) and s.mutable:
                    mutable.add(s.local.name)
            elif isinstance(s, Assign):
                self._hold(s.local.name in mutable, s, "it assigns to a name that may not change")
            elif isinstance(s, Store):
                self._hold(s.combine is None or s.buffer in there, s, "it adds to what nothing has written")
                self._write(s, s.buffer, there)
            elif isinstance(s, Copy):
                self._hold(s.source in there, s, f"nothing has written {s.source.name}")
                self._write(s, s.target, there)
            elif isinstance(s, Multiply):
                for factor in (s.left.buffer, s.right.buffer):
                    self._hold(factor in there, s, f"nothing has written {factor.name}")
                    self._hold(factor is not s.target, s, "a product is written over its factor")
                self._hold(s.target in there or not s.adds, s, "it adds to what nothing has written")
                self._write(s, s.target, there)
            elif isinstance(s, Sort):
                self._hold(s.keys in there, s, f"nothing has written {s.keys.name}")
                for b, _ in s.written:
                    self._write(s, b, there)
            elif isinstance(s, Grow):
                there.add(s.buffer)
            elif isinstance(s, For):
                there |= self.walk(s.body, names | s.names, mutable, there)
            elif isinstance(s, Parallel):
                elsewhere = (uses_of(s.loop).names_read & self.declared) - names
                self._hold(not elsewhere, s, f"its chunks are given {', '.join(elsewhere)}, which is not declared")
                there |= self.walk([s.loop], names, mutable, there)
            elif isinstance(s, While):
                if s.stop is not None:
                    self._read(s, s.stop, names, there)
                names.add(s.count.name)
                inside = _declared(s.head)
                there |= self.walk(s.head, names, mutable, there)
                self._read(s, s.test, names | inside, there)
                there |= self.walk(s.body, names | inside, mutable | _declared(s.head, mutable=True), there)
            elif isinstance(s, If):
                sides = [self.walk(side, names, mutable, there) for side in (s.then, s.otherwise)]
                there |= sides[0] & sides[1]
        return there

    def _read(self, s: Statement, x: Expr, names: Collection[str], there: Collection[Buffer]) -> None:
        for part in x.parts():
            if isinstance(part, Local):
                self._hold(part.name in names, s, f"{part.name} is not declared")
            elif isinstance(part, Extent):
                unknown = sorted(part.names - {*names})
                self._hold(not unknown, s, f"{', '.join(unknown)} is not declared")
            elif isinstance(part, Load):
                self._hold(part.buffer in there, s, f"nothing has written {part.buffer.name}")

    def _write(self, s: Statement, target: Buffer, there: set[Buffer]) -> None:
        self._hold(target.kind not in ("given", "constant"), s, "it writes into memory of the caller's")
        there.add(target)

    def _hold(self, holds: bool, s: Statement, fact: str) -> None:
        if not holds:
            raise GraphError(f"{self.function.name}, {s!r}: {fact}", REPORT)


def _declared(statements: Sequence[Statement], mutable: bool = False) -> set[str]:
    """Return the names that the statements of a suite declare."""
    if mutable:
        return {s.local.name for s in statements if isinstance(s, Declare) and s.mutable}
    return {s.local.name for s in statements if isinstance(s, Declare | Exact)}
