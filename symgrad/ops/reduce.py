"""Reductions: sums, means, products, extremes, any and all, and counts along axes."""

import inspect

import numpy as np

from symgrad.core.shapes import key_along, product, same_shape
from symgrad.core.sizes import same
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops.arguments import UNSET, axis_tuple
from symgrad.ops.branch_distances import from_others
from symgrad.ops.define import TABLE, implements
from symgrad.ops.dtypes import ufunc_dtypes
from symgrad.ops.operands import as_input
from symgrad.ops.reduction import (
    as_divisor,
    check_mean_dtype,
    count_along,
    delivered,
    in_dtype,
    joined_to_initial,
    mean_dtype,
    operand_of,
    options_of,
    reduction,
    sum_dtype,
    where_mask,
    with_signature,
)
from symgrad.ops.spellings import as_method
from symgrad.spelling import ATOM, PRODUCT, Code, call, spell_param

_BOOLEAN, _INTEGER = np.dtype(bool), np.dtype(int)


def _lowest(dtype):
    if dtype.kind == "c":  # their order is that of the real parts, and of the imaginary ones where these are equal
        return complex(-np.inf, -np.inf)
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else int(np.iinfo(dtype).min)


def _highest(dtype):
    if dtype.kind == "c":
        return complex(np.inf, np.inf)
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else int(np.iinfo(dtype).max)


# ---- sums and means


def _over(x, g):
    """Return the cotangent of each number of an array; that of a number is no read-only array of `np.broadcast_to`."""
    return np.broadcast_to(g, x.shape) if x.ndim else g


SUM = reduction(
    np.sum,
    lambda g, y, x, axis: _over(x, g),
    dtype=sum_dtype,
    combine=np.add,
    quick=as_method,
    linear=True,
    interval=lambda x: x.repeated(),
    nanoseconds=0.3,
    out=True,
)
with_signature(np.sum, SUM, fill=lambda dtype: 0, combine=np.add)


def _sum_by_count(node, x):
    """Spell np.mean as a sum and a division, which takes half of the time."""
    a, params = node.inputs[0].aval, dict(node.params)
    count = product([a.shape[i] for i in axis_tuple("mean", params.get("axis"), a.ndim)])
    if not isinstance(count, int) or count == 0 or a.dtype not in (np.float32, np.float64) or not a.shape:
        return as_method(node, x)
    given = ", ".join(f"{key}={spell_param(value)}" for key, value in node.params)
    return Code(f"{x.at(ATOM)}.sum({given}) / {count}", PRODUCT)


MEAN = reduction(
    np.mean,
    lambda g, y, x, axis: _over(x, g / count_along(x, axis)),
    dtype=mean_dtype,
    quick=_sum_by_count,
    linear=True,
    interval=lambda x: x,
)


@implements(np.mean)
def mean(a, axis=None, dtype=None, out=None, keepdims=UNSET, *, where=UNSET):
    check_mean_dtype("mean", dtype)
    x = operand_of({"a": a, "dtype": dtype})
    options = options_of({"axis": axis, "keepdims": keepdims})
    if where is UNSET or where is True:
        return delivered(out, MEAN(x, **options))
    mask = where_mask("mean", x, where)
    dtype = mean_dtype(x.dtype)
    total = np.sum(np.where(mask, x, 0), dtype=np.float32 if dtype == np.float16 else dtype, **options)
    result = total / as_divisor(np.count_nonzero(mask, **options), total.dtype)
    return delivered(out, np.astype(result, dtype, copy=False))


@implements(np.average)
def average(a, axis=None, weights=None, returned=False, *, keepdims=UNSET):
    a, options = as_input(a), options_of({"axis": axis, "keepdims": keepdims})
    if weights is None:
        result = np.mean(a, **options)
        return (result, np.ones_like(result) * count_along(a, axis)) if returned else result
    weights = _spread_weights(a, axis, as_input(weights))
    dtype = np.result_type(a.dtype, weights.dtype, *([float] if a.dtype.kind in "biu" else []))
    scale = np.sum(weights, dtype=dtype, **options)
    result = np.sum(np.multiply(a, weights, dtype=dtype), **options) / scale
    return (result, np.broadcast_to(scale, result.shape)) if returned else result


def _spread_weights(a, axis, weights):
    """Weights along axes, in the shape of `a` or broadcasting against it."""
    if same_shape(a.shape, weights.shape):
        return weights
    if axis is None:
        raise ShapeError(
            f"np.average: weights of shape {weights.shape} for an array of shape {a.shape} need axis=",
            "Write axis=0, or weights of the shape of the array.",
        )
    given = axis if isinstance(axis, tuple) else (axis,)
    axes = [axis_tuple("average", i, a.ndim)[0] for i in given]
    if not same_shape(weights.shape, tuple(a.shape[i] for i in axes)):
        raise ShapeError(
            f"np.average: weights of shape {weights.shape} for axis {axis} of an array of shape {a.shape}",
            "Give one weight for each place along the axis.",
        )
    ordered = np.transpose(weights, np.argsort(axes)) if len(axes) > 1 else weights
    return np.reshape(ordered, tuple(n if i in axes else 1 for i, n in enumerate(a.shape)))


# ---- products


def over_axes(function, x, axes):
    """Apply ``function(x, axis)``, with several axes flattened into one."""
    if len(axes) == 1:
        return function(x, axes[0])
    if len(axes) == x.ndim:
        return np.reshape(function(np.ravel(x), 0), x.shape)
    kept = x.ndim - len(axes)
    moved = np.moveaxis(x, axes, range(kept, x.ndim))
    flat = np.reshape(moved, (*moved.shape[:kept], product(moved.shape[kept:])))
    return np.moveaxis(np.reshape(function(flat, kept), moved.shape), range(kept, x.ndim), axes)


def _product_of_others(x, axes):
    """For each number the product of all others along the axes, without a division: any of them may be zero."""
    return over_axes(_exclusive, x, axes) if axes else np.ones_like(x)


def _exclusive(x, axis):
    """The product of those before times the product of those behind."""
    if same(x.shape[axis], 0):
        return np.ones_like(x)
    before, behind = np.ones_like(x), np.ones_like(x)
    before[key_along(axis, slice(1, None))] = np.cumprod(x[key_along(axis, slice(None, -1))], axis=axis)
    backwards = np.cumprod(x[key_along(axis, slice(None, 0, -1))], axis=axis)
    behind[key_along(axis, slice(None, -1))] = backwards[key_along(axis, slice(None, None, -1))]
    return before * behind


PROD = reduction(
    np.prod,
    lambda g, y, x, axis: g * _product_of_others(x, axis_tuple("prod", axis, x.ndim)),
    dtype=sum_dtype,
    combine=np.multiply,
    quick=as_method,
)
with_signature(np.prod, PROD, fill=lambda dtype: 1, combine=np.multiply)

# ---- extremes


def _to_the_tied(g, y, x, axis):
    """Share the cotangent equally among the numbers that reach the extreme."""
    tied = x == y
    count = np.count_nonzero(tied, axis=axis, keepdims=axis is not None)
    return np.where(tied, g / as_divisor(count, g.dtype), 0)


_NOTHING = "zero-size array to reduction operation {} which has no identity"


def _extreme(function, ufunc, worst, **facts):
    """Define a reduction by an extreme; `worst` gives the identity of the comparison."""
    empty = _NOTHING.format(ufunc.__name__)
    facts |= {"empty": empty, "combine": ufunc, "branch_distance": from_others(function)}
    op = reduction(function, _to_the_tied, dtype=lambda dtype: dtype, **facts)
    with_signature(function, op, fill=worst, combine=ufunc, identity=False)
    return op


MAX = _extreme(np.max, np.maximum, _lowest, quick=as_method, nanoseconds=0.3, out=True)
MIN = _extreme(np.min, np.minimum, _highest, quick=as_method, nanoseconds=0.3, out=True)
NANMAX = _extreme(np.nanmax, np.fmax, _lowest, finds_nan=True)
NANMIN = _extreme(np.nanmin, np.fmin, _highest, finds_nan=True)
implements(np.amax)(TABLE[np.max])
implements(np.amin)(TABLE[np.min])


@implements(np.ptp)
def ptp(a, axis=None, out=None, keepdims=UNSET):
    options = options_of({"axis": axis, "keepdims": keepdims})
    return delivered(out, np.max(a, **options) - np.min(a, **options))


def _place(function):
    """Define where an extreme is: along one axis, or counted through all of them."""
    name = function.__name__

    def batch(batched, x, axis, keepdims):
        if axis is not None or x.ndim == 2:
            return NotImplemented
        place = op(np.reshape(x, (x.shape[0], product(x.shape[1:]))), axis=1)
        return np.reshape(place, (x.shape[0], *(1,) * (x.ndim - 1))) if keepdims else place

    quick = as_method if hasattr(np.ndarray, name) else None
    empty = f"attempt to get {name} of an empty sequence"
    facts = {"batch": batch, "empty": empty, "quick": quick, "branch_distance": from_others(function)}
    op = reduction(function, None, dtype=lambda dtype: _INTEGER, **facts)

    @implements(function)
    def call(a, axis=None, out=None, *, keepdims=UNSET):
        if isinstance(axis, tuple):
            raise UnsupportedError(f"{op.path}: axis={axis} names several dimensions", "Reshape them into one.")
        return delivered(out, op(a, **options_of({"axis": axis, "keepdims": keepdims})))

    return op


ARGMAX, ARGMIN, *_ = map(_place, (np.argmax, np.argmin, np.nanargmax, np.nanargmin))

# ---- truth and counts

ANY = reduction(np.any, None, dtype=lambda dtype: _BOOLEAN, combine=np.logical_or, quick=as_method)
ALL = reduction(np.all, None, dtype=lambda dtype: _BOOLEAN, combine=np.logical_and, quick=as_method)
with_signature(np.any, ANY, fill=lambda dtype: False)
with_signature(np.all, ALL, fill=lambda dtype: True)
COUNT_NONZERO = reduction(np.count_nonzero, None, dtype=lambda dtype: _INTEGER, combine=np.add)
with_signature(np.count_nonzero, COUNT_NONZERO)

# ---- without NaNs


def _skips_nan(function, plain):
    """A nan-function as its plain one that leaves NaNs out."""
    signature = inspect.signature(function)

    @implements(function)
    def call(*args, **kwargs):
        given = options_of(signature.bind(*args, **kwargs).arguments)
        x = as_input(given.pop("a"))
        if x.dtype.kind in "fc":
            where = given.pop("where", None)
            given["where"] = ~np.isnan(x) if where is None else where_mask(function.__name__, x, where) & ~np.isnan(x)
        return plain(x, **given)


_skips_nan(np.nansum, TABLE[np.sum])
_skips_nan(np.nanprod, TABLE[np.prod])
_skips_nan(np.nanmean, mean)

# ---- ufunc.reduce


def _spell_logaddexp(node, x):
    params = dict(node.params)
    rest = [f"axis={spell_param(params.get('axis'))}"] + (["keepdims=True"] if params.get("keepdims") else [])
    return call("np.logaddexp.reduce", [x.text, *rest])


LOGSUMEXP = reduction(
    lambda x, axis=None, keepdims=False: np.logaddexp.reduce(x, axis=axis, keepdims=keepdims),
    lambda g, y, x, axis: g * np.exp(x - np.where(y == -np.inf, 0, y)),  # all are -inf: 0, as a factor before it is
    dtype=lambda dtype: ufunc_dtypes(np.logaddexp, (dtype, dtype))[0],
    name="logaddexp.reduce",
    combine=np.logaddexp,
    spell=_spell_logaddexp,
)


def _reduce(function, ufunc):
    """``ufunc.reduce`` as the function that it is: along the first axis unless it is told otherwise."""

    @implements(ufunc.reduce)
    def reduce(array, axis=0, dtype=None, out=None, keepdims=False, initial=UNSET, where=True):
        x = operand_of({"a": array, "dtype": dtype})
        options = options_of({"initial": initial, "where": where})
        return delivered(out, in_dtype(function(x, axis=axis, keepdims=keepdims, **options), dtype))


def _of_truth(function, combine):
    """np.any and np.all do not take the initial= of their ufuncs."""

    def reduce(x, initial=None, **options):
        y = function(x, **options)
        return y if initial is None else combine(y, initial)

    return reduce


def _log_sum_exp_signed(x, initial=None, where=None, **options):
    if where is not None:
        x = np.where(where_mask("logaddexp.reduce", x, where), x, -np.inf)
    return joined_to_initial(LOGSUMEXP, x, initial, np.logaddexp, options)


for function, ufunc in (
    (np.sum, np.add), (np.prod, np.multiply), (np.max, np.maximum), (np.min, np.minimum), (np.nanmax, np.fmax),
    (np.nanmin, np.fmin),
):  # fmt: skip
    _reduce(TABLE[function], ufunc)
_reduce(_of_truth(TABLE[np.any], np.logical_or), np.logical_or)
_reduce(_of_truth(TABLE[np.all], np.logical_and), np.logical_and)
_reduce(_log_sum_exp_signed, np.logaddexp)
