"""Loops over small arrays that hold loops and branches run on numbers as a whole."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.interpret import interpret
from symgrad.core.region import regions_of, with_nested
from symgrad.ops.control import SCAN


def loops_of(compiled):
    return [node for node in with_nested(compiled.graph.live) if node.op is SCAN]


def runs_on_numbers(compiled):
    """Whether no loop of a program, however deep, is given an array of several dimensions or of a known length."""
    loops = loops_of(compiled)
    assert any(node.op is SCAN for loop in loops for region in regions_of(loop) for node in with_nested(region.nodes))
    of_loops = [x for node in loops for region in regions_of(node) for x in region.parameters]
    return not any(type(n) is int for x in of_loops for n in x.aval.shape)


# ---- programs


def newton_after_bisection(s, p):
    for _ in np.arange(20):
        low, high = s[0] - 3.0, s[0] + 3.0
        while high - low > 0.1:
            middle = 0.5 * (low + high)
            if middle + p[0] * middle**3 > s[1]:
                high = middle
            else:
                low = middle
        x = 0.5 * (low + high)
        s = np.array([x - (x + p[0] * x**3 - s[1]) / (1 + 3 * p[0] * x**2), 0.9 * s[0] - 0.1 * s[1]])
    return s @ s


def adaptive_runge_kutta(s, p):
    slope = lambda s: np.array([s[1], -p[0] * s[0] - p[1] * s[1]])
    t, h = 0.0, 0.2
    while t < 2.0:
        error, new = 1.0, s
        while error > 1e-4:
            k = slope(s)
            l = slope(s + h * k)
            m = slope(s + 0.25 * h * (k + l))
            new = s + h / 6 * (k + l + 4 * m)
            d = (k + l - 2 * m) * h / 3
            error = np.sqrt(d @ d)
            if error > 1e-4:
                h = 0.5 * h
        s, t, h = new, t + h, 1.4 * h
    return s @ s


def line_search(s, p):
    f = lambda x: (p[0] - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2
    slope = lambda x: np.array([-2 * (p[0] - x[0]) - 40 * x[0] * (x[1] - x[0] ** 2), 20 * (x[1] - x[0] ** 2)])
    x, g = s, slope(s)
    while g @ g > 1e-4:
        step = 1.0
        while f(x - step * g) > f(x) - 0.5 * step * (g @ g):
            step = 0.5 * step
        x = x - step * g
        g = slope(x)
    return x @ p


def rotated(s, p):
    v = np.concatenate([s, p[:1]])
    n = 0
    while v[2] < 1.5 and n < 50:
        c, d = np.cos(p[1]), np.sin(p[1])
        v = np.array([[c, -d, 0.0], [d, c, 0.0], [0.0, 0.1, 1.0]]) @ v + 0.05
        if v[0] > v[1]:
            while v @ v > 2.0:
                v = 0.9 * v
        n = n + 1
    return np.sum(v)


PROGRAMS = [newton_after_bisection, adaptive_runge_kutta, line_search, rotated]
S, P = np.array([0.4, 0.3]), np.array([0.7, 0.2])


@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("derived", [sg.compile, sg.jacfwd, sg.grad])
def test_nests_compute_with_numbers_what_they_do_with_arrays(f, derived):
    every = derived(f)
    fast = every.compile(S, P)
    assert runs_on_numbers(fast) and not runs_on_numbers(every.compile(S, P, optimize=1))
    graph = every.trace(S, P).graph
    (wanted,) = interpret(graph.outputs, dict(zip(graph.inputs, (S, P), strict=True)))
    found = fast(S, P)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    assert found.dtype == wanted.dtype and np.shape(found) == np.shape(wanted)


def test_a_loop_in_a_branch_of_a_loop_hands_stacks_to_another():
    def f(s, p):
        total = 0.0
        for _ in np.arange(40):
            s = s[::-1] * p + 0.3
            if s[0] > s[1]:
                down = lambda x: sg.while_loop(lambda x: x @ x > 0.1, lambda x: x * p, x)
                value = sg.value_and_grad(lambda x: np.sum(sg.scan(lambda c, _: (np.sin(c) * p, None), x, None, 9)[0]))
                y, d = value(s)
                total, s = total + y, down(s) - 0.1 * d
        return total

    fast = sg.compile(f).compile(S, P)
    assert runs_on_numbers(fast)
    np.testing.assert_allclose(fast(S, P), sg.compile(f, optimize=0)(S, P), rtol=1e-10)


def test_rows_of_a_loop_that_a_branch_reads_are_lists_there(usual_sizes):
    def f(s, p):
        def end(v):
            x, t = p, 0.1 * p[1]
            while t < 1.0:
                x, t = x + 0.1 * v - 0.05 * np.sin(x[::-1]), t + 0.1
            return np.sum((x - 1.5) ** 2)

        step, best, slope = 0.1, end(s), sg.grad(end)(s)
        while slope @ slope > 1e-6 and step > 1e-6:
            new = s - step * slope
            value = end(new)
            if value < best:
                s, best, slope = new, value, sg.grad(end)(new)
            else:
                step = 0.5 * step
        return s

    fast = sg.compile(f).compile(S, P)
    assert runs_on_numbers(fast)
    assert ".item(" not in fast.source
    np.testing.assert_allclose(fast(S, P), sg.compile(f, optimize=0)(S, P), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("p", [(1.0, 0.0), (1.3, 0.1), (2.0, -0.5)])
def test_where_python_would_raise_in_a_nest_there_are_the_infinities_of_numpy(p):
    def f(s, p):
        for _ in np.arange(20):
            while s[1] < 4.0:
                s = np.array([0.5 * s[0] / (s[1] - p[0]) + np.log(s[1] + p[1]), s[1] + 0.5])
            s = np.array([0.1 * s[0] + s[1], s[1] - 3.0])
        return s[0] * s[1]

    args = np.array([1.0, 0.5]), np.array(p)
    for derived in (sg.compile, sg.grad, sg.jacfwd):
        fast = derived(f).compile(*args)
        assert runs_on_numbers(fast)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(fast(*args), derived(f, optimize=0)(*args), rtol=1e-10)
