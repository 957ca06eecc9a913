"""Costs of loops on this machine, compared with the figures that symgrad has.

    python benchmarks/costs.py                 the table of symgrad/loops/cost_model.py
    python benchmarks/costs.py --operators     what NumPy's functions take for a number, too, as operators' entries say

Each figure is the least of many calls, with BLAS on one thread, and the name of the machine is printed with them: run
it where nothing else runs. symgrad has the figures of one machine, so that the source is the same everywhere; rough
ones are enough to tell whether blocks are faster.
"""

import argparse
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

from symgrad.core.graph import Op
from symgrad.loops import cost_model, machine
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
    """The table's names, and what is measured, in seconds."""
    one, near, far, written = np.ones(1), np.ones(WORDS), np.ones(large), np.empty(large)
    rows, square = np.ones((WORDS // 4, 4)), np.ones((256, 256))
    call = least(lambda: [np.minimum(one, one, out=one) for _ in range(100)], seconds) / 100
    yield "CALL", call
    with ThreadPoolExecutor(1) as pool:
        yield "SHARE", least(lambda: pool.submit(int).result(), seconds)
    read = least(lambda: far.max(), seconds) / large - (least(lambda: near.max(), seconds) - call) / WORDS
    yield "WORD", read
    copied = least(lambda: np.positive(far, out=written), seconds) / large
    here = np.empty(WORDS)
    yield "FAR", copied - read - (least(lambda: np.positive(near, out=here), seconds) - call) / WORDS
    yield "FRESH", least(lambda: np.full(large, 1.0), seconds) / large
    yield "FLOP", least(lambda: square @ square, seconds) / 256**3
    short, long = least(lambda: rows + near[:4], seconds), least(lambda: near + near, seconds)
    yield "SHORT_LOOP", (short - long) / (WORDS / 4)


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
    print(f"{'':12}{'table':>12}{'here':>12}  nanoseconds")
    with threadpoolctl.threadpool_limits(1), np.errstate(all="ignore"):
        for name, seconds in figures(options.large, options.seconds):
            print(f"{name:12}{1e9 * getattr(cost_model, name):12.3f}{1e9 * seconds:12.3f}")
        for name, said, taken in of_operators(options.seconds / 10) if options.operators else ():
            print(f"{name:12}{said:12.2f}{taken:12.2f}")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
