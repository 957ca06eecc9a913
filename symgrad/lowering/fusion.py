"""Fuse loops: those over the same range become one where each iteration needs only what the same iteration has made.

The values of one sample are then computed one after the other while they are in the cache, and a buffer that only one
loop uses shrinks to what an iteration holds of it: to a row, or to a number that has no memory at all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf
from typing import NamedTuple

import numpy as np

from symgrad.core.sizes import Dim, symbols_of
from symgrad.lowering.expressions import ZERO, Apply, Choose, Convert, Expr, Extent, Load, Local, Number, Whole, extent
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
    Remark,
    Require,
    Statement,
    Store,
    While,
    walk,
)

_NAME = re.compile(r"[^\W\d]\w*")
FREE_ORDER = (np.add, np.multiply)  # which compilers combine in vectors where they are told that they may
BEGIN = -0.5  # a place before the first statement; what is declared before statement k lies at k - 0.5
NEAR = 8  # statements before a loop among which it looks for another
STREAMS = 16  # arrays of the caller's in one loop, as many as processors fetch ahead
MOST = 60  # operations of a loop in vectors: the numbers of more do not stay in registers
UNROLLED = 8  # iterations of a loop that compilers write out
CALLED = 0.9  # nanoseconds a number from which on an operator is worth vectors more than a shared loop


@dataclass
class Uses:
    """The buffers and names that a statement, with all inside of it, reads and writes."""

    read: dict[Buffer, list[tuple[Expr, ...] | None]] = field(default_factory=dict)
    written: dict[Buffer, list[tuple[Expr, ...] | None]] = field(default_factory=dict)
    names_read: set[str] = field(default_factory=set)
    names_set: set[str] = field(default_factory=set)  # that are there behind it

    @property
    def reads(self) -> set[Buffer | str]:
        return {*self.read, *self.names_read}

    @property
    def sets(self) -> set[Buffer | str]:
        return {*self.written, *self.names_set}

    @property
    def buffers(self) -> set[Buffer]:
        return {*self.read, *self.written}

    def at(self, buffer: Buffer) -> list[tuple[Expr, ...] | None]:
        return [*self.read.get(buffer, ()), *self.written.get(buffer, ())]

    def joined(self, other: Uses) -> Uses:
        """Return the uses of two statements."""
        read, written = (
            {b: [*x.get(b, ()), *y.get(b, ())] for b in {**x, **y}}
            for x, y in ((self.read, other.read), (self.written, other.written))
        )
        return Uses(read, written, self.names_read | other.names_read, self.names_set | other.names_set)


def uses_of(s: Statement) -> Uses:
    """Return what a statement does to buffers and names."""
    found, own = Uses(), set[str]()
    for inner in walk([s]):
        for x in inner.expressions:
            for part in x.parts():
                if isinstance(part, Load):
                    found.read.setdefault(part.buffer, []).append(part.index)
                elif isinstance(part, Local):
                    found.names_read.add(part.name)
                elif isinstance(part, Extent):
                    found.names_read.update(_NAME.findall(part.text))
        if isinstance(inner, Store):
            found.written.setdefault(inner.buffer, []).append(inner.index)
        elif isinstance(inner, Copy):
            found.read.setdefault(inner.source, []).append(None)
            found.written.setdefault(inner.target, []).append(None)
        elif isinstance(inner, Multiply):
            for factor in (inner.left, inner.right):
                found.read.setdefault(factor.buffer, []).append(None)
            found.written.setdefault(inner.target, []).append(None)
        elif isinstance(inner, Grow):
            found.written.setdefault(inner.buffer, []).append(None)
        elif isinstance(inner, Declare | Exact):
            (found.names_set if inner is s else own).add(inner.local.name)
        elif isinstance(inner, Assign):
            found.names_set.add(inner.local.name)
            found.names_read.add(inner.local.name)
        elif isinstance(inner, For):
            own.add(inner.index.name)
        elif isinstance(inner, While):
            (found.names_set if inner is s else own).add(inner.count.name)
    found.names_set -= own
    found.names_read -= own
    found.names_read |= {name for b in found.buffers for n in b.shape if isinstance(n, Dim) for name in symbols_of(n)}
    return found


# ---- one loop of several


def fused(function: Function) -> Function:
    """Return a function with loops fused, and without the memory that this makes needless."""
    return without_needless_memory(replace(function, body=_suite(function.body)))


def _suite(statements: Sequence[Statement], said: Remark | None = None) -> list[Statement]:
    """Fuse the loops of a suite, and those within them; a remark has been said above it."""
    plan = _Plan()
    remark = said
    for s in statements:
        if isinstance(s, Remark):
            remark = s
        else:
            plan.add(s, remark)
    return plan.statements(said)


@dataclass
class _Slot:
    """A statement at its place, names that are declared before it, and, of a loop, all the loops that it has become."""

    before: list[tuple[Statement, Remark | None]]
    parts: list[tuple[Statement, Remark | None]]
    uses: Uses

    @property
    def loop(self) -> For | None:
        first = self.parts[0][0] if self.parts else None
        return first if isinstance(first, For) else None


class _Plan:
    """The statements of a suite in an order that brings loops together.

    A statement may come as early as all with which it conflicts have come before it: where one of the two writes what
    the other one reads or writes.
    """

    def __init__(self) -> None:
        self.slots: list[_Slot] = []
        self.behind: list[tuple[Statement, Remark | None]] = []  # declared behind the last slot
        self.sums: dict[str, tuple[Statement, Remark | None]] = {}  # begun where the first loop adds to them
        self.fills: dict[Buffer, tuple[For, Remark | None]] = {}  # as well, or in that loop
        self.last_read: dict[Buffer | str, float] = {}
        self.last_set: dict[Buffer | str, float] = {}
        self.barrier = BEGIN

    def add(self, s: Statement, remark: Remark | None) -> None:
        uses = uses_of(s)
        if isinstance(s, Declare) and s.mutable and isinstance(s.value, Number):
            self.sums[s.local.name] = (s, remark)
            return
        if isinstance(s, For) and (buffer := self._filled(s, uses)) is not None:
            self.fills[buffer] = (s, remark)
            return
        begun = [self.sums.pop(x) for x in sorted(self.sums.keys() & (uses.names_read | uses.names_set))]
        if isinstance(s, Declare):
            for total, line in begun:
                self._note(uses_of(total), self._declare(total, line, self.barrier))
        first = self._first(uses)
        filled = [self.fills.pop(b) for b in [b for b in self.fills if b in uses.buffers]]
        if isinstance(s, Declare):
            place = self._declare(s, remark, first)
        elif isinstance(s, For) and (k := self._companion(s, uses, first)) is not None:
            slot = self.slots[k]
            self._fill(filled, slot, s, uses)
            slot.parts.append((s, remark))
            slot.uses, place = slot.uses.joined(uses), float(k)
        else:
            slot = _Slot(self.behind, [], Uses())
            self._fill(filled, slot, s, uses)
            slot.parts.append((s, remark))
            slot.uses = slot.uses.joined(uses)
            self.slots.append(slot)
            self.behind, place = [], float(len(self.slots) - 1)
            if isinstance(s, Require):  # what stands behind it relies on it
                self.barrier = place
        if not isinstance(s, Declare):
            for total, line in begun:
                self.slots[int(place)].before.append((total, line))
                self._note(uses_of(total), place - 0.5)
        self._note(uses, place)

    def _note(self, uses: Uses, place: float) -> None:
        """Note the place of the last statement that reads or sets something."""
        for key in uses.reads:
            self.last_read[key] = max(place, self.last_read.get(key, BEGIN))
        for key in uses.sets:
            self.last_set[key] = max(place, self.last_set.get(key, BEGIN))

    def _filled(self, s: For, uses: Uses) -> Buffer | None:
        """Return the buffer that a loop fills with a number, if it does nothing else and nobody has used it yet."""
        if uses.read or uses.names_set or len(uses.written) != 1 or not uses.names_read.isdisjoint(self.last_set):
            return None
        (buffer,) = uses.written
        straight = all(isinstance(x, For) or (isinstance(x, Store) and x.combine is None) for x in walk([s]))
        is_new = not any(buffer in known for known in (self.last_read, self.last_set, self.fills))
        return buffer if straight and is_new else None

    def _fill(self, filled: Iterable[tuple[For, Remark | None]], slot: _Slot, s: Statement, uses: Uses) -> None:
        """Fill buffers in the loop that is the first to need them, or before it."""
        for fill, remark in filled:
            own = uses_of(fill)
            if isinstance(s, For) and _fit(fill, own, s, uses) and _fit(fill, own, slot.loop or s, slot.uses):
                slot.parts.append((fill, remark))
                slot.uses = slot.uses.joined(own)
            else:
                slot.before.append((fill, remark))

    def _first(self, uses: Uses) -> float:
        """Return the place of the last statement with which these uses conflict."""
        before = [self.last_set.get(key, BEGIN) for key in uses.reads | uses.sets]
        return max([self.barrier, *before, *(self.last_read.get(key, BEGIN) for key in uses.sets)])

    def _declare(self, s: Statement, remark: Remark | None, first: float) -> float:
        """Declare a name before the first loop that may come behind it."""
        k = floor(first + 1)
        target = self.slots[k].before if k < len(self.slots) else self.behind
        target.append((s, remark))
        return k - 0.5

    def _companion(self, s: For, uses: Uses, first: float) -> int | None:
        """Return the place of a loop that a loop may be fused with."""
        for k in range(max(ceil(first), len(self.slots) - NEAR), len(self.slots)):
            slot = self.slots[k]
            if slot.loop is not None and (slot.uses.buffers & uses.buffers) and _may_fuse(slot, s, uses):
                return k
        return None

    def statements(self, said: Remark | None) -> list[Statement]:
        """Return the statements in their new order, each with the user's line above it unless that was said."""
        found: list[Statement] = []

        def put(s: Statement, remark: Remark | None) -> None:
            nonlocal said
            if remark is not None and (said is None or (remark.where, remark.kind) != (said.where, said.kind)):
                found.append(remark)
                said = remark
            found.append(s)

        for slot in self.slots:
            for pair in slot.before:
                put(*pair)
            put(_joined(slot.parts), slot.parts[0][1])
            said = slot.parts[-1][1]
        for pair in (*self.behind, *self.sums.values(), *self.fills.values()):
            put(*pair)
        return found


def _may_fuse(slot: _Slot, s: For, uses: Uses) -> bool:
    """Whether a loop may be fused with those of a slot, and is faster so."""
    assert slot.loop is not None
    few = sum(b.kind != "own" for b in slot.uses.buffers | uses.buffers) <= STREAMS
    return few and _fit(slot.loop, slot.uses, s, uses) and _are_alike(slot, s)


def _fit(a: For, uses_a: Uses, b: For, uses_b: Uses) -> bool:
    """Whether two loops, one behind the other, do the same as one with both of their bodies."""
    if a.reverse or b.reverse or a.index != b.index or a.stop != b.stop:
        return False
    if uses_a.names_set & (uses_b.names_read | uses_b.names_set) or uses_a.names_read & uses_b.names_set:
        return False
    conflicts = (uses_b.buffers & uses_a.written.keys()) | (uses_a.buffers & uses_b.written.keys())
    return all(_axis(uses_a.at(x) + uses_b.at(x), a.index) is not None for x in conflicts)


def _axis(indices: Sequence[tuple[Expr, ...] | None], index: Local) -> int | None:
    """Return an axis that has the index of a loop in every use, so that iterations use numbers of their own alone."""
    if None in indices:
        return None
    is_index = lambda x: isinstance(x, Local) and x.name == index.name
    return min(set.intersection(*[{k for k, x in enumerate(at or ()) if is_index(x)} for at in indices]), default=None)


def are_independent(s: For) -> bool:
    """Whether iterations of an innermost loop may run at once: none uses what another one writes, sums aside."""
    if not _is_flat(s) or any(isinstance(x, Require | Exact | Grow | Copy | Multiply) for x in s.body):
        return False
    uses, sums = uses_of(s), {local.name for local, _ in s.sums}
    read = {name for x in s.body for y in x.expressions for name in y.names}
    return (
        uses.names_set <= sums
        and read.isdisjoint(sums)
        and all(_axis(uses.at(b), s.index) is not None for b in uses.written)
    )


def _are_alike(slot: _Slot, s: For) -> bool:
    """Whether one loop is as fast as two: what compilers vectorise is not joined with what they do not."""
    loops = [part for part, _ in slot.parts if isinstance(part, For)]
    flat, vectors = _is_flat(s), _is_vector(s)
    if all(map(_is_flat, loops)) and flat:
        return all(_is_vector(x) == vectors for x in loops) and sum(map(_operations, (*loops, s))) <= MOST
    return not any(_calls(x) and (_is_vector(x) if _is_flat(x) else _is_unrolled(x)) for x in (*loops, s))


def _is_flat(s: For) -> bool:
    return not any(isinstance(x, For | While | If) for x in walk(s.body))


def _is_vector(s: For) -> bool:
    """Whether compilers run several iterations of an innermost loop at once."""
    for x in s.body:
        if isinstance(x, Require | Exact | Grow | Copy | Multiply):
            return False
        if isinstance(x, Store) and (x.combine is not None or not _is_along(x.index, s.index)):
            return False
    sums = {local.name for local, combine in s.sums if combine in FREE_ORDER}
    return all(x.local.name in sums for x in s.body if isinstance(x, Assign))


def _is_unrolled(s: For) -> bool:
    """Whether compilers unroll the loops inside of one, and run several of its iterations at once."""
    inside = list(walk(s.body))
    counts = [x.stop.value if isinstance(x.stop, Number) else inf for x in inside if isinstance(x, For)]
    plain = not any(isinstance(x, Require | Exact | Grow | Copy | Multiply | While | If) for x in inside)
    return plain and max(counts) <= UNROLLED


def _is_along(index: Sequence[Expr], i: Local) -> bool:
    """Whether numbers lie beside each other, iteration after iteration."""
    return i.name in index[-1].names and not any(i.name in x.names for x in index[:-1]) if index else False


def _operators(s: For) -> Iterator[Apply]:
    parts = (part for x in walk(s.body) for y in x.expressions for part in y.parts())
    return (part for part in parts if isinstance(part, Apply))


def _calls(s: For) -> bool:
    return any(x.op.nanoseconds >= CALLED for x in _operators(s))


def _operations(s: For) -> int:
    """Return how many instructions a loop has, about: functions have ten and more."""
    return sum(12 if x.op.nanoseconds >= CALLED else 1 for x in _operators(s))


def _joined(parts: Sequence[tuple[Statement, Remark | None]]) -> Statement:
    """Return one statement: a loop with the bodies of several, or one as it is, with loops inside fused."""
    first, said = parts[0]
    if isinstance(first, For):
        body = [*first.body]
        top = said
        sums = [*first.sums]
        for s, remark in parts[1:]:
            assert isinstance(s, For)
            if remark is not None and (said is None or (remark.where, remark.kind) != (said.where, said.kind)):
                body.append(remark)
                said = remark
            body += s.body
            sums += s.sums
        return For(first.index, first.stop, _suite(body, top), first.reverse, sums)
    if isinstance(first, While):
        return replace(first, head=_suite(first.head, said), body=_suite(first.body, said))
    if isinstance(first, If):
        return replace(first, then=_suite(first.then, said), otherwise=_suite(first.otherwise, said))
    return first


# ---- memory that one iteration needs


class _Use(NamedTuple):
    """A use of a buffer: the loops around it, the suite that it stands in, its statement, and at which index."""

    loops: tuple[For, ...]
    suite: list[Statement]
    statement: Statement
    at: tuple[Expr, ...] | None


def without_needless_memory(function: Function) -> Function:
    """Return a function whose buffers have no axis that a loop around all of their uses goes along.

    A number that is left of a buffer is a local one.
    """
    uses: dict[Buffer, list[_Use]] = {}
    _gather(function.body, (), uses)
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
        _Rewriting(smaller, numbers).suite(function.body)
    buffers = [smaller[b][0] if b in smaller else b for b in function.buffers if b not in numbers]
    return replace(function, buffers=buffers)


def _gather(suite: list[Statement], loops: tuple[For, ...], found: dict[Buffer, list[_Use]]) -> None:
    """Note the uses of all buffers in their order: what a statement reads before what it writes."""
    for s in suite:
        for x in s.expressions:
            for part in x.parts():
                if isinstance(part, Load):
                    found.setdefault(part.buffer, []).append(_Use(loops, suite, s, part.index))
        if isinstance(s, Copy):
            found.setdefault(s.source, []).append(_Use(loops, suite, s, None))
            found.setdefault(s.target, []).append(_Use(loops, suite, s, None))
        elif isinstance(s, Multiply):
            for b in (s.left.buffer, s.right.buffer, s.target):
                found.setdefault(b, []).append(_Use(loops, suite, s, None))
        elif isinstance(s, Store):
            found.setdefault(s.buffer, []).append(_Use(loops, suite, s, s.index))
        around = (*loops, s) if isinstance(s, For) else loops
        for body in s.bodies:
            _gather(body, around, found)


def _kept_axes(b: Buffer, uses: Sequence[_Use]) -> list[int]:
    """Return the axes that a buffer needs: not those of loops whose iterations fill their parts before they read."""
    everything = list(range(len(b.shape)))
    first, indices = uses[0], [use.at for use in uses]
    if not isinstance(first.statement, Store) or first.statement.combine is not None or None in indices:
        return everything
    common = [loop for k, loop in enumerate(first.loops) if all(len(u.loops) > k and u.loops[k] is loop for u in uses)]
    axes = {axis for loop in common if (axis := _axis(indices, loop.index)) is not None}
    inner = {loop.index.name: loop for loop in first.loops[len(common) :]}
    for k in set(everything) - axes:
        if all(at is not None and at[k] == ZERO for at in indices):
            axes.add(k)
            continue
        x = first.statement.index[k]
        loop = inner.pop(x.name, None) if isinstance(x, Local) else None
        if loop is None or loop.stop != extent(b.shape[k]):
            return everything
    straight = first.suite is (first.loops[-1].body if first.loops else first.suite)
    return [k for k in everything if k not in axes] if straight else everything


def _is_number(uses: Sequence[_Use]) -> bool:
    """Whether the first use stands where all others see a name that it declares."""
    first = uses[0]
    return bool(first.loops) and all(first.loops == use.loops[: len(first.loops)] for use in uses)


class _Rewriting:
    """Puts other buffers, and locals, in the place of some."""

    def __init__(self, smaller: Mapping[Buffer, tuple[Buffer, list[int]]], numbers: Mapping[Buffer, Local]) -> None:
        self.smaller, self.numbers = smaller, numbers
        self.names: dict[Buffer, Local] = {}  # of numbers that have one already

    def suite(self, suite: list[Statement]) -> None:
        changing = {s.local.name for s in walk(suite) if isinstance(s, Assign)}
        stored = Counter(s.buffer for s in walk(suite) if isinstance(s, Store))
        suite[:] = [y for s in suite if (y := self._one(s, changing, stored)) is not None]

    def _one(self, s: Statement, changing: Collection[str], stored: Mapping[Buffer, int]) -> Statement | None:
        for name in ("value", "start", "source_start", "count", "rows", "terms", "columns", "size", "stop", "test"):
            x = getattr(s, name, None)
            if isinstance(x, Expr) and not (name == "count" and isinstance(s, While)):
                setattr(s, name, self.expression(x))
        if isinstance(s, Require):
            s.index = self.expression(s.index)
        if isinstance(s, Multiply):
            s.left, s.right = (replace(x, start=self.expression(x.start)) for x in (s.left, s.right))
        for body in s.bodies:
            self.suite(body)
        if not isinstance(s, Store):
            return s
        s.index = tuple(map(self.expression, s.index))
        if s.buffer in self.smaller:
            s.buffer, kept = self.smaller[s.buffer]
            s.index = tuple([s.index[k] for k in kept])
        elif s.buffer in self.numbers:
            return self._number(s, self.numbers[s.buffer], changing, stored)
        return s

    def _number(
        self, s: Store, local: Local, changing: Collection[str], stored: Mapping[Buffer, int]
    ) -> Statement | None:
        """Return the statement that gives a number a name, or another value; None where it has a name already."""
        if s.buffer in self.names:
            return Assign(local, s.value, s.combine)
        only = stored[s.buffer] == 1
        if only and isinstance(s.value, Local) and s.value.name not in changing and s.value.dtype == local.dtype:
            self.names[s.buffer] = s.value
            return None
        self.names[s.buffer] = local
        return Declare(local, s.value, mutable=not only)

    def expression(self, x: Expr) -> Expr:
        if isinstance(x, Load):
            index = tuple(map(self.expression, x.index))
            if x.buffer in self.numbers:
                return self.names[x.buffer]
            if x.buffer in self.smaller:
                buffer, kept = self.smaller[x.buffer]
                return Load(buffer, tuple([index[k] for k in kept]))
            return Load(x.buffer, index)
        if isinstance(x, Apply):
            return replace(x, arguments=tuple(map(self.expression, x.arguments)))
        if isinstance(x, Convert):
            return replace(x, operand=self.expression(x.operand))
        if isinstance(x, Choose):
            return Choose(*map(self.expression, x.operands))
        if isinstance(x, Whole):
            return replace(x, left=self.expression(x.left), right=self.expression(x.right))
        return x
