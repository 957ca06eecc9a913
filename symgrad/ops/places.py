"""Loop indices as sizes: a slice that is bounded by the index has a size that depends on it."""

import operator
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np

from symgrad.core.graph import CONSTANT, ITEM, SEED, SIZE, Aval, reached
from symgrad.core.shapes import slice_indices
from symgrad.core.sizes import Dim, at_most, in_side, largest, same, smallest
from symgrad.core.text import identifier, not_called
from symgrad.ops.astype import ASTYPE
from symgrad.ops.choice import CLIP, MAXIMUM, MINIMUM, WHERE
from symgrad.ops.control import COND, EITHER, NUMBER
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import ABSOLUTE, ADD, MULTIPLY, NEGATIVE, POWER, SUBTRACT
from symgrad.ops.known import sizes_in
from symgrad.ops.operands import is_traced

EXACT = {
    ADD: operator.add, SUBTRACT: operator.sub, MULTIPLY: operator.mul, NEGATIVE: operator.neg,
    TABLE[np.floor_divide]: operator.floordiv, TABLE[np.remainder]: operator.mod, MAXIMUM: largest, MINIMUM: smallest,
    NUMBER: lambda size: size, ASTYPE: lambda size: size, ABSOLUTE: abs,
    CLIP: lambda size, low, high: smallest(largest(size, low), high),
    POWER: lambda size, exponent: size**exponent if isinstance(exponent, int) and exponent >= 0 else None,
}  # fmt: skip
"""Operators on integers, and the functions that do the same on sizes."""

EXTREMES = {
    np.greater: (largest, smallest), np.greater_equal: (largest, smallest),
    np.less: (smallest, largest), np.less_equal: (smallest, largest),
}  # fmt: skip
"""By its comparison, ``then if a > b else other`` where ``then - other`` is ``a - b``, and where it is ``b - a``."""

COMPARED = {
    np.greater: operator.gt, np.greater_equal: operator.ge, np.less: operator.lt, np.less_equal: operator.le,
    np.equal: operator.eq, np.not_equal: operator.ne,
}  # fmt: skip
"""The comparison of sizes that a comparison of traced integers is."""

MARGINS = {
    np.greater_equal: lambda a, b: [a - b], np.less_equal: lambda a, b: [b - a],
    np.greater: lambda a, b: [a - b - 1], np.less: lambda a, b: [b - a - 1],
    np.equal: lambda a, b: [a - b, b - a], np.not_equal: lambda a, b: _apart(a, b),
}  # fmt: skip
"""By comparison, what is at least 0 where two sizes compare so."""

OPPOSITE = {
    np.greater_equal: np.less, np.less: np.greater_equal, np.greater: np.less_equal, np.less_equal: np.greater,
    np.equal: np.not_equal, np.not_equal: np.equal,
}  # fmt: skip

CONJUNCTIONS, DISJUNCTIONS = (np.logical_and, np.bitwise_and), (np.logical_or, np.bitwise_or)

UNNAMED = "t"  # the name of an index to which the user gives none


class LoopIndex:
    """The index of one loop, which becomes a size once a slice is bounded by it."""

    def __init__(self, graph, length, exact=False, name=None):
        self.graph = graph
        self._length, self.exact = length, exact  # the most iterations, -1 for no bound; or their number
        self.size = None if name is None else graph.sizes.written_place(name)
        self.is_first = False  # whether the iteration that is being traced is the first one, of index 0
        self.asks_first = False  # whether tracing the first one by itself may tell what the others read
        self.inner = set()  # the names of indices of loops in an iteration
        self.seed = None  # what stands for it in the iteration that is being traced, or was the last one

    def begin(self, aval):
        """Begin an iteration and return the stand-in for its index."""
        graph, before = self.graph, self.seed
        self.seed = graph.seed(aval)
        if before in graph.names:
            graph.label(self.seed, graph.names[before])
        graph.indices[self.seed] = self
        graph.nest.append(self)
        self.inner.clear()
        return self.seed

    def end(self):
        """End the iteration, also one given up, and those of loops inside it that are not over."""
        nest = self.graph.nest
        del nest[nest.index(self) :]

    @property
    def length(self):
        """Return the largest number of iterations as a size; None where it is unknown."""
        length = self._length
        if not isinstance(length, (int, Dim)):
            length = _size_of(self.graph, length.node)
        return None if isinstance(length, int) and length < 0 else length

    @property
    def iterations(self):
        """Return the number of iterations, if it is known."""
        return self.length if self.exact else None

    def here(self):
        """Return the index as a size: the same one in all iterations that are traced."""
        if self.is_first:
            return 0
        if self.size is None:
            name = self.graph.names.get(self.seed)
            name = not_called(identifier(name)) if isinstance(name, str) else UNNAMED
            others = {outer.name for outer in self.graph.nest} | self.inner
            self.size = self.graph.sizes.place(name, self.length, others - {None})
        for outer in self.graph.nest:
            if outer is not self:
                outer.inner.add(self.name)
        return self.size

    @property
    def name(self):
        """Return the name of the index as a size; None where it is none."""
        return None if self.size is None else str(self.size)


class Side:
    """The side of a branch that is being traced: a boolean that holds there, or does not."""

    def __init__(self, test, holds):
        self.test, self.holds = test, holds
        self.indices = test.graph.indices.keys() & {*reached([test.node])}

    def within(self, around):
        """Return the number of this side for the symbols of sizes, in a side with this number."""
        return _side_where(self.test.graph, self.test.node, self.holds, around)


@contextmanager
def in_side_of(test, holds):
    """Trace a side of a branch: what its test says of loop indices is known of the slices that they bound."""
    graph, before = test.graph, test.graph.sides
    graph.sides = (*before, Side(test, holds))
    try:
        yield
    finally:
        graph.sides = before


def side_here(graph, enough=any):
    """Return the number of the side that is being traced, by tests of which `enough` indices are sizes."""
    number = 0
    for side in graph.sides:
        if side.indices and enough(graph.indices[x].size is not None for x in side.indices):
            number = side.within(number)
    return number


def _side_where(graph, test, holds, around):
    """Return the number of the side in which a boolean holds, or does not, within another side."""
    test = bare(test)
    if test.op is TABLE[np.logical_not]:
        return _side_where(graph, test.inputs[0], not holds, around)
    if any(test.op is TABLE[each] for each in (CONJUNCTIONS if holds else DISJUNCTIONS)):
        for x in (*test.inputs, *test.inputs[:-1]):  # one may tell more where the others hold
            around = _side_where(graph, x, holds, around)
        return around
    for x, is_so in _choice(test, holds):
        around = _side_where(graph, x, is_so, around)
    comparison = next((each for each in MARGINS if TABLE[each] is test.op), None)
    if comparison is None:
        return around
    comparison = comparison if holds else OPPOSITE[comparison]
    a, b = [in_side(_size_of(graph, x), around) for x in test.inputs]
    if a is None or b is None:
        return around
    around = graph.sizes.side(MARGINS[comparison](a, b), around)
    return graph.sizes.side(_of_multiple(graph, test.inputs, around), around) if comparison is np.equal else around


def _choice(test, holds):
    """Return which booleans hold, or do not, where a chosen one does and one of its sides has the opposite."""
    pred, sides = None, []
    if test.op is WHERE:
        pred, *sides = test.inputs
    elif test.op is ITEM and test.inputs[0].op is COND:
        (pred, *operands), branch = test.inputs[0].inputs, dict(test.inputs[0].params)
        if operands == [*branch["then"].parameters]:
            sides = [branch[side].results[dict(test.params)["index"]] for side in ("then", "other")]
    known = [known_on_side(x, pred, taken) for x, taken in zip(sides, (True, False), strict=False)]
    opposite = [value is not None and value is not holds for value in known]
    return [(pred, opposite[1]), (sides[opposite[0]], holds)] if any(opposite) else []


def known_on_side(x, pred, taken):
    """Return the number of a boolean on a side of a branch: of a constant, and of the predicate itself."""
    x = bare(x)
    return taken if x is bare(pred) else bool(x.constant) if x.op is CONSTANT else None


def bare(x):
    """Return the boolean that another one is in another form."""
    while x.op in (EITHER, NUMBER, ASTYPE) and x.inputs[0].aval.dtype == bool:
        (x,) = x.inputs
    return x


def _apart(a, b):
    """Return what is at least 0 where a size is not another, which it is never below, or never above."""
    for x, y in ((a, b), (b, a)):
        if at_most(y, x):
            return [x - y - 1]
    return []


def _of_multiple(graph, inputs, side):
    """Return what is at least 0 where a remainder is 0: a multiple that is at least 1 is at least the divisor."""
    remainder, zero = inputs
    if remainder.op is not TABLE[np.remainder] or zero.op is not CONSTANT or zero.constant != 0:
        return []
    a, b = [in_side(_size_of(graph, x), side) for x in remainder.inputs]
    return [] if a is None or b is None or not (at_most(1, a) and at_most(1, b)) else [a - b]


def size_by_index(x):
    """Return the size of a traced integer computed from loop indices; None where it is none.

    It has the symbols of the side of a branch where that tells that it is not below 0.
    """
    size = _plain_size(x)
    if not isinstance(size, Dim) or not x.graph.sides or at_most(0, size):
        return size
    here = in_side(size, side_here(x.graph))
    return here if at_most(0, here) else size


def _plain_size(x):
    """Return the size of a traced integer outside of all branches; None where it is none."""
    graph = x.graph
    if not graph.indices or x.node.aval.shape or x.node.aval.dtype.kind not in "iu":
        return None
    return None if graph.indices.keys().isdisjoint(reached([x.node])) else _size_of(graph, x.node)


def bounds_by_index(start, stop, step, length):
    """Return traced bounds of a slice as sizes, and others as they are.

    They have the symbols of the side of a branch that is being traced where that tells more of the extent.
    """
    found = [_plain_size(x) if is_traced(x) else None for x in (start, stop)]
    plain = [x if size is None else size for size, x in zip(found, (start, stop), strict=True)]
    graph = next((x.graph for x in (start, stop) if is_traced(x)), None)
    side = side_here(graph) if graph is not None and graph.sides and any(isinstance(x, Dim) for x in found) else 0
    here = [in_side(x, side) for x in plain]
    if not side or not _have_signs(here):
        return plain
    if not _have_signs(plain):
        return here
    extent, extent_here = [str(slice_indices(length, *bounds, step)[3]) for bounds in (plain, here)]
    return plain if extent == extent_here else here


def _have_signs(bounds):
    """Whether it is known of each bound whether it counts from the end."""
    return all(not isinstance(x, Dim) or at_most(0, x) or at_most(x, -1) for x in bounds)


def decided_by_index(test):
    """Whether a boolean holds in all iterations, or in none, as indices or a constant part of it say; None if not.

    That is asked only where the indices are sizes already: a loop whose index is a size is another program.
    """
    return _decided(test.graph, test.node)


def _decided(graph, node):
    node = bare(node)
    if node.aval != Aval((), np.dtype(bool)) and node.op is not CONSTANT:
        return None
    if node.op is TABLE[np.logical_not]:
        found = _decided(graph, node.inputs[0])
        return None if found is None else not found
    for connectives, decisive in ((CONJUNCTIONS, False), (DISJUNCTIONS, True)):
        if any(node.op is TABLE[each] for each in connectives):
            found = [_decided(graph, x) for x in node.inputs]
            return decisive if decisive in found else None if None in found else not decisive
    if node.op is CONSTANT:
        return None if node.aval.shape else bool(node.constant)
    return _compared(graph, node)


def _compared(graph, node):
    """Whether a comparison holds in all iterations, or in none."""
    compare = next((compare for ufunc, compare in COMPARED.items() if node.op is TABLE[ufunc]), None)
    indices = [graph.indices[x] for x in reached([node]) if x in graph.indices] if compare else []
    if not indices or not all(index.is_first or index.size is not None for index in indices):
        return None
    side = side_here(graph, all)
    a, b = (in_side(_size_of(graph, x), side) for x in node.inputs)
    if a is None or b is None:
        return None
    difference = a - b
    return difference.scope.decide_counted(compare, difference.expr) if isinstance(difference, Dim) else compare(a, b)


def _size_of(graph, node, given=MappingProxyType({})):
    """Return the size that a node is; `given` are those of the parameters of a branch."""
    if node in given:
        return given[node]
    if node.op is SEED:
        index = graph.indices.get(node)
        return None if index is None else index.here()
    if node.op is SIZE:
        return dict(node.params)["value"]
    if node.op is CONSTANT:
        return int(node.constant) if node.aval.dtype.kind in "iu" and not node.aval.shape else None
    if node.op is WHERE:
        condition, then, other = node.inputs
        return _chosen(graph, condition, _size_of(graph, then, given), _size_of(graph, other, given), given)
    if node.op is ITEM and node.inputs[0].op is COND:
        (condition, *operands), sides = node.inputs[0].inputs, dict(node.inputs[0].params)
        sizes = [_size_of(graph, x, given) for x in operands]
        then, other = (_of_branch(graph, sides[side], dict(node.params)["index"], sizes) for side in ("then", "other"))
        return _chosen(graph, condition, then, other, given)
    calculate = EXACT.get(node.op) if type(node.aval) is Aval and node.aval.dtype == np.int64 else None
    sizes = [_size_of(graph, x, given) for x in node.inputs] if calculate else [None]
    return calculate(*sizes) if all(size is not None for size in sizes) else None


def _chosen(graph, condition, then, other, given):
    """Return the larger or the smaller of two sizes, where a comparison chooses as `max` or `min` would."""
    if condition.op is CONSTANT:
        return then if condition.constant else other
    ways = next((ways for comparison, ways in EXTREMES.items() if condition.op is TABLE[comparison]), ())
    a, b = [_size_of(graph, x, given) for x in condition.inputs] if ways else (None, None)
    if any(size is None for size in (a, b, then, other)):
        return None
    gaps = zip(ways, (a - b, b - a), strict=True)
    return next((extreme(then, other) for extreme, gap in gaps if same(then - other, gap)), None)


def _of_branch(graph, branch, i, operands):
    """Return the size that a result of a branch is, by the sizes of its operands."""
    return _size_of(graph, branch.results[i], dict(zip(branch.parameters, operands, strict=True)))


def is_bounded_by_index(node):
    """Whether the index of a loop is a size in the parameters of a node, as in the key of a slice."""
    return any(not size.multiple and size.scope.places_in(size.expr) for size in sizes_in(node.params))
