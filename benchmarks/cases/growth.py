"""Logistic growth of many populations, some steps of the midpoint rule, by their rates and capacities."""

import numpy as np

from cases.model import Model, cases
from cases.threads import over_rows

STEPS, DT = 8, 0.25
BLOCK = 8192  # populations that are computed at once by hand


def loss(xp, rates, capacities, start, observed):
    def growth(x):
        return rates * x * (1 - x / capacities)

    x = start
    for _ in range(STEPS):
        x = x + DT * growth(x + 0.5 * DT * growth(x))
    return xp.mean((x - observed) ** 2)


def by_hand(rates, capacities, start, observed):
    d_rates, d_inverse = np.zeros_like(rates), np.zeros_like(rates)
    inverse = 1 / capacities

    def share(_, begin, end):
        total = 0.0
        for i in range(begin, end, BLOCK):
            rows = slice(i, min(i + BLOCK, end))
            arrays = (rates, inverse, start, observed, d_rates, d_inverse)
            total += block(*(x[rows] for x in arrays), 2 / rates.size)
        return total

    value = sum(over_rows(share, rates.size)) / rates.size
    return value, (d_rates, d_inverse * -(inverse * inverse))


def block(r, inverse, x, observed, d_r, d_inverse, scale):
    """The sum of squares; the gradients are added to where they belong."""
    half, states = 0.5 * DT, []
    for _ in range(STEPS):
        middle = x + half * r * x * (1 - x * inverse)
        states.append((x, middle))
        x = x + DT * r * middle * (1 - middle * inverse)
    residual = x - observed
    g = scale * residual
    for x, middle in reversed(states):
        rx, rm = r * x, r * middle
        g_middle = g * (DT * (r - 2 * rm * inverse))
        d_r += g * (DT * middle * (1 - middle * inverse)) + g_middle * (half * x * (1 - x * inverse))
        d_inverse -= g * (DT * rm * middle) + g_middle * (half * rx * x)
        g = g + g_middle * (1 + half * (r - 2 * rx * inverse))
    return residual @ residual


def in_numba():
    from numba import njit, prange

    @njit(parallel=True)
    def run(rates, capacities, start, observed):
        d_rates, d_capacities, total, half = np.empty_like(rates), np.empty_like(rates), 0.0, 0.5 * DT
        for i in prange(rates.size):
            r, inverse, x = rates[i], 1 / capacities[i], start[i]
            states = np.empty((STEPS, 2))
            for t in range(STEPS):
                middle = x + half * r * x * (1 - x * inverse)
                states[t] = x, middle
                x = x + DT * r * middle * (1 - middle * inverse)
            residual = x - observed[i]
            total += residual * residual
            g, d_r, d_inverse = 2 / rates.size * residual, 0.0, 0.0
            for t in range(STEPS - 1, -1, -1):
                x, middle = states[t]
                g_middle = g * (DT * r * (1 - 2 * middle * inverse))
                d_r += g * (DT * middle * (1 - middle * inverse)) + g_middle * (half * x * (1 - x * inverse))
                d_inverse -= g * (DT * r * middle * middle) + g_middle * (half * r * x * x)
                g = g + g_middle * (1 + half * r * (1 - 2 * x * inverse))
            d_rates[i], d_capacities[i] = d_r, -d_inverse * inverse * inverse
        return total / rates.size, (d_rates, d_capacities)

    return run


def example(rng, n):
    return rng.uniform(0.5, 1.5, n), rng.uniform(1, 3, n), rng.uniform(0.1, 1, n), rng.uniform(1, 2, n)


MODEL = Model(loss, example, by_hand, wrt=2, peers={"numba": in_numba})
CASES = cases("growth, 8 steps", MODEL, "n=1e5", small="n=50")
