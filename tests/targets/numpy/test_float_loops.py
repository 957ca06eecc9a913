"""Loops on Python's floats, whose text runs again on NumPy's numbers where Python raises: values are NumPy's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree
from tests.programs import without_comments
from tests.targets.numpy.test_small import ARITIES, FORMS, LIMITS, NUMERIC, SPECIAL, quietly

TWICE = "in _NUMBERS:"


def assert_same(a, b, rtol=1e-12):
    """Equal to rounding, and zeros with their signs."""
    for x, y in zip(tree.flatten(a)[0], tree.flatten(b)[0], strict=True):
        assert type(x) is type(y)
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(x, y, rtol=rtol, atol=0)
        np.testing.assert_array_equal(np.copysign(1, x)[x == 0], np.copysign(1, y)[y == 0])


def assert_as_at_level_1(f, *args):
    """The values of NumPy, although Python raises; where NumPy raises as well, the caller hears of it."""
    program, plain = sg.compile(f, loops=1), sg.compile(f, optimize=1, loops=1)
    assert_same(quietly(program, *args), quietly(plain, *args))
    source = program.source(*args)
    assert source.count(TWICE) == 1
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        program(*args)
    return source


@pytest.mark.parametrize("name", NUMERIC)
def test_loops_over_any_operator_go_on_where_python_raises(name):
    """Carries, rows of arrays and numbers in the text may meet each other."""
    function, _ = FORMS[name]
    arity = ARITIES.get(name) or getattr(function, "nin", 1)

    def of(*operands):
        return function(*operands[:arity]) * 1.0

    def f(xs, s):
        found, last = np.zeros(2 * len(xs)), 0.25
        for i in range(len(xs)):
            x = xs[i]
            last = of(x, last, 3.0)
            found[i] = last / s + of(x, x, x) + of(s, x, 2.0)
            found[i + len(xs)] = xs[-i] / of(x, x, x)
            s = s * x
        return found, found[::-1] * s

    numbers = np.random.default_rng(0).choice([*SPECIAL, *LIMITS], (60, 5))
    program, plain = sg.compile(f, loops=1), sg.compile(f, optimize=1, loops=1)
    for s, *xs in numbers:
        xs = np.array(xs)
        assert_same(quietly(program, xs, s), quietly(plain, xs, s))
    source = program.source(xs, s)
    assert without_comments(source).count("for i in range(") == 1
    assert TWICE in source


def falls(s):
    """Through 1 / 0, in the fourth turn from 1."""
    total = s
    for _ in range(30):
        s = s - 0.25
        total = total * 0.5 + 1.0 / s
    return 1.0 / total


def test_a_second_run_has_fresh_copies_of_arrays():
    def f(x):
        y = np.full(6, 2.0)
        y[4] = x
        for i in range(40):
            y[i % 6] = y[i % 6] / (y[(i + 1) % 6] - 1.0) + 0.5
        return y * x

    source = assert_as_at_level_1(f, np.float64(1.0))
    assert without_comments(source).count("for i in range(40):") == 1


def test_a_second_run_within_turns_starts_from_what_the_turn_was_given():
    def f(xs, s):
        for _ in range(4):
            s = falls(s) + 1.0
            xs = np.tanh(xs * s) + xs[::-1]
        return xs, s

    def under_one_name(xs, s):
        for _ in range(4):
            for i in range(3):
                s = 1.0 / (s - 0.25 * i)
            xs = np.tanh(xs * s) + xs[::-1]
        return xs, s

    assert_as_at_level_1(f, np.arange(40.0), np.float64(1.0))
    assert_as_at_level_1(under_one_name, np.arange(40.0), np.float64(4.0))


def test_a_second_run_in_a_branch():
    def f(xs, s):
        if xs[0] > 0:
            s = falls(s)
        return xs * s

    assert_as_at_level_1(f, np.arange(1.0, 3.0), np.float64(1.0))


def test_numbers_that_are_pythons_in_both_runs_are_not_divided():
    """Branches and iterations may choose a number in the text: NumPy's scalars are made from them."""

    def f(xs, s):
        found, step = np.zeros((12, 3)), 1.0
        for i in range(12):
            x = xs[i % 4]
            if s > 3:
                step = 0.0
            elif s > 2:
                step = x
            for _ in range(2):
                s = s + 0.5
                step = step * 1.0 if s < 5 else 0.0
            found[i, 0] = 1.0 / step
            found[i, 1] = xs[i % 3] / x
            found[i, 2] = np.maximum(s, 0.0) / np.sign(x) + 2.0 / np.where(s > 2, 0.0, 1.0)
        return found, step * xs

    def from_turn_to_turn(xs, s):
        found, last = np.zeros((4, 2)), s
        for i in range(4):
            found[i, 0] = 1.0 / last
            found[i, 1] = 2.0 / np.where(s > 0, 0.0, s)
            last, s = xs[i], s + 1
        return found * s

    assert_as_at_level_1(from_turn_to_turn, np.array([1.0, 0.0, 2.0, -1.0]), np.float64(-1.0))
    source = assert_as_at_level_1(f, np.array([1.0, 2.0, 0.0, -1.0]), np.float64(0.0))
    assert "1.0 / number(step" in source


def test_a_number_may_be_carried_on_and_stay_what_it_is():
    def f(x, ys):
        s = x
        for i in range(6):
            s = s - 0.5 * x if i < 3 else 1.0 / (x - x * s) + 1.0 / (0.5 - x)
        return s * ys

    assert_as_at_level_1(f, np.float64(0.5), np.ones(2))


def test_what_raises_in_numpy_as_well_reaches_the_caller():
    def f(x, n):
        for i in range(5):
            x = x + 1.0 / (n - i)
        return x * np.ones(2)

    for level in (1, 2):
        with pytest.raises(ZeroDivisionError):
            sg.compile(f, optimize=level, loops=1)(np.float64(1.0), 3)


def test_the_names_of_a_second_run_are_not_those_of_the_user():
    def f(number, m, math):
        for _ in range(9):
            number = number - m / number
        return number * math

    assert_as_at_level_1(f, np.float64(0.0), np.float64(1.0), np.ones(2))


def test_lists_and_stacks_of_a_run_that_fails_are_made_again():
    def f(x, ys):
        def loss(s):
            total = 0.0
            while s < 3:
                s = s + 0.5
                total = total + np.log(s) / s
            return total + ys @ ys * s

        return sg.grad(loss)(x)

    program, plain = (sg.compile(f, optimize=level, loops=1) for level in (2, 1))
    for x in (-0.5, -2.0, 0.25):
        assert_same(quietly(program, np.float64(x), np.ones(3)), quietly(plain, np.float64(x), np.ones(3)))


def test_steps_of_a_size_that_min_and_max_choose_run_on_floats():
    def f(x):
        h, t = 0.5, 0.0
        while t < 1.0:
            h = min(h, 1.0 - t)
            x = x - h * np.sin(x) * x
            t = t + h
            h *= min(5.0, max(0.2, 0.9 / np.abs(x)))
        return x

    assert "math.sin(" in sg.value_and_grad(f).compile(np.float64(0.7)).source.program


def looked_up(x, table):
    total = 0.0
    for k in range(20):
        place = abs(math.sin(x * k)) * 7.9
        i, nearest = math.floor(place), round(place)
        total += table[i] * (place - i) + table[nearest] * x
    return total


@pytest.mark.parametrize("target", ["numpy", "c"])
def test_integers_of_floats_are_indices(target):
    x, table = 0.83, np.linspace(1, 2, 9) ** 2
    value, slope = sg.value_and_grad(looked_up, target=target)(x, table)
    assert value == pytest.approx(looked_up(x, table), rel=1e-13)
    difference = (looked_up(x + 1e-7, table) - looked_up(x - 1e-7, table)) / 2e-7
    assert slope == pytest.approx(difference, rel=1e-5)


def test_integers_of_nan_are_errors():
    with pytest.raises(ValueError, match="cannot convert float NaN to integer"):
        sg.grad(looked_up)(np.nan, np.ones(9))
