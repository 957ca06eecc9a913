"""Costs of a program: operations, memory traffic, and peak memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product as combinations
from typing import Any, NamedTuple

from symgrad.analysis.memory_profile import GIVEN, Step, memory_profile, nbytes, one_by_one
from symgrad.analysis.values import known_size
from symgrad.core.graph import CONSTANT, INPUT, ITEM, Aval, Graph, Node, is_view, reached
from symgrad.core.region import regions_of
from symgrad.core.shapes import product
from symgrad.core.size_expressions import in_side, sympify
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import Dim, Size, evaluate, expression_of, scope_of, size_from, symbols_of
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.control import COND, SCAN, own_sizes
from symgrad.ops.control_parts import loop_of
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.marks import ALIAS, STOP

ASSUMED = 1000  # what a symbolic size counts for where a number is needed
COLUMNS = 30  # what it counts for if it is likely small
MANY_ROWS = 300_000  # rows that are assumed where a symbol has no value
UNKNOWN_ITERATIONS = 10  # of a loop with a condition
SILENT = frozenset((*GIVEN, ITEM, ALIAS, STOP, BARRIER))  # what is given, and marks: they call nothing


class Cost(NamedTuple):
    """The cost of one call, as numbers, or as SymPy expressions where sizes are symbols.

    Attributes
    ----------
    flops : int or sympy.Expr
        Arithmetic operations on numbers; a function such as ``np.exp`` counts as one. Of a branch the dearer side
        counts, and a loop counts one iteration if only running tells their number. Where iterations have arrays
        of different lengths, each counts as the middle one. Of an array of which a part is assigned, that part counts.
    bytes : int or sympy.Expr
        What the operations read and write, each on its own; a loop over blocks of rows reads what it is given once and
        writes its results once, the rest stays in the cache.
    peak : int or sympy.Expr
        The most that intermediate values and results take at one time, with `scratch`; arguments and constants are not
        counted, nor what NumPy's own functions need besides, nor temporaries of an iteration or
        of a side of a branch: of a loop its carry and its ys count.
    calls : int
        NumPy calls; in a loop a call counts once.
    scratch : int or sympy.Expr
        What loops over blocks of rows keep from call to call, on as many threads as may run; see `release_scratch`.
    """

    flops: Any
    bytes: Any
    peak: Any
    calls: int
    scratch: Any = 0


def cost_of(graph: Graph, steps: Iterable[Step] | None = None, results: Sequence[Node] = (), scratch: Any = 0) -> Cost:
    """Return the cost of evaluating ``graph.outputs``: node by node, or by lines (`steps`) that return `results`.

    `scratch` are the bytes of buffers that loops keep from call to call: they are there while everything else is.
    """
    reachable = graph.live
    calls = sum(map(calls_of, reachable))
    flops = sum((flops_of(node) for node in operations(graph.outputs)), 0)
    if steps is None:
        steps, results = one_by_one(reachable, graph.outputs), graph.outputs
    traffic = sum((traffic_of(node) for node in operations(results)), 0)
    peak = _largest(memory_profile(steps, results)) + scratch
    return Cost(as_expr(flops), as_expr(traffic), peak, calls, scratch)


def operations(outputs: Iterable[Node]) -> list[Node]:
    """Return the nodes that compute numbers: views do not."""
    return [node for node in reached(outputs) if is_work(node)]


def is_call(node: Node) -> bool:
    """Whether a node calls NumPy; inputs, constants and marks do not."""
    return node.op not in SILENT


def calls_of(node: Node) -> int:
    """Return how many NumPy calls a node is in the source."""
    inside = regions_of(node) if node.op is SCAN or node.op is COND else ()
    return sum(calls_of(x) for region in inside for x in region.nodes) if inside else is_call(node)


def is_work(node: Node) -> bool:
    """Whether a node computes numbers, rather than viewing them."""
    op = node.op
    return op not in SILENT and not (op.view and is_view(node))


def traffic_of(node: Node) -> Any:
    """Return the bytes that an operation reads and writes; a loop with several results reads each value once."""
    if node.op is SCAN or node.op is COND:
        return _of_parts(node, traffic_of)
    if node.op is SET or node.op is ADD_AT:
        return _traffic_of_assignment(node)
    inputs = node.inputs if isinstance(node.aval, Aval) else dict.fromkeys(node.inputs)
    return sum((nbytes(x.aval) for x in (*inputs, node)), 0)


def _traffic_of_assignment(node: Node) -> Any:
    """Return the bytes of what is assigned, and of the part that is written, and read where it is added to.

    An array is written in place unless it is the caller's, or a constant: that is copied.
    """
    array, *others = node.inputs
    part = flops_of(node) * array.aval.dtype.itemsize
    copied = 2 * nbytes(array.aval) if array.op is INPUT or array.op is CONSTANT else 0
    return sum((nbytes(x.aval) for x in others), part * (1 if node.op is SET else 2)) + copied


def flops_of(node: Node) -> Any:
    if node.op.flops is not None:
        return node.op.flops(node.aval, *[x.aval for x in node.inputs], **{**node.op.defaults, **dict(node.params)})
    if node.op is SCAN or node.op is COND:
        return _of_parts(node, flops_of)
    return max((_numbers(x.aval) for x in (*node.inputs, node)), key=magnitude)


def _of_parts(node: Node, measure: Callable[[Node], Any]) -> Any:
    """Return the cost of all iterations of a loop, or of the dearer side of a branch."""
    parts = [sum((measure(x) for x in region.nodes if is_work(x)), 0) for region in regions_of(node)]
    return sum(parts) * most_iterations(node) if node.op is SCAN else max(parts, key=magnitude)


def most_iterations(loop: Node) -> Size:
    """Return the number of iterations of a loop as far as it is known: the most that it may have, or one."""
    size = known_size(loop.inputs[0])
    if size is None or (isinstance(size, int) and size < 0):
        iterations = loop_of(loop).iterations
        return 1 if iterations is None else iterations
    return size


def _numbers(aval: Any) -> Any:
    return product(aval.shape) if isinstance(aval, Aval) else sum((_numbers(part) for part in aval), 0)


# ---- numbers to estimate with where sizes are symbols


def magnitude(size: Any) -> int:
    """Return a size with a medium number for each symbol: the same in every call."""
    if not isinstance(size, Dim):
        return size
    return evaluate(size, {name: _assumed(name, size.scope) for name in symbols_of(size)})


def _assumed(name: str, scope: Sizes) -> int:
    """Return a number for a symbol; for the index of a loop, that of the middle iteration."""
    if name not in scope.places:
        return COLUMNS if name in scope.columns else ASSUMED
    turns = scope.places[name].turns
    return ASSUMED if turns is None else likely(turns) // 2


def numbers(shape: Iterable[Size]) -> int:
    """Return how many numbers an array has; at least one for each symbolic size."""
    return math.prod(max(magnitude(n), 1) if isinstance(n, Dim) else n for n in shape)


def likely(size: Size) -> int:
    """Return the size in the call at hand; without one, as `magnitude` estimates it."""
    if not isinstance(size, Dim):
        return size
    value = size.scope.value(size)
    return magnitude(size) if value is None else value


def likely_numbers(node: Node) -> int:
    """Return how many numbers an array is likely to have; 0 for several results."""
    return likely(product(node.aval.shape)) if isinstance(node.aval, Aval) else 0


def rows_scale(size: Size) -> float:
    """Return the factor by which `likely` may underestimate a number of rows: a spec may stand for many."""
    if not isinstance(size, Dim) or size.scope.value(size) is not None:
        return 1.0
    few = size.scope.columns.issuperset(symbols_of(size))
    return 1.0 if few else MANY_ROWS / max(likely(size), 1)  # n - k is likely 0


def likely_rows(size: Size) -> float:
    """Return the likely number of rows, which for a spec is taken to be large."""
    return likely(size) * rows_scale(size)


def note_columns(graph: Graph) -> None:
    """Tell the scope of a program's sizes which symbols are columns: fewer than rows, as far as one can tell.

    They come behind others in the shapes of arguments. If there are others that no result has, as a gradient has none
    of the samples, those that results have are columns too. But grids, of which slices are taken, tables, of which rows
    are, and their indices may be long either way. Iterations of which only running tells the number are not many.
    """
    shapes = [[n for n in x.aval.shape if isinstance(n, Dim)] for x in graph.inputs]
    first = {name for shape in shapes for n in shape[:1] for name in symbols_of(n)}
    behind = {(name, shape[0]) for shape in shapes for n in shape[1:] for name in symbols_of(n)}
    columns = {name for name, leader in behind if name not in symbols_of(leader)}
    kept = {name for y in graph.outputs if isinstance(y.aval, Aval) for n in y.aval.shape for name in symbols_of(n)}
    if first - columns - kept:
        columns |= first & kept
    if columns:
        scope_of(*(n for shape in shapes for n in shape)).columns = columns.difference(*map(_taken_of, graph.nodes))
    if own := own_sizes(graph.nodes):
        graph.sizes.columns |= own


def _taken_of(node: Node) -> set[str]:
    """The symbols that are sizes of a grid, of a table or of its indices, as far as one node says."""
    shape = node.aval.shape if isinstance(node.aval, Aval) else ()
    sizes: list[Size] = [n for n in shape if isinstance(n, Dim) and not n.multiple and _is_shortened(n)]
    if node.op is INPUT and node.aval.dtype.kind in "iu":
        sizes += shape
    if node.op in (GET, SET, ADD_AT) and any(x.aval.dtype.kind in "iu" for x in node.inputs[1:]):
        sizes += node.inputs[0].aval.shape[:1]
    return {name for n in sizes for name in symbols_of(n)}


def _is_shortened(size: Dim) -> bool:
    """Whether it is less than a symbol in it."""
    return evaluate(size, dict.fromkeys(symbols_of(size), ASSUMED)) < ASSUMED


# ---- totals


def _largest(totals: Iterable[Any]) -> Any:
    """The largest of some sums of sizes; of symbols the Max of those that are the largest for some sizes."""
    distinct = list(dict.fromkeys(map(_in_the_middle, totals)))
    symbols = sorted({name for total in distinct for name in symbols_of(total)})
    if not symbols:
        return max(distinct)
    tried = (ASSUMED, 10, 100_000) if len(symbols) < 4 else (ASSUMED,)
    trials = combinations(tried, repeat=len(symbols))
    at = [dict(zip(symbols, numbers, strict=True)) for numbers in trials]
    winners = dict.fromkeys(max(distinct, key=lambda total: evaluate(total, sizes)) for sizes in at)
    if len(winners) == 1:
        return as_expr(next(iter(winners)))
    from sympy import Max  # as slow to import as NumPy, and only for symbols

    return Max(*map(as_expr, winners))


def as_expr(size: Any) -> Any:
    """A SymPy expression for a symbolic number."""
    size = _in_the_middle(size)
    return size.expr.expand() if isinstance(size, Dim) else size


def _in_the_middle(size: Any) -> Any:
    """Return a number that depends on a loop's index, for the middle iteration, or the only one that is known."""
    if not isinstance(size, Dim):
        return size
    expr, scope = in_side(size.expr, 0), size.scope
    while places := scope.places_in(expr):
        turns = [1 if place.turns is None else expression_of(place.turns) for place in places]
        expr = expr.xreplace({place.symbol: (n + 1) / sympify(2) for place, n in zip(places, turns, strict=True)})
    return int(expr) if expr.is_number else size_from(expr, scope)
