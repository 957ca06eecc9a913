"""Products that contract: matmul and its relatives, tensordot, kron, cross, convolution."""

import numpy as np

from symgrad.dims import Dim, broadcast_shapes, largest, same, smallest
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.graph import Aval
from symgrad.ops import index
from symgrad.ops.define import as_input, axis_index, common_dtype, implements, operator
from symgrad.spelling import call, infix, spell_param

# ---- what the rules share


def fits(a, b):
    """Whether two sizes are equal: always, or in the call at hand, and then the program is for that number only."""
    if same(a, b):
        return True
    scope = a.scope if isinstance(a, Dim) else b.scope if isinstance(b, Dim) else None
    number = scope and scope.value(a)
    return number is not None and number == scope.value(b) and scope.pin(a) == scope.pin(b)


def broadcast_batch(name, *shapes):
    """Leading axes broadcast; an error names the function."""
    try:
        return broadcast_shapes(*shapes)
    except ShapeError as error:
        raise ShapeError(f"np.{name}: {error.fact}", error.instead, error.where) from None


def spread(x, extra, at=1):
    """`x` with `extra` axes of size 1 at a place."""
    return x[(*[slice(None)] * at, *[None] * extra)] if extra > 0 else x


def align(batched, *xs):
    """Operands whose batch axes meet: those that have one get axes of size 1 behind it, up to the largest rank."""
    ranks = [x.ndim - flag for flag, x in zip(batched, xs, strict=True)]
    return [spread(x, max(ranks) - r) if flag else x for flag, r, x in zip(batched, ranks, xs, strict=True)]


def transposed(x):
    """The matrices of `x`, transposed."""
    return np.swapaxes(x, -1, -2)


def rows(x):
    """All matrices of `x` below each other."""
    return np.reshape(x, (-1, x.shape[-1])) if x.ndim > 2 else x


def flat(x):
    """All numbers of `x` in one row."""
    return x if np.ndim(x) == 1 else np.reshape(x, (-1,))


# ---- matmul


def _infer_matmul(a, b):
    if not a.shape or not b.shape:
        raise ShapeError("np.matmul: a scalar has no axis to contract", "Write a * b.")
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if not fits(a.shape[-1], inner):
        raise ShapeError(f"np.matmul: {a} @ {b} do not contract: {a.shape[-1]} and {inner} differ")
    batch = broadcast_batch("matmul", a.shape[:-2], b.shape[:-2])
    return Aval((*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ())), common_dtype(a, b))


def _vjp_matmul(g, y, a, b):
    if a.ndim == 1 and b.ndim == 1:
        return g * b, g * a
    if a.ndim == 1:
        if b.ndim == 2:
            return b @ g, np.outer(a, g)
        return (b @ g[..., None])[..., 0], a[:, None] * g[..., None, :]
    if b.ndim == 1:
        if a.ndim == 2:
            return np.outer(g, b), g @ a
        return g[..., None] * b, flat(g) @ rows(a)
    if b.ndim == 2:  # one product over all rows, rather than one for each batch and a sum
        return g @ b.T, rows(a).T @ rows(g)
    return g @ transposed(b), transposed(a) @ g


def _batch_matmul(batched, a, b):
    left, right = batched
    ranks = a.ndim - left, b.ndim - right
    if left and not right and ranks[1] <= 2:
        return a @ b
    if right and not left and ranks == (1, 1):
        return b @ a
    if right and not left and ranks == (2, 1):
        return b @ a.T
    if ranks == (1, 1):
        return np.vecdot(a, b) if a.dtype.kind != "c" else np.sum(a * b, axis=-1)
    a = a[..., None, :] if ranks[0] == 1 else a
    b = b[..., None] if ranks[1] == 1 else b
    y = np.matmul(*align(batched, a, b))
    return y[..., 0, :] if ranks[0] == 1 else y[..., 0] if ranks[1] == 1 else y


MATMUL = operator(
    np.matmul,
    arrays=2,
    infer=_infer_matmul,
    vjp=_vjp_matmul,
    batch=_batch_matmul,
    spell=lambda node, a, b: infix("@", a, b),
    linear=True,
)

# ---- outer and row-wise products


def _infer_outer(a, b):
    return Aval((a.shape[0], b.shape[0]), common_dtype(a, b))


def _bind_outer(a, b):
    return [flat(as_input(a)), flat(as_input(b))], {}


OUTER = operator(
    np.outer,
    arrays=2,
    bind=_bind_outer,
    infer=_infer_outer,
    vjp=lambda g, y, a, b: (g @ b, a @ g),
    batch=lambda batched, a, b: a[..., :, None] * b[..., None, :],
    linear=True,
)


@implements(np.linalg.outer)
def linalg_outer(x1, x2, /):
    x1, x2 = as_input(x1), as_input(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeError(
            f"np.linalg.outer: the inputs must be one-dimensional, but they have {x1.ndim} and {x2.ndim} dimensions"
        )
    return np.outer(x1, x2)


def _infer_vecdot(a, b):
    if not a.shape or not b.shape:
        raise ShapeError("np.vecdot: a scalar has no axis to contract", "Write a * b.")
    if not fits(a.shape[-1], b.shape[-1]):
        raise ShapeError(f"np.vecdot: {a} and {b} do not contract: {a.shape[-1]} and {b.shape[-1]} differ")
    return Aval(broadcast_batch("vecdot", a.shape[:-1], b.shape[:-1]), common_dtype(a, b))


VECDOT = operator(
    np.vecdot,
    arrays=2,
    infer=_infer_vecdot,
    vjp=lambda g, y, a, b: (g[..., None] * b, g[..., None] * a),
    batch=lambda batched, a, b: np.vecdot(*align(batched, a, b)),
    linear=True,
)


@implements(np.linalg.vecdot)
def linalg_vecdot(x1, x2, /, *, axis=-1):
    return np.vecdot(_to_last(x1, axis, "linalg.vecdot"), _to_last(x2, axis, "linalg.vecdot"))


def _to_last(x, axis, name):
    x = as_input(x)
    axis = axis_index(name, axis, np.ndim(x))
    return x if axis == np.ndim(x) - 1 else np.transpose(x, (*(i for i in range(np.ndim(x)) if i != axis), axis))


@implements(np.linalg.matmul)
def linalg_matmul(x1, x2, /):
    return np.matmul(x1, x2)


def _at_least(name, x, ndim, what):
    x = as_input(x)
    if np.ndim(x) < ndim:
        raise ShapeError(f"np.{name}: the {what} has {np.ndim(x)} dimensions and needs {ndim}")
    return x


def _conjugate(x):
    return np.conj(x) if x.dtype.kind == "c" else x


@implements(np.matvec)
def matvec(x1, x2, /):
    a, v = _at_least("matvec", x1, 2, "matrix"), _at_least("matvec", x2, 1, "vector")
    if v.ndim == 1:
        return a @ v
    return v @ a.T if a.ndim == 2 else (a @ v[..., None])[..., 0]


@implements(np.vecmat)
def vecmat(x1, x2, /):
    v, a = _conjugate(_at_least("vecmat", x1, 1, "vector")), _at_least("vecmat", x2, 2, "matrix")
    return v @ a if v.ndim == 1 or a.ndim == 2 else (v[..., None, :] @ a)[..., 0, :]


@implements(np.dot)
def dot(a, b):
    a, b = as_input(a), as_input(b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(a, b)
    if a.ndim == 1 or b.ndim <= 2:
        return np.matmul(a, b)
    return np.tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 2,)))


@implements(np.inner)
def inner(a, b, /):
    a, b = as_input(a), as_input(b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(a, b)
    if b.ndim == 1:
        return np.matmul(a, b)
    return np.matmul(b, a) if a.ndim == 1 else np.tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 1,)))


@implements(np.vdot)
def vdot(a, b, /):
    return np.matmul(_conjugate(flat(as_input(a))), flat(as_input(b)))


# ---- tensordot: axes are pairs in the order of the first operand


def _bind_tensordot(a, b, axes=2):
    a, b = as_input(a), as_input(b)
    if isinstance(axes, (int, np.integer)):
        if axes > min(np.ndim(a), np.ndim(b)):
            raise ShapeError(f"np.tensordot: axes={axes} of operands of {np.ndim(a)} and {np.ndim(b)} dimensions")
        axes = range(-int(axes), 0), range(int(axes))
    left, right = ([x] if isinstance(x, (int, np.integer)) else list(x) for x in axes)
    if len(left) != len(right):
        raise ShapeError(f"np.tensordot: {len(left)} axes of the first operand for {len(right)} of the second")
    left = [axis_index("tensordot", i, np.ndim(a)) for i in left]
    right = [axis_index("tensordot", i, np.ndim(b)) for i in right]
    if len(set(left)) < len(left) or len(set(right)) < len(right):
        raise ShapeError(f"np.tensordot: axes {(tuple(left), tuple(right))} name a dimension twice")
    pairs = sorted(zip(left, right, strict=True))
    return [a, b], {"axes": (tuple(i for i, _ in pairs), tuple(j for _, j in pairs))}


def _free(x, axes):
    return tuple(i for i in range(x.ndim) if i not in axes)


def _infer_tensordot(a, b, axes):
    for i, j in zip(*axes, strict=True):
        if not fits(a.shape[i], b.shape[j]):
            sizes = f"{a.shape[i]} and {b.shape[j]} differ"
            raise ShapeError(f"np.tensordot: axis {i} of {a} and axis {j} of {b} do not contract: {sizes}")
    left, right = _free(a, axes[0]), _free(b, axes[1])
    return Aval((*(a.shape[i] for i in left), *(b.shape[j] for j in right)), common_dtype(a, b))


def _reorder(x, order):
    """`x`, whose axes are those of the wanted array in this order, in the natural order."""
    return x if order == sorted(order) else np.transpose(x, [int(i) for i in np.argsort(order)])


def _vjp_tensordot(g, y, a, b, axes):
    left, right = _free(a, axes[0]), _free(b, axes[1])
    of_a, of_b = tuple(range(len(left))), tuple(range(len(left), len(left) + len(right)))
    partner = dict(zip(axes[1], axes[0], strict=True))
    da = np.tensordot(g, b, axes=(of_b, right))
    db = np.tensordot(a, g, axes=(left, of_a))
    return _reorder(da, [*left, *(partner[j] for j in sorted(axes[1]))]), _reorder(db, [*axes[1], *right])


def _batch_tensordot(batched, a, b, axes):
    left, right = batched
    axes = tuple(i + left for i in axes[0]), tuple(j + right for j in axes[1])
    if left and right:
        return _batch_both_tensordot(a, b, axes)
    y = np.tensordot(a, b, axes=axes)
    at = len(_free(a, axes[0]))
    return y if left else np.transpose(y, (at, *(i for i in range(y.ndim) if i != at)))


def _batch_both_tensordot(a, b, axes):
    of_b = [a.ndim + j for j in range(b.ndim)]
    of_b[0] = 0
    for i, j in zip(*axes, strict=True):
        of_b[j] = i
    kept = [i for i in range(a.ndim) if i not in axes[0]] + [of_b[j] for j in range(1, b.ndim) if j not in axes[1]]
    return np.einsum(a, list(range(a.ndim)), b, of_b, kept)


def _spell_tensordot(node, a, b):
    axes = dict(node.params)["axes"]
    n, ndim = len(axes[0]), node.inputs[0].aval.ndim
    plain = axes == (tuple(range(ndim - n, ndim)), tuple(range(n)))
    return call("np.tensordot", [a.text, b.text, f"axes={n if plain else spell_param(axes)}"])


TENSORDOT = operator(
    np.tensordot,
    arrays=2,
    bind=_bind_tensordot,
    infer=_infer_tensordot,
    vjp=_vjp_tensordot,
    batch=_batch_tensordot,
    spell=_spell_tensordot,
    linear=True,
)


@implements(np.tensordot)
def tensordot(a, b, axes=2):
    """A product of matrices where it is one: `a @ b` is what a person writes, and calls BLAS at once."""
    (a, b), params = _bind_tensordot(a, b, axes)
    left, right = params["axes"]
    if len(left) == 1 and left[0] == a.ndim - 1 and b.ndim <= 2 and a.ndim + b.ndim > 2:
        return a @ b if right == (0,) else a @ b.T
    if len(left) == 1 and left == (0,) and a.ndim == 2 and b.ndim == 2:
        return a.T @ b if right == (0,) else a.T @ b.T
    return TENSORDOT(a, b, axes=params["axes"])


@implements(np.linalg.tensordot)
def linalg_tensordot(x1, x2, /, *, axes=2):
    return np.tensordot(x1, x2, axes=axes)


# ---- chains of products


@implements(np.linalg.multi_dot)
def multi_dot(arrays):
    arrays = [as_input(a) for a in arrays]
    if len(arrays) < 2:
        raise ShapeError("np.linalg.multi_dot: at least two arrays are needed")
    for i, a in enumerate(arrays):
        if a.ndim != 2 and not (a.ndim == 1 and i in (0, len(arrays) - 1)):
            raise ShapeError(f"np.linalg.multi_dot: array {i} has {a.ndim} dimensions and must be a matrix")
    sizes = [a.shape[0] if a.ndim == 2 else 1 if i == 0 else a.shape[0] for i, a in enumerate(arrays)]
    sizes.append(arrays[-1].shape[1] if arrays[-1].ndim == 2 else 1)
    return _multiply_chain(arrays, _cheapest_cuts([_number(size) for size in sizes]), 0, len(arrays) - 1)


def _number(size):
    """A size to estimate costs with: what it is in the call at hand, or else something middling."""
    return (size.scope.value(size) or 100) if isinstance(size, Dim) else size


def _cheapest_cuts(sizes):
    """Where to cut each part of a chain of matrices (Cormen et al., *Introduction to Algorithms*, 14.2)."""
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
        raise ShapeError(f"np.linalg.matrix_power: an array of shape {a.shape} does not hold square matrices")
    if not isinstance(n, (int, np.integer)):
        raise UnsupportedError(f"np.linalg.matrix_power: the exponent must be an int, not {type(n).__name__}")
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


CROSS = operator(
    np.cross,
    arrays=2,
    infer=_infer_cross,
    vjp=lambda g, y, a, b: (np.cross(b, g), np.cross(g, a)),
    batch=lambda batched, a, b: CROSS(*align(batched, a, b)),
)


@implements(np.cross)
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    if axis is not None:
        axisa = axisb = axisc = axis
    y = CROSS(_to_last(a, axisa, "cross"), _to_last(b, axisb, "cross"))
    axisc = axis_index("cross", axisc, y.ndim)
    rest = list(range(y.ndim - 1))
    return y if axisc == y.ndim - 1 else np.transpose(y, (*rest[:axisc], y.ndim - 1, *rest[axisc:]))


@implements(np.linalg.cross)
def linalg_cross(x1, x2, /, *, axis=-1):
    return np.cross(x1, x2, axis=axis)


# ---- convolution and correlation of sequences


def _infer_convolve(name):
    def infer(a, v, mode="full"):
        for x in (a, v):
            if x.ndim != 1:
                raise ShapeError(f"np.{name}: {a} and {v} must be one-dimensional")
        n, m = a.shape[0], v.shape[0]
        sizes = {"full": n + m - 1, "same": largest(n, m), "valid": largest(n, m) - smallest(n, m) + 1}
        return Aval((sizes[mode],), common_dtype(a, v))

    return infer


def _sequence(x):
    x = as_input(x)
    return np.reshape(x, (1,)) if np.ndim(x) == 0 else x


def _check_mode(name, mode):
    if mode not in ("full", "same", "valid"):
        raise UnsupportedError(f"np.{name}: mode={mode!r} is not one of 'full', 'same' and 'valid'")
    return mode


def _grown(g, a, v):
    """The cotangent of a 'same' convolution as that of the full one, which it is the middle of."""
    n, m = a.shape[0], v.shape[0]
    start = (smallest(n, m) - 1) // 2
    return index.put(np.zeros(n + m - 1, g.dtype, like=g), slice(start, start + largest(n, m)), g)


def _vjp_convolve(g, y, a, v, mode):
    if mode == "valid":
        return np.correlate(g, v, "full"), np.correlate(a, g, "valid")[::-1]
    g = _grown(g, a, v) if mode == "same" else g
    return np.correlate(g, v, "valid"), np.correlate(g, a, "valid")


def _vjp_correlate(g, y, a, v, mode):
    if mode == "valid":
        return np.convolve(g, v, "full"), np.correlate(a, g, "valid")
    return np.convolve(g, v, "valid"), np.correlate(g, a, "valid")[::-1]


CONVOLVE = operator(np.convolve, arrays=2, infer=_infer_convolve("convolve"), vjp=_vjp_convolve, linear=True)
CORRELATE = operator(np.correlate, arrays=2, infer=_infer_convolve("correlate"), vjp=_vjp_correlate, linear=True)


@implements(np.convolve)
def convolve(a, v, mode="full"):
    a, v = _sequence(a), _sequence(v)
    swap = _check_mode("convolve", mode) == "valid" and a.ndim == v.ndim == 1 and a.shape[0] < v.shape[0]
    return CONVOLVE(v, a, mode=mode) if swap else CONVOLVE(a, v, mode=mode)


@implements(np.correlate)
def correlate(a, v, mode="valid"):
    a, v = _sequence(a), _conjugate(_sequence(v))
    swap = _check_mode("correlate", mode) != "full" and a.ndim == v.ndim == 1 and a.shape[0] < v.shape[0]
    return CORRELATE(v, a, mode=mode)[::-1] if swap else CORRELATE(a, v, mode=mode)
