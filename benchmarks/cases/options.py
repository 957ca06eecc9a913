"""Black-Scholes: the summed price of many call options, by spot prices and volatilities.

The normal distribution function is approximated by tanh, for everybody alike, since NumPy has no erf.
"""

import math

import numpy as np

from cases.model import Model, cases

SCALE, CUBIC = math.sqrt(2 / math.pi), 0.044715
RATE = 0.02


def normal(xp, z):
    return 0.5 * (1 + xp.tanh(SCALE * (z + CUBIC * z**3)))


def price(xp, spot, volatility, strike, time):
    deviation = volatility * xp.sqrt(time)
    d1 = (xp.log(spot / strike) + (RATE + 0.5 * volatility**2) * time) / deviation
    d2 = d1 - deviation
    return xp.sum(spot * normal(xp, d1) - strike * xp.exp(-RATE * time) * normal(xp, d2))


def by_hand(spot, volatility, strike, time):
    root = np.sqrt(time)
    deviation = volatility * root
    d1 = (np.log(spot / strike) + (RATE + 0.5 * volatility * volatility) * time) / deviation
    normal1, slope1 = normal_by_hand(d1)
    normal2, slope2 = normal_by_hand(d1 - deviation)
    discounted = strike * np.exp(-RATE * time)
    slope1 *= spot
    difference = slope1 - discounted * slope2  # zero but for the approximation
    delta = normal1 + difference / (spot * deviation)
    vega = slope1 * root - difference * d1 / volatility
    return spot @ normal1 - discounted @ normal2, (delta, vega)


def normal_by_hand(z):
    """Value and slope."""
    square = z * z
    t = np.tanh(SCALE * z * (1 + CUBIC * square))
    return 0.5 + 0.5 * t, (0.5 * SCALE) * (1 - t * t) * (1 + 3 * CUBIC * square)


def in_numba():
    from numba import njit, prange

    @njit
    def normal(z):
        square = z * z
        t = math.tanh(SCALE * z * (1 + CUBIC * square))
        return 0.5 + 0.5 * t, (0.5 * SCALE) * (1 - t * t) * (1 + 3 * CUBIC * square)

    @njit(parallel=True)
    def run(spot, volatility, strike, time):
        delta, vega, total = np.empty_like(spot), np.empty_like(spot), 0.0
        for i in prange(spot.size):
            root = math.sqrt(time[i])
            deviation = volatility[i] * root
            d1 = (math.log(spot[i] / strike[i]) + (RATE + 0.5 * volatility[i] ** 2) * time[i]) / deviation
            normal1, slope1 = normal(d1)
            normal2, slope2 = normal(d1 - deviation)
            discounted = strike[i] * math.exp(-RATE * time[i])
            slope1 *= spot[i]
            difference = slope1 - discounted * slope2
            delta[i] = normal1 + difference / (spot[i] * deviation)
            vega[i] = slope1 * root - difference * d1 / volatility[i]
            total += spot[i] * normal1 - discounted * normal2
        return total, (delta, vega)

    return run


def example(rng, n):
    return rng.uniform(80, 120, n), rng.uniform(0.1, 0.5, n), rng.uniform(80, 120, n), rng.uniform(0.2, 2, n)


MODEL = Model(price, example, by_hand, wrt=2, peers={"numba": in_numba})
CASES = cases("Black-Scholes", MODEL, *("n=1e5", "n=1e6"), small="n=50")
