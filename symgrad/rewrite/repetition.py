"""Operands that only repeat numbers, as broadcasting does anyway, are taken bare: the numbers alone.

These compare shapes, or hold for whole families of operators: what no pattern can express.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.analysis.values import hits_once, number, one_number, raises_at_zero
from symgrad.core.graph import CONSTANT, Aval, Graph, Node
from symgrad.core.shapes import product, same_shape
from symgrad.core.sizes import same
from symgrad.errors import DTypeError, UnsupportedError
from symgrad.frontend.variable import Variable
from symgrad.ops.astype import ASTYPE
from symgrad.ops.create import FULL
from symgrad.ops.dtypes import common_dtype
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import EVERYTHING
from symgrad.ops.reduce import MEAN, SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.ops.shape import BROADCAST_TO, RESHAPE
from symgrad.rewrite.rules import procedure


def bare(graph: Graph, x: Node) -> Node:
    """The operand without what broadcasting does anyway: repetition, and axes of size one in front."""
    while True:
        if x.op is BROADCAST_TO or (x.op in (RESHAPE, GET) and _only_leads(x)):
            inner = x.inputs[0]
            x = Variable(graph, inner).astype(x.aval.dtype).node if inner.aval.weak else inner  # an array widens others
        elif x.op is FULL:
            return Variable(graph, x.inputs[0]).astype(x.aval.dtype).node
        else:
            repeated = one_number(x)
            return x if repeated is None else graph.constant(repeated)


def _only_leads(x: Node) -> bool:
    """Whether a reshape or an index only puts axes of size one in front."""
    if len(x.inputs) > 1 or (x.op is GET and any(item not in (None, EVERYTHING) for item in dict(x.params)["key"])):
        return False
    return leads(x.aval.shape, x.inputs[0].aval.shape)


def leads(shape: Any, inner: Any) -> bool:
    """Whether a shape is `inner` with axes of size one in front."""
    lead = len(shape) - len(inner)
    return lead >= 0 and all(type(n) is int and n == 1 for n in shape[:lead]) and same_shape(shape[lead:], inner)


_REPEATING = frozenset({BROADCAST_TO, FULL, RESHAPE, GET})
_OF_PYTHON = frozenset({ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATIVE})
_MADE_BY_PYTHON = frozenset({CONSTANT, ASTYPE, *_OF_PYTHON})


def _repeats(x: Node) -> bool:
    return x.op in _REPEATING or (x.op is CONSTANT and bool(x.aval.shape))


@procedure(where=lambda op: op.elementwise or op is ASTYPE, of={*_REPEATING, CONSTANT}, exact=True, plane="all")
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


@procedure(where=lambda op: op.elementwise, of=_MADE_BY_PYTHON, exact=True, plane="all")
def number_as_python(graph: Graph, node: Node) -> Node | None:
    """``2.0`` for ``np.float64(2.0)``, where the dtype of the result does not depend on it."""
    numbers = [i for i, x in enumerate(node.inputs) if not x.aval.shape and not x.aval.weak]
    if not numbers:
        return None
    inputs = list(node.inputs)
    for i in numbers:
        plain = _as_python(graph, inputs[i])
        if plain is not None:
            trial = [*inputs[:i], plain, *inputs[i + 1 :]]
            if all(y.aval.weak for y in trial):
                continue
            try:
                aval = node.op.infer(*[y.aval for y in trial])
            except (DTypeError, UnsupportedError) as error:
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
    if not depth or x.op not in _OF_PYTHON or not all([y.aval.weak or y.op in _MADE_BY_PYTHON for y in x.inputs]):
        return None
    found = [y if y.aval.weak else _as_python(graph, y, depth - 1) for y in x.inputs]
    inputs = tuple([y for y in found if y is not None and y.aval.dtype.kind in "if"])
    if len(inputs) < len(found) or raises_at_zero(x):
        return None
    return graph.add(x.op, inputs, x.params)


@procedure(SET, ADD_AT, exact=True, plane="all")
def write_bare_value(graph: Graph, node: Node) -> Node | None:
    """An assigned value need not be repeated first, and a number may be Python's."""
    target, value, *arrays = node.inputs
    plain = bare(graph, value) if _repeats(value) else value
    if plain.aval.dtype == target.aval.dtype and not (node.op is ADD_AT and arrays and not hits_once(node)):
        plain = _as_python(graph, plain) or plain
    return None if plain is value else graph.add(node.op, (target, plain, *arrays), node.params)


def full(graph: Graph, value: Node, aval: Aval) -> Node:
    """One number in every place. The dtype is that of the array, so the number can be Python's."""
    _, dtype, weak = value.aval
    if value.op is CONSTANT and not weak and dtype.kind in "bif" and dtype.itemsize <= 8:
        value = graph.constant(np.asarray(number(value)).item())
    return graph.add(FULL, (value,), (("dtype", aval.dtype), ("shape", aval.shape)))


@procedure(SUM, MEAN, of={BROADCAST_TO, FULL}, plane="all")
def reduce_bare_operand(graph: Graph, node: Node) -> Variable | None:
    """A sum over an axis along which numbers are repeated is a product, a mean is the number."""
    x = node.inputs[0]
    if node.aval.dtype.kind not in "fc":
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
