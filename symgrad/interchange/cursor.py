"""Reading data from outside: every value knows its place in the file, and is of a kind that is asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from symgrad.core.text import visible
from symgrad.errors import ArgumentError

DEEPEST = 100  # levels of lists and objects within each other
LONGEST = 60  # characters of a value in a message


class Cursor:
    """A value of a JSON document, and where it stands: ``nodes[12].inputs[0]``."""

    def __init__(self, value: Any, place: str = "", depth: int = 0) -> None:
        self.value, self.place = value, place
        self._depth = depth
        if depth > DEEPEST:
            raise self.wrong(f"lists and objects stand within each other {DEEPEST} levels deep")

    def wrong(self, fact: str, instead: str = "Write the file with sg.to_json.") -> ArgumentError:
        """Return the error for the value at this place."""
        return ArgumentError(f"{visible(self.place) or 'the file'}: {fact}", instead)

    def _not(self, kind: str) -> ArgumentError:
        text = repr(self.value)
        return self.wrong(f"{visible(text if len(text) <= LONGEST else f'{text[:LONGEST]}...')} is not {kind}")

    # ---- parts

    def fields(self, required: Collection[str], optional: Collection[str] = ()) -> dict[str, Cursor]:
        """The values of an object by their names, which are these."""
        found = {name: x for name, x in self.entries()}
        for name in required:
            if name not in found:
                raise self.wrong(f"{name!r} is missing")
        for name, x in found.items():
            if name not in required and name not in optional:
                raise x.wrong("there is no such field")
        return found

    def entries(self) -> Iterator[tuple[str, Cursor]]:
        """The names and values of an object."""
        if type(self.value) is not dict:
            raise self._not("an object")
        for name, x in self.value.items():
            yield name, Cursor(x, f"{self.place}.{name}" if self.place else name, self._depth + 1)

    def items(self, count: int | None = None) -> list[Cursor]:
        """The items of a list; of so many, if that is said."""
        if type(self.value) is not list:
            raise self._not("a list")
        if count is not None and len(self.value) != count:
            raise self.wrong(f"{len(self.value)} items, not {count}")
        return [Cursor(x, f"{self.place}[{i}]", self._depth + 1) for i, x in enumerate(self.value)]

    def part(self, value: Any) -> Cursor:
        """A part of the text that stands here."""
        return Cursor(value, self.place, self._depth)

    # ---- values

    def text(self, longest: int = 10_000) -> str:
        """A string."""
        if type(self.value) is not str:
            raise self._not("text")
        if len(self.value) > longest:
            raise self.wrong(f"a text of {len(self.value)} characters, more than {longest}")
        return self.value

    def whole(self, least: int | None = None, most: int | None = None) -> int:
        """An integer in a range."""
        if type(self.value) is not int:
            raise self._not("an integer")
        if (least is not None and self.value < least) or (most is not None and self.value > most):
            raise self._not(f"an integer from {least} to {most}" if most is not None else f"an integer from {least} on")
        return self.value

    def truth(self) -> bool:
        """True or false."""
        if type(self.value) is not bool:
            raise self._not("true or false")
        return self.value
