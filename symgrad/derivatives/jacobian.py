"""Dense Jacobians: one pullback or pushforward of a seed, batched over the rows of the identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np

from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import product, same_shape
from symgrad.derivatives.batch import batch
from symgrad.derivatives.pullback import pullback, pushforward
from symgrad.errors import DTypeError
from symgrad.frontend.variable import Variable


def jacobian_rev(graph: Graph, outputs: Sequence[Node], wrt: Sequence[Node]) -> list[list[Node]]:
    """Append the Jacobians of `outputs` to `graph`, row by row: for fewer outputs than inputs.

    ``[i][j]`` has shape ``(*outputs[i].shape, *wrt[j].shape)`` and the dtype of ``wrt[j]``; zeros where ``outputs[i]``
    does not depend on it.
    """
    _check_floating(outputs, wrt)
    jacobians = []
    for y in outputs:
        back = lambda g, y=y: pullback(graph, [y], [g], wrt)
        rows = _along_unit_vectors(graph, y, back, axis=0)
        jacobians.append([_dense(graph, row, y, x, x.aval.dtype) for row, x in zip(rows, wrt, strict=True)])
    return jacobians


def jacobian_fwd(graph: Graph, outputs: Sequence[Node], wrt: Sequence[Node]) -> list[list[Node]]:
    """Append the Jacobians of `outputs` to `graph`, column by column: for fewer inputs than outputs.

    As `jacobian_rev`, but each has the dtype of its output.
    """
    _check_floating(outputs, wrt)
    jacobians: list[list[Node]] = [[] for _ in outputs]
    for x in wrt:
        forth = lambda t, x=x: pushforward(graph, outputs, [x], [t])
        columns = _along_unit_vectors(graph, x, forth, axis=-1)
        for row, column, y in zip(jacobians, columns, outputs, strict=True):
            row.append(_dense(graph, column, y, x, y.aval.dtype))
    return jacobians


def _check_floating(outputs: Sequence[Node], wrt: Sequence[Node]) -> None:
    for node in (*outputs, *wrt):
        if not node.aval.differentiable:
            raise DTypeError(
                f"there is no Jacobian of or with respect to {node.aval}",
                "Give floating arrays: x.astype(float).",
                node.where,
            )


def _deriving(graph: Graph, node: Node) -> AbstractContextManager[None]:
    """Nodes made inside are derivatives of `node`, or by it."""
    return graph.located(node.where._replace(of=node, again=False))


def _along_unit_vectors(
    graph: Graph, node: Node, derive: Callable[[Node], list[Node | None]], axis: int
) -> list[Node | None]:
    """Return the derivatives that `derive` gives for the unit vectors of `node`, stacked along the first or last axis
    (-1).

    A space with one unit vector gets no axis.
    """
    shape, dtype, size = node.aval.shape, node.aval.dtype, product(node.aval.shape)
    with _deriving(graph, node):
        like = Variable(graph, node)
        if isinstance(size, int) and size == 1:
            return derive(np.full(shape, 1, dtype, like=like).node)
        seed = graph.seed(node.aval._replace(weak=False))
        derivatives = derive(seed)
        found = [d for d in derivatives if d is not None]
        units = np.eye(size, dtype=dtype, like=like)
        units = units if len(shape) == 1 else np.reshape(units, (size, *shape))
        stacked = iter(batch(graph, found, {seed: units.node}, to=axis))
        return [None if d is None else next(stacked) for d in derivatives]


def _dense(graph: Graph, stacked: Node | None, y: Node, x: Node, dtype: np.dtype) -> Node:
    """Return a stack of derivatives in the shape of the Jacobian of `y` by `x`."""
    shape = (*y.aval.shape, *x.aval.shape)
    with _deriving(graph, y):
        if stacked is None:
            return np.full(shape, 0.0, dtype, like=Variable(graph, y)).node
        return stacked if same_shape(stacked.aval.shape, shape) else np.reshape(Variable(graph, stacked), shape).node
