"""Roots, fixed points, minima, linear systems, equations in time, integrals: values and derivatives of solutions."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree

RNG = np.random.default_rng(3)
A = RNG.standard_normal((4, 4))
B = RNG.standard_normal(4)


@pytest.fixture(params=[0, 1, 2])
def level(request):
    with sg.options(optimize=request.param):
        yield request.param


def close(a, b, rtol=1e-8, atol=1e-10):
    a, b = map(tree.flatten, (a, b))
    assert a[1] == b[1]
    for x, y in zip(a[0], b[0], strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def slopes(f, x, step=1e-5):
    """Central differences of a function with any result by an array."""
    columns = [
        (f(x + step * e.reshape(np.shape(x))) - f(x - step * e.reshape(np.shape(x)))) / (2 * step)
        for e in np.eye(np.size(x))
    ]
    return np.stack(columns, axis=-1).reshape(*np.shape(columns[0]), *np.shape(x))


# ---- roots


def cube_root(a):
    return sg.root(lambda x, a: x**3 - a, 1.0, a)


@pytest.mark.slow
def test_a_root_has_derivatives_of_any_order_in_both_directions(level):
    first = sg.grad(cube_root)
    close(sg.compile(cube_root)(8.0), 2.0)
    close(first(8.0), 1 / 12)
    close(sg.grad(first)(8.0), -2 / 9 * 8 ** (-5 / 3))
    close(sg.grad(sg.grad(first))(8.0), 10 / 27 * 8 ** (-8 / 3))
    close(sg.jvp(cube_root, (8.0,), (3.0,))[1], 1 / 4)
    close(sg.jacfwd(sg.jacfwd(cube_root))(8.0), -2 / 9 * 8 ** (-5 / 3))
    close(sg.jacfwd(first)(8.0), -2 / 9 * 8 ** (-5 / 3))


def system(x, p):
    pull = np.tanh(A[:2, :2] @ x["u"]) + x["w"] * p["b"] - p["c"]
    return {"first": pull - 2 * x["u"], "second": x["w"] ** 3 + x["u"][0] * p["b"] - 1}


@pytest.mark.slow
def test_a_system_of_trees():
    def solution(b, c):
        x = sg.root(system, {"u": np.zeros(2), "w": 0.5}, {"b": b, "c": c})
        return np.concatenate([x["u"], [x["w"]]])

    c, solved = np.array([0.3, -0.2]), sg.compile(solution)
    u = solved(0.7, c)
    found = system({"u": u[:2], "w": u[2]}, {"b": 0.7, "c": c})
    close(found, {"first": np.zeros(2), "second": 0.0})
    close(sg.jacobian(solution)(0.7, c), slopes(lambda b: solved(b, c), 0.7), rtol=1e-7)
    by_c = sg.compile(sg.jacobian(solution, 1))
    close(by_c(0.7, c), slopes(lambda c: solved(0.7, c), c), rtol=1e-7)
    close(sg.jacfwd(solution, 1)(0.7, c), by_c(0.7, c))
    loss = lambda c: np.sum(solution(0.7, c) ** 2)
    hessian = sg.hessian(loss)(c)
    close(hessian, slopes(sg.grad(loss), c), rtol=1e-6)
    close(sg.jacfwd(sg.grad(loss))(c), hessian)


def test_what_the_function_reads_from_outside_counts_as_an_argument():
    def by_closure(a):
        scale = np.exp(a)
        return sg.root(lambda x: x**3 - scale, 1.0)

    close(sg.grad(by_closure)(2.0), np.exp(2 / 3) / 3)
    close(sg.grad(sg.grad(by_closure))(2.0), np.exp(2 / 3) / 9)


def test_the_start_has_no_derivative_and_steps_are_damped():
    start = lambda x0: sg.root(lambda x: np.arctan(x - 1), x0)  # full steps overshoot ever more
    close(sg.compile(start)(10.0), 1.0)
    close(sg.grad(start)(10.0), 0.0)


def test_the_precision_is_that_of_the_start():
    x = np.float32(1.0)
    root = sg.compile(lambda a: sg.root(lambda x: x**3 - a, x))(np.float32(8))
    assert root.dtype == np.float32
    close(root, 2.0, rtol=1e-6)
    gradient = sg.grad(lambda a: sg.root(lambda x: x**3 - a, x))(np.float32(8))
    assert gradient.dtype == np.float32
    close(gradient, 1 / 12, rtol=1e-6)


@pytest.mark.slow
def test_what_does_not_converge_is_nan(level):
    none = lambda a: sg.root(lambda x: x**2 + a, 1.0)
    assert np.isnan(sg.compile(none)(1.0))
    assert np.isnan(sg.grad(none)(1.0))
    assert np.isnan(sg.compile(lambda a: sg.root(lambda x: x**3 - a, 1.0, maxiter=3))(8.0))
    assert np.isnan(sg.compile(lambda a: sg.fixed_point(lambda x: a * x + 1, 1.0))(2.0))
    assert np.isnan(sg.compile(lambda a: sg.minimize(lambda x: np.exp(a * x), 1.0, maxiter=30))(2.0))


def test_the_iteration_stands_once_in_a_gradient():
    source = sg.grad(lambda a: np.sum(sg.fixed_point(lambda x: 0.5 * (x + a / x), np.ones(2)))).source(4.0, optimize=1)
    assert source.count("while ") == 1
    of_two = sg.value_and_grad(lambda a: np.sum(sg.root(lambda x: x**3 - a * x[::-1], np.ones(2))))
    assert of_two.source(8.0, optimize=1).count("linalg.solve") == 2


def test_a_single_unknown_is_iterated_on_a_number():
    for solver in (cube_root, lambda a: sg.minimize(lambda x: x**4 - a * x, 1.0)):
        source = sg.value_and_grad(solver).source(8.0)
        assert type(sg.compile(solver)(8.0)) is np.float64
        assert not any(name in source for name in ("linalg", "reshape", "np.sum(", "np.max("))


def test_outside_of_a_trace_solvers_are_compiled():
    assert sg.root(lambda x, a: x**3 - a, 1.0, 27.0) == pytest.approx(3.0)
    assert sg.fixed_point(np.cos, 1.0) == pytest.approx(0.7390851332151607)
    assert sg.minimize(lambda x: (x - 2) ** 2, 0.0) == pytest.approx(2.0)
    close(sg.cg(np.eye(2) * 2, np.ones(2)), np.full(2, 0.5))
    close(sg.gmres(np.eye(2) * 2, np.ones(2)), np.full(2, 0.5))
    assert sg.quad(np.sin, 0.0, np.pi) == pytest.approx(2.0)
    close(sg.odeint(lambda y, t: -y, 1.0, np.array([0.0, 1.0])), np.exp([0.0, -1.0]), rtol=1e-6)


# ---- fixed points


def layers(W, b, n):
    return sg.fixed_point(lambda x: np.tanh(W @ x + b), np.zeros(n))


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 120])
def test_a_fixed_point_is_differentiated_as_a_root(n):
    rng = np.random.default_rng(n)
    W, b = 0.4 * rng.standard_normal((n, n)) / np.sqrt(n), rng.standard_normal(n)
    x = sg.compile(lambda W, b: layers(W, b, n))(W, b)
    close(x, np.tanh(W @ x + b))
    d = 1 - x * x  # of x = tanh(u), du = W dx + db
    by_b = np.linalg.solve((np.eye(n) - d[:, None] * W).T, 2 * x) * d
    loss = lambda W, b: np.sum(layers(W, b, n) ** 2)
    close(sg.grad(loss, (0, 1))(W, b), (np.outer(by_b, x), by_b))
    close(sg.jvp(lambda b: loss(W, b), (b,), (W[0],))[1], by_b @ W[0])
    along = lambda b: sg.grad(loss, 1)(W, b)
    close(sg.hvp(loss, 1)(W, b, W[0]), (along(b + 1e-5 * W[0]) - along(b - 1e-5 * W[0])) / 2e-5, rtol=1e-5, atol=1e-8)


def test_fixed_points_of_any_number_of_unknowns_are_one_program():
    def loss(w, x):
        return np.sum(sg.fixed_point(lambda z: 0.5 * np.tanh(w * z + x), np.zeros(w.shape[0])) ** 2)

    rng = np.random.default_rng(0)
    pairs = [rng.standard_normal((2, d)) for d in (3, 1)]
    wanted = [sg.grad(loss)(*pair) for pair in pairs]  # and the function is there before a trace begins
    slope = sg.grad(loss).compile("float64[d]", "float64[d]")
    for pair, one in zip(pairs, wanted, strict=True):
        close(slope(*pair), one)


def test_a_damped_fixed_point():
    f = lambda x, a: -a * x + 1  # alone it swings ever wider
    solved = lambda a: sg.fixed_point(f, 0.0, a, damping=0.4)
    close(sg.value_and_grad(solved)(1.5), (np.float64(1 / 2.5), np.float64(-1 / 2.5**2)))


# ---- linear systems

SOLVERS = {
    "cg": (lambda a, b: sg.cg(lambda x: a @ (a.T @ x) + x, b, tol=1e-13), lambda a: a @ a.T + np.eye(4)),
    "cg, preconditioned": (
        lambda a, b: sg.cg(a @ a.T + np.eye(4), b, tol=1e-13, M=lambda x: x / np.sum(a * a, 1)),
        lambda a: a @ a.T + np.eye(4),
    ),
    "gmres": (lambda a, b: sg.gmres(lambda x: a @ x, b, tol=1e-13), lambda a: a),
    "gmres, restarted": (
        lambda a, b: sg.gmres(lambda x: 4 * x + a @ x, b, tol=1e-13, restart=2),
        lambda a: a + 4 * np.eye(4),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOLVERS)
def test_linear_systems_have_the_derivatives_of_a_direct_solution(kind):
    solver, matrix = SOLVERS[kind]
    mine = lambda a, b: np.sum(solver(a, b) ** 3)
    theirs = lambda a, b: np.sum(np.linalg.solve(matrix(a), b) ** 3)
    close(sg.compile(mine)(A, B), theirs(A, B))
    close(sg.grad(mine, (0, 1))(A, B), sg.grad(theirs, (0, 1))(A, B))
    close(sg.jvp(mine, (A, B), (A.T, A[0]))[1], sg.jvp(theirs, (A, B), (A.T, A[0]))[1])
    close(sg.hessian(mine)(A, B), sg.hessian(theirs)(A, B), rtol=1e-7)
    close(sg.hvp(mine, 1)(A, B, A[0]), sg.hvp(theirs, 1)(A, B, A[0]))


def test_linear_systems_with_a_constant_matrix():
    solved = lambda b: np.sum(sg.cg(lambda x: 2.0 * x, b))
    close(sg.grad(solved)(np.ones(2)), np.full(2, 0.5))


def test_linear_systems_of_trees():
    def apply(a, x):
        return {"u": a * x["u"] + x["v"], "v": 3 * x["v"] - x["u"]}

    b = {"u": np.array([1.0, 2.0]), "v": np.array([0.5, -1.0])}
    solved = lambda a: sg.gmres(lambda x: apply(a, x), b, tol=1e-12)
    compiled = sg.compile(solved)
    close(apply(2.0, compiled(2.0)), b)
    close(sg.jacobian(lambda a: solved(a)["u"])(2.0), slopes(lambda a: compiled(a)["u"], 2.0), rtol=1e-6)


def test_linear_systems_that_do_not_converge_are_nan():
    turned = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert np.all(np.isnan(sg.compile(lambda b: sg.gmres(turned, b, restart=1))(np.array([1.0, 0.0]))))
    assert np.all(np.isnan(sg.compile(lambda b: sg.cg(A @ A.T, b, maxiter=2))(B)))
    assert sg.compile(lambda b: sg.cg(A @ A.T, b))(np.zeros(4)).tolist() == [0.0] * 4


# ---- minima


@pytest.mark.slow
def test_the_best_weights_as_a_function_of_a_penalty(level):
    X, y = A, B

    def ridge(penalty):
        return sg.minimize(lambda w: np.sum((X @ w - y) ** 2) + penalty * np.sum(w**2), np.zeros(4))

    direct = lambda penalty: np.linalg.solve(X.T @ X + penalty * np.eye(4), X.T @ y)
    close(sg.compile(ridge)(0.5), direct(0.5))
    close(sg.jacobian(ridge)(0.5), sg.jacobian(direct)(0.5))
    close(sg.jacfwd(sg.jacobian(ridge))(0.5), sg.jacfwd(sg.jacobian(direct))(0.5))


def test_a_minimum_far_away_in_a_bent_valley():
    valley = lambda p, a: (a - p["x"]) ** 2 + 100 * (p["y"] - p["x"] ** 2) ** 2
    where = lambda a: sg.minimize(valley, {"x": -1.2, "y": 1.0}, a)
    close(sg.compile(where)(1.5), {"x": np.float64(1.5), "y": np.float64(2.25)})
    close(sg.grad(lambda a: where(a)["y"])(1.5), 3.0)
    close(sg.grad(sg.grad(lambda a: where(a)["y"]))(1.5), 2.0)


def test_a_saddle_is_no_minimum():
    bent = lambda x, a: x[0] ** 4 / 4 - a * x[0] ** 2 / 2 + x[1] ** 2
    beside = sg.compile(lambda a: sg.minimize(bent, np.array([1e-3, 1.0]), a))(2.0)
    close(beside, np.array([np.sqrt(2), 0.0]))
    assert np.all(np.isnan(sg.compile(lambda a: sg.minimize(bent, np.array([0.0, 1.0]), a))(2.0)))


# ---- differential equations

TIMES = np.array([0.0, 0.4, 1.0, 2.5])


def turning(y, t, a):
    return {"u": a * y["v"], "v": -a * y["u"]}


def turned(a, t, gradient="direct"):
    y = sg.odeint(turning, {"u": 1.0, "v": 0.0}, t, a, gradient=gradient, rtol=1e-10, atol=1e-10)
    return y["u"]


@pytest.mark.slow
@pytest.mark.parametrize("gradient", ["direct", "adjoint"])
def test_a_linear_equation_has_the_derivatives_of_its_solution(gradient):
    solved = lambda a, t: turned(a, t, gradient)
    exact = lambda a, t: np.cos(a * (t - t[0]))
    with sg.options(check_first=False):  # it would interpret each step; the exact solution tells more
        close(sg.compile(solved)(1.3, TIMES), exact(1.3, TIMES), atol=1e-8)
        close(sg.jacrev(solved, (0, 1))(1.3, TIMES), sg.jacrev(exact, (0, 1))(1.3, TIMES), atol=1e-7)
        loss = lambda f: lambda a: np.sum(f(a, TIMES) * B)
        close(sg.grad(sg.grad(loss(solved)))(1.3), sg.grad(sg.grad(loss(exact)))(1.3), atol=1e-6)


def test_an_adjoint_solution_is_for_reverse_mode_alone():
    with pytest.raises(
        sg.errors.NotDifferentiableError, match="backward rule of odeint_adjoint is not known to be linear"
    ):
        sg.jacfwd(lambda a: turned(a, TIMES, "adjoint"))(1.3)


def test_a_direct_solution_goes_forward_too():
    close(sg.jvp(lambda a: turned(a, TIMES), (1.3,), (2.0,))[1], -2 * TIMES * np.sin(1.3 * TIMES), atol=1e-7)


def test_time_may_run_backwards(level):
    close(sg.compile(turned)(1.3, -TIMES), np.cos(1.3 * TIMES), atol=1e-8)


def predators(y, t, p):
    return np.stack([p[0] * y[0] - p[1] * y[0] * y[1], -p[2] * y[1] + p[3] * y[0] * y[1] + 0.1 * np.sin(t)])


@pytest.mark.slow
@pytest.mark.parametrize("gradient", ["direct", "adjoint"])
def test_an_equation_that_is_not_linear(gradient):
    p, y0 = np.array([1.0, 0.4, 0.8, 0.3]), np.array([2.0, 1.0])
    solve = lambda p, y0: sg.odeint(predators, y0, TIMES, p, gradient=gradient, rtol=1e-10, atol=1e-10)
    compiled = sg.compile(solve)
    value = compiled(p, y0)
    integrate = pytest.importorskip("scipy.integrate")
    exact = integrate.solve_ivp(lambda t, y: predators(y, t, p), (0, 2.5), y0, t_eval=TIMES, rtol=1e-12, atol=1e-12)
    close(value, exact.y.T, rtol=1e-7)
    by_p, by_y0 = sg.grad(lambda p, y0: np.sum(solve(p, y0) ** 2), (0, 1))(p, y0)
    loss = lambda p, y0: np.sum(compiled(p, y0) ** 2)
    close(by_p, slopes(lambda p: loss(p, y0), p), rtol=1e-6)
    close(by_y0, slopes(lambda y: loss(p, y), y0), rtol=1e-6)


def test_a_solution_that_ends_is_nan_beyond():
    y = sg.compile(lambda a: sg.odeint(lambda y, t: a * y**2, 2.0, TIMES, mxstep=200))(1.0)
    close(y[:2], np.array([2.0, 10.0]), rtol=1e-6)
    assert np.all(np.isnan(y[2:]))


def test_single_precision_of_an_equation():
    y = sg.compile(lambda a: sg.odeint(lambda y, t: -a * y, np.ones(2, np.float32), TIMES, a))
    with pytest.raises(TypeError):
        y(1.0)
    y = sg.compile(lambda a: sg.odeint(lambda y, t: -a * y, np.ones(2, np.float32), TIMES))(1.0)
    assert y.dtype == np.float32
    close(y[:, 0], np.exp(-TIMES), rtol=3e-3)


# ---- integrals


@pytest.mark.slow
def test_an_integral_has_derivatives_by_its_ends_and_by_what_it_reads(level):
    area = lambda a, low, high: sg.quad(lambda x: np.sin(a * x), low, high)
    exact = lambda a, low, high: (np.cos(a * low) - np.cos(a * high)) / a
    close(sg.compile(area)(1.3, 0.2, 2.0), exact(1.3, 0.2, 2.0))
    close(sg.grad(area, (0, 1, 2))(1.3, 0.2, 2.0), sg.grad(exact, (0, 1, 2))(1.3, 0.2, 2.0))
    one = lambda f: lambda a: f(a, a, 2 * a)
    close(sg.grad(sg.grad(one(area)))(1.3), sg.grad(sg.grad(one(exact)))(1.3))
    close(sg.jacfwd(one(area))(1.3), sg.grad(one(exact))(1.3))


INTEGRALS = {
    "of one end": (lambda a: sg.quad(lambda x: np.exp(-a * x), 0.0, np.inf), lambda a: 1 / a),
    "of the other": (lambda a: sg.quad(lambda x: np.exp(a * x), -np.inf, 0.0), lambda a: 1 / a),
    "downwards": (lambda a: sg.quad(lambda x: np.exp(a * x), 0.0, -np.inf), lambda a: -1 / a),
    "of both": (lambda a: sg.quad(lambda x: np.exp(-a * x * x), -np.inf, np.inf), lambda a: np.sqrt(np.pi / a)),
    "back": (lambda a: sg.quad(lambda x: np.exp(-a * x * x), np.inf, -np.inf), lambda a: -np.sqrt(np.pi / a)),
    "from an end": (lambda a: sg.quad(lambda x: np.exp(-x), a, np.inf), lambda a: np.exp(-a)),
    "infinite at an end": (lambda a: sg.quad(lambda x: a**2 / np.sqrt(x), 0.0, 1.0), lambda a: 2 * a**2),
    "with a corner": (lambda a: sg.quad(lambda x: np.abs(x - a), 0.0, 1.0), lambda a: (a**2 + (1 - a) ** 2) / 2),
    "that swings": (
        lambda a: sg.quad(lambda x: np.sin(300 * a * x), 0.0, 1.0),
        lambda a: (1 - np.cos(300 * a)) / 300 / a,
    ),
}


@pytest.mark.parametrize("kind", INTEGRALS)
def test_integrals(kind):
    mine, exact = INTEGRALS[kind]
    close(sg.compile(mine)(0.7), exact(0.7))
    close(sg.grad(mine)(0.7), sg.grad(exact)(0.7), rtol=1e-7)


def test_integrals_of_trees():
    def both(a):
        return sg.quad(lambda x, a: {"u": np.cos(x * a), "v": x}, 0.0, 1.0, a)

    a = np.array([1.0, 2.0])
    close(sg.compile(both)(a), {"u": np.sin(a) / a, "v": np.float64(0.5)})
    close(sg.jacobian(lambda a: both(a)["u"])(a), np.diag(np.cos(a) / a - np.sin(a) / a**2))


def test_an_integral_that_is_infinite_is_nan():
    assert np.isnan(sg.compile(lambda a: sg.quad(lambda x: a / x, 0.0, 1.0))(1.0))
    assert np.isnan(sg.compile(lambda a: sg.quad(lambda x: np.sin(a / x), 0.0, 1.0, maxiter=10))(1.0))


# ---- messages

REFUSED = {
    "integers": (lambda: sg.root(lambda x: x, 1), "x0 of sg.root has a leaf that is 1"),
    "too few": (lambda: sg.root(lambda x: x[:1], np.ones(2)), "the function of sg.root gives 1 numbers for 2"),
    "integers come out": (lambda: sg.root(lambda x: 1, 1.0), "what the function of sg.root gives has a leaf that is 1"),
    "no number": (lambda: sg.minimize(lambda x: x, np.ones(2)), r"the function of sg.minimize gives shape \(2,\)"),
    "no function": (lambda: sg.root(3, 1.0), "3 is not a function"),
    "another gradient": (
        lambda: sg.odeint(lambda y, t: y, 1.0, np.ones(2), gradient="both"),
        "sg.odeint: gradient='both'",
    ),
    "no times": (lambda: sg.odeint(lambda y, t: y, 1.0, 2.0), r"t of sg.odeint has the shape \(\)"),
    "two ends": (lambda: sg.quad(np.sin, np.zeros(2), 1.0), r"sg.quad: from shape \(2,\) to shape \(\)"),
    "no right side": (lambda: sg.cg(lambda x: x, np.arange(3)), "b of sg.cg has a leaf that is"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused(kind):
    function, message = REFUSED[kind]
    with pytest.raises(sg.errors.SymgradError, match=message):
        sg.compile(lambda x: (function(), x))(1.0)


# ---- functions without closures


def test_a_converted_function_is_called_with_what_it_read():
    def program(a, x):
        h = np.exp(a)
        f, outside = sg.closure_convert(lambda x: {"y": h * x["x"] + np.ones(3)}, {"x": x})
        assert len(outside) == 1
        return f({"x": 2 * x}, *[3 * y for y in outside])["y"]

    close(sg.compile(program)(0.5, B[:3]), 6 * np.exp(0.5) * B[:3] + 1)
    close(sg.jacobian(program)(0.5, B[:3]), 6 * np.exp(0.5) * B[:3])
    assert sg.closure_convert(np.sin, 1.0) == (np.sin, [])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, x, outside: f((x,), *outside), r"is called with \(\(\*,\),\)"),
        (lambda f, x, outside: f(x), "is given 0 values from outside"),
        (lambda f, x, outside: f(x[:2], *outside), r"converted for float64\[3\] is called with float64\[2\]"),
    ],
)
def test_a_converted_function_takes_what_it_was_converted_for(call, message):
    def program(a, x):
        f, outside = sg.closure_convert(lambda x: a * x, x)
        return call(f, x, outside)

    with pytest.raises(sg.errors.ArgumentError, match=message):
        sg.compile(program)(0.5, B[:3])


# ---- many at once

SEVERAL = np.array([8.0, 27.0, 1.5])
MANY = {
    "roots": (cube_root, lambda a: a ** (1 / 3)),
    "fixed points": (lambda a: sg.fixed_point(lambda x: 0.5 * (x + a / x), 1.0), np.sqrt),
    "minima": (lambda a: sg.minimize(lambda x: x**4 / 4 - a * x, 1.0), lambda a: a ** (1 / 3)),
    "linear systems": (lambda a: sg.cg(lambda x: a * x, np.ones(1))[0], lambda a: 1 / a),
    "integrals": (lambda a: sg.quad(lambda x: np.exp(-a * x), 0.0, 2.0), lambda a: (1 - np.exp(-2 * a)) / a),
    "equations in time": (
        lambda a: sg.odeint(lambda y, t: -a / 9 * y, 1.0, np.array([0.0, 2.0]), rtol=1e-10, atol=1e-12)[1],
        lambda a: np.exp(-2 / 9 * a),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MANY)
def test_many_solutions_at_once(kind):
    one, exact = MANY[kind]
    slope = sg.elementwise_grad(exact)(SEVERAL)
    with sg.options(check_first=False):  # it would interpret each step; the exact solution tells more
        close(sg.vmap(one)(SEVERAL), exact(SEVERAL), rtol=1e-7)
        close(sg.vmap(sg.grad(one))(SEVERAL), slope, rtol=1e-6)
        close(sg.grad(lambda a: np.sum(sg.vmap(one)(a)))(SEVERAL), slope, rtol=1e-6)


def test_of_many_those_that_do_not_converge_are_nan():
    roots = sg.vmap(lambda a: sg.root(lambda x: x**2 - a, 1.0))(np.array([4.0, -1.0, 9.0]))
    close(roots[[0, 2]], np.array([2.0, 3.0]))
    assert np.isnan(roots[1])


def test_equations_may_have_loops_and_branches_of_python():
    def f(x, a):
        power = x
        for _ in range(2):
            power = power * x
        if a > 5:
            return power - a
        return power - 2 * a

    with sg.options(loops="auto"):
        solved = lambda a: sg.root(f, 1.0, a)
        close(sg.value_and_grad(solved)(8.0), (np.float64(2.0), np.float64(1 / 12)))
        close(sg.compile(solved)(4.0), 2.0)


def test_ends_of_an_integral_may_be_integers():
    assert sg.grad(lambda a: sg.quad(lambda x: a * x, 0, 1))(3.0) == pytest.approx(0.5)
