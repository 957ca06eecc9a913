"""Signs of products and sums: two of them cancel, one goes where it costs nothing.

A sign costs nothing in a number, and in a difference, whose sides change places. It may stand anywhere in a product, so
these are procedures. The values stay as they are, to the last bit.
"""

from __future__ import annotations

from symgrad.analysis.values import number
from symgrad.core.graph import CONSTANT, Graph, Node
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.rewrite.engine import alone, shared_in
from symgrad.rewrite.rules import procedure

NEAR = 6
"""So many factors away a sign is looked for."""

NEGATIVES, MINUSES, WHATEVER_IS_FREE = range(3)
"""Values that may change their sign: those that save an operation, also negative numbers, or all that are free."""

_SIGNED = frozenset({NEGATIVE, MULTIPLY, DIVIDE})  # what may have a sign beside numbers, which are folded


def opposite(graph: Graph, x: Node, change: int, depth: int = NEAR) -> Node | None:
    """A value with the other sign, if that is no operation more, and nothing wraps around."""
    op = x.op
    if op is not MULTIPLY and op is not DIVIDE:
        if op is not NEGATIVE:
            return _opposite_number(graph, x, change) if change and op is CONSTANT else None
        return x.inputs[0] if _is_float(x) else None
    if not depth or not _is_float(x) or not alone(graph, x):
        return None
    a, b = x.inputs
    if (other := opposite(graph, a, change, depth - 1)) is not None:
        return graph.add(op, (other, b))
    if (other := opposite(graph, b, min(change, MINUSES), depth - 1)) is not None:
        return graph.add(op, (a, other))
    return None


def _is_signed(graph: Graph, x: Node) -> bool:
    """Whether a sign, or a negative number, stands among the factors of a value."""
    op = x.op
    if op is not MULTIPLY and op is not DIVIDE:  # at a glance, as most are
        return op is NEGATIVE or (op is CONSTANT and _is_negative(x))
    factors, depth, shared = [x], NEAR, shared_in(graph)
    while factors:
        inner: list[Node] = []
        for y in factors:
            op = y.op
            if op is MULTIPLY or op is DIVIDE:
                if depth and y not in shared:
                    inner += y.inputs
            elif op is NEGATIVE or (op is CONSTANT and _is_negative(y)):
                return True
        factors, depth = inner, depth - 1
    return False


def _is_float(x: Node) -> bool:
    return x.aval.dtype.kind == "f" or (x.aval.weak and x.aval.dtype.kind != "c")


def _is_negative(x: Node) -> bool:
    c = number(x) if _is_float(x) else None
    return c is not None and bool(c < 0)


def _opposite_number(graph: Graph, x: Node, change: int) -> Node | None:
    """One is no factor of what is one over something."""
    c = number(x) if _is_float(x) else None
    if c is None or not (c < 0 or (change == WHATEVER_IS_FREE and c not in (0, 1))):
        return None
    return graph.constant(-c)


@procedure(NEGATIVE, of={*_SIGNED, CONSTANT}, exact=True)
def sign_of_product(graph: Graph, node: Node) -> Node | None:
    """``-(-x)`` is `x`, ``-(a * x)`` is ``-a * x``, and ``-(-x / y)`` is ``x / y``."""
    (x,) = node.inputs
    return x.inputs[0] if x.op is NEGATIVE else opposite(graph, x, WHATEVER_IS_FREE)


@procedure(MULTIPLY, DIVIDE, of=_SIGNED, exact=True)
def signs_of_factors(graph: Graph, node: Node) -> Node | None:
    """``-x * -y`` is ``x * y``, and ``-x * (a * y)`` is ``x * (-a * y)``."""
    x, y = node.inputs
    if not _is_float(node) or not (_is_signed(graph, x) or _is_signed(graph, y)):
        return None
    free = WHATEVER_IS_FREE if node.op is MULTIPLY else MINUSES
    for a, one, b, other in (x, NEGATIVES, y, free), (y, NEGATIVES, x, WHATEVER_IS_FREE), (x, MINUSES, y, MINUSES):
        p = opposite(graph, a, one)
        q = None if p is None else opposite(graph, b, other)
        if p is not None and q is not None:
            return graph.add(node.op, (p, q) if a is x else (q, p))
    return None


@procedure(ADD, SUBTRACT, of={*_SIGNED, CONSTANT}, exact=True)
def sign_of_term(graph: Graph, node: Node) -> Node | None:
    """``x + -a * y`` is ``x - a * y``, and ``x - -a * y`` is ``x + a * y``."""
    x, y = node.inputs
    if x is y or not _is_float(node):
        return None
    if (other := opposite(graph, y, MINUSES)) is not None:
        return graph.add(SUBTRACT if node.op is ADD else ADD, (x, other))
    if node.op is ADD and (other := opposite(graph, x, NEGATIVES)) is not None:
        return graph.add(SUBTRACT, (y, other))
    return None


@procedure(SUBTRACT, of=_SIGNED, exact=True)
def less_its_negative(graph: Graph, node: Node) -> Node | None:
    """``-x - x`` is ``-2 * x``, and so is ``-a * b - a * b`` and ``-a / b - a / b``."""
    x, y = node.inputs
    if not _is_float(node) or not _is_negative_of(x, y):
        return None
    return graph.add(MULTIPLY, (graph.constant(-2), y))


def _is_negative_of(x: Node, y: Node) -> bool:
    if x.op is NEGATIVE:
        return x.inputs[0] is y
    if x.op is not y.op or x.op not in (MULTIPLY, DIVIDE):
        return False
    (a, b), (c, d) = x.inputs, y.inputs
    return (a.op is NEGATIVE and a.inputs[0] is c and b is d) or (b.op is NEGATIVE and b.inputs[0] is d and a is c)
