"""Idioms of Python around numbers: tests of flags, lookups in lists, early returns, constructors."""

import bisect
import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ConcreteValueError, ScalarError, ShapeError, UnsupportedError, WriteError

LEVELS = (0, 1, 2)


def check(f, *args, also=(), levels=LEVELS):
    """Value and gradient by the first argument are those of Python and of differences, at each of some levels.

    The same programs are run at the values of the first argument that `also` has.
    """
    programs, step = [sg.value_and_grad(f, optimize=level) for level in levels], 1e-6
    for x in (args[0], *also):
        wanted = f(np.copy(x) if isinstance(x, np.ndarray) else x, *args[1:])
        direction = np.ones(np.shape(x)) if np.ndim(x) else 1.0
        difference = (f(x + step * direction, *args[1:]) - f(x - step * direction, *args[1:])) / (2 * step)
        for program in programs:
            value, gradient = program(x, *args[1:])
            np.testing.assert_allclose(value, wanted, rtol=1e-12)
            np.testing.assert_allclose(np.sum(gradient), difference, rtol=1e-6, atol=1e-8)


# ---- of tests only the truth matters


def and_flag(x, flag):
    if x > 1 and flag:
        return x * x
    return 3 * x


def flag_and(x, flag):
    if flag and x > 1:
        return x * x
    return 3 * x


def or_flag(x, flag):
    return x * x if x > 1 or flag else 3 * x


def not_both(x, flag):
    return x * x if not (x > 1 and flag) else 3 * x


def while_flag(x, flag):
    while x < 10 and (flag or x < 3):
        x = x * 1.5
    return x


def conditional_test(x, flag):
    return x * x if (flag if x > 1 else x > 0.25) else 3 * x


def in_a_comprehension(x, flag):
    return sum(v * x**2 for v in [0.5, 1.0, 3.0] if x > v and flag) + x


FLAGS = [None, "tanh", "", [], [1.0], {}, (), 3, 0.0, False, np.array([2.0])]


@pytest.mark.parametrize("i", range(len(FLAGS)), ids=map(repr, FLAGS))
@pytest.mark.parametrize("f", [and_flag, flag_and, or_flag, not_both, while_flag, conditional_test, in_a_comprehension])
def test_a_flag_of_any_type_in_a_test(f, i):
    """At the levels in turn: flags are decided before them."""
    check(lambda x: f(x, FLAGS[i]), 0.45, also=[2.1], levels=(LEVELS[i % 3],))


def test_a_value_that_is_kept_is_not_only_a_truth():
    def kept(x):
        y = x > 1 and "tanh"
        return x if y else 2 * x

    with pytest.raises(UnsupportedError, match="the value of the expression is the str 'tanh'"):
        sg.grad(kept)(2.0)


def test_an_array_of_one_number_has_a_truth():
    def f(x):
        return x[0] ** 2 if np.abs(x) > 1 else -x[0]

    for x in (0.5, 2.0):
        check(f, np.array([x]))
    with pytest.raises(ConcreteValueError):
        sg.grad(f)(np.array([1.0, 2.0]))


def is_large(x):
    return bool(np.sum(x) > 1)


def test_bool_of_a_traced_value():
    for x in (0.5, 2.0):
        check(lambda x: x**2 if is_large(x) else x, x)


def test_a_test_beside_what_may_fail_is_traced_alike_twice():
    def f(x):
        y = x
        if x > 0.5:
            z = 1 / (x + 1)
            if x > 0.75 and x < math.acos(z):
                y = x * 2
        return y * x

    for x in (0.25, 0.6, 0.9, 3.0):
        check(f, x)


# ---- sums over some items


@pytest.mark.parametrize("items", [[1.0, 2.0, 3.0], (1, 2, 3), np.arange(20.0), range(30), []], ids=repr)
def test_sum_over_the_items_that_pass(items):
    def f(x):
        return x + sum(v * x**2 for v in items if v < x) + sum([v * x for v in items if v > x])

    check(f, 2.5)


# ---- comparisons with missing numbers


def lowest_picked(x):
    picked = []
    for v in x:
        if not v > 3:
            picked.append(v)
    return min(picked)


EXTREMES = {
    "max": lambda x: max(x), "min": lambda x: min(x), "generator": lambda x: max(2 * v for v in x),
    "list": lowest_picked, "key": lambda x: max(x, key=lambda v: -v * v), "default": lambda x: max(x, default=0.0),
}  # fmt: skip


@pytest.mark.parametrize("missing", [[], [3], [0], range(1, 20), range(20)], ids=repr)
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_skip_nans_as_comparisons_do(name, missing):
    x = (1.0 + np.arange(20) * 7 % 23) * (-1) ** np.arange(20)
    x[missing] = np.nan
    f = EXTREMES[name]
    value, slope = sg.value_and_grad(f)(x)
    np.testing.assert_array_equal(value, f(x))
    if not np.isnan(f(x)):
        near = x + 1e-6 * np.eye(20)
        np.testing.assert_allclose(slope, [(f(y) - f(x)) * 1e6 for y in near], atol=1e-4)


@pytest.mark.parametrize("f", [lambda x: max(x), lambda x: min(x), lambda x: max(v * 1.0 for v in x)])
def test_the_first_of_equal_numbers_is_the_extreme(f):
    np.testing.assert_array_equal(sg.grad(f)(np.ones(20)), np.arange(20) == 0)


KEYED = {
    "enumerate": lambda x: min(enumerate(x), key=lambda p: p[1]),
    "zip": lambda x: max(zip(x, x**2, strict=True), key=lambda p: p[1]),
    "dict": lambda x: max({1: x[0], 2: x[1]}.items(), key=lambda p: p[1] ** 2)[1],
    "iterator": lambda x: min(reversed(list(x)), key=abs), "generator": lambda x: max((v for v in x), key=abs),
    "sorted": lambda x: sorted(zip(x, x**2, strict=True), key=lambda p: p[1])[0],
    "reversed": lambda x: sorted(enumerate(x), key=lambda p: abs(p[1]), reverse=True)[:3],
}  # fmt: skip


@pytest.mark.parametrize("name", KEYED)
def test_extremes_and_order_of_tuples_by_key(name):
    f = sg.compile(KEYED[name])
    for x in ([3.0, -1.0, 2.0, 1.0], [-1.0, 5.0, 1.0, 0.5]):
        assert f(np.array(x)) == KEYED[name](np.array(x))
    if name != "dict":
        assert sg.compile(KEYED[name])(np.arange(20.0)) == KEYED[name](np.arange(20.0))


# ---- bisect, and lists at traced indices

STARTS, VALUES = [0.0, 1.0, 2.5, 4.0], [1.0, 4.0, 2.0, 7.0]
ROWS = [(1.0, 2), (3.0, 4), (5.0, 6), (7.0, 8)]


def interpolated(t):
    i = min(max(bisect.bisect(STARTS, t), 1), len(STARTS) - 1)
    w = (t - STARTS[i - 1]) / (STARTS[i] - STARTS[i - 1])
    return (1 - w) * VALUES[i - 1] + w * VALUES[i]


def left(t):
    return VALUES[bisect_left(STARTS, t) - 1] * t


def bounded(t):
    return VALUES[bisect.bisect_right(STARTS, t, 1, 3)] * t + VALUES[bisect.bisect_left(STARTS, t, lo=1)]


def of_an_array(t):
    return np.array(VALUES)[bisect.bisect_right(np.array(STARTS), t) - 1] * t


def of_tuples(t):
    slope, offset = ROWS[bisect.bisect(STARTS, t) - 1]
    return slope * t + offset


def counted(t):
    total = 0.0
    for k in range(bisect.bisect(STARTS, t)):
        total = total + t**2 * VALUES[k]
    return total


def mixed(t):
    return [0, 1.5, 2][bisect.bisect([1.0, 2.5], t)] * t


@pytest.mark.parametrize("search", [bisect.bisect_left, bisect.bisect_right])
def test_a_nan_stands_where_comparisons_lead(search):
    assert sg.compile(lambda t: search(STARTS, t))(np.nan) == search(STARTS, np.nan)


@pytest.mark.parametrize("f", [interpolated, left, bounded, of_an_array, of_tuples, counted, mixed])
@pytest.mark.parametrize("t", [0.5, 1.75, 3.0])
def test_bisect(f, t):
    check(f, t)


def test_bisect_in_a_list_of_traced_numbers():
    def f(a, t):
        return VALUES[bisect.bisect([a, 2 * a, a + 3], t)] * a * t

    check(f, 1.0, 2.5)


def test_bisect_where_the_number_is_there():
    for t in STARTS:
        for plain in (bisect.bisect_left, bisect.bisect_right):
            np.testing.assert_array_equal(sg.compile(lambda t, g=plain: g(STARTS, t) + 0 * t)(t), plain(STARTS, t))


def test_a_place_that_bisect_finds_is_no_bound_of_a_slice():
    with pytest.raises(ConcreteValueError, match="index, range"):
        sg.grad(lambda t: np.sum(np.array(VALUES)[: bisect.bisect(STARTS, t)] * t))(1.5)


def test_items_of_a_list_in_a_long_loop():
    weights = [0.1 * k for k in range(40)]

    def f(x):
        for k in range(40):
            x = x + weights[k] * np.sin(x) / 40
        return x

    check(f, 0.7)
    assert "for" in sg.compile(f).source(0.7).program


def test_an_item_of_a_list_of_arrays_is_that_array():
    """Arrays in a list may be written into, so that no copy can stand for one."""

    def f(x):
        rows = [x * 1.0, x * 2.0]
        rows[bisect.bisect([0.5], x[0])][0] = 5.0
        return np.sum(rows[0] + rows[1])

    with pytest.raises(ConcreteValueError):
        sg.grad(f)(np.array([1.0, 2.0]))


# ---- early returns


def returned_in_place(x):
    x = x.copy()
    for i in range(4):
        if x[i] > 2.1:
            return x
        x[i] = x[i] * 3
    return x


def relaxed(x):
    x = x.copy()
    for _ in range(50):
        old = x.copy()
        x[1:-1] = 0.5 * (x[:-2] + x[2:])
        if np.max(np.abs(x - old)) < 1e-3:
            return x
    return x


def with_a_count(x):
    x = x.copy()
    for i in range(40):
        x *= 1.25
        if x[0] > 6:
            return x, i
    return x, -1


def endless(x):
    x = x.copy()
    while True:
        x[0] = np.sqrt(x[0])
        if x[0] < 1.1:
            return x
        x[1] += x[0]


def two_returns(x):
    x = x.copy()
    for i in range(4):
        if x[i] > 5:
            return x
        x[i] += 1
        if x[i] < 1.5:
            return x[1:]
        x[i] *= 2
    return x


def in_two_loops(x):
    x = x.copy()
    for i in range(3):
        for j in range(4):
            if x[j] > 3 + i:
                return x
            x[j] = x[j] + 0.5
        x[0] = x[0] * 1.5
    return 2 * x


def searched(x):
    x = x.copy()
    for i in range(4):
        if x[i] > 6:
            return x
        x[i] = 2 * x[i]
    else:
        x[0] = 1.0
    return x


@pytest.mark.parametrize("f", [returned_in_place, relaxed, endless, in_two_loops, searched])
@pytest.mark.parametrize("x", [[1.0, 4.0, 2.0, 7.0], [1.2, 0.4, 0.3, 0.7], [9.0, 1.0, 1.0, 1.0]])
def test_an_array_that_is_written_into_is_returned_early(f, x):
    check(lambda x: np.sum(f(x) ** 2 * np.arange(1.0, 5.0)), np.array(x))


def test_the_index_is_returned_as_well():
    for start in (1.0, 1e-9):
        x = np.array([start, 2.0])
        check(lambda x: np.sum(with_a_count(x)[0]) * with_a_count(x)[1], x)


def returned_or_else(x):
    for v in x:
        if v > 1:
            return v * 2
    else:
        return x[0]


def while_or_else(x):
    while x > 1:
        x = x * 0.5
        if x > 100:
            return x
    else:
        return x * 3


def named_or_else(x):
    y, n = 10.0, 0
    while (y := y * 0.7 + x) > 1.5 and (n := n + 1) < 50:
        pass
    else:
        y += n * x
    return y * n


@pytest.mark.parametrize(
    ("f", "x", "also"),
    [
        (returned_or_else, np.array([0.5, 2.0, 0.1]), [np.array([0.5, 0.2, 0.1]), np.array([3.0, 2.0, 0.1])]),
        (returned_or_else, np.linspace(0.1, 2.0, 40), [np.linspace(0.1, 0.2, 40)]),
        (while_or_else, 3.0, [0.5, 800.0]),
        (named_or_else, 0.022, [0.5]),
    ],
    ids=["unrolled", "loop", "while", "named"],
)
def test_the_else_of_a_loop_without_break_stands_behind_it(f, x, also):
    check(f, x, also=also, levels=(1,))


def test_what_is_returned_early_has_one_shape():
    with pytest.raises(ShapeError):
        sg.compile(two_returns)(np.array([0.1, 4.0, 2.0, 7.0]))


def test_what_is_returned_early_is_the_array_itself():
    """A write of the caller's reaches it; one behind the loop is not taken for one within."""

    def f(x):
        kept = x.copy()
        found = first_large(kept)
        found[0] = 100.0
        return np.sum(kept * x)

    def first_large(a):
        for i in range(4):
            if a[i] > 3:
                return a
            a[i] = a[i] + 1
        return a

    check(f, np.array([1.0, 4.0, 2.0, 7.0]))


def test_a_return_of_nothing_in_a_nested_branch():
    class Vector:
        def __init__(self, x):
            self.x = x

        def normalise(self):
            if np.dot(self.x, self.x) > 1:
                square = np.dot(self.x, self.x)
                if square > 9:
                    return
                self.x = self.x / square

    def f(x):
        v = Vector(x)
        nothing = v.normalise()
        return np.sum(v.x * x) if nothing is None else np.nan

    for scale in (0.1, 1.0, 5.0):
        check(f, scale * np.array([1.0, 2.0]))


# ---- classes


class Scaled:
    def __init__(self, x, scale=None):
        self.x = x * 2 if x > 1 else -x
        self.scale = scale or self.x


class Shifted(Scaled):
    def __init__(self, x):
        super().__init__(x, 3.0)
        if self.x > 0:
            self.x = self.x + 1


class Made:
    def __new__(cls, x):
        made = object.__new__(cls)
        made.first = x
        return made

    def __init__(self, x):
        self.x = x if x > 1 else x**2


@dataclass
class Checked:
    x: float
    n: int = 2

    def __post_init__(self):
        if self.x > 1 and [*self.__dict__] == ["x", "n"]:
            self.x = self.x**self.n


@pytest.mark.parametrize(
    "f",
    [
        lambda x: Scaled(x).x ** 2,
        lambda x: Scaled(x).scale * x,
        lambda x: Shifted(x).x * Shifted(x).scale,
        lambda x: Made(x).x * Made(x).first,
        lambda x: Checked(x).x * 3,
        lambda x: Checked(x, n=3).x,
    ],
)
def test_a_constructor_branches(f):
    for x in (0.5, 2.0):
        check(f, x)


class Rotation:
    @property
    def cosine(self):
        return cos(self.angle)

    @staticmethod
    def sine(angle):
        return sin(angle)


cos, sin = math.cos, math.sin


def test_functions_of_math_under_names_of_another_module():
    def f(x):
        r = Rotation()
        r.angle = x
        return r.cosine * Rotation.sine(x)

    check(f, 0.5)


@dataclass
class Beam:
    load: float
    length: float
    asked: int = 0

    @property
    def moment(self):
        if self.length > 2:
            return self.load * self.length**2 / 8
        return self.load * self.length

    @cached_property
    def area(self):
        self.asked += 1
        a = self.length
        while a > 1:
            a = a / 2
        return a

    @property
    def next(self):
        self.asked += 1
        return self.asked


def test_properties_branch():
    def f(x):
        beam, s = Beam(x, x + 1), 0.0
        for _ in range(4):
            s = s + beam.moment * beam.area
        return s * beam.asked + beam.next * x

    for x in (0.5, 2.0):
        check(f, x)


class Falling:
    def __init__(self, x):
        self.x = x

    def __getattr__(self, name):
        return self.x * 3

    @property
    def missing(self):
        return self.y.z if self.x is None else self.unknown


def test_properties_of_a_class_that_finds_attributes_itself():
    check(lambda x: Falling(x).missing + Falling(x).other, 2.0)


# ---- tables

LEVELS = [0, 1, 2]
TABLE = [[1.0, 2.0, 4.0], [3, 5.0, 9.0], [0.5, 0.25, 7.0]]
CUBE = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]


def level_of(x):
    for i in range(len(LEVELS) - 1):
        if x <= LEVELS[i + 1]:
            return i
    return len(LEVELS) - 2


def test_a_list_of_lists_is_interpolated():
    def f(x, y=0.4):
        i, j = level_of(x), level_of(y + x / 4)
        u, v = x - LEVELS[i], y - LEVELS[j]
        below = TABLE[i][j] * (1 - u) + TABLE[i + 1][j] * u
        above = TABLE[i][j + 1] * (1 - u) + TABLE[i + 1][j + 1] * u
        return below * (1 - v) + above * v + x * CUBE[i][j][1] + CUBE[i][0][j] + x * CUBE[0][1][i] + TABLE[1][-1]

    for x in (0.3, 1.6):
        check(f, x)


def test_a_row_of_a_list_of_lists_is_refused():
    def row(x):
        return x * len([*CUBE[level_of(x)][0]])

    def part(x):
        return x * len(TABLE[level_of(x)][0:2])

    for f in (row, part):
        with pytest.raises(ConcreteValueError):
            sg.grad(f)(0.3)


# ---- errors that Python raises, too


def test_a_scalar_is_not_written_into():
    def positive(x):
        try:
            x[x < 1] = 1.0
        except TypeError:
            if x < 1:
                x = x**2
        return 2 * x

    for x in (0.5, 2.0):
        check(positive, x)
    with pytest.raises(ScalarError, match="a scalar cannot be written into"):
        sg.grad(lambda x: x.__setitem__(0, 1.0))(2.0)
    with pytest.raises(WriteError, match="writing into it would change"):
        sg.grad(positive)(np.array(2.0))
    with pytest.raises(WriteError, match="writing into it would change"):  # it may be such an array
        sg.grad(positive).compile("float64[]")
    with pytest.raises(WriteError, match="a value that may be a scalar"):
        sg.grad(lambda x: x.copy().__setitem__(..., 1.0)).compile("float64[]")


def test_an_array_is_no_number():
    def total(x):
        try:
            return float(x) * 2
        except TypeError:
            return np.sum(x**2)

    check(total, np.array([1.0, 2.0]))
    check(total, 3.0)


def test_a_property_over_a_slot_is_left_alone():
    class Base:
        __slots__ = ("value",)

    class Fixed(Base):
        @property
        def value(self):
            return 2.0

    fixed = Fixed()

    def f(x):
        if x > fixed.value:
            x = x * fixed.value
        return x

    assert (sg.grad(f)(1.0), sg.grad(f)(3.0)) == (1.0, 2.0)
