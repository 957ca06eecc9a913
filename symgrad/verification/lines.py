"""Search for the first line of an edited module whose value differs from that in symgrad's own text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.rounding import distance
from symgrad.verification.scripts import Event, Recorded, Statement

NEAR, FAR = 1e-9, 64  # of the largest number; and so many times as far as rounded arguments move it


class Line(NamedTuple):
    """The first difference between an edited module and its counterpart."""

    statement: Statement  # the first whose value differs
    cause: Statement  # the one that was changed: the same, or where that is as symgrad writes it one before it
    got: np.ndarray  # what it gives
    expected: np.ndarray  # what its counterpart does, perhaps of another shape
    missing: tuple[str, ...]  # statements before its counterpart that are gone from the edited module


def first_difference(edited: Recorded, written: Recorded, moved: Sequence[Event]) -> Line | None:
    """Go through the events of an edited module until one differs from that of its counterpart.

    Both are of one call, of the edited module perhaps only its beginning. `moved` are the events of what symgrad writes
    where the arguments are rounded otherwise.
    """
    counterparts = aligned(edited.statements, written.statements)
    expected, spread = _by_statement(written.events), _by_statement(moved)
    turns: dict[int, int] = defaultdict(int)
    agreed = -1
    for event in edited.events:
        number, turn = event.statement, turns[event.statement]
        turns[number] += 1
        other = counterparts.get(number)
        if other is None or turn >= len(expected[other]):
            continue
        noise = spread[other][turn] if turn < len(spread[other]) else expected[other][turn]
        found = next(_differing(event.values, expected[other][turn], noise), None)
        if found is not None:
            gone = _gone(written.statements, counterparts, number)
            cause = number if gone else _changed_before(edited, written, number, agreed)
            return Line(edited.statements[number], edited.statements[cause], *found, gone)
        agreed = number
    return None


def changed_at(edited: Recorded, written: Recorded, line: int) -> int:
    """The line of the statement that explains an error in a line."""
    before = [i for i, statement in enumerate(edited.statements) if statement.line <= line]
    return edited.statements[_changed_before(edited, written, before[-1], before[-1])].line if before else line


def _changed_before(edited: Recorded, written: Recorded, number: int, agreed: int) -> int:
    """The statement that explains why one differs: itself, or if that is not changed, one that is.

    That is the first changed behind the one that agreed last, or else the last changed before that. Where nothing
    before was changed it is the first behind: the body of a function stands before its call.
    """
    counterparts = aligned(edited.statements, written.statements)
    changed = [
        i
        for i, statement in enumerate(edited.statements)
        if i not in counterparts or written.statements[counterparts[i]].text != statement.text
    ]
    if number in changed or not changed:
        return number
    between = [i for i in changed if agreed < i < number]
    return between[0] if between else max((i for i in changed if i < number), default=changed[0])


def _gone(statements: Sequence[Statement], counterparts: Mapping[int, int], number: int) -> tuple[str, ...]:
    """Return the statements just before a statement's counterpart that are missing in the edited module."""
    there = set(counterparts.values())
    found: list[str] = []
    i = counterparts[number] - 1
    while i >= 0 and i not in there:
        found.insert(0, statements[i].text)
        i -= 1
    return tuple(found)


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
    allowed = near * np.max(finite, initial=0.0) + FAR * np.where(np.isnan(noise), np.inf, noise)
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
