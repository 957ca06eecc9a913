"""Handwritten digits learned without learning too much of any one image: gradients of each example, clipped, and noise.

    python examples/private_digits.py

Differentially private stochastic gradient descent (Abadi et al., "Deep learning with differential privacy", 2016). The
gradient of a batch must not depend on one image by more than a bound, so each image has a gradient of its own: `vmap`
of a gradient, from a loss that is written for one image. Needs scikit-learn, for its data: 1797 images of 8 x 8 pixels.
"""

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import symgrad as sg


def scores(params, x):
    """Scores of the ten digits, for one image or many."""
    return np.tanh(x @ params["W"] + params["b"]) @ params["V"] + params["c"]


def loss(params, x, label):
    """Negative log likelihood of the label of one image."""
    s = scores(params, x)
    return np.log(np.sum(np.exp(s))) - s[label]


def clipped_sum(params, x, labels, bound):
    """The sum of the gradients of all images, each of which is shortened to a length of at most `bound`."""
    gradients = sg.vmap(sg.grad(loss), in_axes=(None, 0, 0))(params, x, labels)
    squares = sum(np.sum(g**2, axis=tuple(range(1, g.ndim))) for g in gradients.values())
    shortened = np.minimum(1, bound / np.sqrt(squares))
    return {key: np.tensordot(shortened, g, 1) for key, g in gradients.items()}


def train(params, x, labels, *, steps, batch, rate, bound, noise, rng):
    """Gradient descent on random batches; the noise hides each image in the sum."""
    gradient = sg.compile(clipped_sum)
    for _ in range(steps):
        rows = rng.choice(len(x), batch, replace=False)
        total = gradient(params, x[rows], labels[rows], bound)
        for key, g in total.items():
            params[key] -= rate / batch * (g + rng.normal(scale=noise * bound, size=g.shape))
    return params


def initial(rng, hidden):
    W, V = rng.normal(scale=1 / 8, size=(64, hidden)), rng.normal(scale=hidden**-0.5, size=(hidden, 10))
    return {"W": W, "b": np.zeros(hidden), "V": V, "c": np.zeros(10)}


def accuracy(params, x, labels):
    return np.mean(np.argmax(scores(params, x), axis=1) == labels)


def main(steps=600):
    data = load_digits()
    x, x_test, labels, labels_test = train_test_split(
        data.data / 16, data.target, test_size=0.25, random_state=0, stratify=data.target
    )
    reached = {}
    for noise in (0.0, 1.0):
        rng = np.random.default_rng(0)
        start = time.perf_counter()
        params = train(initial(rng, 32), x, labels, steps=steps, batch=128, rate=1.0, bound=1.0, noise=noise, rng=rng)
        seconds = time.perf_counter() - start
        reached[noise] = accuracy(params, x_test, labels_test)
        print(f"noise {noise}: {reached[noise]:.1%} of {len(x_test)} test images right, {seconds:.1f} s")
    print()
    print(sg.compile(clipped_sum).source(params, "float64[n, 64]", "int64[n]", 1.0))
    return reached


if __name__ == "__main__":
    main()
