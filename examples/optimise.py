"""SciPy's optimisers on functions of dicts of arrays, with compiled derivatives.

    python examples/optimise.py

Needs SciPy. `sg.to_scipy` gives value and derivatives over one flat vector, and the way back to the dict.
"""

import numpy as np
from scipy.optimize import least_squares, minimize, root

import symgrad as sg

METHODS = {"L-BFGS-B": (), "Newton-CG": ("hessp",), "trust-exact": ("hess",), "SLSQP": ()}


def smooth_curve(p, t, y):
    """Return the misfit of a bump on a sloping line, with a mild pull to small parameters."""
    line = p["line"][0] + p["line"][1] * t
    bump = p["height"] * np.exp(-0.5 * ((t - p["centre"]) / np.exp(p["log_width"])) ** 2)
    return np.mean((line + bump - y) ** 2) + 1e-6 * (np.sum(p["line"] ** 2) + p["log_width"] ** 2)


def decays(p, t, y):
    """Residuals of a sum of exponential decays."""
    return np.exp(-np.outer(t, np.exp(p["log_rates"]))) @ p["amounts"] - y


def cost(p):
    """Material of a tin that is a cylinder."""
    return 2 * np.pi * p["radius"] ** 2 + 2 * np.pi * p["radius"] * p["height"]


def volume(p):
    """By how much the tin holds more than a third of a litre, in cubic centimetres."""
    return np.pi * p["radius"] ** 2 * p["height"] - 330.0


def meeting(p):
    """Zero where a circle meets a parabola."""
    return p["x"] ** 2 + p["y"] ** 2 - 4, p["y"] - p["x"] ** 2 + 1


def fit_curve():
    """The same minimum by four methods, with first or second derivatives."""
    t = np.linspace(-3, 3, 200)
    y = 0.5 + 0.2 * t + 1.5 * np.exp(-0.5 * ((t - 0.7) / 0.4) ** 2)
    y += np.random.default_rng(0).normal(scale=0.05, size=t.shape)
    start = {"line": np.zeros(2), "height": 1.0, "centre": 0.5, "log_width": -0.5}
    problem = sg.to_scipy(smooth_curve, start, args=(t, y))
    found = {}
    for method, second in METHODS.items():
        options = {name: getattr(problem, name) for name in second}
        result = minimize(problem.fun, problem.x0, jac=problem.jac, method=method, tol=1e-10, **options)
        found[method] = problem.unravel(result.x)
        p = found[method]
        print(f"{method:12}centre {p['centre']:.3f}, height {p['height']:.3f}, width {np.exp(p['log_width']):.3f}")
    return found


def fit_decays():
    """Rates and amounts by least squares, with the Jacobian of the residuals."""
    t = np.linspace(0, 4, 60)
    y = 2 * np.exp(-3 * t) + np.exp(-0.5 * t)
    start = {"log_rates": np.array([0.5, -0.5]), "amounts": np.ones(2)}
    problem = sg.to_scipy(decays, start, args=(t, y))
    p = problem.unravel(least_squares(problem.fun, problem.x0, jac=problem.jac, xtol=1e-12).x)
    print(f"rates {np.round(np.exp(p['log_rates']), 6)}, amounts {np.round(p['amounts'], 6)}")
    return p


def smallest_tin():
    """A constraint is a function of the same dict: its derivative comes the same way."""
    start = {"radius": 3.0, "height": 5.0}
    problem, enough = sg.to_scipy(cost, start), sg.to_scipy(volume, start)
    constraint = {"type": "ineq", "fun": enough.fun, "jac": enough.jac}
    result = minimize(problem.fun, problem.x0, jac=problem.jac, method="SLSQP", constraints=constraint)
    p = problem.unravel(result.x)
    print(f"radius {p['radius']:.3f} cm, height {p['height']:.3f} cm")
    return p


def meet():
    """A root of two equations."""
    problem = sg.to_scipy(meeting, {"x": 1.0, "y": 1.0})
    p = problem.unravel(root(problem.fun, problem.x0, jac=problem.jac).x)
    print(f"x = {p['x']:.6f}, y = {p['y']:.6f}")
    return p


def main():
    return fit_curve(), fit_decays(), smallest_tin(), meet()


if __name__ == "__main__":
    main()
