"""Names of a function's buffers and locals."""

from __future__ import annotations

from dataclasses import dataclass, field

from symgrad.lowering.statements import Declare, Exact, For, Function, While, walk

LETTERS = "ijklmn"  # of indices


@dataclass
class Names:
    """The names of a function's buffers and locals; each is given once."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, hint: str) -> str:
        name, k = hint, 2
        stem = hint.rstrip("_") if hint.islower() else hint  # M_PI_ is none of C's names, M_PI_2 is one
        while name in self.taken or name in LETTERS:
            name, k = f"{stem}_{k}", k + 1
        self.taken.add(name)
        return name


def names_of(function: Function) -> Names:
    """Return the names that a function has already."""
    taken = {*function.sizes, *(x.name for x in (*function.parameters, *function.results, *function.buffers))}
    for s in walk(function.body):
        if isinstance(s, Declare | Exact):
            taken.add(s.local.name)
        elif isinstance(s, For | While):
            taken |= s.names if isinstance(s, For) else {s.count.name}
    return Names(taken)
