"""Dtypes and copies, and what is known of an array before running."""

import numpy as np

from symgrad.core.axes import aligned
from symgrad.core.graph import Aval
from symgrad.errors import DTypeError
from symgrad.ops.arguments import axis_index, refuse
from symgrad.ops.define import implements, operator
from symgrad.ops.operands import as_input, is_traced
from symgrad.spelling import ATOM, Code, call, spell_param

# ---- what is known before running

implements(np.ndim)(lambda a: len(as_input(a).shape))
implements(np.shape)(lambda a: as_input(a).shape)
implements(np.iscomplexobj)(lambda x: as_input(x).dtype.kind == "c")
implements(np.isrealobj)(lambda x: as_input(x).dtype.kind != "c")
implements(np.iterable)(lambda y: len(as_input(y).shape) > 0)


@implements(np.size)
def size(a, axis=None):
    a = as_input(a)
    if axis is None:
        return a.size
    axes = axis if isinstance(axis, tuple) else (axis,)
    count = 1
    for i in axes:
        count = count * a.shape[axis_index("size", i, len(a.shape))]
    return count


def _sample(x):
    """Return what `np.result_type` takes for a value: its dtype, or a Python number for a weak one."""
    return (x.dtype.type(0).item() if x.aval.weak else x.dtype) if is_traced(x) else x


@implements(np.result_type)
def result_type(*arrays_and_dtypes):
    return np.result_type(*map(_sample, arrays_and_dtypes))


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
    dtype, (source,) = node.aval.dtype, node.inputs
    is_count = source.op.evaluate is np.count_nonzero and not source.aval.shape  # Python's int in NumPy 2.0
    if source.aval.weak or is_count:  # scalars of NumPy lie in memory as the machine has it
        return call(spell_param(dtype.newbyteorder("=")), [x.text])
    return Code(f"{x.at(ATOM)}.astype({spell_param(dtype)})")


def _spell_scalar(node, x):
    kind, old = node.aval.dtype.kind, node.inputs[0].aval.dtype.kind
    if kind == "i" and old == "f":  # raises where that is NaN or infinite, as `math.floor` does
        return call("int", [x.text])
    return x if old in ("f", kind) else call("float", [x.text])


ASTYPE = operator(
    np.astype,
    infer=lambda x, dtype: Aval(x.shape, np.dtype(dtype)),
    vjp=lambda g, y, x, dtype: (g,),  # the pullback casts
    evaluate=_astype,
    spell=_spell_astype,
    signature=aligned,
    scalar=_spell_scalar,
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


def cast(function, x, dtype, casting="same_kind"):
    """`x` in another dtype, where NumPy's rule of `casting` allows it."""
    kind = _sample(x) if is_traced(x) else np.result_type(x)
    if not np.can_cast(np.result_type(kind), dtype, casting):
        raise DTypeError(
            f"np.{function}: cannot cast {np.result_type(kind)} to {dtype} by the rule {casting!r}",
            "Write casting='unsafe', or convert the result: .astype(dtype).",
        )
    return x.astype(dtype) if is_traced(x) else np.asarray(x, dtype)
