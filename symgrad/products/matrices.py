"""The identity, from which Jacobians start, and diagonal matrices are not multiplied out: for the last pass only."""

import numpy as np

from symgrad.core.sizes import same
from symgrad.rewrite.conditions import FLOAT, SCALAR, column, floating
from symgrad.rewrite.pattern import Draw
from symgrad.rewrite.rules import rule

V, W, A, WIDE = Draw((2,), 0.5, 2.0), Draw((2,), 0.5, 2.0), Draw((2, 3)), Draw((3, 2))
SQUARE = Draw((2, 2))


def _one_dimensional(v, w):
    return v.ndim == 1 and w.ndim == 1 and floating(v) and w.dtype == v.dtype and same(w.shape[0], v.shape[0])


def _diagonal_of(v, n, **_):
    return v.ndim == 1 and floating(v) and same(v.shape[0], n)


# ---- the identity


@rule(changes_nan=True, a=A)
def identity_times(a, n=2, dtype=FLOAT):
    return np.eye(n, dtype=dtype, like=a) @ a, a


@rule(changes_nan=True, a=WIDE)
def times_identity(a, n=2, dtype=FLOAT):
    return a @ np.eye(n, dtype=dtype, like=a), a


@rule(changes_nan=True, v=V, when=_diagonal_of)
def identity_scaled(v, n=2, dtype=FLOAT):
    return np.eye(n, dtype=dtype, like=v) * v, np.diag(v)


@rule(changes_nan=True, v=V, c=Draw((), 0.5, 2.0), when=lambda v, c, n, **_: _diagonal_of(v, n) and c.ndim == 0)
def softmax_jacobian(v, c, n=2, dtype=FLOAT):
    p = v / c
    return (np.eye(n, dtype=dtype, like=v) / c + column(-p / c)) * v, np.diag(p) - p[:, None] * p


# ---- diagonal matrices


@rule(v=V)
def transpose_of_diagonal(v):
    return np.diag(v).T, np.diag(v)


@rule(changes_nan=True, v=V, a=A, when=lambda v, a: a.ndim == 2)
def diagonal_times(v, a):
    return np.diag(v) @ a, v[:, None] * a


@rule(changes_nan=True, v=V, a=WIDE)
def times_diagonal(v, a):
    return a @ np.diag(v), a * v


@rule(changes_nan=True, v=V, w=W, when=_one_dimensional)
def diagonal_scaled(v, w):
    return np.diag(v) * w, np.diag(v * w)


@rule(changes_nan=True, v=V, w=W, when=_one_dimensional)
def diagonal_scaled_by_rows(v, w):
    return np.diag(v) * column(w), np.diag(v * w)


@rule(changes_nan=True, v=V, c=SCALAR, when=lambda v, c: c.ndim == 0)
def multiple_of_diagonal(v, c):
    return c * np.diag(v), np.diag(c * v)


@rule(changes_nan=True, v=V, c=Draw((), 0.5, 2.0), when=lambda v, c: c.ndim == 0)
def diagonal_over_number(v, c):
    return np.diag(v) / c, np.diag(v / c)


@rule(v=V)
def negative_diagonal(v):
    return -np.diag(v), np.diag(-v)


@rule(v=V, w=W, when=_one_dimensional)
def sum_of_diagonals(v, w):
    return np.diag(v) + np.diag(w), np.diag(v + w)


@rule(v=V, when=lambda v, axis: floating(v) and axis in (0, 1))
def sum_of_diagonal(v, axis=1):
    return np.sum(np.diag(v), axis=axis), v
