"""Nests of loops: how often their statements are traced, and that shortcuts change no program."""

import sys

import numpy as np
import pytest

import symgrad as sg

X = np.array([0.5, 1.2, 0.3])


def advanced(a, b):
    return 0.8 * a + 0.1 * np.sin(b)


def in_traced_while(x):
    total, t = x[0], x[1]
    while t > 0.1:
        t = 0.5 * t
        k = 0
        while k < 40:
            k += 1
            total = advanced(total, x[k % 3])
    return total


def below_a_branch(x):
    total = x[0]
    if x[1] > 1.0:
        k = 0
        while k < 30:
            k += 1
            total = advanced(total, x[k % 3])
    return total


def three_deep(x):
    total, t = x[0], x[1]
    while t > 0.1:
        t = 0.5 * t
        for i in range(4):
            k = 0
            while k < 20:
                k += 1
                total = advanced(total, x[(i + k) % 3])
                if total > 5.0:
                    break
    return total


def of_many_nodes(x):
    total, k = x[0], 0
    while k < 12:
        k += 1
        for i in range(15):
            total = advanced(total, x[(i + k) % 3])
            total = total - 0.01 * np.cos(total * i) / (1.0 + np.exp(-total) * np.tanh(total) ** 2)
    return total


def calls_of_helper(f):
    """Count how often the helper runs while a function is traced."""
    count = 0

    def note(frame, event, _):
        nonlocal count
        count += event == "call" and frame.f_code.co_name == advanced.__name__

    compiled = sg.compile(f)
    sys.setprofile(note)
    try:
        compiled.compile(X)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(("f", "most"), [(in_traced_while, 20), (below_a_branch, 20), (of_many_nodes, 110)])
def test_inner_loops_begin_in_python_in_the_first_trace_alone(f, most):
    assert calls_of_helper(f) <= most


@pytest.mark.parametrize("f", [in_traced_while, below_a_branch, three_deep, of_many_nodes])
def test_nests_are_right(f):
    for x in (X, X[::-1].copy(), -X):
        value, slope = sg.value_and_grad(f)(x)
        assert value == pytest.approx(f(x), rel=1e-12)
        numeric = [(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
        np.testing.assert_allclose(slope, numeric, atol=1e-7)


def test_a_loop_that_cannot_be_traced_at_once_begins_in_python_again():
    """Its `last` is None before the first iteration: the second trace of the body around finds that out again."""

    def f(x):
        total, t = x[0], x[1]
        while t > 0.2:
            t = 0.5 * t
            k, last = 0, None
            while k < 20:
                k += 1
                last = x[k % 3] if last is None else 0.5 * last + x[k % 3]
            total = total + last * t
        return total

    value, slope = sg.value_and_grad(f)(X)
    assert value == pytest.approx(f(X), rel=1e-12)
    numeric = [(f(X + h) - f(X - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(slope, numeric, atol=1e-7)
