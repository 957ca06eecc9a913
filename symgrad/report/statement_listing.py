"""Statements as text, for people to read: one line a statement, indices as in NumPy, sizes by their symbols.

Everything is decided before; a listing reads the statements of a `Function` and decides nothing. `Compiled.statements`
offers it to users.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from textwrap import fill

import numpy as np

from symgrad.core.graph import Aval
from symgrad.core.text import prose, visible
from symgrad.lowering.expressions import ZERO, Apply, Choose, Convert, Expr, Extent, Load, Local, Number, Whole
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
    Remark,
    Require,
    Sort,
    Statement,
    Store,
    While,
)
from symgrad.spelling import ATOM, CHOICE, COMPARE, EITHER, UNARY, Code, call, infix, negative

INDENT = "    "
WIDTH = 100
INFIX = {
    np.add: "+", np.subtract: "-", np.multiply: "*", np.divide: "/", np.floor_divide: "//", np.remainder: "%",
    np.power: "**", np.bitwise_and: "&", np.bitwise_or: "|", np.bitwise_xor: "^", np.less: "<", np.less_equal: "<=",
    np.greater: ">", np.greater_equal: ">=", np.equal: "==", np.not_equal: "!=",
}  # fmt: skip
COMBINED = {np.add: "+=", np.multiply: "*="}
KINDS = {"own": "memory", "growing": "memory that grows", "constant": "constant"}


def listed(function: Function) -> str:
    """Return a function as text: its parameters and results, the memory that it needs, and its statements."""
    parameters = [*function.sizes, *map(_declared, function.parameters)]
    results = ", ".join(map(_declared, function.results))
    memory = [line for kind in KINDS for line in _memory(kind, function)]
    head = f"{function.name}({', '.join(parameters)}) -> {results}"
    return "\n".join([head, *memory, *_lines(function.body, INDENT)])


def _declared(x: Buffer | Local) -> str:
    return f"{x.name}: {Aval(x.shape if isinstance(x, Buffer) else (), x.dtype)}"


def _memory(kind: str, function: Function) -> list[str]:
    """Return the declarations of the buffers of a kind, on as many lines as they need."""
    buffers = ", ".join(_declared(b).replace(" ", "\0") for b in function.buffers if b.kind == kind)
    if not buffers:
        return []
    beside = INDENT + " " * (len(KINDS[kind]) + 1)
    text = fill(buffers, WIDTH, initial_indent=f"{INDENT}{KINDS[kind]} ", subsequent_indent=beside)
    return text.replace("\0", " ").split("\n")


def _lines(statements: Sequence[Statement], indent: str) -> Iterator[str]:
    for s, following in zip_longest(statements, statements[1:]):
        if isinstance(s, Remark) and isinstance(following, Remark):
            continue  # nothing comes from that line
        if isinstance(s, If):
            yield f"{indent}if {text_of(s.test)}:"
            yield from _lines(s.then, indent + INDENT)
            if s.otherwise:
                yield f"{indent}else:"
                yield from _lines(s.otherwise, indent + INDENT)
        elif isinstance(s, For):
            yield f"{indent}for {_range(s)}{', in any order' if s.sums else ''}:"
            yield from _lines(s.body, indent + INDENT)
        elif isinstance(s, Parallel):
            yield f"{indent}for {_range(s.loop)}, in parallel{_of_chunks(s)}:"
            yield from _lines(s.loop.body, indent + INDENT)
        elif isinstance(s, While):
            yield f"{indent}for {s.count.name} in {'0, 1, ...' if s.stop is None else f'range({text_of(s.stop)})'}:"
            yield from _lines(s.head, indent + INDENT)
            yield f"{indent}{INDENT}break unless {text_of(s.test)}"
            yield from _lines(s.body, indent + INDENT)
        else:
            yield f"{indent}{_line(s)}"


def _range(s: For) -> str:
    bounds = text_of(s.stop) if s.start == ZERO else f"{text_of(s.start)}, {text_of(s.stop)}"
    counted = f"reversed(range({bounds}))" if s.reverse else f"range({bounds})"
    return f"{s.index.name} in {counted}"


def _of_chunks(s: Parallel) -> str:
    """Return the buffers and the sums of which each chunk has its own."""
    own = ", ".join([b.name for b in s.private] + [x.name for x, _ in s.sums])
    return own and f" with {own} for each chunk"


def _line(s: Statement) -> str:
    """Return a statement that has no others inside of it."""
    if isinstance(s, Remark):
        return f"# {prose(f'{s.kind}{s.where}' if s.kind else f'{s.where}  {s.where.text}').rstrip()}"
    if isinstance(s, Declare | Assign):
        return _combined(s.local.name, s.value, s.combine if isinstance(s, Assign) else None)
    if isinstance(s, Store):
        return _combined(_item(s.buffer, s.index), s.value, s.combine)
    if isinstance(s, Copy):
        count = text_of(s.count)
        return f"copy {_run(s.source, s.source_start, count)} into {_run(s.target, s.start, count)}"
    if isinstance(s, Multiply):
        sizes = " x ".join(text_of(x) for x in (s.rows, s.terms, s.columns))
        way = "+=" if s.adds else "="
        return f"{_from(s.target, s.start)} {way} {_factor(s.left)} @ {_factor(s.right)}, {sizes}, by BLAS"
    if isinstance(s, Sort):
        keys, order = (_from(b, start) for b, start in zip((s.keys, s.order), s.starts, strict=True))
        return f"sort {text_of(s.count)} numbers of {keys}, with {order} for where they were"
    if isinstance(s, Grow):
        return f"make room for {text_of(s.rows)} rows of {s.buffer.name}"
    if isinstance(s, Require):
        size = text_of(s.size)
        if s.reduces:
            return f"require 0 < {size}, the numbers to reduce"
        return f"require {f'-{size} <= ' * s.low}{text_of(s.index)}{f' < {size}' * s.high}"
    if isinstance(s, Regular):
        return f"require {text_of(s.value)} {'> 0' if s.is_cholesky else '!= 0'}"
    if isinstance(s, Check):
        return f"end if {text_of(s.raises)}"
    assert isinstance(s, Exact), s
    return f"{s.local.name} = {text_of(s.value)}, which must fit into 64 bits"


def _combined(target: str, value: Expr, combine: np.ufunc | None) -> str:
    if combine is None or combine in COMBINED:
        return f"{target} {COMBINED[combine] if combine else '='} {text_of(value)}"
    return f"{target} = {combine.__name__}({target}, {text_of(value)})"


def _item(buffer: Buffer, index: Sequence[Expr]) -> str:
    return f"{buffer.name}[{', '.join(map(text_of, index))}]" if index else buffer.name


def _run(buffer: Buffer, start: Expr, count: str) -> str:
    """Return so many numbers of a buffer from a place on, counted in the order of its memory."""
    first = "" if start == ZERO else _code(start).at(COMPARE)
    stop = count if start == ZERO else f"{first} + {count}"
    return f"{buffer.name}.flat[{first}:{stop}]"


def _from(buffer: Buffer, start: Expr) -> str:
    return buffer.name if start == ZERO else f"{buffer.name}.flat[{text_of(start)}:]"


def _factor(x: Factor) -> str:
    return _from(x.buffer, x.start) + (".T" if x.is_transposed else "")


# ---- expressions


def text_of(x: Expr) -> str:
    """Return an expression as text."""
    return _code(x).text


def _code(x: Expr) -> Code:
    if isinstance(x, Number):
        text = repr(x.value)
        return Code(text, UNARY if text.startswith("-") else ATOM)
    if isinstance(x, Local):
        return Code(x.name)
    if isinstance(x, Extent):
        return Code(x.text) if x.text.isidentifier() else Code(x.text, COMPARE)
    if isinstance(x, Load):
        return Code(_item(x.buffer, x.index))
    operands = [_code(y) for y in x.operands]
    if isinstance(x, Convert):
        return call(x.kind.name, [operands[0].text])
    if isinstance(x, Choose):
        test, then, otherwise = operands
        return Code(f"{then.at(EITHER)} if {test.at(EITHER)} else {otherwise.at(CHOICE)}", CHOICE)
    if isinstance(x, Whole):
        return infix("//" if x.symbol == "/" else x.symbol, *operands)
    assert isinstance(x, Apply), x
    if x.op.evaluate in INFIX and len(operands) == 2:
        return infix(INFIX[x.op.evaluate], *operands)
    if x.op.evaluate is np.negative:
        return negative(operands[0])
    return call(visible(x.op.name), [*(y.text for y in operands), *(f"{key}={value}" for key, value in x.params)])
