"""Stacks of matrices times one matrix: one product of all rows, whatever stands around it, and equal numbers."""

import re

import numpy as np
import pytest
from hypothesis import given, strategies as st

import symgrad as sg
from symgrad.core.graph import verify
from symgrad.pipeline import optimise
from symgrad.products.collapse_batch import collapse_batch
from tests.forms import count

pytestmark = pytest.mark.usefixtures("whole")

B, T, D, H = 3, 4, 5, 6


def array(*shape, seed=0, dtype=float):
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(dtype)


def close(a, b):
    assert np.shape(a) == np.shape(b) and np.result_type(a) == np.result_type(b)
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def programs(f, x, *arrays):
    """Compiled for these sizes, and for symbols where the batch is large; both agree with the function."""
    of_batch = sg.spec(f"float64[{', '.join(['n', *map(str, x.shape[1:])])}]")
    arrays = (x, *arrays)
    for specs in (arrays, (of_batch, *arrays[1:])):
        program = sg.compile(f).compile(*specs)
        verify(program.graph)
        for result, expected in zip(program(*arrays), f(*arrays), strict=True):
            close(result, expected)
        yield program


def stacked_products(program):
    return [x for x in program.graph.nodes if x.op.name == "matmul" and x.inputs[0].aval.ndim > 2]


def sum_of_squares(x):
    return np.vecdot(x, x)


AROUND = {
    "bias": lambda y, x: y + array(H),
    "bias along time": lambda y, x: y + array(T, H),  # is not the same for all rows
    "residual": lambda y, x: np.tanh(y) * x[..., :1] + y,
    "norm": lambda y, x: (y - np.mean(y, axis=-1, keepdims=True)) / np.sqrt(np.var(y, axis=-1, keepdims=True) + 1),
    "softmax": lambda y, x: np.exp(y - y.max(axis=-1, keepdims=True)) / np.sum(np.exp(y), axis=-1)[..., None],
    "sum over rows": lambda y, x: np.sum(np.tanh(y), axis=(0, 1)),
    "kept sum over rows": lambda y, x: np.sum(np.tanh(y), axis=(0, 1), keepdims=True) * y,
    "sum over one": lambda y, x: np.sum(np.tanh(y), axis=1),
    "sum of all": lambda y, x: np.sum(np.tanh(y) ** 2),
    "maximum of all": lambda y, x: np.max(y, axis=(0, 2)),
    "row by row": lambda y, x: np.einsum("btd,btd->bt", y, np.tanh(y)),
    "by features": lambda y, x: np.einsum("btd,btd,d->d", y, np.tanh(y), array(H)),
    "with a column": lambda y, x: np.einsum("btd,bt->d", y, x[..., 0]),
    "one after the other": lambda y, x: np.tanh(y) @ array(H, D) @ array(D, 2, seed=1),
    "by a vector": lambda y, x: np.exp(y @ array(H)),
    "by a vector, and of that the norm": lambda y, x: np.sqrt(sum_of_squares(np.exp(y) @ array(H))),
    "heads": lambda y, x: np.swapaxes(np.reshape(y, (*y.shape[:2], 2, H // 2)), 1, 2) @ array(H // 2, 2),
    "turned": lambda y, x: np.swapaxes(y, 0, 1) @ array(H, 3) + array(3),
    "part": lambda y, x: y[1:] @ array(H, 2),
    "places": lambda y, x: np.tanh(y)[:, [0, 2]] @ array(H, 2),
    "every other": lambda y, x: np.tanh(y)[:, ::2] @ array(H, 2),
}


@pytest.mark.parametrize("name", AROUND)
def test_what_stands_around_a_product(name):
    x, w = array(B, T, D), array(D, H)
    for _ in programs(lambda x, w: (AROUND[name](np.sin(x) @ w, x),), x, w):
        pass


@pytest.mark.parametrize("name", AROUND)
def test_gradients(name):
    x, w = array(B, T, D), array(D, H)
    dloss = sg.grad(lambda x, w: np.sum(np.sin(AROUND[name](np.sin(x) @ w, x))), argnums=(0, 1))
    for a, b in zip(dloss(x, w), dloss.compile(x, w, optimize=0)(x, w), strict=True):
        close(a, b)


def test_products_are_of_rows():
    def f(x, w, v):
        h = np.tanh(x @ w + array(H))
        return h @ v, np.sum(h, axis=(0, 1))

    for program in programs(f, array(B, T, D), array(D, H), array(H, 2)):
        assert not stacked_products(program)


def test_a_transposed_weight():
    for program in programs(lambda x, w: (x @ w.T,), array(B, T, D), array(H, D)):
        assert not stacked_products(program)


def test_several_leading_axes_and_a_vector():
    for program in programs(lambda x, w: (np.exp(x @ w) * 2,), array(2, B, T, D), array(D)):
        assert not stacked_products(program)


def test_a_transposed_stack_is_not_copied():
    for program in programs(lambda x, w: (np.swapaxes(x, 0, 1) @ w,), array(T, B, D), array(D, H)):
        assert stacked_products(program)


def test_a_stack_for_a_stack_stays():
    assert stacked_products(sg.compile(np.matmul).compile(array(B, T, D), array(B, D, H)))


def test_no_rows():
    for shape in ((0, T, D), (B, 0, D), (B, T, 0)):
        f = sg.compile(lambda x, w: np.exp(x @ w) + 1)
        x, w = array(*shape), array(shape[2], H)
        close(f(x, w), np.exp(x @ w) + 1)


def test_results_do_not_share_memory():
    def f(x, w):
        y = x @ w
        return y, np.reshape(y, (-1, H)), y + 0 * y

    results = sg.compile(f)(array(B, T, D), array(D, H))
    for i, a in enumerate(results):
        for b in results[:i]:
            assert not np.shares_memory(a, b)


def test_what_the_user_called_it_keeps_its_name_and_its_axes():
    def loss(x, w, v):
        hidden = np.tanh(x @ w)
        return np.sum((hidden @ v) ** 2)

    source = sg.grad(loss, argnums=1).source(array(B, T, D), array(D, H), array(H, 2))
    assert re.search(rf"hidden = np.tanh\(.*# float64\[{B}, {T}, {H}\]", source)
    assert count(source, "d_hidden = _") == 1


def test_level_1_has_none_of_it():
    program = sg.compile(lambda x, w: x @ w).compile(array(B, T, D), array(D, H), optimize=1)
    assert stacked_products(program)


def test_the_pass_is_idempotent():
    graph = sg.grad(lambda x, w: np.sum(np.tanh(x @ w) ** 2), argnums=1).graph(array(B, T, D), array(D, H))
    once = collapse_batch(optimise(graph, 2))
    verify(once)
    assert [x.op.name for x in collapse_batch(once).nodes] == [x.op.name for x in once.nodes]


STEPS = {
    "dense": lambda y: np.tanh(y @ array(y.shape[-1], D)),
    "dense by a transpose": lambda y: np.tanh(y @ array(D, y.shape[-1], seed=2).T),
    "bias": lambda y: y + array(y.shape[-1], seed=3),
    "scale": lambda y: y / np.sqrt(np.mean(y * y, axis=-1, keepdims=True) + 1),
    "centre": lambda y: y - np.sum(y, axis=-1)[..., None] / 3,
    "centre over time": lambda y: y - np.mean(y, axis=1, keepdims=True),
    "turn": lambda y: np.swapaxes(y, 0, 1),
    "turn back": lambda y: np.sin(np.swapaxes(y, 0, 2)),
    "shift": lambda y: np.concatenate([y[1:], y[:1]]) + y,
    "write": lambda y: written(y),
    "split": lambda y: np.reshape(np.reshape(y, (y.shape[0], -1)), y.shape) * 2,
    "attend": lambda y: np.tanh(y @ np.swapaxes(y, 1, 2) / 5) @ np.tanh(y),
    "where": lambda y: np.where(y > 0.1, y, np.sum(y, axis=(0, 1))),
}


def written(y):
    z = y.copy()
    z[0] = np.cos(z[-1])
    z[:, 0] *= 2
    return z


@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=7), st.booleans())
def test_random_programs(names, twice):
    def f(x):
        y = x
        for name in names:
            y = STEPS[name](y) + (y if twice and name != "turn" and name[:5] != "dense" and name[:4] != "turn" else 0)
        return y

    x = array(B, B, D)
    close(sg.compile(f)(x), f(x))
    dloss = sg.grad(lambda x: np.sum(np.sin(f(x))))
    close(dloss(x), dloss.compile(x, optimize=0)(x))
