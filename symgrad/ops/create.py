"""Creation of arrays: functions without an array argument, which take part in a graph by ``like=``."""

import math
from operator import index as operator_index

import numpy as np

from symgrad.core.axes import aligned, matched, opaque, result_shape
from symgrad.core.graph import CONSTANT, Aval, Literal
from symgrad.core.shapes import broadcast_shapes, render_tuple, same_shape, with_value
from symgrad.core.sizes import Dim, is_no_length, largest, same
from symgrad.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from symgrad.ops.arguments import refuse
from symgrad.ops.astype import ASTYPE
from symgrad.ops.contract import align, spread
from symgrad.ops.define import operator
from symgrad.ops.join import STACK
from symgrad.ops.known import is_constant
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.places import size_by_index
from symgrad.ops.shape import as_size
from symgrad.spelling import call, spell_param

CREATE = {}
"""Creation functions: ``CREATE[np.zeros](new, *args, **kwargs)``, where ``new(op, *inputs, **params)`` records."""


def creates(*functions):
    """Register how a creation function makes Variables."""

    def register(written):
        CREATE.update(dict.fromkeys(functions, written))
        return written

    return register


def _check(function, order, device=None):
    if order not in ("C", "F", "K", "A", None):
        refuse(function, "order")
    if device not in (None, "cpu"):
        refuse(function, "device")


# ---- one number everywhere


def _dtype_unless(natural, dtype):
    """``dtype=`` where another one would come by itself."""
    return [] if dtype == natural else [f"dtype={spell_param(dtype)}"]


def _spell_full(node, value):
    shape, dtype = node.aval.shape, node.aval.dtype
    text = spell_param(shape[0] if len(shape) == 1 else shape)
    number = node.inputs[0].constant
    if np.ndim(number) == 0 and (number == 1 or (number == 0 and not np.signbit(np.real(number)))):
        return call("np.ones" if number else "np.zeros", [text, *_dtype_unless(float, dtype)])
    return call("np.full", [text, value.text, *_dtype_unless(node.inputs[0].aval.dtype, dtype)])


def spell_empty(aval):
    """A new array of a shape and dtype."""
    shape, dtype = aval.shape, aval.dtype
    return call("np.empty", [spell_param(shape[0] if len(shape) == 1 else shape), *_dtype_unless(float, dtype)])


EMPTY = operator(
    lambda shape, dtype, tag: np.empty(shape, dtype),
    name="empty",
    arrays=0,
    infer=lambda shape, dtype, tag: Aval(shape, dtype),
    axes={"shape": result_shape},
    spell=lambda node: spell_empty(node.aval),
    cheap=True,
)
"""An uninitialised array under an identity of its own; every element is written before it is read."""


FULL = operator(
    lambda value, shape, dtype: np.full(shape, value, dtype),
    name="full",
    infer=lambda value, shape, dtype: Aval(shape, dtype),
    vjp=lambda g, y, value, shape, dtype: (np.sum(g),),
    batch=lambda batched, value, shape, dtype: np.broadcast_to(spread(value, len(shape)), (value.shape[0], *shape)),
    spell=_spell_full,
    signature=aligned,
    axes={"shape": result_shape},
    linear=True,
    cheap=True,
)


def as_shape(shape):
    """A shape as NumPy takes it: a size or a sequence of them."""
    if isinstance(shape, Dim) or np.ndim(shape) == 0:
        shape = (shape,)
    return tuple(map(as_length, shape))


def as_length(n):
    """A size of an array that is made: the program is for sizes where it is not negative."""
    n = as_size(n)
    if is_no_length(n):
        raise ShapeError(
            f"a shape cannot have the negative size {with_value(n)}",
            "A size is 0 or more: write max(n, 0) where it may be less.",
        )
    return n


@creates(np.zeros, np.empty)
def zeros(new, shape, dtype=float, order="C", *, device=None):
    _check("zeros", order, device)
    return _laid_out(new(FULL, 0.0, shape=as_shape(shape), dtype=np.dtype(dtype)), order)


def _laid_out(array, order):
    """An array that was just made, in C's order or in Fortran's."""
    array.lay_out("F" if order == "F" else "C")
    return array


@creates(np.ones)
def ones(new, shape, dtype=None, order="C", *, device=None):
    _check("ones", order, device)
    return _laid_out(new(FULL, 1.0, shape=as_shape(shape), dtype=np.dtype(dtype)), order)


@creates(np.full)
def full(new, shape, fill_value, dtype=None, order="C", *, device=None):
    _check("full", order, device)
    sizes = as_shape(shape)
    value = fill_value if isinstance(fill_value, Dim) else as_input(fill_value)
    dtype = np.dtype(dtype) if dtype is not None else _dtype_of(value)
    if isinstance(value, Dim) or np.ndim(value) == 0:
        if type(value) in (bool, int) and value in (0, 1):
            value = float(value)  # the same node as zeros and ones
        return _laid_out(new(FULL, value, shape=sizes, dtype=dtype), order)
    rows = array(new, value, dtype=dtype)
    return _laid_out(rows if same_shape(rows.shape, sizes) else np.copy(np.broadcast_to(rows, sizes)), order)


def _dtype_of(x):
    return np.dtype(int) if isinstance(x, Dim) else x.dtype if is_traced(x) else np.asarray(x).dtype


def _like(a, shape, dtype):
    """Shape and dtype for a creation function that takes them from `a`."""
    a = a if is_traced(a) else np.asarray(a)
    return a.shape if shape is None else as_shape(shape), a.dtype if dtype is None else np.dtype(dtype)


@creates(np.zeros_like, np.empty_like)
def zeros_like(new, a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return full_like(new, a, 0.0, dtype, order, subok, shape, device=device)


@creates(np.ones_like)
def ones_like(new, a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return full_like(new, a, 1.0, dtype, order, subok, shape, device=device)


@creates(np.full_like)
def full_like(new, a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    _check("full_like", order, device)
    result = full(new, *_like(a, shape, None)[:1], fill_value, _like(a, shape, dtype)[1])
    if shape is None or order in ("C", "F"):
        result.lay_out(_order_of_copy(a, order))
    return result


def _order_of_copy(a, order):
    """The order in which NumPy lays out a copy of an array."""
    if is_traced(a):
        return a.order_of_copy(order or "K")
    return _order_of(np.copy(a, order or "K"))


def _order_of(array):
    return "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else ""


# ---- arrays of what is there


def copy_mode(copy):
    """Return `copy` of ``np.array`` as True, False, or None; NumPy has names for these, which have no truth."""
    return {"ALWAYS": True, "NEVER": False, "IF_NEEDED": None}.get(getattr(copy, "name", ""), copy)


@creates(np.array)
def array(new, object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0):
    _check("array", order)
    copy = copy_mode(copy)
    result = (
        _copied(new, object, dtype, order) if copy or not is_traced(object) else _as_it_is(object, dtype, order, copy)
    )
    missing = ndmin - result.ndim
    return np.reshape(result, (*(1,) * missing, *result.shape)) if missing > 0 else result


def _copied(new, x, dtype, order):
    """An array of numbers, of arrays, or of lists of them."""
    dtype = None if dtype is None else np.dtype(dtype)
    if not _has_traced(x):
        value = np.array(_concrete(x), dtype, order=order or "K")
        result = new(CONSTANT, value=Literal(value))
        result.lay_out(_order_of(value))
        return result
    if dtype is not None and dtype.kind not in "biufc":
        raise UnsupportedError(f"np.array: traced values in an array of dtype {dtype}", "Keep them in a list.")
    result = _gathered(new, x)
    same = dtype is None or result.dtype == dtype
    result = result.copied(order or "K", array=True) if same else result.astype(dtype, order or "K")
    result.as_array(True)
    return result


def _as_it_is(x, dtype, order, copy):
    """Return a traced array itself where dtype and order fit, else a copy; raise if copy=False asks for none."""
    same = (dtype is None or x.dtype == np.dtype(dtype)) and not x.aval.weak
    result = (
        x.or_copy("K" if order == "A" else order, _PERHAPS.format("np.asarray"))
        if same
        else x.astype(dtype or x.dtype, order or "K")
    )
    if copy is False and result is not x:
        raise UnsupportedError(
            "np.array or np.asarray: copy=False of an array that has to be copied, or may have to be",
            "Write copy=None, which copies where that is necessary.",
        )
    result.as_array(True)
    return result


_PERHAPS = "{} may give another name of"


@creates(np.asarray, np.asanyarray)
def asarray(new, a, dtype=None, order=None, *, device=None, copy=None):
    _check("asarray", order, device)
    copy = copy_mode(copy)
    if is_traced(a) and not copy:
        return _as_it_is(a, dtype, order, copy)
    result = _copied(new, a, dtype, order)
    if isinstance(a, np.ndarray) and not is_traced(a) and not copy:
        result.locked = "np.asarray gives an array that exists before the program runs: writing into it would change it"
    return result


@creates(np.ascontiguousarray)
def ascontiguousarray(new, a, dtype=None):
    return np.atleast_1d(asarray(new, a, dtype, "C"))


@creates(np.asfortranarray)
def asfortranarray(new, a, dtype=None):
    return np.atleast_1d(asarray(new, a, dtype, "F"))


@creates(np.asarray_chkfinite)
def asarray_chkfinite(new, a, dtype=None, order=None):
    x = asarray(new, a, dtype, order)
    if x.dtype.kind in "fc" and not is_constant(x):
        raise UnsupportedError(
            "np.asarray_chkfinite of a traced array: its numbers have no value before the program runs",
            "Write np.asarray; compile with check_nan=True, or raise an error if not np.all(np.isfinite(x)).",
        )
    if x.dtype.kind in "fc" and not np.all(np.isfinite(x)):
        raise ArgumentError("np.asarray_chkfinite: there are infs or NaNs in the array", "Write np.asarray.")
    return x


@creates(np.require)
def require(new, a, dtype=None, requirements=None):
    wanted = {_REQUIREMENTS.get(str(x).upper()) for x in [requirements or ()] for x in x}
    if None in wanted or wanted >= {"C", "F"}:
        refuse("require", "requirements")
    x = asarray(new, a, dtype, "F" if "F" in wanted else "C" if "C" in wanted else "A")
    if "W" in wanted and x.locked and not x.owner.locked:  # a view that cannot be written into
        return x.copied("A", array=True)
    if "O" not in wanted:
        return x
    result = x.copied("A", array=True)
    if x.owner is x:  # of NumPy's functions some give a view of what nobody else has
        result.may_be(x, _PERHAPS.format("np.require"))
    return result


_REQUIREMENTS = {
    **dict.fromkeys(("C", "C_CONTIGUOUS", "CONTIGUOUS"), "C"),
    **dict.fromkeys(("F", "F_CONTIGUOUS", "FORTRAN"), "F"),
    **dict.fromkeys(("A", "ALIGNED"), "A"),
    **dict.fromkeys(("W", "WRITEABLE"), "W"),
    **dict.fromkeys(("O", "OWNDATA"), "O"),
    **dict.fromkeys(("E", "ENSUREARRAY"), "E"),
}
"""Requirements on the layout of an array, by the names that NumPy takes."""


def _has_traced(x):
    return is_traced(x) or isinstance(x, Dim) or (isinstance(x, (list, tuple)) and any(map(_has_traced, x)))


def _gathered(new, x):
    """Nested lists of numbers and Variables as one Variable."""
    if isinstance(x, (list, tuple)):
        items = [_gathered(new, item) if _has_traced(item) else np.asarray(item) for item in x]
        try:
            return new(STACK, *items, axis=0)
        except ShapeError:
            shapes = " and ".join([*dict.fromkeys(render_tuple(np.shape(item)) for item in items)][:2])
            raise ShapeError(
                f"a list has items of the shapes {shapes}, which are not one array",
                "Give them one length, or loop over the list: for item in x.",
            ) from None
    return new(ASTYPE, x, dtype=np.dtype(int)) if isinstance(x, Dim) else x


def _concrete(x):
    array = np.asarray(x)
    check_numeric(array.dtype)
    return array


def check_numeric(dtype):
    if dtype.kind not in "biufc":
        raise UnsupportedError(
            f"an array of dtype {dtype} cannot take part in a traced computation",
            "Make arrays of booleans, integers, floating or complex numbers.",
        )


# ---- ranges


def _spell_arange(node, start, stop, step):
    params, (first, _, width) = dict(node.params), node.inputs
    texts, written = [start.text, stop.text, step.text], node.inputs
    if width.constant == 1:
        part = slice(1, 2) if first.constant == 0 else slice(2)
        texts, written = texts[part], written[part]
    return call("np.arange", texts + _dtype_unless(np.result_type(*[x.aval.dtype for x in written]), params["dtype"]))


ARANGE = operator(
    lambda start, stop, step, n, dtype: np.arange(start, stop, step, dtype),
    name="arange",
    arrays=3,
    infer=lambda start, stop, step, n, dtype: Aval((n,), dtype),
    spell=_spell_arange,
    signature=opaque,
)


@creates(np.arange)
def arange(new, start, stop=None, step=1, dtype=None, *, device=None):
    _check("arange", None, device)
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    start, stop, step = map(_by_place, (start, stop, step))
    if any(map(is_traced, (start, stop, step))):
        raise UnsupportedError(
            "np.arange: the size of the result would depend on values",
            "Write start + step * np.arange(n), with a size n that does not depend on values.",
        )
    sizes = [isinstance(x, (Dim, int, np.integer)) for x in (start, stop, step)]
    if dtype is None:
        dtype = int if all(sizes) else float
    return new(ARANGE, start, stop, step, n=_length(start, stop, step, all(sizes)), dtype=np.dtype(dtype))


def _by_place(x):
    """Return a traced integer that is the index of a loop as a symbolic size."""
    size = size_by_index(x) if is_traced(x) else None
    return x if size is None else size


def _length(start, stop, step, integers):
    if step == 0:
        raise ShapeError("np.arange: step is zero", "Give a step that is not 0, or write np.full.")
    if integers:
        distance, width = (stop - start, step) if step > 0 else (start - stop, -step)
        return largest(0, as_size(-(-distance // width)))
    if any(isinstance(x, Dim) for x in (start, stop, step)):
        if all(isinstance(x, Dim) or float(x).is_integer() for x in (start, stop, step)):
            return _length(*(x if isinstance(x, Dim) else int(x) for x in (start, stop, step)), True)
        raise UnsupportedError(
            "np.arange of a symbolic size and a float", "Write np.arange(n, dtype=float) * step + start."
        )
    return max(0, math.ceil((stop - start) / step))


def _vjp_linspace(g, y, start, stop, num, endpoint):
    steps = largest(1, num - 1 if endpoint else num)
    t = np.reshape(np.arange(num, dtype=g.dtype, like=g) / steps, (num, *(1,) * (g.ndim - 1)))
    return np.sum(g * (1 - t), axis=0), np.sum(g * t, axis=0)


def _spell_linspace(node, start, stop):
    params = {"endpoint": True, **dict(node.params)}
    ends = [] if params["endpoint"] else ["endpoint=False"]
    return call("np.linspace", [start.text, stop.text, str(params["num"]), *ends])


def _signature_linspace(y, *ends, num, endpoint):
    """The axes of the ends, which broadcast; the one of the steps is made as a whole."""
    return matched(y, ends, [range(-x.ndim, 0) for x in ends], [None, *range(1 - y.ndim, 0)])


LINSPACE = operator(
    lambda start, stop, num, endpoint=True: np.linspace(start, stop, num, endpoint),
    name="linspace",
    arrays=2,
    infer=lambda start, stop, num, endpoint=True: Aval(
        (num, *broadcast_shapes(start.shape, stop.shape)), np.result_type(start.dtype, stop.dtype, 0.0)
    ),
    vjp=_vjp_linspace,
    batch=lambda batched, start, stop, **steps: np.moveaxis(LINSPACE(*align(batched, start, stop), **steps), 0, 1),
    spell=_spell_linspace,
    signature=_signature_linspace,
    linear=True,
)


@creates(np.linspace)
def linspace(new, start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    _check("linspace", None, device)
    num, endpoint = as_size(num), bool(endpoint)
    if isinstance(num, int) and num < 0:
        raise ShapeError(f"np.linspace: {num} samples", "Give num from 0 on.")
    num = as_length(num)
    y = new(LINSPACE, start, stop, num=num, endpoint=endpoint)
    if dtype is not None:
        y = (np.floor(y) if np.dtype(dtype).kind in "iu" else y).astype(dtype)
    y = np.moveaxis(y, 0, axis) if axis else y
    steps = num - 1 if endpoint else num
    return (y, (stop - start) / steps) if retstep else y


@creates(np.logspace)
def logspace(new, start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    if np.ndim(base):
        refuse("logspace", "base")
    y = np.power(base, linspace(new, start, stop, num, endpoint, axis=axis))
    return y if dtype is None else y.astype(dtype)


@creates(np.geomspace)
def geomspace(new, start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """geomspace for ends of one sign; the ends are those given, not powers of their logarithms."""
    start, stop = (x if is_traced(x) else np.asarray(x) for x in (start, stop))
    if start.dtype.kind == "c" or stop.dtype.kind == "c":
        raise DTypeError("np.geomspace in complex numbers is not supported", "Write np.exp(np.linspace(...)).")
    sign = np.sign(start)
    y = sign * logspace(new, np.log10(sign * start), np.log10(sign * stop), num, endpoint)
    y[:1] = start
    if endpoint:
        y[1:][-1:] = stop  # where there are two
    y = np.moveaxis(y, 0, axis) if axis else y
    return y if dtype is None else y.astype(dtype)


# ---- matrices


def _spell_eye(node):
    n, m, k, dtype = (dict(node.params)[key] for key in ("n", "m", "k", "dtype"))
    return call("np.eye", [str(n)] + [str(m)] * (not same(m, n)) + [f"k={k}"] * (k != 0) + _dtype_unless(float, dtype))


EYE = operator(
    lambda n, m, k, dtype: np.eye(n, m, k, dtype),
    name="eye",
    arrays=0,
    infer=lambda n, m, k, dtype: Aval((n, m), dtype),
    spell=_spell_eye,
    signature=opaque,
)


@creates(np.eye)
def eye(new, N, M=None, k=0, dtype=float, order="C", *, device=None):
    _check("eye", order, device)
    n = as_length(N)
    return new(EYE, n=n, m=n if M is None else as_length(M), k=operator_index(k), dtype=np.dtype(dtype))


creates(np.identity)(lambda new, n, dtype=None: eye(new, n, dtype=dtype))


@creates(np.tri)
def tri(new, N, M=None, k=0, dtype=float):
    n, m = as_length(N), as_length(N if M is None else M)
    return (arange(new, n)[:, None] >= arange(new, m) - operator_index(k)).astype(dtype)
