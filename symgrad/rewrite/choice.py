"""Rules of choice and logic: what is chosen twice, by an inverse, or from the same."""

import numpy as np

from symgrad.rewrite.conditions import BOOLEAN, FLOAT
from symgrad.rewrite.rules import rule


@rule(exact=True)
def same_choice(c, x):
    return np.where(c, x, x), x


@rule(exact=True)
def always(x, y):
    return np.where(True, x, y), x


@rule(exact=True)
def never(x, y):
    return np.where(False, x, y), y


@rule(exact=True, c=BOOLEAN, when=lambda c, x, y: c.dtype.kind == "b")
def choice_by_inverse(c, x, y):
    return np.where(~c, x, y), np.where(c, y, x)


@rule(exact=True, c=BOOLEAN)
def choice_in_first(c, x, y, z):
    return np.where(c, np.where(c, x, y), z), np.where(c, x, z)


@rule(exact=True, c=BOOLEAN)
def choice_in_second(c, x, y, z):
    return np.where(c, x, np.where(c, y, z)), np.where(c, x, z)


@rule(exact=True, c=BOOLEAN)
def double_inverse(c):
    return ~~c, c


@rule(exact=True, c=BOOLEAN)
def both_the_same(c):
    return c & c, c


@rule(exact=True, c=BOOLEAN)
def either_the_same(c):
    return c | c, c


@rule(exact=True, c=BOOLEAN, d=BOOLEAN)
def both_again(c, d):
    return (c & d) & d, c & d


@rule(exact=True, c=BOOLEAN, when=lambda c, dtype: c.dtype.kind == "b")
def truth_as_number(c, dtype=FLOAT):
    return np.astype(c, dtype) != 0, c


@rule(exact=True)
def maximum_of_itself(x):
    return np.maximum(x, x), x


@rule(exact=True)
def minimum_of_itself(x):
    return np.minimum(x, x), x
