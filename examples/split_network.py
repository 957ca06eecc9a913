"""A network in two parts, net1 and net2, with the gradient carried from one to the other by hand.

    python examples/split_network.py

`sg.vjp` gives the result of a part and its pullback; what net2's pullback gives for net1's result is what net1's takes.
Together they are the gradient of the whole; apart, each is a program that may run on a machine of its own.
"""

import numpy as np
from layers import dense

import symgrad as sg


def net1(params, x):
    return np.tanh(x @ params["W"] + params["b"])


def net2(params, h, y):
    """The loss of a prediction from what net1 gives."""
    return np.mean((h @ params["W"] + params["b"] - y) ** 2)


def whole(params1, params2, x, y):
    return net2(params2, net1(params1, x), y)


def by_hand(params1, params2, x, y):
    """The gradients by both parameters: net2's pullback gives the cotangent of h, and net1's goes on from there."""
    h, pull1 = sg.vjp(lambda params: net1(params, x), params1)
    loss, pull2 = sg.vjp(lambda params, h: net2(params, h, y), params2, h)
    d_params2, d_h = pull2(1.0)
    (d_params1,) = pull1(d_h)
    return loss, (d_params1, d_params2)


def pulled(params, x, d_h):
    """The gradient of net1's side, of what net2's side sends back."""
    _, pull = sg.vjp(lambda params: net1(params, x), params)
    return pull(d_h)[0]


def train(params1, params2, x, y, steps, rate=0.1):
    """Two programs that hand each other arrays: h goes forward, its cotangent comes back."""
    forward, backward = sg.compile(net1), sg.compile(pulled)
    loss_and_grad = sg.value_and_grad(net2, argnums=(0, 1))
    for _ in range(steps):
        h = forward(params1, x)
        loss, (d_params2, d_h) = loss_and_grad(params2, h, y)
        descend(params2, d_params2, rate)
        descend(params1, backward(params1, x, d_h), rate)
    return loss


def descend(params, gradient, rate):
    for key in params:
        params[key] -= rate * gradient[key]


def example():
    """Parameters, and points of a curve."""
    rng = np.random.default_rng(0)
    x = np.linspace(-2, 2, 100)[:, None]
    return dense(rng, 1, 16), dense(rng, 16, 1), x, np.sin(2 * x)


def largest_difference(a, b):
    return max(np.max(np.abs(p[key] - q[key])) for p, q in zip(a, b, strict=True) for key in p)


def main(steps=2000):
    params1, params2, x, y = example()
    first, gradients = by_hand(params1, params2, x, y)
    value, expected = sg.value_and_grad(whole, argnums=(0, 1))(params1, params2, x, y)
    difference = largest_difference(gradients, expected)
    print(f"loss {first:.6f} by parts, {value:.6f} of the whole; their gradients differ by {difference:.0e}\n")
    print(sg.value_and_grad(net2, argnums=(0, 1)).source(params2, "float64[n, 16]", "float64[n, 1]", optimize=1))
    print(sg.compile(pulled).source(params1, "float64[n, 1]", "float64[n, 16]", optimize=1))
    last = train(params1, params2, x, y, steps)
    print(f"loss after {steps} steps of the parts: {last:.6f}")
    return difference, first, last


if __name__ == "__main__":
    main()
