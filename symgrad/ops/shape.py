"""Functions that rearrange, repeat or join numbers, and the creation of arrays."""

import numpy as np

from symgrad.dims import product, reshape_shape, same_shape
from symgrad.graph import Aval
from symgrad.ops.define import as_input, axis_index, display_name, implements, operator, refuse
from symgrad.spelling import Code, call, spell_param

# ---- what is known before running

implements(np.ndim)(lambda a: len(a.shape))
implements(np.shape)(lambda a: a.shape)
implements(np.size)(lambda a, axis=None: a.size if axis is None else a.shape[axis])

# ---- dtype and copies


def _astype(x, dtype):
    """A cast; also what makes a Python scalar a NumPy one."""
    return np.asarray(x).astype(dtype)[()]


def _infer_astype(x, dtype):
    return Aval(x.shape, np.dtype(dtype))


def _spell_astype(node, x):
    dtype = spell_param(node.aval.dtype)
    return call(dtype, [x.text]) if node.inputs[0].aval.weak else Code(f"{x.at(9)}.astype({dtype})")


ASTYPE = operator(
    np.astype,
    infer=_infer_astype,
    vjp=lambda g, y, x, dtype: (g,),  # the pullback casts
    evaluate=_astype,
    spell=_spell_astype,
    linear=True,
)

COPY = operator(np.copy, infer=lambda x: Aval(x.shape, x.dtype), vjp=lambda g, y, x: (g,), linear=True)

# ---- new shapes of the same numbers


def _bind_reshape(a, shape, order="C", copy=None):
    if order != "C":
        refuse("reshape", "order")
    a = as_input(a)
    return (a,), {"shape": reshape_shape(np.shape(a), shape if isinstance(shape, (tuple, list)) else (shape,))}


RESHAPE = operator(
    np.reshape,
    infer=lambda x, shape: Aval(shape, x.dtype),
    bind=_bind_reshape,
    vjp=lambda g, y, x, shape: (np.reshape(g, x.shape),),
    spell=lambda node, x: Code(f"{x.at(9)}.reshape({spell_param(node.aval.shape)[1:-1].rstrip(',')})"),
    linear=True,
    view=True,
)


def _bind_transpose(a, axes=None):
    a = as_input(a)
    ndim = np.ndim(a)
    axes = range(ndim)[::-1] if axes is None else [axis_index("transpose", axis, ndim) for axis in axes]
    return (a,), {"axes": tuple(axes)}


def _spell_transpose(node, x):
    axes = dict(node.params)["axes"]
    return Code(f"{x.at(9)}.T" if axes == tuple(range(len(axes)))[::-1] else f"{x.at(9)}.transpose{axes}")


TRANSPOSE = operator(
    np.transpose,
    infer=lambda x, axes: Aval(tuple(x.shape[i] for i in axes), x.dtype),
    bind=_bind_transpose,
    vjp=lambda g, y, x, axes: (np.transpose(g, np.argsort(axes)),),
    spell=_spell_transpose,
    linear=True,
    view=True,
)


@implements(np.swapaxes)
def swapaxes(a, axis1, axis2):
    order = list(range(np.ndim(a)))
    i, j = axis_index("swapaxes", axis1, len(order)), axis_index("swapaxes", axis2, len(order))
    order[i], order[j] = j, i
    return np.transpose(a, order)


def _bind_broadcast_to(array, shape, subok=False):
    return (as_input(array),), {"shape": tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)}


BROADCAST_TO = operator(
    np.broadcast_to,
    infer=lambda x, shape: Aval(shape, x.dtype),
    bind=_bind_broadcast_to,
    vjp=lambda g, y, x, shape: (g,),  # the pullback undoes broadcasting
    linear=True,
    view=True,
)

# ---- creation


def _spell_full(node, value):
    shape, dtype = spell_param(node.aval.shape), node.aval.dtype
    fill = node.inputs[0]
    number = dict(fill.params)["value"].value if fill.op.name == "constant" else None
    tail = [] if dtype == float else [f"dtype={spell_param(dtype)}"]
    if number is not None and float(number) in (0.0, 1.0) and str(number)[0] != "-":
        return call("np.ones" if number else "np.zeros", [shape, *tail])
    return call("np.full", [shape, value.text, *tail])


FULL = operator(
    lambda value, shape, dtype: np.full(shape, value, dtype),
    name="full",
    infer=lambda value, shape, dtype: Aval(shape, dtype),
    vjp=lambda g, y, value, shape, dtype: (np.sum(g),),
    spell=_spell_full,
    linear=True,
)

CREATE = {}
"""Creation functions: ``CREATE[np.zeros](traced, *args)``, where `traced` makes a number a Variable of the graph."""


def creates(*functions):
    def register(written):
        CREATE.update(dict.fromkeys(functions, written))
        return written

    return register


def _as_shape(shape):
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


@creates(np.zeros, np.empty)
def zeros(traced, shape, dtype=float, order="C"):
    return FULL(traced(0.0), shape=_as_shape(shape), dtype=np.dtype(dtype))


@creates(np.ones)
def ones(traced, shape, dtype=float, order="C"):
    return FULL(traced(1.0), shape=_as_shape(shape), dtype=np.dtype(dtype))


@implements(np.zeros_like, np.empty_like)
def zeros_like(a, dtype=None, order="K", subok=True, shape=None):
    return np.zeros(a.shape if shape is None else shape, a.dtype if dtype is None else dtype, like=a)


@implements(np.ones_like)
def ones_like(a, dtype=None, order="K", subok=True, shape=None):
    return np.ones(a.shape if shape is None else shape, a.dtype if dtype is None else dtype, like=a)


def write_back(view, base, content):
    """The content of `base` after `content` was written into `view`, a node that views it."""
    from symgrad.ops import index

    if view.op is index.GET:
        return index.SET(base, content, key=dict(view.params)["key"])
    if view.op is TRANSPOSE:
        return np.transpose(content, np.argsort(dict(view.params)["axes"]))
    return np.reshape(content, base.shape)
