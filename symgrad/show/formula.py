"""A value as one line of mathematics."""

from __future__ import annotations

from typing import Any

from symgrad.analysis.uses import times_used
from symgrad.core.graph import Node, reached
from symgrad.core.listing import node_names
from symgrad.core.text import visible
from symgrad.report.mathematics import on_its_inputs
from symgrad.show.subject import shown
from symgrad.spelling import Code


def pp(x: Any, *args: Any) -> str:
    """A value as one line of mathematics, in NumPy's words.

    Parameters
    ----------
    x : Variable, Graph, Program, Compiled or Function
        A graph is shown by its outputs.
    *args
        The arguments of a Function, or specs.

    Returns
    -------
    str
        What is used more than once is written once, behind ``where``.

    Raises
    ------
    ArgumentError
        If `x` has no graph.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> x = sg.Graph().input("x", "float64[n]")
    >>> sg.pp(np.sum(np.exp(-(x**2)) / 2))
    'sum(exp(-x**2) / 2)'
    >>> h = np.tanh(x)
    >>> sg.pp(h * (1 - h))
    'h * (1 - h) where h = tanh(x)'
    """
    graph, outputs = shown(x, args)
    nodes = reached(outputs)
    names = node_names(graph)
    uses = times_used(nodes, ())
    codes: dict[Node, Code] = {}
    atoms = set(names.values())
    shared = []
    for node in nodes:
        code = on_its_inputs(node, codes.__getitem__, names[node])
        if uses[node] > 1 and code.text not in atoms:
            shared.append(f"{names[node]} = {code.text}")
            code = Code(names[node])
        codes[node] = code
    texts = [codes[y].text for y in outputs]
    result = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
    return visible(f"{result} where {', '.join(shared)}" if shared else result)
