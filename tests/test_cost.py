"""What a program costs: the peak as it is measured, and lines that release memory."""

import numpy as np
import pytest

import symgrad as sg

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_an_array_written_into_lives_as_long_as_views_of_it(level):
    """Its memory goes under the name of the array before, which must not be released with that one."""
    x = RNG.standard_normal((2000, 500))
    found = sg.grad(lambda x: np.sum(np.exp(x.T.reshape(-1)[::2])), optimize=level)(x)
    expected = np.zeros(x.size)
    expected[::2] = np.exp(x.T.reshape(-1)[::2])
    np.testing.assert_allclose(found, expected.reshape(x.T.shape).T)
