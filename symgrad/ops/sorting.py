"""Functions of NumPy that sort, and that search in what is sorted."""

import numpy as np

from symgrad.errors import ShapeError, UnsupportedError
from symgrad.flow import beside, signature
from symgrad.graph import Aval
from symgrad.ops.define import as_input, as_method, axis_index, implements, is_traced, operator, refuse
from symgrad.spelling import call


def _bind_argsort(a, axis=-1, kind=None, order=None, *, stable=None):
    if order is not None:
        refuse("argsort", "order")
    a = as_input(a)
    a, axis = (np.ravel(a), 0) if axis is None else (a, axis_index("argsort", axis, np.ndim(a)))
    return (a,), {"axis": axis, "kind": "stable" if stable or kind in ("stable", "mergesort") else None}


def _spell_argsort(node, x):
    params = dict(node.params)
    axis = [f"axis={params['axis']}"] * (params["axis"] != node.aval.ndim - 1)
    kind = ["kind='stable'"] if params.get("kind") else []
    return call("np.argsort", [x.text, *axis, *kind])


ARGSORT = operator(
    np.argsort,
    infer=lambda a, axis, kind=None: Aval(a.shape, np.dtype(np.intp)),
    bind=_bind_argsort,
    vjp=lambda g, y, a, axis, kind: (None,),
    batch=lambda batched, a, axis, kind: np.argsort(a, axis + 1, kind),
    spell=_spell_argsort,
    flow=lambda y, a, axis, kind: beside((axis,), y, a),
    quick=as_method,
)


@implements(np.sort)
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    if order is not None:
        refuse("sort", "order")
    a, axis = (np.ravel(a), -1) if axis is None else (as_input(a), axis)
    places = np.argsort(a, axis, kind, stable=stable)
    return np.take(a, places) if np.ndim(a) == 1 else np.take_along_axis(a, places, axis)


SEARCHSORTED = operator(
    np.searchsorted,
    arrays=2,
    infer=lambda a, v, side="left": Aval(v.shape, np.dtype(np.intp)),
    vjp=lambda g, y, a, v, side: (None, None),
    flow=signature(".,->"),
)


@implements(np.searchsorted)
def searchsorted(a, v, side="left", sorter=None):
    if np.ndim(a) != 1:
        raise ShapeError(f"np.searchsorted: an array of {np.ndim(a)} dimensions")
    if side not in ("left", "right"):
        raise UnsupportedError(f"np.searchsorted: side={side!r}", "Write side='left' or side='right'.")
    return SEARCHSORTED(a if sorter is None else np.take(a, sorter), v, side=side)


@implements(np.digitize)
def digitize(x, bins, right=False):
    if is_traced(bins):
        raise UnsupportedError(
            "np.digitize: traced bins, of which it is not known whether they grow", "Write np.searchsorted."
        )
    bins, side = np.asarray(bins), "left" if right else "right"
    if len(bins) > 1 and bins[0] > bins[-1]:
        return len(bins) - np.searchsorted(bins[::-1], x, side)
    return np.searchsorted(bins, x, side)
