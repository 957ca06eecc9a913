"""Diagonals and triangles of matrices."""

import numpy as np

from symgrad.core.axes import axis_numbers, lettered, opaque, reduced
from symgrad.core.graph import Aval
from symgrad.core.sizes import Dim, same, smallest
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops import index
from symgrad.ops.arguments import ANY, axis_index, check_ndim
from symgrad.ops.contract import flattened
from symgrad.ops.define import implements, operator
from symgrad.ops.operands import as_input
from symgrad.ops.reduction import in_dtype, sum_dtype
from symgrad.ops.shape import as_size
from symgrad.ops.spellings import as_method
from symgrad.spelling import call, spell_param


def _offset(name, key, k):
    if not isinstance(k, (int, np.integer)):
        raise UnsupportedError(
            f"np.{name}: {key}= must be an int, not {type(k).__name__}", "Write an int, such as 0 or -1."
        )
    return int(k)


def _from_last_two(x, axis1, axis2):
    return np.moveaxis(x, (-2, -1), (axis1, axis2))


# ---- np.diag of a vector: a matrix


def embed(v, k=0):
    """Square matrices with the vectors of `v` on their k-th diagonals; a NaN in `v` stays where it is."""
    n = v.shape[-1]
    if k == 0:
        return np.where(np.eye(n, dtype=bool, like=v), v[..., None], 0)
    size = n + abs(k)
    y = np.zeros_like(v, shape=(*v.shape[:-1], size, size))
    block = (slice(0, n), slice(k, size)) if k > 0 else (slice(-k, size), slice(0, n))
    return index.put(y, (..., *block), embed(v))


DIAG = operator(
    np.diag,
    infer=lambda v, k=0: Aval((v.shape[0] + abs(k), v.shape[0] + abs(k)), v.dtype),
    vjp=lambda g, y, v, k: (np.diagonal(g, k),),
    batch=lambda batched, v, k: embed(v, k),
    signature=opaque,
    linear=True,
)


@implements(np.diag)
def diag(v, k=0):
    v, k = as_input(v), _offset("diag", "k", k)
    check_ndim("np.diag: v", v, 1, 2, "Of more dimensions write np.diagonal(v, axis1=-2, axis2=-1).")
    return DIAG(v, k=k) if v.ndim == 1 else np.diagonal(v, k)


implements(np.diagflat)(lambda v, k=0: np.diag(flattened(as_input(v)), k))


# ---- diagonals of matrices


def _bind_diagonal(a, offset=0, axis1=0, axis2=1):
    a = as_input(a)
    check_ndim("np.diagonal: a", a, 2, ANY, "Give an array of two dimensions or more.")
    axis1, axis2 = (axis_index("diagonal", axis, a.ndim) for axis in (axis1, axis2))
    if axis1 == axis2:
        raise ShapeError(f"np.diagonal: axis1 and axis2 are both {axis1}", "Name two different axes.")
    return (a,), {"offset": _offset("diagonal", "offset", offset), "axis1": axis1, "axis2": axis2}


def _length(n, m, k):
    """Return the length of the k-th diagonal of an n by m matrix."""
    length = smallest(n, m - k) if k >= 0 else smallest(n + k, m)
    return length if isinstance(length, Dim) else max(length, 0)


def _infer_diagonal(a, offset=0, axis1=0, axis2=1):
    rest = (size for i, size in enumerate(a.shape) if i not in (axis1, axis2))
    return Aval((*rest, _length(a.shape[axis1], a.shape[axis2], offset)), a.dtype)


def _vjp_diagonal(g, y, a, offset, axis1, axis2):
    n, m = a.shape[axis1], a.shape[axis2]
    if a.ndim == 2 and same(n, m) and same(g.shape[0] + abs(offset), n):
        return (np.diag(g, offset) if axis1 == 0 else np.diag(g, -offset),)
    return (_from_last_two(_placed(g, n, m, offset), axis1, axis2),)


def _placed(g, n, m, k):
    """n by m matrices with `g` on their k-th diagonals."""
    length = g.shape[-1]
    if k == 0 and same(n, m):
        return embed(g)
    y = np.zeros_like(g, shape=(*g.shape[:-1], n, m))
    row, column = max(-k, 0), max(k, 0)
    return index.put(y, (..., slice(row, row + length), slice(column, column + length)), embed(g))


def _signature_diagonal(y, a, offset, axis1, axis2):
    signature = reduced(a, (axis1, axis2))
    return signature._replace(result=(*signature.result, None))


def _write_back_diagonal(a, content, offset=0, axis1=0, axis2=1):
    """`a` with another main diagonal: np.einsum gives one that can be written into."""
    eye = np.eye(a.shape[axis1], dtype=bool, like=a)
    return _from_last_two(np.where(eye, content[..., None], np.moveaxis(a, (axis1, axis2), (-2, -1))), axis1, axis2)


DIAGONAL = operator(
    np.diagonal,
    infer=_infer_diagonal,
    bind=_bind_diagonal,
    vjp=_vjp_diagonal,
    signature=_signature_diagonal,
    axes={"axis1": axis_numbers, "axis2": axis_numbers},
    quick=as_method,
    linear=True,
    view=True,
    read_only=True,
    write_back=_write_back_diagonal,
)


implements(np.linalg.diagonal)(lambda x, /, *, offset=0: np.diagonal(x, offset, -2, -1))


# ---- trace


def _infer_trace(a, offset=0, axis1=0, axis2=1):
    rest = tuple(size for i, size in enumerate(a.shape) if i not in (axis1, axis2))
    return Aval(rest, sum_dtype(a.dtype))


def _vjp_trace(g, y, a, offset, axis1, axis2):
    eye = np.eye(a.shape[axis1], a.shape[axis2], offset, dtype=g.dtype, like=g)
    return (_from_last_two(g[..., None, None] * eye if g.ndim else g * eye, axis1, axis2),)


TRACE = operator(
    np.trace,
    infer=_infer_trace,
    bind=_bind_diagonal,
    vjp=_vjp_trace,
    signature=lambda y, a, offset, axis1, axis2: reduced(a, (axis1, axis2)),
    axes={"axis1": axis_numbers, "axis2": axis_numbers},
    quick=as_method,
    linear=True,
)


@implements(np.trace)
def trace(a, offset=0, axis1=0, axis2=1, dtype=None):
    x = a if dtype is None else np.astype(as_input(a), np.dtype(dtype))
    return in_dtype(TRACE(x, offset, axis1, axis2), dtype)


implements(np.linalg.trace)(lambda x, /, *, offset=0, dtype=None: np.trace(x, offset, -2, -1, dtype))


# ---- triangles


def _infer_triangle(m, k=0):
    check_ndim("np.tril and np.triu: m", m, 1, ANY, "Give an array of one dimension or more.")
    return Aval(m.shape if m.ndim > 1 else (m.shape[0], m.shape[0]), m.dtype)


def _square(rows):
    """Each row as all rows of a square matrix: what np.tril makes of a vector."""
    return np.broadcast_to(rows[:, None], (*rows.shape, rows.shape[1]))


_OF_MATRICES = lettered("...__->...__")


def _triangle(function):
    return operator(
        function,
        infer=_infer_triangle,
        bind=lambda m, k=0: ((as_input(m),), {"k": _offset(function.__name__, "k", k)}),
        vjp=lambda g, y, m, k: (function(g, k),),
        batch=lambda batched, m, k: function(_square(m), k) if m.ndim == 2 else NotImplemented,
        signature=lambda y, m, k: _OF_MATRICES(y, m) if m.ndim > 1 else opaque(y, m),
        linear=True,
        selects=True,
    )


TRIL, TRIU = _triangle(np.tril), _triangle(np.triu)


# ---- np.vander: the powers of numbers


FEW = 16  # columns up to which powers are products of one another


def _spell_vander(node, x):
    params = dict(node.params)
    return call("np.vander", [x.text, spell_param(params["N"]), *["increasing=True"] * params["increasing"]])


def _vjp_vander(g, y, x, N, increasing):
    """The derivative of a power is the power before, times its exponent."""
    exponents = np.arange(1, N, like=x)
    if increasing:
        return (np.sum(g[:, 1:] * (exponents * y[:, :-1]), axis=1),)
    return (np.sum(g[:, :-1] * (exponents[::-1] * y[:, 1:]), axis=1),)


VANDER = operator(
    np.vander,
    infer=lambda x, N, increasing: Aval((x.shape[0], N), np.promote_types(x.dtype, int)),
    vjp=_vjp_vander,
    batch=lambda batched, x, N, increasing: np.reshape(np.vander(np.ravel(x), N, increasing), (*x.shape, N)),
    signature=lettered("...->..._"),
    spell=_spell_vander,
)


@implements(np.vander)
def vander(x, N=None, increasing=False):
    x = as_input(x)
    check_ndim("np.vander: x", x, 1, 1, "Write x.ravel().")
    size = as_size(x.shape[0] if N is None else N)
    if not isinstance(size, int) or size > FEW:
        return VANDER(x, size, bool(increasing))
    powers = np.arange(size, like=x)
    return x[:, None] ** (powers if increasing else powers[::-1])
