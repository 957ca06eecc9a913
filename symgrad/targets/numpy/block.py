"""Bodies of loops over blocks of rows, as source."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from symgrad.analysis.cost import likely, rows_scale
from symgrad.core.graph import Aval, Node
from symgrad.core.shapes import product
from symgrad.core.sizes import Size, is_rows
from symgrad.loops.buffer_allocation import (
    fills_rows,
    is_new,
    length_of,
    row_axis,
    takes_out,
)
from symgrad.loops.loop import Block
from symgrad.loops.row_access import READ_ROWS, WRITE_ROWS, key_at
from symgrad.lowering.placement import Placement, Write
from symgrad.ops.contract import MATMUL, OUTER
from symgrad.ops.create import FULL
from symgrad.ops.elementwise import MULTIPLY
from symgrad.ops.index_expressions import spell_key
from symgrad.spelling import ATOM, Call, Code, Name, call, several, spell_dtype, spell_param
from symgrad.targets.numpy.body import Expr
from symgrad.targets.numpy.control import Control
from symgrad.targets.numpy.expressions import ONE_THREAD, written_into
from symgrad.targets.numpy.extents import Extents
from symgrad.targets.numpy.names import Scope
from symgrad.targets.numpy.statements import Assign, Evaluate, Statement, added

COUNTS = "tk"  # of iterations: i and j are the rows of the block
NAMED = 24  # so many buffers have names of their own


class BlockBody(Control):
    """Writes the body of a block: large values into buffers, partial sums into the sums."""

    def __init__(
        self,
        placed: Placement,
        scope: Scope,
        block: Block,
        inputs: Sequence[str],
        results: Sequence[str],
        views: Collection[str],
    ) -> None:
        graph = block.graph
        scope.names.hints.update(graph.names)
        super().__init__(placed, replace(scope, counts=COUNTS), nested=True, quick=True)
        self.block, self.layout = block, block.layout
        self.extents = Extents(self.names, block)
        self.cut = {x: (name, cut) for x, name, cut in zip(graph.inputs, inputs, block.cuts, strict=True)}
        self.joins = {y: (name, join) for y, name, join in zip(graph.outputs, results, block.joins, strict=True)}
        self.views = {x for x, name in zip(graph.inputs, inputs, strict=True) if name in views}
        self.tables: dict[str, str] = {}  # sums of rows by their names, and how they begin
        kept = {length_of(x) for x in self.placed.assignments}
        self.length = kept.pop() if len(kept) == 1 else None  # of what is kept in buffers, if that is one
        self.buffers = self._name_buffers(len(self.placed.buffers))
        self._name_inputs()

    def _name_buffers(self, n: int) -> list[str]:
        """Name each buffer, or the list of them where that is clearer."""
        if n <= NAMED:
            return [self.names.local(f"s{i + 1}") for i in range(n)]
        every = self.names.local("buffers" if self.length is None else "s")
        return [f"{every}[{i}]" for i in range(n)]

    def _name_inputs(self) -> None:
        taken: set[str] = set()
        self.fixed |= {x for x, (_, cut) in self.cut.items() if cut is None}
        for x, (name, cut) in self.cut.items():
            local = name if cut is None else self.names.local(f"{name}_")
            self.names.given(x, self.names.fresh(local) if cut is not None and local in taken else local)
            taken.add(local)
        for bounds in self.block.bounds.values():
            extent = self.extents.of(bounds.rows)
            self.names.given(bounds.start, extent.start)
            self.names.given(bounds.stop, extent.stop)
        for destination, y in self.layout.destinations.items():
            self.names.given(destination, self.names.local(f"{self.joins[y][0]}_"))

    @property
    def gives_whole(self) -> bool:
        """Whether the loop gives whole buffers, some of which are longer than the block."""
        return self.length != self.block.rows

    def each(self, buffers: str) -> str:
        """Return the buffers that a loop gives."""
        if self.length is not None and self.gives_whole:
            return buffers
        if len(self.buffers) > NAMED:
            return self.buffers[0].partition("[")[0]
        text = several(self.buffers).text
        return text if len(self.buffers) == 1 else f"({text})"

    def beginning(self, buffers: str) -> list[Statement]:
        """Return the statements for the bounds of rows that the body mentions, and for buffers cut before anything is
        computed.
        """
        first: list[Statement] = []
        if self.length is not None and self.gives_whole:
            each, named = self.names.local("s"), len(self.buffers) <= NAMED
            value = f"{each}[: {self.extents.of(self.length).size}] for {each} in {buffers}"
            value = f"({value})" if named else f"[{value}]"
            first = [Assign((several(self.buffers) if named else Name(each),), Code(value))]
        return [*self.extents.definitions([*first, *self.written]), *first]

    def visit(self, node: Node) -> None:
        if node in self.cut:
            self.take(node)
        elif is_new(node) and (node in self.placed.assignments or node in self.layout.destinations):
            self.begin_array(node)
        elif is_new(node) and any(map(self.is_table, self.placed.uses[node])):
            self.pending[node] = Expr(self.expression(node).code, 0, ())  # not in the loop, but where the sum begins
        elif node.op is WRITE_ROWS:
            self.put(node)
        else:
            super().visit(node)

    def like(self, placed: Placement, scope: Scope) -> Control:
        return Control(placed, scope, self.nested, self.quick)

    def assign_items(self, node: Node) -> None:
        super().assign_items(node)
        for item in self.placed.items[node].values():
            if item not in self.joins:
                continue
            if row_axis(item) is None:  # a sum that the loop adds up
                self.written.append(self.accumulated(item, Expr(self.name(item), 0, (item,))))
            else:
                self.written.append(self.stored(item, self.name(item)))

    def is_table(self, node: Node) -> bool:
        """Whether a value is a sum of rows that are added under an index array."""
        return self.placed.writes.get(node) is Write.SUM

    def put(self, node: Node) -> None:
        super().put(node)
        if node in self.joins and node not in self.layout.destinations.values() and not self.is_table(node):
            self.write_down(node, self.stored(node, self.name(node)))

    def settle_base(self, node: Node, base: Node) -> None:
        if not self.is_table(node):
            super().settle_base(node, base)
            return
        name, _ = self.joins[node]
        self.tables[name] = self.code(base).text
        self.names.given(node, name)

    def begin_array(self, node: Node) -> None:
        """Begin a new array for pieces: in a buffer, or in place of the result."""
        y = self.layout.destinations.get(node)
        self.assign(node, self.name(node), self.place(y) if y else self._begun(node), ())
        if node.op is FULL:
            value, name = node.inputs[0], self.names.of(node)
            for rows in self.left_out(node):
                self.write_down(node, Assign((Code(f"{name}[{rows}]"),), self.code(value), makes=node))
            self.consumed(node)
        if y is None and node in self.joins:
            self.write_down(node, self.stored(node, self.name(node)))

    def _begun(self, node: Node) -> Code:
        """The memory of a new array in a buffer, which may be missing."""
        self.scope.called.add("_array")
        dtype = [] if node.aval.dtype == float else [spell_dtype(node.aval.dtype)]
        return call("_array", [self.buffer(node).text, spell_param(node.aval.shape), *dtype])

    def left_out(self, node: Node) -> list[str]:
        """The rows of a new array that no piece is written to at once; all where it is wanted as it begins."""
        put = self.placed.uses[node][0]
        if len(self.placed.uses[node]) > 1 or node in self.joins or put.op is not WRITE_ROWS or not fills_rows(put):
            return ["..."]
        before = ":, " * (row_axis(put) or 0)
        begin, end = self.among(put, put)
        return [before + rows for rows, some in ((f":{begin}", begin), (f"{end}:", end)) if some]

    def adds(self, node: Node) -> bool:
        return bool(dict(node.params)["adds"]) if node.op is WRITE_ROWS else super().adds(node)

    def spelled_key(self, node: Node, arrays: Sequence[Node]) -> str:
        if node.op is not WRITE_ROWS:
            return super().spelled_key(node, arrays)
        params = dict(node.params)
        return spell_key(key_at(params["key"], params["place"], *self.among(node, node)), ())

    def among(self, rows: Node, x: Node) -> tuple[str, str]:
        """Return the bounds of the rows that a node reads or puts, relative to the rows of a value."""
        start = rows.inputs[-3]
        bounds = next(bounds for bounds in self.block.bounds.values() if bounds.start is start)
        return self.extents.of(bounds.rows).among(self.extents.of(length_of(x)), dict(rows.params)["by"])

    def note(self, aval: Aval) -> str:
        return self.extents.note(aval)

    # -- inputs

    def take(self, x: Node) -> None:
        """The block of an input; a copy where it is laid out otherwise."""
        name, cut = self.cut[x]
        if cut is None:
            return
        block = Code(f"{name}[{self.slices(cut.axis, length_of(x), cut.by)}]")
        if x in self.placed.assignments:
            block = call("np.positive", [block.text]).into(self.buffer(x))
        self.written.append(Assign((self.name(x),), block, note=self.note(x.aval), makes=x))
        if x in self.joins:
            self.write_down(x, self.stored(x, self.name(x)))

    # -- values

    def may_nest(self, node: Node) -> bool:
        return node not in self.joins and super().may_nest(node)

    def spell(self, node: Node, inputs: Sequence[Code]) -> Code:
        if node.op is READ_ROWS:
            begin, end = self.among(node, node.inputs[0])
            return Code(f"{inputs[0].at(ATOM)}[{':, ' * dict(node.params)['axis']}{begin}:{end}]")
        target = self.target(node)
        if target is None:
            return super().spell(node, inputs)
        if _is_square(node):  # reads its operand once
            return call("np.square", [inputs[0].text]).into(target)
        if node.op is OUTER:
            column, row = inputs
            return call("np.multiply", [f"{column.at(ATOM)}[:, None]", row.text]).into(target)
        piece = self.is_one_piece(node)
        if isinstance(node.op.evaluate, np.ufunc) and not (node.op is MATMUL and piece):
            return written_into(node, inputs, target, gaps=not piece)
        code = super().spell(node, inputs)
        return code.into(target) if isinstance(code, Call) else written_into(node, inputs, target)

    def may_start_threads(self, node: Node) -> bool:
        """Whether BLAS may start threads: not where threads share blocks, nor for short blocks."""
        step = self.block.step
        alone = not isinstance(step, int) or (step > ONE_THREAD and not self.block.threads)
        return alone and super().may_start_threads(node)

    def indices(self, node: Node) -> float:
        x, i = node.inputs
        if x in self.views:  # which each block might copy
            return 0
        sizes = [self.block.size if is_rows(n) else n for n in i.aval.shape]
        return likely(product(sizes)) * rows_scale(self.block.size)

    def target(self, node: Node) -> Code | None:
        """Return the memory into which NumPy writes a value: a buffer, or rows of the result."""
        if node in self.placed.assignments:
            return self.buffer(node)
        if node in self.joins and row_axis(node) is not None and takes_out(node):
            return self.place(node)
        return None

    def is_one_piece(self, node: Node) -> bool:
        """Whether the rows that NumPy writes are contiguous."""
        if node in self.placed.assignments:
            return self.placed.buffers[self.placed.assignments[node]].is_plain
        return row_axis(node) == 0 and node not in self.layout.columns

    def buffer(self, node: Node) -> Code:
        """The memory of a buffer for a value."""
        number = self.placed.assignments[node]
        if self.length is not None:
            return Code(self.buffers[number])
        before = ":, " * self.placed.buffers[number].rows
        return Code(f"{self.buffers[number]}[{before}: {self.extents.of(length_of(node)).size}]")

    def slices(self, axis: int, length: int, by: Size = 0) -> str:
        return ":, " * axis + self.extents.of(length).rows(by)

    def place(self, node: Node) -> Code:
        """The rows of a result."""
        name, axis = self.joins[node]
        return Code(f"{name}[{self.slices(axis, length_of(node))}]")

    def stored(self, node: Node, value: Code) -> Assign:
        return Assign((self.place(node),), value, makes=node)

    def flush(self, node: Node) -> None:
        if node not in self.joins:
            super().flush(node)
        elif row_axis(node) is None:
            expr = self.pending.pop(node)
            self.write_down(node, self.accumulated(node, expr))
        else:
            self.store(node)

    def store(self, node: Node) -> None:
        """Rows that are a result."""
        code = self.pending[node].code
        direct = node not in self.placed.assignments and takes_out(node)
        if self.placed.uses[node] or node in self.placed.assignments:
            super().flush(node)
            code = self.name(node)
        else:
            self.pending.pop(node)
        if direct and not self.placed.uses[node]:
            self.write_down(node, Evaluate(code, makes=node))
        elif not direct:
            self.write_down(node, self.stored(node, code))

    def accumulated(self, node: Node, expr: Expr) -> Assign:
        """Return the statement that adds to a sum, or joins with another partial result."""
        name, join = self.joins[node]
        if join is np.add or isinstance(join, int):
            return added(Name(name), expr.code, makes=node)
        joined = call(f"np.{join.__name__}", [name, expr.code.text])
        return Assign((Name(name),), joined, makes=node)


def _is_square(node: Node) -> bool:
    """Whether np.square does the same; of booleans it makes integers."""
    return node.op is MULTIPLY and node.inputs[0] is node.inputs[1] and node.aval.dtype != bool
