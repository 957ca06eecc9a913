"""Functions that are compiled when they are called: specialisation to arguments, symbolic sizes, the cache."""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, NamedTuple, ParamSpec, Self, TypeVar, overload

import numpy as np

from symgrad.compiler.answering import answer_calls
from symgrad.compiler.cache import Cache, Described, Entry
from symgrad.compiler.compiled import Compiled
from symgrad.core import tree
from symgrad.core.collector import pauses
from symgrad.core.graph import Graph, tracing
from symgrad.core.options import NAMES, Options, check_names, checked, in_force, in_use, is_nearly_option, resolve
from symgrad.core.progress import work
from symgrad.core.provenance import boundary
from symgrad.core.specs import instead_of_dtype, looks_like_spec
from symgrad.core.undo import contained, surely
from symgrad.errors import DisagreementError, StateError, SymbolicSizeError, SymgradError
from symgrad.frontend.arguments import (
    bind,
    dotted_paths,
    is_array,
    is_static,
    is_zero_dimensional,
    signature,
    spec_of,
    unfit,
)
from symgrad.frontend.conversion.functions import converted
from symgrad.frontend.foreign import is_foreign, plain
from symgrad.frontend.interception import held, inside
from symgrad.frontend.static import StaticArguments
from symgrad.frontend.trace import Program, trace
from symgrad.frontend.variable import Variable

if TYPE_CHECKING:
    from symgrad.analysis.cost import Cost
    from symgrad.compiler.doctor import Diagnosis
    from symgrad.export.origin import Recipe
    from symgrad.export.source_text import SourceText
    from symgrad.report.explain import Report
    from symgrad.report.profile import Profile


P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R", covariant=True)
S = TypeVar("S")
V = TypeVar("V")


class Function(Generic[P, R]):
    """A function that is compiled when it is called, for the dtypes and sizes at hand.

    Calls with the same dtypes and sizes run the same generated code. When another size, or another int, arrives at the
    same place, it becomes a symbol, so that a function is compiled a few times whatever batches it sees. Called with
    Variables, it appends to their graph, so that transforms nest. What the function reads from outside of its arguments
    is part of the program; where that changes, it is compiled again, but for large arrays that are changed in place. So
    are arguments that are named in ``static_argnums=`` or ``static_argnames=``, which are compared by content.

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

    def __init__(self, body: Callable[P, R], name: str, summary: str, explicit: Mapping[str, Any]) -> None:
        self.__signature__ = signature(body)
        within = _transformed(body)
        static, explicit = StaticArguments.taken_from(explicit, self.__signature__)
        options: Mapping[str, Any] = checked(explicit)
        if within is not None:
            options = {**within._explicit, **options}
            if not static and [*within.__signature__.parameters] == [*self.__signature__.parameters]:
                static = within._static
        self._static: StaticArguments = static
        self._body, self.summary = body, summary
        self._explicit: Mapping[str, Any] = options
        self._cache = Cache()
        self._lock = threading.RLock()
        self.__name__ = self.__qualname__ = name
        self.__module__ = getattr(inspect.unwrap(body), "__module__", __name__)
        self.__wrapped__ = body
        self.recipe: Recipe | None = None  # how it was made
        self.derivative: Any = None  # of what it is a derivative, for names: see `symgrad.transforms.making.Derivative`

    def __repr__(self) -> str:
        return f"<Function {self.__name__}{self.__signature__}>"

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self: Function[Concatenate[S, Q], V], instance: S, owner: type | None = None) -> Function[Q, V]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Self: ...  # a field of another class
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method where it is defined in a class, as Python's functions are."""
        return self if instance is None else MethodType(self, instance)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._static:
            args, kwargs = self._static.wrapped(args, kwargs)  # type: ignore[assignment]
        if not kwargs:
            for answer in self._cache.answers:
                result = answer(*args)
                if result is not NotImplemented:
                    return result
        if tracing.get() is None:
            options = in_use.get()
            for entry in self._cache.recent:
                if entry.options is options:
                    compiled = entry.compiled
                    try:
                        accepted = compiled.accepts(*args, **kwargs)
                    except TypeError:  # compiled for other parameters
                        continue
                    if accepted and (entry.unchanged is None or entry.unchanged()):
                        try:
                            result = compiled.run(*args, **kwargs)
                        except Exception as error:
                            compiled.add_users_line(error)
                            raise
                        return result if compiled.structure is None else tree.unflatten(compiled.structure, result)
        return self._call_first(args, kwargs)

    def __reduce__(self) -> tuple[Any, ...] | str:
        name = getattr(inspect.unwrap(self), "__qualname__", "")
        if getattr(sys.modules.get(self.__module__), name, None) is self:  # it decorates a function of a module
            return str(name)
        if self.recipe is None:
            raise pickle.PicklingError(f"{self!r} was not made by a transform of symgrad, which would make it again")
        return _made_again, tuple(self.recipe)  # a deep copy copies an object whose method it is

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
        with _naming_dtypes(self._body, args, kwargs):
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
        explicit, kwargs = self._apart(kwargs)
        parameters = self.__signature__.parameters
        if all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
            check_names([k for k in kwargs if k not in parameters and is_nearly_option(k)], parameters)
        args, kwargs = self._with_specs(args, kwargs)
        options = resolve({**self._explicit, **checked(explicit)})
        with _naming_dtypes(self._body, args, kwargs):
            return self._compiled(args, kwargs, _Symbols(), options)

    @overload
    def source(self, /, *args: Any, target: Literal["c"], **kwargs: Any) -> str: ...
    @overload
    def source(self, /, *args: Any, **kwargs: Any) -> SourceText: ...
    def source(self, /, *args: Any, **kwargs: Any) -> str:
        """The module that runs for these arguments, or for specs in their place; options as keywords.

        Asked for with ``target="c"`` it is plain C, as `Compiled.save` writes it to a path that ends in ``.c``; that
        takes no compiler.

        Returns
        -------
        SourceText
            A string; its ``program`` is the function alone. C is a plain string.

        Raises
        ------
        UnsupportedError
            With ``target="c"``, if C does not compute the whole program.

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> print(sg.grad(np.sin).source("float64[]", optimize=1).program.splitlines()[-2].strip())
        d_x = np.cos(x)
        """
        if self._apart(kwargs)[0].get("target") != "c":
            return self.compile(*args, **kwargs).source
        return self.compile(*args, **{**kwargs, "target": "numpy"}).source(target="c")

    def explain(self, /, *args: Any, **kwargs: Any) -> Report:
        """Report what the compiler does for these arguments, or for specs in their place; see `Compiled.explain`.

        Returns
        -------
        Report

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> report = sg.grad(lambda x: np.sum(np.log(1 + np.exp(x)))).explain("float64[n]")
        >>> report.rewrites[0].rule
        'logaddexp_number'
        """
        return self.compile(*args, **kwargs).explain()

    def cost(self, /, *args: Any, **kwargs: Any) -> Cost:
        """Return the cost of a call with these arguments, or with specs in their place; see `Compiled.cost`.

        Returns
        -------
        Cost

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> sg.compile(lambda x: np.sum(x ** 2)).cost("float64[1000]").flops
        2000
        """
        return self.compile(*args, **kwargs).cost

    def profile(self, /, *args: Any, **kwargs: Any) -> Profile:
        """Run the program for these arguments several times, and time each line; see `Compiled.profile`.

        Returns
        -------
        Profile

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> profile = sg.grad(lambda x: np.sum(np.exp(x) ** 3)).profile(np.ones(1000))
        >>> 0 < profile.hottest[0].share <= 1
        True
        """
        return self.compile(*args, **kwargs).profile(*args, **self._apart(kwargs)[1])

    def debug(self, /, *args: Any, **kwargs: Any) -> Diagnosis:
        """Run the program for these arguments, and find what makes a result NaN or infinite; see `Compiled.debug`.

        Returns
        -------
        Diagnosis

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> sg.grad(lambda x: np.sum(np.sqrt(x))).debug(np.array([1.0, 0.0])).first.fact
        'np.divide(0.5, 0.0) is inf at [1]'
        """
        return self.compile(*args, **kwargs).debug(*args, **self._apart(kwargs)[1])

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

    def _apart(self, kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of the compiler among the keywords, and the arguments of the function."""
        names = NAMES - set(self.__signature__.parameters)
        return {k: x for k, x in kwargs.items() if k in names}, {k: x for k, x in kwargs.items() if k not in names}

    def _with_specs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with strings read as specs where they were meant so; any other string is static."""
        args, kwargs = self._static.wrapped(args, kwargs)
        bound = bind(self._body, args, kwargs, self.__name__)
        paths, leaves, structure = dotted_paths(bound.arguments)
        for i, (path, x) in enumerate(zip(paths, leaves, strict=True)):
            leaves[i] = spec_of(x, path) if isinstance(x, str) and looks_like_spec(x) else plain(x, path)
        bound.arguments.update(zip(bound.arguments, tree.unflatten(structure, leaves), strict=True))
        return bound.args, bound.kwargs

    def clear(self) -> None:
        """Let go of all compiled programs: the next call compiles again.

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> W = np.ones(1000)
        >>> slope = sg.grad(lambda x: np.sum(W * x))
        >>> x = np.ones(1000)
        >>> W *= 2 * slope(x)  # too large to be compared at each call
        >>> slope.clear()
        >>> slope(x)[0]
        np.float64(2.0)
        """
        with self._lock:
            self._cache = Cache()
            self._let_c_answer()

    # ---- the cache

    def _call_first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise unfit(self.__name__, self.__signature__, kwargs, error) from None
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
                from symgrad.compiler.captured import Captured  # when the first function is compiled

                captured = Captured(self._body, [x for x in leaves if not is_array(x)])
                compiled = self._compile_for(args, kwargs, bound, described)
                captured.settle()
                entry = Entry(compiled, options, described, captured)
                if entry.compiled.unchecked:
                    return self._call_unchecked(entry, bound, args, kwargs)
                self._keep(entry, bound)
            else:
                self._let_c_answer()
        return entry.compiled(*args, **kwargs)

    def _call_unchecked(self, entry: Entry, bound: inspect.BoundArguments, args: Any, kwargs: Any) -> Any:
        """Run a program for the first time; it is kept unless the check of that call fails."""
        try:
            result = entry.compiled(*args, **kwargs)
        except (DisagreementError, StateError):
            raise
        except Exception:  # NumPy refuses these numbers
            self._keep(entry, bound)
            raise
        self._keep(entry, bound)
        return result

    def _keep(self, entry: Entry, bound: inspect.BoundArguments) -> None:
        known = entry.compiled.depends_on
        if changed := entry.captured.changed if known is None else known:
            entry.use_once(changed)
        most = resolve(self._explicit).cache_size
        self._cache.add(entry, most, self.__name__, lambda: dotted_paths(bound.arguments)[0])
        self._let_c_answer()

    def _let_c_answer(self) -> None:
        """Let C answer the calls of the program that was used last, if it can."""
        first = next(iter(self._cache.recent), None)
        is_in_c = first is not None and first.in_c() is not None and not self._static
        answer_calls(self, first.bound if first is not None and is_in_c else None)

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
        by = object()

        def compiled() -> Compiled:
            pauses.begin(by)
            return Compiled(self._trace(args, kwargs, symbols, options), options, self._static, self.recipe)

        return surely(partial(pauses.end, by), compiled)

    @contained
    def _trace(self, args: Any, kwargs: Any, symbols: _Symbols, options: Options) -> Program:
        with in_force(options), work(f"tracing {self.__name__}"):
            try:
                program = trace(self._body, args, kwargs, name=self.__name__, **symbols._asdict())
            except (SymgradError, RecursionError, MemoryError):
                raise
            except Exception as error:
                if symbols == _Symbols():
                    raise
                fact = f"{self.__name__} does not run with symbols in the place of numbers: {error!r}"
                raise SymbolicSizeError(fact, "Give the numbers.") from error
        program.summary = self.summary + "."
        return program


@contextmanager
def _naming_dtypes(body: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[None]:
    """Add to errors of NumPy's or Python's which arguments are dtypes, or names of dtypes: a spec may be meant."""
    try:
        yield
    except SymgradError:
        raise
    except Exception as error:
        paths, leaves, _ = dotted_paths(bind(body, args, kwargs).arguments)
        for path, x in zip(paths, leaves, strict=True):
            if instead := instead_of_dtype(x):
                error.add_note(f"  {path} is {x!r}. {instead}")
        raise


def _made_again(transform: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the function that a transform has made once."""
    return transform(*args, **kwargs)


class _Symbols(NamedTuple):
    """The symbols among the arguments of a call: sizes by leaf, their numbers at hand, and the symbolic ints."""

    shapes: Mapping[int, tuple[int | str, ...]] = {}
    values: Mapping[str, int] | None = None
    numbers: Sequence[int] = ()


Sizes = tuple[tuple[int, ...], ...]


def generalised(
    seen: Sequence[Sizes], here: Sizes, taken: set[str]
) -> tuple[dict[int, tuple[int | str, ...]], dict[str, int]]:
    """Return symbols for sizes that differed between calls; sizes that always agreed share one.

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


def _transformed(body: Callable[..., Any]) -> Function[..., Any] | None:
    """Return the Function that a body transforms: its options hold unless the transform has its own."""
    within = body if isinstance(body, Function) else getattr(body, "__wrapped__", None)
    return within if isinstance(within, Function) else None


def _kind(x: Any) -> Any:
    """Return the properties of a leaf that a program depends on, apart from sizes."""
    if type(x) in (int, float, complex):
        return type(x)
    if is_array(x):
        return np.dtype(x.dtype), len(x.shape), is_zero_dimensional(x)
    return (type(x), x) if is_static(x) else type(x)  # the latter is refused when it is traced
