"""Loop fusion: loops over the same range become one where no iteration depends on another one of a loop before.

The values of one sample are then computed one after the other while they are in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor, inf

import numpy as np

from symgrad.core.graph import Op
from symgrad.lowering.checks import may_be_noted, with_checks_behind_loops
from symgrad.lowering.element_names import with_named_elements
from symgrad.lowering.expressions import Expr, Local, Number
from symgrad.lowering.fewer_names import share, with_fewer_names
from symgrad.lowering.masked_scatters import with_masked_scatters
from symgrad.lowering.smaller_buffers import without_needless_memory
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Check,
    Declare,
    Exact,
    For,
    Function,
    Grow,
    If,
    Multiply,
    Regular,
    Remark,
    Require,
    Sort,
    Statement,
    Store,
    While,
    walk,
)
from symgrad.lowering.straight_sums import with_straight_sums
from symgrad.lowering.unrolling import with_unrolled_loops
from symgrad.lowering.uses import (
    UNROLLED,
    Uses,
    are_independent,
    is_flat,
    is_heavy,
    operations,
    operators,
    shared_axis,
    uses_of,
)

FREE_ORDER = (
    np.add,
    np.multiply,
    np.maximum,
    np.minimum,
)  # compilers vectorise these reductions if allowed to reorder them
BEGIN = -0.5  # the place before the first statement; declarations and checks before statement k are at k - 0.5
Vectorises = Callable[[Op], bool]
NEAR = 8  # number of statements before a loop among which it looks for a loop to be fused with
STREAMS = 16  # most arrays of the caller's in one loop, as many as processors prefetch
MOST = 400  # most operations of a vectorised loop: compilers take long for more


def fused(function: Function, vectorises: Vectorises = lambda op: True) -> Function:
    """Fuse loops, contract buffers and unroll short loops, twice; then simplify what the loops compute.

    Checks sink behind loops, elements of small arrays get names, sums in straight lines become expressions, scatters of
    zeros are skipped, and needless names go.

    `vectorises` says whether compilers vectorise an operator.
    """
    for _ in range(2):  # loops that are unrolled may be fused with others then
        fewer = without_needless_memory(replace(function, body=_suite(function.body, vectorises)))
        function = with_unrolled_loops(fewer, vectorises)
        if function is fewer:
            break
    straight = with_straight_sums(with_named_elements(with_checks_behind_loops(function)))
    return with_fewer_names(with_masked_scatters(straight))


def _suite(statements: Sequence[Statement], vectorises: Vectorises, said: Remark | None = None) -> list[Statement]:
    """Fuse the loops of a suite, and those within them; `said` is the last remark above it."""
    plan = _Plan(vectorises)
    remark = said
    for s in statements:
        if isinstance(s, Remark):
            remark = s
        else:
            plan.add(s, remark)
    return plan.statements(said)


@dataclass
class _Slot:
    """A statement, or several loops to be fused, and the declarations and checks before it."""

    before: list[tuple[Statement, Remark | None]]
    parts: list[tuple[Statement, Remark | None]]
    uses: Uses

    @property
    def loop(self) -> For | None:
        first = self.parts[0][0] if self.parts else None
        return first if isinstance(first, For) else None


@dataclass
class _Kind:
    """Facts about a loop on which it depends with which others it is fused."""

    loop: For
    vectorises: Vectorises

    @cached_property
    def is_flat(self) -> bool:
        return is_flat(self.loop)

    @cached_property
    def operations(self) -> int:
        return operations(self.loop)

    @cached_property
    def is_heavy(self) -> bool:
        return is_heavy(self.loop)

    @cached_property
    def is_vectorised(self) -> bool:
        """Whether compilers vectorise it, after they have unrolled the loops inside."""
        return self.is_vector if self.is_flat else _is_unrolled(self.loop)

    @cached_property
    def is_vector(self) -> bool:
        """Whether compilers run several iterations of an innermost loop at once."""
        s = self.loop
        if not all(self.vectorises(x.op) for x in operators(s)):
            return False
        if are_independent(s):
            return True
        for x in s.body:
            if isinstance(x, Regular | Check | Exact | Grow | Multiply | Sort) or (
                isinstance(x, Require) and not may_be_noted(x, s.body)
            ):
                return False
            if isinstance(x, Store) and (x.combine is not None or not _is_along(x.index, s.index)):
                return False
        sums = {local.name for local, combine in s.sums if combine in FREE_ORDER}
        return all(x.local.name in sums for x in s.body if isinstance(x, Assign))


class _Plan:
    """The statements of a suite, reordered so that loops can be fused.

    A statement may move up to the last one with which it conflicts: one of the two writes what the other uses.
    """

    def __init__(self, vectorises: Vectorises) -> None:
        self.vectorises = vectorises
        self.slots: list[_Slot] = []
        self.kinds: dict[int, _Kind] = {}
        self.behind: list[tuple[Statement, Remark | None]] = []  # declarations and checks after the last slot
        self.sums: dict[str, tuple[Statement, Remark | None]] = {}  # initialisations that wait for the first user
        self.fills: dict[Buffer, tuple[For, Remark | None]] = {}  # loops that initialise buffers, and wait as well
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
                self._note(uses_of(total), self._early(total, line, self.barrier))
        filled = [self.fills.pop(b) for b in [b for b in self.fills if self._ends_waiting(b, uses)]]
        if isinstance(s, Declare | Require):
            for fill, line in filled:
                self._note(uses_of(fill), self._put(fill, line))
            place = self._early(s, remark, self._first(uses))
            if isinstance(s, Require):  # statements after a check rely on it
                self.barrier = place
        else:
            place = self._put(s, remark, filled, self._companion(s, uses))
            for total, line in begun:
                self.slots[int(place)].before.append((total, line))
                self._note(uses_of(total), place - 0.5)
        self._note(uses, place)

    def _note(self, uses: Uses, place: float) -> None:
        """Note the place of a statement as the last that uses its buffers and names."""
        for key in uses.reads:
            self.last_read[key] = max(place, self.last_read.get(key, BEGIN))
        for key in uses.sets:
            self.last_set[key] = max(place, self.last_set.get(key, BEGIN))

    def _filled(self, s: For, uses: Uses) -> Buffer | None:
        """Return the buffer that a loop initialises with a number; None if it does more, or is not the first user."""
        if uses.read or uses.names_set or len(uses.written) != 1 or not uses.names_read.isdisjoint(self.last_set):
            return None
        (buffer,) = uses.written
        straight = all(isinstance(x, For) or (isinstance(x, Store) and x.combine is None) for x in walk([s]))
        is_new = not any(buffer in known for known in (self.last_read, self.last_set, self.fills))
        return buffer if straight and is_new else None

    def _ends_waiting(self, b: Buffer, uses: Uses) -> bool:
        """Whether a statement uses a buffer that waits to be initialised, or changes the number."""
        return b in uses.buffers or not uses.names_set.isdisjoint(uses_of(self.fills[b][0]).names_read)

    def _put(
        self,
        s: Statement,
        remark: Remark | None,
        filled: Iterable[tuple[For, Remark | None]] = (),
        companion: int | None = None,
    ) -> float:
        """Append a statement, or add it to the slot of its companion; the buffers that it needs are `filled` before."""
        if companion is None:
            companion = len(self.slots)
            self.slots.append(_Slot(self.behind, [], Uses()))
            self.behind = []
        slot = self.slots[companion]
        for fill, line in filled:
            self._note(uses_of(fill), companion - (0.0 if self._fill(fill, line, slot, s) else 0.5))
        slot.parts.append((s, remark))
        slot.uses.add(uses_of(s))
        return float(companion)

    def _fill(self, fill: For, remark: Remark | None, slot: _Slot, s: Statement) -> bool:
        """Initialise a buffer in the first loop that needs it, or else before it; return whether it is in the loop."""
        own = uses_of(fill)
        if isinstance(s, For) and fit(fill, own, s, uses_of(s)) and fit(fill, own, slot.loop or s, slot.uses):
            slot.parts.append((fill, remark))
            slot.uses.add(own)
            return True
        slot.before.append((fill, remark))
        return False

    def _first(self, uses: Uses) -> float:
        """Return the place of the last statement with which these uses conflict."""
        before = [self.last_set.get(key, BEGIN) for key in uses.reads | uses.sets]
        return max([self.barrier, *before, *(self.last_read.get(key, BEGIN) for key in uses.sets)])

    def _early(self, s: Statement, remark: Remark | None, first: float) -> float:
        """Declare a name, or check an index, as early as possible: after the statement at place `first`."""
        k = floor(first + 1)
        target = self.slots[k].before if k < len(self.slots) else self.behind
        target.append((s, remark))
        return k - 0.5

    def _companion(self, s: Statement, uses: Uses) -> int | None:
        """Return the place of the first loop with which a loop may be fused."""
        if not isinstance(s, For):
            return None
        for k in range(max(ceil(self._first(uses)), len(self.slots) - NEAR), len(self.slots)):
            slot = self.slots[k]
            if slot.loop is not None and (slot.uses.buffers & uses.buffers) and self._may_fuse(slot, s, uses):
                return k
        return None

    def _may_fuse(self, slot: _Slot, s: For, uses: Uses) -> bool:
        """Whether a loop may be fused with those of a slot, and that pays."""
        assert slot.loop is not None
        few = sum(b.kind != "own" for b in slot.uses.buffers | uses.buffers) <= STREAMS
        return few and fit(slot.loop, slot.uses, s, uses) and self._are_alike(slot, s)

    def _are_alike(self, slot: _Slot, s: For) -> bool:
        """Whether the fused loop is as fast as two: loops that compilers vectorise are not fused with others."""
        own, kinds = self._kind(s), [self._kind(part) for part, _ in slot.parts if isinstance(part, For)]
        if own.is_flat and all(x.is_flat for x in kinds):
            alike = all(x.is_vector == own.is_vector for x in kinds)
            return alike and sum(x.operations for x in (*kinds, own)) <= MOST
        return not any(x.is_heavy and x.is_vectorised for x in (*kinds, own))

    def _kind(self, s: For) -> _Kind:
        return self.kinds.setdefault(id(s), _Kind(s, self.vectorises))

    def statements(self, said: Remark | None) -> list[Statement]:
        """Return the statements in their new order, each with a remark above it unless `said` is the same."""
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
            put(_joined(slot.parts, self.vectorises), slot.parts[0][1])
            said = slot.parts[-1][1]
        for pair in (*self.behind, *self.sums.values(), *self.fills.values()):
            put(*pair)
        return found


def fit(a: For, uses_a: Uses, b: For, uses_b: Uses) -> bool:
    """Whether two loops in sequence are equivalent to one with both bodies: they have one range and no dependence."""
    if a.reverse or b.reverse or (a.index, a.start, a.stop) != (b.index, b.start, b.stop):
        return False
    if uses_a.names_set & (uses_b.names_read | uses_b.names_set) or uses_a.names_read & uses_b.names_set:
        return False
    conflicts = (uses_b.buffers & uses_a.written.keys()) | (uses_a.buffers & uses_b.written.keys())
    return all(
        shared_axis(uses_a.at(x) + uses_b.at(x), a.index) is not None or _are_scatters(x, uses_a, uses_b, a.index)
        for x in conflicts
    )


def _are_scatters(x: Buffer, a: Uses, b: Uses, index: Local) -> bool:
    """Whether two loops accumulate into a buffer by the same ufunc, at any indices.

    False where the iterations of either loop are independent: the fused loop could not be vectorised or parallel.
    """
    is_free = a.combined_by(x) is not None and a.combined_by(x) == b.combined_by(x)
    return is_free and all(shared_axis(uses.at(x), index) is None for uses in (a, b))


def _is_unrolled(s: For) -> bool:
    """Whether compilers unroll the inner loops of a loop, and vectorise it."""
    inside = list(walk(s.body))
    counts = [x.stop.value if isinstance(x.stop, Number) else inf for x in inside if isinstance(x, For)]
    plain = not any(
        isinstance(x, Require | Regular | Check | Exact | Grow | Multiply | Sort | While | If) for x in inside
    )
    return plain and max(counts) <= UNROLLED


def _is_along(index: Sequence[Expr], i: Local) -> bool:
    """Whether iterations access consecutive elements."""
    return i.name in index[-1].names and not any(i.name in x.names for x in index[:-1]) if index else False


def _joined(parts: Sequence[tuple[Statement, Remark | None]], vectorises: Vectorises) -> Statement:
    """Return the parts of a slot as one statement, with inner loops fused."""
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
        if len(parts) > 1 and any(isinstance(s, Require) for s in body):  # each of the loops has checked its indices
            share(body)
        return For(first.index, first.stop, _suite(body, vectorises, top), first.reverse, sums, first.start)
    if isinstance(first, While):
        return replace(first, head=_suite(first.head, vectorises, said), body=_suite(first.body, vectorises, said))
    if isinstance(first, If):
        then, otherwise = (_suite(side, vectorises, said) for side in (first.then, first.otherwise))
        return replace(first, then=then, otherwise=otherwise)
    return first
