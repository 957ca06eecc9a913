"""Shapes, the order of axes, broadcasting: the same numbers, read otherwise."""

from operator import index as operator_index

import numpy as np

from symgrad.core.axes import AxisSignature, aligned, axis_order, regrouped, result_shape
from symgrad.core.graph import Aval, Op
from symgrad.core.shapes import added_axes, broadcast_shapes, is_one, render_tuple, reshape_shape, same_shape
from symgrad.core.sizes import Dim
from symgrad.errors import ShapeError, SymbolicSizeError, UnsupportedError
from symgrad.ops.arguments import ANY, axes_as_given, axis_index, check_ndim, refuse
from symgrad.ops.define import implements, operator, registered
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.places import size_by_index
from symgrad.ops.spellings import is_small
from symgrad.spelling import ATOM, Code, call, spell_param

# ---- new shapes of the same numbers


def _bind_reshape(a, shape):
    a = as_input(a)
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    return (a,), {"shape": reshape_shape(np.shape(a), tuple(map(as_size, sizes)))}


def as_size(n):
    """A size as an int or a symbol."""
    if isinstance(n, Dim):
        return n
    size = size_by_index(n) if is_traced(n) else None
    return operator_index(n) if size is None else size


def _by_axes(added, item):
    """The key that adds or drops these axes, by this item, None where there are none."""
    return shortened([item if each else ":" for each in added]) if added and any(added) else None


def shortened(texts):
    """The items of a key as a person writes them: no full slices at the end, or ``...`` for those in front."""
    full = next((i for i, text in enumerate(texts) if text != ":"), 0)
    if full > 1 and texts[-1] != ":" and "..." not in texts:
        return ", ".join(["...", *texts[full:]])
    while len(texts) > 1 and texts[-1] == ":":
        texts = texts[:-1]
    return ", ".join(texts)


def _spell_reshape(node, x):
    old, new = node.inputs[0].aval, node.aval.shape
    if not old.shape:  # may be a Python number, which has no methods
        return call("np.reshape", [x.text, spell_param(new[0] if len(new) == 1 else new)])
    key = _by_axes(added_axes(old.shape, new), "None") or _by_axes(added_axes(new, old.shape), "0")
    if key is not None:
        return Code(f"{x.at(ATOM)}[{key}]")
    compound = [isinstance(n, Dim) and (n.multiple.number > 1 if n.multiple else not n.expr.is_Symbol) for n in new]
    implied = len(new) == 1 or (sum(compound) == 1 and not any(isinstance(n, int) and n == 0 for n in new))
    sizes = ["-1" if implied and (c or len(new) == 1) else str(n) for n, c in zip(new, compound, strict=True)]
    return Code(f"{x.at(ATOM)}.reshape({', '.join(sizes) or '()'})")


RESHAPE = operator(
    np.reshape,
    evaluate=lambda x, shape: np.reshape(x, shape),  # a parameter that NumPy 2.0 calls otherwise
    infer=lambda x, shape: Aval(shape, x.dtype),
    bind=_bind_reshape,
    vjp=lambda g, y, x, shape: (np.reshape(g, x.shape),),
    spell=_spell_reshape,
    batch=lambda batched, x, shape: np.reshape(x, (x.shape[0], *shape)),
    signature=regrouped,
    axes={"shape": result_shape},
    linear=True,
    view=True,
    write_back=lambda x, content, shape: np.reshape(content, x.shape),
)


@implements(np.reshape)
def reshape(a, /, shape=None, order="C", *, newshape=None, copy=None):
    if newshape is not None:
        refuse("reshape", "newshape")
    a = as_input(a)
    order = _known_order("reshape", a, order)
    if order == "F":
        sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
        return np.transpose(np.reshape(np.transpose(a), tuple(sizes)[::-1], copy=copy))
    (a,), params = _bind_reshape(a, shape)
    result = a if same_shape(params["shape"], a.shape) and a.shape else RESHAPE(a, **params)
    if copy is False and is_traced(a) and not a.is_seen_in(result):
        raise UnsupportedError(
            "np.reshape: copy=False of an array that has to be copied, or may have to be", "Leave copy= out."
        )
    return np.copy(result) if copy else result


def _known_order(function, a, order):
    """C's or Fortran's order, of which "A" and "K" are the one that an array has."""
    if order in ("C", "F", None):
        return order
    contiguous = [each for each in "CF" if is_traced(a) and a.is_contiguous(each)]
    if order not in ("A", "K") or not (
        contiguous or not is_traced(a) or (order == "A" and a.is_contiguous("F") is False)
    ):
        refuse(function, "order")
    return contiguous[0] if contiguous else "C"


@implements(np.ravel)
def ravel(a, order="C"):
    a = as_input(a)
    a = np.transpose(a) if _known_order("ravel", a, order) == "F" else a
    flat = np.reshape(a, -1)
    contiguous = is_traced(a) and a.is_contiguous()
    if not is_traced(a) or contiguous or (contiguous is None and not a.is_seen_in(flat)):
        return flat
    copy = np.copy(flat)  # where reshape may still give a view
    if contiguous is None:
        copy.may_be(a, "np.ravel may give a view of")
    return copy


@implements(np.squeeze)
def squeeze(a, axis=None):
    shape = np.shape(a)
    if axis is None:
        axes = [i for i, n in enumerate(shape) if _squeezed(n)]
    else:
        axes = axes_as_given("squeeze", axis, len(shape))
        for i in axes:
            if not is_one(shape[i]) and shape[i] != 1:
                raise ShapeError(
                    f"np.squeeze: axis {i} has size {shape[i]}, not 1", "Name axes of size 1, or leave axis= out."
                )
    if not shape and is_traced(a) and not a.aval.weak:  # a scalar stays one
        return a
    return np.reshape(a, tuple(n for i, n in enumerate(shape) if i not in axes))


def _squeezed(n):
    """Whether a size is 1. A size of 2 or more in this call is so in every call of the program: 1 is compiled apart."""
    if not isinstance(n, Dim):
        return is_one(n)
    if n.scope.values is not None and n.scope.assume(n - 2):
        return False
    try:
        return bool(n == 1)
    except SymbolicSizeError:
        raise SymbolicSizeError(
            f"np.squeeze: the size {n} is a symbol here, and may be 1", "Name the axes: np.squeeze(x, axis=...)."
        ) from None


@implements(np.expand_dims)
def expand_dims(a, axis):
    a = as_input(a)
    ndim = np.ndim(a) + (len(axis) if isinstance(axis, (tuple, list)) else 1)
    axes, sizes = axes_as_given("expand_dims", axis, ndim), iter(np.shape(a))
    return np.reshape(a, tuple(1 if i in axes else next(sizes) for i in range(ndim)))


def _at_least(ndim, arrays, key):
    results = tuple(a if np.ndim(a) >= ndim else np.reshape(a, key(np.shape(a))) for a in map(as_input, arrays))
    return results[0] if len(results) == 1 else results


implements(np.atleast_1d)(lambda *arys: _at_least(1, arys, lambda shape: (1,)))
implements(np.atleast_2d)(lambda *arys: _at_least(2, arys, lambda shape: (1, *shape) if shape else (1, 1)))


@implements(np.atleast_3d)
def atleast_3d(*arys):
    return _at_least(3, arys, lambda shape: (1,) * (2 - len(shape)) + (*shape, 1) if shape else (1, 1, 1))


# ---- the order of axes


def _bind_transpose(a, axes=None):
    a = as_input(a)
    ndim = np.ndim(a)
    axes = tuple(range(ndim))[::-1] if axes is None else axes_as_given("transpose", axes, ndim)
    if len(axes) != ndim:
        raise ShapeError(f"np.transpose: axes {axes} for {ndim} dimensions", "Name each axis once.")
    return (a,), {"axes": axes}


def _spell_transpose(node, x):
    axes = dict(node.params)["axes"]
    n = len(axes)
    if n == 0:
        return call("np.transpose", [x.text])  # it may be a Python number
    if axes == tuple(range(n))[::-1]:
        return Code(f"{x.at(ATOM)}.T")
    if axes == (*range(n - 2), n - 1, n - 2):
        return Code(f"{x.at(ATOM)}.mT")
    moved = [i for i in range(n) if axes[i] != i]
    if len(moved) == 2:
        return Code(f"{x.at(ATOM)}.swapaxes({moved[0]}, {moved[1]})")
    return Code(f"{x.at(ATOM)}.transpose{axes}")


TRANSPOSE = operator(
    np.transpose,
    infer=lambda x, axes: Aval(tuple(x.shape[i] for i in axes), x.dtype),
    bind=_bind_transpose,
    vjp=lambda g, y, x, axes: (np.transpose(g, np.argsort(axes)),),
    spell=_spell_transpose,
    signature=lambda y, x, axes: AxisSignature((tuple(range(x.ndim)),), axes),
    axes={"axes": axis_order},
    linear=True,
    view=True,
    write_back=lambda x, content, axes: np.transpose(content, np.argsort(axes)),
)


@implements(np.transpose)
def transpose(a, axes=None):
    (a,), params = _bind_transpose(a, axes)
    return TRANSPOSE(a, **params) if params["axes"] != tuple(range(np.ndim(a))) or not np.ndim(a) else a


@implements(np.swapaxes)
def swapaxes(a, axis1, axis2):
    order = list(range(np.ndim(a)))
    i, j = axis_index("swapaxes", axis1, len(order)), axis_index("swapaxes", axis2, len(order))
    order[i], order[j] = j, i
    return np.transpose(a, order)


@implements(np.moveaxis)
def moveaxis(a, source, destination):
    ndim = np.ndim(a)
    source, destination = axes_as_given("moveaxis", source, ndim), axes_as_given("moveaxis", destination, ndim)
    if len(source) != len(destination):
        raise ShapeError(
            f"np.moveaxis: {len(source)} axes cannot move to {len(destination)} places", "Give as many places as axes."
        )
    order = [i for i in range(ndim) if i not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return np.transpose(a, order)


@implements(np.rollaxis)
def rollaxis(a, axis, start=0):
    ndim = np.ndim(a)
    axis = axis_index("rollaxis", axis, ndim)
    start = axis_index("rollaxis", start, ndim + 1) if start >= 0 else axis_index("rollaxis", start, ndim)
    order = [i for i in range(ndim) if i != axis]
    order.insert(start - (axis < start), axis)
    return np.transpose(a, order)


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x, /):
    check_ndim("np.matrix_transpose: x", x, 2, ANY, "Write x[None] to give it one more dimension.")
    return np.swapaxes(x, -1, -2)


COPY = registered(
    Op(
        "copy",
        lambda x: np.array(x, order="C"),
        lambda x: x,
        lambda x: ((x,), {}),
        spell=lambda node, x: Code(f"{x.at(ATOM)}.copy()"),
        signature=aligned,
    )
)
"""The same numbers in the order of C."""


# ---- broadcasting


def _bind_broadcast_to(array, shape, subok=False):
    return (as_input(array),), {
        "shape": tuple(map(as_size, shape)) if isinstance(shape, (tuple, list)) else (as_size(shape),)
    }


def _infer_broadcast_to(x, shape):
    if not same_shape(broadcast_shapes(x.shape, shape), shape):
        raise ShapeError(
            f"np.broadcast_to: {render_tuple(x.shape)} does not broadcast to {render_tuple(shape)}",
            "Sizes agree from the last on, or are 1: x[:, None] makes one of 1.",
        )
    return Aval(shape, x.dtype)


BROADCAST_TO = operator(
    np.broadcast_to,
    infer=_infer_broadcast_to,
    bind=_bind_broadcast_to,
    vjp=lambda g, y, x, shape: (g,),  # the pullback undoes broadcasting
    spell=lambda node, x: call("np.broadcast_to", [x.text, spell_param(node.aval.shape)]),
    signature=aligned,
    axes={"shape": result_shape},
    interval=lambda x: x,
    quick=lambda node, x: call("np.full", [spell_param(node.aval.shape), x.text]) if is_small(node) else None,
    linear=True,
    view=True,
    read_only=True,
)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args, subok=False):
    arrays = [as_input(a) for a in args]
    traced = next(filter(is_traced, arrays))
    arrays = [a if is_traced(a) else np.asarray(a, like=traced) for a in arrays]
    shape = broadcast_shapes(*map(np.shape, arrays))
    return tuple(a if same_shape(np.shape(a), shape) else np.broadcast_to(a, shape) for a in arrays)


@implements(np.meshgrid)
def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    if indexing not in ("xy", "ij"):
        raise UnsupportedError(f"np.meshgrid: indexing={indexing!r}", "Write indexing='xy' or indexing='ij'.")
    n = len(xi)
    grids = [np.reshape(x, (*(1,) * i, -1, *(1,) * (n - i - 1))) for i, x in enumerate(map(as_input, xi))]
    if indexing == "xy" and n > 1:
        grids = [np.swapaxes(grid, 0, 1) for grid in grids]
    if not sparse:
        grids = np.broadcast_arrays(*grids)
    return tuple(np.copy(grid) for grid in grids) if copy else tuple(grids)
