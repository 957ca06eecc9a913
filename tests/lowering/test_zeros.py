"""Loops that scatter zeros wherever a mask does not hold, which are skipped there."""

import re

import numpy as np
import pytest

import symgrad as sg
from tests.statements import printed_kernels

POINTS = np.array([[0.1, 0.2, 0.3], [0.4, -0.5, 0.6], [2.5, 0.1, -0.3], [0.2, 3.0, 0.1]])
FIRST, SECOND = np.array([0, 0, 1, 2, 3, 3]), np.array([1, 2, 3, 3, -4, 1])


def with_a_cutoff(x, first, second):
    gap = x[first] - x[second]
    gap = gap - 5.0 * np.round(gap / 5.0)
    squared = np.sum(gap**2, axis=1)
    ratio = (1 / squared) ** 3
    return np.sum(np.where(squared < 4.0, 2.0 * ratio * (ratio - 1), 0.0))


def with_a_tail(x, first, second):
    gap = x[first] - x[second]
    gap = gap - 5.0 * np.round(gap / 5.0)
    squared = np.sum(gap**2, axis=1)
    ratio = (1 / squared) ** 3
    return np.sum(np.where(squared < 4.0, 2.0 * ratio * (ratio - 1), 0.25 * squared))


@pytest.mark.parametrize(("f", "skips"), [(with_a_cutoff, True), (with_a_tail, False)])
def test_zeros_are_not_scattered(f, skips, monkeypatch):
    texts = printed_kernels(monkeypatch)
    run = sg.value_and_grad(f, target="c").compile("float64[n, 3]", "int64[m]", "int64[m]", optimize=2)
    value, slope = run(POINTS, FIRST, SECOND)
    expected = sg.value_and_grad(f, optimize=0)(POINTS, FIRST, SECOND)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(slope, expected[1], rtol=1e-12, atol=1e-15)
    assert bool(re.search(r"\bif \(\w+\) \{\n *for \(", "\n".join(texts))) == skips
