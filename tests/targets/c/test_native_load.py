"""Compiled programs under load, for short; `python -m tests.native_load` is the long run."""

import functools
import multiprocessing
import sys
import tracemalloc

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


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_calls_leave_no_memory_behind():
    calls = 5000
    found = {name: (grown, pages) for name, grown, pages in leaked(calls)}
    assert found.keys() == programs().keys()
    assert {name: grown for name, (grown, _) in found.items() if grown * calls > PAGES} == {}
    assert {name: pages for name, (_, pages) in found.items() if pages > 0.1} == {}


def test_eight_threads():
    same_on_threads(8, 300)


@pytest.mark.parametrize("target", ["c", "auto"])
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes(method, target):
    same_in_children(method, target)


def test_twenty_programs_loaded_at_once():
    many_programs(20)


@pytest.mark.skipif(sys.platform != "linux", reason="measures the memory of Python's allocator")
def test_large_memory_is_kept_and_given_back():
    """So that the system does not give it anew, page by page, at each call."""

    def steps(x, r):
        for _ in range(20):
            x = x + r * x * (1 - x)
        return np.sum(x)

    run = sg.grad(steps, target="c").compile(x := np.full(600_000, 0.5), 0.1)
    sg.release_scratch()
    tracemalloc.start()
    try:
        run(x, 0.1)
        kept = tracemalloc.get_traced_memory()[0]
        sg.release_scratch()
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept > 20 * x.nbytes
    assert left < x.nbytes
    np.testing.assert_allclose(run(x, 0.1), sg.grad(steps)(x, 0.1))


@pytest.mark.skipif(sys.platform != "linux", reason="measures the memory of Python's allocator")
def test_all_programs_keep_a_quarter_of_a_gigabyte_of_large_memory():
    runs = [
        sg.grad(lambda x, k=k: np.sum(functools.reduce(lambda y, _: np.cumsum(np.sin(y * k)), range(4), x)), target="c")
        for k in (1.0, 2.0, 3.0, 4.0)
    ]
    x = np.full(3_000_000, 0.1)
    for run in runs:
        run(x)
    sg.release_scratch()
    tracemalloc.start()
    try:
        kept = [(run(x), tracemalloc.get_traced_memory()[0])[1] for run in runs]
    finally:
        tracemalloc.stop()
        sg.release_scratch()
    assert kept[0] > 1 << 26
    assert max(kept) < (1 << 28) + 2 * x.nbytes
