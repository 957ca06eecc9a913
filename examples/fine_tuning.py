"""Fine-tuning: a network that knows the digits 0 to 4 learns 5 to 9 with its base frozen.

    python examples/fine_tuning.py

No flag freezes the base: the gradient is asked for by the head alone, so that the program computes nothing else.
Needs scikit-learn, for its data: 1797 images of 8 x 8 pixels.
"""

import numpy as np
from layers import Adam, cross_entropy, dense, minibatches
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import symgrad as sg


def features(base, x):
    """Return the features that the base computes from images."""
    for layer in base:
        x = np.tanh(x @ layer["W"] + layer["b"])
    return x


def loss(base, head, x, labels):
    return cross_entropy(features(base, x) @ head["W"] + head["b"], labels)


def accuracy(base, head, x, labels):
    return np.mean(np.argmax(features(base, x) @ head["W"] + head["b"], axis=1) == labels)


def train(base, head, x, labels, rng, epochs, frozen):
    """Adam by the head alone, or by both; how many operations a step takes."""
    value_and_grad = sg.value_and_grad(loss, argnums=(1,) if frozen else (0, 1))
    moving = (head,) if frozen else (base, head)
    adam = Adam(moving)
    for _ in range(epochs):
        for rows in minibatches(rng, len(x), 32):
            _, gradients = value_and_grad(base, head, x[rows], labels[rows])
            adam.step(moving, gradients)
    return value_and_grad.compile(base, head, x[:32], labels[:32]).cost.flops


def digits(wanted):
    """Images of these digits and their labels from 0 on, for training and for testing."""
    data = load_digits()
    rows = np.isin(data.target, wanted)
    return train_test_split(data.data[rows] / 16, data.target[rows] - wanted[0], test_size=0.25, random_state=0)


@threadpool_limits.wrap(limits=1, user_api="blas")  # its products are small
def main(epochs=40):
    rng = np.random.default_rng(0)
    base = [dense(rng, 64, 64), dense(rng, 64, 64)]
    steps = {"0 to 4": ([0, 1, 2, 3, 4], False), "5 to 9, with the base frozen": ([5, 6, 7, 8, 9], True)}
    reached = []
    for name, (wanted, frozen) in steps.items():
        x, x_test, labels, labels_test = digits(wanted)
        head = dense(rng, 64, 5)
        before = accuracy(base, head, x_test, labels_test)
        flops = train(base, head, x, labels, rng, epochs, frozen)
        reached.append(accuracy(base, head, x_test, labels_test))
        print(f"{name}: from {before:.1%} to {reached[-1]:.1%}, {flops / 1e6:.1f} million operations a step")
    print()
    print(sg.value_and_grad(loss, argnums=1).source(base, head, "float64[n, 64]", "int64[n]", optimize=1))
    return reached


if __name__ == "__main__":
    main()
