"""Text made of traced values: a person may read it, and no part of the program may depend on it."""

from __future__ import annotations

from typing import Any

from symgrad.errors import ConcreteValueError


class Text(str):
    """A description of traced values, which have none before the program runs.

    It can be printed and joined to other text. To compare it, to look into it, or to use it as a key is an error.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return self

    def __format__(self, spec: str) -> Text:
        return Text(str.__format__(self, spec))

    def __add__(self, other: Any) -> Text:
        return Text(str.__add__(self, other))

    def __radd__(self, other: Any) -> Text:
        return Text(str.__add__(other, self))

    def __mod__(self, values: Any) -> Text:
        return Text(str.__mod__(self, values))

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise ConcreteValueError(
            f"the program depends on the text {str.__repr__(self)}, which is made of a traced value",
            "Compare the values themselves: x == y.",
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = __contains__ = _refused
    __len__ = __iter__ = __getitem__ = __mul__ = __rmul__ = _refused
    startswith = endswith = find = rfind = index = rindex = count = split = rsplit = splitlines = _refused
    replace = translate = encode = partition = rpartition = isdigit = isdecimal = isnumeric = isalpha = _refused


def joined(*parts: Any) -> str:
    """Return the text of an f-string: each part is a text, or a value with its conversion and its format."""
    texts = [part if type(part) is str else _formatted(*part) for part in parts]
    found = "".join(texts)
    return Text(found) if any(type(text) is Text for text in texts) else found


def _formatted(value: Any, conversion: int, spec: str) -> str:
    change: Any = {ord("s"): str, ord("r"): repr, ord("a"): ascii}.get(conversion)
    return format(value if change is None else change(value), spec)
