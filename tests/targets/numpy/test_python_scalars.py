"""Programs of Python numbers: what Python itself does with them must not reach the results."""

import linecache

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Op
from symgrad.ops.define import TABLE, elementwise

LEVELS = pytest.mark.parametrize("level", [0, 1, 2])


@LEVELS
@pytest.mark.parametrize("x", [1.0, -1.0, 4.0])
def test_negated_comparisons(level, x):
    def f(x):
        return np.where(not x > 0, 2 * x, 3 * x) + np.where((x > 0) & np.invert(x > 3), x * x, 1.0)

    expected = (3.0 if x > 0 else 2.0) + (2 * x if 0 < x <= 3 else 0.0)
    assert sg.grad(f, optimize=level)(x) == expected


@LEVELS
@pytest.mark.parametrize("x", [1.0, -1.0])
def test_comparisons_give_truths_of_python_or_numpy(level, x):
    def f(x):
        return x > 0, ~(x > 0), (x > 0) ^ (x < 5), not x > 0, np.logical_not(x >= 0), np.greater(x, 0), np.invert(x > 0)

    results = sg.compile(f, optimize=level)(x)
    assert [*map(type, results)] == [*map(type, f(x))] == [bool, int, bool, bool, np.bool, np.bool, np.bool]
    assert results == f(x)


@LEVELS
def test_python_arithmetic_stays_weak(level):
    f = sg.compile(lambda lr, x: (lr * 2.0 - 1) * x, optimize=level)
    assert f(0.25, np.ones(3, np.float32)).dtype == np.float32


@LEVELS
@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
def test_division_by_a_size_of_zero_is_numpys(level):
    value, gradient = sg.value_and_grad(lambda x: np.sum(x * x) / x.shape[0], optimize=level)(np.ones(0))
    assert np.isnan(value)
    assert gradient.shape == (0,)


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
def test_rules_divide_by_a_size_where_it_is_never_zero():
    """A factor of Python's reads best, but where it may raise the division stays with NumPy."""
    mean = sg.grad(lambda x: np.mean(x**2)).compile("float64[n]", optimize=1)
    assert "d_x = 2 / n * x" in mean.source
    unbiased = sg.grad(lambda x: np.sum(x**2) / (x.shape[0] - 1)).compile("float64[n]", optimize=1)
    assert "2 /" not in unbiased.source
    assert unbiased(np.ones(1)) == np.inf


POLES = [
    op
    for op in {id(op): op for op in TABLE.values()}.values()
    if isinstance(op, Op) and op.elementwise and op.singular and len(op.domain or ()) == 1 and not op.package
]


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("op", POLES, ids=lambda op: op.name)
def test_derivatives_at_poles_are_numpys(op, order):
    """Python's 1 / 0.0 raises; the derivative of np.log at 0.0 is infinite all the same."""
    function = op
    for _ in range(order):
        function = sg.grad(function)
    for level in (0, 1, 2):
        compiled, of_numpy = (function.compile(x, optimize=level) for x in (0.0, np.float64(0.0)))
        for x in (0.0, 1.0, -1.0):
            expected = of_numpy(np.float64(x))
            np.testing.assert_array_equal(compiled(x), expected, err_msg=f"{op} at {x}, level {level}")


@LEVELS
@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
def test_derivatives_of_python_arithmetic_at_poles(level):
    assert sg.grad(lambda s: s**0.5, optimize=level)(0.0) == np.inf
    assert sg.grad(lambda s: np.where(s == 0, 1.0, np.sin(s) / s), optimize=level)(0.0) == 0
    assert sg.grad(lambda s: np.arctan(np.reciprocal(s) ** 2), optimize=level)(-0.5) == pytest.approx(16 / 17)


@LEVELS
def test_an_integer_that_a_branch_begins_anew_stays_one(level):
    """In loops over floats, too: a constant that is a result of a branch is not there to calculate with floats."""

    def f(x):
        streak, total = 0, 0
        while x > 1e-3:
            if streak == 3:
                x, streak = x * 0.25, 0
            else:
                x, streak = x * 0.5, streak + 1
            total = total + streak
        return x, streak, total

    found = sg.compile(f, optimize=level)(5.0)
    assert found == f(5.0)
    assert [isinstance(x, (int, np.integer)) for x in found] == [False, True, True]


@LEVELS
def test_a_users_function_is_not_that_of_math_of_its_name(level):
    def log(x):
        return np.log(x) / np.log(2.0)

    elementwise(log, lambda y, x: 1 / (x * np.log(2.0)), dtype=lambda *kinds: np.dtype(float))
    try:
        value, slope = sg.value_and_grad(lambda x: log(x) * 3.0, optimize=level)(8.0)
    finally:
        del TABLE[log]
    assert value == pytest.approx(9.0)
    assert slope == pytest.approx(3 / (8 * np.log(2.0)))


@LEVELS
def test_a_constant_condition_gives_the_other_side_no_gradient(level):
    for condition in (True, np.True_, np.bool_(1), 1, 2.0):
        f = lambda a, b, c=condition: np.where(c, a, b) * 1.0
        assert sg.grad(f, (0, 1), optimize=level)(3.0, 2.0) == (1.0, 0.0)
        g = lambda a, b, c=condition: np.where(np.logical_not(c), a, b) * np.where(~np.bool_(c), a, 2.0)
        assert sg.grad(g, (0, 1), optimize=level)(3.0, 2.0) == (0.0, 2.0)


COUNTERS = [
    "~i", "-~i", "~-i", "~(i % 3)", "i ^ 3", "i & 6", "i | 1", "i << 2", "i >> 1", "i % 3", "i // 3", "-i // 4",
    "-i % 5", "~(i & 1)", "~m", "~(m + i)", "i ^ ~m", "(i > 4) * 3", "~(i << 1) & 7", "not i", "(not i) + 1",
    "~np.int64(i)", "k ^ i", "~k + i", "(k << 1) % (i + 2)",
]  # fmt: skip


@LEVELS
@pytest.mark.parametrize("counted", COUNTERS)
def test_integers_in_loops(level, counted):
    """Inverting an integer by ``~`` is no ``not``, even where a loop over floats is written in Python."""
    names = {"np": np}
    text = f"def f(x, m, k):\n    s = x * 0\n    for i in range(20):\n        s = s - x * ({counted})\n    return s\n"
    linecache.cache[f"<{counted}>"] = (len(text), None, text.splitlines(True), f"<{counted}>")
    exec(compile(text, f"<{counted}>", "exec"), names)
    f, args = names["f"], (1.5, 3, np.int64(2))
    slope = (f(2.5, *args[1:]) - f(0.5, *args[1:])) / 2
    np.testing.assert_allclose(sg.compile(f, optimize=level)(*args), f(*args), rtol=1e-13)
    np.testing.assert_allclose(sg.grad(f, optimize=level)(*args), slope, rtol=1e-13)


# ---- integers that a float cannot hold

LARGE = 2**53


def below_a_constant(x):
    return 1.0 if x < LARGE + 1 else 0.0


def one_of_two(x):
    n = LARGE + 1 if x > 0 else 3
    return 1.0 if n > x else 2.0 if n == x else 3.0


def doubled(x):
    n, found = 1 if x > 0 else 2, 0
    for _ in range(60):
        n = n * 2
        if n + 1 > x:
            found = found + 1
    return found


@pytest.mark.parametrize("f", [below_a_constant, one_of_two, doubled])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_integers_and_floats_are_compared_exactly(f, level):
    compiled = sg.compile(f, optimize=level, check_first=False)
    for x in (float(LARGE), float(LARGE + 2), 5.0, -1.0, np.inf, np.nan):
        assert compiled(x) == f(x)


def orders(x, first):
    """Twelve comparisons of an integer that a loop makes with a float."""
    n, found = first, 0.0
    for _ in range(20):
        n = n + 1
    tests = n < x, n <= x, n > x, n >= x, n == x, n != x, x < n, x <= n, x > n, x >= n, x == n, x != n
    for i, test in enumerate(tests):
        if test:
            found = found + 2.0**i
    return found


@pytest.mark.parametrize("first", [LARGE - 19, LARGE - 20, 2, -LARGE - 21, 2**62 + 81])
def test_integers_and_floats_are_compared_exactly_in_c(first):
    compiled = sg.compile(lambda x: orders(x, first), target="c", check_first=False)
    for x in (*(float(first + i) for i in range(18, 24)), np.inf, -np.inf, np.nan):
        assert compiled(x) == orders(x, first)


@pytest.mark.parametrize(
    "f", [lambda x: max(LARGE + 1, x), lambda x: min([x, LARGE + 1]), lambda x: sorted([LARGE + 1, x])]
)
def test_a_large_integer_among_floats_is_refused(f):
    with pytest.raises(sg.errors.DTypeError, match="choose between floats and the integer 9007199254740993"):
        sg.compile(f)(2.0)


def test_a_large_integer_beside_a_float_is_refused():
    with pytest.raises(sg.errors.DTypeError, match="float64 would not hold all digits of that Python number"):
        sg.compile(chosen_beside_a_float)(2.0)


def chosen_beside_a_float(x):
    return LARGE + 1 if x > 0 else 1.5
