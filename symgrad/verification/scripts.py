"""Generated modules as syntax trees: loaded to be called, and to be recorded statement by statement."""

from __future__ import annotations

import ast
import inspect
import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from symgrad.core import tree
from symgrad.frontend.conversion.templates import located
from symgrad.loops import rows_of_block
from symgrad.targets.numpy import runtime
from symgrad.verification.deciding import Condition, Instrument, Watch, reached, watching

ROWS = 2  # of a block, where the module computes how many that are: the usual sizes are several blocks
MANY = 1_000_000  # iterations of the loops that run while a module is loaded
_RECORD, _ITERATION, _ITERATIONS = "_symgrad_record", "_symgrad_iteration", "_symgrad_iterations"


class Statement(NamedTuple):
    """A statement, or what stands before the body of one, such as ``for i in range(n):``."""

    line: int  # in the file
    text: str  # as Python itself would write it, so that spaces and comments do not count
    targets: str  # what it gives values to; ``return`` where it returns them, "" where it does neither


class Event(NamedTuple):
    """One run of a statement, which is known by its number, and copies of what it gave."""

    statement: int
    values: list[np.ndarray]


class Endless(BaseException):
    """Loops run so many iterations that they may never end. No handler of the module catches it."""


FAILURES = (Exception, SystemExit, Endless)  # of a module that is run


class Script:
    """A generated module. What it has from the runtime of symgrad is not run again, but taken from there.

    Its loops count their iterations: beyond what `allow` says they raise Endless. Tracebacks call it `file`, which it
    finds as ``__file__``. `given` are names that it finds defined: constants kept beside it, functions of operators. A
    text that is no Python raises a SyntaxError.
    """

    def __init__(self, text: str, file: str, given: Mapping[str, Any] | None = None) -> None:
        self.text, self.file, self._given = text, file, dict(given or {})
        body = ast.parse(text, file).body
        self._places = [k for k, s in enumerate(body) if not _is_of_runtime(s)]
        self.statements = [body[k] for k in self._places]
        self._allowed = self._left = 0

    def _own(self) -> list[ast.stmt]:
        """Return its own statements, parsed again: they are rewritten where they are run."""
        body = ast.parse(self.text, self.file).body
        return [body[k] for k in self._places]

    @property
    def nodes(self) -> Iterator[ast.AST]:
        return (node for statement in self.statements for node in ast.walk(statement))

    def allow(self, iterations: int) -> None:
        """Allow the loops so many iterations from now on."""
        self._allowed = self._left = iterations

    @property
    def spent(self) -> int:
        """Return how many iterations have run since then."""
        return self._allowed - self._left

    def _iteration(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Endless

    def _iterations(self, iterable: Iterable[Any]) -> Iterator[Any]:
        for each in iterable:
            self._iteration()
            yield each

    def namespace(self) -> dict[str, Any]:
        """Return the names that running the module defines."""
        return self._run(self._own(), {})

    def deciding(self, watch: Watch) -> dict[str, Any]:
        """Run it so that `watch` sees what is compared, and which branches are taken."""
        instrument = Instrument()
        return self._run([instrument.visit(statement) for statement in self._own()], watching(watch))

    def conditions(self, function: str) -> list[Condition]:
        """Return what a function decides by, and those that it calls, in the order of the text."""
        instrument = Instrument()
        for statement in reached(self._own(), function):
            instrument.visit(statement)
        return instrument.conditions

    def recorded(self) -> Recorded:
        """Run it so that all runs of its statements are noted."""
        events: list[Event] = []

        def record(number: int, *values: Any) -> Any:
            events.append(Event(number, list(_numbers(values))))
            return values[-1]

        recorder = _Recorder()
        body = recorder.block(self._own())
        return Recorded(recorder.statements, events, self._run(body, {_RECORD: record, "_scratch": _zeros}))

    def _run(self, body: Sequence[ast.stmt], more: Mapping[str, Any]) -> dict[str, Any]:
        counted = [_Counting().visit(statement) for statement in body]
        code = ast.fix_missing_locations(ast.Module(counted, []))
        more = {**more, _ITERATION: self._iteration, _ITERATIONS: self._iterations}
        self.allow(MANY)
        shared = {name: value for name, value in vars(runtime).items() if not name.startswith("__")}
        namespace = {**shared, **self._given, **_ALONE, **more, "__name__": "verified", "__file__": self.file}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(code, self.file, "exec"), namespace)
        return namespace


class Recorded(NamedTuple):
    """A module with its statements, the events so far, and the names that it defines."""

    statements: list[Statement]
    events: list[Event]
    namespace: dict[str, Any]


def _is_of_runtime(s: ast.stmt) -> bool:
    """Whether a module has a function, a class or a value from the runtime, as it is there."""
    known = _of_runtime().get(_defined(s))
    return known is not None and known == ast.dump(s)


@cache
def _of_runtime() -> dict[str, str]:
    """Return what generated modules may have from the runtime, by the names that it defines."""
    body = [s for module in (runtime, rows_of_block) for s in ast.parse(inspect.getsource(module)).body]
    return {name: ast.dump(s) for s in body if (name := _defined(s))}


def _defined(s: ast.stmt) -> str:
    """Return the name that a function, a class or an assignment defines; the empty string for other statements."""
    match s:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""


# ---- what takes the place of the runtime


def _in_two_parts(share: Callable[[int, int], Any], n: int, rows: int, **options: Any) -> list[Any]:
    """Run two parts on this thread: one of whole blocks, and one of the remaining rows, which are several blocks."""
    cut = max(n - 1, 0) // (2 * rows) * rows
    return [share(start, stop) for start, stop in ((0, cut), (cut, n)) if start < stop or n == 0]


def _no_threads(process: int) -> None:
    raise RuntimeError("no threads")  # so that parts are computed one after the other


def _few_rows(n: int, nbytes: int, least: int, most: int) -> int:
    """Return the rows of a block: few, so that there are several blocks of little work."""
    return min(ROWS, operator.index(rows_of_block._rows_of_block(n, nbytes, least, most)))


@contextmanager
def _zeros(rows: int, *rest: Any) -> Iterator[list[np.ndarray]]:
    """Buffers in which nothing of earlier calls stands."""
    yield [np.moveaxis(np.zeros((*shape[:at], rows, *shape[at:]), dtype), at, 0) for shape, at, dtype in rest]


_ALONE = {
    "_in_parts": _in_two_parts,
    "_rows_of_block": _few_rows,
    "_blas_on_one_thread": lambda function, *args, **options: function(*args, **options),
    "_pool": _no_threads,
}

# ---- counting iterations


class _Counting(ast.NodeTransformer):
    """Counts the iterations of loops and comprehensions."""

    def _counted(self, node: ast.For | ast.While) -> ast.AST:
        self.generic_visit(node)
        call = ast.Expr(ast.Call(ast.Name(_ITERATION, ast.Load()), [], []))
        node.body.insert(0, located(ast.copy_location(call, node)))
        return node

    visit_For = visit_While = _counted

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        call = ast.Call(ast.Name(_ITERATIONS, ast.Load()), [node.iter], [])
        node.iter = located(ast.copy_location(call, node.iter))
        return node


# ---- recording


class _Recorder(ast.NodeTransformer):
    """Puts a call behind each statement that gives values, and around what is returned."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []
        self._buffers: set[str] = set()

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [new for statement in statements for new in self._with_record(statement)]

    def _with_record(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        values = [] if self._of_buffers(statement) else _targets(statement)
        number = self._numbered(statement, ", ".join(values))
        if isinstance(statement, ast.With):
            names = {node.id for item in statement.items for node in ast.walk(item) if isinstance(node, ast.Name)}
            self._buffers |= {name for name in names if name not in vars(runtime)}
        self.generic_visit(statement)
        if isinstance(statement, ast.Return) and statement.value is not None:
            statement.value = _call(statement, number, [statement.value])
        yield statement
        if values:
            given = [ast.parse(value, mode="eval").body for value in values]
            yield ast.copy_location(ast.Expr(_call(statement, number, given)), statement)

    def _numbered(self, statement: ast.stmt, targets: str) -> int:
        returns = isinstance(statement, ast.Return) and statement.value is not None
        text = ast.unparse(statement).split("\n")[0] if hasattr(statement, "body") else ast.unparse(statement)
        self.statements.append(Statement(statement.lineno, text, "return" if returns else targets))
        return len(self.statements) - 1

    def _of_buffers(self, statement: ast.stmt) -> bool:
        """Whether it cuts scratch memory into pieces: nothing of this run stands in them yet."""
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        return not used.isdisjoint(self._buffers)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, field, self.block(value))
            elif isinstance(value, (list, ast.AST)):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self.visit(child)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Memory that nobody has written into is zero, so that it is the same in every run."""
        node.attr = {"empty": "zeros", "empty_like": "zeros_like"}.get(node.attr, node.attr)
        return self.generic_visit(node)


def _call(statement: ast.stmt, number: int, values: Sequence[ast.expr]) -> ast.Call:
    """The call that notes the run of a statement and gives back its last value."""
    call = ast.Call(ast.Name(_RECORD, ast.Load()), [ast.Constant(number), *values], [])
    for node in ast.walk(call):
        ast.copy_location(node, statement)
    return call


def _targets(statement: ast.stmt) -> list[str]:
    """Return the targets of a statement as expressions; of a call, the arguments that it visibly writes into."""
    if isinstance(statement, ast.Assign):
        return [text for target in statement.targets for text in _parts(target)]
    if isinstance(statement, ast.AugAssign) or (isinstance(statement, ast.AnnAssign) and statement.value):
        return list(_parts(statement.target))
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        written = [keyword.value for keyword in call.keywords if keyword.arg == "out"] or call.args[:1]
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        found = [ast.unparse(x) for x in (*written, *owner) if isinstance(x, (ast.Name, ast.Subscript))]
        # of a list that grows the new item: all of them, each time, are quadratic work
        return [f"{found[-1]}[-1]"] if owner and ast.unparse(call.func).endswith(".append") and found else found
    return []


def _parts(target: ast.expr) -> Iterator[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for each in target.elts:
            yield from _parts(each)
    elif isinstance(target, ast.Starred):
        yield from _parts(target.value)
    else:
        yield ast.unparse(target)


def _numbers(value: Any) -> Iterator[np.ndarray]:
    """Copies of the arrays and numbers in a tree."""
    for leaf in tree.flatten(value)[0]:
        if isinstance(leaf, (np.ndarray, np.generic, bool, int, float, complex)):
            array = np.array(leaf)
            if array.dtype.kind in "biufc":
                yield array
