"""The inputs of an elementwise operator, as its partials are computed with them."""

from __future__ import annotations

import numpy as np

from symgrad.core.graph import CONSTANT, Graph, Node
from symgrad.frontend.variable import Variable
from symgrad.ops.dtypes import operand_dtypes
from symgrad.ops.elementwise import POWER


def converted(node: Node, graph: Graph) -> list[Variable]:
    """The inputs in the dtypes in which an elementwise operator computes: a partial has no fewer digits."""
    xs, dtype = node.inputs, node.aval.dtype
    if all(x.aval.weak or x.aval.dtype == dtype for x in xs):
        return [_number(graph, x, node) if x.aval.weak else Variable(graph, x) for x in xs]
    dtypes = operand_dtypes(node.op, dtype, *[x.aval for x in xs])
    return [_number(graph, x, node) if x.aval.weak else _cast(graph, x, to) for x, to in zip(xs, dtypes, strict=True)]


def _number(graph: Graph, x: Node, user: Node) -> Variable:
    """A number of Python's; as NumPy's where 1 / 0.0 would raise, since a derivative is infinite there.

    Where the operator itself divides numbers of Python's it has raised before its derivative is asked for.
    """
    value = Variable(graph, x)
    raised = user.aval.weak and user.op.pole is not None and user.op is not POWER  # which is 1 at 0.0 ** 0
    if raised or not user.op.singular or x.op is CONSTANT or x.aval.dtype.kind != "f" or user.aval.dtype.kind != "f":
        return value
    return value.astype(user.aval.dtype)


def _cast(graph: Graph, x: Node, dtype: np.dtype) -> Variable:
    """A value in a dtype; a constant stays one, so that rules know its number."""
    if x.aval.dtype == dtype or x.op is not CONSTANT:
        return np.astype(Variable(graph, x), dtype, copy=False)
    return Variable(graph, graph.constant(np.asarray(x.constant).astype(dtype)))
