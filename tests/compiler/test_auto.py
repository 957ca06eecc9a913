"""``target="auto"``: NumPy at once, and C as soon as it is there, the same, and faster."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler import auto
from symgrad.compiler.compiled import Compiled
from symgrad.core.background import background
from symgrad.targets.c import toolchain
from tests.interrupts import At

needs_a_compiler = pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")

X = np.linspace(-1, 1, 7)


def energy(x):
    return np.sum(np.exp(-((x[1:] - x[:-1]) ** 2)))


def walk(x):
    total = 0.0
    for v in x:
        total = np.tanh(total + v)
    return total


@pytest.fixture(autouse=True)
def soon(monkeypatch, tmp_path):
    """C is asked for by the first call that is measured, however small it is, and each call is."""
    for name, value in (("COMPILER", 0.0), ("NODE", 0.0), ("MOST_SKIPPED", 0), ("GAIN", np.inf)):
        monkeypatch.setattr(auto, name, value)
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SYMGRAD_CFLAGS", "-O0")
    yield
    background.wait()


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """A function that makes a script the compiler."""

    def choose(script):
        path = tmp_path / "compiler"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        monkeypatch.setenv("SYMGRAD_CC", str(path))

    return choose


def settled(compiled, *args):
    """Call a program until nothing is left to try, and return the results."""
    results = []
    for _ in range(3 * auto.MOST_CALLS):
        results.append(compiled(*args))
        background.wait()
    return results


@pytest.mark.slow
@needs_a_compiler
@pytest.mark.parametrize("f", [energy, walk])
def test_c_takes_over_and_gives_the_same(f):
    compiled = sg.grad(f, target="auto").compile(X)
    source = sg.grad(f, target="numpy").compile(X).source
    assert compiled.source == source and compiled.source.native == ""
    for result in settled(compiled, X):
        np.testing.assert_allclose(result, sg.grad(f, target="numpy")(X), rtol=1e-13)
    assert compiled.trial.state.startswith("C, ") and "times as fast as NumPy" in compiled.explain().target
    assert compiled.source == source and "kernel_1(" in compiled.source.native
    assert not hasattr(compiled.run, "__wrapped__")  # the program itself, and nothing around it


@needs_a_compiler
def test_a_function_that_is_called_goes_over():
    f = sg.value_and_grad(energy, target="auto")
    expected = sg.value_and_grad(energy, target="numpy")(X)
    for value, slope in settled(f, X):
        np.testing.assert_allclose(value, expected[0], rtol=1e-13)
        np.testing.assert_allclose(slope, expected[1], rtol=1e-13)
    with sg.options(target="auto"):
        assert sg.value_and_grad(energy).compile(X).trial is not None
    assert f._cache.recent[0].compiled.source.native


@needs_a_compiler
def test_a_program_that_c_makes_no_faster_stays(monkeypatch):
    monkeypatch.setattr(auto, "GAIN", 0.0)
    compiled = sg.grad(energy, target="auto").compile(X)
    settled(compiled, X)
    assert compiled.trial.state.startswith("NumPy: C takes ") and compiled.source.native == ""
    assert compiled.run is compiled.unwatched


@needs_a_compiler
def test_c_that_gives_something_else_is_not_used(caplog):
    compiled = sg.grad(energy, target="numpy").compile(X)
    other = sg.grad(lambda x: energy(x) * (1 + 1e-5)).compile(X)
    auto.Trial(compiled, lambda: Compiled(other.program, replace(other.options, target="c")))
    with caplog.at_level("INFO", "symgrad"):
        settled(compiled, X)
    assert compiled.run is compiled.unwatched and compiled.source.native == ""
    assert any("NumPy: C gives something else: " in message for message in caplog.messages)


@needs_a_compiler
def test_rounding_is_no_difference():
    def noisy(x):
        return np.sum((x - np.mean(x)) * 1e8) + np.sum(np.exp(x))

    x = np.random.default_rng(0).normal(size=4000)
    compiled = sg.compile(noisy, target="auto").compile(x)
    settled(compiled, x)
    assert compiled.trial.state.startswith("C, ")


@needs_a_compiler
def test_another_process_begins_at_once(monkeypatch):
    settled(sg.grad(energy, target="auto").compile(X), X)
    monkeypatch.setattr(auto, "COMPILER", 1e9)
    known, unknown = (sg.grad(f, target="auto").compile(X) for f in (energy, walk))
    settled(known, X)
    settled(unknown, X)
    assert known.trial.state.startswith("C, ")
    assert unknown.trial.state == "NumPy, until it has run for longer than compiling C takes"


@needs_a_compiler
def test_an_error_of_a_call_is_the_callers():
    compiled = sg.grad(lambda x, i: np.sum(np.sin(x[i]) ** 2), target="auto").compile("float64[n]", "int64[m]")
    for _ in range(20):
        compiled(X, np.array([0, 1]))
        background.wait()
        with pytest.raises(IndexError):
            compiled(X, np.array([0, 70]))
    assert "C" in compiled.trial.state


def test_without_a_compiler_there_is_numpy(compiler, caplog):
    compiler("exit 1")
    os.remove(os.environ["SYMGRAD_CC"])
    compiled = sg.grad(energy, target="auto").compile(X)
    np.testing.assert_array_equal(compiled(X), sg.grad(energy, target="numpy")(X))
    assert compiled.run is compiled.unwatched
    assert "is no command" in compiled.explain().target


@pytest.mark.slow
def test_a_compiler_that_fails_is_told_and_not_raised(compiler, caplog):
    compiler("echo module.c:1: error: bad day >&2; exit 1")
    compiled = sg.grad(energy, target="auto").compile(X)
    with caplog.at_level("INFO", "symgrad"):
        for result in settled(compiled, X):
            np.testing.assert_array_equal(result, sg.grad(energy, target="numpy")(X))
    assert "bad day" in str(compiled.explain()) and any("bad day" in message for message in caplog.messages)
    assert compiled.run is compiled.unwatched


@needs_a_compiler
def test_a_program_that_prints_stays():
    def told(x):
        sg.debug_print("{}", x[0])
        return np.sum(x**2)

    compiled = sg.compile(told, target="auto").compile(X)
    assert compiled.run is compiled.unwatched
    assert "warns or prints" in compiled.trial.state


@needs_a_compiler
def test_programs_pickle_at_every_stage():
    compiled = sg.grad(energy, target="auto").compile(X)
    for _ in range(20):
        again = pickle.loads(pickle.dumps(compiled))
        np.testing.assert_array_equal(again.unwatched(X), compiled.unwatched(X))
        compiled(X)
        background.wait()
    assert again.options.target == "auto" and again.source.native == ""


@needs_a_compiler
def test_threads_call_while_c_takes_over():
    compiled = sg.grad(energy, target="auto").compile("float64[n]")
    given = [np.random.default_rng(i).normal(size=500 + i) for i in range(400)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(compiled, given))
    background.wait()
    for x, slope in zip(given, found, strict=True):
        np.testing.assert_allclose(slope, compiled.unwatched(x), rtol=1e-12, atol=1e-15)
    settled(compiled, X)
    assert compiled.trial.state.startswith("C, ")


@pytest.mark.slow
@needs_a_compiler
def test_interrupts_leave_a_program_that_goes_on():
    compiled = sg.grad(energy, target="auto").compile(X)
    expected = compiled.unwatched(X)
    interrupted = 0
    for number in range(1, 60):
        compiled.trial.restart()
        for _ in range(6):
            try:
                At(number)(lambda: compiled(X))
            except KeyboardInterrupt:
                interrupted += 1
            background.wait()
        for result in settled(compiled, X)[:3]:
            np.testing.assert_allclose(result, expected, rtol=1e-13)
        assert compiled.trial.state.startswith("C, "), number
    assert interrupted > 60


# ---- processes


BEGIN = """
import os, threading, time
import numpy as np
import symgrad as sg
from symgrad.compiler import auto
from symgrad.core.background import background

auto.COMPILER = auto.NODE = auto.MOST_SKIPPED = 0
auto.GAIN = np.inf
x = np.linspace(-1, 1, 7)
f = sg.grad(lambda x: np.sum(np.exp(-((x[1:] - x[:-1]) ** 2))), target="auto").compile(x)
expected = f(x)
"""


def run(script, **environment):
    given = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", BEGIN + script], env=given, capture_output=True, text=True, timeout=600
    )


def test_an_interpreter_ends_while_a_compiler_runs(compiler, tmp_path):
    """Waiting for the compiler would run into the timeout of `run`."""
    compiler(f"echo $$ > {tmp_path}/written; mv {tmp_path}/written {tmp_path}/pid; exec sleep 3000")
    done = run(f"while not os.path.exists({str(tmp_path / 'pid')!r}): time.sleep(0.01)")
    assert (done.returncode, done.stderr) == (0, "")
    assert not os.path.exists(f"/proc/{(tmp_path / 'pid').read_text().strip()}")
    assert os.listdir(tmp_path / "cache") == []


def test_a_process_has_no_thread_left():
    name = "symgrad background"
    done = run(f"f(x)\nbackground.wait(); print({name!r} in [t.name for t in threading.enumerate()])")
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.slow
@needs_a_compiler
@needs_fork
def test_a_child_of_a_fork_goes_over_by_itself(tmp_path):
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\nsleep 1\nexec {" ".join(toolchain.compiler().command)} "$@"\n')
    slow.chmod(0o700)
    script = """
child = os.fork()
for _ in range(200):
    assert np.allclose(f(x), expected, rtol=1e-12)
    background.wait()
assert f.trial.state.startswith("C, "), f.trial.state
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    done = run(script, SYMGRAD_CC=str(slow) if not toolchain.compiler().is_zig else "")
    assert (done.returncode, done.stderr) == (0, "")
