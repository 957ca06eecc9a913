"""Search for points close to the boundaries of branches, on both sides and on the boundary itself.

A comparison, a maximum, an absolute value or the test of a loop divides the space of the arguments. A wrong threshold
shows only between the wrong boundary and the right one, so points are needed that lie close to it (White & Cohen, *A
domain strategy for computer program testing*, 1980). Every operator with branches gives its branch distance, which
changes its sign on the boundary; arguments are moved one after the other until it does (Korel, *Automated software test
data generation*, 1990), and the boundary is then found between two points.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, islice, pairwise, product, takewhile
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import Node, Op
from symgrad.core.interpret import Watcher, like
from symgrad.export.points import Point, uniform
from symgrad.ops.control import SCAN, UNBOUNDED

LADDER = (1e-5, 1e-3, 3e-2, 0.3)  # distances from a boundary, as parts of the size of what is compared
STEPS = 24  # evaluations to come as close to a boundary as wanted
NARROWEST = 1e-9  # way between two points where the distance jumps
DOUBLINGS = 6  # of the way in one direction
LINES = 3  # ways across a boundary that are tried
SHARES = 24  # of the budget, at most: one is for points where results depend on a branch, one for ways from these
LOOKS = 10  # points where results depend on a branch that are wanted
MIXED = 24  # points in which each number has a scale of its own
FEW = 100  # evaluations, with which only ways between known points are tried
SCALES = (-1.0, 30.0, -30.0, 1000.0, -1000.0, 1e6, 0.03)
POSITIVE = (1.0, 1.0, 0.2, 5.0, 30.0)  # scales of single numbers beside each other
Decision = tuple[Any, int]  # what has branches, and which of its branch distances


class Distances:
    """The branch distances in one evaluation, those of a loop one iteration after the other; the size of operands."""

    def __init__(self) -> None:
        self._parts: dict[Decision, list[np.ndarray]] = defaultdict(list)
        self._inputs: dict[Decision, list[Sequence[Any]]] = defaultdict(list)
        self._joined: dict[Decision, np.ndarray] = {}

    def note(self, key: Any, op: Op, inputs: Sequence[Any], params: Mapping[str, Any]) -> None:
        """Note the distances of one application of an operator."""
        for i, distance in enumerate(distances_of(op, inputs, params)):
            self._note((key, i), distance, inputs)

    def watch(self, node: Node, inputs: Sequence[Any], params: Mapping[str, Any], value: Any) -> Any:
        """Note the distances of a node; see `symgrad.core.interpret.watched`."""
        if node.op.branch_distance is not None:
            self.note(node, node.op, inputs, params)
        elif node.op is SCAN and params.get("test") is not None and inputs[0] != UNBOUNDED:
            self._note((node, 0), value[-1] - inputs[0] + 0.5, inputs[:1])  # whether its test has ended it
        return value

    def _note(self, decision: Decision, distance: Any, inputs: Sequence[Any]) -> None:
        self._parts[decision].append(np.ravel(distance))
        self._inputs[decision].append(inputs)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self._parts)

    def of(self, decision: Decision) -> np.ndarray:
        """Return those of a decision; none where it was not met."""
        if decision not in self._joined:
            parts = self._parts.get(decision)
            self._joined[decision] = np.concatenate(parts) if parts else np.zeros(0)
        return self._joined[decision]

    def at(self, decision: Decision, place: int) -> float:
        """Return that at one place, NaN where it was not met."""
        found = self.of(decision)
        return float(found[place]) if place < found.size else np.nan

    def size(self, decision: Decision, place: int) -> float:
        """Return the size of what is compared at one place."""
        found = self._compared(decision, place)
        return _size(*found) if found else 0.0

    def _compared(self, decision: Decision, place: int) -> tuple[Sequence[Any], int, int] | None:
        """Return the operands of what is compared at a place, how many places these have, and which of these it is."""
        for part, inputs in zip(self._parts[decision], self._inputs[decision], strict=True):
            if place < part.size:
                return inputs, part.size, place
            place -= part.size
        return None

    def operands(self, decision: Decision, place: int) -> list[float]:
        """Return the numbers that are compared at a place; of operands of another shape none."""
        inputs, size, at = self._compared(decision, place) or ((), 0, 0)
        arrays = [np.ravel(np.real(x)) for x in inputs]
        return [float(x[at if x.size == size else 0]) for x in arrays if x.size in (1, size)]


def distances_of(op: Op, inputs: Sequence[Any], params: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the branch distances of an operator."""
    found = op.branch_distance(*inputs, **params) if op.branch_distance else ()
    return found if isinstance(found, tuple) else (found,)


def _size(inputs: Sequence[Any], count: int, place: int) -> float:
    """Return the largest operand at a place; of operands that have another number of places the largest number."""
    sizes = [np.ravel(np.abs(np.asarray(x))) for x in inputs]
    return max((float(x[place] if x.size == count else np.max(x, initial=0)) for x in sizes), default=0.0)


class Seen(NamedTuple):
    """A point and the branch distances there."""

    point: Point
    distances: Distances


Matters = Callable[[Seen, int | None], Sequence[Hashable]]
"""By which uses of a branch results at a point depend on the one that is taken at a place, or where None at any."""


Mattering = dict[tuple[Hashable, int, float], list[Seen]]
"""Points where results depend on a branch: by what uses it, by the place and by the side."""

Pairs = dict[Hashable, list[tuple[tuple[bool, float, int], Seen, Seen]]]
"""By the use of a branch the two ends of each way across a boundary. Before them stands what ways are sorted by:
whether results do not depend on the branch at one of the ends, how long the way is, and the place."""


class Budget:
    """The operations that the search may take, and those it has taken."""

    def __init__(self, operations: int) -> None:
        self.left, self.spent = operations, 0

    def take(self, operations: int = 1) -> None:
        self.left -= operations
        self.spent += operations

    def counting(self, watch: Watcher) -> Watcher:
        """Watcher evaluations and count their operations."""

        def run(node: Node, inputs: Sequence[Any], params: Mapping[str, Any], value: Any) -> Any:
            self.take()
            return watch(node, inputs, params, value)

        return run


class Side(NamedTuple):
    """A point on one side of a boundary, and the place there.

    It is not close where the branch distance jumps on the way.
    """

    seen: Seen
    place: int
    is_close: bool

    def distance(self, decision: Decision) -> float:
        return abs(self.seen.distances.at(decision, self.place))


class Line:
    """A way across boundaries, straight from one point to another; both have the same integers.

    `met` are the points on it that are known, in the order of the way; between the ends these have been computed.
    """

    def __init__(self, search: Search, met: Sequence[tuple[float, Seen]]) -> None:
        first, last = met[0][0], met[-1][0]
        self._search = search
        self._met = [((t - first) / (last - first), seen) for t, seen in met]
        self._parts: dict[tuple[Decision, int], Line] = {}

    def side(self, decision: Decision, place: int, sign: float, part: float) -> Side | None:
        """Return a point on one side of a boundary, as far from it as a part of the size of what is compared.

        In a loop, the distance jumps where an earlier iteration takes another branch. Then the boundary of that
        iteration lies there, and the point is close to that.
        """
        ends = [abs(seen.distances.at(decision, place)) for _, seen in (self._met[0], self._met[-1])]
        close = self._towards(decision, place, sign * 1e-3 * min(ends))
        if close is None:
            return None
        size = close.distances.size(decision, place)
        target = sign * part * (size if size > 1e-8 * min(ends) else min(ends))
        seen = self._towards(decision, place, target)
        if seen is None:
            return None
        found = Side(seen, place, abs(seen.distances.at(decision, place)) <= abs(target))
        earlier = None if found.is_close else self._earlier(decision, place, target)
        return found if earlier is None else earlier[1].side(decision, earlier[0], sign, part) or found

    def _earlier(self, decision: Decision, place: int, target: float) -> tuple[int, Line] | None:
        """Return the first place whose boundary lies where the distance at a later place jumps, and the way across."""
        values = [seen.distances.at(decision, place) for _, seen in self._met]
        jump = next((i for i, (x, y) in enumerate(pairwise(values)) if (x < target) != (y < target)), None)
        if jump is None:
            return None
        before, behind = (seen.distances.of(decision)[:place] for _, seen in self._met[jump : jump + 2])
        changed = np.flatnonzero(before * behind < 0)
        return (int(changed[0]), self._part(decision, int(changed[0]), jump)) if changed.size else None

    def _part(self, decision: Decision, place: int, jump: int) -> Line:
        """Return the part of the way around a jump in which a boundary is crossed there alone, as far as is known."""
        if (decision, place) not in self._parts:
            signs = [np.sign(seen.distances.at(decision, place)) for _, seen in self._met]
            before = sum(1 for _ in takewhile(lambda sign: sign == signs[jump], signs[jump::-1]))
            behind = sum(1 for _ in takewhile(lambda sign: sign == signs[jump + 1], signs[jump + 1 :]))
            self._parts[decision, place] = Line(self._search, self._met[jump + 1 - before : jump + 1 + behind])
        return self._parts[decision, place]

    def _towards(self, decision: Decision, place: int, target: float) -> Seen | None:
        """Return a point at a branch distance of the sign of `target`, and if possible not much smaller than it.

        By false position, with a bisection now and then. Where the distance jumps the point is just behind that.
        """
        for step in range(STEPS):
            values = [(t, seen.distances.at(decision, place), seen) for t, seen in self._met]
            for _, value, seen in values:
                if 0.25 * abs(target) <= value * np.sign(target) <= abs(target):
                    return seen
            ends = values[0][1], values[-1][1]
            end = max(ends) if target > 0 else min(ends)
            if abs(end) < abs(target):
                return values[ends.index(end)][2]
            bracket = next(((a, b) for a, b in pairwise(values) if (a[1] < target) != (b[1] < target)), None)
            if bracket is None:
                return None
            (t, x, low), (u, y, high) = bracket
            if u - t < NARROWEST:
                break
            share = 0.5 if step % 3 == 2 else min(max((0.6 * target - x) / (y - x), 0.01), 0.99)
            middle = t + share * (u - t)
            tried = self._search.observed(_between(self._met[0][1].point, self._met[-1][1].point, middle), kept=False)
            if not t < middle < u or tried is None or np.isnan(tried.distances.at(decision, place)):
                beyond = low if (x > 0) == (target > 0) else high
                return beyond if beyond.distances.at(decision, place) * target > 0 else None
            self._met.insert(next(i for i, (v, _) in enumerate(self._met) if v > middle), (middle, tried))
        return next((s for _, x, s in sorted(values, key=lambda v: abs(v[1])) if x * target > 0), None)


class Search:
    """A search for points close to boundaries, which begins at points that are known.

    `observe` gives the branch distances at a point, None where there are none, until the `budget` is spent. `constants`
    are numbers of the program, which may be thresholds, and `eps` is the rounding unit.
    """

    def __init__(
        self,
        observe: Callable[[Point], Distances | None],
        points: Sequence[Point],
        constants: Sequence[float],
        eps: float,
        budget: Budget,
    ) -> None:
        self._observe, self._constants, self._budget = observe, constants, budget
        self.ladder = [part for part in LADDER if part > 64 * eps]
        self.seen: list[Seen] = []
        self._lines: dict[tuple[int, int], Line | None] = {}
        self._ways: dict[Decision, list[tuple[int, Line]]] = {}
        self._starts = list(points)
        self._mixed: list[Seen] | None = None
        for point in points:
            self.observed(point)
        self._cost = budget.spent // max(1, len(points))

    def observed(self, point: Point, kept: bool = True) -> Seen | None:
        """Return a point with its distances; a kept one is a start for further search."""
        found = self._observe(point) if self._budget.left > 0 else None
        if found is None:
            return None
        seen = Seen(point, found)
        if kept:
            self.seen.append(seen)
        return seen

    @property
    def decisions(self) -> list[Decision]:
        """Return all decisions that were met, in order."""
        return list(dict.fromkeys(decision for seen in self.seen for decision in seen.distances))

    @property
    def _share(self) -> int:
        """Return the part of the budget for points where results depend on a branch, or for ways from these."""
        return self._budget.left // min(SHARES, 4 * len(self.decisions))

    def signs(self, decision: Decision) -> set[float]:
        """Return the signs of the distances that were met, 0 among them."""
        return {float(s) for seen in self.seen for s in np.unique(np.sign(seen.distances.of(decision))) if s == s}

    def varies(self, decision: Decision) -> bool:
        """Whether a distance depends on the arguments, as far as can be seen."""
        first, *others = [x for seen in self.seen if (x := seen.distances.of(decision)).size]
        return any(not np.array_equal(x, first, equal_nan=True) for x in others)

    def is_met(self, decision: Decision) -> bool:
        """Whether there are arguments on either side."""
        return {-1.0, 1.0} <= self.signs(decision)

    def is_near(self, decision: Decision) -> bool:
        """Whether there are arguments close to the boundary on either side."""
        near, part = set[float](), self.ladder[-2:][0]  # of half precision the ladder has one rung
        for seen in self.seen:
            for sign in (-1.0, 1.0):
                closest = _nearest(seen.distances.of(decision), sign)
                if closest and closest[0] <= part * seen.distances.size(decision, closest[1]):
                    near.add(sign)
        return len(near) == 2

    # ---- across a boundary

    def probe(self) -> None:
        """Look at points of other scales, and near constants of the program, where a side has not been met."""
        if self._budget.left < FEW * self._cost or not self.seen or all(map(self.is_met, self.decisions)):
            return
        start = self.seen[0].point
        floating = _of_kinds(start, "f")
        for leaves in [floating, *([i] for i in floating if len(floating) > 1)]:
            for scale in SCALES:
                self.observed(_changed(start, leaves, _scaled(scale)))
            for c in self._constants:
                self.observed(_changed(start, leaves, _around(c)))
        whole = sorted({int(c) + k for c in self._constants if abs(c) < 100 for k in (-1, 0, 1)} | {0, 1})
        for i in _of_kinds(start, "iub"):
            for number in whole:
                if number >= 0 or np.asarray(start.leaves[i]).dtype.kind == "i":
                    self.observed(_changed(start, [i], partial(np.full_like, fill_value=number)))

    def mix(self) -> list[Seen]:
        """Look, once, at points in which each number has a scale of its own, or lies near a constant of the program.

        Where several conditions hold together at one place but at no usual point, they hold at some of these.
        """
        if self._mixed is None:
            around, seeds = [_around(c) for c in self._constants], count(1)
            signed = [_scaled(sign * scale) for scale in POSITIVE for sign in (1.0, -1.0)]
            self._mixed = []
            for i in range(MIXED):
                start = self._starts[i // 2 % min(len(self._starts), 2)]  # usual ones
                changes = [*(signed if i % 2 else map(_scaled, POSITIVE)), *around]
                change = partial(_mixed, changes=changes, seeds=seeds)
                seen = self.observed(_changed(start, _of_kinds(start, "f"), change))
                self._mixed += [seen] if seen else []
        return self._mixed

    def lines(self, decision: Decision) -> Iterator[tuple[int, Line]]:
        """Find places and ways on which the branch at that place changes, the shortest first."""
        found = self._across(decision) or self._steered(decision)
        found.sort(key=lambda each: each[:2])
        at_first = [each for each in found[LINES:] if each[1] == 0]
        for _, place, low, high in [*found[: LINES - len(at_first)], *at_first]:
            line = self._line(low, high, decision, place)
            if line is not None:
                yield place, line

    def _mattering(self, decision: Decision, matters: Matters, least: int) -> Mattering:
        """Find points where results depend on the branch at a place."""
        met: Mattering = defaultdict(list)
        looked = 0
        for seen in self._looked_at(decision):
            if looked >= LOOKS or self._budget.left < least or not matters(seen, None):
                continue
            looked += 1
            distances = seen.distances.of(decision)
            places = [int(i) for i in np.argsort(np.abs(distances)) if distances[i] and np.isfinite(distances[i])]
            last = [max(places)] if places else []  # later iterations may make up for the branches of earlier ones
            for place in dict.fromkeys([*places[:3], *last]):
                for use in matters(seen, place):
                    met[use, place, float(np.sign(distances[place]))].append(seen)
        return met

    def _looked_at(self, decision: Decision) -> list[Seen]:
        """Return the points that are nearest to a boundary, and the mixed ones."""
        nearest = [pair for sign in (-1.0, 1.0) for pair in self._nearest(decision, sign)]
        return [*{id(seen): seen for seen in (*(seen for seen, _ in nearest), *self.mix())}.values()]

    def _from_mattering(
        self, decision: Decision, met: Mattering, matters: Matters, least: int
    ) -> Iterator[tuple[int, Line]]:
        """Find ways across a boundary from such points: along one argument alone, or to the nearest on the other side.

        First come ways of which both ends are such points; the nearest is one of these where there is one.
        """
        pairs = self._moved_alone(decision, met, matters, least)
        for (use, place, sign), found in met.items():
            seen, others = found[0], met.get((use, place, -sign))
            across = [
                (-sign * x, each)
                for each in others or self.seen
                if sign * (x := each.distances.at(decision, place)) < 0
            ]
            if across and not (others and sign > 0):
                far, nearest = min(across, key=lambda pair: pair[0])
                way = far + abs(seen.distances.at(decision, place))
                pairs[use].append(((not others, way, place), seen, nearest))
        for each in pairs.values():
            for (_, _, place), a, b in sorted(each, key=lambda pair: pair[0])[: 2 * LINES]:
                line = self._line(a, b, decision, place)
                if line is not None:
                    yield place, line

    def _moved_alone(self, decision: Decision, met: Mattering, matters: Matters, least: int) -> Pairs:
        """Find ways from such points along one argument alone; where they pass other boundaries see `_restored`."""
        pairs: Pairs = defaultdict(list)
        wanted = dict.fromkeys((use for use, _, _ in met), LINES)  # ways of which both ends are such points
        uses: dict[tuple[int, int], list[Hashable]] = defaultdict(list)
        points: dict[tuple[int, int], Seen] = {}
        for (use, place, _), found in met.items():
            for seen in found:
                uses[id(seen), place].append(use)
                points[id(seen), place] = seen
        for (key, place), seen in points.items():
            for leaf in _of_kinds(seen.point, "f"):
                of_these = [use for use in uses[key, place] if wanted[use] > 0]
                if not of_these or self._budget.left < least:
                    break
                moved = self._moved_over(decision, place, seen, leaf)
                if moved is None:
                    continue
                if not (shown := {*matters(moved, place)} & {*of_these}):
                    moved = self._restored(decision, place, seen, moved) or moved
                    shown = {*matters(moved, place)}
                for use in of_these:
                    wanted[use] -= use in shown
                    pairs[use].append(((use not in shown, 0.0, place), seen, moved))
        return pairs

    def _across(self, decision: Decision) -> list[tuple[float, int, Seen, Seen]]:
        """Find the places where points lie on both sides, and those that are nearest: the shortest ways first."""
        rows = [seen.distances.of(decision) for seen in self.seen]
        table = np.full((len(rows), max(x.size for x in rows)), np.nan)
        for row, x in zip(table, rows, strict=True):
            row[: x.size] = x
        table[~np.isfinite(table)] = 0.0
        below, above = np.where(table < 0, table, -np.inf), np.where(table > 0, table, np.inf)
        lows, highs = np.argmax(below, axis=0), np.argmin(above, axis=0)
        ways = np.min(above, axis=0) - np.max(below, axis=0)
        places = [int(i) for i in np.argsort(ways, kind="stable") if np.isfinite(ways[i])]
        return [(float(ways[i]), i, self.seen[lows[i]], self.seen[highs[i]]) for i in places]

    def set_directly(self, decision: Decision, starts: Sequence[Seen]) -> None:
        """Look at points on a boundary and close to it, where a number of an argument is itself what is compared."""
        for start in starts:
            size = start.distances.of(decision).size
            for place in dict.fromkeys((0, size - 1)) if size else ():
                distance = start.distances.at(decision, place)
                if np.isfinite(distance):
                    self._set_directly(start, start.distances.operands(decision, place), distance)

    def _set_directly(self, start: Seen, operands: Sequence[float], distance: float) -> None:
        for number in dict.fromkeys(operands):
            for leaf in _of_kinds(start.point, "iufb"):
                x = np.asarray(start.point.leaves[leaf])
                same = np.flatnonzero(x == number)
                targets = _around_boundary(number, distance, operands, x.dtype.kind) if same.size else ()
                for target, places in product(targets, (same[:1], slice(None)) if x.size > 1 else (same,)):
                    change = partial(_put, places=places, number=target)
                    if self.observed(_changed(start.point, [leaf], change)) is None:
                        break  # where one of them is far too much work, or fails, its neighbours are as well

    def _steered(self, decision: Decision) -> list[tuple[float, int, Seen, Seen]]:
        """Move points, one argument after the other, until the distance changes its sign."""
        met = [
            (abs(float(x[place])), i, place)
            for i, x in enumerate([seen.distances.of(decision) for seen in self.seen])
            for place in range(min(3, x.size))
            if np.isfinite(x[place]) and x[place]
        ]
        found = []
        for _, i, place in sorted(met)[:2]:
            start = self.seen[i]
            for leaf in _of_kinds(start.point, "f"):
                other = self._moved_over(decision, place, start, leaf)
                if other is not None:
                    found.append((0.0, place, start, other))
        return found

    def _moved_over(self, decision: Decision, place: int, start: Seen, leaf: int) -> Seen | None:
        """Move one argument as a whole until a point is on the other side of a boundary."""
        here = start.distances.at(decision, place)
        width = float(np.max(np.abs(start.point.leaves[leaf]), initial=0.0)) or 1.0

        def moved(step: float) -> tuple[Seen | None, float]:
            seen = self.observed(_changed(start.point, [leaf], lambda x: x + step))
            return seen, np.nan if seen is None else seen.distances.at(decision, place)

        for step in (0.01 * width, 100 * width):
            _, there = moved(step)
            if np.isfinite(there) and there != here:
                break
        else:
            return None
        step *= 1.5 * here / (here - there)  # as far as the secant says, and somewhat further
        for _ in range(DOUBLINGS):
            seen, there = moved(step)
            if np.isnan(there) or there * here < 0:
                return seen if there * here < 0 else None
            step *= 2
        return None

    def _restored(self, decision: Decision, place: int, start: Seen, moved: Seen) -> Seen | None:
        """Move a point back over a second boundary that it has passed together with the first one.

        Where a result needs two conditions at once, this finds a point beyond the boundary of one at which the other
        still holds.
        """
        for other in moved.distances:
            passed = start.distances.at(other, place) * moved.distances.at(other, place) < 0
            for leaf in _of_kinds(moved.point, "f") if passed and other != decision else ():
                back = self._moved_over(other, place, moved, leaf)
                if back is not None and back.distances.at(decision, place) * moved.distances.at(decision, place) > 0:
                    return back
        return None

    def _line(self, a: Seen, b: Seen, decision: Decision, place: int) -> Line | None:
        """Return the way between points, of which one takes the integers of the other."""
        key = id(a), id(b)
        if key not in self._lines:
            others = _of_kinds(a.point, "iub")
            for start, end in (a, b), (b, a):
                leaves = list(end.point.leaves)
                for i in others:
                    leaves[i] = start.point.leaves[i]
                same = all(x is y or np.array_equal(x, y) for x, y in zip(leaves, end.point.leaves, strict=True))
                seen = end if same else self.observed(end.point._replace(leaves=leaves))
                if seen and seen.distances.at(decision, place) * start.distances.at(decision, place) < 0:
                    self._lines[key] = Line(self, [(0.0, start), (1.0, seen)])
                    break
            else:
                self._lines[key] = None
        return self._lines[key]

    # ---- close to it

    def close(
        self, decision: Decision, tells: Callable[[Seen, float, int], bool], matters: Matters | None = None
    ) -> None:
        """Offer points on either side of a boundary, from close ones to far ones, until they tell something.

        Where those on the shortest ways do not, others are tried, between points where it `matters` which branch is
        taken.
        """
        left, near, far = {-1.0, 1.0}, self.ladder[:2], self.ladder[2:]
        met: Mattering = {}
        jumps: list[tuple[float, Side]] = []
        ways = self._offer(decision, islice(self.lines(decision), LINES), near, tells, left, jumps)
        if left and matters is not None:
            met = self._mattering(decision, matters, self._budget.left - self._share)
            least = self._budget.left - self._share
            across = self._from_mattering(decision, met, matters, least)
            more = self._offer(decision, across, near, tells, left, jumps, least)
            ways = self._ways[decision] = [*more, *ways]
        for sign, side in sorted(jumps, key=lambda jump: jump[1].distance(decision)):
            if sign in left and tells(side.seen, sign, side.place):
                left.discard(sign)
        self._offer(decision, ways, far, tells, left, [])
        for sign in sorted(left):
            points = [(found[0], place) for (_, place, side), found in met.items() if side == sign][: 2 * LINES]
            for seen, place in points or self._nearest(decision, sign):
                if tells(seen, sign, place):
                    break

    def _nearest(self, decision: Decision, sign: float) -> list[tuple[Seen, int]]:
        """Return the points that are nearest on one side of a boundary, and the places."""
        met = [(x, seen) for seen in self.seen if (x := _nearest(seen.distances.of(decision), sign)) is not None]
        return [(seen, place) for (_, place), seen in sorted(met, key=lambda pair: pair[0])[:LINES]]

    def _offer(
        self,
        decision: Decision,
        ways: Iterable[tuple[int, Line]],
        parts: Sequence[float],
        tells: Callable[[Seen, float, int], bool],
        left: set[float],
        jumps: list[tuple[float, Side]],
        least: int = 0,
    ) -> list[tuple[int, Line]]:
        """Offer points on ways at some distances, and take off the sides on which one tells something.

        Points that are not close, as the distance jumps there, are put to `jumps`. The result are the ways that were
        tried: some, if at `least` so much of the budget is to be left.
        """
        tried = []
        for place, line in ways:
            tried.append((place, line))
            for sign in sorted(left):
                for part in parts:
                    side = line.side(decision, place, sign, part)
                    if side is not None and not side.is_close:
                        jumps.append((sign, side))
                    elif side is not None and tells(side.seen, sign, side.place):
                        left.discard(sign)
                        break
            if not left or self._budget.left < least:
                break
        return tried

    def ties(self, decision: Decision) -> Iterator[tuple[Seen, int]]:
        """Find points on the boundary itself: an argument that is compared is moved by just the branch distance.

        Other arguments are zero or one where that is not enough: x + 0 and x * 1 are not rounded.
        """
        lines = [*self._ways.get(decision, ())] or [*islice(self.lines(decision), LINES)]
        first = [(place, line) for place, line in lines if place == 0] or lines[:1]  # of a loop: not computed yet
        for place, line in [*first, *(each for each in lines if each not in first)][:2]:
            for sign in (-1.0, 1.0):
                side = line.side(decision, place, sign, self.ladder[-1])
                if side is None:
                    continue
                seen, at = side.seen, side.place
                leaves = _of_kinds(seen.point, "f")
                for leaf in leaves:
                    yield from self._moved_onto(decision, at, seen, leaf)
                for leaf, neutral in product(leaves if len(leaves) > 1 else (), (np.zeros_like, np.ones_like)):
                    others = [i for i in leaves if i != leaf]
                    alone = self.observed(_changed(seen.point, others, neutral), kept=False)
                    yield from self._moved_onto(decision, at, alone, leaf) if alone else ()

    def _moved_onto(self, decision: Decision, place: int, seen: Seen, leaf: int) -> Iterator[tuple[Seen, int]]:
        distance = seen.distances.at(decision, place)
        for step in (-distance, distance) if np.isfinite(distance) else ():
            tie = self.observed(_changed(seen.point, [leaf], partial(np.add, step)), kept=False)
            if tie is not None and tie.distances.at(decision, place) == 0:
                yield tie, place
                return


def _nearest(distances: np.ndarray, sign: float) -> tuple[float, int] | None:
    """Return the smallest distance of a sign, and its place."""
    places = np.flatnonzero(np.sign(distances) == sign)
    return min(((abs(float(distances[i])), int(i)) for i in places), default=None)


def _around_boundary(number: float, distance: float, others: Sequence[float], kind: str) -> list[float]:
    """Return the numbers in place of another one that are on a boundary and close to it, the nearest first."""
    on_it: list[float] = []
    for moved in (number - distance, number + distance):
        on_it += [x for x in others if abs(x - moved) <= 1e-12 * abs(moved)][:1] or [moved]
    if kind != "f":
        return [*dict.fromkeys(float(round(x)) + step for x in on_it for step in (0, -1, 1))]
    parts = (0.0, *(sign * part for part in LADDER[1:3] for sign in (1.0, -1.0)))
    return [x + part * (abs(x) or 1.0) for x in on_it for part in parts]


def _put(x: np.ndarray, places: Any, number: float) -> np.ndarray:
    """Return a copy with a number at some places; of integers it stays the nearest that they have."""
    changed = x.copy().reshape(-1)
    limits = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
    changed[places] = number if limits is None else min(max(number, limits.min), limits.max)
    return changed.reshape(x.shape)


def _scaled(factor: float) -> Callable[[Any], Any]:
    return lambda x: factor * x


def _around(center: float) -> Callable[[Any], Any]:
    """Return what makes numbers such that they lie around another."""
    return lambda x: center + 0.05 * (abs(center) + 0.1) * x


def near_number(point: Point, number: float) -> Iterator[Point]:
    """Yield points like another whose arguments, all at once and each alone, lie around a number, or are it."""
    floating = _of_kinds(point, "f")
    for leaves in [floating] * (len(floating) > 1) + [[i] for i in floating]:
        yield _changed(point, leaves, _around(number))
    for leaves in [floating] * (len(floating) > 1) + [[i] for i in _of_kinds(point, "fiu")]:
        yield _changed(point, leaves, partial(_put, places=slice(None), number=number))


def _mixed(x: np.ndarray, changes: Sequence[Callable[[Any], Any]], seeds: Iterator[int]) -> np.ndarray:
    """Return numbers that are changed in one way or another, and by up to a half."""
    u = uniform(2 * x.size, next(seeds)).reshape(2, *x.shape)
    changed = np.stack([change(x * (0.5 + u[0])) for change in changes])
    which = (u[1] * len(changes)).astype(int)
    return np.asarray(np.take_along_axis(changed, which[None], axis=0)[0])


def _of_kinds(point: Point, kinds: str) -> list[int]:
    """Return which leaves have a dtype of some kinds."""
    return [
        i
        for i, x in enumerate(point.leaves)
        if isinstance(x, (np.ndarray, np.generic, float, bool, int)) and np.asarray(x).dtype.kind in kinds
    ]


def _changed(point: Point, leaves: Sequence[int], change: Callable[[Any], Any]) -> Point:
    """Return a point with other numbers in some leaves."""
    changed = list(point.leaves)
    for i in leaves:
        changed[i] = like(changed[i], np.asarray(change(np.asarray(changed[i]))))
    return point._replace(kind="close to a boundary", leaves=changed)


def _between(start: Point, end: Point, t: float) -> Point:
    """Return a point on the way from one to another."""
    leaves = list(start.leaves)
    for i in _of_kinds(start, "fc"):
        x, y = (np.asarray(point.leaves[i]) for point in (start, end))
        leaves[i] = like(leaves[i], x + t * (y - x))
    return start._replace(kind="close to a boundary", leaves=leaves)
