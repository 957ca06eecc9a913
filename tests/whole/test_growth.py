"""The work of compiling grows with the length of a program, and not with its square.

Counted in calls of functions, which are as many on every machine.
"""

import cProfile
import pstats

import numpy as np
import pytest

import symgrad as sg

SHORT, LONG = 60, 240
X = np.linspace(0.1, 1.0, 7)


def in_a_row(steps):
    """The function that calls others one after the other: a loop over them would be compiled as one."""

    def run(x, *more):
        for step, *each in zip(steps, *more, strict=True):
            x = step(x, *each)
        return np.sum(x)

    return run


def chain(n):
    return sg.grad(in_a_row([lambda x: np.sin(x) * 1.5] * n)), (X,)


def arguments(n):
    return sg.grad(in_a_row([lambda x, w: np.tanh(x * w)] * n), argnums=1), (X, [X] * n)


def stack(n):
    parts = [lambda x, k=k: np.sin(x) * (k + 1.0) for k in range(n)]
    return sg.grad(lambda x: np.sum(np.stack([part(x) for part in parts]) ** 2)), (X,)


def concatenation(n):
    parts = [lambda x, k=k: np.sin(x) * (k + 1.0) for k in range(n)]
    return sg.grad(lambda x: np.sum(np.concatenate([part(x) for part in parts]) ** 2)), (X,)


def calls(function, args):
    profile = cProfile.Profile()
    profile.runcall(function.compile, *args)
    return pstats.Stats(profile).total_calls


@pytest.mark.slow
@pytest.mark.parametrize("program", [chain, arguments, stack, concatenation])
def test_compiling_is_linear(program):
    calls(*program(5))  # what is done once
    short, long = (calls(*program(n)) / n for n in (SHORT, LONG))
    assert long < 1.1 * short


def test_long_lists_read_as_short_ones_do():
    """Values that make a line too long have names, the longest first, and the others stay in it."""
    parts = [lambda x, k=k: np.sin(x) * (k + 1.0) for k in range(12)]
    source = sg.compile(lambda x: np.stack([part(x) for part in parts])).source(X, optimize=1).program
    assert "np.stack([t1, t1 * 2.0, t1 * 3.0, t1 * 4.0, t9, t8, t7, t6, t5, t4, t3, t2])" in source
