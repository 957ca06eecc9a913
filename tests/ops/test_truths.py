"""Truths in arithmetic: Python calculates with its own as with integers, NumPy with its own as with sets."""

import functools
import math
import operator

import numpy as np
import pytest

import symgrad as sg
from tests.forms import count

LEVELS = pytest.mark.parametrize("level", [0, 1, 2])
OPERATORS = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor, operator.lt, operator.eq, operator.ge,
)  # fmt: skip
OPERANDS = {
    "a truth of Python's": lambda x, a: x > 1,
    "one that is false": lambda x, a: x < 1,
    "both of two": lambda x, a: x > 1 and x < 3,
    "no truth": lambda x, a: not x < 1,
    "a truth of a number of NumPy's": lambda x, a: a[0] > 1,
    "what Python says of that": lambda x, a: not a[0] < 1,
    "what NumPy says of a number of Python's": lambda x, a: np.greater(x, 1),
    "truths": lambda x, a: a > 1,
    "True": lambda x, a: True,
    "an int": lambda x, a: 3,
    "a traced int": lambda x, a: math.floor(x + 1),
    "a float": lambda x, a: x,
    "a float32": lambda x, a: a[0].astype(np.float32),
    "an array of int8": lambda x, a: a.astype(np.int8),
}
X, A = 2.0, np.array([2.0, 0.5])


def outcome(f, *args):
    try:
        return f(*args)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        return error


def pairs(works, apply):
    """The pairs of operands for which Python computes, or for which NumPy refuses."""
    found = []
    for l in OPERANDS.values():
        for r in OPERANDS.values():
            result = outcome(lambda l=l, r=r: apply(l(X, A), r(X, A)))
            if works is not isinstance(result, Exception):
                found.append((l, r))
    return found


def assert_same(results, expected):
    for result, as_python in zip(results, expected, strict=True):
        assert type(result) is type(as_python)
        assert np.asarray(result).dtype == np.asarray(as_python).dtype
        np.testing.assert_array_equal(result, as_python)


@LEVELS
@pytest.mark.parametrize("apply", OPERATORS)
@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
def test_operators_of_two_operands(level, apply):
    working = pairs(True, apply)

    def f(x, a):
        return [apply(l(x, a), r(x, a)) for l, r in working]

    with sg.options(check_first=False):
        assert_same(sg.compile(f, optimize=level)(X, A), f(X, A))


def test_what_numpy_refuses_of_truths_is_refused():
    for l, r in pairs(False, operator.sub):
        with pytest.raises(sg.errors.DTypeError, match="does not take bool"):
            sg.compile(lambda x, a, l=l, r=r: l(x, a) - r(x, a))(X, A)
    assert len(pairs(False, operator.sub)) > 20


@LEVELS
@pytest.mark.filterwarnings("ignore:.*[Bb]itwise inversion:DeprecationWarning")
def test_operators_of_one_operand_and_functions_of_numbers(level):
    def f(x, a):
        b, c, d = x > 1, x < 1, a[0] > 1
        ones = -b, +b, ~b, ~c, abs(b), ~d, abs(d), ~np.equal(x, 2), round(b), int(b), int(d), float(b)
        both = divmod(b, True), pow(b, 2), pow(d, 2), max(b, c) + b, min(b, c) + b, max(d, d) + d
        sums = sum([b, b]), sum([d, d]), sum([b, c], b), functools.reduce(operator.add, [b, b, b]), math.prod([b, b])
        return ones, both, sums

    with sg.options(check_first=False):
        for results, expected in zip(sg.compile(f, optimize=level)(X, A), f(X, A), strict=True):
            assert_same(results, expected)


@LEVELS
def test_what_python_says_of_numbers_is_its_own(level):
    def f(x, a):
        truths = (
            math.isnan(x), math.isfinite(a[0]), math.isclose(x, a[0]), x in (1.0, 2.0), a[1] not in (a[0], x),
            any([a[0] > 1, x > 1]), all([a[0] > 1, a[1] < 1]), any(a > 1), (a > 1).item(0), np.array_equal(a, a),
            0 < x < 3, 0 < a[0] < 3, x > 1 or x < 3, np.isclose(x, 2), np.allclose(a, x), np.isnan(x), np.any(a > 1),
        )  # fmt: skip
        return [b + b for b in truths], [type(b) is bool for b in truths], [isinstance(b, bool) for b in truths]

    with sg.options(check_first=False):
        sums, types, classes = sg.compile(f, optimize=level)(X, A)
    assert_same(sums, f(X, A)[0])
    assert (types, classes) == f(X, A)[1:]


@LEVELS
def test_truths_in_loops_and_branches(level):
    def f(x, a):
        count, known, seen = 0, x > 5, 0 * x
        for i in range(len(a)):
            count += a[i] > 1
            seen = seen + ((x > 1) + (x > 1.5)) * a[i]
            if a[i] > 1:
                known = x > 1
            else:
                known = x > 0
            seen = seen + (known + (x > 0)) * x
        return count, seen

    with sg.options(check_first=False):
        assert_same(sg.compile(f, optimize=level)(X, A), f(X, A))
    assert sg.grad(lambda x: f(x, A)[1], optimize=level)(X) == 4.0
    sg.check_grads(lambda x: ((x > 1) + (x > 1.5)) * x * x, (X,))


def test_a_truth_of_which_nobody_knows_whose_it_is():
    def f(x, a):
        found = x > 3
        for y in a:
            found = y > 1 or found
        return found + (x > 1)

    with pytest.raises(sg.errors.DTypeError, match=r"(?s)\+ of a boolean that may be Python's.*return found"):
        sg.compile(f)(X, A)
    for say in (int, np.bool_):

        def g(x, a, say=say):
            found = False
            for y in a:
                found = y > 1 or found
            return say(found) + say(x > 1)

        assert_same([sg.compile(g)(X, A)], [g(X, A)])


def test_rules_of_derivatives_are_written_for_truths_of_numpy():
    """The mask of a rule is one of NumPy's even for a Python float."""
    for f in (np.nan_to_num, np.abs, lambda x: np.clip(x, 0, 1), lambda x: np.where(x > 1, x, x * x), np.sinc):
        sg.check_grads(f, (0.7,))
        assert sg.grad(f)(0.7) == sg.grad(f)(np.float64(0.7))


def test_sources_say_int_where_a_truth_is_calculated_with():
    program = sg.compile(lambda x: ((x > 1) + (x > 1.5)) * x).compile(X)
    assert count(program.source, "(int(x > 1) + int(x > 1.5)) * x") == 1
    program = sg.compile(lambda x: (x > 1 and x < 3, not x > 4), optimize=1).compile(X)
    assert count(program.source, "bool(x > 1 and x < 3)") == count(program.source, "bool(not x > 4)") == 1
