"""Placing: decides the `Placement` of a NumPy program, suite by suite, in the order in which values are computed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from symgrad.analysis.aliases import is_read_only, roots_of, stays_in_place
from symgrad.analysis.values import number
from symgrad.core.graph import CONSTANT, INPUT, ITEM, Aval, Node, is_token, without_tokens
from symgrad.core.region import Region
from symgrad.loops.buffer_allocation import Allocation, Buffer, row_axis
from symgrad.loops.loop import LOOP, Block
from symgrad.lowering.placement import (
    Abilities,
    BranchPlacement,
    Carry,
    LoopPlacement,
    Placement,
    Stack,
    Step,
    Write,
    unplaced,
)
from symgrad.lowering.region_aliases import may_lie_in, place_of_origin, updatable
from symgrad.lowering.stacks import has_pythons, readers_of
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.checks import CHECK
from symgrad.ops.control import COND, SCAN
from symgrad.ops.control_parts import branch_of, loop_of
from symgrad.ops.create import FULL
from symgrad.ops.define import TABLE
from symgrad.ops.index import ADD_AT
from symgrad.ops.join import CONCATENATE, STACK
from symgrad.ops.products import CROSS

MANY = 3  # number of lists from which on they are one list of tuples
USUAL = Abilities()
NEGATIONS = (TABLE[np.logical_not], TABLE[np.invert])


def place(outputs: Sequence[Node], abilities: Abilities = USUAL) -> Placement:
    """Return the placement of a function."""
    placed = _decided(unplaced(outputs, outputs), abilities)
    placed.copied = _copied(placed)
    placed.released = _released(placed, abilities)
    return placed


def _released(placed: Placement, abilities: Abilities) -> frozenset[Node]:
    """Return the owners of memory that is worth releasing after its last use."""
    again = any(node.op is BARRIER for node in placed.nodes)
    ours = [x for x in placed.nodes if x.op not in (INPUT, CONSTANT) and isinstance(x.aval, Aval)]
    owners = [x for x in ours if placed.roots[x] is x and placed.last_use[x] is not None]
    return frozenset(x for x in owners if abilities.releases(x, again))


def _copied(placed: Placement) -> set[Node]:
    """Return the outputs to copy, so that the caller gets distinct, writable, row-major arrays."""
    taken: set[Node] = set()
    found: set[Node] = set()
    for y in dict.fromkeys(without_tokens(placed.results)):
        root = placed.roots[y]
        given = root.op in (INPUT, CONSTANT) or root in placed.borrowed  # perhaps the caller's memory
        turned = root.op is CROSS or (root.op is STACK and y is not root)
        if root in taken or given or is_read_only(y) or turned:
            found.add(y)
        taken.add(root)
    return found


def _decided(placed: Placement, abilities: Abilities, kept: Collection[Node] = ()) -> Placement:
    """Decide for a suite, and return it; `kept` are values in buffers."""
    if abilities.makes_anew:
        begun = [x for x in placed.nodes if x.op is FULL and x not in kept]
        placed.anew = frozenset(x for x in begun if _may_be_made_anew(x, placed))
    _Suite(placed, abilities).walk()
    _share_buffers(placed)
    return placed


def _share_buffers(placed: Placement) -> None:
    """Note that each value in a buffer takes over the memory of the value before it."""
    lies: dict[Node, int] = {}
    last: dict[int, Node] = {}
    for node in placed.nodes if placed.assignments else ():
        number = placed.assignments.get(node)
        if number is None and placed.writes.get(node) is Write.HERE:
            number = lies.get(node.inputs[0])
        if number is not None:
            placed.take_over(node, [last[number]] if number in last else [])
            lies[node], last[number] = number, node


def _may_be_made_anew(x: Node, placed: Placement) -> bool:
    """Whether an array of one repeated number is only the start of several assignments and loops."""
    users = placed.uses[x]
    if x.inputs[0].op is not CONSTANT or x in placed.outputs or len(users) < 2:
        return False
    return all(_begins_with(user, x) for user in users)


def _begins_with(node: Node, x: Node) -> bool:
    """Whether an array is only the start of an assignment or a loop."""
    starts = [c.init for c in loop_of(node).carry] if node.op is SCAN else node.inputs[:1] if node.op.assigns else ()
    return 0 < starts.count(x) == node.inputs.count(x)


class _Suite:
    """Decides for the nodes of one suite."""

    def __init__(self, placed: Placement, abilities: Abilities) -> None:
        self.placed, self.abilities = placed, abilities

    def walk(self) -> None:
        for node in self.placed.nodes:
            if node.op.assigns:
                way = self.placed.writes.setdefault(node, self._written(node))
                self.placed.take_over(node, node.inputs[:1] if way is Write.HERE else ())
                self._put_straight([node.inputs[1]] if self.abilities.fills(node) else [])
            elif node.op is CONCATENATE:
                self._put_straight([x for x in node.inputs if self.abilities.joins(x, node)])
            elif node.op is SCAN:
                _LoopInSuite(self, node).place()
            elif node.op is COND:
                self._branch(node)
            elif node.op is CHECK:
                region = dict(node.params)["body"]
                part = self.part(region, region.body.outputs)
                self.pass_lists(dict(zip(node.inputs[2:], part.given, strict=True)), part)
                self.placed.parts[node] = _decided(part, self.abilities)
            elif node.op is LOOP:
                self.placed.parts[node] = _of_block(dict(node.params)["body"], self.abilities.in_blocks)

    def _written(self, node: Node) -> Write:
        base = node.inputs[0]
        if base in self.placed.anew:
            return Write.ANEW
        return Write.HERE if self.owned(base) and self.placed.last_use[base] is node else Write.COPY

    def _put_straight(self, values: Sequence[Node]) -> None:
        """Note values that have no other reader: they need no memory of their own."""
        placed = self.placed
        placed.straight.update(x for x in values if len(placed.uses[x]) == 1 and x not in placed.outputs)

    # ---- whose memory is whose

    def owned(self, x: Node) -> bool:
        """Whether a value owns its memory, and nothing aliases it."""
        placed = self.placed
        if x in placed.lent:
            return False
        if x.op is ITEM:
            return x.inputs[0].op in (SCAN, COND) and x not in placed.borrowed
        if x.op is INPUT:
            return x in placed.own
        return x.op is not CONSTANT and placed.roots[x] is x and x not in placed.outputs

    def has_alone(self, x: Node, node: Node) -> bool:
        """Whether a loop or a branch is the last user of a value's memory, and may write into it."""
        placed = self.placed
        alone = sum(placed.roots[y] is x for y in node.inputs) == 1
        return alone and self.owned(x) and placed.last_use[x] is node

    def is_own(self, y: Node) -> bool:
        """Whether the memory of a result is new or the suite's own, and no other result aliases it."""
        placed, root = self.placed, self.placed.roots[y]
        theirs = (root.op is INPUT and root not in placed.own) or (root.op is CONSTANT and number(root) is None)
        if theirs or root in placed.borrowed or is_read_only(y):
            return False
        if root.aval.shape == ():
            return True
        alike = [z for z in placed.results if placed.roots[z] is root or root in may_lie_in(z)]  # as a loop hands on
        return alike == [y]

    def borrow(self, node: Node, item: Node) -> None:
        """Note that a result of a loop or branch may alias its operands."""
        roots = self.placed.roots
        given = (roots[x] for x in node.inputs if x.aval.shape == () and not x.aval.weak)
        if item.aval.shape == () and all(root.op is CONSTANT or self.owned(root) for root in given):
            return  # a number, not an array of no dimensions
        self.placed.borrowed.add(item)
        self.placed.lent.update(roots[x] for x in node.inputs)

    # ---- regions

    def part(self, region: Region, outputs: Sequence[Node], results: Sequence[Node] | None = None) -> Placement:
        """Return the suite of a region before any decision, with its checks live."""
        checks = [y for y in region.body.outputs if is_token(y) and y.op is not INPUT]
        return unplaced([*outputs, *checks], outputs if results is None else results, region.body.inputs)

    def pass_lists(self, given: Mapping[Node, Node], part: Placement) -> None:
        """Note the parameters whose operands are lists."""
        part.lists |= {y for x, y in given.items() if x in self.placed.lists}

    def _branch(self, node: Node) -> None:
        branch, items = branch_of(node), self.placed.items[node]
        own = {i for i, x in enumerate(branch.operands) if self.has_alone(x, node)}
        self.placed.take_over(node, [branch.operands[i] for i in sorted(own)])
        alone = own | {i for i, x in enumerate(branch.operands) if number(x) is not None}
        sides = [self._side(region, branch.operands, alone, list(items)) for region in (branch.then, branch.other)]
        for k, item in enumerate(items.values()):
            if not all(side.is_own(side.placed.results[k]) for side in sides):
                self.borrow(node, item)
        then, other = [side.placed for side in sides]
        continued = {item: _continued(then, other, k, own) for k, item in enumerate(items.values())}
        self.placed.branches[node] = BranchPlacement(then, other, continued)

    def _side(self, region: Region, operands: Sequence[Node], alone: set[int], wanted: Sequence[int]) -> _Suite:
        part = self.part(region, [region.body.outputs[i] for i in wanted])
        part.own |= {part.given[i] for i in alone}
        self.pass_lists(dict(zip(operands, part.given, strict=True)), part)
        return _Suite(_decided(part, self.abilities), self.abilities)


def _continued(then: Placement, other: Placement, k: int, own: Collection[int]) -> list[int]:
    """Return the operands that become result `k` unchanged on one side, or after assignments on both sides."""
    ends = [(place_of_origin(side.results[k], side.last_use), side) for side in (then, other)]
    found = [(side.given.index(x), x is side.results[k]) for x, side in ends if x.op is INPUT]
    left, places = {i for i, is_left in found if is_left}, {i for i, _ in found}
    stays = places if len(found) == 2 and len(places) == 1 else left
    return sorted(stays if all(is_left for _, is_left in found) else stays & {*own})


def _of_block(block: Block, abilities: Abilities) -> Placement:
    """Return the placement of a block of rows, most of which its layout has decided."""
    graph, layout = block.graph, block.layout
    placed = unplaced(graph.outputs, graph.outputs, graph.inputs)
    sums = [y for y in graph.outputs if y.op is ADD_AT and row_axis(y) is None]
    placed.writes = dict.fromkeys(sums, Write.SUM)
    placed.buffers, placed.assignments = layout.buffers, layout.assignments
    return _decided(placed, abilities, [*layout.assignments, *layout.destinations])


class _LoopInSuite:
    """Decides for one loop: its carries, its ys, and the suites of its body and of its condition."""

    def __init__(self, outer: _Suite, node: Node) -> None:
        self.outer, self.node, self.loop, self.items = outer, node, loop_of(node), outer.placed.items[node]
        abilities = outer.abilities
        self.on_numbers = abilities.on_numbers(node)
        self.is_tried = self.on_numbers and abilities.runs_twice(node)
        self.abilities = USUAL if self.on_numbers else abilities
        self.results = self.loop.body.body.outputs[: len(self.loop.carry)]
        self.readers: dict[Node, Sequence[Node]] = {}
        self.stacks: dict[Node, Stack] = {}

    def place(self) -> None:
        outer, loop = self.outer, self.loop
        self._stack()
        listed = [stack.y for stack in self.stacks.values() if stack.listed]
        ys = [stack.y for stack in self.stacks.values()]
        body = self.body = outer.part(loop.body, [*without_tokens(self.results), *ys], [*self.results, *listed])
        test = self.test = None if loop.test is None else outer.part(loop.test, loop.test.body.outputs)
        self._pass_facts()
        self.stop = self._stop()
        carries = [None if is_token(x) else self._carry(i, x) for i, (x, _, _) in enumerate(loop.carry)]
        self._settle(carries)
        self._allocate()
        self.suite = _Suite(_decided(body, self.abilities), self.abilities)
        if test is not None:
            _decided(test, self.abilities)
        self.runs = (test is None or self.stop is not None) and (number(loop.length) or 0) != 0
        numbers = [x for x in self.items.values() if not x.aval.shape and x not in self.stacks]
        self.made = frozenset(numbers if self.on_numbers else ())
        self._lend(carries)
        outer.placed.loops[self.node] = LoopPlacement(
            body, test, carries, self.stacks, self._joint(), self.stop, self.runs, self.made, self.on_numbers
        )

    # ---- ys

    def _stack(self) -> None:
        """Choose lists for ys that loops read by rows, or whose number is unknown before the loop."""
        outputs, n = self.loop.body.body.outputs, len(self.results)
        for i, item in ((i, self.items[i]) for i in range(n, len(outputs)) if i in self.items):
            y, readers = outputs[i], readers_of(item, self.outer.placed.uses[item], self.outer.placed.outputs)
            of_pythons = readers is not None and has_pythons(y, readers, self.outer.placed.uses[item], item)
            if readers is not None and self.on_numbers and not of_pythons:
                readers = readers if all(map(self.outer.abilities.on_numbers, readers)) else None
            if of_pythons:
                (y,) = y.inputs
                self.outer.placed.pythons.add(item)
            if readers is not None:
                self.readers[item] = readers
                self.outer.placed.lists.add(item)
            listed = readers is not None or self.on_numbers or self.loop.test is not None
            self.stacks[item] = Stack(y, listed, readers is not None)

    def _joint(self) -> list[Node]:
        """Return the lists that a single loop reads, if they are enough for one list of tuples."""
        users: dict[Node, list[Node]] = {}
        for item, readers in self.readers.items():
            if len(readers) == 1:
                users.setdefault(readers[0], []).append(item)
        most = max(users.values(), key=len, default=[])
        return most if len(most) >= MANY else []

    # ---- facts for the body

    def _pass_facts(self) -> None:
        placed, loop, body = self.outer.placed, self.loop, self.body
        _, rows, consts = loop.split([*body.given[: len(self.results)], *body.given[len(self.results) + 1 :]])
        self.outer.pass_lists({x.source: y for x, y in zip(loop.consts, consts, strict=True)}, body)
        body.pythons |= {y for x, y in zip(loop.xs, rows, strict=True) if x.source in placed.pythons}

    def _stop(self) -> int | None:
        """Return the number of the carried boolean that only ends the loop."""
        test, n = self.test, len(self.results)
        if test is None or test.results[0].op not in NEGATIONS:
            return None
        (x,) = test.results[0].inputs
        i = test.given.index(x) if x in test.given[:n] else None
        if i is None or i in self.items or number(self.loop.carry[i].init) is not False:
            return None
        return None if self.body.reads(self.body.given[i]) or self.results.count(self.results[i]) > 1 else i

    # ---- carries

    def _carry(self, i: int, x: Node) -> Carry:
        """Return the memory of a carry."""
        result, given, anew = self.results[i], self.body.given[i], x in self.outer.placed.anew
        own = anew or (not self.is_tried and self.outer.has_alone(x, self.node))
        if self._may_be_aliased(i):
            return Carry(own, anew, False, Step.NEW)
        first = place_of_origin(result, self.body.last_use)
        if first is given and first is not result:
            return Carry(own, anew, not own, Step.ASSIGNED)
        updated = (own or number(x) is not None) and self._may_update(result, given)
        return Carry(own, anew, False, Step.UPDATED if updated else Step.NEW)

    def _may_update(self, result: Node, given: Node) -> bool:
        """Whether a result is a sum or product with a parameter that it may overwrite."""
        if given not in updatable(result) or self.body.last_use[given] is not result:
            return False
        return [self.body.roots[y] for y in self.body.results].count(result) == 1

    def _may_be_aliased(self, i: int) -> bool:
        """Whether another carry, or a list, may alias the memory of a carry's next value."""
        result, roots = self.results[i], self.body.roots
        if not result.aval.shape:
            return False
        memory = may_lie_in(result)
        others = [y for k, y in enumerate(self.results) if k != i and not is_token(y)]
        others += [s.y for s in self.stacks.values() if s.listed and roots[s.y] is not roots[result]]
        return any(not memory.isdisjoint(may_lie_in(y)) for y in others)

    def _settle(self, carries: Sequence[Carry | None]) -> None:
        """Note the carries that the body may overwrite, and the lists that need copies since the body does."""
        body, written = self.body, set[Node]()
        for carry, x, y in zip(carries, body.given, self.results, strict=False):
            if carry is not None and carry.step is Step.ASSIGNED:
                body.own.add(x)
                written |= {x, body.roots[y]}
            elif carry is not None and carry.step is Step.UPDATED:
                body.updates[y] = x
                body.take_over(y, [x])
            elif carry is not None and carry.own and self._is_new(y):
                body.own.add(x)
        for item, stack in self.stacks.items():
            self.stacks[item] = stack._replace(copied=stack.listed and body.roots[stack.y] in written)

    def _is_new(self, result: Node) -> bool:
        """Whether the next value of a carry is a new array that nothing else aliases."""
        body, root = self.body, self.body.roots[result]
        if root.op in (INPUT, CONSTANT, ITEM) or is_read_only(result) or not result.aval.shape:
            return False
        return [z for z in body.results if body.roots[z] is root or root in may_lie_in(z)] == [result]

    # ---- buffers

    def _allocate(self) -> None:
        """Hoist the allocation of values of the body out of the loop, except for results and their aliases.

        Large memory goes back to the system when it is freed. To request it again in each iteration takes longer than
        the computation.
        """
        body = self.body
        kept = set(filter(self.outer.abilities.keeps, body.nodes))
        if not kept or any(node.op is BARRIER for node in body.nodes):
            return
        roots = roots_of(body.nodes, stays_in_place)
        kept -= {roots[y] for y in body.outputs}
        kept -= {roots[x] for node in body.nodes if type(node.aval) is not Aval for x in node.inputs}
        allocation = Allocation(body.nodes, lambda x: Buffer(x.aval.shape, 0, x.aval.dtype))
        for node in body.nodes:
            allocation.visit(node, node in kept)
        body.buffers, body.assignments = allocation.buffers, allocation.assignments

    # ---- aliases of results

    def _lend(self, carries: Sequence[Carry | None]) -> None:
        """Note which results may alias operands: without iterations, carries are their initial values."""
        outer, loop, body = self.outer, self.loop, self.body
        owned = [c.init for c, carry in zip(loop.carry, carries, strict=True) if carry and carry.own and not carry.anew]
        outer.placed.take_over(self.node, owned)
        for i, item in self.items.items():
            carry = carries[i] if i < len(carries) else None
            if carry is None or item in self.made:
                continue
            begun = carry.own or carry.step is Step.ASSIGNED or self.runs or number(loop.carry[i].init) is not None
            if not (begun and self.suite.is_own(self.results[i])):
                outer.borrow(self.node, item)
        listed = self._listed()
        given = [x for i, x in enumerate(body.given) if i != len(self.results)]
        sources = zip(given, self.node.inputs[1:], strict=True)
        outer.placed.lent.update(outer.placed.roots[source] for x, source in sources if x in listed)

    def _listed(self) -> set[Node]:
        """Return the owners of arrays that lists reference: those of ys, and of carries that become ys later."""
        roots = self.body.roots
        found = {roots[stack.y] for stack in self.stacks.values() if stack.listed}
        carried = [(x, roots[y]) for x, y in zip(self.body.given, self.results, strict=False)]
        while more := {y for x, y in carried if x in found and y not in found}:
            found |= more
        return found
