"""Batching: append what a part of the graph gives for many values at once. Jacobians and Hessians stand on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.core.graph import ITEM, Aval, Graph, Node, depends, needed
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import Dim, Size
from symgrad.errors import GraphError, UnsupportedError
from symgrad.frontend.variable import Variable, record
from symgrad.ops.define import common_dtype
from symgrad.ops.shape import with_rank

Image = Any  # the Variable of a batched node, a tuple of them where the operator has several results


def batch(graph: Graph, outputs: Sequence[Node], lifted: Mapping[Node, Node]) -> list[Node]:
    """Append `outputs` for many values of the lifted nodes to `graph`.

    Parameters
    ----------
    outputs : list of Node
        Whatever they need and does not depend on a lifted node is shared, not repeated.
    lifted : mapping of Node to Node
        Each to its image of shape ``(B, *shape)`` and the same dtype, with one B, an int or a symbol, for all.

    Returns
    -------
    list of Node
        Of shape ``(B, *shape)`` and the same dtypes: row i is the output if every lifted node were row i of its image.

    Raises
    ------
    UnsupportedError
        If B is a symbol and an operator has no rule for batches.
    GraphError
        If an image does not fit, or the rule of an operator gives a wrong shape.
    """
    size = _common_size(lifted)
    images: dict[Node, Image] = {x: Variable(graph, image) for x, image in lifted.items()}
    before = graph.provenance
    try:
        for node in _affected(outputs, lifted):
            graph.provenance = node.where
            images[node] = _batched(graph, node, images, size)
            if node in graph.names:
                graph.label(images[node].node, graph.names[node])
        return [_rows(graph, y, images, size).node for y in outputs]
    finally:
        graph.provenance = before


def _common_size(lifted: Mapping[Node, Node]) -> Size:
    if not lifted:
        raise GraphError("nothing to batch over: no node is lifted", "Lift one node at least.")
    size = next(iter(lifted.values())).aval.shape[:1]
    for x, image in lifted.items():
        if image.aval.dtype != x.aval.dtype or not size or not same_shape(image.aval.shape, size + x.aval.shape):
            raise GraphError(f"{image.aval} does not hold rows of {x.aval}", "Stack values of its shape.", x.where)
    return size[0]


def _affected(outputs: Sequence[Node], lifted: Mapping[Node, Node]) -> list[Node]:
    """What lies between the lifted nodes, where the graph is cut, and the outputs, in order."""
    nodes = needed(outputs, lifted)
    affected = depends(nodes, lifted)
    return [node for node in nodes if node in affected]


def _rows(graph: Graph, y: Node, images: Mapping[Node, Image], size: Size) -> Variable:
    if y in images:
        return images[y]
    graph.provenance = y.where
    return np.broadcast_to(Variable(graph, y), (size, *y.aval.shape))


# ---- one node


def _batched(graph: Graph, node: Node, images: Mapping[Node, Image], size: Size) -> Image:
    op, flags = node.op, tuple([x in images for x in node.inputs])
    if op is ITEM:
        return images[node.inputs[0]][dict(node.params)["index"]]
    inputs = [images[x] if x in images else Variable(graph, x) for x in node.inputs]
    if op.elementwise:
        result = op(*_aligned(node, flags, inputs))
    elif op.batch is not None:
        result = op.batch(flags, *inputs, **{**op.defaults, **dict(node.params)})
    else:
        result = _row_by_row(node, flags, inputs, size)
    if type(node.aval) is Aval:
        return _checked(node, result, node.aval, size)
    return tuple(_checked(node, y, aval, size) for y, aval in zip(result, node.aval, strict=True))


def _aligned(node: Node, flags: Sequence[bool], inputs: Sequence[Variable]) -> list[Variable]:
    """Inputs of an elementwise operator, with the new axis in front of all others."""
    avals = [x.aval for x in node.inputs]
    return [
        with_rank(_unweakened(x, aval, avals), node.aval.ndim) if batched else x
        for x, aval, batched in zip(inputs, avals, flags, strict=True)
    ]


def _unweakened(x: Variable, aval: Aval, avals: Sequence[Aval]) -> Variable:
    """Rows of a Python number in the dtype that NumPy converts the number to: float64 rows would widen float32."""
    if not aval.weak or aval.dtype.kind not in "fc":
        return x
    dtype = common_dtype(*avals)
    return x if dtype == x.dtype else x.astype(dtype)


def _row_by_row(node: Node, flags: Sequence[bool], inputs: Sequence[Variable], size: Size) -> Image:
    """For an operator without a rule: right, if long."""
    if isinstance(size, Dim):
        raise UnsupportedError(
            f"{node.op.path} has no batch rule, and {size} rows are not a number of rows to take one by one",
            "Give its operator(...) batch=, or compile for exact sizes.",
            node.where,
        )
    graph, params = inputs[0].graph, dict(node.params)
    if size == 0:
        return _empty(inputs[0], node.aval)
    pairs = list(zip(inputs, flags, strict=True))
    rows = [record(graph, node.op, [x[i] if batched else x for x, batched in pairs], params) for i in range(size)]
    return np.stack(rows) if type(node.aval) is Aval else tuple(map(np.stack, zip(*rows, strict=True)))


def _empty(like: Variable, aval: Any) -> Image:
    if type(aval) is not Aval:
        return tuple(_empty(like, one) for one in aval)
    return np.full((0, *aval.shape), 0, aval.dtype, like=like)


def _checked(node: Node, y: Variable, aval: Aval, size: Size) -> Variable:
    """The image of a result in the dtype of the result; a rule that gives a wrong shape must not get further."""
    if not same_shape(y.shape, (size, *aval.shape)):
        raise GraphError(
            f"the batch rule of np.{node.op.name} gives {y.aval} for rows of {aval}",
            "Give results with one axis more, the first.",
            node.where,
        )
    return y if y.dtype == aval.dtype else y.astype(aval.dtype)
