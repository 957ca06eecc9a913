"""Results of branches that are True or False on a side: logical operations with the predicate."""

import numpy as np
import pytest

import symgrad as sg

X = np.array([0.5, -1.0, 2.5, 0.25])


def decided(x):
    if np.sum(x) > 0:
        up = True
    else:
        up = False
    return np.where(up, np.sin(x), np.cos(x)), up


def denied(x):
    if np.sum(x) > 0:
        down, y = False, np.sin(x)
    else:
        down, y = True, np.cos(x)
    return y, down


def seen(x):
    found = False
    for i in range(4):
        if x[i] > 2:
            found = True
    return np.where(found, x, 2 * x), found


def never_seen(x):
    absent = True
    for i in range(4):
        if x[i] > 2:
            absent = False
    return np.where(absent, x, 2 * x), absent


def kept(x):
    positive = True
    for i in range(4):
        positive = (x[i] > 0) if positive else False
    return x * 2, positive


def until_done(x):
    done, i = False, 0
    while not done:
        x = x * 0.5
        if np.sum(x * x) < 1e-3:
            done = True
        i += 1
        if i > 100:
            done = True
    return x, i


def while_going(x):
    going, i = True, 0
    while going:
        x, i = x * 0.5, i + 1
        if i > 6:
            going = False
        if np.sum(x) < 1e-9:
            going = False
    return x, i


def in_integers(x):
    large, count = False, 0
    while count < 50 and not large:
        count += 1
        if count * count > 40:
            large = True
        else:
            large = False
    return x * count, large


FLAGS = [decided, denied, seen, never_seen, kept, until_done, while_going, in_integers]


@pytest.mark.parametrize("target", ["numpy", "c"])
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("f", FLAGS)
def test_flags_are_those_of_python(f, level, target):
    for x in (X, -X, X[::-1] * 0.1):
        for found, want in zip(sg.compile(f, optimize=level, target=target)(x), f(x), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-13)
            assert np.asarray(found).dtype == np.asarray(want).dtype
    sg.check_grads(lambda x: np.sum(f(x)[0]), (X,), order=1)


@pytest.mark.of_numpy
def test_a_branch_between_true_and_false_is_its_predicate():
    """One with further results stays a branch: it may be that of a `break`."""
    for f in (decided, seen, never_seen):
        for level in (1, 2):
            assert " True" not in sg.compile(f).source("float64[4]", optimize=level).program.replace("= True", "")
        native = sg.compile(f, target="c").source("float64[4]").native
        own = native[native.index("static int kernel_1(") :]
        assert "else" not in own[: own.index("\n}\n")]


def test_a_flag_in_a_batch():
    rows = np.array([X, -X, X * 0.1])
    for f in (decided, seen, never_seen, kept):
        found, flags = sg.vmap(f)(rows)
        np.testing.assert_allclose(found, [f(x)[0] for x in rows])
        np.testing.assert_array_equal(flags, [f(x)[1] for x in rows])
