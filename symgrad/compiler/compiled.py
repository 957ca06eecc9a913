"""From a traced program to a function that runs: the pipeline and its product, `Compiled`."""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.analysis.cost import Cost, cost_of
from symgrad.compiler.answering import answer_calls
from symgrad.compiler.pickling import program_of, rows_of
from symgrad.core import tree
from symgrad.core.counted_sizes import untold
from symgrad.core.graph import Graph, Node, tracing
from symgrad.core.options import Options, current
from symgrad.core.progress import compilation
from symgrad.core.recording import recording, staged
from symgrad.core.region import with_nested
from symgrad.core.text import literal
from symgrad.core.undo import contained
from symgrad.errors import ArgumentError, DisagreementError, StateError, UnsupportedError
from symgrad.export.source_text import SourceText
from symgrad.frontend.plain_arguments import as_path
from symgrad.frontend.static import StaticArguments
from symgrad.frontend.trace import Program, plainly
from symgrad.frontend.variable import Variable
from symgrad.targets.numpy.excerpts import excerpt, names_of
from symgrad.targets.numpy.guard import Guard, readable_bounds
from symgrad.targets.numpy.header import Header
from symgrad.targets.numpy.names import global_name
from symgrad.targets.target import TARGETS

if TYPE_CHECKING:
    from pathlib import Path

    from symgrad.compiler.auto import Trial
    from symgrad.compiler.doctor import Diagnosis
    from symgrad.compiler.repeating import Repeating
    from symgrad.core.recording import Log
    from symgrad.export.origin import Origin, Recipe
    from symgrad.report.explain import Report
    from symgrad.report.profile import Profile
    from symgrad.targets.c.partition import Kernel
    from symgrad.targets.numpy.module import Source

_serial = itertools.count(1)  # of files in linecache, which belongs to the process


class Compiled:
    """A compiled program: call it with arrays of the dtypes and sizes that it was compiled for.

    Attributes
    ----------
    source : SourceText
        The module that runs, exactly; ``source()`` is the same, and ``source(target="c")`` the program as plain C.
        With ``target="auto"`` it is the NumPy program, and ``source.native`` is empty until C has taken over.
    graph : Graph
        What it was generated from.
    program : Program
        As it was traced, before it was simplified.
    signature : str
        Names, dtypes and sizes of arguments and results.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> program = sg.grad(lambda x: np.sum(x ** 2)).compile("float64[n]")
    >>> program.signature
    'x: float64[n] -> float64[n]'
    >>> program(np.array([1.0, 2.0]))
    array([2., 4.])
    """

    native = ""  # the source of the extension module with its kernels
    depends_on: str | None = None  # what a call changes so that the next one differs; None where nobody has asked
    answering: Callable[..., Callable[..., Any]] | None = None  # makes functions that answer calls in C
    answer: Callable[..., Any] | None = None  # of C: answers positional arguments, or returns NotImplemented

    def __init__(
        self,
        program: Program,
        options: Options | None = None,
        static: StaticArguments | None = None,
        recipe: Recipe | Origin | None = None,
    ) -> None:
        options = options or current()
        self.options, self.program, self._static, self._recipe = options, program, static, recipe
        self.guard = Guard(program.leaves, program.parameters, program.structure, program.sizes, program.orders)
        self.accepts = self.guard.accepts
        contained(self._make)(program, options)
        self.depends_on = (program.effects and program.effects.advanced) or None
        keeps = bool(program.effects and program.effects.changes)
        self.unchecked = options.check_first and (bool(program.graph.bodies) or keeps)  # until the first call
        if not self.unchecked:
            self._settle()
        self.trial = self._tried() if options.target == "auto" else None

    def _make(self, program: Program, options: Options) -> None:
        """Optimise the graph of a program, write its source, and load it."""
        from symgrad.pipeline import count_of_stages, optimise, schedule  # when the first program is compiled
        from symgrad.targets.numpy.module import emit

        target = TARGETS[options.target]
        steps = count_of_stages(options.optimize, target) + 2  # the source and its loading as well
        with compilation(program.name, steps):
            self.whole = rest = optimise(program.graph, options.optimize, options.numerics, target)
            if target.with_kernels:
                call = self.guard, _results(program, rest)
                given = *call, program.name, options, partial(_repeating, program.name, options)
                rest, self.native, answering = staged(target.with_kernels, rest, *given)
                self.answering = None if options.check_nan else answering
            self.graph = schedule(rest, options.optimize, options.numerics)
            _check_sizes(self.graph)
            self.header, self.structure = _header(program, self.graph)
            self.emitted: Source = staged(emit, self.graph, self.header, options.optimize, threads=options.threads)
            self.run = self.unwatched = staged(_load, self.emitted)
        if options.check_nan:
            from symgrad.compiler.doctor import watched  # as the report, imported by those who need it

            self.run = watched(self.run, self.debug, self.header.function)

    def _tried(self) -> Trial:
        """Let C take over when it is worth it."""
        from symgrad.compiler.auto import Trial  # for those who ask for it

        options = replace(self.options, target="c", check_first=False)
        return Trial(self, partial(Compiled, self.program, options, self._static))

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self._as_called(args, kwargs)
        try:
            if self.unchecked:
                result = self._checked(args, kwargs)
            else:
                result = self.run(*args, **kwargs)
        except Exception as error:
            self.add_users_line(error)
            raise
        return result if self.structure is None else tree.unflatten(self.structure, result)

    def add_users_line(self, error: Exception) -> None:
        """Add the user's line to an error that a call has raised."""
        from symgrad.compiler.raised import add_users_line  # for errors alone

        add_users_line(error, self.unwatched.__code__.co_filename, self.emitted)

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the first call and check it; in a trace, where NumPy is another, it is not the first yet."""
        if tracing.get() is not None or plainly.get():
            return self.run(*args, **kwargs)
        from symgrad.compiler.first_call import check_first_call, check_first_error  # for loops, branches, state

        try:
            result = self.run(*args, **kwargs)
        except Exception as error:  # by a check: the next call is the first that gives something
            contained(check_first_error)(self, args, kwargs, error)
            raise
        try:
            found = contained(check_first_call)(self, args, kwargs, result)
            self.depends_on = self.depends_on if found is None else found
        except (DisagreementError, StateError):  # as if the program had never been made
            if self.program.effects is not None:
                self.program.effects.revoke()
            raise
        self.unchecked = False
        self._settle()
        self.program.graph.runs.clear()
        return result

    def _settle(self) -> None:
        """Call the program the short way from now on, since nothing is left to be checked."""
        self.program.effects = None
        if self.answering is not None:
            anywhere = partial(self.answering, None, None, None, None)
            self.answer = anywhere(None)
            answer_calls(self, anywhere)

    def _as_called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as the generated function takes them."""
        if self._static:
            args, kwargs = self._static.wrapped(args, kwargs)
        return (args, kwargs) if self.takes(args, kwargs) else self.guard.converted(args, kwargs)

    def takes(self, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether it may run on these arguments as they are."""
        try:
            return bool(self.accepts(*args, **kwargs))
        except TypeError:  # compiled for other parameters
            return False

    def __repr__(self) -> str:
        return f"<Compiled {self.header.function}: {self.signature}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _compiled_again, (rows_of(self.program), self.options, self._static, self.origin)

    def _repr_html_(self) -> str:
        return self.source._repr_html_()

    @cached_property
    def source(self) -> SourceText:
        return SourceText(self.emitted.text, self.header.function, self.native, self._in_c)

    def _in_c(self) -> str:
        from symgrad.export.c_files import c_files

        return c_files(self, self.header.function).code

    @cached_property
    def lines(self) -> dict[Node, str]:
        """The line of the source that makes a value of the graph, where one does."""
        lines = self.emitted.lines
        return {node: lines[i - 1].text for i, node in reversed(self.emitted.origins.items())}

    @cached_property
    def signature(self) -> str:
        return self.header.signature(self.graph.inputs)

    @cached_property
    def cost(self) -> Cost:
        """The cost of one call; see `Cost`."""
        from symgrad.loops.scratch import scratch_of

        scratch = scratch_of(self.graph, self.options.threads)
        return cost_of(self.whole, self.emitted.steps(), self.graph.outputs, scratch)

    def explain(self) -> Report:
        """Report what the compiler did with the program, what it left and why; and the cost of a call, line by line.

        Returns
        -------
        Report
            ``print`` it; see there for its parts.

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> report = sg.grad(lambda x: np.sum(np.log(1 + np.exp(x)))).compile("float64[n]").explain()
        >>> found = report.rewrites[0]
        >>> print(found.rule, found.before, found.after, found.changes)
        logaddexp_number log(1 + exp(x)) logaddexp(0.0, x) nan
        """
        from symgrad.report.explain import explained

        target = self.trial.state if self.trial else self.options.target
        return replace(explained(*self._recorded), target=target)

    def statements(self, target: str | None = None) -> str:
        """Return the statements that the program is written from: what is computed when, and in which memory.

        For NumPy a line is a value, with the memory that was chosen for it: `new`, `into` a buffer, `in` or `over` the
        array of another value, a `window` of one. For C a line is a statement of a kernel; no compiler is needed.

        Parameters
        ----------
        target : {"numpy", "c"}, optional
            The language. By default the one that the program was compiled for; with ``target="auto"``, NumPy.

        Returns
        -------
        str

        Raises
        ------
        ArgumentError
            If there is no such target.

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> program = sg.compile(lambda x: np.sin(x)[::-1]).compile("float64[n]", optimize=1)
        >>> print(program.statements())
        function(x: float64[n]):
        %1 = sin(x)    float64[n]  new
        %2 = %1[::-1]  float64[n]  window of %1
        return %2
        """
        from symgrad.report.statements import statements_of

        return statements_of(self, target or ("c" if self.options.target == "c" else "numpy"))

    @cached_property
    def _recorded(self) -> tuple[Compiled, Log]:
        """Compile the program again and return it with the compiler's log, cached."""
        with recording() as log:
            return Compiled(self.program, self.options), log

    def profile(self, /, *args: Any, **kwargs: Any) -> Profile:
        """Run the program several times, and time each line of its source.

        Loops over blocks of rows run on one thread meanwhile, so that times add up.

        Parameters
        ----------
        *args, **kwargs
            As the program is called.

        Returns
        -------
        Profile
            ``print`` it; see there for its parts.

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> program = sg.grad(lambda x: np.sum(np.exp(x) ** 3)).compile("float64[n]", optimize=1)
        >>> profile = program.profile(np.ones(1000))
        >>> 0 < profile.hottest[0].share <= 1
        True
        """
        from symgrad.report.profile import profiled
        from symgrad.targets.numpy.module import emit

        args, kwargs = self._as_called(args, kwargs)
        return profiled(emit(self.graph, self.header, self.options.optimize, threads=1), args, kwargs)

    def debug(self, /, *args: Any, **kwargs: Any) -> Diagnosis:
        """Run the program operation by operation, and find what makes a result NaN or infinite.

        Parameters
        ----------
        *args, **kwargs
            As the program is called.

        Returns
        -------
        Diagnosis
            The first line that makes a NaN, an infinity or an overflow which reaches a result, with the numbers that it
            meets, the user's line, and what would avoid it. ``print`` it.

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> found = sg.grad(lambda x: np.sum(np.sqrt(x))).compile("float64[n]").debug(np.array([1.0, 0.0]))
        >>> found.first.fact
        'np.divide(0.5, 0.0) is inf at [1]'
        >>> found.first.derivative
        True
        """
        from symgrad.compiler.doctor import diagnose
        from symgrad.pipeline import optimise
        from symgrad.targets.numpy.module import lines_of

        arrays, sizes = self.guard.taken_apart(*self._as_called(args, kwargs))
        graphs = (optimise(self.program.graph, 0), self.whole)
        return diagnose(graphs, arrays, sizes, lambda graph: lines_of(graph, self.header_of(graph)))

    def header_of(self, graph: Graph) -> Header:
        """Return the header of the module of another graph of the program."""
        return _header(self.program, graph)[0]

    def save(self, path: str | Path, overwrite: bool = False, *, target: str = "numpy") -> Path:
        """Write a module that does not need symgrad and checks the shapes that it is given; or plain C.

        It needs NumPy, and SciPy where the function calls it; its docstring says so. Threads that compute products of
        matrices need threadpoolctl: without it the module runs on one thread. It has type hints; a manifest, which says
        what it was made of and is read without running it; and test vectors, with which ``python file.py --selftest``
        compares it wherever NumPy is. These are numbers from a formula: of arrays that the program was compiled for
        nothing is kept but their shapes, and where the function holds arrays itself they are its constants.

        Parameters
        ----------
        path : str or Path
            Ends in ``.py``. Constants too large for source go into an ``.npz`` file beside it, whose name says what is
            in it: ``slope.py`` and ``slope.6ae1f2a9b3c4.npz``. Both are written whole or not at all. A path that ends
            in ``.c`` gets a C function of pointers and sizes, and a header beside it: writing it takes no compiler, and
            calling it neither Python nor symgrad.
        overwrite : bool
            Whether files may go that symgrad did not write, or that were edited since. Saved modules that nobody has
            edited are replaced in any case.
        target : str
            ``"c"`` to write C beside a module: ``slope.c`` and ``slope.h`` as for a path that ends in ``.c``, and
            ``_slope.c``, by which Python calls it. Where somebody has compiled both to the extension module ``_slope``,
            ``slope.py`` calls that; elsewhere it is NumPy.

        Returns
        -------
        Path

        Raises
        ------
        ArgumentError
            If the path ends in neither, the target is another, there is no such folder, a file is there that symgrad
            did not write or that was edited, or results are instances of classes that the module cannot know.
        UnsupportedError
            If the path ends in ``.c``, or the target is C, and C does not compute the whole program.

        Examples
        --------
        >>> import numpy as np, symgrad as sg, tempfile, os
        >>> folder = tempfile.mkdtemp()
        >>> sg.grad(np.sin).compile(0.0).save(os.path.join(folder, "slope.py")).name
        'slope.py'
        """
        path = as_path("save", path)
        if target not in ("numpy", "c"):
            raise ArgumentError(f"save(target={target!r})", 'It is "numpy" or "c".')
        if path.suffix == ".c":
            from symgrad.export.c_files import write_c

            return write_c(self, path, overwrite)
        from symgrad.export.save import write

        if target == "numpy":
            return write(self.standalone, path, overwrite)
        from symgrad.export.c_files import write_c

        in_c = partial(write_c, self, path, overwrite, with_glue=True)
        return write(partial(self.standalone, stem=path.stem), path, overwrite, in_c)

    def standalone(self, folder: Path, stem: str = "") -> Source:
        """Return what `save` writes into a folder: the text of the module, and its large constants.

        `stem` is the name of C files beside it, without their endings.
        """
        if self.options.target == "c":
            by_numpy = replace(self.options, target="numpy")
            return Compiled(self.program, by_numpy, self._static, self._recipe).standalone(folder, stem)
        from symgrad.export.c_files import in_c_if_compiled
        from symgrad.export.save import standalone
        from symgrad.report.explain import rewrites_of

        rewrites = rewrites_of(*self._recorded) if self.options.numerics == "stable" else ()
        return standalone(self, rewrites, folder, in_c_if_compiled(self, stem) if stem else "")

    @cached_property
    def origin(self) -> Origin:
        from symgrad.export.origin import Origin, origin_of

        return self._recipe if isinstance(self._recipe, Origin) else origin_of(self._recipe)


def _compiled_again(
    rows: dict[str, Any], options: Options, static: StaticArguments | None, origin: Origin | None
) -> Compiled:
    return Compiled(program_of(rows), options, static, origin)


def _check_sizes(graph: Graph) -> None:
    """Raise if a size that only running tells is used, and the loop that defines it is no part of the program."""
    lost = untold(graph.live)
    if lost is not None:
        raise UnsupportedError(
            "an array has the length of a list that the program fills, but no item of that list is used",
            "Make a list of the same length, [1.0 for _ in x], or count the items: n = n + 1.",
            lost.where,
        )


def _header(program: Program, graph: Graph) -> tuple[Header, tree.TreeSpec | None]:
    """Return the header of the module; and the structure of the results where Python source cannot spell it."""
    leaves, structure = tree.flatten(program.outputs)
    images = iter(graph.outputs)
    results = [next(images) if isinstance(x, Variable) else _checked_result(x) for x in leaves]
    spelled = tree.unflatten(structure, results)
    plain = _is_plain(spelled)
    traced = (leaf for leaf in program.leaves if leaf.node is not None)
    inputs = dict(zip(graph.inputs, traced, strict=True))
    written = (node.op.evaluate for node in with_nested(graph.nodes) if node.op.written)
    name = global_name(program.name, names_of(excerpt(written)))
    assumed = [str(bound) for bound in readable_bounds(program.leaves, program.sizes)]
    tree_of_results = spelled if plain else tuple(results)
    numbers = {str(leaf.size): leaf for leaf in program.leaves if leaf.size is not None}
    header = Header(name, program.summary, program.parameters, inputs, tree_of_results, assumed, numbers)
    return header, None if plain else structure


def _results(program: Program, graph: Graph) -> Any:
    """Return the tree of results with nodes of a graph in it; None where some are no arrays."""
    leaves, structure = tree.flatten(program.outputs)
    if not all(isinstance(x, Variable) for x in leaves):
        return None
    return tree.unflatten(structure, graph.outputs[: len(leaves)])


def _is_plain(x: Any) -> bool:
    """Whether a tree of results can be written as Python source."""
    if type(x) is dict:
        return all(type(key) in (str, int, bool) for key in x) and all(map(_is_plain, x.values()))
    if type(x) in (list, tuple):
        return all(map(_is_plain, x))
    return isinstance(x, Node) or literal(x) is not None


def _checked_result(x: Any) -> Any:
    """A result that is part of the program."""
    if literal(x) is None:
        raise ArgumentError(
            f"the function returned {x!r}, which cannot be written as Python source",
            "Return arrays, numbers, strings, or trees of them.",
        )
    return x


def _repeating(name: str, options: Options, kernel: Kernel) -> Repeating:
    """Return the function that repeats calls of a kernel in NumPy."""
    from symgrad.compiler.repeating import Repeating  # for those who ask for C

    return Repeating(kernel, name, options, _load)


def _load(source: Source) -> Callable[..., Any]:
    """The function of a generated module; tracebacks show its lines.

    The functions at its end need not be compiled again and again: it gets them as they are.
    """
    _keep_freed_memory()
    filename = f"<symgrad {source.function} {next(_serial)}>"
    linecache.cache[filename] = (len(source.text), None, source.text.splitlines(keepends=True), filename)
    namespace = source.namespace
    exec(compile(source.own, filename, "exec"), namespace)
    weakref.finalize(namespace[source.function], linecache.cache.pop, filename, None)
    return namespace[source.function]


@cache
def _keep_freed_memory() -> None:
    """Let the process keep the memory that arrays have freed: long expressions run in half of the time.

    The C library gives it back to the system, and every array of a few pages costs page faults again, until it has seen
    a block of up to 32 MB freed once (mallopt(3), M_MMAP_THRESHOLD). The pages of this one are never touched.
    """
    np.empty(4_000_000)
