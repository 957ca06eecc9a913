"""Python loops: a recurrent network, and a chain of small matrix products."""

import numpy as np

from cases.model import Model, cases

# ---- a recurrent network


def recurrent(xp, params, x, y):
    """Hidden states of x[time, batch, input]; what is read off the last one should be y."""
    h = np.zeros((x.shape[1], params["recur"].shape[0]))
    for t in range(x.shape[0]):
        h = xp.tanh(x[t] @ params["input"] + h @ params["recur"] + params["bias"])
    return xp.mean((h @ params["output"] - y) ** 2)


def recurrent_in_jax(params, x, y):
    import jax
    import jax.numpy as jnp

    def step(h, x):
        return jnp.tanh(x @ params["input"] + h @ params["recur"] + params["bias"]), None

    h, _ = jax.lax.scan(step, jnp.zeros((x.shape[1], len(params["recur"]))), x)
    return jnp.mean((h @ params["output"] - y) ** 2)


def recurrent_in_torch(params, x, y):
    import torch

    start = torch.zeros((1, x.shape[1], len(params["recur"])), dtype=x.dtype)
    weights = [params["input"].T, params["recur"].T, params["bias"], torch.zeros_like(params["bias"])]
    _, h = torch.rnn_tanh(x, start, weights, True, 1, 0.0, False, False, False)  # what torch.nn.RNN calls
    return torch.mean((h[0] @ params["output"] - y) ** 2)


def recurrent_in_pytensor(params, x, y):
    import pytensor
    import pytensor.tensor as pt

    def step(x, h, weights, recur, bias):
        return pt.tanh(x @ weights + h @ recur + bias)

    start = pt.zeros((x.type.shape[1], params["recur"].type.shape[0]))
    weights = [params[name] for name in ("input", "recur", "bias")]
    h = pytensor.scan(step, sequences=x, outputs_info=start, non_sequences=weights, strict=True, return_updates=False)
    return pt.mean((h[-1] @ params["output"] - y) ** 2)


def recurrent_by_hand(params, x, y):
    """The products with x do not wait for the loop, nor do those that are gradients of the weights."""
    steps, batch, _ = x.shape
    recur, output = params["recur"], params["output"]
    h = x @ params["input"] + params["bias"]
    np.tanh(h[0], out=h[0])
    for t in range(1, steps):
        h[t] += h[t - 1] @ recur
        np.tanh(h[t], out=h[t])
    residual = h[-1] @ output - y
    d_y = (2 / residual.size) * residual
    d_z = 1 - h * h
    d_z[-1] *= d_y @ output.T
    for t in range(steps - 1, 0, -1):
        d_z[t - 1] *= d_z[t] @ recur.T
    flat = d_z.reshape(steps * batch, -1)
    gradient = {
        "input": x.reshape(steps * batch, -1).T @ flat,
        "recur": h[:-1].reshape((steps - 1) * batch, -1).T @ flat[batch:],
        "bias": flat.sum(0),
        "output": h[-1].T @ d_y,
    }
    return np.mean(residual * residual), (gradient,)


def recurrent_example(rng, steps, batch, hidden, inputs=32, outputs=10):
    params = {
        "input": rng.normal(size=(inputs, hidden)) / inputs**0.5,
        "recur": rng.normal(size=(hidden, hidden)) / hidden**0.5,
        "bias": rng.normal(size=hidden),
        "output": rng.normal(size=(hidden, outputs)) / hidden**0.5,
    }
    return params, rng.normal(size=(steps, batch, inputs)), rng.normal(size=(batch, outputs))


# ---- one step of a long short-term memory


def lstm_cell(xp, params, x, h, c, y):
    z = x @ params["input"] + h @ params["recur"] + params["bias"]
    n = params["recur"].shape[0]
    forget, update, output = (1 / (1 + xp.exp(-z[:, i * n : (i + 1) * n])) for i in range(3))
    c = forget * c + update * xp.tanh(z[:, 3 * n :])
    return xp.mean((output * xp.tanh(c) - y) ** 2)


def lstm_cell_in_pytensor(params, x, h, c, y):
    import pytensor.tensor as pt

    z = x @ params["input"] + h @ params["recur"] + params["bias"]
    n = params["recur"].type.shape[0]
    forget, update, output = (pt.sigmoid(z[:, i * n : (i + 1) * n]) for i in range(3))
    c = forget * c + update * pt.tanh(z[:, 3 * n :])
    return pt.mean((output * pt.tanh(c) - y) ** 2)


def lstm_cell_by_hand(params, x, h, c, y):
    """The gradient by the four gates is put together in place, so that each product with it is one."""
    z = x @ params["input"]
    z += h @ params["recur"]
    z += params["bias"]
    n = len(params["recur"])
    gates = z[:, : 3 * n]
    np.negative(gates, out=gates)
    np.exp(gates, out=gates)
    gates += 1
    np.divide(1, gates, out=gates)
    forget, update, output = gates[:, :n], gates[:, n : 2 * n], gates[:, 2 * n :]
    candidate = np.tanh(z[:, 3 * n :])
    squashed = np.tanh(forget * c + update * candidate)
    residual = output * squashed - y
    g = (2 / residual.size) * residual
    d_z = np.empty_like(z)
    d_c = g * output * (1 - squashed * squashed)
    np.multiply(d_c, c, out=d_z[:, :n])
    np.multiply(d_c, candidate, out=d_z[:, n : 2 * n])
    np.multiply(g, squashed, out=d_z[:, 2 * n : 3 * n])
    d_z[:, : 3 * n] *= gates * (1 - gates)
    np.multiply(d_c * update, 1 - candidate * candidate, out=d_z[:, 3 * n :])
    gradient = {"input": x.T @ d_z, "recur": h.T @ d_z, "bias": d_z.sum(0)}
    return np.mean(residual * residual), (gradient,)


def lstm_cell_example(rng, batch, hidden, inputs):
    params = {
        "input": rng.normal(size=(inputs, 4 * hidden)) / inputs**0.5,
        "recur": rng.normal(size=(hidden, 4 * hidden)) / hidden**0.5,
        "bias": rng.normal(size=4 * hidden),
    }
    return params, rng.normal(size=(batch, inputs)), *rng.normal(size=(3, batch, hidden))


# ---- a chain of small products


def chain(xp, factors, target):
    product = factors[0]
    for i in range(1, factors.shape[0]):
        product = product @ factors[i]
    return xp.sum((product - target) ** 2)


def chain_in_pytensor(factors, target):
    product = factors[0]
    for i in range(1, factors.type.shape[0]):
        product = product @ factors[i]
    return ((product - target) ** 2).sum()


def chain_by_hand(factors, target):
    products = [factors[0]]
    for factor in factors[1:]:
        products.append(products[-1] @ factor)
    residual = products[-1] - target
    g = 2 * residual
    gradient = np.empty_like(factors)
    for i in range(len(factors) - 1, 0, -1):
        np.matmul(products[i - 1].T, g, out=gradient[i])
        g = g @ factors[i].T
    gradient[0] = g
    return np.sum(residual * residual), (gradient,)


def chain_example(rng, length, d):
    return np.eye(d) + 0.3 * rng.normal(size=(length, d, d)), rng.normal(size=(d, d))


CASES = [
    *cases(
        "RNN",
        Model(
            recurrent,
            recurrent_example,
            recurrent_by_hand,
            peers={"jax": recurrent_in_jax, "torch": recurrent_in_torch, "pytensor": recurrent_in_pytensor},
            turns=lambda params, x, y: len(x),
        ),
        "steps=100 batch=32 hidden=64",
        small="steps=4 batch=3 hidden=5 inputs=2 outputs=3",
    ),
    *cases(
        "LSTM cell",
        Model(lstm_cell, lstm_cell_example, lstm_cell_by_hand, peers={"pytensor": lstm_cell_in_pytensor}),
        "batch=128 hidden=128 inputs=64",
        small="batch=3 hidden=5 inputs=4",
    ),
    *cases(
        "chain of 3x3 products",
        Model(chain, chain_example, chain_by_hand, peers={"pytensor": chain_in_pytensor}),
        "length=20 d=3",
        small="length=5 d=3",
    ),
]
