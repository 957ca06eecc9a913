"""Functions that are compiled when they are called: for which arguments, what of these are symbols, what is kept."""

from __future__ import annotations

import gc
import inspect
import pickle
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, count
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.compiler.cache import Cache, Described, Entry
from symgrad.compiler.compiled import Compiled
from symgrad.core import tree
from symgrad.core.graph import Graph, tracing
from symgrad.core.options import NAMES, Options, checked, in_force, in_use, resolve
from symgrad.core.provenance import boundary
from symgrad.core.specs import looks_like_spec
from symgrad.errors import ArgumentError, SymgradError
from symgrad.frontend.arguments import bind, dotted_paths, is_array, is_static, is_zero_dimensional, signature, spec
from symgrad.frontend.conversion.functions import converted
from symgrad.frontend.foreign import is_foreign, plain
from symgrad.frontend.interception import held, inside
from symgrad.frontend.static import StaticArguments
from symgrad.frontend.trace import Program, trace
from symgrad.frontend.variable import Variable

if TYPE_CHECKING:
    from symgrad.export.origin import Recipe


class Function:
    """A function that is compiled when it is called, for the dtypes and sizes at hand.

    Calls with the same dtypes and sizes run the same generated code. When another size, or another int, arrives at the
    same place, it becomes a symbol, so that a function is compiled a few times whatever batches it sees. Called with
    Variables, it appends to their graph, so that transforms nest. Arrays that the function uses without taking them as
    arguments are part of the program, as they are when it is compiled; so are arguments that are named in
    ``static_argnums=`` or ``static_argnames=``, which are compared by content.

    The programs that were used last are kept, ``cache_size=`` of them. A Function pickles if its function does.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> slope = sg.grad(lambda x: np.sin(x) * x)
    >>> slope(0.0)
    np.float64(0.0)
    >>> slope.compile(0.0).signature
    'x: float -> float64[]'
    """

    def __init__(self, body: Callable[..., Any], name: str, summary: str, explicit: Mapping[str, Any]) -> None:
        self.__signature__ = signature(body)
        self._static, explicit = StaticArguments.taken_from(explicit, self.__signature__)
        self._body, self.summary, self._explicit = body, summary, checked(explicit)
        self._cache = Cache()
        self._lock = threading.RLock()
        self.__name__ = self.__qualname__ = name
        self.__module__ = getattr(inspect.unwrap(body), "__module__", __name__)
        self.__wrapped__ = body
        self.recipe: Recipe | None = None  # how it was made

    def __repr__(self) -> str:
        return f"<Function {self.__name__}{self.__signature__}>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method where it is defined in a class, as Python's functions are."""
        return self if instance is None else MethodType(self, instance)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self._static.names:
            args, kwargs = self._static.wrapped(args, kwargs)
        if tracing.get() is None:
            options = in_use.get()
            for entry in self._cache.recent:
                if entry.options is options:
                    compiled = entry.compiled
                    try:
                        accepted = compiled.accepts(*args, **kwargs)
                    except TypeError:  # compiled for other parameters
                        continue
                    if accepted:
                        result = compiled.run(*args, **kwargs)
                        return result if compiled.structure is None else tree.unflatten(compiled.structure, result)
        return self._call_first(args, kwargs)

    def __reduce__(self) -> tuple[Any, ...] | str:
        name = getattr(inspect.unwrap(self), "__qualname__", "")
        if getattr(sys.modules.get(self.__module__), name, None) is self:  # it decorates a function of a module
            return str(name)
        if self.recipe is None:
            raise pickle.PicklingError(f"{self!r} was not made by a transform of symgrad, which would make it again")
        transform, args, kwargs = self.recipe
        return partial(transform, *args, **kwargs), ()

    def trace(self, /, *args: Any, **kwargs: Any) -> Program:
        """The program for these arguments, or for specs in their place, before it is simplified.

        Returns
        -------
        Program
            ``print`` it.

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> program = sg.grad(lambda x: np.sum(x ** 2)).trace("float64[n]")
        >>> list(program.inputs), program.outputs.shape
        (['x'], (n,))
        """
        args, kwargs = self._with_specs(args, kwargs)
        return self._trace(args, kwargs, _Symbols(), resolve(self._explicit))

    def compile(self, /, *args: Any, **kwargs: Any) -> Compiled:
        """The program for these arguments, or for specs in their place, compiled; options as keywords.

        A string is a spec if it is a dtype, or nearly one, and a bracket behind it: ``"float64[n, 3]"``. One that is
        mistyped raises; any other string is part of the program.

        Returns
        -------
        Compiled

        Raises
        ------
        SymgradError
            Of a function that cannot be traced or differentiated for these; it names the line.

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> sg.grad(lambda x, k: np.sum(x ** k)).compile("float64[n]", 3, optimize=1)(np.array([1.0, 2.0]), 3)
        array([ 3., 12.])
        """
        names = NAMES - set(self.__signature__.parameters)
        explicit = checked({key: kwargs.pop(key) for key in names & set(kwargs)})
        chosen = resolve({**self._explicit, **explicit})
        args, kwargs = self._with_specs(args, kwargs)
        return self._compiled(args, kwargs, _Symbols(), chosen)

    def source(self, /, *args: Any, **kwargs: Any) -> str:
        """The module that runs for these arguments, or for specs in their place; options as keywords.

        Returns
        -------
        str

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> print(sg.grad(np.sin).source("float64[]", optimize=1).splitlines()[-2].strip())
        d_x = np.cos(x)
        """
        return self.compile(*args, **kwargs).source

    def graph(self, /, *args: Any, **kwargs: Any) -> Graph:
        """The graph for these arguments, or for specs in their place, before it is simplified.

        Returns
        -------
        Graph
            ``print`` it.

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> len(sg.compile(lambda x: np.sin(x) + 1).graph("float64[n]").nodes)
        4
        """
        return self.trace(*args, **kwargs).graph

    def _with_specs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with strings that were meant as specs read as such; any other string is part of the program."""
        args, kwargs = self._static.wrapped(args, kwargs)
        bound = bind(self._body, args, kwargs, self.__name__)
        paths, leaves, structure = dotted_paths(bound.arguments)
        for i, (path, x) in enumerate(zip(paths, leaves, strict=True)):
            if isinstance(x, str) and looks_like_spec(x):
                try:
                    leaves[i] = spec(x)
                except ArgumentError as error:
                    raise ArgumentError(f"{path}: {error.fact}", error.instead) from None
            else:
                leaves[i] = plain(x, path)
        bound.arguments.update(zip(bound.arguments, tree.unflatten(structure, leaves), strict=True))
        return bound.args, bound.kwargs

    # ---- the cache

    def _call_first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self.__name__}: {error}", f"It takes {self.__signature__}.") from None
        leaves, structure = tree.flatten(tuple(bound.arguments.values()))
        graph = tracing.get() or next((x.graph for x in leaves if isinstance(x, Variable)), None)
        if graph is not None:
            return self._append(graph, args, kwargs)
        if any(map(is_foreign, leaves)):
            leaves = list(map(plain, leaves, dotted_paths(bound.arguments)[0]))
            bound.arguments.update(zip(bound.arguments, tree.unflatten(structure, leaves), strict=True))
            args, kwargs = bound.args, bound.kwargs
        options = in_use.get()
        described = _described(options, bound, leaves, structure)
        with self._lock:
            entry = self._cache.find(described, args, kwargs)  # another thread may have been first
            if entry is None:
                entry = Entry(self._compile_for(args, kwargs, bound, described), options, described)
                most = resolve(self._explicit).cache_size
                self._cache.add(entry, most, self.__name__, lambda: dotted_paths(bound.arguments)[0])
        return entry.compiled(*args, **kwargs)

    @boundary
    def _append(self, graph: Graph, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Called inside a trace: the program becomes part of that graph."""
        with inside(graph, self._body):
            return converted(self._body)(*map(held, args), **{name: held(x) for name, x in kwargs.items()})

    def _compile_for(self, args: Any, kwargs: Any, bound: inspect.BoundArguments, described: Described) -> Compiled:
        options, seen = resolve(self._explicit), self._cache.seen(described)
        varied = [
            i
            for i, n in enumerate(described.numbers)
            if n is not None and n >= 1 and any(d.numbers[i] != n for d in seen)
        ]
        taken = {path.rpartition(".")[2] for path in dotted_paths(bound.arguments)[0]} if varied else set()
        taken.update(self.__signature__.parameters)
        shapes, values = generalised([d.sizes for d in seen], described.sizes, taken)
        if values or varied:
            try:
                return self._compiled(args, kwargs, _Symbols(shapes, values, varied), options)
            except SymgradError:  # a program that does not go through with symbols is compiled for its very sizes
                pass
        return self._compiled(args, kwargs, _Symbols(), options)

    def _compiled(self, args: Any, kwargs: Any, symbols: _Symbols, options: Options) -> Compiled:
        with collector_resting():
            return Compiled(self._trace(args, kwargs, symbols, options), options, self._static, self.recipe)

    def _trace(self, args: Any, kwargs: Any, symbols: _Symbols, options: Options) -> Program:
        with in_force(options):
            program = trace(self._body, args, kwargs, name=self.__name__, **symbols._asdict())
        program.summary = self.summary + "."
        return program


class _Symbols(NamedTuple):
    """What of the arguments of a call are symbols: sizes by leaf, their numbers at hand, and which ints."""

    shapes: Mapping[int, tuple[int | str, ...]] = {}
    values: Mapping[str, int] | None = None
    numbers: Sequence[int] = ()


@contextmanager
def collector_resting() -> Iterator[None]:
    """Garbage collection of cycles waits: it would walk all of a growing graph again and again, and find nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


Sizes = tuple[tuple[int, ...], ...]


def generalised(
    seen: Sequence[Sizes], here: Sizes, taken: set[str]
) -> tuple[dict[int, tuple[int | str, ...]], dict[str, int]]:
    """Which sizes become symbols: those that differed between calls, one symbol for places that always agreed.

    A size of 0 or 1 stays a number, since it broadcasts.
    """
    alike = [shapes for shapes in seen if _comparable(shapes, here)]
    free = (name for name in chain("nmpqrs", map("n{}".format, count(1))) if name not in taken)
    names: dict[tuple[int, ...], str] = defaultdict(lambda: next(free))
    shapes: dict[int, tuple[int | str, ...]] = {}
    for i, shape in enumerate(here):
        histories = [(*(before[i][j] for before in alike), n) for j, n in enumerate(shape)]
        varied = [len(set(history)) > 1 for history in histories]
        if any(varied):
            shapes[i] = tuple([names[h] if varies else h[0] for h, varies in zip(histories, varied, strict=True)])
    return shapes, {name: history[-1] for history, name in names.items()}


def _comparable(before: Sizes, here: Sizes) -> bool:
    return all(
        len(s) == len(t) and all(a == b or (a > 1 and b > 1) for a, b in zip(s, t, strict=True))
        for s, t in zip(before, here, strict=True)
    )


def _described(
    options: Options, bound: inspect.BoundArguments, leaves: Sequence[Any], structure: tree.TreeSpec
) -> Described:
    given = tuple(bound.arguments.values())
    kinds = (options, tuple(bound.arguments), structure, tree.orders(given), tuple(map(_kind, leaves)))
    sizes = tuple([np.shape(x) if is_array(x) else () for x in leaves])
    return Described(kinds, sizes, tuple([x if type(x) is int else None for x in leaves]))


def _kind(x: Any) -> Any:
    """What of a leaf a program depends on, sizes aside."""
    if type(x) in (int, float, complex):
        return type(x)
    if is_array(x):
        return np.dtype(x.dtype), len(x.shape), is_zero_dimensional(x)
    return (type(x), x) if is_static(x) else type(x)  # the latter is refused when it is traced
