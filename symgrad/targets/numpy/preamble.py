"""What stands at the end of a generated module: the text of functions that neither NumPy nor a package has.

Loops call those of `symgrad.runtime`, in parts; operators may be functions written with NumPy, in any module.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from itertools import groupby
from symtable import SymbolTable, symtable
from types import ModuleType
from typing import Any, NamedTuple

from symgrad.targets.numpy import runtime


class Part(NamedTuple):
    """Functions of the runtime, the imports that they need, and the lines before them."""

    imports: tuple[str, ...]
    package: tuple[str, ...]
    state: tuple[str, ...]
    functions: tuple[str, ...]


PARTS = {
    "_scratch": Part(
        ("from contextlib import contextmanager",),
        (),
        (
            "_kept = {}  # scratch memory that nobody uses at present, by what it is for",
            "_MOST = 1 << 28  # bytes of it that are kept",
        ),
        ("_scratch", "_make_room"),
    ),
    "_in_parts": Part(
        (
            "import os",
            "from collections import deque",
            "from concurrent.futures import ThreadPoolExecutor, wait",
            "from contextvars import copy_context",
            "from functools import cache",
        ),
        (),
        (),
        ("_cores", "_pool", "_in_parts"),
    ),
    "_blas_on_one_thread": Part(
        ("import os", "import threading", "from functools import cache"),
        ("threadpoolctl",),
        (),
        ("_OneThread", "_set_threads", "_let_go", "_blas", "_blas_on_one_thread"),
    ),
}


def imports_for(names: Collection[str]) -> list[str]:
    """Import lines, of the standard library."""
    return list({line: 0 for name in PARTS if name in names for line in PARTS[name].imports})


def packages_for(names: Collection[str]) -> list[str]:
    """What a module needs beside NumPy."""
    return [package for name in PARTS if name in names for package in PARTS[name].package]


def text_for(names: Collection[str]) -> str:
    """The functions that the generated function calls."""
    return "\n\n\n".join(_text(name) for name in PARTS if name in names)


@cache
def _text(name: str) -> str:
    part = PARTS[name]
    state = ["\n".join(part.state)] if part.state else []
    return "\n\n\n".join([*state, *(inspect.getsource(getattr(runtime, f)).rstrip() for f in part.functions)])


def shared(names: Collection[str]) -> dict[str, Any]:
    """The runtime's own functions, which are those that the text defines."""
    return {name: getattr(runtime, name) for name in PARTS if name in names}


def definitions(functions: Iterable[Callable[..., Any]]) -> str:
    """The text of functions and of what they use of their modules, in the order in which it stands there."""
    groups = groupby(_excerpts(functions), key=lambda s: s.text.startswith(("def ", "@")))
    return "\n\n\n".join(
        ("\n\n\n" if are_functions else "\n").join(s.text for s in group) for are_functions, group in groups
    )


def defined(functions: Iterable[Callable[..., Any]]) -> set[str]:
    """The names that this text defines."""
    return {name for s in _excerpts(functions) for name in s.defines}


class _Statement(NamedTuple):
    """A statement of a module: the names that it defines, those that it reads, and its text."""

    defines: frozenset[str]
    reads: frozenset[str]
    text: str


def _excerpts(functions: Iterable[Callable[..., Any]]) -> list[_Statement]:
    wanted: dict[str, set[str]] = {}
    for function in functions:
        wanted.setdefault(function.__module__, set()).add(function.__name__)
    return [s for module, names in wanted.items() for s in _excerpt(sys.modules[module], names)]


def _excerpt(module: ModuleType, names: set[str]) -> list[_Statement]:
    """Those statements of a module that define the names, and what these need."""
    statements = _statements(module)
    found: set[_Statement] = set()
    while more := {s for s in statements if s.defines & names} - found:
        found |= more
        names = names.union(*(s.reads for s in more))
    return [s for s in statements if s in found]


@cache
def _statements(module: ModuleType) -> tuple[_Statement, ...]:
    source = inspect.getsource(module)
    lines = source.splitlines()
    return tuple(
        _Statement(
            frozenset(_stored(node)), frozenset(_read(node)), "\n".join(lines[_first(node) - 1 : node.end_lineno])
        )
        for node in ast.parse(source).body
        if isinstance(node, (ast.FunctionDef, ast.Assign))
    )


def _first(statement: ast.stmt) -> int:
    """The line where it begins, decorators included."""
    return min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])


def _stored(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module defines."""
    if isinstance(statement, ast.FunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _read(statement: ast.stmt) -> Iterator[str]:
    """The names of the module that it reads; those of a function's own are not, though the module may have the same."""
    return _globals(symtable(ast.unparse(statement), "", "exec"))


def _globals(table: SymbolTable) -> Iterator[str]:
    in_module = table.get_type() == "module"
    yield from (s.get_name() for s in table.get_symbols() if s.is_referenced() and (in_module or s.is_global()))
    for inner in table.get_children():
        yield from _globals(inner)
