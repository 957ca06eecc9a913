"""Layers, a loss and Adam in plain NumPy, shared by the networks of the examples.

Derivatives know nothing of this file: what a model calls is traced with it.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from optree import tree_leaves, tree_map


def convolved(x, W, b):
    """Images x[image, row, column, channel] under filters W[row, column, channel, filter] of 3 x 3 pixels."""
    x = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = sliding_window_view(x, (3, 3), axis=(1, 2))
    return np.einsum("nrcdij,ijdf->nrcf", windows, W, optimize=True) + b


def halved(x):
    """The means of squares of 2 x 2 pixels."""
    images, rows, cols, channels = x.shape
    return x.reshape(images, rows // 2, 2, cols // 2, 2, channels).mean(axis=(2, 4))


def relu(x):
    return np.maximum(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cross_entropy(scores, labels):
    """Mean negative log likelihood of labels under scores[image, class]."""
    log_sum = np.log(np.sum(np.exp(scores), axis=1))
    return np.mean(log_sum - np.take_along_axis(scores, labels[:, None], axis=1)[:, 0])


def filters(rng, channels, count):
    """Weights of `count` filters of 3 x 3 pixels."""
    return {"W": rng.normal(scale=np.sqrt(2 / (9 * channels)), size=(3, 3, channels, count)), "b": np.zeros(count)}


def dense(rng, n, m):
    """Weights of a layer from n numbers to m."""
    return {"W": rng.normal(scale=1 / np.sqrt(n), size=(n, m)), "b": np.zeros(m)}


class Adam:
    """Steps for a tree of arrays, which are written into (Kingma & Ba 2015)."""

    def __init__(self, params, rate=0.01):
        self.rate, self.steps = rate, 0
        self.mean, self.square = tree_map(np.zeros_like, params), tree_map(np.zeros_like, params)

    def step(self, params, gradient):
        self.steps += 1
        size = self.rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        for p, g, m, s in zip(*map(tree_leaves, (params, gradient, self.mean, self.square)), strict=True):
            m += 0.1 * (g - m)
            s += 0.001 * (g * g - s)
            p -= size * m / (np.sqrt(s) + 1e-8)


def minibatches(rng, count, size):
    """The numbers of `count` examples in a random order, `size` at a time."""
    order = rng.permutation(count)
    return [order[i : i + size] for i in range(0, count, size)]
