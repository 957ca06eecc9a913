"""Rewrites that hold for whole families of operators, or that compare shapes: what no pattern can express.

Constants are folded, sizes that only repeat numbers are taken off operands, and shape operations are merged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.core.graph import CONSTANT, INPUT, ITEM, SEED, SIZE, Aval, Graph, Node, Op
from symgrad.core.shapes import product, same_shape
from symgrad.core.sizes import same
from symgrad.errors import SymgradError
from symgrad.frontend.variable import Variable
from symgrad.ops.create import EYE, FULL
from symgrad.ops.define import common_dtype
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import EVERYTHING
from symgrad.ops.known import sizes_in
from symgrad.ops.marks import AGAIN, ALIAS, ENTER, LEAVE, STOP
from symgrad.ops.reduce import MEAN, SUM, reduced_axes
from symgrad.ops.shape import ASTYPE, BROADCAST_TO, RESHAPE, TRANSPOSE
from symgrad.ops.windows import WINDOWS
from symgrad.products import factors
from symgrad.rewrite import block_diagonal, scatter
from symgrad.rewrite.engine import Procedure, alone, exact, number, raises_at_zero

SMALL = 64
"""A constant of so many numbers may be made, whatever it is made of."""

_LARGEST_EXACT = 2**31
_SCATTERED = frozenset({TRANSPOSE, BROADCAST_TO, WINDOWS})  # what a reshape has to copy


# ---- constants

_MARKS = frozenset({ALIAS, STOP, ENTER, LEAVE})
_NEVER_FOLDED = _MARKS | {INPUT, CONSTANT, SIZE, SEED, ITEM, FULL, BROADCAST_TO, AGAIN}


@exact
def fold(graph: Graph, node: Node) -> Node | None:
    """An operation on constants is a constant, unless it would raise, warn or be larger than what it is made of."""
    for x in node.inputs:  # of most nodes the first tells
        if x.op is not CONSTANT:
            return None
    if not _worth_folding(node) or sizes_in(node.params):
        return None
    values = [dict(x.params)["value"].value for x in node.inputs]
    try:
        with np.errstate(all="raise", under="ignore"):
            result = node.op.evaluate(*values, **dict(node.params))
    except Exception:  # it shall raise when the program runs, as it would have done
        return None
    if not _keeps_finite(values, result):
        return None
    if node.aval.weak:
        result = result.item() if isinstance(result, (np.generic, np.ndarray)) else result
        if type(result) is int and abs(result) > _LARGEST_EXACT:  # NumPy would have wrapped it, Python not
            return None
    image = graph.constant(result)
    return image if image.aval.dtype == node.aval.dtype and image.aval.weak == node.aval.weak else None


def _worth_folding(node: Node) -> bool:
    sizes = [product(x.aval.shape) for x in node.inputs]
    size = product(node.aval.shape)
    if not isinstance(size, int) or sizes_in(node.params):  # a place that depends on a symbol
        return False
    return size <= SMALL if node.op.view else size <= max(SMALL, *sizes)


def _keeps_finite(values: list[Any], result: Any) -> bool:
    if np.asarray(result).dtype.kind not in "fc":
        return True
    return bool(np.all(np.isfinite(result))) or not all(np.all(np.isfinite(v)) for v in values)


# ---- operands that only repeat numbers


def bare(graph: Graph, x: Node) -> Node:
    """The operand without what broadcasting does anyway: repetition, and axes of size one in front."""
    while True:
        if x.op is BROADCAST_TO or (x.op in (RESHAPE, GET) and _only_leads(x)):
            inner = x.inputs[0]
            x = Variable(graph, inner).astype(x.aval.dtype).node if inner.aval.weak else inner  # an array widens others
        elif x.op is FULL:
            return Variable(graph, x.inputs[0]).astype(x.aval.dtype).node
        elif x.op is CONSTANT and x.aval.shape and all(type(n) is int and n == 1 for n in x.aval.shape):
            return graph.constant(dict(x.params)["value"].value.reshape(())[()])
        else:
            return x


def _only_leads(x: Node) -> bool:
    """Whether a reshape or an index only puts axes of size one in front."""
    if len(x.inputs) > 1 or (x.op is GET and any(item not in (None, EVERYTHING) for item in dict(x.params)["key"])):
        return False
    return _leads(x.aval.shape, x.inputs[0].aval.shape)


def _leads(shape: Any, inner: Any) -> bool:
    """Whether a shape is `inner` with axes of size one in front."""
    lead = len(shape) - len(inner)
    return lead >= 0 and all(type(n) is int and n == 1 for n in shape[:lead]) and same_shape(shape[lead:], inner)


_REPEATING = frozenset({BROADCAST_TO, FULL, RESHAPE, GET})


def _repeats(x: Node) -> bool:
    return x.op in _REPEATING or (x.op is CONSTANT and bool(x.aval.shape))


@exact
def take_bare_operands(graph: Graph, node: Node) -> Variable | Node | None:
    """An elementwise function of repeated numbers is computed once and repeated, if broadcasting does not do it."""
    if not any(map(_repeats, node.inputs)):
        return None
    inputs = tuple([bare(graph, x) for x in node.inputs])
    if all(x is y for x, y in zip(inputs, node.inputs, strict=True)):
        return None
    if node.op is not ASTYPE and all(x.aval.weak for x in inputs):
        return None
    return graph.add(node.op, inputs, node.params)


@exact
def number_as_python(graph: Graph, node: Node) -> Node | None:
    """``2.0`` for ``np.float64(2.0)``, where the dtype of the result does not depend on it."""
    inputs = list(node.inputs)
    for i, x in enumerate(node.inputs):
        plain = None if x.aval.shape else _as_python(graph, x)
        if plain is not None:
            trial = [*inputs[:i], plain, *inputs[i + 1 :]]
            if all(y.aval.weak for y in trial):
                continue
            try:
                aval = node.op.infer(*[y.aval for y in trial])
            except SymgradError as error:
                error.forget()
                continue
            if aval == node.aval and common_dtype(*[y.aval for y in trial]) == common_dtype(*[y.aval for y in inputs]):
                inputs = trial
    return graph.add(node.op, tuple(inputs), node.params) if tuple(inputs) != node.inputs else None


def _as_python(graph: Graph, x: Node, depth: int = 4) -> Node | None:
    """A number that needs no array to be computed, computed by Python; `depth` bounds the work in a long program."""
    if x.aval.shape or x.aval.weak or x.aval.dtype.kind not in "if" or x.aval.dtype.itemsize > 8:
        return None
    if x.op is CONSTANT:
        return graph.constant(number(x).item())
    if x.op is ASTYPE and x.inputs[0].aval.weak and x.inputs[0].aval.dtype == x.aval.dtype:
        return x.inputs[0]
    if not depth or x.op not in (ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATIVE):
        return None
    inputs = [y if y.aval.weak else _as_python(graph, y, depth - 1) for y in x.inputs]
    if any(y is None or y.aval.dtype.kind not in "if" for y in inputs):
        return None
    if raises_at_zero(x):
        return None
    return graph.add(x.op, tuple(inputs), x.params)


@exact
def write_bare_value(graph: Graph, node: Node) -> Node | None:
    """An assigned value need not be repeated first, and a number may be Python's."""
    target, value, *arrays = node.inputs
    plain = bare(graph, value) if _repeats(value) else value
    if plain.aval.dtype == target.aval.dtype and not (node.op is ADD_AT and arrays and not scatter.hits_once(node)):
        plain = _as_python(graph, plain) or plain
    return None if plain is value else graph.add(node.op, (target, plain, *arrays), node.params)


@exact
def set_everything(graph: Graph, node: Node) -> Variable | None:
    """``y[:, 0] = v`` where axis 1 has one place: nothing of y is left."""
    target, value, *arrays = node.inputs
    key, shape = dict(node.params)["key"], target.aval.shape
    if arrays or len(key) != len(shape) or not all(map(_covers, key, shape)):
        return None
    kept = tuple(n for item, n in zip(key, shape, strict=True) if item == EVERYTHING)
    content = np.astype(Variable(graph, value), target.aval.dtype)
    return np.reshape(np.broadcast_to(content, kept), shape)


def _covers(item: Any, n: Any) -> bool:
    """Whether an item of a key selects all of an axis."""
    return item == EVERYTHING or (type(item) is int and type(n) is int and n == 1)


# ---- shapes


@exact
def merge_broadcasts(graph: Graph, node: Node) -> Variable | Node | None:
    x, shape = node.inputs[0], node.aval.shape
    if same_shape(x.aval.shape, shape):
        return x
    plain = bare(graph, x)
    if plain.op is CONSTANT and not plain.aval.shape:
        return full(graph, plain, node.aval)
    if _leads(shape, plain.aval.shape):
        return np.reshape(Variable(graph, plain), shape)
    return None if plain is x else graph.add(BROADCAST_TO, (plain,), node.params)


def full(graph: Graph, value: Node, aval: Aval) -> Node:
    """One number in every place. The dtype is that of the array, so the number can be Python's."""
    if (
        value.op is CONSTANT
        and not value.aval.weak
        and value.aval.dtype.kind in "bif"
        and value.aval.dtype.itemsize <= 8
    ):
        value = graph.constant(np.asarray(number(value)).item())
    return graph.add(FULL, (value,), (("dtype", aval.dtype), ("shape", aval.shape)))


@exact
def number_in_full(graph: Graph, node: Node) -> Node | None:
    value = node.inputs[0]
    if value.op is CONSTANT and value.aval.shape:
        value = bare(graph, value)
    result = full(graph, value, node.aval) if not value.aval.shape else node
    return None if result is node else result


@exact
def merge_reshapes(graph: Graph, node: Node) -> Variable | Node | None:
    x, shape = node.inputs[0], node.aval.shape
    if same_shape(x.aval.shape, shape):
        return x
    if x.op is FULL:
        return full(graph, x.inputs[0], node.aval)
    if x.op is RESHAPE and x.inputs[0].op in _SCATTERED and not alone(graph, x):
        return None  # a copy, which is better made once
    if x.op is RESHAPE or (x.op is GET and all(item in (None, EVERYTHING) for item in dict(x.params)["key"])):
        return graph.add(RESHAPE, (x.inputs[0],), node.params)
    if x.op is BROADCAST_TO and not x.inputs[0].aval.shape:
        return np.broadcast_to(Variable(graph, x.inputs[0]), shape)
    if x.op in (SUM, MEAN) and dict(x.params).get("keepdims"):
        dropped = Variable(graph, x.inputs[0])
        y = x.op(dropped, axis=dict(x.params).get("axis"))
        return y if same_shape(y.shape, shape) else None
    return new_axes(graph, x, shape)


def new_axes(graph: Graph, x: Node, shape: Any) -> Node | None:
    """``x[:, None]`` for a reshape that only adds axes of size one."""
    key, old = [], list(x.aval.shape)
    if not old:
        return None
    for n in shape:
        if old and same(n, old[0]):
            key.append(EVERYTHING)
            old.pop(0)
        elif type(n) is int and n == 1:
            key.append(None)
        else:
            return None
    return None if old else graph.add(GET, (x,), (("key", tuple(key)),))


@exact
def merge_transposes(graph: Graph, node: Node) -> Node | None:
    x, axes = node.inputs[0], dict(node.params)["axes"]
    if axes == tuple(range(len(axes))):
        return x
    if x.op is FULL:
        return full(graph, x.inputs[0], node.aval)
    if x.op is EYE:
        p = dict(x.params)
        return np.eye(p["m"], p["n"], -p["k"], p["dtype"], like=Variable(graph, x)).node
    if x.op is TRANSPOSE:
        inner = dict(x.params)["axes"]
        return graph.add(TRANSPOSE, (x.inputs[0],), (("axes", tuple(inner[i] for i in axes)),))
    return None


@exact
def merge_casts(graph: Graph, node: Node) -> Node | None:
    x = node.inputs[0]
    if x.aval.dtype == node.aval.dtype and not x.aval.weak:
        return x
    if x.op is ASTYPE and np.can_cast(x.inputs[0].aval.dtype, x.aval.dtype, "safe"):
        return graph.add(ASTYPE, (x.inputs[0],), node.params)
    return None


@exact
def index_of_everything(graph: Graph, node: Node) -> Node | None:
    x = node.inputs[0]
    if all(item == EVERYTHING for item in dict(node.params)["key"]):
        return x if x.aval.shape else None
    return full(graph, x.inputs[0], node.aval) if x.op is FULL and len(node.inputs) == 1 else None


@exact
def add_to_everything(graph: Graph, node: Node) -> Variable | None:
    """``y[:, :] += v``."""
    if any(item != EVERYTHING for item in dict(node.params)["key"]):
        return None
    return Variable(graph, node.inputs[0]) + Variable(graph, node.inputs[1])


def reduce_bare_operand(graph: Graph, node: Node) -> Variable | None:
    """A sum over an axis along which numbers are repeated is a product, a mean is the number."""
    x = node.inputs[0]
    if x.op not in (BROADCAST_TO, FULL) or node.aval.dtype.kind not in "fc":
        return None
    shape = x.aval.shape
    plain = Variable(graph, bare(graph, x))
    lead = len(shape) - plain.ndim
    axes = reduced_axes(node)
    repeated = [i for i in axes if i < lead or not same(plain.shape[i - lead], shape[i])]
    if not repeated:
        return None
    y = plain.astype(node.aval.dtype)
    inner = tuple(i - lead for i in axes if i >= lead)
    if inner:
        y = node.op(y, axis=inner, keepdims=dict(node.params).get("keepdims", False))
    return y * product([shape[i] for i in repeated]) if node.op is SUM else y


def sum_of_identity(graph: Graph, node: Node) -> Variable | None:
    """Each row of the identity has one one, and so has each column."""
    x = node.inputs[0]
    if x.op is not EYE or not same(*x.aval.shape) or dict(x.params)["k"] != 0 or node.aval.dtype != x.aval.dtype:
        return None
    one = len(reduced_axes(node)) == 1
    return np.full(node.aval.shape, 1.0, node.aval.dtype, like=Variable(graph, x)) if one else None


@exact
def without_mark(graph: Graph, node: Node) -> Node:
    """A mark matters to differentiation only."""
    return node.inputs[0]


@exact
def constant_again(graph: Graph, node: Node) -> Node | None:
    """A constant is there: it is not computed again."""
    return node.inputs[0] if node.inputs[0].op is CONSTANT else None


# ---- which of them an operator is met with

_OF: dict[Op, list[Procedure]] = {
    BROADCAST_TO: [merge_broadcasts],
    FULL: [number_in_full],
    RESHAPE: [merge_reshapes],
    TRANSPOSE: [merge_transposes],
    ASTYPE: [take_bare_operands, merge_casts],
    GET: [index_of_everything],
    SET: [set_everything, write_bare_value],
    ADD_AT: [write_bare_value, add_to_everything],
    SUM: [reduce_bare_operand, sum_of_identity],
    MEAN: [reduce_bare_operand],
    AGAIN: [constant_again],
}


def procedures(op: Op, final: bool, numerics: str = "stable") -> list[Procedure]:
    """What an operator is met with before any pattern: `final` is the pass after which nothing is differentiated."""
    if op in _MARKS:
        return [without_mark] if final else []
    folding = [] if op in _NEVER_FOLDED else [fold]
    general = [take_bare_operands, number_as_python] if op.elementwise else _OF.get(op, [])
    late = scatter.OF.get(op, []) if final else []
    if final and numerics == "stable":
        late = [*late, *scatter.OF_STABLE.get(op, []), *block_diagonal.OF.get(op, []), *factors.OF.get(op, [])]
    return [*folding, *general, *late]
