"""A Kalman filter, fitted to a series with gaps by maximum likelihood.

    python examples/kalman.py

Needs SciPy. A level that drifts, with a slope that drifts, is observed with noise; some observations are missing. The
filter is a loop over the series, with a branch where nothing was observed, in plain NumPy: its gradient is a loop that
runs forward and one that runs back. Three variances follow by maximum likelihood, their errors by the Hessian.
"""

import numpy as np
from scipy.optimize import minimize

import symgrad as sg

TRUE = {"noise": 1.0, "level": 0.5, "slope": 0.01}
TRANSITION = np.array([[1.0, 1.0], [0.0, 1.0]])


def misfit(logs, series):
    """Minus the logarithm of the likelihood of a series, by those of the variances (Durbin & Koopman, ch. 4)."""
    noise, level, slope = np.exp(logs["noise"]), np.exp(logs["level"]), np.exp(logs["slope"])
    drift = np.array([[level, 0.0], [0.0, slope]])
    state, variance = np.zeros(2), 100.0 * np.eye(2)
    total = 0.0
    for y in series:
        if not np.isnan(y):
            surprise = y - state[0]
            spread = variance[0, 0] + noise
            gain = variance[:, 0] / spread
            total += 0.5 * (np.log(2 * np.pi * spread) + surprise**2 / spread)
            state = state + gain * surprise
            variance = variance - np.outer(gain, variance[0])
        state = TRANSITION @ state
        variance = TRANSITION @ variance @ TRANSITION.T + drift
    return total


def observed(rng, days):
    """A series of the model, a tenth of it missing."""
    drifts = [rng.normal(scale=np.sqrt(TRUE[name]), size=days) for name in ("slope", "level", "noise")]
    series = np.cumsum(np.cumsum(drifts[0]) + drifts[1]) + drifts[2]
    series[rng.random(days) < 0.1] = np.nan
    return series


def main(days=1000):
    series = observed(np.random.default_rng(1), days)
    problem = sg.to_scipy(misfit, dict.fromkeys(TRUE, 0.0), args=(series,))
    solution = minimize(problem.fun, problem.x0, jac=problem.jac)
    found = problem.unravel(solution.x)
    curvature = sg.hessian(misfit)(found, series)
    covariance = np.linalg.inv([[curvature[a][b] for b in TRUE] for a in TRUE])
    errors = dict(zip(TRUE, np.sqrt(np.diag(covariance)), strict=True))
    print(f"{days} days, {np.isnan(series).sum()} of them missing; {solution.nfev} evaluations")
    for name, true in TRUE.items():
        print(f"variance of the {name}: {np.exp(found[name]):.4f}, factor {np.exp(errors[name]):.2f}; was {true}")
    print("\nthe misfit and its gradient:\n")
    print(sg.value_and_grad(misfit).source(found, series, optimize=1))
    return found, errors


if __name__ == "__main__":
    main()
