"""Loops over arrays of a few numbers run on the numbers themselves, where that is faster."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.interpret import interpret
from symgrad.core.region import regions_of
from symgrad.ops.control import SCAN

RNG = np.random.default_rng(0)
S, XS = np.array([0.4, 0.3]), RNG.standard_normal((40, 2))


def runs_on_numbers(compiled):
    """Whether no loop of a program is given an array."""
    loops = [node for node in compiled.graph.live if node.op is SCAN]
    assert loops
    return not any(x.aval.shape for node in loops for region in regions_of(node) for x in region.parameters)


# ---- programs that compute with single numbers of small arrays


def runge_kutta(s, p, xs):
    slope = lambda s: np.array([p[0] * s[0] - s[0] * s[1], s[0] * s[1] - p[1] * s[1]])
    total = 0.0
    for x in xs:
        k = slope(s)
        s = s + 0.05 * (k + slope(s + 0.1 * k))
        total = total + np.sum((s - x) ** 2)
    return total


def bouncing(s, p, xs):
    for _ in np.arange(40):
        s = s + 0.1 * np.stack([s[1], -p[0] - p[1] * s[1] * np.abs(s[1])])
        if s[0] < 0:
            s = np.array([-s[0], -0.9 * s[1]])
        else:
            s = s * 1.001
    return s[0] * s[1]


def falling(s, p, xs):
    while s[0] > -2 and s[1] < 30:
        s = s + 0.05 * np.array([s[1], -1 - p[0] * s[1] * s[1]])
    return s @ p


def assigned(s, p, xs):
    def turn(s, x):
        y = np.zeros(3)
        y[0] = s[1] * x[0]
        y[1:] += np.sin(s[:2]) * p
        y[2] = y[0] - s[0]
        return y, y[::-1]

    s, ys = sg.scan(turn, np.array([s[0], s[1], 1.0]), xs)
    return np.sum(s) + np.sum(ys**2)


def contracted(s, p, xs):
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    for x in xs:
        m = np.outer(p, x) * 0.3 + turn
        s = 0.5 * np.einsum("ij,j->i", m, s) + 0.5 * turn @ s + np.tensordot(m, x, axes=1) * np.vecdot(s, x) * 0.1
    return s @ s


def chosen(s, p, xs):
    def turn(c, x):
        s, up = c
        s = np.where(up, np.maximum(s, x) * p, np.tanh(s + x))
        return (s, (s > x) | up), np.concatenate([s, x])

    (s, _), ys = sg.scan(turn, (s, np.array([True, False])), xs, reverse=True)
    return np.sum(s) + np.sum(ys * ys)


def matrices(s, p, xs):
    def turn(m, x):
        m = np.array([[m[0, 0] * p[0] + x[0], m[0, 1]], [m[1, 0] - x[1], m[1, 1] * p[1] * m[0, 0]]]) * 0.5
        return m, m.T

    m, ms = sg.scan(turn, np.outer(s, s), xs)
    return np.sum(m * m) + np.sum(ms[1:] * ms[:-1])


def reduced(s, p, xs):
    def turn(m, x):
        m = m * 0.5 + np.array([[x[0], s[1]], [np.sin(x[1]), x[0] * s[0]]])
        y = np.mean(m, axis=0) * np.sum(m, axis=1, keepdims=True) - (np.mean(m) > 0).astype(float)
        return y, np.sum(y, axis=1)

    m, ys = sg.scan(turn, np.zeros((2, 2)), xs)
    return np.mean(m * p) + np.sum(ys)


def normed(s, p, xs):
    def turn(m, x):
        sizes = np.linalg.norm(m, axis=0) + np.linalg.norm(m)
        m = 0.5 * m / sizes + np.array([[x[0], s[1]], [x[1], np.logaddexp(s[0], x[0])]])
        return m, m[0] * np.linalg.norm(x - p, keepdims=True)

    m, ys = sg.scan(turn, np.outer(p, s), xs)
    return np.sum(m) + np.sum(ys)


PROGRAMS = [runge_kutta, bouncing, falling, assigned, contracted, chosen, matrices, reduced, normed]


@pytest.mark.parametrize("f", PROGRAMS)
def test_loops_over_numbers_compute_what_those_over_arrays_do(f):
    args = S, np.array([0.7, 0.9]), XS
    every = sg.value_and_grad(f, argnums=(0, 1, 2))
    fast = every.compile(*args)
    assert runs_on_numbers(fast) and not runs_on_numbers(every.compile(*args, optimize=1))
    graph = every.trace(*args).graph
    expected = interpret(graph.outputs, dict(zip(graph.inputs, args, strict=True)))
    value, gradients = fast(*args)
    for x, y in zip((value, *gradients), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)
        assert np.shape(x) == np.shape(y) and x.dtype == y.dtype
    ways = [RNG.standard_normal(x.shape) for x in args]
    ahead, behind = (f(*[x + h * way for x, way in zip(args, ways, strict=True)]) for h in (1e-6, -1e-6))
    along = sum(np.sum(g * way) for g, way in zip(gradients, ways, strict=True))
    np.testing.assert_allclose(along, (ahead - behind) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 6])
def test_what_is_carried_and_stacked_comes_back_as_arrays(n):
    def f(s, xs):
        def turn(s, x):
            s = np.array([s[1] + x[0], s[0] * x[1]])
            return s, (s, np.outer(s, x) + 0.5)

        return sg.scan(turn, s, xs)

    compiled = sg.compile(f).compile("float64[2]", "float64[n, 2]")
    assert runs_on_numbers(compiled)
    s, (ys, ms) = compiled(S, XS[:n])
    assert s.shape == (2,) and ys.shape == (n, 2) and ms.shape == (n, 2, 2)
    s_, rows = S, []
    for x in XS[:n]:
        s_ = np.array([s_[1] + x[0], s_[0] * x[1]])
        rows.append(s_)
    np.testing.assert_allclose(s, s_, rtol=1e-14)
    np.testing.assert_allclose(ys, np.reshape(rows, (n, 2)), rtol=1e-14)
    np.testing.assert_allclose(ms, ys[:, :, None] * XS[:n, None] + 0.5, rtol=1e-14)
    assert not np.shares_memory(s, S)


def test_stacks_of_matrices_of_which_only_running_tells_how_many():
    def f(s, limit):
        keep = lambda m: np.sum(m * m) < limit
        turn = lambda m, _: (np.array([[m[0, 1], m[0, 0] + 1], [m[1, 1], m[1, 0] * 2]]), m)
        ms = []
        m = np.outer(s, s)
        while keep(m):
            ms.append(m)
            m, _ = turn(m, None)
        return np.sum(np.stack(ms) ** 2) + m[0, 1]

    every = sg.value_and_grad(f)
    for limit in (3.0, 50.0):
        value, gradient = every(S, limit)
        np.testing.assert_allclose(value, f(S, limit), rtol=1e-13)
        np.testing.assert_allclose(gradient, sg.grad(f, optimize=0)(S, limit), rtol=1e-12)


def test_truths_are_counted_and_not_added():
    def f(s, xs):
        def turn(s, x):
            s = np.array([s[1], s[0] + x[0]]) + x
            return s * 0.9, np.sum(s > 0) * 1.0

        return sg.scan(turn, s, xs)

    for x, y in zip(sg.compile(f)(S, XS), sg.compile(f, optimize=0)(S, XS), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-14)


def test_extremes_and_whether_any_or_all_are_true_are_as_in_numpy():
    def f(s, xs):
        some = lambda s, x: np.where(np.any(s > x), 1.5, 0.25) * np.where(np.all(s < 1), 0.5, 2.0)
        found = lambda s, m: (np.max(s), np.min(m, axis=0), np.prod(m, axis=1))
        turn = lambda s, x: (0.5 * s[::-1] * some(s, x) + x, found(s, np.outer(s, x)))
        return sg.scan(turn, s, xs)[1]

    compiled = sg.compile(f).compile(S, XS)
    assert runs_on_numbers(compiled)
    for xs in (XS, np.where(XS > 1.5, np.nan, XS)):
        for x, y in zip(compiled(S, xs), sg.compile(f, optimize=0)(S, xs), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-14)


def test_where_python_would_raise_there_are_the_infinities_of_numpy():
    def f(s):
        for _ in np.arange(40):
            s = np.array([s[0] / s[1], np.log(s[1]) + s[0]])
        return s

    compiled = sg.compile(f).compile("float64[2]")
    assert runs_on_numbers(compiled)
    with np.errstate(all="ignore"):
        for s in (np.array([1.0, 0.0]), np.array([1.0, -2.0]), np.array([0.3, 1.7])):
            np.testing.assert_array_equal(compiled(s), f(s))


# ---- programs that are faster on arrays, or have no other form


@pytest.mark.parametrize(
    "turn",
    [
        lambda s, x: (np.tanh(np.tile(x, (4, 2)) @ s), None),  # many numbers for each call
        lambda s, x: (np.linalg.solve(np.eye(4) + np.outer(s, s), s), None),
        lambda s, x: (s[np.argsort(s)] + 1, None),
        lambda s, x: (np.float32(0.5) * s, None),
    ],
)
def test_arrays_stay_arrays(turn, usual_sizes):
    start = np.ones(4, np.float32) if turn(np.ones(4, np.float32), XS[0])[0].dtype == np.float32 else np.arange(4.0)
    f = lambda s, xs: sg.scan(turn, s, xs)[0]
    compiled = sg.compile(f).compile(start, XS)
    assert not runs_on_numbers(compiled)
    expected = start
    for x in XS:
        expected, _ = turn(expected, x)
    np.testing.assert_allclose(compiled(start, XS), expected, rtol=1e-6)


def test_numbers_are_called_as_the_array_is(usual_sizes):
    def f(position, xs):
        for x in xs:
            position = np.array([position[1] + x[0], position[0] - x[1]])
        end, path = sg.scan(lambda s, x: (s[::-1] * x + s[0], s), np.zeros(2), xs)
        return position, end, path

    source = sg.compile(f).compile(S, XS).source
    for line in (
        "position_2 = np.array([position_0, position_1])",
        "end = np.array([end_0, end_1])",  # of floats: np.array makes them NumPy's
        "path = np.stack([path_0, path_1], axis=1)",
    ):
        assert line in source
    assert "np.float64(" not in source


def test_turns_may_compute_with_sizes():
    def f(s, xs):
        for x in xs:
            s = s * 0.5 + x * s[::-1] / xs.shape[0]
        return np.sum(s**2)

    compiled = sg.grad(f).compile("float64[2]", "float64[n, 2]")
    assert runs_on_numbers(compiled)
    np.testing.assert_allclose(compiled(S, XS), sg.grad(f).compile(S, XS, optimize=0)(S, XS), rtol=1e-12)
