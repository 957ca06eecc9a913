"""The compiled programs of one function: found fast, bounded in number, and told when there are ever more of them."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.core.graph import tracing
from symgrad.core.options import in_use
from symgrad.core.provenance import here
from symgrad.errors import RecompilationWarning

if TYPE_CHECKING:
    from symgrad.compiler.captured import Captured

RECENT = 4  # programs that a call tries before it looks further
OFTEN = 8  # times that a program is compiled again for one piece of captured state until that is worth a warning
STATES = 8  # of captured state, for which programs are kept
TOO_MANY = 16  # programs of one function after which something seems to change at every call


class Described(NamedTuple):
    """The description of a call's arguments, leaf by leaf: what a program is specialised to."""

    kinds: tuple[Any, ...]  # options, structure, dtypes; what must agree for sizes and numbers to be compared
    sizes: tuple[tuple[int, ...], ...]
    numbers: tuple[int | None, ...]  # of the leaves that are ints


class Entry:
    """A program, the call that it was compiled for, and its last use."""

    __slots__ = ("answer", "captured", "compiled", "described", "options", "unchanged", "used")

    def __init__(self, compiled: Any, options: Any, described: Described, captured: Captured) -> None:
        self.compiled, self.options, self.described, self.used = compiled, options, described, 0
        self.captured, self.unchanged = captured, captured.unchanged
        self.answer: Callable[..., Any] | None = None

    def use_once(self, path: str) -> None:
        """Let no other call find the program: its function changes state on which it depends."""
        self.captured.give_up(path)
        self.unchanged = self.captured.unchanged

    def in_c(self) -> Callable[..., Any] | None:
        """Return the C function that answers calls, None if there is none.

        It returns NotImplemented where options or captured state differ from those of the program.
        """
        if self.answer is None and self.compiled.answer is not None:
            self.answer = self.bound(None)
        return self.answer

    def bound(self, general: Callable[..., Any] | None) -> Callable[..., Any]:
        """Return the C function that answers calls, and calls another one where it cannot."""
        answer: Callable[..., Any] = self.compiled.answering(tracing, in_use, self.options, self.unchanged, general)
        return answer

    @property
    def is_current(self) -> bool:
        """Whether the captured state has not changed."""
        return self.unchanged is None or self.unchanged()


class Cache:
    """The programs of a function. Calls read `recent` without a lock: it is replaced, never edited."""

    def __init__(self) -> None:
        self.recent: tuple[Entry, ...] = ()  # what was used last, newest first
        self.answers: tuple[Callable[..., Any], ...] = ()  # the C functions that answer their calls
        self._exact: dict[Described, Entry] = {}  # under each call that was looked up
        self._groups: dict[tuple[Any, ...], list[Entry]] = {}  # by kinds
        self._history: list[Described] = []
        self._warned = False
        self._changes: Counter[str] = Counter()  # of captured state, by its name
        self._clock = itertools.count(1)

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def find(self, described: Described, args: Sequence[Any], kwargs: dict[str, Any]) -> Entry | None:
        """The program for a call."""
        entry = self._exact.get(described)
        if entry is None or not entry.is_current:
            group = self._groups.get(described.kinds, ())
            fitting = (e for e in reversed(group) if e.compiled.takes(args, kwargs))
            entry = next((e for e in fitting if e.is_current), None)
        if entry is not None:
            self._exact[described] = entry
            self._use(entry)
        return entry

    def seen(self, described: Described) -> list[Described]:
        """The calls alike that programs were compiled for."""
        return [e.described for e in self._groups.get(described.kinds, ())]

    def add(self, entry: Entry, most: int, name: str, paths: Callable[[], list[str]]) -> None:
        """Keep a program; where there are too many the one goes that has not been used for longest."""
        stale = [e for e in self._groups.get(entry.described.kinds, ()) if not e.is_current]
        before = next((e for e in reversed(stale) if e.described == entry.described), None)
        for e in stale[: 1 - STATES]:
            self._drop(e)
        self._groups.setdefault(entry.described.kinds, []).append(entry)
        self._exact[entry.described] = entry
        self._use(entry)
        while len(self) > most:
            self._drop(min((e for group in self._groups.values() for e in group), key=lambda e: e.used))
        if before is None:
            self._note(entry.described, name, paths)
        else:
            self._note_change(before, name)

    def _use(self, entry: Entry) -> None:
        for e in (*self.recent[:1], entry):  # the first has been in use without a note
            e.used = next(self._clock)
        self._set_recent((entry, *(e for e in self.recent if e is not entry))[:RECENT])
        if len(self._exact) > 16 * max(len(self), 1):
            self._exact = {e.described: e for group in self._groups.values() for e in group}

    def _drop(self, entry: Entry) -> None:
        kinds = entry.described.kinds
        self._groups[kinds] = [e for e in self._groups[kinds] if e is not entry]
        if not self._groups[kinds]:
            del self._groups[kinds]
        self._exact = {key: e for key, e in self._exact.items() if e is not entry}
        self._set_recent(tuple(e for e in self.recent if e is not entry))

    def _set_recent(self, entries: tuple[Entry, ...]) -> None:
        self.recent = entries
        self.answers = tuple(answer for e in entries if (answer := e.in_c()) is not None)

    # ---- a function that keeps compiling

    def _note_change(self, before: Entry, name: str) -> None:
        """Note that a program was compiled again since captured state has changed."""
        path = before.captured.change()
        self._changes[path] += 1
        if path and self._changes[path] == OFTEN:
            where = here()
            warnings.warn_explicit(
                f"{name} has been compiled {OFTEN} times again, each time since {path} had changed.\n"
                "  Pass it as an argument: what a function reads from outside is part of the program.",
                RecompilationWarning,
                where.file,
                where.line,
            )

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
    """Return what changes most from one compilation to the next, and advice about it."""
    counts = [len(set(values)) for values in zip(*map(_leaves, history), strict=False)]
    structures = len({d.kinds[1:-1] for d in history})
    if structures > max(counts, default=1):
        instead = "Pass an array in place of a list whose length changes; give dicts the same keys in the same order."
        return f"the arguments have been {structures} different trees", instead
    leaf = max(range(len(counts)), key=counts.__getitem__)
    what, instead = _changing([_leaves(d)[leaf] for d in history])
    return f"{paths()[leaf]} has had {counts[leaf]} {what}", instead


def _changing(leaves: Sequence[tuple[Any, tuple[int, ...], int | None]]) -> tuple[str, str]:
    """Return what changes most in a leaf, and advice about it."""
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
        "Pass a value that changes as an array; what is part of the program, such as a function, should stay the same.",
    )
