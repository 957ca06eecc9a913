"""Lists that loops have filled, as the state of other loops and as results of branches: they stay lists."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import UnsupportedError

X = np.array([0.3, 0.2])


def filled(x):
    s = []
    for k in range(20):
        s.append(x[0] * k + 1.0)
    return s


def reversed_again_and_again(x):
    s = filled(x)
    for _ in range(21):
        s = s[::-1]
    more = [3.0, x[1]]
    return np.sum(np.array(s + more) ** 2) + len(s + more) + (0.5 if isinstance(s, list) else 0.7)


def joined_in_each_iteration(x):
    s, total = filled(x), 0.0
    for _ in range(20):
        s = s[::-1]
        total = total + len(s + s) * x[0]  # an array of as many items would be doubled
    return total


def sorted_whole_numbers(x):
    s = [1, 2]
    for k in range(25):
        s.append(k // 2)
    for _ in range(25):
        s = sorted(s)
    return x[0] * sum([0.1 if isinstance(e, int) else 0.2 for e in s]) + (0.5 if type(s) is list else 0.7)


def sorted_whole_numbers_in_while(x):
    s, k = [1, 2], 0
    for i in range(25):
        s.append(i // 2)
    while k < 25:
        k += 1
        s = sorted(s)
    b = 0.0
    for e in s:
        b = b * 0.5 + (0.1 if isinstance(e, int) else 0.2)
    return b * x[0]


def of_one_of_two_branches(x):
    s = filled(x)
    if x[0] > 0:
        t = s[::-1]
    else:
        t = sorted(s)
    more = [3.0, x[1]]
    return np.sum(np.array(t + more) ** 2) + len(t) + (0.5 if isinstance(t, list) else 0.7)


def a_list_or_an_array(x):
    s = filled(x)
    if x[0] > 0:
        t = s[::-1]
    else:
        t = np.array(s)
    return np.sum(t)


PROGRAMS = [
    reversed_again_and_again,
    joined_in_each_iteration,
    sorted_whole_numbers,
    sorted_whole_numbers_in_while,
    of_one_of_two_branches,
]


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("level", [0, 2])
def test_lists_stay_lists(f, level):
    value, slope = sg.value_and_grad(f, check_first=False, optimize=level)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    step = 1e-6 * np.eye(2)
    np.testing.assert_allclose(slope, [(f(X + d) - f(X - d)) / 2e-6 for d in step], rtol=1e-5, atol=1e-8)


def test_a_list_on_one_side_and_an_array_on_the_other_are_refused():
    with pytest.raises(
        UnsupportedError, match=r"t is a list of float64 where the condition holds, and float64\[20\] where"
    ):
        sg.grad(a_list_or_an_array)(X)
