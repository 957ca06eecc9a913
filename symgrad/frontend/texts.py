"""Text made of traced values: a person may read it when the program runs, and no part of the program depends on it."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.sizes import Dim, number_of
from symgrad.errors import ConcreteValueError, UnsupportedError
from symgrad.ops.known import is_constant
from symgrad.ops.operands import is_traced
from symgrad.ops.positions import Places


class Part(NamedTuple):
    """A traced value or a size in a text, and how it is written: by `format`, or by ``%`` where `spec` begins so.

    With an axis it is a mask, of which the places are written where it holds.
    """

    value: Any
    conversion: str = ""
    spec: str = ""
    axis: int | None = None


class Text(str):
    """A description of traced values, with the parts from which the running program makes the text.

    It can be printed, joined to other text, and said by an exception or a warning. To compare it, to look into it, or
    to use it as a key is an error.
    """

    __slots__ = ("pieces",)
    pieces: tuple[str | Part, ...] | None
    """Texts and values that it consists of; None where they are not known."""

    def __new__(cls, description: str, pieces: Sequence[str | Part] | None = None) -> Text:
        self = super().__new__(cls, description)
        self.pieces = None if pieces is None else tuple(pieces)
        return self

    def __str__(self) -> str:
        return self

    def __format__(self, spec: str) -> Text:
        return Text(str.__format__(self, spec), None if spec else self.pieces)

    def __add__(self, other: Any) -> Text:
        return Text(str.__add__(self, other), _both(self, other))

    def __radd__(self, other: Any) -> Text:
        return Text(str.__add__(other, self), _both(other, self))

    def __mod__(self, values: Any) -> Text:
        return Text(str.__mod__(self, values))

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise ConcreteValueError(
            f"the program depends on the text {str.__repr__(self)}, which was made from a traced value",
            "Compare the values themselves: x == y.",
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = __contains__ = _refused
    __len__ = __iter__ = __getitem__ = __mul__ = __rmul__ = _refused
    startswith = endswith = find = rfind = index = rindex = count = split = rsplit = splitlines = _refused
    replace = translate = encode = partition = rpartition = isdigit = isdecimal = isnumeric = isalpha = _refused


def described(value: Any, conversion: str = "", spec: str = "") -> Text:
    """Return the text of a traced value or a size."""
    _check_class(value, conversion, spec)
    if isinstance(value, Places):
        return Text("the places where a condition holds", [Part(_now(value.mask), conversion, spec, value.axis)])
    return Text(str(value) if isinstance(value, Dim) else repr(value), [Part(_now(value), conversion, spec)])


def _check_class(value: Any, conversion: str, spec: str) -> None:
    """Raise if a number is written as its class has it, and traced values decide which class that is."""
    examples = value.examples if is_traced(value) else None
    if not examples or (spec[-1:] in _OF_ANY_CLASS and spec):
        return
    written = {repr(x) if conversion == "r" else f"{x}" for x in (_two(kind, x) for kind, x in examples.items())}
    if len(written) > 1:
        names = " or ".join(sorted(kind.__name__ for kind in examples))
        raise UnsupportedError(
            f"a number is made into text, and whether it is {names} depends on traced values",
            "Give it one class on all paths, 3.0 instead of 3, or a format: f'{x:.3f}'.",
        )


_OF_ANY_CLASS = "eEfFgG%di"
"""Formats that write a number of any class alike."""


def _two(kind: type, like: Any) -> Any:
    """The number 2 of a class, or a truth value; of a class of the user's the class."""
    if kind is np.ndarray or issubclass(kind, np.number):
        return np.full_like(like, 2)[()] if kind is np.ndarray else kind(2)
    return like if issubclass(kind, (bool, np.bool_)) else kind(2) if kind in (int, float, complex) else kind


def _now(value: Any) -> Any:
    """Return a value as it is now: a Variable may be written into."""
    if is_traced(value) and value.may_be_none:
        raise UnsupportedError(
            "a value is made into text, and whether it is None depends on traced values",
            "Test first: if x is None.",
        )
    return type(value)(value.graph, value.node) if is_traced(value) else value


def is_unknown(value: Any) -> bool:
    """Whether only the running program knows how a value is written."""
    return isinstance(value, (Dim, Places)) or (is_traced(value) and not is_constant(value))


def pieces_of(text: str) -> tuple[str | Part, ...] | None:
    """Return the parts of a text; None where it cannot be split into its traced values."""
    if type(text) is Text:
        return text.pieces
    return None if _DESCRIBED.search(text) else (str(text),)


_DESCRIBED = re.compile(r"<Variable \w+\[")
"""Matches symgrad's description of a traced value, which text of Python's functions may contain."""


def _both(*texts: str) -> tuple[str | Part, ...] | None:
    found = [pieces_of(text) for text in texts]
    return None if None in found else tuple(piece for pieces in found for piece in pieces or ())


def _joined(texts: Sequence[str]) -> str:
    found = "".join([str.__str__(text) for text in texts])
    return Text(found, _both(*texts)) if any(type(text) is Text for text in texts) else found


def read(text: Any) -> Any:
    """Return a text from which a number is read, with the numbers of the sizes in it; anything else as it is."""
    if type(text) is not Text and not (isinstance(text, str) and _DESCRIBED.search(text)):
        return text
    pieces = pieces_of(text)
    if pieces is None or not all(isinstance(x, str) or isinstance(x.value, Dim) for x in pieces):
        raise ConcreteValueError(
            f"a number is read from the text {str.__repr__(text)}, which was made from a traced value",
            "Compute with the value itself: np.round(x, 3) instead of float(f'{x:.3f}').",
        )
    return "".join([x if isinstance(x, str) else _number_in_text(x) for x in pieces])


def _number_in_text(part: Part) -> str:
    n = number_of(part.value)
    return part.spec % n if part.spec.startswith("%") else format(n, part.spec)


# ---- f-strings, `str.format` and ``%``


def joined(*parts: Any) -> str:
    """Return the text of an f-string: each part is a text, or a value with its conversion and its format."""
    return _joined([part if isinstance(part, str) else _formatted(*part) for part in parts])


def _formatted(value: Any, conversion: int, spec: str) -> str:
    return formatted(value, chr(conversion) if conversion > 0 else "", spec)


def formatted(value: Any, conversion: str, spec: str) -> str:
    """Return a value as an f-string writes it."""
    if type(spec) is Text:
        raise ConcreteValueError(
            f"the format {str.__repr__(spec)} was made from a traced value",
            "Write the width as a number.",
        )
    if is_unknown(value):
        return described(value, conversion, spec)
    change: Any = {"s": as_text, "r": as_source, "a": ascii}.get(conversion)
    changed = as_text(value) if change is None and not spec and _holds_unknown(value) else value
    return format(changed if change is None else change(value), spec)


def by_format(template: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """``template.format(*args, **kwargs)``"""
    return _filled(template, args, kwargs, count())


def _filled(template: str, args: Sequence[Any], kwargs: Mapping[str, Any], numbers: Iterator[int]) -> str:
    formatter, found = string.Formatter(), list[str]()
    for text, name, spec, conversion in formatter.parse(template):
        found.append(text)
        if name is None:
            continue
        key = f"{next(numbers)}{name}" if re.match(r"[.\[]|$", name) else name
        value, _ = formatter.get_field(key, args, kwargs)
        found.append(formatted(value, conversion or "", _filled(spec or "", args, kwargs, numbers)))
    return _joined(found)


_DIRECTIVE = re.compile(
    r"%(?:\((?P<key>[^)]*)\))?(?P<how>[#0\- +]*(?:\d+|\*)?(?:\.(?:\d+|\*))?)[hlL]?(?P<kind>.)", re.DOTALL
)


def by_percent(template: Any, values: Any) -> Any:
    """``template % values``"""
    given = values if type(values) is tuple else (values,)
    held = given if not isinstance(values, dict) else tuple(values.values())
    if type(template) is not str or not any(_holds_unknown(x) or type(x) is Text for x in held):
        return template % values
    found, end, rest = list[str](), 0, iter(given)
    for directive in _DIRECTIVE.finditer(template):
        found.append(template[end : directive.start()])
        end = directive.end()
        key, how, kind = directive.group("key", "how", "kind")
        if kind == "%":
            found.append("%")
            continue
        if "*" in how:
            raise ConcreteValueError(f"the width in {template!r} is an argument", "Write the width into the text.")
        value = values[key] if key is not None else next(rest, _MISSING)
        if value is _MISSING:
            raise TypeError("not enough arguments for format string")
        found.append(_by_directive(value, how, kind))
    if not isinstance(values, dict) and next(rest, _MISSING) is not _MISSING:
        raise TypeError("not all arguments converted during string formatting")
    return _joined([*found, template[end:]])


_MISSING = object()


def _by_directive(value: Any, how: str, kind: str) -> str:
    if kind in "sra" and not how:
        return formatted(value, "" if kind == "s" else kind, "")
    if not is_unknown(value):
        return str.__mod__(f"%{how}{kind}", (value,))
    whole = isinstance(value, Dim) or value.dtype.kind in "iu"
    alike = kind in "eEfFgG" or (kind in "di" and whole and "." not in how)
    if not alike or set(how) & set("-# "):
        return described(value, "", f"%{how}{kind}")
    spec = how + kind.replace("i", "d")
    return described(value, "", "" if spec == "d" else spec)


def by_join(between: str, texts: Any) -> str:
    """``between.join(texts)``"""
    items = [*texts]
    if not any(type(item) is Text for item in items):
        return between.join(items)
    return _joined([part for item in items for part in (between, item)][1:])


# ---- texts of values


def as_text(value: Any = "", *more: Any) -> str:
    """``str(value)``"""
    if more:
        return str(value, *more)
    if type(value) is Text or isinstance(value, str):
        return value
    return described(value) if is_unknown(value) else as_source(value) if _holds_unknown(value) else str(value)


def as_source(value: Any) -> str:
    """``repr(value)``: of lists, tuples and dicts of traced values item by item."""
    if is_unknown(value):
        return described(value, "r")
    if type(value) is Text:
        return Text(str.__repr__(value))
    if not _holds_unknown(value):
        return repr(value)
    if type(value) is dict:
        brackets = "{}"
        items = [_joined([as_source(key), ": ", as_source(x)]) for key, x in value.items()]
    else:
        brackets = "[]" if type(value) is list else "()"
        items = list(map(as_source, value))
    parts = [part for item in items for part in (", ", item)][1:]
    comma = "," * (type(value) is tuple and len(value) == 1)
    return _joined([brackets[0], *parts, comma, brackets[1]])


def _holds_unknown(value: Any) -> bool:
    if type(value) in (list, tuple):
        return any(map(_holds_unknown, value))
    if type(value) is dict:
        return any(map(_holds_unknown, value.values()))
    return is_unknown(value) or type(value) is Text
