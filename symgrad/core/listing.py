"""A graph as text, one line a node, and the names of nodes in all views."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

from symgrad.core.text import cut_to, visible
from symgrad.errors import ArgumentError
from symgrad.spelling import spell_param

if TYPE_CHECKING:
    from symgrad.core.graph import Graph, Node

WIDEST = 64  # columns of a line up to which what follows stands below each other
LONGEST = 40  # characters of a parameter
INDENT = "    "


def listing(graph: Graph, results: str | None = None, within: str = "") -> str:
    """The nodes in their order, and `results`, by default the outputs.

    A number stands where it is used, without a line of its own; the graph in a node stands below it, indented.
    """
    names = node_names(graph, within)
    returned = ", ".join(names[y] for y in graph.outputs) if results is None else results
    rows = [
        (f"{names[node]} = {applied(node, names)}", types(node), place(node, names), _below(node, within))
        for node in _shown(graph)
        if number(node) is None
    ]
    widths = [max((len(row[i]) for row in rows if len(row[i]) <= WIDEST), default=0) for i in (0, 1)]
    lines = []
    for made, aval, at, below in rows:
        lines.append(f"{made:{widths[0]}}  {aval:{widths[1]}}  {at}".rstrip())
        lines += [f"{INDENT}{line}" for line in below]
    return "\n".join([*lines, f"return {returned}"] if returned else lines)


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Rows of a table, two spaces between its columns; those of these numbers are set to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(x.rjust(n) if i in right else x.ljust(n) for i, (x, n) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _shown(graph: Graph) -> list[Node]:
    """The nodes that do not stand in a region alone, which shows them."""
    inside = {x for node in graph.nodes for _, value in node.params if _is_part(value, graph) for x in value.nodes}
    shown, used = [], set(graph.outputs)
    for node in reversed(graph.nodes):
        if node not in inside or node in used:
            shown.append(node)
            used.update(node.inputs)
    return shown[::-1]


def _is_part(value: Any, graph: Graph) -> bool:
    return getattr(value, "graph", None) is graph


def _below(node: Node, within: str) -> list[str]:
    """The lines of the graphs in a node."""
    inner = [(key, listing(graph, within=f"{within}{node.id}.")) for key, graph in nested_graphs(node) if graph.nodes]
    return [line for key, text in inner for line in (f"{key}:", *text.split("\n"))]


def node_names(graph: Graph, within: str = "") -> dict[Node, str]:
    """Return a name for each node: its number if it is one, the user's name, else its id: ``%7``.

    In the graph in the node ``%7`` ids are such as ``%7.2``: there `within` is ``7.``.
    """
    taken: dict[str, int] = {}
    names = {}
    for node in graph.nodes:
        hint = hinted(graph, node)
        text = f"%{within}{node.id}" if hint is None else _unique(visible(hint), taken)
        names[node] = number(node) or text
    return names


def hinted(graph: Graph, node: Node) -> str | None:
    """Return the user's name of a node; a derivative is named after its primal."""
    hint = graph.names.get(node)
    if isinstance(hint, tuple):
        pattern, of = hint
        name = hinted(graph, of)
        return name and pattern.format(name)
    return dict(node.params).get("name") if hint is None and is_input(node) else hint


def _unique(name: str, taken: dict[str, int]) -> str:
    count, text = taken.get(name, 1), name
    while text in taken:
        count += 1
        text = f"{name}_{count}"
    taken[name] = count
    taken.setdefault(text, 1)
    return text


def number(node: Node) -> str | None:
    """A constant number or a symbolic size as text, which stands where it is used; None for any other node."""
    value = dict(node.params).get("value")
    if node.inputs or value is None or getattr(node.aval, "shape", None) != ():
        return None
    return visible(str(getattr(value, "value", value)))


def applied(node: Node, names: dict[Node, str]) -> str:
    """``matmul(X, w)``: the operator, its inputs by name, and its parameters."""
    if is_input(node):
        return node.op.name
    inputs = [names[x] for x in node.inputs]
    return f"{visible(node.op.name)}({', '.join([*inputs, *spelled_params(node)])})"


def is_input(node: Node) -> bool:
    """Whether a node stands for an argument, rather than being computed."""
    return "aval" in dict(node.params)


def spelled_params(node: Node) -> list[str]:
    """Return the parameters of a node as text, ``axis=0``, without graphs."""
    inner = {key for key, _ in nested_graphs(node)}
    return [f"{key}={shortened(_spelled(value))}" for key, value in node.params if key not in inner]


def _spelled(value: Any) -> str:
    try:
        return spell_param(value)
    except ArgumentError:
        return str(getattr(value, "__name__", None) or repr(value))


def shortened(text: str) -> str:
    """A text on one line, and no longer than a person reads at one glance."""
    return cut_to(visible(text), LONGEST)


def nested_graphs(node: Node) -> Sequence[tuple[str, Graph]]:
    """The graphs among the parameters of a node, such as the body of a loop, by the parameter's name."""
    found = ((key, getattr(value, "body", value)) for key, value in node.params)
    return [(key, cast("Graph", inner)) for key, inner in found if hasattr(inner, "nodes")]


def types(node: Node) -> str:
    """Dtype and shape, or several of an operator with several results."""
    avals: tuple[Any, ...] = node.aval if type(node.aval) is tuple else (node.aval,)
    return ", ".join(map(str, avals))


def place(node: Node, names: dict[Node, str]) -> str:
    """Return the user's line, and the node that this one derives or rematerialises."""
    where = node.where
    line = str(where) if where.line else ""
    of = names.get(where.of) if where.of else None  # of a graph that has been simplified it is a node no longer
    reason = "" if where.of is None else "again" if where.again else "derivative"
    if of:
        reason += f" {of}" if where.again else f" of {of}"
    return visible(", ".join(filter(None, (line, reason))))
