"""Interpreter of statements, on NumPy's numbers: slow, with every memory access checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from symgrad.errors import GraphError
from symgrad.lowering.expressions import Apply, Choose, Convert, Expr, Extent, Load, Local, Number, Whole, neutral
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Check,
    Copy,
    Declare,
    Exact,
    Factor,
    For,
    Function,
    Grow,
    If,
    Multiply,
    Parallel,
    Regular,
    Require,
    Sort,
    Statement,
    Store,
    Tiles,
    While,
)
from symgrad.lowering.verify import REPORT

CHUNKS = 3  # of a loop whose iterations may run at once


def interpret(function: Function, arguments: Sequence[Any], sizes: Mapping[str, int]) -> list[np.ndarray]:
    """Return the results of a function for arguments and sizes.

    Raises
    ------
    IndexError
        If an index of the program's is outside of its axis.
    LinAlgError
        If a matrix is singular, or not positive definite.
    OverflowError
        If an integer of Python's does not fit into 64 bits.
    GraphError
        If a statement reads or writes outside of a buffer, or reads what nothing has written: the lowering is wrong.
    """
    run = _Run(sizes)
    for x, value in zip(function.parameters, arguments, strict=True):
        if isinstance(x, Buffer):
            run.hold(x, np.array(value, x.dtype).ravel(), written=True)
        else:
            run.names[x.name] = x.dtype.type(value)
    for b in (*function.buffers, *function.results):
        if b.kind == "constant":
            run.hold(b, np.array(b.value, b.dtype).ravel(), written=True)
        else:
            room = 0 if b.kind == "growing" else math.prod(run.size(n) for n in b.shape)
            run.hold(b, np.zeros(room, b.dtype), written=False)
    with np.errstate(all="ignore"):
        run.statements(function.body)
    return [run.memory[b].reshape([run.size(n) for n in b.shape]) for b in function.results]


class Raised(Exception):
    """A check of the user's raises: NumPy is to repeat the call."""


class _Run:
    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.names: dict[str, Any] = dict(sizes)
        self.memory: dict[Buffer, np.ndarray] = {}
        self.written: dict[Buffer, np.ndarray] = {}  # which numbers of it something has written

    def hold(self, buffer: Buffer, numbers: np.ndarray, written: bool) -> None:
        self.memory[buffer], self.written[buffer] = numbers, np.full(len(numbers), written)

    def size(self, n: Any) -> int:
        known = {"__builtins__": {}, "max": max, "min": min}
        return int(eval(str(n), known, dict(self.names)))  # arithmetic of symbols and integers, as a size is written

    def statements(self, statements: Sequence[Statement]) -> None:
        for s in statements:
            self.one(s)

    def one(self, s: Statement) -> None:
        if isinstance(s, Declare):
            self.names[s.local.name] = self.value(s.value)
        elif isinstance(s, Assign):
            value = self.value(s.value)
            old = self.names[s.local.name]
            self.names[s.local.name] = value if s.combine is None else s.combine(old, value)
        elif isinstance(s, Store):
            at, value = self.place(s.buffer, s.at), self.value(s.value)
            memory = self.memory[s.buffer]
            if s.combine is not None:
                value = s.combine(self.load(s.buffer, at), value)
            memory[at], self.written[s.buffer][at] = value, True
        elif isinstance(s, Copy):
            count, to, start = (int(self.value(x)) for x in (s.count, s.start, s.source_start))
            target, source = self.memory[s.target], self.memory[s.source]
            beyond = to < 0 or start < 0 or to + count > len(target) or start + count > len(source)
            if count and beyond:  # no numbers may begin anywhere: a slice behind the end is empty
                raise GraphError(f"{s!r} copies {count} numbers beyond the end of a buffer", REPORT)
            target[to : to + count] = source[start : start + count]
            self.written[s.target][to : to + count] = self.written[s.source][start : start + count]
        elif isinstance(s, Sort):
            self.sort(s)
        elif isinstance(s, Multiply):
            self.multiply(s)
        elif isinstance(s, Grow):
            old, written = self.memory[s.buffer], self.written[s.buffer]
            count = math.prod([int(self.value(s.rows)), *[self.size(n) for n in s.buffer.shape[1:]]])
            room = np.zeros(max(count - len(old), 0), s.buffer.dtype)
            self.memory[s.buffer] = np.concatenate([old, room])
            self.written[s.buffer] = np.concatenate([written, np.zeros(len(room), bool)])
        elif isinstance(s, Require):
            index, size = self.value(s.index), self.value(s.size)
            if s.reduces and size <= 0:
                raise ValueError("nothing to reduce")
            if not -size <= index < size:
                raise IndexError(f"index {index} is out of bounds for an axis of {size}")
        elif isinstance(s, Check):
            if self.value(s.raises):
                raise Raised
        elif isinstance(s, Regular):
            pivot = self.value(s.value)
            if pivot == 0 or (s.is_cholesky and pivot < 0):
                raise np.linalg.LinAlgError(s.fact)
        elif isinstance(s, Exact):
            value = self.value(s.value)
            if not -(2**63) <= value < 2**63:
                raise OverflowError(f"{value} does not fit into 64 bits")
            self.names[s.local.name] = value
        elif isinstance(s, Tiles):
            self.tiles(s)
        elif isinstance(s, For):
            places = range(int(self.value(s.start)), int(self.value(s.stop)))
            for i in reversed(places) if s.reverse else places:
                self.names[s.index.name] = i
                self.statements(s.body)
        elif isinstance(s, Parallel):
            self.in_chunks(s)
        elif isinstance(s, If):
            self.statements(s.then if self.value(s.test) else s.otherwise)
        elif isinstance(s, While):
            self.loop(s)

    def sort(self, s: Sort) -> None:
        count, (keys, order) = int(self.value(s.count)), (int(self.value(x)) for x in s.starts)
        row = self.memory[s.keys][keys : keys + count]
        if len(row) < count or not np.all(self.written[s.keys][keys : keys + count]):
            raise GraphError(f"{s!r} sorts what nothing has written", REPORT)
        places = np.argsort(row, kind="stable")
        self.memory[s.order][order : order + count], self.written[s.order][order : order + count] = places, True
        row[:] = row[places]

    def tiles(self, s: Tiles) -> None:
        stop = int(self.value(s.stop))
        for first in range(int(self.value(s.start)), stop, s.rows):
            self.names[s.index.name], self.names[s.last.name] = first, min(first + s.rows, stop)
            for b in s.private:
                self.written[b][:] = False
            self.statements(s.body)

    def in_chunks(self, s: Parallel) -> None:
        """Run the chunks of a loop in reverse order, as threads may, with fresh private buffers for each."""
        stop = int(self.value(s.loop.stop))
        before, parts = [self.taken(x) for x, _ in s.sums], []
        for chunk in reversed(np.array_split(np.arange(stop), CHUNKS)):
            for x, combine in s.sums:
                self.give(x, np.full_like(self.taken(x), neutral(combine, x.dtype).value))
            for i in chunk.tolist():
                for b in s.private:
                    self.written[b][:] = False
                self.one(replace(s.loop, start=Number(i), stop=Number(i + 1)))
            parts.append([self.taken(x) for x, _ in s.sums])
        for (x, combine), total, *of_chunks in zip(s.sums, before, *reversed(parts), strict=True):
            self.give(x, reduce(combine, of_chunks, total))

    def taken(self, x: Local | Buffer) -> Any:
        return np.copy(self.memory[x]) if isinstance(x, Buffer) else self.names[x.name]

    def give(self, x: Local | Buffer, value: Any) -> None:
        if isinstance(x, Buffer):
            self.memory[x][:] = value
        else:
            self.names[x.name] = x.dtype.type(value)

    def multiply(self, s: Multiply) -> None:
        rows, terms, columns = (int(self.value(x)) for x in (s.rows, s.terms, s.columns))
        left, right = self.matrix(s.left, rows, terms), self.matrix(s.right, terms, columns)
        start = int(self.value(s.start))
        if start < 0 or start + rows * columns > len(self.memory[s.target]):
            raise GraphError(f"{s!r} writes beyond the end of a buffer", REPORT)
        if s.adds and not np.all(self.written[s.target][start : start + rows * columns]):
            raise GraphError(f"{s!r} adds to what nothing has written", REPORT)
        there = self.memory[s.target][start : start + rows * columns]
        there[:] = (left @ right).ravel() + (there if s.adds else 0)
        self.written[s.target][start : start + rows * columns] = True

    def matrix(self, x: Factor, rows: int, columns: int) -> np.ndarray:
        start, memory = int(self.value(x.start)), self.memory[x.buffer]
        end = start + rows * columns
        if start < 0 or end > len(memory) or not np.all(self.written[x.buffer][start:end]):
            raise GraphError(f"a product reads {rows} x {columns} numbers that {x.buffer.name} does not hold", REPORT)
        shape = (columns, rows) if x.is_transposed else (rows, columns)
        matrix = memory[start:end].reshape(shape)
        return matrix.T if x.is_transposed else matrix

    def loop(self, s: While) -> None:
        self.names[s.count.name] = 0
        while s.stop is None or self.names[s.count.name] < self.value(s.stop):
            self.statements(s.head)
            if not self.value(s.test):
                break
            self.statements(s.body)
            self.names[s.count.name] += 1

    def place(self, buffer: Buffer, at: Expr) -> int:
        place = int(self.value(at))
        if not 0 <= place < len(self.memory[buffer]):
            raise GraphError(f"{buffer.name}[{place}] is outside of {len(self.memory[buffer])} numbers", REPORT)
        return place

    def load(self, buffer: Buffer, place: int) -> Any:
        if not self.written[buffer][place]:
            raise GraphError(f"nothing has written {buffer.name}[{place}]", REPORT)
        return self.memory[buffer][place]

    def value(self, x: Expr) -> Any:
        if isinstance(x, Number):
            return x.kind.type(x.value)
        if isinstance(x, Local):
            return self.names[x.name]
        if isinstance(x, Extent):
            return self.size(x.text)
        if isinstance(x, Load):
            return self.load(x.buffer, self.place(x.buffer, x.at))
        if isinstance(x, Convert):
            return x.kind.type(self.value(x.operand))
        if isinstance(x, Choose):
            return self.value(x.then if self.value(x.test) else x.otherwise)
        if isinstance(x, Whole):
            return _WHOLE[x.symbol](int(self.value(x.left)), int(self.value(x.right)))
        assert isinstance(x, Apply)
        return x.kind.type(x.op.evaluate(*[self.value(y) for y in x.arguments]))


_WHOLE: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
}
