"""Small problems: programs of scalars on Python floats, sums of what was read piece by piece, cheap calls."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import erf, gammaln, ndtr

import symgrad as sg
from symgrad.core.graph import Op
from symgrad.ops.define import TABLE
from tests.forms import count

SPECIAL = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -2.5, 3.0, 1e-310, 1e308, -1e308, 800.0, -800.0)
LIMITS = (math.inf, -math.inf, math.nan)

# ---- every operator that has a form on Python floats

FORMS = {  # of NumPy: functions of SciPy are the same with floats, and hyp1f1 crashes on infinities
    op.name: (function, op)
    for function, op in TABLE.items()
    if isinstance(op, Op) and op.scalar is not None and not op.package
}
LOGIC = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "where")
NOT_ON_FLOATS = (
    "left_shift", "right_shift", "astype", "alias", "stop_gradient", "barrier", "positive", "number", "integer",
    "either",
)  # fmt: skip
TOTAL = (
    "add", "subtract", "multiply", "negative", "square", "absolute", "fabs", "sign", "heaviside", "copysign", "arctan",
    "arctan2", "tanh", "maximum", "minimum", "clip", "less", "less_equal", "greater", "greater_equal", "equal",
    "not_equal", "logical_xor", "signbit", "isnan", "isfinite", "isinf", "floor", "ceil", "trunc", "rint",
    "logical_and", "logical_or", "logical_not", "logaddexp", "difference",
)  # fmt: skip
ARITIES = {"clip": 3, "difference": 2}  # of those that are no ufuncs
NUMERIC = [name for name in FORMS if name not in (*LOGIC, *NOT_ON_FLOATS)]


def quietly(f, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*args)


def assert_same(a, b, rtol=1e-13):
    """Equal to rounding, zeros with their signs, and of one type; a NumPy scalar does for an array without axes."""
    scalar = isinstance(a, np.generic) and isinstance(b, np.ndarray) and b.shape == ()
    assert type(a) is type(b) or scalar
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
    arity = ARITIES.get(name) or getattr(function, "nin", 1)
    program = sg.compile(lambda *xs: function(*xs))
    numbers = np.random.default_rng(0).choice([*SPECIAL, *LIMITS], (200, arity))
    compiled = program.compile(*["float64[]"] * arity)
    assert ("_by_numpy" in compiled.source) is (name not in TOTAL)
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
    assert count(sg.compile(f).source("float64[]"), "import math") == 0
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


def one_side(x):
    if x < 0:
        return 0.0
    return x * erf(x)


def repeated(x):
    while abs(x * (1 + erf(x)) - 0.5) > 1e-6:
        x = x - 0.2 * (x * (1 + erf(x)) - 0.5)
    return x


def side_of_an_iteration(x):
    for _ in range(3):
        x = ndtr(x) * x if x > 0.3 else np.cos(x)
    return x


@pytest.mark.parametrize("f", [one_side, repeated, side_of_an_iteration, lambda x: gammaln(x) if x > 0 else x])
def test_packages_of_branches_and_loops_are_imported(f, tmp_path):
    for transform in (sg.compile, sg.grad):
        expected = transform(f, optimize=0)(0.7)
        path, module = tmp_path / f"{transform.__name__}.py", {}
        compiled = transform(f).compile(0.7)
        exec(compiled.save(path).read_text(), module)
        for run in (compiled, module[compiled.program.name]):
            np.testing.assert_allclose(run(0.7), expected, rtol=1e-12)


def test_an_exponential_that_overflows_in_a_branch_of_the_fallback_is_no_news():
    def f(x):
        return np.logaddexp(0.0, x) + np.log(x + 800) if x < 0 else x

    with pytest.warns(RuntimeWarning, match="divide by zero") as told:
        assert sg.grad(f)(-800.0) == np.inf
    assert all("divide" in str(each.message) for each in told)


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


@given(steps, numbers, numbers)
def test_random_programs_of_scalars(steps, x, y):
    f = sg.compile(program_of(steps))
    x, y = np.float64(x), np.float64(y)
    compiled = f.compile(x, y)
    expected = quietly(f.compile(x, y, optimize=1), x, y)
    assert_same(quietly(compiled, x, y), expected, rtol=1e-9)


def outcome(f, *args):
    """Return the result, or the error of Python's operators on Python numbers."""
    try:
        return quietly(f, *args)
    except (ArithmeticError, TypeError) as error:
        return type(error)


@given(steps, numbers, numbers, st.booleans())
def test_random_slopes_of_scalars(steps, x, y, plain):
    f = sg.value_and_grad(program_of(steps), argnums=(0, 1))
    if not plain:
        x, y = np.float64(x), np.float64(y)
    expected = outcome(lambda *xs: f.compile(*xs, optimize=1)(*xs), x, y)
    if isinstance(expected, type) or isinstance(expected[0], complex):
        return
    assert_same(quietly(f.compile(x, y), x, y), expected, rtol=1e-6)


# ---- what was read piece by piece

N = 12
places = st.integers(-N, N - 1)
slices = st.builds(slice, st.none() | places, st.none() | places, st.sampled_from([None, None, None, 2, 3, -1]))
pieces = st.lists(st.tuples(places | slices, st.integers(0, 3)), min_size=1, max_size=6)
USES = (np.sin, lambda x: x * x, lambda x: 3.0 * x, lambda x: np.sum(x) * x)


def reads_pieces(pieces):
    return lambda x: sum(np.sum(USES[use](x[piece])) for piece, use in pieces)


def assert_accumulates(f, x):
    for transform in (sg.grad, lambda f, **options: sg.grad(lambda x: np.sum(sg.grad(f)(x) ** 2), **options)):
        fast, plain = transform(f), transform(f, optimize=0)
        np.testing.assert_allclose(fast(x), plain(x), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@given(pieces)
def test_sums_of_pieces(pieces):
    assert_accumulates(reads_pieces(pieces), np.linspace(0.1, 2, N))
    assert_accumulates(reads_pieces(pieces), np.linspace(0.1, 2, 3 * N).reshape(N, 3))


@pytest.mark.slow
@given(st.lists(st.tuples(places, places, st.integers(0, 3)), min_size=1, max_size=5), st.booleans())
def test_sums_of_pieces_of_large_arrays(pieces, columns):
    """Each place of `places` stands for a block, so that arrays are cut rather than added up."""
    block = 1000

    def f(x):
        x = x.T if columns else x
        return sum(np.sum(USES[use](x[a * block : b * block if b else None])) for a, b, use in pieces) + np.sum(
            x[0] * x[-1]
        )

    x = np.linspace(0.1, 2, 2 * N * block).reshape((2, -1) if columns else (-1, 2))
    assert_accumulates(f, x)


@pytest.mark.usefixtures("whole")
def test_parameters_cut_out_of_a_vector_are_assigned():
    def f(w, x):
        hidden = np.tanh(x @ w[:6].reshape(2, 3) + w[6:9])
        return np.sum((hidden @ w[9:12] + w[12]) ** 2)

    source = sg.grad(f).source("float64[13]", "float64[20, 2]")
    assert count(source, "d_w = np.empty(13)") == 1
    assert [count(source, f"d_w[{at}] = _") for at in (":6", "6:9", "9:12", "12")] == [1, 1, 1, 1]
    assert count(source, "d_w[_] = _") == 4
    assert count(source, "_ += _") == count(source, "np.zeros(_)") == 0


@pytest.mark.usefixtures("whole")
def test_where_a_piece_is_left_out_there_are_zeros():
    source = sg.grad(lambda w: np.sum(w[:3] ** 2) + w[4] ** 2).source("float64[6]")
    assert count(source, "d_w = np.zeros(6)") == 1
    assert count(source, "_ += _") == 0


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("n", [10, 100_000])
def test_pieces_that_meet_are_added(n):
    assert count(sg.grad(rosenbrock).source(f"float64[{n}]"), "d_x[1:] += _") == 1


# ---- cheap calls

CALLS = {
    "x.sum(axis=0)": lambda x: np.sum(x, axis=0),
    "x.sum(axis=1, keepdims=True)": lambda x: np.sum(x, axis=1, keepdims=True),
    "x.sum() / 15": lambda x: np.mean(x),
    "x.sum(axis=1) / 3": lambda x: np.mean(x, axis=1),
    "x.max(axis=1)": lambda x: np.max(x, axis=1),
    "x.argmin(axis=0)": lambda x: np.argmin(x, axis=0),
    "np.vdot(_, _) / 14": lambda x: np.var(x, ddof=1),
    "x.cumsum(axis=1)": lambda x: np.cumsum(x, axis=1),
    "x.argsort(axis=0)": lambda x: np.argsort(x, axis=0),
    "x.trace(offset=1)": lambda x: np.trace(x, 1),
    "x.diagonal()": lambda x: np.diagonal(x),
    "x.T.dot(x)": lambda x: x.T @ x,
    "x[0][:, None].dot(x[1][None])": lambda x: np.outer(x[0], x[1]),
    "np.minimum(np.maximum(x, -0.5), 0.5)": lambda x: np.clip(x, -0.5, 0.5),
    "np.array([_, _])": lambda x: np.stack([np.sin(x), np.sin(x)]),
    "x[np.arange(5)[:, None], _]": lambda x: np.take_along_axis(x, np.argmax(x, axis=1, keepdims=True), axis=1),
    "1.0 - 2.0 * x": lambda x: 1 - 2 * x,
    "np.where(x > 0.0, x, 0.0)": lambda x: np.where(x > 0, x, 0),
    "np.full((4, 5, 3), x)": lambda x: np.broadcast_to(x, (4, 5, 3)),
    "np.ldexp(x, 2)": lambda x: np.ldexp(x, 2),
    "x * (_ * _)": lambda x: x**5,
}


@pytest.mark.parametrize("form", CALLS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_calls_are_the_cheap_ones(form, dtype, usual_sizes):
    f = sg.compile(CALLS[form])
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(dtype)
    assert count(f.source(x), form) == 1
    fast, plain = f(x), CALLS[form](x)
    assert fast.dtype == plain.dtype and type(fast) is type(plain)
    np.testing.assert_allclose(fast, plain, rtol=1e-6 if dtype is np.float32 else 1e-13)


def test_large_products_keep_their_operator(usual_sizes):
    product = sg.compile(lambda x: x.T @ x)
    assert count(product.source("float64[1000, 30]"), "x.T @ x") == 1
    assert count(product.source("float64[n, 3]"), "x.T.dot(x)") == 1  # which may be small


@pytest.mark.parametrize("dtype", [np.int64, np.int8, bool, np.float16])
def test_integers_stay_integers_beside_what_is_not_floating(dtype):
    x = np.array([0, 1, 1], dtype)
    for f in (lambda x: x * 3, lambda x: x / 2, lambda x: 1 + x, lambda x: x > 0, lambda x: np.sum(x), np.mean):
        fast, plain = sg.compile(f)(x), f(x)
        assert fast.dtype == plain.dtype
        np.testing.assert_array_equal(fast, plain)


@pytest.mark.parametrize("dtype, texts", [(np.float64, "0.0, -2.5"), (np.float32, "np.float32(0.0), np.float32(-2.5)")])
def test_numbers_that_are_known_stand_among_others_as_they_are(dtype, texts):
    """np.array takes them for float64."""
    f = lambda x: np.stack([x[0], 0 * x[0], 0 * x[1] - 2.5])
    x = np.ones(2, dtype)
    program = sg.compile(f).compile(x)
    assert count(program.source, f"np.array([x[0], {texts}])") == 1
    assert program(x).dtype == dtype
    np.testing.assert_array_equal(program(x), f(x))


@pytest.mark.parametrize("subscripts, is_vdot", [("ij,ij->", True), ("ij,ji->", False), ("ij,ij->i", False)])
def test_sums_of_all_products_of_few_numbers_are_one_call_of_blas(subscripts, is_vdot):
    x, y = np.arange(9.0).reshape(3, 3), np.ones((3, 3)).cumsum(0)
    f = lambda x, y: np.einsum(subscripts, x, y)
    for a, b in ((x, y), (x.astype(np.float32), y.astype(np.float32)), (x.T, y)):
        program = sg.compile(f).compile(a, b)
        assert count(program.source, "np.vdot(_, _)") == is_vdot
        np.testing.assert_array_equal(program(a, b), f(a, b))
        assert program(a, b).dtype == a.dtype
    for a, b in ((x[:, :1], y), (np.ones((70, 70)), np.ones((70, 70)))):
        assert count(sg.compile(f).compile(a, b).source.program, "np.vdot(_, _)") == 0
