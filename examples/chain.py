"""a -> b = a**2 -> c = 2b -> mean and sum: the gradients of both ends, from one graph.

    python examples/chain.py [picture.svg]

A tape is used up by its first backward pass, so that the second needs `retain_graph=True`, and adds to what the first
left behind. Here both gradients are nodes of the graph as b and c are: fetched together, what they share computed once.
"""

import sys

import numpy as np

import symgrad as sg


def build():
    """The graph, as its input a, its two ends, and the gradient of each by a."""
    g = sg.Graph()
    a = g.input("a", "float64[n]")
    b = sg.name(a**2, "b")
    c = sg.name(2 * b, "c")
    mean, total = sg.name(np.mean(c), "mean"), sg.name(np.sum(c), "total")
    (of_mean,) = sg.gradients(mean, [a])
    (of_total,) = sg.gradients(total, [a])
    return a, [mean, total], [of_mean, of_total]


def main(picture=None):
    a, ends, gradients = build()
    both = sg.function([a], [*ends, *gradients])
    print(both.source)

    numbers = np.array([1.0, 2.0, 3.0, 4.0])
    mean, total, of_mean, of_total = both(numbers)
    print(f"mean {mean:g}, gradient {of_mean}")
    print(f"sum {total:g}, gradient {of_total}")
    if picture:
        sg.draw(sg.function([a], [*ends, *gradients], optimize=0), picture)  # as it was written
    return of_mean, of_total


if __name__ == "__main__":
    main(*sys.argv[1:])
