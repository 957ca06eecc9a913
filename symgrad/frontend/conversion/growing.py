"""Lists of which only running tells how long they are, behind a branch or a loop: an array takes the place of each.

While statements run that may append to such an array its name holds a list again, of which the array is one item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import CellType
from typing import Any

from symgrad.core.graph import Graph
from symgrad.core.provenance import callers, user_frame
from symgrad.errors import UnsupportedError
from symgrad.frontend.conversion.contents import CONSTRUCT, Contents, parts
from symgrad.frontend.conversion.jumps import called_by
from symgrad.frontend.conversion.lists import Listing, filled
from symgrad.frontend.conversion.mutable import Place, path
from symgrad.frontend.conversion.state import Pending, is_of_a_body, is_whole, replaced


class Growing:
    """The lists that names hold where statements begin: arrays, and what the names hold meanwhile."""

    def __init__(self, local: Mapping[str, Any], entry: Mapping[str, Any]) -> None:
        self._arrays: list[tuple[Listing, list[Any]]] = []
        for x in {id(x): x for x in entry.values() if type(x) is Listing}.values():
            homes = _homes(x, [Contents(_named(local))], local, entry)
            if homes is not None and all(isinstance(place.holder, CellType) for place in homes):
                self._arrays.append((x, [Pending(x, None, True, examples=x.item_examples)]))

    def __bool__(self) -> bool:
        return bool(self._arrays)

    @property
    def lists(self) -> list[list[Any]]:
        """The lists to which statements have appended."""
        return [items for _, items in self._arrays if len(items) > 1]

    def opened(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of names with lists for the arrays."""
        return {name: next((items for x, items in self._arrays if x is y), y) for name, y in values.items()}

    def closed(self, local: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of names with arrays for the lists to which nothing was appended.

        No other name may have kept an array, as the one of a cell that is not the function's own.
        """
        held = [] if not self else [y for entry in Contents(_named(local)).found.values() for y in entry.state.values]
        if any(x is y for y in held for x, _ in self._arrays):
            raise UnsupportedError(
                "a list that a loop or a branch has filled is changed under another name", "Use one name for the list."
            )
        known = [(x, items) for x, items in self._arrays if len(items) == 1]
        return {name: next((x for x, items in known if items is y), y) for name, y in values.items()}


def behind(
    graph: Graph, lists: Iterable[Any], contents: Sequence[Contents], local: Mapping[str, Any], values: dict[str, Any]
) -> dict[str, Any]:
    """The values of names behind statements that have appended to lists, with arrays for those of unknown length.

    What else holds such a list is given the array as well. Lists that are older than a body around the statements stay
    until that ends.
    """
    for items in lists:
        if is_whole(items) or is_of_a_body(graph, items):
            continue
        homes = _homes(items, [*contents, Contents(_named({**local, **values}))], local, values)
        made = filled(items) if homes is not None else None
        if made is None or homes is None:
            raise _of_unknown_length(items, {**local, **values})
        for place in homes:
            place.put(made)
        if any(x is items for name, x in _captured_names().items() if name not in values):  # of a cell nobody holds
            raise _of_unknown_length(items, local)
        items[:] = replaced()
        values = {name: made if y is items else y for name, y in values.items()}
    return values


def _homes(
    x: Any, contents: Sequence[Contents], local: Mapping[str, Any], values: Mapping[str, Any]
) -> list[Place] | None:
    """Return the place that holds a list beside the names that are given values; None where no other one fits there."""
    set_by_cells = _captured_names()
    names = {name: y for name, y in _named(local).items() if name not in values and name not in set_by_cells}
    waiting = [y for frame in callers() for y in frame.f_locals.values()]
    if any(_is_in(x, y) for y in (*names.values(), *waiting)) or any(_is_in(x, *parts(y)) for y in values.values()):
        return None
    found = dict[tuple[int, Any], Place]()
    for each in (*contents, *(Contents(_named(frame.f_locals)) for frame in callers())):
        for entry in each.found.values():
            for key, y in entry.now().items.items():
                if y is x:
                    place = Place(entry.holder, key, path(entry.holder, key, entry.name))
                    found[place.id] = place
                elif _is_in(x, *parts(y)):
                    return None
            if _is_in(x, *entry.kind.parts(entry.holder)):
                return None
    return [*found.values()]


def _captured_names() -> dict[str, Any]:
    """The names of the function that runs which other functions share with it: what their cells hold."""
    frame = user_frame()
    code = frame.f_code if frame is not None else None
    captured = {*code.co_cellvars, *code.co_freevars} if code is not None else ()
    return {name: x for name, x in frame.f_locals.items() if name in captured} if frame is not None else {}


def _is_in(x: Any, *values: Any) -> bool:
    """Whether it is one of some values, or in one that is not mutable."""
    return any(y is x or _is_in(x, *parts(y)) for y in values)


def _named(local: Mapping[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in local.items() if not name.startswith(CONSTRUCT)}


def _of_unknown_length(items: list[Any], names: Mapping[str, Any]) -> UnsupportedError:
    name = next((called_by(name) for name, x in names.items() if x is items), "a list")
    return UnsupportedError(
        f"a branch appends to {name}, so its length depends on traced values: its items must then have one type, and "
        "nothing else may refer to the list",
        "Append on both sides, or write into an array and count: x[n] = y; n += 1.",
    )
