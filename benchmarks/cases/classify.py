"""Classifiers trained by cross-entropy with integer labels: softmax regression, a perceptron of three layers."""

from itertools import pairwise

import numpy as np

from cases.model import Model, cases


def cross_entropy(xp, scores, labels):
    shifted = scores - xp.max(scores, axis=1, keepdims=True)
    log_sum = xp.log(xp.sum(xp.exp(shifted), axis=1))
    return xp.mean(log_sum - shifted[np.arange(labels.shape[0]), labels])


def cross_entropy_in_jax(scores, labels):
    import jax
    import jax.numpy as jnp

    chosen = jax.nn.one_hot(labels, scores.shape[1], dtype=scores.dtype)  # faster there than taking by index
    return -jnp.mean(jnp.sum(chosen * jax.nn.log_softmax(scores), axis=1))


def cross_entropy_in_torch(scores, labels):
    from torch.nn.functional import cross_entropy

    return cross_entropy(scores, labels)


def cross_entropy_in_pytensor(scores, labels):
    import pytensor.tensor as pt

    return -pt.special.log_softmax(scores, axis=1)[np.arange(labels.type.shape[0]), labels].mean()


def cross_entropy_by_hand(scores, labels):
    """Value, and the gradient by the scores."""
    n, rows = len(labels), np.arange(len(labels))
    shifted = scores - scores.max(1, keepdims=True)
    e = np.exp(shifted)
    total = e.sum(1, keepdims=True)
    value = np.mean(np.log(total[:, 0]) - shifted[rows, labels])
    e /= n * total
    e[rows, labels] -= 1 / n
    return value, e


# ---- softmax regression


def softmax_regression(xp, weights, bias, x, labels):
    return cross_entropy(xp, x @ weights + bias, labels)


def softmax_regression_by_hand(weights, bias, x, labels):
    value, d_scores = cross_entropy_by_hand(x @ weights + bias, labels)
    return value, (x.T @ d_scores, d_scores.sum(0))


def softmax_example(rng, n, d, classes):
    x, labels = rng.normal(size=(n, d)), rng.integers(classes, size=n)
    return rng.normal(size=(d, classes)) / d**0.5, rng.normal(size=classes), x, labels


def with_scores_of(cross_entropy):
    return lambda weights, bias, x, labels: cross_entropy(x @ weights + bias, labels)


# ---- the score of the label picked in two other ways


def picked_along_axis(xp, weights, bias, x, labels):
    scores = x @ weights + bias
    shifted = scores - xp.max(scores, axis=1, keepdims=True)
    log_sum = xp.log(xp.sum(xp.exp(shifted), axis=1))
    return xp.mean(log_sum - xp.take_along_axis(shifted, labels[:, None], axis=1)[:, 0])


def picked_along_axis_in_torch(weights, bias, x, labels):
    import torch

    return torch.mean(-torch.take_along_dim(torch.log_softmax(x @ weights + bias, 1), labels[:, None], 1))


def picked_by_product(xp, weights, bias, x, labels):
    scores = x @ weights + bias
    shifted = scores - xp.max(scores, axis=1, keepdims=True)
    log_sum = xp.log(xp.sum(xp.exp(shifted), axis=1))
    one_hot = labels[:, None] == np.arange(bias.shape[0])
    return xp.mean(log_sum - xp.sum(one_hot * shifted, axis=1))


def picked_by_product_in_torch(weights, bias, x, labels):
    import torch

    one_hot = labels[:, None] == torch.arange(len(bias))
    return -torch.sum(one_hot * torch.log_softmax(x @ weights + bias, 1)) / len(labels)


def picked_by_product_in_pytensor(weights, bias, x, labels):
    import pytensor.tensor as pt

    one_hot = pt.eq(labels[:, None], np.arange(bias.type.shape[0]))
    return -(one_hot * pt.special.log_softmax(x @ weights + bias, axis=1)).sum() / labels.type.shape[0]


# ---- a perceptron


def scores_of(relu, layers, x):
    *hidden, last = layers
    for layer in hidden:
        x = relu(x @ layer["W"] + layer["b"])
    return x @ last["W"] + last["b"]


def perceptron(xp, layers, x, labels):
    return cross_entropy(xp, scores_of(lambda z: xp.maximum(z, 0), layers, x), labels)


def perceptron_in_jax(layers, x, labels):
    import jax

    return cross_entropy_in_jax(scores_of(jax.nn.relu, layers, x), labels)


def perceptron_in_torch(layers, x, labels):
    import torch

    return cross_entropy_in_torch(scores_of(torch.relu, layers, x), labels)


def perceptron_in_pytensor(layers, x, labels):
    import pytensor.tensor as pt

    return cross_entropy_in_pytensor(scores_of(lambda z: pt.maximum(z, 0), layers, x), labels)


def perceptron_by_hand(layers, x, labels):
    inputs = [x]
    for layer in layers[:-1]:
        z = inputs[-1] @ layer["W"]
        z += layer["b"]
        inputs.append(np.maximum(z, 0, out=z))
    value, g = cross_entropy_by_hand(inputs[-1] @ layers[-1]["W"] + layers[-1]["b"], labels)
    gradients = []
    for layer, h in zip(layers[::-1], inputs[::-1], strict=True):
        gradients.append({"W": h.T @ g, "b": g.sum(0)})
        if h is not x:
            g = g @ layer["W"].T
            g *= h > 0
    return value, (gradients[::-1],)


def perceptron_example(rng, batch, inputs=784, hidden=512, classes=10):
    widths = (inputs, hidden, hidden, classes)
    layers = [{"W": rng.normal(size=s) / s[0] ** 0.5, "b": rng.normal(size=s[1])} for s in pairwise(widths)]
    return layers, rng.normal(size=(batch, inputs)), rng.integers(classes, size=batch)


CASES = [
    *cases(
        "softmax regression",
        Model(
            softmax_regression,
            softmax_example,
            softmax_regression_by_hand,
            wrt=2,
            peers={
                "jax": with_scores_of(cross_entropy_in_jax),
                "torch": with_scores_of(cross_entropy_in_torch),
                "pytensor": with_scores_of(cross_entropy_in_pytensor),
            },
        ),
        "n=10000 d=100 classes=10",
        small="n=50 d=7 classes=4",
    ),
    *cases(
        "softmax regression, take_along_axis",
        Model(
            picked_along_axis,
            softmax_example,
            softmax_regression_by_hand,
            wrt=2,
            peers={"torch": picked_along_axis_in_torch},
        ),
        "n=10000 d=100 classes=10",
        small="n=50 d=7 classes=4",
    ),
    *cases(
        "softmax regression, one-hot",
        Model(
            picked_by_product,
            softmax_example,
            softmax_regression_by_hand,
            wrt=2,
            peers={"torch": picked_by_product_in_torch, "pytensor": picked_by_product_in_pytensor},
        ),
        "n=10000 d=100 classes=10",
        small="n=50 d=7 classes=4",
    ),
    *cases(
        "MLP 784-512-512-10",
        Model(
            perceptron,
            perceptron_example,
            perceptron_by_hand,
            peers={"jax": perceptron_in_jax, "torch": perceptron_in_torch, "pytensor": perceptron_in_pytensor},
        ),
        *("batch=128", "batch=1024"),
        small="batch=16 inputs=12 hidden=9 classes=4",
        dtypes=("float32",),
    ),
]
