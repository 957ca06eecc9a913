"""Points at which a model shows a wrong branch: close to each boundary, where the results depend on the side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.analysis.rounding import SPREAD, Values, agrees, unchanged
from symgrad.core.graph import CONSTANT, Aval, Graph, Node, needed, without_tokens
from symgrad.core.interpret import Watcher
from symgrad.core.region import with_nested
from symgrad.export.points import Point
from symgrad.ops.control import SCAN
from symgrad.verification.boundaries import Budget, Decision, Distances, Search, Seen, distances_of

if TYPE_CHECKING:
    from symgrad.verification.model import Known, Model

PLAIN = (0.0, 0.5, 1.0, 2.0)  # numbers that are hardly thresholds
TIES = 6  # points on a boundary that are tried
UNTRIED = "too many comparisons to try both sides of each: {} of {} are left"


class Branches:
    """The points close to the boundaries of a model, found from usual ones; `unreached` says in words what was not."""

    def __init__(self, model: Model, known: Sequence[Known], samples: int, operations: int) -> None:
        self._model, self._samples, self._budget = model, samples, Budget(operations)
        self.known: list[Known] = []
        self.unreached: list[str] = []
        graph = model.traced
        self._watched = needed([node for node in graph.live if _decides(node)], graph.inputs)
        if self._watched:
            sizes = known[0].point.sizes
            points = [each.point for each in known if each.point.sizes == sizes]
            eps = max((_eps(x) for each in known[:1] for x in each.values.results), default=0.0)
            self._search = Search(self._observed, points, constants_of(graph), eps, self._budget)
            self._search.probe()
            self._find()

    def _find(self) -> None:
        done: set[Decision] = set()
        while left := [d for d in self._search.decisions if d not in done]:  # a branch that is taken may have others
            for decision in sorted(left, key=lambda d: not _is_boolean(d)):
                done.add(decision)
                if self._budget.left <= 0:
                    self.unreached.append(UNTRIED.format(len(left), len(done) + len(left) - 1))
                    return
                if self._search.varies(decision):
                    self._close_to(decision)

    def _close_to(self, decision: Decision) -> None:
        search, equality = self._search, _is_equality(decision)
        if not equality:
            search.close(decision, lambda seen, sign, place: self._tells(decision, seen, sign, place))
            if not search.is_met(decision) and (_is_boolean(decision) or _has_constant(decision[0])):
                self._note(decision)
        if _is_boolean(decision):
            for seen, place in islice(search.ties(decision), TIES):
                if self._tells(decision, seen, 0.0, place):
                    break
        elif decision[0].op is SCAN:  # which may have been ended in the last iteration: a point further away
            for sign in (-1.0, 1.0):
                met = (seen for seen in search.seen if sign in np.sign(seen.distances.of(decision)))
                for seen in islice(met, 2):
                    self._is_kept(decision, seen.point, None, 0.5, 0)

    def _note(self, decision: Decision) -> None:
        """Note that one side of a boundary was not met."""
        node, (sign,) = decision[0], self._search.signs(decision) - {0.0} or (0.0,)
        words = {1.0: "above", -1.0: "below", 0.0: "equal to"}[sign]
        user = node.where.text
        place = f"{node.where.in_words}{f' ({user})' if user else ''}"
        note = f"at all arguments that were found, what np.{node.op.name} compares in {place} is {words} the other"
        if note not in self.unreached:
            self.unreached.append(note)

    # ---- whether a point tells something

    def _tells(self, decision: Decision, seen: Seen, sign: float, place: int) -> bool:
        """Keep a point if another branch would show there."""
        if any(seen.point is each.point for each in self.known) and not _is_boolean(decision):
            return True
        limit = abs(seen.distances.at(decision, place))
        if not _is_boolean(decision):
            return self._is_kept(decision, seen.point, None, limit, place)
        other = self._outputs(seen.point, _turned(decision, sign, limit))
        if other is None:
            return False
        exact = self._outputs(seen.point, unchanged)
        if exact is None or not _differ(other, exact, None):
            return False
        return self._is_kept(decision, seen.point, other, limit, place)

    def _is_kept(self, decision: Decision, point: Point, other: Any, limit: float, place: int) -> bool:
        """Keep a point where rounding does not decide on which side it is, and where results of another are others."""
        runs = [Distances() for _ in range(self._samples + 1)]
        watches = [self._budget.counting(run.watch) for run in runs]
        known = self._model.near_boundary(point, self._samples, watches, exact=limit == 0)
        if known is None or not all(np.isfinite(y).all() for y in known.values.results):
            return False
        here = runs[0].at(decision, place)
        moved = max((abs(run.at(decision, place) - here) for run in runs[1:]), default=0.0)
        if not SPREAD * moved <= limit:
            return False
        if other is not None and not _differ(other, known.values.results, known.values):
            return False
        if all(point is not each.point for each in self.known):
            self.known.append(known)
        return True

    # ---- evaluation

    def _observed(self, point: Point) -> Distances | None:
        found = Distances()
        values = self._model.run(self._watched, point, self._budget.counting(found.watch))
        return None if values is None else found

    def _outputs(self, point: Point, watch: Watcher) -> list[Any] | None:
        graph = self._model.traced
        values = self._model.run(graph.order, point, self._budget.counting(watch))
        return None if values is None else [values[y] for y in without_tokens(graph.outputs)]


def _differ(other: Sequence[Any], exact: Sequence[Any], values: Values | None) -> bool:
    """Whether results are others by more than rounding, where they are finite."""
    noise = values.noise if values else [np.zeros(np.shape(y)) for y in exact]
    return any(
        np.shape(x) != np.shape(y) or bool(np.any(~agrees(np.asarray(x), np.asarray(y), n, None) & np.isfinite(y)))
        for x, y, n in zip(other, exact, noise, strict=True)
    )


def _turned(decision: Decision, sign: float, limit: float) -> Watcher:
    """Return what takes the other branch on one side of a boundary, up to a distance."""
    node, which = decision

    def watch(at: Node, inputs: Sequence[Any], params: Mapping[str, Any], value: Any) -> Any:
        if at is not node:
            return value
        distance = distances_of(node.op, inputs, params)[which]
        turned = (np.sign(distance) == sign) & (np.abs(distance) <= limit)
        return np.where(turned, np.logical_not(value), value)[()]

    return watch


def _decides(node: Node) -> bool:
    return any(x.op.branch_distance is not None for x in with_nested([node]))


def _is_boolean(decision: Decision) -> bool:
    aval = decision[0].aval
    return isinstance(aval, Aval) and bool(aval.dtype == bool)


def _is_equality(decision: Decision) -> bool:
    """Whether both sides of a boundary are alike, and only the boundary is not."""
    op = decision[0].op
    return (
        _is_boolean(decision) and len(decision[0].inputs) == 2 and bool(op.evaluate(0.0, 1.0) == op.evaluate(1.0, 0.0))
    )


def _has_constant(node: Node) -> bool:
    return any(x.op is CONSTANT for x in node.inputs)


def constants_of(graph: Graph) -> list[float]:
    """Return the numbers in a program that may be thresholds."""
    nodes = with_nested(graph.live)
    found = [np.ravel(x.constant) for x in nodes if x.op is CONSTANT and np.size(x.constant) <= 8]
    return sorted({float(c) for x in found if x.dtype.kind in "iuf" for c in x} - {*PLAIN, *(-c for c in PLAIN)})[:12]


def _eps(x: Any) -> float:
    dtype = np.asarray(x).dtype
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0
