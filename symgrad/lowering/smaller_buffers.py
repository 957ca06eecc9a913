"""Buffer contraction: a buffer that a single loop uses needs memory for one iteration; one number becomes a local."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from symgrad.lowering.expressions import ZERO, Expr, Load, Local, Number, extent
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Copy,
    Declare,
    For,
    Function,
    Multiply,
    Sort,
    Statement,
    Store,
    rewrite,
    walk,
)
from symgrad.lowering.uses import shared_axis


class Use(NamedTuple):
    """A use of a buffer: the loops around it, the suite and the statement with it, and the index."""

    loops: tuple[For, ...]
    suite: list[Statement]
    statement: Statement
    at: tuple[Expr, ...] | None


def without_needless_memory(function: Function) -> Function:
    """Drop each axis of a buffer that is the index of a loop around all of its uses; buffers of one number become
    locals.
    """
    uses: dict[Buffer, list[Use]] = {}
    gather(function.body, (), uses)
    smaller: dict[Buffer, tuple[Buffer, list[int]]] = {}  # with the axes that stay
    numbers: dict[Buffer, Local] = {}
    for b in function.buffers:
        if b.kind == "own" and b in uses:
            kept = _kept_axes(b, uses[b])
            if b.shape and not kept and _is_number(uses[b]):
                numbers[b] = Local(b.name, b.dtype)
            elif len(kept) < len(b.shape):
                smaller[b] = (replace(b, shape=tuple([b.shape[k] for k in kept])), kept)
    if smaller or numbers:
        Rewriting(smaller, numbers).suite(function.body)
    buffers = [smaller[b][0] if b in smaller else b for b in function.buffers if b not in numbers]
    return replace(function, buffers=buffers)


def gather(suite: list[Statement], loops: tuple[For, ...], found: dict[Buffer, list[Use]]) -> None:
    """Note the uses of all buffers in order of execution: reads of a statement before its write."""
    for s in suite:
        for x in s.expressions:
            for part in x.parts():
                if isinstance(part, Load):
                    found.setdefault(part.buffer, []).append(Use(loops, suite, s, part.index))
        if isinstance(s, Copy):
            found.setdefault(s.source, []).append(Use(loops, suite, s, None))
            found.setdefault(s.target, []).append(Use(loops, suite, s, None))
        elif isinstance(s, Multiply):
            for b, at in s.matrices:
                found.setdefault(b, []).append(Use(loops, suite, s, at))
        elif isinstance(s, Sort):
            for b, _ in s.written:
                found.setdefault(b, []).append(Use(loops, suite, s, None))
        elif isinstance(s, Store):
            found.setdefault(s.buffer, []).append(Use(loops, suite, s, s.index))
        around = (*loops, s) if isinstance(s, For) else loops
        for body in s.bodies:
            gather(body, around, found)


def _kept_axes(b: Buffer, uses: Sequence[Use]) -> list[int]:
    """Return the axes that a buffer needs: all but those of loops that write each part before they read it."""
    everything = list(range(len(b.shape)))
    first, indices = uses[0], [use.at for use in uses]
    if not isinstance(first.statement, Store) or first.statement.combine is not None or None in indices:
        return everything
    common = [loop for k, loop in enumerate(first.loops) if all(len(u.loops) > k and u.loops[k] is loop for u in uses)]
    axes = {axis for loop in common if (axis := shared_axis(indices, loop.index)) is not None}
    fixed = [k for k in everything if k not in axes and all(at and isinstance(at[k], Number) for at in indices)]
    if len(fixed) + len(axes) == len(everything) and any(at and at[k] != ZERO for at in indices for k in fixed):
        return fixed if axes and _are_written_first(uses, fixed, common[-1].body) else everything
    inner = {loop.index.name: loop for loop in first.loops[len(common) :]}
    for k in set(everything) - axes:
        if all(at is not None and at[k] == ZERO for at in indices):
            axes.add(k)
            continue
        x = first.statement.index[k]
        loop = inner.pop(x.name, None) if isinstance(x, Local) else None
        if loop is None or (loop.start, loop.stop) != (ZERO, extent(b.shape[k])):
            return everything
    straight = first.suite is (first.loops[-1].body if first.loops else first.suite)
    return [k for k in everything if k not in axes] if straight else everything


def _are_written_first(uses: Sequence[Use], fixed: Sequence[int], suite: list[Statement]) -> bool:
    """Whether a suite writes each element before it reads it, or adds to it; `fixed` axes have constant indices."""
    there = set[tuple[Expr, ...]]()
    for use in uses:
        s, at = use.statement, use.at or ()
        element = tuple([at[k] for k in fixed])
        if isinstance(s, Store) and s.combine is None and s.index is at and use.suite is suite:
            there.add(element)
        elif element not in there:
            return False
    return True


def _is_number(uses: Sequence[Use]) -> bool:
    """Whether a name declared at the first use is in scope at all others."""
    first = uses[0]
    return bool(first.loops) and all(first.loops == use.loops[: len(first.loops)] for use in uses)


class Rewriting:
    """Replaces buffers by smaller ones, or by locals."""

    def __init__(self, smaller: Mapping[Buffer, tuple[Buffer, list[int]]], numbers: Mapping[Buffer, Local]) -> None:
        self.smaller, self.numbers = smaller, numbers
        self.names: dict[Buffer, Local] = {}  # buffer -> the local that has its value already

    def suite(self, suite: list[Statement]) -> None:
        changing = {s.local.name for s in walk(suite) if isinstance(s, Assign)}
        stored = Counter(s.buffer for s in walk(suite) if isinstance(s, Store))
        suite[:] = [y for s in suite if (y := self._one(s, changing, stored)) is not None]

    def _one(self, s: Statement, changing: Collection[str], stored: Mapping[Buffer, int]) -> Statement | None:
        rewrite(s, self.expression)
        if isinstance(s, Multiply):
            s.left, s.right = (replace(x, buffer=self._instead(x.buffer)) for x in (s.left, s.right))
            s.target = self._instead(s.target)
        if isinstance(s, Copy):
            s.target, s.source = self._instead(s.target), self._instead(s.source)
        if isinstance(s, Sort):
            s.keys, s.order, *s.spare = map(self._instead, (s.keys, s.order, *s.spare))
        for body in s.bodies:
            self.suite(body)
        if not isinstance(s, Store):
            return s
        if s.buffer in self.smaller:
            s.buffer, kept = self.smaller[s.buffer]
            s.index = tuple([s.index[k] for k in kept])
        elif s.buffer in self.numbers:
            return self._number(s, self.numbers[s.buffer], changing, stored)
        return s

    def _instead(self, b: Buffer) -> Buffer:
        """Return the replacement of a buffer that is used as a whole, and so keeps all axes."""
        return self.smaller[b][0] if b in self.smaller else b

    def _number(
        self, s: Store, local: Local, changing: Collection[str], stored: Mapping[Buffer, int]
    ) -> Statement | None:
        """Return a store as a declaration of a local, or an assignment to it; None if its value has a name already."""
        if s.buffer in self.names:
            return Assign(local, s.value, s.combine)
        only = stored[s.buffer] == 1
        if only and isinstance(s.value, Local) and s.value.name not in changing and s.value.dtype == local.dtype:
            self.names[s.buffer] = s.value
            return None
        self.names[s.buffer] = local
        return Declare(local, s.value, mutable=not only)

    def expression(self, x: Expr) -> Expr:
        x = x.with_operands(*map(self.expression, x.operands))
        if not isinstance(x, Load):
            return x
        if x.buffer in self.numbers:
            return self.names[x.buffer]
        if x.buffer in self.smaller:
            buffer, kept = self.smaller[x.buffer]
            return Load(buffer, tuple([x.index[k] for k in kept]))
        return x
