"""Checks that all operators' tests share: traced programs against NumPy, derivatives against finite differences."""

from __future__ import annotations

from itertools import product

import numpy as np

from symgrad.core.graph import Aval, Graph, verify
from symgrad.core.interpret import interpret
from symgrad.derivatives.pullback import pullback, pushforward
from symgrad.frontend.variable import Variable
from symgrad.verification.check_grads import _prepared
from tests.slices import check_flows

MODES = "fwd", "rev"


def trace(f, *args):
    """The graph of `f`, its input nodes, and its result as a tuple of nodes; every argument is a traced array."""
    graph = Graph()
    inputs = [graph.add_input(f"x{i}", Aval(np.shape(a), np.asarray(a).dtype)) for i, a in enumerate(args)]
    result = f(*[Variable(graph, x) for x in inputs])
    results = result if isinstance(result, (tuple, list)) else (result,)
    outputs = [y.node if isinstance(y, Variable) else graph.constant(y) for y in results]
    return graph, inputs, outputs


def evaluate(f, *args):
    """The results of the traced program, a tuple."""
    graph, inputs, outputs = trace(f, *args)
    verify(graph)
    return interpret(outputs, dict(zip(inputs, args, strict=True)))


def check_value(f, *args):
    """The traced program gives what NumPy gives: shape, dtype and numbers; inference and flows agree."""
    expected = f(*args)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    graph, inputs, outputs = trace(f, *args)
    verify(graph)
    with np.errstate(all="ignore"):
        results = interpret(outputs, dict(zip(inputs, args, strict=True)))
    assert len(results) == len(expected)
    for node, result, want in zip(outputs, results, expected, strict=True):
        assert node.aval.shape == np.shape(want), f"inferred {node.aval}, NumPy gives {np.shape(want)}"
        assert node.aval.dtype == np.asarray(want).dtype, f"inferred {node.aval}, NumPy gives {np.asarray(want).dtype}"
        np.testing.assert_array_equal(result, want)
    check_flows(outputs, dict(zip(inputs, args, strict=True)))


def check_derivatives(f, *args, order=2, rtol=1e-5, atol=1e-7, eps=1e-5, seed=0):
    """Reverse and forward derivatives of a float64 function against central differences, and against each other.

    Projects on random directions: ``<w, f(x + eps v) - f(x - eps v)> / (2 eps)`` against ``<w, J v>`` and
    ``<J' w, v>``; `order` 2 repeats it for the gradient itself.
    """
    rng = np.random.default_rng(seed)
    args = [np.asarray(a, dtype=float) for a in args]
    graph, inputs, outputs = trace(f, *args)
    feeds = dict(zip(inputs, args, strict=True))
    outputs = [y for y in outputs if y.aval.differentiable]
    weights = [rng.standard_normal(y.aval.shape) for y in outputs]
    directions = [rng.standard_normal(np.shape(a)) for a in args]
    _compare(graph, inputs, outputs, feeds, weights, directions, rtol, atol, eps)
    if order > 1:
        gradients = pullback(graph, outputs, [graph.constant(w) for w in weights], inputs)
        kept = [g for g in gradients if g is not None]
        weights = [rng.standard_normal(g.aval.shape) for g in kept]
        _compare(graph, inputs, kept, feeds, weights, directions, 10 * rtol, 10 * atol, eps)
    verify(graph)


def check_grads_in_turn(f, args, turn, rtol=None):
    """Check as `check_grads` does, but second derivatives in one pair of modes, chosen by the number `turn`.

    Tests of many functions that compose in the same way count their functions: all of them together see each pair.
    """
    check, flat, xs = _prepared(f, args, 2, MODES, (None, rtol, None), {})
    level, *derivatives = check.levels(flat, xs, 2, check.direction)
    (inner, derivative), outer = [*product(zip(MODES, derivatives, strict=True), MODES)][turn % 4]
    assert derivative.trail == (inner,)
    for i in range(len(xs)):
        for mode in MODES:
            level.check_along(i, mode)
        derivative.check_along(i, outer)


def _compare(graph, inputs, outputs, feeds, weights, directions, rtol, atol, eps):
    if not outputs:
        return
    gradients = pullback(graph, outputs, [graph.constant(w) for w in weights], inputs)
    tangents = pushforward(graph, outputs, inputs, [graph.constant(v) for v in directions])
    found = [i for i, g in enumerate(gradients) if g is not None]
    values = interpret([gradients[i] for i in found], feeds)
    for i, value in zip(found, values, strict=True):
        assert np.shape(value) == np.shape(directions[i]) and value.dtype == np.float64
    reverse = sum(np.sum(v * directions[i]) for i, v in zip(found, values, strict=True))
    moved = [(w, t) for w, t in zip(weights, tangents, strict=True) if t is not None]
    forward = sum(np.sum(w * t) for (w, _), t in zip(moved, interpret([t for _, t in moved], feeds), strict=True))

    def along(step):
        shifted = {x: feeds[x] + step * v for x, v in zip(inputs, directions, strict=True)}
        return sum(np.sum(w * y) for w, y in zip(weights, interpret(outputs, shifted), strict=True))

    numeric = (along(eps) - along(-eps)) / (2 * eps)
    np.testing.assert_allclose(reverse, numeric, rtol=rtol, atol=atol)
    np.testing.assert_allclose(forward, reverse, rtol=1e-9, atol=1e-11)
