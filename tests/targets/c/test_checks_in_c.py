"""Checks that raise, in C: the kernel ends there, and NumPy repeats the call to raise the error."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.targets.c.printing import RAISED
from tests.frontend import checked_functions
from tests.frontend.test_checks import POINTS, seen
from tests.statements import printed_kernels


def newton(a):
    x, n = a, 0
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
        n += 1
        if n > 20:
            raise RuntimeError(f"no root of {a} after {n} steps, {np.exp(a):.3f}")
    return x


def guarded(x, tolerance):
    """Run a loop that does not end unless the check before it raises."""
    if tolerance <= 0:
        raise ValueError("the tolerance must be positive")
    while abs(x) > tolerance:
        x = x / 2
    return x * 3


def sorted_in_the_message(x):
    """C does not sort."""
    total = 0.0
    for v in x:
        total = total + v * v
        if total > 90:
            raise ValueError(f"too much: {np.sort(x)} {np.median(x * total):.3f}")
    return total


def only_checked(x):
    """Run a loop for its check alone."""
    s = x[0]
    for v in x:
        s = s * v
        if s > 100:
            raise ArithmeticError(s)
    return np.sum(x * x)


def in_branches(x):
    total = 0.0
    for v in x:
        if v > 0:
            for _ in range(3):
                total = total + v
                if total > 50:
                    raise ArithmeticError("too much")
        elif v < -2:
            raise ValueError(f"{v} of {total}")
    return total


def of_arrays(x):
    rows = np.outer(x, x)
    for row in rows:
        if not np.all(row < 80):
            raise OverflowError(f"{row}")
    return rows


def unchanged(x):
    if x[0] > 8:
        raise ValueError("too large")
    return x


CASES = {
    newton: [(2.0,), (-2.0,), (3.0,)],
    guarded: [(5.0, 0.1), (5.0, 0.0), (0.0, -1.0)],
    sorted_in_the_message: [(np.array([1.0, -1, 3]),), (np.array([3.0, 9, 2]),)],
    only_checked: [(np.array([1.0, 2, 3]),), (np.array([30.0, 2, 9]),)],
    in_branches: [(np.array([1.0, -1, 3]),), (np.array([30.0, 2, -9]),), (np.array([0.5, -3, 2]),)],
    of_arrays: [(np.array([1.0, 2, 3]),), (np.array([1.0, 9, 2]),)],
    unchanged: [(np.array([1.0, 2]),), (np.array([9.0, 2]),)],
}


def assert_as_python(f, target="c"):
    run = sg.compile(f, target=target)
    for args in CASES[f]:
        assert seen(run, *args) == seen(f, *args)
        if seen(f, *args)[2] is None:
            np.testing.assert_allclose(run(*args), f(*args), rtol=1e-13)
    return run


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_c_raises_what_python_raises(f, monkeypatch):
    texts = printed_kernels(monkeypatch)
    assert_as_python(f)
    if f is not unchanged:  # which computes nothing
        assert len(texts) == 1
        assert f"return {RAISED};" in texts[0]
    for level in (0, 1):
        with sg.options(optimize=level):
            assert_as_python(f)


@pytest.mark.parametrize("f", [newton, in_branches], ids=lambda f: f.__name__)
def test_calls_are_answered_by_c(f):
    run = assert_as_python(f)
    assert run.compile(*CASES[f][0]).answering is not None
    derivative = sg.value_and_grad(f, target="c")
    for args in CASES[f]:
        assert seen(derivative, *args)[2] == seen(f, *args)[2]
    np.testing.assert_allclose(derivative(*CASES[f][0])[1], sg.grad(f)(*CASES[f][0]), rtol=1e-12)


def test_c_does_not_compute_what_only_a_message_needs(monkeypatch):
    texts = printed_kernels(monkeypatch)
    sg.compile(newton, target="c")(2.0)
    assert "exp" not in texts[0]


def test_an_error_names_the_users_line():
    with pytest.raises(RuntimeError) as error:
        sg.compile(newton, target="c")(-2.0)
    assert any("if n > 20" in note for note in error.value.__notes__)


@pytest.mark.parametrize("f", checked_functions.FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_with_checks(f, monkeypatch):
    """Some warn or print as well, which C does not."""
    printed_kernels(monkeypatch)
    run = sg.compile(f, target="c")
    if f is not checked_functions.guarded:  # the statements do not note singular matrices
        assert [seen(run, x) for x in POINTS] == [seen(f, x) for x in POINTS]
