"""A transformer block: layer norm, self-attention of several heads, layer norm, two dense layers with gelu."""

import math

import numpy as np

from cases.model import Model, cases

HEADS = 4
EPSILON = 1e-5
GELU = math.sqrt(2 / math.pi), 0.044715  # the approximation by tanh


def loss(xp, p, x, y, softmax=None, gelu=None, shape=None):
    """Mean square of the difference of y and the block's output for x[batch, time, features]."""
    softmax, gelu = softmax or (lambda z: softmax_in(xp, z)), gelu or (lambda z: gelu_in(xp, z))
    b, t, d = shape or x.shape

    def heads(z):
        return xp.transpose(xp.reshape(z, (b, t, HEADS, d // HEADS)), (0, 2, 1, 3))

    h = normed(xp, x, p["gain1"], p["bias1"])
    q, k, v = heads(h @ p["query"]), heads(h @ p["key"]), heads(h @ p["value"])
    weights = softmax(q @ xp.swapaxes(k, 2, 3) / math.sqrt(d // HEADS))
    x = x + xp.reshape(xp.transpose(weights @ v, (0, 2, 1, 3)), (b, t, d)) @ p["output"]
    h = normed(xp, x, p["gain2"], p["bias2"])
    x = x + gelu(h @ p["W1"] + p["b1"]) @ p["W2"] + p["b2"]
    return xp.mean((x - y) ** 2)


def normed(xp, x, gain, bias):
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred**2, axis=-1, keepdims=True)
    return centred / xp.sqrt(variance + EPSILON) * gain + bias


def softmax_in(xp, z):
    e = xp.exp(z - xp.max(z, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def gelu_in(xp, z):
    scale, cubic = GELU
    return 0.5 * z * (1 + xp.tanh(scale * (z + cubic * z**3)))


def in_jax(p, x, y):
    import jax

    return loss(jax.numpy, p, x, y, jax.nn.softmax, jax.nn.gelu)


def in_pytensor(p, x, y):
    import pytensor.tensor as pt

    return loss(pt, p, x, y, lambda z: pt.special.softmax(z, axis=-1), shape=x.type.shape)


def in_torch(p, x, y):
    from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

    b, t, d = x.shape

    def heads(z):
        return z.view(b, t, HEADS, d // HEADS).transpose(1, 2)

    h = layer_norm(x, (d,), p["gain1"], p["bias1"], EPSILON)
    mixed = scaled_dot_product_attention(*(heads(h @ p[name]) for name in ("query", "key", "value")))
    x = x + mixed.transpose(1, 2).reshape(b, t, d) @ p["output"]
    h = layer_norm(x, (d,), p["gain2"], p["bias2"], EPSILON)
    x = x + gelu(h @ p["W1"] + p["b1"], approximate="tanh") @ p["W2"] + p["b2"]
    return ((x - y) ** 2).mean()


# ---- by hand: rows are flat[batch * time, features] wherever no head is looked at


def by_hand(p, x, y):
    b, t, d = x.shape
    flat = x.reshape(b * t, d)
    h1, back1 = norm_by_hand(flat, p["gain1"], p["bias1"])
    mixed, back_mixed = attention_by_hand(h1, p, b, t)
    middle = flat + mixed @ p["output"]
    h2, back2 = norm_by_hand(middle, p["gain2"], p["bias2"])
    z = h2 @ p["W1"] + p["b1"]
    a, slope = gelu_by_hand(z)
    residual = middle + a @ p["W2"] + p["b2"] - y.reshape(b * t, d)

    g = (2 / residual.size) * residual
    d_z = (g @ p["W2"].T) * slope
    d_h2 = d_z @ p["W1"].T
    d_middle, d_gain2, d_bias2 = back2(d_h2)
    d_middle += g
    d_h1, gradients = back_mixed(d_middle @ p["output"].T)
    _, d_gain1, d_bias1 = back1(d_h1)
    gradients |= {"output": mixed.T @ d_middle, "gain1": d_gain1, "bias1": d_bias1, "gain2": d_gain2}
    gradients |= {"bias2": d_bias2, "W1": h2.T @ d_z, "b1": d_z.sum(0), "W2": a.T @ g, "b2": g.sum(0)}
    return np.mean(residual * residual), (gradients,)


def norm_by_hand(x, gain, bias):
    centred = x - x.mean(1, keepdims=True)
    inverse = 1 / np.sqrt(np.einsum("nd,nd->n", centred, centred)[:, None] / x.shape[1] + EPSILON)
    unit = centred * inverse

    def backward(g):
        scaled = g * gain
        along = np.einsum("nd,nd->n", scaled, unit)[:, None] / x.shape[1]
        d_x = inverse * (scaled - scaled.mean(1, keepdims=True) - unit * along)
        return d_x, np.einsum("nd,nd->d", g, unit), g.sum(0)

    return unit * gain + bias, backward


def attention_by_hand(h, p, b, t):
    d = h.shape[1]
    scale = 1 / math.sqrt(d // HEADS)
    joined = np.concatenate([p["query"], p["key"], p["value"]], axis=1)
    # batch and head together first, so that products over time are batched
    q, k, v = (h @ joined).reshape(b, t, 3, HEADS, d // HEADS).transpose(2, 0, 3, 1, 4)
    weights = q @ k.swapaxes(2, 3)
    weights *= scale
    weights -= weights.max(-1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(-1, keepdims=True)
    mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(b * t, d)

    def backward(d_mixed):
        g = d_mixed.reshape(b, t, HEADS, d // HEADS).transpose(0, 2, 1, 3)
        d_joined = np.empty((3, b, HEADS, t, d // HEADS), h.dtype)
        np.matmul(weights.swapaxes(2, 3), g, out=d_joined[2])
        d_scores = g @ v.swapaxes(2, 3)
        d_scores -= np.einsum("bhts,bhts->bht", d_scores, weights)[..., None]
        d_scores *= weights
        d_scores *= scale
        np.matmul(d_scores, k, out=d_joined[0])
        np.matmul(d_scores.swapaxes(2, 3), q, out=d_joined[1])
        flat = d_joined.transpose(1, 3, 0, 2, 4).reshape(b * t, 3 * d)
        d_query, d_key, d_value = np.split(h.T @ flat, 3, axis=1)
        return flat @ joined.T, {"query": d_query, "key": d_key, "value": d_value}

    return mixed, backward


def gelu_by_hand(z):
    """Value and slope."""
    scale, cubic = GELU
    square = z * z
    t = np.tanh(scale * z * (1 + cubic * square))
    half = 0.5 * (1 + t)
    return z * half, half + 0.5 * scale * z * (1 - t * t) * (1 + 3 * cubic * square)


def example(rng, batch, time, d):
    square = {name: rng.normal(size=(d, d)) / d**0.5 for name in ("query", "key", "value", "output")}
    vectors = {name: rng.normal(size=d) for name in ("gain1", "bias1", "gain2", "bias2", "b2")}
    dense = {"W1": rng.normal(size=(d, 4 * d)) / d**0.5, "W2": rng.normal(size=(4 * d, d)) / (4 * d) ** 0.5}
    params = square | vectors | dense | {"b1": rng.normal(size=4 * d)}
    return params, *rng.normal(size=(2, batch, time, d))


CASES = cases(
    f"transformer block, {HEADS} heads",
    Model(loss, example, by_hand, peers={"jax": in_jax, "torch": in_torch, "pytensor": in_pytensor}),
    "batch=8 time=64 d=64",
    small="batch=2 time=5 d=8",
)
