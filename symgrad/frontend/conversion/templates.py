"""Syntax trees from text with holes: names in capitals, for which names, expressions and statements are put in."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

RUNTIME = ".symgrad"
"""The free variable of converted functions that has the module `runtime`; a name with a dot is nobody's."""

Located = ast.stmt | ast.expr | ast.pattern  # what has a line
Part = str | ast.expr | Sequence[ast.expr] | Sequence[ast.stmt]
_T = TypeVar("_T")
_N = TypeVar("_N", bound=ast.AST)


def copied(tree: _T) -> _T:
    """Return a copy of a syntax tree, or of a list of them; `copy.deepcopy` takes several times as long."""
    if isinstance(tree, list):
        return [copied(x) for x in tree]  # type: ignore[return-value]
    own = vars(tree) if isinstance(tree, ast.AST) else None
    if not own:  # text or a number; or a context or an operator, of which one serves all trees
        return tree
    new = type(tree).__new__(type(tree))
    vars(new).update({name: copied(x) if isinstance(x, (list, ast.AST)) else x for name, x in own.items()})
    return new


def located(tree: _N) -> _N:
    """Give each node without a place that of the node above it; the tree itself has one.

    `ast.fix_missing_locations` does the same and takes longer.
    """
    waiting: list[tuple[Any, ast.AST]] = [(tree, tree)]
    while waiting:
        node, above = waiting.pop()
        own = vars(node)
        if node._attributes:
            if "end_lineno" not in own:
                ast.copy_location(node, above)
            above = node
        for x in own.values():
            if type(x) is list:
                waiting += [(y, above) for y in x if isinstance(y, ast.AST)]
            elif isinstance(x, ast.AST) and not isinstance(x, ast.expr_context):
                waiting.append((x, above))
    return tree


def statements(template: str, at: Located, **parts: Part) -> list[ast.stmt]:
    """The statements of a template; all that is not put in stands at the first line of `at`."""
    # not the place of a whole loop: Python says that a method is called in its last line
    place = {"lineno": at.lineno, "end_lineno": at.lineno, "col_offset": at.col_offset, "end_col_offset": at.col_offset}
    return _Filling(parts, place).several(_parsed(template))


def expression(template: str, at: Located, **parts: Part) -> ast.expr:
    """The expression of a template."""
    (statement,) = statements(template, at, **parts)
    assert isinstance(statement, ast.Expr)
    return statement.value


@cache
def _parsed(template: str) -> list[ast.stmt]:
    return ast.parse(template).body


class _Filling(NamedTuple):
    """Copies a template with parts in its holes: one for a name, or several where items of a list may stand."""

    parts: dict[str, Part]
    place: dict[str, int]  # of what is not put in

    def several(self, nodes: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for node in nodes:
            new = self.one(node)
            found += new if isinstance(new, (list, tuple)) else [new]
        return found

    def one(self, node: Any) -> Any:
        """Return a copy of a node of the template, or the parts for a hole."""
        if type(node) is ast.Expr and type(node.value) is ast.Name:
            part = self.parts.get(node.value.id, "")
            if not isinstance(part, (str, ast.expr)):
                return part
        if type(node) is ast.Name:
            part = self.parts.get(node.id, node.id)
            return ast.Name(part, node.ctx, **self.place) if isinstance(part, str) else part
        own = vars(node) if isinstance(node, ast.AST) else None
        if not own:  # see `copied`
            return node
        new: ast.AST = ast.AST.__new__(type(node))
        filled = vars(new)
        for name, x in own.items():
            filled[name] = self.several(x) if type(x) is list else self.one(x) if isinstance(x, ast.AST) else x
        if "lineno" in own:
            filled.update(self.place)
        return new
