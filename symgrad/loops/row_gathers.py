"""Indices that take one place of each row, such as ``scores[np.arange(n), labels]``: they flow along the rows."""

from __future__ import annotations

from symgrad.analysis.values import is_range
from symgrad.core.axes import AxisSignature, signature_of
from symgrad.core.graph import Node, per_node
from symgrad.core.sizes import same
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import Slot

ROW = "row"


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
    """How axes flow, which for an index into each row the operator alone cannot tell."""
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
