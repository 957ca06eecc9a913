"""Like terms of sums of products: how long higher derivatives are, their values, and what is not expanded."""

import mpmath
import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Aval, Graph
from symgrad.frontend.variable import Variable
from symgrad.pipeline import canonicalise, collect, optimise, simplify
from tests.exact import exactly

X, Y = np.array([0.3, -0.7, 1.1]), np.array([0.9, 0.2, -1.3])

FUNCTIONS = {
    "sin of sin": lambda x: np.sin(np.sin(np.sin(x))),
    "Gauss": lambda x: np.exp(-(x**2)),
    "tanh": lambda x: np.tanh(x),
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "Cauchy": lambda x: 1 / (1 + x**2),
}
OPERATIONS = {"sin of sin": 70, "Gauss": 12, "tanh": 12, "softplus": 24, "Cauchy": 18}
"""The most that the sixth derivative may take by twos: sums that are not collected take hundreds."""


def repeated(f, order):
    for _ in range(order):
        f = sg.grad(f)
    return f


def operations(program):
    return sum(bool(node.inputs) for node in program.graph.nodes)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_high_orders_stay_short(name):
    program = repeated(FUNCTIONS[name], 5).compile(0.7)
    assert operations(program) <= OPERATIONS[name]
    assert operations(repeated(FUNCTIONS[name], 5).compile(0.7, optimize=1)) <= OPERATIONS[name]


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_high_orders_are_right(name, level):
    f, x = FUNCTIONS[name], 0.7
    graph = Graph()
    node = graph.add_input("x", Aval((), np.dtype(float)))
    y = Variable(graph, node)
    value = f(y)
    for _ in range(4):
        (value,) = sg.gradients(value, [y])
    truth = float(exactly([value.node], {node: x})[0])
    np.testing.assert_allclose(repeated(f, 4)(x), truth, rtol=1e-12)
    np.testing.assert_allclose(repeated(f, 4).compile(x, optimize=level)(x), truth, rtol=1e-12)


def graph_of(f, *arrays):
    graph = Graph()
    inputs = [graph.add_input(f"x{i}", Aval(x.shape, x.dtype)) for i, x in enumerate(arrays)]
    graph.outputs = [f(*[Variable(graph, x) for x in inputs]).node]
    return graph


def kinds(graph):
    return [node.op.name for node in optimise(graph, 0).nodes if node.inputs]


def test_a_difference_of_arguments_is_not_expanded():
    """Close to each other their difference is exact, that of the products is not."""
    graph = graph_of(lambda x, y: (x - y) * x * 3 + (x - y) * x * 4, X, Y)
    found = collect(simplify(graph))
    assert kinds(found).count("subtract") == 1
    f = sg.compile(lambda x, y: (x - y) * x * 3 + (x - y) * x * 4)
    x = np.array([1.0 + 2.0**-30])
    assert f(x, np.array([1.0])) == 7 * 2.0**-30 * x


def test_two_sums_are_not_expanded():
    """The error of a product of two sums that cancel is that of one times the other."""
    graph = graph_of(lambda x: (1 - x * x) * (1 - x * x) + 2 * (1 - x * x) * (1 - x * x), X)
    assert kinds(collect(simplify(graph))).count("subtract") == 1


def test_like_terms_are_collected():
    graph = graph_of(lambda x, y: np.sin(x) * y + 2 * (y * np.sin(x)) - 3 * y * np.sin(x) + y, X, Y)
    assert kinds(collect(canonicalise(graph))) == []


def test_what_nothing_meets_in_stays_as_it_was_written():
    graph = simplify(graph_of(lambda x, y: x * y + x * np.sin(y), X, Y))
    assert collect(graph) is graph


def test_ieee_leaves_sums_as_they_are():
    graph = graph_of(lambda x, y: x * y + x * y * 2, X, Y)
    assert collect(graph, "ieee") is graph


@pytest.mark.parametrize("x", [1e155, 1e300])
def test_factors_that_balance_each_other_keep_their_order(x):
    slope = sg.elementwise_grad(lambda x: x * np.exp(-x * x))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(slope(np.full(3, x)), 0.0)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("level", [1, 2])
def test_the_slope_of_a_hyperbolic_tangent_stays_zero_where_that_is_one(level, order):
    """Multiplied out, x and ``x * tanh(x)**2`` would leave a rounding error of x between them."""
    f, x = lambda x: x**3 * np.tanh(x) / (1 + x * x), 3e4
    with mpmath.workdps(60):  # the tangent is one there
        truth = float(mpmath.diff(lambda x: x**3 / (1 + x * x), mpmath.mpf(x), order))
    np.testing.assert_allclose(repeated(f, order).compile(x, optimize=level)(x), truth, rtol=1e-6)


def test_high_powers_are_no_polynomials():
    def f(x):
        for _ in range(12):
            x = x * x
        return 2 * x + 3 * x

    np.testing.assert_allclose(sg.compile(f)(1 + X / 4096), f(1 + X / 4096), rtol=1e-12)


# ---- quotients


def potential(x, y):
    return 1 / np.sqrt(x * x + y * y)


def curvature(x, y):
    """The second derivative of `potential` by its first argument."""
    r = np.hypot(x, y)
    return (3 * (x / r) * (x / r) - 1) / r / r / r


@pytest.mark.parametrize("level", [1, 2])
def test_quotients_by_a_root_are_collected(level):
    """``(3 (x / r)**2 - 1) / r**3``, as textbooks have it."""
    program = sg.grad(sg.grad(potential)).compile(0.3, 0.4, optimize=level)
    assert operations(program) <= 13
    np.testing.assert_allclose(program(0.3, 0.4), curvature(0.3, 0.4), rtol=1e-14)


def test_quotients_in_other_orders_cancel():
    def f(x, y):
        r = np.sqrt(x * x + y * y)
        return x * (x / r) / r * (y / r) - y / r * x * (x / r) / r

    assert kinds(collect(canonicalise(graph_of(f, X, Y)))) == ["broadcast_to"]  # a zero


@pytest.mark.parametrize("exponent", [-75, -60, 60, 75])
@pytest.mark.parametrize("level", [1, 2])
def test_quotients_keep_their_range(level, exponent):
    """The fifth power of the root may be zero, or overflow."""
    x, y = 3.0 * 10.0**exponent, 4.0 * 10.0**exponent
    hessian = sg.jacfwd(sg.grad(potential, (0, 1)), (0, 1)).compile(x, y, optimize=level)(x, y)
    r = np.hypot(x, y)
    u, v = x / r, y / r
    truth = np.array([[3 * u * u - 1, 3 * u * v], [3 * u * v, 3 * v * v - 1]]) / r / r / r
    np.testing.assert_allclose(hessian, truth, rtol=1e-13)


@pytest.mark.parametrize("exponent", [-55, -52, 52, 55])
@pytest.mark.parametrize("level", [1, 2])
def test_quotients_keep_their_range_in_higher_derivatives(level, exponent):
    """The first derivative has one over the divisor, whose third power overflows, or is zero."""
    x, y = np.array([2.0 * 10.0**exponent]), np.array([10.0**exponent])
    product = sg.hvp(lambda x, y: np.sum(x / (x * x + y * y) ** 2), optimize=level)(x, y, np.ones(1))
    s = x * x + y * y
    np.testing.assert_allclose(product, (24 * (x / s) * x - 12) * (x / s) / s / s, rtol=1e-13)


def test_quotients_of_quotients_keep_their_order():
    """One over `u` makes the sum that it is in grow, which is a divisor as `u` is."""

    def f(u, v):
        w = 1 / u + 1 / v
        return 3 * (1 / u / w) * (1 / u / w) + 2 * (1 / w / u) * (1 / u / w)

    np.testing.assert_allclose(sg.compile(f)(np.full(3, 1e-160), np.ones(3)), 5.0)


def test_an_operand_in_two_places_gets_one_share():
    source = sg.grad(lambda x: np.sum(x * x) + np.sum(np.sin(x))).compile(X, optimize=1).source
    assert "np.cos(x) + 2 * x" in source or "2 * x + np.cos(x)" in source
