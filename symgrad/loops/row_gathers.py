"""Row gathers and scatters: ``scores[np.arange(n), labels]``, and sums of rows by index."""

from __future__ import annotations

import numpy as np

from symgrad.analysis.cost import likely, likely_rows, rows_scale
from symgrad.analysis.values import is_range, is_zeros
from symgrad.core.axes import AxisSignature, Labels, signature_of
from symgrad.core.graph import Node, per_node
from symgrad.core.shapes import product
from symgrad.core.sizes import same
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import EVERYTHING, Slot, taken_axis

ROW = "row"
NARROW = 8  # fewer numbers in a row are added one column at a time
SMALLER = 64  # times that a table has fewer rows than are added, if each part of a loop may have one of its own


def numbering(node: Node) -> int | None:
    """Return which input of a node is the index that numbers the rows, None if none does."""
    if node.op not in (GET, SET, ADD_AT):
        return None
    key, (x, *_) = dict(node.params)["key"], node.inputs
    first = 1 if node.op is GET else 2
    picks = node.inputs[first:]
    if len(picks) < 2 or len(key) != x.aval.ndim or not all(isinstance(item, Slot) for item in key):
        return None
    ndim, array = max(a.aval.ndim for a in picks), picks[key[0].input]
    is_first = array.aval.ndim == ndim and is_range(_unwrapped(array), x.aval.shape[0])
    return first + key[0].input if is_first else None


def _unwrapped(array: Node) -> Node:
    """Return an array without the trailing axes of size 1 that it was given."""
    while array.op is GET and (key := dict(array.params)["key"])[0] == EVERYTHING and not any(key[1:]):
        array = array.inputs[0]
    return array


@per_node  # which axes there are asks for it, and then every way to divide the program
def row_signature(node: Node) -> AxisSignature:
    """Return the axis signature of a node, including row gathers and sums of rows, which depend on its operands."""
    return signature_of_sums(node) if adds_rows(node) and is_zeros(node.inputs[0]) else gather_signature(node)


def gather_signature(node: Node) -> AxisSignature:
    """Return the axis signature of a node, including row gathers."""
    at = numbering(node)
    if at is None:
        return signature_of(node)
    rows, ndim = node.inputs[0].aval.shape[0], node.inputs[at].aval.ndim

    def along(x: Node) -> Labels:
        """Return the labels of a value that has one row for each row of the result, or is shared by all."""
        has_rows = x.aval.ndim == ndim and same(x.aval.shape[0], rows)
        return (ROW if has_rows else None, *[None] * (x.aval.ndim - 1))[: x.aval.ndim]

    wide = (ROW, *[None] * (node.inputs[0].aval.ndim - 1))
    inputs = (wide, *map(along, node.inputs[1:]))
    if node.op is GET:
        return AxisSignature(inputs, along(node))
    return AxisSignature(inputs, wide) if node.inputs[1].aval.ndim <= ndim else signature_of(node)


def adds_to_rows(node: Node) -> bool:
    """Whether rows are added to those of a table, by an array of indices."""
    if node.op is not ADD_AT or len(node.inputs) != 3 or taken_axis(dict(node.params)["key"]) != 0:
        return False
    return node.inputs[2].aval.ndim > 0 and node.aval.dtype.kind != "b"


def adds_rows(node: Node) -> bool:
    """Whether rows are added to those of a table small enough for each part of a loop to have its own."""
    if not adds_to_rows(node):
        return False
    table, _, index = node.inputs
    added = likely(product(index.aval.shape)) * rows_scale(index.aval.shape[0])
    return SMALLER * likely_rows(table.aval.shape[0]) <= added


def signature_of_sums(node: Node) -> AxisSignature:
    """Return the signature of rows added to zeros: a partial sum along the added rows."""
    signature, (table, value, index) = signature_of(node), node.inputs
    of_table, of_value, of_index = signature.inputs
    if value.aval.ndim == index.aval.ndim + table.aval.ndim - 1 and same(value.aval.shape[0], index.aval.shape[0]):
        of_value = (ROW, *of_value[1:])
    return signature._replace(inputs=(of_table, of_value, (ROW, *of_index[1:])), combine=np.add)
