"""Attributes that objects inherit from their class, and those that a branch or a loop may have given them instead.

Such an object has an attribute of its own while the program is traced. Whether it has one in Python, running tells; the
values agree as long as the class keeps the one that it had.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from symgrad.core.graph import Graph, tracing
from symgrad.core.provenance import Where, here
from symgrad.errors import UnsupportedError
from symgrad.frontend.conversion.mutable import OBJECT, UNDEFINED, Place, is_same, kind_of


def inherited(x: Any, name: str) -> Any:
    """Return the value that an instance inherits from its class."""
    found = next((vars(base)[name] for base in type(x).__mro__ if name in vars(base)), UNDEFINED)
    return UNDEFINED if hasattr(type(found), "__get__") else found


def inherits(place: Place) -> bool:
    """Whether it is an attribute that an object has from its class alone."""
    x = place.holder
    if kind_of(type(x)) is not OBJECT or place.key in OBJECT.read(x).items:
        return False
    return inherited(x, place.key) is not UNDEFINED


def check_inherited(places: Collection[Place]) -> None:
    """Raise where a class changes an attribute that an object of it inherits, and the object gets one of its own."""
    changed = {place.id for place in places}
    for place in places:
        if inherits(place) and any((id(base), place.key) in changed for base in type(place.holder).__mro__):
            raise _of_both(place)


class Shadowing(NamedTuple):
    """An attribute that an object may have of its own, and what its class had where it began to."""

    place: Place
    value: Any
    where: Where

    @property
    def is_there(self) -> bool:
        """Whether the object has it, in what is traced now."""
        return self.place.key in OBJECT.read(self.place.holder).items

    def check(self) -> None:
        """Raise if the class has something else now."""
        if self.is_there and not is_same(inherited(self.place.holder, self.place.key), self.value):
            raise _of_both(self.place, self.where)


def note_own(graph: Graph, places: Collection[Place]) -> None:
    """Note inherited attributes that objects are about to get, though in Python they may keep those of their class."""
    where = here()
    graph.watched += [Shadowing(x, inherited(x.holder, x.key), where) for x in places if inherits(x)]


def shadowing(graph: Graph | None, x: Any) -> list[Shadowing]:
    """Return the attributes that an object may have of its own."""
    return [each for each in graph.watched if type(each) is Shadowing and each.place.holder is x] if graph else []


def changing(x: Any, name: str) -> Any:
    """Return an object of which an attribute is about to be set or deleted, unless another one may inherit that."""
    graph = tracing.get()
    for each in graph.watched if graph is not None and isinstance(x, type) else ():
        place = each.place
        if type(each) is Shadowing and place.key == name and isinstance(place.holder, x) and each.is_there:
            raise _of_both(place)
    return x


def asked_for_own(x: Any) -> Any:
    """Return an object of which the ``__dict__`` is about to be read."""
    for each in shadowing(tracing.get(), x):
        raise UnsupportedError(
            f"the program reads the __dict__ of an object, and whether {each.place.name} is in it depends on traced "
            "values",
            f"Assign the attribute to the object before: {each.place.name} = ...",
        )
    return x


def _of_both(place: Place, where: Where | None = None) -> UnsupportedError:
    return UnsupportedError(
        f"traced values decide whether {place.name} is an attribute of the object or of its class, where it changes",
        f"Assign the attribute to the object before: {place.name} = ...",
        where,
    )
