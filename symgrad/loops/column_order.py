"""Arrays of few columns kept in column-major order, outside of blocks: ``x.T.copy().T``, which is ``x`` in another
order.

NumPy starts an inner loop for each row where rows of three numbers meet one row, or a number each, and where each is
summed. Results lie in memory as operands do; so one copy of what comes in makes all loops long that follow. In blocks
of rows, buffers lie so already.
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
PAIRED = 4  # numbers of a row from which on two at a time are added under an index

GAIN = 2
"""Ratio of saved time to the cost of copies that is required: a longer program reads worse."""

REDUCTIONS = frozenset({SUM, MEAN, MAX, MIN, VAR})
BY_COLUMNS = frozenset({EINSUM, CROSS})
"""Operators that read operands in the order of their columns, too."""


class Narrow(NamedTuple):
    """Arrays of few columns that are computed from each other."""

    given: list[Node]  # what comes in, which is to be kept by columns
    made: list[Node]  # what is computed of it, and lies as it does


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


# ---- what belongs together


def _is_narrow(x: Node) -> bool:
    """Whether a value has rows of few numbers, more than one of them, and these are no rows of small matrices."""
    shape = x.aval.shape if type(x.aval) is Aval else ()
    if len(shape) < 2 or type(shape[-1]) is not int or not 1 < shape[-1] < SHORT:
        return False
    return likely_numbers(x) > shape[-1] and not (len(shape) > 2 and 1 < likely(shape[-2]) < SHORT)


def _carried(node: Node) -> list[Node]:
    """The narrow inputs whose columns are columns of the result: it lies in memory as they do."""
    if not _is_narrow(node):
        return []
    narrow = [x for x in node.inputs if _is_narrow(x)]
    carries = node.op.elementwise or (narrow and _keeps_columns(node))
    return narrow if carries else []


def _keeps_columns(node: Node) -> bool:
    """Whether rows are added, or some of the rows and columns are read where they are."""
    if node.op in REDUCTIONS:
        return node.inputs[0].aval.ndim - 1 not in reduced_axes(node)
    return node.op is GET and len(node.inputs) == 1 and isinstance(dict(node.params)["key"][-1], Slice)


def _groups(nodes: Sequence[Node]) -> list[Narrow]:
    """Values together of which one is computed of another."""
    leader: dict[Node, Node] = {}

    def find(x: Node) -> Node:
        while (y := leader.setdefault(x, x)) is not x:
            leader[x] = x = leader[y]
        return x

    carried = {node: xs for node in nodes if (xs := _carried(node))}
    for node, xs in carried.items():
        for x in xs:
            leader[find(x)] = find(node)
    found: dict[Node, Narrow] = {}
    for node in nodes:
        if node in leader:
            group = found.setdefault(find(node), Narrow([], []))
            (group.made if node in carried else group.given).append(node)
    return list(found.values())


# ---- what it saves


def _saved(groups: Sequence[Narrow], nodes: Sequence[Node], outputs: Sequence[Node]) -> list[float]:
    """Return the seconds that long inner loops save for each value, less the cost of copies."""
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
    """Seconds by which an operation is slower that reads a value by columns, or what reads its result."""
    if node.op is MATMUL or (node.op is ADD_AT and x.aval.shape[-1] < PAIRED):
        return 0.0
    if node.op is EINSUM:  # of operands in several orders
        return costs.COPIED * likely_numbers(node) * (likely_numbers(node) > likely_numbers(x))
    return costs.COPIED * likely_numbers(x) * (node.op is not CROSS)


def _reduces(node: Node) -> bool:
    """Whether an operation sums narrow arrays row by row, or adds their rows."""
    if node.op is VECDOT:
        x, y = node.inputs
        return _is_narrow(x) and same_shape(x.aval.shape, y.aval.shape)
    if node.op is EINSUM:
        return all(_is_narrow(x) and likely_numbers(node) < likely_numbers(x) for x in node.inputs)
    if node.op not in REDUCTIONS or not _is_narrow(node.inputs[0]):
        return False
    return len(reduced_axes(node)) < node.inputs[0].aval.ndim


def _short_loops(node: Node) -> float:
    """Seconds in which an operation starts an inner loop for each row."""
    if _reduces(node):
        x = node.inputs[0]
        return REDUCING.get(node.op, costs.REDUCING_LOOP) * likely_numbers(x) / x.aval.shape[-1]
    if not node.op.elementwise or not _is_narrow(node):
        return 0.0
    if all(not x.aval.shape or same_shape(x.aval.shape, node.aval.shape) for x in node.inputs):
        return 0.0
    return costs.ALIGNED_LOOP * likely_numbers(node) / node.aval.shape[-1]


# ---- the program with columns


def _is_free(x: Node, outputs: Collection[Node]) -> bool:
    """Whether a value is as fast made by columns; callers get theirs in the order of C."""
    if x in outputs:
        return False
    return x.op is OUTER or _is_product(x) or _is_gathered(x) or (x.op is CROSS and crosses_columns(x))


def _is_product(x: Node) -> bool:
    """BLAS makes products of matrices in any order."""
    return x.op is MATMUL and all(y.aval.ndim == 2 for y in x.inputs)


def _is_gathered(x: Node) -> bool:
    """Whether rows of a table that is no larger are gathered, which are so short that columns are no slower."""
    if x.op is not GET or len(x.inputs) != 2 or taken_axis(dict(x.params)["key"]) != 0:
        return False
    table = x.inputs[0]
    if not x.aval.ndim == table.aval.ndim == 2 or x.aval.shape[1] >= GATHERED:
        return False
    return likely_numbers(table) <= likely_numbers(x)


def _instead(
    nodes: Sequence[Node], outputs: Collection[Node], given: Collection[Node], made: Collection[Node]
) -> dict[Node, Made]:
    """Return the makers of nodes that change: values that are column-major for free, and readers of such values."""
    free = {x for x in given if _is_free(x, outputs)}
    packed = {x for x in given if x not in free}
    members = {*given, *made}
    reading = {x for x in nodes if (x in made or _reduces(x) or x.op in BY_COLUMNS) and members.intersection(x.inputs)}
    return {**{x: _free(x) for x in free if x.op is not CROSS}, **{x: _reading(x, packed) for x in reading}}


def _free(x: Node) -> Made:
    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        first, other = (image[y] for y in x.inputs)
        if x.op is MATMUL:
            columns = graph.add(MATMUL, (_turned(graph, other), _turned(graph, first)))
        elif x.op is GET:
            key = (EVERYTHING, dict(x.params)["key"][0])
            columns = graph.add(GET, (_turned(graph, first), other), (("key", key),))
        else:
            columns = graph.add(OUTER, (other, first))
        return Variable(graph, _turned(graph, columns))

    return made


def _turned(graph: Graph, x: Node) -> Node:
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
    """The same numbers, those of a column beside each other in memory."""
    last = x.aval.ndim - 1
    packed = graph.add(COPY, (graph.add(TRANSPOSE, (x,), (("axes", (last, *range(last))),)),))
    return graph.add(TRANSPOSE, (packed,), (("axes", (*range(1, last + 1), 0)),))
