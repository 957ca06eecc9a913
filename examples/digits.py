"""Handwritten digits: softmax regression, then a small neural network, trained with compiled gradients.

    python examples/digits.py

Needs scikit-learn, for its data: 1797 images of 8 x 8 pixels.
"""

import time
from itertools import pairwise

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import symgrad as sg


def network(params, x):
    """Scores of the ten digits; without hidden layers this is softmax regression."""
    *hidden, last = params
    h = x
    for layer in hidden:
        h = np.tanh(h @ layer["W"] + layer["b"])
    return h @ last["W"] + last["b"]


def loss(params, x, labels, decay):
    """Mean negative log likelihood of the labels, and a penalty for large weights."""
    scores = network(params, x)
    log_sum = np.log(np.sum(np.exp(scores), axis=1))
    of_label = np.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    fit = np.mean(log_sum - of_label)
    return fit + decay * sum(np.sum(layer["W"] ** 2) for layer in params)


def initial(rng, sizes):
    """Weights for layers of these sizes."""
    return [{"W": rng.normal(scale=1 / np.sqrt(n), size=(n, m)), "b": np.zeros(m)} for n, m in pairwise(sizes)]


def train(params, x, labels, *, epochs, rate, decay, rng, batch=64):
    """Adam (Kingma & Ba 2015) on minibatches."""
    value_and_grad = sg.value_and_grad(loss)
    mean, square = zeros_like(params), zeros_like(params)
    step = 0
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for start in range(0, len(x), batch):
            rows = order[start : start + batch]
            _, gradient = value_and_grad(params, x[rows], labels[rows], decay)
            step += 1
            size = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            for p, g, m, s in zip(params, gradient, mean, square, strict=True):
                for key in p:
                    m[key] += 0.1 * (g[key] - m[key])
                    s[key] += 0.001 * (g[key] ** 2 - s[key])
                    p[key] -= size * m[key] / (np.sqrt(s[key]) + 1e-8)
    return params


def zeros_like(params):
    return [{key: np.zeros_like(value) for key, value in layer.items()} for layer in params]


def accuracy(params, x, labels):
    return np.mean(np.argmax(network(params, x), axis=1) == labels)


def main():
    data = load_digits()
    x, x_test, labels, labels_test = train_test_split(
        data.data / 16, data.target, test_size=0.25, random_state=0, stratify=data.target
    )
    runs = {
        "softmax regression": ((64, 10), dict(epochs=40, rate=0.02, decay=1e-4)),
        "network with 64 hidden units": ((64, 64, 10), dict(epochs=30, rate=0.005, decay=1e-4)),
    }
    reached = {}
    for name, (sizes, settings) in runs.items():
        rng = np.random.default_rng(0)
        start = time.perf_counter()
        params = train(initial(rng, sizes), x, labels, rng=rng, **settings)
        seconds = time.perf_counter() - start
        reached[name] = accuracy(params, x_test, labels_test)
        print(f"{name}: {reached[name]:.1%} of {len(x_test)} test images right, {seconds:.1f} s\n")
        print(sg.value_and_grad(loss).source(params, "float64[n, 64]", "int64[n]", settings["decay"]))
    return reached


if __name__ == "__main__":
    main()
