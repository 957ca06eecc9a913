"""vmap: a function of one input as one of many inputs at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple, Unpack

import numpy as np

from symgrad.compiler.function import Function
from symgrad.core import tree
from symgrad.core.graph import Aval, Graph, Node, depends, reached, tracing
from symgrad.core.options import OfTransform
from symgrad.core.shapes import render_tuple
from symgrad.core.sizes import Dim, Size
from symgrad.derivatives.batch import batch
from symgrad.derivatives.mapped import as_array
from symgrad.errors import ArgumentError, ShapeError
from symgrad.frontend.arguments import bind, dotted_paths
from symgrad.frontend.chains import go_on_from
from symgrad.frontend.conversion.runtime import called
from symgrad.frontend.plain_arguments import integer
from symgrad.frontend.trace import of_graph
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.contract import fits
from symgrad.ops.operands import ARRAYS
from symgrad.transforms.differentiation import described
from symgrad.transforms.making import describe, name_of, remembered, standing_for

Axes = Any
"""An axis, None, or a tree of them that is a prefix of another tree."""


@remembered
def vmap(
    f: Callable[..., Any],
    in_axes: Axes = 0,
    out_axes: Axes = 0,
    *,
    axis_size: int | None = None,
    **options: Unpack[OfTransform],
) -> Function[..., Any]:
    """A function of one input as a function of many inputs at once, without a loop over them.

    Parameters
    ----------
    f : callable
        Written in NumPy, for one input. It is traced once.
    in_axes : int, None, or tuple or list of trees of them
        Which axis of the arguments tells the inputs apart; None for what all have in common. An int is that of all
        arguments, a tuple has one for each positional argument: an int, None, or a tree of them for the parts of it.
        Of keyword arguments it is the first.
    out_axes : int, None, or tree of them
        Which axis of the results tells them apart, of all or of the parts of a tree; None for what does not differ.
    axis_size : int, optional
        How many inputs there are, where no argument tells.
    **options
        As in `symgrad.options`.

    Returns
    -------
    Function
        Takes arguments with one axis more, and gives the results of `f` for all of them, stacked. Derivatives may be
        taken of it, and it may be made of them.

    Raises
    ------
    ArgumentError
        At the call: `in_axes` or `out_axes` is not of the structure of the arguments or results, nothing tells how many
        inputs there are, or a result with ``out_axes=None`` differs from input to input.
    ShapeError
        At the call: arguments are of different lengths along their axes, or have no such axis.

    Notes
    -----
    A loop that ends at other iterations for other inputs goes on until all are done; those that are done keep what they
    have. Of a branch that they take otherwise both sides are computed.

    Examples
    --------
    Gradients for each example of a batch, rather than the gradient of their sum:

    >>> import numpy as np, symgrad as sg
    >>> def loss(w, x, y):
    ...     return (np.tanh(w @ x) - y) ** 2
    >>> per_example = sg.vmap(sg.grad(loss), in_axes=(None, 0, 0))
    >>> per_example(np.zeros(2), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([1.0, 2.0, 3.0]))
    array([[ -2.,  -4.],
           [-12., -16.],
           [-30., -36.]])
    """

    def body(*args: Any, **kwargs: Any) -> Any:
        graph = tracing.get()
        assert graph is not None, "transforms run inside a trace"
        bound = bind(f, args, kwargs)
        paths, leaves, structure = dotted_paths(bound.arguments)
        axes = _prefixed(_by_parameter(bound, in_axes), tuple(bound.arguments.values()), "in_axes", "the arguments")
        many = {
            i: _along(graph, path, x, axis)
            for i, (path, x, axis) in enumerate(zip(paths, leaves, axes, strict=True))
            if x is not None and axis is not None
        }
        size = _common_size(list(many.values()), axis_size)
        leaves = [many[i].row if i in many else x for i, x in enumerate(leaves)]
        bound.arguments.update(zip(bound.arguments, tree.unflatten(structure, leaves), strict=True))
        out = of_graph(graph, called(f)(*bound.args, **bound.kwargs))
        return _stacked(graph, out, out_axes, list(many.values()), size)

    return Function(standing_for(body, f), f"{name_of(f)}_vmap", f"Batches of {describe(f)}", options)


# ---- arguments


class _Along(NamedTuple):
    """An argument of many inputs: where it is among the arguments, which axis tells them apart, and the row of one."""

    path: str
    array: Variable
    axis: int
    seed: Node

    def __str__(self) -> str:
        return f"{self.path} has {self.size} along axis {self.axis}"

    @property
    def size(self) -> Size:
        return self.array.shape[self.axis]

    @property
    def row(self) -> Variable:
        lock = f"{self.path} is an argument: writing into it would change the caller's array"
        return Variable(self.array.graph, self.seed, lock)


def _by_parameter(bound: inspect.BoundArguments, in_axes: Axes) -> tuple[Axes, ...]:
    """Return the axes of each given parameter, by `in_axes`."""
    if not isinstance(in_axes, (tuple, list)):
        _check_axis(in_axes, "in_axes")
        return tuple(0 if _is_keyword(bound, name) else in_axes for name in bound.arguments)
    positional = [(name, x) for name, x in bound.arguments.items() if not _is_keyword(bound, name)]
    spread = {
        name for name, _ in positional if bound.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
    }
    count = sum(len(x) if name in spread else 1 for name, x in positional)
    if count != len(in_axes):
        raise ArgumentError(
            f"vmap: in_axes={in_axes!r} for {count} positional argument{'s' * (count != 1)}",
            "Give an int or None for each positional argument, or a tree of them.",
        )
    rest = iter(in_axes)
    return tuple(
        0 if _is_keyword(bound, name) else tuple(islice(rest, len(x))) if name in spread else next(rest)
        for name, x in bound.arguments.items()
    )


def _is_keyword(bound: inspect.BoundArguments, name: str) -> bool:
    return bound.signature.parameters[name].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)


def _prefixed(axes: Axes, whole: Any, option: str, of: str) -> list[int | None]:
    """Return for each leaf of a tree the axis of the prefix above it."""
    try:
        found = tree.broadcast_prefix(axes, whole)
    except ValueError:
        raise ArgumentError(
            f"vmap: {option}={axes!r} does not match the structure of {of}, {tree.render(tree.flatten(whole)[1])}",
            "Give an int, None, or a tree of these with the same structure; one may stand for a whole subtree.",
        ) from None
    for axis in found:
        _check_axis(axis, option)
    return found


def _check_axis(axis: Any, option: str) -> None:
    if axis is not None and (not isinstance(axis, int) or isinstance(axis, bool)):
        raise ArgumentError(
            f"vmap: {option} has {axis!r}, which is not an axis", "Write an int, None, or a tree of these."
        )


def _along(graph: Graph, path: str, x: Any, axis: int) -> _Along:
    """An argument that has such an axis; its row is called as it is."""
    shape = np.shape(x) if isinstance(x, (Variable, *ARRAYS)) else ()
    if not -len(shape) <= axis < len(shape):
        what = f"has the shape {render_tuple(shape)}" if shape else f"is {described(x)}"
        raise ShapeError(
            f"vmap: {path} {what}, which has no axis {axis}", "Write None in in_axes for a shared argument."
        )
    array, axis = Variable(graph, lift(graph, x)), axis % len(shape)
    seed = graph.seed(Aval(shape[:axis] + shape[axis + 1 :], array.dtype))
    if array.node in graph.names:
        graph.label(seed, graph.names[array.node])
    return _Along(path, array, axis, seed)


def _common_size(many: Sequence[_Along], axis_size: Size | None) -> Size:
    if axis_size is None and not many:
        raise ArgumentError(
            "vmap: no argument has a batch axis, so the size of the batch is unknown", "Give it: axis_size=n."
        )
    size = many[0].size if axis_size is None else integer("vmap: axis_size", axis_size)
    for x in many:
        if not fits(x.size, size):
            others = f"axis_size={size}" if axis_size is not None else str(many[0])
            raise ShapeError(
                f"vmap: {x}, and {others}", "Give all the same length, and None in in_axes for shared arguments."
            )
    return size


# ---- results


def _stacked(graph: Graph, out: Any, out_axes: Axes, many: Sequence[_Along], size: Size) -> Any:
    """Stack the results of one input into those of all inputs."""
    leaves, structure = tree.flatten(out)
    axes = _prefixed(out_axes, out, "out_axes", "the result")
    arrays = [i for i, y in enumerate(leaves) if isinstance(y, (Variable, *ARRAYS, int, float, complex, Dim))]
    nodes = {i: as_array(graph, leaves[i]) for i in arrays}
    differ = depends(reached(nodes.values()), [x.seed for x in many])
    for i, node in nodes.items():
        _check_result(node, axes[i], node in differ)
    ends = {i: axis for i, axis in enumerate(axes) if i in nodes and axis is not None}
    lifted = {x.seed: x.array.node for x in many}
    places = {x.seed: x.axis for x in many}
    checks = [graph.chain.last] if graph.chain.last is not None else []
    found = batch(
        graph, [*checks, *(nodes[i] for i in ends)], lifted, places, [0] * len(checks) + [*ends.values()], size
    )
    if checks:
        go_on_from(graph, found.pop(0))
    for i, y in zip(ends, found, strict=True):
        leaves[i] = Variable(graph, y)
    return tree.unflatten(structure, leaves)


def _check_result(y: Node, axis: int | None, differs: bool) -> None:
    if axis is None and differs:
        raise ArgumentError(
            f"vmap: out_axes is None for {y.aval}, which depends on the input",
            "Give the axis along which results are stacked: out_axes=0.",
            y.where,
        )
    if axis is not None and not -y.aval.ndim - 1 <= axis <= y.aval.ndim:
        raise ShapeError(
            f"vmap: out_axes={axis} is out of bounds for {y.aval}, the result of one input",
            f"Write an axis from 0 to {y.aval.ndim}.",
            y.where,
        )
