"""Small problems: programs of scalars on Python floats, sums of what was read piece by piece, cheap calls."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import symgrad as sg
from symgrad.graph import Op
from symgrad.ops.define import TABLE

SETTINGS = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
SPECIAL = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -2.5, 3.0, 1e-310, 1e308, -1e308, 800.0, -800.0)
LIMITS = (math.inf, -math.inf, math.nan)

# ---- every operator that has a form on Python floats

FORMS = {op.name: (function, op) for function, op in TABLE.items() if isinstance(op, Op) and op.scalar is not None}
LOGIC = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "where")
NOT_ON_FLOATS = ("left_shift", "right_shift", "astype", "alias", "stop_gradient", "positive")
NUMERIC = [name for name in FORMS if name not in (*LOGIC, *NOT_ON_FLOATS)]


def quietly(f, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*args)


def assert_same(a, b, rtol=1e-13):
    """Equal to rounding, zeros with their signs, and of one type."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        a, b = list(a.values()), list(b.values())
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y, rtol)
        return
    assert np.asarray(a).dtype == np.asarray(b).dtype
    np.testing.assert_allclose(a, b, rtol=rtol, atol=0)
    if a == 0:
        assert math.copysign(1, a) == math.copysign(1, b)


@pytest.mark.parametrize("name", NUMERIC)
def test_forms_on_python_floats_equal_numpy(name):
    function, _ = FORMS[name]
    arity = 3 if name == "clip" else function.nin
    program = sg.compile(lambda *xs: function(*xs))
    numbers = np.random.default_rng(0).choice([*SPECIAL, *LIMITS], (200, arity))
    compiled = program.compile(*["float64[]"] * arity)
    assert "math" in compiled.source
    assert "_by_numpy" in compiled.source
    for xs in numbers:
        assert_same(quietly(compiled, *xs), quietly(function, *xs))
        arrays = [np.array(x) for x in xs]
        assert_same(quietly(compiled, *arrays), quietly(function, *xs))


def test_truths_are_truths():
    def f(x, y):
        a, b = x > 0, y < 1
        return a & b, a | b, a ^ b, ~a, np.logical_and(a, x), np.logical_not(y), np.where(a & ~b, x, y), a * 1.0

    program = sg.compile(f)
    for x in (1.0, -1.0, 0.0, math.nan):
        for y in (np.float64(0.0), np.float64(2.0)):
            with sg.options(optimize=1):
                expected = program(x, y)
            assert_same(program(x, y), expected)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x > 0) + (x > 1),  # of truths Python makes integers
        lambda x: np.where(x > 0, 1, 2),
        lambda x: np.nextafter(x, 1.0),  # no form on Python floats
        lambda x: x.astype(np.float32) * 2,
        lambda x: np.stack([x, x]),
    ],
)
def test_what_has_no_such_form_stays_with_numpy(f):
    source = sg.compile(f).source("float64[]")
    assert "math" not in source
    np.testing.assert_array_equal(sg.compile(f)(np.float64(0.7)), f(np.float64(0.7)))


def test_a_result_that_is_an_argument_stays_what_it_was():
    program = sg.compile(lambda x: (x, np.sin(x)))
    for x in (np.array(2.0), np.float64(2.0)):
        assert type(program(x)[0]) is type(x)


def test_float32_stays_with_numpy():
    assert sg.compile(np.exp)(np.float32(1)).dtype == np.float32


def test_names_of_the_user_do_not_meet_those_of_the_module():
    def maximum(x, maximum, maximum_by_numpy):
        np_ = np.maximum(x, maximum) * maximum_by_numpy
        return np.log(np_)

    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert sg.compile(maximum)(1.0, 2.0, 0.0) == -np.inf
    assert sg.compile(maximum)(1.0, 2.0, 3.0) == np.log(6.0)


def test_an_argument_called_math():
    assert sg.compile(lambda math, abs: np.abs(math) + np.exp(abs))(-2.0, 0.0) == 3


def test_arguments_reach_the_fallback_as_what_they_were():
    f = sg.compile(lambda p, *, q: np.log(p["x"]) * q["y"] ** 2)
    with pytest.warns(RuntimeWarning):
        assert f({"x": np.float64(0.0)}, q={"y": np.float64(1e200)}) == -np.inf  # a Python float would overflow
    assert f({"x": np.array(1.0)}, q={"y": np.float64(2.0)}) == 0


def test_scalar_modules_stand_on_their_own(tmp_path):
    path = sg.grad(lambda x: np.abs(x) * np.log(x)).compile(1.0).save(tmp_path / "slope.py")
    module = {}
    exec(path.read_text(), module)
    assert module["function_grad"](1.0) == 1.0
    with pytest.warns(RuntimeWarning):
        assert np.isnan(module["function_grad"](0.0))


# ---- random programs of scalars

# No sines or remainders of huge numbers, which know nothing but their last digits.
UNARY = [np.exp, np.log, np.sqrt, np.tanh, np.abs, np.negative, np.log1p, np.expm1, np.arctan, np.cosh, np.square]
UNARY += [lambda x: np.sin(np.clip(x, -3, 3)), lambda x: np.arcsin(x)]
UNARY += [lambda x: x**3, lambda x: x**-2, lambda x: x**0.5, lambda x: 1 / x, lambda x: 1 / (1 + np.exp(-x))]
UNARY += [lambda x: np.log(1 + np.exp(x)), lambda x: np.where(x > 0, x, 0), lambda x: np.clip(x, -1, 2)]
BINARY = [np.add, np.subtract, np.multiply, np.true_divide, np.maximum, np.minimum, np.hypot, np.arctan2, np.power]
BINARY += [lambda x, y: np.where(x < y, x * y, y)]
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(UNARY), st.integers(0, 50)),
        st.tuples(st.sampled_from(BINARY), st.integers(0, 50), st.integers(0, 50)),
    ),
    min_size=1,
    max_size=8,
)
numbers = st.one_of(st.sampled_from([*SPECIAL, *LIMITS]), st.floats(-3, 3), st.floats())


def program_of(steps):
    def f(x, y):
        values = [x, y]
        for function, *at in steps:
            values.append(function(*[values[i % len(values)] for i in at]))
        return values[-1]

    return f


@SETTINGS
@given(steps, numbers, numbers)
def test_random_programs_of_scalars(steps, x, y):
    f = sg.compile(program_of(steps))
    x, y = np.float64(x), np.float64(y)
    compiled = f.compile(x, y)
    assert "_by_numpy" in compiled.source or "np.float64" in compiled.source or "copy" in compiled.source
    expected = quietly(f.compile(x, y, optimize=1), x, y)
    assert_same(quietly(compiled, x, y), expected, rtol=1e-9)


def outcome(f, *args):
    """What is returned, or the error of Python's operators on Python numbers."""
    try:
        return quietly(f, *args)
    except (ArithmeticError, TypeError) as error:
        return type(error)


@SETTINGS
@given(steps, numbers, numbers, st.booleans())
def test_random_slopes_of_scalars(steps, x, y, plain):
    f = sg.value_and_grad(program_of(steps), argnums=(0, 1))
    if not plain:
        x, y = np.float64(x), np.float64(y)
    expected = outcome(lambda *xs: f.compile(*xs, optimize=1)(*xs), x, y)
    if isinstance(expected, type) or isinstance(expected[0], complex):
        return
    assert_same(quietly(f.compile(x, y), x, y), expected, rtol=1e-6)
