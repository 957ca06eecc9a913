"""Compiled programs under load, for short; `python -m tests.native_load` is the long run."""

import multiprocessing
import sys
import threading
import tracemalloc
from functools import partial

import numpy as np
import pytest

import symgrad as sg
from symgrad.targets.c import toolchain
from tests.native_load import leaked, many_programs, programs, same_in_children, same_on_threads

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")
PAGES = 64 * 4096  # bytes by which the memory of a process varies


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_calls_leave_no_memory_behind():
    calls = 4000
    found = {name: (grown, pages) for name, grown, pages in leaked(calls)}
    assert found.keys() == programs().keys()
    assert {name: grown for name, (grown, _) in found.items() if grown * calls > PAGES} == {}
    assert {name: pages for name, (_, pages) in found.items() if pages > 0.1} == {}


def test_eight_threads():
    same_on_threads(8, 300)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["c", "auto"])
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes(method, target):
    same_in_children(method, target)


@pytest.mark.slow
def test_twenty_programs_loaded_at_once():
    many_programs(20)


def steps(x, r):
    for _ in range(20):
        x = x + r * x * (1 - x)
    return np.sum(x)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measures the memory of Python's allocator")
def test_large_memory_is_kept_and_given_back():
    """The system would give it anew, page by page, at each call. All programs keep a quarter of a gigabyte of it."""
    x = np.full(450_000, 0.5)  # the states of 20 steps are 72 MB
    grad = partial(sg.grad, target="c", check_first=False)  # which takes memory of its own
    runs = [grad(lambda x, r, k=k: steps(x, r) * k).compile(x, 0.1) for k in (1.0, 2.0, 3.0, 4.0)]
    sg.release_scratch()
    tracemalloc.start()
    try:
        kept = [(run(x, 0.1), tracemalloc.get_traced_memory()[0])[1] for run in runs]
        sg.release_scratch()
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept[0] > 20 * x.nbytes > 1 << 26
    assert kept[2] > kept[1] > kept[0] + 20 * x.nbytes
    assert kept[3] < (1 << 28) + x.nbytes
    assert left < x.nbytes
    np.testing.assert_allclose(runs[1](x, 0.1), 2 * sg.grad(steps)(x, 0.1))


@pytest.mark.slow
@pytest.mark.parametrize("n", [20_000, 450_000])
def test_a_thread_that_ends_gives_its_memory_back(n):
    x = np.full(n, 0.5)
    run = sg.grad(steps, target="c").compile(x, 0.1)
    run(x, 0.1)  # the first call is checked, which takes memory of its own
    tracemalloc.start()
    try:
        for _ in range(5):
            thread = threading.Thread(target=run, args=(x, 0.1))
            thread.start()
            thread.join()
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 20 * x.nbytes < most < 30 * x.nbytes
    assert kept < x.nbytes
