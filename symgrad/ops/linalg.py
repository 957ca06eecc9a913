"""Products and factorisations of matrices."""

import numpy as np

from symgrad.dims import broadcast_shapes, same
from symgrad.errors import ShapeError
from symgrad.graph import Aval
from symgrad.ops.define import common_dtype, operator
from symgrad.spelling import infix

# ---- matmul


def _infer_matmul(a, b):
    if not a.shape or not b.shape:
        raise ShapeError("np.matmul: a scalar has no axis to contract", "Write a * b.")
    inner_b = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if not same(a.shape[-1], inner_b):
        raise ShapeError(f"np.matmul: {a} @ {b} do not contract: {a.shape[-1]} and {inner_b} differ")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return Aval((*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ())), common_dtype(a, b))


def _vjp_matmul(g, y, a, b):
    if a.ndim == 1 and b.ndim == 1:
        return g * b, g * a
    if a.ndim == 1:
        return np.matmul(b, g[..., None])[..., 0], a[:, None] * g[..., None, :]
    if b.ndim == 1:
        return g[..., None] * b, np.matmul(np.swapaxes(a, -1, -2), g[..., None])[..., 0] if a.ndim > 2 else np.matmul(g, a)
    return np.matmul(g, np.swapaxes(b, -1, -2)), np.matmul(np.swapaxes(a, -1, -2), g)


MATMUL = operator(
    np.matmul,
    arrays=2,
    infer=_infer_matmul,
    vjp=_vjp_matmul,
    spell=lambda node, a, b: infix("@", a, b),
    linear=True,
)
