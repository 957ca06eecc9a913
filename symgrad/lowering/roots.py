"""Roots: the values of a program that get memory, grouped into nests of loops.

A value without memory is recomputed elementwise where it is read. A root has memory: it is a reduction, or would be
recomputed too often. Roots of one nest share its indices, and none of them reads another one as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from symgrad.analysis.cost import likely
from symgrad.analysis.uses import users_of
from symgrad.control.checks_first import makes_checks
from symgrad.core.counted_sizes import by_sizes, tellers as tellers_of
from symgrad.core.graph import CONSTANT, INPUT, ITEM, SIZE, Aval, Node, is_token, reached
from symgrad.core.region import Region, per_region
from symgrad.core.shapes import product, same_shape
from symgrad.core.sizes import Size, is_counted, same, symbols_of
from symgrad.lowering.elements import RULES
from symgrad.lowering.searches import SEARCHES
from symgrad.lowering.sorting import ORDERS
from symgrad.lowering.systems import SYSTEMS
from symgrad.ops.accumulate import CUMPROD, CUMSUM, MAXIMA, MINIMA, RECURRENCE
from symgrad.ops.arrange import ROLL
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.choice import CLIP, WHERE
from symgrad.ops.contract import MATMUL, TENSORDOT, VECDOT
from symgrad.ops.control import COND, SCAN
from symgrad.ops.control_parts import Branch, branch_of, loop_of
from symgrad.ops.diagonal import TRACE
from symgrad.ops.einsum import EINSUM
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.join import CONCATENATE, STACK
from symgrad.ops.marks import ALIAS, STOP
from symgrad.ops.norm import NORM
from symgrad.ops.parts import IMAG, REAL
from symgrad.ops.piecewise_constant import ROUND
from symgrad.ops.products import CROSS
from symgrad.ops.reduce import ALL, ANY, ARGMAX, ARGMIN, COUNT_NONZERO, MAX, MEAN, MIN, PROD, SUM
from symgrad.ops.shape import RESHAPE, TRANSPOSE

PLACES = frozenset((ARGMAX, ARGMIN))
RUNNING = {CUMSUM: np.add, CUMPROD: np.multiply, MAXIMA: np.maximum, MINIMA: np.minimum}
"""Cumulative operators, and their ufuncs."""
REDUCTIONS = frozenset((SUM, MEAN, PROD, MAX, MIN, ANY, ALL, COUNT_NONZERO, NORM))
CONTRACTIONS = frozenset((MATMUL, VECDOT, TENSORDOT, EINSUM))
STORED = REDUCTIONS | PLACES | CONTRACTIONS | {
    *SYSTEMS, TRACE, SET, ADD_AT, CONCATENATE, STACK, *RUNNING, RECURRENCE, *SEARCHES, *ORDERS, SCAN,
    COND, ITEM,
}  # fmt: skip
"""Operators of which results always have memory."""

GIVEN = frozenset((INPUT, CONSTANT, SIZE))
IN_PLANE = 4.0  # operations on real numbers for one on complex numbers: a product has as many products, and sums
AGAIN = 4.0  # operations from which on a number is stored rather than computed twice
MOST = 1e6
MANY = 16  # most rolls of a value that are tracked


LARGE = 7  # rows, columns and terms from which on BLAS multiplies matrices faster than loops


class Step(NamedTuple):
    """A nest of loops, or one operator by itself: the space of its indices and its roots."""

    level: int
    space: tuple[Size, ...] | None
    roots: list[Node]


class Roots:
    """The plan for some nodes: what has memory, and the steps in order."""

    def __init__(self, nodes: Sequence[Node], results: Sequence[Node]) -> None:
        self.nodes = [x for x in nodes if x.op not in GIVEN]
        self.uses = users_of(nodes)
        self.results = {y for y in results if y.op not in GIVEN}
        self.tellers = tellers = {symbol: x for symbol, x in tellers_of(nodes).items() if x in self.uses}
        self.told: dict[Node, list[str]] = {}  # number -> size symbols whose value it is, unknown before
        for symbol, x in tellers.items():
            if type(x.aval) is Aval:
                self.told.setdefault(x, []).append(symbol)
        self.rolls = self._rolls()
        self.cost: dict[Node, float] = {}
        self.stored: set[Node] = set()
        self.barriers: set[Node] = set()
        for node in self.nodes:
            self._decide(node)
        self.taker: dict[Node, Node] = {}  # value -> the node that overwrites it, after all others have read it
        self.successor: dict[Node, Node] = {}  # value -> the value that is then in its memory
        reads = self._find_takers()
        self.level: dict[Node, int] = {}
        latest = checked = 0  # the last level so far, and the one behind the last check
        for node in self.nodes:
            behind = (max(self._first(x), self.level.get(x, 0)) + 1 for x in reads.get(node, ()))
            ahead = checked if node.op is SCAN or node.op is COND else 0  # a check comes before a loop that may not end
            self.level[node] = max([self._first(node), ahead, *behind])
            if makes_checks(node):
                checked = self.level[node] + 1
            if is_last(node):
                self.level[node] = latest
            latest = max(latest, self._ready(node))
        self._keep_shared()

    def _first(self, node: Node) -> int:
        """Return the first level at which the operands and sizes of a value are ready."""
        tellers = [self.tellers[name] for name in _counted(node) if name in self.tellers]
        return max([self._ready(x) for x in (*node.inputs, *tellers) if x is not node], default=0)

    def _find_takers(self) -> dict[Node, list[Node]]:
        """Find the nodes that may overwrite an operand, and return for each the reads that must come before it.

        An assignment, a branch or a loop may, if the other readers are branches, loops, or reads of a few elements that
        can come before it.
        """
        place = {node: k for k, node in enumerate(self.nodes)}
        before: dict[Node, list[Node]] = {}
        for x, users in self.uses.items():
            takers = [y for y in users if may_take_over(y, x)]
            if len(takers) > 1:  # a branch only reads an operand that none of its results is
                takers = [y for y in takers if y.op is not COND or successor_of(y, x, self.uses[y])]
            if len(takers) != 1 or x in self.results:
                continue
            (taker,) = takers
            reads = [y for y in users if y is not taker]
            ahead = all(place.get(z, -1) < place[taker] for y in reads for z in (y.inputs if makes_few(y) else (y,)))
            end = successor_of(taker, x, self.uses[taker])
            if ahead and all(only_reads(y, x) for y in reads) and (end is not None or taker.op is SCAN):
                self.taker[x] = taker
                if end is not None:
                    self.successor[x] = end
                before.setdefault(taker, []).extend(reads)
        for y in (y for reads in before.values() for y in reads):
            self.stored.add(y)
            self.barriers.add(y)
            self.cost[y] = 0.0
        return before

    def end_of(self, x: Node) -> Node:
        """Return the last value in the memory of a value."""
        while x in self.successor:
            x = self.successor[x]
        return x

    def _ready(self, x: Node) -> int:
        """Return the first level at which a value is in memory, or may be computed."""
        return 0 if x not in self.level else self.level[x] + (x in self.barriers)

    def _decide(self, node: Node) -> None:
        users = self.uses[node]
        own = effort(node) + sum([self.cost.get(x, 0.0) for x in dict.fromkeys(node.inputs)])
        self.cost[node] = own = min(own, MOST)
        if node.op in STORED or type(node.aval) is not Aval or node in self.told:
            keep = True
        elif node.op is BARRIER and (node.inputs[0].op is INPUT or node.inputs[0] in self.barriers):
            keep = False  # it shares the memory of its input
        else:
            whole = any(needs_memory(y, node) or (own > 0 and self._is_turned(y)) for y in users)
            often = own >= 2 and any(repeats(y, x) for x, y in self._readers(node))
            shifted = own >= AGAIN and len(users) > 1 and any(not is_aligned(y, node) for y in users)
            shaped = own > 0 and any(y.op is RESHAPE and not has_only_ones_more(y) for y in users)
            rolled = own >= AGAIN and self._is_rolled(node)
            keep = whole or often or shifted or rolled or shaped
        if keep:
            self.stored.add(node)
            self.barriers.add(node)
            self.cost[node] = 0.0
        elif node in self.results:
            self.stored.add(node)

    def _rolls(self) -> dict[Node, frozenset[Node | None]]:
        """Return the rolls through which each value is read; None among them is a read at the same index."""
        found: dict[Node, frozenset[Node | None]] = {}
        for node in reversed(self.nodes):
            ways: set[Node | None] = {None} if node in self.results else set()
            for y in self.uses[node]:
                ways |= {y} if y.op is ROLL else found[y] if y in found and is_elementwise(y) else {None}
            found[node] = frozenset(ways if len(ways) <= MANY else {None})
        return found

    def _is_rolled(self, node: Node) -> bool:
        """Whether a value is read through several rolls, and no elementwise function of it through all of these."""
        users = self.uses[node]
        return len(self.rolls[node]) > 1 and not any(
            is_elementwise(y) and self.rolls.get(y) == self.rolls[node] for y in users
        )

    def _readers(self, node: Node) -> Iterator[tuple[Node, Node]]:
        """Yield the readers of a value, each with the view of it that it reads.

        Readers of its transposes and reshapes count, so that the value is stored in its own order rather than theirs.
        Those of a value of transposed operands do not: its transpose has the better order.
        """
        is_turned = any(x.op is TRANSPOSE and same_shape(x.aval.shape, node.aval.shape) for x in node.inputs)
        for y in self.uses[node]:
            if not is_turned and (y.op is TRANSPOSE or (y.op is RESHAPE and has_only_ones_more(y))):
                yield from self._readers(y)
            else:
                yield node, y

    def _is_turned(self, node: Node) -> bool:
        """Whether a value is a transpose that a product by BLAS reads in place."""
        return swaps_last(node) and any(y.op is MATMUL and is_for_blas(y) for y in self.uses[node])

    def _keep_shared(self) -> None:
        """Store values that several steps would recompute."""
        asked: dict[Node, set[object]] = {}
        for node in reversed(self.nodes):
            steps: set[object] = set()
            for y in self.uses[node]:
                if y in self.level:
                    steps |= {self._key(y)} if y in self.stored else asked[y]
            if node in self.results and node not in self.barriers:
                steps.add(self._key(node))
            asked[node] = steps
            if node not in self.stored and len(steps) > 1 and self.cost[node] >= AGAIN:
                self.stored.add(node)
                asked[node] = {self._key(node)}

    def _key(self, node: Node) -> object:
        space = space_of(node)
        return (self.level[node], node if space is None else tuple(map(str, space)))

    def steps(self) -> list[Step]:
        """Return the nests and operators in the order in which they run."""
        found: dict[object, Step] = {}
        for node in self.nodes:
            if node in self.stored and node.op is not ITEM and not is_token(node):
                found.setdefault(self._key(node), Step(self.level[node], space_of(node), [])).roots.append(node)
        return sorted(found.values(), key=lambda step: (step.level, step.roots[0].id))


def may_take_over(user: Node, x: Node) -> bool:
    """Whether an operator may overwrite an operand, itself or in its regions."""
    if type(x.aval) is not Aval or not x.aval.shape or user.inputs.count(x) != 1:
        return False
    if user.op is SCAN:
        return any(c.init is x for c in loop_of(user).carry)
    return user.inputs[0] is x if user.op in (SET, ADD_AT) else user.op is COND


def successor_of(taker: Node, x: Node, items: Sequence[Node]) -> Node | None:
    """Return the value that is in the memory of `x` after `taker` has overwritten it; None if there is none."""
    if taker.op is SCAN:
        index = next(i for i, c in enumerate(loop_of(taker).carry) if c.init is x)
    elif taker.op is COND:
        branch = branch_of(taker)
        index = next((i for i in range(len(taker.aval)) if _is_kept(branch, branch.operands.index(x), i)), -1)
    else:
        return taker
    return next((item for item in items if dict(item.params)["index"] == index), None)


def _is_kept(branch: Branch, operand: int, result: int) -> bool:
    """Whether a result of a branch is an operand on both sides, unchanged or updated in place."""
    return all(becomes(side, operand, result) for side in (branch.then, branch.other))


def becomes(region: Region, operand: int, result: int) -> bool:
    """Whether a result is an operand, unchanged or updated in place by assignments."""
    graph = region.body
    x, y = graph.inputs[operand], graph.outputs[result]
    if x is y:
        return True
    if x in graph.outputs or graph.outputs.count(y) > 1:
        return False
    return _roots_of(region).end_of(x) is y


@per_region
def _roots_of(region: Region) -> Roots:
    """Return the plan for a side of a branch, computed once for all loops and branches around it."""
    return Roots(by_sizes(reached(region.body.outputs)), region.body.outputs)


def only_reads(user: Node, x: Node) -> bool:
    """Whether no result of an operator aliases an array: of a branch, a loop, or a read of a few elements."""
    if user.op is COND:
        return True
    if user.op is SCAN:
        return all(c.init is not x for c in loop_of(user).carry)
    if user.op is not GET or user.inputs[0] is not x or user.inputs.count(x) > 1 or _counted(user):
        return False
    return not user.aval.shape or 4 * likely(product(user.aval.shape)) <= likely(product(x.aval.shape))


def makes_few(user: Node) -> bool:
    """Whether an operator makes no arrays by a loop or a branch: it may come as soon as its operands are ready."""
    results: Sequence[Aval] = user.aval if user.op in (COND, SCAN) else ()  # type: ignore[assignment]
    return not any(aval.shape for aval in results)


def is_last(node: Node) -> bool:
    """Whether a node comes after all older nodes, to reuse their memory: the barrier of an opened checkpoint."""
    return node.op is BARRIER and bool(dict(node.params).get("opened"))


def _counted(node: Node) -> set[str]:
    """Return the symbols in the shape of a value that are unknown before the program runs."""
    shape = node.aval.shape if type(node.aval) is Aval else ()
    return {name for n in shape if is_counted(n) for name in symbols_of(n)}


def effort(node: Node) -> float:
    """Estimate the operations for one element of a value, without those of its inputs."""
    if node.op in (CROSS, ROUND):
        return 3.0 if node.op is CROSS else 1.0
    if node.op in RULES and node.op not in (WHERE, CLIP):
        return 0.0
    if not node.op.elementwise:
        return 0.0
    operations = max(1.0, 4 * node.op.nanoseconds)
    is_complex = any(x.aval.dtype.kind == "c" for x in node.inputs)
    return IN_PLANE * operations if is_complex else operations


def space_of(node: Node) -> tuple[Size, ...] | None:
    """Return the sizes of the indices of a root's nest; None if it cannot share a nest."""
    if node.op in REDUCTIONS:
        return tuple(node.inputs[0].aval.shape)
    if node.op in STORED or type(node.aval) is not Aval:
        return None
    return tuple(node.aval.shape)


def needs_memory(user: Node, x: Node) -> bool:
    """Whether an operator reads a value at unknown indices, or as a whole."""
    if user.op is SCAN:
        loop = loop_of(user)
        return any(x is y.source for y in (*loop.xs, *loop.consts)) and bool(x.aval.shape)
    if user.op is COND:
        return x in user.inputs[1:] and bool(x.aval.shape)
    if user.op is GET:
        return len(user.inputs) > 1 and user.inputs[0] is x and bool(x.aval.shape)
    if user.op in SEARCHES:
        return any(user.inputs[k] is x for k in SEARCHES[user.op])
    return (user.op in CONTRACTIONS and effort(x) > 0) or user.op in RUNNING or user.op is RECURRENCE


def is_for_blas(node: Node) -> bool:
    """Whether an operator is a product of matrices large enough for BLAS.

    A product of a matrix with its own transpose is left to NumPy, which has BLAS compute half of it.
    """
    if sums_rows(node):
        a, b = (x.aval.shape for x in node.inputs)
        return node.inputs[0] is not node.inputs[1] and min(map(likely, (product(a[:-1]), a[-1], b[-1]))) >= LARGE
    if node.op is not MATMUL or node.aval.dtype.kind not in "fc" or any(x.aval.ndim < 2 for x in node.inputs):
        return False
    a, b = (x.aval.shape for x in node.inputs)
    alike = {_untransposed(x) for x in node.inputs}
    return len(alike) > 1 and min(likely(n) for n in (*a[-2:], b[-1])) >= LARGE


def sums_rows(node: Node) -> bool:
    """Whether a value is a sum over all rows of outer products: ``einsum("nri,nrj->ij")``."""
    if node.op is not EINSUM or len(node.inputs) != 2 or node.aval.dtype.kind not in "fc":
        return False
    terms, out = str(dict(node.params)["subscripts"]).split("->")
    a, b = terms.split(",")
    rows = a[:-1]
    alike = [same(m, n) for m, n in zip(*(x.aval.shape[:-1] for x in node.inputs), strict=False)]
    return bool(rows) and b[:-1] == rows and out == a[-1] + b[-1] and all(alike)


def swaps_last(x: Node) -> bool:
    """Whether a value is a transpose of the last two axes, which BLAS reads in place."""
    last = x.aval.ndim - 1 if x.op is TRANSPOSE else 0
    return last > 0 and dict(x.params)["axes"] == (*range(last - 1), last, last - 1)


def _untransposed(x: Node) -> Node:
    return x.inputs[0] if x.op is TRANSPOSE else x


def repeats(user: Node, x: Node) -> bool:
    """Whether an operator reads an element of a value for several elements of its result."""
    if user.op in CONTRACTIONS or user.op is CROSS:
        return True
    if type(user.aval) is not Aval or user.op in REDUCTIONS or user.op in (SET, ADD_AT, CONCATENATE, STACK, COND, SCAN):
        return False
    return not is_aligned(user, x) and _is_more(user.aval, x.aval)


def _is_more(y: Aval, x: Aval) -> bool:
    return likely(product(y.shape)) > likely(product(x.shape)) or len(y.shape) > len(x.shape)


def is_aligned(user: Node, x: Node) -> bool:
    """Whether an operator reads each element of a value at the index of its result only."""
    if user.op in REDUCTIONS:
        return True
    moves = not is_elementwise(user) and user.op not in (SET, ADD_AT)
    return not moves and type(user.aval) is Aval and same_shape(user.aval.shape, x.aval.shape)


def is_elementwise(node: Node) -> bool:
    """Whether each element of a value depends only on elements with its index."""
    return node.op.elementwise or node.op in (WHERE, CLIP, ALIAS, STOP, ROUND, REAL, IMAG)


def has_only_ones_more(reshape: Node) -> bool:
    """Whether a reshape only adds or drops axes of length 1."""
    old, new = (tuple(n for n in x.aval.shape if not same(n, 1)) for x in (reshape.inputs[0], reshape))
    return same_shape(old, new)
