"""Arrays that are put together piece by piece: pieces that do not meet are assigned, and nothing is filled with zeros.

The pullback of ``x[a:b]`` adds into zeros. In a parameter vector that was cut up the pieces do not meet and leave
nothing out; those of ``x[1:]`` and ``x[:-1]`` meet nearly everywhere, and there each number is best written once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.values import is_zeros
from symgrad.core.graph import Graph, Node, Op
from symgrad.core.sizes import Dim, Shape
from symgrad.frontend.variable import Variable
from symgrad.ops.create import EMPTY
from symgrad.ops.index import ADD_AT, SET
from symgrad.ops.index_expressions import EVERYTHING, Slice
from symgrad.ops.spellings import is_small
from symgrad.products.slices import along
from symgrad.rewrite.rules import procedure

MOST = 8  # segments that an array is cut into
MANY = 1 << 12  # numbers from which on an array may be put together in blocks of rows, which need the pieces whole
LONGEST = 256  # assignments to one array that are looked at together

Box = tuple[range, ...]


class Piece(NamedTuple):
    """What is put where: under a key with whose None an axis of the value has no place in the array."""

    box: Box
    op: Op
    value: Node
    key: tuple[Any, ...]


@procedure(ADD_AT, SET, changes_nan=True, exact=True)
def assign_pieces(graph: Graph, node: Node) -> Node | None:
    """Pieces that do not meet: assigned, into an array that nothing else was written to if they are all of it."""
    chain = _chain(node)
    if chain is None or not is_zeros(chain.array):
        return None
    pieces = chain.pieces
    *earlier, last = pieces
    if not all(_apart(last.box, piece.box) for piece in earlier):
        return None
    if last.op is ADD_AT:
        return graph.add(SET, node.inputs, node.params)
    if sum(map(_volume, pieces)) != math.prod(chain.shape) or not _disjoint(pieces):
        return None
    return _assembled(graph, node, sorted(pieces, key=lambda piece: [axis[0] for axis in piece.box]))


@procedure(ADD_AT, changes_nan=True)
def write_early(graph: Graph, node: Node) -> Node | None:
    """The same as `written_once` where that does not wait for the blocks."""
    return None if _is_many(node) else written_once(graph, node)


def waits(node: Node) -> bool:
    """Whether a value is left to `written_once` after it was not put together in blocks."""
    return node.op is ADD_AT and _is_many(node) and _segments(node) is not None


def _is_many(node: Node) -> bool:
    shape = _fixed(node.aval.shape)
    return shape is not None and math.prod(shape) >= MANY


def written_once(graph: Graph, node: Node) -> Node | None:
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
    return _assembled(graph, node, segments)


def _segments(node: Node) -> tuple[list[Piece], int, list[int]] | None:
    """Pieces that meet, along which axis, and where they begin and end; None where that is not known, or too many."""
    chain = _chain(node)
    if chain is None or node.op is not ADD_AT or is_small(node) or not node.aval.shape:
        return None
    pieces = chain.pieces
    axis = _cut_axis(pieces, chain.shape)
    if axis is None or not _disjoint(pieces[:-1]) or any(not _fills(piece) for piece in pieces):
        return None
    places = [piece.box[axis] for piece in pieces]
    edges = sorted({0, chain.shape[axis], *(edge for axis in places for edge in (axis.start, axis.stop))})
    return (pieces, axis, edges) if len(edges) <= MOST + 1 else None


# ---- what the chain of assignments is


class Chain(NamedTuple):
    """A series of assignments: the new array under them, and what they put, in order."""

    array: Node
    shape: tuple[int, ...]
    pieces: list[Piece]


def _fixed(shape: Shape) -> tuple[int, ...] | None:
    """A shape without symbols."""
    sizes = tuple(n for n in shape if isinstance(n, int))
    return sizes if len(sizes) == len(shape) else None


def _chain(node: Node) -> Chain | None:
    """What a value is put together from; None where that is not known."""
    pieces: list[Piece] = []
    shape = _fixed(node.aval.shape)
    if shape is None:
        return None
    while node.op in (ADD_AT, SET):
        if len(node.inputs) != 2 or len(pieces) == LONGEST:
            return None
        key = dict(node.params)["key"]
        box = _box(key, shape)
        if box is None:
            return None
        pieces.append(Piece(box, node.op, node.inputs[1], key))
        node = node.inputs[0]
    return Chain(node, shape, pieces[::-1]) if is_zeros(node) or node.op is EMPTY else None


@lru_cache(4 * LONGEST)
def _box(key: tuple[Any, ...], shape: tuple[int, ...]) -> Box | None:
    items = [item for item in key if item is not None]
    if len(items) != len(shape):
        return None
    box = []
    for item, n in zip(items, shape, strict=True):
        if isinstance(item, Slice) and not any(isinstance(x, Dim) for x in item):
            places = range(*slice(*item).indices(n))
            box.append(places if places.step > 0 else places[::-1])
        elif isinstance(item, int):
            box.append(range(item % n, item % n + 1))
        else:
            return None
    return tuple(box) if all(box) else None


def _apart(a: Box, b: Box) -> bool:
    return any(
        x[-1] < y[0] or y[-1] < x[0] or (x.step == y.step and (x[0] - y[0]) % x.step != 0)
        for x, y in zip(a, b, strict=True)
    )


def _disjoint(pieces: Sequence[Piece]) -> bool:
    return all(piece.op is SET for piece in pieces) and all(
        _apart(a.box, b.box) for a, b in itertools.combinations(pieces, 2)
    )


def _volume(piece: Piece) -> int:
    return math.prod(map(len, piece.box))


# ---- cutting


def _cut_axis(pieces: Sequence[Piece], shape: Sequence[int]) -> int | None:
    """The one axis along which pieces are parts of the whole, without gaps."""
    cut = {i for piece in pieces for i, n in enumerate(shape) if len(piece.box[i]) != n}
    plain = all(axis.step == 1 for piece in pieces for axis in piece.box)
    return cut.pop() if len(cut) == 1 and plain else None


def _fills(piece: Piece) -> bool:
    """Whether the value has a number for each place, in its order."""
    if any(item is None or (isinstance(item, Slice) and item.step not in (None, 1)) for item in piece.key):
        return False
    shape = tuple(len(places) for item, places in zip(piece.key, piece.box, strict=True) if isinstance(item, Slice))
    return piece.value.aval.shape == shape


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
    item = _item(start - places.start, stop - places.start, len(places))
    return along(value, before, item)


def _assembled(graph: Graph, node: Node, pieces: Sequence[Piece]) -> Node:
    params = (("dtype", np.dtype(node.aval.dtype)), ("shape", node.aval.shape), ("tag", node.id))
    y = graph.add(EMPTY, (), params)
    for piece in pieces:
        y = graph.add(SET, (y, piece.value), (("key", piece.key),))
    return y
