"""Parallel loops: a C function for a chunk of the range, and one that has threads run all chunks.

Each chunk has its own partial sums, which are combined in the order of the chunks. Chunks depend on sizes alone, so
results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from symgrad.core.sizes import symbols_of
from symgrad.lowering.expressions import Load, Local, neutral
from symgrad.lowering.names import Names
from symgrad.lowering.statements import (
    Buffer,
    Declare,
    Exact,
    For,
    Function,
    Parallel,
    Remark,
    Statement,
    Store,
    While,
    walk,
)
from symgrad.lowering.uses import uses_of, work_of
from symgrad.targets.c.names import c_word
from symgrad.targets.c.text import (
    INDENT,
    bytes_of,
    combined,
    count_of,
    is_few,
    parameters_of,
    text_of,
    type_of,
    wrapped,
)

WORDS = ("begin", "end", "given", "given_", "chunk", "place", "count", "step", "code")


class Sum(NamedTuple):
    """A reduction: a name or a buffer into which iterations accumulate."""

    target: Local | Buffer
    combine: np.ufunc
    parameter: Buffer  # of the function of a chunk
    parts: str  # the name of the array of partial sums, one for each chunk

    @property
    def numbers(self) -> str:
        return text_of(count_of(self.parameter))


class Chunks:
    """The C functions of a parallel loop; `function` runs the iterations from one index to another.

    Parameters
    ----------
    program : Function
        The program that contains the loop.
    loop : Parallel
    name : str
        The name of the function.
    said : Remark or None
        The remark above the loop, with the user's line.
    threads : int or None
        The most threads that share it; None for as many as cores.
    names : Collection[str]
        The names of the program.
    numbers : Sequence[Local]
        Its locals, see `locals_of`.
    """

    def __init__(
        self,
        program: Function,
        loop: Parallel,
        name: str,
        said: Remark | None,
        threads: int | None,
        names: Collection[str],
        numbers: Sequence[Local],
    ) -> None:
        self.loop, self.name, self.threads = loop, name, threads
        fresh = Names({*names}).fresh
        self.words = [fresh(word) for word in WORDS]
        begin, end = map(Local, self.words[:2])
        self.sums = [
            Sum(x, combine, _parameter(x, fresh(f"{x.name}_sum")), fresh(f"{x.name}_sums")) for x, combine in loop.sums
        ]
        uses, summed = uses_of(loop.loop), {s.target.name for s in self.sums}
        buffers = [b for b in _buffers(program) if b in uses.buffers and b not in loop.private and b.name not in summed]
        read = uses.names_read - summed
        read_numbers = [Local(c_word(n)) for n in program.sizes if n in read]
        read_numbers += [x for x in numbers if x.name in read]
        given: list[Local | Buffer] = [*read_numbers, *(b for b in buffers if b not in uses.written)]
        results: list[Buffer] = [*(b for b in buffers if b in uses.written), *(s.parameter for s in self.sums)]
        body = self._body(replace(loop.loop, start=begin, stop=end), said)
        self.function = Function(name, [begin, end, *given], [], results, loop.private, body)
        self.shared = replace(self.function, parameters=given)  # the parameters that all chunks share

    def _body(self, loop: For, said: Remark | None) -> list[Statement]:
        """Return the statements of a chunk, in which reductions to one number are locals."""
        pairs = [(s.target, s.parameter) for s in self.sums if isinstance(s.target, Local)]
        before = [Declare(x, Load(parameter, ()), mutable=True) for x, parameter in pairs]
        return [*([said] if said else []), *before, loop, *(Store(parameter, (), x) for x, parameter in pairs)]

    # ---- text

    def call(self) -> list[str]:
        """Return the arguments of the function that runs all chunks."""
        instead = {s.parameter.name: f"&{s.target.name}" for s in self.sums if isinstance(s.target, Local)}
        return [text_of(self.loop.loop.stop), *(instead.get(x, x) for x in self._names()), "workspace"]

    def _names(self) -> list[str]:
        return [x.name for x in (*self.shared.parameters, *self.shared.results)]

    def texts(self) -> list[str]:
        """Return the struct of shared parameters, the function that threads call, and the one that runs all chunks."""
        fields = [f"{INDENT}{x};" for x in parameters_of(self.shared, "")[:-1]]
        given = ["typedef struct {", *fields, f"}} {self.name}_given;"]
        return ["\n".join(lines) for lines in (given, self._chunk(), self._in_chunks())]

    def _chunk(self) -> Iterator[str]:
        begin, end, given, untyped, chunk, place, *_ = self.words
        parameters = [f"const void *{untyped}", *(f"int64_t {x}" for x in (chunk, begin, end)), "char *workspace"]
        yield from wrapped(f"static int {self.name}_chunk(", parameters, ")")
        yield "{"
        yield f"{INDENT}const {self.name}_given *{given} = {untyped};"
        sizes = {c_word(name) for s in self.sums for n in s.parameter.shape for name in symbols_of(n)}
        yield from (f"{INDENT}const int64_t {x} = {given}->{x};" for x in sorted(sizes))
        for s in self.sums:
            x, start = s.parameter.name, text_of(neutral(s.combine, s.parameter.dtype))
            part = chunk if s.numbers == "1" else f"{chunk} * ({s.numbers})"
            yield f"{INDENT}{type_of(s.parameter)} *{x} = {given}->{x} + {part};"
            yield from _for_each(s, place, f"{x}[{{}}] = {start};", INDENT)
        own = {*sizes, *(s.parameter.name for s in self.sums)}
        names = [x if x in own else f"{given}->{x}" for x in self._names()]
        yield from wrapped(f"{INDENT}return {self.name}(", [begin, end, *names, "workspace"], ");")
        yield "}"

    def _in_chunks(self) -> Iterator[str]:
        *_, given, _, chunk, place, count, step, code = self.words
        parameters = [f"int64_t {count}", *parameters_of(self.shared, "restrict ")]
        work = text_of(work_of(self.loop.loop, Local(count)))
        numbers = " + ".join(s.numbers for s in self.sums) or "0"
        yield from wrapped(f"static int {self.name}_in_chunks(", parameters, ")")
        yield f"{{\n{INDENT}const int64_t {step} = sg_step({count}, {work}, {numbers});"
        yield f"{INDENT}if ({step} >= {count})"
        yield from wrapped(f"{2 * INDENT}return {self.name}(", ["0", count, *self._names(), "workspace"], ");")
        yield from (INDENT + _memory(s) for s in self.sums)
        arrays = [s.parts for s in self.sums if s.numbers != "1"]
        parts = {s.parameter.name: s.parts for s in self.sums}
        names = [parts.get(x, x) for x in self._names()]
        yield from wrapped(f"{INDENT}const {self.name}_given {given} = {{", names, "};")
        room = " + ".join(bytes_of(b) for b in self.loop.private if not is_few(b)) or "0"
        arguments = [f"{self.name}_chunk", f"&{given}", count, step, str(self.threads or 0), "workspace", room]
        run = f"{' && '.join(arrays)} ? sg_in_chunks(" if arrays else "sg_in_chunks("
        yield from wrapped(f"{INDENT}const int {code} = {run}", arguments, ") : 2;" if arrays else ");")
        if self.sums:
            yield f"{INDENT}for (int64_t {chunk} = 0; !{code} && {chunk} * {step} < {count}; {chunk}++) {{"
            for s in self.sums:
                at = chunk if s.numbers == "1" else f"{chunk} * ({s.numbers}) + {place}"
                text = combined(f"{s.parameter.name}[{{}}]", f"{s.parts}[{at}]", s.combine)
                yield from _for_each(s, place, text, 2 * INDENT)
            yield f"{INDENT}}}"
        yield from (f"{INDENT}free({x});" for x in arrays)
        yield f"{INDENT}return {code};\n}}"


def _parameter(x: Local | Buffer, name: str) -> Buffer:
    return x if isinstance(x, Buffer) else Buffer(name, x.dtype, (), "result")


def _memory(s: Sum) -> str:
    """Return the declaration of memory for the partial sums of all chunks."""
    kind = type_of(s.parameter)
    if s.numbers == "1":
        return f"{kind} {s.parts}[SG_CHUNKS];"
    return f"{kind} *{s.parts} = malloc((size_t)(SG_CHUNKS * ({s.numbers})) * sizeof({kind}));"


def _for_each(s: Sum, place: str, text: str, indent: str) -> Iterator[str]:
    """Yield a statement for each number of a sum."""
    if s.numbers == "1":
        yield indent + text.replace("{}", "0")
    else:
        yield f"{indent}for (int64_t {place} = 0; {place} < {s.numbers}; {place}++)"
        yield indent + INDENT + text.replace("{}", place)


def _buffers(program: Function) -> list[Buffer]:
    return [*(x for x in program.parameters if isinstance(x, Buffer)), *program.buffers, *program.results]


def locals_of(program: Function) -> list[Local]:
    """Return the locals of a program other than sizes, each once."""
    found = [x for x in program.parameters if isinstance(x, Local)]
    for s in walk(program.body):
        if isinstance(s, Declare | Exact):
            found.append(s.local)
        elif isinstance(s, For | While):
            found.append(s.index if isinstance(s, For) else s.count)
    return list({x.name: x for x in found}.values())
