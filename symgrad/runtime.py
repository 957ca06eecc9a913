"""What loops in generated modules call: scratch memory that is kept, threads that share the rows, BLAS on one thread.

The emitter writes the text of these functions into each module that needs them. Under symgrad all modules use these
very functions, so that they share one pool of threads and the scratch memory.
"""

import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache

import numpy as np

_kept = {}  # scratch memory that nobody uses at present, by what it is for
_MOST = 1 << 28  # bytes of it that are kept


@contextmanager
def _scratch(rows, *rest):
    """Buffers for blocks of rows: for each the shape of a row, where in memory the rows go, and the dtype."""
    free = _kept.setdefault((rows, rest), [])
    try:
        buffers = free.pop()
    except IndexError:
        buffers = [np.moveaxis(np.empty((*shape[:at], rows, *shape[at:]), dtype), at, 0) for shape, at, dtype in rest]
        _make_room((rows, rest), sum(s.nbytes for s in buffers))
    try:
        yield buffers
    finally:
        free.append(buffers)


def _make_room(key, nbytes):
    """Forget what has been kept longest, so that with some more bytes for a key it is not too much."""
    for other in [key, *(other for other in reversed(list(_kept)) if other != key)]:
        nbytes += sum(max(s.nbytes, 1 << 16) for buffers in list(_kept.get(other, ())) for s in buffers)
        if nbytes > _MOST:
            _kept.pop(other, None)


def release_scratch():
    """Give back the scratch memory that compiled programs keep from call to call.

    Programs that run over blocks of rows compute in a few buffers about as large as a core's cache. These are kept for
    the next call, for all programs together at most 256 MB that nobody uses: what has been kept longest goes first.
    Calls that run meanwhile go on undisturbed.

    Examples
    --------
    >>> import symgrad as sg
    >>> sg.release_scratch()
    """
    _kept.clear()


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@cache
def _pool(process):
    return ThreadPoolExecutor(_cores())


def _in_parts(share, n, rows, threads=None):
    """What `share(start, stop)` gives for some consecutive parts of n rows, in their order whoever computes them."""
    step = rows * max(1, -(-n // (16 * rows)))
    starts = range(0, max(n, 1), step)  # of no rows at all the sums are wanted as well
    left, given = deque(starts), {}

    def work():
        while True:
            try:
                start = left.popleft()
            except IndexError:
                return
            given[start] = share(start, min(start + step, n))

    futures = []
    try:
        for _ in range(min(threads or _cores(), len(starts)) - 1):
            futures.append(_pool(os.getpid()).submit(copy_context().run, work))
    except RuntimeError:  # Python exits, or can start no thread: this one does it all
        pass
    try:
        work()
    finally:
        left.clear()  # where this thread has failed nobody goes on
        started = [future for future in futures if not future.cancel()]
        wait(started)
    for future in started:
        future.result()
    return [given[start] for start in starts]


_limiting = {}  # by process, for forks: a lock, the limit in force, whoever wants it


@cache
def _blas():
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def _blas_on_one_thread():
    """While anybody is in here, a product of matrices stays on the thread that calls for it."""
    lock, limits, holders = _limiting.setdefault(os.getpid(), (threading.Lock(), [], []))
    with lock:
        if not holders:
            limits.append(_blas().limit(limits=1, user_api="blas"))
        holders.append(1)
    try:
        yield
    finally:
        with lock:
            holders.pop()
            if not holders:
                limits.pop().restore_original_limits()
