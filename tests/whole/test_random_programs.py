"""Random programs: the user's function, the interpreter and the compiled program agree; so do gradients."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import symgrad as sg
from symgrad.core.graph import verify
from symgrad.core.interpret import interpret
from tests.oracle import check_grads_in_turn

N, M = 4, 3  # of which N is symbolic in some of the tests

# Smooth, and with values of moderate size, so that differences can tell.
UNARY = {
    "sin": np.sin,
    "tanh": np.tanh,
    "exp": lambda x: np.exp(np.tanh(x)),
    "log": lambda x: np.log(1.5 + np.sin(x)),
    "sqrt": lambda x: np.sqrt(x * x + 1),
    "square": lambda x: np.tanh(x) ** 2,
    "negative": lambda x: -x,
    "reciprocal": lambda x: 1 / (2 + np.cos(x)),
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "half": lambda x: 0.5 * x + 1,
    "power": lambda x: (x * x + 1) ** -1.5,
    "identity": lambda x: x * 1 + 0,
    "stop": lambda x: x + sg.stop_gradient(x) * 0,
}
BINARY = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * np.tanh(y),
    "divide": lambda x, y: x / (1.5 + np.cos(y)),
    "logaddexp": np.logaddexp,
    "hypot": lambda x, y: np.sqrt(x * x + y * y + 1),
    "where": lambda x, y: np.where(np.sin(3 * x) > 5, x, y),
    "select": lambda x, y: np.where(y * 0 < 1, x, y),
}
SHAPED = {  # of an array of any shape
    "sum": lambda x: np.sum(x) * np.ones(()),
    "mean": lambda x: np.mean(x) + x,
    "mean_rows": lambda x: x - x.mean(axis=0) if x.ndim else x,
    "sum_last": lambda x: np.sum(x, axis=-1, keepdims=True) * x if x.ndim else x,
    "softmax": lambda x: np.exp(x - x.max(axis=-1, keepdims=True)) / 3 if x.ndim else x,
    "normalise": lambda x: x / np.sqrt(np.sum(x * x) + 1),
    "flip": lambda x: x[::-1] if x.ndim else x,
    "shift": lambda x: np.concatenate([x[1:], x[:1]]) if x.ndim else x,
    "difference": lambda x: x[1:] - x[:-1] if x.ndim else x,
    "first": lambda x: x[0] if x.ndim else x,
    "cumulate": lambda x: np.cumsum(x, axis=0) / 4 if x.ndim else x,
    "transpose": lambda x: x.T,
    "new_axis": lambda x: x[..., None] if x.ndim == 1 else x,
    "ravel": lambda x: x.ravel(),
    "outer": lambda x: np.outer(x, x) if x.ndim == 1 else x,
    "gram": lambda x: np.tanh(x.T @ x) if x.ndim == 2 else x,
    "gather": lambda x: x[np.array([0, 0])] if x.ndim else x,
    "write": lambda x: written(x) if x.ndim else x,
    "norm": lambda x: np.linalg.norm(x + 3) * x,
    "variance": lambda x: np.var(x, axis=-1) if x.ndim else x,
}


def written(x):
    y = x.copy()
    y[0] = np.sin(y[-1])
    y[1:] *= 0.5
    return y


def combine(name, x, y):
    """A binary operator where the shapes fit, else the first."""
    try:
        np.broadcast_shapes(np.shape(x), np.shape(y))
    except ValueError:
        return x
    return BINARY[name](x, y)


def contract(x, y):
    fits = x.ndim in (1, 2) and y.ndim in (1, 2) and x.shape[-1] == y.shape[0]
    return np.tanh(x @ y / 2) if fits else x


STEPS = [*UNARY, *SHAPED, *BINARY, "matmul"]
steps = st.lists(
    st.tuples(
        st.sampled_from(STEPS),
        st.integers(0, 30),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=9,
)


def run(program, x, y, s):
    """The program on three values; each step takes what some earlier ones gave, never a large array."""
    values = [x, y, s * 1.0 * np.ones(())]
    for name, i, j in program:
        a, b = values[i % len(values)], values[j % len(values)]
        if name == "matmul":
            result = contract(a, b)
        elif name in BINARY:
            result = combine(name, a, b)
        else:
            result = UNARY[name](a) if name in UNARY else SHAPED[name](a)
        values.append(result if result.ndim <= 2 else np.sum(result, axis=0))
    total = 0.0
    for value in values[3:]:
        total = total + np.mean(value)
    return np.sin(total) + total * 0.25 if len(program) % 2 else total


def arguments(seed, n=N):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, M)), rng.standard_normal(M), float(rng.standard_normal())


def value_of(f, args):
    """Return NumPy's value; programs that end in a mean of nothing are left out."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        value = f(*args)
    assume(np.isfinite(value))
    return value


def slope(f, args, directions, eps=1e-5):
    def at(step):
        return f(*[x + step * d for x, d in zip(args, directions, strict=True)])

    return (8 * (at(eps) - at(-eps)) - (at(2 * eps) - at(-2 * eps))) / (12 * eps)


@pytest.mark.slow
@given(steps, st.integers(0, 99))
def test_values_and_gradients(program, seed):
    def f(x, y, s):
        return run(program, x, y, s)

    args = arguments(seed)
    expected = value_of(f, args)
    traced = sg.compile(f).trace(*args)
    verify(traced.graph)
    (value,) = interpret(traced.graph.outputs, dict(zip(traced.graph.inputs, args, strict=True)))
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    rng = np.random.default_rng(seed + 1)
    directions = [rng.standard_normal(np.shape(x)) for x in args]
    numeric = slope(f, args, directions)
    reference = None
    for level in (0, 1, 2):
        value, gradients = sg.value_and_grad(f, (0, 1, 2), optimize=level)(*args)
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)
        along = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True))
        np.testing.assert_allclose(along, numeric, rtol=2e-6, atol=2e-7)
        for g, x in zip(gradients, args, strict=True):
            assert np.shape(g) == np.shape(x) and g.dtype == np.float64
        if reference is not None:
            for g, r in zip(gradients, reference, strict=True):
                np.testing.assert_allclose(g, r, rtol=1e-8, atol=1e-10)
        reference = reference or gradients


@pytest.mark.slow
@given(steps, st.integers(0, 99), st.sampled_from([1, 2]))
def test_second_derivatives_in_a_direction(program, seed, level):
    def f(x):
        return run(program, x, y, s)

    x, y, s = arguments(seed)
    value_of(f, (x,))
    v = np.random.default_rng(seed + 1).standard_normal(x.shape)
    product = sg.hvp(f, optimize=level)(x, v)
    gradient = sg.grad(f, optimize=0)
    numeric = slope(gradient, (x,), (v,))
    np.testing.assert_allclose(product, numeric, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.sum(sg.jvp(gradient, (x,), (v,))[1] * v), np.sum(product * v), rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@given(steps, st.integers(0, 99), st.sampled_from([0, 1, 2]))
def test_sizes_that_become_symbols(program, seed, level):
    def f(x, y, s):
        return run(program, x, y, s)

    symbolic = sg.value_and_grad(f, (0, 1, 2), optimize=level)
    value_of(f, arguments(seed, N))
    for n in (N, N + 3, N + 1):
        args = arguments(seed + n, n)
        value, gradients = symbolic(*args)
        exact, expected = sg.value_and_grad(f, (0, 1, 2), optimize=0)(*args)
        np.testing.assert_allclose(value, f(*args), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(value, exact, rtol=1e-10, atol=1e-12)
        for g, e in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", STEPS)
def test_every_step_alone(name):
    """So that a failure of one operator is found without shrinking: of each value, and of what it gives."""
    program, turn = [(name, 0, 0), (name, 1, 1), (name, 2, 2), (name, 3, 1)], STEPS.index(name)
    check_grads_in_turn(lambda x, y, s: run(program, x, y, s), arguments(0), turn)


@pytest.mark.slow
@given(steps, st.integers(0, 99), st.sampled_from([1, 2]))
def test_float32_stays_float32(program, seed, level):
    def f(x, y, s):
        return run([("half", 0, 0), *(step for step in program if step[0] != "sum")], x, y, s)

    wide = arguments(seed)
    value_of(lambda x, y: loss32(f, x, y), wide[:2])
    x, y = (a.astype(np.float32) for a in wide[:2])
    value, gradients = sg.value_and_grad(lambda x, y: loss32(f, x, y), (0, 1), optimize=level)(x, y)
    assert gradients[0].dtype == gradients[1].dtype == np.float32
    assert value.dtype == np.asarray(loss32(f, x, y)).dtype
    expected = sg.grad(lambda x, y: loss32(f, x, y), (0, 1))(*wide[:2])
    for g, e in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=2e-2, atol=2e-3)


def loss32(f, x, y):
    return f(x, y, np.sum(y) / 3)
