"""The second door: graphs built by hand, differentiated node by node, and compiled from any nodes to any nodes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from itertools import count
from typing import Any, Unpack

import numpy as np

from symgrad.compiler.compiled import Compiled
from symgrad.core import tree
from symgrad.core.graph import INPUT, Graph as Nodes, Node, needed, reached
from symgrad.core.options import Chosen, checked, resolve
from symgrad.core.provenance import here
from symgrad.core.region import regions_of, with_nested
from symgrad.core.size_scope import Sizes
from symgrad.derivatives.pullback import pullback
from symgrad.errors import ArgumentError, DTypeError, GraphError
from symgrad.frontend.arguments import Leaf
from symgrad.frontend.graphs import Graph as Graph
from symgrad.frontend.trace import Program
from symgrad.frontend.variable import Variable
from symgrad.ops.checkpoint import opened_within
from symgrad.transforms.differentiation import described, matching, or_zeros


def gradients(
    ys: Variable | Sequence[Variable],
    xs: Sequence[Variable],
    grad_ys: Sequence[Any] | None = None,
    stop_gradients: Sequence[Variable] = (),
) -> list[Variable]:
    """Append the gradients of `ys` with respect to `xs` to their graph.

    Parameters
    ----------
    ys : Variable or sequence of Variable
        Where there are several, or one is an array, their numbers are summed, weighted by `grad_ys`.
    xs : sequence of Variable
        Floating inputs or any other values of the graph.
    grad_ys : sequence of array or None, optional
        Cotangents, of the shapes of `ys`; None stands for ones.
    stop_gradients : sequence of Variable
        Taken as constants.

    Returns
    -------
    list of Variable
        Of the shapes and dtypes of `xs`; zeros where `ys` do not depend on one.

    Raises
    ------
    DTypeError
        If one of `xs` or `ys` is not floating.
    ShapeError
        If a cotangent has another shape than its y.
    NotDifferentiableError
        Naming the NumPy function without a derivative, and the line.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> x = sg.Graph().input("x", "float64[]")
    >>> (dx,) = sg.gradients(x ** 3, [x])
    >>> (ddx,) = sg.gradients(dx, [x])
    >>> sg.function([x], ddx)(np.float64(2.0))
    np.float64(12.0)
    """
    ys = _variables(ys, "gradients: ys")
    xs = _variables(xs, "gradients: xs")
    stop_gradients = _variables(stop_gradients, "gradients: stop_gradients")
    weights = [None] * len(ys) if grad_ys is None else list(grad_ys)
    if not ys:
        raise ArgumentError("gradients: ys is empty", "Give Variables of the graph.")
    if len(weights) != len(ys):
        raise ArgumentError(f"gradients: {len(ys)} ys and {len(weights)} grad_ys", "Give one cotangent for each y.")
    graph = _graph_of([*ys, *xs, *stop_gradients])
    for x in (*ys, *xs):
        if not x.aval.differentiable:
            raise DTypeError(f"gradients: {x!r} is not floating", "Only floating arrays have derivatives.")
    cotangents = [_cotangent(y, w) for y, w in zip(ys, weights, strict=True)]
    found = pullback(
        graph, [y.node for y in ys], cotangents, [x.node for x in xs], True, [x.node for x in stop_gradients]
    )
    return list(map(or_zeros, xs, found))


def _cotangent(y: Variable, weight: Any) -> Node:
    if weight is None:
        return np.ones_like(y).node if y.shape else y.graph.constant(y.dtype.type(1))
    return matching(y, weight, "cotangent")


def _variables(given: Any, what: str) -> list[Variable]:
    """A Variable or a sequence of them, as a list."""
    items = list(given) if isinstance(given, (tuple, list)) else [given]
    for x in items:
        if not isinstance(x, Variable):
            raise ArgumentError(f"{what} has {described(x)}", "Give Variables of the graph.")
    return items


def function(inputs: Sequence[Variable], outputs: Any, **options: Unpack[Chosen]) -> Compiled:
    """Compile a part of a graph: any nodes to feed, any nodes to fetch.

    Parameters
    ----------
    inputs : sequence of Variable
        Inputs, or other values: there the graph is cut, and what they were made of is not needed.
    outputs : tree of Variable
        What is not fetched is not computed, but for what the graph raises, warns and prints, if all is fed for it.
    **options
        As in `symgrad.options`.

    Returns
    -------
    Compiled
        Takes an array for each input; gives arrays in a tree like `outputs`.

    Raises
    ------
    GraphError
        If outputs need an input of the graph that is not fed.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> g = sg.Graph()
    >>> x = g.input("x", "float64[3]")
    >>> h = np.exp(x)
    >>> sg.function([h], np.sum(h))(np.ones(3))
    np.float64(3.0)
    """
    explicit = checked(options)
    return Compiled(between(_variables(inputs, "function: inputs"), outputs), resolve(explicit))


def between(inputs: Sequence[Variable], outputs: Any, has_checks: bool = True) -> Program:
    """The part of a graph between these values, as a program; with checks of the graph for which all is fed."""
    leaves, structure = tree.flatten(outputs)
    fetched = [x for x in leaves if isinstance(x, Variable)]
    graph = _graph_of([*inputs, *fetched])
    names = _parameter_names(graph, [x.node for x in inputs])
    feeds, ends = [x.node for x in inputs], [x.node for x in fetched]
    ends += _checks(graph, feeds) if has_checks else []
    inside = {x for node in reached(ends) for region in regions_of(node) for x in with_nested(region.nodes)}
    wanted = dict(zip(ends, ends if inside.isdisjoint(feeds) else opened_within(graph, ends), strict=True))
    cut_graph, image = cut(graph, feeds, [*wanted.values()], names)
    cut_graph.outputs = [image[wanted[y]] for y in ends]
    results = [Variable(cut_graph, image[wanted[x.node]]) if isinstance(x, Variable) else x for x in leaves]
    return Program(
        cut_graph,
        {name: Variable(cut_graph, node) for name, node in zip(names, cut_graph.inputs, strict=True)},
        tree.unflatten(structure, results),
        "function",
        here(),
        [Leaf(name, "", name, name, node) for name, node in zip(names, cut_graph.inputs, strict=True)],
        tree.flatten((0,) * len(names))[1],
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names],
        getattr(graph, "sizes", Sizes()),
        [],
        f"A function of {', '.join(names) or 'nothing'}.",
    )


def _checks(graph: Nodes, feeds: Sequence[Node]) -> list[Node]:
    """The last check of a graph, if all that checks need is made of what is fed."""
    last = [] if graph.chain.last is None else [graph.chain.last]
    return [] if any(x.op is INPUT for x in needed(last, feeds)) else last


def _parameter_names(graph: Nodes, inputs: Sequence[Node]) -> list[str]:
    """Return the names of parameters: the user's names of the values, if they are unique."""
    names: list[str] = []
    hints = [graph.names.get(node) for node in inputs]
    for i, hint in enumerate(hints):
        free = (name for j in count(i) if (name := f"x{j}") not in names and name not in hints)
        names.append(hint if isinstance(hint, str) and hint not in names else next(free))
    return names


def cut(
    graph: Nodes, feeds: Sequence[Node], outputs: Sequence[Node], names: Sequence[str]
) -> tuple[Graph, dict[Node, Node]]:
    """A new graph from `feeds`, which become inputs, to `outputs`, which need no other; and the image of each node."""
    new = Graph()
    image: dict[Node, Node] = {}
    for node, name in zip(feeds, names, strict=True):
        if node in image:
            raise GraphError(f"{graph.names.get(node, name)} is given twice", "Give each input once.")
        image[node] = new.add_input(name, node.aval, node.where)
    for node in needed(outputs, image):
        if node.op is INPUT:
            name = dict(node.params)["name"]
            raise GraphError(f"the outputs need the input {name!r}, which is not fed", f"Add {name} to the inputs.")
        image[node] = new.add(node.op, tuple([image[x] for x in node.inputs]), node.params, node.where.moved(image))
    new.take_names(graph.names, image)
    return new, image


def _graph_of(variables: Sequence[Variable]) -> Nodes:
    if not variables:
        raise ArgumentError("no Variable was given", "Give the Variables of a graph: symgrad.gradients(y, [x]).")
    graph = variables[0].graph
    if any(x.graph is not graph for x in variables):
        raise GraphError("the Variables belong to different graphs", "Build them from the inputs of one graph.")
    return graph
