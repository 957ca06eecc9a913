"""Generated modules as syntax trees: loaded to be called, and to be recorded statement by statement."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from operator import index
from typing import Any, NamedTuple

import numpy as np

from symgrad.core import tree
from symgrad.loops import rows_of_block
from symgrad.targets.numpy import runtime

ROWS = 3  # of a block, where the module computes how many that are
_RECORD = "_symgrad_record"


class Statement(NamedTuple):
    """A statement, or what stands before the body of one, such as ``for i in range(n):``."""

    line: int  # in the file
    text: str  # as Python itself would write it, so that spaces and comments do not count
    targets: str  # what it gives values to; ``return`` where it returns them, "" where it does neither


class Event(NamedTuple):
    """One run of a statement, which is known by its number, and copies of what it gave."""

    statement: int
    values: list[np.ndarray]


class Script:
    """A generated module. What it has from the runtime of symgrad is not run again, but taken from there.

    Tracebacks call it `file`, which it finds as ``__file__``. `given` are names that it finds defined: constants kept
    beside it, functions of operators. A text that is no Python raises a SyntaxError.
    """

    def __init__(self, text: str, file: str, given: Mapping[str, Any] | None = None) -> None:
        self.text, self.file, self._given = text, file, dict(given or {})
        self._body = self._own()

    def _own(self) -> list[ast.stmt]:
        return [s for s in ast.parse(self.text, self.file).body if ast.dump(s) not in _of_runtime()]

    @property
    def nodes(self) -> Iterator[ast.AST]:
        return (node for statement in self._body for node in ast.walk(statement))

    def namespace(self) -> dict[str, Any]:
        """What running it defines."""
        return self._run(self._body, {})

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
        code = ast.fix_missing_locations(ast.Module(list(body), []))
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


@cache
def _of_runtime() -> frozenset[str]:
    """The functions, classes and values that generated modules have from the runtime."""
    body = [s for module in (runtime, rows_of_block) for s in ast.parse(inspect.getsource(module)).body]
    return frozenset(ast.dump(s) for s in body if isinstance(s, (ast.FunctionDef, ast.ClassDef, ast.Assign)))


# ---- what takes the place of the runtime


def _in_two_parts(share: Callable[[int, int], Any], n: int, rows: int, **options: Any) -> list[Any]:
    """What runs in parts, on this thread alone: a part of whole blocks, and one with what is left over."""
    cut = n // (2 * rows) * rows
    return [share(start, stop) for start, stop in ((0, cut), (cut, n)) if start < stop or n == 0]


def _no_threads(process: int) -> None:
    raise RuntimeError("no threads")  # so that parts are computed one after the other


def _few_rows(n: int, nbytes: int, least: int, most: int) -> int:
    """How many rows a block has: few, so that there are several blocks of little work."""
    return min(ROWS, index(rows_of_block._rows_of_block(n, nbytes, least, most)))


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
    """What a statement gives values to, as expressions; what a call writes into, as far as that can be seen."""
    if isinstance(statement, ast.Assign):
        return [text for target in statement.targets for text in _parts(target)]
    if isinstance(statement, ast.AugAssign) or (isinstance(statement, ast.AnnAssign) and statement.value):
        return list(_parts(statement.target))
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        written = [keyword.value for keyword in call.keywords if keyword.arg == "out"] or call.args[:1]
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        return [ast.unparse(x) for x in (*written, *owner) if isinstance(x, (ast.Name, ast.Subscript))]
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
