"""Memory that buffers share: one after the other, so that checkpoints save memory in C."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from math import prod

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.sizes import symbols_of
from symgrad.lowering import shared_memory
from symgrad.lowering.statements import Parallel, walk
from symgrad.lowering.uses import uses_of
from symgrad.pipeline import optimise
from symgrad.targets.c import kernels
from symgrad.targets.c.partition import partitioned
from symgrad.targets.c.toolchain import compiler
from symgrad.targets.target import C

rng = np.random.default_rng(5)
native = pytest.mark.skipif(compiler() is None, reason="no C compiler")


def plain(f):
    return f


def network(wrap, layers=16, every=4):
    def segment(h, weights):
        for W in weights:
            h = np.tanh(h @ W)
        return h

    def loss(weights, x):
        for i in range(0, layers, every):
            x = wrap(segment)(x, weights[i : i + every])
        return np.sum(x * x)

    return sg.value_and_grad(loss)


def lowered(f, *specs):
    """Return the statements of the kernels of a program."""
    graph = optimise(f.trace(*specs).graph, 2, "stable", C)
    found = []
    partitioned(graph, lambda parts: found.extend(kernels.lowered(parts)) or [None] * len(parts))
    return found


def numbers(function):
    return sum(prod(map(int, b.shape)) for b in function.buffers if b.kind == "own")


WIDE = ["float64[32, 32]"] * 16, "float64[100000, 32]"
LAYER = 3_200_000  # numbers; what tiles hold is a hundredth of it


def test_a_program_needs_what_is_in_use_at_once():
    (function,) = lowered(network(plain), *WIDE)
    assert 17 <= numbers(function) / LAYER < 17.1  # each layer for the derivative, and the cotangent


def test_checkpoints_save_memory():
    (function,) = lowered(network(sg.checkpoint), *WIDE)
    assert numbers(function) / LAYER < 6.1  # the ends of segments, and cotangents there: the rest is in tiles


def test_sizes_may_be_symbols():
    (function,) = lowered(network(sg.checkpoint), WIDE[0], "float64[n, 32]")
    assert len([b for b in function.buffers if b.kind == "own" and symbols_of(b.shape[0])]) <= 6


PROGRAMS = {
    "network": (network(sg.checkpoint, 6, 2), [["float64[32, 32]"] * 6, "float64[40, 32]"]),
    "loop": (sg.grad(lambda x: looped(x)), ["float64[40, 20]"]),
    "maps": (
        sg.grad(lambda x: np.sum(np.sin(np.cumsum(np.exp(np.sort(x) * x.T[0, 0]), axis=0) @ x))),
        ["float64[30, 30]"],
    ),
}


def looped(x):
    h = np.zeros((40, 20))
    for k in range(3):
        h = np.tanh(np.cumsum(h + x, axis=1)) * h[::-1] + k
        if h[0, 0] > 0:
            h = np.cumsum(h * x, axis=0)
    return np.sum(h * h)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_shares_memory_is_not_in_use_at_once(name, monkeypatch):
    f, specs = PROGRAMS[name]
    monkeypatch.setattr(shared_memory, "FEW", 0)
    shared = lowered(f, *specs)
    assert any(b.then for function in shared for b in function.buffers)
    monkeypatch.setattr(kernels, "with_shared_memory", lambda function: function)
    for function, before in zip(shared, lowered(f, *specs), strict=True):
        named = {b.name: b for b in before.buffers}
        spans = {b.name: [k for k, s in enumerate(before.body) if b in uses_of(s).buffers] for b in before.buffers}
        for b in function.buffers:
            together = [b.name, *b.then]
            assert len({(named[x].dtype, named[x].shape, named[x].kind) for x in together}) == 1
            for one, next_one in pairwise(together):
                assert max(spans[one]) < min(spans[next_one])
        private = {b for s in walk(function.body) if isinstance(s, Parallel) for b in s.private}
        assert not any(b.then for b in private)
        used = {b for s in function.body for b in uses_of(s).buffers if b.kind == "own"}
        assert used <= set(function.buffers)


@pytest.mark.slow
@native
@pytest.mark.parametrize("optimize", [0, 2])
def test_values_and_memory_as_measured(optimize):
    weights, x = [rng.standard_normal((32, 32)) / 5 for _ in range(16)], rng.standard_normal((2048, 32))
    expected = network(plain).compile(weights, x, target="numpy")(weights, x)

    def measured(wrap):
        f = network(wrap).compile(weights, x, optimize=optimize, target="c")
        tracemalloc.start()
        try:
            with ThreadPoolExecutor(1) as pool:  # each thread has memory of its own
                return pool.submit(f, weights, x).result(), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    (value, slopes), kept = measured(plain)
    (again, slopes_again), least = measured(sg.checkpoint)
    np.testing.assert_allclose([value, again], expected[0], rtol=1e-10)
    for a, b, c in zip(slopes, slopes_again, expected[1], strict=True):
        np.testing.assert_allclose(a, c, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(b, c, rtol=1e-9, atol=1e-12)
    assert least < 0.6 * kept
