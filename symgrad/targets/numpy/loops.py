"""Loops over blocks of rows in the generated source: their bodies, and the distribution of blocks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np

from symgrad.core.graph import Aval, Node, is_view
from symgrad.core.shapes import render_tuple
from symgrad.core.sizes import Dim
from symgrad.loops.buffer_allocation import Buffer
from symgrad.loops.loop import LOOP, Block
from symgrad.lowering.placement import Placement
from symgrad.ops.control import SCAN
from symgrad.spelling import ATOM, Call, Code, Name, call, several, spell_param
from symgrad.targets.numpy.block import BlockBody
from symgrad.targets.numpy.control import Control
from symgrad.targets.numpy.float_loops import write_float_loop
from symgrad.targets.numpy.names import Scope
from symgrad.targets.numpy.statements import INDENT, Assign, Evaluate, Statement, Suite, Verbatim, returned

WIDEST = 100


class Looping(Control):
    """Writes programs with loops over blocks of rows."""

    def assign_items(self, node: Node) -> None:
        if node.op is SCAN and self.placed.loops[node].on_numbers:
            write_float_loop(self, node)
            return
        if node.op is not LOOP:
            super().assign_items(node)
            return
        block: Block = dict(node.params)["body"]
        inputs = [self.identifier(x) for x in node.inputs]
        items = [self.placed.items[node].get(i) for i in range(len(block.avals))]
        results = [self.names.fresh("unused") if item is None else self.names.of(item) for item in items]
        views = {name for x, name in zip(node.inputs, inputs, strict=True) if is_view(x)}
        loop = BlockLoop(self.placed.parts[node], self.scope, block, inputs, results, views)
        self.written += loop.statements(node, items)

    def identifier(self, x: Node) -> str:
        """The name of a value, which gets one if it has none yet."""
        expr = self.pending.get(x)
        if expr is not None and not isinstance(expr.code, Name):
            self.flush(x)
        return self.code(x).text


class BlockLoop:
    """The source of one loop.

    It is a function of the part of the rows that a thread takes, which goes through them block by block and returns
    the sums; and the call of that function.
    """

    def __init__(
        self,
        placed: Placement,
        scope: Scope,
        block: Block,
        inputs: Sequence[str],
        results: Sequence[str],
        views: Collection[str],
    ) -> None:
        names = scope.names
        self.block, self.results, self.threads = block, results, scope.threads
        self.body = BlockBody(placed, scope, block, inputs, results, views)
        self.body.write()
        pairs = list(zip(results, block.joins, block.avals, strict=True))
        self.sums = [(name, join, aval) for name, join, aval in pairs if not isinstance(join, int)]
        self.names = [Name(name) for name, _, _ in self.sums]
        self.result = self.names[0] if len(self.names) == 1 else several([name for name, _, _ in self.sums])
        self.share = names.fresh("share")
        self.start, self.stop, self.buffers = (names.local(name) for name in ("start", "stop", "buffers"))
        self.blas = any(x.op.contracts and len(x.inputs) > 1 for x in block.graph.nodes)
        threads, blas = block.threads, block.threads and self.blas
        known = block.step
        self.step = str(known) if isinstance(known, int) else names.fresh("step")
        counts, nbytes = not isinstance(known, int), block.layout.row_bytes
        self.nbytes = names.fresh("row_bytes") if counts and isinstance(nbytes, Dim) else str(nbytes)
        self.rows = self._counted() if counts else None
        used = {
            "_blocks": block.layout.buffers, "_in_parts": threads, "_sums": threads and self.adds_up,
            "_blas_on_one_thread": blas, "_rows_of_block": self.rows,
        }  # fmt: skip
        scope.called.update(name for name, is_used in used.items() if is_used)

    @property
    def adds_up(self) -> bool:
        """Whether partial results are added, and not joined otherwise."""
        return {join for _, join, _ in self.sums} == {np.add}

    def statements(self, node: Node, items: Sequence[Node | None]) -> list[Statement]:
        """Return the statements: results that are filled by blocks, the function, and the joining of its results."""
        says = f"Rows {self.start} to {self.stop}, {self.step} at a time: what is computed of them stays in the cache."
        head = f"def {self.share}({self.start}, {self.stop}):"
        function = Suite([head], [Verbatim([f'"""{says}"""']), *self._begin(), *self._loop()], reads=node.inputs)
        *before, last = self._call()
        whole = replace(last, makes=node, reads=node.inputs)
        return [*self._allocated(items), *self._sizes(), Verbatim(), function, Verbatim(), *before, whole]

    def _counted(self) -> Call:
        """The call that says how many rows a block has, where sizes are symbols."""
        return call("_rows_of_block", [str(self.block.size), self.nbytes, f"{self.block.least:_}", "_BLOCK"])

    def _sizes(self) -> list[Statement]:
        """Return the statements for facts about blocks that are known when the function is called."""
        if self.rows is None:
            return []
        nbytes = Assign((Name(self.nbytes),), Code(str(self.block.layout.row_bytes)))
        return [*([nbytes] if self.nbytes.isidentifier() else []), Assign((Name(self.step),), self.rows)]

    def _allocated(self, items: Sequence[Node | None]) -> list[Statement]:
        block = self.block
        results = zip(items, self.results, block.avals, block.joins, block.graph.outputs, strict=True)
        return [
            Assign((Name(name),), _empty(aval, y in block.layout.columns), note=str(aval), makes=item)
            for item, name, aval, join, y in results
            if isinstance(join, int)
        ]

    def _begin(self) -> list[Statement]:
        """Return the statements that initialise the sums."""
        tables = self.body.tables
        starts = [tables.get(name) or _start_of(join, aval) for name, join, aval in self.sums]
        if len(set(starts)) == 1 and not tables:
            return [Assign(self.names, Code(starts[0]))]
        return [Assign((name,), Code(start)) for name, start in zip(self.names, starts, strict=True)]

    def _loop(self) -> list[Statement]:
        return [self._over_blocks(), *([returned(self.result)] if self.sums else [])]

    def _over_blocks(self) -> Statement:
        body, step, halo = self.body, self.step, self.block.layout.halo
        i, j = body.extents.i, body.extents.j
        statements = [*body.beginning(self.buffers), *body.written]
        if not self.block.layout.buffers:
            end = Assign((Name(j),), call("min", [f"{i} + {step}", self.stop]))
            return Suite([f"for {i} in range({self.start}, {self.stop}, {step}):"], [end, *statements])
        specs = list(map(_spec_of, self.block.layout.buffers))
        groups = [(spec, len(list(alike))) for spec, alike in groupby(specs)]
        buffers = [spec if n == 1 else f"*[{spec}] * {n}" for spec, n in groups]
        more = [f"halo={halo}"] if body.gives_whole else []
        opening = f"for {i}, {j}, {body.each(self.buffers)} in _blocks("
        return Suite(_on_lines(opening, [self.start, self.stop, step, self.nbytes, *buffers, *more], "):"), statements)

    def _call(self) -> list[Assign | Evaluate]:
        """The call of the function for all rows, on one thread or on several."""
        n = str(self.block.size)
        if not self.block.threads:
            parts = call(self.share, ["0", n])
            return [Assign((self.result,), parts) if self.sums else Evaluate(parts)]
        threads = [] if self.threads is None else [f"threads={self.threads}"]
        arguments = [self.share, n, self.step, *threads]
        within = ["within=_blas_on_one_thread"] if self.blas else []
        return self._joined(call("_in_parts", [*arguments, *within]))

    def _joined(self, parts: Call) -> list[Assign | Evaluate]:
        if not self.sums:
            return [Evaluate(parts)]
        joins = [join for _, join, _ in self.sums]
        if self.adds_up:
            return [Assign((self.result,), call("_sums", [parts.text]))]
        if len(joins) == 1:
            return [Assign(self.names, _join(joins[0], parts))]
        zipped = call("zip", [f"*{parts.text}"])
        joined = [Assign((name,), _join(join, name)) for name, join in zip(self.names, joins, strict=True)]
        return [Assign((self.result,), zipped), *joined]


def _spec_of(buffer: Buffer) -> str:
    """Return the runtime's description of a buffer."""
    parts = [render_tuple(buffer.shape), str(buffer.at), _dtype_text(buffer.dtype)]
    return f"({', '.join([*parts, *([str(buffer.order)] if buffer.order else [])])})"


def _on_lines(opening: str, arguments: Sequence[str], closing: str) -> list[str]:
    """A call, on several lines where one is too long, as formatters lay it out."""
    line = ", ".join(arguments)
    if len(opening) + len(line) + len(closing) <= WIDEST:
        return [f"{opening}{line}{closing}"]
    lines = [line] if len(line) <= WIDEST else [f"{argument}," for argument in arguments]
    return [opening, *(INDENT + line for line in lines), closing]


def _empty(aval: Aval, columns: bool) -> Code:
    """The array that a result is written into."""
    dtype = [] if aval.dtype == float else [f"np.{aval.dtype.name}"]
    shape = aval.shape[0] if aval.ndim == 1 else aval.shape[::-1] if columns else aval.shape
    made = call("np.empty", [spell_param(shape), *dtype])
    return Code(f"{made.text}.T", ATOM) if columns else made


@cache  # NumPy puts the name together each time
def _dtype_text(dtype: np.dtype) -> str:
    return {"float64": "float", "bool": "bool"}.get(dtype.name, f"np.{dtype.name}")


def _start_of(join: Any, aval: Aval) -> str:
    """Return the identity of a ufunc."""
    if join.identity is not None:
        zero = aval.dtype.type(join.identity)
        return "-np.inf" if join is np.logaddexp else repr(zero.item())
    largest = join in (np.minimum, np.fmin)
    if aval.dtype.kind in "fc":
        end = "np.inf" if largest else "-np.inf"
        return end if aval.dtype.kind == "f" else f"complex({end}, {end})"
    if aval.dtype.kind == "b":
        return repr(largest)
    return f"np.iinfo(np.{aval.dtype.name}).{'max' if largest else 'min'}"


def _join(join: np.ufunc, parts: Code) -> Call:
    return call("sum" if join is np.add else f"np.{join.__name__}.reduce", [parts.text])
