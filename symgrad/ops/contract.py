"""Products that contract: matmul and its relatives, tensordot."""

import numpy as np

from symgrad.core.axes import AxisSignature, lettered
from symgrad.core.graph import Aval
from symgrad.core.shapes import broadcast_shapes, product
from symgrad.core.sizes import agree, same
from symgrad.errors import ShapeError
from symgrad.ops.arguments import ANY, axis_index, check_ndim
from symgrad.ops.define import implements, operator
from symgrad.ops.dtypes import common_dtype
from symgrad.ops.elementwise import conjugate
from symgrad.ops.operands import as_input, strong
from symgrad.ops.spellings import is_small, may_be_small
from symgrad.spelling import ATOM, PRODUCT, UNARY, Code, call, infix, spell_param

# ---- what the rules share


def fits(a, b):
    """Whether two sizes are equal, always or in the call at hand."""
    return same(a, b) or agree(a, b)


def broadcast_batch(name, *shapes, package="np"):
    """Leading axes broadcast; an error names the function."""
    try:
        return broadcast_shapes(*shapes)
    except ShapeError as error:
        raise ShapeError(f"{package}.{name}: {error.fact}", error.instead) from None


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


def flattened(x):
    """All numbers of `x` in one row."""
    return x if np.ndim(x) == 1 else np.reshape(x, (-1,))


# ---- matmul


def _infer_matmul(a, b):
    if not a.shape or not b.shape:
        raise ShapeError("np.matmul: a scalar has no axis to contract", "Write a * b.")
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if not fits(a.shape[-1], inner):
        raise ShapeError(
            f"np.matmul: {a} @ {b} do not contract: {a.shape[-1]} and {inner} differ",
            "The last axis of a must match the second-to-last axis of b (or its only one): transpose one: a @ b.T.",
        )
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
        return g[..., None] * b, flattened(g) @ rows(a)
    if b.ndim == 2:  # one product over all rows, rather than one for each batch and a sum
        return g @ b.T, rows(a).T @ rows(g)
    return g @ transposed(b), transposed(a) @ g


def _batch_matmul(batched, a, b):
    """Batch a matmul whose operands are vectors; return NotImplemented for others, which broadcast."""
    left, right = batched
    ranks = a.ndim - left, b.ndim - right
    if 1 not in ranks or (ranks[1] == 1 and not right) or (ranks[0] == 1 < ranks[1] and not left):
        return NotImplemented
    if not right and ranks[1] == 2:
        return a @ b
    if not left and ranks[0] <= 2:
        return b @ a.T
    if ranks == (1, 1):
        return np.vecdot(a, b) if a.dtype.kind != "c" else np.sum(a * b, axis=-1)
    a = a[..., None, :] if ranks[0] == 1 else a
    b = b[..., None] if ranks[1] == 1 else b
    y = np.matmul(*align(batched, a, b))
    return y[..., 0, :] if ranks[0] == 1 else y[..., 0] if ranks[1] == 1 else y


def _two_for_each(y, *contracted):
    """A multiplication and an addition for each number of the result and each place of the axes that are contracted."""
    return 2 * product((*y.shape, *contracted))


_OF_MATRICES = lettered("...ik,...kj->...ij", np.add)
_OF_VECTORS = lettered("...k,k->...", np.add), lettered("k,...kj->...j", np.add)  # one that is the second, the first


def _dot(node, a, b):
    """The method has a third of the overhead of @; of large arrays both are as fast."""
    plain = all(x.aval.ndim <= 2 and x.aval.dtype.kind == "f" for x in node.inputs)
    return call(f"{a.at(ATOM)}.dot", [b.text]) if plain and may_be_small(*node.inputs, node) else None


MATMUL = operator(
    np.matmul,
    arrays=2,
    infer=_infer_matmul,
    vjp=_vjp_matmul,
    batch=_batch_matmul,
    spell=lambda node, a, b: infix("@", a, b),
    quick=_dot,
    flops=lambda y, a, b: _two_for_each(y, a.shape[-1]),
    signature=lambda y, a, b: (_OF_MATRICES if a.ndim > 1 < b.ndim else _OF_VECTORS[b.ndim > 1])(y, a, b),
    linear=True,
    contracts=True,
)

# ---- outer and row-wise products


def _outer(node, a, b):
    """NumPy takes twice as long to broadcast a few numbers as BLAS to multiply with one column."""
    if is_small(node) and node.aval.dtype.kind == "f" and all(x.aval.dtype == node.aval.dtype for x in node.inputs):
        return call(f"{a.at(ATOM)}[:, None].dot", [f"{b.at(ATOM)}[None]"])
    return Code(f"{a.at(ATOM)}[:, None] * {b.at(UNARY)}", PRODUCT)


OUTER = operator(
    np.outer,
    arrays=2,
    bind=lambda a, b: ([flattened(as_input(a)), flattened(as_input(b))], {}),
    infer=lambda a, b: Aval((a.shape[0], b.shape[0]), common_dtype(a, b)),
    vjp=lambda g, y, a, b: (g @ b, a @ g),
    batch=lambda batched, a, b: a[..., :, None] * b[..., None, :],
    quick=_outer,
    flops=lambda y, a, b: product(y.shape),
    signature=lettered("i,j->ij"),
    linear=True,
    contracts=True,
    out=True,
)


@implements(np.linalg.outer)
def linalg_outer(x1, x2, /):
    for x in (x1, x2):
        check_ndim("np.linalg.outer: an input", x, 1, 1, "Write np.outer, which flattens them, or x1.ravel().")
    return np.outer(x1, x2)


def _infer_vecdot(a, b):
    if not a.shape or not b.shape:
        raise ShapeError("np.vecdot: a scalar has no axis to contract", "Write a * b.")
    if not fits(a.shape[-1], b.shape[-1]):
        raise ShapeError(
            f"np.vecdot: {a} and {b} do not contract: {a.shape[-1]} and {b.shape[-1]} differ",
            "The last axes are contracted: swap axes, or write np.matmul or np.einsum.",
        )
    return Aval(broadcast_batch("vecdot", a.shape[:-1], b.shape[:-1]), common_dtype(a, b))


VECDOT = operator(
    np.vecdot,
    arrays=2,
    infer=_infer_vecdot,
    vjp=lambda g, y, a, b: (conjugate(g[..., None] * b), g[..., None] * conjugate(a)),
    flops=lambda y, a, b: _two_for_each(y, a.shape[-1]),
    signature=lettered("...k,...k->...", np.add),
    linear=True,
    contracts=True,
)


def to_last(x, axis, name):
    x = as_input(x)
    return np.moveaxis(x, axis_index(name, axis, np.ndim(x)), -1)


implements(np.linalg.matmul)(lambda x1, x2, /: np.matmul(x1, x2))
implements(np.linalg.tensordot)(lambda x1, x2, /, *, axes=2: np.tensordot(x1, x2, axes=axes))
implements(np.linalg.vecdot)(
    lambda x1, x2, /, *, axis=-1: np.vecdot(*[to_last(x, axis, "linalg.vecdot") for x in (x1, x2)])
)


def _matrix_and_vector(name, a, v):
    for what, x, ndim in (("matrix", a, 2), ("vector", v, 1)):
        check_ndim(f"np.{name}: the {what}", x, ndim, ANY, "Give it more with x[None], or less with x.ravel().")
    return as_input(a), as_input(v)


@implements("matvec")
def matvec(x1, x2, /):
    a, v = _matrix_and_vector("matvec", x1, x2)
    if v.ndim == 1:
        return a @ v
    return v @ a.T if a.ndim == 2 else (a @ v[..., None])[..., 0]


@implements("vecmat")
def vecmat(x1, x2, /):
    a, v = _matrix_and_vector("vecmat", x2, x1)
    v = conjugate(v)
    return v @ a if v.ndim == 1 or a.ndim == 2 else (v[..., None, :] @ a)[..., 0, :]


@implements(np.dot)
def dot(a, b):
    a, b = as_input(a), as_input(b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(strong(a), strong(b))
    if a.ndim == 1 or b.ndim <= 2:
        return np.matmul(a, b)
    return np.tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 2,)))


@implements(np.inner)
def inner(a, b, /):
    a, b = as_input(a), as_input(b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(strong(a), strong(b))
    if b.ndim == 1:
        return np.matmul(a, b)
    return np.matmul(b, a) if a.ndim == 1 else np.tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 1,)))


implements(np.vdot)(lambda a, b, /: np.matmul(conjugate(flattened(as_input(a))), flattened(as_input(b))))


# ---- tensordot: axes are pairs in the order of the first operand


def _bind_tensordot(a, b, axes=2):
    a, b = as_input(a), as_input(b)
    if isinstance(axes, (int, np.integer)):
        if axes > min(np.ndim(a), np.ndim(b)):
            raise ShapeError(
                f"np.tensordot: axes={axes} of operands of {np.ndim(a)} and {np.ndim(b)} dimensions",
                "axes= is the number of axes to contract, at most that of either operand.",
            )
        axes = range(-int(axes), 0), range(int(axes))
    left, right = ([x] if isinstance(x, (int, np.integer)) else list(x) for x in axes)
    if len(left) != len(right):
        raise ShapeError(
            f"np.tensordot: {len(left)} axes of the first operand for {len(right)} of the second",
            "Give as many axes of one as of the other.",
        )
    left = [axis_index("tensordot", i, np.ndim(a)) for i in left]
    right = [axis_index("tensordot", i, np.ndim(b)) for i in right]
    if len(set(left)) < len(left) or len(set(right)) < len(right):
        raise ShapeError(
            f"np.tensordot: axes {(tuple(left), tuple(right))} name a dimension twice", "Name each axis once."
        )
    pairs = sorted(zip(left, right, strict=True))
    return [a, b], {"axes": (tuple(i for i, _ in pairs), tuple(j for _, j in pairs))}


def _free(x, axes):
    return tuple(i for i in range(x.ndim) if i not in axes)


def _infer_tensordot(a, b, axes):
    for i, j in zip(*axes, strict=True):
        if not fits(a.shape[i], b.shape[j]):
            sizes = f"{a.shape[i]} and {b.shape[j]} differ"
            raise ShapeError(
                f"np.tensordot: axis {i} of {a} and axis {j} of {b} do not contract: {sizes}",
                "Contract axes of the same size, in the same order.",
            )
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


def tensordot_labels(m, n, axes):
    """Return labels for the axes of both operands, and for those of the result."""
    of_a, partner = tuple(range(m)), dict(zip(axes[1], axes[0], strict=True))
    of_b = tuple(partner.get(j, m + j) for j in range(n))
    return (of_a, of_b), (*[i for i in of_a if i not in axes[0]], *[i for i in of_b if i >= m])


def _batch_tensordot(batched, a, b, axes):
    left, right = batched
    if left and right:
        (of_a, of_b), free = tensordot_labels(a.ndim - 1, b.ndim - 1, axes)
        return np.einsum(a, [-1, *of_a], b, [-1, *of_b], [-1, *free])
    y = np.tensordot(a, b, axes=(tuple(i + left for i in axes[0]), tuple(j + right for j in axes[1])))
    return y if left else np.moveaxis(y, len(_free(a, axes[0])), 0)


def _spell_tensordot(node, a, b):
    axes = dict(node.params)["axes"]
    n, ndim = len(axes[0]), node.inputs[0].aval.ndim
    plain = axes == (tuple(range(ndim - n, ndim)), tuple(range(n)))
    return call("np.tensordot", [a.text, b.text, f"axes={n if plain else spell_param(axes)}"])


def _signature_tensordot(y, a, b, axes):
    inputs, result = tensordot_labels(a.ndim, b.ndim, axes)
    return AxisSignature(inputs, result, np.add)


TENSORDOT = operator(
    np.tensordot,
    arrays=2,
    bind=_bind_tensordot,
    infer=_infer_tensordot,
    vjp=_vjp_tensordot,
    batch=_batch_tensordot,
    spell=_spell_tensordot,
    flops=lambda y, a, b, axes: _two_for_each(y, *(a.shape[i] for i in axes[0])),
    signature=_signature_tensordot,
    linear=True,
    contracts=True,
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
