"""Threads of ``target="c"``: the same bits for any number of them, whoever calls, and whatever interrupts."""

import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import symgrad as sg
from symgrad.lowering import parallel
from symgrad.targets.c import pool, toolchain
from symgrad.targets.c.kernels import lowered
from symgrad.targets.c.library import INCLUDES, needed_by
from symgrad.targets.c.printing import Printer
from symgrad.targets.c.standalone import kernel_of
from tests.targets.c.test_native import PROGRAMS

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")

rng = np.random.default_rng(0)
X, Y, W = rng.normal(size=3000), rng.normal(size=3000), rng.normal(size=(500, 7))
ROWS = rng.integers(0, 40, size=3000)


def paths(starts, shocks):
    """Series that do not depend on each other, each with a loop."""

    def one(x, noise):
        for e in noise:
            x = 0.9 * x + np.sin(x) * e
        return x

    return np.sum(sg.vmap(one)(starts, shocks) ** 2)


def tables(x, rows):
    total = np.zeros(40)
    np.add.at(total, rows, np.exp(x))
    return np.sum(np.log1p(total**2) * np.sin(total))


def pairs(x):
    distance = np.sqrt((x[:, None] - x) ** 2 + 0.1)
    return np.sum(np.exp(-distance) / np.sum(distance, axis=1))


def so_far(x):
    out = np.zeros(len(x))
    for i in range(1, len(x)):
        out[i] = np.mean(x[:i]) + np.max(x[:i])
    return np.sum(out * out)


def damped(x):
    while x @ x > 50.0:
        x = 0.9 * np.tanh(x) * np.cos(0.1 * x)
    return x @ np.cos(x)


SHARED = {
    "map": (sg.compile, lambda x, y: np.exp(x) * np.sin(y) + x[::-1], (X, Y)),
    "sums": (sg.value_and_grad, lambda x, y: np.sum(np.exp(-x * y) * np.sin(x)) / np.max(y), (X, Y)),
    "single precision": (sg.value_and_grad, lambda x: np.sum(np.tanh(x) ** 2), (X.astype(np.float32),)),
    "integers": (sg.compile, lambda rows: np.sum(rows * rows) + np.cumsum(rows % 7), (ROWS,)),
    "booleans": (sg.compile, lambda w: (np.any(w > 2.9, axis=0), np.all(w > -2.9, axis=0), np.any(w > 9)), (W,)),
    "rows": (sg.value_and_grad, lambda w, v: np.sum(np.log1p(np.exp(w @ v))), (W, W[0].copy())),
    "columns": (sg.value_and_grad, lambda w: np.sum(np.sum(np.cos(w), axis=0) ** 3), (W,)),
    "pairs": (sg.value_and_grad, pairs, (X[:200].copy(),)),
    "scatter": (sg.value_and_grad, tables, (X, ROWS)),
    "series": (sg.value_and_grad, paths, (X[:300].copy(), rng.normal(size=(300, 20)))),
    "as long as the index": (sg.value_and_grad, so_far, (X[:300].copy(),)),
    "inside of a loop of unknown length": (sg.value_and_grad, damped, (X,)),
    "large arguments": (sg.grad, lambda x: np.sum(np.sin(x * 1e14)), (X,)),
}


@pytest.fixture
def many_chunks(monkeypatch):
    """Chunks of little work, so that small programs have many."""
    monkeypatch.setattr(parallel, "PAYS", 0)
    monkeypatch.setattr(parallel, "LIGHT", 0)
    monkeypatch.setenv("SYMGRAD_CFLAGS", "-O1 -DSG_WORTH=200")


def bits(result):
    leaves = result if isinstance(result, tuple) else (result,)
    return [x for leaf in leaves for x in (bits(leaf) if isinstance(leaf, tuple) else [np.asarray(leaf).tobytes()])]


def assert_close(found, expected):
    for a, b in zip(map(np.asarray, flat(found)), map(np.asarray, flat(expected)), strict=True):
        single = a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-5 if single else 1e-10, atol=1e-6 if single else 1e-12)


def flat(result):
    return [x for leaf in result for x in flat(leaf)] if isinstance(result, tuple) else [result]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_bits_do_not_depend_on_the_number_of_threads(name, many_chunks):
    transform, f, args = SHARED[name]
    found = []
    for threads in (1, 2, 8):
        run = transform(f, target="c", threads=threads).compile(*args)
        assert "_in_chunks(" in run.source.native
        found.append(bits(run(*args)))
    assert_close(run(*args), transform(f, target="numpy")(*args))
    assert all(x == found[0] for x in found[1:])


@pytest.mark.parametrize("name", PROGRAMS)
def test_small_programs_in_chunks(name, many_chunks, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CFLAGS", "-O0 -DSG_WORTH=1")
    f, args, argnums = PROGRAMS[name]
    found = sg.value_and_grad(f, argnums, target="c", threads=3)(*args)
    assert_close(found, sg.value_and_grad(f, argnums, target="numpy")(*args))


def carried(x):
    y, ys = 0.0, []
    for e in x:
        y = 0.5 * y + e
        ys.append(y)
    return np.stack(ys)


@pytest.mark.parametrize("f", [carried, lambda x: np.cumsum(np.cumsum(x))])
def test_loops_that_no_threads_share(f, many_chunks):
    source = sg.compile(f, target="c", threads=3).compile("float64[400]").source.native
    assert "kernel_1" in source
    assert "_in_chunks(" not in source


def test_loops_that_are_known_to_be_short_are_not_shared():
    source = sg.grad(lambda x: np.sum(np.sin(x)), target="c").compile("float64[1000]").source.native
    assert "_in_chunks(" not in source


@pytest.fixture(scope="module")
def program():
    """A program with sums in chunks, as users have it."""
    x = rng.normal(size=200_000)
    run = sg.value_and_grad(lambda x: np.sum(np.exp(-x * x) * np.sin(x)), target="c", threads=3).compile("float64[n]")
    return run, x, bits(run(x))


def child(run, x, connection):
    connection.send(bits(run(x)))
    connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork")  # of Python 3.12, and of JAX where it is there
def test_after_a_fork(program):
    run, x, expected = program
    context = multiprocessing.get_context("fork")
    for _ in range(3):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=child, args=(run, x, there))
        process.start()
        assert here.poll(60), "the child does not answer"
        assert here.recv() == expected
        process.join()
        assert bits(run(x)) == expected


def test_eight_threads_of_python_call_at_once(program):
    run, x, expected = program
    with ThreadPoolExecutor(8) as executor:
        found = list(executor.map(lambda _: bits(run(x)), range(200)))
    assert all(each == expected for each in found)


def test_the_error_is_that_of_the_first_chunk_that_fails(many_chunks):
    def f(table, rows):
        return np.sum(np.exp(table[rows]))

    run = sg.compile(f, target="c", threads=3).compile("float64[n]", "int64[m]")
    rows = ROWS.copy()
    rows[[100, 2900]] = 10**6
    for _ in range(5):
        with pytest.raises(IndexError, match="out of bounds"):
            run(X, rows)
        np.testing.assert_allclose(run(X, ROWS), f(X, ROWS))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer")
def test_a_signal_ends_a_long_call(many_chunks):
    """Handlers run while threads compute, and may call kernels; other threads end soon after the first."""

    def turned(x, steps):
        def one(y):
            for _ in range(steps):
                y = 0.5 * y + np.cos(y)
            return y

        return np.sum(sg.vmap(one)(x))

    short = sg.compile(lambda x: turned(x, 50), target="c", threads=3).compile("float64[n]")
    long = sg.compile(lambda x: turned(x, 10**9), target="c", threads=3).compile("float64[n]")
    x = X[:100].copy()
    expected, seen = short(x), []

    def handler(number, frame):
        seen.append(short(x))
        if len(seen) == 3:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            long(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert [*seen, short(x)] == [expected] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_handler_that_forks_in_the_middle_of_a_call(program):
    """The child has none of the threads that compute for it; the parent goes on."""
    run, x, expected = program
    children = []

    def handler(number, frame):
        if not children:
            children.append(os.fork())

    before = signal.signal(signal.SIGALRM, handler)
    try:
        while not children:
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            try:
                is_right = bits(run(x)) == expected  # in a child, too, if the handler ran between two calls
            except RuntimeError:
                is_right = bool(children) and children[0] == 0 and bits(run(x)) == expected
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if children and children[0] == 0:
            os._exit(0 if is_right else 1)
    assert is_right
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0


COUNT = """
import os, threading
import numpy as np, symgrad as sg
x = np.linspace(0, 1, 1_000_000)
def others():
    return len(os.listdir("/proc/self/task")) - threading.active_count()  # Python's own threads come and go
def count(threads):
    sg.compile(lambda x: np.sum(np.exp(x)), target="c", threads=threads)(x)
    return others()
sg.compile(lambda x: np.sum(np.exp(x)), target="numpy")(x)
at_first = others()
print([count(n) - at_first for n in (1, 2, 4)])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_are_started_when_they_are_needed():
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0, 1, 3]"


MAIN = """
static bool sg_interrupted(void) { return false; }

int main(void)
{
    enum { N = 4000 };
    static double x[N], d_x[N], value[3];
    sg_threads = &sg_the_pool;
    for (int i = 0; i < N; i++)
        x[i] = 0.001 * i;
    for (int k = 0; k < 200; k++) {
        char *workspace = malloc((size_t)kernel_1_workspace(N) + 64);
        if (kernel_1(N, x, value + (k > 0), d_x, workspace) || value[0] != value[k > 0])
            return 1;
        free(workspace);
    }
    return 0;
}
"""


@pytest.mark.slow
def test_nothing_is_written_by_two_threads_at_once(many_chunks, tmp_path):
    """The compiler's own checks find no race, neither in the pool nor in a kernel."""
    cc = toolchain.required()
    compiled = sg.value_and_grad(lambda x: np.sum(np.exp(-x) * np.sum(x[1:] * x[:-1])), target="c")
    kernel = kernel_of(compiled.compile("float64[n]").whole)
    printed = Printer(lowered([kernel])[0], threads=3).printed()
    parts = [pool.POSIX, INCLUDES, needed_by(f"{printed} sg_pool SG_ALONE"), pool.threads(), printed, MAIN]
    (tmp_path / "race.c").write_text("\n\n".join(parts), "utf-8")
    flags = ["-O1", "-g", "-std=c11", "-DSG_WORTH=200", "-fopenmp-simd", "-w", "-fsanitize=thread"]
    command = [*cc.command, *(["cc"] if cc.is_zig else []), *flags, "race.c", "-o", "race", "-lm", "-lpthread"]
    if subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("the compiler has no such checks")
    assert "_in_chunks(" in printed
    done = subprocess.run([tmp_path / "race"], cwd=tmp_path, capture_output=True, text=True, check=False)
    if "FATAL: ThreadSanitizer" in done.stderr:  # memory of this system lies where it cannot be watched
        pytest.skip(done.stderr)
    assert (done.returncode, done.stderr) == (0, "")
