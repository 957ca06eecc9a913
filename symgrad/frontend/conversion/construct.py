"""Base of loops and branches, which run a part of the user's function in its own frame and note its changes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from symgrad.core.graph import Graph, tracing
from symgrad.core.sizes import is_counted
from symgrad.frontend.conversion.absent import is_perhaps
from symgrad.frontend.conversion.functions import converted
from symgrad.frontend.conversion.lists import LENGTH, Listing, whole
from symgrad.frontend.conversion.state import see
from symgrad.frontend.variable import Variable
from symgrad.ops.operands import is_traced
from symgrad.ops.places import decided_by_index
from symgrad.ops.truths import without_mark


def namespace() -> dict[str, Any]:
    """Return the globals of the function that asks."""
    return sys._getframe(1).f_globals


def caller() -> dict[str, Any]:
    """The names of the function that asks."""
    return sys._getframe(2).f_locals


class Construct:
    """A loop or a branch, whose statements are run as often as they need to be seen.

    Of the names that they bind, `kept` and `given` are those that matter (`State` in liveness.py); `read` are the names
    that they read.
    """

    def __init__(self, kept: Sequence[str], given: Sequence[str], read: Sequence[str] | None) -> None:
        self.kept, self.given, self.read = kept, given, read
        self.graph: Graph | None = tracing.get()
        self.sets = False  # whether the function has to give its names the values now
        self.values: tuple[Any, ...] = ()

    def give(self, values: dict[str, Any]) -> None:
        """Let the function give these values to its names."""
        self.sets, self.values = True, tuple(values[name] for name in self.kept)


def truth(value: Any) -> bool | Variable:
    """The truth of a value where that is known, and else the value, as a traced one."""
    value = whole(value, LENGTH)
    if is_perhaps(value):
        return np.logical_and(value.present, truth(value.there))
    if type(value) is Listing:
        value = value.shape[0]
    if is_counted(value):
        value = value.scope.lift(value)
    if is_traced(value) and value.shape and all(isinstance(n, int) and n == 1 for n in value.shape):
        value = value.reshape(())  # of an array of one number
    if not is_traced(value) or value.shape:
        method = getattr(type(value), "__bool__", None)
        if type(method) is FunctionType:  # which may give a traced value, where it is called as the user's
            see(method)
            return truth(converted(method)(value))
        return bool(value)
    known = value.known_value("for the truth of what was computed with it")
    if known is not None:
        return bool(known)
    test = without_mark(value) if value.dtype == bool else value != 0
    decided = decided_by_index(test)
    return test if decided is None else decided
