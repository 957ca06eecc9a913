"""The origin of a program: its model, the file of that, and the transforms of it."""

from __future__ import annotations
import __future__

import ast
import hashlib
import inspect
import tokenize
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.options import NAMES
from symgrad.core.provenance import package_of
from symgrad.core.text import displayed, first_line

Recipe = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
Transform = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Origin:
    """The origin of a program."""

    file: str | None  # of the model; None of one that has none of its own: from a package, a notebook, a graph
    module: str | None  # of a model in a package
    name: str | None  # the qualified name, ``loss`` or ``Model.loss``
    sha256: str | None  # of its source, see `hash_of`; None where the file has changed since it was imported
    transforms: tuple[Transform, ...] | None  # outermost first; None where nobody could make the function again
    reasons: Mapping[str, str]  # for what is None why it is


def origin_of(recipe: Recipe | None) -> Origin:
    """The origin of a Function that was made by this call of a transform; None where it was made in another way."""
    if recipe is None:
        reason = "it is not a transform of a function"
        return Origin(None, None, None, None, None, {"model": reason, "transform": reason})
    transforms: tuple[Transform, ...] | None
    transforms, f = unwound(recipe)
    code = getattr(inspect.unwrap(f), "__code__", None)
    name = getattr(f, "__qualname__", getattr(f, "__name__", None))
    reasons, file, module, sha256 = {}, None, None, None
    if code is None or package_of(code):
        module = getattr(f, "__module__", None) or "numpy"  # ufuncs do not say where they come from
    elif Path(code.co_filename).is_file():
        file = code.co_filename
        text = text_of(Path(file))
        sha256 = hash_of(text, code.co_firstlineno) if text is not None and _is_of(code, text) else None
        if sha256 is None:
            reasons["sha256"] = "the file has changed since it was imported"
    else:
        reasons["model"] = "it stands in no file"
    if not _is_found(f, name):
        transforms, reasons["transform"] = None, "the model has no name by which it could be found again"
    elif displayed(transforms) is None:
        transforms, reasons["transform"] = None, "an argument of a transform cannot be written as Python source"
    return Origin(file, module, name, sha256, transforms, reasons)


def text_of(file: Path) -> str | None:
    """Return the text of a Python file, in its encoding; None if it is not text."""
    try:
        with tokenize.open(file) as opened:
            return opened.read()
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None


def unwound(recipe: Recipe) -> tuple[tuple[Transform, ...], Any]:
    """The transforms, outermost first, and the function that the innermost is of."""
    transform, args, kwargs = recipe
    bound = inspect.signature(transform).bind(*args, **kwargs)
    f = bound.arguments.pop("f")
    this = (transform.__name__, _arguments(bound))
    within = getattr(f, "recipe", None)
    if within is None:
        return (this,), f
    others, f = unwound(within)
    return (this, *others), f


def _arguments(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments of a transform but for defaults, and for options of the compiler."""
    given = {**bound.arguments, **bound.arguments.get("options", {})}
    defaults = {p.name: p.default for p in bound.signature.parameters.values()}
    dropped = {"options", *NAMES}
    return {k: x for k, x in given.items() if k not in dropped and (k not in defaults or x != defaults[k])}


def _is_found(f: Any, name: str | None) -> bool:
    """Whether a function, or a transform that decorates it, has this name in its module."""
    first, *attributes = (name or "").split(".")
    home = getattr(inspect.unwrap(f), "__globals__", None) or vars(np)
    found = home.get(first)
    for attribute in attributes:
        found = getattr(found, attribute, None)
    recipe = getattr(found, "recipe", None)
    return f is not None and f is (found if recipe is None else unwound(recipe)[1])


_FUTURE = reduce(or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))


def _is_of(code: CodeType, text: str) -> bool:
    """Whether a function that runs is the one in the text of its file."""
    flags = code.co_flags & _FUTURE  # of whoever ran the file, such as a notebook
    try:
        inner = [compile(text, code.co_filename, "exec", flags, dont_inherit=True)]
    except (SyntaxError, ValueError):
        return False
    for each in inner:
        inner += [x for x in each.co_consts if isinstance(x, CodeType)]
    return code in inner


# ---- the source of a model


class _Statement(NamedTuple):
    """A statement of a module: the lines that it stands on, the names that it defines and those that it reads."""

    first: int
    last: int
    defines: frozenset[str]
    reads: frozenset[str]


def hash_of(text: str, model: int | str) -> str | None:
    """The SHA-256 of a model's source, in hexadecimal digits; None where the text of the file has no such model.

    It covers the statement of the file that defines the model, and those that define what it reads by name: functions,
    constants and imports, and what these read in turn, with comments; but not what stands in other files. The model is
    given by one of its lines, or by its qualified name.
    """
    statements = list(_statements(ast.parse(text)))
    name = model.split(".")[0] if isinstance(model, str) else None
    line = model if isinstance(model, int) else 0
    found = {s for s in statements if name in s.defines or s.first <= line <= s.last}
    while more := {s for s in statements if any(s.defines & (other.defines | other.reads) for other in found)} - found:
        found |= more
    lines = text.split("\n")
    parts = [line.rstrip() for s in statements if s in found for line in lines[s.first - 1 : s.last]]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if found else None


def _statements(module: ast.Module) -> Iterator[_Statement]:
    for statement in module.body:
        first = first_line(statement)
        nodes = list(ast.walk(statement))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        reads = frozenset(node.id for node in names if isinstance(node.ctx, ast.Load))
        yield _Statement(first, statement.end_lineno or first, frozenset(_defined(statement)), reads)


def _defined(statement: ast.AST) -> Iterator[str]:
    """The names of the module that a statement defines."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
        return
    if isinstance(statement, ast.Name) and isinstance(statement.ctx, ast.Store):
        yield statement.id
    if isinstance(statement, ast.alias):
        yield (statement.asname or statement.name).split(".")[0]
    for child in ast.iter_child_nodes(statement):
        yield from _defined(child)
