"""Sorting as a statement: the order of numbers along an axis. Equal numbers keep theirs, and NaN comes last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from symgrad.analysis.cost import likely
from symgrad.core.graph import Aval, Node
from symgrad.core.shapes import product
from symgrad.core.sizes import Size, at_most, same
from symgrad.lowering.expressions import WHOLE, ZERO, Expr, Local, converted, extent
from symgrad.lowering.statements import For, Sort, Statement
from symgrad.lowering.windows import Window
from symgrad.ops.sorting import ARGPARTITION, ARGSORT

if TYPE_CHECKING:
    from symgrad.lowering.build import Part

ORDERS = frozenset((ARGSORT, ARGPARTITION))
"""Operators that give an order; one that is sorted is partitioned, too."""

KEYS = {"f": np.dtype(float), "i": WHOLE, "b": WHOLE, "u": WHOLE}
"""By the kind of numbers: the dtype in which they are sorted, which has all of them but the largest of uint64."""
SHORT = 32  # numbers that are sorted by insertion, without other memory
FEW = 64  # numbers up to which sorting takes less than a call of NumPy
MANY = 1024  # numbers up to which it does in a loop, all of which would be NumPy's otherwise


def is_short_order(node: Node, in_loop: bool) -> bool:
    """Whether an operator sorts few numbers."""
    return is_short(node.aval.shape[dict(node.params)["axis"]], node.aval.shape, in_loop)


def is_short(count: Size, shape: Sequence[Size], in_loop: bool) -> bool:
    """Whether to sort an array, so many numbers at a time, is faster than to call NumPy."""
    return likely(count) <= MANY if in_loop else at_most(product(shape), FEW)


def has_keys(dtype: np.dtype) -> bool:
    """Whether numbers of a dtype can be sorted."""
    return dtype.kind in KEYS and dtype != np.uint64


def is_order_of(indices: Node, size: Size) -> bool:
    """Whether indices are an order of so many numbers."""
    return indices.op in ORDERS and same(indices.aval.shape[dict(indices.params)["axis"]], size)


def write_order(part: Part, node: Node) -> None:
    """Write the statements that sort numbers along an axis, and give their indices in this order."""
    (x,), axis = node.inputs, dict(node.params)["axis"]
    target, shape = part.begin(node), x.aval.shape
    axes = [*(k for k in range(len(shape)) if k != axis), axis]
    part.values[node] = target
    if x.op is ARGSORT and dict(x.params)["axis"] == axis:
        _write_inverse(part, x, axes, target)
        return
    rows = tuple([shape[k] for k in axes])
    dtype = KEYS[x.aval.dtype.kind]
    keys = part.allocate("keys", Aval(rows, dtype))
    with part.nested(rows) as nest:
        number = part.pull(x, _untransposed(nest.at, axes))
        nest.levels[-1].append(keys.store(nest.at, converted(number, dtype)))
    is_last = axis == len(shape) - 1
    order = target if is_last else part.allocate("order", Aval(rows, WHOLE))
    _write_sort(part, keys, order, rows)
    if not is_last:
        with part.nested(rows) as nest:
            nest.levels[-1].append(target.store(_untransposed(nest.at, axes), order.load(nest.at)))


def _write_sort(part: Part, keys: Window, order: Window, rows: tuple[Size, ...]) -> None:
    """Write the sort of each row of keys."""
    *others, count = rows
    spare = []
    if not at_most(count, SHORT):
        spare = [part.allocate("spare", Aval((count,), dtype)).buffer for dtype in (keys.buffer.dtype, WHOLE)]
    letters = part.program.letters()
    under: list[Expr] = [ZERO if same(n, 1) else Local(next(letters)) for n in others]
    of_keys, of_order = ((*window.under, *under) for window in (keys, order))
    body: list[Statement] = [Sort(keys.buffer, of_keys, order.buffer, of_order, extent(count), spare)]
    for i, n in reversed([*zip(under, others, strict=True)]):
        if isinstance(i, Local):
            body = [For(i, extent(n), body)]
    part.body += body


def _write_inverse(part: Part, order: Node, axes: Sequence[int], target: Window) -> None:
    """Write the order of an order: the rank of each number, which is the inverse permutation."""
    shape, axis = order.aval.shape, axes[-1]
    with part.nested([shape[k] for k in axes]) as nest:
        at = _untransposed(nest.at, axes)
        nest.levels[-1].append(target.store((*at[:axis], part.pull(order, at), *at[axis + 1 :]), nest.at[-1]))


def _untransposed(at: Sequence[Expr], axes: Sequence[int]) -> tuple[Expr, ...]:
    """Return an index in the order of the axes of an array, given that in another order."""
    return tuple([at[axes.index(k)] for k in range(len(axes))])
