"""Products of matrices as loops over rows, so that `tiles` runs them with other loops over the same rows.

A row of ``A @ B`` needs one of A, and ``A.T @ B`` is a sum over the rows of both. BLAS multiplies all rows of a tile at
once; a product that is in no tile becomes a whole again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod

from symgrad.lowering.expressions import ONE, ZERO, Expr, Local, Number, extent, minus, product_of, times
from symgrad.lowering.statements import Buffer, For, Multiply, Statement, Store

ALONE = 1 << 18  # multiplications up to which OpenBLAS uses one thread: threads that share tiles would contend for more
FEWEST = 32  # rows of a tile from which on products take hardly longer than with all rows


def with_row_loops(suite: list[Statement]) -> None:
    """Write products as loops if others have as many iterations, and the product of a tile is small enough."""
    indices = {s.stop: s.index for s in suite if isinstance(s, For) and not s.reverse and s.start == ZERO}
    for k, s in enumerate(suite):
        for body in s.bodies:
            with_row_loops(body)
        if isinstance(s, Multiply):
            suite[k] = _row_loop(s, indices) or s


def without_row_loops(suite: list[Statement]) -> None:
    """Write products that are in no tile as wholes."""
    for k, s in enumerate(suite):
        for body in s.bodies:
            without_row_loops(body)
        if (product := product_in(s)) is not None:
            assert isinstance(s, For)
            suite[k] = replace(_of_rows(product, ZERO, s.stop), row=None)


def product_in(s: Statement) -> Multiply | None:
    """Return the product of which a loop computes the rows."""
    if isinstance(s, For) and len(s.body) == 1 and isinstance(s.body[0], Multiply):
        return s.body[0] if s.body[0].row == s.index else None
    return None


def of_tile(s: Multiply, first: Expr, last: Expr, private: Collection[Buffer]) -> Multiply:
    """Return the product of the rows of a tile; `private` buffers have only these."""
    s = _of_rows(s, first, minus(last, first))
    left, right = (replace(x, start=ZERO) if x.buffer in private else x for x in (s.left, s.right))
    return replace(s, left=left, right=right, start=ZERO if s.target in private else s.start)


def cleared(s: Multiply, i: Local, j: Local) -> For:
    """Return loops that clear the target of a product, before its parts are added."""
    zero = Store(s.target, (i, j), Number(s.target.dtype.type(0).item(), s.target.dtype))
    return For(i, s.rows, [For(j, s.columns, [zero])])


def most_rows(s: Multiply) -> int:
    """Return how many rows of a product BLAS multiplies with one thread; 0 if that is not known."""
    others = [n.value for n in (s.rows if s.sums_rows else s.terms, s.columns) if isinstance(n, Number)]
    return ALONE // max(prod(others), 1) if len(others) == 2 else 0


def _row_loop(s: Multiply, indices: Mapping[Expr, Local]) -> For | None:
    """Return a product as a loop over the rows of its left factor in memory; None if it cannot be in tiles."""
    count = s.terms if s.sums_rows else s.rows
    if count not in indices or most_rows(s) < FEWEST or not _has_rows(s.target, s.start, s.columns):
        return None
    if not _has_rows(s.left.buffer, s.left.start, s.rows if s.sums_rows else s.terms):
        return None
    if s.sums_rows and (s.right.is_transposed or not _has_rows(s.right.buffer, s.right.start, s.columns)):
        return None
    if s.sums_rows and (len(s.target.shape) > 2 or extent(s.target.shape[0]) != s.rows):
        return None
    index = indices[count]
    return For(index, count, [_of_rows(replace(s, row=index), index, ONE)])


def _has_rows(b: Buffer, start: Expr, width: Expr) -> bool:
    """Whether the rows of a matrix are those of a buffer."""
    return start == ZERO and product_of([extent(n) for n in b.shape[1:]]) == width


def _of_rows(s: Multiply, first: Expr, count: Expr) -> Multiply:
    """Return a product for `count` rows of the left factor in memory, from the `first` one on."""
    if s.sums_rows:
        right = replace(s.right, start=times(first, s.columns))
        return replace(s, left=replace(s.left, start=times(first, s.rows)), right=right, terms=count)
    left = replace(s.left, start=times(first, s.terms))
    return replace(s, left=left, start=times(first, s.columns), rows=count)
