"""Intervals of floats: every number that an expression gives lies within."""

import numpy as np
import pytest

from symgrad.analysis.ranges import ANYWHERE
from symgrad.lowering.expressions import Apply, Choose, Local, Number
from symgrad.lowering.intervals import NOT_NEGATIVE, ROUNDED, Intervals
from symgrad.ops.define import TABLE

EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -2.5, 1e-200, -1e-200, 1e200, -1e200, 1e-320, np.inf, -np.inf, np.nan, 700.0)
BINARY = (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum)
FUNCTIONS = sorted(ROUNDED | NOT_NEGATIVE, key=lambda f: f.__name__)


NUMBERS = (0.0, 1.0, -0.5, 2.0, 1e-30, -1e30)


def random_expression(rng, dtype, depth, names):
    if depth == 0:
        if rng.random() < 0.6:
            return Local(rng.choice([*names]), dtype)
        return Number(dtype.type(rng.choice(NUMBERS)), dtype)
    part = lambda: random_expression(rng, dtype, depth - 1, names)
    if rng.random() < 0.1:
        return Choose(Apply(TABLE[np.less], (part(), part()), np.dtype(bool)), part(), part())
    function = FUNCTIONS[rng.integers(len(FUNCTIONS))]
    first = part()
    second = first if rng.random() < 0.3 else part()
    return Apply(TABLE[function], (first, second) if function in BINARY else (first,), dtype)


def value_of(x, values):
    if isinstance(x, Local):
        return values[x.name]
    if isinstance(x, Number):
        return x.value
    operands = [value_of(y, values) for y in x.operands]
    return operands[1 if operands[0] else 2] if isinstance(x, Choose) else x.op.evaluate(*operands)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(8))
def test_numbers_lie_within(seed, dtype):
    rng, told = np.random.default_rng(seed), 0
    for _ in range(50):
        y, x = (random_expression(rng, np.dtype(dtype), 2, names) for names in ("xz", "xyz"))
        interval = Intervals({"y": y}).of(x)
        told += interval != ANYWHERE
        for _ in range(30):
            with np.errstate(all="ignore"):
                values = {name: dtype(rng.choice(EDGES)) for name in "xz"}
                values["y"] = value_of(y, values)
                found = value_of(x, values)
            assert np.isnan(found) or interval.holds(found), (x, values, found, interval)
    assert told > 10
