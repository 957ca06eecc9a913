"""Batching: append what a part of the graph gives for many values at once. Jacobians and Hessians stand on it.

What an operator makes of one more axis follows from its axis signature, wherever that axis lies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.axes import Stack, signature_of
from symgrad.core.graph import ITEM, Aval, Graph, Node, depends, needed
from symgrad.core.region import Region, cut, inline, mark
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import Dim, Shape, Size
from symgrad.derivatives.rematerialise import as_checkpoint
from symgrad.errors import GraphError, UnsupportedError
from symgrad.frontend.variable import Variable, record
from symgrad.ops.checkpoint import CHECKPOINT, region_of
from symgrad.ops.contract import spread
from symgrad.ops.custom import CUSTOM
from symgrad.ops.dtypes import common_dtype


class Image(NamedTuple):
    """A value for many inputs at once, and the axis that tells them apart: None where it is the same for all."""

    value: Variable
    axis: int | None

    def at(self, axis: int) -> Variable:
        """With the axis at another place."""
        return self.value if self.axis in (None, axis) else np.moveaxis(self.value, self.axis, axis)


class Call(NamedTuple):
    """A node, and the images of its inputs."""

    node: Node
    inputs: Sequence[Image]
    batched: tuple[bool, ...]
    size: Size

    def record(self, xs: Sequence[Variable], at: int) -> Any:
        """The operator on `xs`, where its parameters speak of one axis more."""
        op, params, ndim = self.node.op, dict(self.node.params), self.node.inputs[0].aval.ndim
        for name, change in op.axes.items():
            params[name] = change({**op.defaults, **params}[name], at, ndim, self.size)
        return record(self.inputs[0].value.graph, op, xs, params)


Batched = tuple[Any, int] | None
"""A Variable, or a tuple of them where an operator has several results, and the axis that tells inputs apart."""


def batch(
    graph: Graph,
    outputs: Sequence[Node],
    lifted: Mapping[Node, Node],
    axes: Mapping[Node, int] = MappingProxyType({}),
    to: int = 0,
) -> list[Node]:
    """Append `outputs` for many values of the lifted nodes to `graph`.

    Parameters
    ----------
    outputs : list of Node
        Whatever they need and does not depend on a lifted node is shared, not repeated.
    lifted : mapping of Node to Node
        Each to its image, of the same dtype and of the same shape but for one axis more, whose size B, an int or a
        symbol, is that of all.
    axes : mapping of Node to int
        Which axis of its image that is; the first for a lifted node that is not in it.
    to : int
        Which axis of the results it is.

    Returns
    -------
    list of Node
        Of the same dtypes as the outputs: slice i is the output if every lifted node were slice i of its image.

    Raises
    ------
    UnsupportedError
        If B is a symbol and nothing says how an operator is batched.
    GraphError
        If an image does not fit, or the rule of an operator gives a wrong shape.
    """
    places = {x: axes.get(x, 0) % (x.aval.ndim + 1) for x in lifted}
    size = _common_size(lifted, places)
    images: dict[Node, Any] = {x: Image(Variable(graph, image), places[x]) for x, image in lifted.items()}
    before = graph.provenance
    try:
        for node in _affected(outputs, lifted):
            graph.provenance = node.where
            images[node] = _batched(graph, node, images, size)
            if node in graph.names:
                graph.label(images[node].value.node, graph.names[node])
        graph.provenance = before
        return [_result(graph, y, images, size, to % (y.aval.ndim + 1)).node for y in outputs]
    finally:
        graph.provenance = before


def _common_size(lifted: Mapping[Node, Node], places: Mapping[Node, int]) -> Size:
    if not lifted:
        raise GraphError("nothing to batch over: no node is lifted", "Lift one node at least.")
    size = next((image.aval.shape[places[x]] for x, image in lifted.items() if image.aval.ndim > places[x]), 0)
    for x, image in lifted.items():
        wanted = _with_axis(x.aval.shape, places[x], size)
        if image.aval.dtype != x.aval.dtype or not same_shape(image.aval.shape, wanted):
            raise GraphError(f"{image.aval} does not hold rows of {x.aval}", "Stack values of its shape.", x.where)
    return size


def _with_axis(shape: Shape, axis: int, size: Size) -> Shape:
    return (*shape[:axis], size, *shape[axis:])


def _affected(outputs: Sequence[Node], lifted: Mapping[Node, Node]) -> list[Node]:
    """What lies between the lifted nodes, where the graph is cut, and the outputs, in order."""
    nodes = needed(outputs, lifted)
    affected = depends(nodes, lifted)
    return [node for node in nodes if node in affected]


def _result(graph: Graph, y: Node, images: Mapping[Node, Any], size: Size, axis: int) -> Variable:
    if y in images:
        return images[y].at(axis)
    graph.provenance = y.where
    return _repeated(Variable(graph, y), axis, size)


def _repeated(x: Variable, axis: int, size: Size) -> Variable:
    return np.broadcast_to(spread(x, axis > 0, axis), _with_axis(x.shape, axis, size))


# ---- one node


def _batched(graph: Graph, node: Node, images: Mapping[Node, Any], size: Size) -> Any:
    """The image of a node, a tuple where its operator has several results."""
    if node.op is ITEM:
        return images[node.inputs[0]][dict(node.params)["index"]]
    inputs = [images[x] if x in images else Image(Variable(graph, x), None) for x in node.inputs]
    call = Call(node, inputs, tuple([x in images for x in node.inputs]), size)
    ways = (_inside, _with_rule, _by_rule, _on_stacks, _along)
    result, axis = next(filter(None, (way(call) for way in ways)), None) or _row_by_row(call)
    if type(node.aval) is Aval:
        return _checked(call, result, node.aval, axis)
    return tuple([_checked(call, y, aval, axis) for y, aval in zip(result, node.aval, strict=True)])


def _inside(call: Call) -> Batched:
    """Of a checkpoint what its region computes, as a checkpoint again."""
    if call.node.op is not CHECKPOINT:
        return None
    graph, region = call.inputs[0].value.graph, region_of(call.node)
    since, pairs = mark(graph), zip(call.inputs, call.node.inputs, strict=True)
    one = [image.value.node if image.axis is None else graph.seed(x.aval) for image, x in pairs]
    body = inline(graph, region, one)
    for x in region.nodes:
        if x in region.graph.names:
            graph.label(body[x], region.graph.names[x])
    lifted = {x: image for x, image in zip(one, call.inputs, strict=True) if image.axis is not None}
    images, axes = {x: y.value.node for x, y in lifted.items()}, {x: y.axis or 0 for x, y in lifted.items()}
    results = batch(graph, [body[y] for y in region.results], images, axes)
    return as_checkpoint(graph, cut(graph, results, since)), 0


def _with_rule(call: Call) -> Batched:
    """Of a function with a rule of its own what it computes, with the rule for many calls."""
    if call.node.op is not CUSTOM:
        return None
    graph, params = call.inputs[0].value.graph, dict(call.node.params)
    region, whole = params["region"], [x.at(0).node for x in call.inputs]
    one = [graph.seed(x.aval) for x in region.parameters]
    body = inline(graph, region, one)
    rows = {x: graph.seed(y.aval) for x, y, b in zip(one, whole, call.batched, strict=True) if b}
    results = batch(graph, [body[y] for y in region.results], rows)
    many = Region(graph, [rows.get(x, x) for x in one], results)
    rule = params["rule"].over_rows(call.batched[: params["rule"].count])
    return record(graph, CUSTOM, [Variable(graph, x) for x in whole], {"region": many, "rule": rule}), 0


def _by_rule(call: Call) -> Batched:
    """By the operator's own rule, unless it leaves this to the signature."""
    op = call.node.op
    if op.batch is None:
        return None
    result = op.batch(call.batched, *[x.at(0) for x in call.inputs], **{**op.defaults, **dict(call.node.params)})
    return None if result is NotImplemented else (result, 0)


def _on_stacks(call: Call) -> Batched:
    """By the operator on stacks: the axis lies among those in front of its own, at one depth in all inputs."""
    node, avals = call.node, [x.aval for x in call.node.inputs]
    # nearly all are elementwise; their signature would say the same
    stack = Stack((0,) * len(avals), node.aval.ndim) if node.op.elementwise else signature_of(node).stack
    if stack is None or any([core is None and b for core, b in zip(stack.cores, call.batched, strict=True)]):
        return None
    ndims = [0 if core is None else len(aval.shape) - core for core, aval in zip(stack.cores, avals, strict=True)]
    depth = _depth(call.inputs, ndims, stack.ndim)
    xs = [_at_depth(x, ndim, depth) for x, ndim in zip(_unweakened(call, avals), ndims, strict=True)]
    return call.record(xs, stack.ndim - depth), stack.ndim - depth


def _depth(inputs: Sequence[Image], ndims: Sequence[int], most: int) -> int:
    """How many axes of the stack come behind the new one: all, unless it is not the first and lies alike everywhere."""
    if not any([x.axis for x in inputs]):
        return most
    depths = {ndim - x.axis for ndim, x in zip(ndims, inputs, strict=True) if x.axis is not None}
    return depths.pop() if len(depths) == 1 and min(depths) >= 0 else most


def _at_depth(x: Image, ndim: int, depth: int) -> Variable:
    """An input with so many axes of its stack behind the new one; of size 1 where it has less, as the new one if it
    is shared."""
    if x.axis is None:
        return spread(x.value, 1, ndim - depth) if ndim > depth else x.value
    place = max(ndim - depth, 0)
    return spread(x.at(place), depth - ndim, place + 1)


def _unweakened(call: Call, avals: Sequence[Aval]) -> Sequence[Image]:
    """Rows of a Python number in the dtype that NumPy converts the number to: float64 rows would widen float32."""
    if not call.node.op.elementwise or not any([aval.weak for aval in avals]):
        return call.inputs
    dtype = common_dtype(*avals)
    weak = [aval.weak and b and aval.dtype.kind in "fc" for aval, b in zip(avals, call.batched, strict=True)]
    return [
        Image(x.value.astype(dtype, copy=False), x.axis) if w else x for x, w in zip(call.inputs, weak, strict=True)
    ]


def _along(call: Call) -> Batched:
    """By other parameters, where the first input alone or every one has one axis more; the result has it where it has
    its label."""
    op, axis = call.node.op, call.inputs[0].axis
    xs = [x.value for x in call.inputs]
    if op.joins:
        axis = next(x.axis for x in call.inputs if x.axis is not None)
        xs = [_repeated(x.value, axis, call.size) if x.axis is None else x.at(axis) for x in call.inputs]
    elif not op.axes or axis is None or any(call.batched[1:]) or type(call.node.aval) is not Aval:
        return None
    result = call.record(xs, axis)
    signature = signature_of(result.node)
    label = signature.inputs[0][axis]
    return (result, signature.result.index(label)) if label is not None and label in signature.result else None


def _row_by_row(call: Call) -> tuple[Any, int]:
    """For an operator of which nothing is known: right, if long."""
    node, size = call.node, call.size
    if isinstance(size, Dim):
        raise UnsupportedError(
            f"{node.op.path} has no batch rule, and {size} rows are not a number of rows to take one by one",
            "Give its operator(...) batch=, or compile for exact sizes.",
            node.where,
        )
    xs, graph = [x.at(0) for x in call.inputs], call.inputs[0].value.graph
    if size == 0:
        return _empty(xs[0], node.aval), 0
    rows = [
        record(graph, node.op, [x[i] if b else x for x, b in zip(xs, call.batched, strict=True)], dict(node.params))
        for i in range(size)
    ]
    return np.stack(rows) if type(node.aval) is Aval else tuple(map(np.stack, zip(*rows, strict=True))), 0


def _empty(like: Variable, aval: Any) -> Any:
    if type(aval) is not Aval:
        return tuple(_empty(like, one) for one in aval)
    return np.full((0, *aval.shape), 0, aval.dtype, like=like)


def _checked(call: Call, y: Variable, aval: Aval, axis: int) -> Image:
    """The image of a result in the dtype of the result; a rule that gives a wrong shape must not get further."""
    if not same_shape(y.shape, _with_axis(aval.shape, axis, call.size)):
        raise GraphError(
            f"the batch rule of np.{call.node.op.name} gives {y.aval} for rows of {aval}",
            "Give results with one axis more, the first.",
            call.node.where,
        )
    return Image(y if y.dtype == aval.dtype else y.astype(aval.dtype), axis)
