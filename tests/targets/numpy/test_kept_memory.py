"""Large arrays that turns compute for themselves lie in memory that is kept over the turns."""

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree
from symgrad.targets.numpy import abilities
from tests.programs import without_comments

rng = np.random.default_rng(0)
U, K = rng.uniform(0.5, 1.0, (10, 12)), rng.uniform(0.5, 1.0, (10, 12))


@pytest.fixture
def for_all(monkeypatch, whole):
    """Treat all arrays as large."""
    monkeypatch.setattr(abilities, "RETURNED", 17)


def heat(u, k):
    for _ in range(20):
        lap = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        u = u.copy()
        u[1:-1, 1:-1] += 0.1 * k[1:-1, 1:-1] * lap
    return u


def swapped(u, k):
    """The carry does not share the memory of temporaries."""
    v = np.cos(u) * k
    for t in range(20):
        u, v = v, np.sin(u * k - v) / (t + 1) + 0.5 * u
    return u - v


def stacked(u, k):
    """The ys do not share the memory of temporaries, nor view it."""

    def step(c, t):
        a = np.sin(c) * k
        b = a * np.roll(a, 1)
        return c * 0.9 + b, (a[1:], b.T, np.exp(b) * t)

    return sg.scan(step, u, np.arange(20.0))


def written(u, k):
    """An array that is written into keeps what it is, and so does what was computed of it before."""
    for _ in range(20):
        a = u * k + 1
        before = np.sum(np.sqrt(a))
        a[0] = 0.5
        b = np.sqrt(a * a + k)
        a[1:3] = b[:2]
        u = (a + b) / before
    return u


def branched(u, k):
    for _ in range(20):
        a = np.sin(u * k)
        if np.sum(a) > 3:
            b = a * 2
        else:
            b = a
        u = 0.5 * (np.cos(a) + b + u)
    return u


def late(u, k):
    """Results that wait for the end of a turn read memory that other values have later."""
    v = u * k
    for _ in range(20):
        a = np.exp(-u)
        new = u + 0.1 * a
        b = np.cos(v * k)
        c = np.sin(b + k)
        v = v - 0.1 * c * u
        u = new
    return u * v


def halving(u, k):
    while np.max(u) > 0.1:
        a = u * k
        u = u - a * (1 - 0.1 * a * a)
    return u


PROGRAMS = [heat, swapped, stacked, written, branched, late, halving]


def check(f, *args):
    expected = tree.flatten(f.compile(*args, optimize=0)(*args))[0]
    compiled = f.compile(*args)
    for _ in range(2):
        first = tree.flatten(compiled(*args))[0]
        for x, y in zip(first, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    return compiled.source


@pytest.mark.parametrize("f", PROGRAMS)
def test_values(f, for_all):
    assert "out=s1" in check(sg.compile(f), U, K)


@pytest.mark.parametrize("f", [heat, swapped, written, late])
def test_gradients(f, for_all):
    assert "out=s1" in check(sg.grad(lambda u, k: np.sum(f(u, k) ** 2), argnums=(0, 1)), U, K)


def test_results_are_arrays_of_their_own(for_all):
    f = sg.compile(swapped)
    first = f(U, K)
    kept = first.copy()
    f(K, U)
    np.testing.assert_array_equal(first, kept)


def test_memory_is_there_before_the_loop_and_used_again(usual_sizes):
    source = sg.compile(heat).source("float64[500, 500]", "float64[500, 500]")
    before, behind = without_comments(source).split("for _ in range(20):")
    assert len(re.findall(r"s\d = np.empty\(\(498, 498\)\)", before)) == 2
    assert "np.empty" not in behind
    assert "out=" not in sg.compile(heat).source("float64[50, 50]", "float64[50, 50]")
    assert "out=" not in sg.compile(heat).compile("float64[500, 500]", "float64[500, 500]", optimize=1).source
