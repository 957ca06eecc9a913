"""An LSTM that reads text, one character after the other, and says which comes next.

    python examples/characters.py

The text is what NumPy says of itself. It is one long stream of lines, and the state begins at zero with each line: an
`if` in the loop over the characters.
"""

import numpy as np
from layers import Adam, sigmoid
from threadpoolctl import threadpool_limits

import symgrad as sg

GATES = ("forget", "input", "output", "change")


def corpus():
    """Lines of docstrings, as numbers of characters, and the characters; 0 ends a line."""
    functions = [np.mean, np.std, np.var, np.sum, np.prod, np.max, np.min, np.median, np.average, np.cumsum]
    lines = [line.strip().lower() for f in functions for line in (f.__doc__ or "").splitlines()]
    text = "".join(f"{line}\n" for line in lines if len(line) > 30 and line.isascii())
    letters = ["\n", *sorted(set(text) - {"\n"})]
    return np.array([letters.index(x) for x in text]), letters


def initial(rng, letters, hidden):
    """Weights of the gates for the state, with a row for each character; and of what comes next."""
    params = {gate: rng.normal(scale=1 / np.sqrt(hidden), size=(hidden, hidden)) for gate in GATES}
    rows = {f"{gate} of": rng.normal(scale=0.1, size=(letters, hidden)) for gate in GATES}
    rows["forget of"] += 1  # to remember at first
    return {**params, **rows, "next": np.zeros((hidden, letters))}


def surprise(params, text):
    """Return the bits per character that a reader of the line so far needs, on average."""
    zero = np.zeros(len(params["next"]))
    h = c = zero
    total = 0.0
    known, coming = text[:-1], text[1:]
    for seen, following in zip(known, coming, strict=True):
        if seen == 0:
            h = c = zero
        forget, take, give = (sigmoid(params[f"{gate} of"][seen] + h @ params[gate]) for gate in GATES[:3])
        c = forget * c + take * np.tanh(params["change of"][seen] + h @ params["change"])
        h = give * np.tanh(c)
        scores = h @ params["next"]
        total += np.log(np.sum(np.exp(scores))) - scores[following]
    return total / (np.log(2) * (len(text) - 1))


@threadpool_limits.wrap(limits=1, user_api="blas")  # its products are small
def main(iterations=300, length=500, hidden=24):
    rng = np.random.default_rng(0)
    text, letters = corpus()
    known, new = text[:-2000], text[-2000:]
    params = initial(rng, len(letters), hidden)
    value_and_grad = sg.value_and_grad(surprise)
    adam = Adam(params, 0.01)
    for i in range(iterations):
        start = rng.integers(len(known) - length)
        value, gradient = value_and_grad(params, known[start : start + length])
        adam.step(params, gradient)
        if i % 50 == 0:
            print(f"step {i:3}: {value:.2f} bits a character")
    frequency = np.bincount(known, minlength=len(letters)) + 1
    before = -np.mean(np.log2(frequency / frequency.sum())[new])
    after = sg.compile(surprise)(params, new)
    print(f"new lines: {after:.2f} bits a character; who knows but how frequent they are has {before:.2f}\n")
    print(sg.grad(surprise).source(params, known[:length], optimize=1))
    return before, after


if __name__ == "__main__":
    main()
