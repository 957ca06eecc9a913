"""What loops in generated modules call: scratch memory that is kept, threads that share the rows, BLAS on one thread.

The emitter writes the text of these functions into each module that needs them. Under symgrad all modules use these
very functions, so that they share one pool of threads and the scratch memory.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache

import numpy as np

_kept = {}  # scratch memory that nobody uses at present


@contextmanager
def _scratch(rows, *rest):
    """Buffers for blocks of rows: for each the shape of a row, where in memory the rows go, and the dtype."""
    free = _kept.setdefault((rows, rest), [])
    try:
        buffers = free.pop()
    except IndexError:
        buffers = [np.moveaxis(np.empty((*shape[:at], rows, *shape[at:]), dtype), at, 0) for shape, at, dtype in rest]
    try:
        yield buffers
    finally:
        free.append(buffers)


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@cache
def _pool(process):
    return ThreadPoolExecutor(_cores())


def _in_parts(share, n, rows, threads=None):
    """What `share(start, stop)` gives for some consecutive parts of n rows, in their order whoever computes them."""
    step = rows * max(1, -(-n // (16 * rows)))
    starts = range(0, n, step)
    left, given = iter(starts), {}

    def work():
        for start in left:
            given[start] = share(start, min(start + step, n))

    helpers = min(threads or _cores(), len(starts)) - 1
    futures = [_pool(os.getpid()).submit(copy_context().run, work) for _ in range(helpers)]
    work()
    for future in futures:
        if not future.cancel():
            future.result()
    return [given[start] for start in starts]


_lock, _limits, _holders = threading.Lock(), [], []


@cache
def _blas():
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def _blas_on_one_thread():
    """While anybody is in here, a product of matrices stays on the thread that calls for it."""
    with _lock:
        if not _holders:
            _limits.append(_blas().limit(limits=1, user_api="blas"))
        _holders.append(1)
    try:
        yield
    finally:
        with _lock:
            _holders.pop()
            if not _holders:
                _limits.pop().restore_original_limits()
