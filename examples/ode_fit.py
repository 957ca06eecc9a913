"""Rates of a differential equation, estimated from noisy observations of its solution.

    python examples/ode_fit.py

Needs SciPy. Predators and their prey are counted now and then; how fast they grow, eat and die follows by least
squares, with the Jacobian of the solution by the four rates and by the numbers in the beginning.
"""

import numpy as np
from scipy.optimize import least_squares

import symgrad as sg

TIMES = np.linspace(0.0, 12.0, 40)
TRUE = {"rates": np.array([0.9, 0.5, 0.8, 0.3]), "start": np.array([3.0, 1.0])}


def change(numbers, t, rates):
    """Lotka and Volterra's equations."""
    prey, predators = numbers
    born, eaten, dying, fed = rates
    return np.stack([born * prey - eaten * prey * predators, fed * prey * predators - dying * predators])


def counts(p):
    """The numbers of prey and of predators at the times."""
    return sg.odeint(change, p["start"], TIMES, p["rates"], rtol=1e-7, atol=1e-7)


def residuals(p, observed):
    """Differences of logarithms: errors are relative."""
    return np.ravel(np.log(counts({key: np.exp(x) for key, x in p.items()})) - np.log(observed))


def main():
    rng = np.random.default_rng(0)
    observed = sg.compile(counts)(TRUE) * np.exp(0.1 * rng.standard_normal((len(TIMES), 2)))

    start = {"rates": np.log(np.full(4, 0.5)), "start": np.log(observed[0])}
    problem = sg.to_scipy(residuals, start, args=(observed,))
    solution = least_squares(problem.fun, problem.x0, problem.jac)
    found = {key: np.exp(x) for key, x in problem.unravel(solution.x).items()}

    spread = np.sqrt(np.diag(np.linalg.inv(solution.jac.T @ solution.jac)) * 2 * solution.cost / len(solution.fun))
    error = problem.unravel(spread)["rates"] * found["rates"]
    print(f"{solution.nfev} solutions, {solution.njev} Jacobians, {len(TIMES)} counts of each kind")
    for name, rate, e, true in zip(
        ("born", "eaten", "dying", "fed"), found["rates"], error, TRUE["rates"], strict=True
    ):
        print(f"{name:>6}: {rate:.3f} +- {e:.3f}, was {true}")
    print("\nthe solution:\n")
    print(sg.compile(counts).source(TRUE))
    return found, error


if __name__ == "__main__":
    main()
