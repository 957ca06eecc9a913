"""Rules of algebra: fewer operations, and the form that a person would write."""

import numpy as np

from symgrad.analysis.overflow import MODERATE, NEAR_ONE, has_range, moderate
from symgrad.core.shapes import same_shape
from symgrad.ops import index, index_expressions
from symgrad.ops.elementwise import POSITIVE
from symgrad.rewrite.pattern import Draw
from symgrad.rewrite.rules import rule

FLOAT = np.dtype(float)
BOOLEAN, VECTOR, SCALAR = Draw(dtype=bool), Draw(shape=(3,)), Draw(shape=())


def floating(x, **_):
    return x.dtype.kind == "f"


def signed(x, **_):
    return x.dtype.kind in "if"


def real(x, **_):
    return x.dtype.kind != "c"


def arithmetic(x, **_):
    """Whether a product is one of numbers: that of booleans is `and`, where their powers are integers."""
    return x.dtype.kind != "b"


def floats(**arrays):
    """Whether nothing wraps around: all are floating, or Python's numbers."""
    return all(x.dtype.kind == "f" or x.aval.weak for x in arrays.values() if hasattr(x, "aval"))


def finite(a, b, x, **others):
    """Whether numbers joined stay numbers, and lose no digit that an array of floats has."""
    if not (floating(x) and floats(**others) and a and b) or x.dtype.itemsize not in MODERATE:
        return False
    most = MODERATE[x.dtype.itemsize]
    return 1 / most < abs(a * b) < most and 1 / most < abs(a / b) < most


def near_one(a, b, x, y):
    """Whether the number that two make may be multiplied with the first of several arrays."""
    return finite(a, b, x, y=y) and moderate(a * b, NEAR_ONE.get(x.dtype.itemsize, 1.0))


# ---- signs and neutral numbers


@rule(exact=True)
def double_negative(x):
    return -(-x), x  # noqa: B002


@rule(exact=True)
def add_zero(x):
    return x + 0, x


@rule(exact=True)
def subtract_zero(x):
    return x - 0, x


@rule(exact=True, when=signed)
def subtract_from_zero(x):
    return 0 - x, -x


@rule(exact=True)
def times_one(x):
    return x * 1, x


@rule(exact=True)
def over_one(x):
    return x / 1, x


@rule(exact=True, when=signed)
def times_minus_one(x):
    return x * -1, -x


@rule(exact=True, when=floating)
def over_minus_one(x):
    return x / -1, -x


@rule(changes_nan=True)
def times_zero(x):
    return x * 0, 0


@rule(changes_nan=True, x=POSITIVE, when=floating)
def zero_over(x):
    return 0 / x, 0


@rule(changes_nan=True, when=signed)
def subtract_itself(x):
    return x - x, 0


@rule(exact=True, when=floating)
def add_itself(x):
    return x + x, 2 * x


@rule(exact=True, when=floats)
def add_negative(x, y):
    return x + -y, x - y


@rule(exact=True, when=floats)
def subtract_negative(x, y):
    return x - (-y), x + y


@rule(exact=True, when=floats)
def negative_difference(x, y):
    return -(x - y), y - x


@rule(exact=True, when=floats)
def negatives_multiply(x, y):
    return -x * -y, x * y


@rule(exact=True, when=floats, y=POSITIVE)
def negatives_divide(x, y):
    return -x / -y, x / y


@rule(exact=True, alone=True, when=floats)
def add_negative_product(x, y, z):
    return x + -y * z, x - y * z


@rule(exact=True, alone=True, when=floats)
def subtract_negative_product(x, y, z):
    return x - (-y) * z, x + y * z


@rule(exact=True, alone=True, when=floats)
def add_negative_sum(x, y, z):
    return x + (-y - z), x - (y + z)


@rule(exact=True, alone=True, when=floats)
def negative_product(x, y):
    return -(-x * y), x * y


@rule(exact=True, alone=True, when=floats, y=POSITIVE)
def negative_quotient(x, y):
    return -(-x / y), x / y


@rule(exact=True, alone=True, when=floating)
def negative_multiple(x, a=2.5):
    return -(a * x), -a * x


@rule(exact=True, when=floating)
def multiple_of_negative(x, a=2.5):
    return a * -x, -a * x


@rule(exact=True, alone=True, when=floating, x=POSITIVE)
def negative_reciprocal(x, a=2.5):
    return -(a / x), -a / x


@rule(exact=True, alone=True, when=floats, x=POSITIVE, y=POSITIVE)
def negative_reciprocal_over(x, y, a=2.5):
    return -(a / x / y), -a / x / y


@rule(exact=True, alone=True, when=floats, x=POSITIVE)
def negative_multiple_of_product(x, y, a=2.5):
    return -(a * x * y), -a * x * y


@rule(exact=True, when=floating, x=POSITIVE)
def over_negative(x, a=2.5):
    return a / -x, -a / x


# ---- numbers join


@rule(changes_nan=True, alone=True, when=finite)
def multiple_of_multiple(x, a=2.5, b=3.5):
    return a * (b * x), (a * b) * x


@rule(changes_nan=True, alone=True, when=near_one)
def multiple_of_product(x, y, a=2.5, b=3.5):
    return a * (b * x * y), (a * b) * x * y


@rule(changes_nan=True, alone=True, when=finite)
def multiple_of_quotient(x, a=2.5, b=3.5):
    return a * (x / b), x * (a / b)


@rule(changes_nan=True, alone=True, when=finite)
def quotient_of_multiple(x, a=2.5, b=3.5):
    return (a * x) / b, (a / b) * x


@rule(changes_nan=True, alone=True, when=finite)
def quotient_of_quotient(x, a=2.5, b=3.5):
    return x / a / b, x / (a * b)


@rule(changes_nan=True, alone=True, when=finite, x=POSITIVE)
def multiple_of_reciprocal(x, a=2.5, b=3.5):
    return a * (b / x), (a * b) / x


@rule(changes_nan=True, alone=True, when=finite, x=POSITIVE)
def reciprocal_over(x, a=2.5, b=3.5):
    return (a / x) / b, (a / b) / x


@rule(changes_nan=True, alone=True, when=finite)
def sum_of_sum(x, a=2.5, b=3.5):
    return a + (b + x), (a + b) + x


@rule(changes_nan=True, alone=True, when=floating)
def sum_with_multiple(x, a=2.5):
    return x + a * x, (1 + a) * x


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


@rule(changes_nan=True, x=POSITIVE, y=POSITIVE, when=floats)
def reciprocal_of_quotient(x, y):
    return 1 / (x / y), y / x


@rule(x=POSITIVE)
def reciprocal(x):
    return np.reciprocal(x), 1 / x


# ---- powers and roots


@rule(exact=True, when=arithmetic)
def square(x):
    return np.square(x), x * x


@rule(exact=True)
def power_zero(x):
    return x**0, 1


@rule(exact=True)
def power_one(x):
    return x**1, x


@rule(when=arithmetic)
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


@rule(exact=True)
def positive(x):
    return +x, x


# ---- choice and logic


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


# ---- absolute values


@rule(exact=True, when=signed)
def absolute_of_negative(x):
    return np.abs(-x), np.abs(x)


@rule(exact=True)
def absolute_of_absolute(x):
    return np.abs(np.abs(x)), np.abs(x)


@rule(exact=True, when=real)
def absolute_squared(x):
    return np.abs(x) * np.abs(x), x * x


@rule(exact=True, when=floating)
def sign_times_absolute(x):
    return np.sign(x) * np.abs(x), x


# ---- sums and products of matrices


def column(v):
    """``v[:, None]`` in the one form that the last pass gives it."""
    return index.GET(v, key=AS_COLUMN)


def _scalar_factor(c, x, **_):
    return c.ndim == 0 and x.ndim > 0 and has_range(x.dtype) and (c.dtype == x.dtype or c.aval.weak)


@rule(changes_nan=True, c=SCALAR, when=_scalar_factor)
def sum_of_multiple(c, x, axis=1, keepdims=True):
    return np.sum(c * x, axis=axis, keepdims=keepdims), c * np.sum(x, axis=axis, keepdims=keepdims)


@rule(changes_nan=True, c=SCALAR, when=_scalar_factor)
def mean_of_multiple(c, x, axis=1, keepdims=True):
    return np.mean(c * x, axis=axis, keepdims=keepdims), c * np.mean(x, axis=axis, keepdims=keepdims)


@rule(when=floating)
def sum_of_negative(x, axis=1, keepdims=True):
    return np.sum(-x, axis=axis, keepdims=keepdims), -np.sum(x, axis=axis, keepdims=keepdims)


@rule(when=floating)
def mean_of_negative(x, axis=1, keepdims=True):
    return np.mean(-x, axis=axis, keepdims=keepdims), -np.mean(x, axis=axis, keepdims=keepdims)


def _matrices(**arrays):
    return all(x.ndim == 2 for x in arrays.values())


@rule(x=Draw((4, 2)), y=Draw((3, 4)), when=_matrices)
def product_of_transposes(x, y):
    return x.T @ y.T, (y @ x).T


@rule(x=Draw((2, 4)), y=Draw((3, 4)), when=_matrices)
def transpose_of_right(x, y):
    return (x @ y.T).T, y @ x.T


@rule(x=Draw((4, 2)), y=Draw((4, 3)), when=_matrices)
def transpose_of_left(x, y):
    return (x.T @ y).T, y.T @ x


@rule(x=Draw((4, 2)), y=Draw((4,)), when=lambda x, y: x.ndim == 2 and y.ndim == 1)
def transpose_times_vector(x, y):
    return x.T @ y, y @ x


@rule(x=Draw((4,)), y=Draw((3, 4)), when=lambda x, y: x.ndim == 1 and y.ndim == 2)
def vector_times_transpose(x, y):
    return x @ y.T, y @ x


@rule(x=Draw((2, 4)), y=Draw((4,)), when=lambda x, y: x.ndim == 2 and y.ndim == 1)
def column_of_product(x, y):
    return (x @ y[:, None])[:, 0], x @ y


# ---- assignment


def _basic(key, **_):
    return not any(isinstance(item, index_expressions.Slot) for item in key)


ROW = (1, index_expressions.EVERYTHING)
AS_COLUMN = (index_expressions.EVERYTHING, None)
COLUMN = (index_expressions.EVERYTHING, index_expressions.Slot(0))
INDICES = Draw((2,), 0, 3, int)


@rule(exact=True, v=VECTOR, when=_basic)
def read_what_was_written(x, v, key=ROW):
    return index.GET(index.SET(x, v, key=key), key=key), v


@rule(exact=True, v=VECTOR, w=VECTOR)
def write_again(x, v, w, key=ROW):
    return index.SET(index.SET(x, v, key=key), w, key=key), index.SET(x, w, key=key)


@rule(exact=True)
def write_what_is_there(x, key=ROW):
    return index.SET(x, index.GET(x, key=key), key=key), x


@rule(exact=True, v=VECTOR, when=_basic)
def add_to_zeros(v, key=ROW, shape=(2, 3), dtype=FLOAT):
    zeros = np.full(shape, 0.0, dtype, like=v)
    return index.ADD_AT(zeros, v, key=key), index.SET(zeros, v, key=key)


def _target(x, shape, v, **_):
    return same_shape(x.shape, shape) and floating(x) and x.dtype == v.dtype


@rule(exact=True, v=VECTOR, when=_target)
def add_written_zeros(x, v, key=ROW, shape=(2, 3), dtype=FLOAT):
    return x + index.SET(np.full(shape, 0.0, dtype, like=v), v, key=key), index.ADD_AT(x, v, key=key)


@rule(v=Draw(), i=Draw((3,), 0, 3, int), when=_target)
def add_scattered(x, v, i, key=COLUMN, shape=(2, 3), dtype=FLOAT):
    return x + index.ADD_AT(np.full(shape, 0.0, dtype, like=v), v, i, key=key), index.ADD_AT(x, v, i, key=key)
