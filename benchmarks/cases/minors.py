"""The logarithm of determinants, by minors along the first row, as it is written on paper."""

import numpy as np

from cases.model import Model, cases


def determinant(rows, columns):
    """Return the determinant of the last rows and these columns; an entry is an array over all matrices."""
    if len(columns) == 1:
        return rows[-1][columns[0]]
    top, total = rows[len(rows) - len(columns)], 0.0
    for i, column in enumerate(columns):
        minor = determinant(rows, columns[:i] + columns[i + 1 :])
        total = total + (-1) ** i * top[column] * minor
    return total


def loss(xp, matrices):
    size = range(matrices.shape[-1])
    rows = [[matrices[:, i, j] for j in size] for i in size]
    return xp.sum(xp.log(xp.abs(determinant(rows, list(size)))))


def in_pytensor(matrices):
    import pytensor.tensor as pt

    size = range(matrices.type.shape[-1])
    rows = [[matrices[:, i, j] for j in size] for i in size]
    return pt.sum(pt.log(pt.abs(determinant(rows, list(size)))))


def by_hand(matrices):
    return np.sum(np.linalg.slogdet(matrices)[1]), (np.linalg.inv(matrices).mT,)


def example(rng, n, size):
    return (np.eye(size) * 2 + 0.3 * rng.normal(size=(n, size, size)),)


CASES = cases(
    "determinants by minors",
    Model(loss, example, by_hand, peers={"pytensor": in_pytensor}),
    "n=1000 size=4",
    small="n=5 size=4",
)
