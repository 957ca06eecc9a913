"""Text from outside in generated source: names, keys, strings, paths, quoted lines.

What the user or a file calls something enters a module through these functions alone. No text can add a token, end a
comment, a string or a docstring, or be another name for Python than it is for symgrad.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from itertools import chain, count
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np

CALLED = frozenset({
    "np", "scipy", "math", "abs", "bool", "complex", "enumerate", "float", "len", "map", "max", "min", "range",
    "reversed", "round", "sum", "zip", "ArithmeticError", "ValueError", "_in_parts", "_blas_on_one_thread",
    "_rows_of_block", "_BLOCK", "_NUMBERS", "_blocks", "_array", "_sums", "_add_at", "_cross", "_dot", "_vecdot",
    "_inverse", "_where_true", "_warn", "print", "format", "repr", "str", "ascii",
})  # fmt: skip
"""Names that the body of a generated function may call: arguments and sizes there have other names."""

_EXACT = (str, bytes, int, bool, type(None), np.longdouble, np.clongdouble)  # whose repr is source of the same value


# ---- names


def is_name(text: Any) -> bool:
    """Whether a text is a Python name, and written as Python itself writes it (in Unicode's form NFKC)."""
    if not isinstance(text, str) or not text.isidentifier() or normalize("NFKC", text) != text:
        return False
    return not keyword.iskeyword(text) and text != "__debug__"


def word(text: str) -> str:
    """A text with ``_`` for each character that no name has: part of a name."""
    return "".join(c if f"_{c}".isidentifier() else "_" for c in normalize("NFKC", text))


def identifier(text: str) -> str:
    """A text as a name; perhaps a keyword, and other texts may give the same one."""
    if text.isascii() and text.isidentifier():
        return text
    name = word(text)
    return name if name.isidentifier() else f"_{name}"


def free_name(name: str, taken: Container[str]) -> str:
    """Return a name that is not taken: itself, or else the first that is free of ``x_2``, ``x_3``, ..."""
    return next(each for each in chain([name], map(f"{name}_{{}}".format, count(2))) if each not in taken)


def dotted(path: str) -> str:
    """A path into arguments with dots alone: ``p["layers"][0].W`` is ``p.layers.0.W``."""
    return _BRACKET.sub(lambda found: "." + next(x for x in found.groups() if x is not None), path)


_BRACKET = re.compile(r"""\[(?:'([^']*)'|"([^"]*)"|(\d+))\]""")


def not_called(name: str) -> str:
    """A name that the body of a generated function does not call itself."""
    return f"{name}_" if name in CALLED else name


# ---- values


class Unquoted(str):
    """A text that `repr` gives without quotes, for a value in a larger text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def literal(value: Any) -> str | None:
    """Python source of a value; None of one that is no number, string, None or tree of these.

    Instances of subclasses have none either: what they are is not in their text, which may be anything.
    """
    kind = type(value)
    if kind in _EXACT:
        return repr(value)
    if kind is float:
        return repr(value) if math.isfinite(value) else f"{'-' * (value < 0)}np.{repr(value).lstrip('-')}"
    if kind is complex:
        return _complex(value)
    if value is Ellipsis:
        return "..."
    if kind in (tuple, list):
        return _sequence(value)
    return None


def _complex(value: complex) -> str:
    """Infinities, NaNs and the sign of a zero are lost in a sum."""
    parts = (value.real, value.imag)
    if all(math.isfinite(x) and (x or math.copysign(1, x) > 0) for x in parts):
        return repr(value)
    return f"complex({literal(value.real)}, {literal(value.imag)})"


def _sequence(value: tuple[Any, ...] | list[Any]) -> str | None:
    items = [literal(x) for x in value]
    inner = ", ".join(item for item in items if item is not None)
    if None in items:
        return None
    return f"[{inner}]" if type(value) is list else f"({inner}{',' * (len(items) == 1)})"


_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (np.generic, np.generic.item),
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (tuple, tuple),
)


def key_literal(key: Any) -> str | None:
    """Source of a key, or of one that dicts take for the same: of the string that a member of an Enum is."""
    text = literal(key)
    for base, plain in _BASES:
        if text is None and isinstance(key, base) and plain(key) == key and hash(plain(key)) == hash(key):
            text = literal(plain(key))
    return text


def double_quoted(text: str) -> str:
    """A literal with the quotes that formatters prefer."""
    return text if '"' in text else text.replace("'", '"')


def quoted(text: str) -> str:
    """A text as a literal in double quotes."""
    return f'"{_quotable(text)}"'


def _quotable(text: str) -> str:
    return "".join(f"\\{c}" if c in '"\\' else c if c.isprintable() else _escape(c) for c in text)


_FORMAT = re.compile(r"[\w.,+<>^=%#\- ]*", re.ASCII)


def quoted_with_values(pieces: Sequence[str | tuple[str, str, str]]) -> str:
    """A text with values in it, each the source of an expression without double quotes, a conversion and a format."""
    if all(isinstance(piece, str) for piece in pieces):
        return quoted("".join(pieces))  # type: ignore[arg-type]
    if all(isinstance(piece, str) or _FORMAT.fullmatch(piece[2]) for piece in pieces):
        return f'f"{"".join(map(_in_f_string, pieces))}"'
    return " + ".join(quoted(piece) if isinstance(piece, str) else _called_format(*piece) for piece in pieces)


def _in_f_string(piece: str | tuple[str, str, str]) -> str:
    if isinstance(piece, str):
        return _quotable(piece).replace("{", "{{").replace("}", "}}")
    code, conversion, spec = piece
    return f"{{{code}{'!' * bool(conversion)}{conversion}{':' * bool(spec)}{spec}}}"


def _called_format(code: str, conversion: str, spec: str) -> str:
    change = {"r": "repr", "s": "str", "a": "ascii"}.get(conversion)
    return f"format({change}({code}), {quoted(spec)})" if change else f"format({code}, {quoted(spec)})"


# ---- long expressions


class Group(NamedTuple):
    """Source with brackets: the opening, the items between commas, and the closing."""

    open: str
    items: Sequence[str | Group]
    close: str


def displayed(value: Any, name: str = "", leaf: Callable[[Any], str | None] | None = None) -> str | Group | None:
    """Return the source of a tree of dicts, lists and tuples after a name; None where it has none.

    By default leaves are literals, as `ast.literal_eval` reads them.
    """
    kind = type(value)
    if kind is dict:
        keys = [_evaluable(key_literal(key)) for key in value]
        items = [displayed(x, f"{key}: ", leaf) for key, x in zip(keys, value.values(), strict=True)]
        return None if None in (*keys, *items) else Group(f"{name}{{", items, "}")  # type: ignore[arg-type]
    if kind in (list, tuple):
        items = [displayed(x, "", leaf) for x in value]
        open, close = "[]" if kind is list else ("(", ",)" if len(value) == 1 else ")")
        return None if None in items else Group(f"{name}{open}", items, close)  # type: ignore[arg-type]
    text = _evaluable(literal(value)) if leaf is None else leaf(value)
    return text and name + text


def _evaluable(text: str | None) -> str | None:
    """A literal that `ast.literal_eval` reads: no infinity and no number of NumPy's."""
    if text is None:
        return None
    try:
        ast.literal_eval(text)
    except ValueError:
        return None
    return double_quoted(text)


def laid_out(x: str | Group, indent: str = "", width: int = 118) -> str:
    """The source on one line, or where that is too long with an item a line; lists of plain items fill the lines."""
    line = on_one_line(x)
    if isinstance(x, str) or not x.items or len(indent) + len(line) <= width:
        return line
    if x.close == "]" and all(isinstance(item, str) for item in x.items):
        return f"{x.open}\n{_filled(x.items, indent + '    ', width)}{indent}]"  # type: ignore[arg-type]
    items = [f"{indent}    {laid_out(item, indent + '    ', width)},\n" for item in x.items]
    return f"{x.open}\n{''.join(items)}{indent}{x.close.lstrip(',')}"


def _filled(items: Sequence[str], indent: str, width: int) -> str:
    """Fill lines with as many items as there is room for."""
    lines = [indent]
    for item in items:
        if len(lines[-1]) + len(item) + 2 > width and lines[-1] != indent:
            lines.append(indent)
        lines[-1] += f"{item}, "
    return "".join(f"{line.rstrip()}\n" for line in lines)


def on_one_line(x: str | Group) -> str:
    """The source on one line."""
    return x if isinstance(x, str) else f"{x.open}{', '.join(map(on_one_line, x.items))}{x.close}"


# ---- prose


def first_line(definition: ast.expr | ast.stmt) -> int:
    """Return the line where a statement or a lambda begins, decorators included."""
    return min([definition.lineno, *(x.lineno for x in getattr(definition, "decorator_list", ()))])


def visible(text: str) -> str:
    """A text on one line, with escapes for what cannot be printed or would turn the direction of writing."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def comment(text: str) -> str:
    """A comment line."""
    return f"# {visible(text)}"


def prose(text: str) -> str:
    """A line of a docstring."""
    return visible(text).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def duration(seconds: float) -> str:
    """A time with its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= 0.9995 * size:  # which is rounded to one
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def counted(x: Any) -> str:
    """Return a count as text: a number with commas, or an expression unchanged."""
    return f"{x:,}" if isinstance(x, int) else str(x)


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return a question for the known word that is nearest; `otherwise` where none is near."""
    near = get_close_matches(word, known, 1)
    return f"Did you mean {near[0]!r}?" if near else otherwise


def cut_to(text: str, width: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= width else f"{text[: width - 3]}..."


def plain(x: Any) -> Any:
    """Return a result as JSON: records as objects, and special numbers as text."""
    if isinstance(x, tuple) and hasattr(x, "_asdict"):
        return plain(x._asdict())
    if is_dataclass(x):
        return plain(vars(x))
    if isinstance(x, Mapping):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return list(map(plain, x))
    known = x is None or isinstance(x, (bool, int, str)) or (isinstance(x, float) and math.isfinite(x))
    return x if known else str(x)


def with_article(name: str) -> str:
    """Return a name behind "a" or "an", as it is spoken: an int, a uint8, an OverflowError, a UnicodeError."""
    return f"{'an' if re.match('[aeio]|u(?!func|int|ni|s)', name, re.IGNORECASE) else 'a'} {name}"
