"""Loops over blocks of rows in the generated source: what is computed of a block, and how blocks are shared out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np

from symgrad.core.graph import Aval, Node
from symgrad.core.shapes import render_tuple
from symgrad.loops.loop import LOOP, Block
from symgrad.targets.numpy.block import BlockBody
from symgrad.targets.numpy.body import Body, Line

INDENT = "    "
WIDEST = 100


class Looping(Body):
    """Writes programs with loops."""

    def __init__(self, *args: Any, threads: int | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.threads = threads
        self.preamble: set[str] = set()
        self._locals: dict[str, str] = {}
        self._loops: dict[Node, Loop] = {}

    def local(self, name: str) -> str:
        """A name for the same purpose in all loops."""
        return self._locals.get(name) or self._locals.setdefault(name, self.names.fresh(name))

    def assign_items(self, node: Node) -> None:
        if node.op is not LOOP:
            super().assign_items(node)
            return
        block: Block = dict(node.params)["body"]
        inputs = [self.identifier(x) for x in node.inputs]
        items = [self.items[node].get(i) for i in range(len(block.avals))]
        results = [self.names.fresh("unused") if item is None else self.names.of(item) for item in items]
        loop = self._loops[node] = Loop(self, block, inputs, results)
        for item, line in loop.allocated(items):
            self._lines.append(Line(line, item))
        *before, last = loop.lines()
        for line in before:
            self._lines.append(Line(line, None, node.inputs))
        self._lines.append(Line(last, node, node.inputs))
        self.preamble.update(loop.preamble)

    @property
    def origins(self) -> list[tuple[str, Node]]:
        found = []
        for text, node in super().origins:  # for the call of a loop what it computes of a block
            found += self._loops[node].body.origins if node in self._loops else [(text, node)]
        return found

    def identifier(self, x: Node) -> str:
        """The name of a value, which gets one if it has none yet."""
        expr = self.pending.get(x)
        if expr is not None and not expr.code.text.isidentifier():
            self.flush(x)
        return self.code(x).text


class Loop:
    """The source of one loop.

    It is a function of the part of the rows that a thread takes, which goes through them block by block and returns
    the sums; and the call of that function.
    """

    def __init__(self, outer: Looping, block: Block, inputs: Sequence[str], results: Sequence[str]) -> None:
        self.outer, self.block, self.results = outer, block, results
        self.body = BlockBody(outer, block, inputs, results)
        self.body.write()
        self.sums = [name for name, join in zip(results, block.joins, strict=True) if not isinstance(join, int)]
        self.share = outer.names.fresh("share")
        self.start, self.stop, self.buffers = (outer.local(name) for name in ("start", "stop", "buffers"))
        self.blas = any(x.op.contracts and len(x.inputs) > 1 for x in block.graph.nodes)
        self.threaded = block.threads
        self.preamble = {"_scratch"} if block.layout.buffers else set()
        if self.threaded:
            self.preamble |= {"_in_parts"} | ({"_blas_on_one_thread"} if self.blas else set())

    def allocated(self, items: Sequence[Node | None]) -> list[tuple[Node | None, str]]:
        """The results that are filled block by block."""
        return [
            (item, f"{name} = np.empty({_shape(aval)}{_dtype(aval)})  # {aval}")
            for item, name, aval, join in zip(items, self.results, self.block.avals, self.block.joins, strict=True)
            if isinstance(join, int)
        ]

    def lines(self) -> list[str]:
        rows = self.block.layout.rows
        says = f'"""Rows {self.start} to {self.stop}, {rows} at a time: what is computed of them stays in the cache."""'
        body = [says, *self._start(), *self._loop()]
        return ["", f"def {self.share}({self.start}, {self.stop}):", *_indented(body), "", *self._call()]

    def _start(self) -> list[str]:
        """Where the sums start."""
        starts = [
            _start_of(join, aval)
            for join, aval in zip(self.block.joins, self.block.avals, strict=True)
            if not isinstance(join, int)
        ]
        if not starts:
            return []
        return (
            [f"{' = '.join(self.sums)} = {starts[0]}"]
            if len(set(starts)) == 1
            else [f"{name} = {start}" for name, start in zip(self.sums, starts, strict=True)]
        )

    def _loop(self) -> list[str]:
        rows = self.block.layout.rows
        i, j = self.body.i, self.body.j
        lines = [*self.body.header(self.buffers), *self.body.block_lines]
        body = [f"{j} = min({i} + {rows}, {self.stop})", *self.body.spans.lines(lines), *lines]
        loop = [f"for {i} in range({self.start}, {self.stop}, {rows}):", *_indented(body)]
        if self.block.layout.buffers:
            loop = [*self._scratch(), *_indented(loop)]
        return [*loop, f"return {', '.join(self.sums)}"] if self.sums else loop

    def _scratch(self) -> list[str]:
        """The call for the buffers, on several lines where one is too long."""
        specs = [f"({render_tuple(b.shape)}, {b.at}, {_dtype_text(b.dtype)})" for b in self.block.layout.buffers]
        groups = [(spec, len(list(alike))) for spec, alike in groupby(specs)]
        arguments = [spec if n == 1 else f"*[{spec}] * {n}" for spec, n in groups]
        arguments.insert(0, str(self.block.layout.length))
        line = f"with _scratch({', '.join(arguments)}) as {self.buffers}:"
        if len(line) <= WIDEST:
            return [line]
        return ["with _scratch(", *(f"{INDENT}{argument}," for argument in arguments), f") as {self.buffers}:"]

    def _call(self) -> list[str]:
        n, rows = str(self.block.size), self.block.layout.rows
        names = ", ".join(self.sums)
        if not self.threaded:
            return [f"{names} = {self.share}(0, {n})" if names else f"{self.share}(0, {n})"]
        threads = "" if self.outer.threads is None else f", threads={self.outer.threads}"
        call = "_blas_on_one_thread(_in_parts, " if self.blas else "_in_parts("
        return self._joined(names, f"{call}{self.share}, {n}, {rows}{threads})")

    def _joined(self, names: str, parts: str) -> list[str]:
        joins = [join for join in self.block.joins if not isinstance(join, int)]
        if not joins:
            return [parts]
        if len(joins) == 1:
            return [f"{names} = {_join(joins[0], parts)}"]
        if set(joins) == {np.add}:
            return [f"{names} = map(sum, zip(*{parts}))"]
        joined = [f"{name} = {_join(join, name)}" for name, join in zip(self.sums, joins, strict=True)]
        return [f"{names} = zip(*{parts})", *joined]


def _indented(lines: Sequence[str]) -> list[str]:
    return [INDENT + line if line else "" for line in lines]


def _shape(aval: Aval) -> str:
    return str(aval.shape[0]) if aval.ndim == 1 else render_tuple(aval.shape)


def _dtype(aval: Aval) -> str:
    return "" if aval.dtype == float else f", np.{aval.dtype.name}"


@cache  # NumPy puts the name together each time
def _dtype_text(dtype: np.dtype) -> str:
    return {"float64": "float", "bool": "bool"}.get(dtype.name, f"np.{dtype.name}")


def _start_of(join: Any, aval: Aval) -> str:
    """What a ufunc leaves as it is."""
    if join.identity is not None:
        zero = aval.dtype.type(join.identity)
        return "-np.inf" if join is np.logaddexp else repr(zero.item())
    largest = join in (np.minimum, np.fmin)
    if aval.dtype.kind == "f":
        return "np.inf" if largest else "-np.inf"
    if aval.dtype.kind == "b":
        return repr(largest)
    return f"np.iinfo(np.{aval.dtype.name}).{'max' if largest else 'min'}"


def _join(join: Any, parts: str) -> str:
    return f"sum({parts})" if join is np.add else f"np.{join.__name__}.reduce({parts})"
