"""A convolution network for small images: two layers of 3x3 filters with relu and mean pooling, then scores."""

import numpy as np

from cases.classify import (
    cross_entropy,
    cross_entropy_by_hand,
    cross_entropy_in_jax,
    cross_entropy_in_pytensor,
    cross_entropy_in_torch,
)
from cases.model import Model, cases


def loss(xp, p, x, labels):
    """Cross-entropy for images x[batch, row, column, channel]."""
    for filters in p["filters1"], p["filters2"]:
        x = halved(xp, xp.maximum(convolved(xp, x, filters), 0))
    return cross_entropy(xp, xp.reshape(x, (x.shape[0], -1)) @ p["W"] + p["b"], labels)


def convolved(xp, x, filters):
    """Patches side by side, and one product with all filters[row, column, channel, filter]."""
    rows, cols = x.shape[1] - 2, x.shape[2] - 2
    patches = xp.concatenate([x[:, i : i + rows, j : j + cols] for i in range(3) for j in range(3)], axis=3)
    return patches @ xp.reshape(filters, (-1, filters.shape[3]))


def halved(xp, x):
    n, rows, cols, channels = x.shape
    return xp.mean(xp.reshape(x, (n, rows // 2, 2, cols // 2, 2, channels)), axis=(2, 4))


def in_jax(p, x, labels):
    import jax
    import jax.numpy as jnp

    for filters in p["filters1"], p["filters2"]:
        x = jax.lax.conv_general_dilated(x, filters, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = halved(jnp, jax.nn.relu(x))
    return cross_entropy_in_jax(x.reshape(len(x), -1) @ p["W"] + p["b"], labels)


def in_torch(p, x, labels):
    from torch.nn.functional import avg_pool2d, conv2d, relu

    x = x.permute(0, 3, 1, 2)  # a view: channels stay last in memory
    for filters in p["filters1"], p["filters2"]:
        x = avg_pool2d(relu(conv2d(x, filters.permute(3, 2, 0, 1))), 2)
    return cross_entropy_in_torch(x.permute(0, 2, 3, 1).flatten(1) @ p["W"] + p["b"], labels)


def in_pytensor(p, x, labels):
    import pytensor.tensor as pt

    for filters in p["filters1"], p["filters2"]:
        n, rows, cols, _ = x.type.shape
        c, f = filters.type.shape[2:]
        slices = [x[:, i : i + rows - 2, j : j + cols - 2] for i in range(3) for j in range(3)]
        z = pt.concatenate(slices, axis=3).reshape((n * (rows - 2) * (cols - 2), 9 * c)) @ filters.reshape((9 * c, f))
        z = pt.maximum(z, 0).reshape((n, (rows - 2) // 2, 2, (cols - 2) // 2, 2, f))
        x = z.mean(axis=(2, 4))
    n = x.type.shape[0]
    return cross_entropy_in_pytensor(x.reshape((n, p["W"].type.shape[0])) @ p["W"] + p["b"], labels)


def by_hand(p, x, labels):
    hidden1, back1 = layer_by_hand(x, p["filters1"])
    hidden2, back2 = layer_by_hand(hidden1, p["filters2"])
    flat = hidden2.reshape(len(x), -1)
    value, g = cross_entropy_by_hand(flat @ p["W"] + p["b"], labels)
    d_hidden1, d_filters2 = back2((g @ p["W"].T).reshape(hidden2.shape))
    _, d_filters1 = back1(d_hidden1, by_input=False)
    return value, ({"filters1": d_filters1, "filters2": d_filters2, "W": flat.T @ g, "b": g.sum(0)},)


def layer_by_hand(x, filters):
    """Patches as rows of a matrix, which the gradient by the filters needs again."""
    n, rows, cols, channels = x.shape
    rows, cols, count = rows - 2, cols - 2, filters.shape[3]
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    patches = windows.transpose(0, 1, 2, 4, 5, 3).reshape(n * rows * cols, 9 * channels)
    matrix = filters.reshape(9 * channels, count)
    z = patches @ matrix
    np.maximum(z, 0, out=z)
    quarters = z.reshape(n, rows // 2, 2, cols // 2, 2, count)
    pooled = (quarters[:, :, 0, :, 0] + quarters[:, :, 0, :, 1]) + (quarters[:, :, 1, :, 0] + quarters[:, :, 1, :, 1])
    pooled *= 0.25

    def backward(g, by_input=True):
        d_z = (z > 0).reshape(quarters.shape) * (0.25 * g)[:, :, None, :, None]
        d_z = d_z.reshape(z.shape)
        d_filters = (patches.T @ d_z).reshape(filters.shape)
        if not by_input:
            return None, d_filters
        d_patches = (d_z @ matrix.T).reshape(n, rows, cols, 3, 3, channels)
        d_x = np.zeros_like(x)
        for i in range(3):
            for j in range(3):
                d_x[:, i : i + rows, j : j + cols] += d_patches[:, :, :, i, j]
        return d_x, d_filters

    return pooled, backward


def example(rng, batch, side, filters1=8, filters2=16, classes=10):
    flat = (((side - 2) // 2 - 2) // 2) ** 2 * filters2
    params = {
        "filters1": rng.normal(size=(3, 3, 1, filters1)) / 3,
        "filters2": rng.normal(size=(3, 3, filters1, filters2)) / (9 * filters1) ** 0.5,
        "W": rng.normal(size=(flat, classes)) / flat**0.5,
        "b": rng.normal(size=classes),
    }
    return params, rng.normal(size=(batch, side, side, 1)), rng.integers(classes, size=batch)


CASES = cases(
    "convolution network",
    Model(loss, example, by_hand, peers={"jax": in_jax, "torch": in_torch, "pytensor": in_pytensor}),
    "batch=32 side=30",
    small="batch=3 side=14 filters1=2 filters2=3 classes=4",
    dtypes=("float32", "float64"),
)
