"""Graphs as SymPy expressions, and expressions as functions."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import symgrad as sg
from symgrad.core.graph import Op
from symgrad.ops.define import TABLE
from symgrad.show.algebra import SAME, WRITTEN

X, Y = sympy.symbols("x y", real=True)
AT = [(0.3, 0.7), (0.8, -0.4), (-0.6, 0.5), (0.5, 0.5)]


def value(expr, x, y):
    """A real number, or NaN where SymPy has a complex one."""
    found = complex(sympy.sympify(expr).subs({X: x, Y: y}).evalf())
    return found.real if found.imag == 0 else np.nan


PROGRAMS = {
    "arithmetic": lambda x, y: (x + 2) * (y - x) / (1 + x * x) - (-y) ** 3,
    "powers": lambda x, y: (x * x + 1) ** y + 2.0**x + np.sqrt(np.square(x) + 0.1) + np.reciprocal(x + 3),
    "constants": lambda x, y: 0.1 * x + np.pi * y + np.float32(0.75),
    "choices": lambda x, y: np.where((x > y) & (x > 0), x**2, -y) * (y < 0.6) + np.where(~(x <= 0), 1.0, y),
    "shared": lambda x, y: (lambda h: h * np.sin(h) + h)(np.exp(x * y)),
    "marks": lambda x, y: sg.checkpoint(np.sin)(sg.stop_gradient(x) * y),
    "derivative": sg.grad(lambda x, y: np.exp(-((x / (2 + y)) ** 2)) * np.maximum(x, y)),
    "second": sg.grad(sg.grad(lambda x, y: np.log(1 + np.exp(x * y)) + np.arctan2(x, 2 + y))),
    "absolute": sg.grad(lambda x, y: np.abs(x - y / 3) ** 3),
    "truths": lambda x, y: (x > 0) * 2.5 + (y > 0).astype(float) / (1 + (x > y)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_expressions_have_the_value_of_the_program(name):
    f = PROGRAMS[name]
    expr = sg.to_sympy(sg.compile(f), "float64[]", "float64[]")
    simple = sg.to_sympy(sg.compile(f).compile("float64[]", "float64[]", optimize=1))
    for x, y in AT:
        if name in ("derivative",) and x == y:  # a tie, whose slope is a choice
            continue
        np.testing.assert_allclose(
            [value(expr, x, y), value(simple, x, y)], float(f(np.float64(x), np.float64(y))), rtol=1e-9
        )


@pytest.mark.parametrize("function", [*SAME, *WRITTEN], ids=lambda f: f.__name__)
def test_each_function_both_ways(function):
    op = TABLE[function]
    assert isinstance(op, Op)
    truths = function.__name__.startswith(("logical", "bitwise", "invert"))
    n = function.nin
    is_truth = truths or any(t == "d" * n + "->?" for t in function.types)

    def f(x, y):
        a, b = (x > 0.4, y > 0.4) if truths else (x * x + 0.05, y)
        z = function(a, b) if n == 2 else function(a)
        return np.where(z, 2.0, 3.0) if is_truth else z * 1.0

    expr = sg.to_sympy(sg.compile(f), "float64[]", "float64[]")
    back = sg.from_sympy(expr, [X, Y])
    for x, y in [(0.3, 0.7), (0.8, 0.4), (0.5, 0.2)]:
        with np.errstate(invalid="ignore"):
            expected = float(f(np.float64(x), np.float64(y)))
            np.testing.assert_allclose(float(back(x, y)), expected, rtol=1e-9)
        np.testing.assert_allclose(value(expr, x, y), expected, rtol=1e-9)


def test_results_and_symbols():
    value, slope = sg.to_sympy(sg.compile(lambda x, y: (x * y**2, {"a": y})), "float64[n]", "float64[n]")
    assert (value, slope) == (X * Y**2, Y)
    assert sg.to_sympy(sg.compile(lambda x: x * x.shape[0]), "float64[n]") == X * sympy.Symbol(
        "n", integer=True, positive=True
    )
    assert sympy.latex(sg.to_sympy(sg.grad(lambda x: np.sqrt(x) / 2), 1.0)) == r"\frac{1}{4 \sqrt{x}}"


@pytest.mark.parametrize(
    ("f", "fact"),
    [
        (lambda x: np.sum(x), "np.sum"),
        (lambda x: x @ x, "np.matmul"),
        (lambda x: x[0], " index has"),
        (lambda x: np.cbrt(x), "np.cbrt"),
        (lambda x: x * 2j, "complex"),
        (lambda x: x * np.array([1.0, 2.0, 3.0]), " constant has"),
        (lambda x: np.add(x > 0, x < 2), "of bool, bool"),
        (lambda x: np.logical_and(x, x > 1), "of float64, bool"),
        (lambda x: np.where(x > 0, x > 1, x > 2), "of bool, bool, bool"),
    ],
)
def test_what_does_not_work_number_by_number_is_refused(f, fact):
    with pytest.raises(sg.errors.UnsupportedError, match=rf"to_sympy:.*{fact}"):
        sg.to_sympy(sg.compile(f), np.ones(3))


EXPRESSIONS = [
    X**2 * sympy.sin(X) / Y,
    sympy.sqrt(X**2 + 1) ** -3 + X ** sympy.Rational(2, 3),
    1 / sympy.sqrt(Y + 2) + sympy.E**X + sympy.pi,
    sympy.Piecewise((X, X < Y), (Y**2, Y > 1), (sympy.log(X + 3), True)),
    sympy.Max(X, Y, 0.5) - sympy.Min(X, 0.1, Y) * sympy.Abs(X - Y),
    sympy.Piecewise((X, sympy.And(X < Y, X > 0, Y < 5)), (-X, sympy.Or(X > 1, sympy.Not(Y > 0))), (7, True)),
    X + sympy.Rational(1, 3),
    sympy.Integer(2),
    X,
]


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
def test_functions_have_the_value_of_the_expression(expr):
    f = sg.from_sympy(expr, [X, Y])
    gradient = sg.grad(f)
    for x, y in [(0.3, 0.7), (0.8, 0.4), (1.5, -0.6)]:
        np.testing.assert_allclose(float(f(x, y)), value(expr, x, y), rtol=1e-12)
        if expr.free_symbols:
            slope = gradient(np.float64(x), np.float64(y))
            np.testing.assert_allclose(slope, value(sympy.diff(expr, X), x, y), rtol=1e-9, atol=1e-12)


def test_a_function_takes_arrays_and_keywords_and_reads_well():
    f = sg.from_sympy(X**2 * sympy.exp(-Y), [X, Y])
    x = np.array([0.5, 1.5])
    np.testing.assert_allclose(sg.compile(f)(x, y=1.0), x**2 * np.exp(-1))
    assert repr(f) == "<x**2*exp(-y) of x, y>"
    source = sg.grad(f).source("float64[]", "float64[]", optimize=1)
    assert "def expression_grad(x, y):" in source
    assert "algebra.py" not in source
    assert sg.from_sympy(X**2, X)(3.0) == 9.0


def test_a_shared_part_is_computed_once():
    expr = X
    for _ in range(6):
        expr = sympy.sin(expr) + sympy.cos(expr)
    assert len(sg.trace(sg.from_sympy(expr, X), 1.0).graph.nodes) < 25


@pytest.mark.parametrize(
    ("expr", "args", "fact"),
    [
        (X * Y, [X], "y stand"),
        (X, [X, X], "are"),
        (sympy.gamma(X), [X], "no gamma"),
        (sympy.I * X, [X], "no ImaginaryUnit"),
        (sympy.zoo + X, [X], "no ComplexInfinity"),
        (sympy.Symbol("a b"), [sympy.Symbol("a b")], "are"),
        (X, [2], "are"),
        (sympy.Function("f")(X), [X], "no f"),
    ],
)
def test_expressions_without_a_function_are_refused(expr, args, fact):
    with pytest.raises(sg.errors.ArgumentError, match=fact):
        sg.from_sympy(expr, args)


def test_infinities_and_nans():
    assert sg.from_sympy(sympy.oo, [X])(1.0) == np.inf
    assert np.isnan(sg.from_sympy(sympy.nan, [X])(1.0))
    assert sg.to_sympy(sg.compile(lambda x: np.maximum(x, -np.inf)), 1.0) == X


def test_slopes_of_logaddexp():
    slopes = sg.grad(lambda x, y: np.logaddexp(x, y), argnums=(0, 1))
    for expr, slope in zip(sg.to_sympy(slopes, "float64[]", "float64[]"), slopes(0.3, 0.7), strict=True):
        np.testing.assert_allclose(value(expr, 0.3, 0.7), slope, rtol=1e-12)
