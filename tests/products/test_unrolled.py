"""Loops that Python has unrolled."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import symgrad as sg
from symgrad.core.graph import verify

pytestmark = pytest.mark.usefixtures("whole")

T, B, D, H = 9, 3, 4, 5


def array(*shape, seed=0, dtype=float):
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(dtype)


def close(a, b):
    tolerance = 1e-10 if np.result_type(a) == np.float64 else 1e-4
    assert np.shape(a) == np.shape(b) and np.result_type(a) == np.result_type(b)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def count(program, name):
    return [node.op.name for node in program.graph.nodes].count(name)


def checked(f, *arrays, **options):
    program = sg.compile(f).compile(*arrays, **options)
    verify(program.graph)
    expected = f(*arrays)
    for a, b in zip(*[y if isinstance(y, tuple) else (y,) for y in (program(*arrays), expected)], strict=True):
        close(a, b)
    return program


# ---- recurrent networks

LAYOUTS = {
    "rows of a matrix": ((T, D), lambda x, t: x[t]),
    "time first": ((T, B, D), lambda x, t: x[t]),
    "batch first": ((B, T, D), lambda x, t: x[:, t]),
    "from the end": ((T, B, D), lambda x, t: x[T - 1 - t]),
    "counted from the end": ((T, B, D), lambda x, t: x[t - T]),
    "most of it": ((T + 2, B, D), lambda x, t: x[t + 1]),
}


def network(at, bias=True, start=None):
    def loss(w, u, b, x):
        h = at(x, 0) @ w * 0 if start is None else start
        for t in range(T):
            z = at(x, t) @ w + h @ u
            h = np.tanh(z + b if bias else z)
        return np.sum(h * h) + np.sum(u * u)

    return loss


def weights(dtype=float):
    return array(D, H, dtype=dtype), array(H, H, dtype=dtype) / 3, array(H, dtype=dtype)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_recurrent_networks(layout, bias):
    shape, at = LAYOUTS[layout]
    loss = network(at, bias)
    arrays = (*weights(), array(*shape))
    f = sg.value_and_grad(loss, argnums=(0, 1, 2, 3))
    program = f.compile(*arrays)
    verify(program.graph)
    (value, found), (expected, wanted) = program(*arrays), f.compile(*arrays, optimize=0)(*arrays)
    close(value, expected)
    for a, b in zip(found, wanted, strict=True):
        close(a, b)


def test_a_state_of_zeros_is_not_multiplied():
    arrays = (*weights(), array(T, B, D))
    assert count(sg.compile(network(lambda x, t: x[t])).compile(*arrays), "matmul") == 2 * T - 1
    start = np.zeros((B, H))
    assert count(sg.compile(network(lambda x, t: x[t], start=start)).compile(*arrays), "matmul") == 2 * T - 1
    start[-1, -1] = 1e-3
    assert count(sg.compile(network(lambda x, t: x[t], start=start)).compile(*arrays), "matmul") == 2 * T


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes(dtype):
    arrays = (*weights(dtype), array(T, B, D, dtype=dtype))
    f = sg.grad(network(lambda x, t: x[t], start=np.ones((B, H), dtype)), argnums=(0, 1, 2))
    for a, b in zip(f(*arrays), f.compile(*arrays, optimize=0)(*arrays), strict=True):
        close(a, b)


def test_batches_whose_size_is_a_symbol():
    f = sg.grad(network(lambda x, t: x[t]), argnums=(0, 1, 2))
    program = f.compile(*weights(), sg.spec(f"float64[{T}, n, {D}]"))
    for b in (1, 3, 7):
        arrays = (*weights(), array(T, b, D))
        for found, wanted in zip(program(*arrays), f.compile(*arrays, optimize=0)(*arrays), strict=True):
            close(found, wanted)


# ---- products of slices, and what is added to them


def test_products_of_several_widths():
    def f(xs, ys):
        total = np.zeros((B, B))
        for x, y in zip(xs, ys, strict=True):
            total = total + np.tanh(x) @ np.sin(x.T) + np.exp(y) @ np.cos(y.T)
        return total

    checked(f, array(T, B, 2), array(T, B, 1))


def test_other_rows_may_be_added_to_one_of_them():
    def f(x, w, a, b):
        return tuple(x[t] @ w + (a if t else b) for t in range(T))

    checked(f, array(T, B, D), array(D, H), array(H), array(H, seed=1))


def test_what_is_added_may_be_made_later():
    def f(x, w):
        first = x[0] @ w
        row = np.sum(first, axis=0)
        return first, *(x[t] @ w + row for t in range(1, T))

    checked(f, array(T, B, D), array(D, H))


def test_a_row_is_not_added_twice():
    def f(x, w, b):
        return tuple(x[t] @ w + b + b for t in range(T))

    checked(f, array(T, B, D), array(D, H), array(H))


def test_two_inputs_share_a_bias():
    def f(x, y, w, v, b):
        return tuple(np.tanh(x[t] @ w + y[t] @ v + b) for t in range(T))

    checked(f, array(T, B, D), array(T, B, D, seed=1), array(D, H), array(D, H, seed=1), array(H))


def test_products_that_are_wanted_themselves():
    def f(x, w, b):
        zs = [x[t] @ w for t in range(T)]
        return (*zs, *(z + b for z in zs))

    checked(f, array(T, B, D), array(D, H), array(H))


def test_results_do_not_share_memory():
    results = sg.compile(lambda x, w: tuple(x[t] @ w for t in range(T)))(array(T, B, D), array(D, H))
    results[0][:] = np.nan
    assert all(np.all(np.isfinite(y)) for y in results[1:])


# ---- random programs

TERMS = {
    "x": lambda v, t: v["x"][t] @ v["w"],
    "last": lambda v, t: v["x"][T - 1 - t] @ v["w"],
    "batch": lambda v, t: v["y"][:, t] @ v["w"],
    "state": lambda v, t: v["h"] @ v["u"],
    "turned": lambda v, t: v["h"] @ v["u"].T,
    "bias": lambda v, t: v["b"],
    "other bias": lambda v, t: v["c"] * t,
    "twice": lambda v, t: v["x"][t // 2] @ v["w"],
    "sum": lambda v, t: np.sum(v["x"][t] @ v["w"], axis=0),
    "same": lambda v, t: v["x"][0] @ v["w"],
    "outer": lambda v, t: np.outer(v["x"][t, :, 0], v["x"][t, 0]) @ v["w"],
    "gram": lambda v, t: (v["x"][t].T @ v["h"])[:B] / 9,
}


@given(st.lists(st.sampled_from(sorted(TERMS)), min_size=1, max_size=5), st.integers(1, T))
def test_random_loops(names, n):
    def f(x, y, w, u, b, c):
        v = {"x": x, "y": y, "w": w, "u": u, "b": b, "c": c, "h": np.ones((B, H)) * b}
        total = 0.0
        for t in range(n):
            z = TERMS[names[0]](v, t)
            for name in names[1:]:
                z = z + TERMS[name](v, t)
            v["h"] = np.tanh(z) * np.ones((B, 1))
            total = total + z
        return np.sum(np.sin(total))

    arrays = array(T, B, D), array(B, T, D), array(D, H), array(H, H), array(H), array(H, seed=1)
    found = sg.value_and_grad(f, argnums=tuple(range(6)))
    (value, gradients), (expected, wanted) = found(*arrays), found.compile(*arrays, optimize=0)(*arrays)
    close(value, expected)
    for a, b in zip(gradients, wanted, strict=True):
        close(a, b)
