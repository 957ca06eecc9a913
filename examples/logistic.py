"""A logistic regression whose annotations say shapes, so that the command ``symgrad`` needs no more than its name.

    symgrad grad examples/logistic.py:loss --wrt w
    python examples/logistic.py

The second fits made data by gradient descent with the compiled gradient.
"""

import numpy as np

import symgrad as sg


def loss(w: "float64[d]", X: "float64[n, d]", y: "float64[n]"):
    """Mean negative log likelihood of labels y = -1 or 1."""
    margin = y * (X @ w)
    return np.mean(np.log(1 + np.exp(-margin)))


def main():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] + rng.logistic(size=1000) > 0, 1.0, -1.0)

    value_and_grad = sg.value_and_grad(loss)
    w = np.zeros(3)
    for step in range(101):
        value, gradient = value_and_grad(w, X, y)
        w -= 2 * gradient
        if step % 25 == 0:
            print(f"step {step}: loss {value:.4f}")
    print(f"weights {w.round(2)}, drawn with [1, -2, 0.5]")
    return w


if __name__ == "__main__":
    main()
