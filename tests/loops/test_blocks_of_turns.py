"""Loops over turns inside of loops over blocks of rows."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree
from symgrad.core.interpret import interpret
from symgrad.loops.loop import LOOP
from symgrad.ops.control import SCAN

rng = np.random.default_rng(0)
X, K, A = rng.uniform(0.5, 2.0, 33), rng.uniform(0.5, 2.0, 33), rng.uniform(-1.0, 1.0, (4, 33))


def is_cut(compiled):
    """Whether there are loops over turns, and all of them in blocks."""
    loops = [node for node in compiled.graph.live if node.op is LOOP]
    inside = [node for loop in loops for node in dict(loop.params)["body"].graph.nodes]
    return any(node.op is SCAN for node in inside) and not any(node.op is SCAN for node in compiled.graph.live)


def compiled_and_checked(f, *args, specs=None):
    """The program in blocks gives what it gives turn by turn as it was written, and so does its interpreter."""
    expected = tree.flatten(f.compile(*args, optimize=0)(*args))[0]
    compiled = f.compile(*(specs or args))
    graph = compiled.graph
    found = [tree.flatten(compiled(*args))[0], interpret(graph.outputs, dict(zip(graph.inputs, args, strict=True)))]
    for values in found:
        for x, y in zip(values, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    return compiled


def relaxed(x, k):
    for t in range(40):
        x = x + 0.1 * (k * np.sin(x) - x / (t + 1))
    return np.sum(x * x)


def begun_inside(x, k):
    """The initial carry is computed inside of the block, and is kept."""
    y = x * x
    for _ in range(30):
        y = y * k + 0.1
    return np.sum(np.exp(-np.sin(x * k) * y) * y)


def filtered(x, rows):
    def step(c, row):
        c = 0.9 * c + 0.1 * np.tanh(row + c)
        return c, c * c

    c, squares = sg.scan(step, x, rows, reverse=True)
    return np.sum(c) + np.sum(squares * rows)


def nested(x, k):
    for t in range(20):
        for s in range(t, 30):
            x = x + 0.01 * s * np.sin(k * x)
    return np.sum(x)


def segmented(x, k):
    return np.sum(sg.fori_loop(0, 6, lambda t, s: s + np.sin(s * k) * t, x, checkpoint=2))


def weighted(x, k):
    """Numbers that are carried are those of each block."""
    decay = np.sqrt(0.5)
    for _ in range(40):
        decay = np.sin(decay)
        x = x + decay * k * np.cos(np.ones_like(x) * decay) / len(x)
    return np.sum(x**2)


PROGRAMS = {
    "relaxed": (relaxed, X, K),
    "of rows": (relaxed, rng.random((5, 3)), rng.random(3)),
    "begun inside": (begun_inside, X, 0.5 * K),
    "filtered": (filtered, X, A),
    "segmented": (segmented, X, K),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_turns_in_blocks(name, tiny_blocks):
    f, *args = PROGRAMS[name]
    assert is_cut(compiled_and_checked(sg.value_and_grad(f, argnums=(0, 1)), *args))


@pytest.mark.slow
def test_nested_turns_in_blocks(tiny_blocks):
    assert is_cut(compiled_and_checked(sg.compile(nested), X, K))
    compiled_and_checked(sg.grad(nested, argnums=(0, 1)), X, K)


def test_turns_in_blocks_of_any_number_of_rows(tiny_blocks):
    f = sg.value_and_grad(filtered, argnums=(0, 1))
    assert is_cut(compiled_and_checked(f, X, A, specs=("float64[n]", "float64[m, n]")))
    assert is_cut(compiled_and_checked(sg.compile(weighted), X, K, specs=("float64[n]", "float64[n]")))


def root(a):
    x = a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def bisected(a):
    low, high = 0.0, a + 1.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        if middle**3 > a:
            high = middle
        else:
            low = middle
    return low + high


@pytest.mark.parametrize("f", [root, bisected])
def test_each_block_turns_until_its_own_rows_are_done(f, tiny_blocks):
    assert is_cut(compiled_and_checked(sg.vmap(f), 10.0 ** np.linspace(-3, 3, 33)))


def halved(x):
    """The number of turns is for all rows."""
    going, turns = x > 1, np.zeros_like(x)
    while np.any(going):
        x = np.where(going, 0.5 * x, x)
        turns = turns + 1
        going = going & (x > 1)
    return x, turns


def halved_all(x):
    """Rows that are done go on."""
    going = x > 1
    while np.any(going):
        x = np.where(going, 0.5 * x, 0.9 * x)
        going = going & (x > 1)
    return x


def begun_again(x):
    """Rows that are done may go on later."""
    going = x > 1
    while np.any(going):
        x = np.where(going, 0.5 * x, x)
        going = (x > 1) | (~going & (x > 0.9))
        x = np.where(going, x, x - 0.01)
    return x


def converged(x):
    """The test is for all rows."""
    while np.max(np.abs(np.cos(x) - x)) > 1e-3:
        x = np.cos(x)
    return x


def kept_of_each(x):
    """The ys have the same length for all rows."""
    return sg.grad(lambda x: np.sum(halved_all(x * x)))(x)


def smoothed(x):
    for _ in range(40):
        x = x + 0.1 * (np.roll(x, 1) - x)
    return x


def normed(x):
    for _ in range(40):
        x = np.sin(x) / np.sqrt(np.sum(x * x))
    return x


def rescaled(x):
    """A number that each block would have, and that is asked for once."""
    s = x[0]
    for _ in range(40):
        x, s = np.sin(x * s), np.cos(s)
    return x * 2, s


@pytest.mark.parametrize("f", [halved, halved_all, begun_again, converged, kept_of_each, smoothed, normed, rescaled])
def test_turns_that_concern_all_rows_run_for_all(f, tiny_blocks):
    assert not is_cut(compiled_and_checked(sg.compile(f), np.array([0.3, 40.0, 1.5, 0.95, 7.0, 300.0])))


def test_blocks_for_many_rows_only(usual_sizes):
    f = sg.value_and_grad(relaxed, argnums=(0, 1))
    assert is_cut(f.compile("float64[200000]", "float64[200000]"))
    assert not is_cut(f.compile("float64[1000]", "float64[1000]"))


def test_the_source_is_a_loop_over_turns_in_one_over_blocks(usual_sizes):
    source = sg.vmap(root).source("float64[100000]")
    block = source.split("in _blocks(start, stop")[1].split("\n\n")[0]
    assert "while going.any():" in block
    assert "while" not in source.split("def share")[0].split("def root_vmap")[1]


def test_a_loop_that_adds_up_sums_over_rows_runs_in_blocks(tiny_blocks):
    def filters(q, z, r):
        m, p, loss = np.zeros(z.shape[0]), np.ones(z.shape[0]), 0.0
        for t in range(z.shape[1]):
            p = p + q
            gain, e = p / (p + r), z[:, t] - m
            loss = loss + np.sum(np.log(p + r) + e * e / (p + r))
            m, p = m + gain * e, (1 - gain) * p
        return loss

    rng = np.random.default_rng(0)
    args = np.float64(0.3), rng.normal(size=(11, 50)), rng.uniform(0.5, 1.0, 11)
    slope = sg.value_and_grad(filters)
    compiled = slope.compile(*args)
    assert is_cut(compiled)
    whole = slope.compile(*args, optimize=1)(*args)
    np.testing.assert_allclose(compiled(*args), whole, rtol=1e-12)


def test_a_sum_over_rows_that_an_iteration_reads_is_whole(usual_sizes):
    def centred(x):
        for _ in range(20):
            x = np.tanh(x - np.mean(x))
        return np.sum(x**2)

    def running(x):
        total = 0.0
        for _ in range(20):
            x = np.tanh(x)
            total = total + np.sum(x)
            x = x + 1e-3 * total
        return np.sum(x) + total

    x = np.random.default_rng(0).normal(size=100_000)
    for f in (centred, running):
        slope = sg.value_and_grad(f)
        value, gradient = slope(x)
        expected, expected_gradient = slope.compile(x, optimize=0)(x)
        np.testing.assert_allclose(value, expected, rtol=1e-10)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-8, atol=1e-12)


def test_a_running_total_over_rows_is_stacked_in_parts(tiny_blocks):
    def totals(x, start):
        total, found = start, []
        for t in range(20):
            total = total + np.sum(x * t)
            found.append(total)
        return np.array(found)

    x = np.random.default_rng(0).normal(size=11)
    for start in (0.0, 2.5):
        f = sg.compile(lambda x, start=start: totals(x, start))
        np.testing.assert_allclose(f(x), totals(x, start), rtol=1e-12)
