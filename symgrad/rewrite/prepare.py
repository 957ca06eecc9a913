"""Forms to differentiate: those of `cheaper` the other way round, because their derivatives are stable at any order."""

import numpy as np

from symgrad.ops.marks import STOP
from symgrad.rewrite.conditions import floating
from symgrad.rewrite.rules import rule


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


@rule(changes_nan=True, when=floating)
def log_sigmoid(x):
    return x - np.logaddexp(0, x), -np.logaddexp(0.0, -x)


# ---- a maximum taken out by hand: its derivative cancels, so it need not be computed


def _along_axis(x, axis, keepdims):
    """Whether what is subtracted is one number for all that is summed."""
    return floating(x) and (keepdims or axis is None)


@rule(when=_along_axis)
def logsumexp_by_hand(x, axis=1, keepdims=True):
    top = np.max(x, axis=axis, keepdims=keepdims)
    held = STOP(top)
    return (
        top + np.log(np.sum(np.exp(x - top), axis=axis, keepdims=keepdims)),
        held + np.log(np.sum(np.exp(x - held), axis=axis, keepdims=keepdims)),
    )


@rule(when=floating)
def logsumexp_by_hand_reshaped(x, axis=1, shape=(2,)):
    top = np.max(x, axis=axis, keepdims=True)
    before = np.reshape(top, shape) + np.log(np.sum(np.exp(x - top), axis=axis))
    held = STOP(top)
    return before, np.reshape(held, shape) + np.log(np.sum(np.exp(x - held), axis=axis))


@rule(when=lambda x: floating(x) and x.ndim == 2)
def logsumexp_by_hand_indexed(x):
    top = np.max(x, axis=1, keepdims=True)
    before = top[:, 0] + np.log(np.sum(np.exp(x - top), axis=1))
    held = STOP(top)
    return before, held[:, 0] + np.log(np.sum(np.exp(x - held), axis=1))


@rule(when=floating)
def logsumexp_by_hand_twice(x, axis=1):
    top = np.max(x, axis=axis, keepdims=True)
    before = np.max(x, axis=axis) + np.log(np.sum(np.exp(x - top), axis=axis))
    held = STOP(top)
    total = np.sum(np.exp(x - held), axis=axis)
    return before, np.reshape(held, total.shape) + np.log(total)


@rule(when=_along_axis)
def softmax_by_hand(x, axis=1, keepdims=True):
    top = np.max(x, axis=axis, keepdims=keepdims)
    before = np.exp(x - top) / np.sum(np.exp(x - top), axis=axis, keepdims=keepdims)
    e = np.exp(x - STOP(top))
    return before, e / np.sum(e, axis=axis, keepdims=keepdims)


@rule(when=floating)
def softmax_by_hand_with_one_maximum(x, axis=1, keepdims=True):
    top = np.max(x)
    before = np.exp(x - top) / np.sum(np.exp(x - top), axis=axis, keepdims=keepdims)
    e = np.exp(x - STOP(top))
    return before, e / np.sum(e, axis=axis, keepdims=keepdims)


@rule(when=_along_axis)
def logsoftmax_by_hand(x, axis=1, keepdims=True):
    top = np.max(x, axis=axis, keepdims=keepdims)
    before = (x - top) - np.log(np.sum(np.exp(x - top), axis=axis, keepdims=keepdims))
    shifted = x - STOP(top)
    return before, shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=keepdims))
