"""A log of the compiler's own work, on demand: stages, rewrites, reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from symgrad.core.progress import step
from symgrad.core.undo import setting

if TYPE_CHECKING:
    from symgrad.core.graph import Graph, Node

_T = TypeVar("_T")


class StageRun(NamedTuple):
    """A stage that has run: the function, what it gave, how long it took, and whether it gave something new."""

    function: Callable[..., Any]
    result: Any
    seconds: float
    changed: bool


class Applied(NamedTuple):
    """A rewrite that was applied.

    `graph` is where `after` is. `before` is of the same graph, or else `image` says what its nodes became.
    """

    rule: Any
    stage: str
    before: Node
    after: Node
    graph: Graph
    image: Mapping[Node, Node]


@dataclass
class Log:
    """The noted work; `reasons` are texts for or against an optimisation, each with the function that wrote it."""

    stages: list[StageRun] = field(default_factory=list)
    rewrites: list[Applied] = field(default_factory=list)
    reasons: list[tuple[Callable[..., str], str]] = field(default_factory=list)
    running: Callable[..., Any] | None = None  # the stage


_log: ContextVar[Log | None] = ContextVar("log", default=None)


@contextmanager
def recording() -> Iterator[Log]:
    """Record the compiler's work in this context."""
    log = Log()
    with setting(_log, log):
        yield log


def staged(function: Callable[..., _T], subject: Any, *args: Any, **kwargs: Any) -> _T:
    """Run a stage of the compiler, from a program to the next form of it.

    Rewrites that were tried on the way to a program that stayed as it was are forgotten.
    """
    step(getattr(function, "__name__", "").strip("_"))
    log = _log.get()
    if log is None:
        return function(subject, *args, **kwargs)
    log.running, known = function, len(log.rewrites)
    start = perf_counter()
    result = function(subject, *args, **kwargs)
    log.stages.append(StageRun(function, result, perf_counter() - start, result is not subject))
    if result is subject:
        del log.rewrites[known:]
    return result


def note(reason: Callable[..., str], *facts: Any) -> None:
    """Note why something is done, or not: the text of `reason` for the facts."""
    log = _log.get()
    if log is not None:
        log.reasons.append((reason, reason(*facts)))


@contextmanager
def running(function: Callable[..., Any]) -> Iterator[None]:
    """Note the rewrites of this context as those of a stage."""
    log = _log.get()
    if log is None:
        yield
        return
    before, log.running = log.running, function
    try:
        yield
    finally:
        log.running = before


def note_rewrites(found: Iterator[tuple[Any, Node, Node]], graph: Graph, image: Mapping[Node, Node]) -> None:
    """Note rewrites: the rule of each, None for the running stage itself, and the nodes before and after."""
    log = _log.get()
    if log is not None:
        stage = getattr(log.running, "__name__", "")
        log.rewrites += [Applied(rule or log.running, stage, x, y, graph, image) for rule, x, y in found]
