"""Pickling of programs: the traced graph, row by row, to be compiled again where it arrives.

Operators hold functions without a name, so they go by where they are found; the graph goes as rows, since links from
node to node would nest as deeply as the program is long.
"""

from __future__ import annotations

import copyreg
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

from symgrad.core import tree
from symgrad.core.graph import Graph, Node, Op
from symgrad.core.provenance import Where
from symgrad.core.region import Region
from symgrad.frontend.graphs import Graph as TracedGraph
from symgrad.frontend.trace import Program
from symgrad.frontend.variable import Variable
from symgrad.ops.define import OPERATORS, TABLE
from symgrad.ops.scipy import load, operator_named

# ---- operators


def _reduced_op(op: Op) -> tuple[Callable[..., Op], tuple[Any, ...]]:
    function = next((f for f, known in TABLE.items() if known is op and _has_a_name(f)), None)
    if function is not None:
        return _op_of, (function,)
    name = next((name for name, known in OPERATORS.items() if known is op), None)
    if name is None or not op.infer.__module__.startswith("symgrad."):  # of the user's: not there in another process
        raise pickle.PicklingError(
            f"the operator {op.name} is not found by a name: define it, or its function, at the top of a module"
        )
    return operator_named, (name,)


def _has_a_name(function: Callable[..., Any]) -> bool:
    if "<" in getattr(function, "__qualname__", ""):
        return False
    try:
        return pickle.loads(pickle.dumps(function)) == function
    except (pickle.PicklingError, AttributeError, TypeError, ImportError):
        return False


def _op_of(function: Callable[..., Any]) -> Op:
    load()  # of a package that came with the function
    return TABLE[function]  # type: ignore[return-value]


def _at(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def _home(rule: Any) -> tuple[str, str]:
    """The module and the name of a rewrite rule, which shows both sides or is a procedure."""
    function = getattr(rule, "function", rule)
    return function.__module__, function.__name__


copyreg.pickle(Op, _reduced_op)  # here, since only the table knows where an operator is found


# ---- programs


class _Place:
    """Stands for a Variable: the number of its node."""

    def __init__(self, id: int) -> None:
        self.id = id


def rows_of(program: Program) -> dict[str, Any]:
    """A program without links between nodes."""
    graph = program.graph
    rows = _Rows(graph)
    return {
        "nodes": rows.written,
        "names": rows.names(),
        "inputs": _ids(graph.inputs),
        "outputs": _ids(graph.outputs),
        "unrolled": graph.unrolled,
        "rewrites": [(*_home(rule), before.id, after.id) for rule, before, after in graph.rewrites],
        "leaves": [replace(leaf, node=leaf.node and leaf.node.id) for leaf in program.leaves],  # type: ignore[arg-type]
        "parameters": [p.replace(annotation=p.empty) for p in program.parameters],
        "trees": tree.tree_map(_placed, (program.inputs, program.outputs)),
        "rest": (program.name, program.where, program.sizes, program.orders, program.summary),
    }


def program_of(rows: dict[str, Any]) -> Program:
    """The program again."""
    graph = TracedGraph()
    graphs: defaultdict[int, Graph] = defaultdict(Graph, {0: graph})
    made: list[Node] = []
    for number, op, inputs, params, (file, line, of, again) in rows["nodes"]:
        where = Where(file, line, None if of is None else made[of], again)
        params = tuple((key, x.region(graphs, made) if type(x) is _Region else x) for key, x in params)
        made.append(graphs[number].add(op, tuple(made[i] for i in inputs), params, where))
    for number, i, y in rows["names"]:
        graphs[number].names[made[i]] = y if isinstance(y, str) else (y[0], made[y[1]])
    nodes = [x for (number, *_), x in zip(rows["nodes"], made, strict=True) if number == 0]  # some may be one now
    graph.inputs, graph.outputs = ([nodes[i] for i in rows[key]] for key in ("inputs", "outputs"))
    graph.unrolled = rows["unrolled"]
    graph.rewrites = [(_at(*home), nodes[i], nodes[j]) for *home, i, j in rows["rewrites"]]
    inputs, outputs = tree.tree_map(lambda x: Variable(graph, nodes[x.id]) if type(x) is _Place else x, rows["trees"])
    leaves = [replace(leaf, node=None if leaf.node is None else nodes[leaf.node]) for leaf in rows["leaves"]]
    name, where, sizes, orders, summary = rows["rest"]
    structure = tree.flatten(tuple(inputs.values()))[1]
    return Program(graph, inputs, outputs, name, where, leaves, structure, rows["parameters"], sizes, orders, summary)


class _Region(NamedTuple):
    """Stands for a region: the number of its graph, and those of nodes."""

    graph: int
    parameters: tuple[int, ...]
    results: tuple[int, ...]

    def region(self, graphs: Mapping[int, Graph], made: Sequence[Node]) -> Region:
        return Region(graphs[self.graph], *([made[i] for i in numbers] for numbers in self[1:]))


class _Rows:
    """The nodes of a graph and of its regions, numbered in an order in which inputs come first."""

    def __init__(self, graph: Graph) -> None:
        self.written: list[Any] = []
        self._graphs: dict[Graph, int] = {}
        self._numbers: dict[Node, int] = {}
        self._add(graph, graph.nodes)

    def names(self) -> list[Any]:
        """The graph, the node and its name."""
        numbers = self._numbers
        return [
            (number, numbers[x], y if isinstance(y, str) else (y[0], numbers[y[1]]))
            for graph, number in self._graphs.items()
            for x, y in graph.names.items()
            if x in numbers and (isinstance(y, str) or y[1] in numbers)
        ]

    def _add(self, graph: Graph, nodes: Iterable[Node]) -> None:
        number, numbers = self._graphs.setdefault(graph, len(self._graphs)), self._numbers
        for x in nodes:
            if x in numbers:
                continue
            params = tuple([(key, self._region(y) if isinstance(y, Region) else y) for key, y in x.params])
            where = (x.where.file, x.where.line, x.where.of and numbers.get(x.where.of), x.where.again)
            self.written.append((number, x.op, tuple([numbers[y] for y in x.inputs]), params, where))
            numbers[x] = len(numbers)

    def _region(self, region: Region) -> _Region:
        self._add(region.graph, [*region.parameters, *region.nodes])
        parameters, results = (tuple([self._numbers[x] for x in ends]) for ends in (region.parameters, region.results))
        return _Region(self._graphs[region.graph], parameters, results)


def _ids(nodes: Any) -> tuple[int, ...]:
    return tuple(x.id for x in nodes)


def _placed(x: Any) -> Any:
    return _Place(x.node.id) if isinstance(x, Variable) else x
