"""Loop indices as sizes: a slice that is bounded by the index has a size that depends on it."""

import operator
from types import MappingProxyType

import numpy as np

from symgrad.core.graph import CONSTANT, ITEM, SEED, SIZE, reached
from symgrad.core.sizes import Dim, largest, same, smallest
from symgrad.core.text import identifier, not_called
from symgrad.ops.astype import ASTYPE
from symgrad.ops.choice import CLIP, MAXIMUM, MINIMUM, WHERE
from symgrad.ops.control import COND, NUMBER
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import ABSOLUTE, ADD, MULTIPLY, NEGATIVE, POWER, SUBTRACT
from symgrad.ops.known import sizes_in

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

UNNAMED = "t"  # the name of an index to which the user gives none


class LoopIndex:
    """The index of one loop, which becomes a size once a slice is bounded by it."""

    def __init__(self, graph, length, exact=False):
        self.graph = graph
        self._length, self.exact = length, exact  # the most iterations, -1 for no bound; or their number
        self.size = None
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


def size_by_index(x):
    """Return the size of a traced integer computed from loop indices; None where it is none."""
    if not x.graph.indices or x.node.aval.shape or x.node.aval.dtype.kind not in "iu":
        return None
    if x.graph.indices.keys().isdisjoint(reached([x.node])):
        return None
    return _size_of(x.graph, x.node)


def decided_by_index(test):
    """Whether a comparison with indices holds in all iterations, or in none; None where that differs.

    That is asked only where the indices are sizes already: a loop whose index is a size is another program.
    """
    graph = test.graph
    compare = next((compare for ufunc, compare in COMPARED.items() if test.node.op is TABLE[ufunc]), None)
    if compare is None or not graph.indices:
        return None
    indices = [graph.indices[x] for x in reached([test.node]) if x in graph.indices]
    if not indices or not all(index.is_first or index.size is not None for index in indices):
        return None
    a, b = (_size_of(graph, x) for x in test.node.inputs)
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
    calculate = EXACT.get(node.op) if node.aval.dtype == np.int64 else None
    sizes = [_size_of(graph, x, given) for x in node.inputs] if calculate else [None]
    return calculate(*sizes) if all(size is not None for size in sizes) else None


def _chosen(graph, condition, then, other, given):
    """Return the larger or the smaller of two sizes, where a comparison chooses as `max` or `min` would."""
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
