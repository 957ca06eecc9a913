"""Powers of -1, as in the terms of a series: NumPy's, without a power in C."""

import numpy as np
import pytest

import symgrad as sg
from tests.targets.c.test_native import is_whole


def of_numbers(x):
    total = 0.0
    for n in range(1, 40):
        total = total + (-1) ** (n - 1) * np.exp(-x * n) / n
    return total


def of_arrays(x):
    k = np.arange(x.shape[0])
    return np.sum((-1) ** k * np.tanh(x)) + np.sum((-1) ** (2 * k + 1))


@pytest.mark.parametrize(("f", "x"), [(of_numbers, 0.7), (of_arrays, np.linspace(0, 1, 7))])
def test_values_and_derivatives(f, x):
    compiled = sg.value_and_grad(f, target="c").compile("float64[n]" if np.ndim(x) else 0.5)
    for found, expected in zip(compiled(x), sg.value_and_grad(f, target="numpy")(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert is_whole(compiled) or f is of_arrays


def test_negative_powers_raise_as_in_numpy():
    f = sg.compile(lambda x, k: x * (-1) ** k * 2, target="c")
    np.testing.assert_array_equal(f(np.ones(3), np.arange(3)), [2, -2, 2])
    with pytest.raises(ValueError, match="negative integer powers"):
        f(np.ones(3), np.arange(3) - 1)
