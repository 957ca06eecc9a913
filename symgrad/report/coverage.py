"""Coverage of a file: which functions of NumPy and SciPy it names, and what becomes of each in a traced program.

The file is read, not run: names count that resolve to imports of NumPy and SciPy. Methods of objects do not, since
nothing says of what class an object is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from symgrad.errors import ArgumentError
from symgrad.export.manifest import UNREADABLE, no_python
from symgrad.ops.define import Refused
from symgrad.report.census import DIFFERENTIABLE, REFUSED, Entry, Unclassified, entry, found_at, known

_ROOTS = ("numpy", "scipy")
UNKNOWN = "unknown"
"""Kind of a function of which the census has no entry: it runs as its own source where that can be traced."""


class Named(NamedTuple):
    """A function that a file names, by its line."""

    line: int
    text: str
    entry: Entry


def coverage(path: Path) -> list[Named]:
    """Return the functions of NumPy and SciPy that a file names, by its lines.

    Raises
    ------
    ArgumentError
        If the file cannot be read, or is no Python.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except OSError as error:
        raise ArgumentError(f"{path} cannot be read: {error}", "Name a file with Python source.") from None
    except UNREADABLE as error:
        line = getattr(error, "lineno", None)
        place = f"{path}, line {line}" if line else str(path)
        raise ArgumentError(f"{place}: {no_python(error)}", "Name a file with Python source.") from None
    names = dict(_imported(tree))
    found = {(node.lineno, dotted): ast.unparse(node) for node, dotted in _references(tree, names)}
    entries = [(line, text, _entry(dotted)) for (line, dotted), text in sorted(found.items())]
    return [Named(line, text, what) for line, text, what in entries if what is not None]


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that imports of NumPy and SciPy bind, with what they stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                if root in _ROOTS:
                    yield alias.asname or root, alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] in _ROOTS:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _references(node: ast.AST, names: dict[str, str]) -> Iterator[tuple[ast.expr, str]]:
    """Yield the longest chains of attributes that begin at such a name."""
    dotted = _dotted(node, names)
    if dotted:
        yield node, dotted  # type: ignore[misc]
        return
    for child in ast.iter_child_nodes(node):
        yield from _references(child, names)


def _dotted(node: ast.AST, names: dict[str, str]) -> str:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        home = _dotted(node.value, names)
        return f"{home}.{node.attr}" if home else ""
    return ""


def _entry(dotted: str) -> Entry | None:
    """Return the entry of what stands at a path; None for modules, classes and constants."""
    try:
        function = found_at(dotted)
    except (AttributeError, ImportError):
        return Entry(dotted, UNKNOWN, f"there is no {dotted} in the version that is installed")
    if not callable(function) or isinstance(function, type):
        return None
    try:
        return entry(dotted)
    except Unclassified:
        return _of_table(dotted, function)


def _of_table(dotted: str, function: Any) -> Entry:
    """Return the entry of a function that the census does not count: whether the operator table has it."""
    written = known(function)
    if isinstance(written, Refused):
        return Entry(dotted, REFUSED, f"{written.fact}\n  {written.instead}")
    return Entry(dotted, UNKNOWN if written is None else DIFFERENTIABLE)
