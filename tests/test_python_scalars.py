"""Programs of Python numbers: what Python itself does with them must not reach the results."""

import numpy as np
import pytest

import symgrad as sg

LEVELS = pytest.mark.parametrize("level", [0, 1, 2])


@LEVELS
@pytest.mark.parametrize("x", [1.0, -1.0, 4.0])
def test_negated_comparisons(level, x):
    """Of Python floats ``x > 0`` is a Python bool, and ``~True`` is -2, which is true."""

    def f(x):
        return np.where(~(x > 0), 2 * x, 3 * x) + np.where((x > 0) & ~(x > 3), x * x, 1.0)

    expected = (3.0 if x > 0 else 2.0) + (2 * x if 0 < x <= 3 else 0.0)
    assert sg.grad(f, optimize=level)(x) == expected


@LEVELS
@pytest.mark.parametrize("x", [1.0, -1.0])
def test_comparisons_give_numpy_bools(level, x):
    for f, expected in (
        (lambda x: x > 0, x > 0),
        (lambda x: ~(x > 0), not x > 0),
        (lambda x: (x > 0) ^ (x < 5), (x > 0) != (x < 5)),
        (lambda x: np.logical_not(x >= 0), not x >= 0),
    ):
        result = sg.compile(f, optimize=level)(x)
        assert isinstance(result, np.bool)
        assert result == expected


@LEVELS
def test_python_arithmetic_stays_weak(level):
    f = sg.compile(lambda lr, x: (lr * 2.0 - 1) * x, optimize=level)
    assert f(0.25, np.ones(3, np.float32)).dtype == np.float32


@LEVELS
@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
def test_division_by_a_size_of_zero_is_numpys(level):
    value, gradient = sg.value_and_grad(lambda x: np.sum(x * x) / x.shape[0], optimize=level)(np.ones(0))
    assert np.isnan(value)
    assert gradient.shape == (0,)
