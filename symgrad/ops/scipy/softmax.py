"""scipy.special: sums of exponentials, of which the largest is taken out so that none overflows."""

import numpy as np
from scipy import special

from symgrad.core.sizes import same
from symgrad.errors import DTypeError
from symgrad.ops.define import implements_at
from symgrad.ops.marks import STOP
from symgrad.ops.operands import as_input, is_traced


def _real_input(function, x, small=False):
    """Return floating numbers. With `small`, integers of one and two bytes become float16 and float32, as in SciPy."""
    x = as_input(x)
    if x.dtype.kind == "c":
        raise DTypeError(
            f"scipy.special.{function} of {x.dtype} is not supported", "Convert it first: x.astype(float)."
        )
    dtype = np.result_type(x.dtype, np.float16 if small and x.dtype.kind != "b" else float)
    return x if x.dtype.kind == "f" else np.astype(x, dtype) if is_traced(x) else np.asarray(x, dtype)


def _largest(x, axis):
    """Return the maximum that is subtracted, as a constant: the result does not depend on it."""
    options = {"initial": -np.inf} if any(same(n, 0) for n in x.shape) else {}
    top = STOP(np.max(x, axis=axis, keepdims=True, **options))
    return np.where(np.isfinite(top), top, 0.0)


def _shifted(x, axis):
    return x - _largest(x, axis)


def _kept(y, axis, keepdims):
    return y if keepdims else np.squeeze(y, axis=tuple(range(np.ndim(y))) if axis is None else axis)


@implements_at(special, "logsumexp")
def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    a = _real_input("logsumexp", a)
    if b is not None:
        a, b = np.broadcast_arrays(a, _real_input("logsumexp", b))
    top = _largest(a if b is None else np.where(b == 0, -np.inf, a), axis)
    total = np.sum(np.exp(a - top) if b is None else _weighted(a - top, b), axis=axis, keepdims=True)
    y = np.log(np.abs(total) if return_sign else total) + top
    if not return_sign:
        return _kept(y, axis, keepdims)
    return _kept(y, axis, keepdims), _kept(np.sign(total), axis, keepdims)


def _weighted(shifted, b):
    """Exponentials with weights; a weight of zero takes away an infinite one, too."""
    dead = (b == 0) & (shifted > 700)
    return np.where(dead, 0.0, b * np.exp(np.where(dead, 0.0, shifted)))


@implements_at(special, "softmax")
def softmax(x, axis=None):
    e = np.exp(_shifted(_real_input("softmax", x, small=True), axis))
    return e / np.sum(e, axis=axis, keepdims=True)


@implements_at(special, "log_softmax")
def log_softmax(x, axis=None):
    shifted = _shifted(_real_input("log_softmax", x, small=True), axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
