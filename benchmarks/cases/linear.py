"""Models that are linear in what is sought: least squares, logistic and softmax regression."""

import numpy as np

from cases.model import Model, cases

# ---- linear least squares


def least_squares(xp, w, x, y):
    return xp.mean((x @ w - y) ** 2)


def least_squares_by_hand(w, x, y):
    residual = x @ w - y
    return residual @ residual / len(y), ((2 / len(y)) * (residual @ x),)


def measured(rng, n, d):
    x, w = rng.normal(size=(n, d)), rng.normal(size=d)
    return w, x, x @ rng.normal(size=d) + rng.normal(size=n)


# ---- logistic regression


def logistic(xp, w, x, y):
    return xp.mean(xp.logaddexp(0.0, -y * (x @ w)))


def logistic_in_torch(w, x, y):
    from torch.nn.functional import logsigmoid

    return -logsigmoid(y * (x @ w)).mean()


def logistic_in_pytensor(w, x, y):
    import pytensor.tensor as pt

    return pt.softplus(-y * (x @ w)).mean()


def logistic_by_hand(w, x, y):
    margin = y * (x @ w)
    e = np.exp(-np.abs(margin))  # never overflows
    value = np.mean(np.log1p(e) - np.minimum(margin, 0))
    slope = np.where(margin > 0, e, 1) / (1 + e)
    return value, ((slope * y) @ x / -len(y),)


def classified(rng, n, d):
    x, w = rng.normal(size=(n, d)), rng.normal(size=d)
    return w, x, np.sign(x @ w + rng.normal(size=n))


CASES = [
    *cases(
        "logistic regression",
        Model(
            logistic, classified, logistic_by_hand, peers={"torch": logistic_in_torch, "pytensor": logistic_in_pytensor}
        ),
        *("n=10000 d=50", "n=100000 d=20"),
        small="n=50 d=4",
    ),
    *cases("least squares", Model(least_squares, measured, least_squares_by_hand), "n=100000 d=20", small="n=50 d=4"),
]
