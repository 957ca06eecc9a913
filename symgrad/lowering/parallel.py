"""Parallel loops: those with independent iterations, of which threads run chunks."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from symgrad.core.shapes import product
from symgrad.lowering.expressions import ONE, ZERO, Expr, Local, Number, extent, product_of
from symgrad.lowering.smaller_buffers import Use, gather
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Copy,
    For,
    Function,
    Grow,
    Multiply,
    Parallel,
    Sort,
    Statement,
    Store,
    Tiles,
    walk,
    with_replaced,
)
from symgrad.lowering.uses import COMBINED, Uses, shared_axis, uses_of, work_of

PAYS = 500_000  # operations of a loop from which on threads may be worth it
SUMMED = 1000  # numbers of sums above which chunks take longer to clear and to add up than to wake threads for
LIGHT = 4  # operations of an iteration up to which it waits for memory, which threads share


def with_parallel_loops(function: Function) -> Function:
    """Mark outermost loops with independent iterations as `Parallel`, and long loops within loops that are not.

    Iterations write different elements of a buffer, or fill it before they read it (privatisation), or only accumulate
    into it (reduction).
    """
    iterations = Iterations(function)

    def marked(s: Statement) -> list[Statement] | None:
        loop = iterations.marked(s) if isinstance(s, For) else None
        return [loop] if loop and _may_pay(loop, is_outermost=any(s is x for x in function.body)) else None

    return replace(function, body=with_replaced(function.body, marked))


class Iterations:
    """Dependences between the iterations of the loops of a function."""

    def __init__(self, function: Function) -> None:
        self.uses: dict[Buffer, list[Use]] = {}
        gather(function.body, (), self.uses)

    def marked(self, s: For) -> Parallel | None:
        """Return a loop marked as parallel; None if its iterations may depend on each other."""
        inside = list(walk(s.body))
        if s.reverse or s.start != ZERO or any(_is_for_one_thread(x) for x in inside):
            return None
        if any(isinstance(x, For) and x.index.name == s.row.name for x in walk(s.iteration)):
            return None
        uses = uses_of(s)
        of_tiles = s.private if isinstance(s, Tiles) else ()
        shared = [b for b in uses.written if b not in of_tiles and shared_axis(uses.at(b), s.row) is None]
        private = [*of_tiles, *(b for b in shared if self._is_scratch(b, s))]
        summed: list[str | Buffer] = [*sorted(uses.names_set), *(b for b in shared if b not in private)]
        sums = [_sum_of(s, x, uses) for x in summed]
        found = [x for x in sums if x is not None]
        return Parallel(s, private, found) if len(found) == len(sums) else None

    def _is_scratch(self, b: Buffer, s: For) -> bool:
        """Whether a buffer can be private to iterations: only they use it, and each fills it first."""
        uses = self.uses[b]
        inside = all(any(loop is s for loop in use.loops) for use in uses)
        return b.kind == "own" and inside and fills(uses[0], b, s)


def _is_for_one_thread(s: Statement) -> bool:
    """Whether a statement must not be computed by several threads at once: BLAS has its own for large products."""
    return isinstance(s, Grow) or (isinstance(s, Multiply) and s.row is None)


def _may_pay(s: Parallel, is_outermost: bool) -> bool:
    """Whether threads may pay for a loop; an inner loop must surely be long."""
    count = s.loop.stop
    work = work_of(s.loop, count)
    if isinstance(work, Number) and work.value < LIGHT:
        return False
    summed = extent(sum([product(x.shape) for x, _ in s.sums if isinstance(x, Buffer)]))
    if isinstance(work, Number) and isinstance(count, Number) and isinstance(summed, Number):
        return bool(count.value * work.value >= PAYS * max(1, summed.value / SUMMED))
    return is_outermost


def fills(first: Use, b: Buffer, s: For, own: int | None = None) -> bool:
    """Whether the first use of a buffer in an iteration writes all of it, or all along the axes other than `own`."""
    depth = next(k for k, loop in enumerate(first.loops, start=1) if loop is s)
    inner, suite = first.loops[depth:], s.body
    for loop in inner:  # no branch lies between
        if not any(x is loop for x in suite):
            return False
        suite = loop.body
    if first.suite is not suite:
        return False
    at = _index_of_all(first, b)
    if at is None:
        return False
    stops = {loop.index.name: loop.stop for loop in inner if loop.start == ZERO}
    axes = [(x, extent(n)) for k, (x, n) in enumerate(zip(at, b.shape, strict=False)) if k != own]
    whole = [stops.pop(x.name, None) if isinstance(x, Local) else ONE if x == ZERO else None for x, _ in axes]
    return whole == [n for _, n in axes]


def _index_of_all(use: Use, b: Buffer) -> tuple[Expr, ...] | None:
    """Return the index along the first axes under which a use writes all elements; None if it may not."""
    s = use.statement
    if isinstance(s, Copy):
        return s.row if s.target is b and s.count == product_of([extent(n) for n in b.shape[len(s.row) :]]) else None
    if isinstance(s, Sort):
        return next(row for x, row in s.written if x is b)
    if isinstance(s, Multiply):
        return use.at if s.target is b and not s.adds else None
    return use.at if isinstance(s, Store) and s.combine is None else None


def _sum_of(s: For, x: str | Buffer, uses: Uses) -> tuple[Local | Buffer, np.ufunc] | None:
    """Return a reduction: a name or a buffer, and its ufunc; None if iterations do more than accumulate into it."""
    if isinstance(x, Buffer):
        way = uses.combined_by(x)
        return (x, way) if way is not None and x.dtype.kind in "fcib" else None
    found = [(y.local, y.combine) for y in walk(s.body) if isinstance(y, Assign) and y.local.name == x]
    is_read = any(x in e.names for y in walk(s.body) for e in y.expressions)
    ways = {combine for _, combine in found}
    if is_read or len(ways) != 1 or not ways <= {*COMBINED} or found[0][0].dtype.kind not in "fcib":
        return None
    return found[0][0], cast(np.ufunc, ways.pop())
