"""A program as a JSON document."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from symgrad.core import tree
from symgrad.core.graph import Graph, Node
from symgrad.core.provenance import Where
from symgrad.core.region import Region
from symgrad.core.saving import MARK
from symgrad.core.size_scope import Sizes
from symgrad.core.version import VERSION
from symgrad.errors import ArgumentError
from symgrad.frontend.arguments import Leaf
from symgrad.frontend.static import Static
from symgrad.frontend.trace import Program
from symgrad.frontend.variable import Variable
from symgrad.interchange.values import size_text, type_of, written
from symgrad.ops.define import OPERATORS

FORMAT, FORMAT_VERSION = "symgrad graph", 2


def document(program: Program) -> dict[str, Any]:
    """Return the document of a program, in the order of reading."""
    files = _Files()
    nodes = _Nodes(files)
    body = nodes.graph(program.graph, program.graph.nodes)
    file, line = files.place(program.where)
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "about": f"{MARK}{VERSION}.",
        "name": program.name,
        "summary": program.summary,
        "where": [file, line],
        "sizes": _sizes(program.sizes),
        "parameters": [{"name": p.name, "kind": p.kind.name.lower()} for p in program.parameters],
        "arguments": _arguments(program, nodes),
        "results": _tree(program.outputs, nodes.result, "result"),
        "files": files.described(),
        "nodes": body["nodes"],
        "names": body["names"],
    }


def text_of(found: dict[str, Any]) -> str:
    """The document with a line for each item of its long lists."""
    lines = []
    for name, value in found.items():
        rows = value if name in ("nodes", "names", "files", "parameters", "arguments") else []
        if rows:
            lines.append(f'  "{name}": [\n    ' + ",\n    ".join(map(_compact, rows)) + "\n  ]")
        else:
            lines.append(f'  "{name}": {_compact(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


# ---- the graph


class _Nodes:
    """Writes nodes, and regions in them."""

    def __init__(self, files: _Files) -> None:
        self.files, self.operators = files, {op: name for name, op in OPERATORS.items()}
        self._places: dict[Node, list[int]] = {}  # the number of the graph, in the order of the file, and that in it
        self._graphs: dict[Graph, int] = {}

    def graph(self, graph: Graph, nodes: Sequence[Node]) -> dict[str, Any]:
        """Nodes of a graph, numbered one after the other, and what they are called.

        Nodes that a trace has made anew, see `Graph.forget`, are written once.
        """
        k = self._graphs[graph] = len(self._graphs)
        rows: list[dict[str, Any]] = []
        known: dict[Any, int] = {}
        for x in nodes:
            key = x.op, tuple([self._places[y][1] for y in x.inputs]), x.params
            i = known.setdefault(key, len(rows))
            if i == len(rows):
                rows.append(self._row(x, i, graph))
            self._places[x] = [k, i]
        names: dict[int, Any] = {}
        for x, hint in graph.names.items():
            if x in self._places and (isinstance(hint, str) or hint[1] in self._places):
                named = hint if isinstance(hint, str) else [hint[0], self._place(hint[1])]
                names.setdefault(self._places[x][1], named)
        return {"nodes": rows, "names": [[i, named] for i, named in names.items()]}

    def leaf(self, leaf: Leaf) -> dict[str, Any]:
        """Return what is written of a leaf of the arguments."""
        if leaf.node is not None:
            return {"node": self._places[leaf.node][1]} | ({} if leaf.is_array is None else {"array": leaf.is_array})
        if leaf.size is not None:
            return {"size": size_text(leaf.size)}
        static = leaf.static.value if isinstance(leaf.static, Static) else leaf.static
        return {"value": written(static)} | ({"ignored": True} if leaf.ignored else {})

    def result(self, x: Any) -> dict[str, Any]:
        """Return what is written of a leaf of the results."""
        return {"node": self._places[x.node][1]} if isinstance(x, Variable) else {"value": written(x)}

    def _place(self, node: Node) -> Any:
        k, i = self._places.get(node, (0, None))
        return [k, i] if k else i

    def _row(self, node: Node, i: int, graph: Graph) -> dict[str, Any]:
        if node.op not in self.operators:
            raise ArgumentError(
                f"the operator {node.op.name} is not in the table under its name",
                "Give your operator a name= of its own; of a Compiled write the program that was traced.",
            )
        found: dict[str, Any] = {"id": i, "op": self.operators[node.op]}
        if node.inputs:
            found["inputs"] = [self._places[x][1] for x in node.inputs]
        if node.params:
            found["params"] = {key: self._param(value, graph) for key, value in node.params}
        found |= {"type": type_of(node.aval), "where": self.files.place(node.where)}
        if node.where.of is not None:
            found["of"] = self._place(node.where.of)
            found |= {"again": True} if node.where.again else {}
        return found

    def _param(self, value: Any, graph: Graph) -> Any:
        if not isinstance(value, Region):
            return written(value)
        nodes, found = [*value.parameters, *value.nodes], {}
        if not all(x in self._places for x in nodes):
            found = self.graph(value.graph, nodes)
        elif value.graph is not graph:
            found = {"graph": self._graphs[value.graph]}
        ends = {"parameters": value.parameters, "results": value.results}
        return {"region": {key: [self._places[x][1] for x in given] for key, given in ends.items()} | found}


class _Files:
    """The user's files, and those lines of them that nodes come from."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._lines: list[dict[int, str]] = []

    def place(self, where: Where) -> list[int]:
        """The number of a file, and the line."""
        number = self._numbers.setdefault(where.file, len(self._lines))
        if number == len(self._lines):
            self._lines.append({})
        if where.text:
            self._lines[number][where.line] = where.text
        return [number, where.line]

    def described(self) -> list[dict[str, Any]]:
        """Names without folders, and the lines: what the program says of where it comes from."""
        return [
            {"name": os.path.basename(file), "lines": {str(line): lines[line] for line in sorted(lines)}}
            for file, lines in zip(self._numbers, self._lines, strict=True)
        ]


def _sizes(sizes: Sizes) -> dict[str, Any]:
    places = [[name, None if place.turns is None else size_text(place.turns)] for name, place in sizes.places.items()]
    return {
        "symbols": [[name, str(symbol)] for name, symbol in sizes.symbols.items()],
        "assumed": [[str(bound.symbol), size_text(bound.least)] for bound in sizes.assumed],
        "values": sizes.values and dict(sizes.values),
        "pinned": dict(sizes.pinned),
        **({"places": places} if places else {}),
    }


# ---- arguments and results


def _arguments(program: Program, nodes: _Nodes) -> list[Any]:
    """By parameter the tree of its leaves."""
    leaves = tree.unflatten(program.structure, program.leaves)
    parts = zip(program.parameters, leaves, strict=True)
    return [_tree(part, nodes.leaf, f"argument {p.name}") for p, part in parts]


def _tree(x: Any, leaf: Callable[[Any], Any], what: str) -> Any:
    """Dicts, lists and tuples by their kinds."""
    if type(x) is dict:
        return {"dict": [[_key(key, what), _tree(inner, leaf, what)] for key, inner in x.items()]}
    if type(x) in (list, tuple):
        return {type(x).__name__: [_tree(inner, leaf, what) for inner in x]}
    if not isinstance(x, (Leaf, Variable)) and tree.flatten(x)[1] != _LEAF:
        raise ArgumentError(
            f"the {what} has an instance of {type(x).__name__}, a class that a file does not know",
            "Keep to dicts, lists and tuples.",
        )
    return leaf(x)


_LEAF = tree.flatten(0)[1]


def _key(key: Any, what: str) -> Any:
    if type(key) not in (str, int, bool):
        raise ArgumentError(f"the {what} has the key {key!r}", "Use strings or numbers as keys.")
    return key
