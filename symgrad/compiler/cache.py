"""The compiled programs of one function: found fast, bounded in number, and told when there are ever more of them."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from symgrad.core.provenance import here
from symgrad.errors import RecompilationWarning

RECENT = 4  # programs that a call tries before it looks further
TOO_MANY = 16  # programs of one function after which something seems to change at every call


class Described(NamedTuple):
    """The arguments of a call, leaf by leaf: what a program depends on."""

    kinds: tuple[Any, ...]  # options, structure, dtypes; what must agree for sizes and numbers to be compared
    sizes: tuple[tuple[int, ...], ...]
    numbers: tuple[int | None, ...]  # of the leaves that are ints


class Entry:
    """A program, what it was compiled for, and when it was used last."""

    __slots__ = ("compiled", "described", "options", "used")

    def __init__(self, compiled: Any, options: Any, described: Described) -> None:
        self.compiled, self.options, self.described, self.used = compiled, options, described, 0


class Cache:
    """The programs of a function. Calls read `recent` without a lock: it is replaced, never edited."""

    def __init__(self) -> None:
        self.recent: tuple[Entry, ...] = ()  # what was used last, newest first
        self._exact: dict[Described, Entry] = {}  # under each call that was looked up
        self._groups: dict[tuple[Any, ...], list[Entry]] = {}  # by kinds
        self._history: list[Described] = []
        self._warned = False
        self._clock = itertools.count(1)

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def find(self, described: Described, args: Sequence[Any], kwargs: dict[str, Any]) -> Entry | None:
        """The program for a call."""
        entry = self._exact.get(described)
        if entry is None:
            group = self._groups.get(described.kinds, ())
            entry = next((e for e in reversed(group) if e.compiled.takes(args, kwargs)), None)
        if entry is not None:
            self._exact[described] = entry
            self._use(entry)
        return entry

    def seen(self, described: Described) -> list[Described]:
        """The calls alike that programs were compiled for."""
        return [e.described for e in self._groups.get(described.kinds, ())]

    def add(self, entry: Entry, most: int, name: str, paths: Callable[[], list[str]]) -> None:
        """Keep a program; where there are too many the one goes that has not been used for longest."""
        self._groups.setdefault(entry.described.kinds, []).append(entry)
        self._exact[entry.described] = entry
        self._use(entry)
        while len(self) > most:
            self._drop(min((e for group in self._groups.values() for e in group), key=lambda e: e.used))
        self._note(entry.described, name, paths)

    def _use(self, entry: Entry) -> None:
        for e in (*self.recent[:1], entry):  # the first has been in use without a note
            e.used = next(self._clock)
        self.recent = (entry, *(e for e in self.recent if e is not entry))[:RECENT]
        if len(self._exact) > 16 * max(len(self), 1):
            self._exact = {e.described: e for group in self._groups.values() for e in group}

    def _drop(self, entry: Entry) -> None:
        kinds = entry.described.kinds
        self._groups[kinds] = [e for e in self._groups[kinds] if e is not entry]
        if not self._groups[kinds]:
            del self._groups[kinds]
        self._exact = {key: e for key, e in self._exact.items() if e is not entry}
        self.recent = tuple(e for e in self.recent if e is not entry)

    # ---- a function that keeps compiling

    def _note(self, described: Described, name: str, paths: Callable[[], list[str]]) -> None:
        self._history = [*self._history[1 - TOO_MANY :], described]
        if self._warned or len(self._history) < TOO_MANY:
            return
        self._warned = True
        fact, instead = _changes(self._history, paths)
        where = here()
        warnings.warn_explicit(
            f"{name} has been compiled {TOO_MANY} times: {fact}.\n  {instead}",
            RecompilationWarning,
            where.file,
            where.line,
        )


def _leaves(described: Described) -> list[Any]:
    """Leaf by leaf dtype or value, sizes, number."""
    return list(zip(described.kinds[-1], described.sizes, described.numbers, strict=True))


def _changes(history: Sequence[Described], paths: Callable[[], list[str]]) -> tuple[str, str]:
    """What changes most from one compilation to the next, and what to do about it."""
    counts = [len(set(values)) for values in zip(*map(_leaves, history), strict=False)]
    structures = len({d.kinds[1:-1] for d in history})
    if structures > max(counts, default=1):
        instead = "Pass an array in place of a list whose length changes; give dicts the same keys in the same order."
        return f"the arguments have been {structures} different trees", instead
    leaf = max(range(len(counts)), key=counts.__getitem__)
    what, instead = _changing([_leaves(d)[leaf] for d in history])
    return f"{paths()[leaf]} has had {counts[leaf]} {what}", instead


def _changing(leaves: Sequence[tuple[Any, tuple[int, ...], int | None]]) -> tuple[str, str]:
    """What of a leaf changes most, and what to do about it."""
    kinds, sizes, numbers = (len(set(values)) for values in zip(*leaves, strict=True))
    if numbers == max(kinds, sizes, numbers):
        return (
            "values",
            "Pass it as an array, np.asarray(n), where the function needs no number for range() or a shape.",
        )
    if sizes >= kinds:
        return "shapes", "The function needs them as numbers, in range() or `if`: give arrays of few sizes, padded."
    return (
        "values or dtypes",
        "Pass a value that changes as an array; what is part of the program should stay the same.",
    )
