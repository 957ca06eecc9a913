"""Regions in source: suites whose results are assigned where the loop or branch says.

A name that a loop carries is read as long as its value of this iteration is needed, and then has that of the next: each
result is computed into its name at once where nothing reads the old value any more, and else assigned in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from symgrad.core.counted_sizes import tellers
from symgrad.core.graph import INPUT, ITEM, Aval, Node, is_token
from symgrad.core.region import Region
from symgrad.core.sizes import Size
from symgrad.lowering.placement import Placement
from symgrad.ops.control import COND, NUMBER, SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.ops.elementwise import ADD, MULTIPLY, SUBTRACT
from symgrad.spelling import ATOM, Code, Name, call, several
from symgrad.targets.numpy.body import Body, Expr, place_of
from symgrad.targets.numpy.expressions import written_into
from symgrad.targets.numpy.names import Scope
from symgrad.targets.numpy.statements import Assign, Evaluate, Statement, added

BRIEF = 24  # characters of an expression in a tuple
IN_PLACE = {SUBTRACT: "-=", MULTIPLY: "*="}
TRUTH = Aval((), np.dtype(bool))


class Move(NamedTuple):
    """The target of a region's result: a name, a place, or the end of a list."""

    node: Node
    target: Code
    appends: bool = False
    copied: Collection[Node] = ()  # values that are written into later
    more: tuple[Node, ...] = ()  # what goes behind a list together with it

    @property
    def name(self) -> str:
        return self.target.text if isinstance(self.target, Name) and not self.appends else ""

    def statement(self, value: Code) -> Statement:
        """Return the statement of the move."""
        if self.node in self.copied:
            value = call(f"{value.at(ATOM)}.copy", [])
        if self.appends:
            return Evaluate(call(f"{self.target.text}.append", [value.text]))
        return Assign((self.target,), value)


class Together(NamedTuple):
    """Stacks that are one list, of tuples."""

    items: Sequence[Node]
    rows: Sequence[str | None]  # what one of each is called


Like = Callable[[Placement, Scope], "Structured"]


class Structured(Body):
    """Writes a function, or a region in it."""

    def __init__(self, placed: Placement, scope: Scope, nested: bool, quick: bool = False) -> None:
        super().__init__(placed, scope, nested, quick)
        self.goes: dict[Node, str] = {}  # results of a region, and the names that they have in the end
        self.passed: dict[str, list[Node]] = {}  # the parameters of a region by their names
        self.kept = placed.outputs  # values that are needed behind all statements
        self.waiting: list[Move] = []
        self.flushing: list[Node] = []  # updates that are about to be written, after what reads their old values
        self.apart: set[Node] = set()  # updates that get a name of their own: one of those reads the old value
        self.joint: list[Move] = []
        self.is_side = False  # whether it is one side of a branch
        self.fixed: set[Node] = set()  # those of which the names are somebody else's
        self.together: dict[Node, Together] = {}  # those that are one list
        self.counted: dict[Node, Size | None] = {}  # parameters that are numbers of iterations, and their sizes
        self.is_part = False  # whether results go elsewhere than to the caller
        self.floats: dict[Node, Name] = {}  # numbers of NumPy's as Python's, for loops
        self.lengths = _lengths(self.placed.nodes, scope.sizes)
        self.memory: dict[Node, Name] = {}  # of an iteration: arrays that are there in which it computes values

    def visit(self, node: Node) -> None:
        if node.op is NUMBER and node.inputs[0] in self.placed.pythons:
            self.pending[node] = self.read(node.inputs[0])
        else:
            super().visit(node)
        for symbol in self.lengths.pop(node, ()):
            self.written.append(Assign((Name(symbol),), call("max", [self.named(node).text, "0"]), reads=(node,)))

    # ---- regions

    def part(
        self, node: Node, placed: Placement, region: Region, deeper: int = 0, like: Like | None = None
    ) -> Structured:
        """Return the writer of a region of a node."""
        names = self.names.inside(region.body.names)
        part = (like or self.like)(placed, replace(self.scope, names=names, depth=self.scope.depth + deeper))
        part.quoted = place_of(node)
        return part

    def receive(self, given: Sequence[Code], rebound: Collection[int] = ()) -> None:
        """Bind parameters to code; `rebound` are the numbers of those whose names results get in the end."""
        for i, (x, code) in enumerate(zip(self.placed.given, given, strict=True)):
            if not isinstance(code, Name) or is_token(x):
                self.pending[x] = Expr(code, 0, ())
                continue
            self.names.given(x, code.text)
            self.passed.setdefault(code.text, []).append(x)
            if i not in rebound:
                self.fixed.add(x)

    def know_from(self, outer: Structured, given: Mapping[Node, Node]) -> None:
        """Take over facts about parameters from the suite outside: numbers of iterations, Python numbers, lists of
        tuples.
        """
        self.counted |= {y: outer.turns_counted(x) for x, y in given.items()}
        self.floats |= {y: outer.floats[x] for x, y in given.items() if x in outer.floats}
        for x, y in given.items():
            if x in outer.together:
                joint = outer.together[x]
                self.together[y] = joint._replace(items=tuple([given[item] for item in joint.items]))

    def turns_counted(self, x: Node) -> Size | None:
        """Return the size that ys have along their first axis if this value is the number of iterations of their loop;
        None if it is not such a number.
        """
        if x.op is not ITEM or x.inputs[0].op is not SCAN:
            return self.counted.get(x)
        loop = loop_of(x.inputs[0])
        is_last = loop.test is not None and dict(x.params)["index"] == len(loop.body.results)
        return loop.iterations if is_last else None

    def like(self, placed: Placement, scope: Scope) -> Structured:
        """Return a writer of the same kind for another suite."""
        return type(self)(placed, scope, self.nested, self.quick)

    def named(self, x: Node) -> Code:
        """Compute a value and return its name; a number stays a number."""
        if x in self.pending and self.pending[x].depth:
            self.flush(x)
        return self.code(x)

    def begin(self, moves: Sequence[Move]) -> None:
        """Write everything but what can wait for `end`; `moves` say where results go."""
        self.is_part = bool(moves)
        self.joint = [move for move in moves if move.more]
        early = [move for move in moves if move.node.op is INPUT and not move.name and not move.more]
        self.waiting = [move for move in moves if move not in early and not move.more]
        self.kept = {x for move in (*self.waiting, *self.joint) for x in (move.node, *move.more)}
        for move in self.waiting:
            if move.name:
                self.goes.setdefault(move.node, move.name)
        for move in early:
            self._move(move)
        self.write()

    def _move(self, move: Move) -> None:
        self.written.append(move.statement(self.code(move.node)))

    def constant(self, node: Node) -> Expr:
        """A boolean that is carried or chosen may meet ``~``, which of Python's True is -2."""
        moves = (self.placed.given and node in self.placed.outputs) or any(
            x.op is SCAN or x.op is COND for x in self.placed.uses[node]
        )
        if node.aval == TRUTH and moves:
            return Expr(call("np.bool", [repr(bool(node.constant))]), 0, ())
        return super().constant(node)

    # ---- names

    def may_nest(self, node: Node) -> bool:
        if node in self.placed.assignments:
            return False
        if self.is_part and node in self.kept:
            return self.nested and not self.placed.uses[node]
        return super().may_nest(node)

    def spell(self, node: Node, inputs: Sequence[Code]) -> Code:
        return written_into(node, inputs, self.memory[node]) if node in self.memory else super().spell(node, inputs)

    def is_returned(self, node: Node) -> bool:
        return not self.is_part and super().is_returned(node)

    def flush(self, node: Node) -> None:
        if node in self.placed.updates:
            self._prepare(node)
        if node in self.goes and not self.take_name(node, node):
            name = self.goes[node]
            if self.names.hint(node) in (None, name):
                self.names.rename(node, self.names.fresh(f"new_{name}"))
        elif node not in self.goes:
            self.keep_name(node)
        if self._is_update(node):
            self.write_down(node, self.update(node, self.pending.pop(node)))
        else:
            super().flush(node)

    def _is_update(self, node: Node) -> bool:
        return node in self.placed.updates and node not in self.apart

    def _prepare(self, node: Node) -> None:
        """Write what reads the old value of an update ahead of it.

        Of two updates that read each other's old values, one gets a name of its own.
        """
        owners = self.placed.taken_over[node]
        if any(self.placed.roots[r] in owners for x in self.flushing for r in self.pending[x].reads):
            self.apart.add(node)
            return
        self.flushing.append(node)
        self.let_go(owners, node)
        self.flushing.pop()

    def update(self, node: Node, expr: Expr) -> Statement:
        """A sum that is written over its first term, or a product."""
        old = self.placed.updates[node]
        other = expr.inputs[1 - node.inputs.index(old)]
        if node.op is ADD:
            return added(self.name(old), other, makes=node)
        return Assign((self.name(old),), other, IN_PLACE[node.op], makes=node)

    def take_name(self, result: Node, node: Node) -> bool:
        """Give a result of a node its final name, if that is free by then."""
        name = self.goes.get(result)
        if name is None or self.names.of(result) == name:
            return name is not None
        free = all(self._is_done_with(old, node) for old in self.passed.get(name, ()))
        if free:
            self.names.rename(result, name)
            self.passed.setdefault(name, []).append(result)
        return free

    def settle_base(self, node: Node, base: Node) -> None:
        """Keep the name of a parameter through assignments into its memory."""
        super().settle_base(node, base)
        if self.names.of(node) in self.passed:
            self.passed[self.names.of(node)].append(node)

    def keep_name(self, node: Node) -> None:
        """Give a value the name of the parameter that it replaces, where the user does."""
        name = self.names.hints.get(node) and self.hint(node)
        old = self.passed.get(name or "", ())
        if old and all(x not in self.fixed and self._is_done_with(x, node) for x in old):
            self.names.rename(node, self.names.of(old[0]))
            self.passed[self.names.of(node)].append(node)

    def _is_done_with(self, old: Node, node: Node) -> bool:
        """Whether a parameter is needed for nothing behind a node."""
        if old in self.kept or self.placed.is_read_behind(old, node):
            return False
        waiting = [expr.reads for x, expr in self.pending.items() if x is not node and x not in node.inputs]
        root = self.placed.roots.get(old)  # none where nothing reads it
        return not any(self.placed.roots[x] is root for reads in waiting for x in reads)

    # ---- the end

    def end(self) -> list[Statement]:
        """Return the statements with the moves of results: nothing is overwritten before it is read; cycles are moved
        at once.
        """
        for move in self.joint:
            self._append_tuple(move)
        later = [move for move in self.waiting if self._has_another_name(move)]
        left = [move for move in self.waiting if move not in later and not self._is_there(move)]
        while left:
            free = [move for move in left if not any(self._reads(x, move) for x in left if x is not move)]
            ready = free[:1] or left
            self._deliver(ready)
            left = [move for move in left if move not in ready]
        for move in later:
            if not self._is_there(move):
                self._move(move)
        return self.written

    def _append_tuple(self, move: Move) -> None:
        """Append a tuple to a list, before carried names get their next values."""
        nodes = [move.node, *move.more]
        for x in nodes:
            expr = self.read(x)
            if expr.depth and (x in self.goes or nodes.count(x) > 1 or len(expr.code.text) > BRIEF):
                self.flush(x)
        exprs = [self.read(x) for x in nodes]
        texts = [
            f"{e.code.at(ATOM)}.copy()" if x in move.copied else e.code.text for x, e in zip(nodes, exprs, strict=True)
        ]
        appended = call(f"{move.target.text}.append", [f"({', '.join(texts)})"])
        self.written.append(Evaluate(appended))
        self.kept = {each.node for each in self.waiting}

    def _has_another_name(self, move: Move) -> bool:
        """Whether a result has another name in the end as well, from which it is assigned then."""
        name = self.goes.get(move.node, move.name)
        return name != move.name and (move.node in self.pending or self.names.of(move.node) == name)

    def _is_there(self, move: Move) -> bool:
        return move.node not in self.pending and self.names.of(move.node) == move.name

    def _reads(self, move: Move, other: Move) -> bool:
        """Whether one move reads what another one overwrites."""
        gone, reads = self.placed.taken_over.get(other.node, ()), self.read(move.node).reads
        return any(self.placed.roots[x] in gone or self.names.of(x) == other.name for x in reads)

    def _deliver(self, moves: Sequence[Move]) -> None:
        """One assignment, of several values where there are several moves."""
        exprs = [self.read(move.node) for move in moves]
        computed = [move.node for move, expr in zip(moves, exprs, strict=True) if expr.depth]
        for node in computed:
            self.comment(node)
        if len(moves) == 1 and self._is_update(moves[0].node):
            statement = self.update(moves[0].node, exprs[0])
        elif len(moves) == 1:
            statement = moves[0].statement(exprs[0].code)
        else:
            target, value = several([move.name for move in moves]), several([expr.code.text for expr in exprs])
            statement = Assign((target,), value)
        self.written.append(replace(statement, makes=computed[0]) if len(computed) == 1 else statement)
        for move in moves:
            if move.name and move.node in computed:
                del self.pending[move.node]
                self.names.rename(move.node, move.name)

    # ---- whose names and arrays these are

    def hint(self, node: Node) -> str | None:
        """Return the user's name of a value."""
        return self.names.hint(node)

    def reads_once(self, x: Node) -> bool:
        return len(self.placed.uses[x]) == 1 and x not in self.placed.outputs

    def passes_on(self, x: Node, node: Node) -> bool:
        """Whether a value's name may become that of a loop's result: nothing else reads the value."""
        needed = x in self.pending or x in self.kept or self.placed.is_read_behind(x, node)
        return not needed and x not in self.fixed and node.inputs.count(x) == 1

    def pass_on(self, x: Node, item: Node | None, node: Node) -> None:
        """Let a result of a loop or a branch go under the name of the operand that it continues."""
        self.let_go([self.placed.roots[x]], node)
        name = self.names.of(x)
        if item is not None:
            self.names.rename(item, name)
            if name in self.passed:
                self.passed[name].append(item)


def _lengths(nodes: Sequence[Node], sizes: Collection[str]) -> dict[Node, list[str]]:
    """The lengths of loops that arrays are as long as, with their symbols."""
    found: dict[Node, list[str]] = {}
    for symbol, node in tellers(nodes).items() if sizes else ():
        if symbol in sizes and node.op is not SCAN:
            found.setdefault(node, []).append(symbol)
    return found
