"""Printer of statements as C: it chooses types and layout only, since memory and order are decided."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from symgrad.core.shapes import product
from symgrad.lowering.expressions import ZERO, Apply, Expr, Local, Number, extent, plus, times
from symgrad.lowering.names import names_of
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Check,
    Copy,
    Declare,
    Exact,
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
    Tiles,
    While,
    walk,
)
from symgrad.lowering.uses import CALLED, are_independent, is_many, operators, uses_of
from symgrad.spelling import PRODUCT, SUM, UNARY, negative
from symgrad.targets.c import blas
from symgrad.targets.c.chunks import Chunks, locals_of
from symgrad.targets.c.functions import C_TYPES, IN_MEMORY, is_limited
from symgrad.targets.c.notes import Notes
from symgrad.targets.c.text import (
    INDENT,
    bytes_of,
    code_of,
    combined,
    count_of,
    is_few,
    number_code,
    parameters_of,
    remark,
    sizes_of,
    text_of,
    type_of,
    wrapped,
)

OUTSIDE = 1  # what a function gives where an index is outside of its axis
SINGULAR, NOT_POSITIVE = 4, 5  # what a function gives where a matrix has no inverse, or no Cholesky factor
ENDED = 6  # what it gives that a signal has ended
LARGEST_OF = ("float64", "float32", "int64")  # dtypes that `sg_largest` and `sg_smallest` are for
LEAVE = "leave"  # the label where a function frees its memory
PAUSE = 256  # iterations of a loop between which it hears signals
SOON = 4096  # iterations, those of loops inside included, within which a loop ends before anybody waits for it
LONG = 100  # statements from which on a function is compiled once rather than for each value of its flag
FORKED = 7  # what it gives whose process was forked while threads computed
FAR = 8  # what it gives that has to be computed again
EMPTY = 9  # what it gives where an extreme of no numbers is asked for
RAISED = 10  # what it gives where a check of the user's raises
CHECKED = {"+": "__builtin_add_overflow", "-": "__builtin_sub_overflow", "*": "__builtin_mul_overflow"}
REDUCED = {
    np.add: "+", np.multiply: "*", np.bitwise_or: "|", np.logical_or: "|", np.logical_and: "&",
    np.maximum: "sg_largest", np.minimum: "sg_smallest",
}  # fmt: skip
"""The names of ufuncs in reduction clauses of OpenMP."""


class Printer:
    """Prints a function, static if it is `local` to its file.

    Long loops of an `interruptible` function check for signals. Up to `threads` threads share loops, None for as many
    as cores. A `part` is the body of a loop, called by another function, which passes on its flag `exact`. A `watched`
    function raises flags of the processor where NumPy warns; `tells_overflow` says whether it warns of overflow.
    """

    def __init__(
        self,
        function: Function,
        local: bool = True,
        interruptible: bool = False,
        threads: int | None = None,
        part: bool = False,
        watched: bool = False,
        tells_overflow: bool = True,
    ) -> None:
        self.function, self.static, self.is_part = function, "static " if local else "", part
        self.may_be_interrupted, self.threads = interruptible, threads
        self.is_interruptible = interruptible and any(map(takes_long, _outside_of_chunks(function.body)))
        self.mutable = {statement.local.name for statement in walk(function.body) if isinstance(statement, Assign)}
        self.is_limited = any_limited(function.body)
        self.is_watched, self.tells_overflow = watched, tells_overflow
        self.notes = Notes(function.body if watched else [], tells_overflow)
        self.is_noting = self.notes.within(_outside_of_chunks(function.body))
        self.lines: list[str] = []
        self.said: Remark | None = None
        self.texts: list[str] = []  # of loops that threads share
        self.names = names_of(function)
        self._given_names = frozenset(self.names.taken)
        self.rows = [x for s in walk(function.body) if isinstance(s, Tiles) for x in s.body]
        self.growing = [b for b in function.buffers if b.kind == "growing"]
        self.rooms = self._rooms()
        self.private = {b for s in walk(function.body) if isinstance(s, Parallel) for b in s.private}

    @cached_property
    def _locals(self) -> list[Local]:
        return locals_of(self.function)

    def printed(self) -> str:
        """Return the text of the function, after those of its parallel loops and of the size of its workspace."""
        self.lines += [*self._signature(), "{"]
        if self.is_limited:
            self.lines.append(f"{INDENT}int64_t far = 0;  /* whether a number is too far for a formula */")
        if self.is_noting:
            self.lines.append(f"{INDENT}int64_t noted = 0;  /* whether NumPy warns where no flag is raised */")
        if self.is_interruptible:
            self.lines.append(f"{INDENT}int64_t turns = 0;  /* iterations, after some of which signals are heard */")
        if self.growing:
            self.lines.append(f"{INDENT}int code = 0;")
        elif any(isinstance(s, Parallel) for s in walk(self.function.body)):
            self.lines.append(f"{INDENT}int code;  /* of a loop in chunks */")
        self._buffers()
        self._write(self.function.body, INDENT)
        if self.is_noting:
            self.lines += [f"{INDENT}if (noted)", f"{2 * INDENT}sg_raise_flag();"]
        if self.growing:
            self.lines += [f"{INDENT}code = {self._code(0)};"] * self.is_limited
            self.lines += [f"{LEAVE}:", *(f"{INDENT}free({b.name});" for b in self.growing)]
        self.lines += [f"{INDENT}return {'code' if self.growing else self._code(0)};", "}"]
        if self.is_limited:
            self._write_restart()
        before = [] if self.is_part else ["\n".join(self._workspace())]
        return "\n\n".join([*self.texts, *before, "\n".join(self.lines)])

    def _workspace(self) -> Iterator[str]:
        name, sizes = self.function.name, [f"int64_t {name}" for name in sizes_of(self.function)]
        yield f"/* The bytes of memory that {name} is to be given. */"
        yield f"{self.static}int64_t {name}_workspace({', '.join(sizes) or 'void'})"
        kept = [bytes_of(b) for b in self.function.buffers if b.kind == "own" and not is_few(b)]
        yield "\n".join(["{", *wrapped(f"{INDENT}return ", kept or ["0"], ";", " + "), "}"])

    def _signature(self) -> list[str]:
        parameters = parameters_of(self.function, "restrict ")
        if self.is_limited:
            kind = "static __attribute__((noinline))" if _is_compiled_once(self.function.body) else "SG"
            return wrapped(f"{kind} int {self.function.name}_near(", ["const bool exact", *parameters], ")")
        return wrapped(f"{self.static}int {self.function.name}(", parameters, ")")

    def _write_restart(self) -> None:
        """Write the function that restarts with C's library if a number was outside the range of a formula."""
        name, parameters = self.function.name, parameters_of(self.function, "restrict ")
        given = [*sizes_of(self.function), *(x.name for x in (*self.function.parameters, *self.function.results))]
        call = lambda exact: f"{name}_near({', '.join([exact, *given, 'workspace'])})"
        self.lines += ["", *wrapped(f"static __attribute__((cold, noinline)) int {name}_far(", parameters, ")")]
        self.lines += ["{", f"{INDENT}return {call('true')};", "}", ""]
        self.lines += [*wrapped(f"{self.static}int {name}(", parameters, ")"), "{"]
        if self.is_part:
            self.lines += [f"{INDENT}return {call('false')};", "}"]
            return
        self.lines += [f"{INDENT}int code = {call('false')};"]
        self.lines += [f"{INDENT}return code == {FAR} ? {name}_far({', '.join([*given, 'workspace'])}) : code;", "}"]

    def _buffers(self) -> None:
        """Declare the memory of each buffer."""
        for b in self.function.buffers:
            if b in self.private:
                continue
            later = f"; then {', '.join(b.then)}" if b.then else ""
            note = f"  /* {', '.join(map(str, b.shape)) or 'one number'}{later} */"
            if b.kind == "constant":
                assert b.value is not None
                numbers = [number_code(Number(x, b.dtype)).text for x in b.value.ravel().tolist()]
                self.lines += wrapped(f"{INDENT}static const {type_of(b)} {b.name}[] = {{", numbers or ["0"], "};")
            elif b.kind == "growing":
                self.lines.append(f"{INDENT}{type_of(b)} *{b.name} = NULL;{note}")
            elif b.kind == "own" and is_few(b):
                self.lines.append(f"{INDENT}{type_of(b)} {b.name}[{max(product(b.shape), 1)}];{note}")
            elif b.kind == "own":
                count = text_of(count_of(b))
                self.lines.append(f"{INDENT}{type_of(b)} *restrict {b.name} = ({type_of(b)} *)workspace;{note}")
                self.lines.append(f"{INDENT}workspace += sg_bytes({count}, sizeof({type_of(b)}));")

        for room in dict.fromkeys(self.rooms.values()):
            self.lines.append(f"{INDENT}int64_t {room} = -1;  /* rows that there is memory for */")

    # ---- statements

    def _write(self, statements: Iterable[Statement], indent: str) -> None:
        for run in _runs(statements):
            if isinstance(run, list):
                self._grow(run, indent)
            else:
                self._one(run, indent)

    def _rooms(self) -> dict[Buffer, str]:
        """Return the names of the numbers of rows that buffers have memory for; those that grow together share one."""
        suites = [self.function.body, *(body for s in walk(self.function.body) for body in s.bodies)]
        grows = [s for s in walk(self.function.body) if isinstance(s, Grow)]
        times_grown = Counter(s.buffer for s in grows)
        found = {s.buffer: self.names.fresh("room") for s in grows if times_grown[s.buffer] > 1}
        for run in (run for suite in suites for run in _runs(suite) if isinstance(run, list)):
            names = defaultdict[str, str](lambda: self.names.fresh("room"))
            for s in run:
                found.setdefault(s.buffer, names[text_of(s.rows)])
        return found

    def _grow(self, statements: Sequence[Grow], indent: str) -> None:
        """Make room for more rows of some buffers."""
        together = defaultdict[str, list[Grow]](list)
        for s in statements:
            together[self.rooms[s.buffer]].append(s)
        within = indent + INDENT
        for room, group in together.items():
            rows = code_of(group[0].rows)
            self.lines.append(f"{indent}if ({rows.at(SUM)} > {room}) {{")
            self.lines.append(f"{within}{room} = sg_more_room({room}, {rows.text});")
            for b in (s.buffer for s in group):
                count = text_of(times(Local(room), extent(product(b.shape[1:]))))
                self.lines.append(f"{within}{b.name} = sg_resized({b.name}, {count} * sizeof({type_of(b)}));")
            self._leave_if([f"!{s.buffer.name}" for s in group], 2, within)
            self.lines.append(f"{indent}}}")

    def _one(self, s: Statement, indent: str) -> None:
        put = lambda text: self.lines.append(indent + text)
        if not isinstance(s, While):
            self._note(s, indent)
        if isinstance(s, Remark):
            self.said = s
            text = f" {s.where.text}" if s.where.text and not s.kind else ""
            put(f"/* {remark(f'{s.kind}{s.where}{text}')} */")
        elif isinstance(s, Declare):
            changes = s.mutable or s.local.name in self.mutable
            kind = (IN_MEMORY if changes else C_TYPES)[s.local.dtype.name]  # gcc vectorises no combination of bools
            put(f"{'' if changes else 'const '}{kind} {s.local.name} = {text_of(s.value)};")
        elif isinstance(s, Assign):
            put(combined(s.local.name, text_of(s.value), s.combine))
        elif isinstance(s, Store):
            put(combined(f"{s.buffer.name}[{text_of(s.at)}]", text_of(s.value), s.combine))
        elif isinstance(s, Copy):
            target, source = _from(s.target, s.start), _from(s.source, s.source_start)
            put(f"memcpy({target}, {source}, {code_of(s.count).at(PRODUCT)} * sizeof({type_of(s.target)}));")
        elif isinstance(s, Sort):
            function = "sg_sort" if s.keys.dtype.kind == "f" else "sg_sort_whole"
            rows = [_from(b, start) for b, start in zip((s.keys, s.order), s.starts, strict=True)]
            spare = [b.name for b in s.spare] or ["NULL", "NULL"]
            put(f"{function}({', '.join([*rows, text_of(s.count), *spare])});")
        elif isinstance(s, Multiply):
            kinds = ["'T'" if x.is_transposed else "'N'" for x in (s.left, s.right)]
            sizes = [text_of(x) for x in (s.rows, s.columns, s.terms)]
            left, right = (_from(x.buffer, x.start) for x in (s.left, s.right))
            beta = text_of(Number(float(s.adds), s.target.dtype))
            function = f"sg_{blas.KINDS[s.target.dtype.name]}"
            put(f"{function}({', '.join([*kinds, *sizes, left, right, beta, _from(s.target, s.start)])});")
        elif isinstance(s, Require):
            index, size = code_of(s.index).at(SUM), code_of(s.size)
            outside = [f"{index} < {negative(size).text}"] * (s.low and not isinstance(s.index, Number))
            outside += [f"{index} >= {size.at(SUM)}"] * s.high
            self._leave_if(outside, EMPTY if s.reduces else OUTSIDE, indent)
        elif isinstance(s, Regular):
            test = f"{code_of(s.value).at(SUM)} {'<=' if s.is_cholesky else '=='} 0"
            self._leave_if([test], NOT_POSITIVE if s.is_cholesky else SINGULAR, indent)
        elif isinstance(s, Check):
            self._leave_if([text_of(s.raises)], RAISED, indent)
        elif isinstance(s, Exact):
            left, right = (text_of(x) for x in s.value.operands)
            put(f"int64_t {s.local.name};")
            self._leave_if([f"{CHECKED[s.value.symbol]}({left}, {right}, &{s.local.name})"], 3, indent)
        elif isinstance(s, If):
            put(f"if ({text_of(s.test)}) {{")
            self._write(s.then, indent + INDENT)
            if s.otherwise:
                put("} else {")
                self._write(s.otherwise, indent + INDENT)
            put("}")
        elif isinstance(s, For):
            self._for(s, indent)
        elif isinstance(s, Parallel):
            self._in_chunks(s, indent)
        else:
            assert isinstance(s, While), s
            bound = "" if s.stop is None else f" {s.count.name} < {code_of(s.stop).at(SUM)}"
            put(f"int64_t {s.count.name} = 0;")
            put(f"for (;{bound}; {s.count.name}++) {{")
            self._write(s.head, indent + INDENT)
            self._note(s, indent + INDENT)
            put(f"{INDENT}if (!{code_of(s.test).at(UNARY)})")
            put(f"{2 * INDENT}break;")
            self._leave_on_signal(s, "1", indent + INDENT)
            if any_limited([s]):
                self._leave_if(["far"], FAR, indent + INDENT)
            self._write(s.body, indent + INDENT)
            put("}")

    def _note(self, s: Statement, indent: str) -> None:
        """Set the flag `noted` if NumPy would warn about what a statement computes."""
        conditions = self.notes.of(s)
        if conditions:
            self.lines += wrapped(f"{indent}noted |= ", conditions, ";", " | ")

    def _for(self, s: For, indent: str) -> None:
        i, start, stop = s.index.name, code_of(s.start).at(SUM), code_of(s.stop).at(SUM)
        outer, put = indent, self.lines.append
        pays = is_many(s) or (bool(s.sums) and not _only_adds(s))
        if pays and are_independent(s) and all(_in_vectors(x, combine) for x, combine in s.sums):
            put(" ".join(["#pragma omp simd", *self._reductions(s)]))
        if isinstance(s, Tiles):
            put(f"{indent}for (int64_t {i} = {start}; {i} < {stop}; {i} += {s.rows}) {{")
            put(f"{indent}{INDENT}const int64_t {s.last.name} = {stop} - {i} < {s.rows} ? {stop} : {i} + {s.rows};")
            self._leave_on_signal(s, f"{s.last.name} - {i}", indent + INDENT)
        elif self._checks_signals(s) and not _has_few(s):
            self._pause(s, indent)
            indent += INDENT
        elif s.reverse:
            self._leave_on_signal(s, stop, indent)
            put(f"{indent}for (int64_t {i} = {stop} - 1; {i} >= {start}; {i}--) {{")
        else:
            self._leave_on_signal(s, stop, indent)
            put(f"{indent}for (int64_t {i} = {start}; {i} < {stop}; {i}++) {{")
        self._write(s.body, indent + INDENT)
        while len(indent) >= len(outer):
            put(f"{indent}}}")
            indent = indent[: -len(INDENT)]

    def _pause(self, s: For, indent: str) -> None:
        """Begin a loop that pauses to check for signals; in an inner loop without checks compilers use registers."""
        i, pause = s.index.name, self.names.fresh("pause")
        start, stop = code_of(s.start).at(SUM), code_of(s.stop).at(SUM)
        within = indent + INDENT
        if s.reverse:
            near = text_of(plus(s.start, Number(PAUSE)))
            self.lines.append(f"{indent}for (int64_t {i} = {stop} - 1; {i} >= {start};) {{")
            self.lines.append(f"{within}const int64_t {pause} = {i} < {near} ? {start} : {i} - {PAUSE - 1};")
            self._leave_on_signal(s, f"{i} - {pause} + 1", within)
            self.lines.append(f"{within}for (; {i} >= {pause}; {i}--) {{")
        else:
            self.lines.append(f"{indent}for (int64_t {i} = {start}; {i} < {stop};) {{")
            self.lines.append(f"{within}const int64_t {pause} = {stop} - {i} < {PAUSE} ? {stop} : {i} + {PAUSE};")
            self._leave_on_signal(s, f"{pause} - {i}", within)
            self.lines.append(f"{within}for (; {i} < {pause}; {i}++) {{")

    def _in_chunks(self, s: Parallel, indent: str) -> None:
        """Print the functions of a parallel loop, and call them."""
        name = f"{self.function.name}_loop_{len(self.texts) + 1}"
        chunks = Chunks(self.function, s, name, self.said, self.threads, self._given_names, self._locals)
        part = Printer(
            chunks.function,
            interruptible=self.may_be_interrupted,
            part=True,
            watched=self.is_watched,
            tells_overflow=self.tells_overflow,
        )
        self.texts.append("\n\n".join([part.printed(), *chunks.texts()]))
        call = f"code = {name}_in_chunks("
        if part.is_limited:
            whole = ", ".join(["0", *chunks.call()])
            call = f"code = exact ? {name}_far({whole}) : {name}_in_chunks("
        self.lines += wrapped(indent + call, chunks.call(), ");")
        self._leave_if(["code"], "code", indent)

    def _reductions(self, s: For) -> Iterator[str]:
        """Yield the reduction clauses of a loop, for OpenMP."""
        names: dict[str, list[str]] = {}
        for local, combine in s.sums:
            names.setdefault(REDUCED[combine], []).append(local.name)
        if any_limited(s.body):
            names.setdefault("|", []).append("far")
        if self.notes.within(walk(s.body)):
            names.setdefault("|", []).append("noted")
        return (f"reduction({symbol}:{', '.join(summed)})" for symbol, summed in names.items())

    def _checks_signals(self, s: Statement) -> bool:
        """Whether a loop checks for signals; one over the rows of a tile leaves that to the loop over tiles."""
        return self.is_interruptible and takes_long(s) and not any(s is row for row in self.rows)

    def _leave_on_signal(self, s: For | While, iterations: str, indent: str) -> None:
        """Leave a loop if a signal has come, before the next `iterations` iterations."""
        if self._checks_signals(s):
            self._leave_if([f"sg_ends(&turns, {iterations})"], ENDED, indent)

    def _leave_if(self, tests: Sequence[str], code: int | str, indent: str) -> None:
        """Leave the function under one of some conditions; it frees its memory in one place."""
        value = self._code(code)
        lines = [f"goto {LEAVE};"] if self.growing else [f"return {value};"]
        if self.growing and value != "code":
            lines.insert(0, f"code = {value};")
        is_block = len(lines) > 1
        self.lines += wrapped(f"{indent}if (", tests, ") {" if is_block else ")", " || ")
        self.lines += [f"{indent}{INDENT}{line}" for line in lines]
        self.lines += [f"{indent}}}"] * is_block

    def _code(self, code: int | str) -> str:
        return f"far ? {FAR} : {code}" if self.is_limited and code not in (FAR, ENDED) else str(code)


def _runs(statements: Iterable[Statement]) -> Iterator[Statement | list[Grow]]:
    """Yield statements; those that make room, one after the other, in one list."""
    run: list[Grow] = []
    for s in statements:
        if isinstance(s, Grow):
            run.append(s)
            continue
        if run:
            yield run
            run = []
        yield s
    if run:
        yield run


def _outside_of_chunks(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Yield statements, and those inside of them, without parallel loops."""
    for s in statements:
        if not isinstance(s, Parallel):
            yield s
            for body in s.bodies:
                yield from _outside_of_chunks(body)


def any_limited(statements: Sequence[Statement]) -> bool:
    """Whether a formula in the statements is valid only for a limited range of numbers."""
    parts = (part for s in walk(statements) for x in s.expressions for part in x.parts())
    return any(isinstance(x, Apply) and is_limited(x) for x in parts)


def _is_compiled_once(body: Sequence[Statement]) -> bool:
    """Whether a function tests its flag `exact` where it runs: it is long, and no loop has to be free of the test.

    Otherwise there are two copies of the function, one for each value of the flag.
    """
    statements = list(walk(body))
    loops = [s for s in statements if isinstance(s, For | While)]
    return len(statements) >= LONG and not any_limited(loops)


def takes_long(s: Statement) -> bool:
    """Whether a loop may take long, and compilers do not vectorise it: it carries numbers, or has inner loops."""
    if isinstance(s, While):
        return not (isinstance(s.stop, Number) and s.stop.value <= SOON)
    if not isinstance(s, For) or not is_many(s):
        return False
    if (count := _known_iterations(s)) is not None and count <= SOON:
        return False
    inner = [x for x in walk(s.body) if isinstance(x, For | While)]
    carries = not uses_of(s).names_set <= {local.name for local, _ in s.sums}
    return carries or any(takes_long(x) if isinstance(x, While) else is_many(x) for x in inner)


def _only_adds(s: For) -> bool:
    """Whether iterations only add up products: a few of these are faster without vectors."""
    cheap = all(x.op.nanoseconds < CALLED and x.op.evaluate is not np.divide for x in operators(s))
    return cheap and all(isinstance(x, Assign | Remark) for x in s.body)


def _in_vectors(x: Local, combine: np.ufunc) -> bool:
    """Whether compilers vectorise a reduction, if allowed."""
    if combine in (np.maximum, np.minimum):
        return x.dtype.name in LARGEST_OF
    return combine in REDUCED and not (combine is np.multiply and x.dtype.kind == "c")


def _has_few(s: For) -> bool:
    """Whether a loop ends before its first pause."""
    return isinstance(s.stop, Number) and s.stop.value <= PAUSE


def _known_iterations(s: Statement) -> int | None:
    """Return how many iterations a loop has, with those of its inner loops; None if unknown."""
    if isinstance(s, While) or (isinstance(s, For) and not isinstance(s.stop, Number)):
        return None
    inner = [_known_iterations(x) for body in s.bodies for x in body]
    total = sum(x or 0 for x in inner)
    if None in inner:
        return None
    return max(total, 1) * int(s.stop.value) if isinstance(s, For) and isinstance(s.stop, Number) else total


def _from(b: Buffer, start: Expr) -> str:
    """Return the address of an element of a buffer, as an argument in C."""
    return b.name if start == ZERO else f"{b.name} + {code_of(start).at(SUM)}"
