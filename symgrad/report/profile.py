"""Profiles: the time of a compiled program, line by line of the generated source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

from symgrad.core.graph import INPUT, Node
from symgrad.core.text import plain
from symgrad.ops.checks import muted
from symgrad.report.layout import rendered_profile
from symgrad.targets.numpy.module import Source

SHORTEST = 2e-3  # seconds that are timed at once: as many calls
LONGEST = 1.0  # seconds that all rounds may take, if they are more than the fewest
FEWEST, MOST = 5, 50  # rounds, of which the fastest counts
TICK, ENTER, LEAVE = "<tick>", "<enter>", "<leave>"  # no names that a program could have


class TimedLine(NamedTuple):
    """A line of the generated source.

    Attributes
    ----------
    number : int
        In the module, from 1 on.
    text : str
    seconds : float
        In one call of the program.
    share : float
        Of the time of all lines.
    calls : float
        How often it is run, or entered.
    where : str
        The user's line, ``derivative of logistic.py:8``; "" where a line computes nothing of it.
    """

    number: int
    text: str
    seconds: float
    share: float
    calls: float
    where: str


@dataclass(frozen=True)
class Profile:
    """The time that each line of a compiled program takes; ``print`` it. Made by `Compiled.profile`.

    Attributes
    ----------
    function : str
    seconds : float
        One call without timers, on one thread.
    overhead : float
        What the timers took of a call; it is subtracted.
    lines : list of TimedLine
        Those of the generated functions. What the lines of a function take counts there, not where it is called.
    shares : dict
        The share of the time by the value of the graph that a line makes; see `draw`.
    """

    function: str
    seconds: float
    overhead: float
    lines: list[TimedLine]
    shares: dict[Node, float] = field(default_factory=dict, repr=False)

    @property
    def timed(self) -> float:
        """The seconds of all lines; they differ from those without timers as two runs do."""
        return sum(line.seconds for line in self.lines)

    @property
    def hottest(self) -> list[TimedLine]:
        """The lines, those that take longest first."""
        return sorted(self.lines, key=lambda line: -line.seconds)

    @property
    def by_where(self) -> dict[str, float]:
        """The share of each of the user's lines, the largest first."""
        shares: dict[str, float] = {}
        for line in self.lines:
            shares[line.where] = shares.get(line.where, 0.0) + line.share
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def __str__(self) -> str:
        return rendered_profile(self)

    def _repr_html_(self) -> str:
        from symgrad.show.tables import profile_view

        return profile_view(self)

    def __repr__(self) -> str:
        return f"<Profile of {self.function}: {self.seconds:.3g} s>"

    def to_json(self) -> dict[str, Any]:
        """The profile as a dict of plain JSON."""
        return dict(plain({key: value for key, value in vars(self).items() if key != "shares"}))


def profiled(source: Source, args: Sequence[Any], kwargs: dict[str, Any]) -> Profile:
    """The profile of a module whose loops run on one thread, called with these arguments."""
    timers = Timers(source.own.count("\n") + 2, perf_counter)
    plain, timed = _function(source, ast.parse(source.own)), _function(source, instrumented(source.own), timers.names)
    plain(*args, **kwargs)  # for what it makes at its first call; what it prints is seen once
    with muted():
        start = perf_counter()
        timed(*args, **kwargs)
        once = perf_counter() - start
        calls = max(1, int(SHORTEST / once))
        best = whole = float("inf")
        for _ in range(min(MOST, max(FEWEST, int(LONGEST / (2 * once * calls))))):
            start = perf_counter()
            for _ in range(calls):
                plain(*args, **kwargs)
            whole = min(whole, perf_counter() - start)
            timers.clear()
            for _ in range(calls):
                timers.start()
                timed(*args, **kwargs)
            if sum(timers.seconds) < best:
                best, seconds, counts = sum(timers.seconds), list(timers.seconds), list(timers.calls)
    tick = seconds_of_a_tick()
    net = [max(0.0, t - n * tick) / calls for t, n in zip(seconds, counts, strict=True)]
    lines = _lines(source, net, [n / calls for n in counts])
    return Profile(source.function, whole / calls, sum(counts) / calls * tick, lines, _shares(source.origins, lines))


def _function(source: Source, tree: ast.Module, timers: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    namespace = {**source.namespace, **(timers or {})}
    exec(compile(tree, f"<symgrad {source.function}, timed>", "exec"), namespace)
    function: Callable[..., Any] = namespace[source.function]
    return function


def _lines(source: Source, seconds: Sequence[float], calls: Sequence[float]) -> list[TimedLine]:
    """The lines of the functions in a module; before them stand imports and constants."""
    wheres, total = _wheres(source.origins), sum(seconds) or 1.0
    return [
        TimedLine(i, str(source.lines[i - 1]), seconds[i], seconds[i] / total, calls[i], wheres.get(i, ""))
        for i in range(source.first, len(source.lines) + 1)
    ]


def _shares(origins: Mapping[int, Node], lines: Sequence[TimedLine]) -> dict[Node, float]:
    """The share of the time of each value, of all lines that make it."""
    shares = dict.fromkeys(origins.values(), 0.0)
    for line in lines:
        if line.number in origins:
            shares[origins[line.number]] += line.share
    return shares


def _wheres(origins: Mapping[int, Node]) -> dict[int, str]:
    """The user's line of each line; of one that reads an argument, the line that it is read for, not the ``def``."""
    found, following = {}, ""
    for i, node in sorted(origins.items(), reverse=True):
        following = following if node.op is INPUT else node.where.in_words
        found[i] = following
    return found


# ---- timers


class Timers:
    """Seconds by line: what passes between two ticks belongs to the line of the second one.

    So a line that calls a function of the module counts what it does itself, and the lines of that function the rest.
    What passes before that function begins belongs to the line that calls it.
    """

    def __init__(self, lines: int, clock: Callable[[], float]) -> None:
        self.seconds, self.calls = [0.0] * lines, [0] * lines
        self._clock, self._last = clock, 0.0
        self._before: list[float] = []  # what passed before the functions that run now, the innermost last
        self._owed = 0.0  # what passed before a function that is done

    @property
    def names(self) -> dict[str, Any]:
        """Return the functions that an instrumented module calls, by name."""
        return {TICK: self.tick, ENTER: self.enter, LEAVE: self.leave}

    def clear(self) -> None:
        n = len(self.calls)
        self.seconds[:], self.calls[:] = [0.0] * n, [0] * n

    def start(self) -> None:
        self._before.clear()
        self._owed, self._last = 0.0, self._clock()

    def tick(self, line: int, value: Any = None) -> Any:
        """A line has run, and gave this value."""
        self.seconds[line] += self._clock() - self._last + self._owed
        self.calls[line] += 1
        self._owed, self._last = 0.0, self._clock()
        return value

    def enter(self) -> None:
        """A function of the module begins."""
        self._before.append(self._clock() - self._last + self._owed)
        self._owed, self._last = 0.0, self._clock()

    def leave(self, value: Any = None) -> Any:
        """Note that a function of the module ends, and return its value."""
        self._owed, self._last = self._before.pop(), self._clock()
        return value


def seconds_of_a_tick() -> float:
    """Return the seconds that a tick adds to its line."""
    timers, best = Timers(1, perf_counter), float("inf")
    for _ in range(20):
        timers.clear()
        timers.start()
        for _ in range(500):
            timers.tick(0)
        best = min(best, timers.seconds[0] / 500)
    return best


def instrumented(text: str) -> ast.Module:
    """A module in which a tick follows each statement of its functions, and each line that begins a block."""
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            _instrument_function(node)
    return ast.fix_missing_locations(tree)


def _instrument_function(node: ast.FunctionDef) -> None:
    """Put ticks into a function, and say when it begins and ends."""
    timed = [x for statement in node.body for x in _with_tick(statement)]
    end = [] if isinstance(timed[-1], ast.Return) else [ast.Expr(_call(LEAVE))]
    node.body = [ast.Expr(_call(ENTER)), *timed, *end]


def _instrument(node: ast.AST) -> None:
    """Put ticks into the blocks of a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if block:
            timed = [x for statement in block for x in _with_tick(statement)]
            setattr(node, name, [ast.Expr(_tick(node.lineno)), *timed])  # type: ignore[attr-defined]
    for handler in getattr(node, "handlers", ()):
        _instrument(handler)


def _with_tick(statement: ast.stmt) -> list[ast.stmt]:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):  # a docstring
        return [statement]
    if isinstance(statement, ast.Return) and statement.value is not None:
        statement.value = _call(LEAVE, _tick(statement.lineno, statement.value))
        return [statement]
    if isinstance(statement, ast.FunctionDef):
        _instrument_function(statement)
        return [statement, ast.Expr(_tick(statement.lineno))]
    _instrument(statement)
    return [statement, ast.Expr(_tick(statement.lineno))]


def _tick(line: int, *value: ast.expr) -> ast.Call:
    return _call(TICK, ast.Constant(line), *value)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])
