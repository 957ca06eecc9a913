"""A fit to data that stay on disk: logistic regression over memory maps, by SciPy's L-BFGS.

    python examples/out_of_core.py

The data are written once, 400 MB of them, and read chunk by chunk at each evaluation: no more than two chunks are in
memory. Needs SciPy, for its optimiser.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

import symgrad as sg


def loss(w, X, y):
    """Mean negative log likelihood of labels y = -1 or 1, and a penalty for large weights."""
    return np.mean(np.log(1 + np.exp(-y * (X @ w)))) + 1e-3 * np.sum(w**2)


def write(folder, rows, columns, rng):
    """Write inputs and labels, a million rows at a time; return the weights that they are made with."""
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float64, (rows, columns))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float64, (rows,))
    w = rng.normal(size=columns)
    for start in range(0, rows, 1_000_000):
        stop = min(start + 1_000_000, rows)
        X[start:stop] = rng.normal(size=(stop - start, columns))
        y[start:stop] = np.where(rng.logistic(size=stop - start) < X[start:stop] @ w, 1.0, -1.0)
    return w


def main(rows=2_400_000, columns=20):
    plan = sg.split(sg.value_and_grad(loss), "float64[d]", "float64[n, d]", "float64[n]", axis="n")
    print(f"{plan}\n")
    with tempfile.TemporaryDirectory() as folder:
        weights = write(Path(folder), rows, columns, np.random.default_rng(0))
        X, y = (np.load(Path(folder) / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
        objective = plan.bind(X=X, y=y)  # a function of w
        start = time.perf_counter()
        fit = minimize(objective, np.zeros(columns), jac=True, method="L-BFGS-B")
        seconds = time.perf_counter() - start
        del X, y, objective
    cosine = fit.x @ weights / np.linalg.norm(fit.x) / np.linalg.norm(weights)
    print(f"{rows:,} rows: {fit.nit} iterations, {fit.nfev} evaluations in {seconds:.1f} s")
    print(f"loss {fit.fun:.4f}; cosine between the weights and those of the data {cosine:.4f}")
    return cosine


if __name__ == "__main__":
    main()
