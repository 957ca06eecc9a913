"""Exact evaluation of elementwise operators, without rounding, overflow or underflow: mpmath with 1200 bits."""

from __future__ import annotations

import mpmath
import numpy as np
from mpmath import mp

from symgrad.core.graph import CONSTANT, reached
from symgrad.core.interpret import interpret

BITS = 1200
"""The smallest number may stand beside one."""


def _where(condition, x, y):
    return x if condition else y


def _sign(x):
    return x if mpmath.isnan(x) else mpmath.sign(x)


def _power(x, y):
    if x == 0 or y == int(y):
        return mpmath.nan if x == 0 and y < 0 else mpmath.power(x, y)
    return _exp(y * mpmath.log(x))


def _divide(x, y):
    return x / y if y != 0 else mpmath.nan  # zeros have no sign here, so that poles have none either


def _exp(x):
    """The exponents of mpmath have no bound, but they must fit into memory."""
    if abs(x) >= mpmath.ldexp(1, 1100):
        return mpmath.inf if x > 0 else mpmath.mpf(0)
    if abs(x) > 1 << 20:  # of a whole number mpmath takes a power of e, a thousand times as slow for a large one
        return mpmath.exp(x + 0.5) * mpmath.exp(-0.5)
    return mpmath.exp(x)


def _log(x):
    return mpmath.nan if x == 0 else mpmath.log(x)  # it may only seem to be zero with so many bits


def _logaddexp(x, y):
    top, least = (x, y) if x >= y else (y, x)
    return top if mpmath.isinf(top) else top + mpmath.log1p(_exp(least - top))


def _sinc(x):
    return mpmath.mpf(1) if x == 0 else mpmath.sin(mpmath.pi * x) / (mpmath.pi * x)


def _heaviside(x, h):
    return x if mpmath.isnan(x) else h if x == 0 else mpmath.mpf(1 if x > 0 else 0)


FUNCTIONS = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "difference": lambda x, y: mpmath.mpf(0) if x == y else x - y,
    "multiply": lambda x, y: x * y,
    "divide": _divide,
    "negative": lambda x: -x,
    "positive": lambda x: x,
    "square": lambda x: x * x,
    "reciprocal": lambda x: _divide(mpmath.mpf(1), x),
    "power": _power,
    "absolute": abs,
    "isinf": lambda x: bool(mpmath.isinf(x)),
    "sign": _sign,
    "log": _log,
    "log1p": lambda x: _log(1 + x),
    "exp": _exp,
    "expm1": lambda x: _exp(x) - 1,
    "exp2": lambda x: _exp(x * mpmath.ln2),
    "logaddexp": _logaddexp,
    "logistic": lambda x: 1 / (1 + _exp(-x)),
    "sinc": _sinc,
    "arcsin": mpmath.asin,
    "arccos": mpmath.acos,
    "arctan": mpmath.atan,
    "arcsinh": mpmath.asinh,
    "arccosh": mpmath.acosh,
    "arctanh": mpmath.atanh,
    "maximum": max,
    "minimum": min,
    "clip": lambda x, low, high: min(max(x, low), high),
    "where": _where,
    "heaviside": _heaviside,
    "isfinite": mpmath.isfinite,
    "isnan": mpmath.isnan,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "bitwise_and": lambda x, y: x and y,
    "bitwise_or": lambda x, y: x or y,
    "invert": lambda x: not x,
    "logaddexp2": lambda x, y: _logaddexp(x * mpmath.ln2, y * mpmath.ln2) / mpmath.ln2,
    **{name: getattr(mpmath, name) for name in ("sin", "cos", "tan", "sqrt", "cbrt", "hypot")},
    "sinh": lambda x: (_exp(x) - _exp(-x)) / 2,
    "cosh": lambda x: (_exp(x) + _exp(-x)) / 2,
    "tanh": lambda x: mpmath.sign(x) * (1 - 2 / (1 + _exp(2 * abs(x)))),
    "log2": lambda x: _log(x) / mpmath.ln2,
    "log10": lambda x: _log(x) / mpmath.ln10,
    "arctan2": mpmath.atan2,
}
"""By the names of the operators."""

UNCHANGED = ("astype", "alias", "stop_gradient", "broadcast_to", "reshape", "full")


def exactly(outputs, feeds):
    """The values of `outputs` at scalars; None where a value on the way is not a real number.

    Parameters
    ----------
    outputs : list of Node
    feeds : dict of Node to float
    """
    usual = all(x == 0 or 1e-3 < abs(x) < 50 for x in feeds.values())
    with mp.workprec(300 if usual else BITS):
        values = {node: mpmath.mpf(float(x)) for node, x in feeds.items()}
        for node in reached(outputs):
            if node not in values:
                values[node] = _value(node, values)
        return [values[y] for y in outputs]


def _value(node, values):
    if node.op is CONSTANT:
        x = dict(node.params)["value"].value
        assert np.ndim(x) == 0 or np.size(x) == 1
        x = np.asarray(x).reshape(()).item()
        return x if type(x) is bool else mpmath.mpf(x)
    inputs = [values[x] for x in node.inputs]
    if node.op.name == "where":  # what is not taken may be anything
        return None if inputs[0] is None else _where(*inputs)
    if any(x is None for x in inputs):
        return None
    if node.op.name in UNCHANGED:
        return inputs[0]
    try:
        y = FUNCTIONS[node.op.name](*inputs)
    except (ValueError, ZeroDivisionError, OverflowError, MemoryError):
        return None
    return None if isinstance(y, mpmath.mpc) or (isinstance(y, mpmath.mpf) and mpmath.isnan(y)) else y


def with_units(truth, dtype):
    """Return pairs of exact numbers and units in the last place of a dtype; None where there is no number."""
    limits = np.finfo(dtype)
    eps, least = float(limits.eps), mpmath.mpf(float(limits.smallest_subnormal))
    with mp.workprec(200):
        beyond = mpmath.mpf(float(limits.max)) * (1 + eps)
        bounded = [y if y is None or abs(y) <= beyond else mpmath.inf * mpmath.sign(y) for y in truth]
        return [None if y is None else (y, max(abs(y) * eps, least)) for y in bounded]


def errors(found, truth):
    """Return the errors in units in the last place, infinite where a number is of another kind."""
    result = np.full(len(truth), np.nan)
    with mp.workprec(200):
        for i, (x, pair) in enumerate(zip(np.asarray(found).tolist(), truth, strict=True)):
            if pair is None:
                continue
            y, unit = pair
            if np.isfinite(x) and not mpmath.isinf(y):
                result[i] = float(abs(x - y) / unit)
            else:
                result[i] = 0 if x == y else np.inf
    return result


def judge(samples, truth, dtype):
    """Return what tells of each number whether it is as right as the samples.

    These are others with one rounding more of each value on the way. Below the smallest normal number, times what a
    program may multiply it with, nothing is asked for.
    """
    least = 1000 * float(np.finfo(dtype).tiny)
    tiny = np.array([y is not None and abs(y) < least for y in truth])
    truth = with_units(truth, dtype)
    possible = np.max([errors(each, truth) for each in samples], axis=0)
    unknown = np.isnan(possible) | (possible > 1e6)
    allowed = 16 + 16 * np.where(unknown, 0, possible)

    def right(found):
        return unknown | tiny & (np.abs(found) < least) | (errors(found, truth) <= allowed)

    return right


def rounded_more(outputs, feeds, seed):
    """`interpret`, where each number on the way is off by a unit in the last place; as it is for seed 0."""
    rng, values = np.random.default_rng(seed), {}

    def moved(x):
        if seed == 0 or not isinstance(x, np.ndarray) or x.dtype.kind != "f":
            return x
        return x * (1 + np.finfo(x.dtype).eps * rng.choice([-1, 1], x.shape)).astype(x.dtype)

    for node in reached(outputs):
        if node in feeds or node.op is CONSTANT:
            values[node] = moved(feeds[node]) if node in feeds else interpret([node], {})[0]
        else:
            values[node] = moved(interpret([node], {x: values[x] for x in node.inputs})[0])
    return [values[y] for y in outputs]


def grid(dtype=np.float64, step=1):
    """Zeros, denormals, every `step`-th power of ten, the bounds of the exponential, what is near one; both signs."""
    limits = np.finfo(dtype)
    low, high = int(np.log10(float(limits.tiny))), int(np.log10(float(limits.max)))
    powers = [dtype(f"1e{k}") for k in range(low, high + 1) if k % step == 0 or k in (low, -1, high)]
    bounds = [np.log(float(limits.max)), -np.log(float(limits.tiny)), -np.log(float(limits.smallest_subnormal))]
    found = [limits.smallest_subnormal, limits.tiny, *powers, limits.max, np.sqrt(limits.max), np.sqrt(limits.tiny)]
    found += [x for bound in bounds for x in (bound / 2, bound - 0.5, bound + 0.5)]
    found += [0.3, 0.7, 1 - limits.eps, 1, 1 + limits.eps, 1.7, 3, 8, 17, 19, 30, 40]
    positive = np.unique(np.array(found, dtype))
    return np.concatenate([-positive[::-1], np.array([-0.0, 0.0], dtype), positive])
