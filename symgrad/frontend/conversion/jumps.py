"""Statements without jumps: `break`, `continue` and `return` inside of others become flags that later ones ask for.

A branch that ends with a jump takes what follows into the other one; so most programs need no flag.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from symgrad.core.graph import Graph, Node
from symgrad.frontend.conversion.scopes import SCOPES, within
from symgrad.frontend.conversion.templates import RUNTIME, Located, copied, expression

RETURNED, RESULT, STOPPED, SKIPPED, TESTED = ".returned", ".result", ".stopped", ".skipped", ".tested"
"""Names of the returned value and of the flags; a name with a dot cannot be the user's."""

VALUE = ".value"
"""The name of a conditional expression's value."""
NEXT = ".next"
"""Stands for the item of an iteration, in a loop that flags may end."""
APPENDED = ".item"
"""The name of an item that a branch appends to a list."""

_LOOPS = (ast.For, ast.While)


def label(graph: Graph, node: Node, name: str) -> None:
    """Name a node as the source shall have it: flags and results are names of the program, too."""
    shown = name.lstrip(".").rstrip("0123456789") if name.startswith((RETURNED, RESULT, STOPPED, APPENDED)) else name
    if not shown.startswith("."):
        graph.label(node, shown)


def called_by(name: str) -> str:
    """Return what messages call a name."""
    return {RESULT: "what is returned", VALUE: "the value of the expression"}.get(name, name)


class Unconvertible(Exception):
    """A function stays as it is written."""


class Leave(ast.Break):
    """A `break` with a flag of its own, which tells after the loop that it was this one."""

    def __init__(self, flag: str = "") -> None:
        super().__init__()
        self.flag = flag


def assign(name: str, value: ast.expr, at: Located) -> ast.stmt:
    """``name = value``"""
    statement = ast.Assign([ast.Name(name, ast.Store())], value)
    return ast.fix_missing_locations(ast.copy_location(statement, at))


class Straight(NamedTuple):
    """Statements without jumps; for each loop the flags that end it; names for `while` loops whose test changes state.

    The name says behind the loop whether its last test is still to be evaluated.
    """

    body: list[ast.stmt]
    flags: dict[ast.stmt, list[str]]
    tests: dict[ast.stmt, str]


def without_jumps(body: list[ast.stmt]) -> Straight:
    """The body of a function, which returns at its end only."""
    jumps, body = _Jumps(), reachable(body)
    end = body[-1]
    before = body[:-1] if isinstance(end, ast.Return) else body
    if not any(isinstance(n, ast.Return) for n in within(before)):
        return Straight([*jumps.block(before, None), *body[len(before) :]], jumps.flags, jumps.tests)
    if falls(body):
        body = [*body, ast.copy_location(ast.Return(None), end)]
    body = [assign(RETURNED, ast.Constant(False), body[0]), *jumps.block(body, None)]
    result = ast.fix_missing_locations(ast.copy_location(ast.Return(ast.Name(RESULT, ast.Load())), end))
    return Straight([*body, result], jumps.flags, jumps.tests)


def reachable(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return statements without those after a jump, here and within."""
    kept: list[ast.stmt] = []
    for statement in body:
        if not isinstance(statement, SCOPES):
            parts = [statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]
            for part, name in itertools.product(parts, ("body", "orelse", "finalbody")):
                if hasattr(part, name):
                    setattr(part, name, reachable(getattr(part, name)))
        kept.append(statement)
        if _leaves(statement):
            break
    return kept


def falls(body: Sequence[ast.stmt]) -> bool:
    """Whether control may reach the end of statements."""
    return not any(map(_leaves, body))


def _leaves(statement: ast.stmt) -> bool:
    """Whether control never reaches the next statement."""
    if isinstance(statement, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
        return True
    if isinstance(statement, ast.If):
        return not falls(statement.body) and not falls(statement.orelse)
    if isinstance(statement, ast.With):
        return not falls(statement.body)
    if not isinstance(statement, ast.While) or not isinstance(statement.test, ast.Constant):
        return False
    return bool(statement.test.value) and not any(isinstance(jump, ast.Break) for jump in jumps_of(statement.body))


def jumps_of(nodes: Sequence[ast.AST]) -> list[ast.AST]:
    """The jumps in the body of a loop, or of a function, which lead out of it."""
    found: list[ast.AST] = []
    for node in nodes:
        if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
            found.append(node)
        elif isinstance(node, _LOOPS):
            found += [n for n in jumps_of(node.body) if isinstance(n, ast.Return)] + jumps_of(node.orelse)
        elif not isinstance(node, (*SCOPES, ast.expr)):
            found += jumps_of(list(ast.iter_child_nodes(node)))
    return found


def going_on(flags: Sequence[str], at: Located) -> ast.expr:
    """Whether none of these flags is up."""
    return expression("SG.going_on(FLAGS)", at, SG=RUNTIME, FLAGS=[ast.Name(flag, ast.Load()) for flag in flags])


class _Jumps:
    """The jumps of a function, as flags."""

    def __init__(self) -> None:
        self.loops = 0
        self.flags: dict[ast.stmt, list[str]] = {}
        self.tests: dict[ast.stmt, str] = {}

    def block(self, body: Sequence[ast.stmt], loop: int | None) -> list[ast.stmt]:
        """Statements in the loop of this number."""
        done: list[ast.stmt] = []
        for i, statement in enumerate(body):
            if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
                return done + self.jump(statement, loop)
            rest, flags = body[i + 1 :], _flags([statement], loop)
            if isinstance(statement, ast.If) and rest and flags:
                if not falls(statement.body):
                    statement.orelse, rest = [*statement.orelse, *rest], []
                elif not falls(statement.orelse):
                    statement.body, rest = [*statement.body, *rest], []
            done += self.statement(statement, loop)
            if rest and flags:
                return [*done, self.guarded(flags, self.block(rest, loop), rest[0])]
            if not rest:
                break
        return done

    def jump(self, statement: ast.stmt, loop: int | None) -> list[ast.stmt]:
        up = ast.Constant(True)
        if isinstance(statement, ast.Return):
            value = statement.value or ast.copy_location(ast.Constant(None), statement)
            return [assign(RESULT, value, statement), assign(RETURNED, up, statement)]
        if isinstance(statement, Leave):
            return [assign(statement.flag, up, statement)]
        kind = STOPPED if isinstance(statement, ast.Break) else SKIPPED
        return [assign(f"{kind}{loop}", up, statement)]

    def guarded(self, flags: Sequence[str], body: list[ast.stmt], at: Located) -> ast.stmt:
        return ast.copy_location(ast.If(going_on(flags, at), body, []), at)

    def statement(self, statement: ast.stmt, loop: int | None) -> list[ast.stmt]:
        """A statement, and those in it."""
        if isinstance(statement, _LOOPS):
            return self.loop(statement, loop)
        if isinstance(statement, ast.Try):
            if jumps_of(statement.finalbody):
                raise Unconvertible
            flags = _flags(statement.body, loop)
            if flags and statement.orelse:
                rest = self.block(statement.orelse, loop)
                statement.orelse = [self.guarded(flags, rest, rest[0])]
            else:
                statement.orelse = self.block(statement.orelse, loop)
        elif isinstance(statement, ast.If):
            statement.orelse = self.block(statement.orelse, loop)
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            part.body = self.block(part.body, loop)
        if isinstance(statement, (ast.If, ast.With, ast.Try)):
            statement.body = self.block(statement.body, loop)
        if isinstance(statement, ast.Try):
            statement.finalbody = self.block(statement.finalbody, loop)
        return [statement]

    def loop(self, statement: ast.For | ast.While, outer: int | None) -> list[ast.stmt]:
        """A loop whose body looks at its flags first, which end it."""
        self.loops = number = self.loops + 1
        flags = [f for f in _flags(statement.body, number) if not f.startswith(SKIPPED)]
        skips = any(isinstance(jump, ast.Continue) for jump in jumps_of(statement.body))
        rest, statement.orelse = statement.orelse, []
        down = ast.Constant(False)
        body = self.block(statement.body, number)
        if flags:  # of an unrolled loop, where the flag of the iteration before is traced
            body = [self.guarded(flags, [*_targets(statement), *body], statement)]
        if skips:
            body = [assign(f"{SKIPPED}{number}", down, statement), *body]
        statement.body = body
        self.flags[statement] = flags
        before = [assign(flag, down, statement) for flag in flags if flag != RETURNED]
        last = self._last_test(statement)
        if not rest:
            return [*before, statement, *last]
        behind = self.block(rest, outer)
        return [*before, statement, *last, *([self.guarded(flags, behind, rest[0])] if flags else behind)]

    def _last_test(self, statement: ast.For | ast.While) -> list[ast.stmt]:
        """Return the test that ends a `while` as a statement after the loop, where it may change state."""
        if not isinstance(statement, ast.While) or not may_change_state(statement.test):
            return []
        name = self.tests[statement] = f"{TESTED}{self.loops}"
        test = ast.copy_location(ast.Expr(copied(statement.test)), statement)
        asked = ast.copy_location(ast.Name(name, ast.Load()), statement)
        return [ast.copy_location(ast.If(asked, [test], []), statement)]


def _targets(loop: ast.For | ast.While) -> list[ast.stmt]:
    """Return the assignment of an item to the targets of a `for`, which keep their values where a flag is up."""
    if isinstance(loop, ast.While):
        return []
    item = ast.copy_location(ast.Name(NEXT, ast.Load()), loop)
    return [ast.copy_location(ast.Assign([copied(loop.target)], item), loop)]


def may_change_state(test: ast.expr) -> bool:
    """Whether evaluating an expression may change state that other code reads."""
    return any(isinstance(node, (ast.NamedExpr, ast.Call)) for node in ast.walk(test))


def _flags(body: Sequence[ast.AST], loop: int | None) -> list[str]:
    """The flags by which jumps in these statements are known, that lead out of them."""
    kinds = {type(jump) for jump in jumps_of(body)}
    named = {ast.Break: f"{STOPPED}{loop}", ast.Continue: f"{SKIPPED}{loop}", ast.Return: RETURNED}
    leaving = dict.fromkeys(jump.flag for jump in jumps_of(body) if isinstance(jump, Leave))
    return [*leaving, *(name for kind, name in named.items() if kind in kinds)]
