"""Progress of long work: a line at a terminal, and messages of the logger ``symgrad``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.util import find_spec
from threading import TIMEOUT_MAX, Condition, Lock, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any

from symgrad.core.background import background
from symgrad.core.text import duration, visible
from symgrad.core.undo import setting

if TYPE_CHECKING:
    from logging import Logger

PATIENCE = 2.0  # seconds that a compilation takes in silence
OFTEN = 1.0  # seconds between two messages of one work
BEAT, RARER = 2.0, 4  # seconds without a message until the step that goes on is said again; later this part of all time


class Work:
    """A long task: its name, its number of steps, and the present one.

    It says nothing before it has taken `patience` seconds, by default `PATIENCE`. Then it shows a line at a terminal,
    where the time goes on. Elsewhere it writes a message at its steps, and again while one takes long. Work in the
    background is silent.
    """

    def __init__(self, what: str, steps: int | None = None, patience: float | None = None) -> None:
        self.what, self.steps, self.done, self.at = visible(what), steps, 0, ""
        self.start = perf_counter()
        self._lock, self._begun, self._over, self._said = Lock(), False, False, float("-inf")
        patience = PATIENCE if patience is None else patience
        if background.is_here:
            return
        if patience > 0:
            _watcher.expect(self, patience)
        else:
            self.begin()

    def __str__(self) -> str:
        at = f": {self.at}" if self.at else ""
        count = f", {self.done} of {self.steps}" if self.steps else ""
        return f"{self.what}{at}{count}"

    @property
    def seconds(self) -> float:
        return perf_counter() - self.start

    def step(self, at: str) -> None:
        """Begin the next step."""
        self.done, self.at = self.done + 1, visible(at)
        if self._begun:
            self._show()

    def end(self) -> None:
        """Show nothing more."""
        _watcher.forget(self)
        with self._lock:
            self._over = True
            _terminal.remove(self)
        if self._begun and not at_terminal():
            logger().info("%s: done in %s", self.what, duration(self.seconds))
        elif "logging" in sys.modules:  # of whoever wants to see all
            logger().debug("%s: done in %s", self.what, duration(self.seconds))

    def begin(self) -> None:
        """Begin to say how far it has come."""
        self._begun = True
        self._show()

    def tell_again(self) -> float | None:
        """Say how far it has come; return the seconds until it shall be said again, None for never."""
        if not self._begun:
            self.begin()
        elif perf_counter() - _terminal.heard >= BEAT:  # of this work, or of one within it
            self._show()
        return None if at_terminal() else max(BEAT, self.seconds / RARER)

    def _show(self) -> None:
        with self._lock:
            if self._over:
                return
            if at_terminal():
                _terminal.update(self)
            elif perf_counter() - self._said >= OFTEN:
                self._said = _terminal.heard = perf_counter()
                logger().info("%s, %s", str(self), duration(self.seconds))


class _Watcher:
    """One thread for all work: it lets each say how far it has come once that has taken long.

    A thread for each would take longer to start than many a compilation. It ends when it wakes and no work is left.
    """

    def __init__(self) -> None:
        self._changed = Condition(Lock())
        self._due: dict[Work, float] = {}
        self._wakes = float("inf")
        self._thread: Thread | None = None

    def expect(self, work: Work, seconds: float) -> None:
        """Let work speak when these seconds are over, unless it is forgotten before."""
        due = perf_counter() + seconds
        with self._changed:
            self._due[work] = due
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._watch, name="symgrad progress", daemon=True)
                with suppress(RuntimeError):  # no threads here, or no more of them
                    self._thread.start()
            elif due < self._wakes:
                self._changed.notify()

    def forget(self, work: Work) -> None:
        with self._changed:
            self._due.pop(work, None)

    def _watch(self) -> None:
        while (work := self._next()) is not None:
            seconds = work.tell_again()
            with self._changed:
                if work in self._due:  # it goes on
                    self._due[work] = float("inf") if seconds is None else perf_counter() + seconds

    def _next(self) -> Work | None:
        """Wait for the next work that is due; return None when there is none."""
        with self._changed:
            while self._due:
                work, self._wakes = min(self._due.items(), key=lambda item: item[1])
                if self._wakes <= perf_counter():
                    return work
                self._changed.wait(min(self._wakes - perf_counter(), TIMEOUT_MAX))
            self._thread = None
            return None


_watcher = _Watcher()
if hasattr(os, "register_at_fork"):  # a child has no thread, and may find the lock taken
    os.register_at_fork(after_in_child=_watcher.__init__)  # type: ignore[misc]


_compilation: ContextVar[Work | None] = ContextVar("compilation", default=None)


@contextmanager
def work(what: str, steps: int | None = None, patience: float | None = None) -> Iterator[Work]:
    """Say how far this work has come, should it take longer than `patience` seconds, by default `PATIENCE`."""
    begun = Work(what, steps, patience)
    try:
        yield begun
    finally:
        begun.end()


@contextmanager
def compilation(of: str, stages: int) -> Iterator[None]:
    """Say how far a compilation has come; `step` begins its stages."""
    with work(f"compiling {of}", stages) as going_on, setting(_compilation, going_on):
        yield


def step(at: str) -> None:
    """Begin the next stage of the compilation, if one goes on."""
    background.step()
    going_on = _compilation.get()
    if going_on is not None:
        going_on.step(at)


def logger() -> Logger:
    """Return the logger ``symgrad``, which writes nothing unless the program wants it."""
    import logging  # slow to import

    found = logging.getLogger("symgrad")
    if not found.handlers:
        found.addHandler(logging.NullHandler())
    return found


def at_terminal() -> bool:
    """Whether a person sees standard error, and rich is there to draw."""
    stream = sys.stderr
    seen = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    return bool(seen and find_spec("rich"))


@contextmanager
def aside() -> Iterator[None]:
    """Hide the lines of work in this context: output appears above them."""
    with _terminal.hidden():
        yield


class _Terminal:
    """The lines of all work that goes on, at the end of the terminal."""

    def __init__(self) -> None:
        self.heard = float("-inf")  # when a message was written that stands for a line
        self._lock = Lock()
        self._progress: Any = None
        self._lines: dict[Work, Any] = {}

    def update(self, of: Work) -> None:
        with self._lock:
            if self._progress is None:
                self._progress = _live()
                self._progress.start()
            if of not in self._lines:
                self._lines[of] = self._progress.add_task(str(of))
                self._progress.tasks[-1].start_time -= of.seconds
            self._progress.update(self._lines[of], description=str(of))

    @contextmanager
    def hidden(self) -> Iterator[None]:
        with self._lock:
            if self._progress is not None:
                self._progress.stop()
            try:
                yield
            finally:
                if self._progress is not None:
                    self._progress.start()

    def remove(self, of: Work) -> None:
        with self._lock:
            line = self._lines.pop(of, None)
            if line is None or self._progress is None:
                return
            self._progress.remove_task(line)
            if not self._lines:
                self._progress.stop()
                self._progress = None


def _live() -> Any:
    """Lines that rich draws, with a sign of life and the time, and that are gone at the end."""
    with _own_randomness():
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)


@contextmanager
def _own_randomness() -> Iterator[None]:
    """Import rich in this context without drawing from the random generators of a traced function."""
    import random

    theirs = random.getrandbits
    random.getrandbits = random.Random().getrandbits
    try:
        yield
    finally:
        random.getrandbits = theirs


_terminal = _Terminal()
