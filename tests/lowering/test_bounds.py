"""Indices that are surely inside of their axes are not checked in C; all others raise as NumPy does."""

import linecache
import random

import numpy as np
import pytest

import symgrad as sg
from symgrad.lowering.bounds import Bounds
from symgrad.lowering.expressions import ONE, TRUTH, WHOLE, ZERO, Apply, Extent, Load, Local, Number, Whole, minus, plus
from symgrad.lowering.statements import Buffer
from symgrad.ops.define import TABLE
from tests.statements import printed_kernels

I, J, K, N = Local("i"), Local("j"), Local("k"), Extent("n")
LAST = minus(N, ONE)


def applied(function, *arguments):
    truths = function in (np.greater, np.less_equal, np.equal, np.logical_and, np.logical_not)
    return Apply(TABLE[function], arguments, TRUTH if truths else WHOLE)


def is_inside(bounds, index):
    return bounds.at_least(index, ZERO) and bounds.at_least(LAST, index)


def test_an_index_of_a_loop_is_inside_of_its_range_alone():
    bounds = Bounds(["n"])
    with bounds.counting(I, LAST):
        assert is_inside(bounds, I) and is_inside(bounds, plus(I, ONE))
        assert not is_inside(bounds, plus(I, Number(2))) and not is_inside(bounds, minus(I, ONE))
        assert is_inside(bounds, minus(LAST, I))
    assert not is_inside(bounds, I)


def test_triangular_loops():
    bounds = Bounds(["n"])
    with bounds.counting(I, N), bounds.counting(J, applied(np.maximum, I, ZERO)):
        assert is_inside(bounds, minus(I, J)) and is_inside(bounds, minus(minus(I, J), ONE))
        assert not bounds.at_least(minus(J, I), ZERO)


@pytest.mark.parametrize(
    ("test", "holds", "inside"),
    [
        (applied(np.greater, I, ZERO), True, True),
        (applied(np.greater, I, ZERO), False, False),
        (applied(np.less_equal, I, ZERO), False, True),
        (applied(np.equal, I, ZERO), False, True),
        (applied(np.equal, I, ZERO), True, False),
        (applied(np.equal, I, Number(3)), True, True),
        (applied(np.equal, I, Number(3)), False, False),
        (applied(np.logical_and, applied(np.greater, K, I), applied(np.greater, I, ZERO)), True, True),
        (applied(np.logical_and, applied(np.greater, K, I), applied(np.greater, I, ZERO)), False, False),
        (applied(np.logical_not, applied(np.greater, I, ZERO)), False, True),
        (Whole(">=", I, ONE), True, True),
    ],
)
def test_tests_of_branches_are_known_inside_of_them(test, holds, inside):
    bounds = Bounds(["n"])
    with bounds.counting(I, N):
        with bounds.where(test, holds):
            assert is_inside(bounds, minus(I, ONE)) == inside
        assert not is_inside(bounds, minus(I, ONE))


def test_quotients_remainders_and_extremes():
    bounds = Bounds(["n"])
    with bounds.counting(I, N), bounds.counting(J, N):
        assert is_inside(bounds, applied(np.remainder, plus(I, J), N))
        assert is_inside(bounds, applied(np.floor_divide, plus(I, J), Number(2)))
        assert is_inside(bounds, applied(np.minimum, plus(I, ONE), LAST))
        assert is_inside(bounds, applied(np.maximum, minus(I, Number(5)), ZERO))
        assert not is_inside(bounds, applied(np.remainder, K, plus(K, N)))
        assert not bounds.at_least(applied(np.floor_divide, plus(I, J), Number(2)), I)


def test_integers_that_wrap_around_are_not_added():
    """k + 5 may be less than n because it has become negative."""
    bounds, sum_ = Bounds(["n"]), applied(np.add, K, Number(5))
    with bounds.where(applied(np.less_equal, sum_, LAST)), bounds.where(applied(np.greater, K, ZERO)):
        assert bounds.at_least(LAST, sum_) and not bounds.at_least(sum_, ZERO)
        with bounds.where(applied(np.less_equal, K, N)):  # now it does not
            assert bounds.at_least(applied(np.add, K, Number(5)), ZERO)


def test_nothing_is_known_of_memory_that_may_be_written():
    for kind, known in (("own", False), ("given", True)):
        bounds, index = Bounds(["n"]), Load(Buffer("k", WHOLE, (3,), kind), (ZERO,))
        with bounds.where(applied(np.greater, index, ZERO)):
            assert bounds.at_least(index, ONE) == known


# ---- programs


def before(x):
    y, s = np.zeros_like(x), 0.0
    for i in range(len(x)):
        if i > 0:
            s = s * 0.5 + x[i - 1]
        y[i] = s
    return np.sum(y * y)


def backwards(x):
    y = x.copy()
    for i in range(len(x) - 2, -1, -1):
        y[i] = np.sin(y[i] * y[i + 1]) + y[len(x) - 1 - i]
    return np.sum(y)


def triangular(x):
    y = x.copy()
    for i in range(len(x)):
        for j in range(i):
            y[i] = y[i] - 0.01 * y[j] * x[i - j]
    return np.sum(y)


def either(x):
    s = 0.0
    for i in range(len(x)):
        if i == 0 or i == len(x) - 1:
            s += s * x[i]
        else:
            s += x[i - 1] * x[i + 1] * s + x[i // 2] * x[(3 * i) % len(x)]
    return s


def sorted_by_insertion(x):
    y = x.copy()
    for i in range(1, len(x)):
        j = i
        while j > 0 and y[j - 1] > y[j]:
            t = y[j]
            y[j] = y[j - 1]
            y[j - 1] = t
            j -= 1
    return np.sum(y * np.arange(len(x)))


@pytest.mark.parametrize("f", [before, backwards, triangular, either, sorted_by_insertion])
def test_indices_that_are_surely_inside_are_not_checked(f, monkeypatch):
    texts = printed_kernels(monkeypatch)
    transform = sg.compile if f is sorted_by_insertion else sg.value_and_grad  # of what it reads a tape holds indices
    made = transform(f, target="c").compile("float64[n]")
    assert not any("return 1;" in text or " + n : " in text for text in texts)
    x = np.array([0.3, -0.2, 0.5, 0.1, 0.7])
    found, expected = (np.hstack(y if isinstance(y, tuple) else [y]) for y in (made(x), transform(f)(x)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_one_end_is_checked_where_the_other_one_is_sure(monkeypatch):
    texts = printed_kernels(monkeypatch)

    def after(x):
        s = 0.0
        for i in range(len(x)):
            s = s * x[i + 1]
        return s

    f = sg.compile(after, target="c").compile("float64[n]")
    assert "if (t >= n)" in texts[-1] and "x[t]" in texts[-1]
    with pytest.raises(IndexError):
        f(np.ones(3))


def index(choose, names):
    v, w, c = choose(names), choose(names), choose("0112")
    ahead = (f"{v} + {c}", f"{v} - {c}", f"n - {c} - {v}", f"-{v} - {c}", f"{v} - {w}", f"{v} + {w}", f"ks[{v}]")
    rounded = (f"{v} // 2", f"({v} + {w}) // 2", f"({v} + {c}) % n", f"max({v} - {c}, 0)", f"min({v} + {c}, n - 1)")
    return choose(choose((ahead, rounded)))


def range_of(choose, names):
    v, c = choose([*names, "n"]), choose("012")
    return choose((v, f"{c}, {v}", f"{v} - {c}", f"{v} - 1, {c} - 1, -1", f"{c}, n, 2", f"{v} + {c}"))


def truth(choose, names):
    v, w, c, e = choose(names), choose(names), choose("012"), index(choose, names)
    alone = (f"{v} > {c}", f"{v} < n - {c}", f"{v} == {c}", f"{v} != {c}", f"not {v} < {c}", f"{e} > 0", f"{v} < {w}")
    joined = (f"{e} > {c} and {e} < n", f"{v} == 0 or {v} > n - {c}", f"0 <= {e} < n", f"{v} + {w} < n")
    return choose(choose((alone, joined)))


def lines(choose, names, depth):
    k, m, v = index(choose, names), index(choose, names), f"w{depth}"
    yield choose((f"y[{k}] = y[{m}] * 0.5", f"s = s * 0.7 + y[{k}]", f"y[{k}] += 0.1 * x[{m}]"))
    inner = ["    " + line for line in lines(choose, [*names, v], depth + 1)] if depth < 3 else ["    s = s * 0.9"]
    kind = choose(("if", "for", "while")) if depth < 3 else "if"
    if kind == "if":
        yield f"{v} = {choose(names)} + {choose('01')}"
        yield f"if {truth(choose, [*names, v])}:"
    elif kind == "for":
        yield f"for {v} in range({range_of(choose, names)}):"
    else:
        yield f"{v} = {choose(names)} - {choose('01')}"
        yield f"while {v} > {choose('01')}:"
        inner.append(f"    {v} = {v} - {choose('12')}")
    yield from inner
    if choose((True, False)):
        yield f"y[{index(choose, names)}] -= s * 0.1"


def program(seed):
    choose = random.Random(seed).choice
    body = [f"for k in range({range_of(choose, [])}):", *("    " + line for line in lines(choose, ["k"], 0))]
    begin = ["import numpy as np", "def f(x, ks):", "    n, y, s = len(x), x * 0.5, x[0]"]
    return "\n".join([*begin, *("    " + line for line in body), "    return s + np.sum(y * np.arange(n))"])


@pytest.mark.parametrize("seed", range(6))
def test_random_loops_raise_where_python_does(seed, monkeypatch):
    printed_kernels(monkeypatch)
    text, name, scope = program(seed), f"bounds_{seed}.py", {}
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), scope)
    f = sg.compile(scope["f"], target="c", optimize=0).compile("float64[n]", "int64[n]")
    for n in (2, 3, 5, 6):
        rng = np.random.default_rng(n)
        x, ks = rng.normal(size=n), rng.integers(0, n + (n == 3), n)
        expected, found = result(scope["f"], x, ks), result(f, x, ks)
        assert (expected is None) == (found is None), (n, text)
        if expected is not None:
            np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=text)


def result(f, *arguments):
    """Return what a function computes, None where an index is out of bounds."""
    try:
        return f(*arguments)
    except IndexError:
        return None
