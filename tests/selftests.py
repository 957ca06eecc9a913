"""Saved modules of many kinds, for an environment in which NumPy is all there is.

``python -m tests.selftests FOLDER`` writes them, or those that are named behind it; `.ci/run` runs the self-test of
each with the oldest and the newest NumPy that symgrad supports.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import symgrad as sg

TABLE = np.linspace(0.0, 1.0, 200)


def network(p, x, y):
    h = np.tanh(x @ p["W"] + p["b"])
    return np.mean((h @ p["out"] - y) ** 2)


def layers(net, x):
    for w, b in net:
        x = np.maximum(x @ w + b, 0)
    return np.sum(x**2)


def logistic(w, X, y):
    return np.mean(np.log(1 + np.exp(-y * (X @ w))))


def heat(x, kappa):
    return np.sum(np.log1p(np.exp(kappa * (x[1:] - x[:-1])))) + np.sum(np.abs(np.sin(x)))


def with_table(x):
    return np.sum(TABLE * np.sin(x) ** 2)


def evidence(K, y):
    L = np.linalg.cholesky(K)
    return 0.5 * y @ np.linalg.solve(K, y) + np.sum(np.log(np.diag(L)))


def entropy(p, mode):
    return getattr(np, mode)(-p * np.log(p) - (1 - p) * np.log1p(-p))


def embedding(table, index, mask):
    return np.sum(np.where(mask, np.sum(table[index], axis=1), 0.0) ** 2)


def spring(x):
    return np.cos(x) * np.exp(-(x**2))


def signal(z):
    return {"power": np.abs(z) ** 2, "turned": (z * np.exp(1j * z),)}


WEIGHTS = {"W": "float64[d, h]", "b": "float64[h]", "out": "float64[h]"}
NET = [("float32[a, b]", "float32[b]"), ("float32[b, c]", "float32[c]")]
ROWS = "float64[n, d]", "float64[n]"
PROGRAMS = {
    "tree": lambda: sg.value_and_grad(network, optimize=1).compile(WEIGHTS, *ROWS),
    "layers": lambda: sg.grad(layers).compile(NET, "float32[n, a]", optimize=1),
    "logistic": lambda: sg.value_and_grad(logistic, optimize=1).compile("float64[d]", *ROWS),
    "newton": lambda: sg.hessian(logistic, optimize=1).compile("float64[5]", "float64[n, 5]", "float64[n]"),
    "products": lambda: sg.value_and_grad(network).compile(WEIGHTS, *ROWS),
    "threads": lambda: sg.value_and_grad(heat).compile("float64[n]", 0.5),
    "node_by_node": lambda: sg.grad(heat, optimize=0).compile("float64[n]", "float64[]"),
    "table": lambda: sg.grad(with_table).compile("float64[200]"),
    "evidence": lambda: sg.value_and_grad(evidence, threads=1).compile("float64[n, n]", "float64[n]"),
    "entropy": lambda: sg.grad(entropy, numerics="ieee").compile("float64[n]", "mean"),
    "embedding": lambda: sg.grad(embedding).compile("float64[v, 3]", "int64[n]", "bool[n]"),
    "spring": lambda: sg.grad(sg.grad(spring)).compile(0.5),
    "half": lambda: sg.value_and_grad(lambda x: np.mean(np.exp(x) * x)).compile("float16[n]"),
    "turned": lambda: sg.compile(signal).compile("complex128[n]"),
}


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    for name in names or PROGRAMS:
        PROGRAMS[name]().save(Path(folder) / f"{name}.py")
