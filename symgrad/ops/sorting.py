"""Functions of NumPy that sort, and that search in what is sorted."""

from operator import index as operator_index

import numpy as np

from symgrad.core.axes import ALONG_AXIS, lettered
from symgrad.core.graph import Aval
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops.arguments import check_ndim, flat_or_axis, refuse_given
from symgrad.ops.branch_distances import between_neighbours, from_bins
from symgrad.ops.define import implements, operator
from symgrad.ops.index_expressions import known_value
from symgrad.ops.operands import as_input
from symgrad.ops.spellings import as_method
from symgrad.spelling import call, spell_param


def _bind_argsort(a, axis=-1, kind=None, order=None, *, stable=None):
    refuse_given("argsort", order=order)
    a, axis = flat_or_axis("argsort", a, axis)
    return (a,), {"axis": axis, "kind": "stable" if stable or kind in ("stable", "mergesort") else None}


def _unless_last(node):
    """``axis=`` where it is not the last one."""
    axis = dict(node.params)["axis"]
    return [f"axis={axis}"] * (axis != node.aval.ndim - 1)


def _spell_argsort(node, x):
    kind = ["kind='stable'"] if "kind" in dict(node.params) else []
    return call("np.argsort", [x.text, *_unless_last(node), *kind])


ARGSORT = operator(
    np.argsort,
    infer=lambda a, axis, kind=None: Aval(a.shape, np.dtype(np.intp)),
    bind=_bind_argsort,
    spell=_spell_argsort,
    quick=as_method,
    branch_distance=between_neighbours,
    **ALONG_AXIS,
)


@implements(np.sort)
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    refuse_given("sort", order=order)
    return _in_order(a, axis, lambda a, axis: np.argsort(a, axis, kind, stable=stable))


def _in_order(a, axis, order):
    """The numbers along an axis at the places that `order` gives."""
    a, axis = (np.ravel(a), -1) if axis is None else (as_input(a), axis)
    places = order(a, axis)
    return np.take(a, places) if np.ndim(a) == 1 else np.take_along_axis(a, places, axis)


@implements(np.lexsort)
def lexsort(keys, axis=-1):
    """Sorted by one key after the other, the last one first: each keeps the order of those before it."""
    order = None
    for key in keys:
        key = as_input(key)
        if order is None:
            order = np.argsort(key, axis, kind="stable")
        else:
            places = np.argsort(np.take_along_axis(key, order, axis), axis, kind="stable")
            order = np.take_along_axis(order, places, axis)
    return order


@implements(np.sort_complex)
def sort_complex(a):
    y = np.sort(a)
    return y if y.dtype.kind == "c" else np.astype(y, np.complex64 if y.dtype.char in "bhBH" else np.complex128)


# ---- partitions: sorted as far as one number of each part


def _bind_argpartition(a, kth, axis=-1, kind="introselect", order=None):
    refuse_given("argpartition", order=order)
    a, axis = flat_or_axis("argpartition", a, axis)
    known = known_value(as_input(kth))
    if known is None:
        raise UnsupportedError("np.partition: kth is traced", "Give kth as a number, or write np.sort.")
    n, places = a.shape[axis], tuple(map(operator_index, known.ravel()))
    for k in places:
        if isinstance(n, int) and not -n <= k < n:
            raise ShapeError(
                f"np.partition: kth={k} is out of bounds for axis {axis} of size {n}", "Give kth from -n to n - 1."
            )
    return (a,), {"kth": places, "axis": axis}


def _spell_argpartition(node, x):
    kth = dict(node.params)["kth"]
    return call("np.argpartition", [x.text, spell_param(kth if len(kth) != 1 else kth[0]), *_unless_last(node)])


ARGPARTITION = operator(
    np.argpartition,
    infer=lambda a, kth, axis: Aval(a.shape, np.dtype(np.intp)),
    bind=_bind_argpartition,
    spell=_spell_argpartition,
    branch_distance=between_neighbours,
    **ALONG_AXIS,
)


@implements(np.partition)
def partition(a, kth, axis=-1, kind="introselect", order=None):
    refuse_given("partition", order=order)
    return _in_order(a, axis, lambda a, axis: np.argpartition(a, kth, axis))


# ---- searching


SEARCHSORTED = operator(
    np.searchsorted,
    arrays=2,
    infer=lambda a, v, side="left": Aval(v.shape, np.dtype(np.intp)),
    branch_distance=lambda a, v, side="left": from_bins(a, v),
    signature=lettered("_,...->..."),
)


@implements(np.searchsorted)
def searchsorted(a, v, side="left", sorter=None):
    check_ndim("np.searchsorted: a", a, 1, 1, "Write np.sort(x.ravel()).")
    if side not in ("left", "right"):
        raise UnsupportedError(f"np.searchsorted: side={side!r}", "Write side='left' or side='right'.")
    return SEARCHSORTED(a if sorter is None else np.take(a, sorter), v, side=side)
