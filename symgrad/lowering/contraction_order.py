"""The order of the loops of a sum of products, in which memory is read along its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.analysis.cost import likely
from symgrad.core.graph import Node, is_view
from symgrad.core.shapes import product
from symgrad.core.sizes import Size, same
from symgrad.lowering.roots import has_only_ones_more
from symgrad.ops.contract import TENSORDOT, VECDOT, tensordot_labels
from symgrad.ops.einsum import EINSUM
from symgrad.ops.shape import RESHAPE, TRANSPOSE

REGISTERS = 8  # numbers of a row of sums that stay in registers while one operand after the other is read
NAMES = 32  # numbers of sums that are names, in a loop that adds a row to all of them
FEW = 4096  # numbers of a sum that stay in the cache while others are read
CACHED = 1 << 17  # bytes of an operand up to which it is read again and again from a cache


def labels_of(node: Node) -> tuple[list[list[Any]], list[Any]]:
    """Return the labels of the axes of each operand of a contraction, and those of its result."""
    if node.op is TENSORDOT:
        a, b = (x.aval.ndim for x in node.inputs)
        inputs, free = tensordot_labels(a, b, dict(node.params)["axes"])
        return [list(term) for term in inputs], list(free)
    if node.op is EINSUM:
        text = str(dict(node.params)["subscripts"])
        terms, _, result = text.partition("->")
        return [list(term) for term in terms.split(",")], list(result)
    a, b = (x.aval.ndim for x in node.inputs)
    if node.op is VECDOT:
        return [[*range(1 - a, 0), "k"], [*range(1 - b, 0), "k"]], list(range(1 - max(a, b), 0))
    batch = max(a, b, 2) - 2
    left = [*range(2 - a, 0), "i", "k"] if a > 1 else ["k"]
    right = [*range(2 - b, 0), "k", "j"] if b > 1 else ["k"]
    return [left, right], [*range(-batch, 0), *(["i"] if a > 1 else []), *(["j"] if b > 1 else [])]


def sizes_of(node: Node) -> dict[Any, Size]:
    """Return the sizes of the labels of a contraction."""
    sizes: dict[Any, Size] = {}
    for x, term in zip(node.inputs, labels_of(node)[0], strict=True):
        for label, n in zip(term, x.aval.shape, strict=True):
            if label not in sizes or same(sizes[label], 1):
                sizes[label] = n
    return sizes


def order_of(node: Node) -> list[Any]:
    """Return the labels of a contraction in the order of its loops, the outermost first.

    The sum is the innermost loop where it goes along the rows of the operands. Otherwise the last axis of the result
    is, with the sum outside of it, or outermost where the result is small; a small result of long columns goes by
    columns.
    """
    terms, result = labels_of(node)
    sizes = sizes_of(node)
    summed = [label for label in sizes if label not in result]
    long = [label for label in result if not same(sizes[label], 1)]
    long_summed = [label for label in summed if not same(sizes[label], 1)]
    if (
        not long
        or not long_summed
        or _lies_along(node, terms, long_summed[-1])
        or not _lies_along(node, terms, long[-1])
    ):
        return [*result, *summed]
    most = likely(product(node.aval.shape))
    is_read_once = any({*long} <= {*term} for term in terms)
    is_row = is_read_once or likely(sizes[long[-1]]) > REGISTERS
    if most <= FEW and _goes_by_rows(node, terms, long_summed[-1]):
        if most <= NAMES or is_row:
            return [*summed, *result]
        is_turned = len(long) == 2 and likely(sizes[long[0]]) > REGISTERS and _lies_along(node, terms, long[0])
        if is_turned and max(map(_bytes_in_memory, node.inputs)) > CACHED:
            return [*summed, *(label for label in result if label not in long), long[1], long[0]]
    return [*(label for label in result if label != long[-1]), *summed, long[-1]]


def _lies_along(node: Node, terms: Sequence[Sequence[Any]], label: Any) -> bool:
    """Whether every operand that has a label has it as the axis along which its numbers lie beside each other."""
    pairs = zip(node.inputs, terms, strict=True)
    return all(_in_memory(x, term)[-1:] == [label] for x, term in pairs if label in term)


def _goes_by_rows(node: Node, terms: Sequence[Sequence[Any]], summed: Any) -> bool:
    """Whether all operands begin with the one label that is summed: a loop over it reads row after row."""
    _, result = labels_of(node)
    found = [_in_memory(x, term) for x, term in zip(node.inputs, terms, strict=True)]
    return all(labels[:1] == [summed] and {*labels[1:]} <= {*result} for labels in found)


def _bytes_in_memory(x: Node) -> int:
    """Estimate the bytes of the array that an operand is, or is a view of."""
    while is_view(x):
        x = x.inputs[0]
    return likely(product(x.aval.shape)) * x.aval.dtype.itemsize


def _in_memory(x: Node, term: Sequence[Any]) -> list[Any]:
    """Return the labels of an operand's axes in the order of its memory, without those of one number.

    Neither transposition nor an axis of one number changes it.
    """
    found = list(term)
    while x.op is TRANSPOSE or (x.op is RESHAPE and has_only_ones_more(x)):
        (y,) = x.inputs
        if x.op is TRANSPOSE:
            axes = dict(x.params)["axes"]
            found = [found[axes.index(k)] for k in range(len(axes))]
        else:
            rest = iter([label for label, n in zip(found, x.aval.shape, strict=True) if not same(n, 1)])
            found = [None if same(n, 1) else next(rest) for n in y.aval.shape]
        x = y
    return [label for label, n in zip(found, x.aval.shape, strict=True) if not same(n, 1)]
