"""The modified Bessel functions of NumPy: `np.i0`, its derivative, which NumPy lacks, and `np.kaiser`.

Numbers after a formula are those of the Digital Library of Mathematical Functions (DLMF, https://dlmf.nist.gov).
"""

import numpy as np

from symgrad.ops.define import elementwise, implements
from symgrad.ops.dtypes import result_dtype
from symgrad.ops.operands import as_input
from symgrad.spelling import call


def i1(x):
    """The modified Bessel function of order one, by its power series and beyond 25 by 10.40.1."""
    size = np.abs(x)
    near = size <= 25
    t, r = np.square(np.minimum(size, 25) / 2), 1 / np.maximum(size, 25)
    series, tail = np.zeros_like(t), np.zeros_like(r)
    for k in range(60, 0, -1):
        series = (1 + series) * t / (k * (k + 1))
    for k in range(20, 0, -1):
        tail = (1 + tail) * ((2 * k - 1) ** 2 - 4) / (8 * k) * r
    half = np.exp(size / 2)  # the whole would overflow sooner than the result
    far = half * (np.sqrt(r / (2 * np.pi)) * (1 + tail)) * half
    return np.where(near, x / 2 * (1 + series), np.sign(x) * far)


def _i1_slope(y, x):
    """10.29.2; a half at zero."""
    zero = x == 0
    return np.where(zero, 0.5, np.i0(x) - y / np.where(zero, 1, x))


def _dtype(x):
    return result_dtype(x, float)


I0 = elementwise(np.i0, lambda y, x: I1(x), dtype=_dtype, spell=lambda node, x: call("np.i0", [x.text]), singular=True)
I1 = elementwise(i1, _i1_slope, dtype=_dtype, written=True, singular=True)


@implements(np.kaiser)
def kaiser(M, beta):
    beta = as_input(beta)
    if M == 1:
        return np.ones(1, like=beta)
    half = (M - 1) / 2.0
    place = (np.arange(M, like=beta) - half) / half
    return np.i0(beta * np.sqrt(1 - place * place)) / np.i0(beta)
