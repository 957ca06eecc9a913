"""Golden files, and what hypothesis may take."""

from __future__ import annotations

import gc
import os
from contextlib import nullcontext
from dataclasses import replace
from functools import cache

# Before NumPy is imported, here and in what tests start: there is a worker for each core, and threads of BLAS that wait
# for a core of their own do so in loops. Tests of these threads set how many there are.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from symgrad.compiler.compiled import Compiled
from symgrad.core import options
from symgrad.loops import buffer_allocation, machine, rows_of_block, tiling
from symgrad.targets.c import kernels
from symgrad.targets.numpy import module as generated, runtime
from tests.folders import GOLDEN
from tests.lowering import verify_placement
from tests.statements import interpreted

LOADED = [
    check for check in HealthCheck if check is not HealthCheck.filter_too_much
]  # some depend on the time it takes
settings.register_profile(
    "symgrad", max_examples=15, deadline=None, derandomize=True, suppress_health_check=LOADED
)  # a sample, the same on every machine
settings.register_profile("search", settings.get_profile("symgrad"), max_examples=1000)
settings.load_profile("symgrad")

# Hypothesis takes some numbers from the source of whatever modules happen to be loaded: a sample that the order of
# tests decides is not the same on every machine. It would read all of symgrad for them, too.
if hasattr(providers, "_get_local_constants"):
    without = providers._local_constants  # nothing has been read yet
    providers._get_local_constants = lambda: without


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the generated sources to tests/golden")
    parser.addoption("--target", default="numpy", help="c computes values, or statements: those of C, interpreted")
    parser.addoption("--thorough", action="store_true", help="run slow tests, and all cases of each test, of all files")
    parser.addoption("--blocks", action="store_true", help="at level 2 run all that can be in blocks of two rows")
    parser.addoption("--usual-sizes", action="store_true", help="run the tests that --blocks skips, and no others")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes seconds; left out unless it is named, or with --thorough")
    config.addinivalue_line("markers", "of_numpy: of the memory or last digits of NumPy's target, whatever --target is")
    for_target(config.getoption("--target"))


def is_sample(config):
    """Whether to run a sample of the tests: nobody has named some, or asked for all."""
    if hasattr(config, "workerinput"):
        return config.workerinput["is_sample"]
    option = config.option
    is_named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS or option.keyword
    return not (is_named or option.thorough or option.usual_sizes or option.update_golden)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_configure_node(node):
    node.workerinput["is_sample"] = is_sample(node.config)


CASES = 2  # of a test that are in the sample
USUAL = {"golden", "usual_sizes"}  # the fixtures of tests that --blocks skips


def pytest_collection_modifyitems(config, items):
    """Leave out slow tests, and all but a few cases of each test, evenly spaced; or run only what --blocks skips."""
    if config.option.usual_sizes:
        chosen = {item for item in items if of_usual_sizes(item)}
    elif is_sample(config):
        cases = {}
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        sample = {item for each in cases.values() for item in each[:: -(-len(each) // CASES)]}
        chosen = {
            item for item in items if (item in sample or of_usual_sizes(item)) and not item.get_closest_marker("slow")
        }
    else:
        return
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def of_usual_sizes(item):
    return not USUAL.isdisjoint(getattr(item, "fixturenames", ()))


def for_target(target):
    """Compile for a target in this process where nothing else is said."""
    if target in ("c", "statements"):
        os.environ["SYMGRAD_CFLAGS"] = "-O0"  # each program is compiled for a few calls
        options.in_use.set(replace(options.current(), target="c"))
    if target == "statements":
        kernels._compiled = interpreted


walks = [0]  # of all that is alive, by the collector, until what was left was frozen


def pytest_collection():
    gc.disable()  # it would walk all tests again and again, of which none is garbage


def pytest_collection_finish():
    gc.freeze()
    gc.set_threshold(20_000)  # of 700, Python's own, a tenth of the time would go into it
    gc.enable()


def pytest_runtest_setup(item):
    """Let a test draw the same numbers whatever tests of its module the same worker has run before.

    What the collector has found to be alive stays so for long: it would walk all of it again each time.
    """
    if gc.get_stats()[2]["collections"] != walks[-1]:
        gc.collect(1)
        gc.freeze()
        walks.append(gc.get_stats()[2]["collections"])
    for generator, state in states_of(getattr(item, "module", None)):
        generator.bit_generator.state = state


@cache
def states_of(module):
    """The generators that a module of tests has under a name, as its import has left them."""
    generators = [x for x in getattr(module, "__dict__", {}).values() if isinstance(x, np.random.Generator)]
    return [(x, x.bit_generator.state) for x in generators]


def two_rows(n, nbytes, least, most):
    return 2


def blocks_of(monkeypatch, rows):
    """Replace the function that decides how many rows a block has."""
    for module in (rows_of_block, runtime):
        monkeypatch.setattr(module, "_rows_of_block", rows)


def in_tiny_blocks(monkeypatch):
    """Whatever has an axis of two or more rows is run in blocks of two, on threads, with buffers for all values."""
    monkeypatch.setattr(tiling, "FEWEST", 0)
    monkeypatch.setattr(tiling, "FEWEST_ROWS", 2)
    monkeypatch.setattr(tiling, "GAIN", np.inf)
    monkeypatch.setattr(tiling, "SETUP", -np.inf)
    monkeypatch.setattr(tiling, "WORTH_THREADS", -1.0)
    blocks_of(monkeypatch, two_rows)
    monkeypatch.setattr(buffer_allocation, "MINOR", np.inf)


@pytest.fixture
def tiny_blocks(monkeypatch):
    in_tiny_blocks(monkeypatch)


@pytest.fixture
def usual_sizes(request):
    """For tests of how blocks are chosen and laid out by their size."""
    if request.config.getoption("--blocks"):
        pytest.skip("all blocks are tiny")


@pytest.fixture(autouse=True, scope="session")
def usual_machine():
    """Generated sources are those of a machine with a usual cache and two cores, wherever the tests run."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(machine, "cache_bytes", lambda: machine.USUAL_CACHE)
        monkeypatch.setattr(machine, "share_bytes", lambda: machine.USUAL_SHARE)
        monkeypatch.setattr(machine, "cores", lambda: machine.USUAL_CORES)
        yield


@pytest.fixture(autouse=True, scope="session")
def verified_placement():
    """The placement of every program that is compiled is verified."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(generated, "place", placed_and_verified(generated.place))
        yield


def placed_and_verified(place):
    def verified(*args):
        placed = place(*args)
        verify_placement.verify(placed)
        return placed

    return verified


@pytest.fixture
def whole(monkeypatch):
    """Nothing is run in blocks: for tests of the forms that stand in the straight-line program."""
    monkeypatch.setattr(tiling, "FEWEST", np.inf)


@pytest.fixture(autouse=True, scope="session")
def blocks_everywhere(request):
    """With --blocks."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if request.config.getoption("--blocks"):
            in_tiny_blocks(monkeypatch)
        yield


OF_C = ("tests.targets.c", "tests.lowering", "tests.compiler.test_auto")  # tests that look at C
FORMS = ("source", "signature", "lines", "cost", "explain", "statements", "profile")
"""Forms of a compiled program, besides its graph."""


@pytest.fixture(autouse=True)
def target_of_numpy(request):
    """For tests that are marked with `of_numpy`."""
    with options.options(target="numpy") if request.node.get_closest_marker("of_numpy") else nullcontext():
        yield


@pytest.fixture(autouse=True)
def forms_of_numpy(request, monkeypatch):
    """With --target the values are those of C; tests that look at a source or a graph look at those of NumPy."""
    looks_at_c = request.module.__name__.startswith(OF_C) or request.node.get_closest_marker("of_numpy")
    if request.config.getoption("--target") != "numpy" and not looks_at_c:
        for name in FORMS:
            form = vars(Compiled)[name]
            monkeypatch.setattr(Compiled, name, property(lambda self, form=form: form.__get__(by_numpy(self))))
        graph = property(lambda self: vars(by_numpy(self))["graph"], kept)
        monkeypatch.setattr(Compiled, "graph", graph, raising=False)


def kept(compiled, graph):
    vars(compiled)["graph"] = graph


def by_numpy(compiled):
    """Return a program compiled for NumPy; itself if it is, or if it is not yet whole."""
    if compiled.options.target != "c" or "unchecked" not in vars(compiled):
        return compiled
    if "by_numpy" not in vars(compiled):
        compiled.by_numpy = Compiled(compiled.program, replace(compiled.options, target="numpy"), compiled._static)
    return compiled.by_numpy


@pytest.fixture
def golden(request):
    """Compares a generated source with the file of that name in tests/golden, which `--update-golden` writes."""

    def check(name, source):
        if request.config.getoption("--blocks"):
            pytest.skip("sources are others in tiny blocks")
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(source, encoding="utf-8")
        assert path.exists(), f"{name} is new: run pytest --update-golden"
        assert source == path.read_text(encoding="utf-8"), f"{name} changed: read the diff, then run --update-golden"
        return path

    return check
