"""Loops over blocks of rows in the generated source: what is computed of a block, and how blocks are shared out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from symgrad.dims import Size
from symgrad.emit.body import Body, Line, written_into
from symgrad.graph import Aval, Node
from symgrad.ops.create import FULL
from symgrad.ops.keys import spell_key
from symgrad.schedule.gain import PRODUCTS
from symgrad.schedule.layout import Home, fills_rows, goes_straight, is_new, length_of, row_axis, takes_out
from symgrad.schedule.loop import LOOP, Block
from symgrad.schedule.spans import plus
from symgrad.schedule.windows import PUT, WINDOW, key_at
from symgrad.shapes import render_tuple
from symgrad.spelling import ATOM, UNARY, Code, call

INDENT = "    "
WIDEST = 100


class Looping(Body):
    """Writes programs with loops."""

    def __init__(self, *args: Any, threads: int | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.threads = threads
        self.preamble: set[str] = set()
        self._locals: dict[str, str] = {}

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
        results = [self.names.fresh("_") if item is None else self.names.of(item) for item in items]
        loop = Loop(self, block, inputs, results)
        for item, line in loop.allocated(items):
            self._lines.append(Line(line, item))
        *before, last = loop.lines()
        for line in before:
            self._lines.append(Line(line, None, node.inputs))
        self._lines.append(Line(last, node, node.inputs))
        self.preamble.update(loop.preamble)

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
        self.blas = any(x.op.name in PRODUCTS and len(x.inputs) > 1 for x in block.graph.nodes)
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
        parts = f"_in_parts({self.share}, {n}, {rows}{threads})"
        line = self._joined(names, parts)
        return ["with _blas_on_one_thread():", *_indented(line)] if self.blas else line

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


class Spans:
    """How the source calls the rows that a block has of its values, and how many they are."""

    def __init__(self, outer: Looping, block: Block) -> None:
        self.i, self.j = outer.local("i"), outer.local("j")
        self.main = str(block.rows)
        self._named: dict[str, str] = {}  # for what a name stands
        self._bounds: dict[int, tuple[str, str]] = {int(block.rows): (self.i, self.j)}
        self._lengths: dict[str, tuple[str, str]] = {self.main: (self.i, self.j)}
        for span, bounds in block.bounds.items():
            start = self._name(outer, span.start_text(self.i, block.size), self.i)
            stop = self._name(outer, span.stop_text(self.j, block.size), self.j)
            self._bounds[int(bounds.rows)] = self._lengths[str(bounds.rows)] = start, stop

    def _name(self, outer: Looping, text: str, letter: str) -> str:
        if text == letter:
            return letter
        known = {said: name for name, said in self._named.items()}
        name = known.get(text) or outer.local(f"{letter}{sum(x.startswith(letter) for x in self._named) + 1}")
        self._named[name] = text
        return name

    def of(self, length: int) -> tuple[str, str]:
        """Where the rows begin and end."""
        return self._bounds[int(length)]

    def noted(self, line: str) -> str:
        """A line whose note says how many rows there are where they are not as many as the block has."""
        for name, (start, stop) in self._lengths.items():
            if name != self.main and "  # " in line:
                code, note = line.split("  # ")
                note = re.sub(rf"\b{name}\b", f"{stop} - {start}", note)
                line = f"{code}  # {note}"
        return line

    def lines(self, body: Sequence[str]) -> list[str]:
        """What the body mentions."""
        code = [_code(line) for line in body]
        lengths = [
            f"{name} = {stop} - {start}" for name, (start, stop) in self._lengths.items() if _mentions(code, name)
        ]
        code += lengths
        bounds = [f"{name} = {text}" for name, text in self._named.items() if _mentions(code, name)]
        says = ["# rows beside the block of which its own are made: the block that has them computes them too"]
        return [*(says if any("max(" in line for line in bounds) else []), *bounds, *lengths]


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
        self.spans = Spans(outer, block)
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
        """The rows of a new array that no piece is written to at once."""
        put = self.uses[node][0]
        if len(self.uses[node]) > 1 or put.op is not PUT or not fills_rows(put):
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

    def spell(self, node: Node, inputs: Sequence[Code]) -> Code:
        if node.op is not WINDOW:
            return super().spell(node, inputs)
        x, start, stop, _ = inputs
        by, axis = dict(node.params)["by"], dict(node.params)["axis"]
        rows = self.among(node.inputs[0], start.text, stop.text, by)
        return Code(f"{x.at(ATOM)}[{':, ' * axis}{rows}]")

    def among(self, x: Node, start: str, stop: str, by: Size) -> str:
        """Rows from `start` to `stop`, so many places further on, among those that there are of a value."""
        first, last = self.spans.of(length_of(x))
        begin = _between(start, by, first)
        return f"{'' if begin == '0' else begin}:{'' if plus(stop, by) == last else _between(stop, by, first)}"

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
        for x in [x for x, expr in self.pending.items() if any(self.roots.get(r, r) is resident for r in expr.reads)]:
            if x not in node.inputs:
                self.flush(x)
        self.residents[home.buffer] = node

    def _spelled(self, node: Node) -> Any:
        expr = super()._spelled(node)
        target = self.target(node)
        if target is None:
            return expr
        if node.op.evaluate is np.multiply and node.inputs[0] is node.inputs[1]:  # reads its operand once
            return expr._replace(code=call("np.square", [expr.inputs[0].text, f"out={target}"]))
        if node.op.name == "outer":
            column, row = expr.inputs
            return expr._replace(code=call("np.multiply", [f"{column.at(ATOM)}[:, None]", row.text, f"out={target}"]))
        if isinstance(node.op.evaluate, np.ufunc):
            return expr._replace(code=written_into(node, expr.inputs, target))
        return expr._replace(code=Code(f"{expr.code.text[:-1]}, out={target})"))

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


def _code(line: str) -> str:
    return line.split("#")[0]


def _mentions(code: Sequence[str], name: str) -> bool:
    mentioned = re.compile(rf"\b{re.escape(name)}\b")
    return any(mentioned.search(line) for line in code)


def _between(start: str, by: Size, first: str) -> str:
    """The place of a row among rows from `first` on."""
    return plus("0", by).removeprefix("0 + ") if start == first else f"{plus(start, by)} - {first}"


def _indented(lines: Sequence[str]) -> list[str]:
    return [INDENT + line if line else "" for line in lines]


def _shape(aval: Aval) -> str:
    return str(aval.shape[0]) if aval.ndim == 1 else render_tuple(aval.shape)


def _dtype(aval: Aval) -> str:
    return "" if aval.dtype == float else f", np.{aval.dtype.name}"


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
