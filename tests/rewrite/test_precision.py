"""Precision: programs that are right to rounding as written stay so at every level, at the ends of ranges too.

The truth is that of `exact`. How right a result can be is told by computing it as it is written with one rounding more
of each number on the way: the rewritten one may be as far off as that, times a small number. Results below the
smallest normal number, times what they may have been multiplied with, may be zero.
"""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Aval, Graph, reached
from symgrad.core.interpret import interpret
from symgrad.core.provenance import UNKNOWN
from symgrad.derivatives.pullback import pullback
from symgrad.frontend.variable import Variable
from symgrad.rewrite import algebra, arrays, cheaper, logistic, prepare, stable
from symgrad.rewrite.rules import Rule
from symgrad.targets.numpy import idioms, logistic as exponentials
from tests.exact import exactly, grid, judge, rounded_more

DTYPES = (np.float64, np.float32)


def kinds(x):
    """NaN, an infinity and its sign, zero or another number."""
    x = x + 0.0  # of truth values as well
    return np.where(np.isnan(x), 3, np.where(np.isinf(x), 2 * np.sign(x), np.where(x == 0, 0, 0.5)))


# ---- rules

TABLES = algebra, arrays, stable, logistic, cheaper, prepare, idioms, exponentials
RULES = [r for table in TABLES for r in vars(table).values() if type(r) is Rule]
NUMBERS = {0: [()], 1: [(2.5,), (-3.5,), (1e-3,)], 2: [(2.5, 3.5), (100.0, -0.3), (1e-3, 100.0)]}


def is_elementwise(r):
    nodes = reached([r.pattern.root])
    return all(n.op.elementwise or not n.inputs for n in nodes) and all(d.dtype is float for d in r.draws.values())


def points(count, dtype, most=40):
    """Arguments of a rule: the grid, or some combinations of its numbers, the same at each call."""
    numbers = grid(dtype, 300)
    return numbers[None] if count == 1 else np.random.default_rng(0).choice(numbers, (count, most))


def sides(r, numbers, feeds):
    """Both sides of a rule as nodes, and its arguments; None where it does not apply."""
    graph = Graph()
    graph.provenance = UNKNOWN
    inputs = [graph.add_input(name, Aval(x.shape, x.dtype)) for name, x in zip(r.draws, feeds, strict=True)]
    arguments = {name: Variable(graph, x) for name, x in zip(r.draws, inputs, strict=True)} | r.examples | numbers
    if not r.admits(arguments):
        return None
    before, after = (y.node if isinstance(y, Variable) else graph.constant(y) for y in r(**arguments))
    return before, after, inputs


def moves_numbers(r):
    """So far from the ends of the range a rule may change what is multiplied first."""
    return any(type(x) is float for x in r.examples.values())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("r", [r for r in RULES if is_elementwise(r)], ids=lambda r: r.name)
def test_a_rule_keeps_what_is_right(r, dtype):
    names = [name for name, x in r.examples.items() if type(x) is float]
    feeds = points(len(r.draws), dtype)
    if moves_numbers(r):
        far, size = 1e300 if dtype is np.float64 else 1e34, np.abs(feeds)
        feeds = feeds[:, np.all((size == 0) | ((1 / far < size) & (size < far)), axis=0)]
    if "in_cotangent" in r.name:  # a sigmoid below the smallest normal number may be zero
        feeds[1] = np.clip(feeds[1], -100, 100)
    for numbers in NUMBERS[len(names)]:
        found = sides(r, dict(zip(names, numbers, strict=True)), feeds)
        if found is not None:
            check_rule(r, *found, feeds)


def check_rule(r, before, after, inputs, feeds):
    given, shape, dtype = dict(zip(inputs, feeds, strict=True)), feeds.shape[1:], feeds.dtype
    with np.errstate(all="ignore"):
        result = np.broadcast_to(interpret([after], given)[0], shape)
        samples = [np.broadcast_to(rounded_more([before], given, seed)[0], shape) for seed in range(3)]
    if before.aval.dtype.kind == "f":
        truth = [exactly([before], dict(zip(inputs, point, strict=True)))[0] for point in feeds.T]
        wrong = np.flatnonzero(~judge(samples, truth, dtype)(result))
        assert not wrong.size, [(feeds[:, i], samples[0][i], result[i]) for i in wrong]
    if not r.changes_nan:
        np.testing.assert_array_equal(kinds(samples[0]), kinds(result))


def test_a_planted_loss_is_caught():
    rule = Rule(lambda x: (np.expm1(x), np.exp(x) - 1), {"x": stable.expm1.draws["x"]}, {})
    with pytest.raises(AssertionError):
        test_a_rule_keeps_what_is_right(rule, np.float64)


# ---- programs


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


PROGRAMS = {
    "exp(x) - 1": lambda x: np.exp(x) - 1,
    "1 - exp(-x)": lambda x: 1 - np.exp(-x),
    "(exp(x) - 1) / x": lambda x: (np.exp(x) - 1) / x,
    "x / (exp(x) - 1)": lambda x: x / (np.exp(x) - 1),
    "1 / (exp(x) - 1)": lambda x: 1 / (np.exp(x) - 1),
    "log(exp(x) - 1)": lambda x: np.log(np.exp(x) - 1),
    "log(1 - exp(x))": lambda x: np.log(1 - np.exp(x)),
    "elu": lambda x: np.where(x > 0, x, np.exp(x) - 1),
    "tanh": np.tanh,
    "tanh by exp(2x)": lambda x: (np.exp(2 * x) - 1) / (np.exp(2 * x) + 1),
    "tanh by exp(-2x)": lambda x: (1 - np.exp(-2 * x)) / (1 + np.exp(-2 * x)),
    "tanh by both": lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)),
    "tanh by sigmoid": lambda x: 2 / (1 + np.exp(-2 * x)) - 1,
    "1 - tanh squared": lambda x: 1 - np.tanh(x) ** 2,
    "sech": lambda x: 1 / np.cosh(x),
    "sinh by exp": lambda x: (np.exp(x) - np.exp(-x)) / 2,
    "cosh by exp": lambda x: (np.exp(x) + np.exp(-x)) / 2,
    "log cosh": lambda x: np.log(np.cosh(x)),
    "log cosh by log1p": lambda x: x + np.log1p(np.exp(-2 * x)) - np.log(2),
    "sigmoid": sigmoid,
    "sigmoid by exp": lambda x: np.exp(x) / (1 + np.exp(x)),
    "1 - sigmoid": lambda x: 1 - sigmoid(x),
    "variance": lambda x: sigmoid(x) * (1 - sigmoid(x)),
    "sigmoid squared": lambda x: sigmoid(x) ** 2,
    "swish": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))),
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "softplus of negative": lambda x: np.log1p(np.exp(-x)),
    "logaddexp": lambda x: np.logaddexp(x, 2 * x),
    "log of a sum": lambda x: np.log(np.exp(x) + np.exp(2 * x) + 1),
    "log sigmoid": lambda x: np.log(sigmoid(x)),
    "cross-entropy": lambda x: -(0.3 * np.log(sigmoid(x)) + 0.7 * np.log(1 - sigmoid(x))),
    "logit": lambda x: np.log(x / (1 - x)),
    "logit by two": lambda x: np.log(x) - np.log(1 - x),
    "entropy": lambda x: -x * np.log(x) - (1 - x) * np.log(1 - x),
    "Gauss": lambda x: np.exp(-x * x),
    "Gauss by power": lambda x: np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi),
    "x Gauss": lambda x: np.exp(-x * x) * x,
    "x x Gauss": lambda x: x**2 * np.exp(-(x**2)),
    "x exp(-x)": lambda x: x * np.exp(-x),
    "Laplace": lambda x: 0.5 * np.exp(-np.abs(x)),
    "Gompertz": lambda x: np.exp(-np.exp(-x)),
    "cloglog": lambda x: 1 - np.exp(-np.exp(x)),
    "Weibull": lambda x: 1.5 * x**0.5 * np.exp(-(x**1.5)),
    "Morse": lambda x: (1 - np.exp(-x)) ** 2,
    "Cauchy": lambda x: 1 / (1 + x**2),
    "log Cauchy": lambda x: -np.log(1 + x * x),
    "Student": lambda x: (1 + x * x / 3) ** -2.0,
    "log Student": lambda x: -2 * np.log1p(x * x / 3),
    "Geman and McClure": lambda x: x * x / (1 + x * x) * 2,
    "Hill": lambda x: x**2.5 / (1 + x**2.5),
    "pseudo-Huber": lambda x: np.sqrt(1 + (x / 2) ** 2) - 1,
    "smoothed root": lambda x: np.sqrt(x**2 + 1e-12),
    "root of 1 + x x": lambda x: np.sqrt(1 + x * x),
    "x over root": lambda x: x / np.sqrt(1 + x * x),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "arcsinh": np.arcsinh,
    "arcsinh by log": lambda x: np.log(x + np.sqrt(x * x + 1)),
    "arctanh by log": lambda x: 0.5 * np.log((1 + x) / (1 - x)),
    "arctan": np.arctan,
    "arctan2": lambda x: np.arctan2(x, 1.0),
    "tan of arctan": lambda x: np.tan(np.arctan(x)),
    "log of square": lambda x: np.log(x**2),
    "log of root": lambda x: np.log(np.sqrt(x)),
    "exp of half log": lambda x: np.exp(0.5 * np.log(x)),
    "hypot": lambda x: np.hypot(x, 2 * x),
    "1 - cos": lambda x: (1 - np.cos(x)) / x**2,
    "sin(x) / x": lambda x: np.sin(x) / x,
    "x x / x": lambda x: x * x / x,
    "reciprocals": lambda x: 1 / (1 / x + 1),
    "powers": lambda x: x**5 - x**-2.0 + x**1.5,
    "Lennard-Jones": lambda x: 4 * ((1 / x) ** 12 - (1 / x) ** 6),
    "far numbers": lambda x: 1e200 * (x * 1e-200) + (1e300 * x) / 1e300,
    "exp(x) exp(-x)": lambda x: np.exp(x) * np.exp(-x) * x,
    "exp(x) / exp(2x)": lambda x: np.exp(x) / np.exp(2 * x),
}
"""Value, first and second derivative of each."""


def derivatives(f):
    slope = sg.elementwise_grad(f)
    curvature = sg.elementwise_grad(slope)
    return lambda x: (f(x), slope(x), curvature(x))


def as_written(f, x):
    """The same as nodes, without any rewriting."""
    graph = Graph()
    node = graph.add_input("x", Aval(x.shape, x.dtype))
    found = [f(Variable(graph, node)).node]
    for _ in range(2):
        (slope,) = pullback(graph, found[-1:], [graph.constant(np.ones_like(x))], [node])
        found.append(graph.constant(np.zeros_like(x)) if slope is None else slope)
    return node, found


def compiled(f, x, **options):
    """Return the results for many numbers, at level 2 with the kernels for such."""
    with np.errstate(all="ignore"), sg.options(**options):
        results = sg.compile(derivatives(f))(np.tile(x, 10))
    return [np.broadcast_to(y, 10 * x.size)[: x.size] for y in results]


def kept_right(f, x):
    """For each level and order whether each number is as right as it can be."""
    inputs, nodes = as_written(f, x)
    with np.errstate(all="ignore"):
        samples = [rounded_more(nodes, {inputs: x}, seed) for seed in range(4)]
    scalar, wanted = as_written(f, np.zeros(1, x.dtype))
    truth = np.array([exactly(wanted, {scalar: v}) for v in x], object)
    truth[[row[0] is None for row in truth]] = None  # outside of where the function has a value
    mine = [[np.broadcast_to(s[order], x.shape) for s in samples] for order in range(3)]
    right = [judge(mine[order], truth[:, order], x.dtype) for order in range(3)]
    for level in (1, 2):
        for order, result in enumerate(compiled(f, x, optimize=level)):
            yield level, order, right[order](result), mine[order][0], result


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_keeps_what_is_right(name):
    x = grid(np.float64, 150)
    for level, order, good, before, after in kept_right(PROGRAMS[name], x):
        wrong = np.flatnonzero(~good)
        assert not wrong.size, (level, order, [(x[i], before[i], after[i]) for i in wrong])


@pytest.mark.parametrize("name", PROGRAMS)
def test_ieee_keeps_zeros_infinities_and_nan(name):
    x = np.concatenate([grid(np.float64, 300), [np.inf, -np.inf, np.nan]])
    f = PROGRAMS[name]
    expected = compiled(f, x, optimize=0, numerics="ieee")
    for level in (1, 2):
        for a, b in zip(compiled(f, x, optimize=level, numerics="ieee"), expected, strict=True):
            np.testing.assert_array_equal(kinds(a), kinds(b))


# ---- single cases


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (lambda x: np.exp(x) - 1, -40.0, 4.248354255291589e-18),
        (lambda x: (np.exp(2 * x) - 1) / (np.exp(2 * x) + 1), -20.0, 1.6993417021166355e-17),
        (lambda x: np.exp(-x * x) * x, 1e155, 0.0),
        (np.arcsin, 1 - 2.0**-40, 2.0**20 / np.sqrt(2 - 2.0**-40)),
        (lambda x: np.arctan2(x, 1e-200), 1e-200, 5e199),
        (lambda x: np.arctan2(x, 1e200), 1e200, 5e-201),
        (np.arccosh, 1e200, 1e-200),
    ],
)
def test_slopes(f, x, expected, level):
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(sg.grad(f, optimize=level)(x), expected, rtol=1e-13)
        np.testing.assert_allclose(sg.elementwise_grad(f, optimize=level)(np.full(600, x)), expected, rtol=1e-13)


@pytest.mark.parametrize("f", [lambda a: np.log(np.linalg.det(a)), lambda a: np.log(np.abs(np.linalg.det(a)))])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_the_logarithm_of_a_determinant_that_is_no_number(f, scale):
    a = scale * np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 4.0]])
    for level in (1, 2):
        value, slope = sg.value_and_grad(f, optimize=level)(a)
        np.testing.assert_allclose(value, np.linalg.slogdet(a)[1], rtol=1e-13)
        np.testing.assert_allclose(slope, np.linalg.inv(a).T, rtol=1e-12)


def test_the_logarithm_of_a_negative_determinant():
    a = np.diag([1.0, -2.0])
    with np.errstate(invalid="ignore"):
        assert np.isnan(sg.compile(lambda a: np.log(np.linalg.det(a)))(a))
    assert sg.compile(lambda a: np.log(np.abs(np.linalg.det(a))))(a) == np.log(2)


def test_the_order_of_factors_that_balance_each_other_stays():
    x = np.array([1e155, 1e200, 1.0])
    balanced = sg.compile(lambda x: (x * (x * np.exp(-x * x)), x * x * 0.5), optimize=2)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(balanced(x)[0], [0.0, 0.0, np.exp(-1.0)])


def test_what_has_no_truth_number_by_number_is_left_out():
    """Rules with axes, keys and masks move values, or sum them."""
    rest = {r.name for r in RULES if not is_elementwise(r)}
    assert {"sum_of_multiple", "logsumexp", "softmax", "choice_by_product"} <= rest
    assert not rest & {"expm1", "log1mexp", "logistic", "multiple_over"}
