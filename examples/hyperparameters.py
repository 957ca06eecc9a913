"""Penalties of a regression, chosen by the gradient of what it predicts wrongly.

    python examples/hyperparameters.py

Needs scikit-learn for its data, and SciPy. Inside, a logistic regression is fitted to one half of the data, each
weight with a penalty of its own; outside, the penalties are moved until the fitted weights predict the other half best.
The gradient goes through the fit, by the implicit function theorem.
"""

import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer

import symgrad as sg


def likelihood(w, X, y):
    """Mean negative log likelihood of labels y = -1 or 1."""
    return np.mean(np.log(1 + np.exp(-y * (X @ w))))


def fitted(log_penalty, X, y):
    """The best weights for these penalties."""
    penalised = lambda w: likelihood(w, X, y) + 0.5 * np.sum(np.exp(log_penalty) * w**2)
    return sg.minimize(penalised, np.zeros(X.shape[1]))


def validation(log_penalty, X, y, X_new, y_new):
    """Return the loss of the best weights on new data."""
    return likelihood(fitted(log_penalty, X, y), X_new, y_new)


def main(turns=30):
    data = load_breast_cancer()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    X = np.column_stack([X, np.ones(len(X))])
    y = np.where(data.target == 1, 1.0, -1.0)
    halves = X[::2], y[::2], X[1::2], y[1::2]

    both = sg.value_and_grad(validation)
    start = np.full(X.shape[1], -4.0)
    alike = min(float(both(np.full(X.shape[1], p), *halves)[0]) for p in np.arange(-8.0, 0.0))
    bounds = [(-8.0, 4.0)] * len(start)
    found = minimize(both, start, args=halves, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": turns})
    print(f"left out, one penalty for all weights: {alike:.4f}")
    print(f"left out, one for each weight:         {found.fun:.4f}, after {found.nfev} gradients\n")
    print(both.source(start, *halves))
    return alike, found.fun


if __name__ == "__main__":
    main()
