"""Tracing: run a Python function on Variables, and keep the graph that it leaves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import CellType
from typing import Any, NamedTuple

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import SEED, Graph as Nodes, tracing
from symgrad.core.listing import listing, node_names, types
from symgrad.core.provenance import UNKNOWN, Where, boundary, internal, library_of
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import Dim
from symgrad.core.text import visible
from symgrad.core.undo import contained, surely
from symgrad.errors import ArgumentError, GraphError, SymgradError, UnsupportedError, refused
from symgrad.frontend.arguments import (
    Arguments,
    Leaf,
    Order,
    Spec,
    bind,
    input_aval,
    is_array,
    is_static,
    is_zero_dimensional,
)
from symgrad.frontend.conversion.absent import is_perhaps
from symgrad.frontend.conversion.runtime import called
from symgrad.frontend.conversion.state import check_left, unwinding
from symgrad.frontend.effects import Effects
from symgrad.frontend.graphs import Graph
from symgrad.frontend.interception import abandon, held, inside
from symgrad.frontend.reach import reads
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.control import NUMBER
from symgrad.ops.masks import Selected
from symgrad.ops.positions import Places
from symgrad.ops.truths import is_pythons, is_truth


@dataclass(repr=False)
class Program:
    """A traced function.

    Attributes
    ----------
    graph : Graph
    inputs, outputs : tree of Variable
        The arguments, as a dict by parameter, and the results; what is not an array stands as it was given.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> program = sg.compile(lambda x: {"sines": np.sin(x)}).trace("float64[n, 3]")
    >>> program.inputs["x"].shape
    (n, 3)
    >>> program.outputs["sines"].dtype
    dtype('float64')
    """

    graph: Graph
    inputs: dict[str, Any]
    outputs: Any
    name: str
    where: Where
    leaves: list[Leaf]
    structure: tree.TreeSpec  # of the arguments, a tuple by parameter
    parameters: list[inspect.Parameter]
    sizes: Sizes
    orders: list[Order]
    summary: str = ""
    effects: Effects | None = None  # the state that the function found, until the first call is checked

    def __repr__(self) -> str:
        return f"<Program {self.name} of {len(self.graph.nodes)} nodes>"

    def __str__(self) -> str:
        names = node_names(self.graph)
        taken = ", ".join(f"{names[x]}: {types(x)}" for x in self.graph.inputs)
        leaves, structure = tree.flatten(self.outputs)
        results = [names[x.node] if isinstance(x, Variable) else repr(x) for x in leaves]
        returned = visible(tree.written(structure, results))
        return f"{visible(self.name)}({taken}):\n{listing(self.graph, returned)}"

    _repr_html_, _repr_latex_ = Graph._repr_html_, Graph._repr_latex_


class Run(NamedTuple):
    """A function of the user's that was run on Variables: nodes stand for these, and for numbers that it returned."""

    function: Callable[..., Any]
    takes: tree.TreeSpec  # of args and kwargs
    given: list[Any]
    returns: tree.TreeSpec
    results: list[Any]


class TracedMeanwhile(BaseException):
    """Ends Python's own run of a function that would compile something."""


plainly: ContextVar[bool] = ContextVar("plainly", default=False)
"""Whether Python runs a function itself, to compare: nothing is to be compiled for that."""


def run_on(graph: Nodes, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run a function, converted, on arguments in `graph`; a run of a user's function is noted."""
    given, takes = tree.flatten((tuple(args), dict(kwargs)))
    given = list(map(_snapshot, given))
    is_users = _is_users(function)  # before it runs: it may bind names outside of it to traced values
    outputs = of_graph(graph, called(function)(*args, **kwargs))
    if graph.body == 0 and is_users:
        results, returns = tree.flatten(outputs)
        graph.runs.append(Run(function, takes, given, returns, list(map(_snapshot, results))))
    return outputs


def _snapshot(x: Any) -> Any:
    """Return a leaf as it is now: a Variable may be written into."""
    return x.node if isinstance(x, Variable) else x


def _is_users(function: Any) -> bool:
    """Whether a function is the user's, and there outside of the trace."""
    while isinstance(function, partial):
        function = function.func
    call = function if hasattr(function, "__code__") else getattr(type(function), "__call__", None)  # noqa: B004
    code = getattr(call, "__code__", None)
    cells = getattr(call, "__closure__", None) or ()
    holds_traced = any(isinstance(cell.cell_contents, Variable) for cell in cells if cell != CellType())
    return code is not None and not internal(code) and not holds_traced


@contained
@boundary
def trace(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    shapes: Mapping[int, tuple[int | str, ...]] | None = None,
    values: Mapping[str, int] | None = None,
    numbers: Collection[int] = (),
) -> Program:
    """Run `function` on Variables for its arguments: arrays, `Spec`, or anything with a shape and a dtype, in trees.

    Python floats and complex numbers are inputs, too; other leaves are part of the program. By the number of a leaf,
    `shapes` gives its sizes instead of those of the array, as text where they shall be symbols; `values` are what such
    symbols are in the call at hand, and `numbers` the leaves that are ints and shall be symbols, too.
    """
    if plainly.get():
        raise TracedMeanwhile
    bound = bind(function, args, kwargs or {}, name)
    graph = Graph()
    sizes = Sizes(values, lift=lambda dim: Variable(graph, lift(graph, dim)))
    graph.sizes = sizes
    where = definition(function)
    arguments = _Traced(graph, bound.arguments, sizes, where, function)
    leaves, variables = arguments.leaves(shapes or {}, numbers)
    structure = arguments.structure
    bound.arguments.update(zip(bound.arguments, tree.unflatten(structure, variables), strict=True))
    effects = Effects(function, (x for x in variables if not isinstance(x, Variable)))
    outputs = _run_contained(graph, function, bound, effects)
    effects.forget_traced()
    effects.note_advanced(graph.advanced)
    results, shape = tree.flatten(outputs)
    results = [_as_result(graph, x) for x in results]
    graph.outputs = [x.node for x in results if isinstance(x, Variable)]
    graph.outputs += [] if graph.chain.last is None else [graph.chain.last]
    _check_seeds(graph)
    kinds = bound.signature.parameters
    return Program(
        graph,
        dict(bound.arguments),
        tree.unflatten(shape, results),
        name or str(getattr(function, "__name__", "function")),
        where,
        leaves,
        structure,
        [kinds[key] for key in bound.arguments],
        sizes,
        arguments.orders(),
        effects=effects,
    )


def _run_contained(graph: Graph, function: Callable[..., Any], bound: inspect.BoundArguments, effects: Effects) -> Any:
    """Run a function on Variables; where it fails, or is interrupted, nothing is left of that."""
    done = False

    def run() -> Any:
        nonlocal done
        with inside(graph, function), _refusals(), unwinding(graph):
            outputs = run_on(graph, function, bound.args, bound.kwargs)
            check_left(graph, None)
            for each in graph.watched:
                each.check()
        done = True
        return outputs

    def undo() -> None:
        abandon(graph)
        if not done:
            effects.revoke()

    return surely(undo, run)


@contextmanager
def _refusals() -> Iterator[None]:
    """End the trace with an error that was refused, even if the function or NumPy caught it."""
    token = refused.set([])
    try:
        yield
        error = None
    except Exception as raised:
        error = raised
    finally:
        found = refused.get()
        refused.reset(token)
    if found and not isinstance(error, SymgradError):
        raise found[0] from None
    if error is not None:
        _explain(error)
        raise error


def _explain(error: Exception) -> None:
    """Say what a Variable is in the error of a library whose compiled code is given one."""
    names_it = isinstance(error, TypeError) and "Variable" in str(error)
    if names_it and not isinstance(error, SymgradError) and (library := library_of(error.__traceback__)):
        error.add_note(
            f"  A Variable stands for a value, which compiled code of {library} needs: "
            "write the call with NumPy's functions, or give it to symgrad.operator."
        )


def _check_seeds(graph: Nodes) -> None:
    """The body of a loop is traced with stand-ins for one iteration, or one row: they must not be seen elsewhere."""
    if any(node.op is SEED for node in graph.live):
        raise GraphError(
            "the result depends on a value that the body of a loop, or the function of vmap, stored outside",
            "Return it from that function; sg.scan stacks the results of all iterations.",
        )


def definition(function: Callable[..., Any]) -> Where:
    """Return the place where a function is defined."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return UNKNOWN if code is None else Where(code.co_filename, code.co_firstlineno)


class _Traced(Arguments):
    """The arguments of a call as a trace takes them."""

    def __init__(
        self,
        graph: Nodes,
        arguments: Mapping[str, Any],
        sizes: Sizes,
        where: Where,
        function: Callable[..., Any],
    ) -> None:
        super().__init__(arguments)
        self._graph, self._sizes, self._where, self._function = graph, sizes, where, function

    def leaves(
        self, shapes: Mapping[int, tuple[int | str, ...]], numbers: Collection[int]
    ) -> tuple[list[Leaf], list[Any]]:
        """Return the leaves, and their stand-ins in the trace; those of `numbers` are symbols."""
        pairs = [
            self._leaf(value, name, place, shapes.get(i), i in numbers)
            for i, (value, (place, name)) in enumerate(zip(self.values, self.places(), strict=True))
        ]
        return [leaf for leaf, _ in pairs], [value for _, value in pairs]

    def _leaf(
        self, value: Any, name: str, place: tuple[str, str, str], shape: tuple[int | str, ...] | None, symbol: bool
    ) -> tuple[Leaf, Any]:
        if symbol:
            size = self._sizes.argument(name, value)
            return Leaf(*place, name, size=size), size
        if is_array(value):
            node = self._graph.add_input(name, input_aval(value, self._sizes, shape, place[2]), self._where)
            lock = f"{place[2]} is an argument: writing into it would change the caller's array"
            variable = Variable(self._graph, node, lock)
            variable.as_array(None if isinstance(value, Spec) else is_zero_dimensional(value))
            known = variable._array or (False if isinstance(value, np.generic) else None)
            return Leaf(*place, name, node, is_array=known), variable
        if not is_static(value):
            raise ArgumentError(
                f"{place[2]} is an instance of {type(value).__name__}, which is neither an array nor immutable",
                _of_method(self._function, value)
                or "Pass arrays, numbers, strings, functions, or trees of them; name an argument that is a constant in "
                "static_argnames=, or register its class with symgrad.core.tree.register.",
            )
        ignored = type(value) is int and not place[1] and not reads(self._function, place[0])
        return Leaf(*place, name, static=value, ignored=ignored), held(value)


def _of_method(function: Callable[..., Any], x: Any) -> str:
    """Return what to write where a method is called with its object as an argument; "" where it is none."""
    name = getattr(inspect.unwrap(function), "__name__", "")
    own: Any = getattr(type(x), name, None)
    is_method = own is not None and inspect.unwrap(own) is inspect.unwrap(function)
    return f"Transform the method of an object: sg.grad(x.{name}), where x is the object." if is_method else ""


def graph_at_hand(arguments: Any) -> Nodes | None:
    """The graph to append to: that of the trace that is running, or of the Variables among the arguments."""
    return tracing.get() or next((x.graph for x in tree.flatten(arguments)[0] if isinstance(x, Variable)), None)


def of_graph(graph: Nodes, results: Any) -> Any:
    """The results of a function, if its Variables are of this graph."""
    for x in tree.flatten(results)[0]:
        if is_perhaps(x):
            raise UnsupportedError(
                f"the result is None or {x.aval}, depending on traced values",
                "Return a number in both cases: np.nan.",
                x.node.where,
            )
        if isinstance(x, Variable) and x.graph is not graph:
            raise GraphError(
                f"the function returned {x!r}, which belongs to another graph",
                "Keep a Variable inside the function or graph that made it.",
            )
    return results


def _as_result(graph: Nodes, x: Any) -> Any:
    """A leaf of the results; an array that does not depend on the inputs becomes a constant."""
    if isinstance(x, Variable):
        if is_truth(x) and is_pythons(x) and not x.aval.weak:
            with graph.located(x.node.where):
                return NUMBER(x)
        return Variable(graph, x.node)  # as it is now: a later write is not part of the program
    if isinstance(x, Dim):
        return Variable(graph, lift(graph, x))
    if isinstance(x, Selected):
        raise x.refusal(x.where)
    if isinstance(x, Places):
        raise x.refusal()
    numeric = isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biufc"
    return Variable(graph, graph.constant(x)) if numeric else x
