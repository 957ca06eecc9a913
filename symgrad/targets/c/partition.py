"""Partition of a program into kernels, which C computes, and the rest. Each kernel is one operator of the new program.

A program that C computes as a whole is one kernel. Operators that NumPy, BLAS, LAPACK or SciPy compute stay between
kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.cost import is_work, likely
from symgrad.analysis.uses import users_of
from symgrad.control.checks_first import checks_first, makes_checks, may_end
from symgrad.control.messages import without_messages
from symgrad.core.graph import (
    CONSTANT,
    INPUT,
    ITEM,
    SEED,
    SIZE,
    TOKEN,
    Aval,
    Graph,
    Node,
    Op,
    avals_of,
    is_token,
    without_tokens,
)
from symgrad.core.region import Region, regions_of, with_nested
from symgrad.core.shapes import product
from symgrad.core.sizes import Dim, Size, is_counted, symbols_of
from symgrad.loops import machine
from symgrad.loops.loop import LOOP, Block
from symgrad.loops.tiling import nest
from symgrad.lowering.elements import RULES, alternates, computing_dtypes, is_plain, sequence_of
from symgrad.lowering.ragged import Lengths, has_ragged_rows, indices_in, largest_extent, lengths_of
from symgrad.lowering.roots import CONTRACTIONS, GIVEN, LARGE, PLACES, REDUCTIONS, RUNNING, is_for_blas
from symgrad.lowering.searches import SEARCHES
from symgrad.lowering.sorting import ORDERS, has_keys, is_short_order
from symgrad.lowering.systems import SYSTEMS, is_small_system
from symgrad.ops.accumulate import MAXIMA, MINIMA, RECURRENCE
from symgrad.ops.astype import ASTYPE
from symgrad.ops.checks import CHECK, START, Raise, action_of
from symgrad.ops.choice import CLIP
from symgrad.ops.contract import MATMUL, TENSORDOT, VECDOT
from symgrad.ops.control import COND, SCAN, own_sizes
from symgrad.ops.control_parts import loop_of
from symgrad.ops.create import EYE, FULL
from symgrad.ops.diagonal import DIAGONAL, TRACE
from symgrad.ops.einsum import EINSUM
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.join import CONCATENATE, STACK
from symgrad.ops.reduce import MAX, MIN
from symgrad.ops.shape import BROADCAST_TO, RESHAPE, TRANSPOSE
from symgrad.targets.c import blas
from symgrad.targets.c.functions import C_TYPES, size_code, spelling_of
from symgrad.targets.c.names import c_word

FEW = 4096  # numbers of a constant that is written out
FEWEST = 2  # operations that a kernel is worth
FREE = frozenset((GET, TRANSPOSE, RESHAPE, BROADCAST_TO, FULL, EYE, CONSTANT, SIZE))
"""Operators that cost nothing: they stand on both sides, rather than being passed."""
WRITTEN = frozenset((CONCATENATE, STACK, RECURRENCE, SIZE, ITEM, INPUT, SEED))
"""Operators that C computes for all operands, besides reductions, running ones and searches."""
HANDED_ON = frozenset((SCAN, COND, ITEM, INPUT))
"""Operators that hand on rows of a loop behind it, which have extents of its iterations."""
OF_REAL = frozenset((MAX, MIN, MAXIMA, MINIMA, CLIP, VECDOT, *PLACES, *SEARCHES, *ORDERS))
"""Operators that C computes of real numbers only: they order numbers, or conjugate complex ones."""
COPIED = 1024  # numbers of a result, a view of something in NumPy, that C writes in less than a call of NumPy's takes


class Scope(NamedTuple):
    """The context of nodes, on which it depends whether C computes them."""

    lengths: Lengths  # of all loops whose index is a symbol in sizes
    around: frozenset[str] = frozenset()  # symbols of the loops around
    in_loop: bool = False
    alone: bool = False  # whether the program must run without NumPy
    checks: bool = False  # whether C ends where a check of the user's raises, so that NumPy repeats the call

    def within(self, index_size: str | None) -> Scope:
        """Return the scope of a body."""
        around = self.around.union([] if index_size is None else [index_size])
        return self._replace(around=around, in_loop=True)


def computes(node: Node, scope: Scope) -> bool:
    """Whether C computes a node."""
    op = node.op
    if scope.checks and (op is START or op is CHECK):
        return op is START or isinstance(action_of(node), Raise)
    avals = _without_tokens(avals_of(node), scope)
    given = _without_tokens([x.aval for x in node.inputs if type(x.aval) is Aval], scope)
    if not all(_is_known(aval, scope) for aval in (*avals, *given)):
        return False
    if not all(indices_in(n) <= scope.around for aval in avals for n in aval.shape) and op not in HANDED_ON:
        return False
    if not all(map(_fits, node.inputs)) and not (op.elementwise and node.aval.dtype.kind == "f"):
        return False
    if op in (SCAN, COND):
        return _holds(node, scope)
    if any(map(_is_complex, node.inputs)) and (op in OF_REAL or (op is ASTYPE and not _is_complex(node))):
        return False
    if op is CONSTANT:
        return not node.aval.shape or likely(product(node.aval.shape)) <= FEW or sequence_of(node) is not None
    if op in CONTRACTIONS:
        if has_ragged_rows(node) and is_for_blas(node):
            return False
        by_loops = scope.alone or _is_small(node) or (scope.in_loop and op is not TENSORDOT)
        is_ours = node.aval.dtype.kind in "fc" or node.aval.dtype == np.int64
        return is_ours and (by_loops or (is_for_blas(node) and blas.found() is not None))
    if op in SYSTEMS:
        return scope.alone or is_small_system(node, scope.in_loop)
    if op in ORDERS:
        is_ours = has_keys(node.inputs[0].aval.dtype)
        return is_ours and (scope.alone or is_short_order(node, scope.in_loop))
    if op is TRACE:
        params = {**op.defaults, **dict(node.params)}
        return _has_text(*DIAGONAL.infer(node.inputs[0].aval, **params).shape)
    if any(op in known for known in (REDUCTIONS, PLACES, RUNNING, SEARCHES, WRITTEN)):
        return True
    if op in RULES or op in (SET, ADD_AT):
        return _has_text(*_sizes(node)) and is_plain(node)
    if op.elementwise:
        if node.aval.weak and op.evaluate in (np.left_shift, np.right_shift):
            return False  # Python's integers have any number of bits
        if alternates(node):
            return True
        dtypes = computing_dtypes(node)
        return len(set(dtypes)) == 1 and spelling_of(op.evaluate, dtypes[0]) is not None
    return False


def _without_tokens(avals: Sequence[Aval], scope: Scope) -> Sequence[Aval]:
    """Return the avals of values, of which tokens are none where checks are C's."""
    return [aval for aval in avals if aval != TOKEN] if scope.checks else avals


def _is_known(aval: Aval, scope: Scope) -> bool:
    """Whether C has the dtype of a value, and its sizes are bounded sums and products."""
    sizes = [(n, largest_extent(n, scope.lengths)) for n in aval.shape if isinstance(n, Dim)]
    return aval.dtype.name in C_TYPES and all(most is not None and _has_text(n, most) for n, most in sizes)


def _has_text(*sizes: Size) -> bool:
    """Whether sizes can be written in C."""
    return all(size_code(str(n)) for n in sizes if isinstance(n, Dim))


def _fits(x: Node) -> bool:
    """Whether a constant fits into its dtype: a Python integer may be too large."""
    is_integer = x.op is CONSTANT and not x.aval.shape and x.aval.dtype.kind == "i"
    return not is_integer or -(2**63) <= int(x.constant) < 2**63


def _stacks_integers(x: Node) -> bool:
    """Whether a value has ys of Python integers, which may be too large for an array."""
    if x.op is not ITEM or x.inputs[0].op is not SCAN or x.aval.dtype.kind != "i":
        return False
    outputs, index = loop_of(x.inputs[0]).body.body.outputs, dict(x.params)["index"]
    made = [y for output in outputs[index : index + 1] for y in (output, *output.inputs[:1])]
    return any(type(y.aval) is Aval and y.aval.weak for y in made)


def _is_complex(x: Node) -> bool:
    return type(x.aval) is Aval and x.aval.dtype.kind == "c"


def _is_small(node: Node) -> bool:
    """Whether loops compute a product as fast as BLAS: one of vectors, or of few numbers."""
    if node.op is EINSUM:
        return "." not in str(dict(node.params)["subscripts"])
    if node.op is TENSORDOT:
        return min(likely(n) for n in _sizes_of_product(node)) < LARGE
    if node.op is not MATMUL:
        return True
    a, b = (x.aval.shape for x in node.inputs)
    if node.aval.dtype.kind == "c" and max(likely(product(x)) for x in (a, b)) > FEW:
        return False  # compilers vectorise no sum of complex numbers
    return len(a) < 2 or len(b) < 2 or min(likely(n) for n in (*a[-2:], b[-1])) < LARGE


def _sizes_of_product(node: Node) -> tuple[Size, Size, Size]:
    """Return the numbers of rows, columns and terms of a tensordot as a product of matrices."""
    axes = dict(node.params)["axes"]
    a, b = (x.aval.shape for x in node.inputs)
    left, right = (
        product([n for k, n in enumerate(shape) if k not in summed]) for shape, summed in zip((a, b), axes, strict=True)
    )
    return left, right, product([a[k] for k in axes[0]])


def _holds(node: Node, scope: Scope) -> bool:
    """Whether C computes all of a loop or a branch."""
    loop = loop_of(node) if node.op is SCAN else None
    if loop is not None and ((loop.test is not None and loop.reverse) or not _has_name(loop.index_size, scope)):
        return False
    if any(is_token(x) for x in node.inputs) and not scope.checks:
        return False
    if any(aval.dtype.name not in C_TYPES for aval in _without_tokens(avals_of(node), scope)):
        return False
    known = all(_fits(y) for region in regions_of(node) for y in region.body.outputs)
    nodes, inside = _body_of(node, scope)
    given = _without_tokens([x.aval for region in regions_of(node) for x in region.parameters], scope)
    return known and all(_is_known(aval, inside) for aval in given) and all(computes(x, inside) for x in nodes)


def _body_of(node: Node, scope: Scope) -> tuple[list[Node], Scope]:
    """Return the nodes of the regions of a loop or a branch, with their scope.

    A parameter may be the very node outside whose value it takes: whatever computes that, it is given.
    """
    inside = scope.within(loop_of(node).index_size if node.op is SCAN else None)
    return [x for region in regions_of(node) for x in region.nodes], inside


def first_without_c(nodes: Iterable[Node], scope: Scope) -> Node | None:
    """Return the first operator that C does not compute, looking into loops and branches; None if there is none."""
    found = next((x for x in nodes if not computes(x, scope)), None)
    if found is None or found.op not in (SCAN, COND):
        return found
    return first_without_c(*_body_of(found, scope)) or found


def _has_name(index_size: str | None, scope: Scope) -> bool:
    """Whether the symbol of a loop's index, if it has one, is a name in C that no loop around has."""
    return index_size is None or (index_size not in scope.around and c_word(index_size) == index_size)


@dataclass
class Kernel:
    """A part of a graph, with its inputs and outputs there, and the symbols of sizes that it needs.

    A token among the outputs of its own graph stands for checks that raise: the kernel then ends, and NumPy repeats it.
    """

    graph: Graph
    inputs: list[Node]
    symbols: Mapping[str, Dim]
    outputs: list[Node]

    @property
    def has_checks(self) -> bool:
        return any(map(is_token, self.graph.outputs))

    @property
    def sizes(self) -> list[str]:
        return sorted(self.symbols)


def left_in_blocks(graph: Graph) -> Graph:
    """Add loops over blocks of rows that NumPy runs, if these are faster than C.

    For stacks of matrices, C calls BLAS for one pair after the other, on one thread, and reads and writes whole arrays
    around that. If these exceed the cache, NumPy is faster with blocks that fit into it and that threads share.
    """
    if not any(map(_is_known_stack, graph.live)):
        return graph
    nested = nest(graph)
    blocks = (dict(x.params)["body"] for x in nested.live if x.op is LOOP)
    return nested if any(map(_is_left_to_numpy, blocks)) else graph


def _is_known_stack(node: Node) -> bool:
    """Whether a node is a product of two stacks of matrices of known sizes, for BLAS."""
    if node.op is not MATMUL or min(x.aval.ndim for x in node.inputs) < 3 or not is_for_blas(node):
        return False
    return all(isinstance(n, int) for n in node.aval.shape)


def _is_left_to_numpy(block: Block) -> bool:
    """Whether a loop over blocks has a product of stacks, and its values exceed the cache."""
    nbytes = likely(block.size) * likely(block.layout.row_bytes)
    return nbytes > 2 * machine.block_bytes() and any(map(_is_known_stack, block.graph.live))


def partitioned(
    graph: Graph, compile_kernels: Callable[[Sequence[Kernel]], Sequence[Callable[..., Any]]]
) -> tuple[Graph, list[Kernel]]:
    """Replace the parts of a graph that C computes by kernels; return it with them.

    Checks that raise are C's where C computes the whole program: they keep their order. NumPy takes all others.
    """
    whole = _is_whole_with_checks(graph)
    stages = {x: 0 for x in graph.live if x.op is not INPUT} if whole else _stages(graph)
    groups: dict[int, list[Node]] = {}
    for node in graph.live:
        if node in stages:
            groups.setdefault(stages[node], []).append(node)
    worth = {k for k, nodes in groups.items() if _is_worth(nodes)}
    kept = {node for k in worth for node in groups[k]}
    kernels = {k: _kernel(graph, groups[k], kept, stages, whole) for k in sorted(worth)}
    kernels = {k: kernel for k, kernel in kernels.items() if kernel.outputs}
    functions = compile_kernels(list(kernels.values()))
    pairs = enumerate(zip(kernels.items(), functions, strict=True), start=1)
    ops = {k: operator_of(f"kernel_{i}", kernel, function) for i, ((k, kernel), function) in pairs}
    return checks_first(joined(graph, kernels, ops, kept)), list(kernels.values())


def _is_whole_with_checks(graph: Graph) -> bool:
    """Whether a program raises, and C computes all of it, so that one kernel gives all of its results."""
    results = without_tokens(graph.outputs)
    if len(results) == len(graph.outputs) or not any(x.op not in GIVEN for x in results):
        return False
    nodes = without_messages(graph).live
    scope = Scope(lengths_of(with_nested(nodes)), checks=True)
    is_ours = all(x.op is INPUT or computes(x, scope) for x in nodes)
    return is_ours and not any(map(_has_unknown_size, results))


def _stages(graph: Graph) -> dict[Node, int]:
    """Return the stage of each node that C computes: the number of changes from NumPy to C before it.

    Values whose size is unknown before the program runs are not passed between kernels and NumPy.
    """
    ours = _in_order(graph.live, lambda node: True)
    users = users_of(graph.live)
    passed = [x for x in graph.live if _has_unknown_size(x) and x.op is not INPUT]
    if any(x in graph.outputs or any(ours.get(y) != ours.get(x) for y in users[x]) for x in passed):
        return _in_order(graph.live, lambda node: not any(_has_unknown_size(x) for x in (node, *node.inputs)))
    return ours


def _has_unknown_size(node: Node) -> bool:
    """Whether a shape is unknown before the program runs: it has a number of iterations, or a loop index."""
    return any(is_counted(n) or indices_in(n) for aval in avals_of(node) for n in aval.shape)


def _in_order(nodes: Sequence[Node], may: Callable[[Node], bool]) -> dict[Node, int]:
    ours: dict[Node, int] = {}
    level: dict[Node, int] = {}
    scope = Scope(lengths_of(with_nested(nodes)))
    behind = 0  # the stage after the last check: operations that may raise wait for it
    for node in nodes:
        if node.op is INPUT:
            level[node] = 0
            continue
        if makes_checks(node):
            behind = max(ours.values(), default=0) + 1
        is_ours = may(node) and computes(node, scope) and (node.op is not ITEM or node.inputs[0] in ours)
        is_ours = is_ours and not any(x not in ours and _stacks_integers(x) for x in node.inputs)
        for x in node.inputs:
            passed = is_ours and x not in ours and x.op not in (INPUT, CONSTANT)
            level[node] = max(level.get(node, 0), level[x] + passed)
        level.setdefault(node, 0)
        if may_end(node):
            level[node] = max(level[node], behind)
        if is_ours:
            ours[node] = level[node]
    return ours


def _is_worth(nodes: Iterable[Node]) -> bool:
    """Whether calling a kernel takes less time than calling NumPy for its operations."""
    return any(x.op is SCAN for x in nodes) or sum(is_work(x) and x.op not in FREE for x in nodes) >= FEWEST


def _kernel(
    graph: Graph, nodes: Sequence[Node], kept: Collection[Node], stages: dict[Node, int], whole: bool
) -> Kernel:
    """Return nodes of a graph as a kernel, with a graph of its own.

    If it is the `whole` program, it gives all results, so that NumPy computes none ahead of a check.
    """
    inside = set(nodes)
    users: dict[Node, list[Node]] = {}
    for y in graph.live:
        for x in y.inputs:
            users.setdefault(x, []).append(y)
    passed = {x for x in nodes if any(y not in inside for y in users.get(x, ()))}
    copied = {x for x in nodes if x in graph.outputs and x not in passed and (whole or _is_copied(x))}
    outputs = _without_free({x for x in nodes if x in passed or x in graph.outputs}, inside, copied)
    body = Graph()
    image: dict[Node, Node] = {}
    inputs: list[Node] = []
    free = {x for x in stages if x.op in FREE and not any(map(_has_unknown_size, (x, *x.inputs)))}
    needed = _needed(outputs, inside | free)
    for node in needed:
        if node not in inside and node not in free:
            inputs.append(node)
            image[node] = body.add(INPUT, (), (("aval", node.aval), ("name", f"x{len(inputs)}")), node.where)
            body.inputs.append(image[node])
        else:
            image[node] = body.rebuild(node, tuple([image[x] for x in node.inputs]), node.where)
    body.outputs = [image[y] for y in outputs]
    body.take_names(graph.names, image)
    told = own_sizes(list(with_nested(body.live)))
    symbols = {k: size for k, size in symbols_in(needed).items() if k not in told}
    return Kernel(body, inputs, symbols, without_tokens(outputs))


def symbols_in(nodes: Iterable[Node]) -> dict[str, Dim]:
    """Return the symbols in the sizes of nodes, by name."""
    return {name: size.scope.written(name) for x in nodes for size in _sizes(x) for name in symbols_of(size)}


def _is_copied(node: Node) -> bool:
    """Whether a kernel writes a result that costs NumPy nothing, to save the call of NumPy."""
    return node.op not in (CONSTANT, SIZE) and likely(product(node.aval.shape)) <= COPIED


def _without_free(wanted: Iterable[Node], inside: Collection[Node], copied: Collection[Node]) -> list[Node]:
    """Return the results of a kernel: values that cost NumPy nothing are replaced by their inputs inside the kernel."""
    found: dict[Node, None] = {}
    waiting = sorted(wanted, key=lambda x: x.id)
    while waiting:
        node = waiting.pop(0)
        if node not in inside:
            continue
        if node.op in FREE and node not in copied and not any(map(_has_unknown_size, node.inputs)):
            waiting += node.inputs
        elif type(node.aval) is Aval:
            found[node] = None
    return sorted(found, key=lambda x: x.id)


def _needed(outputs: Sequence[Node], inside: Collection[Node]) -> list[Node]:
    seen = set(outputs)
    stack = [y for y in outputs if y in inside]
    while stack:
        for x in stack.pop().inputs:
            if x not in seen:
                seen.add(x)
                if x in inside:
                    stack.append(x)
    return sorted(seen, key=lambda x: x.id)


def _sizes(node: Node) -> Iterator[Dim]:
    """Yield the sizes in the shapes and parameters of a node, and in its regions."""
    waiting: list[Any] = [*(aval.shape for aval in avals_of(node)), *(value for _, value in node.params)]
    while waiting:
        x = waiting.pop()
        if isinstance(x, Dim):
            yield x
        elif isinstance(x, Region):
            for inner in (*x.parameters, *x.nodes):
                yield from _sizes(inner)
        elif isinstance(x, Aval):
            waiting += x.shape
        elif isinstance(x, tuple):
            waiting += x


def operator_of(name: str, kernel: Kernel, function: Callable[..., Any]) -> Op:
    """Return the operator of a kernel, for the program that calls it."""
    avals = tuple([y.aval for y in kernel.outputs])
    given = avals[0] if len(avals) == 1 else avals
    return Op(name, function, lambda *xs: given, lambda *xs: (xs, {}))


def joined(graph: Graph, kernels: dict[int, Kernel], ops: dict[int, Op], kept: Collection[Node]) -> Graph:
    """Return the graph with each kernel as one node."""
    after = Graph()
    image: dict[Node, Node] = {}
    owner = {y: k for k, kernel in kernels.items() for y in kernel.outputs}
    for x in graph.inputs:
        image[x] = after.add(INPUT, (), x.params, x.where)
        after.inputs.append(image[x])

    def give(node: Node) -> Node:
        waiting = [node]
        while waiting:
            x = waiting[-1]
            if x in image:
                waiting.pop()
                continue
            k = owner.get(x)
            needs = kernels[k].inputs if k is not None else x.inputs
            missing = [y for y in needs if y not in image]
            if missing:
                waiting += reversed(missing)
                continue
            if k is None:
                image[x] = after.rebuild(x, tuple([image[y] for y in x.inputs]), x.where)
            else:
                _call(after, kernels[k], ops[k], image)
        return image[node]

    for y in graph.live:  # in their order, so that what a check guards comes behind it
        if y not in kept:
            give(y)
    outputs = [y for y in graph.outputs if not (is_token(y) and y in kept)]  # the kernel itself raises
    for y in outputs:
        give(y)
    after.outputs = [image[y] for y in outputs]
    after.take_names(graph.names, image)
    after.sizes = graph.sizes
    return after


def _call(after: Graph, kernel: Kernel, op: Op, image: dict[Node, Node]) -> None:
    sizes = [after.add(SIZE, (), (("value", kernel.symbols[name]),)) for name in sorted(kernel.symbols)]
    inputs = (*[image[x] for x in kernel.inputs], *sizes)
    where = kernel.outputs[-1].where
    call = after.add(op, inputs, (), where)
    if len(kernel.outputs) == 1:
        image[kernel.outputs[0]] = call
    else:
        for i, y in enumerate(kernel.outputs):
            image[y] = after.add(ITEM, (call,), (("index", i),), y.where)
