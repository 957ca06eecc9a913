"""Arrays put together from pieces that meet, as those of ``x[1:]`` and ``x[:-1]``: each number is written once.

Pieces that do not meet are assigned before: `rewrite.pieces`.
"""

from __future__ import annotations

import itertools
from functools import reduce
from typing import Any

from symgrad.analysis.values import is_zeros
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import product
from symgrad.frontend.variable import Variable
from symgrad.ops.create import EMPTY
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import EVERYTHING, Slice, composed
from symgrad.ops.spellings import is_small
from symgrad.products.slices import along
from symgrad.rewrite.pieces import Piece, assembled, cut_axis, disjoint, ends, fills, pieces_of
from symgrad.rewrite.rules import procedure

MOST = 8  # segments that an array is cut into
MANY = 1 << 12  # numbers from which on an array may be put together in blocks of rows, which need the pieces whole


def waits(node: Node) -> bool:
    """Whether a large value was left by the loops, and `write_once` puts it together."""
    size = product(node.aval.shape) if node.op is ADD_AT else 0
    return isinstance(size, int) and size >= MANY and _segments(node) is not None


@procedure(ADD_AT, changes_nan=True)
def write_once(graph: Graph, node: Node) -> Node | None:
    """Pieces of a large array that meet: cut where they begin and end, so that each number is written once."""
    found = _segments(node)
    if found is None:
        return None
    pieces, axis, edges = found
    segments = []
    for start, stop in itertools.pairwise(edges):
        parts = [_part(graph, piece, axis, start, stop) for piece in pieces if start in piece.box[axis]]
        value = reduce(lambda x, y: x + y, parts).node if parts else graph.constant(0.0)
        key = (*(EVERYTHING,) * axis, _item(start, stop, edges[-1]), *(EVERYTHING,) * (node.aval.ndim - axis - 1))
        segments.append(Piece((), SET, value, key))
    return assembled(graph, node, segments)


def _segments(node: Node) -> tuple[list[Piece], int, list[int]] | None:
    """Pieces that meet, along which axis, and where they begin and end; None where that is not known, or too many."""
    shape = node.aval.shape
    if node.op is not ADD_AT or not shape or is_small(node) or not isinstance(product(shape), int):
        return None
    pieces = pieces_of(node, lambda x: is_zeros(x) or x.op is EMPTY)
    axis = None if pieces is None else cut_axis(pieces, shape)
    if pieces is None or axis is None or not disjoint(pieces[:-1]) or not all(map(fills, pieces)):
        return None
    places = {0, shape[axis], *(edge for piece in pieces for edge in ends(piece.box[axis]))}
    edges = sorted(edge for edge in places if isinstance(edge, int))
    return (pieces, axis, edges) if len(edges) <= MOST + 1 else None


def _item(start: int, stop: int, size: int) -> Any:
    """A slice, or a single place, as it reads best."""
    if stop == start + 1:
        return -1 if stop == size and size > 1 else start
    return Slice(start or None, None if stop == size else -1 if stop == size - 1 else stop, None)


def _part(graph: Graph, piece: Piece, axis: int, start: int, stop: int) -> Variable:
    """The part of a value that belongs to a segment."""
    value, places = Variable(graph, piece.value), piece.box[axis]
    if not isinstance(piece.key[axis], Slice) or (len(places) == stop - start > 1):
        return value
    before = sum(isinstance(item, Slice) for item in piece.key[:axis])
    return _read(value, before, start - places.start, stop - places.start, len(places))


def _read(value: Variable, axis: int, start: int, stop: int, size: int) -> Variable:
    """Places of a value along an axis; of a slice they are read from what it is a slice of."""
    x = value.node
    key = dict(x.params)["key"] if x.op is GET and len(x.inputs) == 1 else ()
    kept = [i for i, item in enumerate(key) if isinstance(item, Slice)]
    if kept and None not in key:
        part = start if stop == start + 1 else Slice(start or None, None if stop == size else stop, None)
        item = composed(key[kept[axis]], part)
        if item is not None:
            whole = (*key[: kept[axis]], item, *key[kept[axis] + 1 :])
            return Variable(value.graph, value.graph.add(GET, x.inputs, (("key", whole),)))
    return along(value, axis, _item(start, stop, size))
