"""Loops that only copy contiguous memory, as one statement (memcpy)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from symgrad.lowering.expressions import (
    ZERO,
    Expr,
    Load,
    extent,
    place_of,
    plus,
    product_of,
    slope,
    times,
    with_known,
)
from symgrad.lowering.statements import Buffer, Copy, For, Function, Statement, Store, with_replaced


def with_copies(function: Function) -> Function:
    """Replace each nest that copies contiguous memory by a `Copy`."""
    copied = lambda s: [copy] if (copy := copy_of(s)) else None
    return replace(function, body=with_replaced(function.body, copied))


def copy_of(s: Statement) -> Copy | None:
    """Return a nest of loops as a copy; None if it does anything else, or memory is not contiguous."""
    loops: list[For] = []
    while isinstance(s, For) and len(s.body) == 1 and s.start == ZERO:
        loops.append(s)
        (s,) = s.body
    if not loops or not isinstance(s, Store) or s.combine is not None or not isinstance(s.value, Load):
        return None
    if s.buffer is s.value.buffer or s.buffer.dtype != s.value.buffer.dtype:
        return None
    places = [(s.buffer, s.index), (s.value.buffer, s.value.index)]
    if not all(_lies_together(b, at, loops) for b, at in places):
        return None
    first = {loop.index.name: ZERO for loop in loops}
    start, source_start = (place_of(b.shape, [with_known(i, first) for i in at]) for b, at in places)
    rows = [tuple(takewhile(lambda i: i.names.isdisjoint(first), at)) for _, at in places]
    return Copy(s.buffer, start, s.value.buffer, source_start, _count(loops), *rows)


def _lies_together(b: Buffer, index: Sequence[Expr], loops: Sequence[For]) -> bool:
    """Whether the iterations of a nest go through a buffer contiguously."""
    place: Expr = ZERO
    for k, i in enumerate(index):
        place = plus(place, times(i, product_of([extent(n) for n in b.shape[k + 1 :]])))
    return all(slope(place, loop.index.name) == _count(loops[k + 1 :]) for k, loop in enumerate(loops))


def _count(loops: Sequence[For]) -> Expr:
    """Return how many iterations a nest has."""
    return product_of([loop.stop for loop in loops])
