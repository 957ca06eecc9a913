"""Lowering of a contraction of two operands to a kernel: matrix products, products of rows, or sums.

Transposes are views, and BLAS takes them as they are. Which form is the fastest has been measured.
"""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import NamedTuple

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import is_one, key_along
from symgrad.core.sizes import Shape
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import VECDOT
from symgrad.ops.einsum import EINSUM
from symgrad.ops.reduce import MEAN, SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.products.contractions import Contraction, contraction_of, plain
from symgrad.products.sums import as_reduction
from symgrad.rewrite.rules import procedure

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
    at = _labels(c) if c is not None and len(c.operands) == 2 and plain(*c.operands) else None
    return (c, at) if c is not None and at is not None and len(at.inner) == 1 else None


def _labels(c: Contraction) -> Labels | None:
    """None where a label is summed that one operand alone has, or an axis of size one would be stretched."""
    a, b = c.terms
    left, right = ("".join(x for x in term if x not in other) for term, other in ((a, b), (b, a)))
    if not all(label in c.out for label in left + right) or any(map(is_one, c.sizes.values())):
        return None
    batch = "".join(label for label in c.out if label in a and label in b)
    return Labels(batch, left, right, c.contracted)


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
    left = _ordered(x, c.terms[0], at.batch + at.left + at.inner)
    right = _ordered(y, c.terms[1], at.batch + at.right[:-1] + at.inner + at.right[-1:])
    if not at.right and at.batch:
        return _ordered((left @ right[..., None])[..., 0], stack + at.left[-1:], c.out)
    return _ordered(left @ right, stack + at.left[-1:] + at.right[-1:], c.out)


def _ordered(x: Variable, have: str, want: str) -> Variable:
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
