"""Definition of reductions: an operator over axes, and NumPy's signature around it."""

import inspect

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from symgrad.core.axes import axis_numbers, reduced
from symgrad.core.graph import Aval, Node, Op
from symgrad.core.shapes import broadcast_shapes, product, reduced_shape, same_shape
from symgrad.core.sizes import same
from symgrad.errors import ShapeError, UnsupportedError, WriteError
from symgrad.ops.arguments import UNSET, axis_tuple, refuse
from symgrad.ops.define import display_name, implements, registered
from symgrad.ops.operands import WRITTEN_BEFORE, as_input, is_traced


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

    def signature(y, x, axis, keepdims, **_):
        return reduced(x, axis_tuple(name, axis, x.ndim), keepdims, combine)

    defaults, axes = {"axis": None, "keepdims": False, **(defaults or {})}, {"axis": axis_numbers}
    rules |= {"signature": signature, "axes": axes, "defaults": defaults}
    op = Op(name, function, infer, bind, vjp=vjp and pullback, **rules)
    return registered(op)


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes that a reduction is over, counted from the front, in order."""
    axis, ndim = dict(node.params).get("axis"), node.inputs[0].aval.ndim
    return tuple(range(ndim)) if axis is None else tuple(sorted(normalize_axis_tuple(axis, ndim)))


# ---- NumPy's signature around an operator


def with_signature(function, op, *, fill=None, combine=None, identity=True):
    """Register `op` under NumPy's full signature.

    `fill` gives, from the dtype, what stands in for numbers that ``where=`` leaves out; `combine` is how ``initial=``
    joins the result, and without an `identity` there must be one where nothing may be selected.
    """
    name, signature = function.__name__, inspect.signature(function)
    known = set(signature.parameters)
    names = [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]

    def by_name(args, kwargs):
        """Return the bound arguments by name, ten times as fast as `bind` of the signature where they fit."""
        fits = 1 <= len(args) <= len(names) and kwargs.keys() <= known.difference(names[: len(args)])
        return dict(zip(names, args, strict=False)) | kwargs if fits else signature.bind(*args, **kwargs).arguments

    @implements(function)
    def call(*args, **kwargs):
        given = by_name(args, kwargs)
        dtype = given.get("dtype")
        x, options = operand_of(given), options_of(given)
        out, where, initial = options.pop("out", None), options.pop("where", None), options.pop("initial", None)
        if where is not None:
            if fill is None:
                refuse(name, "where")
            if initial is None and not identity:
                raise UnsupportedError(
                    f"np.{name}: where= without initial= has no value where nothing is selected",
                    "Give initial= too.",
                )
            x = np.where(where_mask(name, x, where), x, fill(x.dtype))
        return delivered(out, in_dtype(joined_to_initial(op, x, initial, combine, options), dtype))


def operand_of(given):
    x, dtype = as_input(given.pop("a")), given.pop("dtype", None)
    return x if dtype is None else np.astype(x, np.dtype(dtype))


def in_dtype(y, dtype):
    """Return a sum or product in the ``dtype=`` asked for: the cast of the wider integer wraps as NumPy's sum does."""
    return y if dtype is None or y.dtype == bool else np.astype(y, np.dtype(dtype), copy=False)


def options_of(given):
    """Return the options that a caller has given, without NumPy's defaults."""
    given = {key: value for key, value in given.items() if value is not UNSET}
    if given.get("where") is True:
        del given["where"]
    return given


def where_mask(name, x, where):
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


def joined_to_initial(op, x, initial, combine, options):
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


def delivered(out, y):
    """Deliver into a positional ``out``; one by keyword is delivered before the function is called."""
    if out is None:
        return y
    if not is_traced(out):
        raise WriteError(WRITTEN_BEFORE, "For out= give np.empty(shape, like=x).")
    out[...] = y
    return out


# ---- what the rules share


def sum_dtype(dtype):
    """Small integers are summed as the platform's."""
    if dtype.kind not in "biu" or dtype.itemsize >= 8:
        return dtype
    return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)


def mean_dtype(dtype):
    return np.dtype(float) if dtype.kind in "biu" else dtype


def count_along(x, axis):
    return product([x.shape[i] for i in axis_tuple("mean", axis, x.ndim)])


def as_divisor(count, dtype):
    """An integer count that does not make float64 of a float32 that it divides."""
    if dtype == np.float64:
        return count
    return np.astype(count, dtype) if is_traced(count) else dtype.type(count)


def check_mean_dtype(function, dtype):
    """A dtype= that a mean can be taken in."""
    if dtype is not None and np.dtype(dtype).kind not in "fc":
        raise UnsupportedError(
            f"np.{function}: dtype={np.dtype(dtype)} is not supported", "Cast the result: .astype(...)."
        )
