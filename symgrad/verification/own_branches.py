"""Conditions of an edited file: points on both sides of each, and in words those that no points were found for.

The model knows nothing of a condition that was added or changed. What it compares is an argument more often than not,
and so its numbers are set to the threshold and to both sides of it; else they are moved until another branch is taken.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import Op
from symgrad.export.points import Point, call, operations
from symgrad.verification.boundaries import Budget, Decision, Distances, Search, Seen, near_number
from symgrad.verification.branches import PLAIN, TIES, constants_of
from symgrad.verification.deciding import BODY, CALL, MASK, Condition, Place, reached
from symgrad.verification.model import SEARCH, Known, Model
from symgrad.verification.scripts import FAILURES, Script

LEAST = 24  # points that are compared however long one takes
NEW = 5  # conditions of the file alone, at most, each of which is searched for as long as all the others
MOST = 1e15  # of a number that may be a threshold
SHOWN = 60  # characters of a condition
LIMIT = 4  # so many operations of an evaluation of the model, at most, are for one iteration of a loop
ITERATION = 10  # operations, more or less
DIGITS = 1e-6  # of the largest number of a result: less rounding hides no change that somebody makes
SHOWING = 3  # points for each outcome
STARTS = 4  # points from which numbers are set
NUMBERS = 12  # of the text, at most, that points lie around


class Run:
    """One run of a file: the branch distances, and by their places the outcomes of its conditions."""

    def __init__(self) -> None:
        self.distances = Distances()
        self.outcomes: dict[Place, set[bool]] = defaultdict(set)
        self.exact: set[Hashable] = set()

    def note(self, place: Hashable, op: Op, inputs: Sequence[Any], params: Mapping[str, Any], /) -> None:
        self.distances.note(place, op, inputs, params)
        if op.evaluate in (np.equal, np.not_equal):
            self.exact.add(place)

    def told(self, place: Place, value: Any, /) -> None:
        known = self.outcomes[place]
        if len(known) < 2 and isinstance(value, (bool, np.bool_, np.ndarray)) and np.asarray(value).dtype.kind == "b":
            known.update(map(bool, np.ravel(value)))


class Unmet(NamedTuple):
    """A condition that has not had both outcomes at the compared points, and why."""

    condition: Condition
    fact: str

    def __str__(self) -> str:
        return self.fact.format(f"`{_short(self.condition.text)}` in line {self.condition.place[1]}")


class OwnBranches:
    """The conditions of a file, and points close to the boundaries that known points are far from."""

    def __init__(self, script: Script, model: Model, known: Sequence[Known]) -> None:
        self._script, self._model = script, model
        self._conditions = script.conditions(model.function)
        self._written = model.script.conditions(model.compiled.unwatched.__name__)
        here, written = (Counter((c.kind, c.text) for c in each) for each in (self._conditions, self._written))
        self._new = {c.place for c in self._conditions if here[c.kind, c.text] > written[c.kind, c.text]}
        self._here = _numbers(script, model.function)
        written_numbers = _numbers(model.script, model.compiled.unwatched.__name__)
        self._added = sorted((self._here - written_numbers).keys() - set(PLAIN))[:NUMBERS]
        self._first = known[0].point
        self._operations = operations(model.program, known[0].point.sizes)
        self._budget = Budget(8 * SEARCH * (1 + min(NEW, len(self._new))))
        self._runs: dict[int, tuple[Point, Run | None]] = {}
        self._running = _Running(script, model)
        self._compared: list[Point] = []
        self._close: list[Point] = []
        for each in known:
            self._observed(each.point)
            self.compared(each)
        alike = [each.point for each in known if each.point.sizes == known[0].point.sizes]
        self._search = Search(self._observed, alike, self._constants(), _eps(alike[0]), self._budget)
        self._find()

    def _observed(self, point: Point) -> Distances | None:
        if id(point) not in self._runs:
            run = self._running.at(point)
            self._budget.take(max(self._operations, ITERATION * self._script.spent))
            self._runs[id(point)] = point, run
        run = self._runs[id(point)][1]
        return None if run is None else run.distances

    def _constants(self) -> list[float]:
        """Return the numbers in the text, which may be thresholds, those of the file alone first."""
        others = set(self._here) - set(constants_of(self._model.traced)) - set(PLAIN)
        return [*dict.fromkeys((*self._added, *sorted(others)))][:NUMBERS]

    # ---- the search

    def _find(self) -> None:
        """Search near the boundaries that known points are not close to; a branch that is taken may have others."""
        search, done = self._search, set[Decision]()
        while left := [d for d in search.decisions if d not in done and (not done or self._is_new(d))]:
            for decision in filter(self._is_new, left):
                search.set_directly(decision, self._starts(decision))
            far = [d for d in left if not self._is_exact(d) and search.varies(d) and not search.is_near(d)]
            if far and not done:
                search.probe()
                search.mix()
            for decision in far:
                search.close(decision, self._keep)
            for decision in left:
                if self._is_new(decision) and self._is_exact(decision) and 0.0 not in search.signs(decision):
                    [*islice(search.ties(decision), TIES)]
            done.update(left)

    def _keep(self, seen: Seen, sign: float, place: int) -> bool:
        self._close.append(seen.point)
        return False  # all distances are wanted

    def _is_new(self, decision: Decision) -> bool:
        return decision[0][:5] in self._new

    def _is_exact(self, decision: Decision) -> bool:
        """Whether nothing but the boundary itself has another outcome."""
        return any(run is not None and decision[0] in run.exact for _, run in self._runs.values())

    def _starts(self, decision: Decision) -> list[Seen]:
        """Return two points where it is met, and one each where another new condition has its other outcome."""
        met = [seen for seen in self._search.seen if seen.distances.of(decision).size]
        first, found = met[0], met[:2]
        for other in filter(self._is_new, self._search.decisions):
            sign = np.sign(first.distances.at(other, 0))
            found += [seen for seen in met if other != decision and np.sign(seen.distances.at(other, 0)) == -sign][:1]
        return found[:STARTS]

    # ---- the points

    def points(self) -> Iterator[Point]:
        """Yield points to be compared: first those that show each new condition, then others close to boundaries.

        The last are near numbers of the file alone: a term that an edit adds may be nothing elsewhere.
        """
        most = max(LEAST if self._new else 0, SEARCH // self._operations)
        mixed = [seen.point for seen in self._search.mix()] if self._close else []
        chosen = {id(point): point for point in (*self._showing(), *self._close, *mixed)}
        yield from islice((x for x in chosen.values() if all(x is not y for y in self._compared)), most)
        near = (point for c in self._added for x in (c, -c) for point in near_number(self._first, x))
        yield from islice((point for point in near if self._observed(point)), max(LEAST, SEARCH // self._operations))

    def _showing(self) -> Iterator[Point]:
        """Yield some points for each outcome of each new condition, and the nearest on each side of its boundaries."""
        by_outcome: dict[Hashable, list[tuple[float, int, Point]]] = defaultdict(list)
        for i, (point, run) in enumerate((point, run) for point, run in self._runs.values() if run is not None):
            for place in self._new & run.outcomes.keys():
                for outcome in run.outcomes[place]:
                    by_outcome[place, outcome].append((0.0, i, point))
            for decision in filter(self._is_new, run.distances):
                distances = run.distances.of(decision)
                for sign in np.unique(np.sign(distances[np.isfinite(distances)])):
                    nearest = float(np.min(np.abs(distances[np.sign(distances) == sign])))
                    by_outcome[decision, sign].append((nearest, i, point))
        for key in sorted(by_outcome, key=lambda key: len(by_outcome[key])):
            yield from (point for _, _, point in sorted(by_outcome[key], key=lambda each: each[:2])[:SHOWING])

    def is_on_boundary(self, point: Point) -> bool:
        """Whether a point lies on the boundary of a new condition."""
        run = self._runs[id(point)][1]
        return run is not None and any(np.any(run.distances.of(d) == 0) for d in run.distances if self._is_new(d))

    def compared(self, known: Known) -> None:
        """Take a point as one at which the file has been compared, if rounding leaves the results digits enough."""
        results = zip(known.values.results, known.values.noise, strict=True)
        if not known.values.left_range and all(_is_telling(np.asarray(y), noise) for y, noise in results):
            self._compared.append(known.point)

    # ---- what was not shown

    def unreached(self) -> list[str]:
        """Return in words which conditions have not had all their outcomes.

        Those of the module that symgrad writes are the model's affair.
        """
        found = [*_unmet(self._conditions, [self._runs[id(point)][1] for point in self._compared])]
        if any(each.condition.place not in self._new for each in found):
            running = _Running(self._model.script, self._model)
            runs = [running.at(point) for point in self._compared]
            theirs = {(x.condition.text, x.fact) for x in _unmet(self._written, runs)}
            found = [x for x in found if x.condition.place in self._new or (x.condition.text, x.fact) not in theirs]
        return [*dict.fromkeys(map(str, found))]


class _Running:
    """An instrumented module that is run at points."""

    def __init__(self, script: Script, model: Model) -> None:
        self._script, self._model, self._run = script, model, Run()
        name = model.function if script is not model.script else model.compiled.unwatched.__name__
        self._function = script.deciding(self)[name]

    def note(self, place: Hashable, op: Op, inputs: Sequence[Any], params: Mapping[str, Any], /) -> None:
        self._run.note(place, op, inputs, params)

    def told(self, place: Place, value: Any, /) -> None:
        self._run.told(place, value)

    def at(self, point: Point) -> Run | None:
        """Return the run at a point, None where it fails."""
        self._run = Run()
        self._script.allow(self._model.limit // LIMIT)
        args, kwargs = call(self._model.program, point)
        try:
            self._function(*args, **kwargs)
        except FAILURES:
            return None
        return self._run


def _numbers(script: Script, function: str) -> Counter[float]:
    """Return the numbers in the text of a function and of those that it calls."""
    nodes = (node for s in reached(script.statements, function) for node in ast.walk(s))
    values = (node.value for node in nodes if isinstance(node, ast.Constant))
    return Counter(float(x) for x in values if isinstance(x, (int, float)) and abs(x) < MOST)


def _unmet(conditions: Iterable[Condition], runs: Sequence[Run | None]) -> Iterator[Unmet]:
    """Yield the conditions that had not all their outcomes in some runs."""
    outcomes: dict[Place, set[bool]] = defaultdict(set)
    signs: dict[Place, dict[Decision, set[float]]] = defaultdict(lambda: defaultdict(set))
    for run in (run for run in runs if run is not None):
        for place, had in run.outcomes.items():
            outcomes[place] |= had
        for decision in run.distances:
            if decision[0] not in run.exact:
                found = np.sign(run.distances.of(decision))
                signs[decision[0][:5]][decision] |= {float(x) for x in np.unique(found[np.isfinite(found)])}
    for condition in conditions:
        fact = _fact(condition, outcomes, signs[condition.place].values())
        if fact:
            yield Unmet(condition, fact)


def _fact(condition: Condition, outcomes: Mapping[Place, set[bool]], signs: Iterable[set[float]]) -> str:
    """Return in words what of a condition was not met, "" if all was."""
    had = outcomes.get(condition.place)
    if had is None:
        return "" if condition.kind in (CALL, MASK) else "at no arguments that were found {} is reached"
    if len(had) == 1 and condition.kind != BODY:
        return f"at all arguments that were found {{}} is {had != {False}}"
    if not had and any(len(each - {0.0}) == 1 for each in signs):
        return "at all arguments that were found what {} compares is on the same side"
    return ""


def _is_telling(y: np.ndarray, noise: np.ndarray) -> bool:
    """Whether a result is finite, and its rounding small beside its largest number."""
    digits = max(DIGITS, 1e3 * float(np.finfo(y.dtype).eps)) if y.dtype.kind in "fc" else DIGITS
    largest = float(np.max(np.abs(y), initial=0.0))
    return bool(np.isfinite(largest) and np.max(noise, initial=0.0) <= digits * largest)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _eps(point: Point) -> float:
    """Return the largest rounding unit of the arguments."""
    floating = [x.dtype for x in map(np.asarray, point.leaves) if x.dtype.kind == "f"]
    return max((float(np.finfo(dtype).eps) for dtype in floating), default=0.0)
