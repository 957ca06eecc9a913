"""Handwritten digits learned with large batches that come in small pieces, whose gradients are accumulated.

    python examples/accumulate.py

A batch of 1,200 images is never in one place: pieces of 100 are added up, and the sum is that of the batch. Needs
scikit-learn, for its data: 1797 images of 8 x 8 pixels.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import symgrad as sg


def scores(params, x):
    return np.tanh(x @ params["W"] + params["b"]) @ params["V"] + params["c"]


def loss(params, x, labels):
    """Mean negative log likelihood of the labels."""
    s = scores(params, x)
    return np.mean(np.log(np.sum(np.exp(s), axis=1)) - s[np.arange(len(x)), labels])


def pieces(x, labels, order, size=100):
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        yield {"x": x[rows], "labels": labels[rows]}


def main(steps=150, rate=0.01):
    data = load_digits()
    x, x_test, labels, labels_test = train_test_split(
        data.data / 16, data.target, test_size=0.25, random_state=0, stratify=data.target
    )
    rng = np.random.default_rng(0)
    params = {"W": rng.normal(scale=1 / 8, size=(64, 32)), "b": np.zeros(32)}
    params |= {"V": rng.normal(scale=32**-0.5, size=(32, 10)), "c": np.zeros(10)}
    plan = sg.split(sg.value_and_grad(loss), params, x, labels, axis={"x": 0, "labels": 0})
    print(plan)
    mean, square = ({key: np.zeros_like(p) for key, p in params.items()} for _ in range(2))
    for step in range(1, steps + 1):
        sums = plan.accumulate(params, total=1200)
        for piece in pieces(x, labels, rng.permutation(len(x))[:1200]):
            sums.add(**piece)
        value, gradient = sums.result()
        for key, g in gradient.items():  # Adam
            mean[key] = 0.9 * mean[key] + 0.1 * g
            square[key] = 0.999 * square[key] + 0.001 * g**2
            scaled = mean[key] / (1 - 0.9**step) / (np.sqrt(square[key] / (1 - 0.999**step)) + 1e-8)
            params[key] = params[key] - rate * scaled
        if step % 50 == 0:
            print(f"step {step}: loss {value:.4f}")
    reached = np.mean(np.argmax(scores(params, x_test), axis=1) == labels_test)
    print(f"{reached:.1%} of {len(x_test)} test images right")
    return reached


if __name__ == "__main__":
    main()
