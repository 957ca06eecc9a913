"""Tracing: run a Python function on Variables, and keep the graph that it leaves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import optree

from symgrad.core import tree
from symgrad.core.graph import SEED, Aval, Graph, Node, reached, tracing
from symgrad.core.listing import listing, node_names, types
from symgrad.core.provenance import UNKNOWN, Where, boundary
from symgrad.core.sizes import Dim, Sizes
from symgrad.core.specs import parse_size, parse_spec, size_texts
from symgrad.core.text import double_quoted, is_name, key_literal, visible, word
from symgrad.errors import ArgumentError, GraphError, SymgradError, UnsupportedError, refused
from symgrad.frontend.foreign import plain
from symgrad.frontend.interception import held, inside
from symgrad.frontend.reach import reads
from symgrad.frontend.variable import Variable
from symgrad.ops.masks import Selected

LONGEST = 40  # characters of a key that make a name


class Spec:  # no dataclass, which would be a tree
    """Shape and dtype of an array that is not at hand; made by `spec`.

    Attributes
    ----------
    shape : tuple of int or str
        Sizes; a string is a symbolic size, the same for all specs of one call.
    dtype : numpy.dtype
    """

    def __init__(self, shape: tuple[int | str, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def spec(text: str) -> Spec:
    """Describe an array by dtype and sizes.

    Parameters
    ----------
    text : str
        Such as ``"float64[n, 3]"``, ``"float32[]"`` or ``"int64[2*n + 1]"``. The same letter is the same size in all
        specs of one call; ``_`` is a size of its own.

    Returns
    -------
    Spec

    Raises
    ------
    ArgumentError
        If the text is not a spec.

    Examples
    --------
    >>> import symgrad as sg
    >>> sg.spec("float32[batch, 784]").shape
    ('batch', 784)
    """
    shape, dtype = parse_spec(text, Sizes())
    return Spec(tuple(n if isinstance(n, int) else t for n, t in zip(shape, size_texts(text), strict=True)), dtype)


@dataclass(frozen=True)
class Leaf:
    """One leaf of the arguments: an input of the graph, or a value that is part of the program."""

    parameter: str
    below: str  # where in the parameter it is, as Python source: ``["W"]``; "" for the parameter itself
    path: str  # Python expression for it, as messages write it, ``params['W']``
    name: str
    node: Node | None = None
    static: Any = None
    size: Dim | None = None  # of an int that is computed with as sizes are
    ignored: bool = False  # an int that the function does not read
    is_array: bool | None = None  # of no dimensions: an array, into which one can write, or a number; None of a spec


class _Shown(str):
    """A result in the text of a program: its name, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Order(NamedTuple):
    """The keys of a dict among the arguments, in their order, which a function may see."""

    parameter: str
    below: str
    keys: tuple[Any, ...]


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

    def __repr__(self) -> str:
        return f"<Program {self.name} of {len(self.graph.nodes)} nodes>"

    def __str__(self) -> str:
        names = node_names(self.graph)
        taken = ", ".join(f"{names[x]}: {types(x)}" for x in self.graph.inputs)
        leaves, structure = tree.flatten(self.outputs)
        results = [_Shown(names[x.node] if isinstance(x, Variable) else repr(x)) for x in leaves]
        returned = visible(repr(tree.unflatten(structure, results)))
        return f"{visible(self.name)}({taken}):\n{listing(self.graph, returned)}"

    def _repr_html_(self) -> str:
        from symgrad.show.notebook import graph_view

        return graph_view(self)

    def _repr_latex_(self) -> str | None:
        from symgrad.show.notebook import formula_view

        return formula_view(self)


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
    """Run `function` on Variables that stand for the arguments.

    Parameters
    ----------
    args, kwargs
        Trees of arrays, `Spec`, or anything with a shape and a dtype. Python floats and complex numbers are inputs,
        too; other leaves are part of the program.
    name : str, optional
        What to call the program; by default the function's own name.
    shapes : mapping of int to tuple, optional
        For leaves by number, sizes as text where they shall be symbols, instead of those of the array.
    values : mapping of str to int, optional
        The number that each such symbol has in the call at hand.
    numbers : collection of int, optional
        The leaves that are ints and shall be symbols, too.

    Returns
    -------
    Program
    """
    bound = bind(function, args, kwargs or {}, name)
    for parameter in bound.arguments:
        if not is_name(parameter):
            raise ArgumentError(f"the parameter {parameter!r} is not a Python name", "Give it another name.")
    graph = Graph()
    sizes = Sizes(values, lift=lambda dim: Variable(graph, graph.size(dim)))
    where = definition(function)
    arguments = _Traced(graph, bound.arguments, sizes, where, function)
    leaves, variables = arguments.leaves(shapes or {}, numbers)
    structure = arguments.structure
    bound.arguments.update(zip(bound.arguments, tree.unflatten(structure, variables), strict=True))
    with inside(graph, function), _refusals():
        outputs = of_graph(graph, function(*bound.args, **bound.kwargs))
    results, shape = tree.flatten(outputs)
    results = [_as_result(graph, x) for x in results]
    graph.outputs = [x.node for x in results if isinstance(x, Variable)]
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
    )


@contextmanager
def _refusals() -> Iterator[None]:
    """What was refused ends the trace, also where the function goes on without it, or NumPy hides it."""
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
        raise error


def _check_seeds(graph: Graph) -> None:
    """A function that is mapped over rows is traced with one that stands for all: it must not be seen elsewhere."""
    if any(node.op is SEED for node in reached(graph.outputs)):
        raise GraphError(
            "the result needs what the function of np.apply_along_axis or np.vectorize has kept of one row",
            "Return it from that function.",
        )


def bind(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], name: str | None = None
) -> inspect.BoundArguments:
    """The arguments by parameter, or an error that says what the function takes."""
    takes = signature(function)
    try:
        return takes.bind(*args, **kwargs)
    except TypeError as error:
        called = name or getattr(function, "__name__", "the function")
        raise ArgumentError(f"{called}: {error}", f"It takes {takes}.") from None


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function; of one that has none to tell (some built in C), ``*args``."""
    if not callable(function):
        raise ArgumentError(f"{function!r} is not a function", "Give a function of arrays.")
    try:
        return inspect.signature(function)
    except ValueError:
        return inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])


def definition(function: Callable[..., Any]) -> Where:
    """Where a function is defined."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return UNKNOWN if code is None else Where(code.co_filename, code.co_firstlineno)


def is_array(x: Any) -> bool:
    """Whether a leaf is an input of the program rather than part of it."""
    if isinstance(x, (np.ndarray, np.generic, float, complex, Spec)):
        return True
    return hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, type)  # np.float64 has both


def is_zero_dimensional(x: Any) -> bool:
    """Whether it is an array, and not a number, of no dimensions."""
    return type(x) is np.ndarray and x.ndim == 0


_FIXED = (type(None), type(...), type, FunctionType, BuiltinFunctionType, MethodType, ModuleType, np.ufunc, partial)


def is_static(x: Any) -> bool:
    """Whether a leaf may be part of the program: it compares by value, so that another value is another program."""
    if type(x).__hash__ is object.__hash__:  # type: ignore[comparison-overlap]
        return isinstance(x, _FIXED) or hasattr(x, "__wrapped__")
    try:
        hash(x)
    except TypeError:
        return False
    return True


class Arguments:
    """The arguments of a call by parameter, leaf by leaf."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._given = tuple(arguments.values())
        self._paths, self.values, self.structure = tree.flatten_with_paths(self._given)
        self._steps = _steps(arguments, self._paths)

    def places(self) -> list[tuple[tuple[str, str, str], str]]:
        """Of each leaf its parameter, where it is below that, and its path; and its name."""
        names = _short_names([[word(str(step))[:LONGEST] for step in path] for path in self._steps])
        places = [self._place(path, steps[0]) for path, steps in zip(self._paths, self._steps, strict=True)]
        return list(zip(places, names, strict=True))

    def orders(self) -> list[Order]:
        """The dicts among the arguments that have an order to be seen."""
        found: dict[tuple[str, str], Order] = {}
        for path, steps in zip(self._paths, self._steps, strict=True):
            for i in range(1, len(path)):
                if isinstance(path[i], optree.MappingEntry):
                    parameter, below, _ = self._place(path[:i], steps[0])
                    found.setdefault((parameter, below), Order(parameter, below, tuple(path[:i](self._given))))
        return [order for order in found.values() if len(order.keys) > 1]

    @staticmethod
    def _place(path: optree.PyTreeAccessor, parameter: str) -> tuple[str, str, str]:
        below = _below(parameter, path[1:])
        return parameter, "".join(map(double_quoted, below)), parameter + "".join(below)


class _Traced(Arguments):
    """The arguments of a call as a trace takes them."""

    def __init__(
        self,
        graph: Graph,
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
        """The leaves, and what stands for them in the trace; those of `numbers` are symbols."""
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
            variable._array = is_zero_dimensional(value)
            known = variable._array or (False if isinstance(value, np.generic) else None)
            return Leaf(*place, name, node, is_array=known), variable
        if not is_static(value):
            raise ArgumentError(
                f"{place[2]} is an instance of {type(value).__name__}, neither an array nor a value that never changes",
                "Pass arrays, numbers, strings, functions, or trees of them; name what is part of the program in "
                "static_argnames=, or register the class with symgrad.core.tree.register.",
            )
        ignored = type(value) is int and not place[1] and not reads(self._function, place[0])
        return Leaf(*place, name, static=value, ignored=ignored), held(value)


def dotted_paths(arguments: Mapping[str, Any]) -> tuple[list[str], list[Any], tree.TreeSpec]:
    """The leaves of the arguments with a dotted path for each, ``params.W``, and the structure of the tuple of them."""
    paths, values, structure = tree.flatten_with_paths(tuple(arguments.values()))
    return [".".join(map(str, steps)) for steps in _steps(arguments, paths)], values, structure


def _steps(arguments: Mapping[str, Any], paths: Sequence[Any]) -> list[list[Any]]:
    parameters = list(arguments)
    return [[parameters[path[0].entry], *map(_entry, path[1:])] for path in paths]


def input_aval(value: Any, sizes: Sizes, shape: tuple[int | str, ...] | None = None, path: str = "an argument") -> Aval:
    """What is known of an argument."""
    if type(value) in (float, complex):
        return Aval((), np.dtype(type(value)), True)
    value = plain(value, path)
    dtype = np.dtype(value.dtype)
    if dtype.kind not in "biufc":
        raise UnsupportedError(
            f"{path} has dtype {dtype}", "Only boolean, integer, floating and complex arrays can be traced."
        )
    entries = value.shape if shape is None else shape
    known = [parse_size(n, sizes) if isinstance(n, str) else n if isinstance(n, Dim) else int(n) for n in entries]
    for n in known:
        sizes.assume(n)  # an argument cannot be of another size
    return Aval(tuple(known), dtype)


def graph_at_hand(arguments: Any) -> Graph | None:
    """The graph to append to: that of the trace that is running, or of the Variables among the arguments."""
    return tracing.get() or next((x.graph for x in tree.flatten(arguments)[0] if isinstance(x, Variable)), None)


def of_graph(graph: Graph, results: Any) -> Any:
    """The results of a function, if its Variables are of this graph."""
    for x in tree.flatten(results)[0]:
        if isinstance(x, Variable) and x.graph is not graph:
            raise GraphError(
                f"the function returned {x!r}, which belongs to another graph",
                "Keep a Variable inside the function or graph that made it.",
            )
    return results


def _as_result(graph: Graph, x: Any) -> Any:
    """A leaf of the results; an array that does not depend on the inputs becomes a constant."""
    if isinstance(x, Variable):
        return Variable(graph, x.node)  # as it is now: a later write is not part of the program
    if isinstance(x, Dim):
        return Variable(graph, graph.size(x))
    if isinstance(x, Selected):
        raise x.refusal()
    numeric = isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biufc"
    return Variable(graph, graph.constant(x)) if numeric else x


def _entry(entry: Any) -> Any:
    """The key, index or attribute of one step of a path."""
    return entry.field if isinstance(entry, optree.NamedTupleEntry) else entry.entry


def _below(parameter: str, path: optree.PyTreeAccessor) -> list[str]:
    """How Python gets from a parameter to a leaf, step by step."""
    texts: list[str] = []
    for step in path:
        if isinstance(step, optree.GetAttrEntry | optree.NamedTupleEntry):
            texts.append(f".{_entry(step)}")
            continue
        key = key_literal(step.entry) if isinstance(step, optree.GetItemEntry) else None
        if key is None:
            raise ArgumentError(
                f"{parameter}{''.join(texts)} has the key {step.entry!r}, which has no form in Python source",
                "Use strings or numbers as keys.",
            )
        texts.append(f"[{key}]")
    return texts


def _short_names(paths: list[list[str]]) -> list[str]:
    """For each path the shortest ending that is a name and belongs to it alone; parameters keep theirs."""
    names: list[str] = []
    taken = {path[0] for path in paths if len(path) == 1}
    for path in paths:
        for start in range(len(path) - 1, -1, -1):
            ending = path[start:]
            alone = sum(other[-len(ending) :] == ending for other in paths) == 1
            if start == 0 or (alone and ending[0].isidentifier()):
                break
        name = "_".join(ending)
        while len(path) > 1 and name in taken:  # "a b" and "a_b" are one name
            name += "_"
        taken.add(name)
        names.append(name)
    return names
