"""Uses of buffers and names by statements: dependences between iterations, and the work of an iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from symgrad.analysis.cost import UNKNOWN_ITERATIONS
from symgrad.core.sizes import Dim, symbols_of
from symgrad.lowering.expressions import (
    ONE,
    ZERO,
    Apply,
    Expr,
    Extent,
    Load,
    Local,
    Number,
    Whole,
    divided,
    plus,
    product_of,
    times,
)
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Check,
    Copy,
    Declare,
    Exact,
    For,
    Grow,
    If,
    Multiply,
    Regular,
    Require,
    Sort,
    Statement,
    Store,
    While,
    walk,
)

UNROLLED = 8  # iterations of a loop that compilers write out
CALLED = 0.9  # nanoseconds a number from which on an operator takes as long as ten and more others
SORTED = 32  # operations for each number that is sorted
UNKNOWN = Number(UNKNOWN_ITERATIONS)
COMBINED = (np.add, np.multiply, np.bitwise_or, np.logical_or, np.logical_and, np.maximum, np.minimum)
"""Ufuncs that may combine numbers in any order."""
HEAVY = 8  # operations of a loop from which on vectors are worth more than a shared loop, or one that is left early


@dataclass
class Uses:
    """The buffers and names that a statement, with all inside of it, reads and writes."""

    read: dict[Buffer, list[tuple[Expr, ...] | None]] = field(default_factory=dict)
    written: dict[Buffer, list[tuple[Expr, ...] | None]] = field(default_factory=dict)
    names_read: set[str] = field(default_factory=set)
    names_set: set[str] = field(default_factory=set)  # that are there behind it
    ways: dict[Buffer, set[np.ufunc | None]] = field(default_factory=dict)  # how numbers are combined when written

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

    def write(self, buffer: Buffer, at: tuple[Expr, ...] | None, way: np.ufunc | None = None) -> None:
        """Add a write."""
        self.written.setdefault(buffer, []).append(at)
        self.ways.setdefault(buffer, set()).add(way)

    def add(self, other: Uses) -> None:
        """Add the uses of another statement."""
        for own, found in ((self.read, other.read), (self.written, other.written)):
            for b, at in found.items():
                own.setdefault(b, []).extend(at)
        for b, ways in other.ways.items():
            self.ways.setdefault(b, set()).update(ways)
        self.names_read |= other.names_read
        self.names_set |= other.names_set

    def combined_by(self, buffer: Buffer) -> np.ufunc | None:
        """Return the ufunc by which a buffer is accumulated into; None if it is used in any other way."""
        ways = self.ways.get(buffer, set())
        (way,) = ways if len(ways) == 1 and buffer not in self.read else (None,)
        return way if way in COMBINED else None


def uses_of(s: Statement) -> Uses:
    """Return the uses of buffers and names by a statement.

    An access to an element also reads the extents of its buffer, except for the first extent of a growing buffer, which
    is unknown in the loop that fills it.
    """
    found, own = Uses(), set[str]()
    for inner in walk([s]):
        for x in inner.expressions:
            for part in x.parts():
                if isinstance(part, Load):
                    found.read.setdefault(part.buffer, []).append(part.index)
                elif isinstance(part, Local):
                    found.names_read.add(part.name)
                elif isinstance(part, Extent):
                    found.names_read |= part.names
        if isinstance(inner, Store):
            found.write(inner.buffer, inner.index, inner.combine)
        elif isinstance(inner, Copy):
            found.read.setdefault(inner.source, []).append(inner.source_row)
            found.write(inner.target, inner.row)
        elif isinstance(inner, Multiply):
            *factors, (target, written) = inner.matrices
            for factor, at in factors:
                found.read.setdefault(factor, []).append(at)
            found.write(target, written, np.add if inner.adds else None)
        elif isinstance(inner, Sort):
            found.read.setdefault(inner.keys, []).append(inner.row)
            for b, row in inner.written:
                found.write(b, row)
        elif isinstance(inner, Grow):
            found.write(inner.buffer, None)
        elif isinstance(inner, Declare | Exact):
            (found.names_set if inner is s else own).add(inner.local.name)
        elif isinstance(inner, Assign):
            found.names_set.add(inner.local.name)
            found.names_read.add(inner.local.name)
        elif isinstance(inner, For):
            own |= inner.names
        elif isinstance(inner, While):
            (found.names_set if inner is s else own).add(inner.count.name)
    found.names_set -= own
    found.names_read -= own
    extents = (n for b in found.buffers for n in (b.shape[1:] if b.kind == "growing" else b.shape))
    found.names_read |= {name for n in extents if isinstance(n, Dim) for name in symbols_of(n)}
    return found


def conflict(a: Uses, b: Uses) -> bool:
    """Whether two statements have a dependence: one writes what the other reads or writes."""
    return not (a.sets.isdisjoint(b.reads | b.sets) and a.reads.isdisjoint(b.sets))


def shared_axis(indices: Sequence[tuple[Expr, ...] | None], index: Local, start: Expr = ZERO) -> int | None:
    """Return an axis that every use indexes by the index of a loop, so that iterations use distinct elements.

    The index may be shifted by a number, the same in all uses, or by the start of the loop.
    """
    if None in indices or not indices:
        return None
    by_axis = enumerate(zip(*[at or () for at in indices], strict=False))
    return next(
        (k for k, (x, *others) in by_axis if _is_shifted(x, index, start) and all(y == x for y in others)), None
    )


def _is_shifted(x: Expr, index: Local, start: Expr) -> bool:
    """Whether an expression is the index of a loop plus a number, or minus the start of the loop."""
    if isinstance(x, Whole) and (
        (x.symbol == "+" and isinstance(x.right, Number)) or (x.symbol == "-" and x.right == start)
    ):
        x = x.left
    return isinstance(x, Local) and x.name == index.name


def is_flat(s: For) -> bool:
    """Whether a loop is innermost and has no branches."""
    return not any(isinstance(x, For | While | If) for x in walk(s.body))


def are_independent(s: For) -> bool:
    """Whether the iterations of an innermost loop are independent, apart from its reductions."""
    if not is_flat(s) or any(
        isinstance(x, Require | Regular | Check | Exact | Grow | Copy | Multiply | Sort) for x in s.body
    ):
        return False
    uses, sums = uses_of(s), {local.name for local, _ in s.sums}
    read = {name for x in s.body for y in x.expressions for name in y.names}
    return (
        uses.names_set <= sums
        and read.isdisjoint(sums)
        and all(shared_axis(uses.at(b), s.index, s.start) is not None for b in uses.written)
    )


def is_many(s: For) -> bool:
    """Whether a loop has more iterations than compilers unroll."""
    return not isinstance(s.stop, Number) or s.stop.value > UNROLLED


def is_heavy(s: For) -> bool:
    """Whether a loop gains more by vectorisation than by fusion with another."""
    return operations(s) >= HEAVY


def operations(s: For) -> int:
    """Estimate the instructions of a loop."""
    return sum(map(_instructions, operators(s)))


def operators(s: For) -> Iterator[Apply]:
    """Yield the operators of a loop."""
    parts = (part for x in walk(s.body) for y in x.expressions for part in y.parts())
    return (part for part in parts if isinstance(part, Apply))


def _instructions(x: Apply) -> int:
    """Estimate the instructions of an operator: ten or more for functions."""
    return 12 if x.op.nanoseconds >= CALLED else 1


def _time_of(x: Apply) -> int:
    """Estimate how many simple operations take as long as an operator, all of them in vectors."""
    return max(1, round(4 * x.op.nanoseconds))


def work_of(loop: For, count: Expr) -> Expr:
    """Estimate the instructions of an iteration of a loop that has `count` of them, with those for reads and writes.

    Where the index of the loop is the length of a loop inside, as in a triangle, that length is half of `count`, the
    average.
    """
    statements, half = loop.iteration, divided(count, Number(2))
    inside = {s.local.name for s in walk(statements) if isinstance(s, Declare | Exact)}
    inside |= {name for s in walk(statements) if isinstance(s, For) for name in s.names}

    def estimated(n: Expr | None) -> Expr:
        if n is None or n.names & inside:  # only running tells it
            return UNKNOWN
        return half if loop.row.name in n.names else n

    found: dict[Expr, int] = {}
    _count_work(statements, ONE, estimated, found)
    total: Expr = ZERO
    for runs, n in found.items():
        total = plus(total, times(runs, Number(n)))
    return total


def _count_work(
    statements: Iterable[Statement], runs: Expr, estimated: Callable[[Expr | None], Expr], found: dict[Expr, int]
) -> None:
    """Add the instructions of statements that run `runs` times to `found`, which counts them by number of runs."""
    for s in statements:
        parts = [part for x in s.expressions for part in x.parts()]
        own = sum(_time_of(x) if isinstance(x, Apply) else isinstance(x, Load) for x in parts) + 1
        found[runs] = found.get(runs, 0) + own
        within = runs
        if isinstance(s, For | While):
            within = times(runs, estimated(s.stop))
        elif isinstance(s, Copy):
            copied = times(runs, estimated(s.count))
            found[copied] = found.get(copied, 0) + 1
        elif isinstance(s, Sort):
            compared = times(runs, estimated(s.count))
            found[compared] = found.get(compared, 0) + SORTED
        elif isinstance(s, Multiply):
            multiplied = product_of([runs, *map(estimated, _sizes_of_iteration(s))])
            found[multiplied] = found.get(multiplied, 0) + 1
        for body in [s.iteration] if isinstance(s, For) else s.bodies:
            _count_work(body, within, estimated, found)


def _sizes_of_iteration(s: Multiply) -> Sequence[Expr]:
    """Return the sizes of a product, or of its part for one iteration of a loop over rows."""
    if s.row is None:
        return s.rows, s.terms, s.columns
    return (s.rows, s.columns) if s.sums_rows else (s.terms, s.columns)


def sizes_mentioned(body: Sequence[Statement]) -> set[str]:
    """Return the names that extents mention, in expressions and shapes; these are text and cannot be renamed."""
    parts = (part for s in walk(body) for x in s.expressions for part in x.parts())
    found = {name for part in parts if isinstance(part, Extent) for name in part.names}
    buffers = {buffer for s in body for buffer in uses_of(s).buffers}
    return found.union(*(symbols_of(n) for buffer in buffers for n in buffer.shape))
