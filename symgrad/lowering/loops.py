"""Lowering of the user's loops and branches to statements: carries, and the rows of xs and ys."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from symgrad.analysis.values import number as known_number
from symgrad.core.graph import INPUT, ITEM, TOKEN, Aval, Graph, Node, is_token
from symgrad.core.sizes import Size
from symgrad.lowering.expressions import NOTHING, ONE, TRUTH, ZERO, Expr, Local, Number, converted, extent, plus
from symgrad.lowering.statements import Assign, Buffer, Declare, For, Grow, If, Statement, While
from symgrad.lowering.windows import Value, Window, row_of
from symgrad.ops.control import COND, UNBOUNDED
from symgrad.ops.control_parts import branch_of, loop_of
from symgrad.ops.elementwise import ADD, SUBTRACT
from symgrad.ops.index import ADD_AT, SET

if TYPE_CHECKING:
    from symgrad.lowering.build import Part


def write_branch(part: Part, node: Node) -> None:
    """Write both sides of a branch: each puts the results into the same memory or names."""
    branch = branch_of(node)
    test = part.pull(branch.pred, ())
    operands: list[Value] = [_given(part, x) for x in branch.operands]
    results: list[Value] = []
    for i, aval in enumerate(node.aval):
        item = _item(part, node, i)
        hint = (part.called(item) if item else None) or "t"
        if aval == TOKEN:
            results.append(NOTHING)
        elif aval.shape:
            place = _taken_over(part, node, item) or (part.places.get(item) if item else None)
            results.append(place or part.allocate(hint, aval))
        else:
            local = Local(part.program.names.fresh(hint), aval.dtype)
            part.body.append(Declare(local, Number(aval.dtype.type(0).item(), aval.dtype), mutable=True))
            results.append(local)
        if item:
            part.values[item] = results[-1]
            part.fresh.add(item)
    statement = If(test)
    numbers: list[list[Expr]] = [[] for _ in results]  # those that they are on each side
    for side, body in ((branch.then, statement.then), (branch.other, statement.otherwise)):
        graph = side.body
        inner = _part(part, graph, dict(zip(graph.inputs, operands, strict=True)), {}, body)
        inner.fresh.update(x for x, window in zip(graph.inputs, operands, strict=True) if window in results)
        with part.program.bounds.where(test, side is branch.then):
            inner.write()
            for y, target, values in zip(graph.outputs, results, numbers, strict=True):
                if isinstance(target, Window):
                    inner.put(y, target)
                elif isinstance(target, Local):
                    values.append(converted(inner.pull(y, ()), target.dtype))
                    body.append(Assign(target, values[-1]))
    for target, values in zip(results, numbers, strict=True):
        if isinstance(target, Local) and target.dtype == TRUTH:
            _imply(part, test, target, *values)
    part.body.append(statement)


def _imply(part: Part, test: Expr, target: Local, then: Expr, otherwise: Expr) -> None:
    """Note what the boolean result of a branch implies if one side gives a constant, as ``and`` and ``or`` do."""
    for known, other, is_then in ((then, otherwise, True), (otherwise, then, False)):
        if isinstance(known, Number):
            holds = not known.value
            part.program.bounds.imply(target, holds, [(test, not is_then), (other, holds)])


def _taken_over(part: Part, node: Node, item: Node | None) -> Window | None:
    """Return the memory of an operand that the branch may overwrite with this result; None if there is none."""
    operands = (x for x in branch_of(node).operands if part.roots.successor.get(x) is item)
    return next((window for x in operands if (window := part.owned(x, node)) is not None), None)


def _part(
    part: Part, graph: Graph, given: Mapping[Node, Value], places: Mapping[Node, Window], body: list[Statement]
) -> Part:
    inner = type(part)(part.program, graph, given, places, body)
    inner.quoted = part.quoted
    inner.declared |= part.declared
    return inner


def _given(part: Part, x: Node) -> Value:
    """Return a value as the body of a loop or a side of a branch reads it: in memory, under a name, or a number."""
    if x.aval.shape:
        return part.window(x)
    found = part.pull(x, ())
    return found if isinstance(found, Local | Number) else part._named(x, found)


def _item(part: Part, node: Node, i: int) -> Node | None:
    return next((x for x in part.roots.uses[node] if dict(x.params)["index"] == i), None)


def write_loop(part: Part, node: Node) -> None:
    LoopBuilder(part, node).write()


def is_python_integer(x: Node) -> bool:
    """Whether a value is an integer of Python's; the program ends if it does not fit into 64 bits."""
    return x.aval.weak and x.aval.dtype.kind == "i"


def _steps(y: Node, x: Node) -> set[int]:
    """Return the numbers of which one is added to a carried integer in an iteration; none if unknown."""
    if y is x:
        return {0}
    if y.op in (ADD, SUBTRACT) and y.inputs[0] is not y.inputs[1] and is_python_integer(y):
        for a, b in (y.inputs, y.inputs[::-1])[: 2 if y.op is ADD else 1]:
            by = known_number(b)
            if isinstance(by, int):
                return {n + by if y.op is ADD else n - by for n in _steps(a, x)}
    if y.op is ITEM and y.inputs[0].op is COND:
        branch, k = branch_of(y.inputs[0]), dict(y.params)["index"]
        if branch.operands.count(x) == 1:
            at = branch.operands.index(x)
            sides = [_steps(side.results[k], side.parameters[at]) for side in (branch.then, branch.other)]
            return sides[0] | sides[1] if all(sides) else set()
    return set()


def _copied(inner: Part, x: Node) -> Window:
    """Copy a value into memory of its own, and return that."""
    aside = inner.allocate("next", x.aval)
    inner.put(x, aside)
    return aside


class LoopBuilder:
    """Writes one loop."""

    def __init__(self, part: Part, node: Node) -> None:
        self.part, self.node, self.parts = part, node, loop_of(node)
        self.graph = self.parts.body.body
        self.count = len(self.parts.carry)
        self.body: list[Statement] = []
        self.declared: set[str] = set()  # size symbols that the test declares
        self.assignments: dict[Node, list[Node]] = {}  # next value of a carry -> assignments that update it in place

    def write(self) -> None:
        part, loop, names = self.part, self.parts, self.part.program.names
        consts = [_given(part, x.source) for x in loop.consts]
        rows = [part.window(x.source) for x in loop.xs]
        bound = known_number(loop.length)
        open_ended = bound == UNBOUNDED
        stop = None if open_ended else converted(part.pull(loop.length, ()), ZERO.dtype)
        size = loop.index_size
        hint = part.program.called(self.graph, self.graph.inputs[self.count]) or "step"
        index = Local(size if size is not None and loop.test is None else names.fresh(hint))
        part.program.indices.add(index.name)
        carry = [self._start(i, c.init) for i, c in enumerate(loop.carry)]
        stacks = [self._stack(i) for i in range(self.count, len(self.graph.outputs))]
        given: dict[Node, Value] = {}
        behind = self.graph.inputs[self.count + 1 :]
        given |= zip(self.graph.inputs[: self.count], carry, strict=True)
        given[self.graph.inputs[self.count]] = index
        given |= {x: row_of(row, index) for x, row in zip(behind, rows, strict=False)}
        given |= zip(behind[len(rows) :], consts, strict=True)
        if size is not None:
            part.program.around.append(size)
        iterations = None if loop.iterations is None else extent(loop.iterations)
        counted = part.program.bounds.counting(index, iterations)  # not where a condition is tested behind the last one
        with self._bounded(index, stop, carry):
            statement: Statement
            if loop.test is None:
                assert stop is not None
                statement = For(index, stop, self.body, loop.reverse)
                with counted:
                    self._write_body(given, carry, stacks, index)
            else:
                part.program.open_loops += 1
                test = loop.test.body
                head: list[Statement] = [] if size is None else [Declare(Local(size), index)]
                inner = _part(part, test, dict(zip(test.inputs, [*carry, index, *consts], strict=True)), {}, head)
                inner.write()
                self.declared = inner.declared
                statement = While(index, stop, head, inner.pull(test.outputs[0], ()), self.body)
                with part.program.bounds.where(statement.test), counted:
                    self._write_body(given, carry, stacks, index)
                part.program.open_loops -= 1
        if size is not None:
            part.program.around.remove(size)
        part.body.append(statement)
        self._deliver(carry, stacks, index)

    @contextmanager
    def _bounded(self, index: Local, stop: Expr | None, carry: Sequence[Value]) -> Iterator[None]:
        """Enter the bounds of the index, and of carried integers that iterations count up or down."""
        bounds = self.part.program.bounds
        with ExitStack() as known:
            known.enter_context(bounds.counting(index, stop))
            for c, x in zip(self.parts.carry, carry, strict=True):
                steps = _steps(c.update, c.value) if isinstance(x, Local) and is_python_integer(c.value) else None
                if isinstance(x, Local) and steps:
                    first = converted(self.part.pull(c.init, ()), x.dtype)
                    known.enter_context(bounds.counted(x, first, steps))
            yield

    def _start(self, i: int, x: Node) -> Value:
        """Initialise a carry, in memory or under a name of its own."""
        if is_token(x):
            return NOTHING
        part, item = self.part, _item(self.part, self.node, i)
        given = self.graph.inputs[i]
        hint = (part.called(item) if item else None) or part.program.called(self.graph, given)
        hint = hint or part.called(x) or "carry"
        if not x.aval.shape:
            local = Local(part.program.names.fresh(hint), given.aval.dtype)
            part.body.append(Declare(local, converted(part.pull(x, ()), local.dtype), mutable=True))
            return local
        place = part.places.get(item) if item else None
        window = place or part.owned(x, self.node) or part.allocate(hint, x.aval)
        part.put(x, window)
        return window

    def _stack(self, i: int) -> Window:
        """Return the memory of ys, which grows if the number of iterations is unknown."""
        part, item = self.part, _item(self.part, self.node, i)
        aval: Aval = self.node.aval[i]  # type: ignore[assignment]
        row = part.program.called(self.graph, self.graph.outputs[i])
        hint = (part.called(item) if item else None) or f"all_{row or 'values'}"
        if self.parts.test is not None:
            return part.program.window(hint, aval, "growing")
        place = part.places.get(item) if item else None
        return place or part.allocate(hint, aval)

    def _write_body(
        self, given: Mapping[Node, Value], carry: Sequence[Value], stacks: Sequence[Window], index: Local
    ) -> None:
        results, stacked = self.graph.outputs[: self.count], self.graph.outputs[self.count :]
        rows = [row_of(stack, index) for stack in stacks]
        if self.parts.test is not None:
            self.body += [Grow(stack.buffer, plus(index, ONE)) for stack in stacks]
        places: dict[Node, Window] = {}
        for y, row in zip(stacked, rows, strict=True):
            if isinstance(row, Window) and y.op is not INPUT:
                places.setdefault(y, row)
        inner = _part(self.part, self.graph, given, places, self.body)
        inner.declared |= self.declared
        for x, y, value in zip(self.graph.inputs, results, carry, strict=False):
            if isinstance(value, Window) and self._is_assigned_alone(inner, x, y):
                inner.fresh.add(x)
            elif isinstance(value, Window):
                self.assignments[y] = self._assignments(inner, x, y)
                inner.deferred.update(self.assignments[y])
        inner.write()
        for y, stack, row in zip(stacked, stacks, rows, strict=True):
            if isinstance(row, Window):
                inner.put(y, row)
            else:
                self.body.append(stack.store((index,), converted(inner.pull(y, ()), stack.buffer.dtype)))
        self._carry_on(inner, results, carry)

    def _is_assigned_alone(self, inner: Part, x: Node, y: Node) -> bool:
        """Whether a carry is updated by assignments into it alone, so that they can be made in its memory."""
        if x in self.graph.outputs:  # another result is the old value
            return False
        end = inner.roots.end_of(x)
        return end is y and end is not x and inner.roots.results.__contains__(y) and self.graph.outputs.count(y) == 1

    def _assignments(self, inner: Part, x: Node, y: Node) -> list[Node]:
        """Return the chain of assignments that updates a carry; none if anything else does, or reads its versions."""
        found: list[Node] = []
        end, users = y, 0
        while end is not x:
            assigns = end.op in (SET, ADD_AT) and end.inputs[0] not in end.inputs[1:]
            if not assigns or len(inner.roots.uses[end]) != users or self.graph.outputs.count(end) != 1 - users:
                return []
            found.insert(0, end)
            end, users = end.inputs[0], 1
        return found

    def _keep_aside(self, inner: Part, value: Node, carried: Collection[Buffer]) -> None:
        """Save a value that depends on carries, in memory or under a name, before the carries are overwritten."""
        waiting, seen = [value], {value}
        while waiting:
            x = waiting.pop()
            known = inner.values.get(x)
            if x in self.graph.inputs[: self.count] or (isinstance(known, Window) and known.buffer in carried):
                break
            new = [each for each in x.inputs if each not in seen] if known is None else []
            seen.update(new)
            waiting += new
        else:
            return
        inner.values[value] = _copied(inner, value) if value.aval.shape else inner._named(value, inner.pull(value, ()))

    def _carry_on(self, inner: Part, results: Sequence[Node], carry: Sequence[Value]) -> None:
        """Update the carries: all next values are computed before the first carry is overwritten."""
        last: list[tuple[Value, Value, Sequence[Size]]] = []
        carried = [x.buffer for x in carry if isinstance(x, Window)]
        for node in (node for nodes in self.assignments.values() for node in nodes):
            for operand in node.inputs[1:]:
                self._keep_aside(inner, operand, carried)
        for x, y, target in zip(self.graph.inputs, results, carry, strict=False):
            if x is y or is_token(x) or inner.values.get(y) == target or self.assignments.get(y):
                continue
            if isinstance(target, Local):
                value = converted(inner.pull(y, ()), target.dtype)
                if not isinstance(value, Number) and (y.op is INPUT or not isinstance(value, Local)):
                    value = inner._named(y, value)
                last.append((target, value, ()))
                continue
            assert isinstance(target, Window)
            source = _copied(inner, y) if y.op is INPUT else inner.window(y)
            last.append((target, source, y.aval.shape))
        for y, target in zip(results, carry, strict=True):
            for node in self.assignments.get(y, ()):
                assert isinstance(target, Window)
                inner.quote(node)
                inner.assign(node, target)
        for place, given, shape in last:
            if isinstance(place, Local):
                assert isinstance(given, Expr)
                self.body.append(Assign(place, given))
            else:
                assert isinstance(place, Window) and isinstance(given, Window)
                inner.copy(given, place, shape)

    def _deliver(self, carry: Sequence[Value], stacks: Sequence[Window], index: Local) -> None:
        part, values = self.part, [*carry, *stacks]
        if self.parts.test is not None:
            values.append(index)
            size = str(self.parts.iterations)
            if part.roots.tellers.get(size) is self.node:  # or a number before it has told the size
                part.declare(size, index)
        for item in part.roots.uses[self.node]:
            part.values[item] = values[dict(item.params)["index"]]
            part.fresh.add(item)
            part.tell(item)
