"""``x in y`` where some of it is traced."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from symgrad.frontend.conversion.branches import either, negation
from symgrad.ops.operands import is_traced


def inside(x: Any, y: Any) -> Any:
    """``x in y``"""
    if is_traced(y) and y.shape:
        return np.any(y == x)
    if isinstance(y, range) and _is_unknown(x):
        first, last = (y.start, y.stop - 1) if y.step > 0 else (y.stop + 1, y.start)
        return np.logical_and(np.logical_and(x >= first, x <= last), (x - y.start) % y.step == 0)
    if type(y) in _COLLECTIONS and (_is_unknown(x) or any(map(_is_unknown, y))):
        return reduce(lambda found, item: either(found, lambda: item is x or item == x), y, False)
    return x in y


_COLLECTIONS: tuple[type, ...] = (list, tuple, set, frozenset, dict, type({}.keys()), type({}.values()))


def outside(x: Any, y: Any) -> Any:
    """``x not in y``"""
    return negation(inside(x, y))


def _is_unknown(x: Any) -> bool:
    return is_traced(x) and not x.shape and x.known_value() is None
