"""Numbers to reckon with where sizes are symbols."""

from __future__ import annotations

from symgrad.analysis.cost import ASSUMED
from symgrad.core.sizes import Dim, Size, evaluate, symbols_of

MANY = 100_000  # rows that are assumed where a symbol has no value


def likely(size: Size) -> int:
    """The size in the call at hand; without one a number of middling size for each symbol."""
    if not isinstance(size, Dim):
        return size
    value = size.scope.value(size)
    return evaluate(size, dict.fromkeys(symbols_of(size), ASSUMED)) if value is None else value


def rows_scale(size: Size) -> float:
    """How many times as many rows there may be as `likely` says: from a spec they are taken to be many."""
    unknown = isinstance(size, Dim) and size.scope.value(size) is None
    return MANY / max(likely(size), 1) if unknown else 1.0  # n - k is likely 0
