"""Index arrays along the rows: what takes one place of each row, ``scores[np.arange(n), labels]``, and sums of rows."""

from __future__ import annotations

import numpy as np

from symgrad.analysis.cost import likely, rows_scale
from symgrad.analysis.values import is_range, is_zeros
from symgrad.core.axes import AxisSignature, signature_of
from symgrad.core.graph import Node, per_node
from symgrad.core.shapes import product
from symgrad.core.sizes import same
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import Slot, taken_axis

ROW = "row"
NARROW = 8  # fewer numbers in a row are added one column at a time
SMALLER = 64  # times that a table has fewer rows than are added, if each part of a loop may have one of its own


def numbering(node: Node) -> int | None:
    """Which input of a node is the index that goes through the rows one by one, None if none does."""
    if node.op not in (GET, SET, ADD_AT):
        return None
    key, (x, *_) = dict(node.params)["key"], node.inputs
    first = 1 if node.op is GET else 2
    picks = node.inputs[first:]
    if len(picks) < 2 or len(key) != x.aval.ndim or not all(isinstance(item, Slot) for item in key):
        return None
    rows = x.aval.shape[0]
    if not all(a.aval.ndim == 1 and same(a.aval.shape[0], rows) for a in picks):
        return None
    return first + key[0].input if is_range(picks[key[0].input], rows) else None


@per_node  # which axes there are asks for it, and then every way to divide the program
def row_signature(node: Node) -> AxisSignature:
    """How axes flow, which for an index into each row, or for sums of rows, the operator alone cannot tell."""
    if adds_rows(node) and is_zeros(node.inputs[0]):
        return _signature_of_sums(node)
    if numbering(node) is None:
        return signature_of(node)
    x, rows = node.inputs[0], node.inputs[0].aval.shape[0]
    wide = (ROW, *[None] * (x.aval.ndim - 1))
    if node.op is GET:
        return AxisSignature((wide, *[(ROW,)] * (len(node.inputs) - 1)), (ROW,))
    content = node.inputs[1].aval
    if content.ndim > 1 or (content.ndim and not same(content.shape[0], rows)):
        return signature_of(node)
    return AxisSignature((wide, (ROW,) * content.ndim, *[(ROW,)] * (len(node.inputs) - 2)), wide)


def adds_rows(node: Node) -> bool:
    """Whether rows are added to those of a table, so small that each part of a loop may have one of its own."""
    if node.op is not ADD_AT or len(node.inputs) != 3 or taken_axis(dict(node.params)["key"]) != 0:
        return False
    table, _, index = node.inputs
    if index.aval.ndim == 0 or node.aval.dtype.kind == "b":
        return False
    kept = likely(table.aval.shape[0]) * rows_scale(table.aval.shape[0])
    return SMALLER * kept <= likely(product(index.aval.shape)) * rows_scale(index.aval.shape[0])


def _signature_of_sums(node: Node) -> AxisSignature:
    """Along the rows that are added sums are made of partial sums."""
    signature, (table, value, index) = signature_of(node), node.inputs
    of_table, of_value, of_index = signature.inputs
    if value.aval.ndim == index.aval.ndim + table.aval.ndim - 1 and same(value.aval.shape[0], index.aval.shape[0]):
        of_value = (ROW, *of_value[1:])
    return signature._replace(inputs=(of_table, of_value, (ROW, *of_index[1:])), combine=np.add)
