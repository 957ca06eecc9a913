"""Excerpts: helper functions after a generated one that neither NumPy nor a package has.

Loops call those of the runtime; operators may be functions written with NumPy, in any module. A function comes with
what it uses of its own module: constants, other functions, what that imports of the standard library.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import groupby
from symtable import SymbolTable, symtable
from types import ModuleType
from typing import Any, NamedTuple

from symgrad.core.text import first_line


class Statement(NamedTuple):
    """A statement of a module: the names that it defines, those that it reads, and its text.

    `kind` is the class of `ast` that it has, `packages` are those that it imports when it runs, `optional` those
    without which it runs as well.
    """

    kind: type[ast.stmt]
    defines: frozenset[str]
    reads: frozenset[str]
    text: str
    packages: tuple[str, ...]
    optional: tuple[str, ...]


def excerpt(functions: Iterable[Callable[..., Any]]) -> list[Statement]:
    """Return the statements that define functions and their helpers, in the order of their modules."""
    wanted: dict[str, set[str]] = {}
    for function in functions:
        wanted.setdefault(function.__module__, set()).add(function.__name__)
    return [s for module, names in wanted.items() for s in _needed(sys.modules[module], names)]


def text_of(statements: Iterable[Statement]) -> str:
    """The definitions, one below the other."""
    kept = [s for s in statements if s.kind not in IMPORTS]
    groups = groupby(kept, key=lambda s: s.kind is ast.Assign)
    between = {True: "\n", False: "\n\n\n"}  # constants, functions
    return "\n\n\n".join(between[are_constants].join(s.text for s in group) for are_constants, group in groups)


def imports_of(statements: Iterable[Statement]) -> list[str]:
    """Import lines, of the standard library."""
    return list(dict.fromkeys(s.text for s in statements if s.kind in IMPORTS))


def packages_of(statements: Iterable[Statement]) -> list[str]:
    """Return the packages that statements need beside NumPy."""
    return list(dict.fromkeys(package for s in statements for package in s.packages))


def optional_packages_of(statements: Iterable[Statement]) -> list[str]:
    """Return the packages that statements use where they are installed."""
    return list(dict.fromkeys(package for s in statements for package in s.optional))


def names_of(statements: Iterable[Statement]) -> set[str]:
    """The names that are defined."""
    return {name for s in statements for name in s.defines}


IMPORTS = (ast.Import, ast.ImportFrom)


def _needed(module: ModuleType, names: set[str]) -> list[Statement]:
    """Return the statements of a module that define the names, and those that they need."""
    statements = _statements(module)
    found: set[Statement] = set()
    while more := {s for s in statements if s.defines & names} - found:
        found |= more
        names = names.union(*(s.reads for s in more))
    return [s for s in statements if s in found]


@cache
def _statements(module: ModuleType) -> tuple[Statement, ...]:
    source = inspect.getsource(module)
    lines = source.splitlines()
    return tuple(
        Statement(
            type(node),
            frozenset(defined),
            frozenset(_globals(symtable(ast.unparse(node), "", "exec"))),
            "\n".join(lines[first_line(node) - 1 : node.end_lineno]),
            tuple(_imported(node, optional=False)),
            tuple(_imported(node, optional=True)),
        )
        for node in ast.parse(source).body
        if (defined := list(_defined(node)))
    )


def _imported(statement: ast.stmt, optional: bool) -> Iterator[str]:
    """Yield the packages imported inside a statement: those under an `except ImportError`, or the others."""
    inside = [x for x in ast.walk(statement) if x is not statement]
    tried = {y for x in inside if isinstance(x, ast.Try) and _catches_import_errors(x) for y in x.body}
    yield from (x.names[0].name for x in inside if isinstance(x, ast.Import) and (x in tried) == optional)


def _catches_import_errors(statement: ast.Try) -> bool:
    return any(isinstance(h.type, ast.Name) and h.type.id == "ImportError" for h in statement.handlers)


def _defined(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module defines; those of packages are there in any case."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, ast.Assign):
        yield from (x.id for target in statement.targets for x in ast.walk(target) if isinstance(x, ast.Name))
    elif isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names if alias.name in sys.stdlib_module_names)
    elif isinstance(statement, ast.ImportFrom) and str(statement.module).partition(".")[0] in sys.stdlib_module_names:
        yield from (alias.asname or alias.name for alias in statement.names)


def _globals(table: SymbolTable) -> Iterator[str]:
    """The names of the module that are read; those of a function's own are not, though the module may have the same."""
    in_module = table.get_type() == "module"
    yield from (s.get_name() for s in table.get_symbols() if s.is_referenced() and (in_module or s.is_global()))
    for inner in table.get_children():
        yield from _globals(inner)
