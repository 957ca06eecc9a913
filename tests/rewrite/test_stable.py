"""Stable forms: values and derivatives where the plain formula overflows, cancels or gives NaN."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Aval, Graph, verify
from symgrad.core.interpret import interpret
from symgrad.derivatives.pullback import pullback
from symgrad.frontend.variable import Variable
from symgrad.ops.marks import ALIAS
from symgrad.pipeline import canonicalise, canonicalised, drop_dead, optimise

X = np.array([100.0, 1000.0, -1000.0, 0.5, -30.0, 30.0])
S, S_MINUS = 1 / (1 + np.exp(-np.maximum(X, -700))), 1 / (1 + np.exp(np.minimum(X, 700)))


def compiled(f, *shapes, order=0, dtype=float):
    """The final graph of `f`, or of the gradient of the sum of its gradient, and so on."""
    graph = Graph()
    xs = [Variable(graph, graph.add_input(f"x{i}", Aval(s, np.dtype(dtype)))) for i, s in enumerate(shapes)]
    graph.outputs = [f(*xs).node]
    for _ in range(order):
        graph = drop_dead(canonicalise(graph))
        verify(graph)
        total = np.sum(Variable(graph, graph.outputs[0]))
        graph.outputs = pullback(graph, [total.node], [graph.constant(1.0)], graph.inputs[:1])
    graph = optimise(graph)
    verify(graph)
    return graph


def run(f, *arrays, order=0):
    arrays = [np.asarray(a) for a in arrays]
    graph = compiled(f, *[a.shape for a in arrays], order=order, dtype=arrays[0].dtype)
    with np.errstate(over="ignore", divide="ignore"):  # exp may overflow to inf, but nothing may become invalid
        return interpret(graph.outputs, dict(zip(graph.inputs, arrays, strict=True)))[0]


def operators(graph):
    return [n.op.name for n in graph.nodes if n.op.name not in ("input", "constant")]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# value, first and second derivative, by formulas that are stable themselves
SCALAR = {
    "softplus": (lambda x: np.log(1 + np.exp(x)), np.logaddexp(0, X), S, S * S_MINUS),
    "softplus by log1p": (lambda x: np.log1p(np.exp(x)), np.logaddexp(0, X), S, S * S_MINUS),
    "sigmoid": (sigmoid, S, S * S_MINUS, S * S_MINUS * (S_MINUS - S)),
    "sigmoid by exp": (lambda x: np.exp(x) / (1 + np.exp(x)), S, S * S_MINUS, S * S_MINUS * (S_MINUS - S)),
    "one minus sigmoid": (lambda x: 1 - sigmoid(x), S_MINUS, -S * S_MINUS, -S * S_MINUS * (S_MINUS - S)),
    "log sigmoid": (lambda x: np.log(sigmoid(x)), -np.logaddexp(0, -X), S_MINUS, -S * S_MINUS),
    "log one minus sigmoid": (lambda x: np.log(1 - sigmoid(x)), -np.logaddexp(0, X), -S, -S * S_MINUS),
    "variance": (lambda x: sigmoid(x) * (1 - sigmoid(x)), S * S_MINUS, S * S_MINUS * (S_MINUS - S), None),
    "log of exp": (lambda x: np.log(np.exp(x)), X, np.ones(6), None),
    "logaddexp": (lambda x: np.log(np.exp(x) + np.exp(2.0 * x)), np.logaddexp(X, 2 * X), 1 + S, None),
    "sum with a number": (
        lambda x: np.log(3.0 + np.exp(x)), np.logaddexp(np.log(3), X), None, None
    ),
    "sqrt of square": (lambda x: np.sqrt(x * x), np.abs(X), np.sign(X), None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "order"), [(name, i) for name, row in SCALAR.items() for i in range(3) if row[i + 1] is not None]
)
def test_far_from_zero(name, order):
    f, *expected = SCALAR[name]
    np.testing.assert_allclose(run(f, X, order=order), expected[order], rtol=1e-7, atol=1e-30)


@pytest.mark.parametrize("x", [100.0, 1000.0, -1000.0])
def test_the_gradient_that_everybody_asks_for(x):
    result = run(lambda x: np.log(1 + np.exp(x)), x, order=1)
    assert result == (1.0 if x > 0 else 0.0)


def test_without_rewriting_before_differentiating_it_is_right_too():
    graph = Graph()
    x = Variable(graph, graph.add_input("x", Aval((6,), np.dtype(float))))
    total = np.sum(np.log(1 + np.exp(x)))
    graph.outputs = pullback(graph, [total.node], [graph.constant(1.0)], graph.inputs)
    graph = optimise(graph)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(interpret(graph.outputs, {graph.inputs[0]: X})[0], S, atol=1e-300)
    assert operators(graph) == ["negative", "exp", "add", "divide"]


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (lambda x: np.log(1 + x), 1e-20, 1e-20),
        (lambda x: np.log(1 - x), 1e-20, -1e-20),
        (lambda x: np.exp(x) - 1, 1e-20, 1e-20),
        (lambda x: 1 - np.exp(x), 1e-20, -1e-20),
        (lambda x: np.log(1 - np.exp(x)), -1e-20, np.log(1e-20)),
        (lambda x: np.log(1 - np.exp(x)), -50.0, -np.exp(-50.0)),
        (lambda x: np.log(x**2), 1e-200, 2 * np.log(1e-200)),
        (lambda x: np.log(x**4.0), -1e100, 4 * np.log(1e100)),
        (lambda x: np.log(x**3.5), 1e100, 3.5 * np.log(1e100)),
        (lambda x: np.log(np.sqrt(x)), 1e-320, 0.5 * np.log(1e-320)),
    ],
)
def test_near_zero(f, x, expected):
    np.testing.assert_allclose(run(f, x), expected, rtol=1e-12)


def test_log1mexp_has_a_derivative_on_both_sides():
    x = np.array([-1e-20, -0.1, -5.0, -800.0])
    np.testing.assert_allclose(
        run(lambda x: np.log(1 - np.exp(x)), x, order=1), -1 / np.expm1(-np.maximum(x, -700)), atol=1e-300
    )


# ---- log of a sum of exponentials

ROWS = np.array([[1e4, 1e4 - 1, 3.0], [-1e4, -1e4, -1e4 + 2], [0.3, -0.2, 0.1]])


def reference(x, axis, keepdims):
    top = x.max(axis=axis, keepdims=True)
    total = np.sum(np.exp(x - top), axis=axis, keepdims=True)
    value = top + np.log(total)
    return (value if keepdims else np.squeeze(value, axis)), np.exp(x - top) / total


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, None, (0, 1)])
def test_logsumexp(axis, keepdims):
    def f(x):
        return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))

    value, softmax = reference(ROWS, axis, keepdims)
    np.testing.assert_allclose(run(f, ROWS), value, rtol=1e-14)
    np.testing.assert_allclose(run(f, ROWS, order=1), softmax, rtol=1e-12)
    assert np.all(np.isfinite(run(f, ROWS, order=2)))


def test_logsumexp_of_nothing_but_minus_infinity():
    x = np.array([[-np.inf, -np.inf], [0.0, -np.inf], [np.inf, 0.0]])
    np.testing.assert_array_equal(run(lambda x: np.log(np.sum(np.exp(x), axis=1)), x), [-np.inf, 0.0, np.inf])


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_and_its_logarithm(axis):
    def softmax(x):
        e = np.exp(x)
        return e / np.sum(e, axis=axis, keepdims=True)

    value, expected = reference(ROWS, axis, True)
    np.testing.assert_allclose(run(softmax, ROWS), expected, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(run(lambda x: np.log(softmax(x)), ROWS), ROWS - value, rtol=1e-12, atol=1e-12)

    def logsoftmax(x):
        return x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True))

    np.testing.assert_allclose(run(logsoftmax, ROWS), ROWS - value, rtol=1e-12, atol=1e-12)
    assert np.all(np.isfinite(run(softmax, ROWS, order=1)))
    np.testing.assert_allclose(run(logsoftmax, ROWS, order=1), 1 - 3 * expected, rtol=1e-9, atol=1e-12)


def by_hand(x):
    top = np.max(x, axis=1, keepdims=True)
    return top[:, 0] + np.log(np.sum(np.exp(x - top), axis=1))


def by_hand_kept(x):
    top = np.max(x, axis=1, keepdims=True)
    return top + np.log(np.sum(np.exp(x - top), axis=1, keepdims=True))


def by_hand_twice(x):
    return np.max(x, axis=1) + np.log(np.sum(np.exp(x - np.max(x, axis=1, keepdims=True)), axis=1))


def by_hand_reshaped(x):
    top = np.max(x, axis=1, keepdims=True)
    return np.reshape(top, 3) + np.log(np.sum(np.exp(x - top), axis=1))


@pytest.mark.parametrize("f", [by_hand, by_hand_kept, by_hand_twice, by_hand_reshaped])
def test_a_maximum_taken_out_by_hand_is_not_taken_out_twice(f):
    assert operators(compiled(f, (3, 4))).count("max") == (2 if f is by_hand_twice else 1)
    assert operators(compiled(f, (3, 4), order=1)).count("equal") == 0  # no derivative of the maximum
    value, softmax = reference(ROWS, 1, f is by_hand_kept)
    np.testing.assert_allclose(run(f, ROWS), value)
    np.testing.assert_allclose(run(f, ROWS, order=1), softmax, atol=1e-12)


# ---- cross-entropy: what was subtracted from a row cancels

LABELS = np.array([0, 2, 1, 1, 0])
SCORES = np.random.default_rng(3).normal(size=(5, 3))
SCORES[1] = 0.5  # ties


def shifted(scores, axis=1):
    return scores - np.max(scores, axis=axis, keepdims=True)


def log_sum(s, **options):
    return np.log(np.sum(np.exp(s), axis=1, **options))


def picked_by_range(scores):
    s = shifted(scores)
    return np.mean(log_sum(s) - s[np.arange(len(LABELS)), LABELS])


def picked_with_axes_kept(scores):
    s = shifted(scores)
    return np.mean(np.take_along_axis(s, LABELS[:, None], axis=1) - log_sum(s, keepdims=True))


def picked_along_the_axis(scores):
    s = shifted(scores)
    return np.mean(log_sum(s) - np.take_along_axis(s, LABELS[:, None], axis=-1)[:, 0])


def shifted_by_the_mean(scores):
    s = scores - np.mean(scores, axis=1)[:, None]
    return np.mean(log_sum(s) - s[np.arange(len(LABELS)), LABELS])


def shifted_by_one_number(scores):
    s = scores - np.max(scores)
    return np.mean(log_sum(s) - s[np.arange(len(LABELS)), LABELS])


def picked_from_other_rows(scores):
    s = shifted(scores)
    return np.mean(log_sum(s) - s[LABELS, LABELS])


def picked_backwards(scores):
    s = shifted(scores)
    return np.sum((log_sum(s) - np.take_along_axis(s, LABELS[:, None], axis=1)[::-1, 0]) * np.arange(5.0))


def shifted_by_columns(scores):
    s = shifted(scores, axis=0)
    return np.mean(log_sum(s) - s[np.arange(len(LABELS)), LABELS])


CANCELS = [picked_by_range, picked_with_axes_kept, picked_along_the_axis, shifted_by_one_number]
STAYS = [picked_from_other_rows, picked_backwards, shifted_by_columns, shifted_by_the_mean]


@pytest.mark.parametrize("f", CANCELS + STAYS)
def test_what_is_taken_from_a_row_of_scores_cancels_in_the_cross_entropy(f):
    gradient = sg.grad(f)
    names = [node.op.name for node in gradient.compile(SCORES, optimize=1).graph.nodes]
    assert ("equal" not in names and names.count("sum") <= 1) == (f in CANCELS)
    for transform in (sg.grad, sg.hessian):
        expected = transform(f, optimize=0)(SCORES)
        for optimize in (1, 2):
            np.testing.assert_allclose(transform(f, optimize=optimize)(SCORES), expected, rtol=1e-12, atol=1e-14)


def test_the_shifted_scores_themselves_can_be_differentiated_by():
    def f(scores):
        s = sg.name(shifted(scores), "s")
        return np.mean(log_sum(s) - s[np.arange(len(LABELS)), LABELS])

    for optimize in (0, 1, 2):
        by_shifted = sg.grad(f, wrt="s", optimize=optimize)(SCORES)
        np.testing.assert_allclose(by_shifted, sg.grad(f)(SCORES), atol=1e-14)


def test_the_gradient_of_logsumexp_is_a_softmax():
    graph = compiled(lambda x: np.log(np.sum(np.exp(x), axis=1, keepdims=True)), (3, 4), order=1)
    assert operators(graph) == ["max", "isfinite", "where", "subtract", "exp", "sum", "divide"]


def test_ieee_leaves_the_formula_alone():
    def final(numerics):
        graph = Graph()
        x = Variable(graph, graph.add_input("x", Aval((), np.dtype(float))))
        graph.outputs = [np.log(3 + np.exp(x)).node, (0 * x).node, (x - x).node, np.sqrt(x * x).node]
        return optimise(graph, 1, numerics)

    strict, stable = final("ieee"), final("stable")
    assert operators(strict) == ["exp", "add", "log", "multiply", "subtract", "multiply", "sqrt"]
    assert operators(stable) == ["logaddexp", "absolute"]
    for x in (1e200, np.inf, -np.inf, np.nan):
        with np.errstate(all="ignore"):
            results = interpret(strict.outputs, {strict.inputs[0]: np.float64(x)})
            expected = [np.log(3 + np.exp(np.float64(x))), 0 * x, x - x, np.sqrt(np.float64(x) * x)]
        np.testing.assert_array_equal(results, expected)


def test_in_the_middle_of_a_trace():
    graph = Graph()
    x = Variable(graph, graph.add_input("x", Aval((6,), np.dtype(float))))
    h = 1 + np.exp(-x)
    total = np.sum(1 / h)
    known = len(graph.nodes)
    (total_image,), (x_image, h_image) = canonicalised(graph, [total.node], [x.node, h.node], 1, "stable")
    assert x_image is x.node and len(graph.nodes) > known and h_image.op is ALIAS
    (by_h,) = pullback(graph, [total_image], [graph.constant(1.0)], [h_image])
    (total_image,), _ = canonicalised(graph, [total.node], [x.node], 1, "stable")
    (by_x,) = pullback(graph, [total_image], [graph.constant(1.0)], [x.node])
    verify(graph)
    with np.errstate(over="ignore"):
        results = interpret([by_x, by_h], {x.node: X})
    np.testing.assert_allclose(results[0], S * S_MINUS, atol=1e-300)
    np.testing.assert_allclose(results[1], -S * S, atol=1e-300)


# ---- no warnings where the result is right


@pytest.mark.parametrize("f", [f for f, *_ in SCALAR.values()], ids=list(SCALAR))
@pytest.mark.parametrize("order", [0, 1, 2])
def test_generated_code_does_not_warn(f, order):
    def total(x):
        return np.sum(f(x))

    def slope(x):
        return np.sum(sg.grad(total)(x))

    x = np.array([100.0, 1000.0, -1000.0, 0.5, -30.0, 710.0, -745.0])
    with np.errstate(all="raise", under="ignore"):
        result = (sg.compile(total), sg.grad(total), sg.grad(slope))[order](x)
    assert np.all(np.isfinite(result)) or order == 0


def test_small_probabilities_keep_their_digits():
    x = np.array([-700.0, -100.0, -30.0])
    result = sg.compile(sigmoid)(x)
    np.testing.assert_allclose(result, np.exp(x) / (1 + np.exp(x)), rtol=4e-16)
    slope = sg.elementwise_grad(sigmoid)(x)
    np.testing.assert_allclose(slope, np.exp(x) / (1 + np.exp(x)) ** 2, rtol=1e-15)


def test_an_overflow_that_matters_is_still_reported():
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        sg.compile(lambda x: np.exp(x) + 1)(np.array([1000.0]))


@pytest.mark.usefixtures("whole")
def test_softplus_is_written_for_speed_at_the_highest_level_only():
    softplus = sg.compile(lambda x: np.log1p(np.exp(x)))
    assert "np.maximum(np.log1p(np.exp(np.minimum(x, 709.0))), x)" in softplus.source("float64[n]")
    with sg.options(optimize=1):
        assert "return np.logaddexp(0.0, x)" in softplus.source("float64[n]")
    x = np.array([np.inf, -np.inf, np.nan, 1000.0, -1000.0, 1e-300, 0.0])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(softplus(x), np.logaddexp(0, x))
