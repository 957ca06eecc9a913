"""Statistics of order, the median and quantiles, and of pairs, covariances and correlations."""

import numpy as np

from symgrad.dims import same
from symgrad.errors import ArgumentError, DTypeError, ShapeError, SymbolicSizeError, UnsupportedError
from symgrad.flow import Flow, reduced
from symgrad.graph import Aval
from symgrad.ops.define import as_input, axis_tuple, common_dtype, implements, is_traced, operator, refuse
from symgrad.ops.reduce import reduction
from symgrad.shapes import product
from symgrad.spelling import call, spell_param

# ---- ranks


def _ranks(x, axes):
    """The place of each number among those along the axes, in the shape of `x`; equal numbers as sorting has them."""
    if len(axes) == 1:
        return np.argsort(np.argsort(x, axis=axes[0]), axis=axes[0])
    if len(axes) == x.ndim:
        return np.reshape(_ranks(np.ravel(x), (0,)), x.shape)
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    order = kept + axes
    moved = np.transpose(x, order)
    flat = np.reshape(moved, (*[x.shape[i] for i in kept], _count(x, axes)))
    return np.transpose(np.reshape(_ranks(flat, (len(kept),)), moved.shape), np.argsort(order))


def _count(x, axes):
    return product([x.shape[i] for i in axes])


# ---- the median


def _median_dtype(dtype):
    if dtype.kind == "c":
        raise DTypeError(f"np.median: {dtype} has no order", "Take that of x.real, x.imag or np.abs(x).")
    return np.dtype(float) if dtype.kind in "biu" else dtype


def _vjp_median(g, y, x, axis):
    """The number in the middle takes it, or the two share it; of equal numbers those that sorting puts there."""
    axes = axis_tuple("median", axis, x.ndim)
    ranks, n = _ranks(x, axes), _count(x, axes)
    low, high = (n - 1) // 2, n // 2
    if same(low, high):
        return np.where(ranks == low, g, 0)
    return np.where(ranks == low, g * 0.5, 0) + np.where(ranks == high, g * 0.5, 0)


MEDIAN = reduction(np.median, _vjp_median, dtype=_median_dtype)


@implements(np.median)
def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    if out is not None:
        refuse("median", "out")  # by keyword it is delivered before the function is called
    if overwrite_input:
        refuse("median", "overwrite_input")
    return MEDIAN(a, axis=axis, keepdims=keepdims)


# ---- quantiles


def _order_statistic(function, whole):
    """Define np.quantile, where `whole` is 1, or np.percentile, where it is 100. An array `q` adds the first axis."""
    name = function.__name__

    def infer(a, q, axis=None, keepdims=False):
        if a.dtype.kind not in "iuf":
            raise DTypeError(f"np.{name} does not take {a.dtype}")
        if any(same(a.shape[i], 0) for i in axis_tuple(name, axis, a.ndim)):
            raise ShapeError(f"np.{name} of {a} over axis {axis}: there is nothing to choose from")
        kept = MEDIAN.infer(a, axis, keepdims).shape
        if q.dtype.kind in "iu":  # NumPy picks without interpolation; 100ths are always interpolated
            return Aval(q.shape + kept, a.dtype if whole == 1 else common_dtype(a, Aval((), np.dtype(float), q.weak)))
        return Aval(q.shape + kept, common_dtype(a, q))

    def bind(a, q, axis=None, keepdims=False):
        inputs, params = MEDIAN.bind(a, axis, keepdims)
        return (*inputs, as_input(q)), params

    def vjp(g, y, a, q, axis, keepdims):
        axes = axis_tuple(name, axis, a.ndim)
        kept = MEDIAN.infer(a.aval, axis, True).shape
        g, q = np.reshape(g, q.shape + kept), np.reshape(q, q.shape + (1,) * a.ndim) if q.ndim else q
        return _vjp_quantile(g, a, q if whole == 1 else q / whole, axes, whole)

    def batch(batched, a, q, axis, keepdims):
        over = tuple(i + 1 for i in axis_tuple(name, axis, a.ndim - 1)) if batched[0] else axis
        y = op(a, np.ravel(q) if batched[1] else q, axis=over, keepdims=keepdims)
        if not batched[1]:
            return np.moveaxis(y, 1, 0) if q.ndim else y
        y = np.reshape(y, q.shape + y.shape[1:])
        if not batched[0]:
            return y
        rows = np.arange(a.shape[0], like=a)  # each with each was made, and each with its own is asked for
        return y[rows, :, rows] if q.ndim > 1 else y[rows, rows]

    def flow(y, a, q, axis, keepdims):
        (kept,), result, _ = reduced(a, axis_tuple(name, axis, a.ndim), keepdims)
        of_q = tuple(range(-q.ndim, 0))
        return Flow((kept, of_q), (*of_q, *result))

    op = operator(function, arrays=2, infer=infer, bind=bind, vjp=vjp, batch=batch, spell=_spell_quantile, flow=flow)
    return op


def _spell_quantile(node, a, q):
    given = [f"{key}={spell_param(value)}" for key, value in node.params if value != node.op.defaults[key]]
    return call(f"np.{node.op.name}", [a.text, q.text, *given])


def _vjp_quantile(g, a, q, axes, whole):
    """The two numbers between which the quantile lies share the cotangent; where it is one of them, `q` moves it up."""
    n = _count(a, axes)
    position = q * (n - 1)
    low = np.minimum(np.floor(position), n - 2)
    t, ranks = position - low, _ranks(a, axes)
    below, above = ranks == low, ranks == low + 1
    d_a = np.where(below, g * (1 - t), 0) + np.where(above, g * t, 0)
    steps = np.where(above, a, 0) - np.where(below, a, 0)
    if not q.ndim:
        return d_a, np.sum(g * steps) * ((n - 1) / whole)
    d_q = np.sum(g * steps, axis=tuple(range(1, g.ndim))) * ((n - 1) / whole)
    return np.sum(d_a, axis=0), d_q


QUANTILE = _order_statistic(np.quantile, 1)
PERCENTILE = _order_statistic(np.percentile, 100)


def _signed(function, op, whole):
    name = function.__name__

    @implements(function)
    def quantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
        for argument, given in (("out", out is not None), ("overwrite_input", overwrite_input)):
            if given:
                refuse(name, argument)
        if weights is not None:
            refuse(name, "weights")
        if method != "linear":
            raise UnsupportedError(f"np.{name}: method={method!r} is not supported", "Leave it out: it is 'linear'.")
        _check_q(name, q, whole)
        return op(a, q, axis=axis, keepdims=keepdims)


def _check_q(name, q, whole):
    if np.ndim(q) > 1:
        raise ShapeError(f"np.{name}: q of shape {np.shape(q)}, and it may have one dimension")
    if not is_traced(q) and not np.all((np.asarray(q) >= 0) & (np.asarray(q) <= whole)):
        raise ArgumentError(f"np.{name}: q={q} is not between 0 and {whole}")


_signed(np.quantile, QUANTILE, 1)
_signed(np.percentile, PERCENTILE, 100)

# ---- covariances and correlations


@implements(np.cov)
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    for argument, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            refuse("cov", argument)
    if ddof is not None and ddof != int(ddof):
        raise ArgumentError(f"np.cov: ddof={ddof} is not an integer")
    given = [as_input(x) for x in (m, y) if x is not None]
    dtype = np.result_type(*[x.dtype for x in given], float) if dtype is None else np.dtype(dtype)
    rows = [_variables(x, rowvar, dtype) for x in given]
    x = rows[0] if len(rows) == 1 else np.concatenate(rows, axis=0)
    freedom = x.shape[1] - ((0 if bias else 1) if ddof is None else int(ddof))
    if isinstance(freedom, int) and freedom <= 0:
        raise ShapeError(f"np.cov: {x.shape[1]} observations leave {freedom} degrees of freedom")
    centred = x - np.mean(x, axis=1, keepdims=True)
    try:
        return np.squeeze(centred @ centred.T / freedom)
    except SymbolicSizeError:
        raise SymbolicSizeError(
            f"np.cov: the number of variables, {x.shape[0]}, is a symbol here, and may be 1",
            "Give that number in the spec.",
        ) from None


def _variables(x, rowvar, dtype):
    """The observations with one row a variable."""
    if dtype.kind != "f":
        raise DTypeError(f"np.cov in {dtype} is not supported", "Take that of x.real and x.imag.")
    if np.ndim(x) > 2:
        raise ShapeError(f"np.cov: an array of {np.ndim(x)} dimensions, and it may have two")
    x = x if x.dtype == dtype else np.astype(x, dtype)
    return np.reshape(x, (1, -1)) if np.ndim(x) < 2 else x if rowvar else x.T


@implements(np.corrcoef)
def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    c = np.cov(x, y, rowvar, dtype=dtype)
    if np.ndim(c) == 0:
        return c / c
    deviation = np.sqrt(np.diag(c))
    return np.clip(c / deviation[:, None] / deviation[None, :], -1, 1)
