"""Any composition of transforms, at every level, against closed forms, finite differences and JAX."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import verify
from symgrad.errors import WriteError

X = np.array([0.3, -0.7, 1.1])
A = np.array([[1.0, 2.0, 0.5], [0.3, -1.0, 0.7]])


@pytest.fixture(params=[0, 1, 2], autouse=True)
def level(request):
    with sg.options(optimize=request.param):
        yield request.param


def close(result, expected, **tolerance):
    np.testing.assert_allclose(result, expected, **{"rtol": 1e-9, "atol": 1e-12, **tolerance})
    assert np.shape(result) == np.shape(expected)


def repeated(transform, f, times):
    for _ in range(times):
        f = transform(f)
    return f


# ---- closed forms


@pytest.mark.parametrize("order", range(1, 6))
def test_derivatives_of_any_order(order):
    derivative = repeated(sg.grad, lambda x: np.exp(2.0 * x) + x**4, order)
    expected = 2.0**order * np.exp(0.6) + np.prod(range(5 - order, 5)) * 0.3 ** (4 - order) * (order < 5)
    close(derivative(0.3), expected)


@pytest.mark.parametrize("inner", [sg.jacrev, sg.jacfwd, sg.jacobian])
@pytest.mark.parametrize("outer", [sg.jacrev, sg.jacfwd, sg.jacobian])
def test_jacobians_of_jacobians(inner, outer):
    expected = np.zeros((3, 3, 3))
    expected[range(3), range(3), range(3)] = 6 * X
    close(outer(inner(lambda x: x**3))(X), expected)


@pytest.mark.parametrize("transform", [sg.jacrev, sg.jacfwd, sg.jacobian])
def test_jacobian_of_gradient_is_the_hessian(transform):
    def f(x):
        return np.sum(np.sin(x) * np.roll(x, 1))

    close(transform(sg.grad(f))(X), sg.hessian(f)(X))
    by_hand = -np.diag(np.sin(X) * np.roll(X, 1))
    for i in range(3):
        by_hand[i, (i - 1) % 3] += np.cos(X[i])
        by_hand[(i - 1) % 3, i] += np.cos(X[i])
    close(sg.hessian(f)(X), by_hand)


def test_hessian_of_a_tree_is_a_tree_of_trees():
    def f(params):
        return np.sum(params["w"] ** 2 * params["b"])

    params = {"w": X, "b": 2.0}
    h = sg.hessian(f)(params)
    close(h["w"]["w"], np.diag(np.full(3, 4.0)))
    close(h["w"]["b"], 2 * X)
    close(h["b"]["w"], 2 * X)
    close(h["b"]["b"], 0.0)


def test_hessian_with_several_argnums():
    h = sg.hessian(lambda x, y: np.sum(x * x) * y**3, argnums=(0, 1))(X, 2.0)
    close(h[0][0], 16.0 * np.eye(3))
    close(h[0][1], 24.0 * X)
    close(h[1][0], 24.0 * X)
    close(h[1][1], 12.0 * np.sum(X * X))


def cubic(x, y):
    return np.sum(x**3 * y) + np.sum(np.outer(x, x)) * y


@pytest.mark.parametrize("argnums", [0, 1, -1, (0, 1), (1, 0)])
def test_hvp_is_hessian_times_vector(argnums):
    args, vectors = (X, 1.5), (np.array([1.0, -2.0, 0.5]), 0.7)
    chosen = [argnums] if isinstance(argnums, int) else argnums
    vector = vectors[argnums] if isinstance(argnums, int) else tuple(vectors[i] for i in argnums)
    product = sg.hvp(cubic, argnums)(*args, vector)
    blocks = sg.hessian(cubic, tuple(i % 2 for i in chosen))(*args)
    for i, _ in enumerate(chosen):
        expected = sum(np.tensordot(blocks[i][j], vectors[c], np.ndim(vectors[c])) for j, c in enumerate(chosen))
        close(product if isinstance(argnums, int) else product[i], expected)


def test_hvp_with_keywords_defaults_and_trees():
    def f(p, *, scale, power=3):
        return scale * np.sum(p["a"] ** power)

    close(sg.hvp(f)({"a": X}, {"a": np.ones(3)}, scale=2.0)["a"], 12 * X)
    close(sg.hvp(f)({"a": X}, {"a": np.ones(3)}, scale=2.0, power=2)["a"], np.full(3, 4.0))
    close(sg.hvp(lambda *xs: np.sum(xs[0] ** 2 * xs[1]))(X, X, np.ones(3)), 2 * X)
    close(sg.hvp(lambda vector: np.sum(vector**3))(X, np.ones(3)), 6 * X)


def test_jvp_of_grad_and_grad_of_jvp():
    def f(x):
        return np.sum(x**4)

    v = np.array([1.0, 2.0, -1.0])
    gradient, along = sg.jvp(sg.grad(f), (X,), (v,))
    close(gradient, 4 * X**3)
    close(along, 12 * X**2 * v)
    close(sg.grad(lambda x: sg.jvp(f, (x,), (v,))[1])(X), 12 * X**2 * v)
    close(sg.jvp(lambda x: sg.jvp(f, (x,), (v,))[1], (X,), (v,))[1], np.sum(12 * X**2 * v * v))


def test_grad_of_a_function_that_calls_value_and_grad():
    def step(x):
        value, slope = sg.value_and_grad(lambda y: np.sum(y**3))(x)
        return value + np.sum(slope**2)

    close(sg.grad(step)(X), 3 * X**2 + 36 * X**3)


def test_vjp_inside_grad():
    def f(x):
        out, pullback = sg.vjp(lambda y: (np.sin(y), y * y), x)
        (g,) = pullback((out[0], np.ones_like(x)))
        return np.sum(g)  # cos x sin x + 2 x

    close(sg.grad(f)(X), np.cos(2 * X) + 2)


def test_pullback_outside_a_trace_may_be_called_again():
    out, pullback = sg.vjp(lambda x, d: {"y": x * d["k"], "n": 3}, X, {"k": 2.0})
    close(out["y"], 2 * X)
    assert out["n"] == 3
    for seed in (np.ones(3), 2 * np.ones(3)):
        dx, d = pullback({"y": seed, "n": None})
        close(dx, 2 * seed)
        close(d["k"], np.sum(X * seed))


def test_pullback_keeps_its_own_copy_of_what_it_needs():
    x = X.copy()
    out, pullback = sg.vjp(np.tanh, x)
    x[:] = 0
    out[:] = 0
    close(pullback(np.ones(3))[0], 1 - np.tanh(X) ** 2)
    y = X.copy()
    _, pullback = sg.vjp(lambda x: x**3, y)
    y[:] = 0
    close(pullback(np.ones(3))[0], 3 * X**2)


def test_what_is_written_later_does_not_reach_a_derivative():
    def of_arguments(x):
        y = x * 2
        out, pullback = sg.vjp(lambda z: z**2, y)
        y[0] = 5
        out[:] = 7
        (g,) = pullback(np.ones(3))  # 2 y as it was
        return np.sum(g * y)

    y = np.array([5, 2 * X[1], 2 * X[2]])
    close(sg.compile(of_arguments)(X), np.sum(4 * X * y))
    close(sg.grad(of_arguments)(X), [20, 16 * X[1], 16 * X[2]])

    def writes_inside(z):
        z = z.copy()
        z[0] = 1
        z[1:] *= z[1:]
        return np.sum(z**2)

    close(sg.grad(writes_inside)(X), [0, 4 * X[1] ** 3, 4 * X[2] ** 3])
    close(sg.compile(lambda x: sg.grad(writes_inside)(x * 1))(X), [0, 4 * X[1] ** 3, 4 * X[2] ** 3])


def test_an_inner_function_may_not_write_into_its_arguments_either():
    def inner(z):
        z[0] = 1
        return np.sum(z**2)

    with pytest.raises(WriteError, match="z is an argument"):
        sg.compile(lambda x: sg.grad(inner)(x * 2))(X)


def test_no_perturbation_confusion():
    close(sg.grad(lambda x: x * sg.grad(lambda y: x + y)(x))(2.0), 1.0)
    close(sg.grad(lambda x: x * sg.grad(lambda y: x * y)(x))(2.0), 4.0)
    close(sg.jvp(lambda x: x * sg.jvp(lambda y: x * y, (x,), (1.0,))[1], (2.0,), (1.0,))[1], 4.0)
    close(sg.grad(lambda x: x * sg.jvp(lambda y: x + y, (x,), (1.0,))[1])(2.0), 1.0)
    close(sg.jvp(lambda x: x * sg.grad(lambda y: x * y)(x), (3.0,), (1.0,))[1], 6.0)
    close(sg.grad(lambda x: sg.grad(lambda y: y * sg.grad(lambda z: x * y * z)(1.0))(x))(3.0), 4 * 3.0)


def test_closure_over_an_outer_variable():
    def f(x):
        scale = np.sum(x)
        inner = sg.grad(lambda y: np.sum(scale * y**2))
        return np.sum(inner(np.ones(3)))  # 2 * 3 * sum(x)

    close(sg.grad(f)(X), np.full(3, 6.0))


def test_other_arguments_may_be_outer_variables():
    def f(x, y):
        return np.sum(sg.grad(lambda a, b: np.sum(a * a * b))(y, x))

    close(sg.grad(f)(X, np.full(3, 2.0)), np.full(3, 4.0))


@pytest.mark.parametrize("has_aux", [False, True])
def test_has_aux_at_every_level(has_aux):
    def f(x):
        return (np.sum(x**3), {"seen": x * 2, "text": "t"})

    def inner(x):
        gradient, aux = sg.grad(f, has_aux=True)(x)
        return (np.sum(gradient), aux) if has_aux else np.sum(gradient)

    result = sg.grad(inner, has_aux=has_aux)(X)
    gradient, aux = result if has_aux else (result, None)
    close(gradient, 6 * X)
    if has_aux:
        close(aux["seen"], 2 * X)
        assert aux["text"] == "t"
    (value, aux), gradient = sg.value_and_grad(f, has_aux=True)(X)
    close(value, np.sum(X**3))
    close(gradient, 3 * X**2)
    close(aux["seen"], 2 * X)


def two_layers(params, x):
    h = sg.name(np.tanh(params["W"] @ x), "h")
    return np.sum(h**2) * params["s"]


@pytest.mark.parametrize(
    ("wrt", "single"),
    [
        ("params.W", True),
        (["params.s"], False),
        (["x", "params.W"], False),
        ("h", True),
        (["h", "x"], False),
        ("params", True),
    ],
)
def test_wrt_names(wrt, single):
    params = {"W": A, "s": 1.5}
    h = np.tanh(A @ X)
    d_h = 2 * h * 1.5
    d_a = d_h * (1 - h * h)
    known = {"h": d_h, "x": d_a @ A, "params.W": np.outer(d_a, X), "params.s": np.sum(h**2)}
    result = sg.grad(two_layers, wrt=wrt)(params, X)
    if wrt == "params":
        close(result["W"], known["params.W"])
        close(result["s"], known["params.s"])
        return
    for name, value in zip([wrt] if single else wrt, (result,) if single else result, strict=True):
        close(value, known[name])


def test_wrt_of_an_inner_value_is_of_this_run():
    def f(x):
        h = sg.name(x * 2, "h")
        return h + sg.grad(g, wrt="h")(x)

    def g(x):
        h = sg.name(x**2, "h")
        return h**3

    close(sg.grad(f)(1.5), 2 + 3 * 4 * 1.5**3)


def test_inner_transforms_do_not_rebuild_what_outer_ones_differentiate_by():
    def f(x):
        h = sg.name(np.log(1 + np.exp(x)), "h")  # rewritten before it is differentiated
        return sg.grad(lambda y: y * h**2)(x) * h

    h = np.log1p(np.exp(0.7))
    close(sg.grad(f, wrt="h")(0.7), 3 * h**2)

    def g(x):
        return sg.grad(lambda y: sg.grad(lambda z: z * y**2)(x))(np.log(1 + np.exp(x)))

    close(g(0.7), 2 * h)
    close(sg.grad(g)(0.7), 2 / (1 + np.exp(-0.7)))


def test_wrt_inside_a_second_derivative():
    def f(x):
        return np.sum(sg.name(x**2, "h") ** 3)

    close(sg.grad(lambda x: np.sum(sg.grad(f, wrt="h")(x)))(X), 12 * X**3)


@pytest.mark.parametrize("argnums", [0, 1, (0,), (1, 0), -1])
def test_argnums(argnums):
    result = sg.grad(lambda x, y: np.sum(x * y**2), argnums)(X, 2 * X)
    both = (4 * X * X, 4 * X * X)
    if isinstance(argnums, int):
        close(result, both[argnums])
    else:
        assert type(result) is tuple and len(result) == len(argnums)
        for g, i in zip(result, argnums, strict=True):
            close(g, both[i])


def test_unused_inputs_have_zero_gradients():
    g = sg.grad(lambda x, y, z: np.sum(x), (0, 1, 2))(X, np.ones((2, 2), np.float32), 3.0)
    close(g[1], np.zeros((2, 2)))
    assert g[1].dtype == np.float32
    assert type(g[2]) is np.float64 and g[2] == 0
    close(sg.grad(lambda x: 3.0)(1.0), 0.0)
    close(sg.grad(lambda x: np.ones(()))(X), np.zeros(3))
    close(sg.jacobian(lambda x: np.ones(2))(X), np.zeros((2, 3)))
    close(sg.jvp(lambda x: np.ones(2), (X,), (X,))[1], np.zeros(2))
    close(sg.hessian(lambda x: np.sum(x))(X), np.zeros((3, 3)))
    close(sg.elementwise_grad(lambda x: np.ones(3))(X), np.zeros(3))


def test_stop_gradient():
    close(sg.grad(lambda x: np.sum(sg.stop_gradient(x) * x**2))(X), 2 * X**2)
    close(sg.grad(lambda d: np.sum(sg.stop_gradient(d)["a"] * d["b"]))({"a": X, "b": X})["a"], np.zeros(3))
    close(sg.jvp(lambda x: sg.stop_gradient(x) * x, (2.0,), (1.0,))[1], 2.0)
    close(sg.grad(sg.grad(lambda x: sg.stop_gradient(x) * x**2))(3.0), 6.0)
    assert sg.stop_gradient(2.5) == 2.5


def test_elementwise_grad():
    close(sg.elementwise_grad(np.tanh)(A), 1 - np.tanh(A) ** 2)
    close(repeated(sg.elementwise_grad, np.sin, 3)(A), -np.cos(A))
    close(sg.elementwise_grad(lambda x, y: x * y**2, 1)(X, X), 2 * X * X)


def test_jacobian_of_trees():
    j = sg.jacobian(lambda p: {"s": np.sum(p[0]) * p[1], "v": p[0] ** 2})([X, 2.0])
    close(j["s"][0], np.full(3, 2.0))
    close(j["s"][1], np.sum(X))
    close(j["v"][0], np.diag(2 * X))
    close(j["v"][1], np.zeros(3))


@pytest.mark.parametrize("mode", ["rev", "fwd", "auto"])
def test_jacobian_shapes(mode):
    def f(x):
        return np.outer(x, x)

    expected = np.einsum("ik,j->ijk", np.eye(3), X) + np.einsum("i,jk->ijk", X, np.eye(3))
    close(sg.jacobian(f, mode=mode)(X), expected)
    close(sg.jacobian(np.sum, mode=mode)(A), np.ones((2, 3)))
    close(sg.jacobian(lambda s: s * X, mode=mode)(2.0), X)


def test_vjp_and_jvp_are_transposes():
    rng = np.random.default_rng(0)
    v, w = rng.standard_normal(3), rng.standard_normal((2, 2))

    def f(x):
        return np.outer(A @ x, np.sin(A @ x))

    along = sg.jvp(f, (X,), (v,))[1]
    (back,) = sg.vjp(f, X)[1](w)
    close(np.sum(w * along), np.sum(back * v))


# ---- sharing


def code(source):
    """The statements of a module, without comments and docstring."""
    return re.sub(r"#.*", "", re.sub(r'""".*?"""', "", source, flags=re.S))


def test_seventh_derivative_has_three_sines_and_three_cosines():
    f = repeated(sg.grad, lambda x: np.sin(np.sin(np.sin(x))), 7)
    source = code(f.source(0.5))
    assert (source.count("np.sin("), source.count("np.cos(")) == (3, 3)


def test_seventh_derivative_against_taylor_series():
    f = repeated(sg.grad, lambda x: np.sin(np.sin(np.sin(x))), 7)
    step = 2 * np.pi / 64  # Cauchy's integral on a circle
    circle = 0.5 + np.exp(1j * step * np.arange(64)) * 0.5
    coefficient = np.mean(np.sin(np.sin(np.sin(circle))) * np.exp(-7j * step * np.arange(64))).real / 0.5**7
    close(f(0.5), coefficient * 5040, rtol=1e-7)


def test_value_gradient_and_hessian_share_their_work(level):
    def f(x):
        return np.sum(np.exp(np.sin(x)))

    def all_three(x):
        value, gradient = sg.value_and_grad(f)(x)
        return value, gradient, sg.hessian(f)(x)

    compiled = sg.compile(all_three).compile(X)
    source = code(compiled.source)
    if level:
        assert (source.count("np.exp("), source.count("np.sin("), source.count("np.cos(")) == (1, 1, 1)
    value, gradient, hessian = compiled(X)
    e = np.exp(np.sin(X))
    close(value, np.sum(e))
    close(gradient, e * np.cos(X))
    close(hessian, np.diag(e * (np.cos(X) ** 2 - np.sin(X))))
    verify(compiled.graph)


# ---- determinism

PROGRAM = """
import numpy as np, symgrad as sg
def f(p, x):
    h = np.tanh(x @ p["W"] + p["b"])
    return np.mean((h - np.where(x[:, :1] > 0, 1, h * p["c"])) ** 2) + np.sum(np.exp(-h.max(axis=1)))
p = {"W": np.ones((3, 2)), "b": np.ones(2), "c": 0.5}
print(sg.value_and_grad(f).source(p, np.ones((4, 3))))
specs = {"W": "float64[d, m]", "b": "float64[m]", "c": "float64[]"}
print(sg.grad(f).source(specs, "float64[n, d]"))
print(sg.hessian(f).source(p, np.ones((4, 3))))
"""


@pytest.mark.slow
def test_same_source_in_every_process(level):
    if level != 2:
        pytest.skip("the highest level has all passes")
    sources = []
    for seed in ("0", "4711"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(sg.__file__).parents[1])}
        command = [sys.executable, "-c", PROGRAM]
        sources.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert sources[0] and sources[0] == sources[1]


def test_source_does_not_depend_on_what_the_caller_calls_it():
    def f(x, unused):
        return np.sum(x * np.sin(x))

    one = sg.grad(f, (0, 1)).source(X, 1.0)
    another_name = sg.grad(f, (0, 1)).source(X, 1.0)
    assert one == another_name == (lambda: sg.grad(f, (0, 1)).source(X, 1.0))()
    assert "another_name" not in another_name


# ---- JAX as a second opinion


def jax_cases():
    def mlp(np, p, x):
        h = np.tanh(x @ p["W"] + p["b"])
        return np.mean(np.log(1 + np.exp(-(h**2).sum(axis=1))))

    def attention(np, p, x):
        s = x @ p["W"] @ p["W"].T @ x.T
        s = s - s.max(axis=1, keepdims=True)
        w = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)
        return np.sum((w @ x) ** 2) + np.sum(p["b"])

    def kinks(np, p, x):
        return np.sum(np.maximum(x @ p["W"], 0.1) * np.abs(p["b"])) + np.sum(np.where(x > 0, x, x**2))

    return [mlp, attention, kinks]


@pytest.mark.parametrize("f", jax_cases(), ids=lambda f: f.__name__)
def test_gradients_and_hessians_agree_with_jax(f, level):
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(1)
    p, x = {"W": rng.standard_normal((3, 2)), "b": rng.standard_normal(2)}, rng.standard_normal((4, 3))
    with jax.enable_x64(True):
        gradient = jax.jit(jax.value_and_grad(lambda p, x: f(jax.numpy, p, x), (0, 1)))
        theirs = jax.tree.map(np.asarray, gradient(p, x))
        their_hessian = jax.tree.map(np.asarray, jax.jit(jax.hessian(lambda p: f(jax.numpy, p, x)))(p))
    value, (d_p, d_x) = sg.value_and_grad(lambda p, x: f(np, p, x), (0, 1))(p, x)
    close(value, theirs[0])
    close(d_p["W"], theirs[1][0]["W"])
    close(d_p["b"], theirs[1][0]["b"])
    close(d_x, theirs[1][1])
    hessian = sg.hessian(lambda p: f(np, p, x))(p)
    for i in "Wb":
        for j in "Wb":
            close(hessian[i][j], their_hessian[i][j])


# ---- wrt= of second derivatives

WEIGHTS = {"W": np.array([[0.3, 0.1], [0.2, -0.4]]), "b": np.array([0.1, 0.2])}
ROWS = np.array([[1.0, 2.0], [0.5, -1.0], [0.3, 0.3]])


def of_hidden(h, b):
    return np.sum(h**3 * np.array([1.0, 2.0])) + np.sum(b**3 * h[0])


def layered(p, X):
    return of_hidden(sg.name(np.tanh(X @ p["W"] + p["b"]), "h"), p["b"])


def test_wrt_of_a_hessian_and_a_jacobian_names_parts():
    whole = sg.hessian(layered)(WEIGHTS, ROWS)
    blocks = sg.hessian(layered, wrt=["p.W", "p.b"])(WEIGHTS, ROWS)
    mixed = sg.jacobian(sg.grad(layered, wrt="p.W"), wrt="p.b")(WEIGHTS, ROWS)
    product = sg.hvp(layered, wrt="p.W")(WEIGHTS, ROWS, ROWS[:2])
    np.testing.assert_allclose(blocks[1][0], whole["b"]["W"], atol=1e-14)
    np.testing.assert_allclose(mixed, whole["W"]["b"], atol=1e-14)
    np.testing.assert_allclose(product, np.einsum("ijkl,kl->ij", whole["W"]["W"], ROWS[:2]), atol=1e-14)


def test_wrt_of_a_hessian_names_a_value_inside():
    h = np.tanh(ROWS @ WEIGHTS["W"] + WEIGHTS["b"])
    inside = sg.hessian(layered, wrt="h")(WEIGHTS, ROWS)
    np.testing.assert_allclose(inside, sg.hessian(of_hidden)(h, WEIGHTS["b"]), atol=1e-14)
    product = sg.hvp(layered, wrt="h")(WEIGHTS, ROWS, h)
    np.testing.assert_allclose(product, np.einsum("ijkl,kl->ij", inside, h), atol=1e-14)


def test_a_derivative_of_a_derivative_says_its_order():
    def f(x, y):
        return np.sin(x) * y

    seventh = f
    for _ in range(7):
        seventh = sg.grad(seventh)
    assert seventh.__name__ == "f_d7"
    assert re.fullmatch(r"Derivative of order 7 of f \(.*\) with respect to x", seventh.summary)
    mixed = sg.grad(sg.grad(f), argnums=1)
    assert mixed.__name__ == "f_d2" and mixed.summary.endswith(" with respect to x, then y")
    assert sg.jacobian(sg.hessian(f)).__name__ == "f_d3"
    assert sg.hessian(f).__name__ == "f_hessian" and sg.hessian(f).summary.startswith("Hessian of f ")
    assert sg.value_and_grad(seventh).summary.startswith("Value and gradient of the derivative of order 7 of f ")
    assert "def f_d7(x, y):" in seventh.source(1.0, 2.0)


def with_aux(x, scale=2.0):
    return np.sin(x) * x[1] * scale, {"seen": x * scale, "count": 3}


def test_auxiliary_results_of_jacobians_and_of_products_with_vectors():
    x, f = np.array([1.0, 2.0, 3.0]), lambda x: with_aux(x)[0]
    for taken in sg.jacobian, sg.jacrev, sg.jacfwd:
        found, aux = taken(with_aux, has_aux=True)(x)
        np.testing.assert_allclose(found, sg.jacobian(f)(x))
        np.testing.assert_array_equal(aux["seen"], 2 * x)
    found, aux = sg.hessian(lambda x: (np.sum(f(x)), with_aux(x)[1]), has_aux=True)(x)
    np.testing.assert_allclose(found, sg.hessian(lambda x: np.sum(f(x)))(x))
    assert aux["count"] == 3
    out, tangent, aux = sg.jvp(with_aux, (x,), (x,), has_aux=True)
    np.testing.assert_allclose((out, tangent, aux["seen"]), (*sg.jvp(f, (x,), (x,)), 2 * x))
    out, pullback, aux = sg.vjp(with_aux, x, has_aux=True)
    np.testing.assert_allclose((out, *pullback(x), aux["seen"]), (f(x), *sg.vjp(f, x)[1](x), 2 * x))


def test_auxiliary_results_within_a_function_have_derivatives():
    def both(x):
        out, pullback, aux = sg.vjp(with_aux, x, has_aux=True)
        _, tangent, _ = sg.jvp(with_aux, (x,), (out,), has_aux=True)
        rows, _ = sg.jacfwd(with_aux, has_aux=True)(x)
        return np.sum(pullback(out)[0] * tangent) + np.sum(rows @ aux["seen"])

    sg.check_grads(both, (np.array([1.0, 2.0, 3.0]),))
