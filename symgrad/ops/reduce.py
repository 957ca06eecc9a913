"""Reductions: sums, products, extremes, moments and what is counted along axes."""

import inspect

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from symgrad.core.axes import axis_numbers, reduced
from symgrad.core.graph import Aval, Node, Op
from symgrad.core.shapes import broadcast_shapes, product, reduced_shape, same_shape
from symgrad.core.sizes import same
from symgrad.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError, WriteError
from symgrad.ops.define import (
    TABLE,
    as_input,
    as_method,
    axis_tuple,
    display_name,
    implements,
    is_traced,
    refuse,
    registered,
    ufunc_dtypes,
)
from symgrad.spelling import ATOM, PRODUCT, Code, call, spell_param

_UNSET = np._NoValue


def reduction(function, vjp, *, dtype, name=None, empty=None, defaults=None, combine=None, **rules):
    """Define an operator that reduces over axes; beside ``axis`` and ``keepdims`` with further `defaults`.

    ``vjp(g, y, x, axis, **params)``, with g and y shaped to broadcast against x, gives the cotangent of x. `dtype`
    gives that of the result from the input's; `empty` is NumPy's complaint where there is nothing to reduce; the ufunc
    `combine` joins what parts of the input give.
    """
    name = name or display_name(function)

    def infer(x, axis=None, keepdims=False, **_):
        axes = axis_tuple(name, axis, x.ndim)
        if empty and any(same(x.shape[i], 0) for i in axes):
            raise ShapeError(f"np.{name} of {x} over axis {axis}: {empty}", "Test the size before, or give initial=.")
        return Aval(reduced_shape(x.shape, axes, keepdims), dtype(x.dtype))

    def pullback(g, y, x, axis, keepdims, **params):
        if not keepdims and axis is not None:  # all axes: a scalar broadcasts as it is
            kept = reduced_shape(x.shape, axis_tuple(name, axis, x.ndim), True)
            g, y = np.reshape(g, kept), np.reshape(y, kept)
        return (vjp(g, y, x, axis, **params),)

    def bind(x, axis=None, keepdims=False, **params):
        x = as_input(x)
        axes = axis_tuple(name, axis, np.ndim(x))
        axis = None if len(axes) == np.ndim(x) else axes[0] if len(axes) == 1 else axes
        return (x,), {"axis": axis, "keepdims": bool(keepdims), **params}

    def flow(y, x, axis, keepdims, **_):
        return reduced(x, axis_tuple(name, axis, x.ndim), keepdims, combine)

    defaults, axes = {"axis": None, "keepdims": False, **(defaults or {})}, {"axis": axis_numbers}
    op = Op(name, function, infer, bind, vjp=vjp and pullback, flow=flow, axes=axes, defaults=defaults, **rules)
    return registered(op)


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes that a reduction is over, counted from the front, in order."""
    axis, ndim = dict(node.params).get("axis"), node.inputs[0].aval.ndim
    return tuple(range(ndim)) if axis is None else tuple(sorted(normalize_axis_tuple(axis, ndim)))


# ---- NumPy's signature around an operator


def _signed(function, op, *, fill=None, combine=None, identity=True):
    """Register `op` under NumPy's full signature.

    `fill` gives, from the dtype, what stands in for numbers that ``where=`` leaves out; `combine` is how ``initial=``
    joins the result, and without an `identity` there must be one where nothing may be selected.
    """
    name, signature = function.__name__, inspect.signature(function)

    @implements(function)
    def call(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        x, options = _operand(given), _options(given)
        out, where, initial = options.pop("out", None), options.pop("where", None), options.pop("initial", None)
        if where is not None:
            if fill is None:
                refuse(name, "where")
            if initial is None and not identity:
                raise UnsupportedError(
                    f"np.{name}: where= without initial= has no value where nothing is selected",
                    "Give initial= too.",
                )
            x = np.where(_mask(name, x, where), x, fill(x.dtype))
        return _into(out, _joined(op, x, initial, combine, options))


def _operand(given):
    x, dtype = as_input(given.pop("a")), given.pop("dtype", None)
    return x if dtype is None else np.astype(x, np.dtype(dtype))


def _options(given):
    """What a caller has said: NumPy's stand-ins for nothing do not count."""
    given = {key: value for key, value in given.items() if value is not _UNSET}
    if given.get("where") is True:
        del given["where"]
    return given


def _mask(name, x, where):
    """``where=`` in the shape of the operand."""
    where = as_input(where)
    where = where if where.dtype == bool else where != 0
    shape = np.shape(where)
    if not same_shape(broadcast_shapes(shape, x.shape), x.shape):
        raise ShapeError(
            f"np.{name}: where= of shape {shape} does not fit an array of shape {x.shape}",
            "Give a mask that broadcasts to the array.",
        )
    return np.broadcast_to(where, x.shape)


def _joined(op, x, initial, combine, options):
    if initial is None:
        return op(x, **options)
    axes = axis_tuple(op.name, options.get("axis"), x.ndim)
    if any(same(x.shape[i], 0) for i in axes):
        shape = reduced_shape(x.shape, axes, options.get("keepdims", False))
        dtype = op.infer(Aval((1,), x.dtype)).dtype
        nothing = np.full(shape, _initial(initial, dtype), dtype, like=x)
        return nothing if shape else nothing[()]  # a scalar, where np.full gives an array
    y = op(x, **options)
    return combine(y, _initial(initial, y.dtype))


def _initial(value, dtype):
    """The start of a reduction in the dtype of its result; a Python number that fits is left as it reads."""
    if is_traced(value):
        return value if value.dtype == dtype else np.astype(value, dtype)
    if type(value) in (int, float) and np.result_type(dtype, value) == dtype:
        return value
    return np.asarray(value).astype(dtype)[()]


def _into(out, y):
    """Deliver into a positional ``out``; one by keyword is delivered before the function is called."""
    if out is None:
        return y
    if not is_traced(out):
        raise WriteError(
            "out= is an array that exists before the program runs", "Give a Variable: np.empty(shape, like=x)."
        )
    out[...] = y
    return out


# ---- what the rules share


def sum_dtype(dtype):
    """Small integers are summed as the platform's."""
    if dtype.kind not in "biu" or dtype.itemsize >= 8:
        return dtype
    return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)


def _mean_dtype(dtype):
    return np.dtype(float) if dtype.kind in "biu" else dtype


def _var_dtype(dtype):
    if dtype.kind == "c":
        raise DTypeError(f"np.var and np.std do not take {dtype}", "Take those of x.real and x.imag.")
    return _mean_dtype(dtype)


def _count(x, axis):
    return product([x.shape[i] for i in axis_tuple("mean", axis, x.ndim)])


def as_divisor(count, dtype):
    """An integer count that does not make float64 of a float32 that it divides."""
    if dtype == np.float64:
        return count
    return np.astype(count, dtype) if is_traced(count) else dtype.type(count)


def _lowest(dtype):
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else int(np.iinfo(dtype).min)


def _highest(dtype):
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else int(np.iinfo(dtype).max)


def _boolean(dtype):
    return np.dtype(bool)


def _same(dtype):
    return dtype


def _integer(dtype):
    return np.dtype(int)


# ---- sums and means

SUM = reduction(
    np.sum,
    lambda g, y, x, axis: np.broadcast_to(g, x.shape),
    dtype=sum_dtype,
    combine=np.add,
    quick=as_method,
    linear=True,
    nanoseconds=0.3,
    out=True,
)
_signed(np.sum, SUM, fill=lambda dtype: 0, combine=np.add)


def _sum_by_count(node, x):
    """What np.mean does, in half of its time."""
    a, params = node.inputs[0].aval, dict(node.params)
    count = product([a.shape[i] for i in axis_tuple("mean", params.get("axis"), a.ndim)])
    if not isinstance(count, int) or count == 0 or a.dtype not in (np.float32, np.float64) or not a.shape:
        return as_method(node, x)
    given = ", ".join(f"{key}={spell_param(value)}" for key, value in node.params)
    return Code(f"{x.at(ATOM)}.sum({given}) / {count}", PRODUCT)


MEAN = reduction(
    np.mean,
    lambda g, y, x, axis: np.broadcast_to(g / _count(x, axis), x.shape),
    dtype=_mean_dtype,
    quick=_sum_by_count,
    linear=True,
)


def _floating(function, dtype):
    """A dtype= that a mean can be taken in."""
    if dtype is not None and np.dtype(dtype).kind != "f":
        raise UnsupportedError(
            f"np.{function}: dtype={np.dtype(dtype)} is not supported", "Cast the result: .astype(...)."
        )


@implements(np.mean)
def mean(a, axis=None, dtype=None, out=None, keepdims=_UNSET, *, where=_UNSET):
    _floating("mean", dtype)
    x = _operand({"a": a, "dtype": dtype})
    options = _options({"axis": axis, "keepdims": keepdims})
    if where is _UNSET or where is True:
        return _into(out, MEAN(x, **options))
    mask = _mask("mean", x, where)
    dtype = _mean_dtype(x.dtype)
    total = np.sum(np.where(mask, x, 0), dtype=np.float32 if dtype == np.float16 else dtype, **options)
    result = total / as_divisor(np.count_nonzero(mask, **options), total.dtype)
    return _into(out, np.astype(result, dtype, copy=False))


@implements(np.average)
def average(a, axis=None, weights=None, returned=False, *, keepdims=_UNSET):
    a, options = as_input(a), _options({"axis": axis, "keepdims": keepdims})
    if weights is None:
        result = np.mean(a, **options)
        return (result, np.ones_like(result) * _count(a, axis)) if returned else result
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
    """What ``function(x, axis)`` gives for each number, with several axes as if they were one."""
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
    whole = (slice(None),) * axis
    before, behind = np.ones_like(x), np.ones_like(x)
    before[(*whole, slice(1, None))] = np.cumprod(x[(*whole, slice(None, -1))], axis=axis)
    backwards = np.cumprod(x[(*whole, slice(None, 0, -1))], axis=axis)
    behind[(*whole, slice(None, -1))] = backwards[(*whole, slice(None, None, -1))]
    return before * behind


PROD = reduction(
    np.prod,
    lambda g, y, x, axis: g * _product_of_others(x, axis_tuple("prod", axis, x.ndim)),
    dtype=sum_dtype,
    combine=np.multiply,
    quick=as_method,
)
_signed(np.prod, PROD, fill=lambda dtype: 1, combine=np.multiply)

# ---- extremes


def _to_the_tied(g, y, x, axis):
    """Those that reach the extreme share equally; nothing flows to the others."""
    tied = x == y
    count = np.count_nonzero(tied, axis=axis, keepdims=axis is not None)
    return np.where(tied, g / as_divisor(count, g.dtype), 0)


_NOTHING = "zero-size array to reduction operation {} which has no identity"


def _extreme(function, ufunc, worst, **facts):
    """Define a reduction by an extreme; `worst` gives what never is one."""
    empty = _NOTHING.format(ufunc.__name__)
    op = reduction(function, _to_the_tied, dtype=_same, empty=empty, combine=ufunc, **facts)
    _signed(function, op, fill=worst, combine=ufunc, identity=False)
    return op


MAX = _extreme(np.max, np.maximum, _lowest, quick=as_method, nanoseconds=0.3, out=True)
MIN = _extreme(np.min, np.minimum, _highest, quick=as_method, nanoseconds=0.3, out=True)
_extreme(np.nanmax, np.fmax, _lowest)
_extreme(np.nanmin, np.fmin, _highest)
implements(np.amax)(TABLE[np.max])
implements(np.amin)(TABLE[np.min])


@implements(np.ptp)
def ptp(a, axis=None, out=None, keepdims=_UNSET):
    options = _options({"axis": axis, "keepdims": keepdims})
    return _into(out, np.max(a, **options) - np.min(a, **options))


def _batch_position(op):
    """argmax takes one axis or counts through all of them: rows are made flat first."""

    def batch(batched, x, axis, keepdims):
        if axis is not None or x.ndim == 2:
            return NotImplemented
        place = op()(np.reshape(x, (x.shape[0], product(x.shape[1:]))), axis=1)
        return np.reshape(place, (x.shape[0], *(1,) * (x.ndim - 1))) if keepdims else place

    return batch


_NO_PLACE = "attempt to get {} of an empty sequence"


def _place(function):
    """Define where an extreme is."""
    name = function.__name__
    quick = as_method if hasattr(np.ndarray, name) else None
    empty = _NO_PLACE.format(name)
    op = reduction(function, None, dtype=_integer, batch=_batch_position(lambda: op), empty=empty, quick=quick)
    return op


ARGMAX, ARGMIN, NANARGMAX, NANARGMIN = map(_place, (np.argmax, np.argmin, np.nanargmax, np.nanargmin))


def _position(function, op):
    @implements(function)
    def call(a, axis=None, out=None, *, keepdims=_UNSET):
        if isinstance(axis, tuple):
            raise UnsupportedError(f"{op.path}: axis={axis} names several dimensions", "Reshape them into one.")
        return _into(out, op(a, **_options({"axis": axis, "keepdims": keepdims})))


_position(np.argmax, ARGMAX)
_position(np.argmin, ARGMIN)
_position(np.nanargmax, NANARGMAX)
_position(np.nanargmin, NANARGMIN)

# ---- truth and counts

ANY = reduction(np.any, None, dtype=_boolean, combine=np.logical_or, quick=as_method)
ALL = reduction(np.all, None, dtype=_boolean, combine=np.logical_and, quick=as_method)
_signed(np.any, ANY, fill=lambda dtype: False)
_signed(np.all, ALL, fill=lambda dtype: True)
COUNT_NONZERO = reduction(np.count_nonzero, None, dtype=_integer, combine=np.add)
_signed(np.count_nonzero, COUNT_NONZERO)

# ---- variance and standard deviation


def _vjp_var(g, y, x, axis, ddof):
    return g * 2 / _freedom(x, axis, ddof) * _centred(x, axis)


def _vjp_std(g, y, x, axis, ddof):
    """Zero where all numbers are equal, as the derivative of the absolute value is."""
    return g / (_freedom(x, axis, ddof) * np.where(y == 0, 1, y)) * _centred(x, axis)


def _freedom(x, axis, ddof):
    n = _count(x, axis) - ddof
    return max(n, 0) if isinstance(n, int) else n


def _centred(x, axis):
    return x - np.mean(x, axis=axis, keepdims=axis is not None)


VAR = reduction(np.var, _vjp_var, dtype=_var_dtype, defaults={"ddof": 0}, quick=as_method)
STD = reduction(np.std, _vjp_std, dtype=_var_dtype, defaults={"ddof": 0}, quick=as_method)


def _root(variance):
    """The square root with slope 0 at 0."""
    zero = variance == 0
    return np.where(zero, 0, np.sqrt(np.where(zero, 1, variance)))


def _squares(x, mask, mean, ddof, options):
    """Sums of squares about the mean, one that is given or that of the selected, and how many they are less `ddof`."""
    axis = options.get("axis")
    if mean is _UNSET:
        mean = np.mean(x, axis=axis, keepdims=True, where=mask)
    deviation = x - mean if mask is None else np.where(mask, x - mean, 0)
    total = np.sum(deviation * deviation, **options)
    if mask is None:
        return total, _freedom(x, axis, ddof)
    return total, as_divisor(np.count_nonzero(mask, **options) - ddof, total.dtype)


def _degrees(name, ddof, correction):
    if correction is not _UNSET:
        if ddof != 0:
            raise ArgumentError(f"np.{name}: ddof and correction cannot be given together", "Leave one of them out.")
        ddof = correction
    if isinstance(ddof, (float, np.floating)) and ddof == int(ddof):
        ddof = int(ddof)
    if not isinstance(ddof, (int, np.integer)):
        raise UnsupportedError(f"np.{name}: ddof={ddof} is not an integer", "Scale the result by hand.")
    return int(ddof)


def _moment(function, op, root, skip_nan=False):
    name = function.__name__

    @implements(function)
    def moment(
        a, axis=None, dtype=None, out=None, ddof=0, keepdims=_UNSET, *, where=_UNSET, mean=_UNSET, correction=_UNSET
    ):
        _floating(name, dtype)
        ddof, options = _degrees(name, ddof, correction), _options({"axis": axis, "keepdims": keepdims})
        x = _operand({"a": a, "dtype": dtype})
        chosen = None if where is _UNSET or where is True else _mask(name, x, where)
        if skip_nan and x.dtype.kind == "f":
            chosen = ~np.isnan(x) if chosen is None else chosen & ~np.isnan(x)
        elif chosen is None and mean is _UNSET:
            return _into(out, op(x, ddof=ddof, **options))
        _var_dtype(x.dtype)
        total, freedom = _squares(x, chosen, mean, ddof, options)
        if skip_nan:
            result = np.where(freedom > 0, total / np.maximum(freedom, 1), np.nan)
        else:
            result = total / np.maximum(freedom, 0)
        return _into(out, root(result))


_moment(np.var, VAR, lambda variance: variance)
_moment(np.std, STD, _root)
_moment(np.nanvar, VAR, lambda variance: variance, skip_nan=True)
_moment(np.nanstd, STD, _root, skip_nan=True)

# ---- without NaNs


def _skips_nan(function, plain):
    """A nan-function as its plain one that leaves NaNs out."""
    signature = inspect.signature(function)

    @implements(function)
    def call(*args, **kwargs):
        given = _options(signature.bind(*args, **kwargs).arguments)
        x = as_input(given.pop("a"))
        if x.dtype.kind == "f":
            where = given.pop("where", None)
            given["where"] = ~np.isnan(x) if where is None else _mask(function.__name__, x, where) & ~np.isnan(x)
        return plain(x, **given)


_skips_nan(np.nansum, TABLE[np.sum])
_skips_nan(np.nanprod, TABLE[np.prod])
_skips_nan(np.nanmean, mean)

# ---- ufunc.reduce


def _spell_logaddexp(node, x):
    params = dict(node.params)
    rest = [f"axis={spell_param(params.get('axis'))}"] + (["keepdims=True"] if params.get("keepdims") else [])
    return call("np.logaddexp.reduce", [x.text, *rest])


def _log_sum_exp(x, axis=None, keepdims=False):
    return np.logaddexp.reduce(x, axis=axis, keepdims=keepdims)


LOGSUMEXP = reduction(
    _log_sum_exp,
    lambda g, y, x, axis: g * np.exp(x - y),
    dtype=lambda dtype: ufunc_dtypes(np.logaddexp, (dtype, dtype))[0],
    name="logaddexp.reduce",
    combine=np.logaddexp,
    spell=_spell_logaddexp,
)


def _reduce(function, ufunc):
    """``ufunc.reduce`` as the function that it is: along the first axis unless it is told otherwise."""

    @implements(ufunc.reduce)
    def reduce(array, axis=0, dtype=None, out=None, keepdims=False, initial=_UNSET, where=True):
        x = _operand({"a": array, "dtype": dtype})
        options = _options({"initial": initial, "where": where})
        return _into(out, function(x, axis=axis, keepdims=keepdims, **options))


def _of_truth(function, combine):
    """np.any and np.all do not take the initial= of their ufuncs."""

    def reduce(x, initial=None, **options):
        y = function(x, **options)
        return y if initial is None else combine(y, initial)

    return reduce


def _log_sum_exp_signed(x, initial=None, where=None, **options):
    if where is not None:
        x = np.where(_mask("logaddexp.reduce", x, where), x, -np.inf)
    return _joined(LOGSUMEXP, x, initial, np.logaddexp, options)


for function, ufunc in (
    (np.sum, np.add), (np.prod, np.multiply), (np.max, np.maximum), (np.min, np.minimum), (np.nanmax, np.fmax),
    (np.nanmin, np.fmin),
):  # fmt: skip
    _reduce(TABLE[function], ufunc)
_reduce(_of_truth(TABLE[np.any], np.logical_or), np.logical_or)
_reduce(_of_truth(TABLE[np.all], np.logical_and), np.logical_and)
_reduce(_log_sum_exp_signed, np.logaddexp)
