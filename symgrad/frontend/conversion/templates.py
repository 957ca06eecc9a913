"""Syntax trees from text with holes: names in capitals, for which names, expressions and statements are put in."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

RUNTIME = ".symgrad"
"""The free variable of converted functions that has the module `runtime`; a name with a dot is nobody's."""

Located = ast.stmt | ast.expr  # what has a line
Part = str | ast.expr | Sequence[ast.expr] | Sequence[ast.stmt]
_T = TypeVar("_T")


def copied(tree: _T) -> _T:
    """Return a copy of a syntax tree, or of a list of them; `copy.deepcopy` takes several times as long."""
    if isinstance(tree, list):
        return [copied(x) for x in tree]  # type: ignore[return-value]
    if not isinstance(tree, ast.AST):
        return tree
    new = type(tree).__new__(type(tree))
    vars(new).update({name: copied(x) for name, x in vars(tree).items()})
    return new


def statements(template: str, at: Located, **parts: Part) -> list[ast.stmt]:
    """The statements of a template; all that is not put in stands at the first line of `at`."""
    body = copied(_parsed(template))
    head = ast.Pass(lineno=at.lineno, end_lineno=at.lineno, col_offset=at.col_offset, end_col_offset=at.col_offset)
    for node in (node for statement in body for node in ast.walk(statement)):
        if "lineno" in node._attributes:
            ast.copy_location(node, head)  # not of a whole loop: Python says that a method is called in its last line
    return _Filling(parts).filled(body)


def expression(template: str, at: Located, **parts: Part) -> ast.expr:
    """The expression of a template."""
    (statement,) = statements(template, at, **parts)
    assert isinstance(statement, ast.Expr)
    return statement.value


@cache
def _parsed(template: str) -> list[ast.stmt]:
    return ast.parse(template).body


class _Filling(ast.NodeTransformer):
    """Puts parts into holes: one for a name, or several where items of a list may stand."""

    def __init__(self, parts: dict[str, Part]) -> None:
        self._parts = parts

    def filled(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [new for statement in body for new in self._several(statement)]

    def _several(self, statement: ast.stmt) -> list[ast.stmt]:
        new = self.visit(statement)
        return new if isinstance(new, list) else [new]

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        part = self._parts.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if part is None or isinstance(part, (str, ast.expr)):
            self.generic_visit(node)
            return node
        return list(part)  # type: ignore[arg-type]

    def visit_Name(self, node: ast.Name) -> ast.expr | list[ast.expr]:
        part = self._parts.get(node.id, node.id)
        if isinstance(part, str):
            return ast.copy_location(ast.Name(part, node.ctx), node)
        return part if isinstance(part, ast.expr) else list(part)  # type: ignore[arg-type]
