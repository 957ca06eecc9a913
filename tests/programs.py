"""The checks of `oracle` and `sweep` for functions that find NumPy and SciPy as traced programs do; their source.

And a program that the tests of two floors share.
"""

from functools import wraps

import numpy as np

from symgrad.frontend.interception import inside
from symgrad.ops.operands import is_traced
from tests import oracle, sweep


def plain(f):
    """`f`, of Variables as `symgrad.trace` runs it."""

    @wraps(f)
    def run(*args):
        traced = next(filter(is_traced, args), None)
        if traced is None:
            return f(*args)
        with inside(traced.graph, f):
            return f(*args)

    return run


def check_close(f, *args, **kwargs):
    sweep.check_close(plain(f), *args, **kwargs)


def check_derivatives(f, *args, **kwargs):
    oracle.check_derivatives(plain(f), *args, **kwargs)


def check_batch(f, *args):
    sweep.check_batch(plain(f), *args)


def without_comments(source):
    """The lines of a source that run."""
    return "".join(line for line in source.splitlines(keepends=True) if not line.lstrip().startswith("#"))


def handed_on(x, c):
    """An array that a branch hands on is written into behind a value that is computed of it."""
    y, total = np.sin(x), [np.sum(np.sin(x) * 2)]
    if c > 0:
        z = y
    else:
        z = np.cos(x)
    z[0] = 1.0
    return z, total[0] + 1
