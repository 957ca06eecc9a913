"""Functions whose results count or compare integers: bins, members, places in flat arrays."""

import numpy as np

from symgrad.core.axes import AxisSignature, aligned, lettered
from symgrad.core.graph import CONSTANT, Aval
from symgrad.core.shapes import broadcast_shapes, product, same_shape
from symgrad.core.sizes import same
from symgrad.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from symgrad.ops.arguments import check_ndim, refuse
from symgrad.ops.branch_distances import from_bins
from symgrad.ops.define import implements, operator, refuses
from symgrad.ops.index_expressions import known_value
from symgrad.ops.operands import as_input
from symgrad.ops.shape import as_size
from symgrad.spelling import Code, call, spell_param

_INTEGER = np.dtype(np.intp)

# ---- how many, or how much, there is of each


def _infer_bincount(x, *weights, minlength):
    weighed = weights and not same(x.shape[0], 0)  # of none NumPy counts, whatever their weights
    return Aval((minlength,), np.dtype(float) if weighed else _INTEGER)


def _count(x, *weights, minlength):
    """Return exactly `minlength` counts: a number beyond them, or a negative one, is an error, not another shape."""
    return np.reshape(np.bincount(x, *weights, minlength=minlength), minlength)


def _spell_bincount(node, *inputs):
    n = spell_param(node.aval.shape[0])
    counts = call("np.bincount", [*[x.text for x in inputs], f"minlength={n}"])
    return counts if node.inputs[0].op is CONSTANT else Code(f"{counts.text}.reshape({n})")


def _batch_bincount(batched, x, *weights, minlength):
    """All rows into bins of their own; what is in no bin of its row goes beyond the last one, which is an error."""
    rows = next(v.shape[0] for v, b in zip((x, *weights), batched, strict=True) if b)
    x, *weights = (np.broadcast_to(v, (rows, *v.shape[-1:])) for v in (x, *weights))
    first = np.reshape(np.arange(rows, like=x) * minlength, (rows, 1))
    places = np.where((x >= 0) & (x < minlength), x + first, rows * minlength)
    counts = BINCOUNT([np.ravel(v) for v in (places, *weights)], rows * minlength)
    return np.reshape(counts, (rows, minlength))


BINCOUNT = operator(
    np.bincount,
    arrays=-1,
    infer=_infer_bincount,
    bind=lambda arrays, minlength: (arrays, {"minlength": minlength}),
    evaluate=_count,
    vjp=lambda g, y, x, *weights, minlength: (None, *[np.take(g, x) for _ in weights]),
    batch=_batch_bincount,
    spell=_spell_bincount,
    signature=lambda y, *xs, minlength: AxisSignature((("i",),) * len(xs), (None,), np.add),
)


@implements(np.bincount)
def bincount(x, /, weights=None, minlength=0):
    x, minlength = as_input(x), as_size(minlength)
    x = np.astype(x, int) if x.dtype == bool else x
    if np.ndim(x) != 1 or np.result_type(x.dtype, _INTEGER) != _INTEGER:
        raise DTypeError(
            f"np.bincount: the argument is {x.dtype} with {np.ndim(x)} dimensions",
            "Give a vector of integers: x.astype(int).",
        )
    known = known_value(x)
    if known is None:
        if isinstance(minlength, int) and minlength == 0:
            raise UnsupportedError(
                "np.bincount of traced integers: the size of the result depends on values",
                "Say how many bins there are: minlength=n, with all integers below n.",
            )
    elif isinstance(minlength, int):
        minlength = max(minlength, int(np.max(known, initial=-1)) + 1)
    if weights is None:
        return BINCOUNT([x], minlength)
    weights = as_input(weights)
    if not same_shape(np.shape(weights), np.shape(x)):
        raise ShapeError(
            f"np.bincount: weights of shape {np.shape(weights)} for integers of shape {np.shape(x)}",
            "Give one weight for each integer.",
        )
    if weights.dtype.kind == "c":
        raise DTypeError(
            f"np.bincount: weights of dtype {weights.dtype}", "Call it for weights.real and for weights.imag."
        )
    return BINCOUNT([x, weights], minlength)


# ---- where numbers stand among others


DIGITIZE = operator(
    np.digitize,
    arrays=2,
    infer=lambda x, bins, right=False: Aval(x.shape, _INTEGER),
    branch_distance=lambda x, bins, right=False: from_bins(bins, x),
    signature=lettered("...,_->..."),
)


@implements(np.digitize)
def digitize(x, bins, right=False):
    check_ndim("np.digitize: bins", bins, 1, 1, "Write bins.ravel().")
    return DIGITIZE(x, bins, right=bool(right))


def _batch_isin(batched, x, among, assume_unique, invert, kind):
    if not batched[1]:
        return NotImplemented
    among = np.reshape(among, (among.shape[0], *(1,) * (np.ndim(x) - batched[0]), product(among.shape[1:])))
    found = np.any(x[..., None] == among, axis=-1)
    return ~found if invert else found


ISIN = operator(
    np.isin,
    arrays=2,
    infer=lambda element, test_elements, assume_unique=False, invert=False, kind=None: Aval(
        element.shape, np.dtype(bool)
    ),
    batch=_batch_isin,
    branch_distance=lambda x, among, **_: from_bins(among, x),
    signature=lambda y, x, among, **_: lettered(f"...,{'_' * among.ndim}->...")(y, x, among),
)
implements("in1d")(lambda ar1, ar2, *args, **kwargs: ISIN(np.ravel(as_input(ar1)), ar2, *args, **kwargs))


refuses(
    "{} is not supported: it counts, and counts have no derivative",
    "With edges that are known, np.digitize(x, edges) gives the bin of each number, and "
    "np.bincount(bins, weights, minlength=n) what is in each bin.",
    *(np.histogram, np.histogram2d, np.histogramdd, np.histogram_bin_edges),
)


# ---- places in flat arrays


def _as_dims(dims):
    return tuple(map(as_size, dims)) if isinstance(dims, (tuple, list)) else (as_size(dims),)


def _bind_unravel(indices, shape, order="C"):
    if order not in ("C", "F"):
        raise ArgumentError(f"np.unravel_index: order={order!r}", "Write order='C' or order='F'.")
    indices = as_input(indices)
    if indices.dtype.kind not in "iu":
        raise DTypeError(f"np.unravel_index: indices of dtype {indices.dtype}", "Write indices.astype(int).")
    return (indices,), {"dims": _as_dims(shape), "order": order}


def _orders(node):
    order = dict(node.params).get("order", "C")
    return [spell_param(dict(node.params)["dims"]), *([f"order={order!r}"] if order != "C" else [])]


UNRAVEL = operator(
    np.unravel_index,
    infer=lambda indices, dims, order="C": (Aval(indices.shape, _INTEGER),) * len(dims),
    bind=_bind_unravel,
    evaluate=lambda indices, dims, order="C": np.unravel_index(indices, dims, order),
    spell=lambda node, indices: call("np.unravel_index", [indices.text, *_orders(node)]),
    signature=aligned,
)


def _bind_ravel_multi(multi_index, dims, mode="raise", order="C"):
    if mode != "raise":
        refuse("ravel_multi_index", "mode")
    indices = [as_input(x) for x in multi_index]
    return indices, {"dims": _as_dims(dims), "order": order}


RAVEL_MULTI = operator(
    np.ravel_multi_index,
    arrays=-1,
    infer=lambda *xs, dims, order="C": Aval(broadcast_shapes(*[x.shape for x in xs]), _INTEGER),
    bind=_bind_ravel_multi,
    evaluate=lambda *xs, dims, order="C": np.ravel_multi_index(xs, dims, order=order),
    spell=lambda node, *xs: call("np.ravel_multi_index", [f"({', '.join(x.text for x in xs)},)", *_orders(node)]),
    signature=aligned,
)
