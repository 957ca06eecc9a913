"""The check of an edited module: results at points, and lines where these differ."""

from __future__ import annotations

import ast
import inspect
import io
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from symgrad.analysis.rounding import SAMPLES, furthest, rounded
from symgrad.core import tree
from symgrad.errors import ArgumentError
from symgrad.export.points import Point, call, strided
from symgrad.frontend.variable import Variable
from symgrad.ops.checks import told
from symgrad.verification.compare import compared
from symgrad.verification.deciding import reached
from symgrad.verification.lines import Line, changed_at, first_difference
from symgrad.verification.model import BY_HAND, Known, Model, refuse
from symgrad.verification.own_branches import OwnBranches
from symgrad.verification.scripts import FAILURES, ROWS, Endless, Event, Recorded, Script
from symgrad.verification.trial import PATIENCE, hangs, is_foreign
from symgrad.verification.verdict import Verdict, with_line

FEW = 300  # iterations of a loop without end that are looked at line by line
CUTS = 4  # integers of a file alone that may be sizes
SHOWN = 40  # numbers of an argument that are shown


def verdict_on(
    text: str, file: str, model: Model, points: int = 8, seed: int = 0, rtol: float | None = None
) -> Verdict:
    """The verdict on the text of a module."""
    verdict = Verdict(Path(file).name, model.program.summary.removesuffix("."), notes=model.notes)
    script = Script(text, file)
    with np.errstate(all="ignore"), warnings.catch_warnings(), redirect_stdout(io.StringIO()), told(refuse):
        warnings.simplefilter("ignore")
        return _Check(script, model, rtol).verdict(verdict, points, seed)


@dataclass
class _Check:
    """An edited module, and the model that it is checked against."""

    script: Script
    model: Model
    rtol: float | None
    unreached: Sequence[str] = ()  # conditions of the file
    returned: tuple[Any, Any] = ((), ())  # the results of the last call, and a copy of them

    def verdict(self, verdict: Verdict, points: int, seed: int) -> Verdict:
        line = None
        if is_foreign(self.script.nodes):
            known = self.model.known(points, seed, self._steps)
            line = hangs(self.script.file, partial(self._tried, known))
        if line is not None:
            return self._failed(verdict, f"it does not end within {PATIENCE:.0f} seconds", line or None)
        try:
            function = self.script.namespace().get(self.model.function)
        except FAILURES as error:
            return self._failed(verdict, f"it cannot be loaded: {said(error)}", self._line_of(error))
        fact = self._unlike(function)
        if fact:
            return self._failed(verdict, fact, self._definition.lineno if self._definition else None)
        known, worst = self.model.known(points, seed, self._steps), 0.0
        check_told(self.model, known)
        for each in known:
            fact, raised, size = self._at(function, each)
            if fact:
                return self._located(verdict, each.point, fact, raised)
            worst = max(worst, size)
        found = self._near_branches(function, known)
        if found is not None:
            return self._located(verdict, *found)
        verdict = agreeing(verdict, self.model, known, worst)
        return replace(verdict, unreached=(*verdict.unreached, *self.unreached))

    def _tried(self, known: Sequence[Known]) -> None:
        """Load the file and call its function once at each point."""
        function = self.script.namespace()[self.model.function]
        for each in known:
            self.script.allow(self.model.limit)
            _attempt(function, call(self.model.program, each.point))

    def _near_branches(self, function: Any, known: Sequence[Known]) -> tuple[Point, str, BaseException | None] | None:
        """Return the first fault close to a branch of the file that is far from all known points: new or moved."""
        own = OwnBranches(self.script, self.model, known)
        for point in own.points():
            exact = own.is_on_boundary(point)
            near = self.model.near_boundary(point, SAMPLES if exact else 1, (), exact, patient=True)
            if near is None:
                continue
            # a guard in the file that does not guard is a fault, though the model may have none
            near = self.model.mended(near)
            fact, raised, _ = self._at(function, near)
            if fact and not (exact and self._at(self.model.written_function, near)[0]):
                return point, fact, raised
            own.compared(near)
        self.unreached = own.unreached()
        return None

    def _at(self, function: Any, known: Known) -> tuple[str, BaseException | None, float]:
        """Return the fault at a point, its error if it is one, and the largest difference that is no fault."""
        fact, error, worst = self._called(function, known, call(self.model.program, known.point))
        if fact or not known.usual:
            return fact, error, worst
        fact, error, _ = self._called(function, known, call(self.model.program, known.point, strided))
        return fact and f"with arrays that are not contiguous {fact}", error, worst

    def _called(
        self, function: Any, known: Known, given: tuple[tuple[Any, ...], dict[str, Any]]
    ) -> tuple[str, BaseException | None, float]:
        """Return the same of one call."""
        self.script.allow(self.model.limit)
        self.model.script.allow(self.model.limit)
        args, kwargs = given
        try:
            result = function(*args, **kwargs)
        except Endless as error:
            return f"it does not end: loops have run more than {self.model.limit} times", error, 0.0
        except (Exception, SystemExit) as error:
            if not known.usual and self.model.refuses(known.point):
                return "", None, 0.0
            return f"it raises {said(error)}", error, 0.0
        fact, worst = fault_of(result, given, known, self.model, self.rtol)
        return fact or self._fault_of_memory(known, given, result), None, worst

    def _fault_of_memory(self, known: Known, given: Any, result: Any) -> str:
        """Return what is wrong with the memory of a result, "" if nothing."""
        again = call(self.model.program, known.point)
        if _meet(result, given) and not _meet(self.model.written_function(*again[0], **again[1]), again):
            return "it returns memory of its arguments, which the model copies"
        if not _same_bits(*self.returned):
            return "it returns memory that its next call writes into"
        self.returned = result, _copied(result)
        return ""

    def _unlike(self, function: Any) -> str:
        """Return how a function's signature differs from the model's, "" if it does not."""
        name = self.model.function
        if not callable(function):
            return f"it has no function {name}"
        wanted = [p.name for p in self.model.program.parameters]
        taken = inspect.signature(function).parameters
        more = [p for p in list(taken.values())[len(wanted) :] if p.default is p.empty and p.kind < p.VAR_KEYWORD]
        if list(taken)[: len(wanted)] != wanted or more:
            return f"{name} takes ({', '.join(taken)}), the model takes ({', '.join(wanted)})"
        return ""

    @property
    def _steps(self) -> tuple[int, ...]:
        """Return the rows of blocks, and the first integers of the file alone: an axis may be cut there."""
        here, written = _integers(self.script, self.model.function), self._written_integers
        return tuple(sorted({*_steps(self.script), *[x for x in here if x > ROWS and x not in written][:CUTS]}))

    @property
    def _written_integers(self) -> list[int]:
        return _integers(self.model.script, self.model.compiled.unwatched.__name__)

    @property
    def _definition(self) -> ast.FunctionDef | None:
        """The function in the file, if it is one that is defined there."""
        found = (x for x in self.script.nodes if isinstance(x, ast.FunctionDef) and x.name == self.model.function)
        return next(found, None)

    # ---- the line

    def _located(self, verdict: Verdict, point: Point, fact: str, error: BaseException | None) -> Verdict:
        verdict = replace(verdict, fact=fact, point=shown(self.model, point))
        edited, written, moved = self._recorded(point, FEW if isinstance(error, Endless) else self.model.limit)
        found = first_difference(edited, written, moved)
        if found is None:
            line = self._line_of(error) if error else self._end()
            return self._between(verdict, changed_at(edited, written, line) if line else None, line)
        verdict = replace(verdict, values=_told(found))
        return self._between(verdict, found.cause.line, found.statement.line)

    def _between(self, verdict: Verdict, first: int | None, last: int | None) -> Verdict:
        """The verdict with the lines from a cause to where it shows."""
        several = first is not None and last is not None and first < last
        return with_line(replace(verdict, until=last if several else None), self.script.text, first)

    def _recorded(self, point: Point, iterations: int) -> tuple[Recorded, Recorded, list[Event]]:
        """Return the recorded runs of the file and of symgrad's text, the latter also with rounded arguments."""
        edited, written = self.script.recorded(), self.model.script.recorded()
        self.script.allow(iterations)
        self.model.script.allow(2 * self.model.limit)
        moved = point._replace(leaves=[rounded(x, 0) if _is_floating(x) else x for x in point.leaves])
        _attempt(edited.namespace[self.model.function], call(self.model.program, point))
        function = written.namespace[self.model.compiled.unwatched.__name__]
        _attempt(function, call(self.model.program, point))
        events = list(written.events)
        written.events.clear()
        _attempt(function, call(self.model.program, moved))
        return edited, written._replace(events=events), written.events

    def _line_of(self, error: BaseException | None) -> int | None:
        """The last line of the file in the traceback of an error."""
        line, trace = None, error.__traceback__ if error else None
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.script.file:
                line = trace.tb_lineno
            trace = trace.tb_next
        return line

    def _end(self) -> int | None:
        """The line of the last ``return`` of the function."""
        nodes = ast.walk(self._definition) if self._definition else ()
        return max((node.lineno for node in nodes if isinstance(node, ast.Return)), default=None)

    def _failed(self, verdict: Verdict, fact: str, line: int | None) -> Verdict:
        return with_line(replace(verdict, fact=fact), self.script.text, line)


def agreeing(verdict: Verdict, model: Model, known: Sequence[Known], worst: float) -> Verdict:
    """Return the verdict on a file that agrees with its model at these points."""
    sizes = tuple({tuple(each.point.sizes.items()): each.point.sizes for each in known}.values())
    usual, near = sum(each.usual for each in known), sum(each.near for each in known)
    verdict = replace(verdict, usual=usual, near=near, extreme=len(known) - usual - near, sizes=sizes, worst=worst)
    return replace(verdict, unreached=tuple(model.unreached))


def check_told(model: Model, known: Sequence[Known]) -> None:
    """Refuse a verdict on results of which no point tells anything."""
    untold = model.untold(known)
    if untold:
        paths, leaves, _ = tree.flatten_with_paths(model.program.outputs)
        names = [path.codify("result") for path, x in zip(paths, leaves, strict=True) if isinstance(x, Variable)]
        which = ", ".join(names[i] for i in untold)
        fact = f"{which} is NaN, infinite or all rounding at all the arguments that were tried"
        raise ArgumentError(fact, BY_HAND)


def _steps(script: Script) -> tuple[int, ...]:
    """Return the rows of blocks in the loops of a module."""
    found = set()
    for node in script.nodes:
        if isinstance(node, ast.Name) and node.id == "_rows_of_block":
            found.add(ROWS)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("range", "_blocks"):
            step = node.args[2] if len(node.args) > 2 else None
            if isinstance(step, ast.Constant) and isinstance(step.value, int):
                found.add(step.value)
    return tuple(sorted(found))


def _integers(script: Script, function: str) -> list[int]:
    """Return the integers in the text of a function and of those that it calls."""
    nodes = (node for s in reached(script.statements, function) for node in ast.walk(s))
    return [x.value for x in nodes if isinstance(x, ast.Constant) and type(x.value) is int]


def _attempt(function: Any, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    """Call a function that may fail, for what is recorded until then."""
    with suppress(*FAILURES):
        function(*arguments[0], **arguments[1])


def said(error: BaseException) -> str:
    """Return an exception as text."""
    return f"{type(error).__name__}: {error}"


def _is_floating(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def fault_of(result: Any, given: Any, known: Known, model: Model, rtol: float | None) -> tuple[str, float]:
    """Return the fault of a call at a point, from its result and arguments, and the largest difference that is none."""
    if not _same_bits(given, call(model.program, known.point)):
        return "it writes into its arguments", 0.0
    found = compared(result, known, model, rtol)
    return found.fact, found.worst


def _same_bits(a: Any, b: Any) -> bool:
    """Whether two trees of arrays have the same bits."""
    pairs = zip(tree.flatten(a)[0], tree.flatten(b)[0], strict=True)
    return all(not isinstance(x, np.ndarray) or x.tobytes() == y.tobytes() for x, y in pairs)


def _meet(a: Any, b: Any) -> bool:
    """Whether two trees have arrays that may share memory."""
    first, second = ([x for x in tree.flatten(each)[0] if isinstance(x, np.ndarray)] for each in (a, b))
    return any(np.may_share_memory(x, y) for x in first for y in second)


def _copied(values: Any) -> Any:
    """Return a tree with copies of its arrays."""
    leaves, structure = tree.flatten(values)
    return tree.unflatten(structure, [x.copy() if isinstance(x, np.ndarray) else x for x in leaves])


def shown(model: Model, point: Point) -> dict[str, str]:
    """The arguments by their paths, as text, and the sizes where an argument is too large to be shown."""
    leaves = list(zip(model.program.leaves, point.leaves, strict=True))
    shown = {name: str(n) for name, n in point.sizes.items()}
    return shown | {leaf.path: _text(x) for leaf, x in leaves if leaf.node is not None}


def _text(x: Any) -> str:
    array = np.asarray(x)
    if array.ndim == 0:
        return f"{x}"
    text = np.array2string(array, precision=6, threshold=SHOWN, edgeitems=2, max_line_width=10_000)
    return " ".join(text.split())


def _told(found: Line) -> str:
    """Return in words the value of a statement, and that of its counterpart."""
    got, expected, line = found.got, found.expected, f"line {found.statement.line}"
    missing = "".join(f"\nbefore it this is missing: {text}" for text in found.missing)
    if got.shape != expected.shape:
        return f"{line} gives an array of shape {got.shape}, where the model's gives {expected.shape}{missing}"
    place, mine, other = furthest(got, expected)
    return f"{line} gives {mine}{' at ' * bool(place)}{place}, where the model's gives {other}{missing}"
