"""The user's source beside a graph: the functions that its nodes come from, and their lines."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from symgrad.core.provenance import Where
from symgrad.core.text import visible


class Span(NamedTuple):
    """The lines of a function; or of a statement, which has no name."""

    first: int
    last: int
    name: str = ""


class SourceLine(NamedTuple):
    """A line of the user's."""

    file: str  # what the file, or the cell, is called
    number: int
    text: str


class UsersSource:
    """The functions of the user's files, which are read once."""

    def __init__(self) -> None:
        self._known: dict[str, list[Span]] = {}

    def function_at(self, where: Where) -> str:
        """The name of the innermost function that a line stands in; "" where there is none, or no file."""
        found = _innermost(where.line, (span for span in self._spans(where.file) if span.name))
        return found.name if found else ""

    def lines(self, wheres: Iterable[Where]) -> dict[tuple[str, int], SourceLine]:
        """The lines of the functions that these lines stand in, by file and number; of others their statements."""
        found: dict[str, set[int]] = {}
        for file, line in dict.fromkeys((x.file, x.line) for x in wheres if x.text):
            span = self._around(file, line)
            found.setdefault(file, set()).update(range(span.first, span.last + 1))
        return {(file, i): _line(file, i) for file, numbers in found.items() for i in sorted(numbers)}

    def _around(self, file: str, line: int) -> Span:
        spans = self._spans(file)
        function = _innermost(line, (span for span in spans if span.name))
        return function or _innermost(line, spans) or Span(line, line)

    def _spans(self, file: str) -> list[Span]:
        if file not in self._known:
            self._known[file] = list(_spans(file))
        return self._known[file]


def _innermost(line: int, spans: Iterable[Span]) -> Span | None:
    around = [span for span in spans if span.first <= line <= span.last]
    return max(around, key=lambda span: (span.first, -span.last), default=None)


def _spans(file: str) -> Iterator[Span]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.ClassDef):
            name = node.name if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else ""
            yield Span(node.lineno, node.end_lineno or node.lineno, name)


def _line(file: str, number: int) -> SourceLine:
    place = str(Where(file, number)).removesuffix(f":{number}").removesuffix(f", line {number}")
    text = linecache.getline(file, number).rstrip().expandtabs()
    return SourceLine(visible(place), number, visible(text))
