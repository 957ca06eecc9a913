"""Flat functions for optimisers: their values and derivatives, the way back, and SciPy's optimisers on them."""

from __future__ import annotations

import copy
import functools
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import symgrad as sg
from symgrad.core import tree
from symgrad.errors import ArgumentError, DTypeError, ShapeError


@dataclass
class Line:
    slope: Any
    offset: Any


TREES = {
    "vector": np.array([0.3, -0.2, 0.5]),
    "matrix": np.arange(6.0).reshape(2, 3) / 7,
    "number": 0.4,
    "scalar": np.float64(0.4),
    "dict": {"W": np.arange(4.0).reshape(2, 2) / 5, "b": np.array([0.1, 0.2]), "scale": 1.5},
    "list": [np.array([0.1, 0.7]), [0.3, (np.array(0.2),)]],
    "dataclass": Line(np.array([0.5, 0.25]), 0.75),
    "float32": {"a": np.array([0.5, 0.25], np.float32), "b": np.array([[0.75]])},
    "float16": (np.float16(0.5), np.array([0.25])),
    "empty": {"none": np.zeros((0, 2)), "some": np.array([0.5, 0.25])},
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3) / 7),
}


def leaves_of(x):
    return tree.flatten(x)[0]


def loss(x, weight=1.0):
    """Every number interacts with every other."""
    total = sum(np.sum(np.sin(leaf)) for leaf in leaves_of(x))
    return weight * np.exp(total / 4) + sum(np.sum(leaf**2) for leaf in leaves_of(x))


def residuals(x):
    first = leaves_of(x)[-1]
    return {"each": np.exp(first) * 2, "all": loss(x), "none": np.zeros((0, 2))}


def differences(f, x, eps=1e-5):
    columns = [(f(x + eps * e) - f(x - eps * e)) / (2 * eps) for e in np.eye(len(x))]
    return np.stack([np.asarray(c, dtype=float) for c in columns], axis=-1)


def tolerance(x0):
    narrow = min(np.asarray(leaf).dtype.itemsize for leaf in leaves_of(x0))
    return {8: 1e-7, 4: 1e-5, 2: 1e-2}[narrow]


def plain(problem, f):
    """The same function of a vector of float64, without symgrad."""
    widened = sg.to_scipy(
        f, tree.tree_map(lambda leaf: np.asarray(leaf, dtype=np.float64), problem.unravel(problem.x0))
    )
    return lambda x: f(widened.unravel(x))


@pytest.mark.parametrize("name", TREES)
def test_way_there_and_back(name):
    x0 = TREES[name]
    problem = sg.to_scipy(loss, x0)
    assert problem.x0.dtype == np.float64
    back = problem.unravel(problem.x0)
    assert tree.flatten(back)[1] == tree.flatten(x0)[1]
    for a, b in zip(leaves_of(back), leaves_of(x0), strict=True):
        np.testing.assert_array_equal(a, b)
        assert type(a) is (float if type(b) is float else np.ndarray)
        assert type(b) is float or a.dtype == b.dtype
    np.testing.assert_array_equal(problem.ravel(back), problem.x0)


@pytest.mark.parametrize("name", TREES)
def test_derivatives_of_a_number(name):
    problem = sg.to_scipy(loss, TREES[name])
    x, tol = problem.x0, tolerance(TREES[name])
    f = plain(problem, loss)
    assert type(problem.fun(x)) is float
    np.testing.assert_allclose(problem.fun(x), f(x), rtol=tol)
    np.testing.assert_allclose(problem.jac(x), differences(f, x), rtol=tol, atol=tol)
    hessian = problem.hess(x)
    exact = sg.to_scipy(loss, tree.tree_map(np.float64, TREES[name]))
    np.testing.assert_allclose(hessian, differences(exact.jac, x), rtol=tol, atol=10 * tol)
    p = np.cos(np.arange(len(x)))
    np.testing.assert_allclose(problem.hessp(x, p), hessian @ p, rtol=tol, atol=tol)
    assert problem.jac(x).dtype == hessian.dtype == problem.hessp(x, p).dtype == np.float64


@pytest.mark.parametrize("name", TREES)
def test_derivatives_of_a_tree_of_results(name):
    problem = sg.to_scipy(residuals, TREES[name])
    x, tol = problem.x0, tolerance(TREES[name])
    f = plain(problem, lambda t: np.concatenate([np.ravel(leaf) for leaf in leaves_of(residuals(t))]))
    np.testing.assert_allclose(problem.fun(x), f(x), rtol=tol)
    np.testing.assert_allclose(problem.jac(x), differences(f, x), rtol=tol, atol=tol)
    assert problem.jac(x).shape == (*problem.fun(x).shape, *x.shape)


def test_constants_and_parts_that_do_not_matter():
    problem = sg.to_scipy(lambda x: 3.0, np.ones(2))
    assert problem.fun(problem.x0) == 3.0
    np.testing.assert_array_equal(problem.jac(problem.x0), [0.0, 0.0])
    problem = sg.to_scipy(lambda x: x["a"] ** 2, {"a": 3.0, "b": np.ones(2)})
    np.testing.assert_array_equal(problem.hess(problem.x0), np.diag([2.0, 0.0, 0.0]))
    problem = sg.to_scipy(lambda x: (), np.ones(2))
    assert problem.fun(problem.x0).shape == (0,) and problem.jac(problem.x0).shape == (0, 2)


@pytest.mark.parametrize("form", ["method", "partial", "keyword", "star", "default", "gradient"])
def test_forms_of_functions(form):
    class Model:
        def loss(self, x, scale=2.0):
            return scale * np.sum(x**2)

    def with_keyword(x, *, scale=2.0):
        return scale * np.sum(x**2)

    def with_star(x, *more):
        return more[0] * np.sum(x**2)

    f, args = {
        "method": (Model().loss, ()),
        "partial": (functools.partial(lambda scale, x: scale * np.sum(x**2), 2.0), ()),
        "keyword": (with_keyword, ()),
        "star": (with_star, (2.0,)),
        "default": (Model().loss, (2.0,)),
        "gradient": (lambda x: np.sum(sg.grad(lambda x: np.sum(x**3))(x)) * 2 / 3, ()),
    }[form]
    problem = sg.to_scipy(f, np.array([1.0, 2.0]), args=args)
    x = problem.x0
    assert problem.fun(x) == pytest.approx(10.0)
    np.testing.assert_allclose(problem.jac(x), [4.0, 8.0])
    np.testing.assert_allclose(problem.hess(x), 4 * np.eye(2))
    np.testing.assert_allclose(problem.hessp(x, x), [4.0, 8.0])


# ---- one evaluation for both


@pytest.fixture
def evaluations(monkeypatch):
    """Count the runs of programs."""
    ran = []
    call = sg.Function.__call__
    monkeypatch.setattr(sg.Function, "__call__", lambda self, *a, **k: ran.append(self.__name__) or call(self, *a, **k))
    return ran


@pytest.mark.of_numpy
def test_value_and_gradient_share_an_evaluation(evaluations):
    problem = sg.to_scipy(loss, TREES["dict"])
    x = problem.x0
    for first, second in [(problem.fun, problem.jac), (problem.jac, problem.fun)]:
        evaluations.clear()
        first(x), second(x)
        assert evaluations == ["loss_value_and_grad"]
        second(x + 1)
        assert len(evaluations) == 2


def test_what_has_changed_is_computed_again():
    y = np.array([1.0, 2.0])
    problem = sg.to_scipy(lambda x, y: np.sum((x - y) ** 2), np.zeros(2))
    x = problem.x0.copy()
    assert problem.fun(x, y) == 5.0
    x += 1  # in place, as optimisers do
    np.testing.assert_array_equal(problem.jac(x, y), [0.0, -2.0])
    assert problem.fun(x, y + 1) == 5.0
    assert problem.fun(x, y) == 1.0
    y += 1
    assert problem.fun(x, y) == 5.0
    assert problem.fun(np.array([0.0, -0.0]), np.zeros(2)) == 0.0


def test_results_are_the_callers_own():
    problem = sg.to_scipy(loss, TREES["vector"])
    before = problem.jac(problem.x0).copy()
    for result in (problem.jac(problem.x0), problem.unravel(problem.x0)):
        result[:] = 0
    np.testing.assert_array_equal(problem.jac(problem.x0), before)


def test_nothing_is_compiled_before_it_is_called(evaluations):
    problem = sg.to_scipy(loss, TREES["vector"])
    assert evaluations == []
    problem.hessp(problem.x0, problem.x0)
    assert evaluations == ["loss_hvp"]


def test_functions_pickle():
    problem = sg.to_scipy(loss, TREES["dataclass"], args=(2.0,))
    expected = problem.jac(problem.x0)
    for twin in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
        np.testing.assert_array_equal(twin.jac(problem.x0), expected)
        assert isinstance(twin.unravel(twin.x0), Line)


# ---- refusals


@pytest.mark.parametrize("x0", [np.arange(3), {"a": 1.0, "n": 3}, [1j], np.ones(2, bool), {"a": None}, "abc"])
def test_a_start_that_is_not_real_is_refused(x0):
    with pytest.raises(DTypeError, match="x0"):
        sg.to_scipy(loss, x0)


def test_wrong_trees_and_vectors_are_refused():
    problem = sg.to_scipy(loss, {"a": np.ones(2), "b": 1.0})
    with pytest.raises(ShapeError, match=r"\(2,\), x0 has 3 numbers"):
        problem.fun(np.ones(2))
    with pytest.raises(ShapeError, match=r"x0.a has the shape \(2,\), here it has \(3,\)"):
        problem.ravel({"a": np.ones(3), "b": 1.0})
    with pytest.raises(ArgumentError, match="structure"):
        problem.ravel({"a": np.ones(2)})
    with pytest.raises(ArgumentError, match="no arrays"):
        sg.to_scipy(loss, {})
    with pytest.raises(ArgumentError, match="unknown option"):
        sg.to_scipy(loss, 1.0, optimise=1)
    with pytest.raises(ShapeError, match="scalar"):
        sg.to_scipy(lambda x: np.exp(x), np.ones(2)).hess(np.ones(2))
    with pytest.raises(ArgumentError, match="too many positional arguments"):
        sg.to_scipy(loss, 1.0).hessp(np.ones(1), np.ones(1), 1.0, 2.0)


# ---- SciPy


def rosenbrock(p, a=1.0):
    x = np.concatenate([p["first"], p["rest"].ravel()])
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (a - x[:-1]) ** 2)


START = {"first": np.array([0.5, 1.2]), "rest": np.full((2, 2), 0.5, np.float64)}


@pytest.mark.parametrize(
    ("method", "second"),
    [
        *[(method, "") for method in ("L-BFGS-B", "BFGS", "SLSQP")],
        *[(method, "hess") for method in ("Newton-CG", "trust-exact", "trust-constr")],
        *[(method, "hessp") for method in ("Newton-CG", "trust-krylov")],
    ],
)
def test_minimize(method, second):
    problem = sg.to_scipy(rosenbrock, START, args=(1.0,))
    options = {second: getattr(problem, second)} if second else {}
    found = optimize.minimize(problem.fun, problem.x0, jac=problem.jac, method=method, **options)
    np.testing.assert_allclose(problem.unravel(found.x)["rest"], np.ones((2, 2)), atol=1e-3)


def test_arguments_may_come_from_scipy():
    problem = sg.to_scipy(rosenbrock, START)
    args = (np.array(0.0),)
    found = optimize.minimize(
        problem.fun, problem.x0, args=args, jac=problem.jac, hessp=problem.hessp, method="Newton-CG"
    )
    np.testing.assert_allclose(found.x, 0, atol=1e-2)
    assert sg.to_scipy(rosenbrock, START, args=0.0).fun(np.zeros(6)) == 0.0


def test_constraints():
    def distance(p):
        return (p["x"] - 1) ** 2 + np.sum((p["y"] - 2.5) ** 2)

    def inside(p):
        return [p["x"] - 2 * p["y"] + 2, -p["x"] - 2 * p["y"] + 6, -p["x"] + 2 * p["y"] + 2]

    start = {"x": 2.0, "y": np.zeros(1)}
    problem, bounds = sg.to_scipy(distance, start), sg.to_scipy(inside, start)
    constraint = {"type": "ineq", "fun": bounds.fun, "jac": bounds.jac}
    found = optimize.minimize(problem.fun, problem.x0, jac=problem.jac, method="SLSQP", constraints=constraint)
    np.testing.assert_allclose(found.x, [1.4, 1.7], atol=1e-6)
    circle = sg.to_scipy(lambda p: p["x"] ** 2 + p["y"][0] ** 2 - 1, start)  # a number is a constraint as well
    constraint = {"type": "eq", "fun": circle.fun, "jac": circle.jac}
    found = optimize.minimize(problem.fun, problem.x0, jac=problem.jac, method="SLSQP", constraints=constraint)
    np.testing.assert_allclose(found.x, np.array([1, 2.5]) / np.hypot(1, 2.5), atol=1e-5)


def test_least_squares_and_root():
    t = np.linspace(0, 2, 20)
    y = 2.5 * np.exp(-1.3 * t) + 0.5
    problem = sg.to_scipy(
        lambda p, t, y: p["height"] * np.exp(-p["rate"] * t) + p["floor"] - y,
        {"height": 1.0, "rate": 1.0, "floor": np.zeros(1)},
        args=(t, y),
    )
    found = problem.unravel(optimize.least_squares(problem.fun, problem.x0, jac=problem.jac).x)
    np.testing.assert_allclose([found["height"], found["rate"], found["floor"][0]], [2.5, 1.3, 0.5], rtol=1e-6)
    equations = sg.to_scipy(
        lambda p: (p["x"] ** 2 + np.sum(p["y"] ** 2) - 2, p["x"] - p["y"]), {"x": 2.0, "y": np.full(1, 0.5)}
    )
    for method in ("hybr", "lm"):
        found = optimize.root(equations.fun, equations.x0, jac=equations.jac, method=method)
        np.testing.assert_allclose(found.x, [1, 1], rtol=1e-8)
