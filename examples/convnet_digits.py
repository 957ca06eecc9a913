"""A small convolution network on handwritten digits: eight filters, half the size, sixteen filters, scores.

    python examples/convnet_digits.py

A layer is an einsum of windows and weights, and so is its gradient, which is printed at the end.
Needs scikit-learn, for its data: 1797 images of 8 x 8 pixels.
"""

import time

import numpy as np
from layers import Adam, convolved, cross_entropy, dense, filters, halved, minibatches, relu
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import symgrad as sg


def scores(params, x):
    """Scores of the ten digits for images x[image, row, column, channel]."""
    x = halved(relu(convolved(x, **params["first"])))
    x = relu(convolved(x, **params["second"]))
    return x.reshape(len(x), -1) @ params["last"]["W"] + params["last"]["b"]


def loss(params, x, labels):
    return cross_entropy(scores(params, x), labels)


def initial(rng):
    return {"first": filters(rng, 1, 8), "second": filters(rng, 8, 16), "last": dense(rng, 4 * 4 * 16, 10)}


def train(params, x, labels, rng, epochs):
    value_and_grad = sg.value_and_grad(loss)
    adam = Adam(params)
    for epoch in range(epochs):
        values = []
        for rows in minibatches(rng, len(x), 64):
            value, gradient = value_and_grad(params, x[rows], labels[rows])
            adam.step(params, gradient)
            values.append(value)
        print(f"epoch {epoch + 1:2}: loss {np.mean(values):.4f}")


@threadpool_limits.wrap(limits=1, user_api="blas")  # its products are small
def main(epochs=24):
    data = load_digits()
    images = data.images[..., None] / 16
    x, x_test, labels, labels_test = train_test_split(
        images, data.target, test_size=0.25, random_state=0, stratify=data.target
    )
    rng = np.random.default_rng(0)
    params = initial(rng)
    start = time.perf_counter()
    train(params, x, labels, rng, epochs)
    reached = np.mean(np.argmax(scores(params, x_test), axis=1) == labels_test)
    print(f"{reached:.1%} of {len(x_test)} test images right, {time.perf_counter() - start:.1f} s\n")
    print(sg.value_and_grad(loss).source(params, "float64[n, 8, 8, 1]", "int64[n]", optimize=1))
    return reached


if __name__ == "__main__":
    main()
