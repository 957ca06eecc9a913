"""Diagnosis of NaNs and infinities: the line that makes the first one that reaches a result."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from symgrad.compiler.remedies import Failure, remedy
from symgrad.core import tree
from symgrad.core.graph import CONSTANT, INPUT, ITEM, Graph, Node, depends, needed, without_tokens
from symgrad.core.interpret import evaluate, like, values_of, watched as watched_by
from symgrad.core.provenance import UNKNOWN, Where
from symgrad.core.region import regions_of
from symgrad.errors import NonFiniteError
from symgrad.ops.checks import only_raising

Values = Mapping[Node, Any]


@dataclass(frozen=True)
class Finding:
    """A line that makes a NaN or an infinity of finite numbers, or a NaN of infinities.

    Attributes
    ----------
    kind : {"nan", "inf", "overflow"}
        An overflow is an infinity that is too large a number; others are poles, such as 1/0 and log(0).
    operator : str
        ``np.log``
    line : str
        The line of the program, written one operation a line.
    where : Where
        The user's line that it derives from, with ``file``, ``line`` and ``text``.
    derivative : bool
        Whether it belongs to the derivative of that line.
    index : tuple of int
        Where in the value the first such number stands; () for a number.
    value : number
        What stands there.
    operands : tuple of number
        What it was made of, where the operator works elementwise or on one number.
    instead : str
        What would avoid it; "" where symgrad knows nothing better.
    """

    kind: str
    operator: str
    line: str
    where: Where
    derivative: bool
    index: tuple[int, ...]
    value: Any
    operands: tuple[Any, ...]
    instead: str

    @property
    def fact(self) -> str:
        made = f"{self.operator}({', '.join(str(x) for x in self.operands) or '...'})"
        place = f" at [{', '.join(map(str, self.index))}]" if self.index else ""
        happens = f"overflows to {self.value}" if self.kind == "overflow" else f"is {self.value}"
        return f"{made} {happens}{place}"

    @property
    def place(self) -> str:
        text = f": {self.where.text}" if self.where.text else ""
        return f"{'derivative of ' * self.derivative}{self.where}{text}"

    def __str__(self) -> str:
        lines = [f"{self.fact}, in", f"    {self.line}", f"  at {self.place}"]
        return "\n".join([*lines, *([f"  {self.instead}"] if self.instead else [])])


@dataclass(frozen=True)
class Diagnosis:
    """The source of NaNs and infinities; ``print`` it. Made by `Compiled.debug`.

    Attributes
    ----------
    finite : bool
        Whether all results are.
    argument : str
        The first argument that is not finite, and where: ``x[3] is nan``. "" if all are.
    first : Finding or None
        The first line that makes a NaN or an infinity which reaches a result. Where results are finite, the first that
        makes one at all.
    becomes_nan : Finding or None
        Where the infinity of `first` becomes a NaN, in another line.
    """

    finite: bool
    argument: str = ""
    first: Finding | None = None
    becomes_nan: Finding | None = None

    def __str__(self) -> str:
        if self.finite and self.first is None and not self.argument:
            return "All results are finite, and so is all on the way."
        parts = [f"The argument {self.argument}."] if self.argument else []
        if self.first is not None:
            parts.append(f"{self.first}")
        if self.becomes_nan is not None:
            parts.append(f"It becomes nan where {self.becomes_nan}")
        if self.finite:
            parts.append("It does not reach a result: all of them are finite.")
        if not parts:
            parts.append("A result is not finite since a constant of the program is not.")
        return "\n".join(parts)

    def error(self, program: str) -> NonFiniteError:
        """The error for a program whose results are not finite."""
        fact, first = f"{program} gives a NaN or an infinity", self.first
        if self.argument and first is None:
            error = NonFiniteError(f"{fact}: the argument {self.argument}", "Look where the argument is made.")
        elif self.finite:
            fact = f"{fact}, which it does not operation by operation"
            error = NonFiniteError(fact, 'numerics="ieee" keeps the order in which it is written.', UNKNOWN)
        elif first is None:
            error = NonFiniteError(f"{fact}: a constant of the program is not finite", "Give it finite constants.")
        else:
            fact = f"{fact}: {first.fact}{', in the derivative' * first.derivative}\n    {first.line}"
            error = NonFiniteError(fact, first.instead, first.where)
        error.diagnosis = self
        return error


def watched(run: Callable[..., Any], debug: Callable[..., Diagnosis], name: str) -> Callable[..., Any]:
    """A program that raises where a result is NaN, or infinite though all arguments are finite."""

    def checked(*args: Any, **kwargs: Any) -> Any:
        result = run(*args, **kwargs)
        leaves = tree.flatten(result)[0]
        if not all(map(is_finite, leaves)):
            found = debug(*args, **kwargs)
            if not found.argument or any(np.any(np.isnan(x)) for x in leaves):
                raise found.error(name)
        return result

    return checked


class Evaluated(NamedTuple):
    """A program with the values of all of its nodes for one call."""

    graph: Graph
    feeds: Values
    sizes: Mapping[str, int]
    values: Values

    @property
    def nodes(self) -> list[Node]:
        return needed(self.graph.outputs, self.feeds)

    @property
    def results(self) -> list[Any]:
        return [self.values[y] for y in without_tokens(self.graph.outputs)]


def diagnose(
    graphs: Sequence[Graph],
    args: Mapping[str, Any],
    sizes: Mapping[str, int],
    lines: Callable[[Graph], Mapping[Node, str]],
) -> Diagnosis:
    """Evaluate a program node by node and find what makes its results NaN or infinite.

    `graphs` are forms of the program, of which the last is what runs. The first form counts that fails where that does:
    nodes know their lines best as they were traced. `args` are the inputs by the paths that messages write, `sizes` the
    symbols that no shape tells, and `lines` gives the lines of the nodes of a graph.
    """
    with np.errstate(all="ignore"), only_raising():
        run = _chosen(graphs, args, sizes)
        finite = all(map(is_finite, run.results))
        argument = next((_place(path, x) for path, x in args.items() if not is_finite(x)), "")
        origins = [node for node in run.nodes if _makes_trouble(node, run.values)]
        cause = _first_of_all(run, origins) if finite else _first_that_matters(run, origins)
        if cause is None:
            return Diagnosis(finite, argument)
        text = lines(run.graph)
        return Diagnosis(finite, argument, _finding(cause, run, text), _turned_nan(cause, run, origins, text))


def _chosen(graphs: Sequence[Graph], args: Mapping[str, Any], sizes: Mapping[str, int]) -> Evaluated:
    """The first form of a program that fails where the last does."""
    *others, graph = graphs
    run = _run(graph, args, sizes)
    for other in others:
        with suppress(np.linalg.LinAlgError):  # a matrix that the last form does not invert
            found = _run(other, args, sizes)
            if _fail_alike(run, found):
                return found
    return run


def _run(graph: Graph, args: Mapping[str, Any], sizes: Mapping[str, int]) -> Evaluated:
    feeds = dict(zip(graph.inputs, args.values(), strict=True))
    return Evaluated(graph, feeds, sizes, values_of(graph.outputs, feeds, sizes))


def _fail_alike(a: Evaluated, b: Evaluated) -> bool:
    """Whether the same numbers of the results are finite."""
    return all(np.array_equal(np.isfinite(x), np.isfinite(y)) for x, y in zip(a.results, b.results, strict=True))


def is_finite(x: Any) -> bool:
    array = np.asarray(x)
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def _has_nan(x: Any) -> bool:
    array = np.asarray(x)
    return array.dtype.kind in "fc" and bool(np.isnan(array).any())


def _place(path: str, x: Any) -> str:
    index, value = _first_bad(x)
    return f"{path}{list(index) if index else ''} is {value}"


def _first_bad(x: Any) -> tuple[tuple[int, ...], Any]:
    """Return the index of the first NaN, or else of the first infinity, and the number there."""
    array = np.asarray(x)
    bad = np.isnan(array) if _has_nan(array) else ~np.isfinite(array)
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    return index, array[index]


# ---- which node it is


def _sources(node: Node) -> tuple[Node, ...]:
    """Return the inputs of a value; for an item of several results, the inputs of these."""
    return node.inputs[0].inputs if node.op is ITEM else node.inputs


def _makes_trouble(node: Node, values: Values) -> bool:
    """Whether a node makes a NaN or an infinity from finite numbers, or a NaN from infinities."""
    if node.op in (INPUT, CONSTANT) or isinstance(values[node], tuple) or is_finite(values[node]):
        return False
    given = [values[x] for x in _sources(node)]
    return all(map(is_finite, given)) or (_has_nan(values[node]) and not any(map(_has_nan, given)))


class Cause(NamedTuple):
    """A node, and where in its value the number stands that matters."""

    node: Node
    place: tuple[int, ...]


def _first_of_all(run: Evaluated, origins: Sequence[Node]) -> Cause | None:
    return next((Cause(node, _first_bad(run.values[node])[0]) for node in origins), None)


def _first_that_matters(run: Evaluated, origins: Sequence[Node]) -> Cause | None:
    """The first that makes a result NaN or infinite by itself: `np.where` and the like leave others out.

    All others that do not follow from it are made finite for that, arguments as well, and what depends on them is
    evaluated again. So are values that are not finite though their inputs have become so.
    """
    given = [x for x, value in run.feeds.items() if not is_finite(value)]
    for node in origins:
        after = depends(run.nodes, [node])
        others = {x: _made_finite(run.values[x]) for x in (*given, *origins) if x not in after}
        if _fails(run, node, others):
            return Cause(node, _index_that_matters(run, node, others))
    return None if given else _first_of_all(run, origins)


def _index_that_matters(run: Evaluated, node: Node, others: Values) -> tuple[int, ...]:
    """Return the index of the first number that makes a result NaN or infinite without those after it."""
    value = run.values[node]
    places = np.argwhere(~np.isfinite(np.asarray(value)))
    fails = lambda k: _fails(run, node, {**others, node: _made_finite(value, places[:k])})
    return tuple(int(i) for i in places[bisect_left(range(1, len(places)), True, key=fails)])


def _fails(run: Evaluated, cause: Node, changed: Values) -> bool:
    """Whether a node makes results NaN or infinite where some values are others."""

    def alone(node: Node, value: Any, inputs: Sequence[Any]) -> Any:
        apart = node in (cause, _made_by(cause)) or node.op in (INPUT, CONSTANT, ITEM)
        return value if apart or not all(map(_all_finite, inputs)) else _made_finite(value)

    outputs = without_tokens(run.graph.outputs)
    values = values_of(outputs, {**run.feeds, **changed}, run.sizes, change=alone)
    return not all(is_finite(values[y]) for y in outputs)


def _all_finite(x: Any) -> bool:
    return all(map(is_finite, x)) if isinstance(x, (tuple, list)) else is_finite(x)


def _made_finite(x: Any, but: Iterable[Any] = ()) -> Any:
    """Return a value with 1 for its NaNs and infinities, apart from some places."""
    if isinstance(x, (tuple, list)):  # several results
        return type(x)(map(_made_finite, x))
    if is_finite(x):
        return x
    array = np.asarray(x)
    mended = np.where(np.isfinite(array), array, array.dtype.type(1))
    for place in but:
        mended[tuple(place)] = array[tuple(place)]
    return like(x, mended)


# ---- what is said of it


def _turned_nan(cause: Cause, run: Evaluated, origins: Sequence[Node], lines: Mapping[Node, str]) -> Finding | None:
    """Return where the infinity becomes a NaN; advice against the one serves for the other."""
    if _has_nan(run.values[cause.node]):
        return None
    after = depends(run.nodes, [cause.node]) - {cause.node}
    then = _first_of_all(run, [node for node in origins if node in after and _has_nan(run.values[node])])
    return then and replace(_finding(then, run, lines), instead="")


def _finding(cause: Cause, run: Evaluated, lines: Mapping[Node, str]) -> Finding:
    found = _in_body(cause, run)
    if found is not None:
        line = lines.get(_made_by(cause.node), "")
        return replace(_finding(found.cause, run._replace(values=found.values), lines), line=line)
    node, index = cause
    made_by = _made_by(node)
    value = np.asarray(run.values[node])
    number = value[index]
    operands = tuple(_operands(made_by, run.values, index, value.shape))
    kind = "nan" if np.isnan(number) else "overflow" if _overflows(made_by, run) else "inf"
    failure = Failure(made_by, kind, operands, needed(run.graph.outputs, ()))
    return Finding(
        kind,
        made_by.op.path,
        lines.get(made_by, ""),
        node.where,
        node.where.of is not None and not node.where.again,
        index,
        number,
        operands,
        remedy(failure),
    )


def _made_by(node: Node) -> Node:
    return node.inputs[0] if node.op is ITEM else node


class Inside(NamedTuple):
    """An operation in the body of a loop or a branch, with its value and those of its inputs when it fails."""

    cause: Cause
    values: Values


def _in_body(cause: Cause, run: Evaluated) -> Inside | None:
    """Return the first operation in a body that makes the number of a loop or a branch NaN or infinite by itself.

    It is searched for as among nodes without bodies: all others that make such numbers of finite ones are made finite.
    """
    node = _made_by(cause.node)
    if not regions_of(node):
        return None
    for k in range(TRIALS):
        trial = _Trial(node, k)
        with watched_by(trial):
            value = evaluate(node, run.values, run.sizes)
        if trial.found is None:
            return None
        if cause.node.op is ITEM:
            value = value[dict(cause.node.params)["index"]]
        if not is_finite(value):
            return trial.found
    return None


TRIALS = 20
"""Operations in a body that are tried, at most."""


class _Trial:
    """A watcher of the interpreter that lets one failure pass in bodies of a node, and what becomes of it."""

    def __init__(self, node: Node, passes: int) -> None:
        self.node, self.passes, self.count = node, passes, 0
        self.found: Inside | None = None

    def __call__(self, node: Node, inputs: Sequence[Any], params: Mapping[str, Any], value: Any) -> Any:
        if node is self.node or node.op is ITEM or isinstance(value, (tuple, list)):
            return value
        values = {**dict(zip(node.inputs, inputs, strict=True)), node: value}
        if not _makes_trouble(node, values) or (self.found and not all(map(is_finite, inputs))):
            return value
        if self.count == self.passes:
            self.found = Inside(Cause(node, _first_bad(value)[0]), values)
        self.count += 1
        return value if self.count == self.passes + 1 else _made_finite(value)


def _operands(node: Node, values: Values, index: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[Any]:
    """Yield the numbers that the one at an index was computed from; none where there are many."""
    given = [values[x] for x in node.inputs]
    if node.op.elementwise:
        yield from (np.broadcast_to(x, shape)[index] for x in given)
    elif all(np.ndim(x) == 0 for x in given):
        yield from given


def _overflows(node: Node, run: Evaluated) -> bool:
    """Whether a number became too large, rather than that of a pole: NumPy says so, but for products by BLAS."""
    told: list[str] = []
    with np.errstate(all="ignore", over="call", call=lambda kind, flag: told.append(kind)):
        evaluate(node, run.values, run.sizes)
    return "overflow" in told or (not node.op.elementwise and any(_is_huge(run.values[x]) for x in node.inputs))


def _is_huge(x: Any) -> bool:
    """Whether a sum of products of these numbers may leave the range of their dtype."""
    array = np.asarray(x)
    if array.dtype.kind not in "fc":
        return False
    return bool(np.max(np.abs(array), initial=0) ** 2 * array.size >= np.finfo(array.dtype).max)
