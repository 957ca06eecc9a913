"""A value as an indented tree of what it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO

from symgrad.core.graph import Graph, Node
from symgrad.core.listing import is_input, nested_graphs, node_names, number, place, spelled_params, types
from symgrad.core.text import visible
from symgrad.show.subject import shown

DEPTH = 40  # levels, as far as a person follows them


def dprint(x: Any, *args: Any, depth: int | None = DEPTH, file: TextIO | None = None) -> None:
    """Print values as trees of what they are made of.

    Parameters
    ----------
    x : Variable, Graph, Program, Compiled or Function
        A graph is shown from its outputs.
    *args
        The arguments of a Function, or specs.
    depth : int, optional
        How many levels are shown; None for all.
    file : optional
        Where to print, by default ``sys.stdout``.

    Notes
    -----
    A value that is used several times is shown in full once, and by its name, ``above``, from then on.

    Raises
    ------
    ArgumentError
        If `x` has no graph.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> x = sg.Graph().input("x", "float64[n]")
    >>> h = np.exp(x)
    >>> sg.dprint(h * np.sin(h))  # doctest: +ELLIPSIS
    %3 = multiply  float64[n]  ...
    ├─ h = exp  float64[n]  ...
    │  └─ x: float64[n]
    └─ %2 = sin  float64[n]  ...
       └─ h, above
    """
    graph, nodes = shown(x, args)
    for line in _trees(graph, nodes, depth):
        print(line, file=file)


def _trees(graph: Graph, roots: list[Node], depth: int | None, within: str = "") -> Iterator[str]:
    names = node_names(graph, within)
    done: set[Node] = set()
    stack = [(node, "", "", 0) for node in reversed(roots)]
    while stack:
        node, before, below, level = stack.pop()
        if node in done and node.inputs:
            yield f"{before}{names[node]}, above"
            continue
        cut = bool(node.inputs) and level == depth
        if not cut:
            done.add(node)
        yield f"{before}{_described(node, names)}{'  ...' if cut else ''}"
        for _, inner in nested_graphs(node):
            lines = _trees(inner, inner.outputs, depth, f"{within}{node.id}.")
            yield from (f"{below}:  {line}" for line in lines)
        if not cut:
            children = [(x, f"{below}├─ ", f"{below}│  ", level + 1) for x in node.inputs[:-1]]
            children += [(x, f"{below}└─ ", f"{below}   ", level + 1) for x in node.inputs[-1:]]
            stack += reversed(children)


def _described(node: Node, names: dict[Node, str]) -> str:
    if number(node) is not None:
        return names[node]
    if is_input(node):
        return f"{names[node]}: {types(node)}"
    operator = " ".join([visible(node.op.name), *spelled_params(node)])
    return f"{names[node]} = {operator}  {types(node)}  {place(node, names)}".rstrip()
