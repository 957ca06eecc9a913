"""scipy.signal: recursive linear filters, `lfilter`, `sosfilt`, `filtfilt`, `sosfiltfilt`.

One operator is the filter itself, along the last axis from rest. Its transpose is the filter run backwards in time.
"""

import numpy as np
from scipy import signal

from symgrad.core import shapes
from symgrad.core.axes import lettered
from symgrad.core.graph import Aval
from symgrad.errors import ArgumentError, UnsupportedError
from symgrad.ops.arguments import axis_index
from symgrad.ops.define import implements_at, operator
from symgrad.ops.dtypes import common_dtype
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.scipy.convert import untraced

PACKAGE = "scipy.signal"


def _backwards(b, a, g):
    """Reverse the last axis: the transpose of shifting along it."""
    return np.flip(LFILTER(b, a, np.flip(g, -1)), -1)


def _lagged(x, y, n):
    """The sum of products of each number with that n places earlier."""
    return np.sum(x[..., n:] * y[..., : -n or None])


def _vjp(g, y, b, a, x):
    """With 1 / A transposed, of which the coefficients are products: ``A y = B x``."""
    error = _backwards(np.ones_like(a[:1]), a, g)
    of_b = [_lagged(error, x, i) for i in range(int(b.shape[0]))]
    of_a = [-_lagged(error, y, i) for i in range(int(a.shape[0]))]
    return np.stack(of_b), np.stack(of_a), _backwards(b, a, g)


def _batch(batched, b, a, x):
    return NotImplemented if batched[0] or batched[1] else LFILTER(b, a, x)


LFILTER = operator(
    signal.lfilter,
    arrays=3,
    infer=lambda b, a, x: Aval(x.shape, common_dtype(b, a, x)),
    vjp=_vjp,
    signature=lettered("_,_,..._->..._"),
    batch=_batch,
    flops=lambda y, b, a, x: 2 * (b.shape[0] + a.shape[0]) * shapes.product(y.shape),
    package=PACKAGE,
)
"""``lfilter(b, a, x)`` of floating inputs, along the last axis."""


# ---- with states


def _floating(x):
    x = as_input(x)
    return np.atleast_1d(
        x if np.result_type(x).kind in "fc" else np.astype(x if is_traced(x) else np.asarray(x), float)
    )


def _response(a, zi, n):
    """Return the output due to initial states: they enter with the first samples."""
    length = int(zi.shape[-1])
    entering = zi[..., :n] if length >= n else np.concatenate([zi, np.zeros((*zi.shape[:-1], n - length))], -1)
    return LFILTER(np.ones_like(a[:1]), a, entering)


def _final(b, a, x, y, zi):
    """The states behind the last sample."""
    n, order = int(x.shape[-1]), max(int(b.shape[0]), int(a.shape[0])) - 1
    states = []
    for k in range(order):
        state = zi[..., k + n] if k + n < order else 0.0
        for i in range(k + 1, order + 1):
            at = n + k - i
            if at >= 0:
                state = state + (b[i] * x[..., at] if i < b.shape[0] else 0.0)
                state = state - (a[i] * y[..., at] if i < a.shape[0] else 0.0)
        states.append(state)
    return np.stack(np.broadcast_arrays(*states), -1) if states else zi


def _filtered(b, a, x, zi):
    """A filter along the last axis from given states, and the states behind it."""
    b, a = b / a[0], a / a[0]
    y = LFILTER(b, a, x)
    if zi is None:
        return y, None
    y = y + _response(a, zi, int(x.shape[-1]))
    return y, _final(b, a, x, y, zi)


def _last(x, axis):
    return np.moveaxis(x, axis, -1) if x.ndim > 1 else x


def _back(x, axis):
    return np.moveaxis(x, -1, axis) if x.ndim > 1 else x


@implements_at(signal, "lfilter")
def lfilter(b, a, x, axis=-1, zi=None):
    b, a, x = map(_floating, (b, a, x))
    axis = axis_index("lfilter", axis, x.ndim)
    y, zf = _filtered(b, a, _last(x, axis), None if zi is None else _last(_floating(zi), axis))
    return _back(y, axis) if zi is None else (_back(y, axis), _back(zf, axis))


def _sections(sos):
    sos = _floating(sos)
    if sos.ndim != 2 or sos.shape[1] != 6:
        raise ArgumentError(f"{PACKAGE}: sections of shape {sos.shape}", "Give six coefficients for each: (n, 6).")
    return [(sos[i, :3], sos[i, 3:]) for i in range(int(sos.shape[0]))]


@implements_at(signal, "sosfilt")
def sosfilt(sos, x, axis=-1, zi=None):
    x = _floating(x)
    axis = axis_index("sosfilt", axis, x.ndim)
    y, states = _last(x, axis), []
    for i, (b, a) in enumerate(_sections(sos)):
        y, state = _filtered(b, a, y, None if zi is None else _last(_floating(zi)[i], axis))
        states.append(state)
    return _back(y, axis) if zi is None else (_back(y, axis), np.stack([_back(s, axis) for s in states]))


# ---- forwards and backwards


def _constant(function, *coefficients):
    if any(map(is_traced, coefficients)):
        raise UnsupportedError(
            f"{PACKAGE}.{function} with traced coefficients is not supported",
            f"Write {PACKAGE}.lfilter there and back.",
        )


def _extended(function, x, padtype, padlen, least):
    """The signal with more samples at its ends, and how many."""
    n = least if padlen is None else padlen
    n = 0 if padtype is None else n
    if n >= int(x.shape[-1]):
        raise ArgumentError(
            f"{PACKAGE}.{function}: {n} samples at each end of {x.shape[-1]}", "Give padlen= less than the length."
        )
    if n == 0:
        return x, 0
    around = [(0, 0)] * (x.ndim - 1) + [(n, n)]
    if padtype == "odd":
        return np.pad(x, around, "reflect", reflect_type="odd"), n
    if padtype in ("even", "constant"):
        return np.pad(x, around, "reflect" if padtype == "even" else "edge"), n
    raise UnsupportedError(f"{PACKAGE}.{function}: padtype={padtype!r} is not supported", "Give 'odd' or 'even'.")


def _there_and_back(run, x, n):
    """`run` filters from the states of its first sample."""
    y = run(x)
    y = np.flip(run(np.flip(y, -1)), -1)
    return y[..., n : int(y.shape[-1]) - n] if n else y


@implements_at(signal, "filtfilt")
def filtfilt(b, a, x, axis=-1, padtype="odd", padlen=None, method="pad", irlen=None):
    _constant("filtfilt", b, a)
    if method != "pad":
        raise UnsupportedError(f"{PACKAGE}.filtfilt: method={method!r} is not supported", "Give method='pad'.")
    b, a, x = map(_floating, (b, a, x))
    axis = axis_index("filtfilt", axis, x.ndim)
    with untraced():
        zi = signal.lfilter_zi(b, a)
    longer, n = _extended("filtfilt", _last(x, axis), padtype, padlen, 3 * max(len(a), len(b)))
    return _back(_there_and_back(lambda x: _filtered(b, a, x, zi * x[..., :1])[0], longer, n), axis)


@implements_at(signal, "sosfiltfilt")
def sosfiltfilt(sos, x, axis=-1, padtype="odd", padlen=None):
    _constant("sosfiltfilt", sos)
    x = _floating(x)
    axis = axis_index("sosfiltfilt", axis, x.ndim)
    with untraced():
        zi = signal.sosfilt_zi(np.asarray(sos))
    sections = _sections(sos)
    least = 3 * (2 * len(sections) + 1 - min(sum(b[2] == 0 for b, _ in sections), sum(a[2] == 0 for _, a in sections)))

    def run(x):
        first = x[..., :1]
        for (b, a), state in zip(sections, zi, strict=True):
            x = _filtered(b, a, x, state * first)[0]
        return x

    longer, n = _extended("sosfiltfilt", _last(x, axis), padtype, padlen, int(least))
    return _back(_there_and_back(run, longer, n), axis)
