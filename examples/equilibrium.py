"""A layer that is applied until nothing changes: two spirals told apart by the equilibrium of a network.

    python examples/equilibrium.py

The state of each point is where ``z = tanh(W z + U x + b)`` comes to rest. Its derivative is that of the equation: the
iteration is not kept, however many turns it takes.
"""

import numpy as np

import symgrad as sg

POINTS, HIDDEN = 200, 16


def spirals(rng):
    """Points on two arms that are wound around each other, and on which arm they are."""
    turn = np.sqrt(rng.uniform(0.1, 1.0, POINTS)) * 2 * np.pi
    arm = np.arange(POINTS) % 2
    x = np.stack([turn * np.cos(turn + np.pi * arm), turn * np.sin(turn + np.pi * arm)], axis=1) / (2 * np.pi)
    return x + 0.01 * rng.standard_normal(x.shape), arm.astype(float)


def rest(z, params, x):
    """One turn; W is scaled so that states come closer to each other."""
    W = params["W"] * (0.9 / np.maximum(0.9, np.sqrt(np.sum(params["W"] ** 2))))
    return np.tanh(z @ W + x @ params["U"] + params["b"])


def score(params, x):
    """By how much a point seems to be on the second arm rather than on the first."""
    z = sg.fixed_point(rest, np.zeros((len(x), HIDDEN)), params, x, tol=1e-6)
    return z @ params["v"]


def loss(params, x, arm):
    """Mean negative log likelihood."""
    s = score(params, x)
    return np.mean(np.log(1 + np.exp(s)) - arm * s)


def main(steps=300):
    rng = np.random.default_rng(0)
    x, arm = spirals(rng)
    params = {
        "W": 0.3 * rng.standard_normal((HIDDEN, HIDDEN)) / np.sqrt(HIDDEN),
        "U": 6 * rng.standard_normal((2, HIDDEN)),
        "b": rng.standard_normal(HIDDEN),
        "v": rng.standard_normal(HIDDEN),
    }
    step = sg.value_and_grad(loss)
    mean, square = ({name: np.zeros_like(p) for name, p in params.items()} for _ in range(2))
    for k in range(1, steps + 1):  # Adam
        value, gradient = step(params, x, arm)
        for name, g in gradient.items():
            mean[name] = 0.9 * mean[name] + 0.1 * g
            square[name] = 0.99 * square[name] + 0.01 * g * g
            size = np.sqrt(square[name] / (1 - 0.99**k)) + 1e-8
            params[name] = params[name] - 0.05 * mean[name] / (1 - 0.9**k) / size
        if k % 50 == 0:
            print(f"step {k}: loss {value:.4f}")
    right = float(np.mean((sg.compile(score)(params, x) > 0) == (arm == 1)))
    print(f"{right:.1%} of {POINTS} points on the right arm\n")
    print(step.source(params, x, arm))
    return right


if __name__ == "__main__":
    main()
