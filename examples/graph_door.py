"""The second door: a graph built by hand, differentiated three times, and run from any node to any node.

python examples/graph_door.py
"""

from collections import Counter

import networkx as nx
import numpy as np

import symgrad as sg


def build():
    """The graph of y = sum(sin(x)**3) with its first three derivatives: x, h, y, and their list."""
    g = sg.Graph()
    x = g.input("x", "float64[n]")
    h = np.sin(x)
    y = np.sum(h**3)
    (first,) = sg.gradients(y, [x])
    (second,) = sg.gradients(np.sum(first), [x])
    (third,) = sg.gradients(np.sum(second), [x])
    return g, x, h, y, [first, second, third]


def closed_form(x):
    s, c = np.sin(x), np.cos(x)
    return [3 * s**2 * c, 6 * s * c**2 - 3 * s**3, 6 * c**3 - 21 * s**2 * c]


def main():
    g, x, h, y, derivatives = build()
    f = sg.function([x], derivatives)
    print(f.source)

    points = np.linspace(-1, 1, 5)
    for order, (found, expected) in enumerate(zip(f(points), closed_form(points), strict=True), start=1):
        print(f"order {order}: {np.round(found, 4)}, off by {np.max(np.abs(found - expected)):.0e}")

    kinds = Counter(node.op.name for node in g.dag)
    print(f"\nthe graph: {g.dag.number_of_nodes()} nodes, {g.dag.number_of_edges()} edges")
    print(f"sines and cosines in it: {kinds['sin']} and {kinds['cos']}")
    print(f"longest path: {nx.dag_longest_path_length(g.dag)} edges\n")

    from_h = sg.function([h], y)  # fed in the middle: the sine is not computed
    print(from_h.source)
    print(from_h(np.array([1.0, 2.0])))


if __name__ == "__main__":
    main()
