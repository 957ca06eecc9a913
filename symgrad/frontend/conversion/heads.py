"""Heads of loops: `range`, `zip`, `enumerate` and `reversed` of iterables known before the loop."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any

from symgrad.core.sizes import Dim
from symgrad.frontend.conversion.calls import called
from symgrad.frontend.conversion.items import Items, Joined, Listed, Rows, Steps, items_of
from symgrad.ops.operands import is_traced


def over(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``range(n)``, ``zip(x, y)``, ``enumerate(x, start)`` or ``reversed(x)`` at the head of a loop."""
    if function is range:
        return _steps(*args) if any(is_traced(x) or isinstance(x, Dim) for x in args) else range(*args)
    head = next((head for known, head in _HEADS if known is function), None)
    parts = [items_of(x) for x in (args if function is zip else args[:1])] if head else []
    known = [part for part in parts if part is not None]
    if head is None or len(known) < len(parts) or not parts:
        return called(function)(*args, **kwargs)
    found = head(known, *([] if function is zip else args[1:]), **kwargs)
    return function(*args, **kwargs) if found is None else found


def _steps(*args: Any) -> Items:
    for x in args:
        if is_traced(x) and (x.shape or x.dtype.kind not in "iub"):
            index(x)  # which it is not
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    return Steps(start, stop, step)


def _zip(parts: list[Items], strict: bool = False) -> Items | None:
    lengths = [part.length for part in parts]
    if strict and len(set(map(str, lengths))) > 1:
        return None  # Python says so
    same = all(n is lengths[0] for n in lengths) or not any(map(is_traced, lengths))
    return Joined(parts, zip) if same else None


def _enumerate(parts: list[Items], start: Any = 0) -> Items:
    return Joined([Steps(start, start + parts[0].length, 1), parts[0]], lambda _, x: enumerate(x, start))


def _reversed(parts: list[Items]) -> Items | None:
    (part,) = parts
    if isinstance(part, Rows):
        return Rows(part.array[::-1])
    if isinstance(part, Listed):
        return Listed(part.values[::-1])
    if isinstance(part, Steps) and type(part.step) is int:
        last = part.start + (part.length - 1) * part.step
        return Steps(last, part.start - part.step, -part.step)
    return None


_HEADS: list[tuple[Any, Callable[..., Items | None]]] = [(zip, _zip), (enumerate, _enumerate), (reversed, _reversed)]
