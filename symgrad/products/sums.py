"""Sums moved inwards: a linear function commutes with them, a product becomes a contraction.

``sum(A @ w[n] + s * w[n])`` over n is ``A @ W + s * W`` with ``W = sum(w[n])``. A sum of different things is not taken
apart, because what cancels in each of its terms may not cancel in two sums: ``sum(x - m)`` stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.analysis.overflow import has_range
from symgrad.analysis.values import number
from symgrad.core.graph import Graph, Node, Op
from symgrad.core.shapes import is_one, product, same_shape
from symgrad.core.sizes import Dim, Size, at_most, is_counted
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.moments import STD, VAR, centred, freedom
from symgrad.ops.reduce import MEAN, SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.ops.shape import TRANSPOSE
from symgrad.products.contractions import (
    CONTRACTIONS,
    GAIN,
    Contraction,
    contraction_of,
    less,
    plain,
    summed_first,
    trimmed,
)
from symgrad.rewrite.engine import alone
from symgrad.rewrite.rules import procedure
from symgrad.rewrite.structure import with_axes, without

DEEPEST = 12
LONGEST = 4096
"""So many float32 products einsum may add one after the other; `np.sum` adds pairwise."""


def _restored(graph: Graph, y: Variable, node: Node) -> Variable:
    """A result with the axes that the sum has kept."""
    kept = dict(node.params).get("keepdims", False)
    return with_axes(graph, y, reduced_axes(node), len(node.aval.shape)) if kept else y


def as_reduction(graph: Graph, total: Any, node: Node) -> Variable:
    """Return the sum or mean of a node from the sum over its axes."""
    if node.op is MEAN:
        total = total / product([node.inputs[0].aval.shape[i] for i in reduced_axes(node)])
    return _restored(graph, total, node)


@procedure(SUM, of={SUM}, changes_nan=True)
def sum_of_sum(graph: Graph, node: Node) -> Variable | None:
    """One sum over the axes of two."""
    x = node.inputs[0]
    if not alone(graph, x) or dict(x.params).get("keepdims") or x.aval.dtype != node.aval.dtype:
        return None
    inner, ndim = reduced_axes(x), len(x.inputs[0].aval.shape)
    left = [i for i in range(ndim) if i not in inner]
    axes = (*inner, *(left[i] for i in reduced_axes(node)))
    return _restored(graph, SUM(Variable(graph, x.inputs[0]), axis=axes), node)


@procedure(VAR, STD, changes_nan=True)
def variance_of_deviations(graph: Graph, node: Node) -> Variable | None:
    """``sum(d * d) / n``, as NumPy has it: the deviations from the mean are often there, and loops sum them."""
    x, params = Variable(graph, node.inputs[0]), {**node.op.defaults, **dict(node.params)}
    axis, ddof = params["axis"], params["ddof"]
    count = freedom(x, axis, ddof)
    if x.dtype != node.aval.dtype or x.dtype.kind != "f" or (ddof and not _is_divisor(count)):
        return None
    d = centred(x, axis)
    variance = np.sum(d * d, axis=axis, keepdims=params["keepdims"]) / count
    return variance if node.op is VAR else np.sqrt(variance)


def _is_divisor(count: Size | Variable) -> bool:
    """Whether a number of degrees of freedom is known to be what NumPy divides by: no negative one."""
    if isinstance(count, int):
        return count > 0
    return isinstance(count, Dim) and not is_counted(count) and at_most(0, count)


# ---- terms that cannot cancel


@procedure(SUM, MEAN, of={ADD}, changes_nan=True)
def sum_of_nonnegative(graph: Graph, node: Node) -> Variable | None:
    """``sum(x * x + y * y)`` is two products of vectors: where nothing is negative, nothing cancels."""
    x = node.inputs[0]
    if not alone(graph, x) or not plain(x, *x.inputs) or x.aval.dtype != node.aval.dtype:
        return None
    if not all(same_shape(y.aval.shape, x.aval.shape) and alone(graph, y) and _nonnegative(y) for y in x.inputs):
        return None
    a, b = (Variable(graph, graph.add(node.op, (y,), node.params)) for y in x.inputs)
    return a + b


def _nonnegative(x: Node, depth: int = DEEPEST) -> bool:
    """Whether a value is a square, a sum of squares, or a multiple of such; it saves a pass to contract those."""
    if not depth or x.op not in (ADD, MULTIPLY):
        return False
    a, b = x.inputs
    if x.op is ADD:
        return _nonnegative(a, depth - 1) and _nonnegative(b, depth - 1)
    return a is b or any((number(c) or -1) > 0 and _nonnegative(y, depth - 1) for c, y in ((a, b), (b, a)))


# ---- linear functions


class Linear(NamedTuple):
    """A value as a linear function of another, `source`, that commutes with a sum over `axes`."""

    source: Node
    axes: tuple[int, ...]
    apply: Callable[[Variable], Variable]  # of the summed source, without the axes
    work: float = 0  # which will not be needed
    reduced: float = 0  # which takes its place, the sum of the source apart

    def then(self, apply: Callable[[Variable], Variable], work: float, reduced: float) -> Linear:
        """The same with one function more."""
        return self._replace(apply=apply, work=self.work + work, reduced=self.reduced + reduced)


def _linear(graph: Graph, x: Node, axes: tuple[int, ...], depth: int = DEEPEST) -> Linear:
    """Return a value as a linear function, through nodes that nothing but the sum needs."""
    read = _READ.get(x.op)
    found = read(graph, x, axes, depth - 1) if read is not None and depth and alone(graph, x) else None
    return found if found is not None and found.source.aval.dtype == x.aval.dtype else Linear(x, axes, lambda y: y)


def _share(x: Node, axes: tuple[int, ...]) -> float:
    """One over how many numbers of `x` a sum over axes makes one of."""
    return 1 / max(numbers([x.aval.shape[i] for i in axes]), 1)


def _elementwise_work(x: Node) -> float:
    return sum(numbers(z.aval.shape) for z in (*x.inputs, x))


def _within(z: Node, x: Node, axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Axes of `x` as axes of its operand `z`, if that varies along all of them."""
    lead = len(x.aval.shape) - len(z.aval.shape)
    if any(i < lead or (is_one(z.aval.shape[i - lead]) and not is_one(x.aval.shape[i])) for i in axes):
        return None
    return tuple(i - lead for i in axes)


def _constant_along(graph: Graph, z: Node, x: Node, axes: tuple[int, ...]) -> Node | None:
    """An operand of `x` without these axes, if it is one number along each."""
    lead = len(x.aval.shape) - len(z.aval.shape)
    own = [i - lead for i in axes if i >= lead]
    return without(graph, z, own) if all(is_one(z.aval.shape[i]) for i in own) else None


def _through_negative(graph: Graph, x: Node, axes: tuple[int, ...], depth: int) -> Linear:
    f = _linear(graph, x.inputs[0], axes, depth)
    work = _elementwise_work(x)
    return f.then(lambda y: -f.apply(y), work, work * _share(x, axes))


def _through_sum(graph: Graph, x: Node, axes: tuple[int, ...], depth: int) -> Linear | None:
    """Both terms are linear in the same value."""
    sides = [(z, own) for z in x.inputs if (own := _within(z, x, axes)) is not None]
    if len(sides) < 2:
        return None
    f, g = (_linear(graph, z, own, depth) for z, own in sides)
    if f.source is not g.source or f.axes != g.axes:
        return None
    work = _elementwise_work(x)
    return f.then(lambda y: x.op(f.apply(y), g.apply(y)), g.work + work, g.reduced + work * _share(x, axes))


def _through_product(graph: Graph, x: Node, axes: tuple[int, ...], depth: int) -> Linear | None:
    """The other factor, or the divisor, is the same in all that is summed."""
    for i in (0, 1) if x.op is MULTIPLY else (0,):
        z, other = x.inputs[i], x.inputs[1 - i]
        own = _within(z, x, axes)
        factor = _constant_along(graph, other, x, axes)
        if own is None or factor is None:
            continue
        f, v = _linear(graph, z, own, depth), Variable(graph, factor)
        work = _elementwise_work(x)
        reduced = work * _share(x, axes) + numbers(factor.aval.shape)
        if i:
            return f.then(lambda y, f=f, v=v: x.op(v, f.apply(y)), work, reduced)  # type: ignore[misc]
        return f.then(lambda y, f=f, v=v: x.op(f.apply(y), v), work, reduced)  # type: ignore[misc]
    return None


def _through_contraction(graph: Graph, x: Node, axes: tuple[int, ...], depth: int) -> Linear | None:
    """One operand alone has the axes."""
    c = contraction_of(x)
    if c is None or not plain(*c.operands):
        return None
    summed = {c.out[i] for i in axes}
    having = [i for i, term in enumerate(c.terms) if summed.intersection(term)]
    if len(having) != 1 or not summed.issubset(c.terms[having[0]]):
        return None
    i = having[0]
    own = tuple(j for j, label in enumerate(c.terms[i]) if label in summed)
    f = _linear(graph, c.operands[i], own, depth)
    terms = [term if j != i else less(term, summed) for j, term in enumerate(c.terms)]

    def apply(y: Variable) -> Variable:
        operands = (*c.operands[:i], f.apply(y).node, *c.operands[i + 1 :])
        return Contraction(operands, tuple(terms), less(c.out, summed)).written(graph)

    others = sum(numbers(z.aval.shape) for j, z in enumerate(c.operands) if j != i)
    return f.then(apply, c.work(), c.work() * _share(x, axes) + others)


def _through_transpose(graph: Graph, x: Node, axes: tuple[int, ...], depth: int) -> Linear:
    order = dict(x.params)["axes"]
    own = tuple(sorted(order[i] for i in axes))
    rest = [order[i] for i in range(len(order)) if i not in axes]
    ranks = tuple(sorted(rest).index(i) for i in rest)
    f = _linear(graph, x.inputs[0], own, depth)
    return f.then(lambda y: np.transpose(f.apply(y), ranks), 0, 0)


_READ: dict[Op, Callable[[Graph, Node, tuple[int, ...], int], Linear | None]] = {
    NEGATIVE: _through_negative,
    ADD: _through_sum,
    SUBTRACT: _through_sum,
    MULTIPLY: _through_product,
    DIVIDE: _through_product,
    TRANSPOSE: _through_transpose,
    **dict.fromkeys(CONTRACTIONS, _through_contraction),
}


@procedure(SUM, MEAN, changes_nan=True)
def sum_of_linear(graph: Graph, node: Node) -> Variable | None:
    """The sum, or the mean, of a linear function is that function of the sum."""
    x, axes = node.inputs[0], reduced_axes(node)
    if not axes or not has_range(x.aval.dtype) or x.aval.dtype != node.aval.dtype:
        return None
    f = _linear(graph, x, axes)
    if f.source is x or f.reduced + numbers(f.source.aval.shape) > GAIN * (f.work + numbers(x.aval.shape)):
        return None
    return _restored(graph, f.apply(node.op(Variable(graph, f.source), axis=f.axes)), node)


# ---- products


@procedure(SUM, MEAN, changes_nan=True)
def sum_of_product(graph: Graph, node: Node) -> Variable | None:
    """The sum of a product that nothing else needs is a contraction; what one factor alone has is summed first."""
    x, axes = node.inputs[0], reduced_axes(node)
    if not axes or not alone(graph, x) or x.aval.dtype != node.aval.dtype or not x.inputs or not plain(*x.inputs):
        return None
    c = contraction_of(x)
    if c is None:
        return None
    before = c.work() + numbers(x.aval.shape)
    after = trimmed(graph, c)._replace(out=less(c.out, {c.out[i] for i in axes}))
    early = [(i, own) for i in range(len(c.terms)) if (own := after.own(i))]
    work = sum(numbers(after.operands[i].aval.shape) for i, _ in early)
    if early:
        after = summed_first(graph, after, dict(early))
    if _adds_long_rows(after) or work + after.work() > GAIN * before:
        return None
    return as_reduction(graph, after.written(graph), node)


def _adds_long_rows(c: Contraction) -> bool:
    """Whether einsum would add many float32 products that lie beside each other one after the other."""
    long = c.contracted
    if c.operands[0].aval.dtype.itemsize > 4 or len(long) < 2 or not c.out or c.terms[0] != c.terms[1]:
        return False
    sizes = c.sizes
    return c.terms[0][-1] in long and numbers([sizes[label] for label in long]) > LONGEST
