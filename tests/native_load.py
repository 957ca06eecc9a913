"""Long runs of compiled programs: `python -m tests.native_load --help`."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import symgrad as sg
from symgrad.core.background import background


def energy(x):
    return np.sum(np.exp(-((x[1:] - x[:-1]) ** 2)))


def filtered(q, ys):
    mean, variance, total = 0.0, 1.0, 0.0
    for y in ys:
        variance = variance + q
        total = total + (y - mean) ** 2 / (variance + 1.0)
        mean = mean + variance / (variance + 1.0) * (y - mean)
        variance = variance / (variance + 1.0)
    return total


def counted(x):
    values = []
    while x > 0.1:
        x = x * 0.7
        values.append(np.sin(x))
    return np.sum(np.array(values) ** 2)


def picked(x, i):
    return np.sum(np.sin(x[i]) ** 2)


def solved(a):
    return np.sum(np.linalg.solve(a, a[0])) + np.linalg.slogdet(a)[1]


X, YS = np.linspace(-1, 1, 200), np.sin(np.arange(50) * 0.1)


def programs(target: str = "c") -> dict[str, tuple[Callable[..., object], tuple[object, ...]]]:
    """Return compiled programs of several kinds, and arguments: elementwise, a loop, growing memory, an index."""
    return {
        "elementwise": (sg.value_and_grad(energy, target=target), (X,)),
        "another layout": (sg.value_and_grad(energy, target=target), (np.repeat(X, 2)[::2],)),
        "loop": (sg.value_and_grad(filtered, target=target), (0.1, YS)),
        "growing": (sg.value_and_grad(counted, target=target), (2.0,)),
        "index": (sg.grad(picked, target=target), (X, np.array([3, 7, 7]))),
        "systems": (sg.value_and_grad(solved, target=target), (np.eye(4) + 0.1,)),
        "wrong index": (raising(sg.grad(picked, target=target)), (X, np.array([3, 700]))),
    }


def raising(f: Callable[..., object]) -> Callable[..., object]:
    """Return a function that is called for the error that it raises."""

    def run(*args: object) -> object:
        try:
            f(*args)
        except IndexError:
            return None
        raise AssertionError("it has raised nothing")

    return run


def resident() -> int:
    """Return the bytes of memory that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def faults() -> int:
    """Return how many pages of memory this process has asked for."""
    import resource  # Windows has none

    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def leaked(calls: int, target: str = "c") -> Iterator[tuple[str, float, float]]:
    """Yield for each program how many bytes a call makes the process larger, and its page faults, after a warm-up."""
    for name, (run, args) in programs(target).items():
        for _ in range(calls // 4):
            run(*args)
        background.wait()
        gc.collect()
        before, pages = resident(), faults()
        for _ in range(calls):
            run(*args)
        pages = faults() - pages
        gc.collect()
        yield name, (resident() - before) / calls, pages / calls


def same_on_threads(threads: int, calls: int) -> None:
    """Raise unless threads that call programs at once get what one thread gets."""
    given = [np.random.default_rng(i).normal(size=100 + 37 * (i % 50)) for i in range(calls)]
    compiled = sg.value_and_grad(energy, target="c").compile("float64[n]")
    grown = sg.value_and_grad(counted, target="c").compile(2.0)
    expected = [(compiled(x)[1].tobytes(), grown(1.0 + i % 9)) for i, x in enumerate(given)]
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda i: (compiled(given[i])[1].tobytes(), grown(1.0 + i % 9)), range(calls)))
    assert found == expected


def many_programs(count: int) -> None:
    """Raise unless so many programs, loaded at once, give what each gives alone."""
    kept = []
    for k in range(count):
        compiled = sg.compile(lambda x, k=k: np.sum(np.exp(x) * (k + 0.5)) + k, target="c").compile("float64[n]")
        kept.append((compiled, float(np.sum(np.exp(X) * (k + 0.5)) + k)))
    for compiled, expected in kept:
        np.testing.assert_allclose(compiled(X), expected, rtol=1e-13)


def child(queue, target: str) -> None:
    """Compile and call a program in a process of its own."""
    queue.put(sg.grad(energy, target=target)(X).tobytes())


def same_in_children(method: str, target: str, processes: int = 2) -> None:
    """Raise unless processes that are forked or spawned after a program was compiled compute the same."""
    expected = sg.grad(energy, target=target)(X).tobytes()
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    running = [context.Process(target=child, args=(queue, target)) for _ in range(processes)]
    for process in running:
        process.start()
    found = [queue.get(timeout=600) for _ in running]
    for process in running:
        process.join(120)
    assert [process.exitcode for process in running] == [0] * processes
    assert found == [expected] * processes


def main() -> None:
    """Run everything for long."""
    parser = argparse.ArgumentParser(description="Threads, processes, many programs and memory of compiled programs.")
    parser.add_argument("--calls", type=int, default=100_000, help="of each program, for its memory; %(default)s")
    parser.add_argument("--programs", type=int, default=200, help="loaded at once; %(default)s")
    parser.add_argument("--threads", type=int, default=8, help="%(default)s")
    options = parser.parse_args()
    if options.calls and sys.platform == "linux":
        for target in ("c", "auto"):
            for name, grown, pages in leaked(options.calls, target):
                print(f"{target}, {name}: {grown:.2f} bytes and {pages:.4f} page faults a call", flush=True)
    same_on_threads(options.threads, options.calls // 10)
    print(f"{options.threads} threads: the same", flush=True)
    for method in multiprocessing.get_all_start_methods():
        same_in_children(method, "c", options.threads)
        print(f"{method}: the same", flush=True)
    many_programs(options.programs)
    print(f"{options.programs} programs: the same", flush=True)


if __name__ == "__main__":
    main()
