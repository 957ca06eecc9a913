"""The rounding errors of programs, estimated by evaluating them with other rounding."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.analysis.rounding import Rounding


def last_of_a_list(x):
    """Return an item of a list whose length only running tells."""
    found = [x[0]]
    for i in range(2):
        if np.sum(x) > i:
            found.append(np.sin(x[i]))
    return found[-1] * len(found)


def test_lengths_that_only_running_tells_are_noted():
    x = np.array([0.3, 0.9])
    graph = sg.trace(sg.value_and_grad(last_of_a_list), x).graph
    (value, gradient), noise, _ = Rounding(graph, [x], {}).at([x], {})
    assert value == pytest.approx(last_of_a_list(x))
    np.testing.assert_allclose(gradient, [0, 3 * np.cos(0.9)] if np.sum(x) > 1 else [2 * np.cos(0.3), 0])
    assert 0 < noise[0] < 1e-12
