"""Cost model: estimated seconds of a program, on whole arrays or in blocks, to tell which is faster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from symgrad.analysis import costs
from symgrad.analysis.cost import (
    MANY_ROWS,
    UNKNOWN_ITERATIONS,
    flops_of,
    is_work,
    likely,
    likely_numbers,
    most_iterations,
)
from symgrad.analysis.liveness import most_held
from symgrad.analysis.memory_profile import nbytes
from symgrad.analysis.values import number
from symgrad.core.graph import Aval, Node, per_node
from symgrad.core.region import regions_of
from symgrad.loops import machine
from symgrad.loops.buffer_allocation import SHORT
from symgrad.ops.control import SCAN, UNBOUNDED

NS = 1e-9
CALL = costs.CALL * NS
SETUP = 10 * CALL  # for what stands around the operations of a loop
KEPT = 64 << 20  # bytes: a program that holds more returns it to the system after each call


class Figures(NamedTuple):
    """Estimated costs of a node, independent of the program around it."""

    kernel: float  # seconds, with all numbers in the cache
    spreads: bool  # whether it works with all cores by itself
    short: float  # seconds that are lost where axes are short
    read: tuple[int, ...]  # bytes, of each input
    written: int
    largest: int  # of them
    calls: int = 1
    iteration: tuple[Figures, ...] = ()  # from which all but `read` and `written` follow
    iterations: int = 1


def whole_seconds(nodes: Iterable[Node], scale: float) -> float:
    """Estimate the time of operations on whole arrays, one after the other; `scale` multiplies the assumed sizes."""
    figures, cores, near = [figures_of(x) for x in nodes], machine.cores(), machine.cache_bytes()
    work = sum([f.kernel / (cores if f.spreads else 1) + f.short for f in figures])
    return CALL * sum([f.calls for f in figures]) + work * scale + sum([_traffic(f, scale, near) for f in figures])


def fresh_seconds(nodes: Sequence[Node], scale: float) -> float:
    """Estimate the time to obtain memory from the system, if it is too much to be kept between calls.

    Where sizes are symbols, the largest value is assumed to have MANY_ROWS numbers at most: many rows are seldom long.
    """
    written = [figures_of(x).written for x in nodes]
    largest = max(written, default=0)
    scale = min(scale, 8 * MANY_ROWS / largest) if largest and scale > 1 else scale
    if sum(written) * scale <= KEPT:
        return 0.0
    held = most_held(nodes, lambda x: figures_of(x).written) * scale
    return held / 8 * costs.FRESH * NS if held > KEPT else 0.0


def block_seconds(nodes: Iterable[Node], scale: float, blocks: float, streamed: float, threads: int) -> float:
    """Estimate the time of operations in blocks that read or write `streamed` bytes of main memory once."""
    nodes = list(nodes)
    work = kernel_seconds(nodes) * scale + call_seconds(nodes) * blocks
    return work / threads + streamed / 8 * costs.WORD * NS + (costs.HAND * NS if threads > 1 else SETUP)


def call_seconds(nodes: Sequence[Node]) -> float:
    """Estimate the time of calling NumPy for the operations on one block."""
    return 1.3 * CALL * calls_of(nodes)


def calls_of(nodes: Iterable[Node]) -> int:
    """Return how many NumPy calls operations make."""
    return sum([figures_of(x).calls for x in nodes])


def kernel_seconds(nodes: Iterable[Node]) -> float:
    """Estimate the time of operations on values in the cache, without calls."""
    return sum(figures_of(x).kernel for x in nodes)


_numbers = per_node(likely_numbers)


@per_node  # each is asked for by every way to divide a program
def figures_of(node: Node) -> Figures:
    numbers = {x: _numbers(x) for x in (*node.inputs, node)}
    *read, written = [_bytes(x, n) for x, n in numbers.items()]
    largest = max(written, *read, 0)
    if node.op is SCAN:
        return _of_loop(node, Figures(0.0, False, 0.0, tuple(read), written, largest))
    return Figures(_kernel(node, numbers), _spreads(node), _short(node, numbers), tuple(read), written, largest)


def _of_loop(loop: Node, figures: Figures) -> Figures:
    """Return the figures of a loop over iterations."""
    each, n = tuple(map(figures_of, work_of_iteration(loop))), likely_iterations(loop)
    kernel, short = (n * sum(parts) for parts in ([f.kernel for f in each], [f.short for f in each]))
    calls = n * sum([f.calls for f in each])
    return figures._replace(kernel=kernel, short=short, calls=calls, iteration=each, iterations=n)


def work_of_iteration(loop: Node) -> list[Node]:
    return [x for region in regions_of(loop) for x in region.nodes if is_work(x)]


def likely_iterations(loop: Node) -> int:
    """Return the likely number of iterations; a small number where it is unknown."""
    return UNKNOWN_ITERATIONS if number(loop.inputs[0]) == UNBOUNDED else likely(most_iterations(loop))


def numbers_made(node: Node) -> int:
    """Estimate how many numbers an operation makes; a loop counts all its iterations."""
    if node.op is not SCAN:
        return likely_numbers(node)
    return likely_iterations(node) * sum(map(numbers_made, work_of_iteration(node)))


def _bytes(x: Node, numbers: int) -> int:
    return numbers * x.aval.dtype.itemsize if type(x.aval) is Aval else likely(nbytes(x.aval))


def _kernel(node: Node, numbers: Mapping[Node, int]) -> float:
    if node.op.contracts:
        return likely(flops_of(node)) / 2 * costs.FLOP * NS
    return max(numbers.values()) * node.op.nanoseconds * NS * _width(node.aval)


def _width(aval: object) -> float:
    """Return the ratio of a kernel's time per number to that of float64: vectors hold more narrow numbers."""
    return aval.dtype.itemsize / 8 if isinstance(aval, Aval) else 1.0


def _spreads(node: Node) -> bool:
    """Whether BLAS computes a product on all cores: a single large one, no stack."""
    plain = node.op.contracts and all(x.aval.ndim <= 2 for x in node.inputs)
    return plain and likely(flops_of(node)) > 1e5


def _traffic(figures: Figures, scale: float, near: int) -> float:
    """Estimate the time that memory takes beyond that of the kernel, if caches hold `near` bytes."""
    if figures.iteration:
        return figures.iterations * sum([_traffic(f, scale, near) for f in figures.iteration])
    if figures.largest * scale <= 2 * near:  # all of it is in the cache
        return 0.0
    written = figures.written * scale
    words = sum(size for n in (*figures.read, figures.written) if (size := n * scale) > 2 * near) / 8
    return (words * costs.WORD + (written / 8 * costs.FAR if written > 6 * near else 0.0)) * NS


def _short(node: Node, numbers: Mapping[Node, int]) -> float:
    """Estimate the time lost to short inner loops: a short last axis is summed, or operands differ in size."""
    largest = max((node, *node.inputs), key=numbers.__getitem__)
    if not isinstance(largest.aval, Aval) or largest.aval.ndim < 2 or node.op.contracts:
        return 0.0
    last = likely(largest.aval.shape[-1])
    alike = all(n in (1, numbers[largest]) for n in numbers.values())
    return 0.0 if alike or last >= SHORT else costs.LOOP * NS * numbers[largest] / last
