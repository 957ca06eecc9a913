"""Numbers that are made of sizes, and derivatives whose sizes are all symbols."""

import numpy as np
import pytest

import symgrad as sg

SIZE_FACTORS = {
    "mean": (lambda x: np.mean(x * x), "d_x = 2 / n * x"),
    "n times a mean": (lambda x: x.shape[0] * np.mean(x**3), "d_x = 3 * (x * x)"),
    "over n and times n": (lambda x: np.sum(np.sin(x) / x.shape[0]) * 2 * x.shape[0], "d_x = 2.0 * np.cos(x)"),
    "twice over n": (lambda x: np.mean(np.sin(x) * 3 / x.shape[0]), "d_x = 3 / n ** 2 * np.cos(x)"),
    "negative": (lambda x: -np.mean(-np.sin(x)) * 0.5, "d_x = 0.5 / n * np.cos(x)"),
    "what may be zero": (lambda x: np.sum(np.sin(x) * x.shape[0] / (x.shape[0] - 1)), None),
    "a difference": (lambda x: np.sum(np.sin(x)) / (2 * x.shape[0] + 2), "d_x = np.cos(x) / (2 * n + 2)"),
    "variance": (lambda x: np.var(x) * x.shape[0], "d_x = 2.0 * (x - np.mean(x))"),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SIZE_FACTORS)
def test_numbers_made_of_sizes_are_computed_with(name, dtype):
    f, line = SIZE_FACTORS[name]
    source = sg.grad(f).source(f"{dtype}[n]", optimize=1)
    assert line is None or f"    {line}  # {dtype}[n]" in source
    x = np.linspace(0.5, 2, 5).astype(dtype)
    expected = sg.grad(f, optimize=0)(x)
    for optimize in (0, 1, 2):
        found = sg.grad(f).compile(f"{dtype}[n]", optimize=optimize)(x)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == "float32" else 1e-13)


def lse(w, x):
    return np.sum(np.log(np.sum(np.exp(x @ w.T), axis=1)))


def standardised(w, x):
    x = (x - np.mean(x, axis=0)) / np.sqrt(np.var(x, axis=0) + 1e-5)
    return np.mean(np.tanh(x @ w.T) ** 2)


def joined(w, x):
    both = np.concatenate([w, x[: w.shape[0]]])
    return np.sum(both.reshape(-1)[1:] * np.ravel(both)[:-1]) / (w.shape[1] * both.shape[0])


SYMBOLIC = {
    "hessian of logsumexp": (sg.hessian(lse), ["{k}, {d}", "{n}, {d}"]),
    "all blocks of the hessian": (sg.hessian(lse, argnums=(0, 1)), ["{k}, {d}", "{n}, {d}"]),
    "hessian of a network": (sg.hessian(standardised), ["{k}, {d}", "{n}, {d}"]),
    "gradient by the data": (sg.grad(standardised, argnums=1), ["{k}, {d}", "{n}, {d}"]),
    "hessian of what is joined": (sg.hessian(joined, argnums=(0, 1)), ["{n}, {d}", "2*{n}, {d}"]),
    "jacobian of a covariance": (
        sg.jacobian(lambda x: (x - x.mean(0)).T @ (x - x.mean(0)) / (x.shape[0] - 1)), ["{n}, {d}"],
    ),
    "jacobian of a softmax": (
        sg.jacobian(lambda x: np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True)), ["{n}, {d}"],
    ),
    "hessian of a scaled product": (
        sg.hessian(lambda a, b: np.sum(np.outer(a, b) ** 2) / (a.size * b.shape[0]), argnums=(0, 1)), ["{n}", "{k}"],
    ),
    "second derivative of a mean of stacks": (sg.hessian(lambda a: np.mean(np.stack([a, a**2, a**3]))), ["{n}"]),
    "pairs": (sg.hessian(lambda x: np.mean(np.exp(-np.sum((x[:, None] - x) ** 2, axis=2)))), ["{n}, {d}"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SYMBOLIC)
def test_derivatives_of_any_size_at_every_level(name):
    transform, shapes = SYMBOLIC[name]
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.5, 1.5, eval(f"({s.format(k=3, n=4, d=2)},)")) for s in shapes]
    leaves = lambda tree: [x for part in tree for x in leaves(part)] if isinstance(tree, tuple) else [tree]
    expected = leaves(transform.compile(*arrays, optimize=0)(*arrays))
    specs = [f"float64[{s.format(k='k', n='n', d='d')}]" for s in shapes]
    for optimize in (0, 1, 2):
        found = leaves(transform.compile(*specs, optimize=optimize)(*arrays))
        for a, b in zip(found, expected, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
