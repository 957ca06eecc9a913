"""The generated module: docstring, constants, signature, unpacking, body, return."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from symgrad.analysis.aliases import is_read_only
from symgrad.analysis.cost import Step
from symgrad.analysis.overflow import overflows_harmlessly
from symgrad.core.graph import CONSTANT, INPUT, Graph, Node
from symgrad.core.saving import loading
from symgrad.core.sizes import Dim, symbols_of
from symgrad.core.text import CALLED, double_quoted, identifier, key_literal, literal, prose
from symgrad.core.version import VERSION
from symgrad.errors import ArgumentError
from symgrad.frontend.arguments import Leaf
from symgrad.loops.loop import Block, with_nested
from symgrad.spelling import ATOM, spell_dtype
from symgrad.targets.numpy import preamble
from symgrad.targets.numpy.body import Body
from symgrad.targets.numpy.header import Header
from symgrad.targets.numpy.loops import Looping
from symgrad.targets.numpy.names import Names
from symgrad.targets.numpy.scalars import ScalarBody, is_scalar

SMALL = 64  # elements of a constant array that are still written out
WIDTH = 118
CALLED_OTHERWISE = {"scipy": "SciPy"}
TYPES = ["# Type checkers read the signature; the body is generated.", "# mypy: ignore-errors", ""]
QUIETLY = '@np.errstate(over="ignore")  # where exp overflows, 1 / (1 + exp(x)) is 0, as it should be'


@dataclass
class Source:
    """A generated module.

    Attributes
    ----------
    text : str
    function : str
        The name of the function in it.
    constants : dict of str to ndarray
        Arrays too large to be written out, by the name that the module knows them under.
    functions : dict of str to callable
        Functions of the user's own operators, likewise.
    steps : callable
        Gives what the lines make and release; None for the program node by node.
    end : str
        The text at the end of the module that defines functions which its own calls.
    defined : dict of str to callable
        Those functions.
    origins : callable
        Gives the statements in their order, each with the value that it makes.
    """

    text: str
    function: str
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    steps: Callable[[], list[Step] | None] = lambda: None
    end: str = ""
    defined: dict[str, Callable[..., Any]] = field(default_factory=dict)
    origins: Callable[[], list[tuple[str, Node]]] = list

    @property
    def own(self) -> str:
        """The text but for the functions at its end."""
        return self.text.removesuffix(f"{self.end}\n") if self.end else self.text

    @property
    def namespace(self) -> dict[str, Any]:
        """What the text finds under its names where it runs under symgrad: the functions at its end, as they are."""
        return {**self.constants, **self.functions, **self.defined}


def emit(
    graph: Graph, header: Header, level: int, checks: Sequence[str] | None = None, threads: int | None = None
) -> Source:
    """The source of a program.

    Parameters
    ----------
    level : int
        0 writes one line a node, 1 and above nests and releases.
    checks : list of str, optional
        Statements that refuse wrong arguments, for a module that stands on its own.
    threads : int, optional
        How many may share a loop; by default as many as there are cores where the module runs.
    """
    if level > 1 and is_scalar(graph):
        return _scalar_module(graph, header, checks or ())
    names = Names(graph.names, header.taken)
    body = Looping(graph.outputs, names, graph.names, nested=level > 0, quick=level > 1, threads=threads)
    everything = list(with_nested(body.nodes))
    symbols = _symbols([*graph.inputs, *everything], of_inputs=checks is not None)
    _reserve(names, symbols, header)
    for length in _lengths(body.nodes):
        names.reserve(length)
    _name_inputs(names, header)
    body.write()
    live = [node for node in graph.inputs if node in body.uses]
    lines = [
        *_unpacking(live, names, header),
        *_sizes(graph.inputs, header, symbols),
        *_numbers(header, symbols),
        *(checks or ()),
        *body.lines,
        f"return {_spell_tree(header.results, _results(body, graph.outputs))}",
    ]
    written, kept = _constants(body.constants)
    packages = _packages(everything)
    own = {name: op.evaluate for op, name in body.functions.items() if not op.written}
    defined = {name: op.evaluate for op, name in body.functions.items() if op.written}
    end = _end(body.preamble, defined)
    parts = [
        _docstring(header, graph.inputs, body.preamble, packages),
        _top(header, written, kept, own, body.preamble, packages, standalone=checks is not None),
        "",
        _definition(header, lines, everything),
        *(["", end, ""] if end else []),
    ]
    defined |= preamble.shared(body.preamble)
    origins = lambda: [*body.origins, *_origin_of_return(body, lines[-1], graph.outputs)]
    return Source("\n".join(parts), header.function, kept, own, lambda: body.steps, end, defined, origins)


def _origin_of_return(body: Body, line: str, outputs: Sequence[Node]) -> list[tuple[str, Node]]:
    """The value that is computed where it is returned, if there is one."""
    return [(line, y) for y in outputs if y in body.pending and body.pending[y].depth][:1]


def lines_of(graph: Graph, header: Header) -> dict[Node, str]:
    """The line of each node where every node has one, under the names that level 0 gives."""
    names = Names(graph.names, header.taken)
    body = Body(graph.outputs, names, graph.names, nested=False)
    _reserve(names, _symbols([*graph.inputs, *body.nodes], of_inputs=False), header)
    _name_inputs(names, header)
    body.write()
    return body.line_of


def _packages(nodes: Iterable[Node]) -> list[str]:
    """The modules beside NumPy that a program calls functions of."""
    return sorted({node.op.package for node in nodes} - {""})


def _end(called: Collection[str], defined: Mapping[str, Callable[..., Any]]) -> str:
    """What defines the functions of the runtime, and those of operators, which arguments may share a name with."""
    again = [f"{name} = {f.__name__}" for name, f in defined.items() if name != f.__name__]
    return "\n\n\n".join(filter(None, [preamble.text_for(called), preamble.definitions(defined.values()), *again]))


def _definition(header: Header, lines: Iterable[str], nodes: Collection[Node] = ()) -> str:
    """The function; where the body needs names of its parameters for itself, it is a function of other names."""
    line = header.signature_line()
    first = [QUIETLY] if overflows_harmlessly(nodes) else []
    if header.inner != header.function:
        why = f"    # the body needs {' and '.join(sorted(CALLED.intersection(header.local)))} for itself"
        call = f"    return {header.inner}({', '.join(header.local)})"
        first = [line, why, call, "", "", *first]
        line = f"def {header.inner}({', '.join(header.local.values())}):"
    body = [f"    {line}" if line else "" for line in lines]
    return "\n".join([*first, line, *body, ""])


def _plain_parameter(name: str) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _scalar_module(graph: Graph, header: Header, checks: Iterable[str]) -> Source:
    """Two functions: with `math`, which raises where a number would be infinite or NaN, and then with NumPy."""
    names = Names(graph.names, header.taken)
    _name_inputs(names, header)
    by_numpy = names.fresh(f"{header.function}_by_numpy")
    body = ScalarBody(graph.outputs, names, graph.names)
    body.write()
    live = [node for node in graph.inputs if node in body.uses]
    given = [names.of(x) if x.aval.weak else f"np.float64({names.of(x)})" for x in live]
    texts = {y: (body.result(y), body.result(y)) for y in graph.outputs}
    lines = [
        *_unpacking(live, names, header, as_floats=True),
        *checks,
        "try:",
        *(f"    {line}" for line in (*body.lines, f"return {_spell_tree(header.results, texts)}")),
        "except (ArithmeticError, ValueError):  # NumPy has infinities and NaNs for these",
        f"    return {by_numpy}({', '.join(given)})",
    ]
    called = {x: names.of(x) for x in live}
    parameters = [_plain_parameter(name) for name in called.values()]
    leaves = {x: Leaf(name, "", name, name) for x, name in called.items()}
    flat = replace(header, function=by_numpy, parameters=parameters, inputs=leaves, hints=None)
    plain = Body(graph.outputs, Names(graph.names, flat.taken), graph.names, nested=True)
    _name_inputs(plain.names, flat)
    plain.write()
    numpy_lines = [*plain.lines, f"return {_spell_tree(header.results, _results(plain, graph.outputs))}"]
    packages = _packages(body.nodes)
    imports = "\n".join([*_imports(["import math"], packages, header), ""])
    parts = [
        f"{_docstring(header, graph.inputs, (), packages)}\n{imports}",
        *body.definitions,
        _definition(header, lines),
        _definition(flat, numpy_lines, plain.nodes),
    ]
    origins = lambda: [
        *body.origins,
        *_origin_of_return(body, lines[-3].strip(), graph.outputs),
        *plain.origins,
        *_origin_of_return(plain, numpy_lines[-1], graph.outputs),
    ]
    return Source("\n\n".join(parts), header.function, origins=origins)


def _name_inputs(names: Names, header: Header) -> None:
    """Parameters go by their names in the body, parts of them by names that are free."""
    for node, leaf in header.inputs.items():
        names.given(node, names.fresh(identifier(leaf.name)) if leaf.below else header.local[leaf.parameter])


def _reserve(names: Names, symbols: Iterable[str], header: Header) -> None:
    """Keep the names of symbolic sizes for them."""
    for symbol in symbols:
        if symbol in header.numbers and symbol in header.local:
            continue
        if symbol in header.local:
            raise ArgumentError(f"{symbol} is the name of a size and of an argument", "Give the size another letter.")
        names.fresh(symbol)


def _lengths(nodes: Iterable[Node]) -> Iterator[str]:
    """What the bodies of loops call how many rows a block has."""
    for block in (value for node in nodes for _, value in node.params if isinstance(value, Block)):
        yield from map(str, (block.rows, *(bounds.rows for bounds in block.bounds)))


def _top(
    header: Header,
    written: Iterable[str],
    kept: Mapping[str, np.ndarray],
    functions: Iterable[str],
    called: Collection[str],
    packages: Iterable[str],
    standalone: bool,
) -> str:
    """Imports, and constants: written out, or where they come from."""
    standard = preamble.imports_for(called)
    described = {name: f"{x.dtype}{list(x.shape)}" for name, x in kept.items()}
    standard += ["from pathlib import Path"] * (bool(kept) and standalone)
    imports = _imports(standard, packages, header)
    if kept and standalone:
        loaded = [loading(kept)]
        loaded += [f'    {name} = _constants["{name}"]  # {text}' for name, text in described.items()]
    else:
        loaded = [f"# {name}: {text}, a constant kept beside this source" for name, text in described.items()]
    own = [f"# {name}: the function of your operator, kept beside this source" for name in functions]
    definitions = [*loaded, *written, *own]
    return "\n".join([*imports, *([""] if definitions else []), *definitions, ""])


def _imports(standard: Iterable[str], packages: Iterable[str], header: Header) -> list[str]:
    """Import lines, those of the standard library first; before them what type checkers are told."""
    hints = header.hint_imports()
    told = [] if header.hints is None else TYPES
    first = sorted([*standard, *(line for line in hints if "numpy" not in line)], key=_import_order)
    others = ["import numpy as np", *(f"import {package}" for package in packages)]
    return [*told, *first, *[""] * bool(first), *others, *(line for line in hints if "numpy" in line)]


def _import_order(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line


def _results(body: Body, outputs: Sequence[Node]) -> dict[Node, tuple[str, str]]:
    """How each result is returned, and how once more: as an array of its own."""
    taken: set[Node] = set()
    texts = {}
    for y in outputs:
        if y in texts:
            continue
        root = body.roots[y]
        shared = root in taken or root.op in (INPUT, CONSTANT) or is_read_only(y)
        taken.add(root)
        code = body.code(y)
        number = y.aval.weak or (y.op is CONSTANT and y.aval.shape == ())
        copy = code.text if number else f"{code.at(ATOM)}.copy()"
        texts[y] = (copy if shared else code.text, copy)
    return texts


def _spell_tree(tree: Any, texts: dict[Node, tuple[str, str]], top: bool = True) -> str:
    """A tree of results as a Python expression."""
    if isinstance(tree, Node):
        text, again = texts[tree]
        texts[tree] = again, again
        return text
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{_key(key)}: {_spell_tree(value, texts, False)}" for key, value in tree.items()) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(_spell_tree(x, texts, False) for x in tree) + "]"
    if isinstance(tree, tuple):
        inner = ", ".join(_spell_tree(x, texts, False) for x in tree) + "," * (len(tree) == 1)
        return inner if top and tree else f"({inner})"
    value = literal(tree)
    assert value is not None, f"{tree!r} is no result of a program"
    return double_quoted(value)


def _key(key: Any) -> str:
    return double_quoted(key_literal(key) or "")


def _unpacking(inputs: Iterable[Node], names: Names, header: Header, as_floats: bool = False) -> list[str]:
    lines = []
    for node in inputs:
        name, place = names.of(node), header.place(node)
        if as_floats and not node.aval.weak:
            lines.append(f"{name} = float({place})")
        elif name != place:
            lines.append(f"{name} = {place}")
    return lines


def _symbols(nodes: Iterable[Node], of_inputs: bool) -> list[str]:
    """The symbolic sizes that the body mentions, or all of them."""
    found: dict[str, None] = {}
    for node in nodes:
        if node.op is not INPUT:
            found.update(dict.fromkeys(name for _, value in node.params for name in _symbols_in(value)))
        elif of_inputs:
            found.update(dict.fromkeys(_symbols_in(node.aval.shape)))
    return sorted(found)


def _symbols_in(value: Any) -> Iterable[str]:
    if isinstance(value, Dim):
        return symbols_of(value)
    if isinstance(value, Block):
        return _symbols_in(value.sizes)
    if isinstance(value, tuple):
        return [name for item in value for name in _symbols_in(item)]
    return ()


def _sizes(inputs: Iterable[Node], header: Header, symbols: Iterable[str]) -> list[str]:
    """Lines that read the symbolic sizes off the shapes of the inputs."""
    missing, lines = set(symbols), []
    for node in inputs:
        sizes = [n.expr.name if isinstance(n, Dim) and n.expr.is_Symbol else "_" for n in node.aval.shape]
        found = missing.intersection(sizes)
        if not found:
            continue
        place = header.place(node)
        if found == set(sizes) and len(found) == len(sizes) > 1:
            lines.append(f"{', '.join(sizes)} = {place}.shape")
        else:
            lines += [f"{name} = {place}.shape[{sizes.index(name)}]" for name in sorted(found)]
        missing -= found
    return lines


def _numbers(header: Header, symbols: Iterable[str]) -> list[str]:
    """Lines that read int arguments under the names of their symbols."""
    places = {name: header.local[leaf.parameter] + leaf.below for name, leaf in header.numbers.items()}
    return [f"{name} = {places[name]}" for name in symbols if places.get(name, name) != name]


def _constants(constants: Mapping[Node, str]) -> tuple[list[str], dict[str, np.ndarray]]:
    """Lines that define constant arrays, and those that are too large to be written out, by name."""
    lines, kept = [], {}
    for node, name in constants.items():
        value = node.params[0][1].value
        text = spell_array(value)
        if text is None:
            kept[name] = value
        else:
            lines += textwrap.wrap(f"{name} = {text}", WIDTH, subsequent_indent="    ", break_long_words=False)
    return lines, kept


def spell_array(value: np.ndarray) -> str | None:
    """An array as source: as the call that makes it, or number by number while it is small."""
    dtype = f"dtype={spell_dtype(value.dtype)}"
    of_float, of_int = ("" if value.dtype == usual else f", {dtype}" for usual in (float, int))
    if not value.size:
        return f"np.empty({literal(value.shape)}{of_float})"
    if value.ndim == 1 and value.dtype.kind == "i" and value.size > 2 and np.array_equal(value, np.arange(value.size)):
        return f"np.arange({value.size}{of_int})"
    if value.ndim == 2 and value.size > 1 and _is_identity(value):
        return f"np.eye({', '.join(map(str, dict.fromkeys(value.shape)))}{of_float})"
    numbers = None if value.size > SMALL else literal(value.tolist())
    if numbers is None:
        return None
    usual = value.dtype in (np.dtype(int), np.dtype(float), np.dtype(bool))
    return f"np.array({numbers}{'' if usual else f', {dtype}'})"


def _is_identity(value: np.ndarray) -> bool:
    return value.tobytes() == np.eye(*value.shape, dtype=value.dtype).tobytes()  # zeros have signs


def _docstring(header: Header, inputs: Sequence[Node], called: Collection[str], packages: Iterable[str]) -> str:
    lines = textwrap.wrap(header.signature(inputs), WIDTH, break_long_words=False, break_on_hyphens=False)
    described = "\n".join(map(prose, lines))
    tops = dict.fromkeys(package.split(".")[0] for package in packages)
    *others, last = ["NumPy", *(CALLED_OTHERWISE.get(top, top) for top in tops), *preamble.packages_for(called)]
    needs = f"{', '.join(others)} and {last}" if others else last
    return f'"""{prose(header.summary)}\n\n{described}\n\nGenerated by symgrad {VERSION}. Needs {needs}.\n"""\n'
