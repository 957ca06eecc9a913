"""Models: the program that an edited file is compared with, evaluated at informative points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.rounding import SAMPLES, Rounding, Values, distance, largest, run
from symgrad.compiler.compiled import Compiled
from symgrad.core import tree
from symgrad.core.graph import Graph, Node, without_tokens
from symgrad.core.interpret import Watcher
from symgrad.errors import ArgumentError
from symgrad.export.points import SPECIAL, Point, call, counts, drawn, extreme, operations, some_sizes, usual
from symgrad.frontend.trace import Program
from symgrad.ops.checks import Action, Raise
from symgrad.pipeline import optimise
from symgrad.verification.branches import Branches
from symgrad.verification.scripts import Script

EFFORT = 10_000_000  # numbers that one check computes with the model, more or less
MOST_EFFORT, FEWEST = 100 * EFFORT, 24  # and so many for as few evaluations: those of long loops
CALL = 1000  # numbers that are computed while NumPy is called
ENOUGH = 72  # evaluations, and there are as many samples and points as one likes
SEARCH = 25_000  # operations to find points close to boundaries, for each usual point
LEAST_LIMIT = 20_000
PATIENT = 8  # times as many operations as usual for points that a file alone asks for
REFUSED = (ValueError, IndexError, ArithmeticError)  # what NumPy and Python raise for some numbers
WELL = 1e-5  # noise of well-conditioned results, relative to their largest number
BY_HAND = "Compare the file with its model at arguments of your own."


class OutsideOfDomain(ArithmeticError):
    """A check of the program raises: a point is not one of those that the function is for."""


def refuse(action: Action, arguments: Sequence[Any]) -> None:
    """Take a check that raises as the end of the domain, and neither warn nor print."""
    if isinstance(action, Raise):
        raise OutsideOfDomain


class Known(NamedTuple):
    """A point, and what the model gives there."""

    point: Point
    values: Values
    usual: bool
    near: bool = False  # to where the program takes another branch


class Model:
    """The program that a file is to compute: as it was traced, without rewrites as far as possible.

    `function` is the name that its function has in the file, `written` gives the program compiled as the file was, and
    `notes` are what is to be said of the model.
    """

    def __init__(
        self, program: Program, function: str, written: Callable[[], Compiled], notes: tuple[str, ...] = ()
    ) -> None:
        self.program, self.function, self._written, self.notes = program, function, written, notes
        self._known: dict[Any, list[Known]] = {}
        self.unreached: list[str] = []

    @cached_property
    def compiled(self) -> Compiled:
        return self._written()

    @cached_property
    def script(self) -> Script:
        """Return the module that symgrad writes today."""
        given = {name: x for name, x in self.compiled.unwatched.__globals__.items() if name != "__builtins__"}
        return Script(self.compiled.source, "<written by symgrad>", given)

    def feeds(self, point: Point) -> list[Any]:
        """Return the values of the graph's inputs."""
        return [x for x, leaf in zip(point.leaves, self.program.leaves, strict=True) if leaf.node is not None]

    def rewritten(self, point: Point) -> Values | None:
        """Return the results of the rewritten program, which may be finite where those of the traced one are not."""
        try:
            return self._rewritten.at(self.feeds(point), point.sizes, special=point.kind in SPECIAL)
        except REFUSED:
            return None

    def untold(self, known: Sequence[Known]) -> list[int]:
        """The results, by number, of which no point tells anything: NaN, infinite, or all rounding."""
        left = set(range(len(without_tokens(self.traced.outputs))))
        for each in known:
            for rewritten in (False, True) if left and each.usual else ():
                values = self.rewritten(each.point) if rewritten else each.values
                if values is not None:
                    scale = max(map(largest, (*self.feeds(each.point), *values.results)))
                    left -= {i for i in left if _is_told(values.results[i], values.noise[i], scale)}
                if not left:
                    break
        return sorted(left)

    # ---- points

    def known(self, points: int, seed: int, steps: tuple[int, ...]) -> list[Known]:
        """Return points with the model's results: usual ones of several sizes, the edges of blocks, the ends of ranges.

        There are `points` usual ones, if they are not too much work. In the file blocks of loops have `steps` rows.
        """
        key = points, seed, steps
        if key not in self._known:
            self._known[key] = list(self._some(points, seed, steps))
        return self._known[key]

    def _some(self, points: int, seed: int, steps: tuple[int, ...]) -> Iterator[Known]:
        choices = self._sizes()
        affordable = self._affordable
        samples = SAMPLES if affordable >= ENOUGH else 1
        half = affordable // (samples + 1) // 2  # of the points are usual ones, the others at the ends of ranges
        count = max(2, min(points, half))
        found: list[Known] = []
        for i, sizes in enumerate(choices):
            share = count // len(choices) + (i < count % len(choices))
            found += self._usual(sizes, share, seed + 100 * i, samples, max(4, half))
        yield from found
        yield from self._at_edges(found[0].point, steps, seed)
        for point in list(extreme(found[0].point))[: max(0, 2 * half - count)]:
            values = self._evaluated(point, samples)
            if values is not None:
                found.append(Known(point, values, False))
                yield found[-1]
        branches = Branches(self, found, samples, SEARCH * max(points, 1))
        self.unreached = branches.unreached
        yield from branches.known

    def near_boundary(
        self, point: Point, samples: int, watches: Sequence[Watcher], exact: bool, patient: bool = False
    ) -> Known | None:
        """Return the model's results close to a boundary, or exactly on it; if `patient`, also of a long loop."""
        truth = self._patient if patient else self._truth
        try:
            values = truth.at(self.feeds(point), point.sizes, samples, exact, exact, watches)
        except REFUSED:
            return None
        return Known(point, values, False, True)

    def mended(self, known: Known) -> Known:
        """Return a point with the results of the rewritten program where those of the traced one are not finite."""
        traced = known.values
        if all(np.isfinite(y).all() for y in traced.results):
            return known
        rewritten = self.rewritten(known.point)
        if rewritten is None:
            return known
        finite = [np.isfinite(y) for y in traced.results]
        results = [
            np.where(is_one, y, z)[()] for is_one, y, z in zip(finite, traced.results, rewritten.results, strict=True)
        ]
        noise = [np.where(is_one, m, n) for is_one, m, n in zip(finite, traced.noise, rewritten.noise, strict=True)]
        return known._replace(values=traced._replace(results=results, noise=noise))

    def doubted(self, known: Known) -> tuple[Known, float]:
        """The same with all noise that rounding may make, and the largest number on the way.

        The program that symgrad writes is an equivalent one: how far it is off, another one may be as well.
        """
        try:
            values, highest = self._truth.doubted(self.feeds(known.point), known.point.sizes, known.values)
            own = self._written_results(known.point)
        except REFUSED:
            return known, 0.0
        off = [distance(y, z) for y, z in zip(values.results, own, strict=True)]
        noise = [np.where(np.isfinite(d), np.maximum(n, d), n) for n, d in zip(values.noise, off, strict=True)]
        return known._replace(values=values._replace(noise=noise)), highest

    def _written_results(self, point: Point) -> list[Any]:
        """Return the results of the program that symgrad writes."""
        args, kwargs = call(self.program, point)
        with np.errstate(all="ignore"):
            leaves, _ = tree.flatten(self.compiled.unwatched(*args, **kwargs))
        wanted, _ = tree.flatten(self.program.outputs)
        return [x for x, node in zip(leaves, wanted, strict=True) if hasattr(node, "node")]

    def run(self, nodes: Sequence[Node], point: Point, watch: Watcher) -> dict[Node, Any] | None:
        """The values of nodes of the graph, None where NumPy refuses the numbers."""
        inputs = dict(zip(self.traced.inputs, self.feeds(point), strict=True))
        try:
            with np.errstate(all="ignore"):
                return run(nodes, inputs, point.sizes, watch, self.limit)
        except REFUSED:
            return None

    def refuses(self, point: Point) -> bool:
        """Whether what symgrad writes raises at a point."""
        try:
            args, kwargs = call(self.program, point)
            self.written_function(*args, **kwargs)
        except Exception:
            return True
        return False

    @cached_property
    def written_function(self) -> Any:
        """Return the function of the module that symgrad writes today, which counts its iterations."""
        return self.script.namespace()[self.compiled.unwatched.__name__]

    def _sizes(self) -> list[Mapping[str, int]]:
        """Sizes that differ from each other, with another one the largest, and small ones, each the smallest once."""
        orders = ((3, False), (5, True), (1, False), (1, True))
        found = [some_sizes(self.program, least, reverse=reverse) for least, reverse in orders]
        return [sizes for i, sizes in enumerate(found) if sizes not in found[:i]]

    def _usual(self, sizes: Mapping[str, int], count: int, seed: int, samples: int, tries: int) -> list[Known]:
        """Points where the results are finite, preferably well-conditioned and not all zero."""
        ranked: list[tuple[float, Known]] = []
        for point in islice(usual(self.program, sizes, seed), tries):
            values = self._evaluated(point, samples)
            if values is not None:
                ranked.append((_rank(values), Known(point, values, True)))
            if sum(rank == 0 for rank, _ in ranked) >= count:
                break
        ranked.sort(key=lambda pair: pair[0])
        return [known for _, known in ranked[:count]]

    def _at_edges(self, point: Point, steps: tuple[int, ...], seed: int) -> Iterator[Known]:
        """Points like another with two blocks of rows and one more row, along each axis that may be cut."""
        names = [name for name in point.sizes if name not in self.program.sizes.pinned]
        for step in steps:
            for name in names:
                sizes = some_sizes(self.program, large={name: 2 * step + 1})
                large = drawn(self.program, sizes, point.kinds, seed) if self._work(sizes) < EFFORT else None
                values = large and self._evaluated(large, 1)
                if large and values:
                    yield Known(large, values, True)

    def _evaluated(self, point: Point, samples: int) -> Values | None:
        try:
            return self._truth.at(self.feeds(point), point.sizes, samples, point.kind in SPECIAL)
        except REFUSED:  # NumPy refuses these numbers
            return None

    @cached_property
    def _first(self) -> Point:
        """The first usual point where all results are finite; if there is none, the first that can be evaluated."""
        possible: list[Point] = []
        for point in usual(self.program, self._sizes()[0]):
            try:
                values = self._rounding(self.traced, point).at(self.feeds(point), point.sizes, 0)
            except REFUSED:  # NumPy refuses these numbers
                continue
            if all(np.isfinite(y).all() for y in values.results):
                return point
            possible.append(point)
        if not possible:
            raise ArgumentError(f"no arguments were found at which {self.program.name} can be evaluated", BY_HAND)
        return possible[0]

    @cached_property
    def traced(self) -> Graph:
        """The graph without rewrites."""
        return optimise(self.program.graph, 0)

    @cached_property
    def _truth(self) -> Rounding:
        return self._rounding(self.traced, self._first)

    @cached_property
    def _patient(self) -> Rounding:
        return self._rounding(self.traced, self._first, PATIENT)

    def _rounding(self, graph: Graph, point: Point, times: int = 1) -> Rounding:
        return Rounding(graph, self.feeds(point), point.sizes, limit=times * self.limit)

    @cached_property
    def _affordable(self) -> int:
        """Return how many evaluations the usual points and those at the ends of ranges may take."""
        work = self._work(self._sizes()[0])
        return max(EFFORT // work, min(FEWEST, MOST_EFFORT // work))

    @cached_property
    def limit(self) -> int:
        """Return how many operations an evaluation may take: many more than estimated, for loops with a condition."""
        return LEAST_LIMIT + 3 * operations(self.program, self._sizes()[0])

    @cached_property
    def _rewritten(self) -> Rounding:
        options = self.compiled.options
        graph = optimise(self.compiled.program.graph, options.optimize, options.numerics)
        return self._rounding(graph, self._first)

    def _work(self, sizes: Mapping[str, int]) -> int:
        """Return how many numbers one evaluation computes, or could compute in its time."""
        return CALL * operations(self.program, sizes) + sum(counts(self.program, sizes)) or 1


def _is_told(y: Any, noise: np.ndarray, scale: float) -> bool:
    """Whether a number of a result is finite and not all rounding; one that cancels is small beside the others."""
    size = np.abs(np.asarray(y, complex))
    return not size.size or bool(np.any(np.isfinite(size) & (noise <= np.maximum(0.01 * size, 1e-6 * scale))))


def _rank(values: Values) -> float:
    """0 for results that tell most; else how little they tell."""
    floating = [(np.asarray(y), n) for y, n in zip(values.results, values.noise, strict=True)]
    floating = [(y, n) for y, n in floating if y.dtype.kind in "fc" and y.size]
    infinite = sum(int(np.sum(~np.isfinite(y))) for y, _ in floating)
    if infinite:
        return 2.0 + infinite
    limit = WELL if all(y.dtype.itemsize >= 8 for y, _ in floating) else 1e-2
    ill = any(np.max(n) > limit * np.max(np.abs(y)) for y, n in floating)
    return 1.0 if ill else 0.5 if any(not np.any(y) for y, _ in floating) else 0.0
