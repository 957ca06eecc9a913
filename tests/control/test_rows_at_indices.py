"""Loops that read or add at indices of data: their gradients are gathers, without a loop."""

import numpy as np
import pytest

import symgrad as sg

rng = np.random.default_rng(0)
INDICES = rng.integers(0, 5, 30)


def assembled(a, indices):
    total = np.zeros(5)
    for x, i in zip(a, indices, strict=True):
        total[i] += x
    return np.sum(total**3)


def test_the_gradient_of_an_assembly_is_a_gather(usual_sizes):
    a = rng.normal(size=30)
    g = sg.grad(assembled).compile("float64[e]", "int64[e]")
    assert str(g.source.program).count("\n    for ") == 1
    assert "d_a = d_total[indices]" in str(g.source.program)
    totals = np.bincount(INDICES, a, minlength=5)
    np.testing.assert_allclose(g(a, INDICES), 3 * totals[INDICES] ** 2)
    np.testing.assert_allclose(sg.grad(assembled, target="c")(a, INDICES), g(a, INDICES))


def test_rows_are_read_at_once():
    def picked(table, indices):
        return np.array([table[i] * 2 for i in indices[::-1]])

    for table, spec in (rng.normal(size=5), "float64[m]"), (rng.normal(size=(5, 3)), "float64[m, 3]"):
        f = sg.compile(picked).compile(spec, "int64[e]")
        assert "\n    for " not in str(f.source.program)
        np.testing.assert_array_equal(f(table, INDICES), picked(table, INDICES))


def test_an_index_that_is_out_of_bounds_is_an_error():
    f = sg.compile(lambda table, indices: sum(table[i] ** 2 for i in indices))
    assert f(np.arange(5.0), INDICES) == np.sum(INDICES**2)
    for wrong in (5, -6):
        indices = INDICES.copy()
        indices[7] = wrong
        with pytest.raises(IndexError, match=str(wrong)):
            f(np.arange(5.0), indices)


def test_numbers_added_where_zeros_were_written():
    def f(x, i, v):
        y = x.copy()
        y[i] = 0.0
        y[i] += v
        return y

    x = rng.normal(size=4)
    run = sg.compile(f)
    np.testing.assert_array_equal(run(x, 2, 5.0), f(x, 2, 5.0))
    twice = np.array([1, 1, 3])  # numbers added twice to one place are lost, as NumPy has it
    np.testing.assert_array_equal(run(x, twice, np.ones(3)), f(x, twice, np.ones(3)))


def test_a_choice_between_equal_values(usual_sizes):
    run = sg.compile(lambda c, x: np.where(c > 0, x, x) * 2.0).compile("float64[3]", "float64[3]")
    assert "where" not in str(run.source.program).split("\n", 2)[2]
    wide = sg.compile(lambda c, x: np.where(c > 0, x, x))
    assert wide(np.ones((2, 3)), np.arange(3.0)).shape == (2, 3)


def test_factors_that_are_the_same_in_all_iterations():
    """An inner loop without xs has nothing to batch over."""

    def f(x):
        h = x
        for i in range(3):
            for _ in range(2):
                h = np.tanh(h * 0.788 + x[i - 1])
        return np.sum(h)

    x = np.linspace(0.1, 1, 20)
    value, gradient = sg.value_and_grad(f, loops=2)(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-14)
    np.testing.assert_allclose(gradient, sg.grad(f, loops="unroll")(x), rtol=1e-12)
