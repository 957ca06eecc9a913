"""How long symgrad takes from a Python function to a compiled gradient, beside the first call of jax.jit.

    python benchmarks/compile_time.py              models against jax, chains of 1 000 and 10 000 sines, import time
    python benchmarks/compile_time.py --large      a chain of 100 000 sines, too
    python benchmarks/compile_time.py --phases     where the time goes, by cProfile

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
from itertools import pairwise

import numpy as np

import symgrad as sg

REPEATS = 7
PHASES = {  # label: (file, function) whose cumulative time it is; indented ones are part of the one above
    "trace": ("trace.py", "trace"),
    "  simplify before differentiating": ("rewrite/__init__.py", "improved"),
    "  pullback": ("derive.py", "pullback"),
    "simplify": ("rewrite/__init__.py", "optimise"),
    "emit": ("emit/module.py", "emit"),
    "load": ("compile.py", "_load"),
    "guard": ("emit/guard.py", "__init__"),
}


# ---- the programs, for NumPy and for jax.numpy alike


def logistic(xp):
    def loss(w, x, y):
        return xp.mean(xp.log(1 + xp.exp(-y * (x @ w))))

    return loss


def mlp(xp):
    def loss(params, x, y):
        *hidden, last = params
        h = x
        for layer in hidden:
            h = xp.tanh(h @ layer["W"] + layer["b"])
        scores = h @ last["W"] + last["b"]
        top = xp.max(scores, axis=1, keepdims=True)
        log_sum = top[:, 0] + xp.log(xp.sum(xp.exp(scores - top), axis=1))
        return xp.mean(log_sum - xp.sum(y * scores, axis=1))

    return loss


def mixture(xp):
    def loss(alpha, mu, q, l, x):
        k, d = mu.shape
        rows, cols = np.tril_indices(d, -1)
        if xp is np:
            lower = np.zeros((k, d, d), like=l)
            lower[:, rows, cols] = l
        else:
            lower = xp.zeros((k, d, d), l.dtype).at[:, rows, cols].set(l)
        centred = x[:, None, :] - mu
        whitened = xp.exp(q) * centred + xp.einsum("kij,nkj->nki", lower, centred)
        logits = alpha + q.sum(1) - 0.5 * (whitened**2).sum(2)
        top = logits.max(1, keepdims=True)
        log_sum = top[:, 0] + xp.log(xp.exp(logits - top).sum(1))
        return x.shape[0] * xp.log(xp.exp(alpha).sum()) - log_sum.sum()

    return loss


def programs():
    """Name, maker of the loss, arguments, argnums."""
    rng = np.random.default_rng(0)
    sizes = (784, 512, 512, 10)
    layers = [{"W": rng.normal(size=s) / 28, "b": np.zeros(s[1])} for s in pairwise(sizes)]
    one_hot = np.eye(10)[rng.integers(10, size=128)]
    d, k = 20, 25
    shapes = (k,), (k, d), (k, d), (k, d * (d - 1) // 2), (1000, d)
    yield "logistic regression", logistic, (rng.normal(size=50), rng.normal(size=(500, 50)), np.ones(500)), 0
    yield "MLP 784-512-512-10", mlp, (layers, rng.normal(size=(128, 784)), one_hot), 0
    yield "Gaussian mixture", mixture, tuple(rng.normal(size=s) for s in shapes), (0, 1, 2, 3)


# ---- measuring


def seconds(run):
    gc.collect()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def against_jax(repeats):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    other = np.linspace(0, 1, 7)
    sg.value_and_grad(lambda x: np.sum(np.cos(x) * x))(other)
    jax.jit(jax.value_and_grad(lambda x: jnp.sum(jnp.cos(x) * x)))(other)

    print(f"{'':24}{'symgrad':>30}{'jax.jit':>12}{'ratio':>8}")
    print(f"{'':24}{'trace to callable':>18}{'first call':>12}{'first call':>12}")
    for name, make, args, argnums in programs():
        ours, first, peer = (1e3 * t for t in first_calls(make, args, argnums, repeats))
        print(f"{name:24}{ours:15.1f} ms{first:9.1f} ms{peer:9.1f} ms{peer / ours:8.1f}")


def first_calls(make, args, argnums, repeats):
    """Seconds that `compile` and the first call of a fresh function take, and the first call of a fresh jax.jit."""
    import jax
    import jax.numpy as jnp

    def fresh():
        return sg.value_and_grad(make(np), argnums)

    def fresh_peer():
        return jax.jit(jax.value_and_grad(make(jnp), argnums))

    peer_args = jax.tree.map(jnp.asarray, args)
    agree(fresh()(*args), fresh_peer()(*peer_args))
    times = [
        (
            seconds(lambda: fresh().compile(*args)),
            seconds(lambda: fresh()(*args)),
            seconds(lambda: jax.block_until_ready(fresh_peer()(*peer_args))),
        )
        for _ in range(repeats)
    ]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def agree(mine, theirs):
    """Both compilers were given the same program."""
    import jax

    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


def chain(n):
    def f(x):
        for _ in range(n):
            x = np.sin(x)
        return x

    return f


def chains(lengths):
    sg.grad(chain(10))(1.0)
    print("\ngradient of a chain of sines, trace to callable")
    for n in lengths:
        gc.collect()
        start = time.perf_counter()
        compiled = sg.grad(chain(n)).compile(1.0)
        print(f"{n:>10}{time.perf_counter() - start:9.2f} s", flush=True)
        value, slope = 1.0, 1.0
        for _ in range(n):
            value, slope = np.sin(value), slope * np.cos(value)
        np.testing.assert_allclose(compiled(1.0), slope, rtol=1e-9)


def imports(repeats):
    def once(module):
        code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
        return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    once("symgrad")  # writes the bytecode
    times = [(once("numpy"), once("symgrad")) for _ in range(repeats)]
    base, ours = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"\nimport numpy {base * 1e3:.0f} ms, import symgrad {ours * 1e3:.0f} ms, ratio {ours / base:.2f}")


def phases():
    cases = [(name, sg.value_and_grad(make(np), argnums), args) for name, make, args, argnums in programs()]
    cases.append(("chain of 10 000 sines", sg.grad(chain(10_000)), (1.0,)))
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="also a chain of 100 000")
    parser.add_argument("--phases", action="store_true", help="only show where the time goes")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    if options.phases:
        phases()
        return
    against_jax(options.repeats)
    chains([1_000, 10_000, *([100_000] if options.large else [])])
    imports(options.repeats)


if __name__ == "__main__":
    main()
