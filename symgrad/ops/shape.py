"""Functions that rearrange, repeat or join numbers."""

from operator import index as operator_index

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from symgrad.core.axes import Flow, aligned, axis_numbers, axis_order, beside, regrouped, result_shape
from symgrad.core.graph import Aval
from symgrad.core.shapes import broadcast_shapes, is_one, render_shape, reshape_shape, same_shape
from symgrad.core.sizes import Dim, same
from symgrad.errors import DTypeError, ShapeError, SymbolicSizeError, UnsupportedError
from symgrad.ops.define import as_input, axes_of, axis_index, implements, is_small, is_traced, operator, refuse
from symgrad.spelling import ATOM, Code, call, spell_param

# ---- what is known before running

implements(np.ndim)(lambda a: len(a.shape))
implements(np.shape)(lambda a: a.shape)
implements(np.iscomplexobj)(lambda x: x.dtype.kind == "c")
implements(np.isrealobj)(lambda x: x.dtype.kind != "c")


@implements(np.size)
def size(a, axis=None):
    if axis is None:
        return a.size
    axes = axis if isinstance(axis, tuple) else (axis,)
    count = 1
    for i in axes:
        count = count * a.shape[axis_index("size", i, len(a.shape))]
    return count


def _kind(x):
    """What `np.result_type` makes of a value: its dtype, or a Python number."""
    return (x.dtype.type(0).item() if x.aval.weak else x.dtype) if is_traced(x) else x


@implements(np.result_type)
def result_type(*arrays_and_dtypes):
    return np.result_type(*map(_kind, arrays_and_dtypes))


@implements(np.can_cast)
def can_cast(from_, to, casting="safe"):
    return np.can_cast(from_.dtype if is_traced(from_) else from_, to, casting)


@implements(np.may_share_memory)
def may_share_memory(a, b, /, max_work=0):
    return is_traced(a) and is_traced(b) and a.owner is b.owner


# ---- dtype and copies


def _astype(x, dtype):
    """A cast; also what makes a Python scalar a NumPy one."""
    return np.asarray(x).astype(dtype)[()]


def _spell_astype(node, x):
    dtype = spell_param(node.aval.dtype)
    return call(dtype, [x.text]) if node.inputs[0].aval.weak else Code(f"{x.at(ATOM)}.astype({dtype})")


ASTYPE = operator(
    np.astype,
    infer=lambda x, dtype: Aval(x.shape, np.dtype(dtype)),
    vjp=lambda g, y, x, dtype: (g,),  # the pullback casts
    evaluate=_astype,
    spell=_spell_astype,
    flow=aligned,
    scalar=lambda node, x: x if node.inputs[0].aval.dtype.kind == "f" else call("float", [x.text]),
    linear=True,
    cheap=True,
)


@implements(np.astype)
def astype(x, dtype, /, *, copy=True, device=None):
    if device not in (None, "cpu"):
        refuse("astype", "device")
    return x.astype(dtype, copy=copy)


@implements(np.copy)
def copy(a, order="K", subok=False):
    return a.copied(order=order, array=True)


# ---- new shapes of the same numbers


def _bind_reshape(a, shape):
    a = as_input(a)
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    return (a,), {"shape": reshape_shape(np.shape(a), tuple(map(as_size, sizes)))}


def as_size(n):
    """A size as an int or a symbol."""
    return n if isinstance(n, Dim) else operator_index(n)


def _inserted(old, new):
    """The key that turns the shape `old` into `new` by new axes alone, None if there is none."""
    texts, i = [], 0
    for n in new:
        if i < len(old) and same(n, old[i]):
            texts.append(":")
            i += 1
        elif isinstance(n, int) and n == 1:
            texts.append("None")
        else:
            return None
    return shortened(texts) if i == len(old) and "None" in texts else None


def _removed(old, new):
    """The key that turns the shape `old` into `new` by dropping axes of size 1, None if there is none."""
    texts, i = [], 0
    for n in old:
        if i < len(new) and same(n, new[i]):
            texts.append(":")
            i += 1
        elif isinstance(n, int) and n == 1:
            texts.append("0")
        else:
            return None
    return shortened(texts) if i == len(new) and "0" in texts else None


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
    key = _inserted(old.shape, new) or _removed(old.shape, new)
    if key is not None:
        return Code(f"{x.at(ATOM)}[{key}]")
    compound = [isinstance(n, Dim) and not n.expr.is_Symbol for n in new]
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
    flow=regrouped,
    axes={"shape": result_shape},
    linear=True,
    view=True,
    write_back=lambda x, content, shape: np.reshape(content, x.shape),
)


@implements(np.reshape)
def reshape(a, /, shape=None, order="C", *, newshape=None, copy=None):
    if newshape is not None:
        refuse("reshape", "newshape")
    if copy is False:
        refuse("reshape", "copy")
    a = as_input(a)
    if order == "F":
        sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
        return np.transpose(np.reshape(np.transpose(a), tuple(sizes)[::-1]))
    if order not in ("C", None):
        refuse("reshape", "order")
    (a,), params = _bind_reshape(a, shape)
    result = a if same_shape(params["shape"], a.shape) and a.shape else RESHAPE(a, **params)
    return np.copy(result) if copy else result


@implements(np.ravel)
def ravel(a, order="C"):
    if order not in ("C", "F"):
        refuse("ravel", "order")
    a = np.transpose(a) if order == "F" else a
    flat = np.reshape(a, -1)
    return np.copy(flat) if is_traced(a) and a.contiguous is False else flat  # where reshape may still give a view


@implements(np.squeeze)
def squeeze(a, axis=None):
    shape = np.shape(a)
    if axis is None:
        axes = [i for i, n in enumerate(shape) if _squeezed(n)]
    else:
        axes = _axes("squeeze", axis, len(shape))
        for i in axes:
            if not is_one(shape[i]) and shape[i] != 1:
                raise ShapeError(
                    f"np.squeeze: axis {i} has size {shape[i]}, not 1", "Name axes of size 1, or leave axis= out."
                )
    return np.reshape(a, tuple(n for i, n in enumerate(shape) if i not in axes))


def _squeezed(n):
    """Whether a size is 1. A symbol that stands for the sizes of calls never is: those of 1 are compiled apart."""
    if not isinstance(n, Dim) or n.scope.values is not None:
        return is_one(n)
    try:
        return bool(n == 1)
    except SymbolicSizeError:
        raise SymbolicSizeError(
            f"np.squeeze: the size {n} is a symbol here, and may be 1", "Name the axes: np.squeeze(x, axis=...)."
        ) from None


def _axes(function, axis, ndim):
    """Axes in the order in which they are given, counted from the front."""
    try:
        return normalize_axis_tuple(axis, ndim)
    except np.exceptions.AxisError:
        raise ShapeError(f"np.{function}: axis {axis} is out of bounds for {ndim} dimensions", axes_of(ndim)) from None
    except ValueError:
        raise ShapeError(f"np.{function}: axis {axis} names a dimension twice", "Name each axis once.") from None


@implements(np.expand_dims)
def expand_dims(a, axis):
    a = as_input(a)
    ndim = np.ndim(a) + (len(axis) if isinstance(axis, (tuple, list)) else 1)
    axes, sizes = _axes("expand_dims", axis, ndim), iter(np.shape(a))
    return np.reshape(a, tuple(1 if i in axes else next(sizes) for i in range(ndim)))


def _at_least(function, a, ndim, key):
    a = as_input(a)
    return a if np.ndim(a) >= ndim else np.reshape(a, key(np.shape(a)))


def _each(function, arrays, ndim, key):
    results = tuple(_at_least(function, a, ndim, key) for a in arrays)
    return results[0] if len(results) == 1 else results


implements(np.atleast_1d)(lambda *arys: _each("atleast_1d", arys, 1, lambda shape: (1,)))
implements(np.atleast_2d)(lambda *arys: _each("atleast_2d", arys, 2, lambda shape: (1, *shape) if shape else (1, 1)))


@implements(np.atleast_3d)
def atleast_3d(*arys):
    return _each("atleast_3d", arys, 3, lambda shape: (1,) * (2 - len(shape)) + (*shape, 1) if shape else (1, 1, 1))


# ---- the order of axes


def _bind_transpose(a, axes=None):
    a = as_input(a)
    ndim = np.ndim(a)
    axes = tuple(range(ndim))[::-1] if axes is None else _axes("transpose", axes, ndim)
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
    flow=lambda y, x, axes: Flow((tuple(range(x.ndim)),), axes),
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
    source, destination = _axes("moveaxis", source, ndim), _axes("moveaxis", destination, ndim)
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
    if np.ndim(x) < 2:
        raise ShapeError(
            f"np.matrix_transpose: an array of {np.ndim(x)} dimensions is no matrix",
            "Write x[None] to give it one more dimension.",
        )
    return np.swapaxes(x, -1, -2)


# ---- broadcasting


def _bind_broadcast_to(array, shape, subok=False):
    return (as_input(array),), {
        "shape": tuple(map(as_size, shape)) if isinstance(shape, (tuple, list)) else (as_size(shape),)
    }


def _infer_broadcast_to(x, shape):
    if not same_shape(broadcast_shapes(x.shape, shape), shape):
        raise ShapeError(
            f"np.broadcast_to: ({render_shape(x.shape)}) does not broadcast to ({render_shape(shape)})",
            "Sizes agree from the last on, or are 1: x[:, None] makes one of 1.",
        )
    return Aval(shape, x.dtype)


BROADCAST_TO = operator(
    np.broadcast_to,
    infer=_infer_broadcast_to,
    bind=_bind_broadcast_to,
    vjp=lambda g, y, x, shape: (g,),  # the pullback undoes broadcasting
    spell=lambda node, x: call("np.broadcast_to", [x.text, spell_param(node.aval.shape)]),
    flow=aligned,
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


# ---- joining


def _bind_join(function, new_axis):
    def bind(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
        if out is not None:
            refuse(function, "out")
        inputs = [as_input(x) for x in arrays]
        if not inputs:
            raise ShapeError(f"np.{function}: nothing to join", "Give at least one array.")
        if axis is None:
            inputs, axis = [np.ravel(x) for x in inputs], 0
        if dtype is not None:
            inputs = [cast(function, x, np.dtype(dtype), casting) for x in inputs]
        return inputs, {"axis": axis_index(function, axis, np.ndim(inputs[0]) + new_axis)}

    return bind


def cast(function, x, dtype, casting="same_kind"):
    """`x` in another dtype, where NumPy's rule of `casting` allows it."""
    kind = _kind(x) if is_traced(x) else np.result_type(x)
    if not np.can_cast(np.result_type(kind), dtype, casting):
        raise DTypeError(
            f"np.{function}: cannot cast {np.result_type(kind)} to {dtype} by the rule {casting!r}",
            "Write casting='unsafe', or convert the result: .astype(dtype).",
        )
    return x.astype(dtype) if is_traced(x) else np.asarray(x, dtype)


def _infer_concatenate(*xs, axis=0):
    first = xs[0]
    if not first.shape:
        raise ShapeError("np.concatenate: a scalar cannot be joined", "Write np.stack or np.append.")
    for x in xs[1:]:
        if x.ndim != first.ndim or any(
            i != axis and not same(m, n) and m != n for i, (m, n) in enumerate(zip(x.shape, first.shape, strict=True))
        ):
            shapes = ", ".join(f"({render_shape(x.shape)})" for x in xs)
            raise ShapeError(
                f"np.concatenate: shapes {shapes} do not fit together along axis {axis}",
                "The other axes have the same sizes; x[None] gives one more axis, x.reshape other ones.",
            )
    total = sum((x.shape[axis] for x in xs[1:]), start=first.shape[axis])
    return Aval((*first.shape[:axis], total, *first.shape[axis + 1 :]), np.result_type(*[x.dtype for x in xs]))


def _vjp_concatenate(g, y, *xs, axis):
    cotangents, start = [], 0
    for x in xs:
        stop = start + x.shape[axis]
        cotangents.append(g[(slice(None),) * axis + (slice(start, stop),)])
        start = stop
    return cotangents


def _spell_join(function):
    def spell(node, *inputs):
        axis = dict(node.params).get("axis", 0)
        texts = ", ".join(x.text for x in inputs)
        if function == "stack" and not node.inputs[0].aval.shape:
            return Code(f"np.array([{texts}])")
        return call(f"np.{function}", [f"[{texts}]", *([f"axis={axis}"] if axis else [])])

    return spell


CONCATENATE = operator(
    np.concatenate,
    arrays=-1,
    infer=_infer_concatenate,
    bind=_bind_join("concatenate", 0),
    vjp=_vjp_concatenate,
    evaluate=lambda *xs, axis=0: np.concatenate(xs, axis),
    spell=_spell_join("concatenate"),
    flow=lambda y, *xs, axis: beside((axis,), y, *xs),
    axes={"axis": axis_numbers},
    joins=True,
    linear=True,
)


def _infer_stack(*xs, axis=0):
    shape = xs[0].shape
    for x in xs[1:]:
        if x.ndim != len(shape) or any(not same(m, n) and m != n for m, n in zip(x.shape, shape, strict=True)):
            raise ShapeError(
                f"np.stack: shapes ({render_shape(shape)}) and ({render_shape(x.shape)}) differ",
                "Stacked arrays have one shape; np.concatenate joins along an axis that they have.",
            )
    return Aval((*shape[:axis], len(xs), *shape[axis:]), np.result_type(*[x.dtype for x in xs]))


def _flow_stack(y, *xs, axis):
    labels = tuple(range(y.ndim - 1))
    return Flow((labels,) * len(xs), (*labels[:axis], None, *labels[axis:]))


def _array_of_arrays(node, *inputs):
    """np.array stacks, too, and with little overhead."""
    alike = all(x.aval.dtype == node.aval.dtype and not x.aval.weak for x in node.inputs)
    if dict(node.params).get("axis", 0) != 0 or not alike or not is_small(node):
        return None
    return call("np.array", [f"[{', '.join(x.text for x in inputs)}]"])


STACK = operator(
    np.stack,
    arrays=-1,
    infer=_infer_stack,
    bind=_bind_join("stack", 1),
    vjp=lambda g, y, *xs, axis: [g[(slice(None),) * axis + (i,)] for i in range(len(xs))],
    evaluate=lambda *xs, axis=0: np.stack(xs, axis),
    spell=_spell_join("stack"),
    flow=_flow_stack,
    axes={"axis": axis_numbers},
    joins=True,
    quick=_array_of_arrays,
    linear=True,
)


@implements(np.vstack)
def vstack(tup, *, dtype=None, casting="same_kind"):
    return np.concatenate([np.atleast_2d(as_input(x)) for x in tup], 0, dtype=dtype, casting=casting)


@implements(np.hstack)
def hstack(tup, *, dtype=None, casting="same_kind"):
    arrays = [np.atleast_1d(as_input(x)) for x in tup]
    return np.concatenate(arrays, 0 if arrays and arrays[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@implements(np.dstack)
def dstack(tup):
    return np.concatenate([np.atleast_3d(as_input(x)) for x in tup], 2)


@implements(np.column_stack)
def column_stack(tup):
    arrays = [as_input(x) for x in tup]
    return np.concatenate([x if np.ndim(x) > 1 else np.reshape(x, (-1, 1)) for x in arrays], 1)


@implements(np.block)
def block(arrays):
    depth, ndim = _nesting(arrays)
    return _joined(arrays, depth, max(depth, ndim))


def _nesting(arrays):
    """How deep the lists go, and the largest number of dimensions of what is in them."""
    if not isinstance(arrays, list):
        return 0, np.ndim(as_input(arrays))
    if not arrays:
        raise ShapeError("np.block: an empty list", "Give at least one array.")
    inner = [_nesting(x) for x in arrays]
    if len({depth for depth, _ in inner}) > 1:
        raise ShapeError(
            "np.block: the lists are not equally deep", "Write rows of the same depth: np.block([[a, b], [c, d]])."
        )
    return inner[0][0] + 1, max(ndim for _, ndim in inner)


def _joined(arrays, depth, ndim):
    if depth == 0:
        x = as_input(arrays)
        return np.reshape(x, (*(1,) * (ndim - np.ndim(x)), *np.shape(x)))
    return np.concatenate([_joined(x, depth - 1, ndim) for x in arrays], axis=-depth)


# ---- splitting


@implements(np.array_split)
def array_split(ary, indices_or_sections, axis=0):
    n = ary.shape[axis_index("array_split", axis, np.ndim(ary))]
    if not _is_number(indices_or_sections):
        return _pieces(ary, [as_size(i) for i in indices_or_sections], axis)
    sections = operator_index(indices_or_sections)
    if sections <= 0:
        raise ShapeError("np.array_split: the number of sections must be positive", "Give a number from 1 on.")
    each, extras = divmod(operator_index(n), sections)
    return _pieces(ary, np.cumsum([each + 1] * extras + [each] * (sections - extras))[:-1].tolist(), axis)


@implements(np.split)
def split(ary, indices_or_sections, axis=0):
    if not _is_number(indices_or_sections):
        return np.array_split(ary, indices_or_sections, axis)
    n, sections = ary.shape[axis_index("split", axis, np.ndim(ary))], operator_index(indices_or_sections)
    if sections <= 0 or n % sections != 0:
        raise ShapeError(f"np.split: size {n} does not divide into {sections} equal parts", "Write np.array_split.")
    return _pieces(ary, [n // sections * i for i in range(1, sections)], axis)


def _is_number(x):
    return np.ndim(x) == 0 if not isinstance(x, (tuple, list, Dim)) else isinstance(x, Dim)


def _pieces(x, places, axis):
    axis = axis_index("split", axis, np.ndim(x))
    places = list(places)
    return [x[(slice(None),) * axis + (slice(a, b),)] for a, b in zip([0, *places], [*places, None], strict=True)]


@implements(np.hsplit)
def hsplit(ary, indices_or_sections):
    if np.ndim(ary) == 0:
        raise ShapeError("np.hsplit: a scalar cannot be split", "Give an array of one dimension or more.")
    return np.split(ary, indices_or_sections, 1 if np.ndim(ary) > 1 else 0)


@implements(np.vsplit)
def vsplit(ary, indices_or_sections):
    if np.ndim(ary) < 2:
        raise ShapeError(
            "np.vsplit: the array must have two dimensions or more", "Write np.split(x, n), which splits axis 0."
        )
    return np.split(ary, indices_or_sections, 0)


@implements(np.dsplit)
def dsplit(ary, indices_or_sections):
    if np.ndim(ary) < 3:
        raise ShapeError("np.dsplit: the array must have three dimensions or more", "Write np.split(x, n, axis=-1).")
    return np.split(ary, indices_or_sections, 2)


@implements("unstack")
def unstack(x, /, *, axis=0):
    return tuple(np.moveaxis(x, axis, 0))
