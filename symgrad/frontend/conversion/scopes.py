"""Scopes: the names that the statements of a function bind and read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def within(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes below some nodes, in order, without the functions and classes that they define."""
    waiting = [*nodes][::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting += _children(node)[::-1]


def everything(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes below some nodes, also in the functions and classes that they define."""
    waiting = [*nodes]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += _children(node)


def _children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below one, without contexts and operators; `ast.iter_child_nodes` takes several times as long."""
    found: list[ast.AST] = []
    for name in _fields(type(node)):  # type: ignore[arg-type]  # a class has a hash
        x = getattr(node, name, None)
        if isinstance(x, list):
            found += [y for y in x if isinstance(y, ast.AST)]
        elif isinstance(x, ast.AST):
            found.append(x)
    return found


@cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a class of nodes that may have nodes."""
    leaves = ("id", "attr", "ctx", "op", "ops", "kind", "type_comment", *(("value",) if kind is ast.Constant else ()))
    return tuple(name for name in kind._fields if name not in leaves)


def bound(nodes: Sequence[ast.AST]) -> dict[str, None]:
    """The names that are bound or deleted, in the order in which they are first met."""
    names: dict[str, None] = {}
    waiting = [*nodes][::-1]
    while waiting:
        node = waiting.pop()
        name = _bound_by(node)
        if name:
            names[name] = None
        if isinstance(node, COMPREHENSIONS):  # its targets are its own, those of := are not
            names |= walrus_targets([node])
        elif not isinstance(node, SCOPES):
            waiting += _children(node)[::-1]
    return names


def _bound_by(node: ast.AST) -> str | None:
    """The name that a node binds or deletes by itself, not by a node below."""
    if isinstance(node, ast.Name):
        return None if isinstance(node.ctx, ast.Load) else node.id
    if isinstance(node, ast.alias):
        return (node.asname or node.name).partition(".")[0]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return node.name
    return node.rest if isinstance(node, ast.MatchMapping) else None


def parameters(definition: ast.FunctionDef | ast.Lambda) -> list[str]:
    """Return the names of a function's parameters."""
    return [node.arg for node in _children(definition.args) if isinstance(node, ast.arg)]


def appended(nodes: Sequence[ast.AST]) -> dict[str, None]:
    """Return the names of lists in ``x.append(y)``, ``x.extend(y)`` or ``x.insert(0, y)``."""
    called = [n.func for n in within(nodes) if isinstance(n, ast.Call)]
    found = [f.value for f in called if isinstance(f, ast.Attribute) and f.attr in ("append", "extend", "insert")]
    return {x.id: None for x in found if isinstance(x, ast.Name)}


def read(nodes: Iterable[ast.AST | None]) -> set[str]:
    """Return the names that may be read, including by functions defined here."""
    found = (n for n in everything(filter(None, nodes)) if isinstance(n, ast.Name))
    return {n.id for n in found if isinstance(n.ctx, ast.Load)}


def captured(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that functions read which are defined there: whenever they are called."""
    inner = [n for n in within(nodes) if isinstance(n, SCOPES)]
    return read(inner) | rebound(nodes)


def walrus_targets(nodes: Iterable[ast.AST]) -> dict[str, None]:
    """The names that ``:=`` binds, also in comprehensions."""
    return {n.target.id: None for n in within(nodes) if isinstance(n, ast.NamedExpr)}


def nonlocals(nodes: Sequence[ast.AST]) -> dict[str, None]:
    """The names of an outer function that the statements bind."""
    return {name: None for n in within(nodes) if isinstance(n, ast.Nonlocal) for name in n.names}


def rebound(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that functions bind anew which are defined there, by `nonlocal`."""
    inner = everything(n for n in within(nodes) if isinstance(n, SCOPES))
    return {name for n in inner if isinstance(n, ast.Nonlocal) for name in n.names}
