"""Descent along the gradient, in the logarithms of both variances."""

import numpy as np

from level.likelihood_grad import likelihood_value_and_grad


def fit(y, steps=200):
    """The variance of the level's steps, and that of the noise, which make the measurements most likely."""
    y, logs, rate = np.asarray(y, float), np.zeros(2), 1 / len(y)
    for _ in range(steps):
        q, r = map(float, np.exp(logs))
        _, slopes = likelihood_value_and_grad(q, r, y)
        logs -= rate * np.array(slopes) * (q, r)
    return tuple(map(float, np.exp(logs)))
