"""A line through points by gradient descent: the least that a gradient is good for.

    python examples/line_fit.py

Prints slope, intercept and loss as they come down, the points with the line, and the gradient that took it there.
"""

import numpy as np

import symgrad as sg


def loss(w, b, x, y):
    """Mean square of what the line w x + b misses."""
    return np.mean((w * x + b - y) ** 2)


def points(count=40):
    """Points near the line y = 3 x - 1."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, count)
    return x, 3 * x - 1 + rng.normal(scale=0.3, size=count)


def descend(x, y, steps, rate=0.3):
    """Slope and intercept after some steps down the gradient, from 0 and 0."""
    value_and_grad = sg.value_and_grad(loss, argnums=(0, 1))
    w = b = 0.0
    for step in range(steps + 1):
        value, (d_w, d_b) = value_and_grad(w, b, x, y)
        if step % 10 == 0:
            print(f"step {step:3}: w {w:.4f}, b {b:+.4f}, loss {value:.4f}")
        w, b = w - rate * d_w, b - rate * d_b
    return w, b


def plot(w, b, x, y, rows=15, cols=61):
    """The points and the line as text."""
    row = lambda y: np.clip(np.rint((2.5 - y) / 7 * (rows - 1)).astype(int), 0, rows - 1)
    canvas = np.full((rows, cols), " ")
    across = np.linspace(-1, 1, cols)
    canvas[row(w * across + b), np.arange(cols)] = "."
    canvas[row(y), np.rint((x + 1) / 2 * (cols - 1)).astype(int)] = "o"
    return "\n".join("".join(line).rstrip() for line in canvas)


def main(steps=60):
    x, y = points()
    w, b = descend(x, y, steps)
    print(f"\n{plot(w, b, x, y)}\n")
    print(sg.value_and_grad(loss, argnums=(0, 1)).source(w, b, "float64[n]", "float64[n]"))
    return w, b


if __name__ == "__main__":
    main()
