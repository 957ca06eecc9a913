"""What a program costs to run: operations, memory traffic, and the most memory that it holds at one time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from symgrad.dims import Dim, evaluate, symbols_of
from symgrad.graph import CONSTANT, INPUT, ITEM, SIZE, Aval, Graph, Node, is_view, reached
from symgrad.shapes import product

_ASSUMED = 1000  # what a symbolic size counts for where the peak is looked for


class Cost(NamedTuple):
    """What one call costs, as numbers, or as SymPy expressions where sizes are symbols.

    Attributes
    ----------
    flops : int or sympy.Expr
        Arithmetic operations on numbers; a function such as ``np.exp`` counts as one.
    bytes : int or sympy.Expr
        What the operations read and write, each on its own.
    peak : int or sympy.Expr
        The most that intermediate values and results take at one time, arguments not counted.
    calls : int
        NumPy calls.
    """

    flops: Any
    bytes: Any
    peak: Any
    calls: int


def cost_of(graph: Graph) -> Cost:
    """The cost of evaluating ``graph.outputs`` node by node."""
    nodes = [node for node in reached(graph.outputs) if node.op not in (INPUT, CONSTANT, SIZE, ITEM)]
    work = [node for node in nodes if not is_view(node)]
    flops = sum((flops_of(node) for node in work), 0)
    traffic = sum((nbytes(x.aval) for node in work for x in (*node.inputs, node)), 0)
    return Cost(_expr(flops), _expr(traffic), _expr(_peak(nodes, graph.outputs)), len(nodes))


def flops_of(node: Node) -> Any:
    if node.op.flops is not None:
        return node.op.flops(node.aval, *[x.aval for x in node.inputs], **{**node.op.defaults, **dict(node.params)})
    return max((_numbers(x.aval) for x in (*node.inputs, node)), key=magnitude)


def _numbers(aval: Any) -> Any:
    return product(aval.shape) if isinstance(aval, Aval) else sum((_numbers(part) for part in aval), 0)


def nbytes(aval: Any) -> Any:
    """The memory of a value."""
    return _numbers(aval) * aval.dtype.itemsize if isinstance(aval, Aval) else sum((nbytes(part) for part in aval), 0)


def magnitude(size: Any) -> int:
    return evaluate(size, dict.fromkeys(symbols_of(size), _ASSUMED)) if isinstance(size, Dim) else size


def _peak(nodes: Iterable[Node], outputs: Iterable[Node]) -> Any:
    """Bytes held where they are most, when every value is released after its last use."""
    nodes = list(nodes)
    last = _last_uses(nodes, outputs)
    held: Any = 0
    peak: Any = 0
    for node in nodes:
        if not is_view(node):
            held = held + nbytes(node.aval)
        if magnitude(held) > magnitude(peak):
            peak = held
        for x in last.get(node, ()):
            held = held - nbytes(x.aval)
    return peak


def _last_uses(nodes: Iterable[Node], outputs: Iterable[Node]) -> Mapping[Node, list[Node]]:
    """Values by the node after which nobody needs their memory."""
    root: dict[Node, Node] = {}
    last: dict[Node, Node] = {}
    for node in nodes:
        root[node] = root.get(node.inputs[0], node.inputs[0]) if is_view(node) or node.op is ITEM else node
        for x in node.inputs:
            last[root.get(x, x)] = node
    kept = {root.get(y, y) for y in outputs}
    dying: dict[Node, list[Node]] = {}
    for x, node in last.items():
        if x in root and root[x] is x and x not in kept:
            dying.setdefault(node, []).append(x)
    return dying


def _expr(size: Any) -> Any:
    """A SymPy expression for a symbolic number."""
    return size.expr.expand() if isinstance(size, Dim) else size
