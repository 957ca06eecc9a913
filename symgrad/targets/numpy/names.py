"""Names in the generated source: the user's own, derivatives named after them, and ``t1, t2`` for the rest."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import NamedTuple

from symgrad.core.graph import Literal, Node, Op
from symgrad.core.text import CALLED, identifier
from symgrad.spelling import Name
from symgrad.targets.numpy.statements import Statement

SAVED = frozenset({"NDArray", "Any", "__symgrad__", "_selftest", "_numbers", "_summaries", "_worst", "_main"})
"""Names that saved modules define beside their function."""

_USUAL = frozenset({"self", "_", *(name for name in dir(builtins) if name.islower())})
RESERVED = frozenset(keyword.kwlist) | CALLED | SAVED | _USUAL


@cache
def _of_modules() -> frozenset[str]:
    """Return the names defined beside a generated function."""
    from symgrad.targets.numpy import runtime  # with threads, which a mere `import symgrad` does not wait for

    return RESERVED | {*vars(runtime), "Path", "_constants", "sys"}


def global_name(text: str, taken: Collection[str] = ()) -> str:
    """A name for a function of the module, as the user calls it unless the module or Python needs that name."""
    name = identifier(text)
    while name in _of_modules() or name in taken:
        name += "_"
    return name


class Names:
    """Gives each node one name, and no name twice."""

    def __init__(self, hints: Mapping[Node, str | tuple[str, Node]], taken: Collection[str]) -> None:
        self.hints = dict(hints)
        self._used: dict[str, int] = dict.fromkeys(RESERVED, 1)
        self._used.update(dict.fromkeys(taken, 1))
        self.unused = self.fresh("unused") if "_" in taken else "_"
        self._names: dict[Node, Name] = {}
        self._known: dict[Node, str] = {}
        self._temporaries = count(1)
        self._locals: dict[tuple[str, int | None], str] = {}

    def inside(self, hints: Mapping[Node, str | tuple[str, Node]]) -> Names:
        """Names for the nodes of a region, which may be written down several times: none that is taken here."""
        inner = copy(self)
        inner.hints, inner._names = dict(hints), {}
        return inner

    def given(self, node: Node, name: str, known: str = "") -> None:
        """Fix the name of an input, which the user knows by another perhaps."""
        self._names[node] = Name(name)
        self._known[node] = known or name
        self._used[name] = 1

    def of(self, node: Node) -> str:
        return self.code(node).text

    def code(self, node: Node) -> Name:
        """The name as an expression, which is asked for wherever the node is read."""
        name = self._names.get(node)
        if name is None:
            name = self._names[node] = Name(self._new(node))
        return name

    def rename(self, node: Node, name: str) -> None:
        """Rename a node to an existing name: it takes over the memory of that value."""
        self._names[node] = Name(name)

    def reserve(self, name: str) -> None:
        """Give this name to nothing else."""
        self._used.setdefault(name, 1)

    def fresh(self, base: str) -> str:
        """`base`, or `base` with the next number."""
        count, name = self._used.get(base, 0) + 1, base
        if count > 1:
            while (name := f"{base}_{count}") in self._used:
                count += 1
            self._used[name] = 1
        self._used[base] = count
        return name

    def is_free(self, name: str | None) -> bool:
        """Whether nothing is called so."""
        return name not in self._used

    def local(self, name: str, depth: int | None = None) -> str:
        """Return a name for the same purpose in all loops, or in those inside of so many others."""
        if (name, depth) not in self._locals:
            self._locals[name, depth] = self.fresh(name)
        return self._locals[name, depth]

    def _new(self, node: Node) -> str:
        hint = self.hint(node)
        return self.temporary() if hint is None else self.fresh(hint)

    def temporary(self) -> str:
        return self.fresh(f"t{next(self._temporaries)}")

    def hint(self, node: Node) -> str | None:
        """Return the user's name of a value, or of what it derives."""
        hint = self.hints.get(node)
        if hint is None:
            return None
        if isinstance(hint, tuple):
            pattern, of = hint
            hint = pattern.format(self._known.get(of) or self.of(of))
        return identifier(hint)


class Numbers(NamedTuple):
    """The names of the number type and the function module, in source on floats."""

    kind: str = "float"
    functions: str = "math"
    pythons: Collection[Node] = ()  # values that are Python's also where the source runs on NumPy's numbers


FLOATS = Numbers()


@dataclass
class Scope:
    """State that the body of a function shares with its loops."""

    names: Names
    threads: int | None = None  # how many may share a loop
    constants: dict[Literal, str] = field(default_factory=dict)  # arrays that stand before the function
    functions: dict[Op, str] = field(default_factory=dict)  # of operators, which no package has
    called: set[str] = field(default_factory=set)  # functions of the runtime
    forms: dict[Op, str] = field(default_factory=dict)  # functions on Python floats that `math` does not have
    definitions: list[Statement] = field(default_factory=list)  # of these
    errors: Mapping[type[BaseException], str] = field(default_factory=dict)  # what exceptions are called
    numbers: Numbers = FLOATS
    sizes: Collection[str] = ()  # the symbols that are mentioned
    depth: int = 0  # how many loops stand around
    counts: str = "tijk"  # what iterations are counted by, from the outermost loop inwards


def plural(name: str) -> str:
    """Return the name of a stack of values."""
    return f"all_{name}" if name.endswith("s") else f"{name}s"


def singular(name: str) -> str | None:
    """Return the singular of a name, if it is a plural."""
    if name.startswith("all_"):
        return name.removeprefix("all_")
    return name.removesuffix("s") if name.endswith("s") else None
