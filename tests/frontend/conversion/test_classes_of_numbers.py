"""Classes of numbers, where traced values decide: they are told rightly, or refused; and so are patterns."""

import contextlib
import enum
import functools
import math

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradError
from tests.fuzz import defined


class Colour(enum.IntEnum):
    RED = 1
    GREEN = 2


class Steep(float):
    def __add__(self, other):
        return Steep(float(self) + 10 * other)


class Money(float):
    """A number that computes as a float does."""


def numbers_of_an_enumeration(x):
    colour = Colour.RED
    if x > 0:
        colour = Colour.GREEN
    return x * colour + isinstance(colour, Colour) + 3 * (type(colour) is int) + (colour == Colour.RED)


def numbers_of_an_enumeration_in_a_loop(x):
    colour = Colour.RED
    for i in range(25):
        if i * x > 3:
            colour = Colour.GREEN
    return x * colour + isinstance(colour, Colour)


def a_class_that_computes_as_floats(x):
    price = Money(1.0)
    if x > 0:
        price = Money(2.0)
    return (price + 1.0) * x + isinstance(price, Money) + isinstance(price + 1.0, Money)


def both_are_floats(x):
    y = 0.0
    if x > 0:
        y = np.sin(x)
    return y * 2 + isinstance(y, float) + np.isscalar(y) + isinstance(y, (int, np.ndarray)) + isinstance(-y / 3, float)


def both_are_numbers(x):
    n = 3
    if x > 0:
        n = 4.5
    return n * x + isinstance(n, (int, float)) + isinstance(n + 1, (int, float)) + isinstance(n / 2, float)


def sum_of_a_loop(x):
    total, a = 0.0, np.arange(30.0) * x
    for i in range(30):
        total += a[i]
    return total + isinstance(total, float)


def integers_or_none(x):
    n = None
    if x > 0:
        n = 3
    return x * (1.0 if isinstance(n, int) else 2.0)


def single_dispatch(x):
    @functools.singledispatch
    def f(v):
        return 1.0

    @f.register
    def _(v: int):
        return 2.0 if v > 3 else 7.0

    @f.register
    def _(v: float):
        return v if v > 0 else 3.0

    n = 1
    if x > 0:
        n = 4
    return f(n) + f(x) * f(float(n)) + f("text")


def match_of_booleans(x):
    training = True
    match training, x:
        case True, y if y > 0:
            return 2.0 * x
        case True | None, _:
            return 3.0 * x
        case _:
            return x


def match_with_guards(x):
    y = 1.0
    if x > 0:
        y = np.sin(x)
    match y:
        case v if v > 0.5:
            return v * x
        case _:
            return 3.0 * x


RIGHT = (numbers_of_an_enumeration, numbers_of_an_enumeration_in_a_loop, a_class_that_computes_as_floats,
         both_are_floats, both_are_numbers, sum_of_a_loop, integers_or_none, single_dispatch, match_of_booleans,
         match_with_guards)  # fmt: skip


@pytest.mark.parametrize("optimize", (1, 2))
@pytest.mark.parametrize("f", RIGHT)
def test_classes_are_told(f, optimize):
    program = sg.compile(f, check_first=False, optimize=optimize).compile(0.5)
    for x in (-0.3, 0.5):
        assert program(x) == pytest.approx(f(x), rel=1e-13)


def operators_of_its_own(x):
    angle = Steep(1.0)
    if x > 0:
        angle = Steep(2.0)
    return (angle + 1.0) * x


def operators_of_its_own_on_one_side(x):
    angle = 1.0
    if x > 0:
        angle = Steep(1.0)
    return (angle + 1.0) * x


def enumeration_or_integer(x):
    colour = Colour.RED
    if x > 0:
        colour = 2
    return x * (1.0 if isinstance(colour, Colour) else 2.0)


def of_numpy_or_python(x):
    n = np.int64(1)
    if x > 0:
        n = 3
    return x * (1.0 if isinstance(n, int) else 2.0)


def float_of_numpy_or_python(x):
    y = np.float64(1.0)
    if x > 0:
        y = 3.0
    return x * (1.0 if hasattr(y, "shape") else 2.0)


def boolean_of_numpy_or_python(x):
    flag = np.bool_(True)
    if x > 0:
        flag = False
    return x * (1.0 if isinstance(flag, bool) else 2.0)


def array_or_number(x):
    y = np.array(1.0)
    if x > 0:
        y = 2.0
    return x * (1.0 if isinstance(y, np.ndarray) else 2.0)


def none_or_integer_or_float(x):
    n = None
    if x > 0:
        n = 3
    elif x < -0.2:
        n = 4.5
    return x * (1.0 if isinstance(n, int) else 2.0)


def sum_of_both(x):
    n = 3
    if x > 0:
        n = 4.5
    return x * (1.0 if isinstance(n + 1, int) else 2.0)


def in_a_loop(x):
    n = 3
    while n < 40 + x:
        n = n * 1.5
    return x * (1.0 if isinstance(n, int) else 2.0)


def item_of_a_list(x):
    return x * (1.0 if isinstance([1, 2.0][int(x > 0)], int) else 2.0)


def largest(x):
    return x * (1.0 if isinstance(max(1, 1.2 + x), int) else 2.0)


def sorted_numbers(x):
    return x * (1.0 if isinstance(sorted([1, 0.8 + x])[0], int) else 2.0)


def dispatch_on_both(x):
    @functools.singledispatch
    def f(v):
        return 1.0

    @f.register
    def _(v: int):
        return 2.0

    n = 1
    if x > 0:
        n = 1.5
    return f(n) * x


def text_of_both(x):
    n = 7
    if x > 0:
        n = 7.5
    return x * len(str(n))


def class_in_a_pattern(x):
    n = 1
    if x > 0:
        n = 2.0
    match n:
        case int():
            return x
        case float():
            return 2 * x


def comparison_in_a_pattern(x):
    match x > 0:
        case True:
            return x
        case False:
            return 2 * x


def booleans_in_a_pattern(x):
    match x > 0, x > -1:
        case True, True:
            return x
        case False, True:
            return 2 * x
        case _:
            return 3 * x


def boolean_of_a_property_in_a_pattern(x):
    class Point:
        @property
        def positive(self):
            return x > 0

    match Point():
        case Point(positive=True):
            return x
        case _:
            return 2 * x


def items_in_a_pattern(x):
    items = [x]
    if x > 0:
        items.append(1.0)
    match items:
        case [a]:
            return a
        case [a, b]:
            return a * b * 3


def filled(x):
    """A list of integers of which a loop tells how many there are."""
    items, k = [], 0
    while x * k < 20:
        items.append(k)
        k += 1
    return items


def integers_of_a_list(x):
    items = []
    for i in range(20):
        items.append(i)
    return sum(x + 1 if isinstance(e, int) else 2 * x for e in items) + isinstance(items[3], int)


def floats_of_a_list(x):
    items, y = [], x
    for _ in range(20):
        y = y * 0.5
        items.append(y)
    return sum(isinstance(e, float) + 2 * isinstance(e, np.floating) for e in items) * x


def list_that_a_condition_ends(x):
    items = filled(abs(x))
    return x * (type(items[0]) is int) + isinstance(sorted(items)[1], int) + isinstance((items + items)[-1], float)


def item_changed_into_a_float(x):
    items = filled(abs(x))
    items[0] = 2.5 * x
    return items[0] + items[1]


def item_increased_by_half(x):
    items = filled(abs(x))
    items[1] += 0.5
    return items[-1] * x + items[1]


@pytest.mark.parametrize(
    "f",
    [integers_of_a_list, floats_of_a_list, list_that_a_condition_ends, item_changed_into_a_float,
     item_increased_by_half],
)  # fmt: skip
@pytest.mark.parametrize("level", [0, 2])
def test_items_of_a_list_that_a_loop_fills_are_of_their_classes(f, level):
    compiled = sg.compile(f, optimize=level, check_first=False)
    for x in (1.5, -0.7, 2.0):
        assert float(compiled(x)) == pytest.approx(float(f(x)), rel=1e-12)


def integers_and_floats_by_turns(x):
    items = []
    for i in range(20):
        items.append(i if i * x < 7 else i * x)
    return sum(1 if isinstance(e, int) else x for e in items)


def float_behind_integers(x):
    items = filled(abs(x))
    items.append(2.5)
    return x + isinstance(items[-1], int)


def halves_in_a_loop(x):
    items = filled(abs(x))
    for i in range(len(items)):
        items[i] = items[i] * 0.3
    return items[-1] * x


REFUSED = (integers_and_floats_by_turns, float_behind_integers, halves_in_a_loop,
           operators_of_its_own, operators_of_its_own_on_one_side, enumeration_or_integer, of_numpy_or_python,
           float_of_numpy_or_python, boolean_of_numpy_or_python, array_or_number, none_or_integer_or_float, sum_of_both,
           in_a_loop, item_of_a_list, largest, sorted_numbers, dispatch_on_both, text_of_both, class_in_a_pattern,
           comparison_in_a_pattern, booleans_in_a_pattern, boolean_of_a_property_in_a_pattern,
           items_in_a_pattern)  # fmt: skip


@pytest.mark.parametrize("f", REFUSED)
def test_where_nothing_tells_it_is_refused(f):
    with pytest.raises(SymgradError):
        sg.compile(f, check_first=False).compile(0.5)


def test_a_copy_of_a_list_has_classes_of_its_own():
    def f(x):
        items = filled(abs(x))
        other = items.copy()
        other[0] = 2.5 * x
        return other[0] + (10 if isinstance(items[0], int) else 20)

    compiled = sg.compile(f, check_first=False)
    assert [float(compiled(x)) for x in (1.5, -0.7)] == pytest.approx([f(1.5), f(-0.7)])


FORMS = {
    "grown": """
    steps = [{0}]
    for i in range(18):
        steps.append({1})
        if y + i > 3.3:
            break""",
    "filled": """
    steps = [{0}]
    for i in range(18):
        steps.append({1})""",
    "chosen": """
    i = 1
    v = {0} if y > 0.5 else {1}
    for i in range(20):
        v = {1} if v > y else v
        w = v
    steps = [w, v]""",
    "written": """
    i = 3
    steps = [{0}, {1}, y]
    if y > 0.2:
        steps[:2] = {1}, {0}
    else:
        steps[1] = {0}
        steps[2] = 2""",
}
NUMBERS = ("2", "i - 2"), ("2.0", "y * 1.5"), ("x[0]", "x[1] * i"), ("2", "y * i"), ("2.0", "x[0] * i"), (
    "y > 0", "y > i"), ("x[0] > 0", "x[1] > 0.1")  # fmt: skip
USES = (
    "steps[-1]", "sum(steps)", "sum(steps, 0.0)", "sum(s * 2 for s in steps)", "sum(steps) / len(steps)", "max(steps)",
    "min(steps)", "sorted(steps)[0]", "abs(steps[-1])", "-steps[1]", "steps[-1] ** 2", "math.sqrt(abs(steps[-1]))",
    "float(steps[-1])", "max(steps[-1], 1.5)", "max(steps[-1], x[0])", "min(y, x[0])", "steps[-1] + y",
    "steps[-1] * x[0]", "steps[-1] // 2", "steps[1:][0]", "(steps + [1.5])[-1]", "tuple(steps)[0]",
    "[s * 2 for s in steps][0]", "[s for s in steps if s > -5][0]",
)  # fmt: skip
QUESTIONS = (
    "(a > -0.45) is True", "isinstance(a, int)", "isinstance(a, np.floating)", "isinstance(a, float)",
    "type(a) is float", "isinstance(a > 0, np.bool_)", "(not a) is True", "a is True",
)  # fmt: skip


def asking(form, numbers, use, question):
    begun = f"def f(x, y):{FORMS[form].format(*numbers)}"
    return defined(f"{begun}\n    a = {use}\n    return y * 1.0 + (5.0 if {question} else 0.0)", math=math)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_computed_of_items_is_of_the_class_that_python_gives_or_refused(form, use):
    """A sample: all questions of all numbers are 5,000 programs."""
    x, y = np.array([0.096, 1.198]), 0.141
    for k in range(USES.index(use), USES.index(use) + 3):
        f = asking(form, NUMBERS[3 * k % len(NUMBERS)], use, QUESTIONS[k % len(QUESTIONS)])
        try:
            expected = f(x, y)
        except TypeError:  # as Python does of booleans of NumPy's that are negated
            continue
        with contextlib.suppress(SymgradError):
            assert float(sg.compile(f, check_first=False)(x, y)) == expected


def test_a_boolean_of_an_inner_name_is_one_of_pythons():
    def f(x):
        v = x > 0 if x > 0.5 else x > 1
        for i in range(20):
            v = x > i if v > x else v
            w = v
        return x + (w is True)

    assert [float(sg.compile(f, check_first=False)(x)) for x in (0.2, 0.7)] == [f(0.2), f(0.7)]


# ---- small integers


def appended(x):
    out = []
    for v in x:
        if v > 3:
            out.append(v)
    return sum(out)


SUMS = {
    "array": sum, "start": lambda x: sum(x, True), "of single precision": lambda x: sum(x, np.float32(0.5)),
    "boolean": lambda x: sum(x, np.True_), "items": lambda x: sum(i * x[i % len(x)] for i in range(20)),
    "list": appended, "rows": lambda x: sum(np.stack([x, x], axis=1)) / 2, "product": math.prod,
    "selected": lambda x: sum(x[x > 3]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "u8", "f2", "f4", "f8", bool])
@pytest.mark.parametrize("name", SUMS)
def test_sums_are_in_the_dtype_of_the_items(name, dtype):
    x = (1 + np.arange(20) * 7 % 13).astype(dtype)
    f = sg.compile(SUMS[name])
    for y in (x, x * np.array(19, dtype) if x.dtype.kind in "iu" else x):
        with np.errstate(all="ignore"):
            found, wanted = f(y), SUMS[name](y)
        assert np.asarray(found).dtype == np.asarray(wanted).dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-2 if dtype == "f2" else 1e-6)


def test_an_int_of_python_or_a_small_one_is_not_added_to():
    """Zero less one is -1, and 255."""
    for f in (lambda x: appended(x) - 1, lambda x: (0 if x[0] > 3 else x[1]) - 1):
        with pytest.raises(SymgradError, match=r"a Python int or a np\.uint8, which may overflow"):
            sg.compile(f)(np.array([9, 200, 100], np.uint8))


# ---- numbers of fewer digits


def single_or_constant(x, v):
    y = v[0] if x > 0 else 0.1
    return float(y) * 3


def single_or_argument(x, v):
    return v[0] if x > 0 else x


def single_none_or_constant(x, v):
    y = None
    if x > 1:
        y = v[0]
    elif x > 0:
        y = 0.1
    return 1.0 if y is None else y


def single_after_iterations(x, v):
    y = 0.1
    while abs(y) < x:
        y = y + v[1]
    return y


def small_or_large(x, v):
    return np.int8(3) if x > 0 else 300


def unsigned_or_negative(x, v):
    return -1 if x > 0 else np.uint8(3)


@pytest.mark.parametrize(
    "f",
    [
        single_or_constant,
        single_or_argument,
        single_none_or_constant,
        single_after_iterations,
        small_or_large,
        unsigned_or_negative,
    ],
)
def test_a_number_of_pythons_that_a_dtype_cannot_hold_is_refused(f):
    with pytest.raises(SymgradError, match=r"would not hold all digits of|with fewer digits"):
        sg.compile(f, check_first=False)(0.5, np.float32([0.1, 0.7]))


def single_or_zero(x, v):
    total = 0.0
    for e in v:
        if e > x:
            total = total + e
        else:
            total = total * 0.5
    return total


def single_after_iterations_of_a_known_number(x, v):
    y = 0.1
    for e in v:
        y = (y + 0.3) * e
    return y * x


def single_or_infinite(x, v):
    best, at = -np.inf, 0
    for i, e in enumerate(v):
        if e > best:
            best, at = e, i
    return best * at


@pytest.mark.parametrize("f", [single_or_zero, single_after_iterations_of_a_known_number, single_or_infinite])
@pytest.mark.parametrize("level", [0, 2])
def test_a_number_of_pythons_that_a_dtype_holds_is_chosen_and_carried(f, level):
    v = np.float32([0.1, 0.7, -0.3, 0.5] * 5)
    compiled = sg.compile(f, optimize=level, check_first=False)
    for x in (0.2, -2.0):
        assert type(compiled(x, v)) is type(f(x, v))
        assert compiled(x, v) == pytest.approx(f(x, v), rel=1e-6)


# ---- text of numbers


def printed_number(x):
    n = 1 if x > 0 else 2.5
    print(n)
    return x


def printed_list(x):
    print([np.float64(x) if x > 0 else 2.5])
    return x


def printed_boolean(x):
    print(f"{True if x > 0 else 1}")
    return x


def text_in_an_error(x):
    n = 1 if x > 0 else 2.5
    if x > 10:
        raise ValueError("no " + str(n))
    return x


def largest_of_few(x):
    best, k = 0, 0
    while k < x:
        best, k = x, k + 1
    print("best", best)
    return x


@pytest.mark.parametrize("f", [printed_number, printed_list, printed_boolean, text_in_an_error, largest_of_few])
def test_text_of_a_number_whose_class_traced_values_decide_is_refused(f):
    with pytest.raises(
        sg.errors.UnsupportedError, match=r"a number is made into text, and whether it is .* depends on"
    ):
        sg.compile(f, check_first=False)(0.5)


def formats(x):
    n = 1 if x > 0 else 2.5
    print(f"{n:.3f} {n:8.2e} {n:g}", "%d" % n, "{:.1%}".format(n))  # noqa: UP031, UP032
    print(str(np.float64(x) if x > 0 else 2.5))
    return x


def totals(x):
    total, steps, count = 0, 0, 0
    for e in np.arange(20.0) * x:
        total += e
        steps = steps + x
        if e > 3:
            count += 1
    print(total, [total], f"{steps}", steps * 2, count)
    return total


@pytest.mark.parametrize("f", [formats, totals])
@pytest.mark.parametrize("level", [0, 2])
def test_text_of_a_number_of_one_class(f, level, capsys):
    compiled = sg.compile(f, optimize=level, check_first=False)
    for x in (0.5, -0.5):
        compiled(x)
        found = capsys.readouterr().out
        f(x)
        assert found == capsys.readouterr().out


def rounded(x):
    y = 0.0
    for _ in range(20):
        y = y + 0.37 * abs(x)
    return (round(y, 2) > 1) is True


def larger_of_two_booleans(x):
    v = w = x > 0
    for i in range(20):
        v = v if x > i else x > 5
    return (max(v, w) is True) + 0.0


def absolute_values(x):
    return isinstance(np.abs(2.5 if x > 0 else x * 3.0), np.floating)


@pytest.mark.parametrize("f", [rounded, larger_of_two_booleans, absolute_values])
@pytest.mark.parametrize("x", [0.7, -1.2])
def test_functions_of_numbers_are_of_the_class_that_python_gives(f, x):
    assert float(sg.compile(f, check_first=False)(x)) == f(x)


def sum_of_boolean_or_number(x):
    v = np.sin(x) > 0 if x > 0 else 1
    return (v + v) * 1.0


def negated_boolean_or_number(x):
    v = np.sin(x) > 0 if x > 0 else 1.5
    return -v


@pytest.mark.parametrize("f", [sum_of_boolean_or_number, negated_boolean_or_number])
def test_operators_of_a_boolean_or_a_number_are_refused(f):
    with pytest.raises(SymgradError, match=r"traced values decide|depending on traced values"):
        sg.compile(f, check_first=False).compile(0.5)


@pytest.mark.filterwarnings("error")
def test_the_class_of_a_result_is_found_without_a_warning():
    """The function is called with 1 for it, where this one has no finite value."""

    def f(x):
        return np.arctanh(0.5 if x > 0 else np.sin(x) * 0.3)

    assert [float(sg.compile(f)(x)) for x in (0.7, -0.7)] == pytest.approx([f(0.7), f(-0.7)])
