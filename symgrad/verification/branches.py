"""Points at which a model shows a wrong branch: close to each boundary, where the results depend on the side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.analysis.rounding import SPREAD, Values, agrees, eps_of, unchanged
from symgrad.core.graph import CONSTANT, Aval, Graph, Node, needed, without_tokens
from symgrad.core.interpret import Watcher, like
from symgrad.core.region import with_nested
from symgrad.export.points import Point
from symgrad.ops.control import SCAN
from symgrad.verification.boundaries import Budget, Decision, Distances, Search, Seen, distances_of

if TYPE_CHECKING:
    from symgrad.verification.model import Known, Model

PLAIN = (0.0, 0.5, 1.0, 2.0)  # numbers that are hardly thresholds
TIES = 6  # points on a boundary that are tried
ENDS = 4  # points where a loop ends in one way
USES = 8  # of a comparison that are told apart
Chosen = Callable[[np.ndarray, int], Any]
Use = Node | None  # a node that uses a condition, None for all that do
UNTRIED = "too many comparisons to try both sides of each: {} of {} are left"


class Branches:
    """The points close to the boundaries of a model, found from usual ones; `unreached` says in words what was not."""

    def __init__(self, model: Model, known: Sequence[Known], samples: int, operations: int) -> None:
        self._model, self._samples, self._budget = model, samples, Budget(operations)
        self.known: list[Known] = []
        self.unreached: list[str] = []
        self._results: dict[int, tuple[Point, list[Any] | None]] = {}
        self._left: dict[tuple[Decision, float], list[Use]] = {}
        self._nodes = [*with_nested(model.traced.live)]
        graph = model.traced
        self._watched = needed([node for node in graph.live if _decides(node)], graph.inputs)
        if self._watched:
            sizes = known[0].point.sizes
            points = [each.point for each in known if each.point.sizes == sizes]
            eps = max((eps_of(x) for each in known[:1] for x in each.values.results), default=0.0)
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
            search.close(
                decision,
                lambda seen, sign, place: self._tells(decision, seen, sign, place),
                lambda seen, place: self._matters(decision, seen, place),
            )
            if not search.is_met(decision) and (_is_boolean(decision) or _has_constant(decision[0])):
                self._note(decision)
        if _is_boolean(decision):
            for seen, place in islice(search.ties(decision), TIES):
                if self._tells(decision, seen, 0.0, place):
                    break
        elif decision[0].op is SCAN:
            for sign in (-1.0, 1.0):
                for seen in self._ends(decision, sign):
                    self._is_kept(decision, seen.point, None, 0.5, 0)

    def _ends(self, loop: Decision, sign: float) -> Sequence[Seen]:
        """Return points where a loop is ended by its test, or is not: with each branch that its body takes last.

        A loop may be ended by its test in the very last iteration, which is as if it were not.
        """
        self._search.mix()
        met = [seen for seen in self._search.seen if sign in np.sign(seen.distances.of(loop))]
        body = set(with_nested([loop[0]])) - {loop[0]}
        inside = [decision for decision in self._search.decisions if decision[0] in body]
        last: dict[Any, Seen] = {}
        for seen in met:
            last.setdefault(tuple(str(np.sign(seen.distances.of(x)[-1:])) for x in inside), seen)
        chosen = {id(seen): seen for seen in (*met[:2], *last.values())}
        return [*chosen.values()][:ENDS]

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
        """Keep a point if another branch would show there; whether each use of it has been shown on a side by now."""
        limit = abs(seen.distances.at(decision, place))
        if not _is_boolean(decision):
            if not self._matters(decision, seen, place):
                return False
            is_known = any(seen.point is each.point for each in self.known)
            return is_known or self._is_kept(decision, seen.point, None, limit, place)
        chosen = lambda distance, _: (np.sign(distance) == sign) & (np.abs(distance) <= limit)
        for use in self._shown(decision, seen.point, chosen, self._unshown(decision, sign)):
            other = self._outputs(seen.point, _altered(decision, chosen, use))
            if other is not None and self._is_kept(decision, seen.point, other, limit, place):
                self._unshown(decision, sign).remove(use)
        return not self._unshown(decision, sign)

    def _matters(self, decision: Decision, seen: Seen, place: int | None) -> list[Use]:
        """Return by which uses of a branch results depend on the one that is taken at a place, or where None at any.

        Of a comparison only those uses count that no point has shown yet.
        """
        if decision[0].op is SCAN:
            return [None]

        def chosen(distance: np.ndarray, first: int) -> Any:
            return place is None or (np.arange(distance.size) + first == place).reshape(distance.shape)

        signs = (-1.0, 1.0) if _is_boolean(decision) else ()
        uses = [use for sign in signs for use in self._unshown(decision, sign)] if signs else [None]
        return self._shown(decision, seen.point, chosen, uses)

    def _shown(self, decision: Decision, point: Point, chosen: Chosen, uses: Sequence[Use]) -> list[Use]:
        """Return the uses of a branch for which the other one gives other results; in all uses at once it may not."""
        exact = self._exact(point)
        if exact is None:
            return []
        others = {use: self._outputs(point, _altered(decision, chosen, use)) for use in uses}
        return [use for use, other in others.items() if other is not None and _differ(other, exact, None)]

    def _unshown(self, decision: Decision, sign: float) -> list[Use]:
        """Return what uses a comparison and has been shown by no point on a side, None if that is the only one."""
        if (decision, sign) not in self._left:
            uses = self._uses(decision[0])
            self._left[decision, sign] = [*uses] if 1 < len(uses) <= USES else [None]
        return self._left[decision, sign]

    def _uses(self, node: Node) -> list[Node]:
        """Return the nodes that are no conditions themselves and have an operand that depends on a condition."""
        conditions, found = {node}, []
        for user in self._nodes:
            if conditions.isdisjoint(user.inputs):
                continue
            if _is_boolean((user, 0)):
                conditions.add(user)
            else:
                found.append(user)
        return found

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

    def _exact(self, point: Point) -> list[Any] | None:
        """The results at a point, which are remembered."""
        if id(point) not in self._results:
            self._results[id(point)] = point, self._outputs(point, unchanged)
        return self._results[id(point)][1]

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


def _altered(decision: Decision, chosen: Chosen, use: Use = None) -> Watcher:
    """Return what takes the other branch where a branch distance is chosen, in one use of it or in all.

    ``chosen(distances, first)`` has those of one application, of which the first has that number in an evaluation.
    """
    node, which = decision
    others: dict[Node, Any] = {}
    first = 0

    def watch(at: Node, inputs: Sequence[Any], params: Mapping[str, Any], value: Any) -> Any:
        nonlocal first
        if at is node and not isinstance(value, tuple):
            distance = np.asarray(distances_of(node.op, inputs, params)[which])
            there = chosen(distance, first)
            first += distance.size
            others[at] = _other(value, there if distance.shape == np.shape(value) else np.any(there))
            return others[at] if use is None else value
        if use is not None and (at is use or _is_boolean((at, 0))) and not others.keys().isdisjoint(at.inputs):
            changed = [others.get(x, given) for x, given in zip(at.inputs, inputs, strict=True)]
            others[at] = at.op.evaluate(*changed, **params)
            return others[at] if at is use else value
        return value

    return watch


def _other(value: Any, there: Any) -> Any:
    """Return a value that is another at some places: the contrary, or a number somewhat further from zero."""
    array = np.asarray(value)
    if array.dtype.kind == "b":
        return np.where(there, np.logical_not(array), array)[()]
    if array.dtype.kind in "iu":  # which may be indices
        return like(value, np.where(there, np.where(array > 0, array - 1, array + 1), array))
    return like(value, np.where(there, array + np.copysign(0.01 * (1 + np.abs(array)), array), array))


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
