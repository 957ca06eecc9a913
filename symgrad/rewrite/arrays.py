"""Rules of sums, products of matrices and assignments: what arrays are put together from."""

import numpy as np

from symgrad.analysis.overflow import has_range
from symgrad.core.shapes import same_shape
from symgrad.ops import index, index_expressions
from symgrad.rewrite.conditions import FLOAT, ROW, SCALAR, VECTOR, floating
from symgrad.rewrite.pattern import Draw
from symgrad.rewrite.rules import rule

# ---- sums and products of matrices


def _scalar_factor(c, x, **_):
    return c.ndim == 0 and x.ndim > 0 and has_range(x.dtype) and (c.dtype == x.dtype or c.aval.weak)


@rule(changes_nan=True, c=SCALAR, when=_scalar_factor)
def sum_of_multiple(c, x, axis=1, keepdims=True):
    return np.sum(c * x, axis=axis, keepdims=keepdims), c * np.sum(x, axis=axis, keepdims=keepdims)


@rule(when=floating)
def sum_of_negative(x, axis=1, keepdims=True):
    return np.sum(-x, axis=axis, keepdims=keepdims), -np.sum(x, axis=axis, keepdims=keepdims)


def _matrices(**arrays):
    return all(x.ndim == 2 for x in arrays.values())


@rule(x=Draw((4, 2)), y=Draw((3, 4)), when=_matrices, plane="all")
def product_of_transposes(x, y):
    return x.T @ y.T, (y @ x).T


@rule(x=Draw((2, 4)), y=Draw((3, 4)), when=_matrices, plane="all")
def transpose_of_right(x, y):
    return (x @ y.T).T, y @ x.T


@rule(x=Draw((4, 2)), y=Draw((4, 3)), when=_matrices, plane="all")
def transpose_of_left(x, y):
    return (x.T @ y).T, y.T @ x


@rule(x=Draw((4, 2)), y=Draw((4,)), when=lambda x, y: x.ndim == 2 and y.ndim == 1, plane="all")
def transpose_times_vector(x, y):
    return x.T @ y, y @ x


@rule(x=Draw((4,)), y=Draw((3, 4)), when=lambda x, y: x.ndim == 1 and y.ndim == 2, plane="all")
def vector_times_transpose(x, y):
    return x @ y.T, y @ x


# ---- assignment


def _basic(key, **_):
    return not any(isinstance(item, index_expressions.Slot) for item in key)


@rule(exact=True, v=VECTOR, when=_basic, plane="all")
def read_what_was_written(x, v, key=ROW):
    return index.GET(index.SET(x, v, key=key), key=key), v


@rule(exact=True, v=VECTOR, when=_basic, plane="all")
def add_to_zeros(v, key=ROW, shape=(2, 3), dtype=FLOAT):
    zeros = np.full(shape, 0.0, dtype, like=v)
    return index.ADD_AT(zeros, v, key=key), index.SET(zeros, v, key=key)


def _target(x, shape, v, **_):
    return same_shape(x.shape, shape) and x.dtype.kind in "fc" and x.dtype == v.dtype


@rule(exact=True, v=VECTOR, when=_target, plane="all")
def add_written_zeros(x, v, key=ROW, shape=(2, 3), dtype=FLOAT):
    return x + index.SET(np.full(shape, 0.0, dtype, like=v), v, key=key), index.ADD_AT(x, v, key=key)
