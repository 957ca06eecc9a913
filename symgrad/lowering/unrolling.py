"""Unrolling: short loops inside long ones are written out, so that compilers vectorise the long ones.

Compilers vectorise innermost loops only. Of points with three coordinates, several points are then computed at once,
and small buffers of each point become names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from symgrad.core.graph import Op
from symgrad.lowering.copies import copy_of
from symgrad.lowering.expressions import ZERO, Expr, Extent, Load, Local, Number, with_known
from symgrad.lowering.names import names_of
from symgrad.lowering.smaller_buffers import Rewriting, Use, gather
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Declare,
    For,
    Function,
    If,
    Remark,
    Statement,
    Store,
    rewrite,
    walk,
    with_replaced,
)
from symgrad.lowering.uses import are_independent, is_flat, is_many, operators

FEW = 4  # iterations of an innermost loop that is written out: more of them are a vector
MORE = 9  # of one with loops inside
MOST = 200  # statements that a loop has then
SUMS = (np.add, np.bitwise_or, np.logical_or)  # of small buffers, which become names
Element = tuple[Buffer, tuple[Expr, ...]]
Fresh = Callable[[str], str]
"""Gives a name that nothing has yet."""


def with_unrolled_loops(function: Function, vectorises: Callable[[Op], bool]) -> Function:
    """Unroll short loops inside long ones, where these are then vectorised; the same function if there are none."""
    unrolling = _Unrolling(function, vectorises)
    body = with_replaced(function.body, unrolling.unrolled)
    if not unrolling.has_unrolled:
        return function
    return replace(function, body=body, buffers=[b for b in function.buffers if b not in unrolling.needless])


class _Unrolling:
    """Unrolls the short loops of a function."""

    def __init__(self, function: Function, vectorises: Callable[[Op], bool]) -> None:
        self.vectorises, self.names = vectorises, names_of(function)
        self.uses: dict[Buffer, list[Use]] = {}
        gather(function.body, (), self.uses)
        self.needless = set[Buffer]()
        self.has_unrolled = False

    def unrolled(self, s: Statement) -> list[Statement] | None:
        """Return a loop with its inner loops unrolled, and small buffers of its own as names.

        None if it has neither, or would not be vectorised.
        """
        if not isinstance(s, For) or not (_has_few_inside(s) or self._has_small_buffers(s)):
            return None
        given: list[str] = []

        def fresh(hint: str) -> str:
            given.append(self.names.fresh(hint))
            return given[-1]

        body = [*said_once(written_out(s.body, {}, fresh))]
        written = dict.fromkeys(x.buffer for x in body if isinstance(x, Store))
        own = {b for b in written if b.kind == "own" and all(_are_within(u, s) for u in self.uses[b])}
        numbers = _Elements(body, s.index.name, own, fresh)
        loop = replace(s, body=numbers.suite, sums=_summed(numbers.suite))
        if not are_independent(loop) or not all(self.vectorises(x.op) for x in operators(loop)):
            self.names.release(given)
            return None
        self.needless |= numbers.needless
        self.has_unrolled = True
        return [*numbers.begun, loop, *numbers.ended]

    def _has_small_buffers(self, s: For) -> bool:
        """Whether an innermost long loop has buffers of its own of which it uses elements with constant indices."""
        if not is_flat(s) or not is_many(s):
            return False
        stored = {x.buffer for x in s.body if isinstance(x, Store) and x.buffer.kind == "own"}
        return any(all(_are_within(use, s) and _is_constant(use) for use in self.uses[b]) for b in stored)


def _are_within(use: Use, s: For) -> bool:
    return any(loop is s for loop in use.loops)


def _is_constant(use: Use) -> bool:
    return bool(use.at) and all(isinstance(x, Number) for x in use.at or ())


def _has_few_inside(s: For) -> bool:
    """Whether a long loop has only short loops inside, and is not too long when they are unrolled."""
    straight = all(isinstance(x, Declare | Assign | Store | For | Remark) for x in walk(s.body))
    return straight and is_many(s) and not _copies_runs(s) and bool(loops_over_few(s.bodies, MOST))


def loops_over_few(bodies: Sequence[Sequence[Statement]], most: int) -> list[For]:
    """Return the loops inside of suites if all can be unrolled to at most `most` statements."""
    inside = [x for body in bodies for x in walk(body)]
    loops = [x for x in inside if isinstance(x, For)]
    indices = {x.index.name for x in loops}
    extents = (part for x in inside for y in x.expressions for part in y.parts() if isinstance(part, Extent))
    few = all(map(_is_few, loops)) and sum(map(_length, bodies)) <= most
    return loops if few and all(x.names.isdisjoint(indices) for x in extents) else []


def _copies_runs(s: Statement) -> bool:
    """Whether a nest copies contiguous runs that are longer than a short loop."""
    while isinstance(s, For) and len(s.body) == 1:
        (s,) = s.body
        run = copy_of(s)
        if run is not None and not (isinstance(run.count, Number) and run.count.value <= FEW):
            return True
    return False


def _is_few(s: For) -> bool:
    most = MORE if any(isinstance(x, For) for x in s.body) else FEW
    return s.start == ZERO and isinstance(s.stop, Number) and s.stop.value <= most


def _length(statements: Sequence[Statement]) -> int:
    """Return the number of statements after unrolling."""
    total = 0
    for s in statements:
        if isinstance(s, For):
            assert isinstance(s.stop, Number)
            total += s.stop.value * _length(s.body)
        else:
            total += (not isinstance(s, Remark)) + sum(map(_length, s.bodies))
    return total


def written_out(statements: Sequence[Statement], known: Mapping[str, Expr], fresh: Fresh) -> Iterator[Statement]:
    """Yield statements with loops unrolled; `known` maps their indices, and names declared inside, to values."""
    known = dict(known)
    for s in statements:
        if isinstance(s, For):
            assert isinstance(s.stop, Number)
            places = range(s.stop.value)
            for k in reversed(places) if s.reverse else places:
                yield from written_out(s.body, {**known, s.index.name: Number(k)}, fresh)
        elif isinstance(s, Remark):
            yield s
        else:
            new = replace(s)
            rewrite(new, lambda x: with_known(x, known))
            if isinstance(new, If):
                new.then, new.otherwise = ([*written_out(side, known, fresh)] for side in new.bodies)
            elif known and isinstance(new, Declare):
                depends = new.local.depends.difference(known)
                local = Local(fresh(numbered(new.local.name, known.values())), new.local.dtype, depends)
                known[new.local.name] = new.local = local
            elif isinstance(new, Assign):
                renamed = known.get(new.local.name, new.local)
                assert isinstance(renamed, Local)
                new.local = renamed
            yield new


def said_once(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Yield statements without repeated remarks."""
    said: Remark | None = None
    for s in statements:
        if isinstance(s, Remark):
            if said is not None and (s.where, s.kind) == (said.where, said.kind):
                continue
            said = s
        yield s


def numbered(name: str, places: Iterable[Expr]) -> str:
    """Return a name with the constants of an index, as in `x_0`, `x_1`."""
    return "_".join([name, *(str(x.value) for x in places if isinstance(x, Number))])


def _summed(body: Sequence[Statement]) -> list[tuple[Local, np.ufunc]]:
    """Return the reductions of statements: names from outside into which they only accumulate, and the ufuncs."""
    declared = {s.local.name for s in body if isinstance(s, Declare)}
    read = {name for s in body for x in s.expressions for name in x.names}
    assigned: dict[Local, set[np.ufunc | None]] = {}
    for s in body:
        if isinstance(s, Assign) and s.local.name not in declared | read:
            assigned.setdefault(s.local, set()).add(s.combine)
    return [
        (local, way) for local, (way, *others) in assigned.items() if way in SUMS and not others and way is not None
    ]


class _Elements:
    """The statements of a loop with elements of small buffers replaced by names.

    Elements of the loop's `own` buffers are declared where an iteration first writes them. Elements into which
    iterations only accumulate are reductions, initialised before the loop and stored after it.
    """

    def __init__(self, body: Sequence[Statement], index_of_loop: str, own: set[Buffer], fresh: Fresh) -> None:
        self.fresh = fresh
        self.needless = {b for b in own if _is_written_first(b, body)}
        self.parts: dict[Element, Buffer] = {}  # of these the elements, each with memory of its own
        self.sums: dict[Element, Local] = {}
        self.begun: list[Statement] = []
        self.ended: list[Statement] = []
        for buffer, index in _combined_only(body, index_of_loop):
            local = Local(fresh(numbered(buffer.name, index)), buffer.dtype)
            self.sums[buffer, index] = local
            self.begun.append(Declare(local, Load(buffer, index), mutable=True))
            self.ended.append(Store(buffer, index, local))
        self.suite = [self._one(s) for s in body]
        Rewriting({}, {b: Local(b.name, b.dtype) for b in self.parts.values()}).suite(self.suite)

    def _one(self, s: Statement) -> Statement:
        rewrite(s, self._read)
        if not isinstance(s, Store):
            return s
        if (s.buffer, s.index) in self.sums:
            return Assign(self.sums[s.buffer, s.index], s.value, s.combine)
        if s.buffer in self.needless:
            s.buffer, s.index = self._part(s.buffer, s.index), ()
        return s

    def _read(self, x: Expr) -> Expr:
        if isinstance(x, Load) and x.buffer in self.needless:
            return Load(self._part(x.buffer, x.index), ())
        return x.with_operands(*map(self._read, x.operands)) if x.operands else x

    def _part(self, buffer: Buffer, index: tuple[Expr, ...]) -> Buffer:
        if (buffer, index) not in self.parts:
            name = self.fresh(numbered(buffer.name, index))
            self.parts[buffer, index] = replace(buffer, name=name, shape=())
        return self.parts[buffer, index]


def _is_written_first(b: Buffer, body: Sequence[Statement]) -> bool:
    """Whether all uses of a buffer have constant indices, and an iteration writes each element before it reads it."""
    there = set[tuple[Expr, ...]]()
    for s in body:
        for at in (
            part.index for x in s.expressions for part in x.parts() if isinstance(part, Load) and part.buffer is b
        ):
            if at not in there:
                return False
        if isinstance(s, Store) and s.buffer is b:
            if not all(isinstance(x, Number) for x in s.index) or (s.combine is not None and s.index not in there):
                return False
            there.add(s.index)
    return bool(there)


def _combined_only(body: Sequence[Statement], index_of_loop: str) -> list[Element]:
    """Return the elements of buffers into which all iterations accumulate, and that they use for nothing else."""
    read = {part.buffer for s in body for x in s.expressions for part in x.parts() if isinstance(part, Load)}
    own = {index_of_loop, *(s.local.name for s in body if isinstance(s, Declare))}
    stores: dict[Buffer, list[Store]] = {}
    for s in body:
        if isinstance(s, Store):
            stores.setdefault(s.buffer, []).append(s)
    found: dict[Element, None] = {}
    for b, group in stores.items():
        combine, *others = {s.combine for s in group}
        places = list(dict.fromkeys(s.index for s in group))
        same_for_all = all(x.names.isdisjoint(own) for index in places for x in index)
        if b not in read and not others and combine in SUMS and same_for_all and _are_distinct(places):
            found |= dict.fromkeys((b, index) for index in places)
    return list(found)


def _are_distinct(places: Sequence[tuple[Expr, ...]]) -> bool:
    """Whether all indices surely select different elements: constants in them differ."""
    known = [tuple([x.value if isinstance(x, Number) else None for x in index]) for index in places]
    return len({*known}) == len(known) and len({tuple([x is None for x in index]) for index in known}) <= 1
