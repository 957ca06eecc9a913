"""np.linalg.det and slogdet. A determinant is a polynomial: it has all derivatives, at a singular matrix too.

Its gradient are the cofactors, ``det(a) * inv(a).T`` where there is an inverse. Their derivative is computed from
singular values, with which it does not cancel near a singular matrix.

References
----------
G. Stewart, *On the adjugate matrix*, Linear Algebra and its Applications 283 (1998).
"""

import numpy as np

from symgrad.core.axes import lettered
from symgrad.core.graph import Aval
from symgrad.ops.contract import broadcast_batch, transposed
from symgrad.ops.define import implements, operator
from symgrad.ops.dtypes import real_dtype
from symgrad.ops.linalg import as_named_tuple, of_matrix, product, work

# ---- what is written into the modules that call it


def _cofactors(a):
    """The derivative of det(a) by each number of a: det(a) * inv(a).T, where there is an inverse."""
    with np.errstate(all="ignore"):
        try:
            det, inverse = np.linalg.det(a), np.linalg.inv(a)
        except np.linalg.LinAlgError:
            return _cofactors_without_inverse(a)
        result = det[..., None, None] * np.swapaxes(inverse, -1, -2)
    if np.all(np.isfinite(result)) and np.all(np.abs(det) >= np.finfo(det.dtype).tiny):
        return result
    return _cofactors_without_inverse(a)


def _cofactors_without_inverse(a):
    """By singular values: each is replaced by the product of the others."""
    u, s, vt = _singular_values(a)
    others = np.prod(np.where(np.eye(s.shape[-1], dtype=bool), 1, s[..., None, :]), axis=-1)
    return (_sign(u, vt) * u * others[..., None, :]) @ vt


def _singular_values(a):
    """Return the SVD of a matrix; NaNs for one with a NaN or an infinity, on which LAPACK fails."""
    sound = np.isfinite(a).all(axis=(-2, -1), keepdims=True)
    u, s, vt = np.linalg.svd(np.where(sound, a, 0))
    return u, np.where(sound[..., 0], s, np.nan), vt


def _sign(u, vt):
    """The determinant of two orthogonal matrices."""
    return np.rint(np.linalg.det(u) * np.linalg.det(vt))[..., None, None]


def _cofactors_slope(a, direction):
    """The derivative of the cofactors of a in a direction."""
    u, s, vt = _singular_values(a)
    inner = np.swapaxes(u, -1, -2) @ direction @ np.swapaxes(vt, -1, -2)
    rest = _products_without_two(s)
    diagonal = np.diagonal(inner, axis1=-2, axis2=-1)
    turned = np.eye(s.shape[-1]) * (rest @ diagonal[..., None]) - rest * np.swapaxes(inner, -1, -2)
    return (_sign(u, vt) * (u @ turned @ vt)).astype(inner.dtype)


def _products_without_two(s):
    """At i, j the product of all numbers but those at i and j; zeros on the diagonal."""
    n = s.shape[-1]
    before = np.where(np.tri(n, k=-1, dtype=bool), s[..., None, :], 1).prod(axis=-1)
    behind = np.where(np.tri(n, k=-1, dtype=bool).T, s[..., None, :], 1)
    between = np.ones_like(behind)
    between[..., 1:] = np.cumprod(behind, axis=-1)[..., :-1]
    with np.errstate(over="ignore"):  # below the diagonal, where these are products of more
        above = np.triu(before[..., None] * between * behind.prod(axis=-1)[..., None, :], 1)
    return above + np.swapaxes(above, -1, -2)


# ---- the entries


def _infer_slope(a, direction):
    batch = broadcast_batch("linalg.det", a.shape[:-2], direction.shape[:-2])
    return Aval((*batch, *a.shape[-2:]), a.dtype)


def _vjp_slope(g, y, a, direction):
    """Symmetric in its directions; the third derivative of the determinant, which needs an inverse."""
    x = np.linalg.inv(a)
    first, second = x @ direction, x @ g
    both, p, q = (np.trace(m, axis1=-2, axis2=-1)[..., None, None] for m in (first @ second, first, second))
    inner = (p * q - both) * x - p * (second @ x) - q * (first @ x)
    inner = inner + product(first, second, x) + product(second, first, x)
    return np.linalg.det(a)[..., None, None] * transposed(inner), SLOPE(a, g)


SLOPE = operator(
    _cofactors_slope,
    name="cofactors_slope",
    arrays=2,
    infer=_infer_slope,
    vjp=_vjp_slope,
    flops=lambda y, a, direction: work(y, 30),
    signature=lettered("...__,...__->...__"),
    singular=True,
    written=True,
)
COFACTORS = operator(
    _cofactors,
    name="cofactors",
    infer=lambda a: a,
    vjp=lambda g, y, a: (SLOPE(a, g),),
    flops=lambda y, a: work(a, 8, 3),
    signature=lettered("...__->...__"),
    written=True,
)


def _vjp_det(g, y, a):
    """By the inverse for complex matrices: at a singular one NumPy raises."""
    cofactors = COFACTORS(a) if a.dtype.kind != "c" else y[..., None, None] * transposed(np.linalg.inv(a))
    return (g[..., None, None] * cofactors,)


DET = operator(
    np.linalg.det,
    infer=lambda a: of_matrix("det", "nn->", a),
    vjp=_vjp_det,
    flops=lambda y, a: work(a, 2, 3),
    signature=lettered("...__->..."),
)


def _infer_slogdet(a):
    sign = of_matrix("slogdet", "nn->", a)
    return sign, Aval(sign.shape, real_dtype(sign.dtype))


def _vjp_slogdet(g, y, a):
    """Without an inverse it has none. The sign of a complex determinant moves on the unit circle."""
    of_log = g[1] if a.dtype.kind != "c" else g[1] + 1j * np.imag(g[0] * y[0])
    return (of_log[..., None, None] * transposed(np.linalg.inv(a)),)


SLOGDET = operator(
    np.linalg.slogdet,
    infer=_infer_slogdet,
    vjp=_vjp_slogdet,
    flops=lambda y, a: work(a, 2, 3),
    signature=lettered("...__->..."),
    singular=True,
)
implements(np.linalg.slogdet)(lambda a: as_named_tuple(SLOGDET(a), np.linalg.slogdet))
