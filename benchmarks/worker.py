"""Each contestant has a process of its own: neither its threads nor its allocator meet those of others."""

import gc
import multiprocessing
import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from multiprocessing.connection import Connection
from typing import Any

from cases import CASES
from contestants import CONTESTANTS, Contestant

BY_NAME = {case.name: case for case in CASES}
START = 120.0  # seconds that a process may take to import what it needs
ENOUGH = 3.0  # seconds after which first calls are not repeated


class Failed(Exception):
    """A failure of a contestant, in one line."""


class Late(Failed):
    """A failure by taking too long."""


class Worker:
    """The process of one contestant, as the main process sees it: ``worker.begin("Rosenbrock, n=10")``."""

    def __init__(self, contestant: Contestant, patience: float) -> None:
        self.contestant, self.patience = contestant, patience
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, self.contestant), daemon=True)
        self._process.start()
        theirs.close()
        self.version = self._ask("version", (), START)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return lambda *args: self._ask(method, args, self.patience)

    def _ask(self, method: str, args: tuple, patience: float) -> Any:
        self._pipe.send((method, args))
        if not self._pipe.poll(patience):
            self.stop()
            self._start()
            raise Late(f"> {patience:g} s")
        try:
            failure, answer = self._pipe.recv()
        except EOFError:
            self.stop()
            self._start()
            raise Failed("its process ended") from None
        if failure:
            raise Failed(failure)
        return answer

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


def serve(pipe: Connection, contestant: Contestant) -> None:
    """Answers until the other end is closed."""
    desk = Desk(contestant)
    while True:
        try:
            method, args = pipe.recv()
        except EOFError:
            return
        try:
            answer = None, getattr(desk, method)(*args)
        except Exception as error:  # whatever a peer raises is a reason to print
            answer = f"{type(error).__name__}: {error}".splitlines()[0][:200], None
        pipe.send(answer)


class Desk:
    """The part of a worker that runs in the process of a contestant."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        self.run: Callable[[], Any] | None = None
        self.result: Any = None
        self.call = 0.0

    def version(self) -> str:
        version = self.contestant.version()
        self.contestant.warm_up()
        return version

    def begin(self, name: str) -> dict[str, Any]:
        """Make the function of a case; seconds that it took, and what came out."""
        case = BY_NAME[name]
        args = self.contestant.place(case.args())
        compiling, firsts = [], []
        while len(firsts) < self.contestant.first_calls and sum(compiling) + sum(firsts) < ENOUGH:
            compiling.append(seconds(lambda: self.contestant.compile(case, args)))
            firsts.append(seconds(lambda: self._first(case, args)))
        self.call = seconds(self.run) if firsts[-1] < ENOUGH else firsts[-1]
        return {
            "compile": statistics.median(compiling),
            "first": statistics.median(firsts),
            "numbers": self.contestant.numbers(self.result),
        }

    def _first(self, case: Any, args: tuple) -> None:
        self.run = self.contestant.prepare(case, args)
        self.result = self.run()

    def batch(self, least: float) -> float:
        """Seconds a call, of as many calls as take that long; the first one wakes threads and caches."""
        if self.call < least:
            self.run()
        chunk = max(1, int(least / 5 / self.call))
        gc.disable()
        calls, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < least:
            for _ in repeat(None, chunk):
                self.run()
            calls += chunk
        gc.enable()
        self.call = elapsed / calls
        return self.call

    def memory(self, name: str, sizes: dict[str, int]) -> int:
        """Bytes at the peak of a first call beyond arguments and results, with what compiling left behind."""
        case = replace(BY_NAME[name], sizes=sizes)
        args = self.contestant.place(case.args())
        tracemalloc.start()
        run = self.contestant.compile(case, args) or self.contestant.prepare(case, args)
        gc.collect()
        tracemalloc.reset_peak()
        result = run()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak - sum(x.nbytes for x in self.contestant.numbers(result))

    def end(self) -> None:
        self.run = self.result = None
        gc.collect()


def seconds(run: Callable[[], Any]) -> float:
    """Return the seconds of one call, with the collector resting."""
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    run()
    elapsed = time.perf_counter() - start
    gc.enable()
    return elapsed


def workers(names: list[str], options: dict[str, Any], patience: float) -> tuple[dict[str, Worker], dict[str, str]]:
    """A process for each contestant; and why there is none for others."""
    running, missing = {}, {}
    for name in names:
        contestant = CONTESTANTS[name](**options) if name in ("symgrad", "c", "specs") else CONTESTANTS[name]()
        try:
            running[name] = Worker(contestant, patience)
        except Failed as reason:
            missing[name] = str(reason)
    return running, missing
