"""Objects of one class of which a branch chooses one: another object, whose attributes are chosen.

Nothing else may hold either of them, which would not see what is written into the other object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from symgrad.core.graph import Graph
from symgrad.core.provenance import callers
from symgrad.errors import UnsupportedError
from symgrad.frontend.conversion.contents import CONSTRUCT, Contents, parts
from symgrad.frontend.conversion.inherited import shadowing
from symgrad.frontend.conversion.jumps import called_by
from symgrad.frontend.conversion.mutable import OBJECT, Place, kind_of
from symgrad.frontend.conversion.state import Held, Snapshot, held

Pick = Callable[[str, Held, Held], Callable[[], Any]]


def are_twins(x: Any, y: Any) -> bool:
    """Whether two values are objects of one class that Python code alone has made, with the same attributes."""
    if type(x) is not type(y) or kind_of(type(x)) is not OBJECT:
        return False
    plain = all(base is object or base.__flags__ & _HEAP for base in type(x).__mro__)
    return plain and OBJECT.read(x).items.keys() == OBJECT.read(y).items.keys()


_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE


class Twins:
    """The pairs of objects that two sides of a branch leave, and what stands for each behind it."""

    def __init__(self, graph: Graph, sides: Sequence[Snapshot]) -> None:
        self._graph, self._sides = graph, sides
        self._made: dict[tuple[int, int], Any] = {}
        self._partner: dict[int, int] = {}  # of each of the objects the other one
        self._objects: list[tuple[str, Any]] = []

    def chosen(self, name: str, then: Any, other: Any, pick: Pick) -> Callable[[], Any]:
        """Return a function that gives the object which stands for one of two."""
        key = id(then), id(other)
        if key in self._made:
            return lambda: self._made[key]
        if self._partner.setdefault(key[0], key[1]) != key[1] or self._partner.setdefault(key[1], key[0]) != key[0]:
            raise _shared(name)
        if not (self._keeps_attributes(then) and self._keeps_attributes(other)):
            raise UnsupportedError(
                f"a traced value decides which of two objects {called_by(name)} is, and only one gets an attribute",
                "Set all attributes in __init__.",
            )
        made = self._made[key] = object.__new__(type(then))
        self._objects += [(name, then), (name, other)]
        values = [
            (attribute, pick(f"{name}.{attribute}", *self._held(attribute, then, other)))
            for attribute in OBJECT.read(then).items
        ]

        def chosen() -> Any:
            for attribute, value in values:
                OBJECT.put(made, attribute, value())
            return made

        return chosen

    def _held(self, attribute: str, *objects: Any) -> list[Held]:
        """Return the value of an attribute of each of them at the end of its side."""
        found = []
        for x, side in zip(objects, self._sides, strict=True):
            place = Place(x, attribute, attribute)
            now = side.places[place.id][2] if place.id in side.places else None
            found.append(side.held(held(OBJECT.read(x).items[attribute])) if now is None else now)
        return found

    def _keeps_attributes(self, x: Any) -> bool:
        """Whether it is known which attributes an object has: no side sets a new one, or deletes one."""
        if shadowing(self._graph, x):
            return False
        keys = OBJECT.read(x).items
        changed = [
            (place.key, now) for side in self._sides for place, _, now in side.places.values() if place.holder is x
        ]
        return all(key in keys and now.bound for key, now in changed)

    def check(self, contents: Sequence[Contents], local: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Raise if something else holds one of the objects, behind the branch, than names that are given values."""
        if not self._objects:
            return
        own = {id(x) for _, x in self._objects}
        names = {name: x for name, x in {**local, **values}.items() if not name.startswith(CONSTRUCT)}
        frames = [{name: x for name, x in f.f_locals.items() if not name.startswith(CONSTRUCT)} for f in callers()]
        holding = [x for each in (names, *frames) for x in each.values()]
        for each in (*contents, *(Contents(each) for each in (names, *frames))):
            for entry in each.found.values():
                if id(entry.holder) not in own:
                    now = entry.now()
                    holding += [*now.values, *(now.keys or ()), *entry.kind.parts(entry.holder)]
        for x in holding:
            holding += parts(x)
        found = {id(x) for x in holding}
        for name, x in self._objects:
            if id(x) in found:
                raise _shared(name)


def _shared(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"{called_by(name)} is one of two objects, depending on a traced value, and something else holds one of them",
        "Write the attributes of one object instead, or let nothing else hold these.",
    )
