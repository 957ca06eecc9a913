"""Stable forms: the same function without overflow, cancellation or a NaN that only the way of computing it makes.

The names are those of the rewrites of Theano and PyTensor where there are such.
"""

import numpy as np

from symgrad.analysis.overflow import has_range
from symgrad.ops.choice import WHERE
from symgrad.ops.elementwise import LN2, POSITIVE, SUBTRACT
from symgrad.ops.index import GET
from symgrad.ops.marks import STOP
from symgrad.ops.reduce import MAX
from symgrad.ops.shape import BROADCAST_TO, RESHAPE
from symgrad.rewrite.conditions import floating
from symgrad.rewrite.pattern import Draw
from symgrad.rewrite.rules import rule

BELOW_ZERO = (-3.0, -0.1)

# ---- near zero and one


@rule(changes_nan=True, x=(-0.9, 3), when=floating)
def log1p(x):
    return np.log(1 + x), np.log1p(x)


@rule(changes_nan=True, x=(-3, 0.9), when=floating)
def log1p_negative(x):
    return np.log(1 - x), np.log1p(-x)


@rule(changes_nan=True, when=floating)
def expm1(x):
    return np.exp(x) - 1, np.expm1(x)


@rule(changes_nan=True, when=floating)
def expm1_negative(x):
    return 1 - np.exp(x), -np.expm1(x)


@rule(changes_nan=True, x=BELOW_ZERO, when=floating)
def log1mexp(x):
    """Mächler, *Accurately computing log(1 - exp(-|a|))*, 2012."""
    return np.log(-np.expm1(x)), np.where(x > -LN2, np.log(-np.expm1(x)), np.log1p(-np.exp(x)))


# ---- logarithm and exponential undo each other


@rule(changes_nan=True, when=floating)
def log_of_exp(x):
    return np.log(np.exp(x)), x


@rule(changes_nan=True, x=POSITIVE, when=floating)
def exp_of_log(x):
    return np.exp(np.log(x)), x


@rule(changes_nan=True, y=POSITIVE, when=floating)
def log_of_exp_over(x, y):
    return np.log(np.exp(x) / y), x - np.log(y)


@rule(changes_nan=True, x=POSITIVE, when=floating)
def log_of_reciprocal(x):
    return np.log(1 / x), -np.log(x)


@rule(changes_nan=True, x=POSITIVE, when=floating)
def log_of_sqrt(x):
    return np.log(np.sqrt(x)), 0.5 * np.log(x)


@rule(changes_nan=True, x=(0.1, 3), when=floating)
def log_of_square(x):
    return np.log(x * x), 2 * np.log(np.abs(x))


@rule(changes_nan=True, x=POSITIVE, when=lambda x, a: floating(x) and a == int(a) and a % 2 == 0)
def log_of_even_power(x, a=2.5):
    return np.log(x**a), a * np.log(np.abs(x))


@rule(changes_nan=True, x=POSITIVE, when=lambda x, a: floating(x) and a % 2 != 0)
def log_of_power(x, a=2.5):
    return np.log(x**a), a * np.log(x)


@rule(changes_nan=True, when=floating)
def sqrt_of_square(x):
    return np.sqrt(x * x), np.abs(x)


@rule(changes_nan=True, x=Draw((2, 2)), when=lambda x: has_range(x.dtype))
def log_of_det(x):
    """The determinant of a large matrix overflows; that of a negative sign has no logarithm here either."""
    sign, log_of_absolute = np.linalg.slogdet(x)
    return np.log(np.linalg.det(x)), log_of_absolute + np.log(sign)


@rule(changes_nan=True, x=Draw((2, 2)), when=lambda x: has_range(x.dtype))
def log_of_absolute_det(x):
    return np.log(np.abs(np.linalg.det(x))), np.linalg.slogdet(x)[1]


# ---- log of a sum of exponentials: the largest is taken out, unless that has been done


def _unshifted(x, **_):
    """Whether the maximum has not been taken out of it yet."""
    node = x.node
    return floating(x) and not (node.op is SUBTRACT and _is_maximum(node.inputs[1]))


def _is_maximum(node):
    while node.op in (STOP, RESHAPE, GET, BROADCAST_TO, WHERE):
        node = node.inputs[1 if node.op is WHERE else 0]
    return node.op is MAX


def _largest(x, axis):
    """The maximum as a number to subtract: its derivative cancels, and a row of -inf must not become NaN."""
    top = np.max(x, axis=axis, keepdims=True)
    return STOP(np.where(np.isfinite(top), top, 0))


@rule(changes_nan=True, when=_unshifted)
def logsumexp(x, axis=1, keepdims=True):
    top = _largest(x, axis)
    total = np.sum(np.exp(x - top), axis=axis, keepdims=keepdims)
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims)), np.reshape(top, total.shape) + np.log(total)


@rule(changes_nan=True, when=_unshifted)
def softmax(x, axis=1, keepdims=True):
    e = np.exp(x - _largest(x, axis))
    return (
        np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=keepdims),
        e / np.sum(e, axis=axis, keepdims=keepdims),
    )
