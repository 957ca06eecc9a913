"""Time from a Python function to a compiled gradient, compared with the first call of jax.jit.

    python benchmarks/compile_time.py              models against jax, chains of 1 000 and 10 000 sines, import time
    python benchmarks/compile_time.py --large      a chain of 100 000 sines, too
    python benchmarks/compile_time.py --phases     where the time goes, by cProfile
    python benchmarks/compile_time.py --rewrites [FOLDER ...]    how often rules rewrite a node, and which stages change
                                                   anything: in the cases of run.py and the programs of folders

Every function is fresh, in a process where both compilers have run before. Runs are interleaved, figures are medians.
``trace to callable`` is `Function.compile`; the first call also runs the program once, on either side.
"""

import argparse
import cProfile
import gc
import pstats
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path

import firing
import numpy as np
from cases import CASES
from contestants import Jax, Symgrad
from timing import compared
from worker import seconds

import symgrad as sg
from symgrad.core.recording import recording
from symgrad.core.region import with_nested

REPEATS = 7
PHASES = {  # label: (file, function) whose cumulative time it is; indented ones are part of the one above
    "trace": ("frontend/trace.py", "trace"),
    "  simplify before differentiating": ("pipeline.py", "canonicalised"),
    "  pullback": ("derivatives/pullback.py", "pullback"),
    "simplify": ("pipeline.py", "optimise"),
    "emit": ("targets/numpy/module.py", "emit"),
    "load": ("compiler/compiled.py", "_load"),
    "guard": ("targets/numpy/guard.py", "__init__"),
}


MODELS = {  # title: (case, sizes)
    "logistic regression, 500 x 50": ("logistic regression", {"n": 500, "d": 50}),
    "MLP 784-512-512-10, batch of 128": ("MLP", {"batch": 128}),
    "Gaussian mixture, d = 20, k = 25, n = 1000": ("Gaussian mixture", {"d": 20, "k": 25, "n": 1000}),
}


def models():
    """Titles, and cases of `run.py` at sizes where compiling is what takes the time."""
    for title, (name, sizes) in MODELS.items():
        yield title, replace(next(case for case in CASES if case.name.startswith(name)), sizes=sizes)


# ---- measuring


def against_jax(repeats):
    mine, peer = Symgrad(), Jax()
    for contestant in mine, peer:
        contestant.version()
        contestant.warm_up()
    print(f"{'':44}{'symgrad':>30}{'jax.jit':>12}{'ratio':>8}")
    print(f"{'':44}{'trace to callable':>18}{'first call':>12}{'first call':>12}")
    for title, case in models():
        ours, first, theirs = (1e3 * t for t in first_calls(case, mine, peer, repeats))
        print(f"{title:44}{ours:15.1f} ms{first:9.1f} ms{theirs:9.1f} ms{theirs / ours:8.1f}")


def first_calls(case, mine, peer, repeats):
    """Seconds that `compile` and the first call of a fresh function take, and the first call of a fresh jax.jit."""
    args, peer_args = case.args(), peer.place(case.args())
    reference = mine.numbers(mine.prepare(case, args)())
    _, wrong = compared(peer.numbers(peer.prepare(case, peer_args)()), reference, case.dtype)
    assert not wrong, f"{case.name}: {wrong}"
    times = [
        (
            seconds(lambda: mine.compile(case, args)),
            seconds(lambda: mine.prepare(case, args)()),
            seconds(lambda: peer.prepare(case, peer_args)()),
        )
        for _ in range(repeats)
    ]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def straight(n):
    """Return a chain of sines, each by a call of its own: in a loop over ``range(n)`` one would be compiled."""
    steps = [lambda x: np.sin(x) * 1.5] * n

    def f(x):
        for step in steps:
            x = step(x)
        return np.sum(x)

    return f


def chains(lengths):
    x = np.linspace(0.0, 1.0, 50)
    np.testing.assert_allclose(sg.grad(straight(20))(x), slope(x, 20), rtol=1e-9)
    print("\ngradient of a chain of sines of 50 numbers, trace to callable")
    for n in lengths:
        gc.collect()
        start, busy = time.perf_counter(), time.process_time()
        sg.grad(straight(n)).compile(x)
        busy = time.process_time() - busy
        print(f"{n:>10}{time.perf_counter() - start:9.2f} s, of the processor {busy / n * 1e3:.3f} ms each", flush=True)


def slope(x, n):
    found = np.ones_like(x)
    for _ in range(n):
        x, found = np.sin(x) * 1.5, found * np.cos(x) * 1.5
    return found


def imports(repeats):
    def once(module):
        code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
        return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    once("symgrad")  # writes the bytecode
    times = [(once("numpy"), once("symgrad")) for _ in range(repeats)]
    base, ours = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"\nimport numpy {base * 1e3:.0f} ms, import symgrad {ours * 1e3:.0f} ms, ratio {ours / base:.2f}")


def phases():
    cases = [(title, Symgrad().function(case), case.args()) for title, case in models()]
    cases.append(("chain of 10 000 sines", sg.grad(straight(10_000)), (np.linspace(0.0, 1.0, 50),)))
    for name, function, args in cases:
        function.compile(*args)
        profile = cProfile.Profile()
        profile.runcall(function.compile, *args)
        stats = pstats.Stats(profile).stats
        total = sum(row[2] for row in stats.values())
        print(f"\n{name}: {total * 1e3:.1f} ms under cProfile")
        for label, (file, function_name) in PHASES.items():
            assert any(key[0].endswith(f"symgrad/{file}") and key[2] == function_name for key in stats), label
            spent = sum(
                row[3] for key, row in stats.items() if key[0].endswith(f"symgrad/{file}") and key[2] == function_name
            )
            print(f"  {label:34}{spent / total:6.0%}")


# ---- counting


def rewrites(folders):
    """Count what the compiler does for value and gradient, which is the same on every machine."""
    print(f"{'':44}{'nodes':>8}{'rewrites':>10}{'per node':>10}{'stages':>8}{'changed':>9}")
    rows = []
    for program in chain(firing.cases(), *map(firing.in_folder, folders)):
        rows.append(counts(program))
        show(*rows[-1])
    show("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:]))


def show(name, nodes, rewritten, stages, changed):
    print(f"{name:44}{nodes:8}{rewritten:10}{rewritten / nodes:10.2f}{stages:8}{changed:9}", flush=True)


def counts(program):
    """The name of a program; its nodes, those of bodies included; rewrites; stages that ran, and that changed it."""
    function = sg.value_and_grad(program.function, program.wrt) if program.wrt else sg.compile(program.function)
    nodes = len(list(with_nested(function.graph(*program.small).live)))
    with recording() as log:
        function.compile(*program.small)
    return program.name, nodes, len(log.rewrites), len(log.stages), sum(stage.changed for stage in log.stages)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="also a chain of 100 000")
    parser.add_argument("--phases", action="store_true", help="only show where the time goes")
    parser.add_argument("--rewrites", nargs="*", type=Path, metavar="FOLDER", help="only count rewrites per node")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    if options.rewrites is not None:
        rewrites(options.rewrites)
        return
    if options.phases:
        phases()
        return
    against_jax(options.repeats)
    chains([1_000, 10_000, *([100_000] if options.large else [])])
    imports(options.repeats)


if __name__ == "__main__":
    main()
