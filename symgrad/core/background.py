"""Work that nobody waits for, on one thread, which ends with its work, and at once when the interpreter does."""

from __future__ import annotations

import atexit
import os
from collections import deque
from threading import RLock, Thread, current_thread
from typing import Protocol

PATIENCE = 1.0  # seconds that the end of the interpreter waits for the end of a step


class Ended(Exception):
    """The interpreter ends, and work in the background with it."""


class Work(Protocol):
    """Work in the background: it raises nothing."""

    def work(self) -> None:
        """Do what is to be done now."""

    def restart(self) -> None:
        """Begin anew, in a process that was forked while this waited or went on."""


class Background:
    """One daemon thread for all work. It lives as long as there is some: a process without work has no thread.

    Work that takes long calls `step` now and then, which ends it when the interpreter ends. A lock that the same thread
    may take again lets handlers of signals submit work.
    """

    def __init__(self) -> None:
        self._lock, self._waiting = RLock(), deque[Work]()
        self._present: Work | None = None
        self._thread: Thread | None = None
        self._ending = False

    @property
    def is_here(self) -> bool:
        """Whether the caller runs in the background."""
        return current_thread() is self._thread

    def submit(self, work: Work) -> None:
        """Let the thread do some work."""
        with self._lock:
            self._take(work)

    def _take(self, work: Work) -> None:
        if self._ending:
            return
        if work not in self._waiting:
            self._waiting.append(work)
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self._run, name="symgrad background", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no threads here, or no more of them
                self._waiting.clear()

    def step(self) -> None:
        """Raise `Ended` in the background if the interpreter ends."""
        if self._ending and self.is_here:
            raise Ended

    def wait(self, seconds: float | None = None) -> None:
        """Wait until there is no work left."""
        thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join(seconds)

    def end(self) -> None:
        """End all work."""
        self._ending = True
        self.wait(PATIENCE)

    def forked(self) -> None:
        """Begin anew in the child of a fork, which has no thread and perhaps a lock that is taken."""
        left = [*filter(None, [self._present]), *self._waiting]
        self.__init__()  # type: ignore[misc]
        for work in left:
            work.restart()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work.work()

    def _next(self) -> Work | None:
        with self._lock:
            self._present = self._waiting.popleft() if self._waiting and not self._ending else None
            if self._present is None:
                self._thread = None
            return self._present


background = Background()
atexit.register(background.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=background.forked)
