"""An LSTM that adds two numbers which it saw long before, one sequence after the other.

    python examples/lstm.py

Each step of a sequence has a number and a mark; the answer is the sum of the two numbers that were marked (Hochreiter
and Schmidhuber 1997). The state begins at zero with each sequence: it is an array made in the model, so that nothing
is left from the batch before, and nothing has to be detached.
"""

import numpy as np
from layers import Adam, sigmoid
from threadpoolctl import threadpool_limits

import symgrad as sg

GATES = ("forget", "input", "output", "change")


def initial(rng, hidden):
    """Weights of the gates for two inputs, the state and a one; and of the answer."""
    params = {gate: rng.normal(scale=1 / np.sqrt(hidden), size=(2 + hidden + 1, hidden)) for gate in GATES}
    params["forget"][-1] += 1  # to remember at first
    params["answer"] = np.zeros(hidden + 1)
    return params


def answer(params, sequences):
    """Return the network's answer at the end of each of sequences[sequence, step, input]."""
    count, steps, _ = sequences.shape
    h = c = np.zeros((count, len(params["answer"]) - 1))
    one = np.ones((count, 1))
    for t in range(steps):
        seen = np.concatenate([sequences[:, t], h, one], axis=1)
        forget, take, give = (sigmoid(seen @ params[gate]) for gate in GATES[:3])
        c = forget * c + take * np.tanh(seen @ params["change"])
        h = give * np.tanh(c)
    return h @ params["answer"][:-1] + params["answer"][-1]


def loss(params, sequences, sums):
    return np.mean((answer(params, sequences) - sums) ** 2)


def problems(rng, count, steps):
    """Sequences of numbers and marks, one mark in each half; and the sums."""
    numbers = rng.uniform(-1, 1, size=(count, steps))
    marks = np.zeros_like(numbers)
    for half in range(2):
        marks[np.arange(count), rng.integers(steps // 2, size=count) + half * (steps // 2)] = 1
    return np.stack([numbers, marks], axis=2), np.sum(numbers * marks, axis=1)


@threadpool_limits.wrap(limits=1, user_api="blas")  # its products are small
def main(iterations=400, steps=12, hidden=16):
    rng = np.random.default_rng(0)
    params = initial(rng, hidden)
    value_and_grad = sg.value_and_grad(loss)
    adam = Adam(params, 0.01)
    for i in range(iterations):
        value, gradient = value_and_grad(params, *problems(rng, 64, steps))
        adam.step(params, gradient)
        if i % 100 == 0:
            print(f"step {i:4}: loss {value:.4f}")
    sequences, sums = problems(rng, 1000, steps)
    reached, blind = loss(params, sequences, sums), np.mean(sums**2)
    print(f"new sequences of {steps} steps: loss {reached:.4f}; who always says 0 has {blind:.4f}\n")
    two_steps = sg.grad(loss).source(initial(rng, 3), "float64[n, 2, 2]", "float64[n]", optimize=1)
    print(f"the gradient through two steps, with three hidden units:\n\n{two_steps}")
    return reached, blind


if __name__ == "__main__":
    main()
