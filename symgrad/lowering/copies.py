"""Loops that do nothing but copy, as one statement: memory is copied at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symgrad.lowering.expressions import ONE, ZERO, Expr, Load, Local, extent, place_of, times
from symgrad.lowering.statements import Buffer, Copy, For, Function, Statement, Store


def with_copies(function: Function) -> Function:
    """Return a function in which nests that copy what lies together in memory are each one `Copy`."""
    return replace(function, body=_suite(function.body))


def _suite(statements: Sequence[Statement]) -> list[Statement]:
    return [_copy_of(s) or _with_copies_inside(s) for s in statements]


def _with_copies_inside(s: Statement) -> Statement:
    for body in s.bodies:
        body[:] = _suite(body)
    return s


def _copy_of(s: Statement) -> Copy | None:
    """Return the copy that a nest of loops is; None if it is none, or of what does not lie together in memory."""
    loops: list[For] = []
    while isinstance(s, For) and len(s.body) == 1 and s.start == ZERO:
        loops.append(s)
        (s,) = s.body
    if not loops or not isinstance(s, Store) or s.combine is not None or not isinstance(s.value, Load):
        return None
    if s.buffer is s.value.buffer or s.buffer.dtype != s.value.buffer.dtype:
        return None
    start, source_start = (_start(b, at, loops) for b, at in ((s.buffer, s.index), (s.value.buffer, s.value.index)))
    if start is None or source_start is None:
        return None
    count: Expr = ONE
    for loop in loops:
        count = times(count, loop.stop)
    return Copy(s.buffer, start, s.value.buffer, source_start, count)


def _start(b: Buffer, index: Sequence[Expr], loops: Sequence[For]) -> Expr | None:
    """Return where the numbers of a nest begin in a buffer, None if they do not lie there one after the other.

    Only the first extent of what is copied may be smaller than that of the buffer; axes of one number have no loop.
    """
    left, inner = list(loops), True
    first = len(index)
    for k in range(len(index) - 1, -1, -1):
        x, n = index[k], extent(b.shape[k])
        if left and isinstance(x, Local) and x.name == left[-1].index.name and inner:
            inner = left.pop().stop == n
            first = k
        elif x != ZERO or n != ONE:
            break
    if left or any(loop.index.name in x.names for x in index[:first] for loop in loops):
        return None
    return place_of(b.shape, index[:first])
