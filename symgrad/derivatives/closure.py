"""Closure conversion: values that a function reads from outside become further arguments of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symgrad.core import tree
from symgrad.core.graph import Graph, depends, reached
from symgrad.core.region import Region, closed, inline
from symgrad.core.shapes import same_shape
from symgrad.errors import ArgumentError
from symgrad.frontend.bodies import body_of, promoted
from symgrad.frontend.conversion import functions
from symgrad.frontend.forms import Form
from symgrad.frontend.interception import inside
from symgrad.frontend.trace import graph_at_hand, of_graph
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.known import Known, known
from symgrad.ops.operands import ARRAYS

_NUMERIC = (Variable, *ARRAYS, float, complex)
_ROW = "it is an argument of a function that is traced once and may be called with other arrays"


def closure_convert(f: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function without a closure: traced values of your program that it reads become arguments.

    A function with a rule of its own has derivatives by its arguments alone. Of a function that is handed to it, such
    as the right side of an equation, derivatives are wanted by what that one reads as well.

    Parameters
    ----------
    f : callable
        Written in NumPy. It is traced once.
    *example_args : tree
        Arguments like those that it will be called with.

    Returns
    -------
    converted : callable
        ``converted(*args, *outside)`` is ``f(*args)``, for arguments of the same shapes and dtypes.
    outside : list of array
        What `f` reads, or what can be computed of that ahead of any call. Outside of a trace it is empty.

    Raises
    ------
    ArgumentError
        If `f` is not a function; when it is called with other shapes, dtypes or structures.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def twice(f, x):  # with the derivative of f in a point that is moved
    ...     g, outside = sg.closure_convert(f, x)
    ...     apply = sg.custom_jvp(lambda x, outside: g(g(x, *outside), *outside))
    ...     apply.defjvp(lambda p, t: sg.jvp(lambda *xs: g(g(xs[0], *xs[1]), *xs[1]), p, t))
    ...     return apply(x, outside)
    >>> sg.grad(lambda a: twice(lambda x: a * x, 3.0))(2.0)
    np.float64(12.0)
    """
    graph = graph_at_hand(example_args)
    if not callable(f):
        raise ArgumentError(f"{f!r} is not a function", "Give a function of arrays.")
    if graph is None:
        return f, []
    arguments = Form(example_args, _NUMERIC)
    given = [Variable(graph, lift(graph, x)) for x in arguments.values(example_args)]
    with body_of(graph), inside(graph, f):
        rows = [Variable(graph, graph.seed(x.aval), _ROW) for x in given]
        found = of_graph(graph, functions.converted(f)(*arguments.filled(rows)))
    results = Form(found)
    own, made = [x.node for x in rows], [y.node for y in results.values(found)]
    moving = depends(reached(made), own)
    region = closed(graph, own, made, lambda x: x in moving or known(x) is Known.YES)
    outside = [Variable(graph, x) for x in region.parameters[len(own) :]]
    return Converted(region, given, arguments, results), outside


class Converted:
    """A function converted to a region, for arguments of the given types."""

    def __init__(self, region: Region, given: Sequence[Variable], arguments: Form, results: Form) -> None:
        self.region, self._given, self._arguments, self._results = region, given, arguments, results

    def __call__(self, *args: Any) -> Any:
        expected = self._arguments.structure
        count = len(expected.children())
        structure = tree.flatten(args[:count])[1]
        if structure != expected:
            fact = f"a converted function is called with {tree.render(structure)}"
            raise ArgumentError(fact, f"It takes {tree.render(expected)}, and what it reads from outside.")
        graph = graph_at_hand(args) or self.region.graph
        leaves = self._arguments.values(args[:count])
        nodes = [_like(graph, y, x) for x, y in zip(self._given, leaves, strict=True)]
        parameters = self.region.parameters[len(nodes) :]
        if len(args) - count != len(parameters):
            fact = f"a converted function is given {len(args) - count} values from outside"
            raise ArgumentError(fact, f"It reads {len(parameters)}: give the list that closure_convert returned.")
        nodes += [_like(graph, y, Variable(graph, x)) for x, y in zip(parameters, args[count:], strict=True)]
        image = inline(graph, self.region, nodes)
        return self._results.filled([Variable(graph, image[y]) for y in self.region.results])


def _like(graph: Graph, y: Any, x: Variable) -> Any:
    """The node of an argument, in the dtype that it had when the function was traced."""
    node = lift(graph, y)
    if not same_shape(node.aval.shape, x.shape) or node.aval.dtype.kind != x.dtype.kind:
        fact = f"a function that closure_convert converted for {x.aval} is called with {node.aval}"
        raise ArgumentError(fact, "Convert it again, with an example of that shape and dtype.")
    return promoted(graph, node, x.aval)
