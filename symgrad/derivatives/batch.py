"""Batching: append a part of the graph for many values at once. Jacobians and Hessians are built on it.

What an operator makes of one more axis follows from its axis signature, wherever that axis lies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.ranges import is_singular
from symgrad.core.axes import Stack, signature_of
from symgrad.core.graph import ITEM, Aval, Graph, Node, Op, is_token, moved_name, needed
from symgrad.core.region import Region
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import Dim, Size
from symgrad.derivatives.batched_regions import REGIONS
from symgrad.derivatives.guards import guards_apart
from symgrad.derivatives.images import Image, chosen, not_whole, repeated, with_axis
from symgrad.errors import GraphError, UnsupportedError
from symgrad.frontend.variable import Variable, record
from symgrad.ops.contract import spread
from symgrad.ops.control import COND, is_guarded, is_guarded_by, mentions, moving
from symgrad.ops.dtypes import common_dtype
from symgrad.ops.known import is_constant
from symgrad.ops.places import side_here


def batch(
    graph: Graph,
    outputs: Sequence[Node],
    lifted: Mapping[Node, Node],  # each to its image, which has one axis more, of one size for all
    axes: Mapping[Node, int] = MappingProxyType({}),  # which axis of its image that is, if not the first
    to: int | Sequence[int] = 0,  # which axis of the results it is, of all or of each
    size: Size | None = None,  # of that axis, where no node may be lifted
) -> list[Node]:
    """Append `outputs` for many values of the lifted nodes to `graph`.

    Slice i is the output if every lifted node were slice i of its image. What does not depend on a lifted node is
    shared, not repeated.
    """
    places = {x: axes.get(x, 0) % (x.aval.ndim + 1) for x in lifted}
    batching = Batching(graph, _common_size(lifted, places) if size is None else size, set())
    images: dict[Node, Any] = {x: Image(Variable(graph, image), places[x]) for x, image in lifted.items()}
    batching.through(_affected(outputs, lifted), images, graph.names)
    ends = [to] * len(outputs) if isinstance(to, int) else to
    return [batching.result(y, images, axis).node for y, axis in zip(outputs, ends, strict=True)]


def _common_size(lifted: Mapping[Node, Node], places: Mapping[Node, int]) -> Size:
    if not lifted:
        raise GraphError("nothing to batch over: no node is lifted", "Lift one node at least.")
    size = next((image.aval.shape[places[x]] for x, image in lifted.items() if image.aval.ndim > places[x]), 0)
    for x, image in lifted.items():
        wanted = with_axis(x.aval.shape, places[x], size)
        if image.aval.dtype != x.aval.dtype or not same_shape(image.aval.shape, wanted):
            raise GraphError(f"{image.aval} does not hold rows of {x.aval}", "Stack values of its shape.", x.where)
    return size


def _affected(outputs: Sequence[Node], lifted: Mapping[Node, Node]) -> list[Node]:
    """Return the nodes between the lifted nodes, where the graph is cut, and the outputs, in order."""
    nodes = needed(outputs, lifted)
    affected = moving(nodes, lifted)
    return [node for node in nodes if node in affected]


class Batching(NamedTuple):
    """The state of batching a part of a graph.

    `active` is a mask of the inputs whose results are wanted, as in the branch that they take or while their loop goes
    on.
    """

    graph: Graph  # to which the images are appended
    size: Size  # how many inputs there are
    ragged: set[str]  # symbols of sizes that are numbers of iterations, and not the same for all inputs
    active: Variable | None = None
    is_any: bool = True  # whether there is one at least
    in_branch: bool = False  # whether some inputs have taken another branch: they may be where an operator warns

    def under(self, mask: Variable) -> Batching:
        """Return this batching, restricted to the inputs of a mask."""
        return self._replace(active=mask if self.active is None else self.active & mask, is_any=False)

    def region(self, region: Region, inputs: Sequence[Image]) -> list[Image]:
        """Return the images of the results of a region, from the images of its parameters."""
        images: dict[Node, Any] = dict(zip(region.parameters, inputs, strict=True))
        self.through(region.nodes, images, region.graph.names)
        return [images[y] for y in region.results]

    def through(self, nodes: Sequence[Node], images: dict[Node, Any], names: Mapping[Node, Any]) -> None:
        """Add the images of nodes, in order, to those of their inputs."""
        graph = self.graph
        with graph.located(graph.provenance):
            for node in nodes:
                graph.provenance = node.where
                images[node] = image = self.image(node, images)
                name = names.get(node)
                if name is not None and names is not graph.names:
                    name = moved_name(names, name, {})
                if name is not None and type(image) is Image:
                    graph.label(image.value.node, name)

    def image(self, node: Node, images: Mapping[Node, Any]) -> Any:
        """Return the image of a node, a tuple where its operator has several results."""
        if node.op is ITEM:
            return images[node.inputs[0]][dict(node.params)["index"]]
        inputs = [images[x] if x in images else Image(Variable(self.graph, x), None) for x in node.inputs]
        batched = tuple([x.axis is not None for x in inputs])
        if self.active is not None and is_guarded(node):
            self.check_side(node)
        if node.op is COND and batched[0]:
            apart = guards_apart(node, lambda x: x in images and images[x].axis is not None)
            if apart is not node:
                return self.image(apart, images)
        rule = REGIONS.get(node.op)
        if self.ragged and rule is None:
            self.check_sizes(node, inputs)
        if self.active is not None and (node.op.places is not None or node.op.refuses):
            inputs = [self.asked(x, node.op, i) for i, x in enumerate(inputs)]
        if self.in_branch and node.op.elementwise and any(batched):
            inputs = self.defined(node, inputs)
        if not any(batched) and (rule is None or self.active is None):
            return self.unbatched(node, inputs)
        call = Call(node, inputs, batched, self)
        if rule is not None:
            return rule(call)
        result, axis = _by_rule(call) or _on_stacks(call) or _along(call) or _row_by_row(call)
        if type(node.aval) is Aval:
            return _checked(call, result, node.aval, axis)
        return tuple([_checked(call, y, aval, axis) for y, aval in zip(result, node.aval, strict=True)])

    def check_sizes(self, node: Node, inputs: Sequence[Image]) -> None:
        """Refuse a node that depends on a number of iterations that differs from input to input."""
        if mentions(node, self.ragged):
            raise not_whole()
        for x in inputs:
            x.check_whole()

    def check_side(self, node: Node) -> None:
        """Refuse a slice whose extent is certain only where all inputs take the same side of a branch."""
        if type(node.aval) is Aval and not is_guarded_by(node, side_here(self.graph)):
            raise UnsupportedError(
                "vmap: the extent of a slice is certain by a test that also depends on the input",
                "Test the index by itself: if i >= m: if x[i] > 0: ...",
                node.where,
            )

    def asked(self, x: Image, op: Op, i: int) -> Image:
        """Return input i; where no result is wanted, one that NumPy never refuses: the index 0, an identity matrix."""
        is_matrix, is_place = op.refuses and i == 0, op.places is not None and op.places <= i
        if self.active is None or not (is_matrix or is_place):
            return x
        if x.axis is None and (self.is_any or is_constant(x.value)):
            return x
        value = x.value if x.axis is None else x.at(0)
        safe = np.eye(*value.shape[-2:], dtype=value.dtype, like=value) if is_matrix else 0
        if x.axis is None:
            return Image(np.where(np.any(self.active), value, safe), None)
        return Image(chosen(self.active, value, safe, value.ndim - self.active.ndim), 0)

    def defined(self, node: Node, inputs: list[Image]) -> list[Image]:
        """Return the inputs of an elementwise operator; where no result is wanted, numbers for which it is defined."""
        op, active = node.op, self.active
        if active is None or not (op.pole is not None or is_singular(node)):
            return inputs
        places = range(len(inputs)) if op.pole is None else (op.pole,)
        found = list(inputs)
        for i in places:
            x = found[i]
            if x.axis is not None and x.value.dtype.kind in "iufc":
                value = x.at(0)
                safe = _safe_number(op, i) if value.dtype.kind in "fc" else int(_safe_number(op, i))
                found[i] = Image(chosen(active, value, safe, value.ndim - active.ndim), 0)
        return found

    def unbatched(self, node: Node, inputs: Sequence[Image]) -> Any:
        """Return the image of a node whose inputs are not batched."""
        graph = self.graph
        image = graph.rebuild(node, tuple([x.value.node for x in inputs]), node.where)
        if type(node.aval) is Aval:
            return Image(Variable(graph, image), None)
        return tuple([Image(Variable(graph, y), None) for y in graph.items(image)])

    def result(self, y: Node, images: Mapping[Node, Any], axis: int) -> Variable:
        """Return the image of an output, with the batch axis at a place."""
        image = images[y] if y in images else Image(Variable(self.graph, y), None)
        if is_token(y):
            return image.value
        return image.spread_to(axis % (y.aval.ndim + 1), self.size)


def _safe_number(op: Op, i: int) -> float:
    """Return a number for which an operator is defined: 1, or the middle of its domain."""
    low, high = (0.0, 2.0) if op.domain is None else op.domain[i]
    return 1.0 if low < 1.0 < high else (low + high) / 2


class Call(NamedTuple):
    """A node, and the images of its inputs."""

    node: Node
    inputs: Sequence[Image]
    batched: tuple[bool, ...]
    batching: Batching

    @property
    def size(self) -> Size:
        return self.batching.size

    def record(self, xs: Sequence[Variable], at: int) -> Any:
        """Record the operator on `xs`, with its parameters adjusted to one axis more."""
        op, params, ndim = self.node.op, dict(self.node.params), self.node.inputs[0].aval.ndim
        for name, change in op.axes.items():
            params[name] = change({**op.defaults, **params}[name], at, ndim, self.size)
        return record(self.batching.graph, op, xs, params)


# ---- one node


Batched = tuple[Any, int] | None
"""A Variable, or a tuple of them where an operator has several results, and its batch axis."""


def _by_rule(call: Call) -> Batched:
    """Batch by the operator's own rule, unless it leaves this to the axis signature."""
    op = call.node.op
    if op.batch is None:
        return None
    result = op.batch(call.batched, *[x.at(0) for x in call.inputs], **{**op.defaults, **dict(call.node.params)})
    return None if result is NotImplemented else (result, 0)


def _on_stacks(call: Call) -> Batched:
    """Batch by stacking: the batch axis stands before the operator's own axes, at one depth in all inputs."""
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
    """Return how many axes of the stack follow the batch axis: all, unless it is alike in all inputs and not first."""
    if not any([x.axis for x in inputs]):
        return most
    depths = {ndim - x.axis for ndim, x in zip(ndims, inputs, strict=True) if x.axis is not None}
    return depths.pop() if len(depths) == 1 and min(depths) >= 0 else most


def _at_depth(x: Image, ndim: int, depth: int) -> Variable:
    """Return an input with `depth` stack axes after the batch axis, which has size 1 for a shared input."""
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
    """Batch by changed parameters, where the first input or all have the batch axis; the axis signature places it in
    the result.
    """
    op, axis = call.node.op, call.inputs[0].axis
    xs = [x.value for x in call.inputs]
    if op.joins:
        axis = next(x.axis for x in call.inputs if x.axis is not None)
        xs = [repeated(x.value, axis, call.size) if x.axis is None else x.at(axis) for x in call.inputs]
    elif not op.axes or axis is None or any(call.batched[1:]) or type(call.node.aval) is not Aval:
        return None
    result = call.record(xs, axis)
    signature = signature_of(result.node)
    label = signature.inputs[0][axis]
    return (result, signature.result.index(label)) if label is not None and label in signature.result else None


def _row_by_row(call: Call) -> tuple[Any, int]:
    """Batch an operator without a rule by one node for each row: right, if long."""
    node, size = call.node, call.size
    if isinstance(size, Dim):
        raise UnsupportedError(
            f"{node.op.path} has no batch rule, and {size} is not a fixed number of rows to loop over",
            "Give its operator(...) batch=, or compile for exact sizes.",
            node.where,
        )
    xs, graph = [x.at(0) for x in call.inputs], call.batching.graph
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
    """Return the image of a result in its dtype, after a check of its shape."""
    if not same_shape(y.shape, with_axis(aval.shape, axis, call.size)):
        raise GraphError(
            f"the batch rule of np.{call.node.op.name} gives {y.aval} for rows of {aval}",
            "Give results with one axis more, the first.",
            call.node.where,
        )
    return Image(y if y.dtype == aval.dtype else y.astype(aval.dtype), axis)
