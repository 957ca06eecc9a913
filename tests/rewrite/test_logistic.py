"""Softplus and its slopes by one exponential: every combination of them at special values, and when they stay apart."""

from functools import cache

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import special

import symgrad as sg
from tests.exact import exactly

pytestmark = pytest.mark.usefixtures("whole")

SPECIAL = [
    0.0, -0.0, 1e-300, -5e-324, 1.0, -1.0, 30.0, -30.0, 40.0, -40.0, 80.0, -80.0, 87.9, -87.9, 88.1, -88.1, 100.0,
    -104.0, 700.0, -700.0, 708.9, -708.9, 709.1, -709.1, 745.0, -745.0, 800.0, -800.0, 3e38, -3e38, np.inf, -np.inf,
    np.nan,
]  # fmt: skip
TINY = {np.float32: 1.2e-38, np.float64: 2.3e-308}


def softplus(x):
    return np.logaddexp(0, x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


PARTS = {
    "value": lambda x: softplus(x),
    "value of negative": lambda x: softplus(-x),
    "slope": lambda x: sigmoid(x),
    "slope of negative": lambda x: sigmoid(-x),
    "multiple": lambda x: 0.3 / (1 + np.exp(-x)),
    "product": lambda x: (x + 0.5) / (1 + np.exp(x)),
}


def points(dtype, n=600):
    """Special values and usual ones, as many as it takes."""
    with np.errstate(over="ignore"):
        x = np.array(SPECIAL).astype(dtype)
    return np.concatenate([x, 3 * np.random.default_rng(0).normal(size=n - x.size).astype(dtype)])


def operators(program):
    return [node.op.name for node in program.graph.nodes]


def compiled(f, *arrays, **options):
    return sg.compile(f).compile(*arrays, **{"optimize": 2, **options})


def as_it_was(f, *arrays, symbolic=False, **options):
    """The program of `f`, with what it gives where nothing is rewritten."""
    dtype = arrays[0].dtype.type
    program = compiled(f, *(f"{x.dtype}[n]" if symbolic else x for x in arrays), **options)
    with np.errstate(all="ignore"):
        expected = compiled(f, *arrays, optimize=0)(*arrays)
    with np.errstate(all="raise", under="ignore", invalid="ignore"):
        found = program(*arrays)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=8 * np.finfo(dtype).eps, atol=TINY[dtype])
    return program


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("second", PARTS)
@pytest.mark.parametrize("first", PARTS)
def test_every_pair_at_special_values(first, second, symbolic):
    """Each pair meets both dtypes; one of them is that of numbers, the other one that of symbols, alternately."""
    dtype = (np.float32, np.float64)[([*PARTS].index(first) + [*PARTS].index(second) + symbolic) % 2]
    program = as_it_was(lambda x: (PARTS[first](x), PARTS[second](x)), points(dtype), symbolic=symbolic)
    names = operators(program)
    assert "logaddexp" not in names
    assert names.count("log1p") == ("value" in first or "value" in second)
    assert names.count("exp") == 1


@pytest.mark.parametrize("numerics", ["stable", "ieee"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [600, 10_000])
def test_all_at_once(n, dtype, numerics):
    program = as_it_was(lambda x: tuple(f(x) for f in PARTS.values()), points(dtype, n), numerics=numerics)
    names = operators(program)
    assert names.count("log1p") == 1
    assert names.count("exp") == (2 if numerics == "stable" else 3)
    assert ("clip" in names) == (n > 8192)


NEGATIVES = {
    "difference": (lambda x, y: x - y, lambda x, y: y - x),
    "product": (lambda x, y: -x * y, lambda x, y: x * y),
    "multiple": (lambda x, y: -0.3 * x, lambda x, y: 0.3 * x),
    "quotient": (lambda x, y: -x / y, lambda x, y: x / y),
    "negative of a difference": (lambda x, y: -(x - y), lambda x, y: x - y),
    "sum": (lambda x, y: x + y, lambda x, y: -y - x),
    "difference from a negative": (lambda x, y: -x + y, lambda x, y: x - y),
    "sum in another order": (lambda x, y: -(y + x), lambda x, y: x + y),
}


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("name", NEGATIVES)
@pytest.mark.parametrize("pair", [("value", "slope of negative"), ("slope", "slope"), ("product", "value")])
def test_what_is_the_negative_of_the_other(pair, name, swap):
    """Whichever comes first in the program."""
    one, other = NEGATIVES[name][::-1] if swap else NEGATIVES[name]
    f, g = (PARTS[each] for each in pair)
    x, y = np.random.default_rng(0).normal(size=(2, 600))
    program = as_it_was(lambda x, y: (f(one(x, y)), g(other(x, y))), x, y)
    assert operators(program).count("exp") == 1


def test_another_sum_is_something_else():
    x, y = np.random.default_rng(0).normal(size=(2, 600))
    program = as_it_was(lambda x, y: (sigmoid(x + y), sigmoid(x - y), softplus(x + 2 * y)), x, y)
    assert operators(program).count("exp") == 3


def test_another_multiple_is_something_else():
    x = points(float)
    program = as_it_was(lambda x: (softplus(0.3 * x), sigmoid(0.4 * x), sigmoid(2 * -x)), x)
    assert operators(program).count("exp") == 3


@pytest.mark.parametrize("f", [lambda x: softplus(x), lambda x: softplus(-x), lambda x: softplus(2.5 * x) * x])
def test_a_loss_and_its_gradient_share_the_exponential(f):
    x = 5 * np.random.default_rng(0).normal(size=1000)
    total = sg.value_and_grad(lambda x: np.sum(f(x)))
    program = total.compile(x, optimize=2)
    assert operators(program).count("exp") == 1
    for a, b in zip(program(x), total.compile(x, optimize=0)(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_a_slope_alone_stays():
    x = points(float)
    assert operators(compiled(lambda x: sigmoid(x), x))[1:] == ["negative", "exp", "constant", "add", "divide"]


def test_half_precision_and_small_arrays_keep_their_forms():
    x = np.array([0.0, 11.0, -11.0, 100.0, -100.0, np.inf, -np.inf, np.nan] * 100, np.float16)
    with np.errstate(all="ignore"):
        found = compiled(lambda x: softplus(x), x)(x)
        np.testing.assert_allclose(found, np.logaddexp(0, x.astype(float)), rtol=2e-3, atol=1e-7)
    names = operators(compiled(lambda x: (softplus(x), sigmoid(x)), points(float, 40)))
    assert names.count("logaddexp") == names.count("exp") == 1


def test_what_cannot_overflow_needs_no_silence():
    x = points(float)
    assert "errstate" not in compiled(lambda x: (softplus(x), sigmoid(x)), x).source
    assert "errstate" in compiled(lambda x: sigmoid(x), x).source


# ---- the forms in which they are written, and their derivatives

AT = np.array([-800.0, -40.0, -1.0, 0.0, 1.0, 40.0, 800.0])


def exact_logistic(x):
    return 1 / (1 + mp.exp(-x))


def exact_softplus(x):
    return mp.log1p(mp.exp(x))


def exact_swish(x):
    return x * exact_logistic(x)


def exact_gate(x):
    return 2 * exact_logistic(2 * x) - 1


FORMS = {
    "1 / (1 + exp(-x))": (sigmoid, exact_logistic),
    "(1 + exp(-x)) ** -1": (lambda x: (1 + np.exp(-x)) ** -1, exact_logistic),
    "exp(x) / (1 + exp(x))": (lambda x: np.exp(x) / (1 + np.exp(x)), exact_logistic),
    "1 - 1 / (1 + exp(x))": (lambda x: 1 - 1 / (1 + np.exp(x)), exact_logistic),
    "0.5 * (1 + tanh(x / 2))": (lambda x: 0.5 * (1 + np.tanh(x / 2)), exact_logistic),
    "0.5 * tanh(0.5 * x) + 0.5": (lambda x: 0.5 * np.tanh(0.5 * x) + 0.5, exact_logistic),
    "(tanh(x / 2) + 1) / 2": (lambda x: (np.tanh(x / 2) + 1) / 2, exact_logistic),
    "exp(-logaddexp(0, -x))": (lambda x: np.exp(-np.logaddexp(0, -x)), exact_logistic),
    "exp(log_expit(x))": (lambda x: np.exp(special.log_expit(x)), exact_logistic),
    "expit(x)": (lambda x: special.expit(x), exact_logistic),
    "log(1 + exp(x))": (lambda x: np.log(1 + np.exp(x)), exact_softplus),
    "log1p(exp(x))": (lambda x: np.log1p(np.exp(x)), exact_softplus),
    "logaddexp(0, x)": (softplus, exact_softplus),
    "logaddexp(x, 0)": (lambda x: np.logaddexp(x, 0), exact_softplus),
    "-log(sigmoid(-x))": (lambda x: -np.log(sigmoid(-x)), exact_softplus),
    "-log_expit(-x)": (lambda x: -special.log_expit(-x), exact_softplus),
    "-log(1 - sigmoid(x))": (lambda x: -np.log(1 - sigmoid(x)), exact_softplus),
    "x / (1 + exp(-x))": (lambda x: x / (1 + np.exp(-x)), exact_swish),
    "x * expit(x)": (lambda x: x * special.expit(x), exact_swish),
    "x * exp(x) / (1 + exp(x))": (lambda x: x * np.exp(x) / (1 + np.exp(x)), exact_swish),
    "2 / (1 + exp(-2 * x)) - 1": (lambda x: 2 / (1 + np.exp(-2 * x)) - 1, exact_gate),
}


@cache
def derivative(exact, order):
    """Return the derivative of a function at these numbers, which takes 400 digits: several forms share it.

    At 800 a function is 1 and its derivative 1e-348; mpmath takes differences with as many digits again for each order.
    """
    with mp.workdps(400):
        return np.array([float(mp.diff(exact, mpf(x), order)) for x in AT])


@pytest.mark.parametrize("order", range(4))
@pytest.mark.parametrize("name", FORMS)
def test_derivatives_of_all_forms_equal_mpmath(name, order):
    f, exact = FORMS[name]
    expected = derivative(exact, order)
    for _ in range(order):
        f = sg.elementwise_grad(f)
    for optimize in (1, 2):
        with np.errstate(all="raise", under="ignore"):
            found = f.compile(AT, optimize=optimize)(AT) if order else sg.compile(f, optimize=optimize)(AT)
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-300)


def test_operators_are_stable_without_any_rewriting():
    for f, exact in (FORMS["expit(x)"], FORMS["logaddexp(0, x)"], FORMS["x * expit(x)"]):
        for order in range(4):
            found = (f if order else sg.compile(f, optimize=0))(AT)
            np.testing.assert_allclose(found, derivative(exact, order), rtol=1e-13, atol=1e-15)
            f = sg.elementwise_grad(f, optimize=0)


def test_a_gradient_of_a_graph_is_stable_too():
    """Nothing is recognised before it is differentiated."""
    g = sg.Graph()
    x = g.input("x", "float64[n]")
    (slope,) = sg.gradients(np.mean(np.log(1 + np.exp(-3 * x))), [x])
    for optimize in (1, 2):
        with np.errstate(all="raise", under="ignore"):
            found = sg.function([x], slope, optimize=optimize)(AT)
        np.testing.assert_allclose(found, -3 / 7 * np.exp(-np.logaddexp(0, 3 * AT)), atol=1e-300)


def test_they_are_recognised_once():
    """Whichever form stands in a program, it is computed once, by one exponential."""
    logistic = [f for name, (f, exact) in FORMS.items() if exact is exact_logistic and "tanh" not in name]
    names = operators(compiled(lambda x: sum(f(x) for f in logistic), "float64[n]", optimize=1))
    assert names.count("exp") == names.count("divide") == 1


def test_a_tanh_that_something_else_needs_stays():
    def f(x):
        t = np.tanh(x)
        return 0.5 * (1 + t), t

    assert operators(compiled(f, "float64[n]", optimize=1)).count("exp") == 0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.int64, bool])
@pytest.mark.parametrize("name", ["expit", "log_expit"])
def test_functions_of_scipy_keep_its_dtypes(name, dtype):
    x, f = np.array([0, 1, 1]).astype(dtype), getattr(special, name)
    for optimize in (0, 1, 2):
        found = sg.compile(lambda x: f(x), optimize=optimize)(x)
        assert found.dtype == f(x).dtype
        np.testing.assert_allclose(found, f(x), rtol=4 * np.finfo(found.dtype).eps)


def test_functions_of_scipy_need_numpy_alone():
    for optimize in (0, 1, 2):
        source = sg.elementwise_grad(lambda x: special.expit(x) + special.log_expit(x)).source(
            "float64[n]", optimize=optimize
        )
        assert "scipy" not in source


# ---- the slope of a logistic function from its value

FAR = np.array([-800.0, -50.0, -37.0, -18.0, -1.0, 0.0, 0.7, 5.0, 17.9, 36.5, 37.5, 50.0, 750.0, 1e4])


def exact_slope(x):
    with mp.workdps(800):
        s = 1 / (1 + mp.exp(-mpf(x)))
        return s * (1 - s)


def cell(w, x, h, c):
    """A cell of a recurrent network with gates (Hochreiter and Schmidhuber)."""
    n = h.shape[1]
    z = np.concatenate([x, h], axis=1) @ w
    i, f, g, o = z[:, :n], z[:, n : 2 * n], z[:, 2 * n : 3 * n], z[:, 3 * n :]
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return np.sum((sigmoid(o) * np.tanh(c)) ** 2)


def gated(v, w, x, h):
    """A gated recurrent unit (Cho et al.)."""
    z, r = sigmoid(x @ v), sigmoid(h @ w)
    return np.sum(np.log(1 + np.sum(((1 - z) * h + z * np.tanh(r * h)) ** 2, axis=1)))


NETWORKS = {
    "LSTM": (cell, ["float64[{n}+3, 4*{n}]", "float64[{b}, 3]", "float64[{b}, {n}]", "float64[{b}, {n}]"], 3),
    "GRU": (gated, ["float64[3, {n}]", "float64[{n}, {n}]", "float64[{b}, 3]", "float64[{b}, {n}]"], 2),
}


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_gate_has_one_exponential(name, symbolic):
    f, shapes, gates = NETWORKS[name]
    numbers = {"n": 4, "b": 500}
    specs = [s.format(**({x: x for x in numbers} if symbolic else numbers)) for s in shapes]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=[eval(n, {}, numbers) for n in s[8:-1].split(",")]) for s in specs]
    total = sg.value_and_grad(f, argnums=(0, 3))
    _, expected = sg.value_and_grad(f, argnums=(0, 3), optimize=0)(*arrays)
    for optimize in (1, 2):
        program = total.compile(*specs, optimize=optimize)
        assert operators(program).count("exp") == gates
        assert "1e+308" not in program.source
        for a, b in zip(program(*arrays)[1], expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("optimize", [1, 2])
def test_in_a_sum_the_slope_is_right_beside_the_others(optimize):
    """Its error is that of the value: not more than a rounding of a logistic function."""
    x = np.tile(FAR, 50)
    a = np.random.default_rng(0).normal(size=(x.size, 3))
    slope = sg.grad(lambda w: np.sum(sigmoid(x + a @ w)), optimize=optimize)
    program = slope.compile(np.zeros(3))
    assert operators(program).count("exp") == 1
    exact = [float(exact_slope(each)) for each in FAR] * 50
    found = program(np.zeros(3))
    assert np.isfinite(program(np.full(3, 1e3))).all()
    np.testing.assert_array_less(np.abs(found - exact @ a), 8e-16 * np.sum(np.abs(a), axis=0))


STRICT = {
    "a result": lambda s: s * (1 - s),
    "a multiple": lambda s: np.reshape(3 * s * (1 - s), (2, 7)).T,
    "a divisor": lambda s: 1 / (s * (1 - s)),
    "a sum that is a divisor": lambda s: np.sum(s) / np.sum(s * (1 - s)),
    "a logarithm of a product": lambda s: np.log((s * (1 - s)) @ np.ones(14)),
    "a root": lambda s: np.sqrt(s * (1 - s)),
}


@pytest.mark.parametrize("optimize", [1, 2])
@pytest.mark.parametrize("name", STRICT)
def test_where_digits_of_a_small_slope_are_needed_they_are_there(name, optimize):
    f, x = STRICT[name], np.linspace(40, 300, 14)
    with mp.workdps(300):
        s = np.array([1 / (1 + mp.exp(-mpf(each))) for each in x])
        exact = s * (1 - s)
        by_name = {
            "a result": exact, "a multiple": np.reshape(3 * exact, (2, 7)).T, "a divisor": 1 / exact,
            "a sum that is a divisor": s.sum() / exact.sum(), "a logarithm of a product": mp.log(exact.sum()),
            "a root": [mp.sqrt(each) for each in exact],
        }  # fmt: skip
        expected = np.array(by_name[name]).astype(float)
    found = sg.compile(lambda x: f(sigmoid(x)), optimize=optimize)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_what_is_added_to_something_else_needs_no_digits():
    program = compiled(lambda x: np.log(np.sum(2 + sigmoid(x) * (1 - sigmoid(x)))), points(float), optimize=1)
    assert operators(program).count("exp") == 1


BESIDE = {
    "a masked one": lambda x: np.logaddexp(np.where(x > 0.3, x, 0.5), x),
    "one that may be zero": lambda x: np.logaddexp(np.maximum(2 * x, 0.0), x) + np.maximum(x, 0.0),
    "a slope of another": lambda x: np.logaddexp(x, np.logaddexp(np.tanh(x), x)),
    "one of a related value": lambda x: np.logaddexp(1 / (1 + np.exp(-x)), np.logaddexp(np.tanh(2 * x), x)),
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", BESIDE)
def test_a_small_slope_has_its_digits_beside_what_may_be_small(name, order):
    g, f = sg.Graph(), BESIDE[name]
    x = g.input("x", "float64[]")
    slope, found = f(x), f
    for _ in range(order):
        (slope,) = sg.gradients(slope, [x])
        found = sg.elementwise_grad(found)
    at = np.array([-100.0, -60.0, -38.0, -20.0, -2.0, 0.5, 5.0])
    exact = [float(exactly([slope.node], {x.node: each})[0]) for each in at]
    for optimize in (1, 2):
        np.testing.assert_allclose(
            found.compile(at, optimize=optimize)(at), exact, rtol=1e-8
        )  # 1 - tanh(x)**2 has half of them at -20


def test_numerics_as_written_keep_both():
    total = sg.grad(lambda w, x: np.sum(sigmoid(x @ w)), numerics="ieee")
    assert "1 - t" not in total.source("float64[3]", "float64[n, 3]", optimize=1)
