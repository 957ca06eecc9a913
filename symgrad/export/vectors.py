"""Test vectors: numbers for the arguments of a program, and the results of its graph as it was traced.

They are made by a formula, never of arrays that the caller has: what a module holds of these would go where it goes.
The formula is source, which a module evaluates without symgrad; `points` chooses numbers where symgrad is at hand.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.values import number
from symgrad.core import tree
from symgrad.core.graph import Aval, Graph, Node
from symgrad.core.interpret import at_sizes, interpret, like
from symgrad.core.region import with_nested
from symgrad.core.sizes import Dim, evaluate
from symgrad.core.text import Group, displayed, double_quoted, laid_out, literal, with_article
from symgrad.export.points import counts, some_sizes
from symgrad.export.selftest import _numbers, _summaries, _worst
from symgrad.frontend.arguments import Leaf
from symgrad.frontend.trace import Program
from symgrad.frontend.variable import Variable
from symgrad.loops.loop import Block
from symgrad.ops.checks import muted
from symgrad.ops.control import SCAN, UNBOUNDED
from symgrad.spelling import spell_dtype

MOST = 1 << 23  # numbers that one evaluation may make
TRIES, IN_ALL = 100, 1 << 26  # candidates for one vector, and numbers for all of them
USUAL = ((-1, 1), (0.5, 2), (0.1, 0.9), (1.1, 3))  # ranges, of which one is in the domain of most functions
WIDER = ((-3, 3), (0.1, 5), (0.02, 0.98), (1.01, 9))


class Range(NamedTuple):
    """The range of an argument's numbers; "sorted", or "definite" if it is square; ints are below `most`."""

    low: float
    high: float
    form: str = ""
    most: int = 3


class Vector(NamedTuple):
    """A test vector as source: its name, its numbers, the source of the call, and each result."""

    label: str
    ranges: Sequence[Range]
    call: Group
    expected: Any

    def source(self) -> Group:
        """A statement that yields it."""
        expected = displayed(self.expected)
        assert expected is not None, "shapes and finite numbers have source"
        return Group("yield (", [double_quoted(repr(self.label)), self.call, expected], ")")


class NoVectorsError(Exception):
    """The reason why there are no test vectors."""


def tolerance_of(program: Program) -> float:
    """Return the allowed error of a result, relative to its largest number, by the coarsest dtype of the program."""
    dtypes = {aval.dtype for x in program.graph.nodes if isinstance(aval := x.aval, Aval) and aval.dtype.kind in "fc"}
    return float(f"{max((float(np.finfo(dtype).eps) for dtype in dtypes), default=2.0**-52) ** 0.6:.0e}")


def vectors_of(program: Program, graph: Graph, name: str, run: Callable[..., Any]) -> list[Vector]:
    """Test vectors: of small sizes, of others and wider ranges, and one of several blocks where there is a loop.

    What the program gives as it was traced is right. `graph` is what runs, by `run`; its module calls it `name`.
    Where there are none, the NoVectorsError says why.
    """
    if any(node.op is SCAN and number(node.inputs[0]) == UNBOUNDED for node in with_nested(program.graph.live)):
        raise NoVectorsError("a loop ends by its test alone, which numbers that are made up may never meet")
    case = Case(program, name, run, tolerance_of(program))
    sizes = some_sizes(program, 3)
    found = [case.vector(sizes, _candidates(program.leaves, sizes, USUAL))]
    if program.graph.inputs:
        with suppress(NoVectorsError):
            sizes = some_sizes(program, 5)
            found.append(case.vector(sizes, _candidates(program.leaves, sizes, (*WIDER, *USUAL))))
    if rows := _rows_of_blocks(graph, some_sizes(program, 3)):
        with suppress(NoVectorsError):
            found.append(case.vector(some_sizes(program, 3, rows), [found[0].ranges]))
    return found


class Case(NamedTuple):
    """A program to be tested."""

    program: Program
    name: str
    run: Callable[..., Any]
    tolerance: float

    def vector(self, sizes: Mapping[str, int], candidates: Iterable[Sequence[Range]]) -> Vector:
        """A test vector for these sizes, of the first numbers that will do."""
        made = sum(counts(self.program, sizes))
        if made > MOST:
            raise NoVectorsError(
                f"one call computes {made} numbers, too many for a test; symbols for sizes could be small"
            )
        tries = min(TRIES, IN_ALL // max(made, 1))
        reason = "no numbers were found for which all results are finite and do not hang on rounding"
        for ranges in itertools.islice(candidates, tries):
            texts = _sources(self.program.leaves, sizes, ranges)
            call = call_of(self.program, self.name, texts, sizes)
            expected = _expected(self.program, texts, sizes, self.tolerance / 10)
            error = 0.0 if expected is None else self._error(call, expected)
            if expected is not None and error <= self.tolerance / 10:
                rounded = [(shape, _rounded(numbers, self.tolerance)) for shape, numbers in expected]
                return Vector(_label(sizes, ranges), ranges, call, rounded)
            if error > self.tolerance:
                reason = f"the function is off its graph by {error:.0e}, of the largest number of a result"
        raise NoVectorsError(reason)

    def _error(self, call: Group, expected: Any) -> float:
        """Return the error of the program relative to its graph."""
        scope = {"np": np, "_numbers": _numbers, self.name: self.run}
        found = _quietly(lambda: _summaries(eval(laid_out(call), scope)))
        return math.inf if found is None else _worst(found, expected)


def _rounded(numbers: Sequence[complex], tolerance: float) -> list[complex]:
    """Numbers without the digits that another machine may have otherwise, so that all write the same file."""
    largest = max(map(abs, numbers), default=0.0)
    if not largest:
        return list(numbers)
    places = 1 - math.floor(math.log10(largest * tolerance))
    parts = [(round(x.real, places) + 0.0, round(x.imag, places) + 0.0) for x in numbers]  # no -0.0
    return [complex(*part) if isinstance(x, complex) else part[0] for x, part in zip(numbers, parts, strict=True)]


def _label(sizes: Mapping[str, int], ranges: Sequence[Range]) -> str:
    """Return the label of a test vector: its sizes, or where these are numbers the range of its numbers."""
    if sizes or not ranges:
        return ", ".join(f"{size} = {n}" for size, n in sizes.items()) or "without arguments"
    return f"numbers from {ranges[0].low} to {ranges[0].high}"


# ---- sizes


def _rows_of_blocks(graph: Graph, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return by symbol a number of rows above a loop's block, where the other symbols have these numbers."""
    found: dict[str, int] = {}
    for block in (value for node in graph.nodes for _, value in node.params if isinstance(value, Block)):
        if isinstance(block.size, Dim) and block.size.expr.is_Symbol:
            rows = 2 * block.least // max(evaluate(block.layout.row_bytes, sizes), 1)
            found[str(block.size)] = max(found.get(str(block.size), 0), rows + rows // 2 + 1)
    return found


# ---- numbers


def _candidates(
    leaves: Sequence[Leaf], sizes: Mapping[str, int], ranges: Sequence[tuple[float, float]]
) -> Iterator[list[Range]]:
    """Ranges for all leaves: alike at first, then all but one."""
    avals = [leaf.node.aval for leaf in leaves if leaf.node is not None]
    square = any(_is_square(at_sizes(aval.shape, sizes)) for aval in avals if aval.dtype.kind == "f")
    forms = ["", *["definite"] * square, *["sorted"] * any(aval.shape for aval in avals)]
    for most in (3, 2, 1) if any(aval.dtype.kind in "iu" for aval in avals) else (3,):
        for form, (low, high) in itertools.product(forms, ranges):
            yield [Range(low, high, form, most)] * len(leaves)
    for usual, other, i in itertools.product(ranges, ranges, range(len(leaves))):
        if usual != other:
            yield [Range(*(other if i == j else usual)) for j in range(len(leaves))]


def _is_square(shape: Sequence[int]) -> bool:
    return len(shape) > 1 and shape[-1] == shape[-2]


def _sources(leaves: Sequence[Leaf], sizes: Mapping[str, int], ranges: Sequence[Range]) -> dict[Node, str]:
    """The source of each array among the arguments, no two alike."""
    texts, first = {}, 1
    for leaf, chosen in zip(leaves, ranges, strict=True):
        if leaf.node is not None:
            shape = at_sizes(leaf.node.aval.shape, sizes)
            text = _array(leaf.node.aval, shape, chosen, first)
            texts[leaf.node] = text if shape else _number(leaf, _value(text))
            first += math.prod(shape)
    return texts


def _array(aval: Aval, shape: tuple[int, ...], chosen: Range, first: int) -> str:
    """The source of an array."""
    kind = aval.dtype.kind
    low, high = (0, chosen.most) if kind in "iu" else (0, 1) if kind == "b" else chosen[:2]
    text = f"_numbers({literal(shape)}, {low}, {high}, {first})"
    if kind == "b":
        return f"{text} < 0.5"
    if kind == "c":
        text = f"((0.8 + 0.6j) * {text})"
    elif kind == "f" and chosen.form == "definite" and _is_square(shape):
        n = shape[-1]
        text = f"(lambda a: a + a.swapaxes(-1, -2) + {4 * n} * np.eye({n}))({text})"
    elif chosen.form == "sorted" and shape:
        text = f"np.sort({text})"
    return text if aval.dtype in (np.dtype(float), np.dtype(complex)) else f"{text}.astype({spell_dtype(aval.dtype)})"


def _number(leaf: Leaf, value: Any) -> str:
    """The source of a number, or of an array of no dimensions."""
    assert leaf.node is not None
    aval = leaf.node.aval
    text = literal(value.astype({"f": float, "c": complex}.get(aval.dtype.kind, aval.dtype)).item())
    if aval.weak:
        return str(text)
    return f"np.array({text}, {spell_dtype(aval.dtype)})" if leaf.is_array else f"np.{aval.dtype.type.__name__}({text})"


def _value(text: str) -> Any:
    return eval(text, {"np": np, "_numbers": _numbers})


# ---- the call


def call_of(program: Program, name: str, texts: Mapping[Node, str], sizes: Mapping[str, int]) -> Group:
    """The call of the program with these arguments, as source."""

    def leaf(x: Any) -> str:
        if isinstance(x, Variable):
            return texts[x.node]
        if isinstance(x, Dim):
            return str(evaluate(x, sizes))
        if not tree.is_leaf(x):
            raise _no_form(p, x)
        return literal(x) or "None"  # a constant of the program, which reads no argument for it

    items: list[str | Group] = []
    for p in program.parameters:
        given, prefix = program.inputs[p.name], ""
        if p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD):
            prefix = f"{p.name}=" if p.kind is p.KEYWORD_ONLY else "**"
        for x in given if p.kind is p.VAR_POSITIONAL else (given,):
            text = displayed(x, prefix, leaf)
            if text is None:
                raise _no_form(p, x)
            items.append(text)
    return Group(f"{name}(", items, ")")


def _no_form(parameter: inspect.Parameter, x: Any) -> NoVectorsError:
    return NoVectorsError(
        f"{parameter.name} has {with_article(type(x).__name__)}, which cannot be written as Python source"
    )


# ---- what comes of it


def _expected(program: Program, texts: Mapping[Node, str], sizes: Mapping[str, int], tolerance: float) -> Any:
    """The results by the graph as it was traced; None where they are not finite, or hang on rounding."""
    feeds = {node: _value(text) for node, text in texts.items()}
    found = _interpreted(program, feeds, sizes)
    if found is None or not all(np.isfinite(numbers).all() for _, numbers in found):
        return None
    nudged = _interpreted(program, {node: _nudged(x) for node, x in feeds.items()}, sizes)
    return found if nudged is not None and _worst(nudged, found) <= tolerance else None


def _interpreted(program: Program, feeds: Mapping[Node, Any], sizes: Mapping[str, int]) -> Any:
    values = _quietly(lambda: interpret(program.graph.outputs, feeds, sizes))
    if values is None:
        return None
    at = dict(zip(program.graph.outputs, values, strict=True))
    return _summaries(tree.tree_map(lambda x: at[x.node] if isinstance(x, Variable) else x, program.outputs))


def _nudged(x: Any) -> Any:
    """The numbers but for their last digits."""
    dtype = np.asarray(x).dtype
    if dtype.kind not in "fc":
        return x
    steps = 4 * np.finfo(dtype).eps * _numbers(np.shape(x), -1, 1, 7)
    return like(x, np.asarray(x + x * steps, dtype))


def _quietly(call: Callable[[], Any]) -> Any:
    """Return the result of a call; None where it raises, as NumPy does for arguments outside of a domain."""
    with muted(), np.errstate(all="ignore"):
        try:
            return call()
        except Exception:
            return None
