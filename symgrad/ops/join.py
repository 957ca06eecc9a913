"""Functions that join arrays, and that split them."""

from operator import index as operator_index

import numpy as np

from symgrad.core.axes import AxisSignature, axis_numbers, beside
from symgrad.core.graph import CONSTANT, Aval
from symgrad.core.shapes import key_along, render_tuple, with_size
from symgrad.core.sizes import Dim, same
from symgrad.errors import ShapeError
from symgrad.ops.arguments import ANY, axis_index, check_ndim, refuse
from symgrad.ops.astype import cast
from symgrad.ops.define import implements, operator
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.shape import as_size
from symgrad.ops.spellings import may_be_small
from symgrad.spelling import Code, call, spell_number

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


def _infer_concatenate(*xs, axis=0):
    first = xs[0]
    if not first.shape:
        raise ShapeError("np.concatenate: a scalar cannot be joined", "Write np.stack or np.append.")
    for x in xs[1:]:
        if x.ndim != first.ndim or any(
            i != axis and not same(m, n) and m != n for i, (m, n) in enumerate(zip(x.shape, first.shape, strict=True))
        ):
            shapes = ", ".join(render_tuple(x.shape) for x in xs)
            raise ShapeError(
                f"np.concatenate: shapes {shapes} do not fit together along axis {axis}",
                "The other axes have the same sizes; x[None] gives one more axis, x.reshape other ones.",
            )
    total = sum((x.shape[axis] for x in xs[1:]), start=first.shape[axis])
    return Aval(with_size(first.shape, axis, total), np.result_type(*[x.dtype for x in xs]))


def _vjp_concatenate(g, y, *xs, axis):
    cotangents, start = [], 0
    for x in xs:
        stop = start + x.shape[axis]
        cotangents.append(g[key_along(axis, slice(start, stop))])
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
    signature=lambda y, *xs, axis: beside((axis,), y, *xs),
    axes={"axis": axis_numbers},
    joins=True,
    linear=True,
    out=True,
)


def _infer_stack(*xs, axis=0):
    shape = xs[0].shape
    for x in xs[1:]:
        if x.ndim != len(shape) or any(not same(m, n) and m != n for m, n in zip(x.shape, shape, strict=True)):
            raise ShapeError(
                f"np.stack: shapes {render_tuple(shape)} and {render_tuple(x.shape)} differ",
                "Stacked arrays have one shape; np.concatenate joins along an axis that they have.",
            )
    return Aval((*shape[:axis], len(xs), *shape[axis:]), np.result_type(*[x.dtype for x in xs]))


def _signature_stack(y, *xs, axis):
    labels = tuple(range(y.ndim - 1))
    return AxisSignature((labels,) * len(xs), (*labels[:axis], None, *labels[axis:]))


def _array_of_arrays(node, *inputs):
    """np.array stacks, too, and with little overhead."""
    alike = all(x.aval.dtype == node.aval.dtype and not x.aval.weak for x in node.inputs)
    if dict(node.params).get("axis", 0) != 0 or not alike or not may_be_small(node):
        return None
    texts = [_item(x, code).text for x, code in zip(node.inputs, inputs, strict=True)]
    return call("np.array", [f"[{', '.join(texts)}]"])


def _item(x, code):
    """Return an item of a list as source; a Python number needs no call, since np.array makes it a float64."""
    is_number = x.op is CONSTANT and x.aval == Aval((), np.dtype(float))
    return spell_number(x.constant.item(), weak=True) if is_number else code


STACK = operator(
    np.stack,
    arrays=-1,
    infer=_infer_stack,
    bind=_bind_join("stack", 1),
    vjp=lambda g, y, *xs, axis: [g[key_along(axis, i)] for i in range(len(xs))],
    evaluate=lambda *xs, axis=0: np.stack(xs, axis),
    spell=_spell_join("stack"),
    signature=_signature_stack,
    axes={"axis": axis_numbers},
    joins=True,
    quick=_array_of_arrays,
    linear=True,
)


@implements(np.stack)
def stack(arrays, axis=0, out=None, **options):
    has_rows = is_traced(arrays) and bool(arrays.shape) and not same(arrays.shape[0], 0)
    if out is None and not options and has_rows:  # they are stacked already
        return np.moveaxis(np.copy(arrays), 0, axis_index("stack", axis, arrays.ndim))
    return STACK(arrays, axis, out, **options)


@implements(np.vstack, "row_stack")
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
    joined = _joined(arrays, depth, max(depth, ndim))
    return joined if depth else np.copy(joined, "C")


def _nesting(arrays):
    """Return how deeply lists are nested, and the largest number of dimensions of their items."""
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
    return [x[key_along(axis, slice(a, b))] for a, b in zip([0, *places], [*places, None], strict=True)]


@implements(np.hsplit)
def hsplit(ary, indices_or_sections):
    check_ndim("np.hsplit: ary", ary, 1, ANY, "Give an array of one dimension or more.")
    return np.split(ary, indices_or_sections, 1 if np.ndim(ary) > 1 else 0)


def _splits(function, axis, least, instead):
    @implements(function)
    def split_along(ary, indices_or_sections):
        check_ndim(f"np.{function.__name__}: ary", ary, least, ANY, instead)
        return np.split(ary, indices_or_sections, axis)


_splits(np.vsplit, 0, 2, "Write np.split(x, n), which splits axis 0.")
_splits(np.dsplit, 2, 3, "Write np.split(x, n, axis=-1).")


@implements("unstack")
def unstack(x, /, *, axis=0):
    return tuple(np.moveaxis(x, axis, 0))
