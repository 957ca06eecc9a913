"""Operators along an axis: cumulative sums and products, differences, gradients, the trapezoidal rule."""

import numpy as np

from symgrad.core.axes import ALONG_AXIS
from symgrad.core.graph import Aval
from symgrad.core.shapes import key_along, same_shape, with_size
from symgrad.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from symgrad.ops.arguments import ANY, UNSET, axis_index, check_ndim, refuse_given
from symgrad.ops.contract import spread
from symgrad.ops.define import implements, operator
from symgrad.ops.dtypes import ufunc_dtypes
from symgrad.ops.gather import add_along
from symgrad.ops.marks import STOP
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.reduction import in_dtype, sum_dtype
from symgrad.ops.spellings import as_method
from symgrad.spelling import call


def along(x, axis, part):
    """``x[part]`` along an axis."""
    return x[key_along(axis, part)]


def _reversed(x, axis):
    return along(x, axis, slice(None, None, -1))


# ---- cumulative sums and products


def _spell(node, x):
    axis = dict(node.params)["axis"]
    return call(node.op.path, [x.text] if node.aval.ndim == 1 else [x.text, f"axis={axis}"])


def _accumulation(function, vjp, linear=False):
    """Define an operator of the same shape along one axis; NumPy's ``axis=None`` flattens first."""
    op = operator(
        function,
        quick=as_method,
        infer=lambda x, axis: Aval(x.shape, sum_dtype(x.dtype)),
        vjp=vjp,
        spell=_spell,
        linear=linear,
        **ALONG_AXIS,
    )

    @implements(function)
    def signed(a, axis=None, dtype=None, out=None):
        refuse_given(function.__name__, out=out)  # by keyword it is delivered before the function is called
        x = as_input(a) if dtype is None else np.astype(as_input(a), np.dtype(dtype))
        return in_dtype(op(np.ravel(x), axis=0) if axis is None else op(x, axis=axis), dtype)

    return op


def _recurrence(b, a, axis, reverse):
    """Return y with ``y[j] = b[j] + a[j] * y[j - 1]``, in reverse with ``y[j] = b[j] + a[j + 1] * y[j + 1]``.

    Long rows are computed one after the other; else each step doubles its reach (Hillis and Steele, *Data parallel
    algorithms*, Communications of the ACM 29, 1986).
    """
    y = b.astype(np.result_type(b, a))
    rows, factors = y.swapaxes(0, axis), a.swapaxes(0, axis)[1:]
    n, reach = len(rows), 1
    if rows[:1].size > 64:
        if reverse:
            rows, factors = rows[::-1], factors[::-1]
        for j in range(1, n):
            rows[j] += factors[j - 1] * rows[j - 1]
        return y
    while reach < n:
        before, behind = slice(-reach), slice(reach, None)
        if reverse:
            before, behind = behind, before
        rows[behind] += factors * rows[before]
        factors = factors[behind] * factors[before]
        reach *= 2
    return y


def _vjp_recurrence(g, y, b, a, axis, reverse):
    """The recurrence in the other direction is the transpose."""
    gb = RECURRENCE(g, a, axis=axis, reverse=not reverse)
    first, second = (gb, y) if reverse else (y, gb)
    ga = np.zeros_like(y)
    ga[key_along(axis, slice(1, None))] = along(first, axis, slice(None, -1)) * along(second, axis, slice(1, None))
    return gb, ga


def _batch_recurrence(batched, b, a, axis, reverse):
    if not batched[1]:
        a = a[None]
    if not batched[0]:
        b = np.broadcast_to(b, (a.shape[0], *b.shape))
    return RECURRENCE(b, a, axis=axis + 1, reverse=reverse)


RECURRENCE = operator(
    _recurrence,
    name="recurrence",
    arrays=2,
    infer=lambda b, a, axis, reverse: Aval(b.shape, np.result_type(b.dtype, a.dtype)),
    vjp=_vjp_recurrence,
    batch=_batch_recurrence,
    written=True,
    **ALONG_AXIS,
)
"""A linear recurrence of the first order along an axis, which both inputs have. On others factors may have size 1.

The first factor is not used.
"""


def _vjp_cumprod(g, y, x, axis):
    """Return, for each number, the product before it times the recurrence of what follows.

    No division: any of them may be zero, and the rule must stay true when it is differentiated.
    """
    before = np.ones_like(x)
    before[key_along(axis, slice(1, None))] = along(y, axis, slice(None, -1))
    return (before * RECURRENCE(g, x, axis=axis, reverse=True),)


CUMSUM = _accumulation(
    np.cumsum,
    lambda g, y, x, axis: (_reversed(np.cumsum(_reversed(g, axis), axis=axis), axis),),
    linear=True,
)
CUMPROD = _accumulation(np.cumprod, _vjp_cumprod)


def _with_start(function, start):
    def cumulative(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
        x = as_input(x)
        if axis is None and x.ndim != 1:
            raise ArgumentError(
                f"np.{name}: an array of {x.ndim} dimensions needs axis=", "Write axis=None with x.ravel(), or axis=0."
            )
        axis = axis_index(name, 0 if axis is None else axis, x.ndim)
        y = function(x, axis=axis, dtype=dtype)
        if not include_initial:
            return y
        longer = np.full(with_size(y.shape, axis, y.shape[axis] + 1), start, y.dtype, like=y)
        longer[key_along(axis, slice(1, None))] = y
        return longer

    name = {0: "cumulative_sum", 1: "cumulative_prod"}[start]
    implements(name)(cumulative)


_with_start(np.cumsum, 0)
_with_start(np.cumprod, 1)


def _without_nans(x, number):
    x = as_input(x)
    return np.where(np.isnan(x), number, x) if x.dtype.kind in "fc" else x


implements(np.nancumsum)(lambda a, *given, **named: np.cumsum(_without_nans(a, 0), *given, **named))
implements(np.nancumprod)(lambda a, *given, **named: np.cumprod(_without_nans(a, 1), *given, **named))


# ---- ufunc.accumulate


def _accumulate(ufunc, function):
    @implements(ufunc.accumulate)
    def accumulate(array, axis=0, dtype=None, out=None):
        if axis is None and np.ndim(as_input(array)) > 1:
            raise ShapeError(f"np.{ufunc.__name__}.accumulate: axis=None of several axes", "Name one: axis=0.")
        return function(array, axis or 0, dtype, out)


def _spell_along(node, x):
    axis = dict(node.params)["axis"]
    return call(node.op.path, [x.text] if axis == 0 else [x.text, f"axis={axis}"])


def _running(ufunc, vjp):
    """Define ``ufunc.accumulate`` as an operator."""
    name = f"{ufunc.__name__}.accumulate"
    op = operator(
        ufunc.accumulate,
        name=name,
        infer=lambda x, axis: Aval(x.shape, ufunc_dtypes(ufunc, (x.dtype, x.dtype))[0]),
        vjp=vjp,
        spell=_spell_along,
        **ALONG_AXIS,
    )

    def signed(a, axis, dtype, out):
        refuse_given(name, out=out)
        x = as_input(a)
        check_ndim(f"np.{name}: array", x, 1, ANY, "Write x[None].")
        return op(x if dtype is None else np.astype(x, np.dtype(dtype)), axis=axis)

    _accumulate(ufunc, signed)
    return op


def _vjp_extreme(g, y, x, axis):
    """The cotangent goes to the number that was the extreme last; of equal numbers, to the one that came last."""
    places = np.reshape(np.arange(x.shape[axis], like=x), (-1, *(1,) * (x.ndim - axis - 1)))
    last = np.maximum.accumulate(np.where(x == y, places, 0), axis=axis)
    return (add_along(g, last, axis, x),)


def _vjp_logaddexp(g, y, x, axis):
    """Each number's share of the sum at its place, and of later ones what that sum is a share of."""
    before = np.copy(y)
    before[key_along(axis, slice(1, None))] = along(y, axis, slice(None, -1))
    shares = np.exp(_difference(before, y))
    return (np.exp(_difference(x, y)) * RECURRENCE(g, shares, axis=axis, reverse=True),)


def _difference(a, b):
    """Zero between equal infinities."""
    equal = a == b
    return np.where(equal, 0, a) - np.where(equal, 0, b)


_accumulate(np.add, np.cumsum)
_accumulate(np.multiply, np.cumprod)
MAXIMA, MINIMA = (_running(ufunc, _vjp_extreme) for ufunc in (np.maximum, np.minimum))
for ufunc in (np.fmax, np.fmin):
    _running(ufunc, _vjp_extreme)
for ufunc in (np.logical_and, np.logical_or):
    _running(ufunc, None)
_running(np.logaddexp, _vjp_logaddexp)

# ---- differences and integrals


@implements(np.diff)
def diff(a, n=1, axis=-1, prepend=UNSET, append=UNSET):
    a = as_input(a)
    if n == 0:
        return a
    if n < 0:
        raise ArgumentError(f"np.diff: n={n} is negative", "Give n from 0 on.")
    axis = axis_index("diff", axis, a.ndim)
    ends = [_end(a, axis, x) for x in (prepend, append)]
    parts = [x for x in (ends[0], a, ends[1]) if x is not None]
    a = np.concatenate(parts, axis=axis) if len(parts) > 1 else a
    difference = np.not_equal if a.dtype == bool else np.subtract
    for _ in range(n):
        a = difference(along(a, axis, slice(1, None)), along(a, axis, slice(None, -1)))
    return a


def _end(a, axis, x):
    if x is UNSET:
        return None
    x = np.asarray(x) if type(x) in (int, float) else as_input(x)
    return x if x.ndim else np.broadcast_to(x, with_size(a.shape, axis, 1))


@implements(np.ediff1d)
def ediff1d(ary, to_end=None, to_begin=None):
    ary = np.ravel(as_input(ary))
    parts = [None if x is None else _end_of_differences(x, ary.dtype) for x in (to_begin, to_end)]
    between = along(ary, 0, slice(1, None)) - along(ary, 0, slice(None, -1))
    parts = [x for x in (parts[0], between, parts[1]) if x is not None]
    return np.concatenate(parts) if len(parts) > 1 else between


def _end_of_differences(x, dtype):
    x = np.ravel(x if is_traced(x) else np.asarray(x))
    if not np.can_cast(x.dtype, dtype, "same_kind"):
        raise DTypeError(
            f"np.ediff1d: {x.dtype} ends of {dtype} differences", "Convert the ends: to_end.astype(x.dtype)."
        )
    return x if x.dtype == dtype else np.astype(x, dtype)


@implements(np.gradient)
def gradient(f, *varargs, axis=None, edge_order=1):
    f = as_input(f)
    f = np.astype(f, float) if f.dtype.kind in "iu" else f
    axes = tuple(range(f.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(axis_index("gradient", i, f.ndim) for i in axes)
    if edge_order not in (1, 2):
        raise UnsupportedError(f"np.gradient: edge_order={edge_order!r}", "Write edge_order=1 or edge_order=2.")
    steps = varargs or (None,)
    if len(steps) not in (1, len(axes)):
        raise ArgumentError(
            f"np.gradient: {len(steps)} spacings for {len(axes)} axes",
            "Give one spacing for all axes, or one for each.",
        )
    steps = steps * len(axes) if len(steps) == 1 else steps
    slopes = tuple(_slope(f, _widths(f, h, i), i, edge_order) for i, h in zip(axes, steps, strict=True))
    return slopes[0] if len(axes) == 1 else slopes


def _widths(f, h, axis):
    """The spacing along an axis: one number, or between coordinates what broadcasts against `f`."""
    if np.ndim(h) == 0:
        return h
    h = as_input(h)
    if h.ndim != 1 or not same_shape(h.shape, f.shape[axis : axis + 1]):
        raise ShapeError(
            f"np.gradient: coordinates of shape {h.shape} for axis {axis} of size {f.shape[axis]}",
            "Give one coordinate for each place along the axis.",
        )
    return spread(np.diff(np.astype(h, float) if h.dtype.kind in "iu" else h), f.ndim - 1 - axis)


def _slope(f, h, axis, edge_order):
    """Central differences, and at both ends those of one side, of the first or the second order."""
    n = f.shape[axis]
    if isinstance(n, int) and n <= edge_order:
        raise ShapeError(
            f"np.gradient: size {n} of axis {axis} is too small for edge_order={edge_order}",
            "A derivative needs edge_order + 1 places at least.",
        )
    y = np.empty_like(f)
    if np.ndim(h) == 0:
        inner = along(f, axis, slice(2, None)) - along(f, axis, slice(None, -2))
        y[key_along(axis, slice(1, -1))] = inner / (2.0 if h is None else 2.0 * h)
    else:
        y[key_along(axis, slice(1, -1))] = _uneven(f, h, axis)
    y[key_along(axis, 0)] = _slope_at_end(f, h, axis, edge_order, 0)
    y[key_along(axis, -1)] = _slope_at_end(f, h, axis, edge_order, -1)
    return y


def _uneven(f, h, axis):
    """Return the slopes of parabolas through three neighbours: both slopes, each weighted with the other's width."""
    left, right = (h[part] for part in (slice(None, -1), slice(1, None)))
    rises = along(f, axis, slice(1, None)) - along(f, axis, slice(None, -1))
    slopes = rises / h
    behind, before = along(slopes, axis, slice(None, -1)), along(slopes, axis, slice(1, None))
    return (behind * right + before * left) / (left + right)


def _slope_at_end(f, h, axis, edge_order, end):
    """Return the slope at an end, of a straight line through two numbers or a parabola through three."""
    towards = 1 if end == 0 else -1
    at = [along(f, axis, end + towards * i) for i in range(edge_order + 1)]
    if h is not None and np.ndim(h):
        near, far = (h[end + towards * i] if edge_order == 2 or i == 0 else None for i in range(2))
        first = (at[1] - at[0]) / near
        if edge_order == 2:
            first = first + (first - (at[2] - at[1]) / far) * (near / (near + far))
        return first if end == 0 else -first
    if edge_order == 1:
        rise = at[1] - at[0] if end == 0 else at[0] - at[1]
    elif end == 0:
        rise = 2.0 * at[1] - 1.5 * at[0] - 0.5 * at[2]
    else:
        rise = 1.5 * at[0] - 2.0 * at[1] + 0.5 * at[2]
    return rise if h is None else rise / h


@implements(np.unwrap)
def unwrap(p, discont=None, axis=-1, *, period=2 * np.pi):
    """Whole periods are added behind each jump; they have no slope."""
    p = as_input(p)
    axis = axis_index("unwrap", axis, p.ndim)
    steps = STOP(np.diff(p, axis=axis))
    dtype = np.result_type(steps.dtype, period)
    half = period / 2 if dtype.kind == "f" else period // 2
    wrapped = np.mod(steps + half, period) - half
    if dtype.kind == "f" or period % 2 == 0:  # half a period is as near from above as from below
        wrapped = np.where((wrapped == -half) & (steps > 0), half, wrapped)
    turns = np.where(np.abs(steps) < (half if discont is None else max(discont, half)), 0, wrapped - steps)
    y = np.astype(p, dtype) if p.dtype != dtype else np.copy(p)
    y[key_along(axis, slice(1, None))] += np.cumsum(turns, axis=axis)
    return y


@implements(np.trapezoid)
def trapezoid(y, x=None, dx=1.0, axis=-1):
    y = as_input(y)
    axis = axis_index("trapezoid", axis, y.ndim)
    sums = along(y, axis, slice(1, None)) + along(y, axis, slice(None, -1))
    return np.sum(_steps(x, dx, axis, y.ndim) * sums / 2.0, axis=axis)


def _steps(x, dx, axis, ndim):
    if x is None:
        return dx
    x = as_input(x)
    return np.diff(x, axis=axis) if x.ndim > 1 else spread(np.diff(x), ndim - 1 - axis)
