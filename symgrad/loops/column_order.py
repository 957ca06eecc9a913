"""Column-major order for arrays of few columns, outside of blocks: ``x.T.copy().T`` for ``x``.

NumPy runs a short inner loop for each row of such an array where it broadcasts a row or a column, or sums along rows. A
result has the memory order of its operands, so one copy of the first array makes all inner loops long that follow. In
blocks of rows, buffers have this order already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from symgrad.analysis import costs
from symgrad.analysis.cost import likely, likely_numbers
from symgrad.core.graph import Aval, Graph, Node, is_view
from symgrad.core.shapes import same_shape
from symgrad.frontend.variable import Variable
from symgrad.loops.buffer_allocation import GATHERED, SHORT
from symgrad.ops.contract import MATMUL, OUTER, VECDOT
from symgrad.ops.einsum import EINSUM, LETTERS
from symgrad.ops.index import ADD_AT, GET
from symgrad.ops.index_expressions import EVERYTHING, Slice, taken_axis
from symgrad.ops.moments import VAR
from symgrad.ops.products import CROSS, crosses_columns
from symgrad.ops.reduce import MAX, MEAN, MIN, SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.ops.shape import COPY, TRANSPOSE
from symgrad.rewrite.engine import Made, copied

REDUCING = {VECDOT: costs.DOT, EINSUM: costs.ALIGNED_LOOP}
PAIRED = 4  # numbers of a row from which on a scatter adds two at a time

GAIN = 2
"""Least ratio of saved time to the cost of copies: a longer program reads worse."""

REDUCTIONS = frozenset({SUM, MEAN, MAX, MIN, VAR})
BY_COLUMNS = frozenset({EINSUM, CROSS})
"""Operators that are as fast on column-major operands."""


class Narrow(NamedTuple):
    """Arrays of few columns that get their memory order from each other."""

    given: list[Node]  # to be made column-major
    made: list[Node]  # computed from these, and column-major if they are


def keep_columns(graph: Graph, numerics: str = "stable") -> Graph:
    """Keep arrays of few columns in column-major order, where that saves more than copies cost."""
    nodes = graph.live
    if not any(_short_loops(x) > costs.CALL for x in nodes):
        return graph
    groups = _groups(nodes)
    chosen = [each for each, saved in zip(groups, _saved(groups, nodes, graph.outputs), strict=True) if saved > 0]
    if not chosen:
        return graph
    given, made = ({x for each in chosen for x in each[i]} for i in range(2))
    new = copied(graph, _instead(nodes, graph.outputs, given, made))
    pairs = zip(graph.outputs, new.outputs, strict=True)
    new.outputs = [new.add(COPY, (image,), (), y.where) if y in made else image for y, image in pairs]
    return new


# ---- groups of arrays


def _is_narrow(x: Node) -> bool:
    """Whether a value has several rows of few numbers, other than rows of small matrices."""
    shape = x.aval.shape if type(x.aval) is Aval else ()
    if len(shape) < 2 or type(shape[-1]) is not int or not 1 < shape[-1] < SHORT:
        return False
    return likely_numbers(x) > shape[-1] and not (len(shape) > 2 and 1 < likely(shape[-2]) < SHORT)


def _inputs_in_same_order(node: Node) -> list[Node]:
    """Return the narrow inputs from which a result takes its memory order."""
    if not _is_narrow(node):
        return []
    narrow = [x for x in node.inputs if _is_narrow(x)]
    keeps = node.op.elementwise or (narrow and _keeps_columns(node))
    return narrow if keeps else []


def _keeps_columns(node: Node) -> bool:
    """Whether columns stay columns: in a reduction over rows, or a view of some rows and columns."""
    if node.op in REDUCTIONS:
        return node.inputs[0].aval.ndim - 1 not in reduced_axes(node)
    return node.op is GET and len(node.inputs) == 1 and isinstance(dict(node.params)["key"][-1], Slice)


def _groups(nodes: Sequence[Node]) -> list[Narrow]:
    """Return the groups of narrow values that take their memory order from each other (union-find)."""
    leader: dict[Node, Node] = {}

    def find(x: Node) -> Node:
        while (y := leader.setdefault(x, x)) is not x:
            leader[x] = x = leader[y]
        return x

    same_order = {node: xs for node in nodes if (xs := _inputs_in_same_order(node))}
    for node, xs in same_order.items():
        for x in xs:
            leader[find(x)] = find(node)
    found: dict[Node, Narrow] = {}
    for node in nodes:
        if node in leader:
            group = found.setdefault(find(node), Narrow([], []))
            (group.made if node in same_order else group.given).append(node)
    return list(found.values())


# ---- estimated gain


def _saved(groups: Sequence[Narrow], nodes: Sequence[Node], outputs: Sequence[Node]) -> list[float]:
    """Return the seconds that long inner loops save in each group, less the cost of copies."""
    of = {x: i for i, group in enumerate(groups) for x in (*group.given, *group.made)}
    made = {x for group in groups for x in group.made}
    saved = [-GAIN * sum(map(_copying, [x for x in group.given if not _is_free(x, outputs)])) for group in groups]
    for node in nodes:
        read = dict.fromkeys([x for x in node.inputs if x in of])
        if read and (node in made or _reduces(node)):
            saved[of[next(iter(read))]] += _short_loops(node)
        elif not is_view(node):
            for x in read:
                saved[of[x]] -= GAIN * _against_order(node, x) * (x in made)
    for y in outputs:
        if y in made:
            saved[of[y]] -= GAIN * _copying(y)
    return saved


def _copying(x: Node) -> float:
    return costs.CALL + costs.COPIED * likely_numbers(x)


def _against_order(node: Node, x: Node) -> float:
    """Estimate the seconds that an operation, or a reader of its result, loses if `x` is column-major."""
    if node.op is MATMUL or (node.op is ADD_AT and x.aval.shape[-1] < PAIRED):
        return 0.0
    if node.op is EINSUM:  # of operands in several orders
        return costs.COPIED * likely_numbers(node) * (likely_numbers(node) > likely_numbers(x))
    return costs.COPIED * likely_numbers(x) * (node.op is not CROSS)


def _reduces(node: Node) -> bool:
    """Whether an operation reduces narrow arrays."""
    if node.op is VECDOT:
        x, y = node.inputs
        return _is_narrow(x) and same_shape(x.aval.shape, y.aval.shape)
    if node.op is EINSUM:
        return all(_is_narrow(x) and likely_numbers(node) < likely_numbers(x) for x in node.inputs)
    if node.op not in REDUCTIONS or not _is_narrow(node.inputs[0]):
        return False
    return len(reduced_axes(node)) < node.inputs[0].aval.ndim


def _short_loops(node: Node) -> float:
    """Estimate the seconds that an operation takes to start an inner loop for each row."""
    if _reduces(node):
        x = node.inputs[0]
        return REDUCING.get(node.op, costs.REDUCING_LOOP) * likely_numbers(x) / x.aval.shape[-1]
    if not node.op.elementwise or not _is_narrow(node):
        return 0.0
    if all(not x.aval.shape or same_shape(x.aval.shape, node.aval.shape) for x in node.inputs):
        return 0.0
    return costs.ALIGNED_LOOP * likely_numbers(node) / node.aval.shape[-1]


# ---- the program in column-major order


def _is_free(x: Node, outputs: Collection[Node]) -> bool:
    """Whether a value can be column-major at no cost; outputs are row-major."""
    if x in outputs:
        return False
    return x.op is OUTER or _is_product(x) or _is_gathered(x) or (x.op is CROSS and crosses_columns(x))


def _is_product(x: Node) -> bool:
    """Whether a value is a product of matrices, which BLAS makes in any order."""
    return x.op is MATMUL and all(y.aval.ndim == 2 for y in x.inputs)


def _is_gathered(x: Node) -> bool:
    """Whether rows of a table no larger than the result are gathered, so short that columns are no slower."""
    if x.op is not GET or len(x.inputs) != 2 or taken_axis(dict(x.params)["key"]) != 0:
        return False
    table = x.inputs[0]
    if not x.aval.ndim == table.aval.ndim == 2 or x.aval.shape[1] >= GATHERED:
        return False
    return likely_numbers(table) <= likely_numbers(x)


def _instead(
    nodes: Sequence[Node], outputs: Collection[Node], given: Collection[Node], made: Collection[Node]
) -> dict[Node, Made]:
    """Return makers of the values that are column-major at no cost, and of the readers of column-major values."""
    free = {x for x in given if _is_free(x, outputs)}
    packed = {x for x in given if x not in free}
    members = {*given, *made}
    reading = {x for x in nodes if (x in made or _reduces(x) or x.op in BY_COLUMNS) and members.intersection(x.inputs)}
    return {**{x: _free(x) for x in free if x.op is not CROSS}, **{x: _reading(x, packed) for x in reading}}


def _free(x: Node) -> Made:
    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        first, other = (image[y] for y in x.inputs)
        if x.op is MATMUL:
            columns = graph.add(MATMUL, (_transposed(graph, other), _transposed(graph, first)))
        elif x.op is GET:
            key = (EVERYTHING, dict(x.params)["key"][0])
            columns = graph.add(GET, (_transposed(graph, first), other), (("key", key),))
        else:
            columns = graph.add(OUTER, (other, first))
        return Variable(graph, _transposed(graph, columns))

    return made


def _transposed(graph: Graph, x: Node) -> Node:
    return x.inputs[0] if x.op is TRANSPOSE else graph.add(TRANSPOSE, (x,), (("axes", (1, 0)),))


def _reading(x: Node, packed: Collection[Node]) -> Made:
    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        inputs = tuple([_by_columns(graph, image[y]) if y in packed else image[y] for y in x.inputs])
        if x.op is VECDOT:
            term = LETTERS[: x.inputs[0].aval.ndim]
            return EINSUM(*[Variable(graph, y) for y in inputs], subscripts=f"{term},{term}->{term[:-1]}")
        return Variable(graph, graph.add(x.op, inputs, x.params))

    return made


def _by_columns(graph: Graph, x: Node) -> Node:
    """Return a value copied into column-major order."""
    last = x.aval.ndim - 1
    packed = graph.add(COPY, (graph.add(TRANSPOSE, (x,), (("axes", (last, *range(last))),)),))
    return graph.add(TRANSPOSE, (packed,), (("axes", (*range(1, last + 1), 0)),))
