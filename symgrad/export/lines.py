"""The first line of an edited module whose value is another than in the module that symgrad writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import numpy as np

from symgrad.export.modules import Event, Recorded, Statement
from symgrad.export.rounding import distance

NEAR, SPREAD = 1e-9, 64  # of the largest number; and so many times as far as rounded arguments move it


class Line(NamedTuple):
    """Where an edited module first goes another way.

    Attributes
    ----------
    statement : Statement
        The first whose value differs.
    since : Statement
        The first that may be the cause: it has no counterpart in what symgrad writes, or it is the same statement.
    got, expected : ndarray
        What it gives, and its counterpart; of shapes that may differ.
    missing : tuple of str
        Statements before its counterpart that are gone from the edited module.
    """

    statement: Statement
    since: Statement
    got: np.ndarray
    expected: np.ndarray
    missing: tuple[str, ...]


def first_difference(edited: Recorded, written: Recorded, moved: Sequence[Event]) -> Line | None:
    """Go through the events of an edited module until one differs from that of its counterpart.

    Parameters
    ----------
    edited, written : Recorded
        Of one call; that of the edited module may have ended early.
    moved : list of Event
        Those of what symgrad writes where the arguments are rounded otherwise.
    """
    counterparts = aligned(edited.statements, written.statements)
    expected, spread = _by_statement(written.events), _by_statement(moved)
    turns: dict[int, int] = defaultdict(int)
    passed, unknown = -1, None  # the counterpart that agreed last; what has none since then
    for event in edited.events:
        statement, turn = edited.statements[event.statement], turns[event.statement]
        turns[event.statement] += 1
        other = counterparts.get(event.statement)
        if other is None or turn >= len(expected[other]):
            unknown = unknown or statement
            continue
        noise = spread[other][turn] if turn < len(spread[other]) else expected[other][turn]
        found = next(_differing(event.values, expected[other][turn], noise), None)
        if found is not None:
            same = statement.text == written.statements[other].text
            since = unknown if unknown and same else statement
            gone = _gone(written.statements, counterparts, passed, other) if same and not unknown else ()
            return Line(statement, since, *found, gone)
        passed, unknown = other, None
    return None


def _gone(statements: Sequence[Statement], counterparts: Mapping[int, int], after: int, before: int) -> tuple[str, ...]:
    """What stands between two statements of the written module and has no counterpart in the edited one."""
    there = set(counterparts.values())
    return tuple(statements[i].text for i in range(after + 1, before) if i not in there)


def _by_statement(events: Sequence[Event]) -> dict[int, list[list[np.ndarray]]]:
    found: dict[int, list[list[np.ndarray]]] = defaultdict(list)
    for event in events:
        found[event.statement].append(event.values)
    return found


def _differing(
    got: Sequence[np.ndarray], expected: Sequence[np.ndarray], moved: Sequence[np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for x, y, z in zip(got, expected, moved, strict=False):
        if x.shape != y.shape or not _near(x, y, z):
            yield x, y


def _near(x: np.ndarray, y: np.ndarray, moved: np.ndarray) -> bool:
    noise: Any = distance(y, moved) if moved.shape == y.shape else np.inf
    finite = np.abs(y[np.isfinite(y)])
    near = NEAR if y.dtype.itemsize >= 8 else 1e-4
    allowed = near * np.max(finite, initial=0.0) + SPREAD * np.where(np.isnan(noise), np.inf, noise)
    return bool(np.all(distance(x, y) <= allowed))


# ---- which statement is which


def aligned(edited: Sequence[Statement], written: Sequence[Statement]) -> dict[int, int]:
    """The counterparts of statements, by number: those of the same text, and between these of the same targets.

    Where as many stand on one side as on the other, each is the counterpart of the one in its place.
    """
    found: dict[int, int] = {}
    matcher = SequenceMatcher(None, [s.text for s in edited], [s.text for s in written], autojunk=False)
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        if kind == "equal" or i_end - i == j_end - j:
            found.update(zip(range(i, i_end), range(j, j_end), strict=True))
        else:
            found.update(_by_targets(edited, written, range(i, i_end), range(j, j_end)))
    return found


def _by_targets(
    edited: Sequence[Statement], written: Sequence[Statement], here: range, there: range
) -> Iterator[tuple[int, int]]:
    matcher = SequenceMatcher(None, [edited[i].targets for i in here], [written[j].targets for j in there], False)
    for block in matcher.get_matching_blocks():
        for k in range(block.size):
            yield here[block.a + k], there[block.b + k]
