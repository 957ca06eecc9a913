"""Forms to compute with and to read, which would hide what the other tables look for: for the last pass only."""

from collections.abc import Sequence
from itertools import dropwhile

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.analysis.overflow import NEAR_ONE, has_range, moderate
from symgrad.analysis.values import number
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import added_axes, same_shape
from symgrad.core.sizes import same
from symgrad.frontend.variable import Variable
from symgrad.ops import index
from symgrad.ops.elementwise import MULTIPLY, NEGATIVE
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import EVERYTHING, Slot
from symgrad.ops.marks import ALIAS, STOP
from symgrad.ops.shape import RESHAPE, TRANSPOSE
from symgrad.rewrite.conditions import AS_COLUMN, FLOAT, ROW, VECTOR, column, floating
from symgrad.rewrite.engine import alone
from symgrad.rewrite.multiples import taken
from symgrad.rewrite.pattern import Draw
from symgrad.rewrite.rules import procedure, rule
from symgrad.rewrite.signs import NEGATIVES, opposite
from symgrad.rewrite.structure import covers, without

MOST_FACTORS = 4
"""Number of products that are built again at most to put a number first."""


def _vectors(x, y):
    return x.ndim == 1 and y.ndim == 1 and floating(x) and x.dtype == y.dtype and same_shape(x.shape, y.shape)


@rule(x=VECTOR, y=VECTOR, when=_vectors)
def sum_of_products(x, y):
    return np.sum(x * y), x @ y


@rule(when=floating)
def cube(x):
    return x**3, x * x * x


@rule(when=floating)
def fourth_power(x):
    return x**4, (x * x) * (x * x)


@rule(changes_nan=True, when=floating)
def step(x):
    return np.where(x >= 0, np.where(x == 0, 0.5, 1.0), 0), np.heaviside(x, 0.5)


# ---- the slope of a softmax, which derivatives of its quotient have made in two parts


def _constant_along_last(g, e, s, axis, key):
    last = e.ndim - 1
    at_end = axis == last and key == (*ROW[1:] * last, None)
    return at_end and floating(e) and s.ndim == e.ndim and same(s.shape[last], 1)


@rule(changes_nan=True, s=Draw((2, 1), 0.5, 2.0), when=_constant_along_last)
def softmax_slope(g, e, s, axis=1, key=AS_COLUMN):
    p = e / s
    before = (g / s + index.GET(np.sum(g * (-p / s), axis=axis), key=key)) * e
    return before, p * (g - np.sum(g * p, axis=axis, keepdims=True))


def _scales_identity(v, c, n, **_):
    return v.ndim == 1 and floating(v) and same(v.shape[0], n) and c.ndim == 0


@rule(changes_nan=True, v=Draw((2,), 0.5, 2.0), c=Draw((), 0.5, 2.0), when=_scales_identity)
def softmax_jacobian(v, c, n=2, dtype=FLOAT):
    p = v / c
    return (np.eye(n, dtype=dtype, like=v) / c + column(-p / c)) * v, np.diag(p) - p[:, None] * p


# ---- what no pattern can express


@procedure(ALIAS, STOP, exact=True, plane="all")
def without_mark(graph: Graph, node: Node) -> Node:
    """A mark matters to differentiation only."""
    return node.inputs[0]


@procedure(RESHAPE, GET, exact=True, plane="all")
def elementwise_without_axes(graph: Graph, node: Node) -> Node | None:
    """``-x`` for ``(-x[:, None])[:, 0]``: what adds an axis and what drops it again meet."""
    x = node.inputs[0]
    if not x.op.elementwise or len(node.inputs) > 1 or not node.aval.shape:
        return None
    if node.op is RESHAPE:
        dropped = added_axes(node.aval.shape, x.aval.shape)
    else:
        key = dict(node.params)["key"]
        is_whole = len(key) == len(x.aval.shape) and all(map(covers, key, x.aval.shape))
        dropped = [item != EVERYTHING for item in key] if is_whole else None
    y = None if not dropped or not any(dropped) else _narrowed(graph, x, dropped)
    other = None if y is None else opposite(graph, y, NEGATIVES)  # the sign goes in front, where it meets others
    return y if other is None else graph.add(NEGATIVE, (other,))


def _narrowed(graph: Graph, x: Node, dropped: Sequence[bool]) -> Node | None:
    """Return a value without axes of size one that it only has because they were added; None if there are others."""
    here = dropped[len(dropped) - len(x.aval.shape) :]
    if not any(here):
        return x
    if x.op is GET and len(x.inputs) == 1:
        key, gone = dict(x.params)["key"], [i for i, drops in enumerate(here) if drops]
        is_bare = all(item in (None, EVERYTHING) for item in key)
        return without(graph, x, gone) if is_bare and all(key[i] is None for i in gone) else None
    if not x.op.elementwise or not alone(graph, x):
        return None
    operands = [_narrowed(graph, y, here) for y in x.inputs]
    found = [y for y in operands if y is not None]
    return graph.add(x.op, tuple(found), x.params) if len(found) == len(operands) else None


@procedure(TRANSPOSE, GET, changes_nan=True)
def multiple_of_part(graph: Graph, node: Node) -> Variable | None:
    """``(c * x)[key]`` is ``c * x[key]``, so that the number meets others; and so for a transpose."""
    x = node.inputs[0]
    if len(node.inputs) > 1 or not node.aval.shape or not alone(graph, x) or not has_range(x.aval.dtype):
        return None
    if node.op is GET and not _spreads_behind(dict(node.params)["key"]):
        return None
    if x.op is NEGATIVE:
        return -Variable(graph, graph.add(node.op, x.inputs, node.params))
    found = taken(graph, x) if x.op is MULTIPLY else None
    if found is None or found[0].over:
        return None
    c, rest = found
    return MULTIPLY(c.value, Variable(graph, graph.add(node.op, (rest,), node.params)))


@procedure(MULTIPLY, of={MULTIPLY}, changes_nan=True)
def number_first(graph: Graph, node: Node) -> Node | None:
    """``c * (x * y)`` is ``c * x * y``, with the smaller of two factors first; squares stay."""
    for c, part in (node.inputs, node.inputs[::-1]):
        if part.op is not MULTIPLY or not alone(graph, part) or not _is_coefficient(c, node):
            continue
        x, y = part.inputs
        if x is y or any(z.aval.dtype != node.aval.dtype or number(z) is not None for z in (x, y)):
            return None
        size, other = numbers(x.aval.shape), numbers(y.aval.shape)
        if other < size:
            x, y = y, x
        if size == other and _is_long(graph, x):  # nothing is saved
            return None
        return graph.add(MULTIPLY, (graph.add(MULTIPLY, (c, x)), y))
    return None


def _is_long(graph: Graph, x: Node, most: int = MOST_FACTORS) -> bool:
    """Whether a product has too many factors to be built again for a number that comes to stand first."""
    while most and x.op is MULTIPLY and alone(graph, x):
        x, most = x.inputs[0], most - 1
    return not most


def _is_coefficient(x: Node, user: Node) -> bool:
    """Whether it is a number that may meet another factor first."""
    c = None if x.inputs or x.aval.shape or not has_range(user.aval.dtype) else number(x)
    return c is not None and moderate(float(c), NEAR_ONE[user.aval.dtype.itemsize])


def _spreads_behind(key: tuple[object, ...]) -> bool:
    """Whether a key is basic and does more than to put axes in front, which broadcasting does anyway."""
    if any(isinstance(item, Slot) for item in key):
        return False
    return any(item != EVERYTHING for item in dropwhile(lambda item: item is None, key))


# ---- a choice far out, for the sake of derivatives


@rule(exact=True, when=floating)
def bell(x):
    t = np.where(np.abs(x) > 28.0, 28.0, x)
    return np.exp(-t * t), np.exp(-x * x)


@rule(exact=True, when=floating)
def normal_bell(x):
    t = np.where(np.abs(x) > 40.0, 40.0, x)
    return np.exp(-t * t / 2), np.exp(-x * x / 2)
