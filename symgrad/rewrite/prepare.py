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


def _held(form, top):
    """A form of the maximum, and the same of a constant."""
    return form(top), form(STOP(top))


def _logsumexp(x, top, **how):
    return np.log(np.sum(np.exp(x - top), **how))


def _softmax(x, top, **how):
    return np.exp(x - top) / np.sum(np.exp(x - top), **how)


def _along_axis(x, axis, keepdims):
    """Whether what is subtracted is one number for all that is summed."""
    return floating(x) and (keepdims or axis is None)


@rule(when=_along_axis)
def logsumexp_by_hand(x, axis=1, keepdims=True):
    how = {"axis": axis, "keepdims": keepdims}
    return _held(lambda top: top + _logsumexp(x, top, **how), np.max(x, **how))


@rule(when=floating)
def logsumexp_by_hand_reshaped(x, axis=1, shape=(2,)):
    return _held(
        lambda top: np.reshape(top, shape) + _logsumexp(x, top, axis=axis), np.max(x, axis=axis, keepdims=True)
    )


@rule(when=lambda x: floating(x) and x.ndim == 2)
def logsumexp_by_hand_indexed(x):
    return _held(lambda top: top[:, 0] + _logsumexp(x, top, axis=1), np.max(x, axis=1, keepdims=True))


@rule(when=floating)
def logsumexp_by_hand_twice(x, axis=1):
    top = np.max(x, axis=axis, keepdims=True)
    before = np.max(x, axis=axis) + _logsumexp(x, top, axis=axis)
    log_total = _logsumexp(x, STOP(top), axis=axis)
    return before, np.reshape(STOP(top), log_total.shape) + log_total


@rule(when=_along_axis)
def softmax_by_hand(x, axis=1, keepdims=True):
    return _held(lambda top: _softmax(x, top, axis=axis, keepdims=keepdims), np.max(x, axis=axis, keepdims=keepdims))


@rule(when=floating)
def softmax_by_hand_with_one_maximum(x, axis=1, keepdims=True):
    return _held(lambda top: _softmax(x, top, axis=axis, keepdims=keepdims), np.max(x))


@rule(when=_along_axis)
def logsoftmax_by_hand(x, axis=1, keepdims=True):
    how = {"axis": axis, "keepdims": keepdims}
    return _held(lambda top: (x - top) - _logsumexp(x, top, **how), np.max(x, **how))
