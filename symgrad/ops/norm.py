"""np.linalg.norm and cond. A norm has the derivative zero at zero, where it has a corner."""

import numpy as np

from symgrad.core.axes import axis_numbers, reduced
from symgrad.core.graph import Aval
from symgrad.core.shapes import reduced_shape
from symgrad.core.sizes import same
from symgrad.errors import DTypeError, ShapeError, UnsupportedError
from symgrad.ops.arguments import axis_index, axis_tuple
from symgrad.ops.define import implements, operator
from symgrad.ops.dtypes import real_dtype
from symgrad.ops.elementwise import conjugate
from symgrad.ops.operands import as_input

# ---- the Euclidean norm over one axis, two axes (Frobenius) or all of them


def _axes(x, axis):
    return axis_tuple("linalg.norm", axis, x.ndim)


def _vjp_norm(g, y, x, axis, keepdims):
    if not keepdims:
        kept = reduced_shape(x.shape, _axes(x, axis), keepdims=True)
        g, y = np.reshape(g, kept), np.reshape(y, kept)
    return (conjugate(x) * (g / np.where(y == 0, 1, y)),)


def _batch_norm(batched, x, axis, keepdims):
    """NumPy's norm is that of vectors, of matrices or of all numbers."""
    if axis is not None or x.ndim in (2, 3):
        return NotImplemented
    return (
        np.sqrt(np.sum(np.real(x * conjugate(x)), axis=tuple(range(1, x.ndim)), keepdims=keepdims))
        if x.ndim > 1
        else np.abs(x)
    )


NORM = operator(
    np.linalg.norm,
    infer=lambda x, axis=None, keepdims=False: Aval(
        reduced_shape(x.shape, _axes(x, axis), keepdims), real_dtype(x.dtype)
    ),
    bind=lambda x, axis=None, keepdims=False: ((x,), {"axis": axis, "keepdims": bool(keepdims)}),
    evaluate=lambda x, axis=None, keepdims=False: np.linalg.norm(x, axis=axis, keepdims=keepdims),
    vjp=_vjp_norm,
    batch=_batch_norm,
    signature=lambda y, x, axis, keepdims: reduced(x, _axes(x, axis), keepdims),
    axes={"axis": axis_numbers},
)


@implements(np.linalg.norm)
def norm(x, ord=None, axis=None, keepdims=False):
    x = as_input(x)
    if x.dtype.kind not in "fc":
        x = np.astype(x, float)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else None if axis is None else (axis,)
    if axes is None and (ord is None or (ord in ("f", "fro") and x.ndim == 2) or (ord == 2 and x.ndim == 1)):
        return NORM(x, None, keepdims)
    axes = tuple(axis_index("linalg.norm", i, x.ndim) for i in (range(x.ndim) if axes is None else axes))
    if len(axes) == 1:
        return _vector_norm(x, ord, axes[0], keepdims)
    if len(axes) == 2 and axes[0] != axes[1]:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ShapeError(
        f"np.linalg.norm: ord={ord} over the axes {axes} is the norm of neither a vector nor a matrix",
        "Give one axis for vectors or two for matrices.",
    )


def _largest(x, axis=None, keepdims=False):
    """The maximum of numbers from 0 on, 0 where there are none."""
    options = {"initial": 0} if any(same(n, 0) for n in x.shape) else {}
    return np.max(x, axis=axis, keepdims=keepdims, **options)


def _vector_norm(x, ord, axis, keepdims):
    if ord is None or ord == 2:
        return NORM(x, axis, keepdims)
    if isinstance(ord, str):
        raise UnsupportedError(
            f"np.linalg.norm: ord={ord!r} is not the norm of a vector", "Write a number, np.inf or -np.inf."
        )
    if ord == 0:
        return np.sum(np.astype(x != 0, x.real.dtype), axis=axis, keepdims=keepdims)
    size = np.abs(x)
    if ord == 1:
        return np.sum(size, axis=axis, keepdims=keepdims)
    if abs(ord) == np.inf:
        return (_largest if ord > 0 else np.min)(size, axis=axis, keepdims=keepdims)
    if ord < 0:  # 0 where a number is
        return np.sum(size**ord, axis=axis, keepdims=keepdims) ** (1 / ord)
    power = size**ord if ord > 1 else _power(size, ord)
    return _power(np.sum(power, axis=axis, keepdims=keepdims), 1 / ord)


def _power(x, exponent):
    """A power below 1: its slope at zero is infinite, and nothing flows there."""
    return np.where(x == 0, 0, np.where(x == 0, 1, x) ** exponent)


def _matrix_norm(x, ord, axes, keepdims):
    if ord in (None, "f", "fro"):
        return NORM(x, tuple(sorted(axes)), keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        summed, chosen = axes if abs(ord) == 1 else axes[::-1]
        extreme, sums = _largest if ord > 0 else np.min, np.sum(np.abs(x), axis=summed, keepdims=keepdims)
        return extreme(sums, axis=chosen if keepdims else chosen - (summed < chosen), keepdims=keepdims)
    if ord not in (2, -2, "nuc"):
        raise UnsupportedError(
            f"np.linalg.norm: ord={ord!r} is not the norm of a matrix",
            "Write 'fro', 'nuc', 1, 2, np.inf or one of -1, -2, -np.inf.",
        )
    s = np.linalg.svdvals(np.moveaxis(x, axes, (-2, -1)))
    y = (np.sum if ord == "nuc" else _largest if ord == 2 else np.min)(s, axis=-1)
    return np.reshape(y, reduced_shape(x.shape, axes, keepdims=True)) if keepdims else y


@implements(np.linalg.vector_norm)
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    x = as_input(x)
    if axis is not None and not isinstance(axis, tuple):
        return np.linalg.norm(x, ord, axis, keepdims)
    axes = axis_tuple("linalg.vector_norm", axis, x.ndim)
    rest = reduced_shape(x.shape, axes, keepdims=False)
    flat = np.reshape(np.moveaxis(x, axes, range(len(axes))), (-1, *rest))
    y = np.linalg.norm(flat, ord, 0)
    return np.reshape(y, reduced_shape(x.shape, axes, keepdims=True)) if keepdims else y


implements(np.linalg.matrix_norm)(lambda x, /, *, keepdims=False, ord="fro": np.linalg.norm(x, ord, (-2, -1), keepdims))


@implements(np.linalg.cond)
def cond(x, p=None):
    x = as_input(x)
    if x.dtype.kind not in "biufc":
        raise DTypeError(f"np.linalg.cond does not take {x.dtype}", "Convert it first: x.astype(float).")
    if p in (None, 2, -2):
        s = np.linalg.svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return np.linalg.norm(x, p, (-2, -1)) * np.linalg.norm(np.linalg.inv(x), p, (-2, -1))
