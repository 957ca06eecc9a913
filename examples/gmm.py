"""The likelihood of a Gaussian mixture, as one writes it in NumPy, and the gradient by all of its parameters.

python examples/gmm.py [d] [k] [n]
"""

import sys
import time

import numpy as np

import symgrad as sg


def loss(alpha, mu, q, l, x):
    """Negative log likelihood of x[n, d] under k Gaussians with precision factor diag(exp q) + tril(l)."""
    k, d = mu.shape
    rows, cols = np.tril_indices(d, -1)
    lower = np.zeros((k, d, d), like=l)
    lower[:, rows, cols] = l
    centred = x[:, None, :] - mu
    whitened = np.exp(q) * centred + np.einsum("kij,nkj->nki", lower, centred)
    logits = alpha + q.sum(1) - 0.5 * (whitened**2).sum(2)
    top = logits.max(1, keepdims=True)
    lse = top[:, 0] + np.log(np.exp(logits - top).sum(1))
    return x.shape[0] * np.log(np.exp(alpha).sum()) - lse.sum()


def example(d, k, n, seed=0):
    """Parameters and points, at random."""
    rng = np.random.default_rng(seed)
    shapes = (k,), (k, d), (k, d), (k, d * (d - 1) // 2), (n, d)
    return [rng.normal(size=shape) for shape in shapes]


def main(d=4, k=5, n=1000):
    args = example(d, k, n)
    value_and_grad = sg.value_and_grad(loss, argnums=(0, 1, 2, 3))
    start = time.perf_counter()
    value, gradients = value_and_grad(*args)
    compiled = time.perf_counter()
    value_and_grad(*args)
    again = time.perf_counter()
    print(f"loss {value:.2f}; first call {compiled - start:.3f} s, second {again - compiled:.4f} s\n")
    print(value_and_grad.source(*args))
    return value, gradients


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
