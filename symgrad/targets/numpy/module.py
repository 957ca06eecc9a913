"""The generated module: docstring, imports and constants, the function, and the runtime after it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from symgrad.analysis.memory_profile import Step
from symgrad.analysis.overflow import overflows_harmlessly
from symgrad.core.graph import Graph, Literal, Node, without_tokens
from symgrad.core.region import with_nested
from symgrad.core.saving import loading
from symgrad.core.text import prose
from symgrad.core.version import VERSION
from symgrad.frontend.arguments import Leaf
from symgrad.loops import machine
from symgrad.loops.loop import LOOP
from symgrad.lowering.placing import place
from symgrad.ops.control import SCAN
from symgrad.spelling import call
from symgrad.targets.numpy.abilities import abilities
from symgrad.targets.numpy.body import Body
from symgrad.targets.numpy.checks import errors_of
from symgrad.targets.numpy.control import Control
from symgrad.targets.numpy.excerpts import excerpt, imports_of, optional_packages_of, packages_of, text_of
from symgrad.targets.numpy.expressions import spell_array
from symgrad.targets.numpy.header import Header, parameter
from symgrad.targets.numpy.interface import (
    lengths,
    name_inputs,
    numbers,
    places,
    returned_tree,
    sizes,
    symbols,
    unpacked,
)
from symgrad.targets.numpy.loops import Looping
from symgrad.targets.numpy.names import Names, Scope
from symgrad.targets.numpy.scalars import EXCEPT, ScalarBody, is_scalar, may_raise
from symgrad.targets.numpy.second_run import NUMBERS
from symgrad.targets.numpy.statements import Line, Statement, Suite, mentioned, printed, remark, returned

WIDTH = 118
CALLED_OTHERWISE = {"scipy": "SciPy"}
TYPES = ["# Type checkers read the signature; the body is generated.", "# mypy: ignore-errors", ""]
BLOCK = "_BLOCK = {} << 20  # bytes that a block of rows may take: up to eight times the level-2 cache of a core"
QUIETLY = '@np.errstate(over="ignore")  # where exp overflows, 1 / (1 + exp(x)) is 0, as it should be'
Checks = Callable[[Mapping[str, str]], Sequence[Statement]]  # by what the body calls the parameters


@dataclass(frozen=True)
class Source:
    """A generated module."""

    function: str
    lines: Sequence[Line]  # of the function, and of what stands before it
    first: int  # the line, from 1 on, in which the first function begins
    constants: dict[str, np.ndarray] = field(default_factory=dict)  # too large to be written out, by name
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)  # of the user's own operators, likewise
    steps: Callable[[], list[Step] | None] = lambda: None  # what the lines make and release; None: node by node
    behind: tuple[str, ...] = ()  # the text of functions that its own calls, and what makes a module of its own
    defined: dict[str, Callable[..., Any]] = field(default_factory=dict)  # those functions

    @cached_property
    def own(self) -> str:
        """Return the text without the runtime after it."""
        return "".join(f"{line}\n" for line in self.lines)

    @cached_property
    def text(self) -> str:
        return "\n\n".join([self.own, *(f"{part}\n" for part in self.behind)])

    @property
    def origins(self) -> dict[int, Node]:
        """The lines that make a value of the user's program, from 1 on."""
        found = ((i, line.makes) for i, line in enumerate(self.lines, start=1))
        return {i: node for i, node in found if node is not None and node.op is not LOOP}

    @property
    def namespace(self) -> dict[str, Any]:
        """Return the names that the text finds when it runs under symgrad."""
        return {**self.constants, **self.functions, **self.defined}


def emit(
    graph: Graph,
    header: Header,
    level: int,
    checks: Checks | None = None,  # statements that refuse wrong arguments, for a module that stands on its own
    threads: int | None = None,  # how many may share a loop, by default as many as cores where the module runs
) -> Source:
    """The source of a program: at level 0 one line a node, from 1 on nested, and with lines that release memory."""
    if level > 1 and is_scalar(graph):
        return _scalar_module(graph, header, checks)
    everything = list(with_nested(graph.live))
    wanted, packages = symbols([*graph.inputs, *everything], of_inputs=checks is not None), _packages(graph.live)
    counts = places(everything)
    errors = errors_of(everything)
    header = header.using([*wanted, *counts, *errors.taken], packages)
    scope = Scope(Names(graph.names, header.taken), threads, sizes=wanted, errors=errors.names)
    for name in (*lengths(everything), *counts):
        scope.names.reserve(name)
    placed = place(graph.outputs, abilities(level))
    body = _written(Looping(placed, scope, nested=level > 0, quick=level > 1), header)
    live = [node for node in graph.inputs if node in body.placed.uses]
    written, returns = body.statements, returned_tree(header.results, body, without_tokens(graph.outputs))
    if checks is None and any(node.op is SCAN for node in everything):  # a loop over an array need not know its length
        wanted = [name for name in wanted if name in mentioned(wanted, [*written, returns])]
    statements = [
        *unpacked(live, scope.names, header),
        *sizes(graph.inputs, header, wanted),
        *numbers(header, wanted),
        *(checks(header.local) if checks else ()),
        *written,
        returns,
    ]
    from symgrad.targets.numpy import runtime  # as in `names`, where a program is written

    defined = {name: getattr(runtime, name) for name in sorted(scope.called)}
    defined |= {name: op.evaluate for op, name in scope.functions.items() if op.written}
    own = {name: op.evaluate for op, name in scope.functions.items() if not op.written} | errors.kept
    called = excerpt(defined.values())
    kept, definitions = _constants(scope.constants, own, standalone=checks is not None)
    named = mentioned(("math", "_NUMBERS"), [*scope.definitions, *written])
    paths = ["from pathlib import Path"] * (bool(kept) and checks is not None)
    top = [
        *_docstring(
            header, graph.inputs, [*packages, *packages_of(called), *errors.packages], optional_packages_of(called)
        ),
        *_imports(
            [*imports_of(called), *errors.standard, *paths, *["import math"] * bool(named)],
            packages,
            header,
            errors.imports,
        ),
        *definitions,
        *(["", NUMBERS] if "_NUMBERS" in named else ()),
        *(["", BLOCK.format(machine.block_bytes() >> 20)] if "_rows_of_block" in scope.called else ()),
    ]
    defined_here = [[each] for each in scope.definitions]
    lines, first = _laid_out(top, [*defined_here, *_definition(header, statements, everything)])
    again = [f"{name} = {f.__name__}" for name, f in defined.items() if name != f.__name__]
    behind = tuple(filter(None, [text_of(called), *again]))
    return Source(header.function, lines, first, kept, own, lambda: body.steps, behind, defined)


def _written(body: Body, header: Header) -> Body:
    """A body with all of its statements."""
    name_inputs(body.names, header)
    body.write()
    return body


def _laid_out(top: Sequence[str], functions: Iterable[Sequence[Statement]]) -> tuple[list[Line], int]:
    """The lines of a module, with two empty ones before each function, and where the first function begins."""
    lines = list(map(Line, top))
    for function in functions:
        lines += [Line(), Line(), *printed(function)]
    return lines, len(top) + 3


def lines_of(graph: Graph, header: Header) -> dict[Node, str]:
    """The line of each node where every node has one, under the names that level 0 gives."""
    nodes = graph.live
    header = header.using(symbols(nodes, of_inputs=False), _packages(nodes))
    scope = Scope(Names(graph.names, header.taken), errors=errors_of(with_nested(nodes)).names)
    body = _written(Control(place(graph.outputs, abilities(0)), scope, nested=False), header)
    return {line.makes: line.text for line in printed(body.statements) if line.makes is not None}


def _packages(nodes: Sequence[Node]) -> list[str]:
    """The modules beside NumPy that a program calls functions of, in branches and loops as well."""
    return sorted({node.op.package for node in with_nested(nodes)} - {""})


def _definition(
    header: Header, statements: Sequence[Statement], nodes: Collection[Node] = ()
) -> list[Sequence[Statement]]:
    """The function; where the body needs names of its parameters for itself, it is a function of other names."""
    quietly = [QUIETLY] if overflows_harmlessly(nodes) else []
    if header.inner == header.function:
        return [[Suite([*quietly, *header.signature_lines()], statements)]]
    why = remark(f"the body needs {' and '.join(header.clashes)} for itself")
    outer = Suite(header.signature_lines(), [why, returned(call(header.inner, list(header.local)))])
    return [[outer], [Suite([*quietly, f"def {header.inner}({', '.join(header.local.values())}):"], statements)]]


def _scalar_module(graph: Graph, header: Header, checks: Checks | None) -> Source:
    """A function with `math`; where that may raise as a number would be infinite or NaN, another one with NumPy."""
    packages = _packages(graph.live)
    header = header.using((), packages)
    names = Names(graph.names, header.taken)
    by_numpy = names.fresh(f"{header.function}_by_numpy") if any(map(may_raise, graph.live)) else None
    body = ScalarBody(place(graph.outputs, abilities(1)), Scope(names))
    body.fixed |= set(graph.inputs)  # which are given to the other function if this one fails
    _written(body, header)
    called = {x: names.of(x) for x in graph.inputs if x in body.placed.uses}
    before = [*unpacked(called, names, header, as_floats=True), *(checks(header.local) if checks else ())]
    statements = [*body.statements, returned_tree(header.results, body, graph.outputs)]
    functions: list[Sequence[Statement]] = [[each] for each in body.scope.definitions]
    math = ["import math"] * bool(mentioned(["math"], [*body.scope.definitions, *statements]))
    if by_numpy is None:
        functions += _definition(header, [*before, *statements])
    else:
        given = [name if x.aval.weak else f"np.float64({name})" for x, name in called.items()]
        again = Suite([EXCEPT], [returned(call(by_numpy, given))])
        functions += _definition(header, [*before, Suite(["try:"], statements, [again])])
        functions += _by_numpy(graph, header, by_numpy, called)
    top = [*_docstring(header, graph.inputs, packages), *_imports(math, packages, header)]
    return Source(header.function, *_laid_out(top, functions))


def _by_numpy(graph: Graph, header: Header, function: str, called: Mapping[Node, str]) -> list[Sequence[Statement]]:
    """The function of numbers once more, with NumPy."""
    leaves = {x: Leaf(name, "", name, name) for x, name in called.items()}
    parameters = list(map(parameter, called.values()))
    flat = replace(header, function=function, parameters=parameters, inputs=leaves, hints=None)
    scope = Scope(Names(graph.names, flat.taken))
    plain = _written(Control(place(graph.outputs, abilities(1)), scope, nested=True), flat)
    again = [*plain.statements, returned_tree(header.results, plain, graph.outputs)]
    return _definition(flat, again, list(with_nested(plain.placed.nodes)))


def _imports(
    standard: Iterable[str], packages: Iterable[str], header: Header, of_errors: Iterable[str] = ()
) -> list[str]:
    """Import lines, those of the standard library first; before them what type checkers are told."""
    hints = header.hint_imports()
    told = [] if header.hints is None else TYPES
    first = [*standard, *(line for line in hints if "numpy" not in line)]
    first.sort(key=lambda line: (line.startswith("from"), line))
    others = ["import numpy as np", *(f"import {package}" for package in packages)]
    return [*told, *first, *[""] * bool(first), *others, *(line for line in hints if "numpy" in line), *of_errors]


def _constants(
    constants: Mapping[Literal, str], functions: Mapping[str, Callable[..., Any]], standalone: bool
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return arrays too large to be written out, and lines that define the others or name the file of constants."""
    texts = {name: spell_array(literal.value) for literal, name in constants.items()}
    kept = {name: literal.value for literal, name in constants.items() if texts[name] is None}
    described = {name: f"{x.dtype}{list(x.shape)}" for name, x in kept.items()}
    if kept and standalone:
        lines = [loading(kept), *(f'    {name} = _constants["{name}"]  # {text}' for name, text in described.items())]
    else:
        lines = [f"# {name}: {text}, a constant kept beside this source" for name, text in described.items()]
    for name, text in texts.items():
        if text is not None:
            lines += textwrap.wrap(f"{name} = {text}", WIDTH, subsequent_indent="    ", break_long_words=False)
    lines += [f"# {name}: {_what_is_kept(x)}, kept beside this source" for name, x in functions.items()]
    return kept, ["", *lines] if lines else []


def _what_is_kept(x: Callable[..., Any]) -> str:
    if isinstance(x, type):
        return "your exception"
    if str(x.__module__).startswith("sg_"):  # a module that `targets.c` made
        return "the machine code of the C in source.native"
    return "the function of your operator"


def _docstring(
    header: Header, inputs: Sequence[Node], packages: Iterable[str], optional: Iterable[str] = ()
) -> list[str]:
    described = textwrap.wrap(header.signature(inputs), WIDTH, break_long_words=False, break_on_hyphens=False)
    tops = dict.fromkeys(package.split(".")[0] for package in packages)
    *others, last = ["NumPy", *(CALLED_OTHERWISE.get(top, top) for top in tops)]
    needs = f"{', '.join(others)} and {last}" if others else last
    uses = "".join(f", and uses {package} where it is installed" for package in optional)
    made = f"Generated by symgrad {VERSION}. Needs {needs}{uses}."
    return [f'"""{prose(header.summary)}', "", *map(prose, described), "", made, '"""', ""]
