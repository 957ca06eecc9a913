"""A polynomial through many points, by its coefficients and by where it is centred."""

import numpy as np

from cases.model import Model, cases


def loss(xp, coefficients, centre, x, y):
    powers = (x[:, None] - centre) ** np.arange(coefficients.shape[0])
    return xp.mean((powers @ coefficients - y) ** 2)


def in_pytensor(coefficients, centre, x, y):
    powers = (x[:, None] - centre) ** np.arange(coefficients.type.shape[0])
    return ((powers @ coefficients - y) ** 2).mean()


def in_torch(coefficients, centre, x, y):
    import torch

    powers = (x[:, None] - centre) ** torch.arange(len(coefficients))
    return torch.mean((powers @ coefficients - y) ** 2)


def by_hand(coefficients, centre, x, y):
    """Horner's rule, for the slope along with the value; then the powers one after the other."""
    t = x - centre
    value, slope = np.full_like(t, coefficients[-1]), np.zeros_like(t)
    for c in coefficients[-2::-1]:
        slope *= t
        slope += value
        value *= t
        value += c
    value -= y
    g = (2 / len(x)) * value
    d_centre = -(g @ slope)
    d_coefficients = np.empty_like(coefficients)
    for k in range(len(coefficients)):
        d_coefficients[k] = g.sum()
        g *= t
    return np.vdot(value, value) / len(x), (d_coefficients, np.asarray(d_centre))


def example(rng, n, degree):
    return rng.normal(size=degree + 1), np.array(0.3), rng.uniform(-1, 1, size=n), rng.normal(size=n)


CASES = cases(
    "polynomial fit",
    Model(loss, example, by_hand, wrt=2, peers={"torch": in_torch, "pytensor": in_pytensor}),
    "n=100000 degree=7",
    small="n=90 degree=4",
)
