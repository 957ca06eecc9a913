"""Functions of which the program chooses one when it calls it."""

from __future__ import annotations

from collections.abc import Callable
from operator import eq, is_
from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.frontend.variable import Variable


class Either:
    """One of two functions, which the program chooses when it calls it."""

    def __init__(self, pred: Variable, then: Callable[..., Any], other: Callable[..., Any]) -> None:
        self.pred, self.then, self.other = pred, then, other

    def is_function(self, function: Any, same: Callable[[Any, Any], Any] = is_) -> Any:
        """Whether it is a function; `same` compares two."""
        then, other = same(self.then, function), same(self.other, function)
        if then is other:
            return then
        return np.logical_or(np.logical_and(self.pred, then), np.logical_and(np.logical_not(self.pred), other))

    def __eq__(self, function: object) -> Any:
        return self.is_function(function, eq)

    def __hash__(self) -> int:
        raise UnsupportedError(
            "a function that depends on traced values is used as a key", "Compare it with each one: f is np.sin."
        )
