"""More products: chains and powers of matrices, kron, cross, convolution."""

import numpy as np

from symgrad.core.axes import aligned, lettered, opaque
from symgrad.core.graph import Aval
from symgrad.core.sizes import Dim, is_negative, largest, smallest
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops import index
from symgrad.ops.arguments import axis_index, check_ndim
from symgrad.ops.contract import broadcast_batch, fits, spread, to_last
from symgrad.ops.define import implements, operator
from symgrad.ops.dtypes import common_dtype
from symgrad.ops.elementwise import conjugate
from symgrad.ops.operands import as_input
from symgrad.spelling import call

# ---- chains of products


@implements(np.linalg.multi_dot)
def multi_dot(arrays):
    arrays = [as_input(a) for a in arrays]
    if len(arrays) < 2:
        raise ShapeError("np.linalg.multi_dot: at least two arrays are needed", "Give [a, b] or more.")
    for i, a in enumerate(arrays):
        if a.ndim != 2 and not (a.ndim == 1 and i in (0, len(arrays) - 1)):
            raise ShapeError(
                f"np.linalg.multi_dot: array {i} has {a.ndim} dimensions and must be a matrix",
                "The first may be a row and the last a column; write np.matmul for stacks.",
            )
    sizes = [a.shape[0] if a.ndim == 2 else 1 if i == 0 else a.shape[0] for i, a in enumerate(arrays)]
    sizes.append(arrays[-1].shape[1] if arrays[-1].ndim == 2 else 1)
    return _multiply_chain(arrays, _cheapest_cuts([_number(size) for size in sizes]), 0, len(arrays) - 1)


def _number(size):
    """A size to estimate costs with: what it is in the call at hand, or else something middling."""
    return (size.scope.value(size) or 100) if isinstance(size, Dim) else size


def _cheapest_cuts(sizes):
    """Return where to cut each part of a chain of matrices (Cormen et al., *Introduction to Algorithms*, 14.2)."""
    n = len(sizes) - 1
    cost, cut = {(i, i): 0 for i in range(n)}, {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], cut[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return cut


def _multiply_chain(arrays, cut, i, j):
    if i == j:
        return arrays[i]
    k = cut[i, j]
    return np.matmul(_multiply_chain(arrays, cut, i, k), _multiply_chain(arrays, cut, k + 1, j))


@implements(np.linalg.matrix_power)
def matrix_power(a, n):
    a = as_input(a)
    if a.ndim < 2 or not fits(a.shape[-1], a.shape[-2]):
        raise ShapeError(
            f"np.linalg.matrix_power: an array of shape {a.shape} does not hold square matrices",
            "Give arrays whose last two axes are equally long.",
        )
    if not isinstance(n, (int, np.integer)):
        raise UnsupportedError(
            f"np.linalg.matrix_power: the exponent must be an int, not {type(n).__name__}",
            "Write an int; of other exponents scipy.linalg.expm(p * scipy.linalg.logm(a)).",
        )
    if n == 0:
        return np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype, like=a), a.shape)
    if n < 0:
        a, n = np.linalg.inv(a), -n
    result, power = None, a
    while n:
        if n % 2:
            result = power if result is None else result @ power
        n //= 2
        power = power @ power if n else power
    return result


# ---- kron


def _bind_kron(a, b):
    a, b = as_input(a), as_input(b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        raise ShapeError("np.kron: a scalar has no axes", "Write a * b.")
    return [spread(a, b.ndim - a.ndim, 0), spread(b, a.ndim - b.ndim, 0)], {}


def _blocks(a, b):
    """The shape of kron(a, b) with the axes of the two apart: one of a, one of b, in turn."""
    return tuple(size for pair in zip(a.shape, b.shape, strict=True) for size in pair)


def _vjp_kron(g, y, a, b):
    n = a.ndim
    g, pairs = np.reshape(g, _blocks(a, b)), list(range(2 * n))
    of_a, of_b = pairs[0::2], pairs[1::2]
    return np.einsum(g, pairs, b, of_b, of_a), np.einsum(g, pairs, a, of_a, of_b)


def _batch_kron(batched, a, b):
    left, right = batched
    n = a.ndim - left
    letters, size = list(range(1, 2 * n + 1)), (a if left else b).shape[0]
    of_a, of_b = [0] * left + letters[0::2], [0] * right + letters[1::2]
    shape = [m * k for m, k in zip(a.shape[left:], b.shape[right:], strict=True)]
    return np.reshape(np.einsum(a, of_a, b, of_b, [0, *letters]), (size, *shape))


KRON = operator(
    np.kron,
    arrays=2,
    bind=_bind_kron,
    infer=lambda a, b: Aval(tuple(m * k for m, k in zip(a.shape, b.shape, strict=True)), common_dtype(a, b)),
    vjp=_vjp_kron,
    batch=_batch_kron,
    # an axis of one operand where the size of the other is 1: the product of two has another size
    signature=lambda y, a, b: aligned(y, a, b)._replace(stack=None),
    linear=True,
)

# ---- cross: of vectors with three components along the last axis


def _infer_cross(a, b):
    for x in (a, b):
        if not x.shape or not fits(x.shape[-1], 3):
            raise ShapeError(
                f"np.cross: {a} and {b} must have three components along the axis",
                "Write a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0] for vectors of two.",
            )
    return Aval((*broadcast_batch("cross", a.shape[:-1], b.shape[:-1]), 3), common_dtype(a, b))


def crosses_columns(node):
    """Whether `_cross` is about three times as fast, at every size, and gives the result column by column."""
    a, b = (x.aval for x in node.inputs)
    return a.ndim == b.ndim and a.dtype == b.dtype and a.dtype.kind in "fc"


CROSS = operator(
    np.cross,
    arrays=2,
    infer=_infer_cross,
    vjp=lambda g, y, a, b: (np.cross(b, g), np.cross(g, a)),
    quick=lambda node, a, b: call("_cross", [a.text, b.text]) if crosses_columns(node) else None,
    signature=lettered("..._,..._->..._"),
)


@implements(np.cross)
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = to_last(a, axisa, "cross"), to_last(b, axisb, "cross")
    if fits(a.shape[-1], 2) and fits(b.shape[-1], 2):  # NumPy 2.0 to 2.4 has it, with a warning
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    y = CROSS(a, b)
    return np.moveaxis(y, -1, axis_index("cross", axisc, y.ndim))


implements(np.linalg.cross)(lambda x1, x2, /, *, axis=-1: np.cross(x1, x2, axis=axis))


# ---- convolution and correlation of sequences


def _infer_sequence(name, default):
    def infer(a, v, mode=default):
        for x in (a, v):
            check_ndim(f"np.{name}: {x}", x, 1, 1, "Write x.ravel(), or scipy.signal.convolve for more dimensions.")
        n, m = a.shape[0], v.shape[0]
        sizes = {"full": n + m - 1, "same": largest(n, m), "valid": largest(n, m) - smallest(n, m) + 1}
        return Aval((sizes[mode],), common_dtype(a, v))

    return infer


def _sequence(x):
    x = as_input(x)
    return np.reshape(x, (1,)) if np.ndim(x) == 0 else x


def check_mode(name, mode, package="np"):
    """Refuse other modes than those of convolutions."""
    if mode not in ("full", "same", "valid"):
        raise UnsupportedError(
            f"{package}.{name}: mode={mode!r} is not one of 'full', 'same' and 'valid'",
            "Write mode='full', mode='same' or mode='valid'.",
        )
    return mode


def _grown(g, a, v):
    """The cotangent of a 'same' convolution as that of the full one, which it is the middle of."""
    n, m = a.shape[0], v.shape[0]
    start = (smallest(n, m) - 1) // 2
    return index.put(np.zeros_like(g, shape=(n + m - 1,)), slice(start, start + largest(n, m)), g)


def _products(a, v, mode):
    """The correlation without the conjugate that np.correlate takes of its second argument."""
    return np.correlate(a, conjugate(v), mode)


def _vjp_convolve(g, y, a, v, mode):
    if mode == "valid":
        return _products(g, v, "full"), _products(a, g, "valid")[::-1]
    g = _grown(g, a, v) if mode == "same" else g
    return _products(g, v, "valid"), _products(g, a, "valid")


def _vjp_correlate(g, y, a, v, mode):
    if mode == "valid":
        return np.convolve(g, conjugate(v), "full"), conjugate(_products(a, g, "valid"))
    g = _grown(g, a, v) if mode == "same" else g
    return np.convolve(g, conjugate(v), "valid"), conjugate(_products(g, a, "valid")[::-1])


CONVOLVE = operator(
    np.convolve, arrays=2, infer=_infer_sequence("convolve", "full"), vjp=_vjp_convolve, signature=opaque, linear=True
)
CORRELATE = operator(
    np.correlate,
    arrays=2,
    infer=_infer_sequence("correlate", "valid"),
    vjp=_vjp_correlate,
    signature=opaque,
    linear=True,
)


@implements(np.convolve)
def convolve(a, v, mode="full"):
    a, v = _sequence(a), _sequence(v)
    swap = check_mode("convolve", mode) == "valid" and a.ndim == v.ndim == 1 and is_negative(a.shape[0] - v.shape[0])
    return CONVOLVE(v, a, mode=mode) if swap else CONVOLVE(a, v, mode=mode)


@implements(np.correlate)
def correlate(a, v, mode="valid"):
    a, v = _sequence(a), _sequence(v)
    swap = check_mode("correlate", mode) != "full" and a.ndim == v.ndim == 1 and is_negative(a.shape[0] - v.shape[0])
    return conjugate(CORRELATE(v, a, mode=mode))[::-1] if swap else CORRELATE(a, v, mode=mode)
