"""Symbolic sizes against the integers that they stand for."""

import itertools
import math
import operator
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.lib.mixins import NDArrayOperatorsMixin

from symgrad.core.shapes import broadcast_shapes, product, render_shape, reshape_shape, same_shape, slice_indices
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import Dim, difference, evaluate, largest, same, smallest, symbols_of
from symgrad.core.specs import parse_size, parse_spec
from symgrad.errors import ArgumentError, ShapeError, SymbolicSizeError

NAMES = ("n", "m", "k")


class Lifted(NDArrayOperatorsMixin):
    """Stands in for a Variable: computes at once with the numbers."""

    def __init__(self, value):
        self.value = value

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return Lifted(getattr(ufunc, method)(*(x.value if isinstance(x, Lifted) else x for x in inputs), **kwargs))

    def __array_function__(self, func, types, args, kwargs):
        def bare(x):
            return type(x)(map(bare, x)) if isinstance(x, (list, tuple)) else x.value if isinstance(x, Lifted) else x

        return Lifted(func(*map(bare, args), **kwargs))


def lifting(**values):
    """A scope whose sizes are lifted to their own numbers."""
    sizes = Sizes(values)
    sizes.lift = lambda dim: Lifted(np.float64(evaluate(dim, values)))
    return sizes


def symbols(*names, **values):
    """Symbols of one scope, without values unless some are given."""
    sizes = Sizes(values or None)
    return [sizes.symbol(name) for name in names or values]


def message(error):
    """The fact and the advice of an error, without the line between them."""
    return error.value.fact, error.value.instead


@st.composite
def expressions(draw, depth=3):
    """A function from three sizes to a size, made of integer arithmetic."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(
            st.one_of(
                st.sampled_from([lambda v, i=i: v[i] for i in range(3)]),
                st.integers(-4, 6).map(lambda c: lambda v: c),
            )
        )
    left, right = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    c = draw(st.integers(1, 5))
    d = draw(st.integers(2, 5))
    op = draw(st.sampled_from([operator.add, operator.sub, operator.mul, largest, smallest]))
    return draw(
        st.sampled_from(
            [
                lambda v: op(left(v), right(v)),
                lambda v: op(left(v), c),
                lambda v: left(v) // d,
                lambda v: left(v) // v[1],
                lambda v: left(v) // -d,
                lambda v: left(v) % d,
                lambda v: left(v) % v[0],
                lambda v: -left(v),
                lambda v: abs(left(v)),
                lambda v: left(v) ** 2,
                lambda v: left(v) * (left(v) - 1) // 2,
            ]
        )
    )


values_of_three = st.tuples(*[st.integers(1, 9)] * 3)


# --- arithmetic -------------------------------------------------------------------------------------------------------


@given(expressions(), values_of_three)
def test_arithmetic_and_source_give_the_numbers(function, numbers):
    dims = symbols(*NAMES)
    size, expected = function(dims), function(numbers)
    values = dict(zip(NAMES, numbers, strict=True))
    assert evaluate(size, values) == expected
    assert eval(str(size), {"min": min, "max": max}, values) == expected
    assert type(size) is int or symbols_of(size)


@given(expressions(), expressions(), values_of_three)
def test_comparisons_without_values_are_right_or_refused(left, right, numbers):
    dims = symbols(*NAMES)
    for op in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
        try:
            answer = op(left(dims), right(dims))
        except SymbolicSizeError:
            continue
        assert answer is op(left(numbers), right(numbers))


@given(expressions(), expressions(), values_of_three)
def test_same_never_claims_too_much(left, right, numbers):
    dims = symbols(*NAMES)
    if same(left(dims), right(dims)):
        assert left(numbers) == right(numbers)


@given(expressions(2))
def test_source_is_a_spec_of_the_same_size(function):
    dims = symbols(*NAMES)
    size = function(dims)
    if not isinstance(size, int) or size >= 0:
        assert same(parse_size(str(size), dims[0].scope), size)


def test_results_are_ints_where_they_are_numbers():
    (n,) = symbols("n")
    for result, number in [
        (n - n, 0),
        ((n + 2) - n, 2),
        (n // n, 1),
        (n % n, 0),
        (0 * n, 0),
        (n**0, 1),
        (2 * n % 2, 0),
    ]:
        assert result == number
        assert type(result) is int


def test_numpy_integers_on_either_side():
    (n,) = symbols("n")
    for three in (3, np.int64(3), np.uint8(3)):
        assert [str(size) for size in (three + n, n + three, three - n, three * n, three // n, n // three)] == [
            "n + 3",
            "n + 3",
            "3 - n",
            "3 * n",
            "3 // n",
            "n // 3",
        ]
        assert (three * n > 2) is True
        assert (three + n == three) is False
    assert type(np.int64(1) + n - n) is int
    assert (np.int64(0) < n) is True


def test_divmod_and_unary():
    (n,) = symbols("n")
    assert tuple(map(str, divmod(n, 3))) == ("n // 3", "n % 3")
    assert tuple(map(str, divmod(7, n))) == ("7 // n", "7 % n")
    assert tuple(map(str, (-n, +n, abs(n), abs(-n)))) == ("-n", "n", "n", "n")
    assert all(f(n) is n for f in (math.floor, math.ceil, math.trunc, round))
    for divide in (operator.floordiv, operator.mod, divmod):
        with pytest.raises(ZeroDivisionError):
            divide(n, 0)


def test_products():
    n, m = symbols("n", "m")
    assert str(product((n, 3, m))) == "3 * m * n"
    assert product(()) == 1
    assert type(product((2, 3))) is int
    assert same(np.prod((n, 3)), 3 * n)
    assert same(math.prod((n, 3)), 3 * n)


def test_other_types_do_not_mix():
    (n,) = symbols("n")
    assert n != "n"
    assert n is not None and n != None  # noqa: E711
    with pytest.raises(TypeError, match="unsupported operand"):
        n + "a"
    with pytest.raises(TypeError):
        n < "a"  # noqa: B015


# --- lifting ----------------------------------------------------------------------------------------------------------

LIFTING = [
    (lambda n, m: n / 4, 5 / 4),
    (lambda n, m: 4 / n, 4 / 5),
    (lambda n, m: n / m, 5 / 3),
    (lambda n, m: n * 2.5, 12.5),
    (lambda n, m: 2.5 - n, -2.5),
    (lambda n, m: n**-1, 1 / 5),
    (lambda n, m: n**0.5, 5**0.5),
    (lambda n, m: 2**n, 32.0),
    (lambda n, m: n**m, 125.0),
    (lambda n, m: np.sqrt(n), 5**0.5),
    (lambda n, m: np.float32(2) * n, 10.0),
    (lambda n, m: np.int64(2) / n, 0.4),
    (lambda n, m: np.add(n, 1.5), 6.5),
    (lambda n, m: n * np.ones(2), [5.0, 5.0]),
    (lambda n, m: np.ones(2) * n, [5.0, 5.0]),
    (lambda n, m: np.ones(2) < n, [True, True]),
    (lambda n, m: np.clip(np.arange(8.0), m, n), [3, 3, 3, 3, 4, 5, 5, 5]),
    (lambda n, m: np.where(np.array([True, False]), n, m), [5, 3]),
    (lambda n, m: np.linspace(0, n, num=2), [0, 5]),
    (lambda n, m: n * Lifted(np.arange(2)), [0, 5]),
    (lambda n, m: Lifted(np.arange(2)) / n, [0, 0.2]),
]


@pytest.mark.parametrize(("function", "expected"), LIFTING)
def test_other_arithmetic_is_lifted(function, expected):
    scope = lifting(n=5, m=3)
    result = function(scope.symbol("n"), scope.symbol("m"))
    if isinstance(result.value, Lifted):  # Lifted has no idea of Dims, a Variable has
        result = result.value
    np.testing.assert_allclose(result.value, expected)
    assert scope.pinned == {}


def test_integer_arithmetic_is_not_lifted():
    scope = lifting(n=5)
    n = scope.symbol("n")
    assert all(isinstance(size, Dim) for size in (n + 1, n // 2, np.int64(3) * n, np.add(n, n), n**2))


def test_lifting_without_a_trace():
    (n,) = symbols("n")
    with pytest.raises(SymbolicSizeError) as error:
        (n + 1) / 2
    assert message(error) == (
        "the size n + 1 is a symbol here, and outside a trace only integer arithmetic works on it",
        "Use + - * // % with integers, or compute with it inside the traced function.",
    )


# --- comparisons and pinning ------------------------------------------------------------------------------------------


def test_decided_for_every_value():
    n, m = symbols("n", "m")
    true = [n == n, n + 1 != n, n > 0, n >= 1, n + 1 > 1, n * m >= m, n - n // 2 >= 0, n // 2 + (n + 1) // 2 == n]
    true += [n % 4 < 4, n % 4 <= n, n // 3 <= n // 2 + n, smallest(3, n) <= n, largest(3, n) >= n, 2 * n != 3]
    true += [n * (m + 1) == n * m + n, n // m <= n, bool(n), bool(n + m), n * n + n > 1, n - 2 * (n // 2) == n % 2]
    assert all(answer is True for answer in true)
    false = [n == n + 1, n < 1, n <= 0, n == 0, n != n, n == -m, 3 * n == 6 * m + 1]
    assert all(answer is False for answer in false)


def test_comparisons_that_depend_are_assumed_or_pin():
    n, m, k = symbols(n=5, m=3, k=2)
    scope = n.scope
    assert (n > 0) is True
    assert not scope.pinned and not scope.assumed
    assert (n > 3) is True and (n <= 2) is False and (n != 2) is True and (n == 1) is False
    assert (n + k - k == m) is False
    assert not scope.pinned and [str(bound) for bound in scope.assumed] == ["n >= 4", "n >= m + 1"]
    assert (m < 4) is True
    assert scope.pinned == {"m": 3}
    assert (n == 5) is True
    assert scope.pinned == {"m": 3, "n": 5}
    assert isinstance(n, Dim) and str(n) == "n"
    assert same(n, 5)


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("number", [2, 3, 4, 7])
def test_a_comparison_holds_wherever_the_program_runs(sign, number):
    sizes = Sizes({"n": number})
    compare = lambda n: eval(f"n {sign} 3")
    answer = compare(sizes.symbol("n"))
    assert answer is compare(number)
    for n in range(1, 12):
        runs = sizes.pinned in ({}, {"n": n}) and all(bound.holds({"n": n}) for bound in sizes.assumed)
        assert compare(n) is answer or not runs
    assert bool(sizes.pinned) is (number < 3 or (number == 3 and sign in ("==", "!=", ">", "<=")))


def test_pinned_symbols_settle_later_comparisons():
    n, m = symbols(n=1, m=7)
    assert int(n) == 1
    assert m >= n
    assert n.scope.pinned == {"n": 1}


def test_sizes_made_of_pinned_symbols_are_numbers():
    sizes = Sizes({"n": 6, "m": 2})
    n, m = sizes.symbol("n"), sizes.symbol("m")
    half = n // 2
    assert not isinstance(half, int)
    assert int(n) == 6
    found = n // 2, half + 1, 2 - n, n % 4, largest(half, 4), smallest(n, 5), slice_indices(n, None, half, 2)[3]
    assert [(type(size), size) for size in found] == [(int, size) for size in (3, 4, -4, 2, 4, 5, 2)]
    assert not isinstance(n + m, int)


def test_what_is_decided_of_a_size_is_asked_again_once_more_is_known():
    sizes = Sizes({"n": 6})
    n = sizes.symbol("n")
    assert sizes.decide(operator.ge, (n - 2).expr) is None
    assert sizes.assume(n - 3)
    assert sizes.decide(operator.ge, (n - 2).expr) is True
    double = (2 * n - 12).expr
    assert sizes.decide(operator.eq, double) is None
    sizes.pin(n)
    assert sizes.decide(operator.eq, double) is True


def test_comparison_with_floats_pins():
    (n,) = symbols(n=5)
    assert n > 4.5
    assert n != 4.5
    assert n.scope.pinned == {"n": 5}


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (int, 5),
        (float, 5.0),
        (lambda n: round(n, -1), 0),
        (operator.index, 5),
        (lambda n: list(range(n)), [0, 1, 2, 3, 4]),
        (lambda n: [0] * n, [0] * 5),
        (lambda n: np.zeros(n).tolist(), [0.0] * 5),
        (lambda n: np.zeros((n, 1)).shape, (5, 1)),
        (lambda n: bool(n - 5), False),
        (lambda n: max(n, 7), 7),
        (math.sqrt, math.sqrt(5)),
        (lambda n: "abcdefg"[n], "f"),
    ],
)
def test_python_asks_for_the_number(ask, answer):
    (n,) = symbols(n=5)
    assert evaluate(ask(n), {"n": 5}) == answer
    assert n.scope.pinned == {"n": 5}


INSTEAD = 'Call with arrays, or give a number in the spec, such as "float64[100]"'
EXTREMES = "; for min(n, 3) and max(n, 3) write np.minimum(n, 3) and np.maximum(n, 3)"


@pytest.mark.parametrize(
    ("ask", "fact", "more"),
    [
        (range, "the size n is a symbol here, and Python asked for its number", ""),
        (lambda n: int(n // 2 + 1), "the size n // 2 + 1 is a symbol here, and Python asked for its number", ""),
        (lambda n: f"{n:3d}", "the size n is a symbol here, and Python asked for its number", ""),
        (lambda n: n > 3, "the size n is a symbol here, and Python asked whether n > 3", EXTREMES),
        (lambda n: max(n, 4), "the size n is a symbol here, and Python asked whether n < 4", EXTREMES),
        (lambda n: 1 < n < 4, "the size n is a symbol here, and Python asked whether n > 1", EXTREMES),
        (lambda n: n + 1 <= 3, "the size n + 1 is a symbol here, and Python asked whether n + 1 <= 3", ""),
        (lambda n: n == 2.0, "the size n is a symbol here, and Python asked whether n == 2.0", ""),
        (lambda n: bool(n - 1), "the size n - 1 is a symbol here, and Python asked whether n - 1 != 0", ""),
        (
            lambda n: math.sqrt(n + 1),
            "the size n + 1 is a symbol here, and Python asked for a float",
            "; for math.sqrt(n) write np.sqrt(n)",
        ),
    ],
)
def test_there_is_no_number(ask, fact, more):
    (n,) = symbols("n")
    with pytest.raises(SymbolicSizeError) as error:
        ask(n)
    assert message(error) == (fact, f"{INSTEAD}{more}.")


def test_values():
    n, m = symbols("n", "m", n=5)
    assert n.scope.value(2 * n) == 10
    assert n.scope.value(4) == 4
    assert n.scope.value(n + m) is None
    with pytest.raises(SymbolicSizeError, match="size m is a symbol"):
        int(m)
    assert n.scope.pinned == {}
    assert symbols("n")[0].scope.value(7) == 7


def test_equal_sizes_have_equal_hashes():
    sizes = Sizes({"n": 3})
    n = sizes.symbol("n")
    assert sizes.symbol("n") is n
    assert {n + 1: "a"}[1 + n] == "a" and {4: "b"}[n + 1] == "b"  # a dict asks for the number
    (m,) = symbols("m")
    with pytest.raises(SymbolicSizeError, match="for its number"):
        {3: "c"}.get(m)


@pytest.mark.parametrize("name", ["", "2n", "lambda", "min", "max", "_", "n m"])
def test_names_must_be_usable_in_source(name):
    with pytest.raises(ArgumentError) as error:
        Sizes().symbol(name)
    assert message(error) == (f"{name!r} cannot be the name of a size", "Use a Python name such as n or batch.")


# --- source -----------------------------------------------------------------------------------------------------------


def test_render():
    n, m = symbols("n", "m")
    for size, text in [
        (n, "n"),
        (7, "7"),
        (n + 1, "n + 1"),
        (1 - n, "1 - n"),
        (n // 2, "n // 2"),
        (2 * n, "2 * n"),
        (n * (n - 1) // 2, "n * (n - 1) // 2"),
        (smallest(n, 3), "min(3, n)"),
        (largest(n - 2, 0), "max(0, n - 2)"),
        (n % 2, "n % 2"),
        (3 * (n // 2), "3 * (n // 2)"),
        (m * (n // 2), "m * (n // 2)"),
        (-(n // 2), "-(n // 2)"),
        (-n // 2, "-n // 2"),
        (-(-n // 2), "-(-n // 2)"),
        ((n + m) // 2 // 3, "((m + n) // 2) // 3"),
        (n // (m + 1), "n // (m + 1)"),
        (n // (2 * m), "n // (2 * m)"),
        (n % 3 % 2, "(n % 3) % 2"),
        (n**2 - 1, "n ** 2 - 1"),
        ((n + 1) ** 2, "(n + 1) ** 2"),
        (n - m // 2 - 1, "n - m // 2 - 1"),
    ]:
        assert str(size) == text
    assert render_shape((n, 3)) == "n, 3"
    assert render_shape(()) == ""
    assert f"{n + 1}" == "n + 1"


# --- shapes -----------------------------------------------------------------------------------------------------------

small_shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


def outcome(function, *args):
    """Return the result of a NumPy function, or None where it raises."""
    try:
        return function(*args)
    except ValueError:
        return None


@given(st.lists(small_shapes, max_size=4))
def test_broadcasting_ints_as_numpy(shapes):
    assert outcome(broadcast_shapes, *shapes) == outcome(np.broadcast_shapes, *shapes)


@given(
    st.lists(st.lists(st.sampled_from((0, 1, 2, "n", "m")), max_size=3), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_broadcasting_symbols_with_values_as_numpy(shapes, n, m):
    values = {"n": n, "m": m}
    scope = Sizes(values)
    symbolic = [tuple(scope.symbol(s) if isinstance(s, str) else s for s in shape) for shape in shapes]
    numeric = [tuple(values.get(s, s) for s in shape) for shape in shapes]
    result = outcome(broadcast_shapes, *symbolic)
    expected = outcome(np.broadcast_shapes, *numeric)
    assert (result and tuple(evaluate(size, values) for size in result)) == expected


def test_broadcasting_symbols():
    n, m = symbols("n", "m")
    for shapes, result in [
        ([(n, 3), (3,)], "n, 3"),
        ([(n, 1), (m,)], "n, m"),
        ([(1,), (n,)], "n"),
        ([(), (n, m), (n, m), (m,)], "n, m"),
        ([(n + 1,), (1 + n,)], "n + 1"),
    ]:
        assert render_shape(broadcast_shapes(*shapes)) == result
    assert broadcast_shapes() == broadcast_shapes(()) == ()


def test_broadcasting_pins_what_only_happens_to_fit():
    n, m, k, one = symbols(n=3, m=3, k=4, one=1)
    assert broadcast_shapes((n, k), (m, k))[0] is n
    assert n.scope.pinned == {"n": 3, "m": 3}
    assert broadcast_shapes((k,), (4,)) == (4,)
    assert type(broadcast_shapes((k,), (4,))[0]) is int
    assert broadcast_shapes((one,), (5,)) == (5,)
    assert n.scope.pinned == {"n": 3, "m": 3, "k": 4, "one": 1}


def test_broadcasting_errors():
    n, m = symbols("n", "m")
    known, other = symbols(n=3, m=4)
    same_letter = "Write the same letter for both sizes in the specs."
    axes = "Sizes agree from the last on, or are 1: x[:, None] and x[None, :] add one of 1."
    for shapes, fact, instead in [
        (((n, 3), (m, 3)), "shapes (n, 3) and (m, 3) do not broadcast: n against m", same_letter),
        (
            ((n,), (4,)),
            "shapes (n,) and (4,) do not broadcast: n against 4",
            "Write the number 4 instead of n in the spec.",
        ),
        (((2,), (1, 1), (3,)), "shapes (2,), (1, 1) and (3,) do not broadcast: 2 against 3", axes),
        (((known,), (other,)), "shapes (n,) and (m,) do not broadcast: n = 3 against m = 4", axes),
    ]:
        with pytest.raises(ShapeError) as error:
            broadcast_shapes(*shapes)
        assert message(error) == (fact, instead)


def test_same_never_pins():
    n, m = symbols(n=3, m=3)
    assert not same(n, m)
    assert not same(n, 3)
    assert same(n + 0, n)
    assert same(n + m - m, n)
    assert same_shape((n, 3), (n, 3))
    assert not same_shape((n, 3), (n,))
    assert not same_shape((n, 3), (m, 3))
    assert n.scope.pinned == {}


@given(st.lists(st.integers(0, 4), max_size=3).map(tuple), st.lists(st.integers(-1, 6), max_size=3).map(tuple))
def test_reshaping_ints_as_numpy(old, new):
    assert outcome(reshape_shape, old, new) == outcome(lambda: np.empty(old).reshape(new).shape)


@given(
    st.lists(st.sampled_from((2, "n", "m")), max_size=3),
    st.lists(st.sampled_from((-1, 2, 4, "n", "m")), max_size=3),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_reshaping_symbols_with_values_as_numpy(old, new, n, m):
    values = {"n": n, "m": m}
    scope = Sizes(values)

    def symbolic(shape):
        return tuple(scope.symbol(s) if isinstance(s, str) else s for s in shape)

    def numeric(shape):
        return tuple(values.get(s, s) for s in shape)

    result = outcome(reshape_shape, symbolic(old), symbolic(new))
    expected = outcome(lambda: np.empty(numeric(old)).reshape(numeric(new)).shape)
    assert (None if result is None else tuple(evaluate(size, values) for size in result)) == expected


def test_reshaping_symbols():
    n, m = symbols("n", "m")
    for old, new, result in [
        ((n, 4), (-1,), "4 * n"),
        ((n * m,), (n, -1), "n, m"),
        ((n, m, 6), (2, -1, m), "2, 3 * n, m"),
        ((4 * n,), (-1, 4), "n, 4"),
        ((n, 6), (3, n, 2), "3, n, 2"),
        ((n, 0), (0, 7), "0, 7"),
        ((n * n - 1,), (n + 1, -1), "n + 1, n - 1"),
    ]:
        assert render_shape(reshape_shape(old, new)) == result
    assert reshape_shape((np.int64(6),), (np.int64(2), -1)) == (2, 3)


def test_reshaping_errors():
    n, m = symbols("n", "m")
    (five,) = symbols(five=5)
    specs = "Give numbers, or sizes that fit, in the specs."
    fitting = "Write sizes whose product is the number of elements, or -1 for one of them."
    negative = "Write -1 for the one size that follows from the others."
    for old, new, fact, instead in [
        ((6,), (4,), "cannot reshape (6,) to (4,): 6 elements against 4", fitting),
        ((6,), (4, -1), "cannot reshape (6,) to (4, -1): 6 elements do not divide by 4", fitting),
        ((n,), (-1, 4), "cannot reshape (n,) to (-1, 4): n elements do not divide by 4", specs),
        ((n, 2), (m, 2), "cannot reshape (n, 2) to (m, 2): 2 * n elements against 2 * m", specs),
        ((five,), (-1, 4), "cannot reshape (five,) to (-1, 4): five = 5 elements do not divide by 4", fitting),
        ((n,), (-1, -1), "reshape to (-1, -1): only one size can be -1", "Write the other sizes as numbers."),
        ((n,), (-2,), "reshape to (-2,): sizes cannot be negative", negative),
    ]:
        with pytest.raises(ShapeError) as error:
            reshape_shape(old, new)
        assert message(error) == (fact, instead)


def test_reshaping_pins_what_only_happens_to_divide():
    (n,) = symbols(n=8)
    assert reshape_shape((n,), (-1, 4)) == (2, 4)
    assert n.scope.pinned == {"n": 8}


# --- slices -----------------------------------------------------------------------------------------------------------

bounds = st.none() | st.integers(-5, 5)
steps = st.none() | st.integers(-3, 3).filter(bool)


@given(st.integers(0, 6), bounds, bounds, steps)
def test_slices_of_ints_as_python(size, start, stop, step):
    indices = slice(start, stop, step).indices(size)
    assert slice_indices(size, start, stop, step) == (*indices, len(range(*indices)))


@given(bounds, bounds, steps)
def test_slices_of_symbols_as_python(start, stop, step):
    (n,) = symbols("n")
    first, last, stride, length = slice_indices(n, start, stop, step)
    assert (first, last, stride) == (start, stop, 1 if step is None else step)
    for size in range(1, 8):
        assert evaluate(length, {"n": size}) == len(range(size)[start:stop:step])


@pytest.mark.parametrize("step", [1, 2, -1, -2])
def test_slices_with_symbolic_bounds_as_python(step):
    n, m = symbols("n", "m")
    for start, stop in itertools.product((None, m, -m, n // 2, 1), repeat=2):
        length = slice_indices(n, start, stop, step)[3]
        for values in ({"n": a, "m": b} for a in range(1, 5) for b in range(1, 6)):
            first, last = (None if x is None else evaluate(x, values) for x in (start, stop))
            assert evaluate(length, values) == len(range(values["n"])[first:last:step])


def test_lengths_of_slices_are_simple():
    n, m = symbols("n", "m")
    for written, length in [
        ((None, None, None), "n"),
        ((1, None, None), "n - 1"),
        ((None, -1, None), "n - 1"),
        ((1, -1, None), "max(0, n - 2)"),
        ((None, None, 2), "(n + 1) // 2"),
        ((1, None, 2), "n // 2"),
        ((None, None, -1), "n"),
        ((None, 3, None), "min(3, n)"),
        ((2, None, None), "max(0, n - 2)"),
        ((-3, None, None), "min(3, n)"),
        ((1, 3, None), "min(2, n - 1)"),
        ((5, 2, None), "0"),
        ((None, n // 2, None), "n // 2"),
        ((n // 2, None, None), "n - n // 2"),
        ((None, m, None), "min(m, n)"),
        ((0, n, None), "n"),
        ((1, n, None), "n - 1"),
        ((None, n - 1, None), "n - 1"),
    ]:
        assert str(slice_indices(n, *written)[3]) == length
    assert slice_indices(10, None, n, None) == (None, n, 1, smallest(10, n))


def test_slices_refuse_a_step_of_zero():
    (n,) = symbols("n")
    for size in (n, 3):
        with pytest.raises(ValueError, match="slice step cannot be zero"):
            slice_indices(size, None, None, 0)


# --- specs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("float64[n, 3]", "n, 3", np.float64),
        ("float32[]", "", np.float32),
        ("float64", "", np.float64),
        (" int32 [ n+1 ,2*n,n//2, ] ", "n + 1, 2 * n, n // 2", np.int32),
        ("bool[_, 2, _]", "_0, 2, _1", np.bool_),
        (
            "complex128[min(3, n), max(0, n - 2), n ** 2, n % 2]",
            "min(3, n), max(0, n - 2), n ** 2, n % 2",
            np.complex128,
        ),
        ("float64[0]", "0", np.float64),
        ("f8[n,]", "n", np.float64),
        ("half[n]", "n", np.float16),
    ],
)
def test_specs(text, shape, dtype):
    parsed, parsed_dtype = parse_spec(text, Sizes())
    assert render_shape(parsed) == shape
    assert parsed_dtype == dtype


def test_a_letter_is_one_size_in_a_scope():
    scope = Sizes()
    (x,), (y,) = parse_spec("float64[n]", scope)[0], parse_spec("float32[n]", scope)[0]
    assert x is y
    assert parse_size("_", scope) is not parse_size("_", scope)
    assert parse_size(" 3 ", scope) == 3


@pytest.mark.parametrize(
    ("text", "reason", "near"),
    [
        ("", "it does not begin with a dtype", None),
        ("[3]", "it does not begin with a dtype", None),
        ("foo[3]", "there is no dtype 'foo'", None),
        ("d[3]", "there is no dtype 'd'", None),
        ("str[3]", "an array of str cannot be traced", None),
        ("float64[n],[m]", "[n],[m] is not a list of sizes", None),
        ("float64[2n]", "[2n] is not a list of sizes", None),
        ("float64[n", "sizes stand between [ and ]", "float64[n]"),
        ("float64[n]x", "sizes stand between [ and ]", "float64[n]"),
        ("float64(n, 3)", "sizes stand between [ and ]", "float64[n, 3]"),
        ("float64 n", "sizes stand between [ and ]", "float64[n]"),
        ("float64, n", "sizes stand between [ and ]", "float64[n]"),
        ("float65[n]", "there is no dtype 'float65'", "float64[n]"),
        ("flaot64[n]", "there is no dtype 'flaot64'", "float64[n]"),
        ("np.float32[n]", "there is no dtype 'np.float32'", "float32[n]"),
        ("Int32 [n]", "there is no dtype 'Int32'", "int32[n]"),
    ],
)
def test_texts_that_are_no_specs(text, reason, near):
    with pytest.raises(ArgumentError) as error:
        parse_spec(text, Sizes())
    usual = 'Write a dtype and sizes, such as "float64[n, 3]", or "float32[]" for a scalar.'
    assert message(error) == (f"{text!r} is not a spec: {reason}", f'Write "{near}".' if near else usual)


@pytest.mark.parametrize(
    "text", ["n.x", "n[0]", "1.5", "True", "f(n)", "n / 2", "'n'", "_ + 1", "n ** n", "n // 0", "n < 3", "min(n)", "*n"]
)
def test_texts_that_are_no_sizes(text):
    for parse in (lambda: parse_size(text, Sizes()), lambda: parse_spec(f"float64[{text}]", Sizes())):
        with pytest.raises(ArgumentError) as error:
            parse()
        assert message(error) == (
            f"{text!r} is not a size",
            "A size is a number, a name, integer arithmetic of these such as n // 2 + 1, or _.",
        )


def test_negative_sizes():
    with pytest.raises(ArgumentError) as error:
        parse_spec("float64[-1]", Sizes())
    assert message(error) == ("the size '-1' is negative", "A size is 0 or more.")


# --- cost and determinism ---------------------------------------------------------------------------------------------


def fresh_process(code, **env):
    """Return the output of a new Python process."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env).stdout


def test_ints_do_not_import_sympy():
    code = """
import sys
from symgrad.core.size_scope import Sizes
from symgrad.core.shapes import broadcast_shapes, reshape_shape, slice_indices
from symgrad.core.specs import parse_spec
broadcast_shapes((3, 1), (4,)), reshape_shape((6, 4), (3, -1)), slice_indices(3, None, None, 2)
parse_spec("float64[3, 2]", Sizes())
print("sympy" in sys.modules)
"""
    assert fresh_process(code, PYTHONPATH=":".join(sys.path)) == "False\n"


@pytest.mark.slow
def test_source_is_the_same_in_every_process():
    code = """
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import largest
n, m, batch = map(Sizes().symbol, ("n", "m", "batch"))
print(n * m * batch + m // 2 + n % 3, largest(largest(n, m), batch - 1), (n + m + batch) // 2 * n)
"""
    path = ":".join(sys.path)
    assert len({fresh_process(code, PYTHONPATH=path, PYTHONHASHSEED=seed) for seed in "12"}) == 1


def test_of_many_extremes_nothing_is_distributed():
    """Each may double the work: a program of slices of slices would be compiled without an end."""
    import sympy

    from symgrad.core.size_bounds import distributed

    symbols = sympy.symbols("a:60", integer=True, positive=True)
    many = sum((-1) ** i * sympy.Max(a, b) for i, (a, b) in enumerate(zip(symbols[::2], symbols[1::2], strict=True)))
    assert distributed(many) == many
    n, m = symbols[:2]
    assert distributed(n + m - sympy.Max(n, m)) == sympy.Min(n, m)


def test_multiples_are_what_sympy_makes_of_them():
    """Products, texts, values and comparisons do not tell whether SymPy was asked."""
    sizes = Sizes()
    n, m = sizes.symbol("n"), sizes.symbol("m")
    by_sympy = Dim(n.expr * 6, sizes)
    for size in (2 * n * 3, 4 * n + 2 * n, by_sympy):
        assert (str(size), size.multiple, symbols_of(size), evaluate(size, {"n": 5})) == ("6 * n", (6, "n"), ("n",), 30)
        assert same(size, by_sympy)
        assert size == 6 * n
    assert not same(n, m)
    assert not same(2 * n, n)
    assert not same(n, 1)
    assert (0 * n, -1 * n, str(n * m)) == (0, -n, str(m * n))
    assert [str(x) for x in (3 * n - n, n - n, n - 3 * n, n + m - m)] == ["2 * n", "0", "-2 * n", "n"]
    assert difference(5 * n, 2 * n) == 3 * n


def test_what_is_known_of_symbols_tells_that_they_are_the_same():
    sizes = Sizes({"n": 3, "m": 3})
    n, m = sizes.symbol("n"), sizes.symbol("m")
    assert not same(n, m)
    assert [int(n), int(m)] == [3, 3]
    assert same(n, m)


def test_a_loop_needs_no_sympy():
    """Its number of turns is a symbol where only running tells it."""
    code = """
import sys
import symgrad as sg

def f(x):
    return sg.while_loop(lambda x: x < 20, lambda x: x + 0.1 * x * x, x) ** 2

sg.grad(f)(0.5)
print("sympy" in sys.modules)
"""
    assert fresh_process(code, PYTHONPATH=":".join(sys.path)) == "False\n"


def test_symbols_for_sizes_need_no_sympy():
    """Another size of the rows, of which only sums and means are taken."""
    code = """
import sys
import numpy as np
import symgrad as sg

f = sg.value_and_grad(lambda w, X, y: np.mean(np.log1p(np.exp(-y * (X @ w)))) + np.sum(w * w))
for n in (20, 30):
    f(np.ones(5), np.ones((n, 5)), np.ones(n))
print("sympy" in sys.modules)
"""
    assert fresh_process(code, PYTHONPATH=":".join(sys.path)) == "False\n"


def test_assumptions_decide_what_was_undecided_and_nothing_else():
    sizes = Sizes()
    n = sizes.symbol("n").expr
    assert [sizes.decide(operator.ge, n - k) for k in (1, 5, 9)] == [True, None, None]
    assert sizes.assume(sizes.symbol("n") - 5)
    assert [sizes.decide(operator.ge, n - k) for k in (1, 5, 9)] == [True, True, None]
