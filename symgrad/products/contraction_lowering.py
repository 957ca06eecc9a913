"""Lowering of a contraction of two operands to a kernel: matrix products, products of rows, or sums.

Transposes are views, and BLAS takes them as they are. Which form is the fastest has been measured.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import is_one, key_along, product, same_shape
from symgrad.core.sizes import Shape, Size
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import TENSORDOT, VECDOT
from symgrad.ops.einsum import EINSUM
from symgrad.ops.reduce import MEAN, SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.ops.shape import RESHAPE
from symgrad.products.contractions import Contraction, contraction_of, less, plain
from symgrad.products.sums import as_reduction
from symgrad.rewrite.rules import procedure
from symgrad.rewrite.structure import with_axes, without

ENOUGH = 2000
"""Multiplications from which on a product of matrices and vectors, which needs more views, is faster than einsum."""

MANY = 1000
SHORT = {8: 32, 4: 64}
"""`np.vecdot` calls BLAS for each row, which does not pay for many rows of less than so many numbers."""


class Labels(NamedTuple):
    """Labels of a contraction of two operands, by their role."""

    batch: str
    left: str
    right: str
    inner: str


def _pair_of(node: Node) -> tuple[Contraction, Labels] | None:
    """A contraction of two operands over one label."""
    c = contraction_of(node)
    at = labels_of(c) if c is not None and len(c.operands) == 2 and plain(*c.operands) else None
    return (c, at) if c is not None and at is not None and len(at.inner) == 1 else None


def labels_of(c: Contraction) -> Labels | None:
    """Return the labels by their role.

    None where a label is summed that one operand alone has, or an axis of size one would be stretched.
    """
    a, b = c.terms
    left, right = ("".join(x for x in term if x not in other) for term, other in ((a, b), (b, a)))
    if not all(label in c.out for label in left + right) or any(map(is_one, c.sizes.values())):
        return None
    batch = "".join(label for label in c.out if label in a and label in b)
    return Labels(batch, left, right, c.contracted)


@procedure(EINSUM, TENSORDOT)
def without_labels_of_one(graph: Graph, node: Node) -> Variable | None:
    """A contraction without its axes of size one, which keep others from being products of matrices."""
    c = contraction_of(node)
    ones = "" if c is None else "".join(label for label, n in c.sizes.items() if is_one(n))
    if c is None or not ones or not plain(*c.operands) or any(not less(term, ones) for term in c.terms):
        return None
    operands = [without(graph, x, _places(term, ones)) for x, term in zip(*c[:2], strict=True)]
    y = Contraction(tuple(operands), tuple(less(term, ones) for term in c.terms), less(c.out, ones)).written(graph)
    new = _places(c.out, ones)
    return with_axes(graph, y, new, len(c.out)) if new else y


def _places(term: str, labels: str) -> list[int]:
    return [i for i, label in enumerate(term) if label in labels]


@procedure(EINSUM)
def beside_each_other(graph: Graph, node: Node) -> Variable | None:
    """A product of matrices whose rows or columns are several axes beside each other in an operand: as one axis.

    Leading axes stay, unless there is a batch: programs are cut into blocks along them.
    """
    pair = _pair_of(node)
    if pair is None:
        return None
    c, at = pair
    for i, free in enumerate((at.left, at.right)):
        run = free if at.batch else "".join(x for x in free if x in c.terms[i].partition(at.inner)[2])
        if len(run) > 1 and run in c.terms[i] and (at.batch or run in c.out):
            have, others = c.terms[i].replace(run, run[0]), less(c.out, run)
            shape = [product([c.sizes[x] for x in (run if label == run[0] else label)]) for label in have]
            operands, terms = [*c.operands], [*c.terms]
            operands[i], terms[i] = reshaped(graph, c.operands[i], shape), have
            merged = c.out.replace(run, run[0]) if run in c.out else run[0] + others
            y = Contraction(tuple(operands), tuple(terms), merged).written(graph)
            labels = merged.replace(run[0], run)
            return ordered(Variable(graph, reshaped(graph, y.node, [c.sizes[x] for x in labels])), labels, c.out)
    return None


@procedure(EINSUM)
def as_matrix_product(graph: Graph, node: Node) -> Variable | None:
    """An einsum as `np.matmul` of transposed views."""
    pair = _pair_of(node)
    if pair is None:
        return None
    c, at = pair
    fewest, most = sorted((len(at.left), len(at.right)))
    if not most or (most > 1 if at.batch else fewest != 1):
        return None
    if not (at.left and at.right) and numbers(tuple(c.sizes.values())) < ENOUGH:
        return None
    if _first(c.out, at.right) < _first(c.out, at.left):
        c = Contraction(c.operands[::-1], c.terms[::-1], c.out)
        at = at._replace(left=at.right, right=at.left)
    return _matmul(graph, c, at)


def _first(out: str, free: str) -> int:
    """Return the place after the last label of an operand in the result; without labels it is a vector."""
    return out.index(free[-1]) if free else len(out)


def _matmul(graph: Graph, c: Contraction, at: Labels) -> Variable:
    """Labels in front of the last one of an operand are stacked; at most one operand has such."""
    x, y = (Variable(graph, z) for z in c.operands)
    stack = at.batch + at.left[:-1] + at.right[:-1]
    left = ordered(x, c.terms[0], at.batch + at.left + at.inner)
    right = ordered(y, c.terms[1], at.batch + at.right[:-1] + at.inner + at.right[-1:])
    if not at.right and at.batch:
        return ordered((left @ right[..., None])[..., 0], stack + at.left[-1:], c.out)
    return ordered(left @ right, stack + at.left[-1:] + at.right[-1:], c.out)


def reshaped(graph: Graph, x: Node, shape: Iterable[Size]) -> Node:
    """A value in another shape."""
    return x if same_shape(x.aval.shape, shape := tuple(shape)) else graph.add(RESHAPE, (x,), (("shape", shape),))


def ordered(x: Variable, have: str, want: str) -> Variable:
    """A value with its axes in another order."""
    return x if have == want else np.transpose(x, [have.index(label) for label in want])


@procedure(EINSUM, VECDOT)
def rows_with_rows(graph: Graph, node: Node) -> Variable | Node | None:
    """``np.vecdot`` for products along the last axes of two operands of one shape, or einsum for many short ones."""
    pair = _pair_of(node)
    if pair is None:
        return None
    c, at = pair
    rows = at.batch + at.inner
    if at.left or at.right or not at.batch or c.terms != (rows, rows) or c.out != at.batch:
        return None
    x = c.operands[0].aval
    short = numbers(x.shape[:-1]) >= MANY and numbers(x.shape[-1:]) < SHORT[x.dtype.itemsize]
    a, b = (Variable(graph, z) for z in c.operands)
    if short:
        return EINSUM(a, b, subscripts=f"{rows},{rows}->{at.batch}") if node.op is VECDOT else None
    return VECDOT(a, b) if node.op is EINSUM else None


# ---- sums of few numbers

WINDOW, PAIR = 16, 4
"""So many numbers are added slice by slice: of a window over axes apart from each other, or beside each other."""

NARROW, ROWS = 32, 64
"""NumPy starts a loop for each run of numbers beside each other: where those are no more, and the slices as large."""


@procedure(SUM, MEAN)
def sums_of_slices(graph: Graph, node: Node) -> Variable | None:
    """A sum over axes of few numbers as one of slices, as in pooling: up to ten times as fast."""
    x, axes = node.inputs[0], reduced_axes(node)
    shape = x.aval.shape
    sizes = [n for i in axes if isinstance(n := shape[i], int)]
    if not plain(x) or not axes or len(axes) == len(shape) or len(sizes) < len(axes):
        return None
    count, run = math.prod(sizes), _run(shape, axes)
    if count < 2 or run is None or numbers(shape) < ROWS * count or not _is_window(axes, len(shape), count):
        return None
    y = Variable(graph, x)
    for before, axis in enumerate(axes):  # the first one has the longest rows behind it
        y = reduce(operator.add, [y[key_along(axis - before, i)] for i in range(sizes[before])])
    return as_reduction(graph, y, node)


def _is_window(axes: tuple[int, ...], ndim: int, count: int) -> bool:
    """Whether few numbers are summed: over axes that are no single one, or over two to four that are the last."""
    apart = axes != tuple(range(axes[0], axes[-1] + 1))
    return (apart and count <= WINDOW) or (axes[-1] == ndim - 1 and count <= PAIR)


def _run(shape: Shape, axes: tuple[int, ...]) -> int | None:
    """Return the length of the contiguous run of axes that are summed, or kept; None if it may be long."""
    summed, run = len(shape) - 1 in axes, 1
    for i in reversed(range(len(shape))):
        if (i in axes) != summed:
            break
        if not isinstance(shape[i], int):
            return None
        run *= shape[i]
    return run if 1 < run <= NARROW else None
