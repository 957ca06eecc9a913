"""The cost of k-means, by the centres."""

import numpy as np

from cases.model import Model, cases


def loss(xp, centres, x):
    squares = xp.sum((x[:, None, :] - centres) ** 2, axis=2)
    return xp.sum(xp.min(squares, axis=1))


def in_torch(centres, x):
    squares = ((x[:, None, :] - centres) ** 2).sum(2)
    return squares.min(1).values.sum()


def by_hand(centres, x):
    """Distances by a product of matrices, and sums over clusters by another one."""
    k = len(centres)
    squares = x @ (-2 * centres.T)
    squares += np.einsum("kd,kd->k", centres, centres)
    nearest = squares.argmin(1)
    value = np.vdot(x, x) + squares.min(1).sum()
    member = (nearest[:, None] == np.arange(k)).astype(x.dtype)
    counts = np.bincount(nearest, minlength=k)
    return value, (2 * (counts[:, None] * centres - member.T @ x),)


def example(rng, n, k, d):
    return rng.normal(size=(k, d)), rng.normal(size=(n, d))


CASES = cases(
    "k-means",
    Model(loss, example, by_hand, peers={"torch": in_torch}),
    *("n=10000 k=20 d=10", "n=10000 k=100 d=10"),
    small="n=40 k=3 d=2",
)
