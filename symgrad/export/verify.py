"""Whether a saved module still computes what its model says, after somebody has edited it."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from symgrad import tree
from symgrad.compile import Compiled, Function
from symgrad.errors import ArgumentError
from symgrad.export.compare import compared
from symgrad.export.lines import Line, changed_at, first_difference
from symgrad.export.model import Known, Model
from symgrad.export.modules import Event, Module, Recorded
from symgrad.export.points import Point, call
from symgrad.export.rounding import distance, rounded
from symgrad.trace import Program

SHOWN = 40  # numbers of an argument that are shown


@dataclass(frozen=True)
class Verdict:
    """What `verify` found; true if the file agrees with its model. ``print`` it.

    Attributes
    ----------
    file : str
        The name of the file.
    model : str
        What it is to compute: ``Gradient of loss (model.py:4) with respect to w``.
    usual, extreme : int
        At how many points it was compared, usual ones and those at the ends of ranges.
    sizes : tuple of dict
        The sizes at these.
    worst : float
        The largest difference where there is none but for rounding, relative to the largest number of a result.
    fact : str
        What is wrong; "" where nothing is.
    line, until : int or None
        The first line of the file whose value differs. Where others may be the cause, from which to which they stand.
    text : str
        What stands in that line.
    values : str
        What it gives there, and what it would have to give.
    point : dict
        What the arguments are that show it.
    notes : tuple of str
    """

    file: str
    model: str
    usual: int = 0
    extreme: int = 0
    sizes: tuple[Mapping[str, int], ...] = ()
    worst: float = 0.0
    fact: str = ""
    line: int | None = None
    until: int | None = None
    text: str = ""
    values: str = ""
    point: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.fact

    def __repr__(self) -> str:
        place = f" in line {self.line}" if self.line else ""
        return f"<Verdict {self.file}: {f'differs{place}' if self.fact else 'agrees with its model'}>"

    def __str__(self) -> str:
        lines = self._agreement() if self else self._difference()
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _agreement(self) -> list[str]:
        sizes = "; ".join(", ".join(f"{name} = {n}" for name, n in each.items()) for each in self.sizes if each)
        return [
            f"{self.file} agrees with its model: {self.model}",
            f"  at {self.usual} usual points{f' ({sizes})' if sizes else ''} and {self.extreme} at the ends of ranges;",
            f"  differences are at most {self.worst:.1e} of the largest number of a result",
        ]

    def _difference(self) -> list[str]:
        lines = [f"{self.file} differs from its model: {self.model}", f"  {self.fact}"]
        if self.point is not None:
            lines += ["  where", *(f"    {name} = {value}" for name, value in self.point.items())]
        if self.line is not None:
            several = self.until is not None and self.until != self.line
            place = f"between lines {self.line} and {self.until}" if several else f"in line {self.line}"
            lines += [f"  first {place}:", *(f"    {line}" for line in self.text.splitlines())]
        return lines + [f"  {line}" for line in self.values.splitlines()]

    def to_json(self) -> dict[str, Any]:
        """The same as a dict of plain values."""
        plain = {**vars(self), "agrees": bool(self), "notes": list(self.notes), "sizes": [*map(dict, self.sizes)]}
        return {**plain, "point": None if self.point is None else dict(self.point)}


def verify(
    path: str | Path,
    function: Function | Compiled | Program | None = None,
    *,
    points: int = 8,
    seed: int = 0,
    rtol: float | None = None,
) -> Verdict:
    """Check a saved module that somebody has edited against its model.

    Both are evaluated at the same arguments: usual ones of several sizes, and large, tiny, negative and equal ones and
    zeros. The model's numbers are those of its graph, operation by operation as it was traced, and differences count
    that are larger than rounding can explain. Where there is one, the lines are compared to find where it begins.

    Parameters
    ----------
    path : str or Path
        The file that `Compiled.save` wrote. It is run, as by an import, and not changed.
    function : Function, Compiled or Program, optional
        The model with its transforms: ``sg.grad(loss)``. By default the one that the manifest of the file names; the
        file of that model is run, as by an import.
    points : int
        How many usual points there are; fewer where one takes long.
    seed : int
        Another seed gives other points.
    rtol : float, optional
        By how much a number may differ, relative to itself, beside rounding: by default 2e-12 in float64.

    Returns
    -------
    Verdict
        True if the file agrees with its model.

    Raises
    ------
    ArgumentError
        If there is no such file, or its model cannot be found.

    Notes
    -----
    Where the model is NaN or overflows the file may do better. It may not do worse.

    Examples
    --------
    >>> import numpy as np, symgrad as sg, tempfile, pathlib
    >>> slope = sg.grad(lambda x: np.sum(np.sin(x))).compile("float64[n]")
    >>> path = slope.save(pathlib.Path(tempfile.mkdtemp()) / "slope.py")
    >>> bool(sg.verify(path, slope))
    True
    >>> _ = path.write_text(path.read_text().replace("np.cos(x)", "-np.cos(x)"))
    >>> sg.verify(path, slope).line
    15
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path.name!r} cannot be read: {error}", "Give the path of a saved module.") from None
    if isinstance(function, Program):
        function = Compiled(function)
    if not isinstance(function, Compiled):
        raise ArgumentError("no", "no")
    compiled = function
    return verdict_on(text, str(path), Model(compiled.program, lambda: compiled), points, seed, rtol)


def verdict_on(
    text: str, file: str, model: Model, points: int = 8, seed: int = 0, rtol: float | None = None
) -> Verdict:
    """The verdict on the text of a module."""
    verdict = Verdict(Path(file).name, model.program.summary.removesuffix("."), notes=model.notes)
    try:
        module = Module(text, file)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        return _with_line(replace(verdict, fact=f"it is not Python: {error}"), text, line)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Check(module, model, rtol).verdict(verdict, points, seed)


@dataclass
class _Check:
    """An edited module, and the model that it is checked against."""

    module: Module
    model: Model
    rtol: float | None

    def verdict(self, verdict: Verdict, points: int, seed: int) -> Verdict:
        try:
            function = self.module.namespace().get(self.model.function)
        except (Exception, SystemExit) as error:
            return self._failed(verdict, f"it cannot be loaded: {_said(error)}", self._line_of(error))
        fact = self._unlike(function)
        if fact:
            line = next((s.lineno for s in self._definitions() if s.name == self.model.function), None)
            return self._failed(verdict, fact, line)
        known, worst = self.model.known(points, seed, _steps(self.module)), 0.0
        for each in known:
            fact, raised, size = self._at(function, each)
            if fact:
                return self._located(verdict, each.point, fact, raised)
            worst = max(worst, size)
        sizes = tuple({tuple(each.point.sizes.items()): each.point.sizes for each in known}.values())
        usual = sum(each.usual for each in known)
        return replace(verdict, usual=usual, extreme=len(known) - usual, sizes=sizes, worst=worst)

    def _at(self, function: Any, known: Known) -> tuple[str, BaseException | None, float]:
        """What is wrong at a point, the error if it is one, and how large a difference is that is not wrong."""
        args, kwargs = call(self.model.program, known.point)
        try:
            result = function(*args, **kwargs)
        except (Exception, SystemExit) as error:
            if not known.usual and self.model.rewritten(known.point) is None:
                return "", None, 0.0
            return f"it raises {_said(error)}", error, 0.0
        again = call(self.model.program, known.point)
        if not _same(args, again[0]) or not _same(tuple(kwargs.values()), tuple(again[1].values())):
            return "it writes into its arguments", None, 0.0
        fact, worst = compared(result, known, self.model, self.rtol)
        return fact, None, worst

    def _unlike(self, function: Any) -> str:
        """What of a function is not as the model's, "" if nothing is."""
        name = self.model.function
        if not callable(function):
            return f"it has no function {name}"
        wanted = [p.name for p in self.model.program.parameters]
        taken = inspect.signature(function).parameters
        more = [p for p in list(taken.values())[len(wanted) :] if p.default is p.empty and p.kind < p.VAR_KEYWORD]
        if list(taken)[: len(wanted)] != wanted or more:
            return f"{name} takes ({', '.join(taken)}), the model takes ({', '.join(wanted)})"
        return ""

    def _definitions(self) -> list[ast.FunctionDef]:
        return [node for node in self.module.nodes if isinstance(node, ast.FunctionDef)]

    # ---- the line

    def _located(self, verdict: Verdict, point: Point, fact: str, error: BaseException | None) -> Verdict:
        verdict = replace(verdict, fact=fact, point=_shown(self.model, point))
        edited, written, moved = self._recorded(point)
        found = first_difference(edited, written, moved)
        if found is None:
            line = self._line_of(error) if error else self._end()
            return self._between(verdict, changed_at(edited, written, line) if line else None, line)
        verdict = replace(verdict, values=_told(found))
        return self._between(verdict, found.cause.line, found.statement.line)

    def _between(self, verdict: Verdict, first: int | None, last: int | None) -> Verdict:
        """The verdict with the lines from a cause to where it shows."""
        several = first is not None and last is not None and first < last
        return _with_line(replace(verdict, until=last if several else None), self.module.text, first)

    def _recorded(self, point: Point) -> tuple[Recorded, Recorded, list[Event]]:
        """The runs of the file and of what symgrad writes, and of the latter where the arguments are rounded."""
        edited, written = self.module.recorded(), self.model.module.recorded()
        name, moved = self.model.function, [rounded(x, 0) if _is_floating(x) else x for x in point.leaves]
        _attempt(edited.namespace[name], call(self.model.program, point))
        _attempt(written.namespace[name], call(self.model.program, point))
        events = list(written.events)
        written.events.clear()
        _attempt(written.namespace[name], call(self.model.program, point._replace(leaves=moved)))
        return edited, written._replace(events=events), written.events

    def _line_of(self, error: BaseException | None) -> int | None:
        """The last line of the file in the traceback of an error."""
        line, trace = None, error.__traceback__ if error else None
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.module.file:
                line = trace.tb_lineno
            trace = trace.tb_next
        return line

    def _end(self) -> int | None:
        """The line of the last ``return`` of the function."""
        function = next((f for f in self._definitions() if f.name == self.model.function), None)
        returns = [node.lineno for node in ast.walk(function) if isinstance(node, ast.Return)] if function else []
        return max(returns, default=None)

    def _failed(self, verdict: Verdict, fact: str, line: int | None) -> Verdict:
        return _with_line(replace(verdict, fact=fact), self.module.text, line)


def _steps(module: Module) -> tuple[int, ...]:
    """How many rows the loops of a module take at a time."""
    found = set()
    for node in module.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            last = node.args[-1]
            if len(node.args) == 3 and isinstance(last, ast.Constant) and isinstance(last.value, int):
                found.add(last.value)
    return tuple(sorted(found))


def _with_line(verdict: Verdict, text: str, line: int | None) -> Verdict:
    """The verdict with a line of a text, or with as many as may be the cause."""
    lines = text.splitlines()
    if line is None or not 0 < line <= len(lines):
        return verdict
    until = max(line, verdict.until or line)
    return replace(verdict, line=line, text="\n".join(lines[line - 1 : until]))


def _attempt(function: Any, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    """Call a function that may fail, for what is recorded until then."""
    with suppress(Exception, SystemExit):
        function(*arguments[0], **arguments[1])


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _is_floating(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def _same(a: Any, b: Any) -> bool:
    """Whether two trees of arrays have the same bits."""
    pairs = zip(tree.flatten(a)[0], tree.flatten(b)[0], strict=True)
    return all(not isinstance(x, np.ndarray) or x.tobytes() == y.tobytes() for x, y in pairs)


def _shown(model: Model, point: Point) -> dict[str, str]:
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
    """What a statement gives, and what its counterpart does."""
    got, expected, line = found.got, found.expected, f"line {found.statement.line}"
    missing = "".join(f"\nbefore it this is missing: {text}" for text in found.missing)
    if got.shape != expected.shape:
        return f"{line} gives an array of shape {got.shape}, where the model's gives {expected.shape}{missing}"
    index = np.unravel_index(int(np.argmax(distance(got, expected))), got.shape)
    place = f" at [{', '.join(map(str, map(int, index)))}]" if index else ""
    return f"{line} gives {got[index]}{place}, where the model's gives {expected[index]}{missing}"
