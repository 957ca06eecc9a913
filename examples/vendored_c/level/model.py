"""A level that walks at random, measured with noise: Kalman's filter in plain NumPy."""

import numpy as np


def likelihood(q, r, y):
    """The negative logarithm of the likelihood of measurements, but for a constant.

    The level moves with variance `q` from one measurement to the next; `r` is the variance of the noise.
    """
    mean, variance, total = 0.0, 100.0, 0.0
    for measured in y:
        variance = variance + q
        spread = variance + r
        error = measured - mean
        total = total + 0.5 * (np.log(spread) + error**2 / spread)
        mean = mean + variance / spread * error
        variance = variance * r / spread
    return total
