"""Sharing of memory between buffers of one shape that are not live at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symgrad.core.shapes import product
from symgrad.lowering.smaller_buffers import Rewriting
from symgrad.lowering.statements import Buffer, Function, Parallel, Tiles, walk
from symgrad.lowering.uses import uses_of

FEW = 256  # numbers of a buffer up to which its memory does not matter


def with_shared_memory(function: Function) -> Function:
    """Let a buffer reuse the memory of another of its dtype and shape that is dead.

    Liveness is that between top-level statements of the function: an outermost loop is one of them.
    """
    begins, ends = _spans(function)
    inside = [*walk(function.body)]
    apart = {x for s in inside if isinstance(s, Parallel | Tiles) for x in s.private}
    apart |= {x for s in inside if isinstance(s, Parallel) for x, _ in s.sums if isinstance(x, Buffer)}
    free: dict[tuple[str, str], list[Buffer]] = {}
    instead: dict[Buffer, Buffer] = {}
    then: dict[Buffer, list[str]] = {}
    last = dict(ends)
    for b in sorted((b for b in function.buffers if b in begins), key=begins.__getitem__):
        if b.kind != "own" or b in apart or _is_few(b):
            continue
        there = free.setdefault((b.dtype.name, str(b.shape)), [])
        before = next((x for x in there if last[x] < begins[b]), None)
        if before is None:
            there.append(b)
        else:
            instead[b], last[before] = before, ends[b]
            then.setdefault(before, []).append(b.name)
    if not instead:
        return function
    named = {b: replace(b, then=tuple(names)) for b, names in then.items()}
    instead = {b: named[x] for b, x in instead.items()} | named
    Rewriting({b: (x, list(range(len(b.shape)))) for b, x in instead.items()}, {}).suite(function.body)
    buffers: Sequence[Buffer] = [instead.get(b, b) for b in function.buffers]
    return replace(function, buffers=list(dict.fromkeys(buffers)))


def _spans(function: Function) -> tuple[dict[Buffer, int], dict[Buffer, int]]:
    """Return the numbers of the statements that use each buffer first, and last."""
    begins: dict[Buffer, int] = {}
    ends: dict[Buffer, int] = {}
    for k, s in enumerate(function.body):
        for b in uses_of(s).buffers:
            begins.setdefault(b, k)
            ends[b] = k
    return begins, ends


def _is_few(b: Buffer) -> bool:
    count = product(b.shape)
    return isinstance(count, int) and count <= FEW
