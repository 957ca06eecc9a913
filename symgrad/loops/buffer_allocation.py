"""Buffer allocation: values of a block are kept in few buffers that fit the cache, laid out for the inner loops."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from symgrad.analysis.aliases import roots_of, stays_in_place
from symgrad.analysis.cost import likely
from symgrad.analysis.liveness import last_users
from symgrad.analysis.memory_profile import nbytes
from symgrad.analysis.uses import users_of
from symgrad.core.graph import INPUT, ITEM, Aval, Graph, Node, is_view
from symgrad.core.shapes import product, same_shape
from symgrad.core.sizes import Shape, Size, is_rows
from symgrad.loops.axes import Axis, axes_of
from symgrad.loops.iterations import owners_of_loop_operands, values_of_iterations
from symgrad.loops.row_access import WRITE_ROWS
from symgrad.ops.contract import MATMUL
from symgrad.ops.create import EMPTY, FULL
from symgrad.ops.elementwise import NEGATIVE
from symgrad.ops.index import ADD_AT, GET
from symgrad.ops.index_expressions import EVERYTHING, indexed_shape

SHORT = 32  # length below which an axis is too short to be the inner loop of NumPy's kernels
GATHERED = 8  # numbers of a row from which on gathered rows are better left in the order of their table
AGAINST = 4  # operations on such rows in another order that lose as much as one operation gains by long inner loops
LONG = 256  # length from which on an axis makes as good an inner loop as any
LOOP = 128  # bytes that are copied in the time that a short inner loop takes to start
MINOR = 64  # a value so many times smaller than the largest needs no buffer


class Buffer(NamedTuple):
    """Memory for values of a block: `shape` without the rows, whose axis is inserted at position `at`.

    `order` is the permutation from the axes (rows, *shape) to those of a value; empty where there is none.
    """

    shape: tuple[Size, ...]
    at: int
    dtype: np.dtype
    order: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """Return the axis of the rows in a value that the buffer holds."""
        return self.order.index(0) if self.order else 0

    @property
    def is_plain(self) -> bool:
        """Whether values lie in row-major order, so that consecutive rows are contiguous memory."""
        return self.at == 0 and not self.order


@dataclass
class Layout:
    """The memory of the values of a block.

    `destinations` maps new arrays that are filled piece by piece to the results of the loop whose memory they use.
    `packed_whole` maps inputs that every block reads whole to the order of axes in which they are copied before the
    loop.
    """

    buffers: list[Buffer] = field(default_factory=list)
    streamed: list[Node] = field(default_factory=list)  # inputs and results, read and written where they are
    assignments: dict[Node, int] = field(default_factory=dict)  # value -> the number of its buffer
    destinations: dict[Node, Node] = field(default_factory=dict)
    halo: int = 0  # the number of rows of neighbouring blocks that buffers hold
    packed_whole: dict[Node, tuple[int, ...]] = field(default_factory=dict)
    columns: frozenset[Node] = frozenset()  # column-major results
    unassigned: list[Buffer] = field(default_factory=list)  # memory that NumPy allocates in loops over iterations

    @cached_property
    def row_bytes(self) -> Size:
        """Return the bytes that a row of a block takes in the cache."""
        streamed = [_buffer_like(x) for x in self.streamed if has_rows(x)]
        return nbytes_of_rows([*self.buffers, *streamed, *self.unassigned])


def row_axis(node: Node) -> int | None:
    """Return the axis of the rows in a value of a block."""
    for i, n in enumerate(node.aval.shape if type(node.aval) is Aval else ()):
        if is_rows(n):
            return i
    return None


def has_rows(node: Node) -> bool:
    return row_axis(node) is not None


def length_of(node: Node) -> int:
    """Return the number that stands for the number of rows of a value."""
    return next(n for n in node.aval.shape if isinstance(n, int) and is_rows(n))


def takes_out(node: Node) -> bool:
    """Whether NumPy can write a value into existing memory, by `out=`."""
    return node.op.out or isinstance(node.op.evaluate, np.ufunc)


def laid_out(graph: Graph, direct: Collection[Node], halo: int = 0, by_columns: Iterable[Node] = ()) -> Layout:
    """Return the layout of the body of a loop.

    Parameters
    ----------
    graph : Graph
        The body.
    direct : collection of Node
        Outputs whose rows are rows of a result of the loop; they can be written where the result lies.
    halo : int
        The most rows that a block has of a value beyond its own.
    by_columns : iterable of Node
        Outputs that may be column-major, since all their readers go by columns.
    """
    order = Order(graph)
    users = users_of(graph.nodes)
    destinations = {x: y for y in direct if (x := _destination(y, users, graph.outputs)) is not None}
    kept = {*graph.outputs, *graph.names}  # a named value is a line of the program
    straight = {x for x in graph.nodes if x not in kept and _is_put_straight(x, users)}
    wanted = _wanted(graph, order, users) - destinations.keys() - straight - owners_of_loop_operands(graph)
    columns = frozenset(by_columns if order.rows_last else ()) - destinations.keys()
    allocation = Allocation(graph.nodes, order.kind)
    for node in graph.nodes:
        in_place = node in columns or (node in direct and order.is_plain(node))
        allocation.visit(node, node in wanted and not in_place)
    streamed, held = [*graph.inputs, *direct], [_buffer_like(x) for x in values_of_iterations(graph) if has_rows(x)]
    return Layout(
        allocation.buffers, streamed, allocation.assignments, destinations, halo, order.packed_whole, columns, held
    )  # fmt: skip


# ---- arrays that are filled piece by piece


def is_new(node: Node) -> bool:
    """Whether a value is a new array that pieces are put into."""
    return node.op in (FULL, EMPTY)


def _destination(node: Node, users: dict[Node, list[Node]], outputs: Collection[Node]) -> Node | None:
    """Return the new array that a result is, if the result was made by nothing but assignments into it."""
    if node.op is not WRITE_ROWS:
        return None
    while node.op is WRITE_ROWS:
        node = node.inputs[0]
        if len(users[node]) != 1 or node in outputs:
            return None
    return node if is_new(node) else None


def _is_put_straight(node: Node, users: dict[Node, list[Node]]) -> bool:
    """Whether the only use of a value is an assignment into rows, where NumPy can compute it in place."""
    if len(users[node]) != 1:
        return False
    (put,) = users[node]
    if put.op not in (WRITE_ROWS, ADD_AT) or put.inputs[1] is not node or put.inputs[0] is node:
        return False
    if put.op is ADD_AT or dict(put.params)["adds"]:
        return node.op is NEGATIVE and (put.op is WRITE_ROWS or len(put.inputs) == 2)  # it is subtracted instead
    return goes_straight(put, node)


def goes_straight(put: Node, value: Node) -> bool:
    """Whether NumPy can compute a value right in the rows that it is assigned to."""
    if dict(put.params)["adds"] or not (value.op.elementwise and isinstance(value.op.evaluate, np.ufunc)):
        return False
    return row_axis(value) is not None and _fills(put) and put.aval.dtype == value.aval.dtype


def fills_rows(put: Node) -> bool:
    """Whether an assignment sets whole rows, rather than parts of rows, and adds to none."""
    params = dict(put.params)
    others = [item for i, item in enumerate(params["key"]) if i != params["place"]]
    return not params["adds"] and all(item == EVERYTHING for item in others)


def _fills(put: Node) -> bool:
    """Whether an assignment to rows does not broadcast its value."""
    params = dict(put.params)
    shape = indexed_shape(put.aval.shape, params["key"], ())
    axis, place = row_axis(put.inputs[1]), params["place"]
    sizes = [n for i, n in enumerate(shape) if i != place]
    others = [n for i, n in enumerate(put.inputs[1].aval.shape) if i != axis]
    return axis == place and same_shape(tuple(sizes), tuple(others))


def nbytes_of_row(node: Node) -> int:
    axis, aval = row_axis(node), node.aval
    return 0 if axis is None else likely(math.prod(_others(aval.shape, axis))) * aval.dtype.itemsize


def nbytes_added(node: Node) -> int:
    """Estimate the bytes that a block reads and writes to add its part of a sum; 0 for a value with rows."""
    return 3 * likely(nbytes(node.aval)) if row_axis(node) is None else 0


def _others(shape: tuple[Size, ...], axis: int) -> tuple[Size, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _wanted(graph: Graph, order: Order, users: dict[Node, list[Node]]) -> set[Node]:
    """Return the values that get a buffer: those that NumPy can write there, and that are large or packed."""
    filled = {x for x in graph.nodes if is_new(x) and any(y.op is WRITE_ROWS for y in users[x])}
    able = [x for x in graph.nodes if has_rows(x) and (takes_out(x) or x in filled or order.is_packed(x))]
    sizes = {x: nbytes_of_row(x) for x in able}
    largest = max(sizes.values(), default=0)
    return {x for x in able if sizes[x] * MINOR >= largest or order.is_packed(x)}


class Order:
    """The memory order of the axes of a block's values.

    Batch axes of products of matrices come first, and the others follow in NumPy's order. Where the last of these is so
    short that it makes a slow inner loop, a long axis comes last, or the rows if no axis is long.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._arrays = [x for x in graph.nodes if type(x.aval) is Aval]
        products = [x for x in self._arrays if x.op is MATMUL and x.aval.ndim > 2]
        self._repeated = _repeated(graph, products)
        self._stacked = any(row_axis(x) not in (None, x.aval.ndim - 2, x.aval.ndim - 1) for x in products)
        self._long_last = self._has_long_outside_of_short()
        self.rows_last = not self._stacked and self._mostly_short()
        outside = lambda x: row_axis(x) not in (None, x.aval.ndim - 1)
        self._packed = self._inputs_read(outside) if self.rows_last else set()
        whole = self._inputs_read(self._has_long_outside) if self._long_last and not self.rows_last else ()
        self.packed_whole = {x: self.of(x) for x in whole}

    def of(self, node: Node) -> tuple[int, ...]:
        """Return the axes of a value other than that of the rows, in memory order from the outermost."""
        row = row_axis(node)
        others = [i for i in range(node.aval.ndim) if i != row]
        if self._long_last:
            others.sort(key=lambda i: likely(node.aval.shape[i]) >= LONG)
        return tuple(sorted(others, key=lambda i: not self._is_repeated(node, i)))

    def place(self, node: Node) -> int:
        """Return how many axes lie outside of the rows."""
        others, row = self.of(node), row_axis(node)
        if self.rows_last or row is None:
            return len(others)
        return sum(i < row or (not self._stacked and self._is_repeated(node, i)) for i in others)

    def is_plain(self, node: Node) -> bool:
        """Whether a value lies in row-major order."""
        others = list(self.of(node))
        return others == sorted(others) and row_axis(node) == self.place(node)

    def kind(self, node: Node) -> Buffer:
        """Return the kind of buffer that a value needs."""
        others, row = self.of(node), row_axis(node)
        assert row is not None
        axes = (row, *others)
        shape = tuple([node.aval.shape[i] for i in others])
        order = () if axes == tuple(range(len(axes))) else tuple([axes.index(i) for i in range(len(axes))])
        return Buffer(shape, self.place(node), node.aval.dtype, order)

    def is_packed(self, node: Node) -> bool:
        """Whether a block of an input is copied in this order first."""
        return node in self._packed

    def _is_repeated(self, node: Node, i: int) -> bool:
        return any(axis.places.get(node) == i for axis in self._repeated)

    def _has_long_outside_of_short(self) -> bool:
        """Whether values of a block have a long axis outside of a short last one, and no input of the block has."""
        values = [x for x in self._arrays if x.aval.ndim > 2 and row_axis(x) is not None and not is_view(x)]
        others = {x: [n for n in x.aval.shape if not is_rows(n)] for x in values}
        found = {x.op is INPUT for x, sizes in others.items() if _is_long_outside_of_short(sizes)}
        return found == {False}

    def _mostly_short(self) -> bool:
        """Whether most values have short rows, and short inner loops take longer than copies to this order and back."""
        short = long = copied = 0
        for node in self._arrays:
            if row_axis(node) is None or node.aval.ndim < 2 or is_view(node):
                continue
            last, size = likely(node.aval.shape[self.of(node)[-1]]), nbytes_of_row(node)
            if node.op is GET and last >= GATHERED:
                long += AGAINST * size
            elif node.op is not INPUT:
                short, long = (short + size, long) if last < SHORT else (short, long + size)
            if node.op is INPUT or node in self._graph.outputs:
                copied += size
        return short > long and LOOP * sum(map(_short_loops, self._arrays)) > copied

    def _has_long_outside(self, node: Node) -> bool:
        """Whether a value that every block reads whole has a long axis outside of a short last one."""
        others = self.of(node)
        return row_axis(node) is None and list(others) != sorted(others)

    def _inputs_read(self, matters: Callable[[Node], bool]) -> set[Node]:
        """Return the inputs that operations other than products read, also through views, in an order that matters."""
        seen: set[Node] = set()
        for node in reversed(self._arrays):
            if node.op not in (INPUT, ITEM, MATMUL) and (not is_view(node) or node in seen):
                seen.update(filter(matters, node.inputs))
        return {x for x in self._graph.inputs if x in seen and x.aval.dtype != bool}  # np.positive takes numbers


def _is_long_outside_of_short(sizes: Sequence[Size]) -> bool:
    return likely(sizes[-1]) < SHORT and max(map(likely, sizes)) >= LONG


def _short_loops(node: Node) -> float:
    """Estimate the number of short inner loops of an operation for a row: one if all operands have one memory order."""
    if is_view(node) or node.op is MATMUL or node.op is ITEM:
        return 0.0
    largest = max((node, *node.inputs), key=nbytes_of_row)
    others = [n for n in largest.aval.shape if not is_rows(n)]
    last = likely(others[-1]) if others else SHORT
    alike = all(same_shape(_without_rows(x), _without_rows(largest)) for x in (node, *node.inputs) if x.aval.shape)
    return 0.0 if alike or last >= SHORT else likely(math.prod(others)) / max(last, 1)


def _without_rows(node: Node) -> Shape:
    """Return the shape without the axis of the rows."""
    return tuple(-1 if is_rows(n) else n for n in node.aval.shape)


def _repeated(graph: Graph, products: Sequence[Node]) -> list[Axis]:
    """Return the batch axes of products of matrices, other than the rows."""
    if not products:
        return []
    axes = [axis for axis in axes_of(graph.nodes) if not is_rows(axis.size)]
    return [axis for axis in axes if any(axis.places.get(x, x.aval.ndim) < x.aval.ndim - 2 for x in products)]


class Allocation:
    """Assigns buffers to values in order of creation; a buffer is free after the last use of its value.

    `kind` says which buffer a value needs.
    """

    def __init__(self, nodes: Sequence[Node], kind: Callable[[Node], Buffer]) -> None:
        self._kind = kind
        self.buffers: list[Buffer] = []
        self.assignments: dict[Node, int] = {}
        self._free: dict[Buffer, list[int]] = {}
        self._roots = roots_of(nodes, stays_in_place)
        self._last = last_users(nodes, self._roots)

    def visit(self, node: Node, wants: bool) -> None:
        if wants:
            taken = self._overwritten(node)
            self.assignments[node] = self._settled(node) if taken is None else taken
        kept = self.assignments[node] if wants else None
        for x in dict.fromkeys(self._roots[x] for x in (node, *node.inputs)):
            if self._last[x] is node and x in self.assignments and (x is node or self.assignments[x] != kept):
                number = self.assignments[x]
                self._free[self.buffers[number]].append(number)

    def _settled(self, node: Node) -> int:
        buffer = self._kind(node)
        free = self._free.setdefault(buffer, [])
        if not free:
            free.append(len(self.buffers))
            self.buffers.append(buffer)
        return free.pop()

    def _overwritten(self, node: Node) -> int | None:
        """Return the buffer of an operand without later uses, if an elementwise result can overwrite it."""
        if not node.op.elementwise or node.op.slow_in_place:
            return None
        for x in dict.fromkeys(node.inputs):
            taken = self.assignments.get(x)
            alone = all(y is x or self._roots[y] is not x for y in node.inputs)
            fits = same_shape(x.aval.shape, node.aval.shape) and x.aval.dtype == node.aval.dtype
            if taken is None or not (alone and fits and self._last[x] is node):
                continue
            if self.buffers[taken].order == self._kind(node).order:
                return taken
        return None


def _buffer_like(node: Node) -> Buffer:
    axis = row_axis(node)
    assert axis is not None
    return Buffer(_others(node.aval.shape, axis), 0, node.aval.dtype)


def nbytes_of_rows(buffers: Iterable[Buffer]) -> Size:
    """Return the bytes that a row takes in all buffers."""
    times = Counter((buffer.shape, buffer.dtype) for buffer in buffers)
    return sum((product(shape) * (dtype.itemsize * n) for (shape, dtype), n in times.items()), 0)
