"""The logistic function and softplus, ``logaddexp(0, x)``, in all the forms in which they are written.

Nothing overflows in these two operators, and their derivatives are made of them, at any order.
"""

import numpy as np

from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import same_shape
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import DIVIDE, EXP, LOGISTIC, MULTIPLY
from symgrad.rewrite.conditions import floating, floats
from symgrad.rewrite.engine import alone
from symgrad.rewrite.rules import procedure, rule

# ---- the logistic function


@rule(changes_nan=True, when=lambda a, x: floating(x) and floats(a=a))
def logistic(a, x):
    return a / (1 + np.exp(x)), a * LOGISTIC(-x)


FACTORS = {MULTIPLY: 2, DIVIDE: 1}
"""Operators by how many of their first inputs are factors of the result."""


@procedure(MULTIPLY, of={EXP, LOGISTIC}, changes_nan=True)
def exponential_in_product(graph: Graph, node: Node) -> Variable | Node | None:
    """``exp(x) * logistic(-x)`` is ``logistic(x)``, also where one of them is a factor of a product or a quotient."""
    for x, y in (node.inputs, node.inputs[::-1]):
        if (whole := _joined(graph, x, y)) is not None:
            return whole
        for i, factor in enumerate(y.inputs[: FACTORS.get(y.op, 0)]):
            if (part := _joined(graph, x, factor)) is not None:
                return graph.add(y.op, (*y.inputs[:i], part.node, *y.inputs[i + 1 :]))
    return None


def _joined(graph: Graph, e: Node, s: Node) -> Variable | None:
    e, s = (e, s) if e.op is EXP else (s, e)
    if e.op is not EXP or s.op is not LOGISTIC or not floating(e.inputs[0].aval):
        return None
    x = Variable(graph, e.inputs[0])
    return LOGISTIC(x) if (-x).node is s.inputs[0] else None


@rule(changes_nan=True, when=floating)
def logistic_by_softplus(x):
    return np.exp(-np.logaddexp(0, x)), LOGISTIC(-x)


@rule(changes_nan=True, when=floating)
def logistic_of_difference(x, y):
    return np.exp(x - np.logaddexp(x, y)), LOGISTIC(x - y)


@rule(changes_nan=True, alone=True, when=floating)
def logistic_by_tanh(x):
    return 1 + np.tanh(x), 2 * LOGISTIC(2 * x)


@rule(changes_nan=True, alone=True, when=floating)
def logistic_by_multiple_of_tanh(x, a=2.5):
    return a + a * np.tanh(x), (2 * a) * LOGISTIC(2 * x)


@rule(changes_nan=True, when=floating)
def complement(x):
    return 1 - LOGISTIC(x), LOGISTIC(-x)


@rule(changes_nan=True, when=lambda a, x: floating(x) and floats(a=a))
def over_logistic(a, x):
    return a / LOGISTIC(x), a * (1 + np.exp(-x))


@procedure(MULTIPLY, of={MULTIPLY}, changes_nan=True)
def times_slope(graph: Graph, node: Node) -> Node | None:
    """``a * (s * r)`` of logistic functions is ``a * s * r``: a product with the value may be there already."""
    for a, slope in (node.inputs, node.inputs[::-1]):
        if slope.op is MULTIPLY and alone(graph, slope) and all(x.op is LOGISTIC for x in slope.inputs):
            s, r = slope.inputs
            if same_shape(a.aval.shape, slope.aval.shape):
                return graph.add(MULTIPLY, (graph.add(MULTIPLY, (a, s)), r))
    return None


# ---- softplus


@rule(changes_nan=True, when=floating)
def softplus(x):
    return np.log1p(np.exp(x)), np.logaddexp(0.0, x)


@rule(changes_nan=True, when=floating)
def softplus_of_negative(x):
    return x - np.logaddexp(0, x), -np.logaddexp(0.0, -x)


@rule(changes_nan=True, when=floating)
def log_of_logistic(x):
    return np.log(LOGISTIC(x)), -np.logaddexp(0.0, -x)


@rule(changes_nan=True, when=lambda x, y: floating(x) and floating(y))
def log_of_exponential_by_logistic(x, y):
    return np.log(np.exp(x) * LOGISTIC(y)), x - np.logaddexp(0.0, -y)


@rule(changes_nan=True, when=floating)
def logaddexp(x, y):
    return np.log(np.exp(x) + np.exp(y)), np.logaddexp(x, y)


@rule(changes_nan=True, when=lambda x, a: floating(x) and x.dtype.itemsize <= 8 and a > 0)
def logaddexp_number(x, a=2.5):
    return np.log(a + np.exp(x)), np.logaddexp(float(np.log(a)), x)
