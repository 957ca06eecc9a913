"""Hooks by `on_gradient`, at any order, in both directions, wherever marks may stand."""

import pickle

import numpy as np
import pytest

import symgrad as sg

X = np.array([0.3, -0.7, 1.1])
W = np.array([[1.0, 2.0, 0.5], [0.3, -1.0, 0.7], [-0.4, 0.2, 0.9]])
KEPT = np.array([True, False, True])

LINEAR = {  # the function, and its matrix
    "reversed": (lambda g: -0.5 * g, -0.5 * np.eye(3)),
    "over a number": (lambda g: g / 4, np.eye(3) / 4),
    "masked": (lambda g: np.where(KEPT, g, 0.0), np.diag(KEPT * 1.0)),
    "a product": (lambda g: W @ g, W),
    "centred": (lambda g: g - np.mean(g), np.eye(3) - 1 / 3),
    "a part": (lambda g: np.concatenate([g[1:], np.zeros(1)]), np.eye(3, k=1)),
    "zero": (lambda g: np.zeros(3), np.zeros((3, 3))),
    "written into": (lambda g: zeroed(g.copy()), np.diag([0.0, 1.0, 1.0])),
    "written over": (lambda g: zeroed(g), np.diag([0.0, 1.0, 1.0])),
    "named": (lambda g: sg.name(g, "looked_at"), np.eye(3)),
    "summed up": (np.cumsum, np.tril(np.ones((3, 3)))),
    "rolled and padded": (lambda g: np.pad(np.roll(g, 1), 1)[1:-1], np.eye(3)[[2, 0, 1]]),
}
OTHER = {
    "clipped": lambda g: np.clip(g, -0.2, 0.2),
    "shifted": lambda g: g + 1,
    "shifted by an array": lambda g: g - np.ones(3),
    "rounded": np.rint,
    "a remainder": lambda g: np.mod(g, 0.5),
    "squared": lambda g: g * g,
    "of unit length": lambda g: g / np.linalg.norm(g),
    "chosen by itself": lambda g: np.where(g > 0, g, 0.0),
    "a constant": lambda g: np.ones(3),
    "written into": lambda g: zeroed(g.copy(), 5.0),
    "written over": lambda g: zeroed(g, 5.0),
    "of integers": lambda g: g.astype(int).astype(float),
    "a sum of integers": lambda g: g * 0 + np.sum(10 * g, dtype=int),
    "from a sum to 1": lambda g: np.linspace(np.sum(g), 1.0, 3),
    "a sum from 1": lambda g: g + np.sum(g, initial=1.0),
    "stopped": lambda g: 2 * sg.stop_gradient(g),
}


def zeroed(g, value=0.0):
    g[0] = value
    return g


def through(function):
    return lambda x: np.tanh(W @ sg.on_gradient(np.sin(x), function))


def parts(x):
    """The Jacobians before and behind the hook."""
    return np.diag(np.cos(x)), (1 - np.tanh(W @ np.sin(x)) ** 2)[:, None] * W


@pytest.fixture(params=[0, 1, 2], autouse=True)
def level(request):
    with sg.options(optimize=request.param):
        yield request.param


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


# ---- reverse and forward


@pytest.mark.parametrize("kind", LINEAR)
def test_a_linear_function_is_a_transposed_jacobian_in_both_directions(kind):
    function, matrix = LINEAR[kind]
    before, behind = parts(X)
    expected = behind @ matrix.T @ before
    close(sg.jacrev(through(function))(X), expected)
    close(sg.jacfwd(through(function))(X), expected)
    close(sg.jvp(through(function), (X,), (W[0],))[1], expected @ W[0])
    _, pullback = sg.vjp(through(function), X)
    close(pullback(W[0])[0], expected.T @ W[0])


@pytest.mark.parametrize("kind", OTHER)
def test_another_function_is_called_in_reverse_and_refused_forward(kind):
    function = OTHER[kind]
    before, behind = parts(X)
    found = sg.jacrev(through(function))(X)
    with np.errstate(all="ignore"):
        expected = [before.T @ plain(function)(row.copy()) for row in behind]
    close(found, expected)
    with pytest.raises(sg.errors.NotDifferentiableError, match="not linear in the cotangent") as error:
        sg.jacfwd(through(function))(X)
    assert "reverse mode" in str(error.value)


def plain(function):
    """The function on arrays, outside of any trace."""
    return function if function is not OTHER["stopped"] else lambda g: 2 * g


def test_it_is_given_the_sum_over_all_uses():
    calls = []

    def note(g):
        calls.append(str(g.shape))
        return np.clip(g, -1, 1)

    def f(x):
        h = sg.on_gradient(x, note)
        return 0.8 * h[0] + np.sum(0.7 * h) + 5 * x[1]

    close(sg.grad(f)(X), [1.0, 5.7, 0.7])
    assert calls == ["(3,)"]


def test_two_calls_are_two_hooks():
    def f(x):
        a, b = sg.on_gradient(x, half), sg.on_gradient(x, half)
        return 3 * a + 5 * b + sg.on_gradient(sg.on_gradient(x, half), half)

    half = lambda g: np.minimum(g, 1.0) / 2
    assert sg.grad(f)(2.0) == 0.5 + 0.5 + 0.25


def test_no_derivative_no_call():
    def never(g):
        raise AssertionError

    def f(x):
        return np.sum(x) + np.sum(sg.stop_gradient(sg.on_gradient(x, never)))

    close(sg.grad(f)(X), np.ones(3))
    close(sg.compile(lambda x: sg.on_gradient(x, never))(X), X)


def of_roots(function):
    """Roots where they are not too small; at 0 their slope is infinite."""
    return lambda x: np.where(x > 5, sg.on_gradient(np.sqrt(x), function), 0.0)


def test_what_it_gives_flows_also_where_nothing_arrived():
    f = of_roots(lambda g: g + 1.0)
    close(sg.grad(lambda x: np.sum(f(x)))(np.array([4.0, 9.0])), [0.25, 2 / 6])


@pytest.mark.parametrize("function", [lambda g: -g, lambda g: np.clip(g, -1, 1), lambda g: g[::-1]])
def test_no_nan_comes_through_where_nothing_arrived_and_it_gives_zero(function):
    x = np.array([0.0, 9.0, 0.0])
    with np.errstate(all="ignore"):
        found = sg.grad(lambda x: np.sum(of_roots(function)(x)))(x)
    close(found, [0.0, function(np.ones(3))[1] / 6, 0.0])


def test_no_nan_comes_through_forward_number_by_number():
    with np.errstate(all="ignore"):
        found = sg.jacfwd(of_roots(lambda g: -0.5 * g))(np.array([0.0, 9.0]))
    close(found, np.diag([0, -1 / 12]))


@pytest.mark.parametrize("jacobian", [sg.jacrev, sg.jacfwd])
def test_what_moves_to_where_nothing_arrived_flows_on(jacobian):
    close(jacobian(of_roots(lambda g: g[::-1]))(np.array([4.0, 9.0])), [[0, 0], [0.25, 0]])


# ---- higher orders


def test_second_orders_agree_where_it_is_linear():
    def f(x):
        return np.sum(sg.on_gradient(np.sin(x) * x, lambda g: -2 * g) ** 2)

    hessian = sg.hessian(f)(X)
    close(sg.jacfwd(sg.grad(f))(X), hessian)
    close(sg.jacrev(sg.grad(f))(X), hessian)
    close(sg.hvp(f)(X, W[0]), hessian @ W[0])


def test_second_order_in_reverse_calls_it_again():
    f = lambda x: sg.on_gradient(x, lambda g: np.clip(g, -1, 1)) ** 2
    assert sg.grad(f)(0.25) == 0.5  # 2 * x, not clipped
    assert sg.grad(sg.grad(f))(0.25) == 1.0  # 2, clipped; and so is what the first has left of its slope
    with pytest.raises(sg.errors.NotDifferentiableError, match="linear"):
        sg.hvp(f)(0.25, 1.0)


# ---- places


def test_wrt_and_gradients_give_what_the_function_made():
    def f(x):
        return np.sum(sg.name(sg.on_gradient(3 * x, np.sign), "inside") ** 2)

    def g(x):
        return np.sum(sg.on_gradient(sg.name(3 * x, "outside"), np.sign) ** 2)

    close(sg.grad(f, wrt="inside")(X), 6 * X)
    close(sg.grad(g, wrt="outside")(X), np.sign(X))
    x = sg.Graph().input("x", "float64[n]")
    h = sg.on_gradient(3 * x, lambda g: np.zeros(g.shape) + np.sign(g))
    dh, dx = sg.gradients(np.sum(h**2), [h, x])
    for found, expected in zip(sg.function([x], [dh, dx])(X), [np.sign(X), 3 * np.sign(X)], strict=True):
        close(found, expected)


def test_it_may_keep_what_it_sees():
    def step(x):
        seen = {}

        def look(g):
            seen["d_h"] = g
            return g

        gradient = sg.grad(lambda x: np.sum(sg.on_gradient(np.sin(x), look) ** 2))(x)
        return gradient, seen["d_h"]

    gradient, d_h = sg.compile(step)(X)
    close(d_h, 2 * np.sin(X))
    close(gradient, d_h * np.cos(X))


def test_in_and_around_checkpoints():
    def block(x):
        h = np.sin(x)
        return sg.on_gradient(h, lambda g: g * h)  # reads what is computed again

    expected = sg.grad(lambda x: np.sum(block(block(x)) ** 2))(X)
    close(sg.grad(lambda x: np.sum(sg.checkpoint(lambda x: block(block(x)))(x) ** 2))(X), expected)
    close(sg.grad(lambda x: np.sum(sg.checkpoint(block)(sg.checkpoint(block)(x)) ** 2))(X), expected)
    h, hh = np.sin(X), np.sin(np.sin(X))
    close(expected, 2 * hh * hh * np.cos(h) * h * np.cos(X))


@pytest.mark.parametrize("ndim", [0, 1, 2])
def test_in_functions_of_rows_it_is_given_rows(ndim):
    function = (lambda g: g * np.exp(-np.sum(g))) if ndim else (lambda g: np.clip(g, -1, 1))
    row = lambda x: np.sum(sg.on_gradient(x, function) ** 2)
    rows = np.random.default_rng(0).standard_normal((4, 3, 2)[: ndim + 1])
    kinds = ("()->()", "(i)->()", "(i,j)->()")
    gradient = sg.grad(lambda x: np.sum(np.vectorize(row, signature=kinds[ndim])(x)))
    close(gradient(rows), [function(2 * x) for x in rows])


def test_symbolic_sizes_and_narrow_dtypes():
    f = lambda x: np.sum(sg.on_gradient(x, lambda g: np.clip(g, -1, 1)) ** 2)
    assert sg.grad(f).compile("float32[n]").signature == "x: float32[n] -> float32[n]"
    close(sg.grad(f)(np.array([0.25, 4], np.float32)), [0.5, 1])
    assert sg.grad(lambda x: sg.on_gradient(x, lambda g: 7.0) ** 2)(np.float32(1)).dtype == np.float32


def test_it_returns_its_argument():
    assert sg.on_gradient(X, np.negative) is X

    def written(x):
        sg.on_gradient(x.copy(), np.negative)[0] = 4.0

    with pytest.raises(sg.errors.WriteError, match="copy"):
        sg.grad(written)(X)


def test_compiled_programs_pickle():
    compiled = sg.grad(lambda x: np.sum(sg.on_gradient(x, lambda g: -g) ** 2)).compile(X)
    close(pickle.loads(pickle.dumps(compiled))(X), -2 * X)


def test_the_source_shows_it(level):
    def f(x):
        h = np.tanh(x)
        h = sg.on_gradient(h, lambda g: np.clip(g, -1, 1))
        return np.sum(h**2)

    source = sg.grad(f).source("float64[n]")
    if level == 1:
        assert "d_h = np.clip(2 * h, -1, 1)" in source
    assert "on_gradient" not in "".join(line for line in source.splitlines() if "#" not in line)


# ---- misuse


def returning(value):
    def hook(g):
        return value(g)

    return sg.grad(lambda x: np.sum(sg.on_gradient(x, hook) ** 2))


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (lambda g: None, "ArgumentError", "returns None"),
        (lambda g: 3.0, "ShapeError", r"returns shape \(\) for float64\[3\]"),
        (lambda g: g[:2], "ShapeError", r"returns shape \(2,\) for float64\[3\]"),
        (lambda g: g.astype(np.float32), "DTypeError", r"returns float32\[3\] for float64\[3\]"),
        (lambda g: np.zeros(3, int), "DTypeError", r"returns int64\[3\] for float64\[3\]"),
        (lambda g: [g, g], "DTypeError", "returns a list for"),
        (lambda g: sg.Graph().input("y", "float64[3]"), "GraphError", "belongs to another graph"),
        (lambda g: g @ np.ones(4), "ShapeError", "matmul"),
    ],
)
def test_what_it_returns_is_checked(value, kind, words):
    with pytest.raises(getattr(sg.errors, kind), match=words) as error:
        returning(value)(X)
    assert "test_hooks.py" in str(error.value)


def test_what_it_is_put_on_is_checked():
    with pytest.raises(sg.errors.ArgumentError, match="not a function"):
        sg.on_gradient(np.negative, X)
    with pytest.raises(sg.errors.ArgumentError, match="one array, not a dict"):
        sg.grad(lambda x: np.sum(sg.on_gradient({"x": x}, np.negative)["x"]))(X)
    with pytest.raises(sg.errors.DTypeError, match=r"no derivative flows through int64\[3\]"):
        sg.grad(lambda x: np.sum(x[sg.on_gradient(np.argsort(x), np.negative)]))(X)
