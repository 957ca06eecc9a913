"""Initial state of a flow, found from its state some time later: Burgers' equation by Fourier transforms.

    python examples/burgers.py

Needs SciPy. The velocity u of a viscous flow on a circle follows du/dt + u du/dx = nu d2u/dx2. Steps are Runge and
Kutta's of order four in the frame in which each wave decays by itself; the product u du/dx is computed on twice as
many points, so that no wave folds back into a shorter one. The gradient of the misfit by the initial state is one run
of the solver backwards, with as many transforms.
"""

import numpy as np
from scipy.optimize import minimize

import symgrad as sg

POINTS, STEPS, TIME, VISCOSITY = 64, 40, 0.4, 0.05
X = 2 * np.pi * np.arange(POINTS) / POINTS
WAVES = np.fft.rfftfreq(POINTS, 1 / POINTS)


def advection(u):
    """The transform of -u du/dx = -d(u**2 / 2)/dx, for the transform of u."""
    fine = np.fft.irfft(u, 2 * POINTS, norm="forward")
    return -0.5j * WAVES * np.fft.rfft(fine * fine, norm="forward")[: len(WAVES)]


def flow(start):
    """The velocity at the end, by that in the beginning."""
    dt = TIME / STEPS
    half = np.exp(-VISCOSITY * WAVES**2 * dt / 2)
    u = np.fft.rfft(start, norm="forward")
    for _ in range(STEPS):
        a = dt * advection(u)
        b = dt * advection(half * (u + a / 2))
        c = dt * advection(half * u + b / 2)
        d = dt * advection(half * half * u + half * c)
        u = half * half * u + (half * half * a + 2 * half * (b + c) + d) / 6
    return np.fft.irfft(u, POINTS, norm="forward")


def misfit(start, observed):
    """Mean square of the difference at the end, and a little of the slopes in the beginning."""
    slopes = np.fft.irfft(1j * WAVES * np.fft.rfft(start), POINTS)
    return np.mean((flow(start) - observed) ** 2) + 1e-8 * np.mean(slopes**2)


def main():
    true = np.sin(X) + 0.5 * np.cos(2 * X)
    observed = flow(true)

    problem = sg.to_scipy(misfit, np.zeros(POINTS), args=(observed,))
    solution = minimize(problem.fun, problem.x0, jac=problem.jac, method="L-BFGS-B", tol=1e-12)
    found = problem.unravel(solution.x)

    before = misfit(problem.x0, observed)
    print(f"{solution.nfev} runs forwards and backwards, misfit {before:.1e} -> {solution.fun:.1e}")
    steepest = [np.max(np.abs(np.gradient(u, X))) for u in (true, observed)]
    print(f"steepest slope {steepest[0]:.2f} in the beginning, {steepest[1]:.2f} at the end")
    print(f"largest error of the initial state: {np.max(np.abs(found - true)):.2f}")
    print("\nvalue and gradient:\n")
    print(sg.value_and_grad(misfit).source("float64[64]", "float64[64]", optimize=1).program)
    return true, found


if __name__ == "__main__":
    main()
