"""Scalar replacement for C: elements of small arrays get names, in loops whose iterations depend on each other.

A filter or an orbit has a state of a few numbers, and an iteration computes arrays of a few numbers from it. Compilers
keep names in registers. An element of an array they read back from memory after each write, and the next iteration
waits for it. So short inner loops are unrolled, and each element that an iteration writes gets a name. Elements that
the next iteration reads are carried by names as well. Loops whose iterations carry no elements stay: they overlap, and
their inner loops are vectorised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from symgrad.core.graph import Op
from symgrad.core.sizes import at_most
from symgrad.lowering.expressions import Apply, Expr, Load, Local, Number
from symgrad.lowering.fewer_names import reads_of_names
from symgrad.lowering.names import names_of
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Check,
    Declare,
    For,
    Function,
    Grow,
    If,
    Remark,
    Require,
    Statement,
    Store,
    While,
    rewrite,
    walk,
    with_replaced,
)
from symgrad.lowering.unrolling import Element, Fresh, loops_over_few, numbered, said_once, written_out
from symgrad.lowering.uses import CALLED, is_many, operators, uses_of
from symgrad.ops.elementwise import ADD, MULTIPLY

MOST = 800  # statements that a loop has then: compilers take longer than linearly for a suite
COMBINED: Mapping[np.ufunc, Op] = {np.add: ADD, np.multiply: MULTIPLY}
UNDERSTOOD = (Declare, Assign, Store, For, If, Remark, Require, Check, Grow)


def with_named_elements(function: Function) -> Function:
    """Name the elements of small arrays in long loops."""
    naming = _Naming(function)
    body = with_replaced(function.body, naming.named)
    if not naming.given:
        return function
    own, read = {b for b in function.buffers if b.kind in ("own", "constant")}, set[Buffer]()
    for k, s in reversed([*enumerate(body)]):  # what nothing reads then is not written
        read |= uses_of(s).read.keys()
        body[k : k + 1] = _without([s], own - read, set())
    while unread := naming.given & _names_declared(body) - reads_of_names(walk(body)).keys():
        body = _without(body, set(), unread)
    used = {b for s in body for b in uses_of(s).buffers}
    return replace(function, body=body, buffers=[b for b in function.buffers if b in used or b not in own])


class _Naming:
    """Rewrites the loops of a function."""

    def __init__(self, function: Function) -> None:
        self.names = names_of(function)
        self.given = set[str]()

    def named(self, s: Statement) -> list[Statement] | None:
        """Return a loop with inner loops unrolled and elements named, between the declarations of its carries and the
        statements that store their last values.

        None if it has no inner loops, or iterations carry no elements.
        """
        if not isinstance(s, For | While) or not _has_few_inside(s):
            return None
        before, given = set(self.names.taken), set[str]()

        def fresh(hint: str) -> str:
            name = self.names.fresh(hint)
            given.add(name)
            return name

        s = replace(s)
        for name in s.holds:
            setattr(s, name, [*said_once(written_out(getattr(s, name), {}, self.names.fresh))])
        iteration = _Iteration(s, fresh)
        if not iteration.carried:
            self.names.release(self.names.taken - before)
            return None
        self.given |= given
        return [*iteration.begun, s, *iteration.stored_behind(s)]


def _has_few_inside(s: For | While) -> bool:
    """Whether a long loop has only short loops inside, and is not too long when they are unrolled.

    A loop that calls functions, such as exponentials, stays: a vector of these takes as long as one number.
    """
    if (isinstance(s, For) and not is_many(s)) or not all(isinstance(x, UNDERSTOOD) for x in _inside(s)):
        return False
    loops = loops_over_few(s.bodies, MOST)
    return bool(loops) and not any(x.op.nanoseconds >= CALLED for loop in loops for x in operators(loop))


def _inside(s: Statement) -> list[Statement]:
    return [x for body in s.bodies for x in walk(body)]


Index = tuple[Expr, ...]
Known = dict[Buffer, dict[Index, Expr | None]]
"""The names of elements, None where only memory tells; of others an iteration has written none yet."""


class _Iteration:
    """Replaces elements by names in the statements of one iteration, and passes those on that the next one reads."""

    def __init__(self, s: For | While, fresh: Fresh) -> None:
        self.fresh = fresh
        self.changing = {x.local.name for x in _inside(s) if isinstance(x, Assign)}
        self.summed, self.stored = _stored(s)
        self.begun: list[Statement] = []
        self.carried: dict[Element, Local] = {}
        known: Known = {}
        if isinstance(s, While):
            s.head = self._suite(s.head, known)
            s.test = self._read(s.test, known)
        s.body = self._suite(s.body, known)
        # those whose last value has a name
        self.named = {element for element in self.carried if known.get(element[0], {}).get(element[1])}
        s.body += self._ended(known)

    def _ended(self, known: Known) -> list[Statement]:
        """Return the statements that update the carries, from copies of names that change in the same step."""
        copied: list[Statement] = []
        ended: list[Statement] = []
        for (buffer, index), local in self.carried.items():
            value = known.get(buffer, {}).get(index, local) or Load(buffer, index)
            if value == local:
                continue
            if value in self.carried.values():
                copy = Local(self.fresh(local.name), local.dtype)
                copied.append(Declare(copy, value))
                value = copy
            ended.append(Assign(local, value))
        return copied + ended

    def stored_behind(self, s: For | While) -> list[Statement]:
        """Move stores of carries behind the loop, and return them there: in buffers of which it uses nothing else."""
        used = uses_of(s)
        elements: dict[Buffer, list[Index]] = {}
        for buffer, index in self.named:
            elements.setdefault(buffer, []).append(index)
        alone = {
            b for b, indices in elements.items() if b not in used.read and all(at in indices for at in used.written[b])
        }
        for name in s.holds:
            setattr(s, name, _without(getattr(s, name), alone, set()))
        return [Store(b, at, local) for (b, at), local in self.carried.items() if b in alone]

    def _suite(self, statements: Iterable[Statement], known: Known) -> list[Statement]:
        found: list[Statement] = []
        for s in statements:
            rewrite(s, lambda x: self._read(x, known))
            if isinstance(s, Store) and s.buffer not in self.summed:
                found += self._store(s, known)
            elif isinstance(s, If):
                found += self._branch(s, known)
            else:
                found.append(s)
        return found

    def _read(self, x: Expr, known: Known) -> Expr:
        x = x.with_operands(*[self._read(y, known) for y in x.operands]) if x.operands else x
        return (self._value(x.buffer, x.index, known) or x) if isinstance(x, Load) else _without_ones(x)

    def _value(self, buffer: Buffer, index: Index, known: Known) -> Expr | None:
        """Return the value of an element; None if it must be read from memory."""
        if index in known.get(buffer, {}):
            return known[buffer][index]
        at = [i.value for i in index if isinstance(i, Number)]
        if buffer.kind == "constant" and buffer.value is not None and len(at) == len(index):
            return Number(buffer.value[tuple(at)].item(), buffer.dtype)
        return self._carry(buffer, index) if index in self.stored.get(buffer, ()) else None

    def _carry(self, buffer: Buffer, index: Index) -> Local:
        """Return the name that carries an element from the iteration that writes it to the next, which reads it."""
        if (buffer, index) not in self.carried:
            local = Local(self.fresh(numbered(buffer.name, index)), buffer.dtype)
            self.carried[buffer, index] = local
            self.begun.append(Declare(local, Load(buffer, index), mutable=True))
        return self.carried[buffer, index]

    def _store(self, s: Store, known: Known) -> list[Statement]:
        """Return the statements that name a stored number, and store it."""
        before = self._value(s.buffer, s.index, known) if s.combine else None
        adds_to = before.name if isinstance(before, Local) and s.combine is not None else ""
        known[s.buffer] = {at: x for at, x in known.get(s.buffer, {}).items() if are_apart(at, s.index)}
        if s.combine is not None:
            if before is None or s.combine not in COMBINED or s.buffer.dtype.kind == "b":
                if s.index in self.stored.get(s.buffer, ()):
                    known[s.buffer][s.index] = None
                return [s]
            s = replace(s, value=_combined(s, before), combine=None)
        declared: list[Statement] = []
        if not self._is_fixed(s.value) or s.value.dtype != s.buffer.dtype:
            local = Local(self.fresh(numbered(s.buffer.name, s.index)), s.buffer.dtype, s.value.names)
            declared.append(Declare(local, s.value, adds_to=adds_to))
            s = replace(s, value=local)
        if all(map(self._stays, s.index)):
            known[s.buffer][s.index] = s.value
        return [*declared, s]

    def _stays(self, x: Expr) -> bool:
        """Whether an item of an index stays the same for the rest of the iteration."""
        return not any(isinstance(y, Load) or (isinstance(y, Local) and y.name in self.changing) for y in x.parts())

    def _is_fixed(self, x: Expr) -> bool:
        """Whether an expression is a number or a name that an iteration does not change before its end."""
        return isinstance(x, Number) or (isinstance(x, Local) and x.name not in self.changing)

    def _branch(self, s: If, known: Known) -> list[Statement]:
        """Return a branch after the declarations of names for the elements that its sides write."""
        sides = [{b: dict(elements) for b, elements in known.items()} for _ in (s.then, s.otherwise)]
        s = replace(s, then=self._suite(s.then, sides[0]), otherwise=self._suite(s.otherwise, sides[1]))
        begun: list[Statement] = []
        known.clear()
        for buffer, index in dict.fromkeys((b, at) for side in sides for b in side for at in side[b]):
            at_begin = self.carried.get((buffer, index))
            values = [side.get(buffer, {}).get(index, at_begin) for side in sides]
            value = values[0] if values[0] == values[1] else None
            if value is None and None not in values:
                value = Local(self.fresh(numbered(buffer.name, index)), buffer.dtype)
                begun.append(Declare(value, Number(buffer.dtype.type(0).item(), buffer.dtype), mutable=True))
                for side, x in zip((s.then, s.otherwise), values, strict=True):
                    assert x is not None
                    side.append(Assign(value, x))
            if value is not None or index in self.stored.get(buffer, ()):
                known.setdefault(buffer, {})[index] = value
        return [*begun, s]


def _combined(s: Store, before: Expr) -> Expr:
    """Return the number that a store writes, combined with the one before; a sum from 0 starts with its first term."""
    if s.combine is np.add and isinstance(before, Number) and before.value == 0 and s.value.dtype == before.dtype:
        return s.value
    return Apply(COMBINED[s.combine], (before, s.value), s.buffer.dtype)


def are_apart(a: Index, b: Index) -> bool:
    """Whether two indices surely select different elements, or parts, of a buffer: constants in them differ."""
    return any(isinstance(x, Number) and isinstance(y, Number) and x != y for x, y in zip(a, b, strict=False))


def _without_ones(x: Expr) -> Expr:
    """Return a product without a factor of one."""
    if isinstance(x, Apply) and x.op is MULTIPLY and x.dtype.kind == "f":
        for one, other in (x.arguments, x.arguments[::-1]):
            if isinstance(one, Number) and one.value == 1 and other.dtype == x.dtype:
                return other
    return x


def _stored(s: For | While) -> tuple[set[Buffer], dict[Buffer, set[Index]]]:
    """Return the buffers that an iteration only accumulates into, and the indices at which it writes others.

    Buffers that are written at unknown indices are left out.
    """
    stores: dict[Buffer, list[Store]] = {}
    for x in _inside(s):
        if isinstance(x, Store):
            stores.setdefault(x.buffer, []).append(x)
    read = uses_of(s).read
    summed = {b for b, found in stores.items() if b not in read and all(x.combine is not None for x in found)}
    return summed, {
        b: {x.index for x in found}
        for b, found in stores.items()
        if b not in summed and all(_is_there(b, x.index) for x in found)
    }


def _is_there(buffer: Buffer, index: Index) -> bool:
    """Whether an index is surely within a buffer, even if a branch that writes it is not taken."""
    return all(
        isinstance(i, Number) and i.value >= 0 and at_most(i.value + 1, n)
        for i, n in zip(index, buffer.shape, strict=True)
    )


def _names_declared(body: Sequence[Statement]) -> set[str]:
    return {s.local.name for s in walk(body) if isinstance(s, Declare)}


def _without(suite: Sequence[Statement], buffers: set[Buffer], names: set[str]) -> list[Statement]:
    """Return statements without those that write some buffers or names, and without loops left empty."""
    left: list[Statement] = []
    for s in suite:
        for body in s.bodies:
            body[:] = _without(body, buffers, names)
        is_written = isinstance(s, Store) and s.buffer in buffers
        is_named = isinstance(s, Declare | Assign) and s.local.name in names
        is_empty = isinstance(s, For) and all(isinstance(x, Remark) for x in s.body)
        if not (is_written or is_named or is_empty):
            left.append(s)
    return left
