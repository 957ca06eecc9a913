"""A regression with a Gaussian kernel between all pairs of points, by the weights and the width along each axis."""

import numpy as np

from cases.model import Model, cases
from cases.threads import over_rows

ROWS = 64  # of the kernel that are computed at once by hand


def loss(xp, weights, scales, x, y):
    z = x * scales
    kernel = xp.exp(-0.5 * xp.sum((z[:, None, :] - z) ** 2, axis=2))
    return xp.mean((kernel @ weights - y) ** 2)


def in_torch(weights, scales, x, y):
    import torch

    z = x * scales
    return torch.mean((torch.exp(-0.5 * torch.sum((z[:, None, :] - z) ** 2, dim=2)) @ weights - y) ** 2)


def by_hand(weights, scales, x, y):
    """Distances by a product of matrices, some rows at a time; half of what a row gives is the gradient of others."""
    z = x * scales
    squares = 0.5 * np.einsum("nd,nd->n", z, z)
    sums = over_rows(lambda part, start, stop: share(z, squares, weights, y, start, stop), len(x))
    value, d_weights, d_z = (sum(each) for each in zip(*sums, strict=True))
    return value / len(x), (d_weights, np.einsum("nd,nd->d", d_z, x))


def share(z, squares, weights, y, start, stop):
    value, d_weights, d_z = 0.0, np.zeros_like(weights), np.zeros_like(z)
    for i in range(start, stop, ROWS):
        rows = slice(i, min(i + ROWS, stop))
        kernel = z[rows] @ z.T
        kernel -= squares[rows, None]
        kernel -= squares
        np.exp(kernel, out=kernel)
        residual = kernel @ weights - y[rows]
        value += residual @ residual
        g = (2 / len(z)) * residual
        d_weights += g @ kernel
        kernel *= weights
        kernel *= g[:, None]
        d_z += kernel.T @ z[rows]
        d_z -= kernel.sum(0)[:, None] * z
        d_z[rows] += kernel @ z
        d_z[rows] -= kernel.sum(1)[:, None] * z[rows]
    return value, d_weights, d_z


def example(rng, n, d):
    return rng.normal(size=n) / n**0.5, 1 + 0.1 * rng.normal(size=d), rng.normal(size=(n, d)), rng.normal(size=n)


CASES = cases(
    "Gaussian kernel",
    Model(loss, example, by_hand, wrt=2, peers={"torch": in_torch}),
    "n=5000 d=3",
    small="n=70 d=2",
)
