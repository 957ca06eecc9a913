"""Warnings and errors of numbers under target="c": what the NumPy target says."""

import itertools
import math
import warnings

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.repeating import Repeating
from symgrad.targets.c.functions import FLOATS
from symgrad.targets.c.toolchain import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")

POINTS = (0.0, -1.0, 0.5, 2.0, 100.0, -720.0, 1e300, np.inf, -np.inf, np.nan)
QUIET = (np.isnan, np.isinf, np.isfinite, np.conjugate, np.positive)
WARNING = [f for f in FLOATS if isinstance(f, np.ufunc) and f not in QUIET]
SUMS = (np.add, np.subtract, np.multiply, np.square, np.divide)  # may overflow unseen in a side that is not chosen


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setenv("SYMGRAD_CFLAGS", "-O1")


def said(f, *args):
    """Return the error that a call raises, and what it warns of."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        error = ""
        try:
            f(*args)
        except Exception as found:
            error = f"{type(found).__name__}: {found}"
    return error, list(dict.fromkeys(str(x.message) for x in heard))


def both(f, **options):
    return [sg.compile(f, target=target, **options) for target in ("numpy", "c")]


def check(f, givens, **options):
    by_numpy, by_c = both(f, **options)
    found = [said(by_numpy, *given) for given in givens]
    for given, expected in zip(givens, found, strict=True):
        assert said(by_c, *given) == expected, given
    return found


def points(ufunc, dtype):
    with np.errstate(all="ignore"):
        return [[np.full(5, x, dtype) for x in given] for given in itertools.product(POINTS, repeat=ufunc.nin)]


@pytest.mark.parametrize("ufunc", WARNING, ids=lambda f: f.__name__)
def test_each_function_warns_as_numpy(ufunc):
    check(lambda *x: ufunc(*x) * 1.5, points(ufunc, float))


@pytest.mark.parametrize("ufunc", [np.log, np.log1p, np.power, np.exp, np.divide], ids=lambda f: f.__name__)
def test_in_single_precision(ufunc):
    check(lambda *x: ufunc(*x) * np.float32(1.5), points(ufunc, np.float32))


@pytest.mark.parametrize("ufunc", [f for f in WARNING if f not in SUMS], ids=lambda f: f.__name__)
def test_a_side_that_is_not_chosen_warns(ufunc):
    check(lambda *x: np.where(x[0] > 1e7, ufunc(*x) * 2.0, 1.0), points(ufunc, float))


@pytest.mark.parametrize("ufunc", [np.log, np.sqrt, np.arctanh, np.power], ids=lambda f: f.__name__)
def test_derivatives_warn(ufunc):
    check(sg.grad(lambda *x: np.sum(ufunc(*x))), points(ufunc, float))


def test_what_may_lie_outside_is_read_for_no_note():
    f = lambda x: np.concatenate([np.log(x[:2]), np.sqrt(x), 1 / x[1:]]) * 2.0
    found = check(f, [[np.ones(3)], [np.array([1.0, 0.0, 2.0])], [np.array([1.0, 1.0, -2.0])]])
    assert [bool(heard) for _, heard in found] == [False, True, True]


def test_integers():
    f = lambda x, y: (x // y, x % y)
    least = np.iinfo(np.int64).min
    found = check(f, [[np.array([least, 5]), np.array(y)] for y in ([1, 2], [1, 0], [-1, 3])])
    assert found[1][1] == ["divide by zero encountered in floor_divide", "divide by zero encountered in remainder"]


PYTHON = {
    "divide": (lambda a, b: a / b, [(1.0, 0.0), (0.0, 0.0), (math.inf, 0.0), (math.nan, 0.0), (1.0, 2.0)]),
    "remainder": (lambda a, b: a % b, [(1.0, 0.0), (math.nan, 0.0), (1.0, 2.0)]),
    "floor": (lambda a, b: a // b, [(1.0, 0.0), (1.0, 2.0)]),
    "power": (lambda a, b: a**b, [(0.0, -1.0), (1e200, 2.5), (2.0, 0.5), (1.0, -1.0)]),
    "power of halves": (lambda a, b: a**1.5 + b**-0.5 + b**-1.5, [(1.0, 0.0), (-1.0, 1.0), (1e300, 2.0), (4.0, 4.0)]),
    "exp": (lambda a, b: math.exp(a) + math.log(b), [(1000.0, 1.0), (1.0, 0.0), (1.0, 2.0)]),
    "chosen": (lambda a, b: np.where(a > b, a / b, b), [(1.0, 0.0), (-1.0, 0.0), (math.inf, 0.0)]),
}


@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.parametrize("optimize", [0, 2])
def test_numbers_of_python(name, optimize):
    f, given = PYTHON[name]
    more = lambda a, b: f(a, b) * 2.0 - a
    found = check(more, given, optimize=optimize)
    assert found[0][0] or found[0][1]


def test_a_complex_power_is_that_of_python():
    by_numpy, by_c = both(lambda a, b: a**b + 1.0 * a)
    assert by_c(-8.0, 0.5) == by_numpy(-8.0, 0.5)


def test_loops():
    def loop(x, r):
        total = 0.0
        for y in x:
            r = r / (r - y)
            total = total + np.log(r)
        return total

    def until(x, r):
        while np.log(r) < 2.0:
            r = r + x[0]
        return r * 2

    for f in (loop, until):
        found = check(f, [[np.array([3.0, 0.5]), np.float64(r)] for r in (1.0, 3.0, 0.0)])
        assert found[-1][1]


def test_what_numpy_is_asked_to_do():
    f = sg.compile(lambda x: np.log(x) * 2 - x, target="c")
    zero = np.zeros(3)
    with np.errstate(all="ignore"):
        assert said(f, zero) == ("", [])
    with np.errstate(divide="ignore"):
        assert said(f, zero) == ("", [])
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero encountered in log"):
        f(zero)
    told = []
    with np.errstate(all="call", call=lambda kind, flag: told.append(kind)):
        f(zero)
    assert set(told) == {"divide by zero"}  # by each block
    with np.errstate(under="raise"), pytest.raises(FloatingPointError, match="underflow"):
        sg.compile(lambda x: np.exp(x) * x, target="c")(np.full(3, -744.0))
    assert f(np.ones(3))[0] == -1  # nothing is left behind


def test_flags_that_were_raised_before():
    f = sg.compile(lambda x: x * 2 - np.sqrt(x), target="c")
    f(np.ones(3))
    assert math.isinf(float("1e308") * 10.0)
    assert said(f, np.ones(3)) == ("", [])


def test_threads_tell():
    f = sg.compile(lambda x: np.sum(np.log(x) / (x - 3)), target="c")
    x = np.full(1_000_000, 2.0)
    assert said(f, x) == ("", [])
    for k in (0, 500_000, 999_999):
        for bad in (0.0, 3.0):
            y = x.copy()
            y[k] = bad
            assert len(said(f, y)[1]) == 1


def test_a_kernel_between_functions_of_numpy():
    def f(a, b):
        return np.sum(np.log(np.linalg.solve(np.exp(a) + 3 * np.eye(3), np.sin(b))) ** 2)

    found = check(f, [[np.eye(3), np.full(3, b)] for b in (1.0, -1.0)])
    assert [len(heard) for _, heard in found] == [0, 1]


def test_sizes_are_told():
    f = sg.compile(lambda x: np.sum(np.log(x[1:]) / x.shape[0]), target="c").compile("float64[n]")
    assert said(f, np.array([1.0, 0.0])) == ("", ["divide by zero encountered in log"])


@pytest.fixture
def repeated(monkeypatch):
    """Return a list that grows when NumPy repeats a call."""
    calls = []
    monkeypatch.setattr(Repeating, "_loaded", lambda self: lambda *args: calls.append(args))
    return calls


def test_few_calls_are_repeated_where_a_warning_is_shown_once(repeated):
    f = sg.compile(lambda x: np.exp(x) * 2 - x, target="c")
    with warnings.catch_warnings():
        warnings.resetwarnings()
        for _ in range(100):
            f(np.full(3, 1000.0))
        assert len(repeated) == 7
        with warnings.catch_warnings():  # which shows it anew
            f(np.full(3, 1000.0))
        assert len(repeated) == 8
        warnings.simplefilter("error")
        for _ in range(100):
            f(np.full(3, 1000.0))
        assert len(repeated) == 108


def test_an_overflow_that_does_no_harm_is_not_repeated(repeated):
    slope = sg.grad(lambda x: np.sum(np.log(1 + np.exp(x))), target="c")
    assert "np.errstate" in slope.source("float64[n]", target="numpy")
    slope(np.array([-1000.0, 0.0, 1000.0]))
    assert repeated == []


def test_harmless_overflow_on_a_side_of_a_choice_is_not_repeated(repeated):
    """Sides of choices are noted, since C computes only the one that is taken."""
    slope = sg.grad(lambda x, y: np.where(x > 0, np.logaddexp(x, y), 0.0), target="c")
    assert slope(1.0, 1000.0) == 0.0
    assert repeated == []


def test_a_condition_is_noted_once_for_the_same_numbers():
    """Not behind what changes the numbers, and not for a divisor that is known."""

    def quotients(x, y):
        return np.where(y > 0, x / y, 1.0) + np.where(y < 0, (x + 1) / y / 2.5, 0.5)

    def steps(x, y):
        parts = np.zeros(len(x))
        for i in range(len(x)):
            a = np.where(y > 0, x[i] / y, y)
            parts[i] = a + np.where(y < 0, (x[i] + 1) / y / 2.5, a)
            y = y - 1.0
            parts[i] += np.where(y > 0, x[i] / y, y)
        return parts

    compiled = [
        sg.compile(f, target="c").compile("float64[n]", y) for f, y in ((quotients, "float64[n]"), (steps, 0.0))
    ]
    assert [program.source.native.count("noted |= ") for program in compiled] == [1, 2]
    assert not any("2.5 == 0" in program.source.native for program in compiled)
    x = np.array([1.0, 2.0])
    for y in ([1.0, 2.0], [0.0, 1.0], [-1.0, 1.0]):
        assert said(compiled[0], x, np.array(y)) == said(quotients, x, np.array(y))
