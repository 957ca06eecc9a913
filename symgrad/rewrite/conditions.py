"""Helpers shared by tables of rules: draws, keys, and predicates for `when=`."""

import numpy as np

from symgrad.analysis.overflow import MODERATE
from symgrad.ops import index, index_expressions
from symgrad.rewrite.pattern import Draw

FLOAT = np.dtype(float)
BOOLEAN, VECTOR, SCALAR = Draw(dtype=bool), Draw(shape=(3,)), Draw(shape=())
ROW = (1, index_expressions.EVERYTHING)
AS_COLUMN = (index_expressions.EVERYTHING, None)


def floating(x, **_):
    return x.dtype.kind == "f"


def signed(x, **_):
    return x.dtype.kind in "if"


def real(x, **_):
    return x.dtype.kind != "c"


def arithmetic(x, **_):
    """Whether a product is one of numbers: a product of booleans is `and`, while their powers are integers."""
    return x.dtype.kind != "b"


def truths(**arrays):
    """Whether all are booleans."""
    return all(x.dtype.kind == "b" for x in arrays.values())


def floats(**arrays):
    """Whether nothing wraps around: all are floating, or Python's numbers."""
    return all(x.dtype.kind == "f" or x.aval.weak for x in arrays.values() if hasattr(x, "aval"))


def finite(a, b, x, **others):
    """Whether numbers joined stay numbers, and lose no digit that an array of floats has."""
    if not (floating(x) and floats(**others) and a and b) or x.dtype.itemsize not in MODERATE:
        return False
    most = MODERATE[x.dtype.itemsize]
    return 1 / most < abs(a * b) < most and 1 / most < abs(a / b) < most


def column(v):
    """``v[:, None]`` in the one form that the last pass gives it."""
    return index.GET(v, key=AS_COLUMN)
