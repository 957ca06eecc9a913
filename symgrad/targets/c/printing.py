"""Statements as C: what is written where has been decided, so nothing is left but names, types and layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from symgrad.core.shapes import product
from symgrad.core.sizes import Size
from symgrad.core.text import prose
from symgrad.lowering.expressions import (
    ZERO,
    Apply,
    Choose,
    Convert,
    Expr,
    Extent,
    Load,
    Local,
    Number,
    Whole,
    extent,
    times,
)
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Copy,
    Declare,
    Exact,
    For,
    Function,
    Grow,
    If,
    Multiply,
    Remark,
    Require,
    Statement,
    Store,
    While,
    walk,
)
from symgrad.lowering.uses import are_independent, is_many, uses_of
from symgrad.targets.c.functions import C_TYPES, IN_MEMORY, PERIODIC, size_text, spelled

INDENT = "    "
WIDTH = 110
FAR = 4  # what a function gives that has to be computed again
ENDED = 5  # what it gives that a signal has ended
FEW = 256  # numbers of a buffer up to which it lies on the stack
COMBINED = {np.add: "+=", np.multiply: "*=", np.logical_or: "|=", np.bitwise_or: "|=", np.logical_and: "&="}
CHECKED = {"+": "__builtin_add_overflow", "-": "__builtin_sub_overflow", "*": "__builtin_mul_overflow"}
REDUCED = {np.add: "+", np.multiply: "*", np.bitwise_or: "|"}
STARTS = {np.maximum: "sg_maximum", np.minimum: "sg_minimum"}


def text_of(x: Expr) -> str:
    """Return an expression as C."""
    if isinstance(x, Number):
        return _number(x)
    if isinstance(x, Local):
        return x.name
    if isinstance(x, Extent):
        return size_text(x.text)
    if isinstance(x, Load):
        number = f"{x.buffer.name}[{_bare(text_of(x.at))}]"
        return f"({number} != 0)" if x.dtype == np.bool_ else number
    if isinstance(x, Convert):
        if x.kind == np.bool_:
            return f"({text_of(x.operand)} != 0)"
        return f"(({C_TYPES[x.kind.name]}){text_of(x.operand)})"
    if isinstance(x, Choose):
        test, then, otherwise = map(text_of, x.operands)
        if x.dtype == np.bool_ and not any(isinstance(y, Load) for side in x.operands[1:] for y in side.parts()):
            return f"(({test} & {then}) | (!{test} & {otherwise}))"  # gcc vectorises no choice between two bools
        return f"({test} ? {then} : {otherwise})"
    if isinstance(x, Whole):
        return f"({text_of(x.left)} {x.symbol} {text_of(x.right)})"
    assert isinstance(x, Apply)
    return spelled(x, [text_of(y) for y in x.arguments])


def _number(x: Number) -> str:
    value = x.value
    if x.kind.kind == "b":
        return "true" if value else "false"
    if x.kind.kind == "i":
        return "INT64_MIN" if value == np.iinfo(np.int64).min else str(value) if value >= 0 else f"({value})"
    if not np.isfinite(value):
        return "NAN" if value != value else "INFINITY" if value > 0 else "(-INFINITY)"
    text = repr(float(np.float32(value))) + "f" if x.kind == np.float32 else repr(float(value))
    return text if not text.startswith("-") else f"({text})"


def _bare(text: str) -> str:
    """Leave out the parentheses around a whole expression."""
    if not text.startswith("("):
        return text
    depth = 0
    for k, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if k == len(text) - 1 else text
    return text


def parameters_of(f: Function, qualifier: str) -> list[str]:
    """Return the parameters of a function; a qualifier of pointers is no part of its type, and none in C++."""
    parts = [f"int64_t {name}" for name in f.sizes]
    for x in f.parameters:
        pointer = f"const {_type(x)} *{qualifier}" if isinstance(x, Buffer) else f"{C_TYPES[x.dtype.name]} "
        parts.append(pointer + x.name)
    parts += [f"{_type(b)} *{qualifier}{b.name}" for b in f.results]
    return [*parts, f"char *{qualifier}workspace"]


class Printer:
    """Writes the lines of a function; one that is not `local` to its file may be called from others.

    Loops that may take long ask whether a signal ends the program, if the function is to be `interruptible`.
    """

    def __init__(self, function: Function, local: bool = True, interruptible: bool = False) -> None:
        self.function, self.static = function, "static " if local else ""
        self.is_interruptible = interruptible and any(map(takes_long, walk(function.body)))
        self.mutable = {statement.local.name for statement in walk(function.body) if isinstance(statement, Assign)}
        self.is_periodic = _is_periodic(function.body)
        self.lines: list[str] = []

    def printed(self) -> str:
        """Return the function, and before it the one that says how much workspace it needs."""
        self._workspace()
        self.lines += ["", *self._signature(), "{"]
        if self.is_periodic:
            self.lines.append(f"{INDENT}int64_t far = 0;  /* whether sin, cos or tan has met a very large number */")
        if self.is_interruptible:
            self.lines.append(f"{INDENT}int64_t turns = 0;  /* iterations, after some of which signals are heard */")
        self._buffers()
        self._write(self.function.body, INDENT)
        self.lines += [f"{INDENT}free({b.name});" for b in self._growing()]
        self.lines += [f"{INDENT}return {self._code(0)};", "}"]
        if self.is_periodic:
            self._twice()
        return "\n".join(self.lines)

    def _sizes(self) -> str:
        return ", ".join(f"int64_t {name}" for name in self.function.sizes) or "void"

    def _kept(self) -> list[Buffer]:
        """The buffers in the workspace."""
        return [b for b in self.function.buffers if b.kind == "own" and not _is_few(b)]

    def _growing(self) -> list[Buffer]:
        return [b for b in self.function.buffers if b.kind == "growing"]

    def _workspace(self) -> None:
        name = self.function.name
        self.lines.append(f"/* The bytes of memory that {name} is to be given. */")
        self.lines.append(f"{self.static}int64_t {name}_workspace({self._sizes()})")
        kept = [f"sg_bytes({_bare(text_of(_count(b)))}, sizeof({_type(b)}))" for b in self._kept()]
        self.lines += ["{", *wrapped(f"{INDENT}return ", kept or ["0"], ";", " + "), "}"]

    def _signature(self) -> list[str]:
        parameters = parameters_of(self.function, "restrict ")
        if self.is_periodic:
            return wrapped(f"SG int {self.function.name}_near(", ["const bool exact", *parameters], ")")
        return wrapped(f"{self.static}int {self.function.name}(", parameters, ")")

    def _twice(self) -> None:
        """Write the function that starts again, with functions of C's library, where a number was too large."""
        name, parameters = self.function.name, parameters_of(self.function, "restrict ")
        given = [*self.function.sizes, *(x.name for x in (*self.function.parameters, *self.function.results))]
        call = lambda exact: f"{name}_near({', '.join([exact, *given, 'workspace'])})"
        self.lines += ["", *wrapped(f"static __attribute__((cold, noinline)) int {name}_far(", parameters, ")")]
        self.lines += ["{", f"{INDENT}return {call('true')};", "}", ""]
        self.lines += [*wrapped(f"{self.static}int {name}(", parameters, ")"), "{"]
        self.lines += [f"{INDENT}int code = {call('false')};"]
        self.lines += [f"{INDENT}return code == {FAR} ? {name}_far({', '.join([*given, 'workspace'])}) : code;", "}"]

    def _buffers(self) -> None:
        """Give each buffer its memory."""
        for b in self.function.buffers:
            note = f"  /* {', '.join(map(str, b.shape)) or 'one number'} */"
            if b.kind == "constant":
                assert b.value is not None
                numbers = [_number(Number(x, b.dtype)) for x in b.value.ravel().tolist()]
                self.lines += wrapped(f"{INDENT}static const {_type(b)} {b.name}[] = {{", numbers or ["0"], "};")
            elif b.kind == "growing":
                self.lines.append(f"{INDENT}{_type(b)} *{b.name} = NULL;{note}")
                self.lines.append(f"{INDENT}int64_t {b.name}_room = 0;")
            elif b.kind == "own" and _is_few(b):
                self.lines.append(f"{INDENT}{_type(b)} {b.name}[{max(product(b.shape), 1)}];{note}")
            elif b.kind == "own":
                count = _bare(text_of(_count(b)))
                self.lines.append(f"{INDENT}{_type(b)} *restrict {b.name} = ({_type(b)} *)workspace;{note}")
                self.lines.append(f"{INDENT}workspace += sg_bytes({count}, sizeof({_type(b)}));")

    # ---- statements

    def _write(self, statements: Iterable[Statement], indent: str) -> None:
        for statement in statements:
            self._one(statement, indent)

    def _one(self, s: Statement, indent: str) -> None:
        put = lambda text: self.lines.append(indent + text)
        if isinstance(s, Remark):
            text = f" {s.where.text}" if s.where.text and not s.kind else ""
            put(f"/* {prose(f'{s.kind}{s.where}{text}').replace('*/', '* /')} */")
        elif isinstance(s, Declare):
            const = "" if s.mutable or s.local.name in self.mutable else "const "
            put(f"{const}{C_TYPES[s.local.dtype.name]} {s.local.name} = {_bare(text_of(s.value))};")
        elif isinstance(s, Assign):
            put(_combined(s.local.name, text_of(s.value), s.combine))
        elif isinstance(s, Store):
            put(_combined(f"{s.buffer.name}[{_bare(text_of(s.at))}]", text_of(s.value), s.combine))
        elif isinstance(s, Copy):
            target, source = (f"{b.name} + {text_of(x)}" for b, x in ((s.target, s.start), (s.source, s.source_start)))
            put(f"memcpy({target}, {source}, {text_of(s.count)} * sizeof({_type(s.target)}));")
        elif isinstance(s, Multiply):
            function = "sg_dgemm" if s.target.dtype == np.float64 else "sg_sgemm"
            turned = ["true" if x.is_transposed else "false" for x in (s.left, s.right)]
            sizes = [_bare(text_of(x)) for x in (s.rows, s.columns, s.terms)]
            starts = ((s.left.buffer, s.left.start), (s.right.buffer, s.right.start), (s.target, s.start))
            matrices = [b.name if x == ZERO else f"{b.name} + {text_of(x)}" for b, x in starts]
            put(f"{function}({', '.join([*turned, *sizes, *matrices])});")
        elif isinstance(s, Grow):
            row = _bare(text_of(times(s.rows, extent(product(s.buffer.shape[1:])))))
            put(f"if (!sg_grow((void **)&{s.buffer.name}, &{s.buffer.name}_room, {row}, sizeof({_type(s.buffer)})))")
            put(f"{INDENT}{self._leaving(2)}")
        elif isinstance(s, Require):
            index, size = text_of(s.index), text_of(s.size)
            below = "" if isinstance(s.index, Number) else f"{index} < -{size} || "
            put(f"if ({below}{index} >= {size})")
            put(f"{INDENT}{self._leaving(1)}")
        elif isinstance(s, Exact):
            left, right = (_bare(text_of(x)) for x in s.value.operands)
            put(f"int64_t {s.local.name};")
            put(f"if ({CHECKED[s.value.symbol]}({left}, {right}, &{s.local.name}))")
            put(f"{INDENT}{self._leaving(3)}")
        elif isinstance(s, If):
            put(f"if ({_bare(text_of(s.test))}) {{")
            self._write(s.then, indent + INDENT)
            if s.otherwise:
                put("} else {")
                self._write(s.otherwise, indent + INDENT)
            put("}")
        elif isinstance(s, For):
            self._for(s, indent)
        else:
            assert isinstance(s, While), s
            bound = "" if s.stop is None else f"{s.count.name} < {_bare(text_of(s.stop))}"
            put(f"int64_t {s.count.name} = 0;")
            put(f"for (; {bound}; {s.count.name}++) {{")
            self._write(s.head, indent + INDENT)
            put(f"{INDENT}if (!({_bare(text_of(s.test))}))")
            put(f"{2 * INDENT}break;")
            self._ask(s, indent + INDENT)
            if _is_periodic([s]):
                put(f"{INDENT}if (far)")
                put(f"{2 * INDENT}{self._leaving(FAR)}")
            self._write(s.body, indent + INDENT)
            put("}")

    def _for(self, s: For, indent: str) -> None:
        i, stop = s.index.name, _bare(text_of(s.stop))
        pays = bool(s.sums) or is_many(s)
        if pays and are_independent(s) and all(combine in REDUCED for _, combine in s.sums):
            self.lines.append(" ".join(["#pragma omp simd", *self._reductions(s)]))
        if s.reverse:
            self.lines.append(f"{indent}for (int64_t {i} = {stop} - 1; {i} >= 0; {i}--) {{")
        else:
            self.lines.append(f"{indent}for (int64_t {i} = 0; {i} < {stop}; {i}++) {{")
        self._ask(s, indent + INDENT)
        self._write(s.body, indent + INDENT)
        self.lines.append(f"{indent}}}")

    def _reductions(self, s: For) -> Iterator[str]:
        """Name what iterations of a loop add to in any order."""
        names: dict[str, list[str]] = {}
        for local, combine in s.sums:
            names.setdefault(REDUCED[combine], []).append(local.name)
        if _is_periodic(s.body):
            names.setdefault("|", []).append("far")
        return (f"reduction({symbol}:{', '.join(summed)})" for symbol, summed in names.items())

    def _ask(self, s: For | While, indent: str) -> None:
        """Leave a loop where a signal has come."""
        if self.is_interruptible and takes_long(s):
            self.lines += [f"{indent}if (sg_ends(&turns))", f"{indent}{INDENT}{self._leaving(ENDED)}"]

    def _leaving(self, code: int) -> str:
        freed = " ".join(f"free({b.name});" for b in self._growing())
        return f"{{ {freed} return {self._code(code)}; }}" if freed else f"return {self._code(code)};"

    def _code(self, code: int) -> str:
        return f"far ? {FAR} : {code}" if self.is_periodic and code not in (FAR, ENDED) else str(code)


def _is_periodic(statements: Sequence[Statement]) -> bool:
    parts = (part for s in walk(statements) for x in s.expressions for part in x.parts())
    return any(isinstance(x, Apply) and x.op.evaluate in PERIODIC for x in parts)


def takes_long(s: Statement) -> bool:
    """Whether a loop may take long, and is none that compilers vectorise: it carries numbers, or has loops inside."""
    if not isinstance(s, For) or not is_many(s):
        return isinstance(s, While)
    inner = [x for x in walk(s.body) if isinstance(x, For | While)]
    carries = not uses_of(s).names_set <= {local.name for local, _ in s.sums}
    return carries or any(isinstance(x, While) or is_many(x) for x in inner)


def _type(x: Buffer) -> str:
    return IN_MEMORY[x.dtype.name]


def _count(b: Buffer) -> Expr:
    return extent(product(b.shape))


def _is_few(b: Buffer) -> bool:
    count: Size = product(b.shape)
    return isinstance(count, int) and count <= FEW


def _combined(target: str, value: str, combine: np.ufunc | None) -> str:
    if combine in STARTS:
        return f"{target} = {STARTS[combine]}({target}, {_bare(value)});"
    return f"{target} {'=' if combine is None else COMBINED[combine]} {_bare(value)};"


def wrapped(opening: str, parts: Sequence[str], closing: str, between: str = ", ") -> list[str]:
    """Return a list on as many lines as it needs."""
    lines = [opening]
    for k, part in enumerate(parts):
        piece = part + (between if k < len(parts) - 1 else "")
        if len(lines[-1]) + len(piece) > WIDTH:
            lines.append(2 * INDENT)
        lines[-1] += piece
    lines[-1] += closing
    return [line.rstrip() for line in lines]
