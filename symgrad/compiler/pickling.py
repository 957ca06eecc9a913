"""How programs are pickled: as the graph that was traced, row by row, compiled again where they arrive.

Operators hold functions without a name, so they go by where they are found; the graph goes as rows, since links from
node to node would nest as deeply as the program is long.
"""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from symgrad.core import tree
from symgrad.core.graph import Graph, Node, Op
from symgrad.core.provenance import Where
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
    return {
        "nodes": [(x.op, _ids(x.inputs), x.params, _where(x.where)) for x in graph.nodes],
        "inputs": _ids(graph.inputs),
        "outputs": _ids(graph.outputs),
        "names": [(x.id, y if isinstance(y, str) else (y[0], y[1].id)) for x, y in graph.names.items()],
        "rewrites": [(*_home(rule), before.id, after.id) for rule, before, after in graph.rewrites],
        "leaves": [replace(leaf, node=leaf.node and leaf.node.id) for leaf in program.leaves],  # type: ignore[arg-type]
        "parameters": [p.replace(annotation=p.empty) for p in program.parameters],
        "trees": tree.tree_map(_placed, (program.inputs, program.outputs)),
        "rest": (program.name, program.where, program.sizes, program.orders, program.summary),
    }


def program_of(rows: dict[str, Any]) -> Program:
    """The program again."""
    graph = Graph()
    nodes: list[Node] = []
    for op, inputs, params, (file, line, of, again) in rows["nodes"]:
        where = Where(file, line, None if of is None else nodes[of], again)
        nodes.append(graph.add(op, tuple(nodes[i] for i in inputs), params, where))
    graph.inputs, graph.outputs = ([nodes[i] for i in rows[key]] for key in ("inputs", "outputs"))
    graph.names = {nodes[i]: y if isinstance(y, str) else (y[0], nodes[y[1]]) for i, y in rows["names"]}
    graph.rewrites = [(_at(*home), nodes[i], nodes[j]) for *home, i, j in rows["rewrites"]]
    inputs, outputs = tree.tree_map(lambda x: Variable(graph, nodes[x.id]) if type(x) is _Place else x, rows["trees"])
    leaves = [replace(leaf, node=None if leaf.node is None else nodes[leaf.node]) for leaf in rows["leaves"]]
    name, where, sizes, orders, summary = rows["rest"]
    structure = tree.flatten(tuple(inputs.values()))[1]
    return Program(graph, inputs, outputs, name, where, leaves, structure, rows["parameters"], sizes, orders, summary)


def _ids(nodes: Any) -> tuple[int, ...]:
    return tuple(x.id for x in nodes)


def _where(where: Where) -> tuple[str, int, int | None, bool]:
    return where.file, where.line, None if where.of is None else where.of.id, where.again


def _placed(x: Any) -> Any:
    return _Place(x.node.id) if isinstance(x, Variable) else x
