"""A placement as text, for people to read: one line a value, and beside it the memory that was chosen for it.

Everything is decided before; a listing reads a `Placement` and decides nothing. What one iteration, or a block of rows,
reads of an array is a window: ``x[i]`` and ``x[i:j]``.

>>> import numpy as np, symgrad as sg
>>> from symgrad.lowering.placing import place
>>> def f(x):
...     y = np.sin(x)
...     y[0] = 1.0
...     return y
>>> graph = sg.trace(f, "float64[3]").graph
>>> print(listed(graph, place(graph.outputs)))
y = sin(x)             float64[3]  new
%3 = y with [0] = 1.0  float64[3]  in y
return %3
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from symgrad.analysis.aliases import shares_memory
from symgrad.analysis.values import number as known_number
from symgrad.core.graph import CONSTANT, INPUT, ITEM, Aval, Graph, Node, is_token
from symgrad.core.listing import hinted, node_names, number, types
from symgrad.core.sizes import Size
from symgrad.loops.buffer_allocation import Buffer
from symgrad.loops.halos import plus
from symgrad.loops.loop import LOOP, Block, Cut
from symgrad.loops.row_access import READ_ROWS, WRITE_ROWS
from symgrad.lowering.names import LETTERS
from symgrad.lowering.placement import BranchPlacement, Carry, LoopPlacement, Placement, Step, Write
from symgrad.ops.checks import CHECK
from symgrad.ops.control import UNBOUNDED
from symgrad.ops.control_parts import Loop, branch_of, loop_of
from symgrad.ops.index import ADD_AT, SET
from symgrad.ops.index_expressions import spell_key
from symgrad.report.mathematics import on_its_inputs
from symgrad.spelling import Code

INDENT = "    "
WIDEST = 64  # columns of a line up to which what follows stands below each other
BESIDE = {
    Step.NEW: "new in each iteration",
    Step.ASSIGNED: "assigned in place",
    Step.UPDATED: "written over",
}


def listed(graph: Graph, placed: Placement) -> str:
    """Return the placement of a graph as text; copies that the caller gets are named in the last line."""
    names = node_names(graph)
    suite = _Suite(placed, names)
    returned = [f"copy of {names[y]}" if y in placed.copied else names[y] for y in placed.results if not is_token(y)]
    return "\n".join([*_aligned([*suite.lines()]), f"return {', '.join(returned)}"])


class _Line(NamedTuple):
    """A value: how it is computed, its dtype and shape, its memory, and its indentation."""

    made: str
    aval: str = ""
    memory: str = ""
    depth: int = 0


def _aligned(lines: Sequence[_Line]) -> Iterator[str]:
    texts = [f"{line.depth * INDENT}{line.made}" for line in lines]
    pairs = list(zip(texts, lines, strict=True))
    width = max((len(text) for text, line in pairs if line.aval and len(text) <= WIDEST), default=0)
    second = max((len(line.aval) for line in lines if line.memory), default=0)
    for text, line in pairs:
        yield f"{text:{width}}  {line.aval:{second}}  {line.memory}".rstrip() if line.aval else text


@dataclass
class _Suite:
    """The lines of one suite."""

    placed: Placement
    names: Mapping[Node, str]
    within: str = ""
    depth: int = 0
    rows: Size | None = None  # of a block
    packed: Mapping[Node, str] = field(default_factory=dict)  # inputs of a block that are copied into buffers
    targets: Mapping[Node, str] = field(default_factory=dict)  # where results of a block lie in those of the loop

    def lines(self) -> Iterator[_Line]:
        if self.placed.buffers:
            shapes = [Aval(self._shape(buffer), buffer.dtype) for buffer in self.placed.buffers]
            named = [f"{name}: {aval}" for name, aval in zip(self._buffers(), shapes, strict=True)]
            yield self.line(f"buffers {', '.join(named)}")
        for x, rows in self.packed.items():
            yield self.line(f"{self.names[x]} = copy of {rows}", types(x), self._memory(x))
        released: set[Node] = set()
        for node in self.placed.nodes:
            yield from self._of(node)
            last = {self.placed.roots[x] for x in (node, *node.inputs)} - released
            gone = [x for x in last & self.placed.released if self.placed.last_use[x] is node]
            released.update(gone)
            if gone:
                yield self.line(f"release {', '.join(self.names[x] for x in sorted(gone, key=lambda x: x.id))}")

    def line(self, made: str, aval: str = "", memory: str = "") -> _Line:
        return _Line(made, aval, memory, self.depth)

    def _buffers(self) -> list[str]:
        return [f"s{k + 1}" for k in range(len(self.placed.buffers))]

    def _shape(self, buffer: Buffer) -> tuple[Size, ...]:
        """Return the shape of a buffer; the rows of a block are not among its sizes."""
        rows = () if self.rows is None else (self.rows,)
        return (*buffer.shape[: buffer.at], *rows, *buffer.shape[buffer.at :])

    def _of(self, node: Node) -> Iterator[_Line]:
        """Yield the lines of a node; numbers stand where they are used, and results behind what has several."""
        is_known = node.op is INPUT or number(node) is not None or (is_token(node) and node.op is not CHECK)
        if is_known or (node.op is ITEM and node.inputs[0] in self.placed.items):
            return
        if node in self.placed.loops:
            yield from self._loop(node, loop_of(node), self.placed.loops[node])
        elif node in self.placed.branches:
            yield from self._branch(node, self.placed.branches[node])
        elif node.op is LOOP:
            yield from self._block(node, dict(node.params)["body"])
        elif node.op is CHECK:
            yield self.line(self._spelled(node))
        elif isinstance(node.aval, Aval):
            yield self.line(f"{self.names[node]} = {self._spelled(node)}", types(node), self._memory(node))
        else:
            yield self.line(f"{self._results(node)}{self._spelled(node)}")

    def _spelled(self, node: Node) -> str:
        """Return a value as an expression in the names of others."""
        inputs, params = [self._read(x) for x in node.inputs], dict(node.params)
        if node.op is SET or node.op is ADD_AT:
            key = spell_key(params["key"], inputs[2:])
            return f"{inputs[0].text} with [{key}] {'=' if node.op is SET else '+='} {inputs[1].text}"
        if node.op is WRITE_ROWS:
            return f"{inputs[0].text} with rows {'+=' if params['adds'] else '='} {inputs[1].text}"
        if node.op is READ_ROWS:
            return f"rows of {inputs[0].text}"
        if node.op is CHECK:
            return f"{params['action']} if {inputs[1].text}"
        return on_its_inputs(node, self._read).text

    def _read(self, x: Node) -> Code:
        return Code(self.names[x]) if number(x) is None else on_its_inputs(x, self._read)

    def _results(self, node: Node) -> str:
        """Return the names of the results of a node that has several, as the targets of an assignment."""
        items = [self.names[x] for _, x in sorted(self.placed.items[node].items()) if not is_token(x)]
        return f"{', '.join(items)} = " if items else ""

    def _memory(self, node: Node) -> str:
        """Return the memory of a value in words."""
        placed, names = self.placed, self.names
        if node in self.targets:
            return self.targets[node]
        if node in placed.assignments:
            return f"into {self._buffers()[placed.assignments[node]]}"
        if node in placed.writes:
            base = names[node.inputs[0]]
            return {
                Write.HERE: f"in {base}",
                Write.COPY: f"in a copy of {base}",
                Write.ANEW: f"in {base}, made for it",
                Write.SUM: "added to the sum",
            }[placed.writes[node]]
        if not node.aval.shape:
            return ""
        if node in placed.updates:
            return f"over {names[placed.updates[node]]}"
        if node in placed.straight:
            return "where it is put"
        if node in placed.anew:
            return "made anew for each that begins with it"
        if shares_memory(node):
            return f"window of {names[placed.roots[node]]}"
        if node.op is CONSTANT:
            return "part of the program"
        return "new"

    # ---- what has suites of its own

    def _inner(self, node: Node, graph: Graph, placed: Placement, known: Mapping[Node, str], part: str = "") -> _Suite:
        within = f"{self.within}{node.id}.{part}"
        return _Suite(placed, {**node_names(graph, within), **known}, within, self.depth + 1)

    def _letters(self, graph: Graph) -> Iterator[str]:
        """Yield names for indices that no value has."""
        taken = {*self.names.values(), *(hinted(graph, x) for x in graph.nodes)}
        return (name for k in count(1) for x in LETTERS if (name := x * k) not in taken)

    def _loop(self, node: Node, loop: Loop, plan: LoopPlacement) -> Iterator[_Line]:
        index = loop.index_size or next(self._letters(loop.graph))
        graph, body, n = loop.body.body, plan.body, len(loop.carry)
        _, xs, consts = loop.split([*body.given[:n], *body.given[n + 1 :]])
        known = {body.given[n]: index}
        known |= {x: f"{self.names[of.source]}[{index}]" for x, of in zip(xs, loop.xs, strict=True)}
        outside = [self.names[of.source] for of in loop.consts]
        known |= dict(zip(consts, outside, strict=True))
        inner = self._inner(node, graph, body, known)
        is_counted = known_number(loop.length) != UNBOUNDED
        counted = f"range({self.names[loop.length]})" if is_counted else "0, 1, ..."
        counted = f"reversed({counted})" if loop.reverse else counted
        yield self.line(f"{self._results(node)}for {index} in {counted}:")
        for (start, _, _), x, carry in zip(loop.carry, body.given[:n], plan.carries, strict=True):
            if carry is not None:
                text = f"carry {inner.names[x]} = {self.names[start]}"
                yield inner.line(text, types(x), _of_carry(carry) if x.aval.shape else "")
        if plan.test is not None and loop.test is not None:
            names = [*(inner.names[x] for x in body.given[:n]), index, *outside]
            yield from self._test(node, loop.test.body, plan.test, names)
        yield from inner.lines()
        for x, y, carry in zip(body.given, body.results, plan.carries, strict=False):
            if carry is not None:
                yield inner.line(f"next {inner.names[x]} = {inner.names[y]}")
        for item, stack in plan.stacks.items():
            row, ys = inner.names[stack.y], self.names[item]
            copied = "a copy of " if stack.copied else ""
            text = f"append {copied}{row} to the list {ys}" if stack.listed else f"{ys}[{index}] = {row}"
            yield inner.line(text)

    def _test(self, node: Node, graph: Graph, test: Placement, names: Sequence[str]) -> Iterator[_Line]:
        """Yield the lines of the condition of a loop, which stand before those of an iteration."""
        suite = self._inner(node, graph, test, dict(zip(test.given, names, strict=True)), "test.")
        yield from suite.lines()
        yield suite.line(f"break unless {suite.names[test.results[0]]}")

    def _branch(self, node: Node, plan: BranchPlacement) -> Iterator[_Line]:
        branch = branch_of(node)
        names = [self.names[x] for x in branch.operands]
        sides = ((f"if {self.names[branch.pred]}", branch.then, plan.then), ("else", branch.other, plan.other))
        for head, region, placed in sides:
            inner = self._inner(node, region.body, placed, dict(zip(placed.given, names, strict=True)))
            yield self.line(f"{self._results(node) if region is branch.then else ''}{head}:")
            yield from inner.lines()
            yield inner.line(f"give {', '.join(inner.names[y] for y in placed.results)}")

    def _block(self, node: Node, block: Block) -> Iterator[_Line]:
        placed, (first, stop) = self.placed.parts[node], islice(self._letters(block.graph), 2)
        items = {k: self.names[x] for k, x in self.placed.items[node].items()}
        known = {
            x: self.names[of] if cut is None else f"{self.names[of]}{_rows(cut, first, stop)}"
            for x, of, cut in zip(block.graph.inputs, node.inputs, block.cuts, strict=True)
        }
        packed = {x: known.pop(x) for x in block.graph.inputs if x in placed.assignments}
        targets = {
            y: _of_result(name, join, first, stop)
            for k, (y, join) in enumerate(zip(block.graph.outputs, block.joins, strict=True))
            if (name := items.get(k)) is not None
        }
        yield self.line(f"{self._results(node)}for rows {first}:{stop} of {block.size}:")
        inner = self._inner(node, block.graph, placed, known)
        yield from replace(inner, rows=block.rows, packed=packed, targets=targets).lines()


def _of_carry(carry: Carry) -> str:
    starts = "starts as a copy" if carry.copied else "made for the loop" if carry.anew else ""
    return ", ".join(filter(None, (BESIDE[carry.step], starts)))


def _rows(cut: Cut, first: str, stop: str) -> str:
    """Return the rows of a block as a key, with those of its neighbours that it reads."""
    start, end = plus(first, cut.extent.before + cut.by), plus(stop, cut.extent.behind + cut.by)
    return f"[{', '.join([*[':'] * cut.axis, f'{start}:{end}'])}]"


def _of_result(name: str, join: int | np.ufunc, first: str, stop: str) -> str:
    if isinstance(join, int):
        return f"in {name}[{', '.join([*[':'] * join, f'{first}:{stop}'])}]"
    return f"added to {name}" if join is np.add else f"combined with {name} by {join.__name__}"
