"""Costs on this machine, compared with the figures that symgrad goes by.

    python benchmarks/costs.py                 the table of symgrad/analysis/costs.py
    python benchmarks/costs.py --operators     what NumPy's functions take for a number, too, as operators' entries say

Each figure is the least of many calls, with BLAS on one thread, and the name of the machine is printed with them: run
it where nothing else runs.
"""

import argparse
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import threadpoolctl

from symgrad.analysis import costs
from symgrad.core.graph import Op
from symgrad.loops import machine
from symgrad.ops.define import TABLE

WORDS = 1 << 13  # numbers in arrays that are in the level-1 and level-2 caches
LARGE = 1 << 24  # and in arrays that are in no cache


def least(run: Callable[[], object], seconds: float) -> float:
    """The time of the fastest call."""
    run()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def figures(large: int, seconds: float) -> Iterator[tuple[str, float]]:
    """Yield the names of the table, and what is measured, in seconds."""
    yield from calls(seconds)
    yield from in_python(seconds)
    yield from numbers(large, seconds)


def calls(seconds: float) -> Iterator[tuple[str, float]]:
    """Measure calls of NumPy, and the loops in them."""
    one, few, near = np.ones(1), np.ones((4, 4)), np.ones(WORDS)
    rows, columns, stack = np.ones((WORDS // 4, 4)), np.ones((4, WORDS // 4)).T, np.ones((WORDS, 3, 3))
    buffer = np.ones((4, 4))
    yield "CALL", least(lambda: [np.minimum(few[:2], one, out=buffer[:2]) for _ in range(100)], seconds) / 100
    call = least(lambda: [np.minimum(one, one, out=one) for _ in range(100)], seconds) / 100
    yield "LEAST_CALL", call
    long = least(lambda: near + near, seconds)
    yield "LOOP", (least(lambda: rows + near[:4], seconds) - long) / len(rows)
    yield "ALIGNED_LOOP", (least(lambda: rows[:, :1] + columns, seconds) - long) / len(rows)
    yield "REDUCING_LOOP", least(lambda: rows.sum(axis=1), seconds) / len(rows)
    yield "DOT", least(lambda: np.vecdot(rows, rows), seconds) / len(rows)
    yield "MATRIX", least(lambda: stack @ stack, seconds) / len(stack)


def in_python(seconds: float) -> Iterator[tuple[str, float]]:
    """Measure Python by itself, and how it takes arrays apart."""
    few, stack, many = np.ones(4), np.ones((100, 4)), range(100)

    def operations(x: float = 0.5) -> float:
        for _ in many:
            y = math.sin(x)
            x = x * 0.5 + y
        return x

    def stacked() -> None:
        for i in many:
            stack[i] = few

    yield "OPERATION", least(operations, seconds) / 300
    yield "TAKE", least(lambda: [few[2].item() for _ in many], seconds) / 100
    yield "STORE", least(lambda: [np.array([0.5, 0.5, 0.5, 0.5]) for _ in many], seconds) / 400
    yield "STACK", least(stacked, seconds) / 100
    yield "ROWS", 2 * least(lambda: [stack[i] for i in many], seconds) / 100
    with ThreadPoolExecutor(1) as pool:
        yield "HAND", least(lambda: pool.submit(int).result(), seconds)


def numbers(large: int, seconds: float) -> Iterator[tuple[str, float]]:
    """Measure the work for a number, near and far."""
    near, far, written, here = np.ones(WORDS), np.ones(large), np.empty(large), np.empty(WORDS)
    square = np.ones((256, 256))
    call = least(lambda: np.positive(near[:1], out=here[:1]), seconds)
    copied = (least(lambda: np.positive(near, out=here), seconds) - call) / WORDS
    yield "NEAR", copied
    yield "COPIED", least(lambda: np.ones((64, 64)).T.copy(), seconds) / 64**2
    read = least(lambda: far.max(), seconds) / large - (least(lambda: near.max(), seconds) - call) / WORDS
    yield "WORD", read
    yield "FAR", least(lambda: np.positive(far, out=written), seconds) / large - read - copied
    yield "FRESH", least(lambda: np.full(large, 1.0), seconds) / large
    yield "KEPT", least(lambda: np.full(large, 1.0).sum(), seconds) / large
    yield "FLOP", least(lambda: square @ square, seconds) / 256**3


def of_operators(seconds: float) -> Iterator[tuple[str, float, float]]:
    """The name of a ufunc, the nanoseconds that its entry says and those that are measured."""
    for ufunc, op in TABLE.items():
        if not isinstance(ufunc, np.ufunc) or not isinstance(op, Op) or op.package:  # SciPy's need whole numbers, some
            continue
        if ufunc.signature or f"{'d' * ufunc.nin}->d" not in ufunc.types:
            continue
        xs, out = [np.linspace(0.1 + 0.1 * i, 0.8, WORDS) for i in range(ufunc.nin)], np.empty(WORDS)
        yield ufunc.__name__, op.nanoseconds, 1e9 * least(partial(ufunc, *xs, out=out), seconds) / WORDS


def described() -> str:
    """The machine by name."""
    names = [line.partition(":")[2].strip() for line in cpuinfo() if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    caches = f"level-2 cache {machine.cache_bytes() >> 10} KB, blocks of {machine.block_bytes() >> 20} MB"
    return f"{name}, {machine.cores()} cores, {caches}; NumPy {np.__version__}, Python {platform.python_version()}"


def cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", action="store_true", help="the functions of NumPy as well")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement (%(default)s)")
    parser.add_argument("--large", type=int, default=LARGE, help="numbers in arrays beyond all caches (%(default)s)")
    options = parser.parse_args(arguments)
    print(described())
    print(f"{'':14}{'table':>12}{'here':>12}  nanoseconds")
    with threadpoolctl.threadpool_limits(1), np.errstate(all="ignore"):
        for name, seconds in figures(options.large, options.seconds):
            print(f"{name:14}{getattr(costs, name):12.3f}{1e9 * seconds:12.3f}")
        for name, said, taken in of_operators(options.seconds / 10) if options.operators else ():
            print(f"{name:14}{said:12.2f}{taken:12.2f}")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
