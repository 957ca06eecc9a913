"""Compiled programs under load, for short; `python -m tests.native_load` is the long run."""

import multiprocessing
import sys

import pytest

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
