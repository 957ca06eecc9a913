"""Forms to differentiate: those of `cheaper` the other way round, because their derivatives are stable at any order."""

import numpy as np

from symgrad.rewrite.algebra import floating
from symgrad.rewrite.engine import rule


@rule(changes_nan=True, when=floating)
def sigmoid_as_logaddexp(x):
    return 1 / (1 + np.exp(x)), np.exp(-np.logaddexp(0.0, x))


@rule(changes_nan=True, when=floating)
def scaled_sigmoid_as_logaddexp(x, y):
    return y / (1 + np.exp(x)), y * np.exp(-np.logaddexp(0.0, x))


@rule(changes_nan=True, when=floating)
def sigmoid_of_parts_as_logaddexp(x):
    return np.exp(x) / (1 + np.exp(x)), np.exp(-np.logaddexp(0.0, -x))


@rule(changes_nan=True, when=floating)
def one_minus_sigmoid_as_logaddexp(x):
    return 1 - np.exp(-np.logaddexp(0.0, x)), np.exp(-np.logaddexp(0.0, -x))
