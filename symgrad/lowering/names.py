"""Names of a function's buffers and locals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from symgrad.lowering.expressions import Expr, Load, Local
from symgrad.lowering.statements import Buffer, Declare, Exact, Factor, For, Function, Statement, While, walk
from symgrad.lowering.uses import sizes_mentioned

LETTERS = "ijklmn"  # of indices


@dataclass
class Names:
    """The unique names of a function's buffers and locals; `hints` are the names that they were made from."""

    taken: set[str] = field(default_factory=set)
    hints: dict[str, str] = field(default_factory=dict)
    _next: dict[str, int] = field(default_factory=dict)  # of a hint, the first number that may be free

    def fresh(self, hint: str) -> str:
        name, k = hint, self._next.get(hint, 2)
        stem = hint.rstrip("_") if hint.islower() else hint  # M_PI_ is none of C's names, M_PI_2 is one
        while name in self.taken or name in LETTERS:
            name, k = f"{stem}_{k}", k + 1
        self.taken.add(name)
        self.hints[name], self._next[hint] = hint, k
        return name

    def release(self, names: Iterable[str]) -> None:
        """Let names be given once more."""
        self.taken.difference_update(names)
        self._next.clear()


def names_of(function: Function) -> Names:
    """Return the names that a function has already."""
    given = (*function.parameters, *function.results, *function.buffers)
    return Names({*function.sizes, *(x.name for x in given), *_declared(function)})


def _declared(function: Function) -> dict[str, None]:
    """Return the names of numbers that statements declare, in their order."""
    found: dict[str, None] = {}
    for s in walk(function.body):
        if isinstance(s, Declare | Exact):
            found[s.local.name] = None
        elif isinstance(s, For | While):
            found |= dict.fromkeys(s.names if isinstance(s, For) else {s.count.name})
    return found


def numbered_in_order(function: Function, names: Names) -> Function:
    """Renumber names, so that no gaps are left where names were dropped.

    Parameters, names in sizes, and names that the user gave with a number stay.
    """
    own = [b.name for b in function.buffers if b.kind in ("own", "constant", "growing")]
    kept = sizes_mentioned(function.body)
    old = [x for x in dict.fromkeys([*own, *_declared(function)]) if x in names.hints and x not in kept]
    old = [x for x in old if x != names.hints[x] or not x[-1].isdigit()]
    present = Names((names.taken - names.hints.keys()) | (names_of(function).taken - {*old}) | kept)
    new = {x: present.fresh(names.hints[x]) for x in old}
    if all(x == y for x, y in new.items()):
        return function
    renaming = _Renaming(new)
    return replace(function, buffers=renaming.of([*function.buffers]), body=renaming.of(function.body))


class _Renaming:
    """Gives buffers and numbers other names, wherever they stand."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.buffers: dict[Buffer, Buffer] = {}

    def of(self, x: Any) -> Any:
        if isinstance(x, Statement):
            for f in fields(x):
                setattr(x, f.name, self.of(getattr(x, f.name)))
            return x
        if isinstance(x, Buffer):
            if x not in self.buffers:
                self.buffers[x] = replace(x, name=self.names[x.name]) if x.name in self.names else x
            return self.buffers[x]
        if isinstance(x, Local):
            return Local(self._name(x.name), x.kind, frozenset(map(self._name, x.depends)))
        if isinstance(x, Load):
            return Load(self.of(x.buffer), self.of(x.index))
        if isinstance(x, Expr):
            return x.with_operands(*map(self.of, x.operands))
        if isinstance(x, Factor):
            return replace(x, buffer=self.of(x.buffer), start=self.of(x.start))
        return type(x)(map(self.of, x)) if type(x) in (list, tuple) else x

    def _name(self, name: str) -> str:
        return self.names.get(name, name)
