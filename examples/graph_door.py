"""The second door: a graph built by hand, differentiated three times, and run from any node to any node.

    python examples/graph_door.py
"""

from collections import Counter

import networkx as nx
import numpy as np

import symgrad as sg


def main():
    g = sg.Graph()
    x = g.input("x", "float64[n]")
    h = np.sin(x)
    y = np.sum(h**3)

    (first,) = sg.gradients(y, [x])
    (second,) = sg.gradients(np.sum(first), [x])
    (third,) = sg.gradients(np.sum(second), [x])

    f = sg.function([x], [y, first, second, third])
    print(f.source)

    points = np.linspace(-1, 1, 5)
    value, *derivatives = f(points)
    s, c = np.sin(points), np.cos(points)
    closed = (3 * s**2 * c, 6 * s * c**2 - 3 * s**3, 6 * c**3 - 21 * s**2 * c)
    for order, (found, expected) in enumerate(zip(derivatives, closed, strict=True), start=1):
        print(f"order {order}: {np.round(found, 4)}, off by {np.max(np.abs(found - expected)):.0e}")

    kinds = Counter(node.op.name for node in g.dag)
    print(f"\nthe graph: {g.dag.number_of_nodes()} nodes, {g.dag.number_of_edges()} edges")
    print(f"sines and cosines in it: {kinds['sin']} and {kinds['cos']}")
    print(f"longest path: {nx.dag_longest_path_length(g.dag)}\n")

    from_h = sg.function([h], y)  # fed in the middle: the sine is not computed
    print(from_h.source)
    print(from_h(np.array([1.0, 2.0])))
    return closed, derivatives


if __name__ == "__main__":
    main()
