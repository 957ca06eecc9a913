"""A decay with an offset, and how far it is from measurements: plain NumPy, from which symgrad makes derivatives."""

import numpy as np


def decay(params, t):
    height = params[0]
    rate = params[1]
    offset = params[2]
    return height * np.exp(-rate * t) + offset


def residuals(params, t, y):
    return decay(params, t) - y


def loss(params, t, y):
    return np.mean(residuals(params, t, y) ** 2)
