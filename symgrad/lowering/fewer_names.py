"""Common subexpressions, copy propagation and dead names, in statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from symgrad.lowering.expressions import Expr, Load, Local
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Declare,
    For,
    Function,
    Remark,
    Require,
    Statement,
    Store,
    While,
    rewrite,
    walk,
)
from symgrad.lowering.uses import sizes_mentioned, uses_of


def with_fewer_names(function: Function) -> Function:
    """Give each number one name, and inline names that only the next statement reads."""
    _Shared(function.body).suite(function.body)
    reads = reads_of_names(walk(function.body)) + Counter(sizes_mentioned(function.body))
    _inlined(function.body, reads)
    return replace(function, body=_without_unread(function.body))


def _without_unread(suite: Iterable[Statement]) -> list[Statement]:
    """Return statements without dead names, such as sizes that nothing reads."""
    read: set[str] = set()
    left: list[Statement] = []
    for s in reversed([*suite]):
        says_nothing = isinstance(s, Remark) and (not left or isinstance(left[-1], Remark))
        if not says_nothing and not (isinstance(s, Declare) and not s.mutable and s.local.name not in read):
            left.append(s)
            read |= uses_of(s).names_read
    return left[::-1]


def share(suite: list[Statement]) -> None:
    """Eliminate common subexpressions of a suite, and repeated checks."""
    _Shared(suite).suite(suite)


class _Shared:
    """Replaces expressions by names in scope that have their value, and drops repeated checks."""

    def __init__(self, body: list[Statement]) -> None:
        self.checked = set[tuple[Expr, Expr, bool, bool]]()
        self.changing = {s.local.name for s in walk(body) if isinstance(s, Assign)}
        self.changing |= {s.count.name for s in walk(body) if isinstance(s, While)}
        self.sizes = sizes_mentioned(body)
        self.instead: dict[str, Local] = {}
        self.known: dict[Expr, Local] = {}
        self.about: dict[
            Buffer | str, dict[Expr, None]
        ] = {}  # what is known, by the memory and the names that it is of

    def suite(self, suite: list[Statement]) -> None:
        own: list[Expr] = []
        left: list[Statement] = []
        checked = set(self.checked)
        last_set = _last_set(suite)
        for place, s in enumerate(suite):
            rewrite(s, self._renamed)
            if isinstance(s, Declare) and (same := self._copied(s, last_set, place)) is not None:
                self.instead[s.local.name] = same
                continue
            if isinstance(s, Require) and isinstance(s.index, Local) and self._stays(s.index):
                if (check := (s.index, s.size, s.low, s.high)) in self.checked:
                    continue
                self.checked.add(check)
            if isinstance(s, Declare) and not s.mutable and self._stays(s.value):
                same = self.known.get(s.value)
                if same is not None and same.dtype == s.local.dtype:
                    self.instead[s.local.name] = same
                    if s.local.name not in self.sizes:
                        continue
                    s.value = same
                if same is None:
                    for x in (s.value, s.local):  # another name for this one is needless, too
                        self._learn(x, s.local)
                        own.append(x)
            self._forget(uses_of(s).written)
            # a loop may have the name of an index around it
            hidden = self._forget([s.index.name]) if isinstance(s, For) else {}
            for body in s.bodies:
                self.suite(body)
            if isinstance(s, While):  # its test reads names of its head
                rewrite(s, self._renamed)
            for x, name in hidden.items():
                self._learn(x, name)
            if isinstance(s, Remark) and left and isinstance(left[-1], Remark):
                left.pop()
            left.append(s)
        for x in own:
            self.known.pop(x, None)
        self.checked = checked
        suite[:] = left

    def _copied(self, s: Declare, last_set: Mapping[str, int], place: int) -> Local | None:
        """Return the name of which a statement only makes a copy, and that nothing sets behind it."""
        if s.mutable or s.local.name in self.sizes or not isinstance(s.value, Local):
            return None
        is_final = last_set.get(s.value.name, place) < place
        return s.value if is_final and s.local.dtype == s.value.dtype else None

    def _learn(self, x: Expr, name: Local) -> None:
        self.known[x] = name
        keys: list[Buffer | str] = [part.buffer for part in x.parts() if isinstance(part, Load)]
        for key in (*keys, *x.names):
            self.about.setdefault(key, {})[x] = None

    def _forget(self, keys: Iterable[Buffer | str]) -> dict[Expr, Local]:
        """Forget the expressions that read some memory or names, and return them."""
        found = [x for key in keys for x in self.about.pop(key, ())]
        return {x: self.known.pop(x) for x in found if x in self.known}

    def _renamed(self, x: Expr) -> Expr:
        if isinstance(x, Local):
            return self.instead.get(x.name, x)
        return x.with_operands(*map(self._renamed, x.operands)) if self.instead else x

    def _stays(self, x: Expr) -> bool:
        """Whether an expression keeps its value as long as nothing writes into the memory that it reads."""
        return not any(isinstance(part, Local) and part.name in self.changing for part in x.parts())


def _last_set(suite: Sequence[Statement]) -> dict[str, int]:
    """Return where a suite assigns names last that it has declared."""
    declared = {s.local.name for s in suite if isinstance(s, Declare) and s.mutable}
    assigned = ((x.local.name, place) for place, s in enumerate(suite) for x in walk([s]) if isinstance(x, Assign))
    return {name: place for name, place in assigned if name in declared}


def reads_of_names(statements: Iterable[Statement]) -> Counter[str]:
    """Count how often each name is read."""
    parts = (part for s in statements for x in s.expressions for part in x.parts())
    return Counter(part.name for part in parts if isinstance(part, Local))


def _inlined(suite: list[Statement], reads: Mapping[str, int]) -> None:
    """Inline a name that only the next statement reads."""
    left: list[Statement] = []
    for s in suite:
        for body in s.bodies:
            _inlined(body, reads)
        if isinstance(s, Store | Assign | Declare) and left and _declares(left[-1], s.value, reads):
            before = left.pop()
            assert isinstance(before, Declare)
            s.value = before.value
        left.append(s)
    suite[:] = left


def _declares(s: Statement, value: Expr, reads: Mapping[str, int]) -> bool:
    """Whether a value is a name that a statement declares, and that is read once."""
    return (
        isinstance(s, Declare)
        and not s.mutable
        and isinstance(value, Local)
        and value.name == s.local.name
        and s.value.dtype == s.local.dtype
        and reads[value.name] == 1
    )
