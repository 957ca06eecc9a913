"""Liveness of names: those that a statement has to keep because they may be read later."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import NamedTuple

from symgrad.frontend.conversion.scopes import appended, bound, read, rebound


class State(NamedTuple):
    """The names that a loop or a branch binds and that matter, in the order in which it binds them."""

    kept: tuple[str, ...]  # read before they are bound, or behind it
    given: tuple[str, ...]  # those of them that are read behind it


class Liveness:
    """Liveness of names in the statements of a function without jumps.

    `own` are its names; `always` may be read at any time; `outer` are those of outer functions that it binds, which
    functions that it calls may bind as well.
    """

    def __init__(
        self, body: Sequence[ast.stmt], own: Collection[str], always: Collection[str], outer: Collection[str] = ()
    ) -> None:
        self._own = frozenset(own)  # a list of another function that it appends to is not bound here
        self._always, self._everywhere = frozenset(always), dict.fromkeys(sorted({*rebound(body), *outer}))
        self._wanted: dict[ast.stmt, frozenset[str]] = {}  # by loops: what an iteration reads of what was before it
        self.states: dict[ast.stmt, State] = {}
        self._block(body, self._always, True)

    def _block(self, body: Sequence[ast.stmt], after: frozenset[str], noting: bool) -> frozenset[str]:
        for statement in reversed(body):
            after = self._before(statement, after, noting) | self._always
        return after

    def _before(self, statement: ast.stmt, after: frozenset[str], noting: bool) -> frozenset[str]:
        """Return the names live before a statement, given those live after it."""
        if isinstance(statement, ast.If):
            inside = self._block(statement.body, after, noting) | self._block(statement.orelse, after, noting)
            self._note(statement, inside | after, after, noting)
            return inside | read([statement.test])
        if isinstance(statement, ast.While):
            return self._loop(statement, after | read([statement.test]), frozenset(), after, noting)
        if isinstance(statement, ast.For):
            targets = frozenset(_killed(statement.target)) - read([statement.target])
            return self._loop(statement, after, targets, after, noting) | read([statement.iter])
        if isinstance(statement, (ast.Try, ast.Match)):
            inside = after | read([statement])  # whatever it reads, at whatever exception
            for part in _blocks(statement):
                self._block(part, inside, noting)
            return inside
        if isinstance(statement, ast.With):
            targets = frozenset(name for item in statement.items for name in _killed(item.optional_vars))
            return (self._block(statement.body, after, noting) - targets) | read([*statement.items])
        return (after - _killed_by(statement)) | read([statement]) | _augmented(statement)

    def _loop(
        self,
        statement: ast.For | ast.While,
        head: frozenset[str],
        targets: frozenset[str],
        after: frozenset[str],
        noting: bool,
    ) -> frozenset[str]:
        """Return the names live at the head of a loop: those live after it, and those that an iteration reads first."""
        if statement not in self._wanted:
            self._wanted[statement] = self._block(statement.body, frozenset(), False) - targets
        head |= self._wanted[statement]
        if noting:
            self._block(statement.body, head, True)
        self._note(statement, head, after, noting)
        return head

    def _note(self, statement: ast.stmt, kept: frozenset[str], given: frozenset[str], noting: bool) -> None:
        if not noting:
            return
        lists = {name: None for name in appended([statement]) if name in self._own}
        names = [*(bound([statement]) | lists | self._everywhere)]
        self.states[statement] = State(
            tuple(name for name in names if name in kept or name in self._always),
            tuple(name for name in names if name in given or name in self._always),
        )


def _blocks(statement: ast.Try | ast.Match) -> list[list[ast.stmt]]:
    if isinstance(statement, ast.Match):
        return [case.body for case in statement.cases]
    return [statement.body, *(h.body for h in statement.handlers), statement.orelse, statement.finalbody]


def _killed_by(statement: ast.stmt) -> frozenset[str]:
    """The names that it binds, whatever they were before."""
    if isinstance(statement, (ast.Assign, ast.Delete)):
        return frozenset(name for target in statement.targets for name in _killed(target))
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return frozenset(_killed(statement.target))
    return frozenset([statement.name]) if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else frozenset()


def _killed(target: ast.expr | None) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for item in target.elts for name in _killed(item)]
    return _killed(target.value) if isinstance(target, ast.Starred) else []


def _augmented(statement: ast.stmt) -> frozenset[str]:
    """``x += 1`` reads x."""
    target = statement.target if isinstance(statement, ast.AugAssign) else None
    return frozenset([target.id]) if isinstance(target, ast.Name) else frozenset()
