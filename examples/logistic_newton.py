"""Logistic regression by Newton's method, with a compiled gradient and Hessian.

    python examples/logistic_newton.py

Needs scikit-learn, for its data: 569 tumours, 30 measurements each, malignant or benign.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

import symgrad as sg


def loss(w, X, y, decay):
    """Negative log likelihood of labels y = -1 or 1, and a penalty for large weights."""
    margin = y * (X @ w)
    return np.sum(np.log(1 + np.exp(-margin))) + 0.5 * decay * np.sum(w**2)


def derivatives(w, X, y, decay):
    """Value, gradient and Hessian in one program, which share their work."""
    value, gradient = sg.value_and_grad(loss)(w, X, y, decay)
    return value, gradient, sg.hessian(loss)(w, X, y, decay)


def main():
    data = load_breast_cancer()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    X = np.column_stack([X, np.ones(len(X))])
    y = np.where(data.target == 1, 1.0, -1.0)

    newton = sg.compile(derivatives)
    w, decay = np.zeros(X.shape[1]), 1.0
    norms = []
    for step in range(20):
        value, gradient, hessian = newton(w, X, y, decay)
        norms.append(float(np.linalg.norm(gradient)))
        print(f"step {step}: loss {value:.6f}, gradient norm {norms[-1]:.1e}")
        if norms[-1] < 1e-10:
            break
        w -= np.linalg.solve(hessian, gradient)
    print(f"{np.mean(np.sign(X @ w) == y):.1%} of {len(y)} tumours classified rightly\n")
    print(newton.source("float64[d]", "float64[n, d]", "float64[n]", decay))
    return norms


if __name__ == "__main__":
    main()
