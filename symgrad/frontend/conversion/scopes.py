"""Scopes: the names that the statements of a function bind and read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

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


def _children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below one, but for contexts; `ast.iter_child_nodes` takes three times as long."""
    found: list[ast.AST] = []
    for name in node._fields:
        x = getattr(node, name, None)
        if isinstance(x, list):
            found += [y for y in x if isinstance(y, ast.AST)]
        elif isinstance(x, ast.AST) and not isinstance(x, ast.expr_context):
            found.append(x)
    return found


def bound(nodes: Sequence[ast.AST]) -> dict[str, None]:
    """The names that are bound or deleted, in the order in which they are first met."""
    names: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names[node.id] = None
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names[node.name] = None
        elif isinstance(node, ast.alias):
            names[(node.asname or node.name).partition(".")[0]] = None
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names[node.name] = None
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names[node.rest] = None
        if isinstance(node, COMPREHENSIONS):  # its targets are its own, those of := are not
            names |= {n.target.id: None for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
        elif not isinstance(node, SCOPES):
            names |= bound(_children(node))
    return names


def parameters(definition: ast.FunctionDef | ast.Lambda) -> list[str]:
    """Return the names of a function's parameters."""
    return [node.arg for node in ast.walk(definition.args) if isinstance(node, ast.arg)]


def appended(nodes: Sequence[ast.AST]) -> dict[str, None]:
    """Return the names of lists in ``x.append(y)`` or ``x.extend(y)``."""
    called = [n.func for n in within(nodes) if isinstance(n, ast.Call)]
    found = [f.value for f in called if isinstance(f, ast.Attribute) and f.attr in ("append", "extend")]
    return {x.id: None for x in found if isinstance(x, ast.Name)}


def read(nodes: Iterable[ast.AST | None]) -> set[str]:
    """Return the names that may be read, including by functions defined here."""
    found = [n for node in nodes if node is not None for n in ast.walk(node) if isinstance(n, ast.Name)]
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
    inner = [m for n in within(nodes) if isinstance(n, SCOPES) for m in ast.walk(n)]
    return {name for n in inner if isinstance(n, ast.Nonlocal) for name in n.names}
