"""Statements rewritten as others that conversion knows.

They are global names, guards of `match`, ``a and (b := c)``, and names that are returned inside of loops.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from symgrad.frontend.conversion.jumps import RETURNED, Leave, Unconvertible, assign, jumps_of, reachable
from symgrad.frontend.conversion.scopes import COMPREHENSIONS, SCOPES, bound, walrus_targets, within
from symgrad.frontend.conversion.templates import RUNTIME, copied, expression

SUBJECT, TEST = ".subject", ".test"
"""Names of a `match`'s subject, and of tests whose parts bind names."""

GUARDS = 6  # of one `match`: what stands behind a guard is written twice


def prepared(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a function with global names as items of a dict, and guards and tests as branches."""
    names = {name for node in within(body) if isinstance(node, ast.Global) for name in node.names}
    names &= bound(body).keys()
    if names:
        _check_stores(body, names)
        body = [_Stores(names).visit(statement) for statement in body]  # type: ignore[misc]
    branches = _Branches()
    return _Returns().block(reachable([new for statement in body for new in branches.several(statement)]))


def _check_stores(body: Sequence[ast.stmt], names: set[str]) -> None:
    """Raise if a global name is bound by something else than an assignment, a loop or a `with`."""
    stores = [n for n in within(body) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    others = {name for node in within(body) if not isinstance(node, ast.Name) for name in _bound_here(node)}
    if others & names or names & walrus_targets(body).keys() or not stores:
        raise Unconvertible


def _bound_here(node: ast.AST) -> list[str]:
    """The names that a node binds itself, but for assignments."""
    if isinstance(node, ast.ExceptHandler):
        return [node.name] if node.name else []
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.alias)):
        return [*bound([node])]
    if isinstance(node, (ast.MatchAs, ast.MatchStar, ast.MatchMapping)):
        return [*bound([node])]
    return []


def by_name(body: list[ast.stmt], parameters: Collection[str]) -> list[ast.stmt]:
    """Return the statements of a function with ``locals()["x"]`` and ``locals().get("x")`` as x, if it is the same."""
    if not any(isinstance(node, ast.Name) and node.id == "locals" for node in within(body)):
        return body
    outer = {name for n in within(body) if isinstance(n, (ast.Global, ast.Nonlocal)) for name in n.names}
    deleted = {n.id for n in within(body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)}
    own, there = {*parameters, *bound(body)} - outer, {*parameters} - deleted
    new = list[ast.stmt]()
    for statement in body:
        new.append(_Locals(own, there).visit(statement))  # type: ignore[arg-type]
        if isinstance(statement, ast.Assign):
            there |= {*bound(statement.targets)} - deleted - outer
    return new


class _Locals(ast.NodeTransformer):
    """Items of ``locals()`` are names of the function: `own` are all, `there` those that are bound in any case."""

    def __init__(self, own: Collection[str], there: Collection[str]) -> None:
        self._own, self._there = own, there

    def visit(self, node: ast.AST) -> ast.AST:
        return node if isinstance(node, (*SCOPES, *COMPREHENSIONS)) else super().visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and _is_locals(node.value) and _text(node.slice) in self._own:
            return ast.copy_location(ast.Name(_text(node.slice), ast.Load()), node)
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        asks = isinstance(node.func, ast.Attribute) and node.func.attr == "get" and _is_locals(node.func.value)
        plain = len(node.args) in (1, 2) and not node.keywords and isinstance(node.args[-1], ast.Constant)
        if asks and plain and _text(node.args[0]) in self._there:
            return ast.copy_location(ast.Name(_text(node.args[0]), ast.Load()), node)
        self.generic_visit(node)
        return node


def _is_locals(node: ast.expr) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not (node.args or node.keywords)
    return is_call and node.func.id == "locals"  # type: ignore[attr-defined]


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and type(node.value) is str else ""


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
    test ``a and (b := c)`` becomes a branch on `a` that binds b, and ``x = (b := c) if a else d`` one that binds x.
    """

    def __init__(self) -> None:
        self._count = 0

    def several(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements that stand for one."""
        found = self.visit(statement)
        return found if isinstance(found, list) else [found]  # type: ignore[list-item]

    def visit(self, node: ast.AST) -> ast.AST:
        return node if isinstance(node, (*SCOPES, ast.expr)) else super().visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.If:
        """``assert test, message`` raises where the test does not hold, and makes the message there."""
        message = [node.msg] if node.msg else []
        error = expression("SG.AssertionError(MESSAGE)", node, SG=RUNTIME, MESSAGE=message)
        over = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        return ast.copy_location(ast.If(over, [ast.copy_location(ast.Raise(error, None), node)], []), node)

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

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        self.generic_visit(node)
        behind = _without_else(node)
        return [node, *behind]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        self.generic_visit(node)
        behind = _without_else(node)
        before, test = self._evaluated(node.test)
        if not before:
            return [node, *behind]
        if node.orelse:
            raise Unconvertible
        over = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
        end = ast.copy_location(ast.If(over, [ast.copy_location(ast.Break(), node)], []), node)
        true = ast.copy_location(ast.Constant(True), node)
        return [ast.copy_location(ast.While(true, [*before, end, *node.body], []), node), *behind]

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | list[ast.stmt]:
        before, node.value = self._evaluated(node.value)
        return [*before, node] if before else node

    def visit_Return(self, node: ast.Return) -> ast.Return | list[ast.stmt]:
        before, node.value = self._evaluated(node.value) if node.value else ([], None)
        return [*before, node] if before else node

    def _evaluated(self, test: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
        """Return statements that evaluate an expression part by part, where a later part binds names, and its value."""
        if isinstance(test, ast.IfExp) and walrus_targets([test.body, test.orelse]):
            return self._chosen(test)
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

    def _chosen(self, choice: ast.IfExp) -> tuple[list[ast.stmt], ast.expr]:
        """Return a branch that evaluates one of two expressions, and its value."""
        self._count += 1
        name = f"{TEST}{self._count}"
        found, test = self._evaluated(choice.test)
        sides: list[list[ast.stmt]] = []
        for side in (choice.body, choice.orelse):
            before, value = self._evaluated(side)
            sides.append([*before, assign(name, value, side)])
        found.append(ast.copy_location(ast.If(test, *sides), choice))
        return found, ast.copy_location(ast.Name(name, ast.Load()), choice)

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


def _without_else(loop: ast.For | ast.While) -> list[ast.stmt]:
    """Take the `else` off a loop that no `break` leaves, and return its statements: they stand behind the loop."""
    behind: list[ast.stmt] = []
    if not any(isinstance(jump, ast.Break) for jump in jumps_of(loop.body)):
        behind, loop.orelse = loop.orelse, []
    return behind


class _Returns:
    """Moves ``return x`` out of loops: the loop ends, and x, as it is then, is returned after it.

    Inside, it would be another name for what other iterations write into.
    """

    def __init__(self) -> None:
        self._count = 0

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements that stand for others."""
        return [new for statement in body for new in self._several(statement)]

    def _several(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, SCOPES):
            return [statement]
        for part in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            for name in ("body", "orelse", "finalbody"):
                if isinstance(inner := getattr(part, name, None), list):
                    setattr(part, name, self.block(inner))
        return self._behind(statement) if isinstance(statement, (ast.For, ast.While)) else [statement]

    def _behind(self, loop: ast.For | ast.While) -> list[ast.stmt]:
        """Return the loop, and after it the `return` of its value."""
        ends = isinstance(loop, ast.For) or not (isinstance(loop.test, ast.Constant) and loop.test.value)
        ends = ends or any(isinstance(jump, ast.Break) for jump in jumps_of(loop.body))
        found: list[tuple[str, ast.Return]] = []
        loop.body = self._left(loop.body, found)
        rest: list[ast.stmt] = []
        for flag, jump in reversed(found):
            last = not rest and not ends  # a loop that nothing else ends
            test = ast.copy_location(ast.Name(flag, ast.Load()), jump)
            rest = [jump] if last else [ast.copy_location(ast.If(test, [jump], rest), jump)]
        return [loop, *rest]

    def _left(self, body: Sequence[ast.stmt], found: list[tuple[str, ast.Return]]) -> list[ast.stmt]:
        """Return the statements of a loop with jumps to its end; those that an exception or a `with` may leave stay."""
        new: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, ast.Return) and statement.value is not None and _hands_out(statement.value):
                self._count += 1
                found.append((f"{RETURNED}{self._count}", statement))
                new.append(ast.copy_location(Leave(found[-1][0]), statement))
                continue
            if isinstance(statement, ast.If):
                statement.body, statement.orelse = (self._left(x, found) for x in (statement.body, statement.orelse))
            new.append(statement)
        return new


def _hands_out(value: ast.AST) -> bool:
    """Whether a value is, or contains, an existing object, which may be memory that the loop writes into."""
    if isinstance(value, (ast.Tuple, ast.List, ast.Dict, ast.Starred)):
        return any(map(_hands_out, ast.iter_child_nodes(value)))
    return isinstance(value, (ast.Name, ast.Attribute, ast.Subscript))
