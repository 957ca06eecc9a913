"""Lists and dicts that a branch chooses or a loop carries: others may be the same object, which only running tells.

While the program is traced each of them is a container of its own. Where something else holds the same one in Python,
none of them may change: one would not see what is written into the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from symgrad.core import tree
from symgrad.core.graph import Graph
from symgrad.core.provenance import Where, callers, here
from symgrad.errors import UnsupportedError
from symgrad.frontend.conversion.contents import CONSTRUCT, Contents, parts
from symgrad.frontend.conversion.jumps import called_by
from symgrad.frontend.conversion.mutable import Place
from symgrad.frontend.conversion.state import Run


class Watched(NamedTuple):
    """A container that stands for one of several, with their contents when it was made."""

    place: Place
    contents: Contents
    where: Where

    def check(self) -> None:
        """Raise if one of them has changed."""
        if self.contents.has_changed():
            raise changed(self.place, self.where)


class Holders:
    """Holders of each container when a body begins: names, containers, and names of suspended functions."""

    def __init__(self, run: Run) -> None:
        self._places: dict[int, set[tuple[int, Any]]] = {}
        self._note(id(None), {name: x for name, x in run.contents.values.items() if not name.startswith(CONSTRUCT)})
        self._look_into(run.contents)
        for frame in callers():
            local = {name: x for name, x in frame.f_locals.items() if not name.startswith(CONSTRUCT)}
            self._note(id(frame), local)
            self._look_into(Contents(local))

    def _look_into(self, contents: Contents) -> None:
        for entry in contents.found.values():
            self._note(id(entry.holder), entry.state.items)
            self._note(id(entry.holder), {("part", i): x for i, x in enumerate(entry.kind.parts(entry.holder))})

    def _note(self, holder: int, items: dict[Any, Any]) -> None:
        for key, value in items.items():
            waiting = [value]
            while waiting:
                x = waiting.pop()
                self._places.setdefault(id(x), set()).add((holder, key))
                waiting += parts(x)

    def are_shared(self, containers: dict[int, Any], place: Place) -> bool:
        """Whether something else than a place holds one of the containers that are in its value."""
        homes = (home for key in containers for home in self._places.get(key, ()))
        return any(home != place.id and home[0] not in containers for home in homes)

    def __contains__(self, key: int) -> bool:
        return key in self._places


def held_twice(values: Iterable[dict[int, Any]]) -> set[int]:
    """The containers, by id, that are in more than one of some values."""
    return {key for key, times in Counter(key for found in values for key in found).items() if times > 1}


def watch(graph: Graph, place: Place, *values: Any) -> None:
    """Let containers not change that may be one object: a place holds one of them."""
    graph.watched.append(Watched(place, Contents({f"{place.name}.{i}": x for i, x in enumerate(values)}), here()))


def watch_chosen(graph: Graph, run: Run, found: Sequence[tuple[Place, Any, Sequence[Any]]]) -> None:
    """Forbid changes of containers that a branch has chosen from, if another object holds them too."""
    if not found:
        return
    holders, twice = Holders(run), may_be_others(graph)
    for i in range(2):
        twice |= held_twice(tree.containers(sides[i]) for _, _, sides in found)
    for place, chosen, sides in found:
        inside = [tree.containers(x) for x in sides]
        if any(holders.are_shared(x, place) or not twice.isdisjoint(x) for x in inside):
            watch(graph, place, chosen, *sides)


def may_be_others(graph: Graph) -> set[int]:
    """The containers, by id, that stand for one of several: what is chosen from them does so, too."""
    return {key for each in graph.watched if type(each) is Watched for key in each.contents.found}


def changed(place: Place, where: Where | None = None) -> UnsupportedError:
    """Return the error for a change of a container that may be one of several."""
    return UnsupportedError(
        f"{called_by(place.name)} is one of several lists or dicts, depending on traced values, "
        "and one of them is changed",
        "Assign a copy, [*x] or dict(x), and change the copy.",
        where,
    )
