"""The body of the generated function: statements, nested as a person would nest them, in the order of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.aliases import roots_of
from symgrad.analysis.cost import Step, magnitude, nbytes
from symgrad.analysis.liveness import last_users, released_names
from symgrad.analysis.uses import users_of
from symgrad.analysis.values import hits_once
from symgrad.core.graph import CONSTANT, INPUT, ITEM, SIZE, Aval, Literal, Node, Op, reached
from symgrad.core.provenance import Where
from symgrad.core.shapes import same_shape
from symgrad.core.text import comment, literal
from symgrad.ops import index, index_expressions
from symgrad.ops.define import is_small
from symgrad.ops.marks import AGAIN, BOUNDARIES
from symgrad.spelling import ATOM, COMPARE, UNARY, Code, call, spell_param
from symgrad.targets.numpy.names import Names, global_name

LONGEST = 76  # characters of an expression that a person still reads at one glance
SHORT = 48  # what may stand behind `return`
DEEPEST = 6  # operations in one expression
LARGE = 1 << 20  # bytes from which on a dead array is worth a line that releases it
PAGE = 1 << 12  # and from which on where values are computed again lest they be kept
EXACT = 2048  # up to which integers are floats of any precision


class Expr(NamedTuple):
    """An expression that has not become a statement yet."""

    code: Code
    depth: int
    reads: tuple[Node, ...]  # the nodes with a name that it mentions
    inputs: tuple[Code, ...] = ()


class Line(NamedTuple):
    """A line of the body, with the value that it makes and those that it reads by name."""

    text: str
    makes: Node | None = None
    reads: tuple[Node, ...] = ()


class Body:
    """Writes statements for nodes one after the other."""

    def __init__(
        self, outputs: Sequence[Node], names: Names, hints: Mapping[Node, Any], nested: bool, quick: bool = False
    ) -> None:
        self.names, self.hints, self.nested, self.quick = names, hints, nested, quick
        self._lines: list[Line] = []
        self.constants: dict[Node, str] = {}
        self.functions: dict[Op, str] = {}  # which no package has
        self.outputs = set(outputs)
        self.nodes = reached(outputs)
        self.uses = users_of(self.nodes)
        self.roots = roots_of(self.nodes)
        last = last_users(self.nodes, self.roots)
        self.last_use = {**last, **dict.fromkeys([self.roots[y] for y in outputs])}  # None: the caller has it
        self.pending: dict[Node, Expr] = {}
        self.items = _items(self.nodes)
        self.released_from = PAGE if any(node.op is AGAIN for node in self.nodes) else LARGE
        self._place: tuple[str, int, str] | None = None

    def write(self) -> None:
        for node in self.nodes:
            self.visit(node)

    def visit(self, node: Node) -> None:
        """Write a value down, or let it wait for the expression that it will stand in."""
        if node.op is INPUT or node.op is ITEM:
            return
        if node.op is CONSTANT:
            self.pending[node] = self.constant(node)
        elif node.op is SIZE:
            self.pending[node] = Expr(_size_code(node), 0, ())
        elif node in self.items:
            self.assign_items(node)
        elif node.op is index.SET or node.op is index.ADD_AT:
            self.put(node)
        elif node.op in BOUNDARIES and node not in self.outputs:
            self.pending[node] = self.under_its_name(node.inputs[0])
        else:
            self.pending[node] = self.expression(node)
            self.consumed(node)
            if not self.may_nest(node):
                self.flush(node)
            elif node in self.outputs:
                self.comment(node)

    @property
    def lines(self) -> list[str]:
        """The statements, and lines that release what is large and was used for the last time."""
        if not self.nested:
            return [line.text for line in self._lines]
        released = self._released()
        lines = [(line.text, released.get(i)) for i, line in enumerate(self._lines)]
        return [text for line, names in lines for text in ((line, f"del {', '.join(names)}") if names else (line,))]

    @property
    def steps(self) -> list[Step]:
        """What the statements make and release, to reckon with."""
        released = self._released() if self.nested else {}
        made = [(line.makes, tuple(released.get(i, ()))) for i, line in enumerate(self._lines)]
        return [Step(node, self._targets(node) if node else (), gone) for node, gone in made if node or gone]

    @property
    def origins(self) -> list[tuple[str, Node]]:
        """The statements in the order of the source, each with the value that it makes."""
        return [(line.text, line.makes) for line in self._lines if line.makes is not None]

    @property
    def line_of(self) -> dict[Node, str]:
        """The statement that makes each value."""
        return {line.makes: line.text for line in self._lines if line.makes is not None}

    def _targets(self, node: Node) -> tuple[str, ...]:
        """The names that a statement gives, ``_`` for a part that nobody uses."""
        if isinstance(node.aval, Aval):
            return (self.names.of(node),)
        parts = self.items[node]
        return tuple(self.names.of(parts[i]) if i in parts else self.names.unused for i in range(len(node.aval)))

    def _is_large(self, node: Node) -> bool:
        """Whether memory of the function's own is worth a line that releases it."""
        own = node.op not in (INPUT, CONSTANT) and isinstance(node.aval, Aval)
        return own and bool(magnitude(nbytes(node.aval)) >= self.released_from)

    def _released(self) -> dict[int, list[str]]:
        """The names that nobody needs any more, by the number of the line behind which they go."""
        returned = [r for y in self.outputs for r in (y, *(self.pending[y].reads if y in self.pending else ()))]
        kept = {self.roots[x] for x in returned}
        return released_names(self._lines, self.names.of, self.roots, kept, self._is_large)

    # ---- expressions

    def consumed(self, node: Node) -> None:
        """The expressions nested in that of a node wait no longer."""
        for x in node.inputs:
            if x in self.pending and self.pending[x].depth:
                del self.pending[x]

    def code(self, node: Node) -> Code:
        """How a value is written where it is used: its expression, or its name."""
        expr = self.pending.get(node)
        return Code(self.names.of(node)) if expr is None else expr.code

    def expression(self, node: Node) -> Expr:
        expr = self._spelled(node)
        while len(expr.code.text) > LONGEST or expr.depth > DEEPEST:
            nested = [x for x in node.inputs if x in self.pending and self.pending[x].depth]
            if not nested:
                break
            self.flush(max(nested, key=lambda x: (len(self.pending[x].code.text), x.id)))
            expr = self._spelled(node)
        return expr

    def _spelled(self, node: Node) -> Expr:
        inputs, depth, reads = [], 0, []
        for x in node.inputs:
            expr = self.pending.get(x)
            if expr is None:
                inputs.append(Code(self.names.of(x)))
                reads.append(x)
            else:
                inputs.append(expr.code)
                depth = max(depth, expr.depth)
                reads.extend(expr.reads)
        return Expr(self.spell(node, inputs), depth + 1, tuple(reads), tuple(inputs))

    def spell(self, node: Node, inputs: Sequence[Code]) -> Code:
        """How an operator reads on the code of its inputs."""
        if self.quick:
            inputs = with_floats(node, inputs)
            code = node.op.quick and node.op.quick(node, *inputs)
            if code:
                return code
        spell = node.op.spell
        return self.call(node, inputs) if spell is None else spell(node, *inputs)

    def under_its_name(self, x: Node) -> Expr:
        """A value that a mark stands on: it costs nothing and has no name of its own."""
        if x in self.pending and self.pending[x].depth:
            self.flush(x)
        return self.pending.get(x) or Expr(Code(self.names.of(x)), 0, (x,))

    def call(self, node: Node, inputs: Sequence[Code]) -> Code:
        """The spelling of an operator that has none of its own: a call of the NumPy function, or of the user's."""
        arguments = [x.text for x in inputs] + [f"{key}={spell_param(value)}" for key, value in node.params]
        if (node.op.package and not node.op.written) or is_numpy(node.op):
            return call(node.op.path, arguments)
        name = self.functions.get(node.op)
        if name is None:
            own = node.op.evaluate.__name__ if node.op.written else global_name(node.op.name)
            name = self.functions[node.op] = self.names.fresh(own)
        return call(name, arguments)

    def may_nest(self, node: Node) -> bool:
        """Whether a person would write this value inside the expression that uses it."""
        if not self.nested or node in self.hints:
            return False
        users = self.uses[node]
        if node in self.outputs:
            return not users and len(self.outputs) == 1 and len(self.pending[node].code.text) <= SHORT
        return len(users) == 1 and users[0].op is not AGAIN and _kind(users[0].where) == _kind(node.where)

    def constant(self, node: Node) -> Expr:
        literal: Literal = node.params[0][1]
        value = literal.value
        if literal.weak or value.ndim == 0:
            return Expr(spell_number(value, literal.weak), 0, ())
        name = self.constants.get(node)
        if name is None:
            name = self.constants[node] = self.names.fresh(f"c{len(self.constants) + 1}")
        return Expr(Code(name), 0, ())

    # ---- statements

    def flush(self, node: Node) -> None:
        """Turn a pending expression into a statement."""
        expr = self.pending.pop(node)
        self.statement(node, f"{self.names.of(node)} = {expr.code.text}", expr.reads)

    def statement(self, node: Node, text: str, reads: Sequence[Node]) -> None:
        self.comment(node)
        aval = node.aval
        note = f"  # {aval}" if isinstance(aval, Aval) and aval.shape else ""
        self._lines.append(Line(text + note, node, tuple(reads)))

    def comment(self, node: Node) -> None:
        """The user's line above the statements that come from it."""
        where = node.where
        kind = _kind(where)
        place = (where.file, where.line, kind)
        if place == self._place or not where.line:
            return
        self._place = place
        text = "" if kind == "derivative of " else f"  {where.text}"
        self._lines.append(Line(comment(f"{kind}{where}{text}")))

    def assign_items(self, node: Node) -> None:
        """Unpack an operator with several results."""
        expr = self._spelled(node)
        found = self.items[node]
        targets = [self.names.of(found[i]) if i in found else self.names.unused for i in range(len(node.aval))]
        self.statement(node, f"{', '.join(targets)}{',' * (len(targets) == 1)} = {expr.code.text}", expr.reads)
        self.consumed(node)

    def put(self, node: Node) -> None:
        """Assignment under an index: into the array itself where nobody else needs it any more, else into a copy."""
        base, value, *arrays = node.inputs
        self.settle_base(node, base)
        target = self.names.of(node)
        key, content = self.spelled_key(node, arrays), self.code(value)
        if not self.adds(node) and self.goes_straight(node, value):
            text = written_into(value, self.pending[value].inputs, f"{target}[{key}]").text
        elif not self.adds(node):
            text = f"{target}[{key}] = {content.text}"
        elif node.op is index.ADD_AT and arrays and not hits_once(node):
            text = f"np.add.at({target}, {_as_argument(key, self.code(arrays[0]).text)}, {content.text})"
        elif content.text.startswith("-") and content.level == UNARY:
            text = f"{target}[{key}] -= {content.text[1:]}"
        else:
            text = f"{target}[{key}] += {content.text}"
        self.comment(node)
        self._lines.append(Line(text, node, tuple(r for x in (base, value, *arrays) for r in self.reads(x))))
        self.consumed(node)

    def adds(self, node: Node) -> bool:
        """Whether an assignment adds to what is there."""
        return node.op is index.ADD_AT

    def spelled_key(self, node: Node, arrays: Sequence[Node]) -> str:
        return index_expressions.spell_key(dict(node.params)["key"], [self.code(a) for a in arrays])

    def goes_straight(self, node: Node, value: Node) -> bool:
        """Whether a large result is computed where it belongs, rather than copied there."""
        if not self.quick or value not in self.pending or is_small(value) or len(node.inputs) > 2:
            return False
        shape = index_expressions.indexed_shape(node.aval.shape, dict(node.params)["key"], ())
        fits = value.aval.dtype == node.aval.dtype and same_shape(value.aval.shape, shape)
        return fits and value.op.elementwise and isinstance(value.op.evaluate, np.ufunc)

    def reads(self, node: Node) -> tuple[Node, ...]:
        """The values that writing down a value mentions by name."""
        expr = self.pending.get(node)
        return (node,) if expr is None else expr.reads

    def settle_base(self, node: Node, base: Node) -> None:
        """Give the array that is assigned into its name: the memory of the base, or of a copy."""
        expr = self.pending.get(base)
        owned = self.owned(base) and self.last_use[base] is node
        if not owned or expr is not None:
            self.names.rename(node, self.names.of(self.named_end(node)))
        if expr is not None and expr.depth and self.roots[base] is base:  # a fresh array that nobody else uses
            self.pending.pop(base)
            self.names.rename(base, self.names.of(node))
            self.statement(base, f"{self.names.of(node)} = {expr.code.text}", expr.reads)
        elif owned:
            self.flush_readers(base)
            self.names.rename(node, self.names.of(base))
        else:
            self._copy(node, base)

    def _copy(self, node: Node, base: Node) -> None:
        self.comment(node)
        text = f"{self.names.of(node)} = {self.code(base).at(ATOM)}.copy()"
        self._lines.append(Line(text, node, self.reads(base)))

    def named_end(self, node: Node) -> Node:
        """The value at the end of a series of assignments into one array, as far as it has a name."""
        end = node
        following = self.last_use[node]
        while following is not None and following.op in (index.SET, index.ADD_AT) and following.inputs[0] is node:
            node = following
            end = node if node in self.hints else end
            following = self.last_use[node]
        return end

    def owned(self, node: Node) -> bool:
        """Whether the memory of a value belongs to it alone and not to the caller."""
        return node.op not in (INPUT, CONSTANT, ITEM) and self.roots[node] is node and node not in self.outputs

    def flush_readers(self, base: Node) -> None:
        """Expressions that wait must read an array before it is overwritten."""
        waiting = [x for x, expr in self.pending.items() if expr.depth]
        for node in [x for x in waiting if any(self.roots[r] is base for r in self.pending[x].reads)]:
            self.flush(node)


def _kind(where: Where) -> str:
    """What a value is to the line that it comes from, as the comment says."""
    return "" if where.of is None else "computed again: " if where.again else "derivative of "


def _items(nodes: Sequence[Node]) -> dict[Node, dict[int, Node]]:
    items: dict[Node, dict[int, Node]] = {}
    for node in nodes:
        if not isinstance(node.aval, Aval):
            items.setdefault(node, {})
        elif node.op is ITEM:
            items[node.inputs[0]][dict(node.params)["index"]] = node
    return items


def with_floats(node: Node, inputs: Sequence[Code]) -> Sequence[Code]:
    """Python's integers as floats beside arrays of floats: NumPy converts them in half of the time."""
    if not any(x.op is CONSTANT and x.aval.weak for x in node.inputs):
        return inputs
    if not node.op.elementwise or node.op.integral or node.op.package or not node.aval.shape:
        return inputs
    kinds = {x.aval.dtype.kind for x in node.inputs if not (x.op is CONSTANT and x.aval.weak)}
    if kinds - {"b"} != {"f"}:
        return inputs
    return [_as_float(x, code) for x, code in zip(node.inputs, inputs, strict=True)]


def _as_argument(key: str, array: str) -> str:
    """What stands in brackets as a value: an index array alone, slices, or several arrays."""
    if key == array:
        return key
    return f"np.s_[{key}]" if ":" in key or "..." in key else f"({key})"


def written_into(node: Node, inputs: Sequence[Code], out: str) -> Code:
    """The call of a ufunc that writes its result into memory that is there."""
    path, arguments = node.op.path, [x.text for x in with_floats(node, inputs)]
    kind = node.inputs[0].aval.dtype.kind
    if kind in "iuf" and (node.op.evaluate, kind == "f") in INSTEAD:
        path, template = INSTEAD[node.op.evaluate, kind == "f"]
        arguments = [text.format(*arguments) for text in template]
    return call(path, [*arguments, f"out={out}"])


INSTEAD = {
    (np.negative, True): ("np.multiply", ("-1.0", "{0}")),
    (np.negative, False): ("np.subtract", ("0", "{0}")),
    (np.isnan, True): ("np.not_equal", ("{0}", "{0}")),
    (np.isinf, True): ("np.equal", ("np.abs({0})", "np.inf")),
    (np.isfinite, True): ("np.less", ("np.abs({0})", "np.inf")),
    (np.signbit, True): ("np.less", ("np.copysign(1.0, {0})", "0")),
    (np.signbit, False): ("np.less", ("{0}", "0")),
}
"""By ufunc, and whether its operand is floating: NumPy 2.4 reads or writes wrong numbers with these where the memory
that they write into does not lie in one piece."""


def _as_float(node: Node, code: Code) -> Code:
    value = node.params[0][1].value if node.op is CONSTANT and node.aval.weak else None
    return spell_number(float(value), True) if type(value) is int and abs(value) <= EXACT else code


def is_numpy(op: Op) -> bool:
    """Whether an operator is the NumPy function of its name, rather than a user's that may be called the same."""
    if op.written:
        return False
    named = reduce(lambda place, part: getattr(place, part, None), op.name.split("."), np)
    home = getattr(op.evaluate, "__module__", None) or ""
    return named is not None and (named is op.evaluate or home.split(".")[0] in ("numpy", "symgrad"))


def _size_code(node: Node) -> Code:
    text = str(node.params[0][1])
    return Code(text, ATOM if text.isidentifier() else COMPARE)


def spell_number(value: Any, weak: bool) -> Code:
    """A number as source; a NumPy scalar keeps its dtype."""
    number = value if weak else value[()]
    plain = number if weak else number.item()
    text = literal(plain)
    assert text is not None, f"{value!r} is no number"
    if weak or isinstance(plain, bool):
        return Code(text, UNARY if text.startswith("-") else ATOM)
    return Code(f"np.{number.dtype.name}({text})")
