"""Python's collector of cycles, which waits while programs are compiled.

It would walk all of a growing graph again and again, and find nothing.
"""

from __future__ import annotations

import gc
import os
from threading import Lock


class _Pauses:
    """The compilations that are going on, in all threads: the collector is as before when the last one ends."""

    def __init__(self) -> None:
        self._lock, self._by, self._was_on = Lock(), set[object](), gc.isenabled()

    def begin(self, by: object) -> None:
        with self._lock:
            if not self._by:
                self._was_on = gc.isenabled()
            self._by.add(by)
            gc.disable()

    def end(self, by: object) -> None:
        """End a pause, if it goes on: an interrupt may have ended the first attempt half-way."""
        with self._lock:
            self._by.discard(by)
            if not self._by and self._was_on:
                gc.enable()

    def end_all(self) -> None:
        """End the pauses of threads that a forked process does not have."""
        going_on, self._lock, self._by = bool(self._by), Lock(), set()
        if going_on and self._was_on:
            gc.enable()


pauses = _Pauses()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pauses.end_all)
