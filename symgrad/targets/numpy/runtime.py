"""The runtime of generated modules: scratch memory, threads over rows, BLAS on one thread, `_add_at`, `_where_true`,
`_cross`, `_inverse`, `_warn`.

The emitter writes the text of these functions into each module that needs them. Under symgrad all modules use these
very functions, so that they share one pool of threads and the scratch memory.
"""

import os
import threading
import warnings
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache

import numpy as np

from symgrad.loops.rows_of_block import _rows_of_block as _rows_of_block

_kept = {}  # scratch memory that nobody uses at present, by what it is for
_MOST = 1 << 28  # bytes of it that are kept
_LITTLE = 1 << 17  # bytes that all values of a block may take for NumPy to find memory sooner than buffers are found
_FEW = 1000  # numbers below which calls are what takes time


@contextmanager
def _scratch(rows, *rest):
    """Buffers for at least so many rows: for each the shape of a row, where in memory the rows go, the dtype, and more.

    They have the rows first.
    """
    free = _kept.setdefault(rest, [])
    try:
        buffers = free.pop()
    except IndexError:
        buffers = [()]
    if len(buffers[0]) < rows:
        buffers = [np.moveaxis(np.empty((*s[:at], rows, *s[at:]), dtype), at, 0) for s, at, dtype, *_ in rest]
        _make_room(rest, sum(s.nbytes for s in buffers))
    try:
        yield buffers
    finally:
        free.append(buffers)


class _NoBuffer:
    """A placeholder for a buffer that NumPy allocates itself: each part of it is None."""

    def __getitem__(self, rows):
        return None


_NO_BUFFER = _NoBuffer()


def _blocks(start, stop, step, nbytes, *rest, halo=None):
    """Yield the start and the stop of each block of rows and its buffers: None for one of little memory.

    A buffer may have its axes in another order. Where values have other rows than the block, up to `halo` more, buffers
    are given whole.
    """
    whole = halo is not None
    if stop - start <= step and (stop - start) * nbytes <= _LITTLE:
        yield start, stop, [_NO_BUFFER if whole else None] * len(rest)
        return
    with _scratch(step + halo if whole else step, *rest) as buffers:
        for i in range(start, stop, step):
            j = min(i + step, stop)
            parts = buffers if whole else [s[: j - i] for s in buffers]
            yield i, j, [s.transpose(*order) if order else s for s, (_, _, _, *order) in zip(parts, rest, strict=True)]


def _array(memory, shape, dtype=float):
    """An array to put pieces into: that part of a buffer, or a new one where there is none."""
    return np.empty(shape, dtype) if memory is None else memory


def _make_room(key, nbytes):
    """Forget what has been kept longest, so that with some more bytes for a key it is not too much."""
    for other in [key, *(other for other in reversed(list(_kept)) if other != key)]:
        nbytes += sum(max(s.nbytes, 1 << 16) for buffers in list(_kept.get(other, ())) for s in buffers)
        if nbytes > _MOST:
            _kept.pop(other, None)


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@cache
def _pool(process):
    return ThreadPoolExecutor(_cores())


def _in_parts(share, n, rows, threads=None, within=None):
    """Return the results of `share(start, stop)` for consecutive parts of n rows, in order, whatever thread computes
    them.

    Where there are several they are computed in a call of `within`.
    """
    if n <= rows:
        return [share(0, n)]
    if within is not None:
        return within(_in_parts, share, n, rows, threads=threads)
    step = rows * max(1, -(-n // (16 * rows)))
    starts = range(0, n, step)
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


def _sums(parts):
    """Return the sum of the results of parts: each a sum, or a tuple of them."""
    if len(parts) == 1:
        return parts[0]
    return tuple(map(sum, zip(*parts, strict=True))) if isinstance(parts[0], tuple) else sum(parts)


def _dot(x, y):
    """``np.vdot(x, y)`` in pieces for which BLAS starts no threads: where others use the cores, these wait."""
    n = x.size // 8192 * 8192
    if n == 0:
        return np.vdot(x, y)
    if x.ndim > 1:
        if x.strides != y.strides or not x.flags.forc or not y.flags.forc:
            return np.einsum(x, axes := [*range(x.ndim)], y, axes, [])
        x, y = x.ravel("K"), y.ravel("K")
    pieces = np.vecdot(x[:n].reshape(-1, 8192), y[:n].reshape(-1, 8192))
    return pieces.sum() + x[n:] @ y[n:]


def _vecdot(x, y, out=None):
    """``np.vecdot(x, y)``, which calls BLAS for each row: not for many that are short, or not in one piece."""
    if x.strides[-1] == y.strides[-1] == x.itemsize and (x.size < 2 * _FEW or x.shape[-1] >= 32):
        return np.vecdot(x, y, out=out)
    return np.einsum("...i,...i->...", x, y, out=out)


class _OneThread:
    """Calls functions while BLAS is on one thread, and gives it back its threads when nobody is in such a call.

    All modules of a process share one. A call counts as long as it holds a lock of its own, which is released whatever
    interrupts it; and what an interrupt has broken off is done again.
    """

    def __init__(self, libraries):
        self.libraries, self.lock = libraries, threading.RLock()  # a handler of a signal may call while it is held
        self.calls = []  # a lock for each, and its thread
        self.before = {}  # how many threads, by library and by the thread that they are for: None is all
        if hasattr(os, "register_at_fork"):
            lock = self.lock
            os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=self.forked)

    def __call__(self, function, *args, **options):
        call = threading.Lock()
        try:
            with call:
                self.enter(call)
                return function(*args, **options)
        finally:
            try:
                self.leave()
            finally:
                if self.before:
                    self.leave()

    def enter(self, call):
        thread = threading.get_ident()
        with self.lock:
            self.calls.append((call, thread))
            for library, own in self.libraries:
                threads = library.get_num_threads()
                self.before.setdefault((library, thread if own else None), threads)
                if threads != 1:
                    _set_threads(library, 1)

    def leave(self):
        with self.lock:
            self.calls[:] = [(call, thread) for call, thread in self.calls if call.locked()]
            inside = {thread for _, thread in self.calls}
            mine = threading.get_ident()
            for (library, thread), threads in list(self.before.items()):
                if thread in inside or (inside if thread is None else thread != mine):
                    continue
                if library.get_num_threads() == 1 != threads:  # else somebody has set them meanwhile
                    _set_threads(library, threads)
                    _let_go(library)
                self.before.pop((library, thread), None)

    def forked(self):
        self.calls.clear()  # the threads are gone
        self.leave()
        self.lock.release()


def _set_threads(library, threads):
    library.set_num_threads(threads)
    if library.get_num_threads() != threads:
        _let_go(library)
        library.set_num_threads(threads)


def _let_go(library):
    """Some versions of threadpoolctl obey one thread alone, until that lets go."""
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)


@cache
def _blas():
    """Return what holds BLAS to one thread, or None where threadpoolctl is not installed."""
    try:
        import threadpoolctl
    except ImportError:
        return None
    found = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
    libraries = [(x, x.internal_api == "mkl" or getattr(x, "threading_layer", "") == "openmp") for x in found]
    return vars(threadpoolctl).setdefault("_symgrad_one_thread", _OneThread(libraries))  # whoever comes first


def _blas_on_one_thread(function, *args, **options):
    """Call a function; while it runs, products of matrices stay on the thread that asks for them.

    Where BLAS cannot be told so, the function itself gets one thread.
    """
    blas = _blas()
    return blas(function, *args, **options) if blas else function(*args, **{**options, "threads": 1})


def _numbered(shape, arrays):
    """The numbers of places in an array of this shape, as of `np.ravel_multi_index`; indices may be negative."""
    places = 0
    for n, i in zip(shape, arrays, strict=False):
        places = n * places + np.arange(n).take(i.astype(np.intp, copy=False))
    return places


def _add_at(y, i, v):
    """``np.add.at(y, i, v)``, elementwise, or two as a complex one: several times faster than row by row."""
    several = isinstance(i, tuple)
    few = max(np.size(v), i[0].size if several else i.size) < _FEW
    if few or not y.size or not (y.flags.c_contiguous or (y.ndim <= 2 and not several)):
        np.add.at(y, i, v)
        return
    if several:
        y, i = y.reshape(-1, *y.shape[len(i) :]), _numbered(y.shape, i)
    if np.shape(v) != i.shape + y.shape[1:]:
        v = np.broadcast_to(v, i.shape + y.shape[1:])
    width = y.size // len(y)
    i, rows, v = i.reshape(-1).astype(np.intp, copy=False), y.reshape(-1, width), v.reshape(-1, width)
    if y.dtype.char in "fd" and v.dtype == y.dtype and rows.strides[1] == v.strides[1] == y.itemsize and width > 1:
        if width % 2:
            np.add.at(rows[:, -1], i, v[:, -1])
        rows, v = (x[:, : width // 2 * 2].view(f"c{2 * y.itemsize}") for x in (rows, v))
        width //= 2
    if width < 8 or len(y) > 4 * len(i) or not rows.flags.c_contiguous:
        for k in range(width):
            np.add.at(rows[:, k], i, v[:, k])
        return
    places, step = np.arange(rows.size).reshape(rows.shape), (1 << 17) // width + 1
    for k in range(0, len(i), step):
        there = places.take(i[k : k + step], axis=0)
        np.add.at(rows.reshape(-1), there.reshape(-1), v[k : k + step].reshape(-1))


def _where_true(mask, x):
    """``np.where(mask, x, 0)``, which is slow where a mask has no pattern, as a product of bits: 0 for any number."""
    if x.size < _FEW:
        return np.where(mask, x, 0)
    bits = f"u{x.dtype.itemsize}"
    return (x.view(bits) * mask).view(x.dtype)


_warned = {}  # by file what was told of it, as Python keeps it


def _warn(message, category, file, line):
    """Warn as a line of a file does; filters say whether more than once."""
    warnings.warn_explicit(message, category, file, line, registry=_warned.setdefault(file, {}))


def _cross(x, y):
    """``np.cross`` of arrays with as many axes each, all vectors at once and in the order of their columns."""
    x, y = np.ascontiguousarray(x.T), np.ascontiguousarray(y.T)
    after, before = np.array((1, 2, 0)), np.array((2, 0, 1))
    z = x.take(after, axis=0) * y.take(before, axis=0)
    z -= x.take(before, axis=0) * y.take(after, axis=0)
    return z.T


def _inverse(matrix):
    """``np.linalg.inv`` of two rows, by elimination with the larger pivot: Python takes a third of the time."""
    (a, b), (c, d) = matrix.tolist()
    swapped = abs(a) < abs(c)
    if swapped:
        a, b, c, d = c, d, a, b
    try:
        factor = c / a
        x, y = -factor / (d - factor * b), 1 / (d - factor * b)
    except ZeroDivisionError:
        raise np.linalg.LinAlgError("Singular matrix") from None
    rows = ((1 - b * x) / a, -b * y / a), (x, y)
    return np.array([row[::-1] for row in rows] if swapped else rows)
