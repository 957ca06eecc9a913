"""BLAS is held to one thread while threads of a program run, and has its own back afterwards, whatever happens."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import symgrad as sg
from symgrad.targets.numpy import runtime
from symgrad.targets.numpy.excerpts import excerpt, imports_of, text_of

MANY = 3  # as many threads as BLAS has outside, on a machine of any size


@pytest.fixture(autouse=True)
def threads():
    """Set the threads of each BLAS to `MANY` before the test, and check them after it."""
    libraries = [library for library, _ in runtime._blas().libraries]
    before = [library.get_num_threads() for library in libraries]

    def found():
        return [library.get_num_threads() for library in libraries]

    for library in libraries:
        runtime._set_threads(library, MANY)
        runtime._let_go(library)
    if found() != [MANY] * len(libraries):
        pytest.skip("this BLAS has a single thread")
    try:
        yield found
        assert found() == [MANY] * len(libraries)
    finally:
        for library, n in zip(libraries, before, strict=True):
            runtime._set_threads(library, n)
            runtime._let_go(library)


def copy_of_runtime():
    """The functions as a saved module has them."""
    module = types.ModuleType("copy_of_runtime")
    functions = excerpt([runtime._blas_on_one_thread])
    text = "\n".join([*imports_of(functions), text_of(functions)])
    exec(compile(text, "copy_of_runtime", "exec"), vars(module))
    return module._blas_on_one_thread


def loss(x, w):
    return np.sum(np.tanh(x @ w) ** 2)


@pytest.mark.of_numpy
def test_many_callers_of_programs_and_saved_modules(tiny_blocks, threads, tmp_path):
    """1,000 calls from eight threads, of a program and of two modules with functions of their own."""
    x, w = np.random.default_rng(0).normal(size=(9, 4)), np.eye(4)
    program = sg.value_and_grad(loss, (0, 1)).compile(x, w)
    assert "_blas_on_one_thread" in program.source
    calls = [program]
    for name in ("first", "second"):
        spec = importlib.util.spec_from_file_location(name, program.save(tmp_path / f"{name}.py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        calls.append(module.loss_value_and_grad)
    expected = program(x, w)
    with ThreadPoolExecutor(8) as callers:
        for value, gradients in callers.map(lambda i: calls[i % 3](x, w), range(1000)):
            assert value == expected[0]
            np.testing.assert_array_equal(gradients[1], expected[1][1])
    assert set(threads()) == {MANY}


@pytest.mark.parametrize("last", ["first", "second"])
@pytest.mark.parametrize("second", [runtime._blas_on_one_thread, copy_of_runtime()], ids=["shared", "copy"])
def test_whoever_leaves_last_gives_the_threads_back(second, last, threads):
    """The one that came first is the only one that threadpoolctl obeys, as long as its thread lives."""
    inside, leave = ([threading.Event(), threading.Event()] for _ in range(2))

    def stay(i):
        inside[i].set()
        assert leave[i].wait(60)
        return threads()

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        stays = [one.submit(runtime._blas_on_one_thread, stay, 0)]
        assert inside[0].wait(60)
        stays.append(two.submit(second, stay, 1))
        assert inside[1].wait(60)
        for i in (1, 0) if last == "first" else (0, 1):
            assert set(threads()) == {1}
            leave[i].set()
            assert set(stays[i].result()) == {1}
        assert set(threads()) == {MANY}


def test_nested_and_failing(threads):
    def fails():
        assert set(runtime._blas_on_one_thread(threads)) == {1}
        assert set(threads()) == {1}
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        runtime._blas_on_one_thread(fails)


def test_a_setting_of_somebody_else_stays(threads):
    """Settings made meanwhile stay, as does a limit around the call."""
    controller = ThreadpoolController()

    def sets():
        controller.limit(limits=2, user_api="blas")

    runtime._blas_on_one_thread(sets)
    assert set(threads()) == {2}
    for library, _ in runtime._blas().libraries:
        runtime._set_threads(library, MANY)
    with controller.limit(limits=1, user_api="blas"):
        runtime._blas_on_one_thread(lambda: None)
        assert set(threads()) == {1}


def test_threads_of_others_can_set_it_afterwards(threads):
    def limit():
        with ThreadpoolController().limit(limits=2, user_api="blas"):
            return threads()

    runtime._blas_on_one_thread(lambda: None)
    with ThreadPoolExecutor(1) as other:
        assert set(other.submit(limit).result()) == {2}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers of POSIX")
def test_a_signal_that_calls_a_program(threads):
    """The handler runs in the thread that it interrupts, wherever that is."""
    found, calls = [], []

    def handler(number, frame):
        found.extend(runtime._blas_on_one_thread(threads))
        signal.setitimer(signal.ITIMER_REAL, 3e-4)  # one signal after the other, however slow the machine is

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-3)
        while len(found) < 100:
            calls.extend(runtime._blas_on_one_thread(threads))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert set(found) == set(calls) == {1}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers of POSIX")
def test_an_interrupt_at_any_time(threads):
    """Ctrl-C, 500 times, wherever it comes while program after program runs."""

    def handler(number, frame):
        raise KeyboardInterrupt

    one_thread, rng = runtime._blas(), np.random.default_rng(0)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for delay in rng.uniform(5e-5, 1e-3, size=500):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, delay)
                while True:
                    one_thread(int)
            assert set(threads()) == {MANY}
            assert not one_thread.before
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX says so, where another test has imported it
def test_a_process_that_is_forked_meanwhile(threads):
    inside, leave = threading.Event(), threading.Event()

    def stay():
        inside.set()
        assert leave.wait(60)

    with ThreadPoolExecutor(1) as other:
        stays = other.submit(runtime._blas_on_one_thread, stay)
        assert inside.wait(60)
        child = os.fork()
        if not child:
            within = runtime._blas_on_one_thread(threads)
            os._exit(0 if set(threads()) == {MANY} and set(within) == {1} else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert set(threads()) == {1}
        leave.set()
        stays.result()


# ---- without threadpoolctl

WITHOUT = """
import sys, threading
sys.modules["threadpoolctl"] = None  # importing it fails
import numpy as np
import saved
saved._rows_of_block = lambda n, nbytes, least, most: 2
x, w = np.load("x.npy"), np.eye(4)
value, (d_x, d_w) = saved.loss_value_and_grad(x, w)
print(repr(value), d_x.tobytes() == np.load("d_x.npy").tobytes(), threading.active_count())
"""


def test_a_saved_module_runs_on_one_thread(tiny_blocks, tmp_path):
    """The parts and their order are those of several threads, and so is the value."""
    x, w = np.random.default_rng(0).integers(-3, 4, size=(50, 4)) / 8, np.eye(4)
    program = sg.value_and_grad(loss, (0, 1)).compile("float64[n, 4]", w)
    assert "within=_blas_on_one_thread" in program.source
    text = program.save(tmp_path / "saved.py").read_text()
    assert "Needs NumPy, and uses threadpoolctl where it is installed.\n" in text
    value, (d_x, _) = program(x, w)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "d_x.npy", d_x)
    done = subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{value!r} True 1\n", "")


# ---- products of vectors outside of loops


@pytest.mark.parametrize("n", [10_001, 16_384, 30_000])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_product_of_long_vectors_starts_no_threads(n, dtype, whole, threads):
    """For microseconds of work threads never pay; and the rounding does not depend on how many there are."""
    program = sg.compile(lambda x, y: np.exp(x @ y)).compile(f"{dtype}[{n}]", f"{dtype}[{n}]")
    assert "np.exp(_dot(x, y))" in program.source
    x, y = (np.random.default_rng(0).normal(size=(2, n)) / n**0.5).astype(dtype)
    value = program(x, y)
    assert value.dtype == dtype
    np.testing.assert_allclose(value, np.exp(x.astype(float) @ y), rtol=1e-5 if dtype == "float32" else 1e-13)
    for library, _ in runtime._blas().libraries:
        library.set_num_threads(1)
    try:
        assert program(x, y) == value
        np.testing.assert_allclose(program(x[::-1], y[::-1]), value, rtol=1e-6)
    finally:
        for library, _ in runtime._blas().libraries:
            runtime._set_threads(library, MANY)
            runtime._let_go(library)


@pytest.mark.parametrize("spec", ["float64[10000]", "float64[n]", "int64[20000]"])
def test_other_products_are_written_as_they_are(spec, whole):
    def f(x):
        return x @ x

    assert "return x @ x\n" in sg.compile(f).source(spec)


@pytest.mark.parametrize("shape", [(3, 4), (700, 3), (40, 300), (0, 3)])
@pytest.mark.parametrize("form", [np.ascontiguousarray, np.asfortranarray, lambda x: np.repeat(x, 2, axis=1)[:, ::2]])
def test_products_of_arrays_summed_up(form, shape):
    rng = np.random.default_rng(0)
    x, y = form(rng.normal(size=shape)), rng.normal(size=shape)
    for a, b in ((x, y), (x, x), (y, x)):
        np.testing.assert_allclose(runtime._dot(a, b), np.sum(a * b), rtol=1e-12, atol=1e-10)
        expected = np.sum(a * b, axis=1)
        np.testing.assert_allclose(runtime._vecdot(a, b), expected, rtol=1e-12, atol=1e-10)
        np.testing.assert_allclose(runtime._vecdot(a, b, out=np.empty(shape[0])), expected, rtol=1e-12, atol=1e-10)


def test_few_rows_that_lie_by_columns_are_not_summed_by_blas(monkeypatch):
    x = np.random.default_rng(0).normal(size=(2, 300)).T
    expected = np.sum(x * x, axis=1)
    monkeypatch.setattr(np, "vecdot", None)
    np.testing.assert_allclose(runtime._vecdot(x, x), expected, rtol=1e-12)
