"""Statements rewritten as others that conversion knows: global names, guards of `match`, and ``a and (b := c)``."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from symgrad.frontend.conversion.jumps import Unconvertible, assign
from symgrad.frontend.conversion.scopes import COMPREHENSIONS, SCOPES, bound, walrus_targets, within
from symgrad.frontend.conversion.templates import RUNTIME, copied, expression

SUBJECT, TEST = ".subject", ".test"
"""Names of what a `match` looks at, and of tests whose parts bind names."""

GUARDS = 6  # of one `match`: what stands behind a guard is written twice


def prepared(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a function with global names as items of a dict, and guards and tests as branches."""
    names = {name for node in within(body) if isinstance(node, ast.Global) for name in node.names}
    names &= bound(body).keys()
    if names:
        _check_stores(body, names)
        body = [_Stores(names).visit(statement) for statement in body]  # type: ignore[misc]
    branches = _Branches()
    return [new for statement in body for new in branches.several(statement)]


def _check_stores(body: Sequence[ast.stmt], names: set[str]) -> None:
    """Raise if a global name is bound by something else than an assignment, a loop or a `with`."""
    stores = [n for n in within(body) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    others = {name for node in within(body) if not isinstance(node, ast.Name) for name in _bound_here(node)}
    if others & names or names & walrus_targets(body).keys() or not stores:
        raise Unconvertible


def _bound_here(node: ast.AST) -> list[str]:
    """The names that a node binds itself, but for assignments."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.alias, ast.ExceptHandler)):
        return [*bound([node])]
    if isinstance(node, (ast.MatchAs, ast.MatchStar, ast.MatchMapping)):
        return [*bound([node])]
    return []


class _Stores(ast.NodeTransformer):
    """``N = value`` of a global name becomes ``namespace()["N"] = value``."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def visit(self, node: ast.AST) -> ast.AST:
        return node if isinstance(node, (*SCOPES, *COMPREHENSIONS)) else super().visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._names or isinstance(node.ctx, ast.Load):
            return node
        holder = expression("SG.namespace()", node, SG=RUNTIME)
        return ast.copy_location(ast.Subscript(holder, ast.copy_location(ast.Constant(node.id), node), node.ctx), node)


def _always_matches(pattern: ast.pattern) -> bool:
    """Whether a pattern matches anything: Python allows no case behind it."""
    if isinstance(pattern, ast.MatchOr):
        return any(map(_always_matches, pattern.patterns))
    return isinstance(pattern, ast.MatchAs) and (pattern.pattern is None or _always_matches(pattern.pattern))


class _Branches(ast.NodeTransformer):
    """Parts of statements that Python may not evaluate become branches of their own.

    ``case pattern if guard: body`` becomes a branch in the case; its other side goes on with the cases behind it. The
    test ``a and (b := c)`` becomes a branch on `a` that binds b.
    """

    def __init__(self) -> None:
        self._count = 0

    def several(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements that stand for one."""
        found = self.visit(statement)
        return found if isinstance(found, list) else [found]  # type: ignore[list-item]

    def visit(self, node: ast.AST) -> ast.AST:
        return node if isinstance(node, (*SCOPES, ast.expr)) else super().visit(node)

    def visit_Match(self, node: ast.Match) -> ast.Match | list[ast.stmt]:
        self.generic_visit(node)
        guards = sum(case.guard is not None for case in node.cases)
        if not 0 < guards <= GUARDS:
            return node
        self._count += 1
        name = f"{SUBJECT}{self._count}"
        return [assign(name, node.subject, node), self._plain(node, name, node.cases)]

    def visit_If(self, node: ast.If) -> ast.If | list[ast.stmt]:
        self.generic_visit(node)
        before, node.test = self._evaluated(node.test)
        return [*before, node] if before else node

    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        before, test = self._evaluated(node.test)
        if not before:
            return node
        if node.orelse:
            raise Unconvertible
        over = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
        end = ast.copy_location(ast.If(over, [ast.copy_location(ast.Break(), node)], []), node)
        true = ast.copy_location(ast.Constant(True), node)
        return ast.copy_location(ast.While(true, [*before, end, *node.body], []), node)

    def _evaluated(self, test: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
        """Return statements that evaluate a test part by part, where a later part binds names, and its value."""
        if not isinstance(test, ast.BoolOp) or not walrus_targets(test.values[1:]):
            return [], test
        self._count += 1
        name = f"{TEST}{self._count}"
        value = ast.copy_location(ast.Name(name, ast.Load()), test)
        before, first = self._evaluated(test.values[0])
        found = [*before, assign(name, first, test)]
        for part in test.values[1:]:
            before, last = self._evaluated(part)
            more = [*before, assign(name, last, part)]
            same: list[ast.stmt] = [ast.copy_location(ast.Pass(), part)]
            sides = (more, []) if isinstance(test.op, ast.And) else (same, more)
            found.append(ast.copy_location(ast.If(copied(value), *sides), part))
        return found, value

    def _plain(self, at: ast.Match, name: str, cases: Sequence[ast.match_case]) -> ast.Match:
        """A match without guards."""
        found: list[ast.match_case] = []
        for i, case in enumerate(cases):
            body = case.body
            if case.guard is not None:
                rest = copied([*cases[i + 1 :]])
                other: list[ast.stmt] = [self._plain(at, name, rest)] if rest else []
                body = [ast.copy_location(ast.If(case.guard, body, other), body[0])]
            found.append(ast.match_case(case.pattern, None, body))
            if _always_matches(case.pattern):
                break
        subject = ast.copy_location(ast.Name(name, ast.Load()), at)
        return ast.copy_location(ast.Match(subject, found), at)
