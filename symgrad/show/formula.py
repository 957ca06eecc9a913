"""A value as one line of mathematics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from symgrad.errors import ArgumentError
from symgrad.graph import CONSTANT, ITEM, Node, reached
from symgrad.listing import is_input, node_names, number, spelled_params
from symgrad.ops.core import ALIAS, BOUNDARIES
from symgrad.show.subject import shown
from symgrad.spelling import ATOM, SUM, UNARY, Code, call
from symgrad.text import visible

MARKS = (ALIAS, *BOUNDARIES)  # a value under another identity


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
    uses = Counter(x for node in nodes for x in node.inputs)
    codes: dict[Node, Code] = {}
    atoms = set(names.values())
    shared = []
    for node in nodes:
        code = code_of(node, names, codes)
        if uses[node] > 1 and code.text not in atoms:
            shared.append(f"{names[node]} = {code.text}")
            code = Code(names[node])
        codes[node] = code
    texts = [codes[y].text for y in outputs]
    result = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
    return visible(f"{result} where {', '.join(shared)}" if shared else result)


def code_of(node: Node, names: Mapping[Node, str], codes: Mapping[Node, Code]) -> Code:
    """How a node reads on the code of its inputs."""
    text = number(node)
    if text is not None:
        return Code(text, UNARY if text.startswith("-") else ATOM if text.isalnum() or "." in text else SUM)
    if is_input(node):
        return Code(names[node])
    return _spelled(node, [codes[x] for x in node.inputs])


def _spelled(node: Node, inputs: Sequence[Code]) -> Code:
    """As in source without ``np.``, or as a call of the operator where source has no expression for it."""
    if node.op is CONSTANT:
        return Code(visible(repr(dict(node.params)["value"])))
    if node.op in MARKS:
        return inputs[0]
    if node.op is ITEM:
        return Code(f"{inputs[0].at(ATOM)}[{dict(node.params)['index']}]")
    try:
        if node.op.spell is not None:
            code = node.op.spell(node, *inputs)
            return Code(code.text.removeprefix("np."), code.level)
    except ArgumentError:  # a parameter that has no form in source
        pass
    return call(visible(node.op.name), [*(x.text for x in inputs), *spelled_params(node)])
