"""Lowering of a graph to statements for C: nests of loops over the indices of values, in order of dependence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np

from symgrad.core.counted_sizes import by_sizes
from symgrad.core.graph import CONSTANT, SIZE, Aval, Graph, Node, Op, is_token, reached, without_tokens
from symgrad.core.region import with_nested
from symgrad.core.shapes import product
from symgrad.core.sizes import Size, at_most, same, symbols_of
from symgrad.errors import GraphError
from symgrad.lowering.contraction_order import labels_of, order_of, sizes_of
from symgrad.lowering.copies import with_copies
from symgrad.lowering.elements import (
    RULES,
    At,
    diagonal,
    elementwise,
    flat,
    operands_at,
    reshaped,
    sequence_of,
    source_index,
    stretched,
    stretched_to,
)
from symgrad.lowering.expressions import (
    NOTHING,
    ONE,
    TRUTH,
    WHOLE,
    ZERO,
    Apply,
    Choose,
    Expr,
    Extent,
    Load,
    Local,
    Number,
    Whole,
    converted,
    extent,
    largest_bits,
    minus,
    neutral,
    plus,
    times,
)
from symgrad.lowering.fusion import fused
from symgrad.lowering.loops import write_branch, write_loop
from symgrad.lowering.names import numbered_in_order
from symgrad.lowering.program import Called, Program
from symgrad.lowering.ragged import has_ragged_rows, lengths_of
from symgrad.lowering.recurrences import write_recurrence
from symgrad.lowering.roots import (
    CONTRACTIONS,
    PLACES,
    REDUCTIONS,
    RUNNING,
    Roots,
    Step,
    is_for_blas,
    sums_rows,
    swaps_last,
)
from symgrad.lowering.searches import SEARCHES, write_search
from symgrad.lowering.sorting import ORDERS, is_order_of, write_order
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Check,
    Declare,
    Exact,
    Factor,
    For,
    Function,
    Grow,
    If,
    Multiply,
    Remark,
    Require,
    Statement,
)
from symgrad.lowering.systems import SYSTEMS, write_system
from symgrad.lowering.tiles import with_tiles
from symgrad.lowering.verify import REPORT, verify
from symgrad.lowering.windows import Value, Window
from symgrad.ops.accumulate import RECURRENCE
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.checks import CHECK
from symgrad.ops.control import COND, SCAN, own_sizes
from symgrad.ops.create import EMPTY
from symgrad.ops.define import TABLE
from symgrad.ops.diagonal import DIAGONAL, TRACE
from symgrad.ops.index import ADD_AT, SET
from symgrad.ops.index_expressions import indexed_shape
from symgrad.ops.join import CONCATENATE, STACK
from symgrad.ops.norm import NORM
from symgrad.ops.parts import IMAG, REAL
from symgrad.ops.reduce import ALL, ANY, ARGMAX, COUNT_NONZERO, MAX, MEAN, MIN, PROD
from symgrad.ops.shape import RESHAPE

ADD, MULTIPLY, DIVIDE, SQRT = (cast(Op, TABLE[f]) for f in (np.add, np.multiply, np.divide, np.sqrt))
UNEQUAL = cast(Op, TABLE[np.not_equal])
GREATER, LESS, EQUAL, ISNAN = (cast(Op, TABLE[f]) for f in (np.greater, np.less, np.equal, np.isnan))
AND, OR = (cast(Op, TABLE[f]) for f in (np.logical_and, np.logical_or))
COMBINE = {PROD: np.multiply, MAX: np.maximum, MIN: np.minimum, ANY: np.logical_or, ALL: np.logical_and}
LONGEST = 12  # operations in an expression
SINGLE = 128  # terms that are added up in single precision: NumPy adds so many one after the other, too
Finish = Callable[[Expr], Expr]


class Matrices(NamedTuple):
    """The matrices of a factor in memory: how many along each axis, and whether their columns lie there as rows."""

    window: Window
    stack: Sequence[Size]
    turned: bool


class Nest:
    """A nest of loops under construction.

    ``levels[k]`` are the statements within k loops, before the next one starts; ``after[k]`` those after it has ended.
    """

    def __init__(self, indices: Sequence[Local], at: At, before: list[Statement]) -> None:
        self.indices, self.at = indices, at
        self.levels: list[list[Statement]] = [before, *([] for _ in indices)]
        self.after: list[list[Statement]] = [[] for _ in range(len(indices) + 1)]
        self.sums: list[tuple[Local, np.ufunc]] = []  # what the innermost loop adds to
        self.found: dict[tuple[Node, At], Expr] = {}
        self.then: list[Callable[[], None]] = []  # writes what stands behind it

    def depth(self, x: Expr) -> int:
        """Return how many loops an expression must stand in: the depth of the innermost index that it depends on."""
        return max([k for k, i in enumerate(self.indices, start=1) if i.name in x.names], default=0)


def lower(
    graph: Graph,
    name: str,
    called: Called,
    sizes: Sequence[str] = (),
    reserved: Collection[str] = (),
    has_blas: bool = False,
    vectorises: Callable[[Op], bool] = lambda op: True,
    alone: bool = False,
) -> Function:
    """Return the statements of a graph.

    Inputs are buffers, or locals where they are numbers; results are written into buffers of the caller's. Products of
    large matrices are left to BLAS where a target has it. `vectorises` says for which operators compilers use vectors.
    A function that runs `alone`, without NumPy, ends with an error where a matrix is singular.
    """
    nodes = list(with_nested(graph.live))
    counted = sorted(own_sizes(nodes))
    program = Program(called, sizes, [*sizes, *counted, *reserved], has_blas, alone, lengths_of(nodes))
    given: dict[Node, Value] = {}
    parameters: list[Buffer | Local] = []
    for k, x in enumerate(graph.inputs):
        name_of_x = program.names.fresh(called(graph, x) or f"x{k}")
        if x.aval.shape:
            buffer = Buffer(name_of_x, x.aval.dtype, tuple(x.aval.shape), "given")
            given[x] = Window(buffer)
            parameters.append(buffer)
        else:
            given[x] = local = Local(name_of_x, x.aval.dtype)
            parameters.append(local)
    outputs = without_tokens(graph.outputs)
    results = [
        Buffer(program.names.fresh(f"{called(graph, y) or 'result'}_out"), y.aval.dtype, tuple(y.aval.shape), "result")
        for y in outputs
    ]
    places: dict[Node, Window] = {}
    for y, buffer in zip(outputs, results, strict=True):
        places.setdefault(y, Window(buffer))
    body: list[Statement] = []
    if alone:  # nothing tests the sizes before a call
        shapes = [x.inputs[0].aval.shape for x in nodes if x.op in (MAX, MIN) or x.op in PLACES]
        symbols = sorted({name for shape in shapes for n in shape for name in symbols_of(n)} & {*sizes})
        body += [Require(ZERO, Extent(name), reduces=True) for name in symbols]
    part = Part(program, graph, given, places, body)
    part.write()
    for y, buffer in zip(outputs, results, strict=True):
        part.put(y, Window(buffer))
    written = Function(name, parameters, sizes, results, program.buffers, body)
    function = numbered_in_order(with_copies(with_tiles(fused(written, vectorises))), program.names)
    verify(function)  # C would read what nothing has written without a word
    return function


class Part:
    """Writes the statements for some values: of a whole program, of the body of a loop, or of a side of a branch."""

    def __init__(
        self,
        program: Program,
        graph: Graph,
        given: Mapping[Node, Value],
        places: Mapping[Node, Window],
        body: list[Statement],
    ) -> None:
        self.program, self.graph, self.body, self.places = program, graph, body, places
        self.nodes = by_sizes(reached(graph.outputs))
        self.values: dict[Node, Value] = dict(given)
        self.roots = Roots(self.nodes, graph.outputs)
        self.nest = Nest((), (), body)
        self.fresh: set[Node] = set()  # values in memory that this part has begun
        self.declared: set[str] = set()  # size symbols that have their value here, from this part or from one around it
        self.deferred: set[Node] = set()  # assignments that are written behind all else
        self.quoted: tuple[Any, ...] | None = None

    def write(self) -> None:
        for node in self.nodes:
            if node.op is CONSTANT and node.aval.shape and sequence_of(node) is None:
                buffer = self.program.buffer("c", node.aval, "constant", node.constant)
                self.values[node] = Window(buffer)
        for node in self.nodes:
            if node in self.values:
                self.tell(node)
        for step in self.roots.steps():
            if self.deferred.isdisjoint(step.roots):
                self._step(step)
            for node in step.roots:
                self.tell(node)

    def tell(self, node: Node) -> None:
        """Declare the size symbols whose value a node is, such as a number of iterations that only running tells."""
        for symbol in self.roots.told.get(node, ()):
            number = converted(self.pull(node, ()), ZERO.dtype)
            self.declare(symbol, Choose(Whole("<", number, ZERO), ZERO, number))

    def declare(self, symbol: str, value: Expr) -> None:
        """Declare a size symbol, unless it has its value already: a branch may loop as often as a loop ahead of it."""
        if symbol not in self.declared:
            self.declared.add(symbol)
            self.body.append(Declare(Local(symbol), value))

    def _step(self, step: Step) -> None:
        node = step.roots[0]
        self.quote(node)
        if step.space is not None:
            self._write_nest(step)
        elif self.program.has_blas and is_for_blas(node) and not has_ragged_rows(node):
            self._multiply(node)
        elif node.op in CONTRACTIONS:
            self._contract(node)
        elif node.op is SET or node.op is ADD_AT:
            self._assign(node)
        elif node.op is CONCATENATE or node.op is STACK:
            self._join(node)
        elif node.op in RUNNING:
            self._accumulate(node)
        elif node.op is RECURRENCE:
            write_recurrence(self, node)
        elif node.op in PLACES:
            self._place(node)
        elif node.op in SEARCHES:
            write_search(self, node)
        elif node.op in ORDERS:
            write_order(self, node)
        elif node.op is TRACE:
            self._trace(node)
        elif node.op in SYSTEMS:
            write_system(self, node)
        elif node.op is SCAN:
            write_loop(self, node)
        elif node.op is COND:
            write_branch(self, node)
        elif node.op is CHECK:
            self.body.append(Check(self.pull(node.inputs[1], ())))
        else:
            raise GraphError(f"{node!r} has no statements", REPORT)

    def quote(self, node: Node) -> None:
        """Name the user's line above the statements that come from a value."""
        where = node.where
        kind = "" if where.of is None else "derivative of "
        if where.line and (where.file, where.line, kind) != self.quoted:
            self.quoted = (where.file, where.line, kind)
            self.body.append(Remark(where, kind))

    def called(self, node: Node) -> str | None:
        """Return what the user calls a value."""
        return self.program.called(self.graph, node)

    # ---- numbers of values

    def pull(self, node: Node, at: At) -> Expr:
        """Return one element of a value as an expression; what is needed to compute it is declared in the nest."""
        value = self.values.get(node)
        if isinstance(value, Window):
            return value.load(at)
        if value is not None:
            return value
        if node.op is CONSTANT and node.aval.shape:
            first, step = cast(tuple[int, int], sequence_of(node))
            far = times(at[0], Number(abs(step)))
            return converted((plus if step > 0 else minus)(Number(first), far), node.aval.dtype)
        if node.op is CONSTANT:
            return Number(np.asarray(node.constant).item(), node.aval.dtype)
        if node.op is SIZE:
            return extent(node.params[0][1])
        if is_token(node):
            return NOTHING
        if (node, at) not in self.nest.found:
            for x, place in self._open(node, at):
                self.nest.found[x, place] = self._shared(x, self._computed(x, place))
        return self.nest.found[node, at]

    def _open(self, node: Node, at: At) -> list[tuple[Node, At]]:
        """Return the numbers to be computed for one, operands first: a recursion would be as deep as the program."""
        order: dict[tuple[Node, At], None] = {}
        begun: set[tuple[Node, At]] = set()
        waiting = [(node, at)]
        while waiting:
            key = waiting.pop()
            x = key[0]
            if key in order or key in self.nest.found or x in self.values or x.op in (CONSTANT, SIZE):
                continue
            if key in begun:
                order[key] = None
            else:
                begun.add(key)
                waiting += [key, *reversed(operands_at(*key))]
        return [*order]

    def inside(self, indices: Node | None, index: Expr, size: Size) -> Expr:
        """Return an index into an axis with a negative one wrapped around; the program ends if it is out of bounds.

        `indices` is the array that the index was read from, if any.
        """
        index = converted(index, ZERO.dtype)
        if isinstance(index, Number):
            if not at_most(needed := _needed(index.value), size):
                self.nest.levels[0].append(Require(Number(needed - 1), extent(size)))
            return plus(extent(size), index) if index.value < 0 else index
        if self._is_within(indices, size):
            return index
        return self._wrapped(index if self.program.bounds.is_known(index) else self._named(indices, index), size)

    def _wrapped(self, index: Expr, size: Size) -> Expr:
        """Return an index with a negative one wrapped around, behind the checks that it needs.

        It gets a name if it is read more than once for that.
        """
        bounds, n = self.program.bounds, extent(size)
        is_natural, is_negative = bounds.at_least(index, ZERO), bounds.at_least(Number(-1), index)
        is_low = not is_natural and not bounds.at_least(index, minus(ZERO, n))
        is_high = not is_negative and not bounds.at_least(minus(n, ONE), index)
        is_checked = is_low or is_high
        if (is_checked or not (is_natural or is_negative)) and not isinstance(index, Local):
            index = self._named(None, index)
        if is_checked:
            self.nest.levels[self.nest.depth(index)].append(Require(index, n, low=is_low, high=is_high))
        behind = plus(index, n)
        if is_natural or is_negative:
            return index if is_natural else behind
        return self._declared("at", Choose(Whole("<", index, ZERO), behind, index))

    def held(self, x: Expr) -> Expr:
        """Return one side of a choice; under a name if it reads memory, so that it is read in any case."""
        return self._named(None, x) if any(isinstance(part, Load) for part in x.parts()) else x

    def once(self, x: Expr) -> Expr:
        """Name an integer that takes a division, outside of all loops in which it stays the same."""
        return self._named(None, x) if isinstance(x, Extent) and "%" in x.text else x

    def exact(self, node: Node, symbol: str, a: Expr, b: Expr) -> Expr:
        """Return the result of ``+ - *`` of Python's integers; the program ends where it does not fit into 64 bits."""
        x = Whole(symbol, a, b)
        if largest_bits(x, self.program.bounds) < 64:
            return {"+": plus, "-": minus, "*": times}[symbol](a, b)
        local = Local(self.program.names.fresh(self.called(node) or "t"), x.dtype, x.names)
        self.nest.levels[self.nest.depth(x)].append(Exact(local, x))
        self.program.bounds.define(local, x, fits=True)
        return local

    def _is_within(self, indices: Node | None, size: Size) -> bool:
        """Whether indices are an order of so many numbers, or constants of at least zero and less than a size."""
        if indices is not None and is_order_of(indices, size):
            return True
        if indices is None or indices.op is not CONSTANT or not isinstance(size, int):
            return False
        return bool(np.all((indices.constant >= 0) & (indices.constant < size)))

    def _computed(self, node: Node, at: At) -> Expr:
        rule = RULES.get(node.op) or elementwise
        return rule(node, at, self)

    def _shared(self, node: Node, x: Expr) -> Expr:
        """Give a number a name if it is read more than once, or is long."""
        if isinstance(x, Number | Local | Load | Whole):
            return x
        few = len(self.roots.uses.get(node, ())) < 2
        return x if few and sum(1 for _ in x.parts()) < LONGEST else self._named(node, x)

    def _named(self, node: Node | None, x: Expr) -> Local:
        return self._declared((node and self.called(node)) or "t", x)

    def _declared(self, hint: str, x: Expr) -> Local:
        local = Local(self.program.names.fresh(hint), x.dtype, x.names)
        self.nest.levels[self.nest.depth(x)].append(Declare(local, x))
        if x.dtype in (WHOLE, TRUTH):
            self.program.bounds.define(local, x)
        return local

    # ---- memory

    def allocate(self, hint: str, aval: Aval) -> Window:
        """Return memory for a value: in the workspace if its size is known when the program starts, else a buffer
        that grows.
        """
        window = self.program.window(hint, aval)
        if window.buffer.kind == "growing":
            self.body.append(Grow(window.buffer, extent(aval.shape[0])))
        return window

    def owned(self, x: Node, taker: Node) -> Window | None:
        """Return the window of a value whose memory an operator may overwrite; None if something else reads it."""
        value = self.values.get(x)
        alone = x in self.fresh and self.roots.taker.get(x) is taker
        return value if alone and isinstance(value, Window) else None

    def begin(self, node: Node) -> Window:
        """Return the memory for a new value: that of the result or the carry that it becomes, or memory of its own."""
        self.fresh.add(node)
        place = self.places.get(self.roots.end_of(node))
        if place is None:
            place = self.allocate(self.called(node) or "t", node.aval)
        return place

    def window(self, node: Node) -> Window:
        """Return where a value lies, which is put into memory if it has none."""
        x = node
        while x.op is BARRIER and x not in self.values:
            x = x.inputs[0]
        value = self.values.get(x)
        if not isinstance(value, Window):
            value = self.allocate(self.called(node) or "t", node.aval)
            self.put(node, value)
            self.values[node] = value
        return value

    def put(self, node: Node, target: Window) -> None:
        """Write a value into memory, unless it lies there."""
        value = self.values.get(node)
        if value == target:
            return
        if isinstance(value, Window) and value.buffer.dtype == node.aval.dtype:
            self.copy(value, target, node.aval.shape)
            return
        x, shape = node, node.aval.shape
        if x.op is RESHAPE and len(x.inputs[0].aval.shape) > len(shape):  # no index is divided in loops over all axes
            x = x.inputs[0]
        with self.nested(x.aval.shape) as nest:
            number = converted(self.pull(x, nest.at), target.buffer.dtype)
            at = nest.at if x is node else reshaped(x.aval.shape, shape, nest.at)
            nest.levels[-1].append(target.store(at, number))

    def copy(self, source: Window, target: Window, shape: Sequence[Size]) -> None:
        """Copy a value of this shape, in loops that may be fused with others."""
        with self.nested(self.program.extents(shape)) as nest:
            nest.levels[-1].append(target.store(nest.at, source.load(nest.at)))

    # ---- nests

    @contextmanager
    def nested(self, sizes: Sequence[Size]) -> Iterator[Nest]:
        """Write a nest of loops over indices of these sizes."""
        letters = self.program.letters()
        at: list[Expr] = [ZERO if same(n, 1) else Local(next(letters)) for n in sizes]
        indices = [i for i in at if isinstance(i, Local)]
        stops = [n for n in sizes if not same(n, 1)]
        outer, self.nest = self.nest, Nest(indices, tuple(at), self.body)
        try:
            with self.program.bounds.nested([(i, extent(n)) for i, n in zip(indices, stops, strict=True)]):
                yield self.nest
        finally:
            nest, self.nest = self.nest, outer
        inner = [*nest.levels[-1], *nest.after[-1]]
        for k in range(len(indices) - 1, -1, -1):
            loop = For(indices[k], extent(stops[k]), inner)
            if k == len(indices) - 1:
                loop.sums = nest.sums
            inner = [*(nest.levels[k] if k else ()), loop, *nest.after[k]]
        self.body += inner if indices else nest.after[0]
        for write in nest.then:
            write()

    def _write_nest(self, step: Step) -> None:
        """Write roots that run over the same indices."""
        assert step.space is not None
        targets = {node: self.begin(node) for node in step.roots if node.op not in REDUCTIONS and node.aval.shape}
        done: dict[Node, Value] = {}
        with self.nested(step.space) as nest:
            for node in step.roots:
                if node.op in REDUCTIONS:
                    done[node] = self._reduce(node, nest)
                    continue
                x = self._computed(node, nest.at)
                if node not in targets or self.roots.uses[node]:
                    x = x if isinstance(x, Number | Local) else self._named(node, x)
                    nest.found[node, nest.at] = x
                if node in targets:
                    target = done[node] = targets[node]
                    nest.levels[-1].append(target.store(nest.at, x))
                else:
                    done[node] = x
        self.values |= done

    # ---- sums

    def _reduce(self, node: Node, nest: Nest) -> Value:
        """Combine the numbers of an array along some axes, in the nest over all of them."""
        params = dict(node.params)
        (x,), axis = node.inputs, params.get("axis")
        axes = (
            range(x.aval.ndim)
            if axis is None
            else [i % x.aval.ndim for i in (axis if isinstance(axis, tuple) else (axis,))]
        )
        dtype = node.aval.dtype
        number = self.pull(x, nest.at)
        if node.op is not NORM:
            number = converted(_truth(number) if node.op is COUNT_NONZERO else number, dtype)
        if node.op in (MAX, MIN):
            self._require_numbers(node, axes, nest)
        kept = [i for k, i in enumerate(nest.at) if k not in axes]
        combine = COMBINE.get(node.op, np.add)
        whole = product([n for k, n in enumerate(x.aval.shape) if k in axes])
        finish: Finish | None = None
        if node.op is MEAN:
            finish = lambda total: Apply(DIVIDE, (total, converted(extent(whole), dtype)), dtype)
        elif node.op is NORM:
            number, finish = _squared(number, dtype), lambda total: Apply(SQRT, (total,), dtype)
        at = tuple([ZERO if k in axes else i for k, i in enumerate(nest.at) if k not in axes or params.get("keepdims")])
        if combine is np.add:
            number = converted(number, dtype_of_sums(dtype, whole))
        return self._combined(node, nest, number, [i for i in kept if isinstance(i, Local)], at, combine, finish)

    def _place(self, node: Node) -> None:
        """Find where along an axis, or among all numbers, the first one is that is NaN, or else the extreme."""
        (x,), params, shape = node.inputs, {**node.op.defaults, **dict(node.params)}, node.inputs[0].aval.shape
        axes = [*range(len(shape))] if params["axis"] is None else [params["axis"] % len(shape)]
        order = [*(k for k in range(len(shape)) if k not in axes), *axes]
        is_better, combine = (GREATER, np.maximum) if node.op is ARGMAX else (LESS, np.minimum)
        target = self.begin(node) if node.aval.shape else None
        with self.nested([shape[k] for k in order]) as nest:
            at = tuple([nest.at[order.index(k)] for k in range(len(shape))])
            self._require_numbers(node, axes, nest)
            kept = frozenset(i.name for k, i in enumerate(at) if k not in axes and isinstance(i, Local))
            pulled = self.pull(x, at)
            number = pulled if isinstance(pulled, Number | Local) else self._named(None, pulled)
            before, after = nest.levels[len(kept)], nest.after[len(kept)]
            best = Local(self.program.names.fresh("best"), number.dtype, kept)
            place = Local(self.program.names.fresh(self.called(node) or "place"), ZERO.dtype, kept)
            before += [Declare(best, neutral(combine, best.dtype), mutable=True), Declare(place, ZERO, mutable=True)]
            test: Expr = Apply(is_better, (number, best), TRUTH)
            if number.dtype.kind == "f":
                is_first = Apply(AND, (Apply(ISNAN, (number,), TRUTH), Apply(EQUAL, (best, best), TRUTH)), TRUTH)
                test = Apply(OR, (test, is_first), TRUTH)
            index = flat(tuple([at[k] for k in axes]), [shape[k] for k in axes])
            nest.levels[-1].append(If(test, [Assign(best, number), Assign(place, index)]))
            if target is not None:
                at = tuple([ZERO if k in axes else i for k, i in enumerate(at) if k not in axes or params["keepdims"]])
                after.append(target.store(at, place))
        self.values[node] = target or place

    def _require_numbers(self, node: Node, axes: Collection[int], nest: Nest) -> None:
        """End the program where an extreme of no numbers is asked for, as NumPy does."""
        shape = node.inputs[0].aval.shape
        whole, others = (product([n for k, n in enumerate(shape) if (k in axes) == inside]) for inside in (True, False))
        if at_most(1, whole):
            return
        check = Require(ZERO, extent(whole), reduces=True)
        nest.levels[0].append(check if at_most(1, others) else If(Whole("<", ZERO, extent(others)), [check]))

    def _combined(
        self,
        node: Node,
        nest: Nest,
        number: Expr,
        kept: Sequence[Local],
        at: At,
        combine: np.ufunc,
        finish: Finish | None,
        turned: Sequence[int] | None = None,
    ) -> Value:
        """Combine numbers over the indices of a nest but those that are `kept`, under which results lie.

        `finish` makes the result of what all of them are in the end. Until then sums have the axes of the result in
        another order, if they are `turned`.
        """
        result = node.aval.dtype
        dtype, first = number.dtype, len(kept)
        start = neutral(combine, dtype)
        if list(nest.indices[:first]) == list(kept):
            accumulators = []
            for k in range(first, max(len(nest.indices), first + 1)):
                local = Local(self.program.names.fresh(self.called(node) or "total"), dtype)
                local = Local(local.name, dtype, frozenset((local.name, *(i.name for i in nest.indices[:k]))))
                nest.levels[k].append(Declare(local, start, mutable=True))
                accumulators.append(local)
            for k, (outer, inner) in enumerate(pairwise(accumulators), start=first + 1):
                nest.after[k].insert(0, Assign(outer, inner, combine))
            if len(nest.indices) > first:
                nest.sums.append((accumulators[-1], combine))
            nest.levels[-1].append(Assign(accumulators[-1], number, combine))
            total = converted(accumulators[0], result)
            total = total if finish is None else finish(total)
            if not node.aval.shape:
                if total is not accumulators[0]:
                    scaled = Local(self.program.names.fresh(self.called(node) or "total"), result)
                    nest.after[0].append(Declare(scaled, total))
                    total = scaled
                return total
            target = self.begin(node)
            nest.after[first].append(target.store(at, total))
            return target
        return self._combined_in_memory(node, nest, number, at, combine, finish, turned)

    def _combined_in_memory(
        self,
        node: Node,
        nest: Nest,
        number: Expr,
        at: At,
        combine: np.ufunc,
        finish: Finish | None,
        turned: Sequence[int] | None,
    ) -> Value:
        """Combine numbers with what the results have in memory, or with sums beside them, which `finish` reads."""
        result, dtype, start = node.aval.dtype, number.dtype, neutral(combine, number.dtype)
        target, axes = self.begin(node), turned or range(node.aval.ndim)
        shape = tuple([node.aval.shape[k] for k in axes])
        is_apart = dtype != result or turned is not None
        sums = self.allocate("sums", node.aval._replace(dtype=dtype, shape=shape)) if is_apart else target
        self._fill(shape, sums, start)
        nest.levels[-1].append(sums.store(tuple([at[k] for k in axes]), number, combine))
        if finish is not None or is_apart:
            nest.then.append(lambda: self._finish(node, sums, axes, target, finish))
        return target

    def _fill(self, shape: Sequence[Size], target: Window, x: Expr) -> None:
        with self.nested(shape) as nest:
            nest.levels[-1].append(target.store(nest.at, x))

    def _finish(self, node: Node, sums: Window, axes: Sequence[int], target: Window, finish: Finish | None) -> None:
        """Write the results that are made of sums, which have its axes in some order."""
        with self.nested(node.aval.shape) as nest:
            total = converted(sums.load(tuple([nest.at[k] for k in axes])), target.buffer.dtype)
            nest.levels[-1].append(target.store(nest.at, finish(total) if finish else total))

    def _trace(self, node: Node) -> None:
        """Sum a diagonal."""
        params: dict[str, Any] = {**node.op.defaults, **dict(node.params)}
        shape = DIAGONAL.infer(node.inputs[0].aval, **params).shape
        with self.nested(shape) as nest:
            number = converted(diagonal(node, nest.at, self), dtype_of_sums(node.aval.dtype, shape[-1]))
            at = nest.at[:-1]
            kept = [i for i in at if isinstance(i, Local)]
            done = self._combined(node, nest, number, kept, at, np.add, None)
        self.values[node] = done

    def _contract(self, node: Node) -> None:
        """Sum products over the labels that the result lacks."""
        terms, result = labels_of(node)
        sizes, order = sizes_of(node), order_of(node)
        dtype = node.aval.dtype
        with self.nested([sizes[label] for label in order]) as nest:
            place = dict(zip(order, nest.at, strict=True))
            factors = []
            for x, term in zip(node.inputs, terms, strict=True):
                at = tuple([ZERO if same(n, 1) else place[label] for label, n in zip(term, x.aval.shape, strict=True)])
                factors.append(converted(self.pull(x, at), dtype))
            whole = product([n for label, n in sizes.items() if label not in result])
            number = reduce(lambda a, b: Apply(MULTIPLY, (a, b), dtype), factors)
            number = converted(number, dtype_of_sums(dtype, whole))
            at = tuple([place[label] for label in result])
            kept = [i for label in order if label in result and isinstance(i := place[label], Local)]
            axes = [result.index(label) for label in order if label in result]
            long = [k for k in axes if not same(node.aval.shape[k], 1)]
            turned = None if long == sorted(long) else axes
            done = self._combined(node, nest, number, kept, at, np.add, None, turned)
        self.values[node] = done

    def _multiply(self, node: Node) -> None:
        """Have BLAS multiply matrices, one pair after the other where there are several."""
        target = self.begin(node)
        stack, factors, sizes = self._matrices(node)
        with self.nested(stack) as nest:
            left, right = (
                Factor(window.buffer, Window(window.buffer, (*window.under, *stretched_to(n, nest.at))).start, turned)
                for window, n, turned in factors
            )
            start = Window(target.buffer, (*target.under, *nest.at)).start
            rows, terms, columns = map(extent, sizes)
            nest.after[-1].append(Multiply(target.buffer, start, left, right, rows, terms, columns))
        self.values[node] = target

    def _matrices(self, node: Node) -> tuple[Sequence[Size], Sequence[Matrices], Sequence[Size]]:
        """Return how many products a node has along each axis, their factors, and how many rows, terms and columns.

        Where one matrix is multiplied with a stack of others, their rows are those of one matrix.
        """
        dtype = node.aval.dtype
        (*stack, rows, terms), columns = node.inputs[0].aval.shape, node.aval.shape[-1]
        if sums_rows(node):
            left, right = (Matrices(self._matrix(x, dtype), (), i == 0) for i, x in enumerate(node.inputs))
            return (), (left, right), (terms, product((*stack, rows)), columns)
        left, right = (self._factor(x, dtype) for x in node.inputs)
        if node.inputs[1].aval.ndim == 2 and not left.turned:
            return (), (left._replace(stack=()), right), (product((*stack, rows)), terms, columns)
        return node.aval.shape[:-2], (left, right), (rows, terms, columns)

    def _factor(self, x: Node, dtype: np.dtype) -> Matrices:
        """Return the matrices of a factor, transposed where the factor is a transpose."""
        turned = x not in self.values and swaps_last(x)
        return Matrices(self._matrix(x.inputs[0] if turned else x, dtype), x.aval.shape[:-2], turned)

    def _matrix(self, x: Node, dtype: np.dtype) -> Window:
        """Return where a value lies as numbers of a dtype."""
        window = self.window(x)
        if window.buffer.dtype != dtype:
            window = self.allocate("factor", x.aval._replace(dtype=dtype))
            self.put(x, window)
        return window

    # ---- arrays with numbers assigned, joined, accumulated

    def _assign(self, node: Node) -> None:
        base = node.inputs[0]
        target = self.owned(base, node)
        if target is None:
            target = self.begin(node)
            if base.op is not EMPTY:
                self.put(base, target)
        self.fresh.add(node)
        self.assign(node, target)

    def assign(self, node: Node, target: Window) -> None:
        """Write what an assignment writes into the memory of its base."""
        base, value, *arrays = node.inputs
        key = dict(node.params)["key"]
        shape = indexed_shape(base.aval.shape, key, [x.aval for x in arrays])
        with self.nested(shape) as nest:
            x = converted(self.pull(value, stretched(value, nest.at)), node.aval.dtype)
            at = source_index(base.aval.shape, key, arrays, nest.at, self)
            nest.levels[-1].append(target.store(at, x, np.add if node.op is ADD_AT else None))
        self.values[node] = target

    def _join(self, node: Node) -> None:
        axis = dict(node.params).get("axis", 0)
        target = self.begin(node)
        start: Expr = ZERO
        for x in node.inputs:
            with self.nested(x.aval.shape) as nest:
                if node.op is STACK:
                    at = (*nest.at[:axis], start, *nest.at[axis:])
                else:
                    at = (*nest.at[:axis], plus(nest.at[axis], start), *nest.at[axis + 1 :])
                number = converted(self.pull(x, nest.at), node.aval.dtype)
                nest.levels[-1].append(target.store(at, number))
            start = plus(start, ONE if node.op is STACK else extent(x.aval.shape[axis]))
        self.values[node] = target

    def _accumulate(self, node: Node) -> None:
        (x,), axis = node.inputs, dict(node.params)["axis"]
        target, shape, dtype = self.begin(node), node.aval.shape, node.aval.dtype
        order = [*(k for k in range(len(shape)) if k != axis), axis]
        combine = RUNNING[node.op]
        with self.nested([shape[k] for k in order]) as nest:
            at = tuple([nest.at[order.index(k)] for k in range(len(shape))])
            number = converted(self.pull(x, at), dtype)
            others = frozenset(i.name for i in nest.indices[:-1])
            local = Local(self.program.names.fresh("running"), dtype, others)
            before = nest.levels[max(len(nest.indices) - (not same(shape[axis], 1)), 0)]
            before.append(Declare(local, neutral(combine, dtype), mutable=True))
            nest.levels[-1].append(Assign(local, number, combine))
            nest.levels[-1].append(target.store(at, local))
        self.values[node] = target


def _needed(index: int) -> int:
    """Return how long an axis must be to have an index."""
    return index + 1 if index >= 0 else -index


def _squared(x: Expr, dtype: np.dtype) -> Expr:
    """Return the square of a number's magnitude."""
    if x.dtype.kind == "c":
        real, imag = (Apply(op, (x,), dtype) for op in (REAL, IMAG))
        return Apply(ADD, (Apply(MULTIPLY, (real, real), dtype), Apply(MULTIPLY, (imag, imag), dtype)), dtype)
    number = converted(x, dtype)
    return Apply(MULTIPLY, (number, number), dtype)


def _truth(x: Expr) -> Expr:
    return x if x.dtype == TRUTH else Apply(UNEQUAL, (x, Number(0, x.dtype)), TRUTH)


def dtype_of_sums(result: np.dtype, terms: Size) -> np.dtype:
    """Return the dtype that terms are added up in.

    Sums in single precision are in double where there are many, since they are added one after the other; NumPy adds
    many in pairs.
    """
    is_long = not isinstance(terms, int) or terms > SINGLE
    return np.dtype(float) if result == np.float32 and is_long else result
