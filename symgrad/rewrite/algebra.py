"""Rules of algebra: fewer operations, and the form that a person would write."""

import numpy as np

from symgrad.ops.elementwise import POSITIVE
from symgrad.rewrite.conditions import BOOLEAN, FLOAT, arithmetic, finite, floating, floats, real, signed, truths
from symgrad.rewrite.rules import rule

# ---- signs and neutral numbers


@rule(exact=True)  # of a complex number it would change the sign of a zero, and so the side of a cut
def add_zero(x):
    return x + 0, x


@rule(exact=True, plane="all")
def subtract_zero(x):
    return x - 0, x


@rule(exact=True, when=signed)
def subtract_from_zero(x):
    return 0 - x, -x


@rule(exact=True, plane="finite")
def times_one(x):
    return x * 1, x


@rule(exact=True, plane="finite")
def over_one(x):
    return x / 1, x


@rule(exact=True, when=signed)
def times_minus_one(x):
    return x * -1, -x


@rule(changes_nan=True, plane="finite")
def times_zero(x):
    return x * 0, 0


@rule(changes_nan=True, x=POSITIVE, when=floating)
def zero_over(x):
    return 0 / x, 0


@rule(changes_nan=True, when=signed)
def subtract_itself(x):
    return x - x, 0


@rule(exact=True, plane="finite", when=lambda x: x.dtype.kind in "fc")
def add_itself(x):
    return x + x, 2 * x


@rule(exact=True, alone=True, when=floats)
def negative_difference(x, y):
    return -(x - y), y - x


@rule(exact=True, alone=True, when=floats)
def add_negative_sum(x, y, z):
    return x + (-y - z), x - (y + z)


@rule(exact=True, alone=True, when=floating, x=POSITIVE)
def negative_reciprocal(x):
    return -(1 / x), -1 / x


# ---- numbers join


@rule(changes_nan=True, when=lambda x, a, b: floating(x) and a * b == 1)
def numbers_cancel(x, a=4.0, b=0.25):
    return a * (b * x), x


@rule(changes_nan=True, alone=True, when=finite)
def sum_of_sum(x, a=2.5, b=3.5):
    return a + (b + x), (a + b) + x


@rule(changes_nan=True, alone=True, when=floating)
def sum_with_multiple(x, a=2.5):
    return x + a * x, (1 + a) * x


@rule(changes_nan=True, alone=True, when=floating)
def difference_with_multiple(x, a=2.5):
    return x - a * x, (1 - a) * x


@rule(changes_nan=True, alone=True, when=finite)
def sum_of_multiples(x, a=2.5, b=3.5):
    return a * x + b * x, (a + b) * x


# ---- quotients


@rule(changes_nan=True, alone=True, y=POSITIVE, when=floats)
def times_reciprocal(x, y):
    return x * (1 / y), x / y


@rule(changes_nan=True, y=POSITIVE, when=floats)
def over_reciprocal(x, y):
    return x / (1 / y), x * y


@rule(changes_nan=True, alone=True, x=POSITIVE, y=POSITIVE, when=floats)
def cancel_in_quotient(x, y):
    """The logarithm of a quotient has such a derivative."""
    return x / y / x, 1 / y


@rule(changes_nan=True, alone=True, x=POSITIVE, y=POSITIVE, when=floats)
def cancel_in_quotient_of_product(a, x, y):
    return a * (x / y) / x, a / y


@rule(changes_nan=True, x=POSITIVE, y=POSITIVE, when=floats)
def reciprocal_of_quotient(x, y):
    return 1 / (x / y), y / x


@rule(x=POSITIVE, plane="finite")
def reciprocal(x):
    return np.reciprocal(x), 1 / x


# ---- powers and roots


@rule(exact=True, when=arithmetic, plane="finite")
def square(x):
    return np.square(x), x * x


@rule(exact=True, plane="finite")
def power_zero(x):
    return x**0, 1


@rule(exact=True, plane="finite")
def power_one(x):
    return x**1, x


@rule(when=arithmetic, plane="finite")
def power_two(x):
    return x**2, x * x


@rule(changes_nan=True, x=POSITIVE, when=floating)
def power_half(x):
    return x**0.5, np.sqrt(x)


@rule(x=POSITIVE, when=floating)
def power_minus_one(x):
    return x**-1, 1 / x


@rule(changes_nan=True, x=POSITIVE)
def square_of_root(x):
    return np.sqrt(x) * np.sqrt(x), x


@rule(exact=True, plane="all")
def positive(x):
    return +x, x


# ---- absolute values


@rule(exact=True, when=signed)
def absolute_of_negative(x):
    return np.abs(-x), np.abs(x)


@rule(exact=True, when=real)
def absolute_squared(x):
    return np.abs(x) * np.abs(x), x * x


# ---- choice and logic


@rule(exact=True, plane="all")
def always(x, y):
    return np.where(True, x, y), x


@rule(exact=True, plane="all")
def never(x, y):
    return np.where(False, x, y), y


@rule(exact=True, c=BOOLEAN, when=lambda c, x, y: truths(c=c), plane="all")
def choice_by_inverse(c, x, y):
    return np.where(~c, x, y), np.where(c, y, x)


@rule(exact=True, alone=True, when=floats)
def logaddexp_above_minus_infinity(x, y):
    """The derivative of `logaddexp` asks whether it is -inf: its larger argument tells, without an exponential."""
    return np.logaddexp(x, y) != -np.inf, np.maximum(x, y) != -np.inf


def _of_arrays(c, d, x, y):
    return truths(c=c, d=d) and c.ndim > 0 and d.ndim > 0


@rule(exact=True, c=BOOLEAN, plane="all")
def choice_of_one(c, x):
    return np.where(c, x, x), x


@rule(exact=True, c=BOOLEAN, plane="all")
def choice_in_first(c, x, y, z):
    return np.where(c, np.where(c, x, y), z), np.where(c, x, z)


@rule(exact=True, c=BOOLEAN, plane="all")
def choice_in_second(c, x, y, z):
    return np.where(c, x, np.where(c, y, z)), np.where(c, x, z)


@rule(exact=True, c=BOOLEAN, d=BOOLEAN, alone=True, when=_of_arrays, plane="all")
def choice_if_both(c, d, x, y):
    """Choices take long, above all between numbers that have no pattern."""
    return np.where(c, np.where(d, x, y), y), np.where(c & d, x, y)


@rule(exact=True, c=BOOLEAN, d=BOOLEAN, alone=True, when=_of_arrays, plane="all")
def choice_if_first_alone(c, d, x, y):
    return np.where(c, np.where(d, x, y), x), np.where(c & ~d, y, x)


@rule(exact=True, c=BOOLEAN, d=BOOLEAN, alone=True, when=_of_arrays, plane="all")
def choice_if_either(c, d, x, y):
    return np.where(c, x, np.where(d, x, y)), np.where(c | d, x, y)


@rule(exact=True, c=BOOLEAN, when=truths)
def choice_of_truths(c):
    return np.where(c, True, False), c


@rule(exact=True, c=BOOLEAN, when=truths)
def choice_of_falsehoods(c):
    return np.where(c, False, True), ~c


@rule(exact=True, c=BOOLEAN, d=BOOLEAN, when=truths)
def truth_if_both(c, d):
    return np.where(c, d, False), c & d


@rule(exact=True, c=BOOLEAN, d=BOOLEAN, when=truths)
def truth_if_either(c, d):
    return np.where(c, True, d), c | d


@rule(exact=True, c=BOOLEAN)
def both_the_same(c):
    return c & c, c


@rule(exact=True, c=BOOLEAN)
def either_the_same(c):
    return c | c, c


@rule(exact=True, c=BOOLEAN, d=BOOLEAN)
def both_again(c, d):
    return (c & d) & d, c & d


@rule(exact=True, c=BOOLEAN, when=lambda c, dtype: truths(c=c))
def truth_as_number(c, dtype=FLOAT):
    return np.astype(c, dtype) != 0, c
