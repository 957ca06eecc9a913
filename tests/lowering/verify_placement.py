"""Verifier of placements: run through the program symbolically, and check that memory still holds what is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations, count

from symgrad.analysis.aliases import shares_memory
from symgrad.core.graph import CONSTANT, INPUT, Aval, Node, is_token
from symgrad.errors import GraphError
from symgrad.lowering.placement import BranchPlacement, Carry, LoopPlacement, Placement, Write
from symgrad.lowering.verify import REPORT
from symgrad.ops.control_parts import loop_of
from symgrad.ops.create import FULL

ITERATIONS = 3  # the first is given what the loop begins with, the second what the first gives, and so on


class Cell:
    """A piece of memory; the result of a loop or a branch may be any of several (`under`).

    Memory that is not `ours` belongs to the caller, or is a constant.
    """

    def __init__(self, ours: bool = True, under: Iterable[Cell] = ()) -> None:
        self.under = frozenset(under)  # which pieces it may be
        self.ours: bool = ours and all(cell.ours for cell in self.under)
        self.below: frozenset[Cell] = frozenset([self]).union(*(cell.below for cell in self.under))
        self.known: dict[Cell, bool] = {self: True}  # whether it may be another one

    def may_be(self, other: Cell) -> bool:
        """Whether two pieces may be the same memory."""
        found = self.known.get(other)
        if found is None:
            young, old = (self, other) if len(self.below) >= len(other.below) else (other, self)
            apart = young.below.isdisjoint(old.below)
            found = not apart and any(cell.may_be(old) for cell in young.under)
            self.note(other, found)
        return found

    def note(self, other: Cell, may_be: bool) -> None:
        self.known[other] = other.known[self] = may_be


Location = frozenset[tuple[Cell, int]]
"""The pieces of memory in which a value may lie, each with the time at which it was written."""

NOWHERE: Location = frozenset()  # a number that nothing can write into


def verify(placed: Placement) -> None:
    """Check the placement of a function, and those of the regions in it.

    Raises
    ------
    GraphError
        That names the first node which reads memory that another value has been written into, writes into memory that
        is not the program's, or gives the caller memory that is not the caller's alone.
    """
    walk = _Walk()
    located = walk.suite(placed, {})
    held: defaultdict[Cell, list[Cell]] = defaultdict(list)  # memory of results, by the pieces that it may be
    for y in dict.fromkeys(y for y in placed.results if not is_token(y) and y not in placed.copied):
        cells = walk.read(y, y, located)
        _hold(placed.roots[y] not in placed.released, y, "the result is released")
        _hold(all(cell.ours for cell in cells), y, "the result may be memory that is not the caller's")
        others = {cell for x in cells for piece in x.below for cell in held[piece]}
        apart = not any(x.may_be(cell) for x in cells for cell in others)
        _hold(apart, y, "the result may be memory of another result")
        for cell in cells:
            for piece in cell.below:
                held[piece].append(cell)


class _Walk:
    """Goes through the nodes, as they are computed one after the other."""

    def __init__(self) -> None:
        self.times = count(1)
        self.written: dict[Cell, int] = {}
        self.handed_on: list[Cell] = []  # by loops and branches
        self.overwritten: list[Cell] = []  # in the order in which it happens

    def write(self, cells: Collection[Cell]) -> Location:
        """Return the location of a value written into cells; all older values in memory that may be theirs are lost."""
        now = next(self.times)
        below = [*cells]
        for cell in below:
            below += cell.under
        found = [*below, *(x for x in self.handed_on if any(x.may_be(cell) for cell in cells))]
        self.overwritten += found
        self.written.update(dict.fromkeys(found, now))
        return frozenset((cell, now) for cell in cells)

    def new(self, cell: Cell | None = None) -> Location:
        cell = cell or Cell()
        self.written[cell] = now = next(self.times)
        return frozenset([(cell, now)])

    def read(self, x: Node, by: Node, located: dict[Node, Location]) -> set[Cell]:
        """Return the cells of a value, and check that they still hold it."""
        for cell, time in located[x]:
            _hold(self.written[cell] == time, by, "another value has been written over {!r}", x)
        return {cell for cell, _ in located[x]}

    def hand_on(self, ways: Sequence[Sequence[Collection[Cell]]]) -> list[Location]:
        """Return the locations of the results of a loop or a branch, given their cells on each path through it."""
        cells = [Cell(under=set[Cell]().union(*each)) for each in zip(*ways, strict=True)]
        for i, j in combinations(range(len(cells)), 2):
            if not any(x.may_be(y) for way in ways for x in way[i] for y in way[j]):
                cells[i].note(cells[j], False)
        self.handed_on += cells
        return [self.new(cell) if cell.under else NOWHERE for cell in cells]

    def suite(
        self, placed: Placement, located: dict[Node, Location], buffers: Sequence[Location] = ()
    ) -> dict[Node, Location]:
        """Run through a suite, whose parameters are located, and return the locations of its values."""
        gone: set[Node] = set()
        there: dict[Cell, list[Node]] = {}
        for node in placed.nodes:
            if node not in located:
                for x in node.inputs:
                    _hold(placed.roots[x] not in gone, node, "the memory of {!r} is gone", x)
                before = len(self.overwritten)
                self.compute(node, placed, located, buffers)
                gone |= self.given_up(node, placed)
                for x in (x for cell in self.overwritten[before:] for x in there.pop(cell, ())):
                    _hold(placed.roots[x] in gone, node, "it writes over {!r} and has not taken over its memory", x)
            for cell, _ in located[node]:
                there.setdefault(cell, []).append(node)
        return located

    def compute(
        self, node: Node, placed: Placement, located: dict[Node, Location], buffers: Sequence[Location]
    ) -> None:
        """Run a node of a suite, and note its location."""
        for x in node.inputs:
            self.read(x, node, located)
            _hold(x not in placed.straight or placed.uses[x] == [node], x, "it has no memory for all that read it")
        if node in placed.loops:
            self.loop(node, placed, located)
        elif node in placed.branches:
            self.branch(node, placed, located)
        else:
            self.inside(node, placed, located)
            located[node] = self.location(node, placed, located, buffers)

    def given_up(self, node: Node, placed: Placement) -> set[Node]:
        """Return the owners of memory that is dead after a node: released, or taken over."""
        last = {placed.roots[x] for x in (node, *node.inputs) if placed.last_use[placed.roots[x]] is node}
        return {*(last & placed.released), *placed.taken_over.get(node, ())}

    def location(
        self, node: Node, placed: Placement, located: dict[Node, Location], buffers: Sequence[Location]
    ) -> Location:
        """Return the location of a value that is no result of a loop or a branch."""
        if node in placed.assignments:
            return self.write([cell for cell, _ in buffers[placed.assignments[node]]])
        if node.op is INPUT or node.op is CONSTANT:
            is_number = node.aval.weak or (node.op is CONSTANT and not node.aval.shape)
            return NOWHERE if is_token(node) or is_number else self.new(Cell(ours=False))
        if node in placed.anew:
            _hold(node.op is FULL and node.inputs[0].op is CONSTANT, node, "it is made anew and not of one number")
            return NOWHERE
        if node.op.assigns:
            return self.assigned(node, placed.writes[node], located[node.inputs[0]])
        if node in placed.updates:
            return self.over(node, located[placed.updates[node]])
        if shares_memory(node):
            return located[node.inputs[0]]
        return self.new() if isinstance(node.aval, Aval) and node.aval.shape else NOWHERE

    def assigned(self, node: Node, way: Write, base: Location) -> Location:
        return self.over(node, base) if way is Write.HERE else self.new()

    def over(self, node: Node, base: Location) -> Location:
        """Overwrite a value by another."""
        _hold(all(cell.ours for cell, _ in base), node, "it writes into memory that is not the program's")
        if base:
            return self.write({cell for cell, _ in base})
        return self.new() if node.aval.shape else NOWHERE  # a number is replaced

    def inside(self, node: Node, placed: Placement, located: dict[Node, Location]) -> None:
        """Run through the body of a check, or of a loop over blocks of rows."""
        part = placed.parts.get(node)
        if part is not None:
            operands = node.inputs[len(node.inputs) - len(part.given) :]
            pairs = [pair for pair in zip(part.given, operands, strict=True) if pair[0] not in part.assignments]
            self.suite(part, {x: located[of] for x, of in pairs}, [self.new() for _ in part.buffers])

    # ---- branches

    def branch(self, node: Node, placed: Placement, located: dict[Node, Location]) -> None:
        branch: BranchPlacement = placed.branches[node]
        before, after, found = self.written, [], []
        for side in (branch.then, branch.other):
            self.written = dict(before)
            given = {x: located[of] for x, of in zip(side.given, node.inputs[1:], strict=True)}
            inner = self.suite(side, given)
            found.append([self.read(y, node, inner) for y in side.results])
            after.append(self.written)
        then, other = after
        self.written = then | {cell: max(time, then.get(cell, 0)) for cell, time in other.items()}
        for k, item in enumerate(placed.items[node].values()):
            for x in (node.inputs[1 + i] for i in branch.continued[item]):
                stays = any(cell.may_be(y) for cell, _ in located[x] for side in found for y in side[k])
                _hold(stays or not located[x], item, "it does not stay in the memory of {!r}", x)
        located[node] = NOWHERE
        located.update(zip(placed.items[node].values(), self.hand_on(found), strict=True))

    # ---- loops

    def loop(self, node: Node, placed: Placement, located: dict[Node, Location]) -> None:
        plan: LoopPlacement = placed.loops[node]
        loop, body, items = loop_of(node), plan.body, placed.items[node]
        carry = [self.started(x, carry, located) for (x, _, _), carry in zip(loop.carry, plan.carries, strict=True)]
        ways = [] if plan.runs else [[{cell for cell, _ in each} for each in carry]]
        kept: dict[Node, Location] = dict.fromkeys(plan.stacks, NOWHERE)
        cells = [self.new() for _ in body.buffers]
        rows = [located[x] if len(x.aval.shape) > 1 else NOWHERE for x, _ in loop.xs]
        consts = [located[x] for x, _ in loop.consts]
        for _ in range(ITERATIONS):
            if plan.test is not None:
                self.suite(plan.test, dict(zip(plan.test.given, [*carry, NOWHERE, *consts], strict=True)))
            inner = self.suite(body, dict(zip(body.given, [*carry, NOWHERE, *rows, *consts], strict=True)), cells)
            for item, stack in plan.stacks.items():
                self.read(stack.y, node, inner)
                kept[item] |= inner[stack.y] if stack.listed and not stack.copied else NOWHERE
            ways.append([self.read(y, node, inner) for y in body.results[: len(carry)]])
            carry = [inner[y] for y in body.results[: len(carry)]]
        located[node] = NOWHERE
        carried = self.hand_on(ways)
        for i, item in items.items():
            if item in plan.stacks:
                located[item] = self.stacked(item, plan, kept[item])
            else:
                located[item] = carried[i] if i < len(carried) and item not in plan.made else NOWHERE

    def started(self, x: Node, carry: Carry | None, located: dict[Node, Location]) -> Location:
        """Return the location of a carry's initial value."""
        return self.new() if carry is not None and (carry.copied or carry.anew) else located[x]

    def stacked(self, item: Node, plan: LoopPlacement, kept: Location) -> Location:
        """Return the location of ys: a list that references the values of iterations, or an array."""
        if plan.stacks[item].stays:
            return kept
        self.read(item, item, {item: kept})
        return self.new()


def _hold(holds: bool, node: Node, fact: str, *about: Node) -> None:
    """Raise a fact unless it holds; the names of nodes are formatted only then, since that is slow."""
    if not holds:
        raise GraphError(f"The placement of {node!r} ({node.where}): {fact.format(*about)}", REPORT)
