"""Loops in the generated source: Python's ``for`` and ``while``, and the arrays that they fill."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.analysis.values import number
from symgrad.core.graph import SIZE, Aval, Node, is_token
from symgrad.core.region import Region
from symgrad.core.sizes import same
from symgrad.lowering.placement import Placement
from symgrad.ops.choice import MAXIMUM
from symgrad.ops.control import UNBOUNDED
from symgrad.ops.control_parts import loop_of
from symgrad.ops.create import spell_empty
from symgrad.spelling import ATOM, BOTH, COMPARE, SUM, Code, Name, call, negated, several, spell_size, tested
from symgrad.targets.numpy.body import LONGEST, NOTHING
from symgrad.targets.numpy.heads import BREAK, laid_out_head, with_break
from symgrad.targets.numpy.names import RESERVED, singular
from symgrad.targets.numpy.stacks import Stacks
from symgrad.targets.numpy.statements import Assign, Evaluate, Statement, Suite, Verbatim
from symgrad.targets.numpy.structured import Move, Structured, Together

FEW = 2  # arrays whose rows stand beside a count in the head of a loop
START, NEXT = Code("0"), Code("1")


def write_loop(outer: Structured, node: Node) -> None:
    """Write a loop, with its initial values before it and its results after it."""
    LoopPrinter(outer, node).write()


class LoopPrinter(Stacks):
    """The source of one loop."""

    is_tried = False  # whether it may run twice: what it starts from must stay

    def __init__(self, outer: Structured, node: Node) -> None:
        loop = loop_of(node)
        self.outer, self.node, self.items, self.placed = outer, node, outer.placed.items[node], outer.placed.loops[node]
        self.carried, self.reverse, self.symbol = len(loop.carry), loop.reverse, str(loop.iterations)
        self.place, self.length = loop.index_size, loop.length
        self.carry, self.slices, others = ([x[0] for x in part] for part in (loop.carry, loop.xs, loop.consts))
        self.asked: Sequence[Node] = ()  # what the number of iterations is computed of
        self.bound, self.arrays = self._bound(), [outer.named(x) for x in self.slices]
        self.others = list(map(self._given, others))
        outer.comment(node)
        graph = loop.body.body
        self.results, self.last = graph.outputs[: self.carried], self.items.get(len(graph.outputs))
        self.stacks = self.placed.stacks
        self.part, test = self._part(self.placed.body, loop.body), self.placed.test
        self.given = self.placed.body.given
        self.part.know_from(outer, dict(zip(others, self.given[len(self.given) - len(others) :], strict=True)))
        self.joint: dict[Node, str | None] = dict.fromkeys(self.placed.joint)  # one list, and what its rows are called
        self.test = None if test is None or loop.test is None else self._part(test, loop.test)
        self.names: list[Name] = []  # of what is carried
        self.flag = self.placed.stop  # the number of the carried boolean that becomes a ``break``
        self._count()

    def _bound(self) -> Code:
        """Return the bound of the number of iterations; a negative one means none, as for `range`."""
        pending, length = self.outer.pending, self.length
        if length in pending and pending[length].inputs and length.op is MAXIMUM and number(length.inputs[1]) == 0:
            expr = pending.pop(length)
            self.asked = expr.reads
            return expr.inputs[0]
        return self.outer.named(length)

    def _part(self, placed: Placement, region: Region) -> Structured:
        return self.outer.part(self.node, placed, region, deeper=1)

    def _given(self, x: Node) -> Code:
        """Return the code of a loop-invariant value."""
        return self.outer.named(x)

    def _count(self) -> None:
        """Find the range of the loop, its test and its counter."""
        outer, part = self.outer, self.part
        counts = self.test is not None and not self.stacks and (self.last or self.symbol in outer.scope.sizes)
        ranges = self.reverse or self.place is not None
        self.is_while = number(self.length) == UNBOUNDED or (bool(counts) and not ranges)
        self.rows = self.given[self.carried + 1 :][: len(self.slices)]
        used = [x for x in self.rows if part.placed.reads(x)]
        asked = any(each.reads(each.given[self.carried]) for each in (self.placed.body, self.placed.test) if each)
        asked = asked or self.place is not None
        placed = asked or not all(stack.listed for stack in self.stacks.values())
        fits = all(self._covers(array) for array, x in zip(self.slices, self.rows, strict=True) if x in used)
        along = not (placed and (self.reverse or len(used) > FEW))
        self.iterates = bool(used) and fits and along and not self.is_while
        self.total = Name(outer.names.of(self.last) if self.last else self.symbol) if counts else None
        self.is_numbered = placed or bool(used and not self.iterates) or (self.is_while and bool(counts))
        self.count = self.total if self.total and self.is_while else self._counter()

    def _counter(self) -> Name:
        """Return the loop's counter: loops of a nest have different ones; an index that is a size has its name."""
        if self.place is not None:
            return Name(self.place)
        depth, counts = self.outer.scope.depth, self.outer.scope.counts
        usual = counts[depth] if depth < len(counts) else f"{counts[-1]}{depth}"
        return Name(self.outer.names.local(self.part.hint(self.given[self.carried]) or usual, depth))

    def _covers(self, array: Node) -> bool:
        """Whether the number of iterations is the length of an array."""
        length = self.length
        size = dict(length.params)["value"] if length.op is SIZE else number(length)
        if size is None:  # it may be as many as another loop had
            size = self.outer.turns_counted(length)
        return size is not None and same(size, array.aval.shape[0])

    def write(self) -> None:
        outer = self.outer
        names = self.names
        for i, x in enumerate(self.carry):
            if is_token(x):
                names.append(Name(NOTHING.code.text))
            else:
                names.append(self._begin_carry(i) if i != self.flag else Name(outer.names.temporary()))
        stacks = [self._begin_stack(item) for item in self.stacks]
        self._begin_memory()
        first, rows = self._begin_rows()
        for each in filter(None, (self.part, self.test)):
            given = [*names, self.count, *(rows if each is self.part else ()), *self.others]
            each.receive(given, range(self.carried) if each is self.part else ())  # the test must leave them
        carried = [Move(y, name) for y, name in zip(self.results, names, strict=True) if not is_token(y)]
        self.part.begin([*carried, *self._moves(stacks)])
        turn, (head, condition) = self.part.end(), self._head(rows)
        counted = self.total or (self.count if self.is_while and self.is_numbered else None)
        counting = [Assign((counted,), NEXT, "+=")] if counted else []
        outer.written += [Assign((x.targets[0],), START) for x in counting]
        turn = with_break(turn, names[self.flag], counting) if self.flag is not None else [*turn, *counting]
        turn = [*condition, *first, *turn]
        outer.written.append(Suite(laid_out_head(head), turn, makes=self.node, reads=self.node.inputs))
        outer.written += self._behind()

    def _begin_memory(self) -> None:
        """Make the arrays for large temporaries of the body."""
        body = self.placed.body
        names = [Name(self.outer.names.fresh(f"s{i + 1}")) for i in range(len(body.buffers))]
        for name, buffer in zip(names, body.buffers, strict=True):
            aval = Aval(buffer.shape, buffer.dtype)
            self.outer.written.append(Assign((name,), spell_empty(aval), note=self.outer.note(aval)))
        self.part.memory = {x: names[buffer] for x, buffer in body.assignments.items()}

    # ---- what is carried

    def _begin_carry(self, i: int) -> Name:
        """Begin a carry: give its name the initial value before the loop."""
        outer, part, x, item, carry = self.outer, self.part, self.carry[i], self.items.get(i), self.placed.carries[i]
        assert carry is not None, "a token has no name"
        hint = (outer.hint(item) if item else None) or part.hint(self.given[i]) or part.hint(self.results[i])
        if hint is None and carry.anew and outer.names.is_free(outer.hint(x)):
            hint = outer.hint(x)
        if hint in (None, outer.hint(x)) and self._may_go_on(x):
            outer.pass_on(x, item, self.node)
            name = self._go_on(x, carry.copied)
        else:
            name = self._start(i, hint if carry.anew else hint or outer.hint(x), carry.copied)
        if item:
            outer.names.rename(item, name.text)
        return name

    def _may_go_on(self, x: Node) -> bool:
        """Whether the loop may continue under the name of its initial value."""
        return not self.is_tried and x not in self.asked and self.outer.passes_on(x, self.node)

    def _go_on(self, x: Node, copied: bool) -> Name:
        """Carry on the initial value under its name."""
        name = self.outer.name(x)
        if copied:
            self.outer.written.append(Assign((name,), call(f"{name.text}.copy", []), reads=(x,)))
        return name

    def _start(self, i: int, hint: str | None, copied: bool) -> Name:
        outer, x, item = self.outer, self.carry[i], self.items.get(i)
        expr = outer.read(x)
        if item and self._may_start_as(item, i) and outer.take_name(item, self.node):
            name = outer.name(item)
        else:
            name = Name(outer.names.fresh(hint) if hint else outer.names.temporary())
        value = call(f"{expr.code.at(ATOM)}.copy", []) if copied else self._started(x, expr.code)
        computed = expr.depth > 0 and not copied
        note = outer.note(x.aval) if x.aval.shape else ""
        if value.text != name.text:
            outer.written.append(Assign((name,), value, note=note, makes=x if computed else None, reads=expr.reads))
        if computed:
            del outer.pending[x]
            outer.names.rename(x, name.text)
        return name

    def _may_start_as(self, item: Node, i: int) -> bool:
        """Whether nothing of the loop but this start reads what has the name that a result gets in the end."""
        outer = self.outer
        name = outer.goes.get(item, "")
        if any(name == each.text for each in self.names):
            return False
        old = outer.passed.get(name, ())
        # a start may be read by iterations as well
        others = [y for k, y in enumerate(self.node.inputs) if k != 1 + i or self.is_tried]
        return not any(r in old for reads in (self.asked, *(outer.read(y).reads for y in others)) for r in reads)

    def _started(self, x: Node, code: Code) -> Code:
        """Return the initial value of a carry."""
        return code

    # ---- the iterations

    def _begin_rows(self) -> tuple[list[Statement], list[Code]]:
        """Return the names of the xs' rows, and the statements that read them where the head of the loop does not."""
        taken: list[Statement] = []
        rows: list[Code] = []
        for x, of, array in zip(self.rows, self.slices, self.arrays, strict=True):
            row, joint = self._row(of, array), self.outer.together.get(of)
            if not self.placed.body.reads(x) or not (joint or self.iterates or not self.part.reads_once(x)):
                rows.append(row)
                continue
            rows.append(Name(self._row_name(x, of, array)))
            if not self.iterates and not joint:
                taken.append(Assign((rows[-1],), row, note=self.outer.note(x.aval) if x.aval.shape else ""))
        for of, array, each in [] if self.iterates else self._joint_rows():
            taken.append(Assign((self._unpacked(each, rows),), self._row(of, array)))
        return taken, rows

    def _joint_rows(self) -> list[tuple[Node, Code, Together]]:
        """The lists of tuples that iterations read, each once, with one of its stacks."""
        found: dict[Sequence[Node], tuple[Node, Code, Together]] = {}
        for x, of, array in zip(self.rows, self.slices, self.arrays, strict=True):
            joint = self.outer.together.get(of)
            if joint and self.placed.body.reads(x):
                found.setdefault(joint.items, (of, array, joint))
        return list(found.values())

    def _unpacked(self, joint: Together, rows: Sequence[Code]) -> Code:
        """The names of the rows in a tuple."""
        named = {
            of: row.text for x, of, row in zip(self.rows, self.slices, rows, strict=True) if self.placed.body.reads(x)
        }
        return several([named.get(item, self.outer.names.unused) for item in joint.items])

    def _row_name(self, x: Node, of: Node, array: Code) -> str:
        """Return the name of a row: one of `xs` is x."""
        names, name, joint = self.outer.names, self.part.hint(x), self.outer.together.get(of)
        if name is None and joint:
            name = joint.rows[joint.items.index(of)]
            return names.temporary() if name is None else names.fresh(name)
        if name is None and isinstance(array, Name):
            one, stem = singular(array.text), array.text.rstrip("_")
            name = one if one and one not in RESERVED else f"{stem}_{self.count.text.split('_')[0]}"
        return names.fresh(name or "row")

    def _head(self, rows: Sequence[Code]) -> tuple[str, list[Statement]]:
        """Return the line of the loop, and the first statements of its body: the test where the line has no room for
        it.
        """
        tests = self._tested() if self.flag is None else []
        condition = tests.pop().parts[0] if tests else None
        runs = self._runs(rows)
        if self.is_while and condition is not None and not tests:
            both = f"{runs} and {condition.at(BOTH)}" if runs else condition.text
            if len(both) <= LONGEST:
                return f"while {both}:", []
        head = runs if not self.is_while else f"while {runs or 'True'}:"
        if condition is None:
            return head, []
        stop = Suite([f"if {negated(condition).text}:"], [BREAK])
        return head, [*tests, stop]

    def _runs(self, rows: Sequence[Code]) -> str:
        """Return the head of a ``for``, or the condition of a ``while`` beside the test."""
        count, bound = self.count.text, self.bound
        if self.is_while:
            return "" if number(self.length) == UNBOUNDED else f"{count} < {bound.at(COMPARE + 1)}"
        if not self.iterates:
            count = count if self.is_numbered else self.outer.names.unused
            return f"for {count} in {self._range(bound)}:"
        used = [(self._unpacked(each, rows).text, self._every_row(of, array)) for of, array, each in self._joint_rows()]
        apart = [of not in self.outer.together for of in self.slices]
        given = zip(self.rows, rows, self.slices, self.arrays, apart, strict=True)
        used = [(f"({names})" if any(apart) else names, every) for names, every in used]
        used += [
            (code.text, self._every_row(of, x)) for y, code, of, x, one in given if one and self.placed.body.reads(y)
        ]
        each = several([name for name, _ in used]).text if len(used) > 1 else used[0][0]
        over = used[0][1] if len(used) == 1 else call("zip", [array for _, array in used]).text
        if not self.is_numbered:
            return f"for {each} in {over}:"
        each = f"({each})" if "," in each else each
        return f"for {count}, {each} in enumerate({over}):"

    def _row(self, x: Node, array: Code) -> Code:
        """Return the row of this iteration."""
        return Code(f"{array.at(ATOM)}[{self.count.text}]")

    def _every_row(self, x: Node, array: Code) -> str:
        """Return all rows, in the order of the iterations."""
        if not self.reverse:
            return array.text
        return f"reversed({array.text})" if x in self.outer.placed.lists else f"{array.at(ATOM)}[::-1]"

    def _range(self, bound: Code) -> str:
        if not self.reverse or not self.is_numbered:
            return f"range({bound.text})"
        length = dict(self.length.params)["value"] if self.length.op is SIZE else number(self.length)
        first = f"{bound.at(SUM)} - 1" if length is None else spell_size(length - 1).text
        return f"range({first}, -1, -1)"

    def _tested(self) -> list[Statement]:
        """Return the statements of the test, of which the last evaluates it."""
        if self.test is None:
            return []
        (result,) = self.test.placed.outputs
        self.test.begin([])
        before, expr = self.test.written, self.test.read(result)
        value = tested(expr.code)
        if before and isinstance(before[-1], Assign) and before[-1].makes is result:
            *before, last = before
            value = tested(last.parts[-1])
        return [*(before if any(type(x) is not Verbatim for x in before) else ()), Evaluate(value)]
