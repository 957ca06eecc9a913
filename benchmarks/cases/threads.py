"""Threads for what is written by hand: as many as the process may use, on a pool that is kept."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from threadpoolctl import ThreadpoolController


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores())


@cache
def blas() -> ThreadpoolController:
    return ThreadpoolController()


def over_rows(work: Callable, n: int) -> list:
    """``work(part, start, stop)`` of a range that is shared between threads, with BLAS on one thread in each."""
    threads = cores()
    cuts = [n * t // threads for t in range(threads + 1)]
    with blas().limit(limits=1, user_api="blas"):
        parts = [pool().submit(work, t, cuts[t], cuts[t + 1]) for t in range(threads)]
        return [part.result() for part in parts]
