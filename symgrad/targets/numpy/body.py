"""The body of the generated function: statements in the order of the graph, expressions nested as a person would."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from symgrad.analysis.cost import likely_numbers
from symgrad.analysis.liveness import released_names
from symgrad.analysis.memory_profile import Step
from symgrad.analysis.values import hits_once
from symgrad.core.graph import CONSTANT, INPUT, ITEM, SIZE, TOKEN, Aval, Literal, Node
from symgrad.core.provenance import Where
from symgrad.lowering.placement import Placement, Write
from symgrad.ops import index, index_expressions
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.checks import CHECK
from symgrad.ops.control import COND
from symgrad.ops.create import spell_empty
from symgrad.ops.join import CONCATENATE
from symgrad.spelling import ATOM, Code, Name, call, several, spell_number, spell_size
from symgrad.targets.numpy.expressions import called, is_long_product, is_numpy, with_floats, written_into
from symgrad.targets.numpy.index_arrays import added_at, taken
from symgrad.targets.numpy.joins import places_of
from symgrad.targets.numpy.names import Scope, global_name
from symgrad.targets.numpy.statements import Assign, Evaluate, Statement, added, deleted, remark

LONGEST = 76  # characters of an expression that a person still reads at one glance
SHORT = 48  # what may stand behind `return`
DEEPEST = 6  # operations in one expression
AROUND = 40  # more characters than may go with an operand, such as parentheses or a conversion

Place = tuple[str, int, str]


class Expr(NamedTuple):
    """An expression that has not become a statement yet."""

    code: Code
    depth: int
    reads: tuple[Node, ...]  # the nodes with a name that it mentions
    inputs: tuple[Code, ...] = ()


NOTHING = Expr(Name("None"), 0, ())
"""The expression of a token, which is mentioned nowhere."""


class Body:
    """Writes statements for nodes one after the other."""

    def __init__(self, placed: Placement, scope: Scope, nested: bool, quick: bool = False) -> None:
        self.placed, self.scope, self.names, self.nested, self.quick = placed, scope, scope.names, nested, quick
        self.written: list[Statement] = []
        self.pending: dict[Node, Expr] = {}
        self.quoted: Place | None = None

    def write(self) -> None:
        for node in self.placed.nodes:
            if node not in self.placed.updates:  # which wait for the end of an iteration
                self.let_go(self.placed.taken_over.get(node, ()), node)
            self.visit(node)

    def visit(self, node: Node) -> None:
        """Write a value as a statement, or leave it pending for the expression that uses it."""
        if node.aval == TOKEN:
            self.pending[node] = NOTHING
        elif node.op is INPUT or node.op is ITEM:
            return
        elif node.op is CONSTANT:
            self.pending[node] = self.constant(node)
        elif node.op is SIZE:
            self.pending[node] = Expr(spell_size(node.params[0][1]), 0, ())
        elif node in self.placed.anew:
            self.pending[node] = Expr(self._spelled(node).code, 0, ())
        elif node in self.placed.items:
            self.assign_items(node)
        elif node.op is index.SET or node.op is index.ADD_AT:
            self.put(node)
        elif node.op is CONCATENATE and any(map(self.goes_straight, node.inputs)):
            self.join(node)
        elif node.op is BARRIER and node not in self.placed.outputs:
            self.pending[node] = self.under_its_name(node.inputs[0])
        else:
            expr = self.expression(node)
            self.consumed(node)
            self.offer(node, expr)

    def offer(self, node: Node, expr: Expr) -> None:
        """An expression for a value, which waits for the one that it will stand in if a person would nest it."""
        self.pending[node] = expr
        if not self.may_nest(node):
            self.flush(node)
        elif self.is_returned(node):
            self.comment(node)

    @property
    def statements(self) -> list[Statement]:
        """Return the statements, with those that release large values after their last use."""
        released = self._released()
        return [
            each
            for i, statement in enumerate(self.written)
            for each in ((statement, deleted(released[i])) if i in released else (statement,))
        ]

    @property
    def steps(self) -> list[Step]:
        """Return the values that statements make and release, for cost estimates."""
        released = self._released()
        made = [(statement.makes, tuple(released.get(i, ()))) for i, statement in enumerate(self.written)]
        return [Step(node, self._targets(node) if node else (), gone) for node, gone in made if node or gone]

    def _targets(self, node: Node) -> tuple[str, ...]:
        """The names that a statement gives, ``_`` for a part that nobody uses."""
        if isinstance(node.aval, Aval):
            return (self.names.of(node),)
        parts = self.placed.items[node]
        return tuple(self.names.of(parts[i]) if i in parts else self.names.unused for i in range(len(node.aval)))

    def _parts(self, node: Node) -> Sequence[Node]:
        """Return the values that a statement gives names when it makes a node."""
        return (node,) if isinstance(node.aval, Aval) else tuple(self.placed.items[node].values())

    def _released(self) -> dict[int, list[str]]:
        """Return the names to release, by the number of the statement after which they are dead."""
        if not self.placed.released:
            return {}
        kept = {self.placed.roots[x] for y in self.placed.outputs for x in (y, *self.read(y).reads)}
        written = [s if (reads := self._all_reads(s)) is s.reads else replace(s, reads=reads) for s in self.written]
        return released_names(written, self.names.of, self.placed.roots, kept, self.placed.released, self._parts)

    def _all_reads(self, statement: Statement) -> Sequence[Node]:
        """Return what a statement reads, with what the expressions read that stand for values without a name."""
        reads = statement.reads
        unnamed = [self.pending[x].reads for x in reads if x in self.pending]  # such as the length of a list
        return [*reads, *chain.from_iterable(unnamed)] if unnamed else reads

    # ---- expressions

    def consumed(self, node: Node) -> None:
        """The expressions nested in that of a node wait no longer."""
        for x in node.inputs:
            if x in self.pending and self.pending[x].depth:
                del self.pending[x]

    def read(self, node: Node) -> Expr:
        """Return the expression of a value where it is used: pending, or a name."""
        return self.pending.get(node) or Expr(self.name(node), 0, (node,))

    def code(self, node: Node) -> Code:
        return self.read(node).code

    def name(self, node: Node) -> Name:
        return self.names.code(node)

    def expression(self, node: Node) -> Expr:
        expr = self._spelled(node)
        while (length := len(expr.code.text)) > LONGEST or expr.depth > DEEPEST:
            nested = sorted(filter(self.is_nested, node.inputs), key=lambda x: (len(self.pending[x].code.text), x.id))
            if not nested:
                break
            while nested:  # a list of many values is spelled again once it may be short enough, not for each of them
                x = nested.pop()
                if self.is_nested(x):
                    length -= len(self.pending[x].code.text) + AROUND
                    self.flush(x)
                    length += len(self.code(x).text)
                if length <= LONGEST:
                    break
            expr = self._spelled(node)
        return expr

    def is_nested(self, x: Node) -> bool:
        """Whether a value waits as an expression, rather than as a name or a number."""
        return x in self.pending and self.pending[x].depth > 0

    def _spelled(self, node: Node) -> Expr:
        inputs: list[Code] = []
        reads: list[Node] = []
        depth = 0
        for x in node.inputs:
            expr = self.pending.get(x)
            if expr is None:
                inputs.append(self.names.code(x))
                reads.append(x)
            else:
                inputs.append(expr.code)
                reads += expr.reads
                depth = max(depth, expr.depth)
        return Expr(self.spell(node, inputs), depth + 1, tuple(reads), tuple(inputs))

    def spell(self, node: Node, inputs: Sequence[Code]) -> Code:
        """Spell an operator on the code of its inputs."""
        if self.quick:
            if self.may_start_threads(node):
                self.scope.called.add("_dot")
                return call("_dot", [x.text for x in inputs])
            inputs = with_floats(node, inputs)
            code = taken(node, inputs, self.indices) or (node.op.quick and node.op.quick(node, *inputs))
            if code:
                own = {"_cross", "_dot", "_vecdot", "_inverse", "_where_true"}
                self.scope.called.update(own & {getattr(code, "function", "")})
                return code
        spell = node.op.spell
        return self.call(node, inputs) if spell is None else spell(node, *inputs)

    def may_start_threads(self, node: Node) -> bool:
        """Whether BLAS may start threads for a product that takes microseconds without."""
        return is_long_product(node)

    def indices(self, node: Node) -> float:
        """Return how many indices, likely, read an array in all."""
        return likely_numbers(node.inputs[1])

    def under_its_name(self, x: Node) -> Expr:
        """A value that a mark stands on: it costs nothing and has no name of its own."""
        if x in self.pending and self.pending[x].depth:
            self.flush(x)
        return self.read(x)

    def call(self, node: Node, inputs: Sequence[Code]) -> Code:
        """The spelling of an operator that has none of its own: a call of the NumPy function, or of the user's."""
        if (node.op.package and not node.op.written) or is_numpy(node.op):
            return called(node, node.op.path, inputs)
        name = self.scope.functions.get(node.op)
        if name is None:
            own = node.op.evaluate.__name__ if node.op.written else global_name(node.op.name)
            name = self.scope.functions[node.op] = self.names.fresh(own)
        return called(node, name, inputs)

    def results(self, outputs: Sequence[Node]) -> dict[Node, tuple[Code, Code]]:
        """Return for each result its code, and the code of a copy: an array of its own."""
        found: dict[Node, tuple[Code, Code]] = {}
        for y in outputs:
            code = self.code(y)
            number = y.aval.weak or (y.op is CONSTANT and y.aval.shape == ())
            copy = code if number else self._duplicate(y, code)
            found[y] = (copy if y in self.placed.copied else code), copy
        return found

    def _duplicate(self, y: Node, code: Code) -> Code:
        """Return the code of a copy; a number that a loop hands on may be a float that the caller has given."""
        if y.aval.shape == () and y.op is not INPUT:
            return call(f"np.{y.aval.dtype.type.__name__}", [code.text])
        return call(f"{code.at(ATOM)}.copy", [])

    def is_returned(self, node: Node) -> bool:
        """Whether a value that waits is computed where it is returned."""
        return node in self.placed.outputs

    def may_nest(self, node: Node) -> bool:
        """Whether a person would write this value inside the expression that uses it."""
        if not self.nested or node in self.names.hints:
            return False
        users = self.placed.uses[node]
        if node in self.placed.outputs:
            return not users and len(self.placed.outputs) == 1 and len(self.pending[node].code.text) <= SHORT
        if len(users) != 1 or users[0].op is BARRIER:
            return False
        is_test = (
            users[0].op in (COND, CHECK) and users[0].inputs[users[0].op is CHECK] is node
        )  # which the derivative has from the user
        return is_test or _kind(users[0].where) == _kind(node.where)

    def constant(self, node: Node) -> Expr:
        literal: Literal = node.params[0][1]
        value = literal.value
        if literal.weak or value.ndim == 0:
            return Expr(spell_number(value, literal.weak), 0, ())
        constants = self.scope.constants
        if literal not in constants:
            constants[literal] = self.names.fresh(f"c{len(constants) + 1}")
        return Expr(Name(constants[literal]), 0, ())

    # ---- statements

    def flush(self, node: Node) -> None:
        """Turn a pending expression into a statement."""
        expr = self.pending.pop(node)
        self.assign(node, self.name(node), expr.code, expr.reads)

    def assign(self, node: Node, target: Code, value: Code, reads: Sequence[Node]) -> None:
        """The statement that gives a value its name, with its dtype and shape."""
        aval = node.aval
        note = self.note(aval) if isinstance(aval, Aval) and aval.shape else ""
        self.write_down(node, Assign((target,), value, note=note, makes=node, reads=reads))

    def note(self, aval: Aval) -> str:
        return str(aval)

    def write_down(self, node: Node, statement: Statement) -> None:
        """A statement that comes from the line of a node."""
        self.comment(node)
        self.written.append(statement)

    def comment(self, node: Node) -> None:
        """The user's line above the statements that come from it."""
        where, place = node.where, place_of(node)
        if place == self.quoted or not where.line:
            return
        self.quoted, kind = place, place[-1]
        text = "" if kind == "derivative of " or not where.text else f"  {where.text}"
        self.written.append(remark(f"{kind}{where}{text}"))

    def assign_items(self, node: Node) -> None:
        """Unpack an operator with several results."""
        expr = self._spelled(node)
        self.assign(node, several(self._targets(node)), expr.code, expr.reads)
        self.consumed(node)

    def put(self, node: Node) -> None:
        """Assignment under an index."""
        base, value, *arrays = node.inputs
        self.settle_base(node, base)
        target = self.names.of(node)
        place, content = Code(f"{target}[{self.spelled_key(node, arrays)}]"), self.code(value)
        if node.op is index.ADD_AT and arrays and not hits_once(node):
            statement: Statement = Evaluate(self.added_at(node, target, list(map(self.code, arrays)), content))
        elif self.adds(node):
            of_floats = node.aval.dtype.kind == "f"  # no int8 is the 128 of `-= 128`
            statement = added(place, content) if of_floats else Assign((place,), content, "+=")
        elif self.goes_straight(value):
            statement = Evaluate(written_into(value, self.pending[value].inputs, place))
        else:
            statement = Assign((place,), content)
        reads = tuple(r for x in (base, value, *arrays) for r in self.read(x).reads)
        self.write_down(node, replace(statement, makes=node, reads=reads))
        self.consumed(node)

    def added_at(self, node: Node, target: str, arrays: Sequence[Code], content: Code) -> Code:
        """The call that adds under index arrays which may name a place several times."""
        apart = self.placed.roots[node.inputs[1]] is not self.placed.roots[node.inputs[0]]
        if self.quick and apart and (quick := added_at(node, target, arrays, content)):
            self.scope.called.update({"_add_at"} & {quick.function})
            return quick
        key = index_expressions.spell_key_argument(dict(node.params)["key"], arrays)
        return call("np.add.at", [target, key, content.text])

    def join(self, node: Node) -> None:
        """Assign a new array, and write the joined values into it."""
        name = self.name(node)
        self.assign(node, name, spell_empty(node.aval), ())
        for x, key in zip(node.inputs, places_of(node), strict=True):
            place = Code(f"{name.text}[{index_expressions.spell_key(key, ())}]")
            expr = self.read(x)
            if self.goes_straight(x):
                statement: Statement = Evaluate(written_into(x, expr.inputs, place), reads=expr.reads)
            else:
                statement = Assign((place,), expr.code, reads=expr.reads)
            self.write_down(node, statement)
        self.consumed(node)

    def adds(self, node: Node) -> bool:
        """Whether an assignment adds to the old content."""
        return node.op is index.ADD_AT

    def spelled_key(self, node: Node, arrays: Sequence[Node]) -> str:
        return index_expressions.spell_key(dict(node.params)["key"], list(map(self.code, arrays)))

    def goes_straight(self, value: Node) -> bool:
        """Whether a value is computed where it belongs, rather than copied there."""
        return value in self.pending and value in self.placed.straight

    def settle_base(self, node: Node, base: Node) -> None:
        """Give the array that is assigned into its name, and make it where it is another than the base."""
        way, expr = self.placed.writes[node], self.pending.get(base)
        if way is not Write.HERE or expr is not None:
            self.names.rename(node, self.names.of(self.named_end(node)))
        if way is Write.COPY:
            self._copy(node, base)
        elif way is Write.ANEW:
            fresh = Assign((self.name(node),), self.code(base), note=self.note(base.aval), makes=base)
            self.names.rename(base, self.names.of(node))
            self.write_down(node, fresh)
        elif expr is not None and expr.depth:
            self.pending.pop(base)
            self.names.rename(base, self.names.of(node))
            self.assign(base, self.name(node), expr.code, expr.reads)
        else:
            self.names.rename(node, self.names.of(base))

    def _copy(self, node: Node, base: Node) -> None:
        if self.names.of(node) == self.names.of(base):  # the name of a series, which now gets another array
            self.let_go([self.placed.roots[base]], node)
        copied = call(f"{self.code(base).at(ATOM)}.copy", [])
        self.write_down(node, Assign((self.name(node),), copied, makes=node, reads=self.read(base).reads))

    def named_end(self, node: Node) -> Node:
        """The value at the end of a series of assignments into one array, as far as it has a name."""
        end = node
        following = self.placed.last_use[node]
        while following is not None and following.op in (index.SET, index.ADD_AT) and following.inputs[0] is node:
            node = following
            end = node if node in self.names.hints else end
            following = self.placed.last_use[node]
        return end

    def let_go(self, owners: Collection[Node], node: Node) -> None:
        """Write down what waits and reads memory, before a node takes it over or its name has another value.

        What the node itself reads may wait, unless it is an array that numbers of that memory are assigned from.
        """
        if not owners:
            return
        inside = [node, *(x for x in node.inputs if not (node.op.assigns and x.aval.shape))]
        waiting = [x for x, expr in self.pending.items() if expr.depth and x not in inside]
        for x in [x for x in waiting if any(self.placed.roots[r] in owners for r in self.pending[x].reads)]:
            self.flush(x)


def place_of(node: Node) -> Place:
    """Return the user's line of a value, and its relation to that line."""
    return node.where.file, node.where.line, _kind(node.where)


def _kind(where: Where) -> str:
    """Return the relation of a value to its line, as the comment says it."""
    return "" if where.of is None else "computed again: " if where.again else "derivative of "
