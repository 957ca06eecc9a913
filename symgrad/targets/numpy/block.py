"""What a loop over blocks of rows computes of one block, as source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.core.graph import Node
from symgrad.core.sizes import Size
from symgrad.loops.buffer_allocation import Home, fills_rows, goes_straight, is_new, length_of, row_axis, takes_out
from symgrad.loops.halos import plus
from symgrad.loops.loop import Block
from symgrad.loops.regions import PUT, WINDOW, key_at
from symgrad.ops.contract import OUTER
from symgrad.ops.create import FULL
from symgrad.ops.elementwise import MULTIPLY
from symgrad.ops.index_expressions import spell_key
from symgrad.spelling import ATOM, UNARY, Code, call
from symgrad.targets.numpy.body import Body, Line, written_into
from symgrad.targets.numpy.rows import SpanNames, between

if TYPE_CHECKING:
    from symgrad.targets.numpy.loops import Looping


class BlockBody(Body):
    """Writes what is computed of one block: large values into buffers, partial sums to the sums."""

    def __init__(self, outer: Looping, block: Block, inputs: Sequence[str], results: Sequence[str]) -> None:
        graph = block.graph
        self.outer, self.block = outer, block
        outer.names.hints.update(graph.names)
        super().__init__(graph.outputs, outer.names, graph.names, nested=True, quick=True)
        self.constants, self.functions = outer.constants, outer.functions
        self.layout, self.rows = block.layout, str(block.rows)
        self.i, self.j = outer.local("i"), outer.local("j")
        self.spans = SpanNames(outer.local, block)
        self.cut = {x: (name, cut) for x, name, cut in zip(graph.inputs, inputs, block.cuts, strict=True)}
        self.joins = {y: (name, join) for y, name, join in zip(graph.outputs, results, block.joins, strict=True)}
        self.buffers = [outer.local(f"s{i + 1}") for i in range(len(self.layout.buffers))]
        self.residents: dict[int, Node] = {}
        kept = {length_of(x) for x in self.layout.homes}
        self.length = kept.pop() if len(kept) == 1 else None  # of what is kept in buffers, if that is one
        self._name_inputs()

    def _name_inputs(self) -> None:
        taken: set[str] = set()
        for x, (name, cut) in self.cut.items():
            local = name if cut is None else self.outer.local(f"{name}_")
            self.names.given(x, self.names.fresh(local) if cut is not None and local in taken else local)
            taken.add(local)
        for bounds in self.block.bounds.values():
            for node, text in zip(bounds[:2], self.spans.of(bounds.rows), strict=True):
                self.names.given(node, text)
        for ground, y in self.layout.grounds.items():
            self.names.given(ground, self.outer.local(f"{self.joins[y][0]}_"))

    def header(self, buffers: str) -> list[str]:
        """The buffers, as long as what is kept in them."""
        if not self.buffers:
            return []
        names = f"{', '.join(self.buffers)}{',' * (len(self.buffers) == 1)}"
        if self.length is None:
            return [f"{names} = {buffers}"]
        start, stop = self.spans.of(self.length)
        return [f"{names} = (s[: {stop} - {start}] for s in {buffers})"]

    @property
    def block_lines(self) -> list[str]:
        return [line.text for line in self._lines]

    def visit(self, node: Node) -> None:
        if node in self.cut:
            self.take(node)
        elif is_new(node) and (node in self.layout.homes or node in self.layout.grounds):
            self.begin(node)
        elif node.op is PUT:
            self.put(node)
        else:
            super().visit(node)

    def put(self, node: Node) -> None:
        super().put(node)
        if node in self.joins and node not in self.layout.grounds.values():
            self.add_line(node, f"{self.place(node)} = {self.names.of(node)}", ())

    def begin(self, node: Node) -> None:
        """A new array that pieces are put into: in a buffer, or right where the result is."""
        y = self.layout.grounds.get(node)
        if y is None:
            self.vacate(self.layout.homes[node], node)
        self.statement(node, f"{self.names.of(node)} = {self.place(y) if y else self.target(node)}", ())
        if node.op is FULL:
            value, name = node.inputs[0], self.names.of(node)
            for rows in self.left_out(node):
                self.add_line(node, f"{name}[{rows}] = {self.code(value).text}", self.reads(value))
            self.consumed(node)
        if y is None and node in self.joins:
            self.add_line(node, f"{self.place(node)} = {self.names.of(node)}", ())

    def left_out(self, node: Node) -> list[str]:
        """The rows of a new array that no piece is written to at once; all where it is wanted as it begins."""
        put = self.uses[node][0]
        if len(self.uses[node]) > 1 or node in self.joins or put.op is not PUT or not fills_rows(put):
            return ["..."]
        before = ":, " * (row_axis(put) or 0)
        start, stop, _ = map(self.names.of, put.inputs[2:])
        begin, end = self.among(put, start, stop, dict(put.params)["by"]).split(":")
        return [before + rows for rows, some in ((f":{begin}", begin), (f"{end}:", end)) if some]

    def adds(self, node: Node) -> bool:
        return bool(dict(node.params)["adds"]) if node.op is PUT else super().adds(node)

    def spelled_key(self, node: Node, arrays: Sequence[Node]) -> str:
        if node.op is not PUT:
            return super().spelled_key(node, arrays)
        params = dict(node.params)
        start, stop, _ = (self.names.of(x) for x in arrays)
        rows = self.among(node, start, stop, params["by"]).split(":")
        return spell_key(key_at(params["key"], params["place"], *rows), ())

    def goes_straight(self, node: Node, value: Node) -> bool:
        if node.op is not PUT:
            return super().goes_straight(node, value)
        return value in self.pending and goes_straight(node, value)

    def window(self, node: Node, inputs: Sequence[Code]) -> Code:
        """Rows of a value of the block."""
        x, start, stop, _ = inputs
        by, axis = dict(node.params)["by"], dict(node.params)["axis"]
        rows = self.among(node.inputs[0], start.text, stop.text, by)
        return Code(f"{x.at(ATOM)}[{':, ' * axis}{rows}]")

    def among(self, x: Node, start: str, stop: str, by: Size) -> str:
        """Rows from `start` to `stop`, so many places further on, among those that there are of a value."""
        first, last = self.spans.of(length_of(x))
        begin = between(start, by, first)
        return f"{'' if begin == '0' else begin}:{'' if plus(stop, by) == last else between(stop, by, first)}"

    def statement(self, node: Node, text: str, reads: Sequence[Node]) -> None:
        super().statement(node, text, reads)
        self._lines[-1] = self._lines[-1]._replace(text=self.spans.noted(self._lines[-1].text))

    # -- inputs

    def take(self, x: Node) -> None:
        """The block of an input; a copy where it is laid out otherwise."""
        name, cut = self.cut[x]
        if cut is None:
            return
        block = f"{name}[{self.slices(cut.axis, length_of(x), cut.by)}]"
        if x in self.layout.homes:
            self.vacate(self.layout.homes[x], x)
            block = f"np.positive({block}, out={self.target(x)})"
        self._lines.append(Line(self.spans.noted(f"{self.names.of(x)} = {block}  # {x.aval}"), x))
        if x in self.joins:
            self.add_line(x, f"{self.place(x)} = {self.names.of(x)}", ())

    # -- values

    def may_nest(self, node: Node) -> bool:
        if node in self.layout.homes or node in self.joins:
            return False
        return super().may_nest(node)

    def expression(self, node: Node) -> Any:
        home = self.layout.homes.get(node)
        if home is not None:
            self.vacate(home, node)
        return super().expression(node)

    def vacate(self, home: Home, node: Node) -> None:
        """Expressions that wait must read a buffer before it is overwritten; those inside of the node's come first."""
        resident = self.residents.get(home.buffer)
        if resident is not None:
            waiting = [(x, expr.reads) for x, expr in self.pending.items() if expr.reads and x not in node.inputs]
            for x in [x for x, reads in waiting if any(self.roots[r] is resident for r in reads)]:
                self.flush(x)
        self.residents[home.buffer] = node

    def spell(self, node: Node, inputs: Sequence[Code]) -> Code:
        if node.op is WINDOW:
            return self.window(node, inputs)
        target = self.target(node)
        if target is None:
            return super().spell(node, inputs)
        if _is_square(node):  # reads its operand once
            return call("np.square", [inputs[0].text, f"out={target}"])
        if node.op is OUTER:
            column, row = inputs
            return call("np.multiply", [f"{column.at(ATOM)}[:, None]", row.text, f"out={target}"])
        if isinstance(node.op.evaluate, np.ufunc):
            return written_into(node, inputs, target)
        return Code(f"{super().spell(node, inputs).text[:-1]}, out={target})")

    def target(self, node: Node) -> str | None:
        """Where NumPy writes the value: into a buffer, or right into the result."""
        home = self.layout.homes.get(node)
        if home is not None:
            buffer = self.buffers[home.buffer]
            if self.length is None:
                start, stop = self.spans.of(length_of(node))
                buffer = f"{buffer}[: {stop} - {start}]"
            plain = home.order == tuple(range(len(home.order)))
            return buffer if plain else f"{buffer}.transpose({', '.join(map(str, home.order))})"
        if node in self.joins and row_axis(node) is not None and takes_out(node):
            return self.place(node)
        return None

    def slices(self, axis: int, length: int, by: Size = 0) -> str:
        start, stop = self.spans.of(length)
        return ":, " * axis + f"{plus(start, by)}:{plus(stop, by)}"

    def place(self, node: Node) -> str:
        name, axis = self.joins[node]
        return f"{name}[{self.slices(axis, length_of(node))}]"

    def flush(self, node: Node) -> None:
        if node not in self.joins:
            super().flush(node)
        elif row_axis(node) is None:
            expr = self.pending.pop(node)
            self.add_line(node, self.accumulated(node, expr.code), expr.reads)
        else:
            self.store(node)

    def store(self, node: Node) -> None:
        """Rows that are a result."""
        text = self.pending[node].code.text
        direct = node not in self.layout.homes and takes_out(node)
        if self.uses[node] or node in self.layout.homes:
            super().flush(node)
            text = self.names.of(node)
        else:
            self.pending.pop(node)
        if direct and not self.uses[node]:
            self.add_line(node, text, ())
        elif not direct:
            self.add_line(node, f"{self.place(node)} = {text}", ())

    def accumulated(self, node: Node, code: Code) -> str:
        name, join = self.joins[node]
        if join is not np.add and not isinstance(join, int):
            return f"{name} = np.{join.__name__}({name}, {code.text})"
        return f"{name} -= {code.text[1:]}" if _is_negated(code) else f"{name} += {code.text}"

    def add_line(self, node: Node, text: str, reads: Sequence[Node]) -> None:
        self.comment(node)
        self._lines.append(Line(text, node, tuple(reads)))


def _is_negated(code: Code) -> bool:
    return code.text.startswith("-") and code.level == UNARY


def _is_square(node: Node) -> bool:
    """Whether np.square does the same; of booleans it makes integers."""
    return node.op is MULTIPLY and node.inputs[0] is node.inputs[1] and node.aval.dtype != bool
