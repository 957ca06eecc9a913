"""A program from a JSON document: everything in it is checked, nothing in it is executed."""

from __future__ import annotations

import inspect
import json
import linecache
import re
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import INPUT, SEED, SIZE, Aval, Graph, Node, Op, Params
from symgrad.core.provenance import UNKNOWN, Where
from symgrad.core.region import Region
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import Dim, Size
from symgrad.core.text import is_name
from symgrad.errors import ArgumentError, SymgradError
from symgrad.frontend.arguments import Arguments, Leaf
from symgrad.frontend.graphs import Graph as TracedGraph
from symgrad.frontend.trace import Program
from symgrad.frontend.variable import Variable
from symgrad.interchange.cursor import Cursor
from symgrad.interchange.values import LARGEST, Reader, Symbols, type_of
from symgrad.interchange.version_1 import upgraded
from symgrad.interchange.writer import FORMAT, FORMAT_VERSION
from symgrad.ops.scipy import operator_named

MOST_LINES = 1_000_000  # of all files together
KINDS = {kind.name.lower(): kind for kind in inspect._ParameterKind}

_PATTERN = re.compile(r"\w*\{\}\w*")  # of the name of a derivative
_loaded = count(1)  # of files in linecache, which belongs to the process


def program_at(at: Cursor) -> Program:
    """The program that a document describes."""
    if _version(at) == 1:
        at = Cursor(upgraded(at.value))
    fields = at.fields((
        *("format", "version", "about", "name", "summary", "where", "sizes", "parameters", "arguments", "results"),
        *("files", "nodes", "names"),
    ))  # fmt: skip
    sizes, symbols = _sizes(fields["sizes"])
    files = _Files(fields["files"])
    graph = TracedGraph()
    reader = Reader(symbols)
    files.belong_to(graph)
    graphs: list[Graph] = [graph]
    _add_nodes(graph, fields["nodes"], reader, files, graphs)
    _add_names(graph, fields["names"], graphs)
    parameters = _parameters(fields["parameters"])
    arguments = _arguments(fields["arguments"], parameters, graph, reader)
    leaves = _leaves(arguments)
    graph.inputs = _inputs(graph, leaves, fields["arguments"])
    inputs = tree.unflatten(arguments.structure, [_of_leaf(leaf, graph) for leaf in leaves])
    outputs = _tree(fields["results"], lambda x: _result(x, graph, reader))
    graph.outputs = [x.node for x in tree.flatten(outputs)[0] if isinstance(x, Variable)]
    return Program(
        graph,
        dict(zip([p.name for p in parameters], inputs, strict=True)),
        outputs,
        fields["name"].text(),
        files.place(fields["where"]),
        leaves,
        arguments.structure,
        parameters,
        sizes,
        arguments.orders(),
        fields["summary"].text(),
    )


def _version(at: Cursor) -> int:
    found = dict(at.entries())
    if "format" not in found or found["format"].value != FORMAT:
        raise at.wrong("this is not a graph of symgrad")
    version = found["version"].whole(1) if "version" in found else 0
    if not 1 <= version <= FORMAT_VERSION:
        instead = f"A newer symgrad reads it; this one reads versions 1 to {FORMAT_VERSION}."
        raise at.wrong(f"version {version} of the format", instead)
    return version


# ---- sizes, files


def _sizes(at: Cursor) -> tuple[Sizes, Symbols]:
    fields = at.fields(("symbols", "assumed", "values", "pinned"), ("places",))
    numbers = [_numbers(fields[key]) if fields[key].value is not None else None for key in ("values", "pinned")]
    sizes = Sizes(numbers[0])
    for entry in fields["symbols"].items():
        name, text = entry.items(2)
        try:
            symbol = sizes.symbol(name.text(100))
        except ArgumentError as error:
            raise name.wrong(error.fact) from None
        if str(symbol) != text.text():
            raise text.wrong(f"the size {name.value} is called {symbol} in expressions")
    symbols = Symbols(sizes)
    reader = Reader(symbols)
    for bound in fields["assumed"].items():
        size, least = map(reader.size, bound.items(2))
        if not isinstance(size, Dim) or not sizes.assume(size - least):
            raise bound.wrong("this cannot be assumed")
    for entry in fields["places"].items() if "places" in fields else ():
        name, turns = entry.items(2)
        if not is_name(name.text(100)) or str(sizes.place(name.value, _turns(turns, reader))) != name.value:
            raise name.wrong(f"the index of a loop cannot be called {name.value!r}")
        reader = Reader(symbols := Symbols(sizes))
    sizes.pinned = numbers[1] or {}
    return sizes, symbols


def _turns(at: Cursor, reader: Reader) -> Size | None:
    return None if at.value is None else reader.size(at)


def _numbers(at: Cursor) -> dict[str, int]:
    return {name: x.whole(0, LARGEST) for name, x in at.entries()}


class _Files:
    """The user's files: those of their lines that the document has, where Python looks for lines."""

    def __init__(self, at: Cursor) -> None:
        self._names: list[str] = []
        total = 0
        for file in at.items():
            fields = file.fields(("name", "lines"))
            lines = {_line_number(x, name): x.text() for name, x in fields["lines"].entries()}
            total += max(lines, default=0)
            if total > MOST_LINES:
                raise fields["lines"].wrong(f"more than {MOST_LINES} lines")
            self._names.append(_registered(fields["name"].text(), lines))

    def belong_to(self, graph: Graph) -> None:
        """Let the lines go when the graph goes."""
        for name in self._names:
            weakref.finalize(graph, linecache.cache.pop, name, None)

    def place(self, at: Cursor, of: Node | None = None, again: bool = False) -> Where:
        """A place in one of the files."""
        file, line = at.items(2)
        return Where(self._names[file.whole(0, len(self._names) - 1)], line.whole(0, MOST_LINES), of, again)


def _line_number(at: Cursor, text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,6}", text):
        raise at.wrong("lines have numbers from 1 on")
    return int(text)


def _registered(name: str, lines: dict[int, str]) -> str:
    """The name under which Python finds these lines; those that are not known are empty."""
    unique = f"<graph {next(_loaded)}>/{name.replace('/', '_')}"
    texts = ["\n"] * max(lines, default=0)
    for number, text in lines.items():
        texts[number - 1] = f"{text}\n"
    linecache.cache[unique] = (sum(map(len, texts)), None, texts, unique)
    return unique


# ---- nodes

GONE = Node(-1, SEED, (), (), Aval((), np.dtype(float)), UNKNOWN)
"""Stands for the node that a derivative derives, where that is not in the graph."""


def _add_nodes(graph: Graph, at: Cursor, reader: Reader, files: _Files, graphs: list[Graph]) -> None:
    for i, row in enumerate(at.items()):
        fields = row.fields(("id", "op", "type", "where"), ("inputs", "params", "of", "again"))
        fields["id"].whole(i, i)
        op = _operator(fields["op"])
        inputs = tuple([_node(x, graph) for x in fields["inputs"].items()]) if "inputs" in fields else ()
        where = files.place(fields["where"], *_derived(fields, graphs))
        region = lambda inner: _region(inner, graph, reader, files, graphs)
        params = _params(fields["params"], op, reader, region) if "params" in fields else ()
        node, found = _added(row, graph, op, inputs, params, where)
        if node.id != i:
            raise row.wrong(f"this is node {node.id} again")
        if found != fields["type"].value and found != _type_by_the_end(fields["type"], reader):
            raise fields["type"].wrong(f"it is {json.dumps(found)} by the operator and its inputs")


def _added(row: Cursor, graph: Graph, op: Op, inputs: tuple[Node, ...], params: Params, where: Where) -> Any:
    """The node and its type, if the operator takes such inputs and parameters."""
    try:
        node = graph.add(op, inputs, params, where)
        found = type_of(node.aval)
    except SymgradError as error:
        raise row.wrong(error.fact) from None
    except Exception as error:  # inference relies on what a trace has checked
        raise row.wrong(f"{op.name} does not take these inputs and parameters: {error}") from None
    if op is SIZE and not isinstance(dict(params)["value"], Dim):
        raise row.wrong("a size is symbolic; a number is a constant")
    return node, found


def _type_by_the_end(at: Cursor, reader: Reader) -> Any:
    """A type by all that a trace assumed of sizes: ``min(2, n)`` of a value from before it assumed ``n >= 2`` is 2."""
    return [_type_by_the_end(x, reader) for x in at.items()] if type(at.value) is list else type_of(reader.type(at))


def _operator(at: Cursor) -> Op:
    name = at.text(200)
    try:
        return operator_named(name)
    except KeyError:
        raise at.wrong(
            f"there is no operator {name!r}",
            "Define or import it before, if it is one of your own; or write the file with the symgrad that reads it.",
        ) from None


def _params(at: Cursor, op: Op, reader: Reader, region: Callable[[Cursor], Region]) -> Params:
    """The parameters of a node, which are those of its operator."""
    known = {p.name for p in inspect.signature(op.infer).parameters.values() if p.kind in _NAMED} | set(op.defaults)
    found = []
    for name, x in at.entries():
        if name not in known:
            raise x.wrong(f"{op.name} has no such parameter")
        holds = type(x.value) is dict and "region" in x.value
        found.append((name, region(x.fields(("region",))["region"]) if holds else reader.param(x)))
    return tuple(sorted(found, key=lambda param: param[0]))


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _derived(fields: dict[str, Cursor], graphs: Sequence[Graph]) -> tuple[Node | None, bool]:
    """Return the node that this one derives or rematerialises, and which of these."""
    if "of" not in fields:
        return None, False
    of = GONE if fields["of"].value is None else _place(fields["of"], graphs)
    return of, "again" in fields and fields["again"].truth()


def _node(at: Cursor, graph: Graph) -> Node:
    """A node that is there already."""
    number = at.whole(0)
    if number >= len(graph.nodes):
        raise at.wrong(f"{number} is not before it")
    return graph.nodes[number]


def _place(at: Cursor, graphs: Sequence[Graph]) -> Node:
    """A node of the program, or one in a region with the number of its graph before it."""
    if type(at.value) is not list:
        return _node(at, graphs[0])
    k, node = at.items(2)
    return _node(node, graphs[k.whole(0, len(graphs) - 1)])


def _region(at: Cursor, graph: Graph, reader: Reader, files: _Files, graphs: list[Graph]) -> Region:
    """A part of this graph, of one that is known, or of one of its own."""
    fields = at.fields(("parameters", "results"), ("graph", "nodes", "names"))
    if "nodes" in fields:
        fields, graph = at.fields(("parameters", "results", "nodes", "names")), Graph()
        graphs.append(graph)
        _add_nodes(graph, fields["nodes"], reader, files, graphs)
        _add_names(graph, fields["names"], graphs)
    elif "graph" in fields:
        graph = graphs[fields["graph"].whole(0, len(graphs) - 1)]
    region = Region(graph, *([_node(x, graph) for x in fields[key].items()] for key in ("parameters", "results")))
    if any(node.op in (INPUT, SEED) for node in region.nodes):
        raise at.wrong("the results need more than the parameters")
    return region


def _add_names(graph: Graph, at: Cursor, graphs: Sequence[Graph]) -> None:
    for entry in at.items():
        node, hint = entry.items(2)
        graph.names[_node(node, graph)] = hint.text() if type(hint.value) is str else _pattern(hint, graphs)


def _pattern(at: Cursor, graphs: Sequence[Graph]) -> tuple[str, Node]:
    """Return the pattern that names a derivative, and the node that it derives."""
    pattern, of = at.items(2)
    if not _PATTERN.fullmatch(pattern.text(100)):
        raise pattern.wrong('it is a name with {} in it, such as "d_{}"')
    return pattern.value, _place(of, graphs)


# ---- arguments and results


class _Part:
    """A stand-in for a leaf of the arguments while these are assembled."""

    def __init__(self, at: Cursor, leaf: Callable[[str, str, str, str], Leaf]) -> None:
        self.at, self.leaf = at, leaf


def _parameters(at: Cursor) -> list[inspect.Parameter]:
    found = []
    for entry in at.items():
        fields = entry.fields(("name", "kind"))
        name, kind = fields["name"].text(), fields["kind"].text()
        if not is_name(name):
            raise fields["name"].wrong(f"{name!r} is not a Python name")
        if kind not in KINDS:
            raise fields["kind"].wrong(f"{kind!r} is not one of {', '.join(KINDS)}")
        found.append(inspect.Parameter(name, KINDS[kind]))
    try:
        inspect.Signature(found)
    except ValueError as error:
        raise at.wrong(str(error)) from None
    return found


def _arguments(at: Cursor, parameters: Sequence[inspect.Parameter], graph: Graph, reader: Reader) -> Arguments:
    parts = [_tree(x, lambda leaf: _part(leaf, graph, reader)) for x in at.items(len(parameters))]
    try:
        return Arguments({p.name: part for p, part in zip(parameters, parts, strict=True)})
    except (ArgumentError, TypeError, ValueError) as error:
        raise at.wrong(str(error)) from None


def _part(at: Cursor, graph: Graph, reader: Reader) -> _Part:
    """A leaf of the arguments."""
    fields = dict(at.entries())
    if "node" in fields:
        at.fields(("node",), ("array",))
        node = _node(fields["node"], graph)
        is_array = fields["array"].truth() if "array" in fields else None
        return _Part(at, partial(Leaf, node=node, is_array=is_array))
    if "size" in fields:
        at.fields(("size",))
        size = reader.size(fields["size"])
        if not isinstance(size, Dim) or not is_name(str(size)):
            raise fields["size"].wrong("an argument is a symbol")
        return _Part(at, partial(Leaf, size=size))
    at.fields(("value",), ("ignored",))
    ignored = "ignored" in fields and fields["ignored"].truth()
    return _Part(at, partial(Leaf, static=reader.value(fields["value"]), ignored=ignored))


def _leaves(arguments: Arguments) -> list[Leaf]:
    pairs = zip(arguments.values, arguments.places(), strict=True)
    return [part.leaf(*place, name) for part, (place, name) in pairs]


def _inputs(graph: Graph, leaves: Sequence[Leaf], at: Cursor) -> list[Node]:
    """The nodes of the arguments: each input of the graph is one, under its name."""
    found = [leaf.node for leaf in leaves if leaf.node is not None]
    if sorted(x.id for x in found) != [x.id for x in graph.nodes if x.op is INPUT]:
        raise at.wrong("the nodes of arguments are not the inputs of the graph, each once")
    for leaf in leaves:
        if leaf.node is not None and dict(leaf.node.params)["name"] != leaf.name:
            raise at.wrong(f"{leaf.path} is the input {dict(leaf.node.params)['name']!r}, not {leaf.name!r}")
    return found


def _of_leaf(leaf: Leaf, graph: Graph) -> Any:
    if leaf.node is not None:
        return Variable(graph, leaf.node)
    return leaf.static if leaf.size is None else leaf.size


def _result(at: Cursor, graph: Graph, reader: Reader) -> Any:
    """A leaf of the results."""
    if type(at.value) is dict and "node" in at.value:
        return Variable(graph, _node(at.fields(("node",))["node"], graph))
    return reader.value(at.fields(("value",))["value"])


def _tree(at: Cursor, leaf: Callable[[Cursor], Any]) -> Any:
    """Dicts, lists and tuples of leaves."""
    entries = list(at.entries())
    kind, inner = entries[0] if len(entries) == 1 else ("", at)
    if kind in ("list", "tuple"):
        items = [_tree(x, leaf) for x in inner.items()]
        return items if kind == "list" else tuple(items)
    if kind != "dict":
        return leaf(at)
    found: dict[Any, Any] = {}
    for entry in inner.items():
        key, value = entry.items(2)
        if type(key.value) not in (str, int, bool) or key.value in found:
            raise key.wrong("a key is a text or a number, and each is there once")
        found[key.value] = _tree(value, leaf)
    return found
